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
    outcome_deviation,
    pair_places,
    penalised,
    remembered,
    trailing_mean,
)
from derivdata.support.arrays import Bools, Floats, Indices

_SIZE_PENALTY = 0.02
# Prior slope on each of the four predictors: they add up to 1, so that sizes scale with the rates.
_SIZE_PRIOR = 0.25
_MIN_ERRORS = 30  # minimum number of errors to fit the slopes of sizes, and to use an error's own size
_OWN_SHARE = 0.5  # minimum size as a fraction of the pair's own past errors
_VARIABILITY_WEIGHT = 10.0  # weight of the pair's variability, in decisions
_POOLED_WEIGHT = 5.0  # weight of the pooled size relative to the pair's own recent errors, in decisions
_MAX_ERROR = (
    10.0  # limit of an error in units of its size: a larger one would move the quantiles of all pairs
)
_FLOOR = 0.05  # fraction of the market's variability that keeps the logarithm of a pinned spread finite
_MAX_ERRORS = 200_000
_MAX_WIDTH = 20.0  # maximum width of an interval, in standard deviations of past outcomes
_MIN_OWN_DECISIONS = 1.0
"""Effective number of own decisions that a pair needs for an interval.

Outcomes that span less than a holding time overlap: their deviation is a fraction of that of independent
ones, and intervals bounded by it contain too few outcomes.
"""
_ROUNDING = 1e-12  # fraction of the mean square below which a variance is rounding error
_RARE = 0.005  # probability of errors beyond each end of the range that is compared with past outcomes
_MIN_FREEDOM = 2.0
_FREEDOM_PER_DECISION = 0.25
"""Chosen on pairs of two venues of 2020–2022, where each horizon and history then covers 89 to 93 %."""


class Walk(NamedTuple):
    """Forecasts at each period of a panel, of one regression or the sum of several, and their past errors."""

    components: tuple[Means, ...]
    outcomes: Floats
    """(venue, period) payments of a long over the holding time [bps], NaN if unknown."""
    decision_count: Floats
    """(period) effective number of known decisions: see `Means`."""
    pooled_deviation: Floats
    """(period) bps: standard deviation of the known outcomes of all pairs."""
    own_deviation: Floats
    """(pair, column) bps: standard deviation of the pair's own known outcomes; NaN with too few."""
    columns: Indices
    """Periods of `own_deviation` and `scale`."""
    scale: Floats
    """(pair, column) bps: expected size of the error."""
    past: PastErrors
    long: Indices
    short: Indices
    """(pair) indices of its venues, which both have amounts in some period."""
    plan: Plan

    def pair_expectations(self, at: int) -> Floats:
        """Return the bps (long, short) that every ordered pair is expected to earn over the holding time."""
        return np.asarray(sum(component.pair_expectations(at) for component in self.components))


def walk_of(components: tuple[Means, ...], amounts: Floats, plan: Plan) -> Walk:
    """Sum the forecasts of regressions by pair, and estimate the sizes of their errors.

    `amounts` (venue, period) [bps] are the payments of a long, summed over the components. The differences
    between venues are the variation of a pair.
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
    errors = realised - predicted
    scale, sizes = _error_sizes(amounts[short] - amounts[long], predicted, errors, columns, plan)

    # 3. Add the past errors, and the deviations of outcomes, which limit later intervals.
    return Walk(
        components,
        outcomes,
        decision_count=np.min(np.stack([component.decision_count for component in components]), axis=0),
        pooled_deviation=outcome_deviation(outcomes, plan),
        own_deviation=_own_deviation(outcomes, long, short, columns, plan),
        columns=columns,
        scale=scale,
        past=PastErrors(errors, scale, direction_of(predicted), sizes, columns, plan),
        long=long,
        short=short,
        plan=plan,
    )


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
        # 1. Allow for few decisions.
        venues = np.isfinite(np.diag(expected)).sum()
        decisions_of_pairs = walk.decision_count[at] * 0.5 * venues * (venues - 1)
        freedom = _MIN_FREEDOM + _FREEDOM_PER_DECISION * decisions_of_pairs
        scale = scale * stdtrit(freedom, 0.95) / ndtri(0.95)

        # 2. Limit the width of the interval by past outcomes. Without a direction, errors count in both.
        own_deviation = _both_directions(walk.own_deviation[:, column], walk, np.inf)
        deviation = np.minimum(walk.pooled_deviation[at], own_deviation)
        low, high = np.interp([_RARE, 1.0 - _RARE], weight, errors)
        width = np.where(direction_of(expected) == 0.0, 2.0 * max(-low, high), high - low)
        scale = np.minimum(scale, _MAX_WIDTH * deviation / np.maximum(width, 1.0))
        scale = np.maximum(scale, TINY)
    return PairDistribution(expected, scale, errors, weight, decisions)


def _both_directions(of_pairs: Floats, walk: Walk, default: float) -> Floats:
    """Return values of pairs as a square (long, short), equal in both directions; otherwise `default`."""
    venues = walk.outcomes.shape[0]
    square = np.full((venues, venues), default)
    square[walk.long, walk.short] = of_pairs
    square[walk.short, walk.long] = of_pairs
    return square


def outcome_figures(
    mean: Floats, size: Floats, errors: Floats, weight: Floats, cost: Any, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return low end, median and high end of outcomes after cost [bps], and the probability to be above 0.

    `mean` and `size` [bps] are those of each pair; `errors` and `weight` as in `PairDistribution`.
    """
    probabilities = np.array([0.5 * (1.0 - level), 0.5, 0.5 * (1.0 + level)])
    direction = np.where(np.isfinite(mean), direction_of(mean), np.nan)
    net = mean - cost
    low = np.full(mean.shape, np.nan)
    median = np.full(mean.shape, np.nan)
    high = np.full(mean.shape, np.nan)
    above_zero = np.full(mean.shape, np.nan)
    for sign in np.unique(direction[np.isfinite(direction)]):
        has_sign = (direction == sign) & np.isfinite(size)
        quantiles = _quantiles(sign, probabilities, errors, weight)
        for result, quantile in zip((low, median, high), quantiles, strict=True):
            np.copyto(result, net + size * quantile, where=has_sign)
        # The outcome is above 0 if the error exceeds −net, in units of its size.
        np.copyto(above_zero, 1.0 - _share_below(sign, -net / size, errors, weight), where=has_sign)
    return low, median, high, above_zero


def _quantiles(sign: float, shares: Floats, errors: Floats, weight: Floats) -> Floats:
    """Return quantiles of sorted errors: unchanged for sign 1, reversed for −1, and half of each for 0.

    `shares` are the probabilities of the quantiles, `weight` is the share of the weight up to each error.
    """
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
    """(predictor, pair, column): logarithms of the predictors."""
    level: Floats
    """(column)."""
    slopes: Floats
    """(column, predictor)."""
    number: Floats
    """(column): weight of the errors in the fit."""
    low: Floats
    high: Floats
    """(column, predictor): range of the predictors of these errors."""

    def by_fit(self, column: int, columns: Indices) -> Floats:
        """Return the sizes (pair, columns) that the fit of one column gives for the predictors at others."""
        low = self.low[column][:, None, None]
        high = self.high[column][:, None, None]
        logs = np.clip(self.logs[:, :, columns], low, high)
        return np.asarray(np.exp(self.level[column] + np.einsum("k,kpc->pc", self.slopes[column], logs)))


class PastErrors:
    """Past errors of forecasts in ascending order, carried from one decision to the next.

    Sorting all errors again at each decision would take most of the time of a history of forecasts. Errors
    with final size are sorted once: a decision inserts the newly known errors and drops the oldest. Their
    weights halve with age at one rate, so that all of them shrink by the same factor between two decisions,
    which cancels in shares of their sum.

    Parameters
    ----------
    errors
        (pair, column) bps: outcome minus expectation; NaN if the outcome is unknown or not stored.
    scale
        (pair, column) bps: size of the error that was expected.
    direction
        (pair, column): 1 where the pair was expected to earn, −1 where its reverse was, 0 where neither.
    sizes
        Regression of the sizes, for errors whose expected size was based on too few errors.
    columns
        Periods of the columns.
    """

    def __init__(
        self,
        errors: Floats,
        scale: Floats,
        direction: Floats,
        sizes: _Sizes,
        columns: Indices,
        plan: Plan,
    ) -> None:
        # Columns without an error are periods that needed only a forecast. They must not displace columns
        # with errors.
        self._with_errors = np.flatnonzero(np.isfinite(errors).any(axis=0))
        self._periods = columns[self._with_errors]
        self._is_provisional = sizes.number[self._with_errors] < _MIN_ERRORS
        has_size = np.isfinite(errors[:, self._with_errors] / scale[:, self._with_errors])
        self._has_size: Bools = np.asarray(has_size.any(axis=0))
        self._errors = errors
        self._scale = scale
        self._direction = direction
        self._sizes = sizes
        self._columns = columns
        self._plan = plan
        self._max_columns = max(1, _MAX_ERRORS // max(1, errors.shape[0]))
        self._clear()

    def _clear(self) -> None:
        """Remove all errors from the sorted arrays, which have those of columns from start to before end."""
        self._start = 0
        self._end = 0
        self._sorted_errors: Floats = np.empty(0)
        self._sorted_weights: Floats = np.empty(0)
        self._sorted_columns: NDArray[np.int32] = np.empty(0, dtype=np.int32)

    def known_at(self, at: int) -> tuple[Floats, Floats, int]:
        """Return the sorted errors known at a period, the weight up to each, and the number of decisions.

        Errors are in units of their expected size. If that size was based on too few errors, the size by the
        current regression is used, because a size from one lucky error would distort the quantiles.
        """
        # 1. Select the newest decisions with a known outcome, up to a maximum number.
        end = int(np.searchsorted(self._periods, at - self._plan.hold, side="right"))
        start = max(0, end - self._max_columns)
        if end < self._end:
            self._clear()
        self._insert_final(max(start, self._end), end)
        if start > self._start:
            is_recent = self._sorted_columns >= start
            self._sorted_errors = self._sorted_errors[is_recent]
            self._sorted_weights = self._sorted_weights[is_recent]
            self._sorted_columns = self._sorted_columns[is_recent]
        self._start = start
        self._end = end

        # 2. Recompute and merge the errors whose size is provisional.
        errors = self._sorted_errors
        weights = self._sorted_weights
        provisional = start + np.flatnonzero(self._is_provisional[start:end])
        if provisional.size:
            present = int(np.searchsorted(self._columns, at))
            size = self._sizes.by_fit(present, self._with_errors[provisional])
            errors, weights = _merged((errors, weights), self._sorted(provisional, size)[:2])

        # 3. Compute the weight up to the middle of each error, so that the distribution is symmetric under
        # reversal.
        weight_up_to = np.cumsum(weights)
        total = float(weight_up_to[-1]) if weight_up_to.size else 0.0
        weight_up_to -= 0.5 * weights
        weight_up_to /= max(total, TINY)
        return errors, weight_up_to, int(self._has_size[start:end].sum())

    def _insert_final(self, first: int, end: int) -> None:
        """Insert the errors of columns from `first` to before `end` whose size is final."""
        final = first + np.flatnonzero(~self._is_provisional[first:end])
        if not final.size:
            return
        new = self._sorted(final, self._scale[:, self._with_errors[final]])
        present = (self._sorted_errors, self._sorted_weights, self._sorted_columns)
        self._sorted_errors, self._sorted_weights, self._sorted_columns = _merged(present, new)

    def _sorted(self, places: Indices, size: Floats) -> tuple[Floats, Floats, NDArray[np.int32]]:
        """Return the errors of some columns in ascending order, their weights and their columns.

        `places` are indices of columns with errors, `size` (pair, places) divides the errors. An error counts
        in the direction of the forecast. Without a direction, half of it counts in each, so that the order of
        venues in the panel does not matter.
        """
        # 1. Divide the errors by their size, and compute their weights.
        columns = self._with_errors[places]
        errors = np.clip(self._errors[:, columns] / size, -_MAX_ERROR, _MAX_ERROR)
        finite = np.isfinite(errors)
        direction = self._direction[:, columns][finite]
        # Weights are relative to the first period: newer ones are above 1, and none changes later.
        weight_of_column = 0.5 ** ((self._periods[0] - self._periods[places]) / self._plan.memory)
        weights = np.broadcast_to(weight_of_column, errors.shape)[finite]
        column = np.broadcast_to(places.astype(np.int32), errors.shape)[finite]

        # 2. Count each error unchanged or reversed, by the direction of its forecast.
        errors = np.concatenate([errors[finite], -errors[finite]])
        weights = np.concatenate([weights * 0.5 * (1.0 + direction), weights * 0.5 * (1.0 - direction)])
        column = np.concatenate([column, column])
        counts = np.flatnonzero(weights > 0.0)
        order = counts[np.argsort(errors[counts], kind="stable")]
        return errors[order], weights[order], column[order]


def _own_deviation(outcomes: Floats, long: Indices, short: Indices, columns: Indices, plan: Plan) -> Floats:
    """Return the standard deviation (pair, column) of each pair's own known outcomes.

    NaN with fewer than `_MIN_OWN_DECISIONS` effective decisions. It is infinite if the outcomes do not vary,
    because a pinned pair does not show the size of its first move.
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
        mean_square = squares / np.maximum(count, 1.0)
        variance = np.maximum(mean_square - mean**2, 0.0)
        varies = variance > _ROUNDING * squares / np.maximum(count, 1.0)
        has_enough = count >= _MIN_OWN_DECISIONS * plan.hold
        deviation[has_enough, column] = np.where(varies, np.sqrt(variance), np.inf)[has_enough]
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


def _error_sizes(
    spread: Floats, predicted: Floats, errors: Floats, columns: Indices, plan: Plan
) -> tuple[Floats, _Sizes]:
    """Estimate the size of an error: a log-linear regression of past ones on the variation of a pair.

    Logarithms are used because the sizes of errors range over three decades and the largest must not
    dominate. The predictors are the pair's mean distance from its weekly mean over a week and over the
    longest span, its forecast, and the mean of the first over all pairs. A size stays within the range
    supported by its errors: slopes are between 0 and 1 and are fitted from thirty errors on, predictors are
    clipped to their observed range, and the pair's own recent errors take precedence. So few errors cannot
    give an arbitrarily wide interval.
    """
    # 1. Take logarithms of the predictors and the errors.
    week, longest = plan.spans[-2:]
    distance = np.abs(spread - trailing_mean(spread, week, 1.0))
    weekly = np.sqrt(plan.hold) * trailing_mean(distance, week, 1.0)[:, columns]
    long_run = np.sqrt(plan.hold) * trailing_mean(distance, longest, 1.0)[:, columns]
    has_forecast = np.isfinite(predicted)
    market = np.where(has_forecast, weekly, 0.0).sum(axis=0) / np.maximum(has_forecast.sum(axis=0), 1)
    floor = _FLOOR * market + TINY
    predictors = np.stack([weekly, long_run, np.abs(predicted), np.broadcast_to(market, weekly.shape)])
    logs = np.log(predictors + floor)
    log_errors = np.log(np.abs(errors) + floor)
    finite = np.isfinite(log_errors) & np.isfinite(logs).all(axis=0)

    # 2. Sum the products of (1, predictors, error) of the errors known at each column.
    variables = np.where(finite, np.concatenate([logs, log_errors[None]]), 0.0)
    variables = np.concatenate([finite[None].astype(np.float64), variables])
    products = np.moveaxis(np.einsum("kpc,lpc->klc", variables, variables), -1, 0)
    sums = remembered(products, columns, plan)

    # 3. Fit the regression, centred so that the penalty on the slopes does not affect the level.
    number = sums[:, 0, 0]
    weight = np.maximum(number, TINY)[:, None, None]
    means = sums[:, :1, 1:] / weight
    centred = sums[:, 1:, 1:] - weight * np.swapaxes(means, 1, 2) * means
    fitted = penalised(centred[:, :-1, :-1], centred[:, :-1, -1:], np.full(4, _SIZE_PRIOR), _SIZE_PENALTY)
    slopes = np.where((number >= _MIN_ERRORS)[:, None], np.clip(fitted, 0.0, 1.0), _SIZE_PRIOR)
    mean_logs = means[:, 0, :-1]
    mean_log_error = means[:, 0, -1]
    level = np.where(number > 0.0, mean_log_error - (slopes * mean_logs).sum(axis=1), 0.0)

    # 4. Compute sizes within the range of the predictors.
    low, high = _known_range(np.where(finite, logs, np.nan), columns, plan)
    sizes = _Sizes(logs, level, slopes, number, low, high)
    clipped = np.clip(logs, np.moveaxis(low, -1, 0)[:, None], np.moveaxis(high, -1, 0)[:, None])
    pooled = np.exp(level + np.einsum("ck,kpc->pc", slopes, clipped))

    # 5. Compute a prior for pairs with few errors: the mean error times the pair's relative variation.
    relative_variation = 0.5 * (logs[:2] - mean_logs[:, :2].T[:, None]).sum(axis=0)
    by_variation = np.exp(mean_log_error + relative_variation)
    by_variation = np.where(number > 0.0, np.maximum(by_variation, pooled), pooled)
    return _scaled_by_own_errors(pooled, by_variation, errors, columns, plan), sizes


def _known_range(logs: Floats, columns: Indices, plan: Plan) -> tuple[Floats, Floats]:
    """Return minimum and maximum (column, predictor) of `logs` over the errors known at each column.

    They are infinite before the first known error. NaN in `logs` is ignored.
    """
    known_end = np.searchsorted(columns, columns - plan.hold, side="right")
    # Row i has the range of the first i columns.
    low = np.nanmin(logs, axis=1, initial=np.inf)
    low = np.pad(np.minimum.accumulate(low, axis=1), ((0, 0), (1, 0)), constant_values=np.inf)
    high = np.nanmax(logs, axis=1, initial=-np.inf)
    high = np.pad(np.maximum.accumulate(high, axis=1), ((0, 0), (1, 0)), constant_values=-np.inf)
    low = low[:, known_end].T
    high = high[:, known_end].T
    return np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)


def _scaled_by_own_errors(
    pooled: Floats, by_variation: Floats, errors: Floats, columns: Indices, plan: Plan
) -> Floats:
    """Scale pooled sizes (pair, column) by each pair's own recent errors.

    The factor is ``√((m + Σ w r²) / (m + Σ w))``: r is an error in units of its pooled size, relative to the
    mean of all pairs; the weights w halve in two weeks, and the pool has the weight of m decisions. So a new
    regime counts within weeks. If a pair's size by its variation exceeds the pooled one, the share ``k / (k +
    Σ w)`` of the excess is added (in logarithms), which is all of it for a new pair. The result is at least
    half of the pair's own geometric mean error.
    """
    # 1. Sum squared errors in units of their pooled size: recent ones of each pair, and all of all pairs.
    finite = np.isfinite(errors) & np.isfinite(pooled)
    squares = np.where(finite, errors / np.where(finite, pooled, 1.0), 0.0) ** 2
    squares = np.minimum(squares, _MAX_ERROR**2)
    summands = np.stack([finite.astype(np.float64), squares], axis=-1).swapaxes(0, 1)
    recent = remembered(summands, columns, plan._replace(memory=plan.recent))
    recent_count = recent[..., 0]
    of_all = remembered(summands.sum(axis=1), columns, plan)[:, None]
    mean_square = np.maximum(of_all[..., 1] / np.maximum(of_all[..., 0], 1.0), TINY)

    # 2. Compute the factor of the pair's own errors, and the excess of pairs that vary more than the pool.
    factor = (_POOLED_WEIGHT + recent[..., 1] / mean_square) / (_POOLED_WEIGHT + recent_count)
    factor = np.where(of_all[..., 0] > 0.0, factor, 1.0).T
    excess_share = _VARIABILITY_WEIGHT / (_VARIABILITY_WEIGHT + recent_count.T)
    scaled = pooled * np.sqrt(factor) * (by_variation / pooled) ** excess_share

    # 3. Apply the floor: half of the pair's geometric mean error.
    log_errors = np.where(finite, np.log(np.abs(np.where(finite, errors, 1.0)) + TINY), 0.0)
    recent_logs = remembered(np.stack([summands[..., 0], log_errors.T], axis=-1), columns, plan)
    mean_log = recent_logs[..., 1] / np.maximum(recent_logs[..., 0], TINY)
    geometric_mean = np.where(recent_logs[..., 0] > 0.0, np.exp(mean_log), 0.0)
    return np.asarray(np.maximum(scaled, _OWN_SHARE * geometric_mean.T))
