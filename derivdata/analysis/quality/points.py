"""Points of all series of a table: collected from its rows, in batches of similar length, on common steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.analysis.quality.series import Batch
from derivdata.support.arrays import Array, Floats, Indices

__all__ = ["Points", "collect_points"]

_BATCH = 2_000_000  # points examined at once, padding included
_MOST_CELLS = 50_000_000  # of the venues of one symbol over their common steps
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
    """Collect the points of each series, the first of those at one instant, and count duplicates."""
    stamps = np.asarray(table["time"].dt.as_unit("us").array.asi8)
    value = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
    stated = np.full(len(table), np.nan)
    if "interval_hours" in table.columns:
        stated = table["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
    order = np.lexsort([stamps, codes])  # stable: of rows at one instant the first in the table stays first
    order = order[codes[order] >= 0]
    repeated = np.zeros(len(table), dtype=bool)
    repeated[order[1:]] = (np.diff(codes[order]) == 0) & (np.diff(stamps[order]) == 0)
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
