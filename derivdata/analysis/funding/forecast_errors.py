"""Errors of past forecasts of pairs, and the distribution of outcomes that they make.

Arrays are those of `derivdata.analysis.funding.pooled_regression`. Every figure that stands at a period is
made of that period and those before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
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
from derivdata.support.arrays import Floats, Indices

_SIZE_PENALTY = 0.02
_SIZE_PRIOR = 0.25  # slope on each of the four causes: together 1, so that sizes grow with the rates
_ENOUGH_ERRORS = 30  # from which the slopes of sizes are fitted, and an error's own size is trusted
_OWN_SHARE = 0.5  # of a pair's own past errors: no size is smaller
_RESTLESS_WEIGHT = 10.0  # decisions that its restlessness counts for beside them
_OWN_WEIGHT = 5.0  # decisions that the pooled size counts for beside the pair's own recent errors
_LARGEST = 10.0  # sizes: an error further out would move quantiles of all pairs by itself
_FLOOR = 0.05  # of the market's restlessness: keeps the logarithm of a pinned spread finite
_MOST_ERRORS = 200_000
_WIDEST = 20.0  # standard deviations of past outcomes that an interval of nearly all outcomes may be wide
_RARE = 0.005
_LEAST_FREEDOM, _FREEDOM = 2.0, 0.25
"""Chosen on pairs of two venues of 2020–2022, where each horizon and history then covers 89 to 93 %."""


class Walk(NamedTuple):
    """Forecasts at each period of a panel, of one regression or the sum of several, and their past errors."""

    parts: tuple[Means, ...]
    outcomes: Floats
    """(venue, period) bps that a long paid over the holding time, NaN where that is not known."""
    worth: Floats
    """(period) what the known decisions are worth: see `Means`."""
    usual: Floats
    """(period) bps: standard deviation of the outcomes of all pairs that are known there."""
    columns: Indices
    """Periods of the next three."""
    scale: Floats
    """(pair, column) bps: size of the error to be expected."""
    missed: Floats
    """(pair, column) bps: outcome less expectation; NaN where the outcome is not known or not kept."""
    direction: Floats
    """(pair, column): 1 where the pair was expected to earn, −1 where its reverse was, 0 where neither."""
    sizes: _Sizes
    long: Indices
    short: Indices
    """(pair) places of its venues, of which both have amounts at some period."""
    plan: Plan

    def pair_expectations(self, at: int) -> Floats:
        """Return the bps (long, short) that every ordered pair is expected to earn over the holding time."""
        return np.asarray(sum(part.pair_expectations(at) for part in self.parts))

    def past_errors(self, at: int) -> tuple[Floats, Floats, int]:
        """Return the errors known at a period in order, the weight up to each, and how many decisions.

        Errors are in units of the size that was to be expected of them. Where that rested on too few errors,
        it is what the regression says now: a size made of one lucky error would make a quantile of it.
        """
        # Not those of periods that were only asked for: their errors are NaN, and would push others out.
        has_errors = np.isfinite(self.missed).any(axis=0)
        known = np.flatnonzero((self.columns <= at - self.plan.hold) & has_errors)
        known = known[-max(1, _MOST_ERRORS // max(1, self.missed.shape[0])) :]
        now = int(np.searchsorted(self.columns, at))
        doubtful = self.sizes.number[known] < _ENOUGH_ERRORS
        scale = self.scale[:, known]
        scale[:, doubtful] = self.sizes.made(now, known[doubtful])
        errors = np.clip(self.missed[:, known] / scale, -_LARGEST, _LARGEST)
        there = np.isfinite(errors)
        fresh = 0.5 ** ((at - self.columns[known]) / self.plan.memory)
        weight = np.broadcast_to(fresh, errors.shape)[there]
        # Errors count in the direction that was expected to earn; where there was none, half in each. So the
        # order in which a panel names its venues means nothing.
        toward = self.direction[:, known][there]
        ways = [(errors[there] * sign, weight * 0.5 * (1.0 + sign * toward)) for sign in (1.0, -1.0)]
        errors, weight = (np.concatenate(part) for part in zip(*ways, strict=True))
        errors, weight = errors[weight > 0.0], weight[weight > 0.0]
        order = np.argsort(errors, kind="stable")
        errors, weight = errors[order], weight[order]
        # Up to the middle of each error: seen from above, the distribution is the same.
        middle = (np.cumsum(weight) - 0.5 * weight) / max(float(weight.sum()), TINY)
        return errors, middle, int(there.any(axis=0).sum())


def walk_of(parts: tuple[Means, ...], amounts: Floats, plan: Plan) -> Walk:
    """Add up what regressions expect of pairs, and find the sizes of the errors that this has.

    `amounts` (venue, period) [bps] are what a long pays, of all parts together: how restless a pair is.
    """
    known: Any = np.isfinite(amounts).any(axis=1)
    long, short = pair_places(len(amounts))
    kept = known[long] & known[short]
    long, short = long[kept], short[kept]
    predicted, realised, outcomes = (
        np.asarray(sum(getattr(part, name) for part in parts))
        for name in ("predicted", "realised", "outcomes")
    )
    predicted, realised = predicted[kept], realised[kept]
    columns, missed = parts[0].columns, realised - predicted
    scale, sizes = _scales(amounts[short] - amounts[long], predicted, missed, columns, plan)
    worth = np.stack([part.worth for part in parts]).min(axis=0)
    usual, toward = usual_outcome(outcomes, plan), direction_of(predicted)
    return Walk(parts, outcomes, worth, usual, columns, scale, missed, toward, sizes, long, short, plan)


def pair_distribution(walk: Walk, at: int) -> tuple[Floats, Floats, Floats, Floats, int]:
    """Return the ingredients of the outcomes' distributions at a period.

    The mean outcome of each ordered pair (long, short) before cost and the size of its error [bps]; past
    errors in order, and the weight up to each; and of how many past decisions they are. Errors of a pair
    expected to lose count reversed, of one expected to do neither half in each direction. The size is
    larger by what Student's t has over the normal distribution at 5 %: of few decisions neither the errors
    nor their sizes say how large the next one may be. It has 2 + n/4 degrees of freedom, where the decisions
    of all pairs are worth n.
    """
    venues, expected = walk.outcomes.shape[0], walk.pair_expectations(at)
    scale = np.full((venues, venues), np.nan)
    found = walk.scale[:, int(np.searchsorted(walk.columns, at))]
    scale[walk.long, walk.short] = scale[walk.short, walk.long] = found
    errors, weight, decisions = walk.past_errors(at)
    if decisions:  # no interval is wider than what outcomes ever were bears out, whatever made its size
        low, high = np.interp([_RARE, 1.0 - _RARE], weight, errors)
        among = np.isfinite(np.diag(expected)).sum()
        freedom = _LEAST_FREEDOM + _FREEDOM * walk.worth[at] * 0.5 * among * (among - 1)
        scale = scale * stdtrit(freedom, 0.95) / ndtri(0.95)
        scale = np.minimum(scale, _WIDEST * walk.usual[at] / max(float(high - low), 1.0))
        scale = np.maximum(scale, TINY)
    return expected, scale, errors, weight, decisions


def outcome_figures(
    mean: Floats, size: Floats, errors: Floats, weight: Floats, cost: Any, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return low end, median and high end of outcomes after cost [bps], and the probability to be above 0."""
    tails = [0.5 * (1.0 - level), 0.5, 0.5 * (1.0 + level)]
    toward, net = np.where(np.isfinite(mean), direction_of(mean), np.nan), mean - cost
    bottom, centre, top, above = (np.full(mean.shape, np.nan) for _ in range(4))
    for sign in np.unique(toward[np.isfinite(toward)]):
        ordered, up_to = _seen_from(sign, errors, weight)
        low, middle, high = np.interp(tails, up_to, ordered)
        # The outcome is above 0 where the error is above −net in units of its size.
        chance = 1.0 - np.interp(-net / size, ordered, up_to, left=0.0, right=1.0)
        found = (net + size * low, net + size * middle, net + size * high, chance)
        for figure, of_sign in zip((bottom, centre, top, above), found, strict=True):
            np.copyto(figure, of_sign, where=(toward == sign) & np.isfinite(size))
    return bottom, centre, top, above


def _seen_from(sign: float, errors: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return errors in order and the weight up to each: as they are, reversed, or at 0 half of either."""
    if sign:
        return (errors, weight) if sign > 0.0 else (-errors[::-1], 1.0 - weight[::-1])
    grid = np.sort(np.concatenate([-errors[::-1], errors]), kind="stable")  # which merges what is in order
    here, behind = (np.interp(sign * grid, errors, weight, left=0.0, right=1.0) for sign in (1.0, -1.0))
    return grid, 0.5 * (here + 1.0 - behind)


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
    floor = _FLOOR * market + TINY
    causes = np.stack([recent, usual, np.abs(predicted), np.broadcast_to(market, recent.shape)])
    logs, missing = np.log(causes + floor), np.log(np.abs(missed) + floor)
    known = np.isfinite(missing) & np.isfinite(logs).all(axis=0)
    logs_known = np.where(known, np.concatenate([logs, missing[None]]), 0.0)
    parts = np.concatenate([known[None].astype(np.float64), logs_known])
    sums = remembered(np.moveaxis(np.einsum("kpc,lpc->klc", parts, parts), -1, 0), columns, plan)
    number = sums[:, 0, 0]
    weight = np.maximum(number, TINY)[:, None, None]
    # About their own means, so that the penalty on the slopes leaves the level alone.
    mean = sums[:, :1, 1:] / weight
    centred = sums[:, 1:, 1:] - weight * np.swapaxes(mean, 1, 2) * mean
    fitted = penalised(centred[:, :-1, :-1], centred[:, :-1, -1:], np.full(4, _SIZE_PRIOR), _SIZE_PENALTY)
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
    ratios = np.stack([known.astype(np.float64), np.minimum(squares, _LARGEST**2)], axis=-1).swapaxes(0, 1)
    short = remembered(ratios, columns, plan._replace(memory=plan.recent))
    lasting = remembered(ratios.sum(axis=1), columns, plan)[:, None]
    usual = np.maximum(lasting[..., 1] / np.maximum(lasting[..., 0], 1.0), TINY)
    factor = (_OWN_WEIGHT + short[..., 1] / usual) / (_OWN_WEIGHT + short[..., 0])
    new = _RESTLESS_WEIGHT / (_RESTLESS_WEIGHT + short[..., 0].T)
    moved = pooled * np.sqrt(np.where(lasting[..., 0] > 0.0, factor, 1.0)).T * (restless / pooled) ** new
    sizes = np.where(known, np.log(np.abs(np.where(known, missed, 1.0)) + TINY), 0.0)
    own = remembered(np.stack([ratios[..., 0], sizes.T], axis=-1), columns, plan)
    least = np.where(own[..., 0] > 0.0, np.exp(own[..., 1] / np.maximum(own[..., 0], TINY)), 0.0)
    return np.asarray(np.maximum(moved, _OWN_SHARE * least.T))
