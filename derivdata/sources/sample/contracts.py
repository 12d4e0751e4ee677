"""Contracts of the sample as venues list them: perpetuals from their first to their last day, and futures.

A perpetual is named as ``BTCUSDT``. A row stands when a contract is listed, and when it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.sample import futures
from derivdata.sources.sample.noise import DAY_US, START_DAY, instants
from derivdata.sources.sample.options.listings import EXPIRY_US
from derivdata.sources.sample.universe import FOREVER, exchange_names, select, symbols
from derivdata.tables import base

_Names = Sequence[str] | None


def rows(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of what was listed or gone at ``first <= time < last`` [µs]."""
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


def _perpetuals(names: _Names, venues: _Names) -> Iterator[tuple[Any, ...]]:
    chosen = select(names, venues)
    for own, venue, since, until in zip(
        chosen.symbol, chosen.exchange, chosen.since.tolist(), chosen.until.tolist(), strict=True
    ):
        symbol = symbols().name[own]
        since = max(since, START_DAY)
        if since < until:
            yield symbol, exchange_names()[venue], f"{symbol}USDT", since * DAY_US, until * DAY_US, True


def _futures(first: int, last: int, names: _Names, venues: _Names) -> Iterator[tuple[Any, ...]]:
    for symbol, exchange in futures.markets(names, venues):
        days = range(first // DAY_US - 1, last // DAY_US + 1)
        for expiry in {e for day in days for e in futures.listing(exchange, day)}:
            ends = (max(expiry.listed, START_DAY) * DAY_US + EXPIRY_US, expiry.day * DAY_US + EXPIRY_US)
            yield symbol, exchange, futures.name(symbol, exchange, expiry.day), *ends, False
