"""Sliding-window figures in plain numpy: sums by doubling, mean and deviation.

A sum over `w` rows is built from sums over 1, 2, 4, ... rows. Nothing is ever subtracted from a running
total, so a window is not touched by what lies outside it, and the past does not feel the future.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from derivdata.support.arrays import Bools, Floats

_CANCELLED = 1e-5  # squares about the centre that leave less than this share: taken again exactly
_RUNS = 4_096  # windows that are taken again at once


class Room(NamedTuple):
    """Memory that is used again for every block: fresh memory would cost more than the additions."""

    floats: Floats
    counts: NDArray[np.integer[Any]]
    finite: Bools

    @classmethod
    def of(cls, rows: int, columns: int) -> Room:
        """Allocate room for blocks up to this size."""
        counter = np.int16 if columns < 2**15 else np.int32
        shape = (rows, columns)
        return cls(np.empty((5, *shape)), np.empty((4, *shape), counter), np.empty(shape, np.bool_))

    def cut(self, rows: int, columns: int) -> Room:
        """Cut out the part of this memory that fits a block."""
        return Room._make(part[..., :rows, :columns] for part in self)


def sliding(
    combine: np.ufunc, values: NDArray[Any], window: int, scratch: Sequence[NDArray[Any]] | None = None
) -> NDArray[Any]:
    """`combine` (add, maximum, minimum) over every run of `window` values on the last axis.

    The result is ``window − 1`` shorter; entry i covers ``values[..., i : i + window]``. `scratch` is three
    arrays like `values`, of which the result takes the first.
    """
    # `window` in binary says which runs of 1, 2, 4, ... rows add up to it: with window = 13 = 0b1101 the runs
    # of 1, 4 and 8. `power` holds the sums over runs of `span` rows, made by adding those of half the length
    # to themselves, half a run later; where the bit is set, `part` (the runs that begin after the `done` rows
    # that are in the total already) is added. Nothing is subtracted: no window feels what lies outside it.
    total, *spare = np.empty((3, *values.shape), values.dtype) if scratch is None else scratch
    power, done = values, 0
    for bit in range(window.bit_length()):
        span = 1 << bit
        if window & span:
            length = values.shape[-1] - done - span + 1
            part, into = power[..., done : done + length], total[..., :length]
            if done:
                combine(into, part, out=into)
            else:
                np.copyto(into, part)
            done += span
        if window >> (bit + 1):
            into = spare[bit % 2][..., : power.shape[-1] - span]
            power = combine(power[..., :-span], power[..., span:], out=into)
    return total[..., : values.shape[-1] - window + 1]


def mean_and_deviation(values: Floats, window: int, least: int, room: Room) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation (n − 1) of every run of `window` values along each row.

    NaN is left out; fewer than `least` values give NaN. The deviation is right to about 1e-10 of itself,
    and exactly 0 where all values are equal. The results live in `room`.
    """
    # Sums are taken about the mean of the first window: squares about 0 would lose all digits of a level that
    # is large against its moves. Where a window has moved so far that its squares still cancel (`lost`), and
    # where nothing moves, it is taken again exactly.
    about, total, squares, spare, more = room.floats
    finite = np.equal(values, values, out=room.finite)
    lead, known = values[:, :window], finite[:, :window]
    total_of_lead = np.sum(lead, axis=-1, where=known, keepdims=True)
    centre = total_of_lead / np.maximum(known.sum(axis=-1, keepdims=True), 1)
    np.subtract(values, centre, out=about)
    if (finite == finite[:1]).all():
        finite = finite[:1]
        about[:, ~finite[0]] = 0.0
    else:
        _blank(about, finite, spare)
    sums = sliding(np.add, about, window, (total, spare, more))
    squares = sliding(np.add, np.square(about, out=about), window, (squares, spare, more))
    number = _counted(finite, window, least, room)
    mean = np.divide(sums, number, out=more[:, : sums.shape[-1]])
    left = np.subtract(squares, np.multiply(sums, mean, out=sums), out=sums)
    lost = left < np.multiply(squares, _CANCELLED, out=squares)
    np.divide(left, np.subtract(number, 1.0, out=number), out=left)
    deviation = np.sqrt(left, out=left)
    mean += centre
    if lost.any():
        _retake(values, window, lost, mean, deviation)
    return mean, deviation


def _blank(values: Floats, finite: Bools, scratch: Floats) -> None:
    # 0 where not known, as one AND over the bits: several times faster than a masked copy. Known is 1, and −1
    # is all bits set: a float ANDed with it stays; unknown is 0, and a float ANDed with it, NaN included, is
    # +0.0 (all bits clear). `scratch` is a float array of the same shape, whose memory serves as integers.
    keep = scratch.view(np.int64)
    np.copyto(keep, finite)
    np.bitwise_and(np.negative(keep, out=keep), values.view(np.int64), out=values.view(np.int64))


def _counted(finite: Bools, window: int, least: int, room: Room) -> Floats:
    # NaN where too few, so that all that is divided by it is NaN.
    counts = room.counts[:, : len(finite)]
    np.copyto(counts[0], finite)
    count = sliding(np.add, counts[0], window, tuple(counts[1:]))
    number = room.floats[3, : len(finite), : count.shape[-1]]
    np.copyto(number, count)
    number[count < least] = np.nan
    return number


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
