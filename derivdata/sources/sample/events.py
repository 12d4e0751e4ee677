"""Tables of events and of whole chains: liquidation fills and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.sources.sample import liquidations, options
from derivdata.sources.sample.grid import DAY_US, HOUR_US, Ints, instants
from derivdata.sources.sample.histories import text
from derivdata.sources.sample.universe import exchange_names, pairs, select, symbols

__all__ = ["chains", "fills", "newest_chains"]

Names = Sequence[str] | None


def fills(first: int, last: int, names: Names, venues: Names, columns: Names = None) -> dict[str, Any]:
    """Return the columns of the liquidation fills with ``first <= time < last`` [µs], or some of them."""
    days = range(first // DAY_US - 1, (last - 1) // DAY_US + 1)
    parts = [_fills_begun(d, first, last, select(names, venues).row) for d in days]
    columns_of = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    if columns is None:
        order = np.lexsort(
            (columns_of["place"], columns_of["number"], columns_of["exchange"], columns_of["time"])
        )
        columns_of = {name: values[order] for name, values in columns_of.items()}
    digits = columns_of["number"].astype(">u8").tobytes().hex()
    number = [digits[start : start + 16] for start in range(0, len(digits), 16)]
    places = columns_of["place"].tolist() if columns is None or "fill_id" in columns else []
    return {
        "exchange": text(columns_of["exchange"], exchange_names()),
        "order_id": number,
        "fill_id": [f"{n}-{k}" for n, k in zip(number, places, strict=False)],
        "time": instants(columns_of["time"]),
        "symbol": text(columns_of["symbol"], symbols().name),
        "side": text(np.where(columns_of["long"], 0, 1), ("long", "short")),
        "status": text(np.zeros(len(number), dtype=np.int8), ("filled",)),
        **{n: columns_of[n] for n in _FILL_NUMBERS},
    }


_FILL_NUMBERS = ("order_price_usd", "fill_price_usd", "quantity", "filled_quantity", "value_usd")


def chains(
    surface: options.SurfaceModel,
    first: int,
    last: int,
    names: Names,
    venues: Names,
    columns: Names = None,
) -> dict[str, Any]:
    """Return the columns of the hourly chains with ``first <= time < last`` [µs], or some of them."""
    hours = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    return _chains(surface, hours, names, venues, columns)


def newest_chains(
    surface: options.SurfaceModel, first: int, last: int, names: Names, venues: Names
) -> dict[str, Any]:
    """Return the columns of the newest chain with ``first <= time <= last`` [µs] of each symbol and venue."""
    hour = last // HOUR_US * HOUR_US
    return _chains(surface, np.array([hour] if hour >= first else [], dtype=np.int64), names, venues)


def _fills_begun(day: int, first: int, last: int, rows: Ints) -> dict[str, Any]:
    """Return the fills within a window of the clusters that began on a day."""
    orders = liquidations.orders(day)
    fills = liquidations.fills(orders)
    pair = orders.pair[fills.order]
    inside = (fills.time >= first) & (fills.time < last) & np.isin(pair, rows)
    order, pair = fills.order[inside], pair[inside]
    price, quantity = fills.price[inside], fills.quantity[inside]
    return {
        "number": orders.number[order],
        "place": fills.place[inside],
        "time": fills.time[inside],
        "exchange": pairs().exchange[pair],
        "symbol": pairs().symbol[pair],
        "long": orders.long[order],
        "order_price_usd": orders.price[order],
        "fill_price_usd": price,
        "quantity": orders.quantity[order],
        "filled_quantity": quantity,
        "value_usd": np.round(price * quantity, 6),
    }


def _chains(
    surface: options.SurfaceModel, hours: Ints, names: Names, venues: Names, columns: Names = None
) -> dict[str, Any]:
    days = options.session(hours)
    by_day = [
        options.chain(surface, symbol, exchange, day, hours[days == day], columns)
        for symbol, exchange in options.markets(names, venues)
        for day in np.unique(days).tolist()
    ]
    if not by_day:
        return {}
    # A venue that is paid in the coin has no column of prices in USD, and the other way round.
    names_of_columns = dict.fromkeys(name for part in by_day for name in part)
    values = {
        name: np.concatenate([part.get(name, np.full(len(part["time"]), np.nan)) for part in by_day])
        for name in names_of_columns
    }
    return values | {
        "symbol": text(values["symbol"], options.SYMBOLS),
        "exchange": text(values["exchange"], options.EXCHANGES),
        "side": text(values["side"], ("call", "put")),
        "time": instants(values["time"]),
        "expiry": instants(values["expiry"]),
    }
