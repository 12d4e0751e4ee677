"""Rows that a history lacks: runs of missing steps or payments of many series within one window.

A step of a grid is missing where no row of the series lies in it. A payment is missing where the time since
the payment before is two or more of its intervals; between two different intervals the smaller count holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.tables.payment_intervals import HOUR_US, MINUTE_US

__all__ = ["MissingRuns", "grid_runs", "is_off_grid", "payment_runs", "shown_time", "step_text"]

_Array = NDArray[Any]
_WIDE_GAP = 1.5  # intervals: a payment between them is missing
_DAY_US = 24 * HOUR_US


class MissingRuns(NamedTuple):
    """Runs of missing rows, by series and time; and of each series, how many rows its window holds."""

    series: NDArray[np.int64]
    start: NDArray[np.int64]
    """Time of the first missing row [µs]."""
    end: NDArray[np.int64]
    """Time of the next row that is there [µs], or the end of the window."""
    rows: NDArray[np.int64]
    is_head: NDArray[np.bool_]
    """Whether the run is before the first row of its series."""
    is_tail: NDArray[np.bool_]
    """Whether the run is after the last row of its series."""
    expected: NDArray[np.int64]
    """Rows in the window by number of the series, those that are missing included."""

    def of(self, chosen: _Array) -> MissingRuns:
        """Return some of the runs."""
        return MissingRuns(
            self.series[chosen],
            self.start[chosen],
            self.end[chosen],
            self.rows[chosen],
            self.is_head[chosen],
            self.is_tail[chosen],
            self.expected,
        )


def grid_runs(series: _Array, times: _Array, first: int, last: int, step: int) -> MissingRuns:
    """Return the steps of a window ``[first, last)`` [µs] without a row.

    Parameters
    ----------
    series
        Number of each row's series, 0 to n - 1, in any order.
    times
        Times of the rows [µs], in any order, all of them within the window.
    first, last, step
        The window and the step [µs]. Steps are multiples of `step` since 1970.
    """
    low = -(-first // step)
    high = -(-last // step)
    order = np.lexsort((times, series))
    group = np.asarray(series, dtype=np.int64)[order]
    place = np.asarray(times, dtype=np.int64)[order] // step
    leads = np.append(True, group[1:] != group[:-1]) if group.size else np.zeros(0, dtype=bool)
    before = np.where(leads, low - 1, np.append(low - 1, place[:-1])[: place.size])
    inner = _runs(group, before + 1, place, place - before - 1, is_head=leads)
    ends = np.append(leads[1:], True) if group.size else leads
    tail_rows = high - 1 - place[ends]
    tail = _runs(group[ends], place[ends] + 1, np.full(tail_rows.size, high), tail_rows, is_tail=True)
    count = int(np.max(group, initial=-1)) + 1
    expected = np.full(count, max(high - low, 0), dtype=np.int64)
    joined = _joined(inner, tail, expected)
    return joined._replace(start=joined.start * step, end=joined.end * step)


def payment_runs(
    series: _Array, times: _Array, hours: _Array, counts: _Array, first: int, last: int
) -> MissingRuns:
    """Return the payments that a window ``[first, last)`` [µs] lacks.

    Parameters
    ----------
    series, times
        As in `grid_runs`.
    hours
        Hours that each row pays for; NaN where the interval is not known, before which nothing is counted.
    counts
        How many payments a row adds up; 1 for most.
    first, last
        The window [µs].
    """
    order = np.lexsort((times, series))
    group = np.asarray(series, dtype=np.int64)[order]
    stamps = np.asarray(times, dtype=np.int64)[order]
    paid = np.asarray(hours, dtype=np.float64)[order]
    single = paid / np.fmax(np.asarray(counts, dtype=np.float64)[order], 1.0)
    if not group.size:
        nothing = np.zeros(0, dtype=np.int64)
        return _joined(
            _runs(nothing, nothing, nothing, nothing), _runs(nothing, nothing, nothing, nothing), nothing
        )
    leads = np.append(True, group[1:] != group[:-1])
    ends = np.append(leads[1:], True)
    own = np.where(np.isnan(single), np.inf, single) * HOUR_US
    gaps = np.diff(stamps, prepend=stamps[:1]) - np.where(paid > single, paid - single, 0.0) * HOUR_US
    of_own = _count_between(gaps, own)
    of_other = _count_between(gaps, np.append(own[:1], own[:-1]))
    inner_rows = np.where(leads, 0, np.minimum(of_own, of_other))
    starts = np.append(stamps[:1], stamps[:-1]) + np.where(np.isfinite(own), own, 0.0).astype(np.int64)
    inner = _runs(group, starts, stamps, inner_rows)
    early = np.floor((stamps[leads] - first) / own[leads]).astype(np.int64)
    start = stamps[leads] - early * np.where(np.isfinite(own[leads]), own[leads], 0.0).astype(np.int64)
    head = _runs(group[leads], start, stamps[leads], early, is_head=True)
    late = np.floor((last - 1 - stamps[ends]) / own[ends]).astype(np.int64)
    after = stamps[ends] + np.where(np.isfinite(own[ends]), own[ends], 0.0).astype(np.int64)
    tail = _runs(group[ends], after, np.full(late.size, last), late, is_tail=True)
    expected = np.bincount(group)
    for runs in (head, inner, tail):
        np.add.at(expected, runs.series, runs.rows)
    return _joined(_joined(head, inner, expected), tail, expected)


def is_off_grid(times: _Array, step: int) -> NDArray[np.bool_]:
    """Return which times [µs] are not a multiple of a step since 1970."""
    return np.asarray(np.asarray(times, dtype=np.int64) % step != 0)


def step_text(step: int) -> str:
    """Return the length of a step [µs] with its unit: ``"1 h"``, ``"5 min"``."""
    for length, unit in ((_DAY_US, "d"), (HOUR_US, "h")):
        if step % length == 0:
            return f"{step // length} {unit}"
    return f"{step / MINUTE_US:g} min"


def shown_time(stamp: int) -> str:
    """Return a time [µs] as text, to the minute, in UTC."""
    return str(np.datetime64(int(stamp), "us").astype("datetime64[m]")).replace("T", " ")


def _count_between(gaps: _Array, interval: _Array) -> NDArray[np.int64]:
    """Return how many payments are missing in gaps [µs] of payments with an interval [µs]."""
    ratio = gaps / interval
    return np.where(ratio > _WIDE_GAP, np.rint(ratio) - 1.0, 0.0).astype(np.int64)


def _runs(
    series: _Array,
    start: _Array,
    end: _Array,
    rows: _Array,
    *,
    is_head: _Array | bool = False,
    is_tail: bool = False,
) -> MissingRuns:
    chosen = rows > 0
    heads = np.broadcast_to(np.asarray(is_head), chosen.shape)
    tails = np.full(chosen.shape, is_tail)
    whole = MissingRuns(series, start, end, rows, heads, tails, np.zeros(0, dtype=np.int64))
    return whole.of(chosen)


def _joined(some: MissingRuns, others: MissingRuns, expected: Sequence[int] | _Array) -> MissingRuns:
    whole = MissingRuns(
        np.concatenate([some.series, others.series]),
        np.concatenate([some.start, others.start]),
        np.concatenate([some.end, others.end]),
        np.concatenate([some.rows, others.rows]),
        np.concatenate([some.is_head, others.is_head]),
        np.concatenate([some.is_tail, others.is_tail]),
        np.asarray(expected, dtype=np.int64),
    )
    return whole.of(np.lexsort((whole.start, whole.series)))
