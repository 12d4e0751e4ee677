"""Sliding-window figures in plain numpy: sums by doubling, mean and deviation.

A sum over `w` rows is built from sums over 1, 2, 4, ... rows. Nothing is ever subtracted from a running
total, so a window is not touched by what lies outside it, and the past does not feel the future.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from derivdata.support.arrays import Bools, Floats

_CANCELLED = 1e-5  # squares about the centre that leave less than this share: taken again exactly
_RUNS = 4_096  # windows that are taken again at once


def sliding(combine: np.ufunc, values: NDArray[Any], window: int) -> NDArray[Any]:
    """`combine` (add, maximum, minimum) over every run of `window` values on the last axis.

    The result is ``window − 1`` shorter; entry i covers ``values[..., i : i + window]``.
    """
    # `window` in binary says which runs of 1, 2, 4, ... rows add up to it: with window = 13 = 0b1101 the runs
    # of 1, 4 and 8. `power` holds the sums over runs of `span` rows, made by adding those of half the length
    # to themselves, half a run later; where the bit is set, `part` (the runs that begin after the `done` rows
    # that are in the total already) is added. Nothing is subtracted: no window feels what lies outside it.
    total, power, done = values, values, 0
    for bit in range(window.bit_length()):
        span = 1 << bit
        if window & span:
            part = power[..., done : values.shape[-1] - span + 1]
            total = combine(total[..., : part.shape[-1]], part) if done else part
            done += span
        if window >> (bit + 1):
            power = combine(power[..., :-span], power[..., span:])
    return total[..., : values.shape[-1] - window + 1]


def mean_and_deviation(values: Floats, window: int, least: int) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation (n − 1) of every run of `window` values along each row.

    NaN is left out; fewer than `least` values give NaN. The deviation is right to about 1e-10 of itself,
    and exactly 0 where all values are equal.
    """
    # Sums are taken about the mean of the first window: squares about 0 would lose all digits of a level that
    # is large against its moves. Where a window has moved so far that its squares still cancel (`lost`), and
    # where nothing moves, it is taken again exactly.
    finite = values == values
    lead = np.sum(values[:, :window], axis=-1, where=finite[:, :window], keepdims=True)
    centre = lead / np.maximum(finite[:, :window].sum(axis=-1, keepdims=True), 1)
    if (finite == finite[:1]).all():
        finite = finite[:1]
    about = np.where(finite, values - centre, 0.0)
    sums, squares = sliding(np.add, about, window), sliding(np.add, about**2, window)
    count = sliding(np.add, finite.astype(np.int16 if window < 2**15 else np.int32), window)
    number = np.where(count < least, np.nan, count)  # all that is divided by it is then NaN
    mean = sums / number
    left = squares - sums * mean
    lost = left < _CANCELLED * squares
    mean, deviation = mean + centre, np.sqrt(left / (number - 1.0))
    if lost.any():
        _retake(values, window, lost, mean, deviation)
    return mean, deviation


def _retake(values: Floats, window: int, lost: Bools, mean: Floats, deviation: Floats) -> None:
    rows = np.flatnonzero(lost.any(axis=-1))
    finite = values[rows] == values[rows]
    high = sliding(np.maximum, np.where(finite, values[rows], -np.inf), window)
    low = sliding(np.minimum, np.where(finite, values[rows], np.inf), window)
    level = lost[rows] & (high == low)
    row, column = np.nonzero(level)
    mean[rows[row], column], deviation[rows[row], column] = high[level], 0.0
    row, column = np.nonzero(lost[rows] & ~level)
    runs = sliding_window_view(values, window, axis=-1)
    for start in range(0, row.size, _RUNS):
        at = rows[row[start : start + _RUNS]], column[start : start + _RUNS]
        mean[at], deviation[at] = np.nanmean(runs[at], axis=-1), np.nanstd(runs[at], axis=-1, ddof=1)
