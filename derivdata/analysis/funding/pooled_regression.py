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
_SCEPTICAL = 2.0  # weight of zero carry in decisions, because a slope from few outcomes is mostly chance

_BORNE = 8.0
"""Independent decisions times the root of the number of pairs, from which a forecast may be as large as the
usual outcome. With one pair and two weeks, the largest fitted value is chance.
"""

_TRUSTED = 8.0  # weight of the forecasts of a size relative to their outcomes, in decisions
_GRID_STEPS = 2  # steps per octave
_GRID = 2.0 ** (np.arange(-6 * _GRID_STEPS, 10 * _GRID_STEPS + 1) / _GRID_STEPS)
"""Grid of forecast sizes [bps]."""

_GROUPS = np.append(np.arange(1, 10) / 10.0, [0.97, 0.99, 0.997])
"""Quantiles of past forecasts that bound the groups of sizes. The top is finer, because the largest forecasts
are the ones that are traded."""

TINY = 1e-9  # bps
_COVER = 0.9


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
    worth: Floats
    """(period) effective number of decisions with known outcome: overlapping ones add up to the time that
    their outcomes span over the holding time.
    """
    columns: Indices
    """Periods of `predicted`, `realised` and `left`."""
    predicted: Floats
    """(pair, column) forecast earnings of pairs [bps], in the order of `pair_places`."""
    realised: Floats
    """(pair, column) earnings [bps]; NaN if unknown, and at columns whose errors are not stored."""
    left: Floats
    """(column, `_GRID`): realised share of past forecasts of that size."""
    most: Floats
    """(column) bps: the largest forecast supported by known data."""

    def pair_expectations(self, at: int) -> Floats:
        """Return the bps (long, short) that every ordered pair is expected to earn over the holding time."""
        score = self.expected[:, at]
        apart = score[None, :] - score[:, None]
        column = int(np.searchsorted(self.columns, at))
        left = _left_of(apart[..., None], self.left[[column]])[..., 0]
        return np.clip(apart * left, -self.most[column], self.most[column])


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

    From the last move, and the distance of the level from its means over a day, three, seven and sixty days,
    all relative to the median of the venues. The forecast is zero until outcomes are known.
    """
    level = relative_levels(levels)
    last = level - np.pad(level, [(0, 0), (1, 0)], constant_values=np.nan)[:, :-1]
    minimum = (*(2.0 / 3.0 * span for span in plan.spans[1:-1]), plan.minimum)
    means = [trailing_mean(level, *pair) for pair in zip(plan.spans[1:], minimum, strict=True)]
    features = np.stack([last, *(mean - level for mean in means)])
    features[:, ~np.isfinite(features).all(axis=0)] = np.nan
    outcomes = np.full(levels.shape, np.nan)
    outcomes[:, : -plan.hold] = level[:, plan.hold :] - level[:, : -plan.hold]
    return _regress(features, outcomes, np.zeros(len(features)), plan, wanted)


def relative_levels(levels: Floats) -> Floats:
    """Return levels minus their median over venues; NaN with fewer than two venues."""
    several = np.isfinite(levels).sum(axis=0) > 1
    middle = np.full(levels.shape[1], np.nan)
    middle[several] = np.nanmedian(levels[:, several], axis=0)
    return np.asarray(levels - middle)


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
    more (`_borne_out`), and with little data none is larger than `_BORNE` allows.
    """
    weight = _weights(features)
    sums = _sums_over_pairs(features, outcomes, weight, plan)
    coefficients = penalised(sums[..., :-1], sums[..., -1:], prior, _PENALTY)
    expected = np.einsum("tk,ket->et", coefficients, features)
    decided = (np.isfinite(features[0]) & np.isfinite(outcomes)).sum(axis=0) > 1
    settled = np.pad(np.cumsum(decided), (plan.hold, 0))[: decided.size]
    # Number of independent decisions equivalent to the outcomes known at each period.
    worth = settled / plan.hold
    own, joint = np.moveaxis(_sums_over_pairs(expected[None], outcomes, weight, plan)[:, 0], -1, 0)
    # Slope of outcomes on expectations.
    slope = np.where(own > 0.0, joint / np.where(own > 0.0, own, 1.0), 1.0)
    expected *= np.clip(slope, 0.0, 1.0) * worth / (worth + _SCEPTICAL)
    long, short = pair_places(len(outcomes))
    decisions = np.arange(plan.phase, outcomes.shape[1], plan.stride)
    columns = np.union1d(decisions, wanted).astype(np.intp)
    predicted, realised = (
        values[short][:, columns] - values[long][:, columns] for values in (expected, outcomes)
    )
    realised = np.where(np.isin(columns, decisions), realised, np.nan)
    left = _borne_out(predicted, realised, worth[columns], columns, plan)
    usual = usual_outcome(outcomes, plan)
    most = np.where(usual > 0.0, usual * worth * np.sqrt(long.size) / _BORNE, np.inf)[columns]
    predicted = np.clip(predicted * _left_of(predicted, left), -most, most)
    return Means(expected, outcomes, worth, columns, predicted, realised, left, most)


def usual_outcome(outcomes: Floats, plan: Plan) -> Floats:
    """Return at each period the standard deviation of known outcomes, of pairs in both directions."""
    finite = np.isfinite(outcomes)
    paid = np.where(finite, outcomes, 0.0)
    number = finite.sum(axis=0).astype(np.float64)
    squares = number * (paid**2).sum(axis=0) - paid.sum(axis=0) ** 2
    total, pairs = (np.cumsum(values) for values in (squares, 0.5 * number * (number - 1.0)))
    usual = np.sqrt(np.maximum(total, 0.0) / np.maximum(pairs, 1.0))
    return np.pad(usual, (plan.hold, 0))[: usual.size]


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
        sums[..., :-hold] = hold * trailing_mean(amounts, hold, _COVER * hold)[..., hold:]
    return sums


def _features(amounts: Floats, plan: Plan) -> Floats:
    """Return trailing means (mean, venue, period); NaN in all of them if one is NaN."""
    latest = amounts.copy()
    for back in range(1, plan.spans[1]):  # use the newest known period within a day
        earlier = np.pad(amounts, [(0, 0), (back, 0)], constant_values=np.nan)[:, : amounts.shape[1]]
        latest = np.where(np.isfinite(latest), latest, earlier)
    middle = [trailing_mean(amounts, span, 2.0 / 3.0 * span) for span in plan.spans[1:-1]]
    features = np.stack([latest, *middle, trailing_mean(amounts, plan.spans[-1], plan.minimum)])
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
    apart = squares / np.maximum(count, 1) + TINY**2
    usable = count > 1
    past = np.cumsum(np.where(usable, np.log(apart), 0.0)) / np.maximum(np.cumsum(usable), 1)
    return np.where(usable, 1.0 / (apart + np.exp(past)), 0.0)


def _over_pairs(x: Floats, y: Floats, finite: Bools) -> Floats:
    """Return the sum of ``(x_i − x_j)(y_i − y_j)`` over pairs of known venues: (period, x, y)."""
    x = np.where(finite, x, 0.0)
    y = np.where(finite, y, 0.0)
    count = finite.sum(axis=0).astype(np.float64)
    own = count * np.einsum("ket,let->klt", x, y)
    return np.moveaxis(own - np.einsum("kt,lt->klt", x.sum(axis=1), y.sum(axis=1)), -1, 0)


def remembered(summands: Floats, times: Indices, plan: Plan) -> Floats:
    """Return the sum of parts with a known outcome at each time, with decreasing weights for older ones."""
    totals = np.zeros_like(summands)
    running = np.zeros(summands.shape[1:])
    settled = np.searchsorted(times, times - plan.hold, side="right")
    first = 0
    for row, now in enumerate(times):
        if row:
            running = running * 0.5 ** ((now - times[row - 1]) / plan.memory)
        for new in range(first, settled[row]):
            running = running + 0.5 ** ((now - times[new]) / plan.memory) * summands[new]
        first = settled[row]
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
    drawn = target + penalty * prior[:, None]
    return np.asarray(np.linalg.solve(normal + penalty * np.eye(size), drawn)[..., 0])


def _borne_out(predicted: Floats, realised: Floats, worth: Floats, columns: Indices, plan: Plan) -> Floats:
    """Return the realised share of past forecasts by size: (column, `_GRID`).

    Over deciles of the size of past forecasts, the last of them in four, it is earned over forecast, shrunk
    to 1 by `_TRUSTED` decisions. It is at most 1 and never rises with the size (isotonic regression), and a
    larger forecast stays the larger one. The largest forecasts are partly lucky, so their realised share is
    lowest, which the common slope cannot capture.
    """
    size = np.abs(predicted)
    earned = realised * direction_of(predicted)
    finite = np.isfinite(size + earned) & (size > TINY)
    place = _grid_place(np.where(finite, size, 1.0)).round().astype(np.intp)
    totals = np.zeros((columns.size, _GRID.size, 3))
    column = np.broadcast_to(np.arange(columns.size), size.shape)[finite]
    for row, amount in enumerate((np.ones_like(size), size, earned)):
        np.add.at(totals[..., row], (column, place[finite]), amount[finite])
    sums = remembered(totals, columns, plan)
    count = sums[..., 0]
    total = np.maximum(count.sum(axis=1, keepdims=True), TINY)
    group = np.searchsorted(_GROUPS, (np.cumsum(count, axis=1) - 0.5 * count) / total)
    grouped = np.zeros((columns.size, _GROUPS.size + 1, 2))
    np.add.at(grouped, (np.arange(columns.size)[:, None], group), sums[..., 1:])
    forecast, came = np.moveaxis(grouped, -1, 0)
    came = came + forecast * (_TRUSTED / np.maximum(worth, TINY))[:, None]
    forecast = forecast * (1.0 + _TRUSTED / np.maximum(worth, TINY))[:, None]
    share = np.take_along_axis(_falling(came, forecast), group, axis=1)
    weight = np.maximum.accumulate(np.clip(share, 0.0, 1.0) * _GRID, axis=1) / _GRID
    return np.where(count.sum(axis=1, keepdims=True) > 0.0, weight, 1.0)


def _falling(above: Floats, below: Floats) -> Floats:
    """Return the ratio of two rows as a non-increasing step function, by weighted isotonic regression.

    The value at a position is the minimum over all starts up to it of the maximum mean to any end from it on.
    """
    sums = [np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0))) for values in (above, below)]
    size = above.shape[1]
    first = np.arange(size)[:, None]
    last = np.arange(1, size + 1)[None]
    came, forecast = (values[:, last] - values[:, first] for values in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where((last > first) & (forecast > 0.0), came / forecast, -np.inf)  # (row, first, end)
    to_any_end = np.maximum.accumulate(mean[..., ::-1], axis=2)[..., ::-1]
    minimum = np.minimum.accumulate(np.where(np.isfinite(to_any_end), to_any_end, np.inf), axis=1)
    places = np.arange(size)
    return np.asarray(np.where(np.isfinite(minimum[:, places, places]), minimum[:, places, places], 1.0))


def _grid_place(size: Floats) -> Floats:
    """Return the fractional position of sizes [bps] on `_GRID`."""
    steps = np.log2(np.maximum(size, TINY) / _GRID[0]) * _GRID_STEPS
    return np.asarray(np.clip(steps, 0.0, _GRID.size - 1.0))


def _left_of(size: Floats, left: Floats) -> Floats:
    """Return the remaining share of forecasts (..., column) of these sizes [bps]."""
    place = _grid_place(np.where(np.isfinite(size), np.abs(size), 1.0))
    below = np.minimum(place.astype(np.intp), _GRID.size - 2)
    columns = np.arange(size.shape[-1])
    low = left[columns, below]
    high = left[columns, below + 1]
    return np.asarray(low + (high - low) * (place - below))
