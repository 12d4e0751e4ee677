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

__all__ = ["Plan", "Walk", "future_sums", "pair_places", "trailing_mean", "walk_forward"]

_PENALTY = 0.1  # of the mean diagonal of the normal equations
_PRIOR = 0.5  # share of the trailing means that is expected to be earned before any outcome is known
_SIZE_PENALTY = 0.02
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


class Walk(NamedTuple):
    """Forecasts of a panel at each of its periods, and the errors of past ones."""

    expected: Floats
    """(venue, period) bps that a long on the venue is expected to pay over the holding time."""
    outcomes: Floats
    """(venue, period) bps that it paid, NaN where that is not known."""
    columns: Indices
    """Periods of the next two."""
    scale: Floats
    """(pair, column) bps: size of the error to be expected."""
    errors: Floats
    """(pair, column) outcome less expectation, in units of the scale and counted in the direction that was
    expected to earn; NaN where the outcome is not known and at columns that are not kept."""
    plan: Plan

    def past_errors(self, at: int) -> tuple[Floats, Floats, int]:
        """Return the errors known at a period in order, the weight up to each, and how many decisions."""
        known = np.flatnonzero(self.columns <= at - self.plan.hold)
        known = known[-max(1, _MOST_ERRORS // max(1, self.errors.shape[0])) :]
        errors = self.errors[:, known]
        there = np.isfinite(errors)
        age = np.broadcast_to(at - self.columns[known], errors.shape)[there]
        order = np.argsort(errors[there], kind="stable")
        weight = 0.5 ** (age[order] / self.plan.memory)
        # Up to the middle of each error: seen from above, the distribution is the same.
        middle = (np.cumsum(weight) - 0.5 * weight) / max(float(weight.sum()), _TINY)
        return errors[there][order], middle, int(there.any(axis=0).sum())


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
    the pair with the largest expectation from being the one with the largest error.
    """
    features, outcomes = _features(amounts, plan), future_sums(amounts, plan.hold)
    weight = _weights(features)
    coefficients = _coefficients(features, outcomes, weight, plan)
    expected = np.einsum("tk,ket->et", coefficients, features)
    expected *= _shrinkage(expected, outcomes, weight, plan)
    long, short = pair_places(amounts.shape[0])
    kept = np.arange(plan.phase, amounts.shape[1], plan.stride)
    columns = np.union1d(kept, wanted).astype(np.intp)
    predicted, realised = (part[short][:, columns] - part[long][:, columns] for part in (expected, outcomes))
    missed = np.where(np.isin(columns, kept), realised - predicted, np.nan)
    scale = _scales(amounts[short] - amounts[long], predicted, missed, columns, plan)
    errors = missed * np.where(predicted < 0.0, -1.0, 1.0) / scale
    return Walk(expected, outcomes, columns, scale, errors, plan)


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


def _shrinkage(expected: Floats, outcomes: Floats, weight: Floats, plan: Plan) -> Floats:
    """Return the slope of known outcomes on what was expected of them, over all pairs, from 0 to 1."""
    known = np.isfinite(expected) & np.isfinite(outcomes)
    sums = weight[:, None, None] * _over_pairs(expected[None], np.stack([expected, outcomes]), known)
    own, joint = np.moveaxis(_remembered(sums, np.arange(len(sums)), plan)[:, 0], -1, 0)
    return np.clip(np.where(own > 0.0, joint / np.where(own > 0.0, own, 1.0), 1.0), 0.0, 1.0)


def _scales(spread: Floats, predicted: Floats, missed: Floats, columns: Indices, plan: Plan) -> Floats:
    """Size of the error to be expected: a log-linear regression of past ones on how restless a pair is.

    Logarithms, since the sizes of errors range over three decades and the largest must not decide. The causes
    are the pair's mean distance from its weekly mean over a week and over the longest span, what is expected
    of it, and the mean of the first over all pairs.
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
    logs, sizes = np.log(causes + floor), np.log(np.abs(missed) + floor)
    known = np.isfinite(sizes) & np.isfinite(logs).all(axis=0)
    logs_known = np.where(known, np.concatenate([logs, sizes[None]]), 0.0)
    parts = np.concatenate([known[None].astype(np.float64), logs_known])
    sums = _remembered(np.moveaxis(np.einsum("kpc,lpc->klc", parts, parts), -1, 0), columns, plan)
    number = sums[:, 0, 0]
    weight = np.maximum(number, _TINY)[:, None, None]
    # About their own means, so that the penalty on the slopes leaves the level alone.
    mean = sums[:, :1, 1:] / weight
    centred = sums[:, 1:, 1:] - weight * np.swapaxes(mean, 1, 2) * mean
    slopes = _penalised(centred[:, :-1, :-1], centred[:, :-1, -1:], np.full(4, 0.25), _SIZE_PENALTY)
    level = np.where(number > 0.0, mean[:, 0, -1] - (slopes * mean[:, 0, :-1]).sum(axis=1), 0.0)
    return np.asarray(np.exp(level + np.einsum("ck,kpc->pc", slopes, logs)))
