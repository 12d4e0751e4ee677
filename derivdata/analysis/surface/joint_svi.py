"""SVI slices of all expiries fitted together, free of butterflies and of calendar arbitrage.

Five parameters a slice, those of `derivdata.analysis.smile.svi.floor_from_raw`, so that total variance is
positive by construction. The conditions are inequalities:

* butterfly: Durrleman's ``g(k) >= 0`` at 61 places of every slice, out to 30 deviations, and wing slopes
  below 2, which is the limit of g at infinity;
* calendar: ``w`` of the next expiry is not less at 77 places, out to 100 deviations, and neither of its wings
  is flatter, which decides beyond any grid.

They enter the least squares as an augmented Lagrangian (Hestenes, Powell; Nocedal and Wright, Numerical
Optimization, chapter 17): a condition ``c >= margin`` adds the residual ``√ρ max(0, margin − c + λ/ρ)``, and
after each search its multiplier becomes ``λ = max(0, λ + ρ (margin − c))``. Multipliers find the force that a
condition needs; penalties alone would have to be infinite, and the search would crawl.

The grids guide the search; they prove nothing. What comes out is checked without them: slices by
`derivdata.analysis.smile.butterfly` (a polynomial of degree 10) or by a search of the whole line,
neighbours by the roots of a quartic (`never_below`). Surfaces that fail are searched on with more force and a
wider margin. What fails after the last round is given up, and the caller keeps the eSSVI surface.

For both conditions on SVI no free coordinates are known (Martini and Mingone, arXiv:2005.03340, describe the
butterfly-free slices), hence the inequalities. Corbetta et al. (arXiv:1804.04924) fit expiry after expiry.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.butterfly import certified, check_slices, product
from derivdata.analysis.smile.quotes import SurfaceQuotes
from derivdata.analysis.smile.search import Index, Linearised, diagonal, minimise
from derivdata.analysis.smile.svi import Raw, density_jet, floor_from_raw, floor_to_raw, jet, total_variance
from derivdata.support.arrays import Bools, Floats, Indices, Ints

_ROUNDS, _FIRST_STEPS, _STEPS, _TOLERANCE = 14, 25, 12, 1e-6
_FIRMNESS = (1.0, 30.0)  # factors of force and margins; what the first leaves unproved begins again


_SIZE = 5
_BUTTERFLY = np.sinh(np.linspace(-1.0, 1.0, 61) * np.arcsinh(30.0))  # places, in deviations
_CALENDAR = np.sinh(np.linspace(-1.0, 1.0, 77) * np.arcsinh(100.0))
_MARGINS = (1e-3, 1e-4, 1e-5)  # of g; of volatility; of √slope
_FORCE, _FORCE_GROWTH = 1e-2, 3.0
_STEEPEST = np.sqrt(2.0 * (1.0 - 1e-6))


class JointFit(NamedTuple):
    """Raw parameters ``(surfaces, expiries)``, which surfaces are proved free, and evaluations spent."""

    raw: Raw
    free: Bools
    nfev: Ints


def fit_joint(quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw) -> JointFit:
    """Fit the slices of every surface together, from `start`, which is free of arbitrage.

    `t` rises along the places in use, which `live` tells and which come first.
    """
    filled = Raw(
        *(np.where(live, part, idle) for part, idle in zip(start, (1.0, 0.1, 0.0, 0.0, 1.0), strict=True))
    )
    result = JointFit(
        Raw(*(part.copy() for part in filled)), np.zeros(len(t), dtype=bool), np.zeros(len(t), dtype=np.int64)
    )
    for firmness in _FIRMNESS:
        left = np.flatnonzero(~result.free)
        if not left.size:
            break
        begin = Raw(*(part[left] for part in filled))
        problem, x = _problem(quotes.rows(left), np.where(live, t, 1.0)[left], live[left], begin)
        firm = problem._replace(force=firmness * problem.force, margin=firmness * problem.margin)
        _search(firm, x, left, result)
    return result


def _search(problem: _Problem, x: Floats, going: Indices, result: JointFit) -> None:
    """Search the surfaces `going`, and put those that are proved free into `result`."""
    for turn in range(_ROUNDS):
        x = np.clip(x, problem.low, problem.high)
        ended = minimise(problem, x, steps=_STEPS if turn else _FIRST_STEPS, tolerance=_TOLERANCE)
        x, result.nfev[going] = ended.x, result.nfev[going] + ended.nfev
        values, _ = problem.constraints(x)
        flat = floor_to_raw(problem.slices(x).reshape(5, -1))
        raw = Raw(*(part.reshape(problem.live.shape) for part in flat))
        done = problem.holds(values)
        if done.any():
            done[done] = _proved(Raw(*(part[done] for part in raw)), problem.live[done])
        for part, value in zip(result.raw, raw, strict=True):
            part[going[done]] = value[done]
        result.free[going[done]] = True
        problem = _pressed(problem, values).rows(~done)
        x, going = x[:, ~done], going[~done]
        if not going.size:
            break


class _Constraints(NamedTuple):
    """Values, each to be at least its margin: of g, of rises in volatility, of rises of wings in √slope."""

    g: Floats
    gap: Floats
    wings: Floats


class _Slopes(NamedTuple):
    """Derivatives in the five variables on the first axis: of g, and of gap by either slice."""

    g: Floats
    earlier: Floats
    later: Floats


class _Problem(NamedTuple):
    """Quotes and conditions of surfaces; variables of slice i are rows ``5 i`` to ``5 i + 4`` of x."""

    quotes: SurfaceQuotes
    live: Bools
    places_g: Floats
    places_gap: Floats
    gap_unit: Floats
    force: Floats
    margin: Floats
    multiplier: _Constraints
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
        multiplier = _Constraints(*(part[index] for part in self.multiplier))
        return self._replace(quotes=self.quotes.rows(index), multiplier=multiplier, **first, **last)

    def slices(self, x: Floats) -> Floats:
        """Variables as ``(5, surfaces, expiries)``."""
        return x.reshape(-1, _SIZE, x.shape[1]).transpose(1, 2, 0)

    def constraints(self, x: Floats) -> tuple[_Constraints, _Slopes]:
        """Values of all conditions and their derivatives."""
        each = self.slices(x)
        g, by_g = density_jet(each[..., None], self.places_g)
        (early, _, _), (by_early, _, _) = jet(each[:, :, :-1, None], self.places_gap)
        (late, _, _), (by_late, _, _) = jet(each[:, :, 1:, None], self.places_gap)
        wings = np.moveaxis(each[1:3, :, 1:] - each[1:3, :, :-1], 0, -1)
        values = _Constraints(g, (late - early) * self.gap_unit, wings)
        return values, _Slopes(by_g, by_early * self.gap_unit, by_late * self.gap_unit)

    def lacks(self, values: _Constraints) -> _Constraints:
        """Measure how far each condition is from its margin, moved by its multiplier, 0 where it holds."""
        force, margin = self.force[:, None, None], self.margin[:, None, None]
        parts = zip(_MARGINS, values, self.multiplier, self.masks, strict=True)
        return _Constraints(
            *(
                np.maximum(least * margin - value + multiplier / force, 0.0) * mask
                for least, value, multiplier, mask in parts
            )
        )

    @property
    def masks(self) -> tuple[Bools, Bools, Bools]:
        """Return which slices and pairs each kind of condition is about."""
        pairs = self.live[:, 1:, None]
        return self.live[..., None], pairs, pairs

    def holds(self, values: _Constraints) -> Bools:
        """Tell whether every condition holds at its places, margins left aside."""
        each = [
            ((value >= 0.0) | ~mask).all(axis=(1, 2)) for value, mask in zip(values, self.masks, strict=True)
        ]
        return np.asarray(np.all(each, axis=0))

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
        own_squares = diagonal(matrix)
        # Places without an expiry move nothing: a trace of damping keeps them where they are.
        scale = np.maximum(own_squares, 1e-12 * own_squares.max(axis=0) + 1e-300)
        return Linearised(x, loss, np.full(count, 1e-20), matrix, grad.reshape(count, -1).T, scale)

    def _own_products(self, x: Floats, lack: Floats, slope: Floats) -> Floats:
        """Products of the derivatives and the residual of each slice, ``(surfaces, expiries, 6, 6)``."""
        quotes, root = self.quotes, np.sqrt(self.force)[:, None, None]
        (w, _, _), (by_w, _, _) = jet(self.slices(x)[..., None], quotes.k)
        error, factor = quotes.errors(w)
        count = quotes.k.shape[-1]
        rows = np.empty((*self.live.shape, _SIZE + 1, count + lack.shape[-1]))
        rows[..., :_SIZE, :count] = np.moveaxis(by_w * factor, 0, 2)
        rows[..., -1, :count] = error
        rows[..., :_SIZE, count:] = np.moveaxis(slope * (root * (lack > 0.0)), 0, 2)
        rows[..., -1, count:] = -root * lack
        return np.asarray(rows @ rows.swapaxes(-1, -2))

    def _pair_products(self, lacks: _Constraints, slopes: _Slopes) -> Floats:
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


def _problem(quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw) -> tuple[_Problem, Floats]:
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
    problem = _Problem(
        quotes._replace(scale=scale),
        live,
        width[..., None] * _BUTTERFLY,
        places_gap,
        0.5 / np.sqrt(later * t[:, 1:, None]),
        np.full(count, _FORCE),
        np.ones(count),
        _Constraints(
            np.zeros((count, expiries, _BUTTERFLY.size)),
            np.zeros((count, expiries - 1, _CALENDAR.size)),
            np.zeros((count, expiries - 1, 2)),
        ),
        *map(stacked, (low, high, reach)),
    )
    return problem, stacked(variables)


def _pressed(problem: _Problem, values: _Constraints) -> _Problem:
    """Return the problem with the multipliers that `values` call for, more force, and a wider margin."""
    force = problem.force[:, None, None]
    multiplier = _Constraints(*(force * lack for lack in problem.lacks(values)))
    return problem._replace(
        multiplier=multiplier,
        force=problem.force * _FORCE_GROWTH,
        margin=problem.margin * np.where(problem.holds(values), 2.0, 1.0),
    )


def never_below(earlier: Raw, later: Raw) -> Bools:
    """Tell whether each of the later slices lies nowhere below its earlier one, on the whole line.

    With ``w = A + √B``, A linear and B quadratic in k, two slices meet where ``A₂ − A₁ = √B₁ − √B₂``.
    Squared twice that is a quartic: ``(B₁ − B₂ − (A₂ − A₁)²)² = 4 (A₂ − A₁)² B₂``. Between its roots the sign
    of the difference cannot change, so one look between each two, and one beyond either end, decides.
    """
    (a1, b1), (a2, b2) = (_linear_and_square(raw) for raw in (earlier, later))
    gap = a2 - a1
    squared = product(gap, gap)
    rest = b1 - b2 - squared
    quartic = product(rest, rest) - 4.0 * product(squared, b2)
    roots = _roots(quartic)
    # Of the complex ones the real parts stay: a double root comes as a pair of them, and looking in a place
    # too many does no harm.
    real_roots = np.sort(roots.real, axis=-1)
    ends = real_roots.min(axis=-1), real_roots.max(axis=-1)
    middle = (real_roots[..., 1:] + real_roots[..., :-1]) / 2.0
    width = 1.0 + ends[1] - ends[0]
    looks = np.concatenate([middle, (ends[0] - width)[..., None], (ends[1] + width)[..., None]], axis=-1)
    difference = [total_variance(looks, Raw(*(part[..., None] for part in raw))) for raw in (later, earlier)]
    slack = 1e-13 * np.abs(difference[0])
    return np.asarray((difference[0] - difference[1] >= -slack).all(axis=-1))


def _linear_and_square(raw: Raw) -> tuple[Floats, Floats]:
    """Return the coefficients in rising powers of k of A and B in ``w = A + √B``."""
    a, b, rho, m, sigma = raw
    return np.stack([a - b * rho * m, b * rho]), np.stack(
        [b * b * (m * m + sigma * sigma), -2.0 * b * b * m, b * b]
    )


def _roots(coefficients: Floats) -> NDArray[np.complex128]:
    """Return roots of polynomials given in rising powers on the first axis, by their companion matrices."""
    degree = len(coefficients) - 1
    lead = np.where(coefficients[-1] == 0.0, 1e-300, coefficients[-1])
    companion = np.zeros((*lead.shape, degree, degree))
    companion[..., 1:, :-1] = np.eye(degree - 1)
    with np.errstate(over="ignore"):
        last = np.clip(-coefficients[:-1] / lead, -1e200, 1e200)
    companion[..., :, -1] = np.moveaxis(last, 0, -1)
    return np.asarray(np.linalg.eigvals(companion), dtype=np.complex128)


def _proved(raw: Raw, live: Bools) -> Bools:
    """Tell whether surfaces have no butterfly and no crossing anywhere."""
    flat = Raw(*(part[live] for part in raw))
    safe = certified(flat)
    doubtful = np.flatnonzero(~safe)
    if doubtful.size:
        rest = Raw(*(part[doubtful] for part in flat))
        reach = 10.0 * np.sqrt(total_variance(0.0, rest)) + np.abs(rest.m)
        safe[doubtful] = check_slices(rest, -reach, reach).ok
    butterfly = np.ones(live.shape, dtype=bool)
    butterfly[live] = safe
    calendar = never_below(Raw(*(part[:, :-1] for part in raw)), Raw(*(part[:, 1:] for part in raw)))
    return np.asarray(butterfly.all(axis=1) & (calendar | ~live[:, 1:]).all(axis=1))
