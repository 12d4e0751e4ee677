"""Walk-forward pooled regression of the next earnings of pairs on their recent earnings.

Every value of a period depends on that period and earlier ones: an outcome is used once its holding time is
over. Arrays are ``(venue, period)``, in bps that a long pays over each period; pairs are those of
`pair_places`, short minus long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.analysis.funding.rolling import sliding
from derivdata.support.arrays import Bools, Floats, Indices

_PENALTY = 0.1  # penalty as a fraction of the mean diagonal of the normal equations
_PRIOR = 0.5  # prior fraction of the trailing means that is earned, used before an outcome is known
_ZERO_WEIGHT = 2.0  # weight of zero carry in decisions, because a slope from few outcomes is mostly chance

_FULL_SIZE_DECISIONS = 8.0
"""Independent decisions times the root of the number of pairs, from which a forecast may be as large as the
usual outcome. With one pair and two weeks, the largest fitted value is chance.
"""

_FORECAST_WEIGHT = 8.0  # weight of the forecasts of a size relative to their outcomes, in decisions
_GRID_STEPS = 2  # steps per octave
_GRID = 2.0 ** (np.arange(-6 * _GRID_STEPS, 10 * _GRID_STEPS + 1) / _GRID_STEPS)
"""Grid of forecast sizes [bps]."""

_GROUPS = np.append(np.arange(1, 10) / 10.0, [0.97, 0.99, 0.997])
"""Quantiles of past forecasts that bound the groups of sizes. The top is finer, because the largest forecasts
are the ones that are traded."""

TINY = 1e-9  # bps
_MIN_COVER = 0.9  # share of the periods of a holding time that must be known


class Plan(NamedTuple):
    """Lengths of time, in periods."""

    hold: int
    spans: tuple[int, ...]
    """Spans of the trailing means, the shortest first: a period, a day, three, seven, and the longest."""
    stride: int
    """Spacing of the decisions whose errors are stored; decisions in between are nearly identical."""
    phase: int
    """Periods from the first one to the first such decision."""
    memory: float
    """Half-life of the weight of a past decision."""
    minimum: int
    """Minimum number of known periods in the longest mean."""
    recent: float
    """Half-life of the weight of a pair's own errors in the size of its next error."""


class Means(NamedTuple):
    """Expectations of a regression for a panel at each of its periods, and their outcomes."""

    expected: Floats
    """(venue, period) payments that the regression forecasts for a long on the venue over the holding time
    [bps]; `pair_expectations` shrinks a pair's difference by past forecasts.
    """
    outcomes: Floats
    """(venue, period) payments in bps, NaN if unknown."""
    decision_count: Floats
    """(period) effective number of decisions with known outcome: overlapping ones add up to the time that
    their outcomes span over the holding time.
    """
    columns: Indices
    """Periods of the arrays below."""
    predicted: Floats
    """(pair, column) forecast earnings of pairs [bps], in the order of `pair_places`."""
    realised: Floats
    """(pair, column) earnings [bps]; NaN if unknown, and at columns whose errors are not stored."""
    realised_share: Floats
    """(column, `_GRID`): realised share of past forecasts of that size."""
    max_forecast: Floats
    """(column) bps: the largest forecast supported by known data."""

    def pair_expectations(self, at: int) -> Floats:
        """Return the bps (long, short) that every ordered pair is expected to earn over the holding time."""
        of_venue = self.expected[:, at]
        of_pair = of_venue[None, :] - of_venue[:, None]
        column = int(np.searchsorted(self.columns, at))
        share = _share_of_size(of_pair[..., None], self.realised_share[[column]])[..., 0]
        limit = self.max_forecast[column]
        return np.clip(of_pair * share, -limit, limit)


def pair_places(venues: int) -> tuple[Indices, Indices]:
    """Return the positions of the long and the short venue of every pair, each pair in one direction."""
    long, short = np.triu_indices(venues, 1)
    return long.astype(np.intp), short.astype(np.intp)


def expect_funding(amounts: Floats, plan: Plan, wanted: Indices) -> Means:
    """Forecast the sums of amounts (venue, period) over the holding time, from their trailing means."""
    prior = np.full(len(plan.spans), _PRIOR * plan.hold / len(plan.spans))
    return _regress(_features(amounts, plan), future_sums(amounts, plan.hold), prior, plan, wanted)


def expect_prices(levels: Floats, plan: Plan, wanted: Indices) -> Means:
    """Forecast the moves of price levels (venue, period) over the holding time.

    The predictors are the last move, and the distances of the level from its means over a day, three, seven
    and sixty days, all relative to the median of the venues. The forecast is zero until outcomes are known.
    """
    level = relative_levels(levels)
    last_move = np.diff(level, axis=1, prepend=np.nan)
    means = [trailing_mean(level, span, 2.0 / 3.0 * span) for span in plan.spans[1:-1]]
    means.append(trailing_mean(level, plan.spans[-1], plan.minimum))
    features = np.stack([last_move, *(mean - level for mean in means)])
    features[:, ~np.isfinite(features).all(axis=0)] = np.nan
    outcomes = np.full(levels.shape, np.nan)
    outcomes[:, : -plan.hold] = level[:, plan.hold :] - level[:, : -plan.hold]
    return _regress(features, outcomes, np.zeros(len(features)), plan, wanted)


def relative_levels(levels: Floats) -> Floats:
    """Return levels minus their median over venues; NaN with fewer than two venues."""
    has_several = np.isfinite(levels).sum(axis=0) > 1
    median = np.full(levels.shape[1], np.nan)
    median[has_several] = np.nanmedian(levels[:, has_several], axis=0)
    return np.asarray(levels - median)


def _regress(features: Floats, outcomes: Floats, prior: Floats, plan: Plan, wanted: Indices) -> Means:
    """Forecast outcomes (venue, period) at every period from the data known there.

    Parameters
    ----------
    features
        (feature, venue, period), NaN in all if one is NaN.
    prior
        Coefficients to which the penalty shrinks.
    wanted
        Periods at which a forecast is needed, in addition to the decisions whose errors are stored.

    Notes
    -----
    The regression is over all pairs at once, but needs no pairs: sums over them of ``(x_i − x_j)(y_i − y_j)``
    follow from the venues' own. The weight of a decision halves after the memory, and is lower if its venues
    were further apart, so that a volatile week does not dominate. The result is shrunk by the slope of past
    outcomes on past expectations, over all pairs: the linear empirical Bayes estimate, whose prior variance
    is the covariance of the two. This prevents that the pair with the largest expectation is the one with the
    largest error. If large expectations were realised to a lesser extent than small ones, they are shrunk
    more (`_realised_share`), and with little data none is larger than `_FULL_SIZE_DECISIONS` allows.
    """
    # 1. Fit the regression at each period.
    weight = _weights(features)
    sums = _sums_over_pairs(features, outcomes, weight, plan)
    coefficients = penalised(sums[..., :-1], sums[..., -1:], prior, _PENALTY)
    expected = np.einsum("tk,ket->et", coefficients, features)

    # 2. Count the independent decisions to which the outcomes known at each period are equivalent.
    has_outcome = (np.isfinite(features[0]) & np.isfinite(outcomes)).sum(axis=0) > 1
    known_outcomes = np.pad(np.cumsum(has_outcome), (plan.hold, 0))[: has_outcome.size]
    decision_count = known_outcomes / plan.hold

    # 3. Shrink expectations by the slope of outcomes on them, and towards 0 after few decisions.
    sums = _sums_over_pairs(expected[None], outcomes, weight, plan)[:, 0]
    squares = sums[:, 0]
    products = sums[:, 1]
    slope = np.where(squares > 0.0, products / np.where(squares > 0.0, squares, 1.0), 1.0)
    expected *= np.clip(slope, 0.0, 1.0) * decision_count / (decision_count + _ZERO_WEIGHT)

    # 4. Form pairs at the periods that need a forecast; errors are stored at the decisions only.
    long, short = pair_places(len(outcomes))
    decisions = np.arange(plan.phase, outcomes.shape[1], plan.stride)
    columns = np.union1d(decisions, wanted).astype(np.intp)
    predicted = expected[short][:, columns] - expected[long][:, columns]
    realised = outcomes[short][:, columns] - outcomes[long][:, columns]
    realised = np.where(np.isin(columns, decisions), realised, np.nan)

    # 5. Shrink large forecasts by the realised share of past ones of their size, and limit them.
    share = _realised_share(predicted, realised, decision_count[columns], columns, plan)
    deviation = outcome_deviation(outcomes, plan)
    limit = deviation * decision_count * np.sqrt(long.size) / _FULL_SIZE_DECISIONS
    limit = np.where(deviation > 0.0, limit, np.inf)[columns]
    predicted = np.clip(predicted * _share_of_size(predicted, share), -limit, limit)
    return Means(expected, outcomes, decision_count, columns, predicted, realised, share, limit)


def outcome_deviation(outcomes: Floats, plan: Plan) -> Floats:
    """Return at each period the standard deviation [bps] of known outcomes over all pairs.

    Each pair counts in both directions, so the mean is 0. The sum of ``(x_i − x_j)²`` over pairs of n venues
    is ``n Σ x² − (Σ x)²``.
    """
    finite = np.isfinite(outcomes)
    paid = np.where(finite, outcomes, 0.0)
    venues = finite.sum(axis=0).astype(np.float64)
    squares = np.cumsum(venues * (paid**2).sum(axis=0) - paid.sum(axis=0) ** 2)
    pairs = np.cumsum(0.5 * venues * (venues - 1.0))
    deviation = np.sqrt(np.maximum(squares, 0.0) / np.maximum(pairs, 1.0))
    return np.pad(deviation, (plan.hold, 0))[: deviation.size]


def direction_of(expected: Floats) -> Floats:
    """Return the sign of each pair's expected earnings: 1, −1 for a loss, and 0 for none.

    An expectation within rounding error is zero.
    """
    return np.asarray(np.where(np.abs(expected) > TINY, np.sign(expected), 0.0))


def trailing_mean(values: Floats, span: int, minimum: float) -> Floats:
    """Return trailing means of `span` values on the last axis; NaN with fewer than `minimum` known values."""
    finite = np.isfinite(values)
    before = [(0, 0)] * (values.ndim - 1) + [(span - 1, 0)]
    total = sliding(np.add, np.pad(np.where(finite, values, 0.0), before), span)
    count = np.cumsum(finite, axis=-1, dtype=np.float64)  # integers, so that differences are exact
    count[..., span:] -= count[..., :-span].copy()
    return np.where(count >= minimum, total / np.maximum(count, 1.0), np.nan)


def future_sums(amounts: Floats, hold: int) -> Floats:
    """Return the sum of the `hold` periods after each, with the mean of known ones for missing ones.

    NaN if less than nine tenths of the periods are known, or if the panel ends before.
    """
    sums = np.full(amounts.shape, np.nan)
    if hold < amounts.shape[-1]:
        sums[..., :-hold] = hold * trailing_mean(amounts, hold, _MIN_COVER * hold)[..., hold:]
    return sums


def _features(amounts: Floats, plan: Plan) -> Floats:
    """Return the newest amount within a day and the trailing means (feature, venue, period).

    NaN in all of them if one is NaN.
    """
    latest = amounts.copy()
    for back in range(1, plan.spans[1]):
        earlier = np.pad(amounts, [(0, 0), (back, 0)], constant_values=np.nan)[:, : amounts.shape[1]]
        latest = np.where(np.isfinite(latest), latest, earlier)
    means = [trailing_mean(amounts, span, 2.0 / 3.0 * span) for span in plan.spans[1:-1]]
    means.append(trailing_mean(amounts, plan.spans[-1], plan.minimum))
    features = np.stack([latest, *means])
    features[:, ~np.isfinite(features).all(axis=0)] = np.nan
    return features


def _weights(features: Floats) -> Floats:
    """Return the weight of each period: the inverse square of the distance between its venues.

    The geometric mean of the past is added to the squares, so that a quiet period has a bounded weight.
    """
    finite = np.isfinite(features[0])
    count = finite.sum(axis=0)
    centre = np.where(finite, features, 0.0).sum(axis=1) / np.maximum(count, 1)
    squares = np.where(finite, (features - centre[:, None]) ** 2, 0.0).sum(axis=(0, 1))
    distance = squares / np.maximum(count, 1) + TINY**2
    has_pair = count > 1
    log_sum = np.cumsum(np.where(has_pair, np.log(distance), 0.0))
    past_log_mean = log_sum / np.maximum(np.cumsum(has_pair), 1)
    return np.where(has_pair, 1.0 / (distance + np.exp(past_log_mean)), 0.0)


def _over_pairs(x: Floats, y: Floats, finite: Bools) -> Floats:
    """Return the sum of ``(x_i − x_j)(y_i − y_j)`` over pairs of known venues: (period, x, y)."""
    x = np.where(finite, x, 0.0)
    y = np.where(finite, y, 0.0)
    # With n venues the sum is n Σ x y − Σ x Σ y.
    count = finite.sum(axis=0).astype(np.float64)
    products = count * np.einsum("ket,let->klt", x, y)
    return np.moveaxis(products - np.einsum("kt,lt->klt", x.sum(axis=1), y.sum(axis=1)), -1, 0)


def remembered(summands: Floats, times: Indices, plan: Plan) -> Floats:
    """Return at each time the weighted sum of the `summands` whose holding time is over.

    `summands` ``(time, ...)`` are those of the decisions at `times`. Weights halve with age over
    ``plan.memory``.
    """
    totals = np.zeros_like(summands)
    running = np.zeros(summands.shape[1:])
    known_end = np.searchsorted(times, times - plan.hold, side="right")
    first = 0
    for row, now in enumerate(times):
        if row:
            running = running * 0.5 ** ((now - times[row - 1]) / plan.memory)
        for new in range(first, known_end[row]):
            running = running + 0.5 ** ((now - times[new]) / plan.memory) * summands[new]
        first = known_end[row]
        totals[row] = running
    return totals


def _sums_over_pairs(features: Floats, outcomes: Floats, weight: Floats, plan: Plan) -> Floats:
    """Return products of features with features and outcomes (period, feature, both), from known data."""
    finite = np.isfinite(features[0]) & np.isfinite(outcomes)
    sums = _over_pairs(features, np.concatenate([features, outcomes[None]]), finite)
    return remembered(weight[:, None, None] * sums, np.arange(len(sums)), plan)


def penalised(normal: Floats, target: Floats, prior: Floats, share: float) -> Floats:
    """Solve normal equations with a penalty of `share` of their mean diagonal on the distance to a prior."""
    size = len(prior)
    penalty = share * np.trace(normal, axis1=1, axis2=2)[:, None, None] / size + TINY
    right = target + penalty * prior[:, None]
    return np.asarray(np.linalg.solve(normal + penalty * np.eye(size), right)[..., 0])


def _realised_share(
    predicted: Floats, realised: Floats, decision_count: Floats, columns: Indices, plan: Plan
) -> Floats:
    """Return the realised share of past forecasts by size: (column, `_GRID`).

    The share is the sum earned over the sum forecast, in groups of forecasts of similar size (deciles, and
    quarters of the last one), shrunk to 1 by `_FORECAST_WEIGHT` decisions. It is at most 1 and never rises
    with the size (isotonic regression), and a larger forecast stays the larger one. The largest forecasts are
    partly lucky, so their realised share is lowest, which the common slope cannot capture.
    """
    # 1. Sum number, forecast and earned amounts of known forecasts, by their size on the grid.
    size = np.abs(predicted)
    earned = realised * direction_of(predicted)
    known = np.isfinite(size + earned) & (size > TINY)
    place = _grid_place(np.where(known, size, 1.0)).round().astype(np.intp)[known]
    column = np.broadcast_to(np.arange(columns.size), size.shape)[known]
    by_decision = np.zeros((columns.size, _GRID.size, 3))
    for row, amount in enumerate((np.ones_like(size), size, earned)):
        np.add.at(by_decision[..., row], (column, place), amount[known])
    sums = remembered(by_decision, columns, plan)

    # 2. Combine the grid into groups of quantiles.
    count = sums[..., 0]
    total = np.maximum(count.sum(axis=1, keepdims=True), TINY)
    quantile = (np.cumsum(count, axis=1) - 0.5 * count) / total
    group = np.searchsorted(_GROUPS, quantile)
    grouped = np.zeros((columns.size, _GROUPS.size + 1, 2))
    np.add.at(grouped, (np.arange(columns.size)[:, None], group), sums[..., 1:])
    forecast_sum = grouped[..., 0]
    earned_sum = grouped[..., 1]

    # 3. Shrink the ratio of earned to forecast amounts to 1, and make it fall with the size.
    prior_weight = (_FORECAST_WEIGHT / np.maximum(decision_count, TINY))[:, None]
    shrunk_earned = earned_sum + forecast_sum * prior_weight
    ratio = _non_increasing_ratio(shrunk_earned, forecast_sum * (1.0 + prior_weight))
    share = np.clip(np.take_along_axis(ratio, group, axis=1), 0.0, 1.0)
    # A larger forecast stays the larger one: share × size must not fall.
    share = np.maximum.accumulate(share * _GRID, axis=1) / _GRID
    return np.where(count.sum(axis=1, keepdims=True) > 0.0, share, 1.0)


def _non_increasing_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return the ratio of two rows as a non-increasing step function, by weighted isotonic regression.

    The value at a position is the minimum over all starts up to it of the maximum mean to any end from it on
    (Robertson, Wright and Dykstra 1988, Order Restricted Statistical Inference). 1 without a denominator.
    """
    # 1. Compute the ratio over every interval (row, first, end).
    size = numerator.shape[1]
    first = np.arange(size)[:, None]
    end = np.arange(1, size + 1)[None]
    numerator_sums = np.pad(np.cumsum(numerator, axis=1), ((0, 0), (1, 0)))
    denominator_sums = np.pad(np.cumsum(denominator, axis=1), ((0, 0), (1, 0)))
    above = numerator_sums[:, end] - numerator_sums[:, first]
    below = denominator_sums[:, end] - denominator_sums[:, first]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((end > first) & (below > 0.0), above / below, -np.inf)

    # 2. Take the maximum over ends, and its minimum over starts.
    max_over_ends = np.maximum.accumulate(ratio[..., ::-1], axis=2)[..., ::-1]
    max_over_ends = np.where(np.isfinite(max_over_ends), max_over_ends, np.inf)
    min_over_starts = np.minimum.accumulate(max_over_ends, axis=1)
    diagonal = np.arange(size)
    result = min_over_starts[:, diagonal, diagonal]
    return np.asarray(np.where(np.isfinite(result), result, 1.0))


def _grid_place(size: Floats) -> Floats:
    """Return the fractional position of sizes [bps] on `_GRID`."""
    steps = np.log2(np.maximum(size, TINY) / _GRID[0]) * _GRID_STEPS
    return np.asarray(np.clip(steps, 0.0, _GRID.size - 1.0))


def _share_of_size(forecast: Floats, share: Floats) -> Floats:
    """Interpolate `share` (column, `_GRID`) at the sizes of forecasts (..., column) [bps]."""
    place = _grid_place(np.where(np.isfinite(forecast), np.abs(forecast), 1.0))
    below = np.minimum(place.astype(np.intp), _GRID.size - 2)
    columns = np.arange(forecast.shape[-1])
    low = share[columns, below]
    high = share[columns, below + 1]
    return np.asarray(low + (high - low) * (place - below))
