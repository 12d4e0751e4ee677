"""A store built from frames that a test writes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from derivdata import tables


class MemoryStore:
    """Base tables held in memory; `frames` have the library's column names."""

    def __init__(
        self,
        frames: Mapping[str, pd.DataFrame],
        *,
        now: str,
        start: str = "2025-09-01",
        label: str = "memory",
        synthetic: bool = True,
    ) -> None:
        self.label, self.identity, self.synthetic = label, f"memory-{label}", synthetic
        self.id, self.version = f"memory-{label}", "1"
        self.start = pd.Timestamp(start, tz="UTC").as_unit("us")
        self.now = pd.Timestamp(now, tz="UTC").as_unit("us")
        self.frames = {name: tables.TABLES[name].conform(frame) for name, frame in frames.items()}

    def tables(self) -> frozenset[str]:
        return frozenset(self.frames)

    def symbols(self, table: str) -> tuple[str, ...]:
        return self._values(table, "symbol")

    def exchanges(self, table: str) -> tuple[str, ...]:
        return self._values(table, "exchange")

    def _values(self, table: str, column: str) -> tuple[str, ...]:
        frame = self.frames[table]
        return tuple(sorted(frame[column].unique())) if column in frame else ()

    def read(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        frame = self.frames[table]
        keep = (frame["time"] >= start) & (frame["time"] < end)
        if symbols is not None:
            keep &= frame["symbol"].isin(symbols)
        if venues is not None:
            keep &= frame["exchange"].isin(venues)
        rows = tables.TABLES[table].conform(frame[keep])
        # Rows come in any order with `columns`: backwards here, so that nobody relies on another.
        return rows if columns is None else rows.iloc[::-1].reset_index(drop=True)[list(columns)]

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        moment = pd.Timedelta(1, "us")
        frame = self.read(table, at - within, at + moment, symbols=symbols, venues=venues)
        key = [name for name in tables.TABLES[table].key if name not in ("time", "instrument_name")]
        newest = frame.groupby(key, observed=True)["time"].transform("max")
        return tables.TABLES[table].conform(frame[frame["time"] == newest])
