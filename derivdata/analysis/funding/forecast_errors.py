"""Errors of past pair forecasts, and the distribution of outcomes derived from them.

Arrays come from `derivdata.analysis.funding.pooled_regression`. Every value of a period depends on that
period and earlier ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from derivdata.analysis.funding.pooled_regression import (
    TINY,
    Means,
    Plan,
    direction_of,
    pair_places,
    penalised,
    remembered,
    trailing_mean,
    usual_outcome,
)
from derivdata.support.arrays import Bools, Floats, Indices

_SIZE_PENALTY = 0.02
# Prior slope on each of the four predictors: they add up to 1, so that sizes scale with the rates.
_SIZE_PRIOR = 0.25
_ENOUGH_ERRORS = 30  # minimum number of errors to fit the slopes of sizes, and to use an error's own size
_OWN_SHARE = 0.5  # minimum size as a fraction of the pair's own past errors
_RESTLESS_WEIGHT = 10.0  # weight of the pair's variability, in decisions
_OWN_WEIGHT = 5.0  # weight of the pooled size relative to the pair's own recent errors, in decisions
_LARGEST = 10.0  # limit of an error in units of its size: a larger one would move the quantiles of all pairs
_FLOOR = 0.05  # fraction of the market's variability that keeps the logarithm of a pinned spread finite
_MAX_ERRORS = 200_000
_WIDEST = 20.0  # maximum width of an interval, in standard deviations of past outcomes
_OWN_OUTCOMES = 1.0
"""Effective number of own decisions that a pair needs for an interval.

Outcomes that span less than a holding time overlap: their deviation is a fraction of that of independent
ones, and intervals bounded by it contain too few outcomes.
"""
_PINNED = 1e-12  # fraction of the mean square below which a variance is rounding error
_RARE = 0.005
_MIN_FREEDOM = 2.0
_FREEDOM = 0.25
"""Chosen on pairs of two venues of 2020–2022, where each horizon and history then covers 89 to 93 %."""


class Walk(NamedTuple):
    """Forecasts at each period of a panel, of one regression or the sum of several, and their past errors."""

    parts: tuple[Means, ...]
    outcomes: Floats
    """(venue, period) payments of a long over the holding time [bps], NaN if unknown."""
    worth: Floats
    """(period) effective number of known decisions: see `Means`."""
    usual: Floats
    """(period) bps: standard deviation of the known outcomes of all pairs."""
    own: Floats
    """(pair, column) bps: standard deviation of the pair's own known outcomes; NaN with too few."""
    columns: Indices
    """Periods of `own` and `scale`."""
    scale: Floats
    """(pair, column) bps: expected size of the error."""
    past: PastErrors
    long: Indices
    short: Indices
    """(pair) indices of its venues, which both have amounts in some period."""
    plan: Plan

    def pair_expectations(self, at: int) -> Floats:
        """Return the bps (long, short) that every ordered pair is expected to earn over the holding time."""
        return np.asarray(sum(component.pair_expectations(at) for component in self.parts))


def walk_of(components: tuple[Means, ...], amounts: Floats, plan: Plan) -> Walk:
    """Sum the forecasts of regressions by pair, and estimate the sizes of their errors.

    `amounts` (venue, period) [bps] are the payments of a long, over all parts: the variation of a pair.
    """
    # 1. Select the pairs of venues with payments.
    has_payments: Any = np.isfinite(amounts).any(axis=1)
    long, short = pair_places(len(amounts))
    is_pair = has_payments[long] & has_payments[short]
    long = long[is_pair]
    short = short[is_pair]

    # 2. Sum forecasts, outcomes and errors over the components.
    predicted = np.asarray(sum(component.predicted for component in components))[is_pair]
    realised = np.asarray(sum(component.realised for component in components))[is_pair]
    outcomes = np.asarray(sum(component.outcomes for component in components))
    columns = components[0].columns
    missed = realised - predicted
    scale, sizes = _scales(amounts[short] - amounts[long], predicted, missed, columns, plan)

    # 3. Compute the reference sizes for later errors.
    worth = np.min(np.stack([component.worth for component in components]), axis=0)
    usual = usual_outcome(outcomes, plan)
    own = _own_deviation(outcomes, long, short, columns, plan)
    toward = direction_of(predicted)
    past = PastErrors(missed, scale, toward, sizes, columns, plan)
    return Walk(components, outcomes, worth, usual, own, columns, scale, past, long, short, plan)


class PairDistribution(NamedTuple):
    """Inputs of the distributions of pair outcomes, at one period."""

    expected: Floats
    """(long, short) bps: mean outcome before cost."""
    scale: Floats
    """(long, short) bps: size of the error; NaN for a pair whose outcomes span less than a holding time."""
    errors: Floats
    """Sorted past errors, in units of their size."""
    weight: Floats
    """Share of the weight up to each error."""
    decisions: int
    """Past decisions of these errors."""


def pair_distribution(walk: Walk, at: int) -> PairDistribution:
    """Return the distributions of outcomes at a period.

    Errors of a pair that is expected to lose count reversed; without an expected direction half of them count
    in each. The size grows by the ratio of Student's t to the normal distribution at 5 %: few decisions do
    not show how large the next error may be. The degrees of freedom are 2 + n/4, where the decisions of all
    pairs are worth n.
    """
    expected = walk.pair_expectations(at)
    column = int(np.searchsorted(walk.columns, at))
    scale = _both_directions(walk.scale[:, column], walk, np.nan)
    errors, weight, decisions = walk.past.known_at(at)
    if decisions:
        low, high = np.interp([_RARE, 1.0 - _RARE], weight, errors)
        venues = np.isfinite(np.diag(expected)).sum()
        freedom = _MIN_FREEDOM + _FREEDOM * walk.worth[at] * 0.5 * venues * (venues - 1)
        scale = scale * stdtrit(freedom, 0.95) / ndtri(0.95)
        deviation = np.minimum(walk.usual[at], _both_directions(walk.own[:, column], walk, np.inf))
        # Past outcomes bound the interval. Without a direction, errors count in both.
        width = np.where(direction_of(expected) == 0.0, 2.0 * max(-low, high), high - low)
        scale = np.minimum(scale, _WIDEST * deviation / np.maximum(width, 1.0))
        scale = np.maximum(scale, TINY)
    return PairDistribution(expected, scale, errors, weight, decisions)


def _both_directions(of_pairs: Floats, walk: Walk, otherwise: float) -> Floats:
    """Return values of pairs as a square (long, short), symmetric in both directions."""
    venues = walk.outcomes.shape[0]
    square = np.full((venues, venues), otherwise)
    square[walk.long, walk.short] = of_pairs
    square[walk.short, walk.long] = of_pairs
    return square


def outcome_figures(
    mean: Floats, size: Floats, errors: Floats, weight: Floats, cost: Any, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return low end, median and high end of outcomes after cost [bps], and the probability to be above 0."""
    tails = np.array([0.5 * (1.0 - level), 0.5, 0.5 * (1.0 + level)])
    toward = np.where(np.isfinite(mean), direction_of(mean), np.nan)
    net = mean - cost
    bottom, centre, top, above = (np.full(mean.shape, np.nan) for _ in range(4))
    for sign in np.unique(toward[np.isfinite(toward)]):
        low, middle, high = _quantiles(sign, tails, errors, weight)
        # The outcome is above 0 if the error exceeds −net, in units of its size.
        chance = 1.0 - _share_below(sign, -net / size, errors, weight)
        figures = (net + size * low, net + size * middle, net + size * high, chance)
        for figure, of_sign in zip((bottom, centre, top, above), figures, strict=True):
            np.copyto(figure, of_sign, where=(toward == sign) & np.isfinite(size))
    return bottom, centre, top, above


def _quantiles(sign: float, shares: Floats, errors: Floats, weight: Floats) -> Floats:
    """Return quantiles of sorted errors: unchanged for sign 1, reversed for −1, and half of each for 0."""
    if sign > 0.0:
        return np.asarray(np.interp(shares, weight, errors))
    if sign < 0.0:
        return np.asarray(-np.interp(1.0 - shares, weight, errors))
    # A stable sort merges two sorted arrays.
    grid = np.sort(np.concatenate([-errors[::-1], errors]), kind="stable")
    # The weight increases along the grid, so a binary search evaluates it only where needed.
    first = np.zeros(shares.shape, dtype=np.intp)
    last = np.full(shares.shape, max(grid.size - 1, 0))
    while (last - first > 1).any():
        middle = (first + last) // 2
        is_below = _share_below(0.0, grid[middle], errors, weight) <= shares
        first = np.where(is_below, middle, first)
        last = np.where(is_below, last, middle)
    ends = np.stack([first, last], axis=-1)
    below = _share_below(0.0, grid[ends], errors, weight)
    return np.array([np.interp(*between) for between in zip(shares, below, grid[ends], strict=True)])


def _share_below(sign: float, values: Floats, errors: Floats, weight: Floats) -> Floats:
    """Return the share of the weight of errors below some values.

    `sign` is that of the expected outcome: errors have the opposite sign if it is negative, and half of them
    have either sign if it is 0.
    """
    if sign > 0.0:
        return np.asarray(np.interp(values, errors, weight, left=0.0, right=1.0))
    if sign < 0.0:
        return np.asarray(1.0 - np.interp(-values, errors, weight, left=0.0, right=1.0))
    unchanged = _share_below(1.0, values, errors, weight)
    reversed_ = _share_below(-1.0, values, errors, weight)
    return np.asarray(0.5 * (unchanged + reversed_))


class _Sizes(NamedTuple):
    """Sizes of errors as a log-linear function of predictors, fitted at each column to known errors."""

    logs: Floats
    """(predictor, pair, column)."""
    level: Floats
    slopes: Floats
    """(column, predictor)."""
    number: Floats
    """Weight of the errors in each column's fit."""
    low: Floats
    high: Floats
    """(column, predictor): range of the predictors of these errors."""

    def made(self, column: int, of: Indices) -> Floats:
        """Return the sizes (pair, of) that the fit of one column gives for the predictors at some columns."""
        bounds = (bound[column][:, None, None] for bound in (self.low, self.high))
        inside = np.clip(self.logs[:, :, of], *bounds)
        return np.asarray(np.exp(self.level[column] + np.einsum("k,kpc->pc", self.slopes[column], inside)))


class PastErrors:
    """Past errors of forecasts in ascending order, carried from one decision to the next.

    Sorting all errors again at each decision would take most of the time of a history of forecasts. Errors
    with final size are sorted once: a decision inserts the newly known errors and drops the oldest. Their
    weights halve with age at one rate, so that all of them shrink by the same factor between two decisions,
    which cancels in shares of their sum.

    Parameters
    ----------
    missed
        (pair, column) bps: outcome less expectation; NaN where the outcome is not known or not kept.
    scale
        (pair, column) bps: size of the error that was expected.
    direction
        (pair, column): 1 where the pair was expected to earn, −1 where its reverse was, 0 where neither.
    sizes
        Regression of the sizes, for errors whose expected size rested on too few errors.
    columns
        Periods of the columns.
    """

    def __init__(
        self,
        missed: Floats,
        scale: Floats,
        direction: Floats,
        sizes: _Sizes,
        columns: Indices,
        plan: Plan,
    ) -> None:
        # Columns without an error are periods that needed only a forecast. They must not displace columns
        # with errors.
        self._with_errors = np.flatnonzero(np.isfinite(missed).any(axis=0))
        self._periods = columns[self._with_errors]
        self._doubtful = sizes.number[self._with_errors] < _ENOUGH_ERRORS
        scored = np.isfinite(missed[:, self._with_errors] / scale[:, self._with_errors])
        self._has_size: Bools = np.asarray(scored.any(axis=0))
        self._missed = missed
        self._scale = scale
        self._direction = direction
        self._sizes = sizes
        self._columns = columns
        self._plan = plan
        self._most = max(1, _MAX_ERRORS // max(1, missed.shape[0]))
        self._start_again()

    def _start_again(self) -> None:
        self._start = 0
        self._end = 0
        self._errors: Floats = np.empty(0)
        self._weights: Floats = np.empty(0)
        self._column: NDArray[np.int32] = np.empty(0, dtype=np.int32)

    def known_at(self, at: int) -> tuple[Floats, Floats, int]:
        """Return the sorted errors known at a period, the weight up to each, and the number of decisions.

        Errors are in units of their expected size. If that size was based on too few errors, the size by the
        current regression is used, because a size from one lucky error would distort the quantiles.
        """
        # 1. Select the newest decisions with a known outcome, up to a maximum number.
        end = int(np.searchsorted(self._periods, at - self._plan.hold, side="right"))
        start = max(0, end - self._most)
        if end < self._end:
            self._start_again()
        self._insert_final(max(start, self._end), end)
        if start > self._start:
            stay = self._column >= start
            self._errors = self._errors[stay]
            self._weights = self._weights[stay]
            self._column = self._column[stay]
        self._start = start
        self._end = end

        # 2. Recompute and merge the errors whose size is provisional.
        errors = self._errors
        weights = self._weights
        unsettled = start + np.flatnonzero(self._doubtful[start:end])
        if unsettled.size:
            now = int(np.searchsorted(self._columns, at))
            size = self._sizes.made(now, self._with_errors[unsettled])
            errors, weights = _merged((errors, weights), self._weighted(unsettled, size)[:2])

        # 3. Compute the weight up to the middle of each error, so that the distribution is symmetric under
        # reversal.
        up_to = np.cumsum(weights)
        total = float(up_to[-1]) if up_to.size else 0.0
        up_to -= 0.5 * weights
        up_to /= max(total, TINY)
        return errors, up_to, int(self._has_size[start:end].sum())

    def _insert_final(self, first: int, end: int) -> None:
        """Insert the errors of columns from `first` to before `end` whose size is final."""
        final = first + np.flatnonzero(~self._doubtful[first:end])
        if not final.size:
            return
        new = self._weighted(final, self._scale[:, self._with_errors[final]])
        so_far = (self._errors, self._weights, self._column)
        self._errors, self._weights, self._column = _merged(so_far, new)

    def _weighted(self, places: Indices, size: Floats) -> tuple[Floats, Floats, NDArray[np.int32]]:
        """Return the errors of some columns in order, their weights and their columns.

        An error counts in the direction of the forecast. Without a direction, half of it counts in each, so
        that the order of venues in the panel does not matter.
        """
        # 1. Divide the errors by their size, and compute their weights.
        columns = self._with_errors[places]
        errors = np.clip(self._missed[:, columns] / size, -_LARGEST, _LARGEST)
        finite = np.isfinite(errors)
        toward = self._direction[:, columns][finite]
        fresh = 0.5 ** ((self._periods[0] - self._periods[places]) / self._plan.memory)
        weights = np.broadcast_to(fresh, errors.shape)[finite]
        column = np.broadcast_to(places.astype(np.int32), errors.shape)[finite]

        # 2. Count each error unchanged or reversed, by the direction of its forecast.
        errors = np.concatenate([errors[finite], -errors[finite]])
        weights = np.concatenate([weights * 0.5 * (1.0 + toward), weights * 0.5 * (1.0 - toward)])
        column = np.concatenate([column, column])
        counted = weights > 0.0
        errors = errors[counted]
        weights = weights[counted]
        column = column[counted]
        order = np.argsort(errors, kind="stable")
        return errors[order], weights[order], column[order]


def _own_deviation(outcomes: Floats, long: Indices, short: Indices, columns: Indices, plan: Plan) -> Floats:
    """Return the standard deviation (pair, column) of each pair's own known outcomes.

    NaN with fewer than `_OWN_OUTCOMES` effective decisions. Infinite if they do not vary: a pinned pair gives
    no size for its first move.
    """
    earned = outcomes[short] - outcomes[long]
    finite = np.isfinite(earned)
    first = np.argmax(finite, axis=1)
    # Subtract the first known outcome, because squares of a level that is large relative to its moves would
    # cancel.
    centred = np.where(finite, earned - earned[np.arange(long.size), first][:, None], 0.0)
    count = np.zeros(long.size)
    total = np.zeros(long.size)
    squares = np.zeros(long.size)
    deviation = np.full((long.size, columns.size), np.nan)
    end = 0
    for column, period in enumerate(columns):
        start = end
        end = max(end, int(period) - plan.hold + 1)
        count += finite[:, start:end].sum(axis=1)
        total += centred[:, start:end].sum(axis=1)
        squares += (centred[:, start:end] ** 2).sum(axis=1)
        mean = total / np.maximum(count, 1.0)
        variance = np.maximum(squares / np.maximum(count, 1.0) - mean**2, 0.0)
        enough = count >= _OWN_OUTCOMES * plan.hold
        moves = variance > _PINNED * squares / np.maximum(count, 1.0)
        deviation[enough, column] = np.where(moves, np.sqrt(variance), np.inf)[enough]
    return deviation


def _merged(first: tuple[NDArray[Any], ...], second: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    """Merge two groups of arrays, both sorted by their first one; the order of equal values is stable."""
    place = np.searchsorted(first[0], second[0], side="right") + np.arange(second[0].size)
    from_first = np.ones(first[0].size + second[0].size, dtype=bool)
    from_first[place] = False
    merged = []
    for values, more in zip(first, second, strict=True):
        joined = np.empty(from_first.size, dtype=values.dtype)
        joined[from_first] = values
        joined[place] = more
        merged.append(joined)
    return tuple(merged)


def _scales(
    spread: Floats, predicted: Floats, missed: Floats, columns: Indices, plan: Plan
) -> tuple[Floats, _Sizes]:
    """Estimate the size of an error: a log-linear regression of past ones on the variation of a pair.

    Logarithms are used because the sizes of errors range over three decades and the largest must not
    dominate. The causes are the pair's mean distance from its weekly mean over a week and over the longest
    span, its forecast, and the mean of the first over all pairs. A size stays within the range supported by
    its errors: slopes are between 0 and 1 and are fitted from thirty errors on, causes are clipped to their
    observed range, and the pair's own recent errors take precedence. So few errors cannot give an arbitrarily
    wide interval.
    """
    # 1. Take logarithms of the predictors and the errors.
    week, lasting = plan.spans[-2:]
    away = np.abs(spread - trailing_mean(spread, week, 1.0))
    recent = np.sqrt(plan.hold) * trailing_mean(away, week, 1.0)[:, columns]
    usual = np.sqrt(plan.hold) * trailing_mean(away, lasting, 1.0)[:, columns]
    there = np.isfinite(predicted)
    market = np.where(there, recent, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    floor = _FLOOR * market + TINY
    causes = np.stack([recent, usual, np.abs(predicted), np.broadcast_to(market, recent.shape)])
    logs = np.log(causes + floor)
    missing = np.log(np.abs(missed) + floor)
    finite = np.isfinite(missing) & np.isfinite(logs).all(axis=0)

    # 2. Fit the regression at each column to the errors known there.
    logs_known = np.where(finite, np.concatenate([logs, missing[None]]), 0.0)
    summands = np.concatenate([finite[None].astype(np.float64), logs_known])
    sums = remembered(np.moveaxis(np.einsum("kpc,lpc->klc", summands, summands), -1, 0), columns, plan)
    number = sums[:, 0, 0]
    weight = np.maximum(number, TINY)[:, None, None]
    # Centred, so that the penalty on the slopes does not affect the level.
    mean = sums[:, :1, 1:] / weight
    centred = sums[:, 1:, 1:] - weight * np.swapaxes(mean, 1, 2) * mean
    fitted = penalised(centred[:, :-1, :-1], centred[:, :-1, -1:], np.full(4, _SIZE_PRIOR), _SIZE_PENALTY)
    slopes = np.where((number >= _ENOUGH_ERRORS)[:, None], np.clip(fitted, 0.0, 1.0), _SIZE_PRIOR)
    level = np.where(number > 0.0, mean[:, 0, -1] - (slopes * mean[:, 0, :-1]).sum(axis=1), 0.0)

    # 3. Compute sizes within the range of the predictors.
    low, high = _seen(np.where(finite, logs, np.nan), columns, plan)
    sizes = _Sizes(logs, level, slopes, number, low, high)
    inside = np.clip(logs, np.moveaxis(low, -1, 0)[:, None], np.moveaxis(high, -1, 0)[:, None])
    pooled = np.exp(level + np.einsum("ck,kpc->pc", slopes, inside))

    # 4. Use a prior for pairs with few errors: the usual error times the pair's relative variation.
    restless = np.exp(mean[:, 0, -1] + 0.5 * (logs[:2] - mean[:, 0, :2].T[:, None]).sum(axis=0))
    restless = np.where(number > 0.0, np.maximum(restless, pooled), pooled)
    return _own_first(pooled, restless, missed, columns, plan), sizes


def _seen(logs: Floats, columns: Indices, plan: Plan) -> tuple[Floats, Floats]:
    """Return the range of each predictor (column, predictor) over the errors known at each column."""
    # Errors before this position are known.
    latest = np.searchsorted(columns, columns - plan.hold, side="right")
    ends = []
    for sign in (1.0, -1.0):
        minimum = np.nanmin(np.append(sign * logs, np.full((len(logs), 1, logs.shape[2]), np.inf), 1), axis=1)
        running = np.minimum.accumulate(minimum, axis=1)
        ends.append(sign * np.append(np.full((len(logs), 1), -np.inf), running, axis=1)[:, latest].T)
    return np.where(np.isfinite(ends[0]), ends[0], -np.inf), np.where(np.isfinite(ends[1]), ends[1], np.inf)


def _own_first(pooled: Floats, restless: Floats, missed: Floats, columns: Indices, plan: Plan) -> Floats:
    """Scale pooled sizes by each pair's own recent errors.

    ``√((m + Σ w r²) / (m + Σ w))``: r is an error in units of its pooled size, over the usual one of all
    pairs; weights w halve in two weeks, and m decisions belong to the pool. So a new regime counts within
    weeks. If a pair varies more than its pooled size allows, the share ``k / (k + Σ w)`` of the excess counts
    (in logarithms), all of it for a new pair. Never below half of the usual (geometric mean) error of the
    pair itself.
    """
    # 1. Average squared errors in units of their pooled size, recent ones and all.
    finite = np.isfinite(missed) & np.isfinite(pooled)
    squares = np.where(finite, missed / np.where(finite, pooled, 1.0), 0.0) ** 2
    ratios = np.stack([finite.astype(np.float64), np.minimum(squares, _LARGEST**2)], axis=-1).swapaxes(0, 1)
    short = remembered(ratios, columns, plan._replace(memory=plan.recent))
    lasting = remembered(ratios.sum(axis=1), columns, plan)[:, None]
    usual = np.maximum(lasting[..., 1] / np.maximum(lasting[..., 0], 1.0), TINY)

    # 2. Compute the factor of the pair's own errors, and the excess of pairs that vary more than the pool.
    factor = (_OWN_WEIGHT + short[..., 1] / usual) / (_OWN_WEIGHT + short[..., 0])
    new = _RESTLESS_WEIGHT / (_RESTLESS_WEIGHT + short[..., 0].T)
    moved = pooled * np.sqrt(np.where(lasting[..., 0] > 0.0, factor, 1.0)).T * (restless / pooled) ** new

    # 3. Apply the floor: half of the pair's geometric mean error.
    sizes = np.where(finite, np.log(np.abs(np.where(finite, missed, 1.0)) + TINY), 0.0)
    own = remembered(np.stack([ratios[..., 0], sizes.T], axis=-1), columns, plan)
    minimum = np.where(own[..., 0] > 0.0, np.exp(own[..., 1] / np.maximum(own[..., 0], TINY)), 0.0)
    return np.asarray(np.maximum(moved, _OWN_SHARE * minimum.T))
