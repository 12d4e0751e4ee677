"""Raw SVI fitted to all slices at once.

Lee's bound on the wings is the box ``0 ≤ r, l < 2``, so at a given vertex m and width σ the rest is an exact
little quadratic programme (Zeliade 2009 has the idea of the inner linear problem, with another domain).
Steps are taken in all five variables, with damping on m and ln σ only, and after each the level and the
wing slopes are set to their best: variable projection. A solution with a wing slope of 0 or 2 is nothing
special. Slices are scaled first.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from derivdata.analysis.smile.quotes import SmileQuotes, scaled_quotes
from derivdata.analysis.smile.search import (
    Index,
    Linearised,
    Minimum,
    diagonal,
    gain,
    minimise,
    times,
)
from derivdata.analysis.smile.svi import Raw, floor_from_raw, floor_to_raw, jet
from derivdata.analysis.smile.svi_moments import Scaled, best_linear, linear_loss, moments
from derivdata.support.arrays import Bools, Floats

_LEE = 2.0 * (1.0 - 1e-9)
_FLOOR = 1e-14
_REACH = np.array([np.inf, np.inf, np.inf, 1.0, 1.5])[:, None]
_SCAN_M = np.linspace(-0.9, 0.9, 8)
_SCAN_SIGMA = np.array([0.03, 0.15, 0.8])
_PROMISING = 1.6

BOX = np.array([[-5.0, 5.0], [np.log(2e-3), np.log(10.0)]])
"""Bounds of m and ln σ in scaled units: two ranges beyond the quotes; 0.001 to 5 ranges."""


class SviProblem(NamedTuple):
    """Variables ``(a, r, l, m, ln σ)`` of raw SVI slices; a `derivdata.analysis.smile.search.Problem`."""

    slices: Scaled

    @property
    def reach(self) -> Floats:
        """Longest steps: a range of the quotes for m, a factor of 4.5 for σ."""
        return _REACH

    @property
    def low(self) -> Floats:
        """Least values; wing slopes are not negative."""
        return np.array([-np.inf, 0.0, 0.0, *BOX[:, 0]])[:, None]

    @property
    def high(self) -> Floats:
        """Greatest values; wing slopes obey Lee's bound."""
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
        projection); what is left of the gradient in them is 0 but for slopes held at a bound. Derivatives
        by m and ln σ follow from those of ``w = a + b̄ R + t x``, with ``b̄ = (r + l)/2``, ``t = (r − l)/2``,
        ``x = k − m``, ``R = √(x² + σ²)``: ``∂w/∂m = −b̄ x/R − t`` and ``∂w/∂ln σ = b̄ σ²/R``. The moments hold
        products of ``x/R`` and ``1/R``, so rows 3 and 4 are scaled here, in place and symmetrically.
        """
        gram, residual, loss = moments(self.slices, x)
        step = best_linear(gram[:3, :3], residual[:3], x[:3], self.slices.cap)
        loss = np.maximum(loss - gain(gram[:3, :3], residual[:3], step), 0.0)
        residual = residual - times(gram[:, :3], step)
        x = np.concatenate([x[:3] + step, x[3:]])
        tilt, bend = (x[1] - x[2]) / 2.0, (x[1] + x[2]) / 2.0
        for part in (gram, gram.swapaxes(0, 1), residual):
            part[3] *= -bend
            part[3] -= tilt * part[0]
            part[4] *= bend * np.exp(2.0 * x[4])
        return Linearised(x, loss, _FLOOR**2 * self.slices.s0, gram, residual, _projected(gram))


def _projected(gram: Floats) -> Floats:
    """Return the diagonal of the outer variables once level and slopes are refitted; 0 for those.

    Damping must act on what m and ln σ do to the residual *after* (a, r, l) have answered, or it would be far
    too strong: a shift of m is nearly undone by a change of slopes. That is the Schur complement
    ``c_jj − c_jLᵀ C_LL⁻¹ c_Lj`` of the Gram matrix, whose first step (centring on the level a) gives c, and
    whose second inverts the 2 × 2 block of the slopes by Cramer's rule. Rounding may make the difference
    negative, hence the floor; where the slopes' block is singular nothing is subtracted.
    """
    mean = gram[0, 1:] / gram[0, 0]
    c = gram[1:, 1:] - mean[:, None] * gram[0, 1:]
    det = c[0, 0] * c[1, 1] - c[0, 1] ** 2
    used = (
        c[1, 1] * c[0, 2:] ** 2 - 2.0 * c[0, 1] * c[0, 2:] * c[1, 2:] + c[0, 0] * c[1, 2:] ** 2
    ) / np.where(det > 0.0, det, np.inf)
    own = np.stack([c[2, 2], c[3, 3]])
    linear = np.zeros((3, gram.shape[2]))
    return np.concatenate([linear, np.maximum(own - used, 1e-12 * own) + 1e-300])


def fit_svi(quotes: SmileQuotes, start: Raw | None) -> tuple[Raw, Minimum]:
    """Return the best raw SVI slices inside Lee's bound with no negative variance.

    Where `start` is known its vertex and width are where the search begins. Elsewhere, and where that search
    does not end, it begins at the best place of a coarse grid, and again at the best place of each other
    width that promises something near what was found: noisy slices have several minima, clean ones do not.
    """
    scaled, scaling = scaled_quotes(quotes)
    weighted_k = scaled.weight * scaled.k
    sums = scaled.weight.sum(axis=1), weighted_k.sum(axis=1), np.vecdot(weighted_k, scaled.k)
    cap = _LEE * scaling.half / scaling.height
    slices = Scaled(scaled.k, scaled.w, scaled.weight, weighted_k, *sums, cap)
    warm = None
    if start is not None:
        warm = np.stack([(start.m - scaling.centre) / scaling.half, np.log(start.sigma / scaling.half)])
    best = _search(slices, warm)
    raw = Raw(*_raw_in_scale(best.x))
    sunk = np.flatnonzero(raw.a + raw.b * raw.sigma * np.sqrt(np.maximum(1.0 - raw.rho**2, 0.0)) < 0.0)
    if sunk.size:
        lifted = _lift(slices.rows(sunk), Raw(*(part[sunk] for part in raw)))
        for part, value in zip(raw, floor_to_raw(lifted.x), strict=True):
            part[sunk] = value
        best.loss[sunk], best.converged[sunk] = lifted.loss, lifted.converged
        best.nfev[sunk] += lifted.nfev
    a, b, rho, m, sigma = raw
    height, half = scaling.height, scaling.half
    return Raw(height * a, height / half * b, rho, scaling.centre + half * m, half * sigma), best


def _search(slices: Scaled, warm: Floats | None) -> Minimum:
    count = len(slices.k)
    best = Minimum(
        np.zeros((5, count)), np.full(count, np.inf), np.zeros(count, dtype=bool), np.zeros(count, np.int64)
    )
    if warm is not None:
        _improve(best, slices, warm[None], np.asarray(np.isfinite(warm).all(axis=0))[None])
    cold = np.asarray(~best.converged)
    if cold.any():
        places, losses = (
            np.full((len(_SCAN_SIGMA), 2, count), np.nan),
            np.full((len(_SCAN_SIGMA), count), np.inf),
        )
        places[..., cold], losses[:, cold] = _scan(slices.rows(cold))
        _improve(best, slices, places[:1], cold[None])
        promising = (losses[1:] < _PROMISING * best.loss) & (best.loss > _FLOOR * slices.s0)
        _improve(best, slices, places[1:], promising)
    return best


def _improve(best: Minimum, slices: Scaled, places: Floats, chosen: Bools) -> None:
    """Search from one or several `places` ``(places, 2, slices)`` where `chosen`; take what is better."""
    # All places are one batch: a batch costs as many rounds as its slowest search, whatever its size.
    place, index = np.nonzero(chosen)
    if not index.size:
        return
    at = np.clip(places[place, :, index].T, BOX[:, :1], BOX[:, 1:])
    minimum = minimise(SviProblem(slices.rows(index)), np.concatenate([np.zeros((3, index.size)), at]))
    np.add.at(best.nfev, index, minimum.nfev)
    for one in range(len(places)):
        better = (place == one) & (minimum.loss < best.loss[index])
        into = index[better]
        best.x[:, into], best.loss[into] = minimum.x[:, better], minimum.loss[better]
        best.converged[into] = minimum.converged[better]


def _raw_in_scale(x: Floats) -> tuple[Floats, ...]:
    """Return raw ``(a, b, ρ, m, σ)`` of scaled variables: ``b = (r + l)/2`` and ``ρ = (r − l)/(r + l)``."""
    total = x[1] + x[2]
    rho = np.divide(x[1] - x[2], total, out=np.zeros_like(total), where=total > 0.0)
    return x[0].copy(), total / 2.0, rho, x[3].copy(), np.exp(x[4])


def _lift(slices: Scaled, raw: Raw) -> Minimum:
    """Return the best slices without negative variance, from those that dip below 0.

    The parameters of `derivdata.analysis.smile.search` make the least variance a variable with the bound 0.
    Slopes enter as square roots there, hence the bound ``√cap``.
    """
    bounds = np.zeros((2, 5, len(slices.k)))
    bounds[1, 0], bounds[1, 1:3] = np.inf, np.sqrt(slices.cap)
    bounds[:, 3:] = BOX.T[..., None]
    weight = slices.weight / slices.s0[:, None]
    problem = _FloorProblem(slices.k, slices.w, weight, bounds[0], bounds[1], _REACH)
    return minimise(problem, np.clip(floor_from_raw(raw), bounds[0], bounds[1]))


class _FloorProblem(NamedTuple):
    """Single slices in the variables of `floor_from_raw`, of least variance 0 or more."""

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
        (value, _, _), (slope, _, _) = jet(x[..., None], self.k)
        error = self.w - value
        weighted = self.weight * slope
        gram = np.vecdot(weighted[:, None], slope)
        loss = np.vecdot(self.weight * error, error)
        nothing = 1e-28 * np.vecdot(self.weight, np.square(self.w))
        return Linearised(x, loss, nothing, gram, np.vecdot(weighted, error), diagonal(gram) + 1e-300)


def _scan(slices: Scaled) -> tuple[Floats, Floats]:
    """Return the best vertex of each width of a coarse grid, ``(widths, 2, slices)``, with losses."""
    m, sigma = np.repeat(_SCAN_M, len(_SCAN_SIGMA)), np.tile(_SCAN_SIGMA, len(_SCAN_M))
    losses = linear_loss(slices, m, sigma).reshape(len(_SCAN_M), len(_SCAN_SIGMA), -1)
    best = losses.argmin(axis=0)
    width = np.broadcast_to(np.log(_SCAN_SIGMA)[:, None], best.shape)
    lowest = np.take_along_axis(losses, best[None], axis=0)[0]
    order = np.argsort(lowest, axis=0)
    places = np.stack([_SCAN_M[best], width], axis=1)
    return np.take_along_axis(places, order[:, None], axis=0), np.take_along_axis(lowest, order, axis=0)
