"""Contracts as venues list them, and the hourly prices of dated futures.

Perpetuals trade from their first to their last day. Futures are priced at the forwards of the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.sample.noise import DAY_US, HOUR_US, START_DAY, instants
from derivdata.sources.sample.options.listings import (
    EXPIRY_US,
    Expiry,
    Forwards,
    dated_name,
    expiries,
    forwards,
    session,
)
from derivdata.sources.sample.universe import FOREVER, exchange_names, select, symbols, text
from derivdata.support.arrays import Floats, Ints
from derivdata.tables import base

SYMBOLS = ("BTC", "ETH")
_NAMES = {
    "binance": "{symbol}USDT_{year}{number:02}{day:02}",
    "bitget": "{symbol}USD_{year}{number:02}{day:02}",
    "bybit": "{symbol}USDT-{day:02}{month}{year}",
    "deribit": "{symbol}-{day}{month}{year}",
    "kraken": "FI_{symbol}USD_{year}{number:02}{day:02}",
    "okx": "{symbol}-USD-{year}{number:02}{day:02}",
}
EXCHANGES = tuple(sorted(_NAMES))
_KINDS = {
    **dict.fromkeys(("binance", "bitget"), ("quarterly",)),
    "kraken": ("monthly", "quarterly"),
    **dict.fromkeys(("bybit", "deribit", "okx"), ("weekly", "monthly", "quarterly")),
}
_WEIGHT = {"binance": 0.4, "bitget": 0.05, "bybit": 0.2, "deribit": 1.0, "kraken": 0.1, "okx": 0.5}
OI_SHARE = 0.02
OI_DECAY = 2.0
TURNOVER = 0.5
"""Part of the perpetuals' open interest at the start, decay a year, volume of a day over open interest."""


def markets(names: Sequence[str] | None, venues: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return symbol and venue of the futures that are requested; None is all of them."""
    return [
        (symbol, exchange)
        for symbol in SYMBOLS
        for exchange in EXCHANGES
        if (names is None or symbol in names) and (venues is None or exchange in venues)
    ]


def listing(exchange: str, day: int) -> tuple[Expiry, ...]:
    """Return the expiries that a venue lists during a trading day."""
    return expiries(day, _KINDS[exchange])


def name(symbol: str, exchange: str, expiry: int) -> str:
    """Return the venue's name of the contract that expires on a day since 1970."""
    return dated_name(_NAMES[exchange], symbol, expiry)


def sessions(
    hours: Ints, names: Sequence[str] | None, venues: Sequence[str] | None
) -> Iterator[tuple[str, str, Ints, Ints, Forwards]]:
    """Give symbol, venue, expiries [days], instants [µs] and forwards of each trading day of some hours."""
    days = session(hours)
    for symbol, exchange in markets(names, venues):
        for day in np.unique(days).tolist():
            expiry = np.array([e.day for e in listing(exchange, day)], dtype=np.int64)
            time = hours[days == day]
            yield symbol, exchange, expiry, time, forwards(symbol, exchange, expiry, time)


def rows(first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None) -> dict[str, Any]:
    """Return the columns of the futures with ``first <= time < last`` [µs]."""
    hours = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    parts: list[dict[str, Any]] = []
    for symbol, exchange, expiry, time, curve in sessions(hours, names, venues):
        shape = curve.year_fraction.shape
        named = [name(symbol, exchange, day) for day in expiry.tolist()]
        oi = np.round(open_interest(symbol, exchange, curve), 2)
        columns: dict[str, Any] = {
            "symbol": SYMBOLS.index(symbol),
            "exchange": EXCHANGES.index(exchange),
            "time": time,
            "instrument_name": np.array(named, dtype=object)[:, None],
            "expiry": expiry[:, None] * DAY_US + EXPIRY_US,
            "price_usd": np.round(curve.underlying_price, 6),
            "index_price_usd": np.round(curve.spot, 6),
            "oi_usd": oi,
            "volume_24h_usd": np.round(TURNOVER * oi, 2),
        }
        parts.append({n: np.broadcast_to(values, shape).ravel() for n, values in columns.items()})
    if not parts:
        return {}
    joined = {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}
    return joined | {
        "symbol": text(joined["symbol"], SYMBOLS),
        "exchange": text(joined["exchange"], EXCHANGES),
        "time": instants(joined["time"]),
        "expiry": instants(joined["expiry"]),
        "resolution": text(np.zeros(len(joined["time"]), dtype=np.int8), ("1h",)),
    }


def open_interest(symbol: str, exchange: str, curve: Forwards) -> Floats:
    """Return open interest [USD], unrounded, over expiries and instants."""
    s = symbols()
    own = symbols().name.index(symbol)
    level = s.oi[own] * OI_SHARE * _WEIGHT[exchange]
    return np.asarray(level * np.exp(-OI_DECAY * curve.year_fraction) * curve.spot / s.price[own])


def listed(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns of contracts listed or delisted at ``first <= time < last`` [µs]."""
    told = [*_perpetuals(names, venues), *_futures(first, last, names, venues)]
    columns = ["symbol", "exchange", "instrument_name", "since", "until", "perpetual"]
    frame = pd.DataFrame(told, columns=columns)
    frame = pd.concat([frame.assign(time=frame["since"]), frame.assign(time=frame["until"])])
    frame = frame[(frame["time"] >= first) & (frame["time"] < last)].reset_index(drop=True)
    if frame.empty:
        return {}
    perpetual = frame["perpetual"]
    gone = frame["time"] == frame["until"]
    until = pd.Series(instants(frame["until"].where(frame["until"] < FOREVER * DAY_US, 0)))
    return dict(frame[columns[:3]]) | {
        "time": instants(frame["time"]),
        "quote": np.where(perpetual, "USDT", "USD"),
        "multiplier": [float(base(symbol)[1]) for symbol in frame["symbol"]],
        "is_inverse": np.zeros(len(frame), dtype=bool),
        "is_perpetual": perpetual,
        "is_active": ~gone,
        "expiry": until.where(~perpetual),
        "listed": instants(frame["since"]),
        "delisted": until.where(perpetual & gone),
    }


def _perpetuals(names: Sequence[str] | None, venues: Sequence[str] | None) -> Iterator[tuple[Any, ...]]:
    chosen = select(names, venues)
    for own, venue, since, until in zip(
        chosen.symbol, chosen.exchange, chosen.since.tolist(), chosen.until.tolist(), strict=True
    ):
        symbol = symbols().name[own]
        since = max(since, START_DAY)
        if since < until:
            yield symbol, exchange_names()[venue], f"{symbol}USDT", since * DAY_US, until * DAY_US, True


def _futures(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> Iterator[tuple[Any, ...]]:
    for symbol, exchange in markets(names, venues):
        days = range(first // DAY_US - 1, last // DAY_US + 1)
        for expiry in {e for day in days for e in listing(exchange, day)}:
            ends = (max(expiry.listed, START_DAY) * DAY_US + EXPIRY_US, expiry.day * DAY_US + EXPIRY_US)
            yield symbol, exchange, name(symbol, exchange, expiry.day), *ends, False
