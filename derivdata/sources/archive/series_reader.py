"""Read rows that a file's index has found: the columns that it stands for are made, the others decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from derivdata.sources.archive import footers
from derivdata.sources.archive.data_pages import Numbers, numbers_of_page
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.schemas import INSTANT
from derivdata.sources.archive.series_index import INDEXED, Ints, Pieces, SeriesIndex
from derivdata.sources.archive.storage import Storage

__all__ = ["SeriesRows", "load_pieces", "load_rows", "table_of"]

_FEW_GROUPS = 8
"""Beyond as many row groups of a file, pyarrow's reader of whole groups is faster."""


@dataclass(frozen=True)
class SeriesRows:
    """Rows of one file: which they are, and the columns that do not follow from the index."""

    index: SeriesIndex
    pieces: Pieces
    numbers: Mapping[str, Numbers]


def load_rows(
    storage: Storage, file: DataFile, index: SeriesIndex, pieces: Pieces, kinds: Mapping[str, str | None]
) -> SeriesRows | None:
    """Load some columns of the rows of few pieces by their pages alone.

    `kinds` are the columns to load, with the numpy type of those of numbers. Returns None where there are
    too many row groups, or where a column is of another kind or not stored as plain numbers: then all columns
    are for `load_pieces`.

    Raises
    ------
    OSError
        A page is damaged.
    """
    wanted = [name for name in kinds if name not in INDEXED and name not in index.runs.constants]
    columns = {name: index.columns[name] for name in wanted if name in index.columns}
    groups = pieces.groups
    if len(groups) > _FEW_GROUPS or any(
        name not in columns or columns[name].kind != kinds[name] for name in wanted
    ):
        return None
    parts: dict[str, list[Numbers]] = {name: [] for name in columns}
    for group in groups if columns else []:
        places = [(int(c.offsets[group]), int(c.offsets[group] + c.sizes[group])) for c in columns.values()]
        begin = min(start for start, _ in places)
        data = memoryview(storage.read_range(file.path, begin, max(end for _, end in places)))
        first, last = index.runs.edges[group : group + 2].tolist()
        rows = pieces if len(groups) == 1 else pieces.within([group])
        for (name, column), (start, end) in zip(columns.items(), places, strict=True):
            page = data[start - begin : end - begin]
            numbers = numbers_of_page(page, last - first, column.kind, optional=column.optional)
            if numbers is None:
                return None
            parts[name].append(numbers.of_rows(_places(rows.row - first, rows.length)))
    return SeriesRows(index, pieces, {n: _joined(part, columns[n].kind) for n, part in parts.items()})


def table_of(parts: Sequence[SeriesRows], columns: Sequence[str]) -> pa.Table:
    """Return some columns of rows of one or several files, each of which has all of them."""
    length = np.concatenate([part.pieces.length for part in parts])
    made: dict[str, pa.Array] = {}
    for name in columns:
        if name == "time":
            made[name] = _instants(parts, length)
        elif name in INDEXED:
            made[name] = _names(parts, INDEXED.index(name), length)
        elif name in parts[0].numbers:
            numbers = _joined([part.numbers[name] for part in parts])
            mask = None if numbers.present is None else ~numbers.present
            made[name] = pa.array(numbers.values, mask=mask)
        else:
            words = [part.index.runs.constants[name] for part in parts]
            rows = [int(part.pieces.length.sum()) for part in parts]
            made[name] = (
                pa.array(words).dictionary_encode().take(pa.array(np.repeat(np.arange(len(parts)), rows)))
            )
    return pa.table(made)


def _names(parts: Sequence[SeriesRows], number: int, length: Ints) -> pa.Array:
    """Return the symbol (0) or venue (1) of rows, as words and the number of each row's word."""
    known: dict[str, int] = {}
    codes: list[Ints] = []
    for k, part in enumerate(parts):
        if k and part.pieces is parts[k - 1].pieces:  # another file of the same runs
            codes.append(codes[-1])
            continue
        words, of_piece = part.index.runs.words[number], part.index.runs.codes[number][part.pieces.run]
        used, place = of_piece, np.arange(of_piece.size)
        if of_piece.size > 1:
            used, place = np.unique(of_piece, return_inverse=True)
        names = [words[code] for code in used.tolist()]
        codes.append(np.array([known.setdefault(name, len(known)) for name in names], np.int32)[place])
    indices = pa.array(np.repeat(np.concatenate(codes), length))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(known), pa.string()))


def _instants(parts: Sequence[SeriesRows], length: Ints) -> pa.Array:
    """Return the instants of rows: those of a piece follow its first one by the step of its file."""
    first = np.concatenate([part.index.first(part.pieces) for part in parts])
    step: Any = np.array([part.index.runs.step for part in parts])
    before = np.cumsum(length) - length
    if (step == step[0]).all():
        step = row_step = step[0]
    else:
        step = np.repeat(step, [part.pieces.length.size for part in parts])
        row_step = np.repeat(step, length)
    # The k-th row of all is row k − (rows of the pieces before) of its piece.
    stamps = np.repeat(first - step * before, length)
    stamps += row_step * np.arange(stamps.size)
    return pa.array(stamps).view(INSTANT)


def _joined(parts: Sequence[Numbers], kind: str | None = None) -> Numbers:
    """Return the numbers of several pages or files; of none, no numbers of a type."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Numbers(np.zeros(0, kind), None)
    values = np.concatenate([part.values for part in parts])
    if all(part.present is None for part in parts):
        return Numbers(values, None)
    present = [np.ones(p.values.size, bool) if p.present is None else p.present for p in parts]
    return Numbers(values, np.concatenate(present))


def load_pieces(
    storage: Storage,
    file: DataFile,
    footer: footers.Footer,
    index: SeriesIndex,
    pieces: Pieces,
    columns: Sequence[str],
    threads: bool,
) -> pa.Table:
    """Load some columns of the rows of some pieces; their row groups are decoded as wholes."""
    stored = [name for name in columns if name not in INDEXED and name not in index.runs.constants]
    groups = pieces.groups
    with footers.open_parquet(storage, file, footer) as parquet:
        rows = parquet.read_row_groups(groups, columns=stored, use_threads=threads)
    rows.validate(full=True)
    begin, end = footer.edges[groups], footer.edges[np.array(groups, int) + 1]
    # Rows of the file before each group that were not read: a row's number less these is its place in `rows`.
    skipped = begin - np.cumsum(end - begin) + (end - begin)
    place = pieces.row - (skipped if len(groups) == 1 else skipped[np.searchsorted(groups, pieces.group)])
    chosen = _places(place, pieces.length)
    if not isinstance(chosen, slice):
        rows = rows.take(pa.array(chosen))
    elif chosen.stop - chosen.start < len(rows):
        rows = rows.slice(chosen.start, chosen.stop - chosen.start)
    made = table_of([SeriesRows(index, pieces, {})], [name for name in columns if name not in stored])
    return pa.table({name: rows[name] if name in stored else made[name] for name in columns})


def _places(first: Ints, length: Ints) -> slice | Ints:
    """Return the places of the rows of some pieces: a slice where they are neighbours, to copy nothing."""
    count = int(length.sum())
    if not count:
        return slice(0, 0)
    if (first[1:] == (first + length)[:-1]).all():
        return slice(int(first[0]), int(first[0]) + count)
    # The k-th row of all is row k − (rows of the pieces before) of its piece.
    return np.repeat(first - np.cumsum(length) + length, length) + np.arange(count)
