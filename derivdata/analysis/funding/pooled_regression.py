"""Pooled regression of what pairs earn next on what they earned lately, walked forward through time.

Every figure that stands at a period is made of that period and those before it: an outcome takes part once
its holding time is over. Arrays are ``(venue, period)``, in bps that a long pays over each period; pairs are
those of `pair_places`, short less long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.analysis.funding.rolling import sliding
from derivdata.support.arrays import Bools, Floats, Indices

_PENALTY = 0.1  # of the mean diagonal of the normal equations
_PRIOR = 0.5  # share of the trailing means that is expected to be earned before any outcome is known
_SCEPTICAL = 2.0  # decisions that speak for no carry at all: a slope of few outcomes is mostly luck
_SIZE_PENALTY = 0.02
_SIZE_PRIOR = 0.25  # slope on each of the four causes: together 1, so that sizes grow with the rates
_ENOUGH_ERRORS = 30  # from which the slopes of sizes are fitted, and an error's own size is trusted
_OWN_SHARE = 0.5  # of a pair's own past errors: no size is smaller
_RESTLESS_WEIGHT = 10.0  # decisions that its restlessness counts for beside them
_OWN_WEIGHT = 5.0  # decisions that the pooled size counts for beside the pair's own recent errors

_TRUSTED = 8.0  # decisions for which forecasts of a size are taken at their word beside what came of them
_GRID_STEPS = 2  # an octave
_GRID = 2.0 ** (np.arange(-6 * _GRID_STEPS, 10 * _GRID_STEPS + 1) / _GRID_STEPS)
"""Sizes of forecasts [bps] that are told apart."""

_GROUPS = np.append(np.arange(1, 10) / 10.0, [0.97, 0.99, 0.997])
"""Shares of past forecasts below each group of sizes: the few largest are the ones that are traded."""

_LARGEST = 10.0  # sizes: an error further out would move quantiles of all pairs by itself
_FLOOR = 0.05  # of the market's restlessness: keeps the logarithm of a pinned spread finite
_TINY = 1e-9  # bps
_MOST_ERRORS = 200_000
_COVER = 0.9


class Plan(NamedTuple):
    """Lengths of time, in periods."""

    hold: int
    spans: tuple[int, ...]
    """Of the trailing means, the shortest first: a period, a day, three, seven, and the longest."""
    stride: int
    """Between the decisions whose errors are kept: those in between would say nearly the same."""
    phase: int
    """Periods from the first one to the first such decision."""
    memory: float
    """Half-life of the weight of a past decision."""
    least: int
    """Known periods that the longest mean needs."""
    recent: float
    """Half-life of the weight of a pair's own errors in its size."""


class Walk(NamedTuple):
    """Forecasts of a panel at each of its periods, and the errors of past ones."""

    expected: Floats
    """(venue, period) bps that a long on the venue is expected to pay over the holding time, by the
    regression alone: `pair_expectations` takes what past forecasts leave of a pair's difference."""
    outcomes: Floats
    """(venue, period) bps that it paid, NaN where that is not known."""
    worth: Floats
    """(period) decisions whose outcome is known there, by what they are worth: overlapping ones add up to the
    time that their outcomes span over the holding time."""
    usual: Floats
    """(period) bps: standard deviation of the outcomes of all pairs that are known there."""
    columns: Indices
    """Periods of the next two."""
    scale: Floats
    """(pair, column) bps: size of the error to be expected."""
    missed: Floats
    """(pair, column) bps: outcome less expectation, as `pair_places` orders a pair; NaN where the outcome is
    not known and at columns that are not kept."""
    direction: Floats
    """(pair, column): 1 where the pair was expected to earn, −1 where its reverse was, 0 where neither."""
    left: Floats
    """(column, `_GRID`): share of a forecast of that size that past ones bear out."""
    sizes: _Sizes
    plan: Plan

    def pair_expectations(self, at: int) -> Floats:
        """Return the bps (long, short) that every ordered pair is expected to earn over the holding time."""
        score = self.expected[:, at]
        apart = score[None, :] - score[:, None]
        return apart * _left_of(apart[..., None], self.left[[int(np.searchsorted(self.columns, at))]])[..., 0]

    def past_errors(self, at: int) -> tuple[Floats, Floats, int]:
        """Return the errors known at a period in order, the weight up to each, and how many decisions.

        Errors are in units of the size that was to be expected of them. Where that rested on too few errors,
        it is what the regression says now: a size made of one lucky error would make a quantile of it.
        """
        known = np.flatnonzero(self.columns <= at - self.plan.hold)
        known = known[-max(1, _MOST_ERRORS // max(1, self.missed.shape[0])) :]
        now = int(np.searchsorted(self.columns, at))
        trusted = self.sizes.number[known] >= _ENOUGH_ERRORS
        scale = np.where(trusted, self.scale[:, known], self.sizes.made(now, known))
        errors = np.clip(self.missed[:, known] / scale, -_LARGEST, _LARGEST)
        there = np.isfinite(errors)
        age = np.broadcast_to(at - self.columns[known], errors.shape)[there]
        weight = 0.5 ** (age / self.plan.memory)
        # Errors count in the direction that was expected to earn; where there was none, half in each. So the
        # order in which a panel names its venues means nothing.
        toward = self.direction[:, known][there]
        ways = [(errors[there] * sign, weight * 0.5 * (1.0 + sign * toward)) for sign in (1.0, -1.0)]
        errors, weight = (np.concatenate(part) for part in zip(*ways, strict=True))
        errors, weight = errors[weight > 0.0], weight[weight > 0.0]
        order = np.argsort(errors, kind="stable")
        errors, weight = errors[order], weight[order]
        # Up to the middle of each error: seen from above, the distribution is the same.
        middle = (np.cumsum(weight) - 0.5 * weight) / max(float(weight.sum()), _TINY)
        return errors, middle, int(there.any(axis=0).sum())


def pair_places(venues: int) -> tuple[Indices, Indices]:
    """Return the places of the long and of the short venue of every pair, each pair in one direction."""
    long, short = np.triu_indices(venues, 1)
    return long.astype(np.intp), short.astype(np.intp)


def walk_forward(amounts: Floats, plan: Plan, wanted: Indices) -> Walk:
    """Forecast a panel at every period from what was known there.

    Parameters
    ----------
    amounts
        (venue, period), NaN where a period is not known.
    wanted
        Periods at which the scale of errors is needed, beside those of decisions whose errors are kept.

    Notes
    -----
    The regression is that of all pairs at once, but needs no pairs: sums over them of
    ``(x_i − x_j)(y_i − y_j)`` follow from the venues' own. A decision weighs half after the memory, and less
    the further apart its venues were, so that a wild week does not decide. The penalty draws the coefficients
    to `_PRIOR`. What comes out is shrunk by the slope of past outcomes on past expectations, over all pairs:
    the linear empirical Bayes estimate, whose prior variance is the covariance of the two. That is what keeps
    the pair with the largest expectation from being the one with the largest error. Where large expectations
    came true to a lesser part than small ones, they are shrunk the more (`_borne_out`).
    """
    features, outcomes = _features(amounts, plan), future_sums(amounts, plan.hold)
    weight = _weights(features)
    coefficients = _coefficients(features, outcomes, weight, plan)
    expected = np.einsum("tk,ket->et", coefficients, features)
    worth = _worth(features, outcomes, plan)
    expected *= _shrinkage(expected, outcomes, weight, plan) * worth / (worth + _SCEPTICAL)
    long, short = pair_places(amounts.shape[0])
    kept = np.arange(plan.phase, amounts.shape[1], plan.stride)
    columns = np.union1d(kept, wanted).astype(np.intp)
    predicted, realised = (part[short][:, columns] - part[long][:, columns] for part in (expected, outcomes))
    realised = np.where(np.isin(columns, kept), realised, np.nan)
    left = _borne_out(predicted, realised, worth[columns], columns, plan)
    predicted = predicted * _left_of(predicted, left)
    missed = realised - predicted
    scale, sizes = _scales(amounts[short] - amounts[long], predicted, missed, columns, plan)
    toward = direction_of(predicted)
    usual = _usual(outcomes, plan)
    return Walk(expected, outcomes, worth, usual, columns, scale, missed, toward, left, sizes, plan)


def direction_of(expected: Floats) -> Floats:
    """Return 1 where a pair is expected to earn, −1 where its reverse is, and 0 where neither is.

    An expectation that rounding alone could have made is none.
    """
    return np.asarray(np.where(np.abs(expected) > _TINY, np.sign(expected), 0.0))


def trailing_mean(values: Floats, span: int, least: float) -> Floats:
    """Mean of the `span` values up to each on the last axis, NaN where fewer than `least` are known."""
    known = np.isfinite(values)
    before = [(0, 0)] * (values.ndim - 1) + [(span - 1, 0)]
    total = sliding(np.add, np.pad(np.where(known, values, 0.0), before), span)
    count = sliding(np.add, np.pad(known.astype(np.float64), before), span)
    return np.where(count >= least, total / np.maximum(count, 1.0), np.nan)


def future_sums(amounts: Floats, hold: int) -> Floats:
    """Sum of the `hold` periods after each, with the mean of those that are there in place of one missing.

    NaN where less than nine tenths are there, and where the panel ends before.
    """
    sums = np.full(amounts.shape, np.nan)
    if hold < amounts.shape[-1]:
        sums[..., :-hold] = hold * trailing_mean(amounts, hold, _COVER * hold)[..., hold:]
    return sums


def _features(amounts: Floats, plan: Plan) -> Floats:
    """Trailing means (mean, venue, period); NaN in all of them where one is."""
    latest = amounts.copy()
    for back in range(1, plan.spans[1]):  # the newest period known within a day
        earlier = np.pad(amounts, [(0, 0), (back, 0)], constant_values=np.nan)[:, : amounts.shape[1]]
        latest = np.where(np.isfinite(latest), latest, earlier)
    middle = [trailing_mean(amounts, span, 2.0 / 3.0 * span) for span in plan.spans[1:-1]]
    features = np.stack([latest, *middle, trailing_mean(amounts, plan.spans[-1], plan.least)])
    features[:, ~np.isfinite(features).all(axis=0)] = np.nan
    return features


def _weights(features: Floats) -> Floats:
    """Weight of each period: one over how far its venues lie apart, squared.

    The geometric mean of the past is added to that, so that a quiet period does not weigh without bound.
    """
    known = np.isfinite(features[0])
    count = known.sum(axis=0)
    centre = np.where(known, features, 0.0).sum(axis=1) / np.maximum(count, 1)
    squares = np.where(known, (features - centre[:, None]) ** 2, 0.0).sum(axis=(0, 1))
    apart, usable = squares / np.maximum(count, 1) + _TINY**2, count > 1
    past = np.cumsum(np.where(usable, np.log(apart), 0.0)) / np.maximum(np.cumsum(usable), 1)
    return np.where(usable, 1.0 / (apart + np.exp(past)), 0.0)


def _over_pairs(x: Floats, y: Floats, known: Bools) -> Floats:
    """Add ``(x_i − x_j)(y_i − y_j)`` over pairs of known venues: (period, feature of x, feature of y)."""
    x, y = np.where(known, x, 0.0), np.where(known, y, 0.0)
    count = known.sum(axis=0).astype(np.float64)
    own = count * np.einsum("ket,let->klt", x, y)
    return np.moveaxis(own - np.einsum("kt,lt->klt", x.sum(axis=1), y.sum(axis=1)), -1, 0)


def _remembered(parts: Floats, times: Indices, plan: Plan) -> Floats:
    """Sum of the parts whose outcome is known at each of the times, the older ones weighing less."""
    totals, running = np.zeros_like(parts), np.zeros(parts.shape[1:])
    known = np.searchsorted(times, times - plan.hold, side="right")
    first = 0
    for row, now in enumerate(times):
        if row:
            running = running * 0.5 ** ((now - times[row - 1]) / plan.memory)
        for new in range(first, known[row]):
            running = running + 0.5 ** ((now - times[new]) / plan.memory) * parts[new]
        first, totals[row] = known[row], running
    return totals


def _coefficients(features: Floats, outcomes: Floats, weight: Floats, plan: Plan) -> Floats:
    """Return the coefficients (period, mean) of the penalised regression on what was known at each period."""
    known = np.isfinite(features[0]) & np.isfinite(outcomes)
    both = np.concatenate([features, outcomes[None]])
    sums = weight[:, None, None] * _over_pairs(features, both, known)
    sums = _remembered(sums, np.arange(len(sums)), plan)
    normal, target = sums[..., :-1], sums[..., -1:]
    return _penalised(normal, target, np.full(len(features), _PRIOR * plan.hold / len(features)), _PENALTY)


def _penalised(normal: Floats, target: Floats, prior: Floats, share: float) -> Floats:
    """Solve normal equations with a penalty of `share` of their mean diagonal on the distance to a prior."""
    size = len(prior)
    penalty = share * np.trace(normal, axis1=1, axis2=2)[:, None, None] / size + _TINY
    drawn = target + penalty * prior[:, None]
    return np.asarray(np.linalg.solve(normal + penalty * np.eye(size), drawn)[..., 0])


def _worth(features: Floats, outcomes: Floats, plan: Plan) -> Floats:
    """Return at each period the independent decisions that the outcomes known there are worth."""
    decided = (np.isfinite(features[0]) & np.isfinite(outcomes)).sum(axis=0) > 1
    known = np.pad(np.cumsum(decided), (plan.hold, 0))[: decided.size]
    return np.asarray(known / plan.hold, dtype=np.float64)


def _usual(outcomes: Floats, plan: Plan) -> Floats:
    """Return at each period the standard deviation of known outcomes, of pairs in both directions."""
    known = np.isfinite(outcomes)
    paid, number = np.where(known, outcomes, 0.0), known.sum(axis=0).astype(np.float64)
    squares = number * (paid**2).sum(axis=0) - paid.sum(axis=0) ** 2
    total, pairs = (np.cumsum(part) for part in (squares, 0.5 * number * (number - 1.0)))
    usual = np.sqrt(np.maximum(total, 0.0) / np.maximum(pairs, 1.0))
    return np.pad(usual, (plan.hold, 0))[: usual.size]


def _shrinkage(expected: Floats, outcomes: Floats, weight: Floats, plan: Plan) -> Floats:
    """Return the slope of known outcomes on what was expected of them, over all pairs, from 0 to 1."""
    known = np.isfinite(expected) & np.isfinite(outcomes)
    sums = weight[:, None, None] * _over_pairs(expected[None], np.stack([expected, outcomes]), known)
    own, joint = np.moveaxis(_remembered(sums, np.arange(len(sums)), plan)[:, 0], -1, 0)
    return np.clip(np.where(own > 0.0, joint / np.where(own > 0.0, own, 1.0), 1.0), 0.0, 1.0)


def _borne_out(predicted: Floats, realised: Floats, worth: Floats, columns: Indices, plan: Plan) -> Floats:
    """Return the share of a forecast that came true of past ones of its size: (column, `_GRID`).

    Over deciles of the size of past forecasts, the last of them in four, what was earned over what was
    forecast, drawn to 1 by `_TRUSTED` decisions. It is at most 1 and never rises with the size (isotonic
    regression), and a larger forecast stays the larger one. The largest forecasts are those that luck has
    made largest: of these the least comes true, which the common slope cannot say.
    """
    size, earned = np.abs(predicted), realised * direction_of(predicted)
    known = np.isfinite(size + earned) & (size > _TINY)
    place = _grid_place(np.where(known, size, 1.0)).round().astype(np.intp)
    parts = np.zeros((columns.size, _GRID.size, 3))
    column = np.broadcast_to(np.arange(columns.size), size.shape)[known]
    for part, amount in enumerate((np.ones_like(size), size, earned)):
        np.add.at(parts[..., part], (column, place[known]), amount[known])
    sums = _remembered(parts, columns, plan)
    count = sums[..., 0]
    total = np.maximum(count.sum(axis=1, keepdims=True), _TINY)
    group = np.searchsorted(_GROUPS, (np.cumsum(count, axis=1) - 0.5 * count) / total)
    grouped = np.zeros((columns.size, _GROUPS.size + 1, 2))
    np.add.at(grouped, (np.arange(columns.size)[:, None], group), sums[..., 1:])
    forecast, came = np.moveaxis(grouped, -1, 0)
    came = came + forecast * (_TRUSTED / np.maximum(worth, _TINY))[:, None]
    forecast = forecast * (1.0 + _TRUSTED / np.maximum(worth, _TINY))[:, None]
    share = np.take_along_axis(_falling(came, forecast), group, axis=1)
    kept = np.maximum.accumulate(np.clip(share, 0.0, 1.0) * _GRID, axis=1) / _GRID
    return np.where(count.sum(axis=1, keepdims=True) > 0.0, kept, 1.0)


def _falling(above: Floats, below: Floats) -> Floats:
    """Return the ratio above / below of each row as a falling step function: weighted isotonic regression.

    The least over starts up to a place of the greatest mean from there to any end from it on.
    """
    sums = [np.pad(np.cumsum(part, axis=1), ((0, 0), (1, 0))) for part in (above, below)]
    size = above.shape[1]
    first, last = np.arange(size)[:, None], np.arange(1, size + 1)[None]
    came, forecast = (part[:, last] - part[:, first] for part in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where((last > first) & (forecast > 0.0), came / forecast, -np.inf)  # (row, first, end)
    to_any_end = np.maximum.accumulate(mean[..., ::-1], axis=2)[..., ::-1]
    least = np.minimum.accumulate(np.where(np.isfinite(to_any_end), to_any_end, np.inf), axis=1)
    places = np.arange(size)
    return np.asarray(np.where(np.isfinite(least[:, places, places]), least[:, places, places], 1.0))


def _grid_place(size: Floats) -> Floats:
    """Return where sizes [bps] lie on `_GRID`, as a broken number of steps from its start."""
    steps = np.log2(np.maximum(size, _TINY) / _GRID[0]) * _GRID_STEPS
    return np.asarray(np.clip(steps, 0.0, _GRID.size - 1.0))


def _left_of(size: Floats, left: Floats) -> Floats:
    """Return the share that is left of forecasts (..., column) of these sizes [bps]."""
    place = _grid_place(np.where(np.isfinite(size), np.abs(size), 1.0))
    below = np.minimum(place.astype(np.intp), _GRID.size - 2)
    columns = np.arange(size.shape[-1])
    low, high = left[columns, below], left[columns, below + 1]
    return np.asarray(low + (high - low) * (place - below))


class _Sizes(NamedTuple):
    """Sizes of errors as a log-linear function of causes, fitted at each column to the errors known there."""

    logs: Floats
    """(cause, pair, column)."""
    level: Floats
    slopes: Floats
    """(column, cause)."""
    number: Floats
    """Weight of the errors that each column's fit rests on."""
    low: Floats
    high: Floats
    """(column, cause): between which the causes of these errors lie."""

    def made(self, column: int, of: Indices) -> Floats:
        """Return the sizes (pair, of) that one column's fit gives the causes at some columns."""
        bounds = (part[column][:, None, None] for part in (self.low, self.high))
        inside = np.clip(self.logs[:, :, of], *bounds)
        return np.asarray(np.exp(self.level[column] + np.einsum("k,kpc->pc", self.slopes[column], inside)))


def _scales(
    spread: Floats, predicted: Floats, missed: Floats, columns: Indices, plan: Plan
) -> tuple[Floats, _Sizes]:
    """Size of the error to be expected: a log-linear regression of past ones on how restless a pair is.

    Logarithms, since the sizes of errors range over three decades and the largest must not decide. The causes
    are the pair's mean distance from its weekly mean over a week and over the longest span, what is expected
    of it, and the mean of the first over all pairs. A size is within what its errors support: slopes lie
    between 0 and 1 and are fitted from thirty errors on, causes count as far as they were seen, and the
    pair's own recent errors come first. So few errors cannot make an interval of any width.
    """
    week, lasting = plan.spans[-2:]
    away = np.abs(spread - trailing_mean(spread, week, 1.0))
    recent, usual = (
        np.sqrt(plan.hold) * trailing_mean(away, span, 1.0)[:, columns] for span in (week, lasting)
    )
    there = np.isfinite(predicted)
    market = np.where(there, recent, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    floor = _FLOOR * market + _TINY
    causes = np.stack([recent, usual, np.abs(predicted), np.broadcast_to(market, recent.shape)])
    logs, missing = np.log(causes + floor), np.log(np.abs(missed) + floor)
    known = np.isfinite(missing) & np.isfinite(logs).all(axis=0)
    logs_known = np.where(known, np.concatenate([logs, missing[None]]), 0.0)
    parts = np.concatenate([known[None].astype(np.float64), logs_known])
    sums = _remembered(np.moveaxis(np.einsum("kpc,lpc->klc", parts, parts), -1, 0), columns, plan)
    number = sums[:, 0, 0]
    weight = np.maximum(number, _TINY)[:, None, None]
    # About their own means, so that the penalty on the slopes leaves the level alone.
    mean = sums[:, :1, 1:] / weight
    centred = sums[:, 1:, 1:] - weight * np.swapaxes(mean, 1, 2) * mean
    fitted = _penalised(centred[:, :-1, :-1], centred[:, :-1, -1:], np.full(4, _SIZE_PRIOR), _SIZE_PENALTY)
    slopes = np.where((number >= _ENOUGH_ERRORS)[:, None], np.clip(fitted, 0.0, 1.0), _SIZE_PRIOR)
    level = np.where(number > 0.0, mean[:, 0, -1] - (slopes * mean[:, 0, :-1]).sum(axis=1), 0.0)
    low, high = _seen(np.where(known, logs, np.nan), columns, plan)
    sizes = _Sizes(logs, level, slopes, number, low, high)
    inside = np.clip(logs, np.moveaxis(low, -1, 0)[:, None], np.moveaxis(high, -1, 0)[:, None])
    pooled = np.exp(level + np.einsum("ck,kpc->pc", slopes, inside))
    # As many times the usual error as the pair is restless: what a pair says of which errors say little yet.
    restless = np.exp(mean[:, 0, -1] + 0.5 * (logs[:2] - mean[:, 0, :2].T[:, None]).sum(axis=0))
    restless = np.where(number > 0.0, np.maximum(restless, pooled), pooled)
    return _own_first(pooled, restless, missed, columns, plan), sizes


def _seen(logs: Floats, columns: Indices, plan: Plan) -> tuple[Floats, Floats]:
    """Return the least and largest of each cause (column, cause) among the errors known at each column."""
    latest = np.searchsorted(columns, columns - plan.hold, side="right")  # errors before this place are known
    ends = []
    for sign in (1.0, -1.0):
        least = np.nanmin(np.append(sign * logs, np.full((len(logs), 1, logs.shape[2]), np.inf), 1), axis=1)
        running = np.minimum.accumulate(least, axis=1)
        ends.append(sign * np.append(np.full((len(logs), 1), -np.inf), running, axis=1)[:, latest].T)
    return np.where(np.isfinite(ends[0]), ends[0], -np.inf), np.where(np.isfinite(ends[1]), ends[1], np.inf)


def _own_first(pooled: Floats, restless: Floats, missed: Floats, columns: Indices, plan: Plan) -> Floats:
    """Sizes of the pooled regression, moved to what each pair's own recent errors were in units of them.

    ``√((m + Σ w r²) / (m + Σ w))``: r is an error in units of its pooled size, over the usual one of all
    pairs; weights w halve in two weeks, and m decisions are the pool's. So a new regime counts within weeks.
    Where a pair is more restless than the pooled size allows for, the share ``k / (k + Σ w)`` of that counts
    (in logarithms), all of it in a pair that is new. Never below half of the usual (geometric mean) error of
    the pair itself.
    """
    known = np.isfinite(missed) & np.isfinite(pooled)
    squares = np.where(known, missed / np.where(known, pooled, 1.0), 0.0) ** 2
    ratios = np.stack([known.astype(np.float64), np.minimum(squares, _LARGEST**2)], axis=-1)
    short = _remembered(np.moveaxis(ratios, 1, 0), columns, plan._replace(memory=plan.recent))
    lasting = _remembered(np.moveaxis(ratios, 1, 0), columns, plan).sum(axis=1, keepdims=True)
    usual = np.maximum(lasting[..., 1] / np.maximum(lasting[..., 0], 1.0), _TINY)
    factor = (_OWN_WEIGHT + short[..., 1] / usual) / (_OWN_WEIGHT + short[..., 0])
    new = _RESTLESS_WEIGHT / (_RESTLESS_WEIGHT + short[..., 0].T)
    moved = pooled * np.sqrt(np.where(lasting[..., 0] > 0.0, factor, 1.0)).T * (restless / pooled) ** new
    sizes = np.where(known, np.log(np.abs(np.where(known, missed, 1.0)) + _TINY), 0.0)
    own = _remembered(np.moveaxis(np.stack([ratios[..., 0], sizes], axis=-1), 1, 0), columns, plan)
    least = np.where(own[..., 0] > 0.0, np.exp(own[..., 1] / np.maximum(own[..., 0], _TINY)), 0.0)
    return np.asarray(np.maximum(moved, _OWN_SHARE * least.T))
