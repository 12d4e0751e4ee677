"""Tables of events and of whole chains: liquidation fills and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.sample import liquidations, options
from derivdata.sample.grid import DAY_US, HOUR_US, Ints, instants
from derivdata.sample.histories import text
from derivdata.sample.universe import exchange_names, pairs, select, symbols

__all__ = ["chains", "fills", "newest_chains"]

Names = Sequence[str] | None


def fills(first: int, last: int, names: Names, exchanges: Names) -> dict[str, Any]:
    """Return the columns of the liquidation fills with ``first <= time < last`` [µs]."""
    days = range(first // DAY_US - 1, (last - 1) // DAY_US + 1)
    parts = [_fills_begun(d, first, last, select(names, exchanges).row) for d in days]
    columns = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    order = np.lexsort((columns["place"], columns["number"], columns["exchange"], columns["time"]))
    columns = {name: values[order] for name, values in columns.items()}
    number = [f"{n:016x}" for n in columns["number"].tolist()]
    return {
        "exchange": text(columns["exchange"], exchange_names()),
        "order_id": number,
        "fill_id": [f"{n}-{k}" for n, k in zip(number, columns["place"].tolist(), strict=True)],
        "time": instants(columns["time"]),
        "symbol": text(columns["symbol"], symbols().name),
        "side": text(np.where(columns["long"], 0, 1), ("long", "short")),
        "status": text(np.zeros(len(number), dtype=np.int8), ("filled",)),
        **{n: columns[n] for n in _FILL_NUMBERS},
    }


_FILL_NUMBERS = ("order_price_usd", "fill_price_usd", "quantity", "filled_quantity", "value_usd")


def chains(
    surface: options.SurfaceModel, first: int, last: int, names: Names, exchanges: Names
) -> dict[str, Any]:
    """Return the columns of the hourly chains with ``first <= time < last`` [µs]."""
    hours = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    return _chains(surface, hours, names, exchanges)


def newest_chains(
    surface: options.SurfaceModel, first: int, last: int, names: Names, exchanges: Names
) -> dict[str, Any]:
    """Return the columns of the newest chain with ``first <= time <= last`` [µs] of each symbol and venue."""
    hour = last // HOUR_US * HOUR_US
    return _chains(surface, np.array([hour] if hour >= first else [], dtype=np.int64), names, exchanges)


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


def _chains(surface: options.SurfaceModel, hours: Ints, names: Names, exchanges: Names) -> dict[str, Any]:
    days = options.session(hours)
    by_day = [
        options.chain(surface, symbol, exchange, day, hours[days == day])
        for symbol, exchange in options.markets(names, exchanges)
        for day in np.unique(days).tolist()
    ]
    if not by_day:
        return {}
    # A venue that is paid in the coin has no column of prices in USD, and the other way round.
    names_of_columns = dict.fromkeys(name for part in by_day for name in part)
    columns = {
        name: np.concatenate([part.get(name, np.full(len(part["time"]), np.nan)) for part in by_day])
        for name in names_of_columns
    }
    return columns | {
        "symbol": text(columns["symbol"], options.SYMBOLS),
        "exchange": text(columns["exchange"], options.EXCHANGES),
        "side": text(columns["side"], ("call", "put")),
        "time": instants(columns["time"]),
        "expiry": instants(columns["expiry"]),
    }
