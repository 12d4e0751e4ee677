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

_ROUNDS = 14  # updates of the multipliers
_FIRST_STEPS = 25  # evaluations of the first search
_STEPS = 12  # evaluations of each later search
_TOLERANCE = 1e-6
# Factors of force and margins; surfaces that are not proved free are fitted again with the next factor.
_STRENGTHS = (1.0, 30.0, 300.0)

_BUTTERFLY = np.sinh(np.linspace(-1.0, 1.0, 61) * np.arcsinh(30.0))  # log-moneyness, in deviations
_CALENDAR = np.sinh(np.linspace(-1.0, 1.0, 77) * np.arcsinh(100.0))
_NEAR_G = 10  # number of points per slice, and per pair of slices, that later searches check
_NEAR_GAP = 16
_MARGINS = (1e-3, 1e-4, 1e-5)  # margins of g, of volatility, and of √slope
_FORCE = 1e-2  # ρ of the augmented Lagrangian in the first round
_FORCE_GROWTH = 3.0  # its factor from round to round
_MAX_ROOT_SLOPE = np.sqrt(2.0 * (1.0 - 1e-6))
_SLOPES = (1, 2)  # variables that are roots of the wing slopes


class JointFit(NamedTuple):
    """Raw parameters ``(surfaces, expiries)``, a mask of proved surfaces, and the number of evaluations."""

    raw: Raw
    free: Bools
    nfev: Ints


def fit_joint(quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw) -> JointFit:
    """Fit the slices of every surface together, from `start`, which is free of arbitrage.

    `t` rises along the used places, which are first and marked by `live`.
    """
    # Places without an expiry get a valid slice, which no residual depends on.
    placeholder = Raw(a=1.0, b=0.1, rho=0.0, m=0.0, sigma=1.0)
    filled = Raw(
        *(np.where(live, values, default) for values, default in zip(start, placeholder, strict=True))
    )
    t = np.where(live, t, 1.0)
    result = JointFit(
        raw=Raw(*(values.copy() for values in filled)),
        free=np.zeros(len(t), dtype=bool),
        nfev=np.zeros(len(t), dtype=np.int64),
    )
    for strength in _STRENGTHS:
        left = np.flatnonzero(~result.free)
        if not left.size:
            break
        problem, x = joint_problem(quotes.rows(left), t[left], live[left], at_index(filled, left), strength)
        _search(problem, x, left, result)
    return result


def _search(problem: JointProblem, x: Floats, surfaces: Indices, result: JointFit) -> None:
    """Search the surfaces of `problem` from `x`, and write those that are proved free into `result`.

    `surfaces` are their places in `result`.
    """
    nearest_only = problem
    for turn in range(_ROUNDS):
        # 1. Minimise with the present multipliers.
        x = np.clip(x, problem.low, problem.high)
        steps = _STEPS if turn else _FIRST_STEPS
        minimum = minimise(nearest_only, x, steps=steps, tolerance=_TOLERANCE)
        x = minimum.x
        result.nfev[surfaces] = result.nfev[surfaces] + minimum.nfev

        # 2. Find surfaces that satisfy every condition, first at all points and then on the whole line.
        slices = problem.slices(x)
        values = problem.constraints(slices)
        flat = floor_to_raw(slices.reshape(SIZE, -1))
        raw = Raw(*(parameter.reshape(problem.live.shape) for parameter in flat))
        is_free = problem.holds(values)
        if is_free.any():
            is_free[is_free] = _proved(at_index(raw, is_free), problem.live[is_free])
        for result_parameter, parameter in zip(result.raw, raw, strict=True):
            result_parameter[surfaces[is_free]] = parameter[is_free]
        result.free[surfaces[is_free]] = True

        # 3. Update the multipliers of the others.
        problem = problem.with_multipliers(values).rows(~is_free)
        x = x[:, ~is_free]
        surfaces = surfaces[~is_free]
        if not surfaces.size:
            break
        nearest_only = problem.near(values.rows(~is_free))


class Constraints(NamedTuple):
    """One number per condition: a value, a margin or a shortfall."""

    g: Floats
    """Durrleman's g ``(surfaces, expiries, places)``."""
    gap: Floats
    """Rise to the next expiry, in volatility ``(surfaces, pairs of expiries, places)``."""
    wings: Floats
    """Rise of √slope to the next expiry ``(surfaces, pairs of expiries, 2)``."""

    def rows(self, index: Index) -> Constraints:
        """Return the constraints of the selected surfaces."""
        return Constraints(self.g[index], self.gap[index], self.wings[index])


class JointProblem(NamedTuple):
    """Quotes and conditions of surfaces; variables of slice i are rows ``5 i`` to ``5 i + 4`` of x.

    A condition must be at least its margin.
    """

    quotes: SurfaceQuotes
    live: Bools
    """Mask ``(surfaces, expiries)`` of places with an expiry."""
    places_g: Floats
    """Log-moneyness at which g is evaluated."""
    places_gap: Floats
    """Log-moneyness at which two expiries are compared."""
    gap_unit: Floats
    """Volatility per total variance at these places."""
    force: Floats
    """ρ of each surface."""
    margin: Floats
    """Factor of `_MARGINS` for each surface."""
    at_least: Constraints
    """Margins moved by the multipliers, ``margin + λ/ρ``; −∞ without an expiry."""
    low: Floats
    high: Floats
    reach: Floats

    def rows(self, index: Index) -> Self:
        """Return the selected surfaces."""
        return self._replace(
            quotes=self.quotes.rows(index),
            live=self.live[index],
            places_g=self.places_g[index],
            places_gap=self.places_gap[index],
            gap_unit=self.gap_unit[index],
            force=self.force[index],
            margin=self.margin[index],
            at_least=self.at_least.rows(index),
            low=self.low[:, index],
            high=self.high[:, index],
            reach=self.reach[:, index],
        )

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
        index_g = np.argpartition(values.g - self.at_least.g, _NEAR_G, axis=-1)[..., :_NEAR_G]
        index_gap = np.argpartition(values.gap - self.at_least.gap, _NEAR_GAP, axis=-1)[..., :_NEAR_GAP]
        at_least = Constraints(
            g=np.take_along_axis(self.at_least.g, index_g, -1),
            gap=np.take_along_axis(self.at_least.gap, index_gap, -1),
            wings=self.at_least.wings,
        )
        return self._replace(
            places_g=np.take_along_axis(self.places_g, index_g, -1),
            places_gap=np.take_along_axis(self.places_gap, index_gap, -1),
            gap_unit=np.take_along_axis(self.gap_unit, index_gap, -1),
            at_least=at_least,
        )

    def shortfalls(self, values: Constraints) -> Constraints:
        """Return the distance of each condition below its moved margin, 0 if it is not below."""
        return Constraints(
            g=np.maximum(self.at_least.g - values.g, 0.0),
            gap=np.maximum(self.at_least.gap - values.gap, 0.0),
            wings=np.maximum(self.at_least.wings - values.wings, 0.0),
        )

    def holds(self, values: Constraints) -> Bools:
        """Return whether every condition is satisfied at its points, without margins."""
        pairs = self.live[:, 1:, None]
        slices = ((values.g >= 0.0) | ~self.live[..., None]).all(axis=(1, 2))
        gaps = ((values.gap >= 0.0) | ~pairs).all(axis=(1, 2))
        wings = ((values.wings >= 0.0) | ~pairs).all(axis=(1, 2))
        return np.asarray(slices & gaps & wings)

    def with_multipliers(self, values: Constraints) -> Self:
        """Return the problem of the next round: multipliers updated for `values`, and more force.

        A surface that satisfies all conditions at its points gets a wider margin: it is here because it
        violates one between them.
        """
        margin = self.margin * np.where(self.holds(values), 2.0, 1.0)
        # The new multiplier is the old force times the shortfall. It is needed divided by the new force.
        shortfalls = self.shortfalls(values)
        multiplier_over_force = Constraints(*(shortfall / _FORCE_GROWTH for shortfall in shortfalls))
        at_least = _moved_margins(self.live, margin, multiplier_over_force)
        return self._replace(at_least=at_least, force=self.force * _FORCE_GROWTH, margin=margin)

    def evaluate(self, x: Floats) -> Linearised:
        """Return the loss of quotes and conditions, and its linearisation.

        The products of derivatives are collected in two arrays. ``own`` ``(surfaces, expiries, 6, 6)`` has
        those of each slice with itself, with the residual as the last row and column. ``neighbours``
        ``(surfaces, pairs, 5, 5)`` has those of a slice with the next one.
        """
        # 1. Sum the products of the quotes and of the violated conditions.
        slices = self.slices(x)
        shortfalls = self.shortfalls(self.constraints(slices))
        own, loss = self._quote_products(slices)
        neighbours = np.zeros((len(own), own.shape[1] - 1, SIZE, SIZE))
        self._add_butterflies(own, slices, shortfalls.g)
        self._add_crossings(own, neighbours, slices, shortfalls.gap)
        self._add_wings(own, neighbours, shortfalls.wings)
        for shortfall in shortfalls:
            loss += self.force * np.square(shortfall).sum(axis=(1, 2))

        # 2. Arrange them as the band matrix and the gradient of all expiries.
        grad = -own[..., :SIZE, -1].reshape(len(own), -1).T
        bands = _bands(own[..., :SIZE, :SIZE], neighbours)
        diagonal = bands[:, :, 0].T
        # Entries without an expiry have no effect, so a small damping keeps them fixed.
        scale = np.maximum(diagonal, 1e-12 * diagonal.max(axis=0) + 1e-300)
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

    def _add_butterflies(self, own: Floats, slices: Floats, shortfall: Floats) -> None:
        """Add the products of g at the points where it is below its margin."""
        surface, expiry, place = _violated(shortfall)
        if not surface.size:
            return
        # 1. Make one column per condition: √ρ times the derivatives of g, and the residual.
        root_force = np.sqrt(self.force)[surface]
        _, by_g = floor_density_jet(slices[:, surface, expiry], self.places_g[surface, expiry, place])
        columns = np.empty((SIZE + 1, surface.size))
        np.multiply(by_g, root_force, out=columns[:SIZE])
        np.multiply(shortfall[surface, expiry, place], -root_force, out=columns[-1])

        # 2. Sum their products over each slice.
        slice_number = surface * shortfall.shape[1] + expiry
        first, products = _summed_products(columns[:-1], columns, slice_number)
        own[surface[first], expiry[first], :SIZE] += products

    def _add_crossings(self, own: Floats, neighbours: Floats, slices: Floats, shortfall: Floats) -> None:
        """Add the products of calendar conditions where a slice is not enough above the previous one."""
        surface, pair, place = _violated(shortfall)
        if not surface.size:
            return
        # 1. Evaluate both slices of each pair at the same points.
        k = self.places_gap[surface, pair, place]
        both = np.stack([slices[:, surface, pair], slices[:, surface, pair + 1]], axis=1)
        _, by_w = floor_variance_jet(both, k)

        # 2. Make one column per condition: derivatives by the earlier and the later slice, and the residual.
        root_force = np.sqrt(self.force)[surface]
        unit = root_force * self.gap_unit[surface, pair, place]
        columns = np.empty((2 * SIZE + 1, surface.size))
        np.multiply(by_w[:, 0], -unit, out=columns[:SIZE])
        np.multiply(by_w[:, 1], unit, out=columns[SIZE:-1])
        np.multiply(shortfall[surface, pair, place], -root_force, out=columns[-1])

        # 3. Sum their products over each pair.
        first, products = _summed_products(columns[:-1], columns, surface * shortfall.shape[1] + pair)
        surface = surface[first]
        pair = pair[first]
        own[surface, pair, :SIZE, :SIZE] += products[:, :SIZE, :SIZE]
        own[surface, pair, :SIZE, -1] += products[:, :SIZE, -1]
        own[surface, pair + 1, :SIZE] += products[:, SIZE:, SIZE:]
        neighbours[surface, pair] += products[:, :SIZE, SIZE:-1]

    def _add_wings(self, own: Floats, neighbours: Floats, shortfall: Floats) -> None:
        """Add the products of wing conditions, whose derivatives are −1 (earlier slice) and 1 (later)."""
        force = self.force[:, None]
        for side, variable in enumerate(_SLOPES):
            derivative_squared = force * (shortfall[:, :, side] > 0.0)
            residual = force * shortfall[:, :, side]
            own[:, :-1, variable, variable] += derivative_squared
            own[:, 1:, variable, variable] += derivative_squared
            neighbours[:, :, variable, variable] -= derivative_squared
            own[:, :-1, variable, -1] += residual
            own[:, 1:, variable, -1] -= residual


def _violated(shortfall: Floats) -> tuple[Indices, ...]:
    """Return the indices of violated conditions; numpy finds them fastest in a flat mask."""
    return np.unravel_index(np.flatnonzero(shortfall > 0.0), shortfall.shape)


def _summed_products(left: Floats, right: Floats, group: Indices) -> tuple[Indices, Floats]:
    """Return the first column of each group, and the sum of ``left × rightᵀ`` over its columns.

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
    # Diagonal d of variable j is column j + d, for the offsets of one slice and the next.
    column = np.arange(SIZE)[:, None] + np.arange(2 * SIZE)
    bands = wide[:, :, np.arange(SIZE)[:, None], column].reshape(surfaces, expiries * SIZE, 2 * SIZE)
    return bands if expiries > 1 else np.ascontiguousarray(bands[..., :SIZE])


def _moved_margins(live: Bools, margin: Floats, multiplier_over_force: Constraints) -> Constraints:
    """Return ``margin × _MARGINS + λ/ρ`` of each condition; −∞ without an expiry."""
    pairs = live[:, 1:, None]
    masks = (live[..., None], pairs, pairs)
    moved = [
        np.where(mask, minimum * margin[:, None, None] + shift, -np.inf)
        for minimum, shift, mask in zip(_MARGINS, multiplier_over_force, masks, strict=True)
    ]
    return Constraints(*moved)


def joint_problem(
    quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw, strength: float
) -> tuple[JointProblem, Floats]:
    """Return the problem, in units of each slice's deviation, and the start of its search.

    `strength` multiplies the force and the margins of its conditions.
    """
    # 1. Scale weights to a mean of 1, so that the force of a condition does not depend on their unit.
    weight = 4.0 * quotes.w * t[..., None] * np.square(quotes.scale)
    quote_count = np.maximum((quotes.scale > 0.0).sum(axis=(1, 2)), 1)
    mean_weight = weight.sum(axis=(1, 2)) / quote_count
    root_weight = np.sqrt(np.where(mean_weight > 0.0, mean_weight, 1.0))
    scale = quotes.scale / root_weight[:, None, None]

    # 2. Place the conditions in units of the deviation at the money.
    count, expiries = live.shape
    variance = np.where(live, total_variance(0.0, start), 1.0)
    deviation = np.sqrt(variance)
    places_gap = deviation[:, 1:, None] * _CALENDAR
    later_variance = total_variance(places_gap, at_index(start, np.s_[:, 1:, None]))
    no_multipliers = Constraints(
        g=np.zeros((count, expiries, _BUTTERFLY.size)),
        gap=np.zeros((count, expiries - 1, _CALENDAR.size)),
        wings=np.zeros((count, expiries - 1, 2)),
    )

    # 3. Set bounds and longest steps of the variables: minimum variance, √slopes, m and ln σ.
    one = np.ones_like(deviation)
    zero = 0.0 * one
    infinity = np.inf * one
    max_root_slope = _MAX_ROOT_SLOPE * one
    low = np.stack([1e-6 * variance, zero, zero, -20.0 * deviation, np.log(0.02 * deviation)])
    high = np.stack([infinity, max_root_slope, max_root_slope, 20.0 * deviation, np.log(100.0 * deviation)])
    reach = np.stack([infinity, 0.3 * one, 0.3 * one, deviation, 0.7 * one])
    variables = floor_from_raw(Raw(*(values.reshape(-1) for values in start))).reshape(SIZE, count, expiries)

    def stacked(values: Floats) -> Floats:
        """Convert ``(5, surfaces, expiries)`` to the shape of x, ``(5 × expiries, surfaces)``."""
        return values.transpose(2, 0, 1).reshape(SIZE * expiries, count)

    margin = np.full(count, strength)
    problem = JointProblem(
        quotes=quotes._replace(scale=scale),
        live=live,
        places_g=deviation[..., None] * _BUTTERFLY,
        places_gap=places_gap,
        gap_unit=0.5 / np.sqrt(later_variance * t[:, 1:, None]),
        force=np.full(count, strength * _FORCE),
        margin=margin,
        at_least=_moved_margins(live, margin, no_multipliers),
        low=stacked(low),
        high=stacked(high),
        reach=stacked(reach),
    )
    return problem, stacked(variables)


def never_below(earlier: Raw, later: Raw) -> Bools:
    """Return whether each later slice is nowhere below its earlier one, on the whole line.

    With ``w = A + √B``, A linear and B quadratic in k, two slices meet where ``A₂ − A₁ = √B₁ − √B₂``. Squared
    twice that is a quartic: ``(B₁ − B₂ − (A₂ − A₁)²)² = 4 (A₂ − A₁)² B₂``. The sign of the difference cannot
    change between roots. One evaluation between neighbouring roots and one beyond each end is therefore
    sufficient.
    """
    # 1. Find the roots of the quartic.
    a1, b1 = _linear_and_square(earlier)
    a2, b2 = _linear_and_square(later)
    gap = a2 - a1
    gap_squared = product(gap, gap)
    left_root = b1 - b2 - gap_squared
    roots = _roots(product(left_root, left_root) - 4.0 * product(gap_squared, b2))

    # 2. Compare the slices between neighbouring roots and beyond each end. Real parts of complex roots are
    # used: a double root appears as a complex pair, and checking additional places is harmless.
    real_roots = np.sort(roots.real, axis=-1)
    first = real_roots[..., :1]
    last = real_roots[..., -1:]
    width = 1.0 + last - first
    between = (real_roots[..., 1:] + real_roots[..., :-1]) / 2.0
    k = np.concatenate([between, first - width, last + width], axis=-1)
    w_later = total_variance(k, at_index(later, np.s_[..., None]))
    w_earlier = total_variance(k, at_index(earlier, np.s_[..., None]))
    tolerance = 1e-13 * np.abs(w_later)
    return np.asarray((w_later - w_earlier >= -tolerance).all(axis=-1))


def _linear_and_square(raw: Raw) -> tuple[Floats, Floats]:
    """Return the coefficients of A and B in ``w = A + √B``, in ascending powers of k."""
    a, b, rho, m, sigma = raw
    linear = np.stack([a - b * rho * m, b * rho])
    square = np.stack([b * b * (m * m + sigma * sigma), -2.0 * b * b * m, b * b])
    return linear, square


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
    # 1. Check the slices, by the quick proof first.
    slices = at_index(raw, live)
    has_no_butterfly = certified(slices)
    unproved = np.flatnonzero(~has_no_butterfly)
    if unproved.size:
        rest = at_index(slices, unproved)
        reach = 10.0 * np.sqrt(total_variance(0.0, rest)) + np.abs(rest.m)
        has_no_butterfly[unproved] = check_slices(rest, -reach, reach).ok
    passes = np.ones(live.shape, dtype=bool)
    passes[live] = has_no_butterfly

    # 2. Check neighbouring expiries.
    is_above = never_below(at_index(raw, np.s_[:, :-1]), at_index(raw, np.s_[:, 1:]))
    return np.asarray(passes.all(axis=1) & (is_above | ~live[:, 1:]).all(axis=1))
