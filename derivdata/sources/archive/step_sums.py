"""Sums over the symbols of each venue and step, kept beside large files: totals need not read the rows.

A row of sums stands for all rows of one venue, resolution and instant: the sum of their values (NaN if one is
missing), their number, and a sum of hashes of their symbols modulo 2^64. Keys of an archive are unique, so
the sums of several files are those of their rows together. Equal sums of hashes mean, but for one chance in
2^64, that the symbols at two instants are the same: averages over time depend on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from derivdata.sources.archive import footers, parquet_reader, row_groups
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.schemas import INSTANT, LABEL
from derivdata.sources.archive.selections import TimeRange
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Table

__all__ = ["SUMMED", "SumsBuilder", "scan_sums", "subtracted", "sums_of_frame", "symbol_hash"]

SUMMED = {"oi_history": "oi_usd", "volume_history": "volume_usd"}
"""Column that is summed, by table."""

_KEYS = ("exchange", "resolution", "time")

_ROWS_PER_SUM = 4
_MOST_PENDING = 1_000_000
_READERS = 4
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


class SumsBuilder:
    """Collector of the sums of a file, fed with its rows."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._value = SUMMED.get(table.name)
        self._parts: list[pa.Table] = []
        self._rows = 0

    def take(self, rows: pa.Table) -> None:
        """Add rows; each column is in one piece."""
        if self._value is None or not len(rows):
            return
        self._rows += len(rows)
        self._parts.append(_sums_of_rows(rows, self._value))
        if sum(map(len, self._parts)) > _MOST_PENDING:
            self._parts = [_grouped(self._parts)]
            if 2 * len(self._parts[0]) > _MOST_PENDING:  # of irregular instants: sums would save nothing
                self._value, self._parts = None, []

    def write(self, draft: Path) -> str:
        """Write the sums under a draft name and return the file's digest; write nothing, "", without use.

        Of irregular instants there are as many sums as rows.
        """
        sums = _sorted(_grouped(self._parts))
        if not len(sums) or len(sums) * _ROWS_PER_SUM > self._rows:
            return ""
        try:
            pq.write_table(
                sums.replace_schema_metadata({LABEL: self._table.name.encode()}),
                draft,
                compression="zstd",
                use_dictionary=["exchange", "resolution"],
                column_encoding={"time": "DELTA_BINARY_PACKED"},
                write_statistics=False,
            )
            return footers.digest(draft.read_bytes()).hexdigest()
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def scan_sums(
    storage: Storage,
    table: Table,
    files: Iterable[DataFile],
    window: TimeRange,
    venues: frozenset[str] | None,
) -> pd.DataFrame:
    """Return the sums of the rows of some files, by venue, resolution and time.

    Raises
    ------
    ArchiveError
        A file is damaged, or holds another table.
    FileNotFoundError
        A file is absent.
    """
    value = SUMMED[table.name]
    where = {} if venues is None else {"exchange": venues}
    near = [file for file in files if window.touches(file.first, file.last)]
    read = partial(_read_sums, storage, window=window, venues=venues)
    with ThreadPoolExecutor(_READERS) as pool:  # from a store of objects each is a request
        parts = list(pool.map(read, (file for file in near if file.sums)))
    others = [file for file in near if not file.sums]
    for batch in row_groups.row_group_batches(storage, table, others, window, where):
        rows = parquet_reader.load(storage, table, batch, window, where, ["symbol", *_KEYS, value])
        parts.append(_sums_of_rows(rows.unify_dictionaries().combine_chunks(), value))
    return _frame_of_sums(parts)


def _chosen(sums: pa.Table, window: TimeRange, venues: frozenset[str] | None) -> pa.Table:
    """Return the sums of some venues within a window."""
    stamps = np.asarray(sums["time"].cast(pa.int64()))
    inside = (stamps >= window.start) & (stamps < window.end)
    if venues is not None:
        inside &= np.asarray(
            pc.is_in(sums["exchange"].cast(pa.string()), pa.array(sorted(venues), pa.string()))
        )
    return sums if inside.all() else sums.filter(pa.array(inside))


def _read_sums(
    storage: Storage, file: DataFile, window: TimeRange, venues: frozenset[str] | None
) -> pa.Table:
    """Read the sums beside a file, of some venues within a window."""
    with footers.reading(storage.place(file.sums_path)):
        data = storage.read(file.sums_path)
        if footers.digest(data).hexdigest() != file.sums:
            raise OSError("it is not the one that was written")
        sums = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    return _chosen(sums, window, venues)


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
