"""Points of all series of a table: collected from its rows, in batches of similar length, on common steps.

Of missing points, an archive's ledger says which times were never requested: nothing is known of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.analysis.quality.series import Batch
from derivdata.support.arrays import Array, Floats, Indices
from derivdata.tables.required import require_columns

_BATCH = 2_000_000  # points examined at once, padding included
_MOST_CELLS = 50_000_000  # of the venues of one symbol over their common steps
_LATE = 60e6  # µs within which two settlements are one
_RUN, _OFTEN = 6, 0.01  # rows that are another symbol's; share of a series that has one value too often
_ALIKE = 8
_PAGE = 5  # rows in a row that came before: a page of an answer came twice


class Points(NamedTuple):
    """Points of all series, one series after the other, each in order of time without repeats."""

    stamps: Array
    value: Floats
    stated: Floats
    """Hours that the table states for the step up to each row, NaN for none."""
    bounds: Indices
    """Where each series begins, and the end of the last."""

    def batches(self) -> Iterator[tuple[Indices, Batch, Floats]]:
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
            yield rows, Batch(self.stamps[at], value, there), self.stated[at][:, 1:]
            first = last

    def side_by_side(self, rows: Indices, bucket: int) -> tuple[int, Floats]:
        """Return series on common steps: the number of the first step since 1970, the last value in each."""
        bounds = [(self.bounds[row], self.bounds[row + 1]) for row in rows]
        points = np.concatenate([np.arange(*bound) for bound in bounds])
        points = points[np.isfinite(self.value[points])]
        if not points.size:
            return 0, np.full((len(rows), 0), np.nan)
        steps = self.stamps[points] // bucket
        first, width = int(steps.min()), int(np.ptp(steps)) + 1
        if width * len(rows) > _MOST_CELLS:
            return 0, np.full((len(rows), 0), np.nan)
        values = np.full((len(rows), width), np.nan)
        venue = np.searchsorted([begin for begin, _ in bounds], points, side="right") - 1
        values[venue, steps - first] = self.value[points]  # the last assignment of a step wins
        return first, values


def collect_points(
    table: pd.DataFrame, column: str, codes: Indices, number: int
) -> tuple[Points, dict[str, Any]]:
    """Collect the points of each series, the first of those at one instant, and count duplicates.

    Settlements within a minute of each other stand for one instant.
    """
    stamps = np.asarray(table["time"].dt.as_unit("us").array.asi8)
    value = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
    stated = np.full(len(table), np.nan)
    if "interval_hours" in table.columns:
        stated = table["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
    if "kind" in table.columns:  # sampled rates state an interval too, and may be polled each second
        stated = np.where(table["kind"] == "settled", stated, np.nan)
    order = np.lexsort([stamps, codes])  # stable: of rows at one instant the first in the table stays first
    order = order[codes[order] >= 0]
    repeated = np.zeros(len(table), dtype=bool)
    # One payment stamped twice, some seconds apart: settlements say how long they pay for, which is longer.
    late = np.where(stated > 0.0, np.minimum(_LATE, 0.05 * stated * 3_600e6), 0.0)
    repeated[order[1:]] = (np.diff(codes[order]) == 0) & (np.diff(stamps[order]) <= late[order[1:]])
    distinct = order[~repeated[order]]
    bounds = np.searchsorted(codes[distinct], np.arange(number + 1))
    series = Points(
        stamps[distinct], value[distinct], np.where(stated > 0.0, stated, np.nan)[distinct], bounds
    )
    counts = dict.fromkeys(("duplicates", "conflicts", "repeated_pages"), np.zeros(number, dtype=np.int64))
    if not repeated.any():
        return series, counts
    # A page that came twice: a run of rows, in the order of the table, that repeat earlier rows with the same
    # value. `original` is the value of the first row of the same series and instant.
    original = np.empty(len(table))
    original[order] = value[distinct][np.cumsum(~repeated[order]) - 1]
    same = repeated & ((value == original) | (np.isnan(value) & np.isnan(original)))
    by_series = np.argsort(codes, kind="stable")  # each series in the order of the table
    flags, owner = same[by_series], codes[by_series]
    begins = flags & np.append(True, ~flags[:-1] | (np.diff(owner) != 0))
    lengths = np.bincount((np.cumsum(begins) - 1)[flags], minlength=int(begins.sum()))
    pages = owner[begins][lengths >= _PAGE]
    counted = {"duplicates": codes[repeated], "conflicts": codes[repeated & ~same], "repeated_pages": pages}
    return series, {name: np.bincount(rows, minlength=number) for name, rows in counted.items()}


def rows_of_other_symbols(points: Points, report: pd.DataFrame) -> Array:
    """Count the rows of each series that are another symbol's of its venue, in runs of `_RUN` and more.

    Values that a series has often, as at its floor, tell nothing and are passed over.
    """
    counts = np.zeros(len(report), dtype=np.int64)
    if not {"symbol", "exchange"} <= set(report.columns):
        return counts
    length = np.diff(points.bounds)
    owner = np.repeat(np.arange(len(report)), length)
    venue = report.groupby([name for name in ("exchange", "kind") if name in report]).ngroup().to_numpy()
    at = {"venue": venue[owner], "time": points.stamps, "value": points.value}
    frame = pd.DataFrame({**at, "owner": owner})
    same = frame[frame.duplicated(list(at), keep=False) & frame["value"].notna()]
    often = same.groupby(["owner", "value"])["time"].transform("size")
    often = (often > np.maximum(_OFTEN * length[same["owner"]], 2)) | (
        same.groupby(list(at))["owner"].transform("size") > _ALIKE  # one value of a whole venue
    )
    told = np.ones(len(frame), dtype=np.int64)
    told[same.index[often]] = 0
    same = same[~often].assign(row=np.cumsum(told)[same.index[~often]])
    pairs = same.merge(same, on=list(at))
    pairs = pairs[pairs["owner_x"] != pairs["owner_y"]].sort_values(["owner_x", "owner_y", "row_x"])
    steps = pairs[["owner_x", "owner_y", "row_x", "row_y"]].diff()
    run = (~(steps == [0, 0, 1, 1]).all(axis=1)).cumsum()
    shared = pairs[run.map(run.value_counts()) >= _RUN].drop_duplicates("row_x")
    return counts + np.bincount(shared["owner_x"], minlength=len(report))


def answered_windows(requests: pd.DataFrame, series: pd.DataFrame) -> list[Array]:
    """Return for each series the answered windows [µs], one a row, in order, those that touch as one.

    `requests` is the ledger (a missing symbol stands for all), `series` has the ``symbol`` and ``exchange``
    of each series, as far as the table has them.
    """
    others = ("exchange", "start", "end", "answered")
    require_columns(requests, "requests", others=others, any_kind=("symbol",))
    if "table" in requests and requests["table"].nunique() > 1:
        names = ", ".join(sorted(requests["table"].unique()))
        raise ValueError(f"requests are of several tables ({names}): give the rows of this table")
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
    start, end = start[order], np.maximum.accumulate(end[order]) if end.size else end
    begins = np.append(True, start[1:] > end[:-1])[: start.size]
    last = np.append(begins[1:], True)[: start.size]
    return np.stack([start[begins], end[last]], axis=1)
