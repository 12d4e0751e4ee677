"""Joint fit of SVI slices of all expiries, free of butterfly and calendar arbitrage.

Each slice has five parameters, those of `derivdata.analysis.smile.svi`, so that total variance is positive by
construction. The conditions are inequalities:

* butterfly: Durrleman's ``g(k) >= 0`` at 61 places of every slice, out to 30 deviations, and wing slopes
  below 2, which is the limit of g at infinity;
* calendar: ``w`` of the next expiry is not less at 77 places, out to 100 deviations, and neither of its wings
  is flatter, which decides beyond any grid.

They enter the least squares as an augmented Lagrangian (Hestenes, Powell; Nocedal and Wright, Numerical
Optimization, chapter 17): a condition ``c >= margin`` adds the residual ``√ρ max(0, margin − c + λ/ρ)``, and
after each search its multiplier becomes ``λ = max(0, λ + ρ (margin − c))``. Multipliers find the force that a
condition needs; with penalties only the force would have to be infinite, and the search would converge
slowly.

After the first search only the places nearest to their margins are evaluated, until the next multipliers. The
grids guide the search but prove nothing. The result is checked without them: slices by
`derivdata.analysis.smile.evaluate` (a polynomial of degree 10) or by a search of the whole line, neighbours
by the roots of a quartic (`never_below`). Surfaces that fail are searched again with more force and a wider
margin. If a surface fails the last round, the caller uses the eSSVI surface.

No free coordinates are known for both conditions on SVI (Martini and Mingone, arXiv:2005.03340, describe the
butterfly-free slices), which gives the inequalities. Corbetta et al. (arXiv:1804.04924) fit expiry after
expiry.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.evaluate import certified, check_slices, product
from derivdata.analysis.smile.quotes import SurfaceQuotes
from derivdata.analysis.smile.search import Banded, Index, Linearised, minimise
from derivdata.analysis.smile.svi import (
    SIZE,
    Raw,
    at_index,
    floor_density,
    floor_density_jet,
    floor_from_raw,
    floor_to_raw,
    floor_variance,
    floor_variance_jet,
    total_variance,
)
from derivdata.support.arrays import Bools, Floats, Indices, Ints

_ROUNDS = 14
_FIRST_STEPS = 25
_STEPS = 12
_TOLERANCE = 1e-6
# Factors of force and margins; surfaces that are not proved free are fitted again with the next factor.
_FIRMNESS = (1.0, 30.0, 300.0)

_BUTTERFLY = np.sinh(np.linspace(-1.0, 1.0, 61) * np.arcsinh(30.0))  # log-moneyness, in deviations
_CALENDAR = np.sinh(np.linspace(-1.0, 1.0, 77) * np.arcsinh(100.0))
_NEAR_G = 10  # number of points per slice, and per pair of slices, that later searches check
_NEAR_GAP = 16
_MARGINS = (1e-3, 1e-4, 1e-5)  # margins of g, of volatility, and of √slope
_FORCE = 1e-2
_FORCE_GROWTH = 3.0
_STEEPEST = np.sqrt(2.0 * (1.0 - 1e-6))
_SLOPES = (1, 2)  # variables that are roots of the wing slopes
_ROW = np.arange(SIZE)[:, None] + np.arange(2 * SIZE)


class JointFit(NamedTuple):
    """Raw parameters ``(surfaces, expiries)``, a mask of proved surfaces, and the number of evaluations."""

    raw: Raw
    free: Bools
    nfev: Ints


def fit_joint(quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw) -> JointFit:
    """Fit the slices of every surface together, from `start`, which is free of arbitrage.

    `t` rises along the used places, which are first and marked by `live`.
    """
    filled = Raw(
        *(np.where(live, values, idle) for values, idle in zip(start, (1.0, 0.1, 0.0, 0.0, 1.0), strict=True))
    )
    result = JointFit(
        Raw(*(values.copy() for values in filled)),
        np.zeros(len(t), dtype=bool),
        np.zeros(len(t), dtype=np.int64),
    )
    for firmness in _FIRMNESS:
        left = np.flatnonzero(~result.free)
        if not left.size:
            break
        begin = at_index(filled, left)
        at = np.where(live, t, 1.0)[left]
        problem, x = joint_problem(quotes.rows(left), at, live[left], begin, firmness)
        _search(problem, x, left, result)
    return result


def _search(problem: JointProblem, x: Floats, going: Indices, result: JointFit) -> None:
    """Search the surfaces in `going`, and write those that are proved free into `result`."""
    search = problem
    for turn in range(_ROUNDS):
        # 1. Minimise with the present multipliers.
        x = np.clip(x, problem.low, problem.high)
        steps = _STEPS if turn else _FIRST_STEPS
        ended = minimise(search, x, steps=steps, tolerance=_TOLERANCE)
        x = ended.x
        result.nfev[going] = result.nfev[going] + ended.nfev

        # 2. Find surfaces that satisfy every condition, first at all points and then on the whole line.
        values = problem.constraints(problem.slices(x))
        flat = floor_to_raw(problem.slices(x).reshape(SIZE, -1))
        raw = Raw(*(values.reshape(problem.live.shape) for values in flat))
        done = problem.holds(values)
        if done.any():
            done[done] = _proved(at_index(raw, done), problem.live[done])
        for values_of_result, values_now in zip(result.raw, raw, strict=True):
            values_of_result[going[done]] = values_now[done]
        result.free[going[done]] = True

        # 3. Update the multipliers of the others.
        problem = problem.pressed(values).rows(~done)
        x = x[:, ~done]
        going = going[~done]
        if not going.size:
            break
        search = problem.near(values.rows(~done))


class Constraints(NamedTuple):
    """Values of conditions: of g, of rises in volatility, of rises of wings in √slope."""

    g: Floats
    gap: Floats
    wings: Floats

    def rows(self, index: Index) -> Constraints:
        """Return the constraints of the selected surfaces."""
        return Constraints(self.g[index], self.gap[index], self.wings[index])


class JointProblem(NamedTuple):
    """Quotes and conditions of surfaces; variables of slice i are rows ``5 i`` to ``5 i + 4`` of x.

    A condition must be at least its margin. `at_least` is the margin moved by its multiplier over the force,
    and −∞ without an expiry.
    """

    quotes: SurfaceQuotes
    live: Bools
    places_g: Floats
    places_gap: Floats
    gap_unit: Floats
    force: Floats
    margin: Floats
    at_least: Constraints
    low: Floats
    high: Floats
    reach: Floats

    def rows(self, index: Index) -> Self:
        """Return the selected surfaces."""
        first = {
            name: getattr(self, name)[index]
            for name in ("live", "places_g", "places_gap", "gap_unit", "force", "margin")
        }
        last = {name: getattr(self, name)[:, index] for name in ("low", "high", "reach")}
        at_least = self.at_least.rows(index)
        return self._replace(quotes=self.quotes.rows(index), at_least=at_least, **first, **last)

    def slices(self, x: Floats) -> Floats:
        """Return the variables as ``(5, surfaces, expiries)``."""
        return np.ascontiguousarray(x.reshape(-1, SIZE, x.shape[1]).transpose(1, 2, 0))

    def constraints(self, slices: Floats) -> Constraints:
        """Return the values of all conditions."""
        g = floor_density(slices[..., None], self.places_g)
        gap = floor_variance(slices[:, :, 1:, None], self.places_gap)
        gap -= floor_variance(slices[:, :, :-1, None], self.places_gap)
        gap *= self.gap_unit
        wings = np.moveaxis(slices[1:3, :, 1:] - slices[1:3, :, :-1], 0, -1)
        return Constraints(g, gap, wings)

    def near(self, values: Constraints) -> Self:
        """Return the problem with conditions only at the points nearest to their margins."""
        g = np.argpartition(values.g - self.at_least.g, _NEAR_G, axis=-1)[..., :_NEAR_G]
        gap = np.argpartition(values.gap - self.at_least.gap, _NEAR_GAP, axis=-1)[..., :_NEAR_GAP]
        minimum = Constraints(
            np.take_along_axis(self.at_least.g, g, -1),
            np.take_along_axis(self.at_least.gap, gap, -1),
            self.at_least.wings,
        )
        return self._replace(
            places_g=np.take_along_axis(self.places_g, g, -1),
            places_gap=np.take_along_axis(self.places_gap, gap, -1),
            gap_unit=np.take_along_axis(self.gap_unit, gap, -1),
            at_least=minimum,
        )

    def lacks(self, values: Constraints) -> Constraints:
        """Return the shortfall of each condition from its moved margin, 0 if it is satisfied."""
        minimum = self.at_least
        return Constraints(
            np.maximum(minimum.g - values.g, 0.0),
            np.maximum(minimum.gap - values.gap, 0.0),
            np.maximum(minimum.wings - values.wings, 0.0),
        )

    def holds(self, values: Constraints) -> Bools:
        """Return whether every condition is satisfied at its points, without margins."""
        pairs = self.live[:, 1:, None]
        slices = ((values.g >= 0.0) | ~self.live[..., None]).all(axis=(1, 2))
        gaps = ((values.gap >= 0.0) | ~pairs).all(axis=(1, 2))
        wings = ((values.wings >= 0.0) | ~pairs).all(axis=(1, 2))
        return np.asarray(slices & gaps & wings)

    def pressed(self, values: Constraints) -> Self:
        """Return the problem with updated multipliers for `values`, more force, and a wider margin."""
        lacks = self.lacks(values)
        margin = self.margin * np.where(self.holds(values), 2.0, 1.0)
        multiplier = Constraints(*(lack / _FORCE_GROWTH for lack in lacks))  # divided by the new force
        at_least = _at_least(self.live, margin, multiplier)
        return self._replace(at_least=at_least, force=self.force * _FORCE_GROWTH, margin=margin)

    def evaluate(self, x: Floats) -> Linearised:
        """Return products of the residuals of quotes and conditions.

        ``own`` has the products of derivatives and, last, of the residual of each slice, ``neighbours`` the
        products of derivatives of a slice and the next one.
        """
        slices = self.slices(x)
        lacks = self.lacks(self.constraints(slices))
        own, loss = self._quote_products(slices)
        neighbours = np.zeros((len(own), own.shape[1] - 1, SIZE, SIZE))
        self._add_butterflies(own, slices, lacks.g)
        self._add_crossings(own, neighbours, slices, lacks.gap)
        self._add_wings(own, neighbours, lacks.wings)
        for lack in lacks:
            loss += self.force * np.square(lack).sum(axis=(1, 2))
        grad = -own[..., :SIZE, -1].reshape(len(own), -1).T
        bands = _bands(own[..., :SIZE, :SIZE], neighbours)
        squares = bands[:, :, 0].T
        # Entries without an expiry have no effect, so a small damping keeps them fixed.
        scale = np.maximum(squares, 1e-12 * squares.max(axis=0) + 1e-300)
        rounding = np.full(len(own), 1e-20)
        return Linearised(x, loss, rounding, Banded(bands), grad, scale)

    def _quote_products(self, slices: Floats) -> tuple[Floats, Floats]:
        """Return products of each slice's quotes, ``(surfaces, expiries, 6, 6)``, and each surface's loss."""
        w, by_w = floor_variance_jet(slices[..., None], self.quotes.k)
        error, factor = self.quotes.errors(w)
        rows = np.empty((*self.live.shape, SIZE + 1, w.shape[-1]))
        np.multiply(np.moveaxis(by_w, 0, 2), factor[:, :, None], out=rows[..., :SIZE, :])
        rows[..., -1, :] = error
        products = np.asarray(rows @ rows.swapaxes(-1, -2))
        return products, products[..., -1, -1].sum(axis=1)

    def _add_butterflies(self, own: Floats, slices: Floats, lack: Floats) -> None:
        """Add the products of g at the points where it is below its margin."""
        surface, expiry, place = _places_with(lack)
        if not surface.size:
            return
        root = np.sqrt(self.force)[surface]
        _, by_g = floor_density_jet(slices[:, surface, expiry], self.places_g[surface, expiry, place])
        rows = np.empty((SIZE + 1, surface.size))
        np.multiply(by_g, root, out=rows[:SIZE])
        np.multiply(lack[surface, expiry, place], -root, out=rows[-1])
        first, products = _summed_products(rows[:-1], rows, surface * lack.shape[1] + expiry)
        own[surface[first], expiry[first], :SIZE] += products

    def _add_crossings(self, own: Floats, neighbours: Floats, slices: Floats, lack: Floats) -> None:
        """Add the products of calendar conditions where a slice is not enough above the previous one."""
        surface, pair, place = _places_with(lack)
        if not surface.size:
            return
        # 1. Evaluate both slices of each pair at the same points.
        k = self.places_gap[surface, pair, place]
        both = np.stack([slices[:, surface, pair], slices[:, surface, pair + 1]], axis=1)
        _, by_w = floor_variance_jet(both, k)

        # 2. Make one row per condition: derivatives by the earlier and the later slice, and the residual.
        root = np.sqrt(self.force)[surface]
        unit = root * self.gap_unit[surface, pair, place]
        rows = np.empty((2 * SIZE + 1, surface.size))
        np.multiply(by_w[:, 0], -unit, out=rows[:SIZE])
        np.multiply(by_w[:, 1], unit, out=rows[SIZE:-1])
        np.multiply(lack[surface, pair, place], -root, out=rows[-1])

        # 3. Sum their products over each pair.
        first, products = _summed_products(rows[:-1], rows, surface * lack.shape[1] + pair)
        surface = surface[first]
        pair = pair[first]
        own[surface, pair, :SIZE, :SIZE] += products[:, :SIZE, :SIZE]
        own[surface, pair, :SIZE, -1] += products[:, :SIZE, -1]
        own[surface, pair + 1, :SIZE] += products[:, SIZE:, SIZE:]
        neighbours[surface, pair] += products[:, :SIZE, SIZE:-1]

    def _add_wings(self, own: Floats, neighbours: Floats, lack: Floats) -> None:
        """Add the products of wing conditions, whose derivatives are −1 and 1."""
        force = self.force[:, None]
        for side, variable in enumerate(_SLOPES):
            pull = force * lack[:, :, side]
            square = force * (lack[:, :, side] > 0.0)
            own[:, :-1, variable, variable] += square
            own[:, 1:, variable, variable] += square
            neighbours[:, :, variable, variable] -= square
            own[:, :-1, variable, -1] += pull
            own[:, 1:, variable, -1] -= pull


def _places_with(lack: Floats) -> tuple[Indices, ...]:
    """Return the indices of violated conditions; numpy finds them fastest in a flat mask."""
    return np.unravel_index(np.flatnonzero(lack > 0.0), lack.shape)


def _summed_products(left: Floats, right: Floats, group: Indices) -> tuple[Indices, Floats]:
    """Return the first column of each group, and the sum of its products ``left × right``.

    Columns of one group are adjacent.
    """
    first = np.flatnonzero(np.diff(group, prepend=-1))
    products = left.T[:, :, None] * right.T[:, None, :]
    return first, np.add.reduceat(products, first, axis=0)


def _bands(own: Floats, neighbours: Floats) -> Floats:
    """Return the diagonals of the matrix of all expiries, in the format of `Banded`."""
    surfaces, expiries = own.shape[:2]
    # Products of each variable with the variables of the same slice and of the next slice.
    wide = np.zeros((surfaces, expiries, SIZE, 3 * SIZE))
    wide[..., :SIZE] = own
    wide[:, :-1, :, SIZE : 2 * SIZE] = neighbours
    bands = wide[:, :, np.arange(SIZE)[:, None], _ROW].reshape(surfaces, expiries * SIZE, 2 * SIZE)
    return bands if expiries > 1 else np.ascontiguousarray(bands[..., :SIZE])


def _at_least(live: Bools, margin: Floats, multiplier: Constraints) -> Constraints:
    """Return margins moved by multipliers over the force; −∞ without an expiry."""
    pairs = live[:, 1:, None]
    masks = (live[..., None], pairs, pairs)
    moved = [
        np.where(mask, minimum * margin[:, None, None] + shift, -np.inf)
        for minimum, shift, mask in zip(_MARGINS, multiplier, masks, strict=True)
    ]
    return Constraints(*moved)


def joint_problem(
    quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw, firmness: float
) -> tuple[JointProblem, Floats]:
    """Return the problem, in units of each slice's deviation, and the start of its search.

    `firmness` multiplies the force and the margins of its conditions.
    """
    count, expiries = live.shape
    middle = np.where(live, total_variance(0.0, start), 1.0)
    width = np.sqrt(middle)
    # Scale weights to a mean of 1, so that the force of a condition does not depend on their unit.
    weight = 4.0 * quotes.w * t[..., None] * np.square(quotes.scale)
    quoted = np.maximum((quotes.scale > 0.0).sum(axis=(1, 2)), 1)
    mean = weight.sum(axis=(1, 2)) / quoted
    scale = quotes.scale / np.sqrt(np.where(mean > 0.0, mean, 1.0))[:, None, None]
    places_gap = width[:, 1:, None] * _CALENDAR
    later = total_variance(places_gap, at_index(start, np.s_[:, 1:, None]))
    ones = np.ones_like(width)
    low = np.stack([1e-6 * middle, 0.0 * ones, 0.0 * ones, -20.0 * width, np.log(0.02 * width)])
    high = np.stack([np.inf * ones, _STEEPEST * ones, _STEEPEST * ones, 20.0 * width, np.log(100.0 * width)])
    reach = np.stack([np.inf * ones, 0.3 * ones, 0.3 * ones, width, 0.7 * ones])

    def stacked(values: Floats) -> Floats:
        return values.transpose(2, 0, 1).reshape(SIZE * expiries, count)

    variables = floor_from_raw(Raw(*(values.reshape(-1) for values in start))).reshape(SIZE, count, expiries)
    margin = np.full(count, firmness)
    nothing = Constraints(
        np.zeros((count, expiries, _BUTTERFLY.size)),
        np.zeros((count, expiries - 1, _CALENDAR.size)),
        np.zeros((count, expiries - 1, 2)),
    )
    problem = JointProblem(
        quotes._replace(scale=scale),
        live,
        width[..., None] * _BUTTERFLY,
        places_gap,
        0.5 / np.sqrt(later * t[:, 1:, None]),
        np.full(count, firmness * _FORCE),
        margin,
        _at_least(live, margin, nothing),
        *map(stacked, (low, high, reach)),
    )
    return problem, stacked(variables)


def never_below(earlier: Raw, later: Raw) -> Bools:
    """Return whether each later slice is nowhere below its earlier one, on the whole line.

    With ``w = A + √B``, A linear and B quadratic in k, two slices meet where ``A₂ − A₁ = √B₁ − √B₂``. Squared
    twice that is a quartic: ``(B₁ − B₂ − (A₂ − A₁)²)² = 4 (A₂ − A₁)² B₂``. The sign of the difference cannot
    change between roots. One evaluation between neighbouring roots and one beyond each end is therefore
    sufficient.
    """
    (a1, b1), (a2, b2) = (_linear_and_square(raw) for raw in (earlier, later))
    gap = a2 - a1
    squared = product(gap, gap)
    rest = b1 - b2 - squared
    quartic = product(rest, rest) - 4.0 * product(squared, b2)
    roots = _roots(quartic)
    # Real parts of complex roots are used: a double root appears as a complex pair, and checking additional
    # places is harmless.
    real_roots = np.sort(roots.real, axis=-1)
    ends = real_roots.min(axis=-1), real_roots.max(axis=-1)
    middle = (real_roots[..., 1:] + real_roots[..., :-1]) / 2.0
    width = 1.0 + ends[1] - ends[0]
    looks = np.concatenate([middle, (ends[0] - width)[..., None], (ends[1] + width)[..., None]], axis=-1)
    difference = [total_variance(looks, at_index(raw, np.s_[..., None])) for raw in (later, earlier)]
    slack = 1e-13 * np.abs(difference[0])
    return np.asarray((difference[0] - difference[1] >= -slack).all(axis=-1))


def _linear_and_square(raw: Raw) -> tuple[Floats, Floats]:
    """Return the coefficients of A and B in ``w = A + √B``, in ascending powers of k."""
    a, b, rho, m, sigma = raw
    return np.stack([a - b * rho * m, b * rho]), np.stack(
        [b * b * (m * m + sigma * sigma), -2.0 * b * b * m, b * b]
    )


def _roots(coefficients: Floats) -> NDArray[np.complex128]:
    """Return roots of polynomials, given in ascending powers on the first axis, by companion matrices."""
    degree = len(coefficients) - 1
    # A lower degree has a root at infinity: the tiny coefficient gives it a large finite value, so that all
    # polynomials share one shape.
    lead = np.where(coefficients[-1] == 0.0, 1e-300, coefficients[-1])
    companion = np.zeros((*lead.shape, degree, degree))
    companion[..., 1:, :-1] = np.eye(degree - 1)
    with np.errstate(over="ignore"):
        last = np.clip(-coefficients[:-1] / lead, -1e200, 1e200)
    companion[..., :, -1] = np.moveaxis(last, 0, -1)
    return np.asarray(np.linalg.eigvals(companion), dtype=np.complex128)


def _proved(raw: Raw, live: Bools) -> Bools:
    """Return whether surfaces have no butterfly and no crossing anywhere."""
    flat = at_index(raw, live)
    safe = certified(flat)
    doubtful = np.flatnonzero(~safe)
    if doubtful.size:
        rest = at_index(flat, doubtful)
        reach = 10.0 * np.sqrt(total_variance(0.0, rest)) + np.abs(rest.m)
        safe[doubtful] = check_slices(rest, -reach, reach).ok
    butterfly = np.ones(live.shape, dtype=bool)
    butterfly[live] = safe
    calendar = never_below(at_index(raw, np.s_[:, :-1]), at_index(raw, np.s_[:, 1:]))
    return np.asarray(butterfly.all(axis=1) & (calendar | ~live[:, 1:]).all(axis=1))
