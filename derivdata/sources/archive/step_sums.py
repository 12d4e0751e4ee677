"""Sums over the symbols of each venue and step, with hashes that tell which symbols come or go."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.sources.archive.schemas import INSTANT

__all__ = ["SUMMED", "subtracted", "sums_of_frame", "symbol_hash"]

SUMMED = {"oi_history": "oi_usd", "volume_history": "volume_usd"}
"""Column that is summed, by table."""

_KEYS = ("exchange", "resolution", "time")

_TEXT = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = pa.schema(
    [
        ("exchange", _TEXT),
        ("resolution", _TEXT),
        ("time", INSTANT),
        ("value", pa.float64()),
        ("symbols", pa.int64()),
        ("symbol_hash", pa.uint64()),
    ]
)
_ADDED = ("value", "symbols", "symbol_hash")


def _sums_of_rows(rows: pa.Table, value: str) -> pa.Table:
    """Sum the rows of a table, whose text columns are dictionaries in one piece each."""
    symbols = rows["symbol"].chunk(0) if rows["symbol"].num_chunks else pa.array([], _TEXT)
    hashes = np.array([symbol_hash(word) for word in symbols.dictionary.to_pylist()], np.uint64)
    columns = {
        **{name: rows[name] for name in _KEYS},
        "value": pc.fill_null(rows[value], np.nan),
        "symbols": pa.array(np.ones(len(rows), np.int64)),
        "symbol_hash": pa.array(hashes[np.asarray(symbols.indices)]),
    }
    return _grouped([pa.table(columns)])


def sums_of_frame(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the sums of rows in a frame, by venue, resolution and time."""
    columns = rows[["symbol", *_KEYS, value]]
    return _frame_of_sums([_sums_of_rows(_to_arrow(columns, ("symbol", "exchange", "resolution")), value)])


def subtracted(sums: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of what is left without a part of the rows; its number of symbols may be 0."""
    negative = {name: -part[name] for name in ("value", "symbols")}
    gone = part.assign(symbol_hash=0 - part["symbol_hash"].to_numpy(), **negative)
    texts = ("exchange", "resolution")
    return _frame_of_sums([_to_arrow(frame[_SCHEMA.names], texts).cast(_SCHEMA) for frame in (sums, gone)])


def _to_arrow(frame: pd.DataFrame, texts: Collection[str]) -> pa.Table:
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    columns = {name: rows[name].cast(_TEXT) if name in texts else rows[name] for name in rows.column_names}
    if "value" in columns:  # pandas marks a missing sum by NaN, which Arrow would leave out of a sum
        columns["value"] = pc.fill_null(columns["value"], np.nan)
    return pa.table(columns).combine_chunks()


def _frame_of_sums(parts: list[pa.Table]) -> pd.DataFrame:
    """Return the sums of several files as one frame, by venue, resolution and time."""
    return _sorted(_grouped(parts)).to_pandas()


def _sorted(sums: pa.Table) -> pa.Table:
    """Sort by venue, resolution and time."""
    keys = [sums[name].cast(pa.string()) for name in _KEYS[:2]]
    order = pc.sort_indices(
        pa.table([*keys, sums["time"]], names=[*_KEYS]), [(name, "ascending") for name in _KEYS]
    )
    return sums.take(order)


def _grouped(parts: list[pa.Table]) -> pa.Table:
    """Add up the sums of each venue, resolution and instant."""
    if not parts:
        return _SCHEMA.empty_table()
    rows = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    if not len(rows):
        return _SCHEMA.empty_table()
    texts = {name: rows[name].chunk(0) for name in ("exchange", "resolution")}
    for name, column in texts.items():
        rows = rows.set_column(rows.column_names.index(name), name, column.indices)
    # One thread: several would add in another order each time, and the file would have another digest.
    grouped = rows.group_by([*_KEYS], use_threads=False).aggregate([(name, "sum") for name in _ADDED])
    grouped = grouped.rename_columns([*_KEYS, *_ADDED]).combine_chunks()
    columns = {name: grouped[name].chunk(0) for name in (*_KEYS, *_ADDED)}
    for name, column in texts.items():
        columns[name] = pa.DictionaryArray.from_arrays(columns[name], column.dictionary)
    return pa.table(columns).cast(_SCHEMA)


@lru_cache(maxsize=1 << 16)
def symbol_hash(symbol: str) -> int:
    """Return a number of 64 bits that is the same in every process and version."""
    return int.from_bytes(hashlib.blake2b(symbol.encode(), digest_size=8).digest(), "little")
