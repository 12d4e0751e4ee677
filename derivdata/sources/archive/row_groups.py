"""Row groups of files: which can hold a match, by an index or by their statistics, and their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.sources.archive import footers
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.selections import TimeRange, Where
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Table

__all__ = ["BATCH_ROWS", "RowGroups", "load_row_groups", "row_group_batches"]

BATCH_ROWS = 1_000_000
"""Rows that are read together at most, so that a read of many takes little memory beside them."""


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
        footer = footers.footer_of_table(storage, file, table)
        chosen = _candidates(footer, file, window, where)
        batch: list[int] = []
        rows = 0
        for group in chosen:
            size = int(footer.edges[group + 1] - footer.edges[group])  # older versions wrote larger ones
            if batch and rows + size > BATCH_ROWS:
                yield RowGroups(file, batch)
                batch, rows = [], 0
            batch.append(group)
            rows += size
        if batch:
            yield RowGroups(file, batch)


def load_row_groups(
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
    rows = _selected(rows, None if window.holds(batch.file.first, batch.file.last) else window, where)
    for name, word in constants.items():
        column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [word])
        rows = rows.add_column(columns.index(name), name, column)
    return rows


def _candidates(footer: footers.Footer, file: DataFile, window: TimeRange, where: Where) -> list[int]:
    """Return the row groups that hold a match, or whose statistics do not rule one out."""
    if not where and window.holds(file.first, file.last):
        return list(range(footer.edges.size - 1))
    index = footer.index_for(where)
    if index is not None:
        return index.pieces(window, where).groups
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
