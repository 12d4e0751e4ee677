"""Raw SVI in variables that keep total variance positive, and the least-squares problems in them.

``w = f + p² P + q² Q − σ p q`` with ``P, Q = (√(x² + σ²) ± x)/2`` and ``x = k − m``: f is the least total
variance, p² and q² are the slopes of the right and left wing. Variables are ``(f, p, q, m, ln σ)``.

`SliceProblem` is one slice alone; `JointProblem` all slices of a surface under the conditions that
`derivdata.analysis.surface.joint_svi` describes. What a step of its search calls stands in this module.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from derivdata.analysis.least_squares import Index, Linearised, diagonal
from derivdata.analysis.smile.quotes import SurfaceQuotes
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.support.arrays import Bools, Floats

_SIZE = 5
_BUTTERFLY = np.sinh(np.linspace(-1.0, 1.0, 61) * np.arcsinh(30.0))  # places, in deviations
_CALENDAR = np.sinh(np.linspace(-1.0, 1.0, 77) * np.arcsinh(100.0))
_MARGIN_G, _MARGIN_GAP, _MARGIN_WING = 1e-3, 1e-4, 1e-5  # of g; of volatility; of √slope
_FORCE, _FORCE_GROWTH = 1e-2, 3.0
_STEEPEST = np.sqrt(2.0 * (1.0 - 1e-6))
_INSIDE = 0.1  # share of a residual between bid and ask that counts: a hundredth of the squared loss


def floor_from_raw(raw: Raw) -> Floats:
    """Variables ``(5, N)`` of raw parameters."""
    right, left = (np.sqrt(np.maximum(raw.b * (1.0 + side * raw.rho), 0.0)) for side in (1.0, -1.0))
    return np.stack([raw.a + raw.sigma * right * left, right, left, raw.m, np.log(raw.sigma)])


def floor_to_raw(x: Floats) -> Raw:
    """Return the raw parameters of variables ``(5, N)``."""
    floor, right, left, m, log_sigma = x
    total = right**2 + left**2
    rho = np.divide(right**2 - left**2, total, out=np.zeros_like(total), where=total > 0.0)
    sigma = np.exp(log_sigma)
    return Raw(floor - sigma * right * left, total / 2.0, rho, m, sigma)


def _jet(x: Floats, k: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """``w`` and its first two derivatives in k, and the derivatives of each of them in the variables."""
    floor, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    inverse = 1.0 / np.sqrt(distance * distance + sigma * sigma)
    lean, bend = distance * inverse, (p * p + q * q) / 2.0
    up, down = (1.0 + lean) / 2.0, (1.0 - lean) / 2.0
    narrow, valley = np.square(sigma * inverse), sigma * p * q
    curve = narrow * inverse
    zero = np.zeros_like(distance)
    w = floor + (p * p * up + q * q * down) / inverse - valley
    rise = p * p * up - q * q * down
    by_w = (
        zero + 1.0,
        2.0 * p * up / inverse - sigma * q,
        2.0 * q * down / inverse - sigma * p,
        -rise,
        bend * narrow / inverse - valley,
    )
    by_dw = (zero, 2.0 * p * up, -2.0 * q * down, -bend * curve, -bend * lean * narrow)
    bent = (3.0 * bend * curve * lean * inverse, bend * curve * (2.0 - 3.0 * narrow))
    by_d2w = (zero, p * curve, q * curve, *bent)
    return (w, rise, bend * curve), (np.stack(by_w), np.stack(by_dw), np.stack(by_d2w))


def _density_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Durrleman's g and its derivatives in the variables."""
    (w, dw, d2w), (by_w, by_dw, by_d2w) = _jet(x, k)
    tangent = 1.0 - k * dw / (2.0 * w)
    g = tangent**2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0
    g_w = tangent * k * dw / w**2 + (dw / (2.0 * w)) ** 2
    g_dw = -tangent * k / w - dw / 2.0 * (1.0 / w + 0.25)
    return g, g_w * by_w + g_dw * by_dw + 0.5 * by_d2w


def errors(quotes: SurfaceQuotes, w: Floats) -> tuple[Floats, Floats]:
    """Scaled residuals of model variances `w`, and the factor of their derivative by `w`.

    What lies outside bid and ask counts in full; the tenth that is left inside makes the minimum unique.
    Where bid and ask are the quote itself these are ``scale (w − quote)`` and `scale`.
    """
    outside = w - np.clip(w, quotes.low, quotes.high)
    inside = (quotes.low < w) & (w < quotes.high)
    residual = outside + _INSIDE * (w - quotes.w - outside)
    return residual * quotes.scale, np.where(inside, _INSIDE, 1.0) * quotes.scale


class SliceProblem(NamedTuple):
    """Fit single slices to total variances `w` at `k` with weights on the squared residuals, ``(N, K)``.

    See `derivdata.analysis.least_squares.Problem`.
    """

    k: Floats
    w: Floats
    weight: Floats
    low: Floats
    high: Floats
    reach: Floats

    def rows(self, index: Index) -> Self:
        """Return these slices only."""
        wide = {name: getattr(self, name)[index] for name in ("k", "w", "weight")}
        return self._replace(**wide, low=self.low[:, index], high=self.high[:, index])

    def evaluate(self, x: Floats) -> Linearised:
        """Residual and Jacobian products at `x`."""
        (value, _, _), (slope, _, _) = _jet(x[..., None], self.k)
        error = self.w - value
        weighted = self.weight * slope
        gram = np.vecdot(weighted[:, None], slope)
        loss = np.vecdot(self.weight * error, error)
        nothing = 1e-28 * np.vecdot(self.weight, np.square(self.w))
        return Linearised(x, loss, nothing, gram, np.vecdot(weighted, error), diagonal(gram) + 1e-300)


class Constraints(NamedTuple):
    """Values, each to be at least its margin: ``(surfaces, expiries or pairs, places)``.

    `gap` is in units of volatility; `wings` are differences of √slope, left and right on the last axis.
    """

    g: Floats
    gap: Floats
    wings: Floats


class _Slopes(NamedTuple):
    """Derivatives in the five variables on the first axis: of g, and of gap by either slice."""

    g: Floats
    earlier: Floats
    later: Floats


class JointProblem(NamedTuple):
    """Quotes and conditions of surfaces with equally many places for expiries; `live` are those in use.

    Variables of slice i are rows ``5 i`` to ``5 i + 4`` of x; see `derivdata.analysis.least_squares.Problem`.
    """

    quotes: SurfaceQuotes
    live: Bools
    places_g: Floats
    places_gap: Floats
    gap_unit: Floats
    force: Floats
    margin: Floats
    multiplier: Constraints
    low: Floats
    high: Floats
    reach: Floats

    def rows(self, index: Index) -> Self:
        """Return these surfaces only."""
        first = {
            name: getattr(self, name)[index]
            for name in ("live", "places_g", "places_gap", "gap_unit", "force", "margin")
        }
        last = {name: getattr(self, name)[:, index] for name in ("low", "high", "reach")}
        multiplier = Constraints(*(part[index] for part in self.multiplier))
        return self._replace(
            quotes=SurfaceQuotes(*(part[index] for part in self.quotes)),
            multiplier=multiplier,
            **first,
            **last,
        )

    def slices(self, x: Floats) -> Floats:
        """Variables as ``(5, surfaces, expiries)``."""
        return x.reshape(-1, _SIZE, x.shape[1]).transpose(1, 2, 0)

    def constraints(self, x: Floats) -> tuple[Constraints, _Slopes]:
        """Values of all conditions and their derivatives."""
        each = self.slices(x)
        g, by_g = _density_jet(each[..., None], self.places_g)
        (early, _, _), (by_early, _, _) = _jet(each[:, :, :-1, None], self.places_gap)
        (late, _, _), (by_late, _, _) = _jet(each[:, :, 1:, None], self.places_gap)
        wings = np.moveaxis(each[1:3, :, 1:] - each[1:3, :, :-1], 0, -1)
        values = Constraints(g, (late - early) * self.gap_unit, wings)
        return values, _Slopes(by_g, by_early * self.gap_unit, by_late * self.gap_unit)

    def lacks(self, values: Constraints) -> Constraints:
        """Measure how far each condition is from its margin, moved by its multiplier, 0 where it holds."""
        force, margin = self.force[:, None, None], self.margin[:, None, None]
        margins = (_MARGIN_G * margin, _MARGIN_GAP * margin, _MARGIN_WING * margin)
        masks = (self.live, self.live[:, 1:], self.live[:, 1:])
        return Constraints(
            *(
                np.maximum(least - value + multiplier / force, 0.0) * mask[..., None]
                for least, value, multiplier, mask in zip(
                    margins, values, self.multiplier, masks, strict=True
                )
            )
        )

    def evaluate(self, x: Floats) -> Linearised:
        """Products of all residuals, those of the quotes and those of the conditions."""
        values, slopes = self.constraints(x)
        lacks = self.lacks(values)
        own = self._own_products(x, lacks.g, slopes.g)
        shared = self._pair_products(lacks, slopes)
        count, expiries = self.live.shape
        gram, grad = np.zeros((count, expiries, _SIZE, expiries, _SIZE)), np.zeros((count, expiries, _SIZE))
        for i in range(expiries):
            gram[:, i, :, i] += own[:, i, :_SIZE, :_SIZE]
            grad[:, i] -= own[:, i, :_SIZE, -1]
        for i in range(expiries - 1):
            block = shared[:, i]
            gram[:, i, :, i] += block[:, :_SIZE, :_SIZE]
            gram[:, i + 1, :, i + 1] += block[:, _SIZE:-1, _SIZE:-1]
            gram[:, i, :, i + 1] += block[:, :_SIZE, _SIZE:-1]
            gram[:, i + 1, :, i] += block[:, _SIZE:-1, :_SIZE]
            grad[:, i] -= block[:, :_SIZE, -1]
            grad[:, i + 1] -= block[:, _SIZE:-1, -1]
        loss = own[:, :, -1, -1].sum(axis=1) + shared[:, :, -1, -1].sum(axis=1)
        matrix = np.ascontiguousarray(np.moveaxis(gram.reshape(count, len(x), len(x)), 0, -1))
        diagonal = np.einsum("ppn->pn", matrix)
        # Places without an expiry move nothing: a trace of damping keeps them where they are.
        scale = np.maximum(diagonal, 1e-12 * diagonal.max(axis=0) + 1e-300)
        return Linearised(x, loss, np.full(count, 1e-20), matrix, grad.reshape(count, -1).T, scale)

    def _own_products(self, x: Floats, lack: Floats, slope: Floats) -> Floats:
        """Products of the derivatives and the residual of each slice, ``(surfaces, expiries, 6, 6)``."""
        quotes, root = self.quotes, np.sqrt(self.force)[:, None, None]
        (w, _, _), (by_w, _, _) = _jet(self.slices(x)[..., None], quotes.k)
        error, factor = errors(quotes, w)
        count = quotes.k.shape[-1]
        rows = np.empty((*self.live.shape, _SIZE + 1, count + lack.shape[-1]))
        rows[..., :_SIZE, :count] = np.moveaxis(by_w * factor, 0, 2)
        rows[..., -1, :count] = error
        rows[..., :_SIZE, count:] = np.moveaxis(slope * (root * (lack > 0.0)), 0, 2)
        rows[..., -1, count:] = -root * lack
        return np.asarray(rows @ rows.swapaxes(-1, -2))

    def _pair_products(self, lacks: Constraints, slopes: _Slopes) -> Floats:
        """Return the same of each pair, the earlier slice first: ``(surfaces, pairs, 11, 11)``."""
        root, count = np.sqrt(self.force)[:, None, None], lacks.gap.shape[-1]
        rows = np.zeros((*self.live[:, 1:].shape, 2 * _SIZE + 1, count + 2))
        active = root * (lacks.gap > 0.0)
        rows[..., :_SIZE, :count] = -np.moveaxis(slopes.earlier * active, 0, 2)
        rows[..., _SIZE:-1, :count] = np.moveaxis(slopes.later * active, 0, 2)
        rows[..., -1, :count] = -root * lacks.gap
        for side in (0, 1):  # variables 1 and 2 are the roots of the wings' slopes
            active = root[..., 0] * (lacks.wings[..., side] > 0.0)
            rows[..., 1 + side, count + side], rows[..., _SIZE + 1 + side, count + side] = -active, active
        rows[..., -1, count:] = -root * lacks.wings
        return np.asarray(rows @ rows.swapaxes(-1, -2))


def joint_problem(quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw) -> tuple[JointProblem, Floats]:
    """Return the problem with units of each slice's own deviation, and where its search begins."""
    count, expiries = live.shape
    middle = np.where(live, total_variance(0.0, start), 1.0)
    width = np.sqrt(middle)
    # Weights of mean 1: the force of a condition must not depend on the unit of the weights.
    weight = 4.0 * quotes.w * t[..., None] * np.square(quotes.scale)
    quoted = np.maximum((quotes.scale > 0.0).sum(axis=(1, 2)), 1)
    mean = weight.sum(axis=(1, 2)) / quoted
    scale = quotes.scale / np.sqrt(np.where(mean > 0.0, mean, 1.0))[:, None, None]
    places_gap = width[:, 1:, None] * _CALENDAR
    later = total_variance(places_gap, Raw(*(part[:, 1:, None] for part in start)))
    one = np.ones_like(width)
    low = np.stack([1e-6 * middle, 0.0 * one, 0.0 * one, -20.0 * width, np.log(0.02 * width)])
    high = np.stack([np.inf * one, _STEEPEST * one, _STEEPEST * one, 20.0 * width, np.log(100.0 * width)])
    reach = np.stack([np.inf * one, 0.3 * one, 0.3 * one, width, 0.7 * one])

    def stacked(part: Floats) -> Floats:
        return part.transpose(2, 0, 1).reshape(_SIZE * expiries, count)

    variables = floor_from_raw(Raw(*(part.reshape(-1) for part in start))).reshape(_SIZE, count, expiries)
    problem = JointProblem(
        quotes._replace(scale=scale),
        live,
        width[..., None] * _BUTTERFLY,
        places_gap,
        0.5 / np.sqrt(later * t[:, 1:, None]),
        np.full(count, _FORCE),
        np.ones(count),
        Constraints(
            np.zeros((count, expiries, _BUTTERFLY.size)),
            np.zeros((count, expiries - 1, _CALENDAR.size)),
            np.zeros((count, expiries - 1, 2)),
        ),
        *map(stacked, (low, high, reach)),
    )
    return problem, stacked(variables)


def holds(problem: JointProblem, values: Constraints) -> Bools:
    """Tell whether every condition holds at its places, margins left aside."""
    holds = np.ones(len(problem.live), dtype=bool)
    for value, mask in zip(values, (problem.live, problem.live[:, 1:], problem.live[:, 1:]), strict=True):
        holds &= ((value >= 0.0) | ~mask[..., None]).all(axis=(1, 2))
    return holds


def pressed(problem: JointProblem, values: Constraints) -> JointProblem:
    """Return the problem with the multipliers that `values` call for, more force, and a wider margin."""
    force = problem.force[:, None, None]
    multiplier = Constraints(*(force * lack for lack in problem.lacks(values)))
    return problem._replace(
        multiplier=multiplier,
        force=problem.force * _FORCE_GROWTH,
        margin=problem.margin * np.where(holds(problem, values), 2.0, 1.0),
    )
