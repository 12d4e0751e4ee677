"""Fit raw SVI to all slices in one batch.

For given vertex m and width σ total variance is linear in the other parameters, ``w = a + r P + l Q`` with
``P, Q = (R ± x)/2``, ``x = k − m``, ``R = √(x² + σ²)`` and wing slopes r and l. Lee's bound on these is the
box ``0 ≤ r, l < 2``, so the rest is an exact small quadratic programme (Zeliade 2009 has the idea of the
inner linear problem, with another domain). Steps are taken in all five variables, with damping on m and ln σ
only, and after each the level and the wing slopes are set to their optimum: variable projection. A solution
with a wing slope of 0 or 2 needs no special case. Slices are scaled first.

The functions ``1, x, R, x/R, 1/R`` span the model with its derivatives, and most of their products are again
among them. Twelve sums over the strikes are therefore enough, in blocks of rows that stay in the processor's
cache.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from derivdata.analysis.smile.quotes import SmileQuotes, scaled_quotes
from derivdata.analysis.smile.search import (
    Dense,
    Index,
    Linearised,
    Minimum,
    diagonal,
    gain,
    minimise,
    times,
)
from derivdata.analysis.smile.svi import Raw, at_index, floor_from_raw, floor_to_raw, floor_variance_jet
from derivdata.support.arrays import Bools, Floats

_BLOCK_ROWS = 512


class Scaled(NamedTuple):
    """Quotes of many slices, scaled so that k fills [−1, 1] and w is about 1; missing quotes have weight 0.

    `s0 s1 s2` are sums of the weights times powers of k; `cap` is Lee's bound of a slope in these units.
    """

    k: Floats
    w: Floats
    weight: Floats
    weighted_k: Floats
    s0: Floats
    s1: Floats
    s2: Floats
    cap: Floats

    def rows(self, index: Index | slice) -> Scaled:
        """Return these slices only."""
        return Scaled(*(values[index] for values in self))


class Moments(NamedTuple):
    """Weighted products of ``1, P, Q, x/R, 1/R`` with each other and with the residual, and its square."""

    gram: Floats
    residual: Floats
    loss: Floats


def moments(slices: Scaled, x: Floats) -> Moments:
    """Return the moments at ``x = (a, r, l, m, ln σ)``; the residual is that of these parameters.

    The twelve sums of `_sums` are, with weight v, error e, ``R = √(x² + σ²)`` and ``Q = 1/R``: v e e, v e,
    v e k, v e R, v e Q, v e Q k, v R, v k R, v Q, v k Q, v Q², v k Q². The rest follows, with ``x = k − m``
    and ``R² = x² + σ²``, for instance ``Σ v x²/R² = Σ v − σ² Σ v Q²`` and ``Σ v x² Q = Σ v R − σ² Σ v Q``.
    Such differences lose digits where σ is far larger than the range of k, which the bounds of ln σ exclude.
    A local name is the product it sums, times v: ``xp`` is ``Σ v x p``, with ``p = x Q``.
    """
    m = x[3]
    square = np.exp(2.0 * x[4])
    loss, e1, ek, er, eq, ekq, r1, rk, q1, qk, qq1, qqk = _sums(slices, x)
    s0 = slices.s0
    x1 = slices.s1 - m * slices.s0
    xx = slices.s2 - m * (slices.s1 + x1)
    p1 = qk - m * q1
    pq = qqk - m * qq1
    xp = r1 - square * q1
    # With the wings (R ± x)/2: their squares are (R² + x²)/4 ± R x/2, and their product is (R² − x²)/4.
    rr = xx + square * s0
    half_rx = (rk - m * r1) / 2.0
    mean_square = (rr + xx) / 4.0
    right = (r1 + x1) / 2.0
    left = (r1 - x1) / 2.0
    right_squared = mean_square + half_rx
    left_squared = mean_square - half_rx
    right_left = (rr - xx) / 4.0
    gram = np.array(
        [
            [s0, right, left, p1, q1],
            [right, right_squared, right_left, (x1 + xp) / 2.0, (s0 + p1) / 2.0],
            [left, right_left, left_squared, (x1 - xp) / 2.0, (s0 - p1) / 2.0],
            [p1, (x1 + xp) / 2.0, (x1 - xp) / 2.0, s0 - square * qq1, pq],
            [q1, (s0 + p1) / 2.0, (s0 - p1) / 2.0, pq, qq1],
        ]
    )
    ex = ek - m * e1
    residual = np.array([e1, (er + ex) / 2.0, (er - ex) / 2.0, ekq - m * eq, eq])
    return Moments(gram, residual, loss)


def linear_loss(slices: Scaled, m: Floats, sigma: Floats) -> Floats:
    """Return the minimum loss of every slice at each of several vertices and widths, ``(places, slices)``."""
    losses = np.empty((len(m), len(slices.k)))
    for place, (centre, width) in enumerate(zip(m, sigma, strict=True)):
        x = np.zeros((5, len(slices.k)))
        x[3] = centre
        x[4] = np.log(width)
        gram, residual, loss = moments(slices, x)
        step = best_linear(gram[:3, :3], residual[:3], x[:3], slices.cap)
        losses[place] = loss - gain(gram[:3, :3], residual[:3], step)
    return losses


def best_linear(gram: Floats, residual: Floats, at: Floats, cap: Floats) -> Floats:
    """Return the step from ``at = (a, r, l)`` to the best level and slopes between 0 and `cap`.

    `gram` ``(3, 3, slices)`` and `residual` ``(3, slices)`` are their rows of `Moments`.
    """
    # The level has no bounds, so it is eliminated first: the slopes see centred products.
    mean = gram[0, 1:] / gram[0, 0]
    centred = gram[1:, 1:] - mean[:, None] * gram[0, 1:]
    slopes = _best_slopes(centred, residual[1:] - mean * residual[0], at[1:], cap)
    level: Floats = residual[0] / gram[0, 0] - (mean * slopes).sum(axis=0)
    return np.concatenate([level[None], slopes])


def _best_slopes(gram: Floats, residual: Floats, at: Floats, cap: Floats) -> Floats:
    """Return the step of both slopes: by Cramer's rule inside the box, otherwise to its best edge point."""
    # A determinant near 0 means that the quotes do not distinguish the two wings, as on one side of the
    # vertex.
    det = gram[0, 0] * gram[1, 1] - gram[0, 1] ** 2
    is_regular = det > 1e-15 * gram[0, 0] * gram[1, 1]
    adjugate_times_residual = np.stack([gram[1, 1], gram[0, 0]]) * residual - gram[0, 1] * residual[::-1]
    step: Floats = adjugate_times_residual / np.where(is_regular, det, np.inf)
    end = at + step
    is_outside = ((end < 0.0) | (end > cap)).any(axis=0)
    on_edge = np.flatnonzero(is_outside | ~is_regular)
    if on_edge.size:
        arrays = (array[..., on_edge] for array in (gram, residual, at, cap))
        step[:, on_edge] = _best_edge(*arrays)
    return step


def _best_edge(gram: Floats, residual: Floats, at: Floats, cap: Floats) -> Floats:
    """Return the best step to an edge of the box, for a convex quadratic with its minimum outside."""
    best_step = np.zeros_like(at)
    best_gain = np.full_like(cap, -np.inf)
    for fixed, other in ((0, 1), (1, 0)):
        for edge in (np.zeros_like(cap), cap):
            # Put one slope on the edge, and the other one to its best value between 0 and the cap.
            step = np.empty_like(at)
            step[fixed] = edge - at[fixed]
            gradient = residual[other] - gram[0, 1] * step[fixed]
            end = at[other] + gradient / np.maximum(gram[other, other], 1e-300)
            step[other] = np.clip(end, 0.0, cap) - at[other]
            step_gain = gain(gram, residual, step)
            best_step = np.where(step_gain > best_gain, step, best_step)
            best_gain = np.maximum(best_gain, step_gain)
    return best_step


def _sums(slices: Scaled, x: Floats) -> Floats:
    """Return the twelve sums over strikes that `moments` lists, ``(12, slices)``.

    The error is ``w − a − b̄ R − t x`` with ``b̄ = (r + l)/2`` and ``t = (r − l)/2``; here `bend` is ``−b̄``
    and `tilt` is t. Memory is reused in place, and the products with `vecdot` need no temporary arrays.
    """
    a, right, left, m, log_sigma = (values[:, None] for values in x)
    tilt = (right - left) / 2.0
    bend = (right + left) / -2.0
    square = np.exp(2.0 * log_sigma)
    out = np.empty((12, len(slices.k)))
    ones = np.ones(slices.k.shape[1])
    for start in range(0, len(slices.k), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        k, w, weight, weighted_k = (values[rows] for values in slices[:4])
        # 1. Compute x, R and the error.
        shifted = k - m[rows]
        radius = np.square(shifted)
        radius += square[rows]
        np.sqrt(radius, out=radius)
        error = radius * bend[rows]
        shifted *= tilt[rows]
        error -= shifted
        error += w
        error -= a[rows]

        # 2. Sum the products: v e times e, 1, k and R; v e Q times 1 and k; v and v k times R, Q and Q².
        inverse = 1.0 / radius
        inverse_square = inverse * inverse
        weighted = weight * error
        weighted_inverse = np.multiply(weighted, inverse, out=shifted)
        products = (
            (weighted, error),
            (weighted, ones),
            (weighted, k),
            (weighted, radius),
            (weighted_inverse, ones),
            (weighted_inverse, k),
            (weight, radius),
            (weighted_k, radius),
            (weight, inverse),
            (weighted_k, inverse),
            (weight, inverse_square),
            (weighted_k, inverse_square),
        )
        for (left_factor, right_factor), total in zip(products, out, strict=True):
            np.vecdot(left_factor, right_factor, out=total[rows])
    return out


_MAX_SLOPE = 2.0 * (1.0 - 1e-9)  # just below Lee's bound
_FLOOR = 1e-14  # error of w, relative to its mean, that is rounding
_REACH = np.array([np.inf, np.inf, np.inf, 1.0, 1.5])[:, None]
_SCAN_M = np.linspace(-0.9, 0.9, 8)
_SCAN_SIGMA = np.array([0.03, 0.15, 0.8])
_PROMISING = 1.6  # ratio to the best loss up to which the scan's loss at another width starts a search

BOX = np.array([[-5.0, 5.0], [np.log(2e-3), np.log(10.0)]])
"""Bounds of m and ln σ in scaled units: two ranges beyond the quotes; 0.001 to 5 ranges."""


class SviProblem(NamedTuple):
    """Variables ``(a, r, l, m, ln σ)`` of raw SVI slices; a `derivdata.analysis.smile.search.Problem`."""

    slices: Scaled

    @property
    def reach(self) -> Floats:
        """Maximum steps: one range of the quotes for m, a factor of 4.5 for σ."""
        return _REACH

    @property
    def low(self) -> Floats:
        """Lower bounds; wing slopes are not negative."""
        return np.array([-np.inf, 0.0, 0.0, *BOX[:, 0]])[:, None]

    @property
    def high(self) -> Floats:
        """Upper bounds; wing slopes obey Lee's bound."""
        high = np.full((5, len(self.slices.cap)), np.inf)
        high[1:3] = self.slices.cap
        high[3:] = BOX[:, 1:]
        return high

    def rows(self, index: Index) -> Self:
        """Return these slices only."""
        return self._replace(slices=self.slices.rows(index))

    def evaluate(self, x: Floats) -> Linearised:
        """Evaluate at x, level and wing slopes first set to their best for its m and σ.

        The residual is linear in (a, r, l), so they are projected out exactly (Golub and Pereyra's variable
        projection); the remaining gradient in them is 0 except for slopes at a bound. Derivatives by m and ln
        σ follow from those of ``w = a + b̄ R + t x``, with ``b̄ = (r + l)/2``, ``t = (r − l)/2``, ``x = k −
        m``, ``R = √(x² + σ²)``: ``∂w/∂m = −b̄ x/R − t`` and ``∂w/∂ln σ = b̄ σ²/R``. The moments have products
        of ``x/R`` and ``1/R``, so rows 3 and 4 are scaled here, in place and symmetrically.
        """
        # 1. Set level and slopes to their best, and update loss and residual.
        gram, residual, loss = moments(self.slices, x)
        step = best_linear(gram[:3, :3], residual[:3], x[:3], self.slices.cap)
        loss = np.maximum(loss - gain(gram[:3, :3], residual[:3], step), 0.0)
        residual = residual - times(gram[:, :3], step)
        x = np.concatenate([x[:3] + step, x[3:]])

        # 2. Convert rows of x/R and 1/R to derivatives by m and ln σ.
        tilt = (x[1] - x[2]) / 2.0
        bend = (x[1] + x[2]) / 2.0
        for array in (gram, gram.swapaxes(0, 1), residual):
            array[3] *= -bend
            array[3] -= tilt * array[0]
            array[4] *= bend * np.exp(2.0 * x[4])
        return Linearised(x, loss, _FLOOR**2 * self.slices.s0, Dense(gram), residual, _projected(gram))


def _projected(gram: Floats) -> Floats:
    """Return the diagonal of the outer variables after level and slopes are refitted; 0 for those.

    Damping must act on the effect of m and ln σ on the residual *after* (a, r, l) are adjusted, or it would
    be far too strong: a shift of m is nearly undone by a change of slopes. That is the Schur complement
    ``c_jj − c_jLᵀ C_LL⁻¹ c_Lj`` of the Gram matrix, whose first step (centring on the level a) gives c, and
    whose second inverts the 2 × 2 block of the slopes by Cramer's rule. Rounding may make the difference
    negative, hence the floor; if the slopes' block is singular nothing is subtracted.
    """
    mean = gram[0, 1:] / gram[0, 0]
    c = gram[1:, 1:] - mean[:, None] * gram[0, 1:]
    det = c[0, 0] * c[1, 1] - c[0, 1] ** 2
    with_right = c[0, 2:]
    with_left = c[1, 2:]
    numerator = c[1, 1] * with_right**2 - 2.0 * c[0, 1] * with_right * with_left + c[0, 0] * with_left**2
    by_slopes = numerator / np.where(det > 0.0, det, np.inf)
    before = np.stack([c[2, 2], c[3, 3]])
    after = np.maximum(before - by_slopes, 1e-12 * before) + 1e-300
    return np.concatenate([np.zeros((3, gram.shape[2])), after])


def fit_svi(quotes: SmileQuotes, start: Raw | None) -> tuple[Raw, Minimum]:
    """Return the best raw SVI slices inside Lee's bound with no negative variance.

    If `start` is known, the search begins at its vertex and width. Otherwise, or if that search does not end,
    it begins at the best place of a coarse grid, and again at the best place of each other width with a
    promising loss: noisy slices have several minima, clean ones do not.
    """
    # 1. Scale the quotes, and the start if there is one.
    scaled, scaling = scaled_quotes(quotes)
    weighted_k = scaled.weight * scaled.k
    slices = Scaled(
        scaled.k, scaled.w, scaled.weight, weighted_k, s0=scaled.weight.sum(axis=1),
        s1=weighted_k.sum(axis=1), s2=np.vecdot(weighted_k, scaled.k),
        cap=_MAX_SLOPE * scaling.half / scaling.height,
    )  # fmt: skip
    scaled_start = None
    if start is not None:
        scaled_m = (start.m - scaling.centre) / scaling.half
        scaled_start = np.stack([scaled_m, np.log(start.sigma / scaling.half)])

    # 2. Search, and convert to raw parameters: b = (r + l)/2 and ρ = (r − l)/(r + l).
    best = _search(slices, scaled_start)
    a, right, left, m, log_sigma = best.x
    total = right + left
    rho = np.divide(right - left, total, out=np.zeros_like(total), where=total > 0.0)
    raw = Raw(a.copy(), total / 2.0, rho, m.copy(), np.exp(log_sigma))

    # 3. Refit slices whose minimum variance is negative.
    min_variance = raw.a + raw.b * raw.sigma * np.sqrt(np.maximum(1.0 - raw.rho**2, 0.0))
    negative = np.flatnonzero(min_variance < 0.0)
    if negative.size:
        refitted = _fit_with_floor(slices.rows(negative), at_index(raw, negative))
        for parameter, value in zip(raw, floor_to_raw(refitted.x), strict=True):
            parameter[negative] = value
        best.loss[negative] = refitted.loss
        best.converged[negative] = refitted.converged
        best.nfev[negative] += refitted.nfev

    # 4. Undo the scaling.
    height = scaling.height
    half = scaling.half
    unscaled = Raw(
        height * raw.a,
        height / half * raw.b,
        raw.rho,
        scaling.centre + half * raw.m,
        half * raw.sigma,
    )
    return unscaled, best


def _search(slices: Scaled, start: Floats | None) -> Minimum:
    """Return the best minimum of each slice, from `start` ``(m and ln σ, slices)`` and from a grid."""
    count = len(slices.k)
    best = Minimum(
        x=np.zeros((5, count)),
        loss=np.full(count, np.inf),
        converged=np.zeros(count, dtype=bool),
        nfev=np.zeros(count, np.int64),
    )
    if start is not None:
        has_start = np.asarray(np.isfinite(start).all(axis=0))
        _improve(best, slices, start[None], has_start[None])
    from_grid = np.asarray(~best.converged)
    if from_grid.any():
        starts = np.full((len(_SCAN_SIGMA), 2, count), np.nan)
        losses = np.full((len(_SCAN_SIGMA), count), np.inf)
        starts[..., from_grid], losses[:, from_grid] = _scan(slices.rows(from_grid))
        _improve(best, slices, starts[:1], from_grid[None])
        is_promising = (losses[1:] < _PROMISING * best.loss) & (best.loss > _FLOOR * slices.s0)
        _improve(best, slices, starts[1:], is_promising)
    return best


def _improve(best: Minimum, slices: Scaled, starts: Floats, selected: Bools) -> None:
    """Search from `starts` ``(starts, m and ln σ, slices)``, and write lower minima into `best`.

    `selected` ``(starts, slices)`` marks the starts that are used.
    """
    # Search all starts in one batch, because a batch takes as many rounds as its slowest search.
    start_number, index = np.nonzero(selected)
    if not index.size:
        return
    m_and_log_sigma = np.clip(starts[start_number, :, index].T, BOX[:, :1], BOX[:, 1:])
    # Level and slopes start at 0; the first evaluation sets them to their best values.
    x = np.concatenate([np.zeros((3, index.size)), m_and_log_sigma])
    minimum = minimise(SviProblem(slices.rows(index)), x)
    np.add.at(best.nfev, index, minimum.nfev)
    for number in range(len(starts)):
        is_better = (start_number == number) & (minimum.loss < best.loss[index])
        improved = index[is_better]
        best.x[:, improved] = minimum.x[:, is_better]
        best.loss[improved] = minimum.loss[is_better]
        best.converged[improved] = minimum.converged[is_better]


def _fit_with_floor(slices: Scaled, raw: Raw) -> Minimum:
    """Refit slices from `raw` in the variables of `floor_from_raw`, which exclude a negative variance."""
    low = np.zeros((5, len(slices.k)))
    high = np.zeros((5, len(slices.k)))
    high[0] = np.inf
    high[1:3] = np.sqrt(slices.cap)
    low[3:] = BOX[:, :1]
    high[3:] = BOX[:, 1:]
    weight = slices.weight / slices.s0[:, None]
    problem = _FloorProblem(slices.k, slices.w, weight, low, high, _REACH)
    return minimise(problem, np.clip(floor_from_raw(raw), low, high))


class _FloorProblem(NamedTuple):
    """Single slices in the variables of `floor_from_raw`, with a minimum variance of 0 or more."""

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
        """Return the loss and its linearisation at `x`, from the derivatives of w at each quote."""
        w, jacobian = floor_variance_jet(x[..., None], self.k)
        error = self.w - w
        weighted_jacobian = self.weight * jacobian
        gram = np.vecdot(weighted_jacobian[:, None], jacobian)
        loss = np.vecdot(self.weight * error, error)
        rounding = _FLOOR**2 * np.vecdot(self.weight, np.square(self.w))
        grad = np.vecdot(weighted_jacobian, error)
        return Linearised(x, loss, rounding, Dense(gram), grad, diagonal(gram) + 1e-300)


def _scan(slices: Scaled) -> tuple[Floats, Floats]:
    """Return a start ``(widths, m and ln σ, slices)`` for each width of a coarse grid, and its loss.

    The start has the best vertex of its width. The widths of each slice are in ascending order of loss.
    """
    # 1. Find the best vertex of each width.
    m = np.repeat(_SCAN_M, len(_SCAN_SIGMA))
    sigma = np.tile(_SCAN_SIGMA, len(_SCAN_M))
    losses = linear_loss(slices, m, sigma).reshape(len(_SCAN_M), len(_SCAN_SIGMA), -1)
    best = losses.argmin(axis=0)
    log_sigma = np.broadcast_to(np.log(_SCAN_SIGMA)[:, None], best.shape)
    starts = np.stack([_SCAN_M[best], log_sigma], axis=1)
    min_losses = np.take_along_axis(losses, best[None], axis=0)[0]

    # 2. Sort the widths of each slice by their loss.
    order = np.argsort(min_losses, axis=0)
    starts = np.take_along_axis(starts, order[:, None], axis=0)
    return starts, np.take_along_axis(min_losses, order, axis=0)
