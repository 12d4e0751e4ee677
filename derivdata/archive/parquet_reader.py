"""Read rows of Parquet files: by their index where they have one, else by the ranges of their row groups."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.archive import footers, series_reader
from derivdata.archive.manifest import DataFile
from derivdata.archive.row_groups import BATCH_ROWS, RowGroups, load_row_groups, row_group_batches
from derivdata.archive.schemas import as_now, frame_of, latest_by, number_kinds, sorting
from derivdata.archive.selections import TimeRange, Where
from derivdata.archive.series_index import Pieces, Runs, SeriesIndex
from derivdata.archive.series_reader import SeriesRows
from derivdata.archive.storage import Storage
from derivdata.schema import Table

__all__ = ["all_columns_known", "distinct_values", "load", "scan", "scan_latest", "value_ranges"]


_FEW_FILES = 8
_READERS = min(4, os.cpu_count() or 1)

T = TypeVar("T")


def load(
    storage: Storage,
    table: Table,
    batch: RowGroups,
    window: TimeRange,
    where: Where,
    names: Collection[str] | None = None,
    threads: bool = True,
) -> pa.Table:
    """Load rows of a batch within a window whose columns have one of the given values.

    `names` are the columns to read besides those that choose rows; None reads all. `threads` is whether
    columns are decoded in several.

    Raises
    ------
    ArchiveError
        The file is damaged.
    """
    file, place = batch.file, storage.place(batch.file.path)
    with footers.reading(place):
        footer = footers.footer(storage, file)
        columns = _requested(table, footer.names, where, names)
        index = footer.index_for(where)
        if index is None:
            rows = load_row_groups(storage, batch, footer, window, where, columns, threads)
        else:
            pieces = index.pieces(window, where).within(batch.groups)
            few = series_reader.load_rows(storage, file, index, pieces, number_kinds(table, columns))
            if few is not None:
                rows = series_reader.table_of([few], columns)
            else:
                rows = series_reader.load_pieces(storage, file, footer, index, pieces, columns, threads)
    return as_now(rows, table, place)


def scan(
    storage: Storage,
    table: Table,
    files: Iterable[DataFile],
    window: TimeRange,
    where: Where,
    names: Collection[str] | None = None,
) -> list[pa.Table]:
    """Load the rows of some files within a window whose columns have one of the given values.

    A series over many files is little of each, and opening them takes the time: several threads read them.
    Where an index says at which bytes the rows are, those of all files become one table at the end.
    """
    files = [file for file in files if window.touches(file.first, file.last)]
    threads = not where or len(files) < _FEW_FILES
    lookup = _Lookup(window, where)

    def read(file: DataFile) -> SeriesRows | list[pa.Table]:
        footer = footers.footer_of_table(storage, file, table)
        index = footer.index_for(where)
        if index is not None:
            pieces = lookup.pieces(file, index)
            columns, place = _requested(table, footer.names, where, names), storage.place(file.path)
            with footers.reading(place):
                few = series_reader.load_rows(storage, file, index, pieces, number_kinds(table, columns))
                if few is not None:
                    return few
                if file.rows <= BATCH_ROWS:  # one batch, of pieces that are looked up once
                    rows = series_reader.load_pieces(storage, file, footer, index, pieces, columns, threads)
                    return [as_now(rows, table, place)]
        batches = row_group_batches(storage, table, [file], window, where)
        return [load(storage, table, batch, window, where, names, threads) for batch in batches]

    parts = list(map(read, files)) if threads else _in_threads(read, files)
    tables = [rows for part in parts if isinstance(part, list) for rows in part if len(rows)]
    by_columns: dict[tuple[str, ...], list[SeriesRows]] = {}  # files of earlier versions may lack some
    for few in (part for part in parts if isinstance(part, SeriesRows) and part.pieces.run.size):
        columns = tuple(_requested(table, few.index.runs.names, where, names))
        by_columns.setdefault(columns, []).append(few)
    return tables + [series_reader.table_of(some, columns) for columns, some in by_columns.items()]


class _Lookup:
    """Where the chosen rows are in each file of a scan, by its index.

    Where the window has all of a file's rows, they are in the same places in all files of the same runs.
    """

    def __init__(self, window: TimeRange, where: Where) -> None:
        self._window, self._where = window, where
        self._pieces: dict[Runs, Pieces] = {}

    def pieces(self, file: DataFile, index: SeriesIndex) -> Pieces:
        if not self._window.holds(file.first, file.last):
            return index.pieces(self._window, self._where)
        pieces = self._pieces.get(index.runs)
        if pieces is None:
            pieces = self._pieces[index.runs] = index.pieces(self._window, self._where)
        return pieces


def _in_threads(read: Callable[[DataFile], T], files: list[DataFile]) -> list[T]:
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, files))


def _requested(
    table: Table, stored: Collection[str], where: Where, names: Collection[str] | None
) -> list[str]:
    """Return the columns of a file to read, in the table's order."""
    requested = table.columns if names is None else {*names, *where, "time"}
    return [name for name in table.columns if name in stored and name in requested]


def scan_latest(
    storage: Storage, table: Table, files: Iterable[DataFile], window: TimeRange, where: Where
) -> pd.DataFrame:
    """Return the newest rows of each series of a table in a window, or its newest chain.

    Of a file that ends before the window does, only the newest rows, stored beside it, can be among them.
    """
    parts = []
    for file in files:
        if not window.touches(file.first, file.last):
            continue
        if file.newest and file.last < window.end:
            beside = msgspec.structs.replace(file, path=file.newest_path, tail=file.newest, newest="", size=0)
            parts += scan(storage, table, [beside], window, where)
        else:
            parts += scan(storage, table, [file], window, where)
    rows = frame_of(table, parts)
    newest = rows.groupby(latest_by(table), observed=True)["time"].transform("max")
    return rows[rows["time"] == newest]


def value_ranges(storage: Storage, table: Table, files: Iterable[DataFile], rows: int) -> Iterator[Where]:
    """Divide the values of the leading column, in order, into filters that match about `rows` rows each.

    Raises
    ------
    ArchiveError
        A file is damaged.
    """
    lead = sorting(table)[0]
    if lead not in footers.PRUNED:
        yield {}
        return
    counts: Counter[str] = Counter()
    for file in files:
        with footers.reading(storage.place(file.path)), footers.open_parquet(storage, file) as parquet:
            value_counts = parquet.read(columns=[lead])[lead].value_counts().to_pylist()
        counts.update({each["values"]: each["counts"] for each in value_counts})
    chosen: list[str] = []
    size = 0
    for value in sorted(counts):
        chosen.append(value)
        size += counts[value]
        if size >= rows:
            yield {lead: frozenset(chosen)}
            chosen, size = [], 0
    if chosen:
        yield {lead: frozenset(chosen)}


def distinct_values(
    storage: Storage, table: Table, files: Iterable[DataFile], names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the values of some text columns, sorted."""
    values: dict[str, set[str]] = {name: set() for name in names}
    for file in files:
        with footers.reading(storage.place(file.path)), footers.open_parquet(storage, file) as parquet:
            present = [name for name in names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(BATCH_ROWS, columns=present):
                for name in present:
                    values[name].update(pc.unique(batch[name]).drop_null().to_pylist())
    return {name: sorted(distinct) for name, distinct in values.items()}


def all_columns_known(storage: Storage, table: Table, file: DataFile) -> bool:
    """Return whether the table has every column of a file; one of a newer version may have more.

    Raises
    ------
    ArchiveError
        The file is damaged, or holds another table.
    """
    return footers.footer_of_table(storage, file, table).names <= set(table.columns)
