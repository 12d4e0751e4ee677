"""The true clusters of liquidations, premiums and surfaces of the sample in a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.sample import funding, liquidations
from derivdata.sources.sample.grid import DAY_US, HOUR_US, START_DAY, STEP_US, instants
from derivdata.sources.sample.options import bates
from derivdata.sources.sample.options.chains import markets
from derivdata.sources.sample.options.forward_curves import forwards
from derivdata.sources.sample.options.listings import EXPIRY_US, listing, session
from derivdata.sources.sample.universe import exchange_names, pairs, select, symbols
from derivdata.support.arrays import Ints

Names = Sequence[str] | None


def clusters(first: int, last: int, names: Names, venues: Names) -> pd.DataFrame:
    """Return the clusters that begin in ``[first, last)`` [µs]; with their orders on the chosen venues."""
    chosen = select(names, venues)
    parts = [_started(d, chosen.row) for d in range(first // DAY_US, (last - 1) // DAY_US + 1)]
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


def _started(day: int, rows: Ints) -> pd.DataFrame:
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


def premium(first: int, last: int, names: Names, venues: Names) -> pd.DataFrame:
    """Return the premium of the mark over the index at each five-minute step of ``[first, last)`` [µs]."""
    every, parts = select(names, venues), []
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


def surface(first: int, last: int, names: Names, venues: Names) -> pd.DataFrame:
    """Return the parameters of every expiry that is open at each full hour of ``[first, last)`` [µs]."""
    return _hourly(_expiries, ["expiry"], first, last, names, venues)


def volatilities(first: int, last: int, names: Names, venues: Names) -> pd.DataFrame:
    """Return the unrounded volatility of every strike at each full hour of ``[first, last)`` [µs]."""
    return _hourly(_strikes, ["expiry", "strike"], first, last, names, venues)


def _hourly(
    read: Callable[[str, str, int, Ints], pd.DataFrame],
    by: list[str],
    first: int,
    last: int,
    names: Names,
    venues: Names,
) -> pd.DataFrame:
    """Return what `read` gives of every market, trading day and its hours, in order of time and then `by`."""
    hours = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    days = session(hours)
    parts = [
        read(symbol, exchange, day, hours[days == day])
        for symbol, exchange in markets(names, venues)
        for day in np.unique(days).tolist()
    ]
    none = read("BTC", "deribit", START_DAY, np.array([START_DAY * DAY_US])).iloc[:0]
    return pd.concat([none, *parts]).sort_values(["symbol", "exchange", "time", *by], ignore_index=True)


def _expiries(symbol: str, exchange: str, trading_day: int, hours: Ints) -> pd.DataFrame:
    expiry = listing(symbol, exchange, trading_day).expiry
    curve = forwards(symbol, exchange, expiry, hours)
    parameters = bates.parameters(symbol, exchange, curve.year_fraction, hours)
    shape = curve.year_fraction.shape
    columns: dict[str, Any] = {"time": hours, "expiry": expiry[:, None] * DAY_US + EXPIRY_US}
    columns |= {"year_fraction": curve.year_fraction, **parameters}
    columns |= {"underlying_price": curve.underlying_price, "spot": curve.spot}
    return _frame(symbol, exchange, {name: np.broadcast_to(part, shape) for name, part in columns.items()})


def _strikes(symbol: str, exchange: str, trading_day: int, hours: Ints) -> pd.DataFrame:
    listed = listing(symbol, exchange, trading_day)
    strike, place = listed.strike[listed.call], listed.place[listed.call]
    curve = forwards(symbol, exchange, listed.expiry, hours)
    years, forward = curve.year_fraction, curve.underlying_price[place]
    k = np.log(strike[:, None] / forward)
    w = bates.total_variance(symbol, exchange, years, hours, k, place)
    columns = {
        "time": hours,
        "expiry": listed.expiry[place][:, None] * DAY_US + EXPIRY_US,
        "strike": strike[:, None],
        "year_fraction": years[place],
        "log_moneyness": k,
        "iv": np.sqrt(w / years[place]),
        "underlying_price": forward,
    }
    return _frame(symbol, exchange, {name: np.broadcast_to(part, k.shape) for name, part in columns.items()})


def _frame(symbol: str, exchange: str, columns: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
    table["time"], table["expiry"] = instants(table["time"]), instants(table["expiry"])
    table.insert(0, "symbol", symbol)
    table.insert(1, "exchange", exchange)
    return table
