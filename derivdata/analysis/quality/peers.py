"""Compare each series with other venues of its symbol and other symbols of its venue.

A rate in percent, or per hour instead of per eight hours, has the gaps, runs and shape of a correct one.
Compared with the median of its peers, it is too large or too small, throughout or from some time on.

Two rows are the same if venue, time and value are. The table is searched in blocks of time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.analysis.panels import row_quantiles
from derivdata.analysis.quality.points import Columns, row_quantile
from derivdata.support.arrays import Array, Bools, Floats, Indices

_MIN_SHARED_ROWS = 20
"""Minimum number of common steps on each side of a change."""
_PEERS = 2  # minimum number of other series for a median
_SIZE = np.log(5.0)
_CHANGES = {300.0: np.log(1.6), 60.0: np.log(3.5)}
"""Minimum change of a rate's size (log ratio) by number of days."""
_PRICE = np.log(1.05)
_BLOCKS = 16
_MIN_NOISE = 1e-3
_IN_BLOCK = 3  # minimum number of known steps for the median of a block
# Minimum correlation of moves, and minimum number of steps, to find the lag of two venues.
_TWINS, _TOGETHER = 0.6, 100
# Maximum number of multiplications that OpenBLAS computes on one thread (262,144 in 0.3).
_ON_ONE_THREAD = 200_000
_SURE = 6.0  # minimum size of a lasting change, in standard errors of block medians
_APART = 2.0  # minimum deviation of the median ratio from another size, in standard deviations
_EXACT = 1e-6
_OCTAVES = 3
_MAX_OCTAVES = 4096.0  # more octaves than a double has
# Minimum number of steps on each side of a change at which both venues are at their interest rate.
_PINNED = 6
_KINDS = np.arange(-_OCTAVES, _OCTAVES + 1)[:, None]
_FOLLOWS = 0.35
_FLOOR = 0.02  # added to amounts before the logarithm, as a fraction of their median
_SPIKE = 12.0  # minimum difference of a single point from both neighbours, in usual moves
# share of steps with equal signs minus share with different ones: below minus this, the sign is wrong
_SIGNS = 0.3
_DAYS = 5.0  # minimum length of each side of a change of sign, in days
_SURE_OF_SIGN = 6.0
"""Minimum difference of both sides of a change of sign in standard errors, for the best of many times."""


class Comparison(NamedTuple):
    """Findings by series; NaN where there are too few peers or common steps."""

    spikes: Array
    scale_change: Floats
    at: Array
    """Index of the change; −1 without a change."""
    sign_change: Bools
    peer_scale: Floats
    peer_sign: Floats


def compare(
    values: Floats, peers: Floats, octaves: Any = np.nan, *, kind: str = "rate", days: Any = np.inf
) -> Comparison:
    """Compare series (series, steps) over some days with `median_of_others` and `octaves_to_others` of each.

    Prices of one coin are within 5 % of each other; rates and amounts may differ by factors. The threshold of
    a fault follows from the pair's noise. For rates it also follows from the steps at which the venue and its
    peers are both pinned to their interest rate: these have an exact ratio, 2 if a 4-hour rate is read as an
    eight-hour rate.
    """
    # 1. Set thresholds by kind, and find the steps that a series shares with its peers.
    is_price = kind == "price"
    min_change = _PRICE if is_price else _SIZE
    if kind == "rate":  # within a few days, rates may differ for long enough to look like another unit
        lasts = [np.asarray(days) >= minimum for minimum in _CHANGES]
        min_change = np.select(lasts, list(_CHANGES.values()), _SIZE)
    both_known = np.isfinite(values) & np.isfinite(peers)
    values = np.where(both_known, values, np.nan)
    peers = np.where(both_known, peers, np.nan)
    has_enough = both_known.sum(axis=1) >= 2 * _MIN_SHARED_ROWS

    # 2. Take logarithms of sizes, with a floor, so that a rate that crosses zero is not a change of size.
    share = 0.0 if is_price else _FLOOR
    floor = share * row_quantile(np.abs(peers), 0.5)[:, None] + 1e-300
    log_ratio = np.log(np.abs(values) + floor) - np.log(np.abs(peers) + floor)
    agreement = np.where(both_known, np.sign(values) * np.sign(peers), np.nan)

    # 3. Find a lasting change of size, and a size that is wrong throughout. The interquartile range of a
    # normal distribution is 1.349 standard deviations.
    change, change_at = _change(log_ratio)
    change = np.where(np.abs(change) >= min_change, change, 0.0)
    low, median, high = row_quantiles(log_ratio, 0.25, 0.5, 0.75)
    min_size = _PRICE if is_price else np.maximum(_APART * (high - low) / 1.349, _SIZE)
    size = np.where(np.abs(median) >= min_size, median, 0.0)

    # 4. Rates that are pinned to their interest rate have an exact ratio, which noise does not hide. Another
    # interest rate is not another unit: another unit shifts all rates equally, so their median must follow
    # the pinned ratio by at least a third, because medians are noisy.
    if kind == "rate":
        octaves = np.where(both_known, octaves, np.nan)
        has_octaves = np.isfinite(octaves).sum(axis=1) >= _PINNED
        pinned_size = np.where(has_octaves, np.log(2.0) * row_quantile(octaves, 0.5), 0.0)
        median_follows = (median * pinned_size >= _FOLLOWS * pinned_size**2) & (pinned_size != 0.0)
        size = np.where((size == 0.0) & median_follows, pinned_size, size)

        pinned_change, pinned_at = _change_of_octave(octaves)
        with np.errstate(divide="ignore", invalid="ignore"):
            median_change = _median_step(np.log(values / peers), pinned_at)
        change_follows = median_change * pinned_change >= _FOLLOWS * pinned_change**2
        use_pinned = (change == 0.0) & change_follows & (pinned_change != 0.0)
        change = np.where(use_pinned, pinned_change, change)
        change_at = np.where(use_pinned, pinned_at, change_at)

    # 5. Collect the results; NaN with too few shared steps.
    has_changed = has_enough & (change != 0.0)
    mean_agreement = np.nansum(agreement, axis=1) / np.maximum(both_known.sum(axis=1), 1)
    return Comparison(
        spikes=_spikes(values, values - peers),
        scale_change=np.where(has_enough, np.where(has_changed, np.exp(change), 1.0), np.nan),
        at=np.where(has_changed, change_at, -1),
        sign_change=has_enough & _changes_sign(agreement, values, peers, np.asarray(days)),
        peer_scale=np.where(has_enough, np.exp(size), np.nan),
        peer_sign=np.where(has_enough, np.where(mean_agreement < -_SIGNS, -1.0, 1.0), np.nan),
    )


def reset_unconfirmed(comparison: Comparison, markets: list[Floats]) -> None:
    """Reset, in place, findings of scale and sign of three venues that pairs of them do not confirm.

    `comparison` has the rows of all `markets` (series, steps), one market after the other. Only markets
    are changed that have three values at half of the compared steps or more, and only the three series with
    the most values: the median of two peers is their mean, which follows a wrong peer. A finding remains if
    the series differs from each peer in the same direction, and by more than the peers differ from each
    other.
    """
    stop = 0
    for values in markets:
        first = stop
        stop += len(values)
        is_finite = np.isfinite(values)
        counts = is_finite.sum(axis=0)
        is_compared = counts > _PEERS
        if 2 * (counts == _PEERS + 1).sum() < is_compared.sum():
            continue
        longest = np.argsort(-is_finite.sum(axis=1), kind="stable")[: _PEERS + 1]
        if is_finite[longest].all(axis=0).sum() >= 2 * _MIN_SHARED_ROWS:
            rows = Comparison._make(figure[first:stop][longest] for figure in comparison)
            _reset_unconfirmed_of_three(rows, values[longest])
            for figure, confirmed in zip(comparison, rows, strict=True):
                figure[first + longest] = confirmed


def _reset_unconfirmed_of_three(findings: Comparison, values: Floats) -> None:
    """Reset, in place, the unconfirmed findings of one market of three venues (series, steps).

    Each series is compared with both peers (ratios 0 and 1), and the peers with each other (ratio 2).
    """
    has_size = np.nan_to_num(findings.peer_scale, nan=1.0) != 1.0
    has_other_sign = findings.sign_change | (findings.peer_sign == -1.0)
    if not (has_size | has_other_sign | (findings.at != -1)).any():
        return
    is_complete = np.asarray(np.isfinite(values).all(axis=0))
    values = values[:, is_complete]
    amounts = np.abs(values)
    floor = _FLOOR * np.median(amounts) + 1e-300  # not 0, so that the logarithm is finite
    sizes = np.log(amounts + floor)
    signs = np.sign(values)
    for row in range(3):
        first = [row, row, (row + 1) % 3]
        second = [(row + 1) % 3, (row + 2) % 3, (row + 2) % 3]
        ratios = sizes[first] - sizes[second]
        if has_size[row] and not _exceeds(row_quantile(ratios, 0.5), np.log(findings.peer_scale[row])):
            findings.peer_scale[row] = 1.0
        if findings.at[row] != -1:
            at = np.full(3, is_complete[: findings.at[row]].sum())
            if not _exceeds(_median_step(ratios, at), np.log(findings.scale_change[row])):
                findings.scale_change[row] = 1.0
                findings.at[row] = -1
        agreement = (signs[first] * signs[second]).mean(axis=1)
        if has_other_sign[row] and max(agreement[0], agreement[1]) >= agreement[2]:
            findings.sign_change[row] = False
            findings.peer_sign[row] = 1.0


def _exceeds(ratios: Floats, finding: float) -> bool:
    """Return whether a finding is confirmed by log ratios to two peers and of the peers to each other.

    Each ratio to a peer must be at least `_FOLLOWS` of the finding, and larger than the ratio of the peers.
    """
    # The product with the finding, not the quotient by it, also requires the same sign.
    follows = ratios[:2] * finding >= _FOLLOWS * finding**2
    return bool(follows.all() and np.abs(ratios[:2]).min() > np.abs(ratios[2]))


def lag_to_twin(values: Floats) -> Floats:
    """Return the number of steps by which each series follows the most similar one, 0 without one.

    The lag has the highest correlation of moves (clipped at three usual moves) among −1, 0 and 1 steps.
    Venues may pay the rate of the previous interval, so a shift is visible only in a series that moves like
    another one.
    """
    if values.shape[1] < _TOGETHER:
        return np.zeros(len(values))
    # 1. Divide moves by their median size and clip them, so that a few large ones do not decide.
    moves = np.diff(values, axis=1)
    median_size = row_quantile(np.where(moves == 0.0, np.nan, np.abs(moves)), 0.5)[:, None]
    moves = np.clip(moves / median_size, -3.0, 3.0)
    is_finite = np.isfinite(moves)
    moves = np.where(is_finite, moves, 0.0)
    weights = is_finite.astype(np.float64)
    squares = moves**2

    # 2. Find the highest correlation with another series at each lag: −1, 0 and 1 steps.
    best = np.zeros((3, len(values)))
    own = slice(1, -1)
    for place, other in enumerate((slice(2, None), slice(1, -1), slice(0, -2))):
        products = _products(moves[:, own], moves[:, other])
        own_squares = _products(squares[:, own], weights[:, other])
        other_squares = _products(weights[:, own], squares[:, other])
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = products / np.sqrt(own_squares * other_squares)
        is_excluded = _products(weights[:, own], weights[:, other]) < _TOGETHER
        is_excluded |= np.eye(len(values), dtype=bool)
        best[place] = np.where(is_excluded, 0.0, np.nan_to_num(correlation)).max(axis=1, initial=0.0)
    return np.where(best.max(axis=0) >= _TWINS, best.argmax(axis=0) - 1.0, 0.0)


def _products(first: Floats, second: Floats) -> Floats:
    """Return the sums over steps of the products of each pair of series.

    The sums are computed in blocks that BLAS multiplies on one thread. For such small matrices several
    threads are slower, and they spin between the calls.
    """
    steps = max(_ON_ONE_THREAD // len(first) ** 2, 16)
    total = np.zeros((len(first), len(second)))
    for start in range(0, first.shape[1], steps):
        total += first[:, start : start + steps] @ second[:, start : start + steps].T
    return total


def median_of_others(values: Floats) -> Floats:
    """Return the median of the other series at each step; NaN if fewer than two have a value.

    Each step is sorted once. Without the value of rank r, the k-th value of the rest is the k-th of all for k
    < r, otherwise the next one.
    """
    order = np.argsort(values, axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(len(values))[:, None], order.shape), axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    is_finite = np.isfinite(values)
    others = is_finite.sum(axis=0) - is_finite
    rank = np.where(is_finite, rank, len(values))

    def other_at(place: Any) -> Floats:
        """Return the value at a place among the other series in ascending order."""
        place_in_all = np.minimum(place + (place >= rank), len(values) - 1)
        return np.take_along_axis(ordered, place_in_all, axis=0)

    median = 0.5 * (other_at(np.maximum(others - 1, 0) // 2) + other_at(others // 2))
    return np.where(others >= _PEERS, median, np.nan)


def octaves_to_others(values: Floats) -> Floats:
    """Return the base-2 logarithm of the ratio to other venues, where this ratio is exactly a power of two.

    It is computed at each step from the median exponent of at least two others with the same leading binary
    digits, which are venues pinned to one interest rate. NaN without such venues.
    """
    # 1. Split |value| = 2^(exponent + fraction) at each step, and sort by sign and fraction ("digits"), then
    # by exponent.
    with np.errstate(divide="ignore"):
        logs: Any = np.log2(np.abs(values))
    logs = np.where(np.isfinite(logs), logs, np.nan)
    exponent = np.round(logs)
    digits = np.round((logs - exponent) / _EXACT) + np.sign(values) / _EXACT
    order = np.argsort(digits * _MAX_OCTAVES + exponent, axis=0, kind="stable")
    exponent = np.take_along_axis(exponent, order, axis=0)
    digits = np.take_along_axis(digits, order, axis=0)

    # 2. Find the group of equal digits of each value: the position of its first value, and its size.
    equals_previous = np.zeros(values.shape, dtype=np.bool_)
    equals_previous[1:] = digits[1:] == digits[:-1]
    position = np.arange(len(values))[:, None]
    first: Any = np.maximum.accumulate(np.where(equals_previous, 0, position), axis=0)
    ends = np.where(np.roll(equals_previous, -1, axis=0), len(values), position + 1)
    size = np.minimum.accumulate(ends[::-1], axis=0)[::-1] - first

    # 3. Subtract the lower median exponent of the rest of the group, whose positions skip the value itself.
    median = first + (size - 2) // 2
    median = np.minimum(median + (median >= position), len(values) - 1)
    difference = exponent - np.take_along_axis(exponent, median, axis=0)
    has_peers = (size > _PEERS) & (np.abs(difference) <= _OCTAVES)
    octaves = np.empty(values.shape)
    np.put_along_axis(octaves, order, np.where(has_peers, difference, np.nan), axis=0)
    return octaves


def _median_step(ratio: Floats, at: Array) -> Floats:
    """Return the median of each row from a position on, minus the median before it."""
    places = np.arange(ratio.shape[1])
    is_before = places < at[:, None]
    before = row_quantile(np.where(is_before, ratio, np.nan), 0.5)
    after = row_quantile(np.where(is_before, np.nan, ratio), 0.5)
    return np.asarray(after - before)


def _change(ratio: Floats) -> tuple[Floats, Array]:
    """Return the most significant lasting change of each row and its position; 0 and −1 for none.

    The row is divided into blocks, and the mean block medians before and after each position are compared. A
    change is a difference of more than six standard errors, estimated from the spread of medians on one side.
    """
    # 1. Compute the median of each block.
    rows, width = ratio.shape
    blocks = int(np.clip(width // 5, 4, _BLOCKS))
    edges = np.linspace(0, width, blocks + 1).astype(np.intp)
    medians = np.full((rows, blocks), np.nan)
    for place, (first, stop) in enumerate(itertools.pairwise(edges)):
        block = ratio[:, first:stop]
        has_enough = np.isfinite(block).sum(axis=1) >= _IN_BLOCK
        medians[:, place] = np.where(has_enough, row_quantile(block, 0.5), np.nan)
    is_finite = np.isfinite(medians)
    levels = np.where(is_finite, medians, 0.0)

    def side_figures(side: slice) -> tuple[Array, Floats, Floats]:
        """Return count, mean and sum of squared deviations of the block medians on a side."""
        count = is_finite[:, side].sum(axis=1)
        mean = levels[:, side].sum(axis=1) / np.maximum(count, 1)
        squares = (is_finite[:, side] * (levels[:, side] - mean[:, None]) ** 2).sum(axis=1)
        return count, mean, squares

    # 2. Compare both sides of each edge, and use the most significant difference.
    best = np.zeros(rows)
    significance = np.full(rows, _SURE)
    at = np.full(rows, -1)
    for edge in range(2, blocks - 1):
        count_before, mean_before, squares_before = side_figures(slice(None, edge))
        count_after, mean_after, squares_after = side_figures(slice(edge, None))
        degrees = np.maximum(count_before + count_after - 2, 1)
        spread = np.sqrt((squares_before + squares_after) / degrees) + _MIN_NOISE
        root = np.sqrt(1.0 / np.maximum(count_before, 1) + 1.0 / np.maximum(count_after, 1))
        change = mean_after - mean_before
        has_sides = np.minimum(count_before, count_after) >= 2
        is_better = has_sides & (np.abs(change) > significance * (spread * root))
        best = np.where(is_better, change, best)
        at = np.where(is_better, edges[edge], at)
        significance = np.where(is_better, np.abs(change) / (spread * root), significance)
    return best, _refined(ratio, best, at)


def _change_of_octave(octaves: Floats) -> tuple[Floats, Array]:
    """Return the change of each row between two octaves that most steps support, and its position.

    The change is a logarithm. On each side, at least `_PINNED` steps must have an octave, and four fifths of
    them the same one.
    """
    change = np.zeros(len(octaves))
    at = np.full(len(octaves), -1)
    for row in np.flatnonzero(np.isfinite(octaves).sum(axis=1) >= 2 * _PINNED):
        # Count each octave (octave, step) up to each step and after it.
        before = np.cumsum(octaves[row] == _KINDS, axis=1)
        after = before[:, -1:] - before
        count = np.array([before.sum(axis=0), after.sum(axis=0)])
        most = np.array([before.max(axis=0), after.max(axis=0)])
        octave_before = before.argmax(axis=0)
        octave_after = after.argmax(axis=0)
        is_clear = ((count >= _PINNED) & (most >= 0.8 * count)).all(axis=0)
        is_change = is_clear & (octave_before != octave_after)
        if is_change.any():
            best = int(np.argmax(np.where(is_change, most.sum(axis=0), 0)))
            change[row] = np.log(2.0) * (octave_after[best] - octave_before[best])
            at[row] = best + 1
    return change, at


def _refined(ratio: Floats, change: Floats, at: Array) -> Array:
    """Return the position of each change that best separates lower from higher values; −1 without a change.

    The limit between lower and higher is the middle of the medians on both sides of `at`.
    """
    refined = at.copy()
    for row in np.flatnonzero(at >= 0):
        middle = 0.5 * (np.nanmedian(ratio[row, : at[row]]) + np.nanmedian(ratio[row, at[row] :]))
        # −1 for a value that belongs before the change, 1 for one after it: the running sum is smallest at
        # the last value before the change.
        side = np.nan_to_num(np.sign(ratio[row] - middle)) * np.sign(change[row])
        refined[row] = int(np.argmin(np.cumsum(side))) + 1
    return refined


def _changes_sign(agreement: Floats, values: Floats, peers: Floats, days: Any) -> Bools:
    """Return whether the sign agrees with the peers before some time and disagrees after it, or vice versa.

    Both sides must last five days, because a rate may well be below zero for a shorter time while others are
    above. On the side where the signs differ, the series must move against its peers: a low rate of the right
    sign moves with them. The time is chosen so that the difference between the mean agreements of both sides
    is largest in standard errors. The difference must exceed the noise of the series, with its
    autocorrelation.
    """
    if agreement.shape[1] < 2 * _MIN_SHARED_ROWS:  # too few steps; 0 if all series lack values
        return np.zeros(len(agreement), dtype=np.bool_)
    # 1. Find the time with the largest difference of mean agreement before and after it.
    is_finite = np.isfinite(agreement)
    total = np.nancumsum(agreement, axis=1)
    count = np.cumsum(is_finite, axis=1)
    count_after = count[:, -1:] - count
    with np.errstate(invalid="ignore", divide="ignore"):
        before = total / count
        after = (total[:, -1:] - total) / count_after
        relative_error = np.sqrt(1.0 / count + 1.0 / count_after)
        min_count = np.maximum(_MIN_SHARED_ROWS, _DAYS * count[:, -1] / days)[:, None]
    has_enough = (count >= min_count) & (count_after >= min_count)
    is_opposite = ((before > _SIGNS) & (after < -_SIGNS)) | ((before < -_SIGNS) & (after > _SIGNS))
    difference = np.where(has_enough & is_opposite, np.abs(before - after) / relative_error, 0.0)
    at = difference.argmax(axis=1)

    # 2. Estimate the noise around the means of both sides: for an autoregression with slope φ, the variance
    # of a mean is larger by (1 + φ)/(1 − φ).
    rows = np.arange(len(at))
    is_before = np.arange(agreement.shape[1]) <= at[:, None]
    mean_of_side = np.where(is_before, before[rows, at][:, None], after[rows, at][:, None])
    noise = np.where(is_finite, agreement - mean_of_side, 0.0)
    total_count = np.maximum(count[:, -1], 1)
    variance = (noise**2).sum(axis=1) / total_count
    autocovariance = (noise[:, 1:] * noise[:, :-1]).sum(axis=1) / total_count
    phi = np.clip(autocovariance / np.maximum(variance, 1e-12), 0.0, 0.99)
    error = np.sqrt(variance * (1.0 + phi) / (1.0 - phi)) + 1e-12

    # 3. Check that the series moves against its peers on the side with opposite signs.
    on_opposite_side = np.where(mean_of_side < 0.0, 1.0, np.nan)
    own_sign = _sign_around_median(values * on_opposite_side)
    peers_sign = _sign_around_median(peers * on_opposite_side)
    moves_against = np.nansum(own_sign * peers_sign, axis=1) < 0.0
    return np.asarray((difference[rows, at] / error > _SURE_OF_SIGN) & moves_against)


def _sign_around_median(values: Floats) -> Floats:
    """Return 1 for a value above the median of its row, −1 below, 0 at it."""
    return np.asarray(np.sign(values - row_quantile(values, 0.5)[:, None]))


def _spikes(values: Floats, distance: Floats) -> Array:
    """Count single points that differ from both neighbours by `_SPIKE` typical moves.

    They must do so in the series and in its `distance` to the peers.
    """
    if values.shape[1] < 3:
        return np.zeros(len(values), dtype=np.int64)
    is_spike = np.ones((len(values), values.shape[1] - 2), dtype=bool)
    for series in (values, distance):
        from_previous = series[:, 1:-1] - series[:, :-2]
        from_next = series[:, 1:-1] - series[:, 2:]
        is_extreme = np.sign(from_previous) == np.sign(from_next)
        height = np.where(is_extreme, np.minimum(np.abs(from_previous), np.abs(from_next)), 0.0)
        median, ninth_decile = row_quantiles(np.abs(np.diff(series, axis=1)), 0.5, 0.9)
        typical_move = np.maximum(median, ninth_decile / 2.0)[:, None]
        is_spike &= np.nan_to_num(height) > _SPIKE * typical_move
    return np.asarray(is_spike.sum(axis=1))


_RUN = 6  # minimum length of a run of another symbol's rows
_MAX_VALUE_SHARE = 0.01  # maximum share of a series with one value for it to be informative
_VENUE_SYMBOLS = 8  # number of symbols with a common value above which it belongs to the whole venue
_BLOCK_ROWS = 100_000  # minimum rows of a block of time
_MAX_BLOCKS = 100
_MAX_COUNTED = 300_000  # values after which equal ones are counted, to limit memory
_SAMPLE = 10_000  # stamps from which blocks of unsorted times are derived
_SLOTS = 1 << 20
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))  # odd factors of a hash


def rows_of_other_symbols(
    columns: Columns, place: NDArray[np.int32], length: Array, report: pd.DataFrame
) -> Array:
    """Count the rows of each series that belong to another symbol of its venue, in runs of at least `_RUN`.

    Values that are frequent in a series, such as its floor, are uninformative and are skipped.

    Parameters
    ----------
    columns
        Columns of the table to compare.
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
    # 1. Find rows with a duplicate in another symbol, and skip those with frequent values.
    venue = report.groupby([name for name in ("exchange", "kind") if name in report]).ngroup().to_numpy()
    same, frequency, is_skipped = _same_rows(columns, place, venue)
    if same.empty:
        return counts
    value_count = same[["owner", "value"]].merge(frequency, how="left")["rows"].to_numpy()
    is_frequent = value_count > np.maximum(_MAX_VALUE_SHARE * length[same["owner"]], 2)
    is_skipped[same["place"].to_numpy()[is_frequent]] = True
    same = same[~is_frequent]

    # 2. Number the rows of each series without the skipped ones, so that these do not end a run.
    places = same["place"].to_numpy()
    same = same.assign(row=places - np.cumsum(is_skipped, dtype=np.int32)[places])

    # 3. Pair the duplicates. A run has rows that are adjacent in both series.
    pairs = same.merge(same, on="match")
    pairs = pairs[pairs["owner_x"] != pairs["owner_y"]].sort_values(["owner_x", "owner_y", "row_x"])
    steps = pairs[["owner_x", "owner_y", "row_x", "row_y"]].diff()
    starts_run = ~(steps == [0, 0, 1, 1]).all(axis=1)
    run = starts_run.cumsum()
    run_length = run.map(run.value_counts())
    in_runs = pairs[run_length >= _RUN].drop_duplicates("row_x")
    return counts + np.bincount(in_runs["owner_x"], minlength=len(report))


def _same_rows(
    columns: Columns, place: NDArray[np.int32], venue: Indices
) -> tuple[pd.DataFrame, pd.DataFrame, Bools]:
    """Return rows shared by few symbols, the frequency of their values, and rows shared by many.

    The first result has the columns ``match`` (equal for identical rows), ``owner``, ``value`` and ``place``.
    The last one is a mask over points.
    """
    shared: list[pd.DataFrame] = []
    values: list[pd.DataFrame] = []
    is_of_venue = np.zeros(place.size, dtype=bool)
    matches = 0
    for rows in _blocks_of_time(columns.stamps):
        # 1. Remove rows that surely have no duplicate, and sort the others by venue, time and value.
        rows = rows[place[rows] >= 0]
        value = columns.value[rows] + 0.0  # turns −0 into 0
        stamps = columns.stamps[rows]
        row_venue = venue[columns.series[rows]]
        likely = np.flatnonzero(_likely_same(row_venue, stamps, value) & ~np.isnan(value))
        order = likely[np.lexsort([value[likely], stamps[likely], row_venue[likely]])]
        rows = rows[order]
        value = value[order]
        stamps = stamps[order]
        row_venue = row_venue[order]

        # 2. Number the groups of equal rows, and keep those of two and more rows.
        is_new = (value[1:] != value[:-1]) | (stamps[1:] != stamps[:-1]) | (row_venue[1:] != row_venue[:-1])
        match = np.cumsum(np.append(0, is_new))[: rows.size]
        size = np.bincount(match)[match] if rows.size else match
        frame = pd.DataFrame(
            {"match": match + matches, "owner": columns.series[rows], "value": value, "place": place[rows]}
        )
        matches += rows.size
        frame = frame[size > 1]
        size = size[size > 1]

        # 3. Count their values, and separate the rows that many symbols share.
        values.append(frame[["owner", "value"]].assign(rows=1))
        if sum(len(counted) for counted in values) > _MAX_COUNTED:
            values = [_counted(values)]
        is_of_venue[frame["place"].to_numpy()[size > _VENUE_SYMBOLS]] = True
        shared.append(frame[size <= _VENUE_SYMBOLS])
    return pd.concat(shared, ignore_index=True), _counted(values), is_of_venue


def _counted(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the number of rows of each series and value."""
    rows = pd.concat(frames, ignore_index=True)
    return rows.groupby(["owner", "value"], as_index=False)["rows"].sum()


def _likely_same(venue: Array, stamps: Array, value: Array) -> Bools:
    """Return a mask of rows that may equal another row in venue, time and value, with few false positives.

    Each row writes its number into the slot of its hash. If a slot then has another number than a row's, the
    slot is shared, and all of its rows may have a duplicate.
    """
    # 1. Hash venue, time and value to a slot, which is the upper 20 bits of 64.
    mixed: Any = (stamps.view(np.uint64) + venue.astype(np.uint64)) * _MIX[0]
    mixed = (mixed ^ value.view(np.uint64)) * _MIX[1]
    mixed ^= mixed >> np.uint64(32)
    slot = ((mixed * _MIX[0]) >> np.uint64(44)).astype(np.int32)

    # 2. Mark shared slots by −1.
    number = np.arange(slot.size, dtype=np.int32)
    last = np.empty(_SLOTS, dtype=np.int32)
    last[slot] = number
    is_overwritten = last[slot] != number
    last[slot[is_overwritten]] = -1
    return np.asarray(last[slot] < 0)


def _blocks_of_time(stamps: Array) -> Iterator[Indices]:
    """Yield the rows of blocks of time; rows of one time are in one block."""
    block_rows = max(_BLOCK_ROWS, stamps.size // _MAX_BLOCKS)
    if (stamps[1:] >= stamps[:-1]).all():
        ends = np.append(np.searchsorted(stamps, stamps[block_rows::block_rows]), stamps.size)
        for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            yield np.arange(begin, end)
        return
    # Unsorted times: a sorted sample shows at which times blocks of about this size start.
    sample = np.sort(stamps[:: max(stamps.size // _SAMPLE, 1)])
    edges = np.unique(sample[:: max(sample.size * block_rows // stamps.size, 1)])
    number = np.searchsorted(edges[1:], stamps, side="right").astype(np.int16)
    for block in range(edges.size):
        yield np.flatnonzero(number == block)
