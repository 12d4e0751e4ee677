"""A store built from frames that a test writes out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.sources import Query


class MemoryStore:
    """Base tables in memory; `frames` have the library's column names."""

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
        # Rows come in any order with `columns`: backwards here, so that no one relies on another.
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
    """Return sums over the symbols of each venue, resolution and time; hashes of the symbols with a value."""
    names = np.array([hashed(symbol) for symbol in rows["symbol"].astype(str)], np.uint64)
    there = names * rows[value].notna().to_numpy(np.uint64)
    keys = ["exchange", "resolution", "time"]
    plain = rows.astype({"exchange": str, "resolution": str}).assign(there=there, count=rows[value].notna())
    cells = plain.groupby(keys)
    return pd.DataFrame(
        {
            "value": cells[value].sum(min_count=1),
            "symbols": cells["count"].sum().astype(np.int64),
            "symbol_hash": cells["there"].agg(np.bitwise_xor.reduce).astype(np.uint64),
        }
    ).reset_index()
