"""Tables of events and of whole chains: liquidation fills and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.api import OPTIONS_MATRIX
from derivdata.sample import liquidations, options
from derivdata.sample.grid import DAY_US, HOUR_US, Ints, instants
from derivdata.sample.histories import text
from derivdata.sample.universe import exchange_names, select, symbols

__all__ = ["chains", "fills", "newest_chains", "option_exchanges", "option_symbols"]

Names = Sequence[str] | None


def fills(first: int, last: int, names: Names, exchanges: Names) -> dict[str, Any]:
    """Columns of the liquidation fills with ``first <= time < last`` [µs]."""
    parts = [_fills_begun(d, first, last, names, exchanges) for d in range(_day_before(first), _day(last))]
    found = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    order = np.lexsort((found["place"], found["number"], found["exchange"], found["time"]))
    found = {name: values[order] for name, values in found.items()}
    number = [f"{n:016x}" for n in found["number"].tolist()]
    return {
        "exchange": text(found["exchange"], exchange_names()),
        "order_id": number,
        "fill_id": [f"{n}-{k}" for n, k in zip(number, found["place"].tolist(), strict=True)],
        "time": instants(found["time"]),
        "symbol": text(found["symbol"], symbols().name),
        "side": text(found["long"].astype(np.int8) * 0 + np.where(found["long"], 0, 1), ("long", "short")),
        "status": text(np.zeros(len(number), dtype=np.int8), ("filled",)),
        **{n: found[n] for n in _FILL_NUMBERS},
    }


_FILL_NUMBERS = ("order_price_usd", "fill_price_usd", "quantity", "filled_quantity", "value_usd")


def chains(first: int, last: int, names: Names, exchanges: Names) -> dict[str, Any]:
    """Columns of the hourly chains with ``first <= time < last`` [µs]."""
    hours = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    return _chains(hours, names, exchanges)


def newest_chains(first: int, last: int, names: Names, exchanges: Names) -> dict[str, Any]:
    """Columns of the newest chain with ``first <= time <= last`` [µs] of each symbol and venue."""
    hour = last // HOUR_US * HOUR_US
    return _chains(np.array([hour] if hour >= first else [], dtype=np.int64), names, exchanges)


def option_symbols() -> tuple[str, ...]:
    """Symbols that have options, sorted."""
    return tuple(sorted(OPTIONS_MATRIX))


def option_exchanges() -> tuple[str, ...]:
    """Venues that have options, sorted."""
    return tuple(sorted({v for venues in OPTIONS_MATRIX.values() for v in venues}))


def _day(microseconds: int) -> int:
    return (microseconds - 1) // DAY_US + 1


def _day_before(microseconds: int) -> int:
    return microseconds // DAY_US - 1


def _fills_begun(day: int, first: int, last: int, names: Names, exchanges: Names) -> dict[str, Any]:
    """Fills within a window of the clusters that began on a day."""
    orders = liquidations.orders(day)
    found = liquidations.fills(orders)
    chosen = select(names, exchanges)
    pair = orders.pair[found.order]
    inside = (found.time >= first) & (found.time < last) & np.isin(pair, chosen.row)
    order, pair = found.order[inside], pair[inside]
    everything = select(None, None)
    price, quantity = found.price[inside], found.quantity[inside]
    return {
        "number": orders.number[order],
        "place": found.place[inside],
        "time": found.time[inside],
        "exchange": everything.exchange[pair],
        "symbol": everything.symbol[pair],
        "long": orders.long[order],
        "order_price_usd": orders.price[order],
        "fill_price_usd": price,
        "quantity": orders.quantity[order],
        "filled_quantity": quantity,
        "value_usd": np.round(price * quantity, 6),
    }


def _chains(hours: Ints, names: Names, exchanges: Names) -> dict[str, Any]:
    parts, symbol, exchange = [], [], []
    for s in (s for s in option_symbols() if names is None or s in names):
        for v in (v for v in sorted(OPTIONS_MATRIX[s]) if exchanges is None or v in exchanges):
            days = options.session(hours)
            for d in np.unique(days).tolist():
                parts.append(options.chain(s, v, d, hours[days == d]))
                symbol += [s] * len(parts[-1]["iv"])
                exchange += [v] * len(parts[-1]["iv"])
    if not parts:
        return {}
    found = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    side = text(np.where(found.pop("call"), 0, 1), ("call", "put"))
    time, expiry = instants(found.pop("time")), instants(found.pop("expiry"))
    return {"symbol": symbol, "exchange": exchange, "side": side, "time": time, "expiry": expiry, **found}
