"""Write single Parquet files: rows sorted, in small row groups, with newest rows and sums in files beside."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from derivdata.sources.archive import footers
from derivdata.sources.archive.index_builder import IndexBuilder
from derivdata.sources.archive.local_folder import LocalFolder
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.schemas import latest_by, schema_of
from derivdata.sources.archive.step_sums import SumsBuilder
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Table

__all__ = ["GROUP_ROWS", "write"]


GROUP_ROWS = 8_192
"""Rows that are decoded together: for one series of a file of thousands, a whole row group is."""
_NEWEST_FROM_ROWS = 100_000
_SUMS_FROM_ROWS = 8_192
_CHUNK_GROUPS = 16


def write(
    storage: Storage, partition: str, table: Table, rows: Iterable[pa.Table], *, level: int = 0
) -> DataFile:
    """Write sorted rows as one new file of a partition.

    A large file of series gets a small one beside it with the newest rows of each series, so that a read of
    the latest values need not open the large one. One of open interest or volume gets another with sums over
    the symbols of each venue and step.
    """
    newest, sums = _Newest(table), SumsBuilder(table)
    written = _write_file(storage.draft(partition), table, rows, [newest, sums])
    file = DataFile(
        path=f"{partition}/{storage.unique(written.digest)}.parquet",
        rows=written.rows,
        size=written.size,
        first=written.first,
        last=written.last,
        digest=written.digest,
        tail=written.tail,
        level=level,
    )
    storage.publish(written.path, file.path)
    if file.rows >= _NEWEST_FROM_ROWS and newest.follows_series:
        beside = _write_file(storage.draft(partition), table, [newest.rows()], [])
        storage.publish(beside.path, file.newest_path)
        file = msgspec.structs.replace(file, newest=beside.tail)
    if file.rows >= _SUMS_FROM_ROWS:
        draft = storage.draft(partition)
        if digest := sums.write(draft):
            storage.publish(draft, file.sums_path)
            file = msgspec.structs.replace(file, sums=digest)
    return file


class _Written(NamedTuple):
    path: Path
    rows: int
    size: int
    first: int
    last: int
    digest: str
    tail: str


def _write_file(
    draft: Path, table: Table, rows: Iterable[pa.Table], collectors: Sequence[_Newest | SumsBuilder]
) -> _Written:
    """Write rows under a draft name, which is removed if that fails."""
    try:
        count, first, last = _write_rows(draft, table, rows, collectors)
        with draft.open("rb") as handle:
            digest = hashlib.file_digest(handle, footers.digest).hexdigest()
        end = LocalFolder(draft.parent).tail(draft.name, 0)
        tail = footers.digest(footers.footer_of(end)).hexdigest()
        return _Written(draft, count, draft.stat().st_size, first, last, digest, tail)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _write_rows(
    path: Path, table: Table, rows: Iterable[pa.Table], collectors: Sequence[_Newest | SumsBuilder]
) -> tuple[int, int, int]:
    schema = schema_of(table)
    text = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    count, bounds = 0, []
    index = IndexBuilder(table)
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=text,
        column_encoding={"time": "DELTA_BINARY_PACKED"},
        write_statistics=[
            *dict.fromkeys([*(n for n in footers.PRUNED if n in table.columns), *text, "time"])
        ],
        write_page_checksum=True,
        write_batch_size=GROUP_ROWS,
    ) as writer:
        for batch in _in_chunks(rows):
            whole = batch.combine_chunks().cast(schema)
            writer.write_table(whole, row_group_size=GROUP_ROWS)
            index.take(whole)
            for collector in collectors:
                collector.take(whole)
            count += len(batch)
            bounds += [v.cast(pa.int64()).as_py() for v in pc.min_max(batch["time"]).values()]
    if count > GROUP_ROWS:  # in a single row group there is nothing to find
        _put_before_footer(path, index)
    return count, min(bounds), max(bounds)


def _put_before_footer(path: Path, index: IndexBuilder) -> None:
    """Insert a file's index before its footer; what the footer says of places in the file stays right."""
    footer = footers.footer_of(LocalFolder(path.parent).tail(path.name, 0))
    data = index.packed(pq.read_metadata(pa.BufferReader(footer)))
    with path.open("r+b") as file:
        file.seek(-len(footer), os.SEEK_END)
        file.write(data + footer)


def _in_chunks(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield some row groups at a time, so that writers hold copies of those only."""
    for batch in rows:
        for start in range(0, len(batch), _CHUNK_GROUPS * GROUP_ROWS):
            yield batch.slice(start, _CHUNK_GROUPS * GROUP_ROWS)


class _Newest:
    """Collector of the rows of the last instant of each symbol and venue, fed with sorted rows."""

    def __init__(self, table: Table) -> None:
        self.follows_series = latest_by(table) == ["symbol", "exchange"]
        self._table = table
        self._last_rows: list[pa.Table] = []

    def take(self, rows: pa.Table) -> None:
        if self.follows_series:
            self._last_rows.append(_last_of_series(rows))

    def rows(self) -> pa.Table:
        # A series that continues in the next chunk was collected twice: choose its last rows once more.
        return _last_of_series(pa.concat_tables(self._last_rows).unify_dictionaries().combine_chunks())


def _last_of_series(rows: pa.Table) -> pa.Table:
    """Return the rows of the last instant of each run of one symbol and venue, sorted by both and time."""
    if not len(rows):
        return rows
    rows = rows.combine_chunks()
    symbols, venues = (np.asarray(rows[name].chunk(0).indices) for name in ("symbol", "exchange"))
    changes = (symbols[1:] != symbols[:-1]) | (venues[1:] != venues[:-1])
    ends = np.flatnonzero(np.append(changes, True))  # last row of each run
    stamps = np.asarray(rows["time"].cast(pa.int64()))
    lengths = np.diff(np.append(-1, ends))
    return rows.filter(pa.array(stamps == np.repeat(stamps[ends], lengths)))
