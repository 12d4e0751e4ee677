"""Faults of series that the other venues of a response contradict: other units, and values that stand still.

Figures of one symbol move together on all venues. A part of one series that is a unit's factor larger than
its peers, or that repeats one value while they move, is a fault even where the series itself is smooth.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SeriesFault", "exchanged_levels", "frozen_runs", "peer_changes"]

_Array = NDArray[Any]

_FACTORS = np.log([8.0, 100.0, 1e3, 1e4, 1e6])
_NEAR = np.log(1.35)
_PEERS = 2
_MANY = 8
"""Venues from which one of them hardly moves their median: it is taken of all."""
_BLOCKS = 12
_ROWS_IN_BLOCK = 3
_LEAST_BLOCKS = 2
_SURE = 6.0
"""Standard errors by which the part differs from the rest of its series."""
_SURE_OF_EIGHT = 10.0
"""The same for a factor of eight of funding rates: venues move apart by as much for hours. Of 100 histories
of the sample, 17 had such a part by chance at 6, four at 8, none at 10."""
_LEAST_NOISE = 0.1
_FLOOR = 0.1
_LOW = 0.2
"""A part of a series' lower quantile is added: a rate that passes through zero is no change of size."""
_LEAST_RUN = 6
_LEAST_SPAN_US = 23 * 3_600_000_000
_RUN_SHARE = 0.2
_OUTSIDE_SHARE = 0.01
_LEAST_JUMP = np.log(1.2)
_MOST_JUMPS = 200
_USUAL_STEPS = 10.0
_MOVING_SHARE = 0.2
_ROUND_DECIMALS = 2  # interest rates and floors [bps/8h] have no more


class SeriesFault(NamedTuple):
    """A part of a series: its first row, how many rows, and by which factor they are larger."""

    row: int
    rows: int
    factor: float


def peer_changes(
    series: _Array, market: _Array, times: _Array, values: _Array, *, is_rate: bool = False
) -> list[SeriesFault]:
    """Return parts of series that are 8, 100, 10³, 10⁴ or 10⁶ times as large as their peers, or the inverse.

    Means of logarithms in twelve blocks of time are compared, so that single rows do not count.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other, in time order.
    market
        Number of what rows are about: series of one market are peers.
    times, values
        Of the rows; NaN is not compared.
    is_rate
        Whether the values are funding rates, of which more evidence is required.
    """
    sizes = np.abs(values)
    known = np.isfinite(sizes)
    if known.sum() < 2 * _LEAST_BLOCKS * _ROWS_IN_BLOCK:
        return []
    count = int(series.max()) + 1
    markets = np.full(count, -1)
    markets[series] = market
    floors = np.zeros(count)
    bounds = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    for first, stop in zip(bounds.tolist(), [*bounds[1:].tolist(), series.size], strict=True):
        code = int(series[first])
        own = values[first:stop]
        own_sizes = np.abs(own[np.abs(own) > 0.0])
        if own_sizes.size and (own <= 0.0).any():
            floors[code] = _FLOOR * float(np.quantile(own_sizes, _LOW))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(sizes + floors[series])
    known &= np.isfinite(logs)
    begin = int(times.min())
    span = max(int(times.max() - times.min()), 1)
    block = np.minimum((times - begin) * _BLOCKS // span, _BLOCKS - 1)
    cell = (series * _BLOCKS + block)[known]
    number = np.bincount(cell, minlength=count * _BLOCKS).reshape(count, _BLOCKS)
    with np.errstate(invalid="ignore"):
        means = np.bincount(cell, logs[known], count * _BLOCKS).reshape(count, _BLOCKS) / number
    means = np.where(number > 0, means, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # series without rows
        means -= np.nanmedian(means, axis=1)[:, None]  # venues have sizes of their own
    faults = []
    for name in np.unique(markets[markets >= 0]).tolist():
        own = np.flatnonzero(markets == name)
        if own.size > _PEERS:
            for code, part, change in _changes_in(own, means[own], is_rate=is_rate):
                rows = np.flatnonzero(series == code)
                start = int(rows[np.searchsorted(block[rows], part[0])])
                end = int(rows[0] + np.searchsorted(block[rows], part[1]))
                faults.append(SeriesFault(start, end - start, float(np.exp(change))))
    return faults


def _changes_in(codes: _Array, means: _Array, *, is_rate: bool) -> list[tuple[int, tuple[int, int], float]]:
    """Return series of one market, the blocks in which each is at another level, and the change."""
    ordered = np.sort(means, axis=0)
    is_few = codes.size < _MANY
    peers = np.where(np.isfinite(means).sum(axis=0) > _PEERS, _middle(ordered), np.nan)
    found = []
    for place, code in enumerate(codes.tolist()):
        ratio = means[place] - (_median_without(ordered, means[place]) if is_few else peers)
        blocks = np.flatnonzero(np.isfinite(ratio))
        if blocks.size < 2 * _LEAST_BLOCKS or np.ptp(ratio[blocks]) < _FACTORS[0] - _NEAR:
            continue
        part = _other_level(ratio[blocks], is_rate=is_rate)
        if part is not None:
            first, stop, change = part
            after = int(blocks[stop]) if stop < blocks.size else _BLOCKS
            found.append((code, (int(blocks[first]), after), change))
    return found


def _middle(ordered: _Array) -> _Array:
    """Return a median of sorted columns, the lower one of two; NaN come last."""
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)
    return np.asarray(np.take_along_axis(ordered, last[None] // 2, axis=0)[0])


def _median_without(ordered: _Array, own: _Array) -> _Array:
    """Return the median of each sorted column without one of its values."""
    result = np.full(own.size, np.nan)
    for column in np.flatnonzero(np.isfinite(own)).tolist():
        values = ordered[np.isfinite(ordered[:, column]), column]
        if values.size > _PEERS:
            result[column] = np.median(np.delete(values, np.searchsorted(values, own[column])))
    return result


def _other_level(ratio: _Array, *, is_rate: bool) -> tuple[int, int, float] | None:
    """Return the blocks whose logarithm of a ratio is a unit's factor away from the rest, and that factor."""
    number = ratio.size
    best = _SURE
    part = None
    for first in range(number):
        for stop in range(first + _LEAST_BLOCKS, number + 1):
            inside = ratio[first:stop]
            rest = np.append(ratio[:first], ratio[stop:])
            # Of two complements the smaller part is the other one, or the later where they are alike.
            is_larger = inside.size >= rest.size if first == 0 else inside.size > rest.size and stop < number
            if rest.size < _LEAST_BLOCKS or is_larger:
                continue
            change = float(np.median(inside) - np.median(rest))
            if np.abs(abs(change) - _FACTORS).min() > _NEAR:
                continue
            squares = ((inside - inside.mean()) ** 2).sum() + ((rest - rest.mean()) ** 2).sum()
            noise = float(np.sqrt(squares / (number - 2))) + _LEAST_NOISE
            sure = abs(change) / (noise * np.sqrt(1.0 / inside.size + 1.0 / rest.size))
            is_eight = np.argmin(np.abs(abs(change) - _FACTORS)) == 0
            if sure > (max(best, _SURE_OF_EIGHT) if is_rate and is_eight else best):
                best = sure
                part = (first, stop, change)
    return part


def exchanged_levels(series: _Array, market: _Array, times: _Array, values: _Array) -> list[tuple[int, int]]:
    """Return rows from which two series of a market continue each other's levels, not their own.

    Both change by a fifth and more, and by ten times their usual step, at one time. The rows are as in
    `peer_changes`.
    """
    if values.size < 2 * _LEAST_RUN:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.where(values > 0.0, values, np.nan))
    steps = np.append(np.nan, np.where(series[1:] == series[:-1], np.diff(logs), np.nan))
    jumps = np.flatnonzero(np.abs(steps) > _LEAST_JUMP)
    if not 2 <= jumps.size <= _MOST_JUMPS:
        return []
    found = []
    for place, row in enumerate(jumps.tolist()):
        for other in jumps[place + 1 :].tolist():
            if series[row] == series[other] or market[row] != market[other] or times[row] != times[other]:
                continue
            crossed = max(abs(logs[row] - logs[other - 1]), abs(logs[other] - logs[row - 1]))
            usual = max(
                float(np.nanmedian(np.abs(steps[series == code]))) for code in (series[row], series[other])
            )
            is_large = min(abs(steps[row]), abs(steps[other])) > _USUAL_STEPS * usual
            if is_large and crossed < 0.25 * min(abs(steps[row]), abs(steps[other])):
                found.append((row, other))
    return found


def frozen_runs(
    series: _Array, market: _Array, times: _Array, values: _Array, *, is_rate: bool
) -> list[SeriesFault]:
    """Return runs of one value in series that move otherwise, while other series of the market move.

    A run has six rows, a day and a fifth of its series at least. A value that the series has at other
    times, such as the floor of a rate, is no fault, nor is a round rate. The rows are as in `peer_changes`.
    """
    if values.size < 2 * _LEAST_RUN:
        return []
    is_new = np.append(True, (values[1:] != values[:-1]) | (series[1:] != series[:-1]))
    starts = np.flatnonzero(is_new)
    lengths = np.diff(np.append(starts, values.size))
    faults = []
    for place in np.flatnonzero(lengths >= _LEAST_RUN).tolist():
        first = int(starts[place])
        steps = int(lengths[place])
        value = float(values[first])
        own = np.flatnonzero(series == series[first])
        rest = np.append(values[own[0] : first], values[first + steps : own[-1] + 1])
        if not np.isfinite(value) or steps < _RUN_SHARE * own.size:
            continue
        if times[first + steps - 1] - times[first] < _LEAST_SPAN_US:
            continue
        if is_rate and round(value, _ROUND_DECIMALS) == round(value, 9):
            continue
        if rest.size < _LEAST_RUN or (rest == value).sum() > _OUTSIDE_SHARE * own.size:
            continue
        inside = (times >= times[first]) & (times <= times[first + steps - 1]) & (market == market[first])
        others = np.flatnonzero(inside & (series != series[first]))
        is_alone = not others.size or float(is_new[others].mean()) >= _MOVING_SHARE
        if is_alone and float((rest[1:] != rest[:-1]).mean()) >= _MOVING_SHARE:
            faults.append(SeriesFault(first, steps, 1.0))
    return faults
