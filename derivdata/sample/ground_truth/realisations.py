"""The true clusters of liquidations, premiums and surfaces of the sample in a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from derivdata.sample import funding, liquidations, options
from derivdata.sample.grid import DAY_US, HOUR_US, START_DAY, STEP_US, Ints, instants
from derivdata.sample.universe import exchange_names, pairs, select, symbols

__all__ = ["clusters", "premium", "surface"]

Names = Sequence[str] | None


def clusters(first: int, last: int, names: Names, exchanges: Names) -> pd.DataFrame:
    """Return the clusters that begin in ``[first, last)`` [µs]; with their orders on the chosen venues."""
    chosen = select(names, exchanges)
    parts = [_begun(d, chosen.row) for d in range(first // DAY_US, (last - 1) // DAY_US + 1)]
    table = pd.concat(parts)
    inside = (table["time"] >= first) & (table["time"] < last)
    table = table[inside].sort_values(["own", "time", "cluster"], ignore_index=True)
    return pd.DataFrame(
        {
            "symbol": np.array(symbols().name, dtype=object)[table["own"]],
            "time": instants(table["time"]),
            "end": instants(table["end"]),
            "cluster": [f"{n:016x}" for n in table["cluster"]],
            "order_count": table["order_count"],
            "value_usd": table["value_usd"],
        }
    )


def _begun(day: int, rows: Ints) -> pd.DataFrame:
    orders = liquidations.orders(day)
    frame = pd.DataFrame(
        {
            "cluster": orders.cluster,
            "own": pairs().symbol[orders.pair],
            "time": orders.time,
            "value_usd": orders.price * orders.quantity,
        }
    )
    grouped = frame[np.isin(orders.pair, rows)].groupby("cluster", as_index=False)
    return grouped.agg(
        own=("own", "first"),
        time=("time", "min"),
        end=("time", "max"),
        order_count=("time", "size"),
        value_usd=("value_usd", "sum"),
    )


def premium(first: int, last: int, names: Names, exchanges: Names) -> pd.DataFrame:
    """Return the premium of the mark over the index at each five-minute step of ``[first, last)`` [µs]."""
    every, parts = select(names, exchanges), []
    for day in range(first // DAY_US, (last - 1) // DAY_US + 1):
        chosen = every.trading(day, day + 1)
        value = funding.premium(chosen, day, 1)
        row, step = np.indices(value.shape).reshape(2, -1)
        time = day * DAY_US + step * STEP_US
        table = pd.DataFrame(
            {
                "symbol": np.array(symbols().name, dtype=object)[chosen.symbol[row]],
                "exchange": np.array(exchange_names(), dtype=object)[chosen.exchange[row]],
                "time": instants(time),
                "premium_bps": value.ravel(),
            }
        )
        parts.append(table[(time >= first) & (time < last)])
    return pd.concat(parts).sort_values(["symbol", "exchange", "time"], ignore_index=True)


def surface(first: int, last: int, names: Names, exchanges: Names) -> pd.DataFrame:
    """Return slices of every expiry that is open at each full hour of ``[first, last)`` [µs]."""
    hours = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    days = options.session(hours)
    parts = [
        _slices(symbol, exchange, day, hours[days == day])
        for symbol, exchange in options.markets(names, exchanges)
        for day in np.unique(days).tolist()
    ]
    none = _slices("BTC", "deribit", START_DAY, np.array([START_DAY * DAY_US])).iloc[:0]
    table = pd.concat([none, *parts])
    return table.sort_values(["symbol", "exchange", "time", "expiry"], ignore_index=True)


def _slices(symbol: str, exchange: str, trading_day: int, hours: Ints) -> pd.DataFrame:
    expiry = options.listing(symbol, exchange, trading_day).expiry
    slices = options.slices(symbol, exchange, expiry, hours)
    shape = slices.theta.shape
    columns = {
        "time": np.broadcast_to(hours, shape),
        "expiry": np.broadcast_to(expiry[:, None] * DAY_US + options.EXPIRY_US, shape),
        **{name: np.broadcast_to(values, shape) for name, values in slices._asdict().items()},
    }
    table = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
    table["time"], table["expiry"] = instants(table["time"]), instants(table["expiry"])
    table.insert(0, "symbol", symbol)
    table.insert(1, "exchange", exchange)
    return table
