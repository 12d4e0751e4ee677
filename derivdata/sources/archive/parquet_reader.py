"""Read rows of Parquet files: by their index where they have one, else by the ranges of their row groups."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.sources.archive import footers, series_reader
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.row_groups import BATCH_ROWS, RowGroups, load_row_groups, row_group_batches
from derivdata.sources.archive.schemas import as_now, frame_of, latest_by, number_kinds, sorting
from derivdata.sources.archive.selections import TimeRange, Where
from derivdata.sources.archive.series_index import Pieces, Runs, SeriesIndex
from derivdata.sources.archive.series_reader import SeriesRows
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Table

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

    A series over many files is little of each. Where an index says at which bytes it is, these are read, and
    become one table at the end. Whatever else is read of many files takes its time to open each, and several
    threads do it; from a store of objects, where every read is a request, they also read single pages.
    """
    files = [file for file in files if window.touches(file.first, file.last)]
    reader = _FileReader(storage, table, window, where, names)
    few = _in_threads(reader.pages, files) if storage.remote else list(map(reader.pages, files))
    rest = [file for file, part in zip(files, few, strict=True) if part is None]
    if where and len(rest) >= _FEW_FILES:
        parts = _in_threads(partial(reader.whole, threads=False), rest)
    else:
        parts = [reader.whole(file, threads=True) for file in rest]
    tables = [rows for part in parts for rows in part if len(rows)]
    by_columns: dict[tuple[str, ...], list[SeriesRows]] = {}  # files of earlier versions may lack some
    for rows in (part for part in few if part is not None and part.pieces.run.size):
        columns = tuple(_requested(table, rows.index.runs.names, where, names))
        by_columns.setdefault(columns, []).append(rows)
    return tables + [series_reader.table_of(some, columns) for columns, some in by_columns.items()]


class _FileReader:
    """Reader of the chosen rows of one file after another."""

    def __init__(
        self,
        storage: Storage,
        table: Table,
        window: TimeRange,
        where: Where,
        names: Collection[str] | None,
    ) -> None:
        self._storage, self._table = storage, table
        self._window, self._where, self._names = window, where, names
        self._pieces_of_runs: dict[Runs, Pieces] = {}

    def pages(self, file: DataFile) -> SeriesRows | None:
        """Load the rows by their pages alone; None where that is not possible, or slower."""
        footer = footers.footer_of_table(self._storage, file, self._table)
        index = footer.index_for(self._where)
        if index is None:
            return None
        kinds = number_kinds(self._table, self._columns(footer))
        with footers.reading(self._storage.place(file.path)):
            return series_reader.load_rows(self._storage, file, index, self._pieces(file, index), kinds)

    def whole(self, file: DataFile, *, threads: bool) -> list[pa.Table]:
        """Load the rows out of whole row groups."""
        footer = footers.footer_of_table(self._storage, file, self._table)
        index = footer.index_for(self._where)
        if index is None or file.rows > BATCH_ROWS:
            chosen = self._window, self._where
            batches = row_group_batches(self._storage, self._table, [file], *chosen)
            return [load(self._storage, self._table, b, *chosen, self._names, threads) for b in batches]
        place = self._storage.place(file.path)
        pieces, columns = self._pieces(file, index), self._columns(footer)
        with footers.reading(place):  # one batch, of pieces that are looked up once
            rows = series_reader.load_pieces(self._storage, file, footer, index, pieces, columns, threads)
        return [as_now(rows, self._table, place)]

    def _columns(self, footer: footers.Footer) -> list[str]:
        return _requested(self._table, footer.names, self._where, self._names)

    def _pieces(self, file: DataFile, index: SeriesIndex) -> Pieces:
        """Return where the rows are; in the same places in all files of the same runs within the window."""
        if not self._window.holds(file.first, file.last):
            return index.pieces(self._window, self._where)
        pieces = self._pieces_of_runs.get(index.runs)
        if pieces is None:
            pieces = self._pieces_of_runs[index.runs] = index.pieces(self._window, self._where)
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
