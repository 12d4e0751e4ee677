"""Find rows of a series that are another symbol's of the same venue.

Two rows are the same where venue, instant and value are. The table is searched in blocks of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.analysis.quality.blocks import Columns
from derivdata.support.arrays import Array, Bools, Indices

_RUN = 6  # rows in a row that are another symbol's
_OFTEN = 0.01  # share of a series that has one value too often to tell
_ALIKE = 8  # symbols that share a value, from which it is one of a whole venue
_BLOCK_ROWS = 100_000
_MOST_BLOCKS = 100
_MOST_COUNTED = 300_000
_SAMPLE = 10_000
_SLOTS = 1 << 20
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def rows_of_other_symbols(
    columns: Columns, place: NDArray[np.int32], length: Array, report: pd.DataFrame
) -> Array:
    """Count the rows of each series that are another symbol's of its venue, in runs of `_RUN` and more.

    Values that a series has often, as at its floor, tell nothing and are passed over.

    Parameters
    ----------
    columns
        What is examined of the table.
    place
        Place of each row among the points of all series, one series after the other; −1 of duplicates.
    length
        Number of points of each series.
    report
        The keys of each series.
    """
    counts = np.zeros(len(report), dtype=np.int64)
    if not {"symbol", "exchange"} <= set(report.columns):
        return counts
    venue = report.groupby([name for name in ("exchange", "kind") if name in report]).ngroup().to_numpy()
    same, values, is_alike = _same_rows(columns, place, venue)
    if same.empty:
        return counts
    number = same[["owner", "value"]].merge(values, how="left")["rows"].to_numpy()
    often = number > np.maximum(_OFTEN * length[same["owner"]], 2)
    passed_over = is_alike
    passed_over[same["place"].to_numpy()[often]] = True
    same = same[~often]
    places = same["place"].to_numpy()
    same = same.assign(row=places - np.cumsum(passed_over, dtype=np.int32)[places])
    pairs = same.merge(same, on="match")
    pairs = pairs[pairs["owner_x"] != pairs["owner_y"]].sort_values(["owner_x", "owner_y", "row_x"])
    steps = pairs[["owner_x", "owner_y", "row_x", "row_y"]].diff()
    run = (~(steps == [0, 0, 1, 1]).all(axis=1)).cumsum()
    shared = pairs[run.map(run.value_counts()) >= _RUN].drop_duplicates("row_x")
    return counts + np.bincount(shared["owner_x"], minlength=len(report))


def _same_rows(
    columns: Columns, place: NDArray[np.int32], venue: Indices
) -> tuple[pd.DataFrame, pd.DataFrame, Bools]:
    """Return rows that few symbols share, how often a series has each shared value, and rows that many share.

    The first has a row for each of them: ``match``, equal of rows that are the same, ``owner``, ``value`` and
    ``place``. The last is over the places of points.
    """
    parts: list[pd.DataFrame] = []
    values: list[pd.DataFrame] = []
    is_alike = np.zeros(place.size, dtype=bool)
    matches = 0
    for rows in _blocks_of_time(columns.stamps):
        rows = rows[place[rows] >= 0]
        value = columns.value[rows] + 0.0  # −0 is 0
        owner = columns.series[rows]
        stamps = columns.stamps[rows]
        likely = _likely_same(venue[owner], stamps, value) & ~np.isnan(value)
        rows = rows[likely]
        value = value[likely]
        owner = owner[likely]
        stamps = stamps[likely]
        order = np.lexsort([value, stamps, venue[owner]])
        owner = owner[order]
        value = value[order]
        stamps = stamps[order]
        rows = rows[order]
        of_venue = venue[owner]
        differs = (value[1:] != value[:-1]) | (stamps[1:] != stamps[:-1]) | (of_venue[1:] != of_venue[:-1])
        match = np.cumsum(np.append(0, differs))[: rows.size]
        size = np.bincount(match)[match] if rows.size else match
        frame = pd.DataFrame({"match": match + matches, "owner": owner, "value": value, "place": place[rows]})
        matches += rows.size
        frame = frame[size > 1]
        size = size[size > 1]
        values.append(frame[["owner", "value"]].assign(rows=1))
        if sum(len(counted) for counted in values) > _MOST_COUNTED:
            values = [_counted(values)]
        is_alike[frame["place"].to_numpy()[size > _ALIKE]] = True
        parts.append(frame[size <= _ALIKE])
    return pd.concat(parts, ignore_index=True), _counted(values), is_alike


def _counted(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the number of rows of each series and value."""
    rows = pd.concat(parts, ignore_index=True)
    return rows.groupby(["owner", "value"], as_index=False)["rows"].sum()


def _likely_same(venue: Array, stamps: Array, value: Array) -> Bools:
    """Tell which rows may have another one of their venue, instant and value; few of the others are told so.

    Rows are numbered in the slots of their hashes. A row that finds another number in its slot has company.
    """
    mixed: Any = (stamps.view(np.uint64) + venue.astype(np.uint64)) * _MIX[0]
    mixed = (mixed ^ value.view(np.uint64)) * _MIX[1]
    mixed ^= mixed >> np.uint64(32)
    slot = ((mixed * _MIX[0]) >> np.uint64(44)).astype(np.int32)
    number = np.arange(slot.size, dtype=np.int32)
    last = np.empty(_SLOTS, dtype=np.int32)
    last[slot] = number
    alone = last[slot] == number
    last[slot[~alone]] = -1
    return np.asarray(last[slot] < 0)


def _blocks_of_time(stamps: Array) -> Iterator[Indices]:
    """Iterate over the rows of blocks of time; those of one instant are in one block."""
    most = max(_BLOCK_ROWS, stamps.size // _MOST_BLOCKS)
    if (stamps[1:] >= stamps[:-1]).all():
        ends = np.append(np.searchsorted(stamps, stamps[most::most]), stamps.size)
        for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            yield np.arange(begin, end)
        return
    sample = np.sort(stamps[:: max(stamps.size // _SAMPLE, 1)])
    edges = np.unique(sample[:: max(sample.size * most // stamps.size, 1)])
    number = np.searchsorted(edges[1:], stamps, side="right").astype(np.int16)
    for block in range(edges.size):
        yield np.flatnonzero(number == block)
