"""A store built from frames that a test writes out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.sources.query import Query


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
        self.empty = {name: tables.TABLES[name].empty() for name in frames}

    def tables(self) -> frozenset[str]:
        return frozenset(self.frames)

    def symbols(self, table: str) -> tuple[str, ...]:
        return self._values(table, "symbol")

    def exchanges(self, table: str) -> tuple[str, ...]:
        return self._values(table, "exchange")

    def _values(self, table: str, column: str) -> tuple[str, ...]:
        frame = self.frames[table]
        return tuple(sorted(frame[column].unique())) if column in frame else ()

    def rows(self, query: Query) -> pd.DataFrame:
        table, frame = tables.TABLES[query.table], self.frames[query.table]
        keep = (frame["time"] >= query.start) & (frame["time"] < query.end)
        if query.symbols is not None:
            keep &= frame["symbol"].isin(query.symbols)
        if query.venues is not None:
            keep &= frame["exchange"].isin(query.venues)
        rows = table.conform(frame[keep]) if keep.any() else self.empty[query.table]
        # Rows come in any order with `columns`: backwards here, so that nobody relies on another.
        return rows if query.columns is None else rows.iloc[::-1].reset_index(drop=True)[[*query.columns]]

    def extents(self, table: str, until: pd.Timestamp) -> pd.DataFrame:
        rows = self.rows(Query(table, self.start, until)).reindex(columns=["exchange", "symbol", "time"])
        rows = rows.astype({"exchange": "object", "symbol": "object"})
        return (
            rows.groupby("exchange", dropna=False)
            .agg(
                first=("time", "min"),
                last=("time", "max"),
                row_count=("time", "size"),
                symbol=("symbol", "min"),
            )
            .reset_index()
        )

    def newest(self, query: Query) -> pd.DataFrame:
        frame = self.rows(query)
        if frame.empty:
            return frame
        key = [name for name in tables.TABLES[query.table].key if name not in ("time", "instrument_name")]
        newest = frame.groupby(key, observed=True)["time"].transform("max")
        return tables.TABLES[query.table].conform(frame[frame["time"] == newest])

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        return sums_of(self.rows(query), value)


def hashed(symbol: str) -> int:
    return int.from_bytes(hashlib.blake2b(symbol.encode(), digest_size=8).digest(), "little")


def sums_of(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Sums over the symbols of each venue, resolution and instant, row by row."""
    cells: dict[tuple[str, str, pd.Timestamp], list[Any]] = {}
    names = (rows[name] for name in ("symbol", "exchange", "resolution", "time", value))
    for symbol, exchange, resolution, time, one in zip(*names, strict=True):
        cell = cells.setdefault((str(exchange), str(resolution), time), [0.0, 0, 0])
        if one == one:
            cell[:] = cell[0] + one, cell[1] + 1, cell[2] ^ hashed(symbol)
    keys, found = [*zip(*sorted(cells), strict=True)] or [()] * 3, [cells[key] for key in sorted(cells)]
    columns = dict(zip(("exchange", "resolution"), keys[:2], strict=True))
    return pd.DataFrame(columns, dtype=object).assign(
        time=pd.DatetimeIndex(keys[2], dtype="datetime64[us, UTC]"),
        value=np.array([total if count else np.nan for total, count, _ in found], float),
        symbols=np.array([count for _, count, _ in found], np.int64),
        symbol_hash=np.array([number for *_, number in found], np.uint64),
    )
