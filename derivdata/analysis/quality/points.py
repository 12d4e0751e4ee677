"""Points of series, read from a table in blocks of whole series, in batches of similar length.

Of missing points, an archive's ledger says which times were never requested: nothing is known of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.analysis.quality.series import Batch
from derivdata.support import times
from derivdata.support.arrays import Array, Bools, Floats, Indices
from derivdata.tables.frames import require_columns

Numbers: TypeAlias = NDArray[np.int16] | NDArray[np.int32]
"""Of the series of rows: two bytes are enough for most tables."""

_BLOCK_ROWS = 150_000
_MOST_BLOCKS = 64  # each of them is one pass over the numbers of the series
_CHUNK = 1_000_000
_MOST_COMBINATIONS = 1 << 22


class Columns(NamedTuple):
    """Columns of a table that are examined, in the order of its rows."""

    series: Numbers
    """Number of each row's series, −1 where a key is missing."""
    stamps: Array
    """Microseconds since 1970."""
    value: Floats
    stated: Floats | None
    """Hours that the table states for the step up to each row; None where it states none."""
    settled: Bools | None
    """Which rows are settlements; None where the table does not say it."""
    expiry: Array | None
    """Microseconds since 1970 after which a series has no rows, NaT for none."""


class Block(NamedTuple):
    """Rows of some series that follow one another: all of the series of some symbols."""

    rows: Indices
    """In the order of the table."""
    first: int
    """Number of the first series."""
    number: int
    """How many series there are."""


def columns_of(table: pd.DataFrame, column: str, series: Numbers) -> Columns:
    """Return what is examined of a table; columns that have the right type are not copied."""
    stated = settled = expiry = None
    if "interval_hours" in table.columns:
        stated = table["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
        if "kind" in table.columns:  # sampled rates state an interval too, and may be polled each second
            settled = (table["kind"] == "settled").to_numpy(dtype=bool, na_value=False)
    if "expiry" in table.columns:
        expiry = times.stamps_of(table["expiry"])
    stamps = times.stamps_of(table["time"])
    value = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
    return Columns(series, stamps, value, stated, settled, expiry)


def numbered_series(table: pd.DataFrame, keys: Sequence[str]) -> tuple[Numbers, Indices]:
    """Return the number of each row's series in the order of the keys, and the first row of each series.

    A row without a key has the number −1. Without keys all rows are one series.
    """
    series: Any = np.zeros(len(table), dtype=np.int32)
    number = min(len(table), 1)
    for key in keys:
        places, labels = _places(table[key])
        combinations = number * max(labels, 1)
        series = series.astype(np.int64 if combinations > np.iinfo(np.int32).max else np.int32, copy=False)
        series *= max(labels, 1)  # what is below zero stays so: the place of a label is below their number
        np.add(series, places, out=series, casting="same_kind")
        series[places < 0] = -1
        series, number = _renumbered(series, combinations)
    first = np.full(number, -1, dtype=np.intp)
    starts = range(0, len(table), _CHUNK)
    for start in reversed(starts):  # the last assignment of a series wins, so the rows are assigned backwards
        part = series[start : start + _CHUNK][::-1]
        rows = np.arange(start + part.size - 1, start - 1, -1)
        kept = part >= 0
        first[part[kept]] = rows[kept]
    few = number <= np.iinfo(np.int16).max
    return series.astype(np.int16, copy=False) if few else series, first


def _places(values: pd.Series) -> tuple[Any, int]:
    """Return the place of each value among the labels, −1 of a missing one, and the number of labels."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), len(values.cat.categories)
    places, labels = pd.factorize(values, sort=True)
    return places, len(labels)


def _renumbered(series: Any, combinations: int) -> tuple[Numbers, int]:
    """Replace each combination by its place among those that occur, and those below zero by −1."""
    if combinations > _MOST_COMBINATIONS:
        places, labels = pd.factorize(np.where(series < 0, -1, series), sort=True)
        lacking = bool(labels.size) and labels[0] == -1
        return (places - lacking).astype(np.int32), labels.size - lacking
    occurs = np.zeros(combinations + 1, dtype=bool)
    for start in range(0, series.size, _CHUNK):
        occurs[np.maximum(series[start : start + _CHUNK], -1)] = True  # −1 is the last place
    occurs[-1] = False
    place = np.cumsum(occurs, dtype=np.int32) - 1
    place[-1] = -1
    for start in range(0, series.size, _CHUNK):
        part = series[start : start + _CHUNK]
        part[:] = place[np.maximum(part, -1)]
    return series.astype(np.int32, copy=False), int(occurs.sum())


def blocks(series: Numbers, groups: Indices) -> Iterator[Block]:
    """Iterate over blocks of series that belong together.

    Parameters
    ----------
    series
        Number of each row's series.
    groups
        Number of each series' group, ascending: series of one group are in one block.
    """
    size = np.zeros(groups.size, dtype=np.int64)
    for start in range(0, series.size, _CHUNK):
        part = series[start : start + _CHUNK]
        size += np.bincount(part[part >= 0], minlength=groups.size)
    most = max(_BLOCK_ROWS, series.size // _MOST_BLOCKS)
    begins = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size)
    first = 0
    while first < groups.size:
        total = np.cumsum(size[first:])
        fitting = begins[(begins > first) & (total[np.maximum(begins - first - 1, 0)] <= most)]
        stop = int(fitting[-1] if fitting.size else begins[begins > first][0])
        rows = np.flatnonzero((series >= first) & (series < stop))
        yield Block(rows, first, stop - first)
        first = stop


_BATCH = 300_000  # points examined at once, padding included
_MOST_CELLS = 50_000_000  # of the venues of one symbol over their common steps
_LATE = 60e6  # µs within which two settlements are one
_PAGE = 5  # rows in a row that came before: a page of an answer came twice


class Points(NamedTuple):
    """Points of some series, one series after the other, each in order of time without repeats."""

    stamps: Array
    value: Floats
    stated: Floats | None
    """Hours that the table states for the step up to each row, NaN for none; None where it states none."""
    bounds: Indices
    """Where each series begins, and the end of the last."""

    def batches(self) -> Iterator[tuple[Indices, Batch, Floats | None]]:
        """Iterate over series of similar length: their numbers, a `Batch` of them and the stated hours."""
        length = np.diff(self.bounds)
        order = np.argsort(length, kind="stable")
        first = 0
        while first < order.size:
            # Lengths ascend: take series until one is over twice as long as the first, so that padding at
            # most doubles a series, or until the batch is full.
            last = first + 1
            while (
                last < order.size
                and length[order[last]] <= 2 * length[order[first]]
                and length[order[last]] * (last + 1 - first) <= _BATCH
            ):
                last += 1
            rows = order[first:last]
            places = np.arange(length[rows[-1]])
            there = places < length[rows][:, None]
            at = np.where(there, self.bounds[rows][:, None] + places, self.bounds[rows + 1][:, None] - 1)
            value = np.where(there, self.value[at], np.nan)
            stated = None if self.stated is None else self.stated[at][:, 1:]
            yield rows, Batch(self.stamps[at], value, there), stated
            first = last

    def side_by_side(self, rows: Indices, bucket: int) -> tuple[int, Floats]:
        """Return series on common steps: the number of the first step since 1970, the last value in each."""
        bounds = [(self.bounds[row], self.bounds[row + 1]) for row in rows]
        points = np.concatenate([np.arange(*bound) for bound in bounds])
        points = points[np.isfinite(self.value[points])]
        if not points.size:
            return 0, np.full((len(rows), 0), np.nan)
        steps = self.stamps[points] // bucket
        first = int(steps.min())
        width = int(np.ptp(steps)) + 1
        if width * len(rows) > _MOST_CELLS:
            return 0, np.full((len(rows), 0), np.nan)
        values = np.full((len(rows), width), np.nan)
        venue = np.searchsorted([begin for begin, _ in bounds], points, side="right") - 1
        values[venue, steps - first] = self.value[points]  # the last assignment of a step wins
        return first, values


def collect_points(columns: Columns, block: Block) -> tuple[Points, Indices, dict[str, Any]]:
    """Collect the points of each series of a block, the first of those at one instant.

    Returns also the row of each point in the table, and by series the number of duplicates, of those with
    another value, and of pages that came twice. Settlements within a minute of each other represent one
    instant.
    """
    number = block.number
    code = columns.series[block.rows] - block.first
    if number <= np.iinfo(np.int16).max:
        code = code.astype(np.int16)  # numpy sorts two bytes by radix
    stamps = columns.stamps[block.rows]
    in_order = bool((stamps[1:] >= stamps[:-1]).all())
    # Stable: of rows at one instant the first in the table stays first.
    order = np.argsort(code, kind="stable") if in_order else np.lexsort([stamps, code])
    code = code[order]
    stamps = stamps[order]
    rows = block.rows[order]
    value = columns.value[rows]
    stated = _stated_hours(columns, rows)
    repeated = np.zeros(rows.size, dtype=bool)
    # One payment stamped twice, some seconds apart: settlements say how long they pay for, which is longer.
    late: Any = (
        0.0 if stated is None else np.where(stated > 0.0, np.minimum(_LATE, 0.05 * stated * 3_600e6), 0.0)[1:]
    )
    repeated[1:] = (code[1:] == code[:-1]) & (np.diff(stamps) <= late)
    counts = dict.fromkeys(("duplicates", "conflicts", "repeated_pages"), np.zeros(number, dtype=np.int64))
    if repeated.any():
        counts = _count_repeated(code, value, repeated, order, number)
        distinct = ~repeated
        code = code[distinct]
        stamps = stamps[distinct]
        value = value[distinct]
        rows = rows[distinct]
        stated = None if stated is None else stated[distinct]
    stated = None if stated is None else np.where(stated > 0.0, stated, np.nan)
    bounds = np.searchsorted(code, np.arange(number + 1))
    return Points(stamps, value, stated, bounds), rows, counts


def _stated_hours(columns: Columns, rows: Indices) -> Floats | None:
    if columns.stated is None:
        return None
    stated = columns.stated[rows]
    return stated if columns.settled is None else np.where(columns.settled[rows], stated, np.nan)


def _count_repeated(
    code: Array, value: Floats, repeated: Bools, order: Indices, number: int
) -> dict[str, Array]:
    """Count duplicates, conflicts and repeated pages by series, of rows in the order of series and times.

    A page that came twice is a run of rows, in the order of the table, that repeat earlier rows with the same
    value.
    """
    original = value[~repeated][np.cumsum(~repeated) - 1]  # of the first row of the same series and instant
    same = repeated & ((value == original) | (np.isnan(value) & np.isnan(original)))
    by_series = np.lexsort([order, code])  # each series in the order of the table
    flags = same[by_series]
    owner = code[by_series]
    begins = flags & np.append(True, ~flags[:-1] | (owner[1:] != owner[:-1]))
    lengths = np.bincount((np.cumsum(begins) - 1)[flags], minlength=int(begins.sum()))
    pages = owner[begins][lengths >= _PAGE]
    counted = {"duplicates": code[repeated], "conflicts": code[repeated & ~same], "repeated_pages": pages}
    return {name: np.bincount(rows, minlength=number) for name, rows in counted.items()}


def answered_windows(requests: pd.DataFrame, series: pd.DataFrame) -> list[Array]:
    """Return for each series the answered windows [µs], one a row, in order, those that touch as one.

    `requests` is the ledger (a missing symbol represents all), `series` has the ``symbol`` and ``exchange``
    of each series, as far as the table has them.
    """
    others = ("exchange", "start", "end", "answered")
    require_columns(requests, "requests", others=others, any_kind=("symbol",))
    if "table" in requests and requests["table"].nunique() > 1:
        names = ", ".join(sorted(requests["table"].unique()))
        raise ValueError(f"requests are of several tables ({names}): pass the rows of this table")
    answered = requests[requests["answered"].astype(bool)]
    start, end = (answered[name].dt.as_unit("us").array.asi8 for name in ("start", "end"))
    result = []
    for row in range(len(series)):
        chosen = np.ones(len(answered), dtype=bool)
        if "exchange" in series:
            chosen &= (answered["exchange"] == series["exchange"].iloc[row]).to_numpy(dtype=bool)
        if "symbol" in series:
            about = answered["symbol"].isna() | (answered["symbol"] == series["symbol"].iloc[row])
            chosen &= about.to_numpy(dtype=bool)
        result.append(_union(start[chosen], end[chosen]))
    return result


def count_not_requested(stamps: Array, gaps: Floats, steps: Floats, windows: Sequence[Array]) -> Array:
    """Count the missing rows of each series whose instants lie in none of its windows."""
    counts = np.zeros(len(stamps))
    for row, answered in enumerate(windows):
        known = np.isfinite(gaps[row])
        lacking = np.zeros(gaps.shape[1], dtype=np.int64)
        lacking[known] = np.maximum(np.round(gaps[row][known] / steps[row][known]) - 1.0, 0.0)
        holes = np.flatnonzero(lacking)
        number = np.concatenate([np.arange(1, lacking[hole] + 1) for hole in holes] or [np.zeros(0)])
        hole = np.repeat(holes, lacking[holes])
        instants = stamps[row][hole] + steps[row][hole] * number
        before = np.searchsorted(answered[:, 0], instants, side="right") - 1
        inside = before >= 0
        inside[inside] = instants[inside] < answered[before[inside], 1]
        counts[row] = (~inside).sum()
    return counts


def _union(start: Array, end: Array) -> Array:
    """Return windows as rows in order, those that touch or overlap as one."""
    order = np.argsort(start, kind="stable")
    start = start[order]
    end = np.maximum.accumulate(end[order]) if end.size else end
    begins = np.append(True, start[1:] > end[:-1])[: start.size]
    last = np.append(begins[1:], True)[: start.size]
    return np.stack([start[begins], end[last]], axis=1)
