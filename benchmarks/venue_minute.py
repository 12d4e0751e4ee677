"""One minute of all venues: realistic bodies, read and appended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from derivdata.client.transport.adapter import KeylessReply
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.collect import session as sessions
from derivdata.sources.collect.collector import Collector
from tests.collect import fakes
from tests.collect.direct import DirectSession

__all__ = ["CONTRACTS", "TABLES", "Minute", "rows_of_a_day"]

CONTRACTS = 500
"""Contracts per venue, about as many as the larger venues list."""

TABLES = ("funding_history", "oi_history", "markets_symbol_exchanges", "prices_history")
_START = "2026-01-20T10:30:05"
_VENUES = [name for name in fakes.VENUES if name != "derive"]


class _Kept:
    """A session that gives the responses of another one again."""

    answers: dict[str, KeylessReply]

    def __init__(self) -> None:
        self._first = DirectSession()

    def send(
        self, method: str, url: str, params: Mapping[str, str], *, post: Mapping[str, Any] | None = None
    ) -> KeylessReply:
        """Give the response that this request had the first time."""
        key = f"{url} {sorted(params.items())} {sorted((post or {}).items())}"
        if key not in self.answers:
            self.answers[key] = self._first.send(method, url, params, post=post)
        return self.answers[key]

    def close(self) -> None:
        """Do nothing; requests needs the method."""


class Minute:
    """Responses of all venues at one time, and collectors that read them; use it as a context."""

    def __init__(self, folder: Path, contracts: int = CONTRACTS) -> None:
        self._folder, self._number = folder, 0
        self._was = (fakes.SYMBOLS, sessions.KeylessSession)
        fakes.SYMBOLS = tuple(f"C{number:03}" for number in range(contracts))
        _Kept.answers = {}
        sessions.KeylessSession = _Kept  # type: ignore[assignment,misc]
        clock = fakes.SimulatedClock(_START)
        self._told = fakes.Fakes(int(clock.utc().timestamp()) + 3600, clock.utc)
        DirectSession.fakes, DirectSession.wait = self._told, clock.wait
        first = self._collector(open_archive(folder / "first"), clock)
        first.once()
        self._listings = {name: (shared.listing, shared.lists) for name, shared in first.shared.items()}

    @property
    def bodies(self) -> list[bytes]:
        """All bodies, the lists of contracts too, which are requested once an hour."""
        return [reply.body for reply in _Kept.answers.values()]

    def collector(self) -> Collector:
        """Return a collector with known contracts, over an empty archive."""
        self._number += 1
        clock = fakes.SimulatedClock(_START)
        made = self._collector(open_archive(self._folder / str(self._number)), clock)
        for name, shared in made.shared.items():
            shared.listing, shared.lists = self._listings[name]
        return made

    def close(self) -> None:
        """Give the fakes their own symbols back."""
        fakes.SYMBOLS, sessions.KeylessSession = self._was  # type: ignore[misc]

    def _collector(self, archive: Archive, clock: fakes.SimulatedClock) -> Collector:
        addresses = self._told.addresses
        return Collector(archive, venues=_VENUES, symbols=(), names=TABLES, clock=clock, addresses=addresses)


def rows_of_a_day(series: int, minutes: int, day: int = 0) -> pd.DataFrame:
    """Return sampled rates of as many contracts, a row a minute, of a day of the year."""
    start = pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(day, "D")
    times = pd.date_range(start, periods=minutes, freq="min").as_unit("us")
    count = series * minutes
    number = pd.RangeIndex(count)
    steps = np.random.default_rng(day).normal(0, 0.01, (series, minutes))
    return pd.DataFrame(
        {
            "symbol": pd.Categorical.from_codes(
                number // minutes // 10, [f"C{n:03}" for n in range(-(-series // 10))]
            ),
            "exchange": pd.Categorical.from_codes(number // minutes % 10, [f"venue{n}" for n in range(10)]),
            "time": times.take(number % minutes),
            "rate_bps_8h": steps.cumsum(axis=1).round(4).ravel(),
            "resolution": "raw",
            "kind": "sampled",
        }
    )
