"""Read rows of Parquet files: only the row groups whose statistics allow a match."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.archive import footers
from derivdata.archive.manifest import DataFile
from derivdata.archive.schemas import LABEL, as_now, frame_of, latest_by, refuse_lacking, sorting
from derivdata.archive.selections import TimeRange, Where
from derivdata.archive.series_index import INDEXED, SeriesIndex
from derivdata.archive.series_reader import load_pieces
from derivdata.archive.storage import Storage
from derivdata.errors import ArchiveError
from derivdata.schema import Table

__all__ = [
    "RowGroups",
    "all_columns_known",
    "distinct_values",
    "load",
    "row_group_batches",
    "scan",
    "scan_latest",
    "value_ranges",
]


_BATCH_ROWS = 1_000_000
_FEW_FILES = 8
_READERS = min(4, os.cpu_count() or 1)


class RowGroups(NamedTuple):
    """Some row groups of one file."""

    file: DataFile
    groups: list[int]


def row_group_batches(
    storage: Storage, table: Table, files: Iterable[DataFile], window: TimeRange, where: Where
) -> Iterator[RowGroups]:
    """Iterate over the row groups of some files that can contain a match, up to a million rows at a time.

    Raises
    ------
    ArchiveError
        A file is damaged, or holds another table.
    """
    for file in files:
        if not window.touches(file.first, file.last):
            continue
        footer = _footer_of_table(storage, file, table)
        chosen = _candidates(footer, file, window, where)
        batch: list[int] = []
        rows = 0
        for group in chosen:
            size = int(footer.edges[group + 1] - footer.edges[group])  # older versions wrote larger ones
            if batch and rows + size > _BATCH_ROWS:
                yield RowGroups(file, batch)
                batch, rows = [], 0
            batch.append(group)
            rows += size
        if batch:
            yield RowGroups(file, batch)


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
    place = storage.place(batch.file.path)
    with footers.reading(place):
        footer = footers.footer(storage, batch.file)
        columns = _requested(table, footer, where, names)
        index = _index(footer, where)
        if index is None:
            rows = _load_groups(storage, batch, footer, window, where, columns, threads)
        else:
            pieces = index.pieces(window, where, footer.edges).within(batch.groups)
            rows = load_pieces(storage, batch.file, footer, index, pieces, columns, threads)
    return as_now(rows, table, place)


def _requested(
    table: Table, footer: footers.Footer, where: Where, names: Collection[str] | None
) -> list[str]:
    """Return the columns of a file to read, in the table's order."""
    requested = table.columns if names is None else {*names, *where, "time"}
    return [name for name in table.columns if name in footer.names and name in requested]


def _index(footer: footers.Footer, where: Where) -> SeriesIndex | None:
    """Return the file's index, if it has one that can choose these rows."""
    return footer.index if set(where) <= set(INDEXED) else None


def _load_groups(
    storage: Storage,
    batch: RowGroups,
    footer: footers.Footer,
    window: TimeRange,
    where: Where,
    columns: list[str],
    threads: bool,
) -> pa.Table:
    """Load some columns of the rows that are chosen, found by looking at each row of the groups."""
    constants = footer.constants(batch.groups, [name for name in columns if name not in where])
    stored = [name for name in columns if name not in constants]
    with footers.open_parquet(storage, batch.file, footer) as parquet:
        rows = parquet.read_row_groups(batch.groups, columns=stored, use_threads=threads)
    rows.validate(full=True)
    inside = batch.file.first >= window.start and batch.file.last < window.end
    rows = _selected(rows, None if inside else window, where)
    for name, word in constants.items():
        column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [word])
        rows = rows.add_column(columns.index(name), name, column)
    return rows


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
    """
    files = [file for file in files if window.touches(file.first, file.last)]
    threads = not where or len(files) < _FEW_FILES

    def read(file: DataFile) -> list[pa.Table]:
        footer = _footer_of_table(storage, file, table)
        index = _index(footer, where)
        if index is not None and file.rows <= _BATCH_ROWS:  # one batch, of pieces that are looked up once
            pieces = index.pieces(window, where, footer.edges)
            columns = _requested(table, footer, where, names)
            place = storage.place(file.path)
            with footers.reading(place):
                rows = load_pieces(storage, file, footer, index, pieces, columns, threads)
            return [as_now(rows, table, place)] if len(rows) else []
        batches = row_group_batches(storage, table, [file], window, where)
        return [load(storage, table, batch, window, where, names, threads) for batch in batches]

    if threads:
        return list(chain.from_iterable(map(read, files)))
    with ThreadPoolExecutor(_READERS) as pool:
        return list(chain.from_iterable(pool.map(read, files)))


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
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=present):
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
    return _footer_of_table(storage, file, table).names <= set(table.columns)


def _footer_of_table(storage: Storage, file: DataFile, table: Table) -> footers.Footer:
    place = storage.place(file.path)
    with footers.reading(place):
        footer = footers.footer(storage, file)
    stored = (footer.metadata.metadata or {}).get(LABEL, b"no table of an archive").decode()
    if stored != table.name:
        raise ArchiveError(f"{place}: the file holds {stored}, not {table.name}")
    refuse_lacking(place, table, footer.names)
    return footer


def _candidates(footer: footers.Footer, file: DataFile, window: TimeRange, where: Where) -> list[int]:
    """Return the row groups that hold a match, or whose statistics do not rule one out."""
    if not where and file.first >= window.start and file.last < window.end:
        return list(range(footer.metadata.num_row_groups))
    index = _index(footer, where)
    if index is not None:
        groups: list[int] = np.unique(index.pieces(window, where, footer.edges).group).tolist()
        return groups
    chosen = [g for g, bounds in enumerate(footer.bounds["time"]) if window.touches(*bounds)]
    for name, values in where.items():
        if name not in footer.bounds:  # no range is read of it, at most the one word of a whole group
            words = footer.words.get(name)
            chosen = [g for g in chosen if not words or words[g] is None or words[g] in values]
            continue
        bounds = footer.bounds[name]
        only = next(iter(values)) if len(values) == 1 else None
        if only is None:
            chosen = [g for g in chosen if _may_hold(bounds[g], values)]
        else:
            chosen = [g for g in chosen if bounds[g][0] is None or bounds[g][0] <= only <= bounds[g][1]]
    return chosen


def _may_hold(bounds: tuple[Any, Any], values: Collection[str]) -> bool:
    low, high = bounds
    return low is None or any(low <= value <= high for value in values)


def _selected(rows: pa.Table, window: TimeRange | None, where: Where) -> pa.Table:
    """Return the rows within a window that have one of the given values in some columns.

    Files are sorted by series, so that mostly these are neighbours: a slice, which copies nothing.
    """
    if window is None and not where:
        return rows
    chosen = np.ones(len(rows), dtype=bool)
    for name, values in where.items():
        chosen &= _has_value(rows[name], values)
    if window is not None:
        stamps = np.asarray(rows["time"].cast(pa.int64()))
        chosen &= (stamps >= window.start) & (stamps < window.end)
    count = int(np.count_nonzero(chosen))
    first = int(np.argmax(chosen)) if count else 0
    if chosen[first : first + count].all():
        return rows.slice(first, count)
    return rows.filter(pa.array(chosen))


def _has_value(column: pa.ChunkedArray, values: Collection[str]) -> np.ndarray[Any, Any]:
    """Return for each row whether a text column has one of some values there."""
    if not pa.types.is_dictionary(column.type):
        return np.asarray(pc.is_in(column, pa.array(sorted(values), column.type)))
    parts = [np.zeros(0, dtype=bool)]
    for chunk in column.chunks:
        wanted = [word in values for word in chunk.dictionary.to_pylist()]
        codes = np.asarray(chunk.indices.fill_null(len(wanted)))
        parts.append(np.array([*wanted, False])[codes])
    return np.concatenate(parts)
