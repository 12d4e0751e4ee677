"""Statistics of sliding windows in numpy, and z-scores of rates against their own past.

A sum over `w` rows is built from sums over 1, 2, 4, ... rows. Nothing is subtracted from a running total, so
values outside of a window never affect it.

Medians and median absolute deviations use sorted windows. A window that moves on by one row loses one value
and gains one, and a sorted array can be updated in a few passes of minima and maxima. The deviations from its
median need no sorting, because the values closest to a number are adjacent in a sorted array. Many windows
that are far apart in time move together, as small integer ranks instead of values.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from derivdata.analysis.panels import Panel, figures_of, require, window_rows
from derivdata.analysis.settlements import at_common_stamps
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats, Indices

_CANCELLED = 1e-5  # share of the squares below which the result is recomputed exactly
_RUNS = 4_096  # windows per batch of the exact computation


def sliding(combine: np.ufunc, values: NDArray[Any], window: int) -> NDArray[Any]:
    """Apply `combine` (add, maximum, minimum) to every run of `window` values on the last axis.

    The result is ``window − 1`` shorter; entry i covers ``values[..., i : i + window]``.
    """
    # `window` in binary lists the runs of 1, 2, 4, ... rows that add up to it: with window = 13 = 0b1101 the
    # runs of 1, 4 and 8. `power` has the sums over runs of `span` rows, made by adding sums of half the
    # length to themselves, half a run later. For each set bit, `part` (the runs that begin after the `done`
    # rows already in the total) is added. Nothing is subtracted, so a window is not affected by values
    # outside it.
    total = values
    power = values
    done = 0
    for bit in range(window.bit_length()):
        span = 1 << bit
        if window & span:
            shifted = power[..., done : values.shape[-1] - span + 1]
            total = combine(total[..., : shifted.shape[-1]], shifted) if done else shifted
            done += span
        if window >> (bit + 1):
            power = combine(power[..., :-span], power[..., span:])
    return total[..., : values.shape[-1] - window + 1]


def mean_and_deviation(values: Floats, window: int, minimum: int) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation (n − 1) of every run of `window` values along each row.

    NaN is ignored; fewer than `minimum` values give NaN. The relative error of the deviation is about 1e-10,
    and it is exactly 0 if all values are equal.
    """
    # Sums are relative to the mean of the first window: squares relative to 0 would lose all digits of a
    # level that is large compared with its moves. If a window has moved so far that its squares still cancel
    # (`lost`), or nothing moves, it is computed again exactly.
    finite = values == values
    lead = np.sum(values[:, :window], axis=-1, where=finite[:, :window], keepdims=True)
    centre = lead / np.maximum(finite[:, :window].sum(axis=-1, keepdims=True), 1)
    if (finite == finite[:1]).all():
        finite = finite[:1]
    about = np.where(finite, values - centre, 0.0)
    sums = sliding(np.add, about, window)
    squares = sliding(np.add, about**2, window)
    count = sliding(np.add, finite.astype(np.int16 if window < 2**15 else np.int32), window)
    number = np.where(count < minimum, np.nan, count)  # results divided by it are then NaN
    mean = sums / number
    left = squares - sums * mean
    lost = left < _CANCELLED * squares
    mean = mean + centre
    deviation = np.sqrt(left / (number - 1.0))
    if lost.any():
        _retake(values, window, lost, mean, deviation)
    return mean, deviation


def _retake(values: Floats, window: int, lost: Bools, mean: Floats, deviation: Floats) -> None:
    """Recompute, in place, the mean and deviation of the windows `lost` to rounding."""
    # 1. Windows of one value have it as their mean, and deviation 0.
    rows = np.flatnonzero(lost.any(axis=-1))
    is_missing = np.isnan(values[rows])
    high = sliding(np.maximum, np.where(is_missing, -np.inf, values[rows]), window)
    low = sliding(np.minimum, np.where(is_missing, np.inf, values[rows]), window)
    is_constant = lost[rows] & (high == low)
    row, column = np.nonzero(is_constant)
    mean[rows[row], column] = high[is_constant]
    deviation[rows[row], column] = 0.0

    # 2. Compute the others window by window.
    row, column = np.nonzero(lost[rows] & ~is_constant)
    windows = sliding_window_view(values, window, axis=-1)
    for start in range(0, row.size, _RUNS):
        at = rows[row[start : start + _RUNS]], column[start : start + _RUNS]
        mean[at] = np.nanmean(windows[at], axis=-1)
        deviation[at] = np.nanstd(windows[at], axis=-1, ddof=1)


_MAD_TO_STD = 1.482602218505602  # 1 / Φ⁻¹(3/4)
_LANES = 1024  # windows that are processed together
_RANKS = 1_048_576  # maximum number of ranks in these windows

_Ranks = NDArray[np.unsignedinteger[Any]]


def median_and_deviation(values: Floats, window: int, minimum: int) -> tuple[Floats, Floats]:
    """Return median and 1.4826 × median absolute deviation of every run of `window` values along each row.

    NaN is ignored; fewer than `minimum` values give NaN.
    """
    rows = values.shape[0]
    count = values.shape[1] - window + 1
    lanes = max(1, min(_LANES, _RANKS // window))
    steps = max(1, math.ceil(rows * count / lanes))
    blocks = math.ceil(count / steps)
    # Each row is divided into parts of `steps` windows, one per lane. Missing values are +inf, which sorts to
    # the end of a window, beyond the ranks of the known values.
    longer = np.full((rows, blocks * steps + window - 1), np.inf)
    np.copyto(longer[:, : values.shape[1]], values, where=np.isfinite(values))
    runs = sliding_window_view(longer, steps + window - 1, axis=-1)[:, ::steps].reshape(rows * blocks, -1)
    centre, spread = np.empty((2, steps, len(runs)))
    for first in range(0, len(runs), lanes):
        part = slice(first, first + lanes)
        _follow(runs[part], window, minimum, centre[:, part], spread[:, part])
    shape = (rows, blocks * steps)
    return centre.T.reshape(shape)[:, :count], spread.T.reshape(shape)[:, :count]


def _follow(values: Floats, window: int, minimum: int, centre: Floats, spread: Floats) -> None:
    """Move one window along each row of `values`, and write a row of results at every step."""
    lanes, length = values.shape
    finite = np.isfinite(values).T.copy()
    order = np.argsort(values, axis=-1)
    ranks = np.empty((lanes, length), np.uint16 if length < 2**16 else np.uint32)
    np.put_along_axis(ranks, order, np.arange(length, dtype=ranks.dtype)[None], axis=-1)
    ranks = ranks.T.copy()
    # `ordered` has the value of each rank, and +inf beyond the end of a window.
    ordered = np.full((lanes, length + 1), np.inf)
    ordered[:, :-1] = np.take_along_axis(values, order, axis=-1)
    ranked = np.full((window + 1, lanes), length, ranks.dtype)
    ranked[:-1] = np.sort(ranks[:window], axis=0)
    count = finite[:window].sum(axis=0)
    scratch = np.empty((2, window - 1, lanes), ranks.dtype)
    for step in range(len(centre)):
        if step:
            old = step - 1
            new = step + window - 1
            _slide(ranked[:-1], ranks[old], ranks[new], scratch)
            count = count + finite[new] - finite[old]
        median, deviation = _figures(ranked, ordered, count)
        few = count < minimum
        centre[step] = np.where(few, np.nan, median)
        spread[step] = np.where(few, np.nan, _MAD_TO_STD * deviation)


def _slide(ranked: _Ranks, old: _Ranks, new: _Ranks, scratch: _Ranks) -> None:
    """Remove `old` from each sorted column and insert `new`."""
    rest, other = scratch
    # Without `old` all ranks behind it move up. Before it, the lesser of a rank and `old` is the rank, and
    # the greater of the next one and `old` is `old`; from it on the other way round. So two of the three
    # numbers in the XOR are `old`, and the third remains.
    np.minimum(ranked[:-1], old, out=rest)
    np.maximum(ranked[1:], old, out=other)
    np.bitwise_xor(rest, other, out=rest)
    np.bitwise_xor(rest, old, out=rest)
    # Position j then has its own value if `new` is above it, the previous value if `new` is below that one,
    # otherwise `new`.
    np.minimum(rest, new, out=other)
    ranked[0] = other[0]
    np.maximum(rest[:-1], other[1:], out=ranked[1:-1])
    np.maximum(rest[-1], new, out=ranked[-1])


def _figures(ranked: _Ranks, ordered: Floats, count: Indices) -> tuple[Floats, Floats]:
    """Return the median of the first `count` values of each sorted window, and of the distances from it."""
    lane = np.arange(len(count))
    row = lane * ordered.shape[1]

    def at(place: Indices) -> Floats:
        return np.asarray(ordered.take(row + ranked.take(place * len(lane) + lane)))

    median = 0.5 * (at(np.maximum(count - 1, 0) // 2) + at(count // 2))
    # The `half` values nearest the median are adjacent, from position `low` on. Bisection finds `low`: move
    # up while the first of them is farther from the median than the value after the last.
    half = (count + 1) // 2
    low = np.zeros_like(count)
    high = count - half
    for _ in range(int(np.max(high)).bit_length()):
        middle = (low + high) >> 1
        farther = median - at(middle) > at(middle + half) - median
        low = np.where(farther, middle + 1, low)
        high = np.where(farther, high, middle)
    nearest = np.maximum(median - at(low), at(np.maximum(low + half - 1, 0)) - median)
    before = np.where(low > 0, median - at(np.maximum(low - 1, 0)), np.inf)
    following = np.minimum(before, at(low + half) - median)  # the nearest remaining value
    return median, np.where(count % 2, nearest, 0.5 * (nearest + following))


_LEVEL = 1e-9  # relative deviation below which a series counts as constant
_BLOCK, _BLOCK_ROBUST = 131_072, 262_144  # elements of a window's rows per batch
_WIDE = 10_240
_WIDE_ROBUST = 4_096


@typed
def zscore(
    panel: Panel,
    window: str | pd.Timedelta | None = None,
    *,
    rows: int | None = None,
    lag_rows: int = 1,
    robust: bool = False,
    min_rows: int | None = None,
) -> xr.DataArray:
    """Compute z-scores against the mean and standard deviation of the preceding window.

    Parameters
    ----------
    panel
        Values with dim ``time`` at regular steps, in memory or lazy (time is put into one chunk). Settlements
        stamped up to a minute past a whole hour count at that hour.
    window, rows
        Length of the window: a time such as ``"7d"``, a whole number of the panel's steps, or a number of
        rows of at least 2.
    lag_rows
        Rows between a value and the end of its window. With 1 (default) the window ends on the row before, so
        that the value does not reduce its own score. 0 includes the value.
    robust
        Whether to use the median and 1.4826 × the median absolute deviation instead of the mean and the
        standard deviation (n − 1).
    min_rows
        Minimum number of values in a window; by default half of its rows, but at least 2.

    Returns
    -------
    DataArray, the panel's dims
        z-scores [1]. NaN where the value is NaN, and where the window has too few values or is constant
        (deviation < 1e-9).

    Raises
    ------
    TypeError, ValueError
        `panel` has no ``time``, or times that do not ascend without duplicates; the window, `lag_rows` or
        `min_rows` are out of range.
    """
    panel = at_common_stamps(require(panel, "time"))
    rows, minimum = window_rows(panel, window, rows, min_rows)
    if lag_rows < 0:
        raise ValueError(
            "lag_rows must be 0 or more, because a value must not be scored against later ones, got "
            f"{lag_rows!r}"
        )
    kernel = partial(_zscore, window=rows, lag=lag_rows, minimum=minimum, robust=robust)
    return figures_of(kernel, panel, units={"zscore": "1"}, into={"time": None})["zscore"]


def _zscore(values: Floats, *, window: int, lag: int, minimum: int, robust: bool) -> Floats:
    """Compute scores block by block, so that the data stays in the processor's cache."""
    if not values.size:
        return np.empty(values.shape)
    rows = np.ascontiguousarray(values.reshape(-1, values.shape[-1]), dtype=np.float64)
    score = np.empty(rows.shape)
    length = rows.shape[-1]
    wide = max(1, min(length, max(4 * window, _WIDE_ROBUST) if robust else max(16 * window, _WIDE)))
    tall = max(1, (_BLOCK_ROBUST if robust else _BLOCK) // (wide + window))
    figures = median_and_deviation if robust else mean_and_deviation
    with np.errstate(invalid="ignore", divide="ignore"):
        for row, start in itertools.product(range(0, len(rows), tall), range(0, length, wide)):
            block = rows[row : row + tall]
            stop = min(start + wide, length)
            centre, spread = figures(_rows(block, start - lag - window + 1, stop - lag), window, minimum)
            away = block[:, start:stop] - centre
            score[row : row + tall, start:stop] = away / np.where(spread < _LEVEL, np.nan, spread)
    return score.reshape(values.shape)


def _rows(values: Floats, start: int, stop: int) -> Floats:
    before = min(max(0, -start), stop - start)
    inside = values[:, max(0, start) : max(0, stop)]
    return np.concatenate([np.full((len(values), before), np.nan), inside], axis=1) if before else inside
