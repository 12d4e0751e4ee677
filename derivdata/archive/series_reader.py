"""Read rows that a file's index has found: the columns that it stands for are made, the others decoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from derivdata.archive import footers
from derivdata.archive.manifest import DataFile
from derivdata.archive.series_index import Ints, Pieces, SeriesIndex
from derivdata.archive.storage import Storage

__all__ = ["load_pieces"]


def load_pieces(
    storage: Storage,
    file: DataFile,
    footer: footers.Footer,
    index: SeriesIndex,
    pieces: Pieces,
    columns: Sequence[str],
    threads: bool,
) -> pa.Table:
    """Load some columns of the rows of some pieces."""
    made = _made(index, pieces, columns)
    one_group = pieces.group.size > 0 and pieces.group[0] == pieces.group[-1]  # they are in order
    groups = pieces.group[:1] if one_group else np.unique(pieces.group)
    with footers.open_parquet(storage, file, footer) as parquet:
        stored = [name for name in columns if name not in made]
        rows = parquet.read_row_groups(groups.tolist(), columns=stored, use_threads=threads)
    rows.validate(full=True)
    begin, end = footer.edges[groups], footer.edges[groups + 1]
    # Rows of the file before each group that were not read: a row's number less these is its place in `rows`.
    skipped = begin - np.cumsum(end - begin) + (end - begin)
    place = pieces.row - (skipped if one_group else skipped[np.searchsorted(groups, pieces.group)])
    rows = _picked(rows, place, pieces.length, int((end - begin).sum()))
    return pa.table({name: made[name] if name in made else rows[name] for name in columns})


def _made(index: SeriesIndex, pieces: Pieces, columns: Sequence[str]) -> dict[str, pa.Array]:
    """Return the columns that follow from the index."""
    made = index.columns(pieces, columns)
    for name in columns:
        if name in index.constants:
            zeros = pa.array(np.zeros(pieces.length.sum(), np.int32))
            made[name] = pa.DictionaryArray.from_arrays(zeros, [index.constants[name]])
    return made


def _picked(rows: pa.Table, first: Ints, length: Ints, size: int) -> pa.Table:
    """Return the rows of some pieces in order: a slice, which copies nothing, where they are neighbours."""
    count = int(length.sum())
    if not count:
        return rows.slice(0, 0)
    if (first[1:] == (first + length)[:-1]).all():
        return rows if count == size else rows.slice(int(first[0]), count)
    # The k-th row of all is row k − (rows of the pieces before) of its piece.
    places = np.repeat(first - np.cumsum(length) + length, length) + np.arange(count)
    return rows.take(pa.array(places))
