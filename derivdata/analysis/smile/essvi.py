"""eSSVI surfaces: SSVI slices with parameters by expiry, in coordinates that exclude arbitrage.

A slice is ``w(k) = θ/2 [1 + ρφk + √((φk + ρ)² + 1 − ρ²)]`` with ``ψ = θφ``. With its half wing slopes
``R = ψ(1 + ρ)/2`` (right) and ``L = ψ(1 − ρ)/2`` (left) and ``τ = θ/ψ = 1/φ`` the sufficient conditions are
all of one kind:

* no butterfly (Gatheral and Jacquier 2014, theorem 4.2): ``ψ(1 + |ρ|) < 4`` is ``R, L < 2``, and
  ``ψφ(1 + |ρ|) <= 4`` is ``τ >= max(R, L)/2``;
* no calendar arbitrage to the next expiry, also not in between when (θ, ψ, ρψ) are interpolated linearly
  (conditions N and S1 of Hendriks and Martini, as corrected by Pasquazzi, arXiv:2304.02106): R, L and τ do
  not fall.

So with c just below 2 these are free positive numbers, and every surface that satisfies the conditions has
them: the increments of ``−log(1 − R/c)`` and of ``−log(1 − L/c)``, and the excess of θ over ψ times the
minimum τ. (τ itself would also work, but it diverges as a smile flattens; θ does not.) This is the set
covered by Mingone's map (arXiv:2204.00312); here its boundaries are bounds of single parameters. Quotes of
one slice enter the search only through the products of four rows (the derivatives by θ, R, L and the
residual).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import xarray as xr

from derivdata.analysis.labelling import named
from derivdata.analysis.smile.evaluate import Method, assemble
from derivdata.analysis.smile.quotes import SmileQuotes, SurfaceQuotes
from derivdata.analysis.smile.search import Dense, Index, Linearised, Minimum, diagonal, minimise
from derivdata.analysis.smile.svi import Raw
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

_TINY = 1e-300
_MIN_INCREMENT = 1e-12  # minimum increment, so that every inequality is strict
_MIN_WING = 1e-10  # minimum wing of the first expiry, because a wing of zero would bound the ratio of θ
_MAX_SLOPE = 2.0 * (1.0 - 1e-9)
# Minimum increment of a start relative to the coordinate, because a start on a bound cannot move.
_MIN_START = 1e-2
_STEPS = 200
_TOLERANCE = 1e-10
_EXACT = 5e-9  # relative error of total variance that is negligible


class SsviSlices(NamedTuple):
    """Natural parameters of SSVI slices, arrays of one shape."""

    theta: Floats
    rho: Floats
    psi: Floats


def natural(parts: Floats) -> SsviSlices:
    """Return the natural parameters of ``(theta, right, left)``; a flat slice has correlation 0."""
    theta, right, left = np.moveaxis(parts, -1, 0)
    psi = right + left
    rho = np.divide(right - left, psi, out=np.zeros_like(psi), where=psi != 0.0)
    return SsviSlices(theta, rho, psi)


def linear_start(quotes: SurfaceQuotes) -> Floats:
    """Return the slice parameters by one linear least squares each, exact for exact data: ``(..., 3)``.

    An SSVI slice satisfies ``w = θ + ρψ k + ψ²(1 − ρ²)/4 k²/w``, which is linear in its parameters.
    """
    k = quotes.k
    w = quotes.w
    scale = quotes.scale
    columns = np.stack([np.ones_like(k), k, k * k / w, w], axis=-2) * scale[..., None, :]
    normal = columns @ columns.swapaxes(-1, -2)
    square = normal[..., :3, :3]
    size = np.einsum("...ii->...", square)[..., None, None]
    ridge = (1e-12 * size + _TINY) * np.eye(3)  # positive even if all weights are 0
    theta, tilt, bend = np.moveaxis(np.linalg.solve(square + ridge, normal[..., :3, 3:])[..., 0], -1, 0)
    lowest = np.where(scale > 0.0, w, np.inf).min(axis=-1)
    theta = np.clip(theta, 0.2 * lowest, np.where(scale > 0.0, w, 0.0).max(axis=-1))
    # A concave smile starts with a small curvature, from which the search can go both ways. A flat smile
    # starts flat, because its ψ is 0, which is far from other starts.
    shape = np.maximum(np.abs(4.0 * bend), tilt * tilt)
    minimum = np.clip(shape, 1e-16 * theta, 1e-3 * theta)
    psi = np.sqrt(np.maximum(4.0 * bend, minimum) + tilt * tilt)
    return np.stack([theta, (psi + tilt) / 2.0, (psi - tilt) / 2.0], axis=-1)


@typed
def from_essvi(
    theta: Numbers,
    rho: Numbers,
    psi: Numbers,
    year_fraction: Numbers,
    *,
    k_min: Numbers = -np.inf,
    k_max: Numbers = np.inf,
    forward: Numbers | None = None,
) -> xr.Dataset:
    """Return a surface with known eSSVI parameters, such as published ones.

    Parameters
    ----------
    theta, rho, psi
        Total variance at the money, correlation, and ``ψ = θφ`` of each expiry, with dim ``expiry``; bare 1-D
        arrays are labelled with it. They are not checked for arbitrage: see
        `derivdata.analysis.surface.calendar_check` and `derivdata.analysis.smile.butterfly_check`.
    year_fraction
        Time to expiry [years].
    k_min, k_max
        Log-moneyness range of the quotes, beyond which values are extrapolated; unlimited by default.
    forward
        Forward of each expiry, returned as a coordinate.

    Returns
    -------
    Dataset, as `derivdata.analysis.surface.fit` returns it
    """
    given = {"theta": theta, "rho": rho, "psi": psi, "year_fraction": year_fraction}
    given |= {"k_min": k_min, "k_max": k_max} | ({} if forward is None else {"forward": forward})
    over_expiry = {name: named(value, ("expiry",), name) for name, value in given.items()}
    sizes = {name: array.sizes["expiry"] for name, array in over_expiry.items() if "expiry" in array.dims}
    for (before, length), (name, own) in pairwise(sizes.items()):
        if own != length:
            raise ValueError(f"{name} must have {length} expiries as {before}, got {own}")
    *slices, t, low, high = xr.broadcast(*list(over_expiry.values())[:6])
    variables = dict(zip(SsviSlices._fields, slices, strict=True)) | ssvi_to_raw(*slices)._asdict()
    variables |= {"k_min": low, "k_max": high, "method": xr.full_like(t, Method.SSVI)}
    years = over_expiry["year_fraction"]
    forwards = over_expiry.get("forward")
    return assemble(variables, years, forward=forwards, surface="essvi")


def ssvi_to_raw(theta: Any, rho: Any, psi: Any) -> Raw:
    """Return raw SVI parameters of SSVI slices, arrays or DataArrays; a slice with ``ψ = 0`` is flat."""
    bent = psi != 0.0
    # Flat slices get b = 0 and a vertex of width 1; for other slices 1/φ = θ/ψ.
    width = theta / (psi + ~bent) * bent
    root = (1.0 - rho**2) ** 0.5
    a = theta * (1.0 - rho**2) / 2.0 * bent + theta * ~bent
    return Raw(a, psi / 2.0, rho, -rho * width, root * width + ~bent)


def fit_essvi(quotes: SurfaceQuotes, guess: Floats) -> tuple[Floats, Minimum]:
    """Fit ``(θ, R, L)`` of all expiries of every surface, from a start that may violate conditions."""
    low = np.full((3, guess.shape[1]), _MIN_INCREMENT)
    low[:2, 0] = _MIN_WING
    start = _increments(guess).T
    low = np.broadcast_to(low.reshape(-1, 1), start.shape)
    problem = _Problem(quotes, low, np.full(start.shape, np.inf))
    minimum = minimise(problem, start, steps=_STEPS, tolerance=_TOLERANCE)
    return _model(minimum.x.T)[0], minimum


def fit_ssvi(quotes: SmileQuotes) -> tuple[Raw, Minimum]:
    """Return the best SSVI slice of each smile separately, free of butterflies."""
    scale = np.sqrt(quotes.weight / (4.0 * quotes.t[:, None]))
    alone = SurfaceQuotes(*(values[:, None] for values in (quotes.k, quotes.w, scale)))
    slices, minimum = fit_essvi(alone, linear_start(alone))
    return ssvi_to_raw(*natural(slices[:, 0])), minimum


class _Problem(NamedTuple):
    """Surfaces with increments as variables; see `derivdata.analysis.smile.search.Problem`."""

    quotes: SurfaceQuotes
    low: Floats
    high: Floats

    @property
    def reach(self) -> Floats:
        return np.full((len(self.low), 1), np.inf)

    def rows(self, index: Index) -> Self:
        return self._replace(quotes=self.quotes.rows(index), low=self.low[:, index], high=self.high[:, index])

    def evaluate(self, x: Floats) -> Linearised:
        """Evaluate at x, by the chain rule through the three parameters of each slice.

        With the rows ``A = (∂w/∂θ, ∂w/∂R, ∂w/∂L, residual)`` of a slice, ``A Aᵀ`` (4 × 4) has all information
        of its quotes; ``Jᵀ (A Aᵀ)_33 J`` with the model's Jacobian J is the Gauss-Newton matrix.
        """
        # 1. Sum the products of each slice's rows over its quotes: ``A Aᵀ`` (surface, expiry, 4, 4).
        slices, jacobian = _model(x.T)
        rows = _residual_rows(slices, self.quotes)
        products = rows @ rows.swapaxes(-1, -2)

        # 2. Apply the chain rule, with the parameters of all expiries on one axis.
        variables, count = x.shape
        flat = jacobian.reshape(count, -1, variables)
        product_times_jacobian = (products[..., :3, :3] @ jacobian).reshape(flat.shape)
        gram = np.moveaxis(flat.swapaxes(-1, -2) @ product_times_jacobian, 0, -1)
        with_residual = products[..., :3, 3].reshape(count, 1, -1)
        grad = -(with_residual @ flat)[:, 0].T
        loss = products[..., 3, 3].sum(axis=1)

        # 3. A variable without effect (a wing of slope 0) is damped by a small fraction of the strongest one.
        gram_diagonal = diagonal(gram)
        scale = np.maximum(gram_diagonal, 1e-12 * gram_diagonal.max(axis=0) + 1e-300)
        scaled_w = self.quotes.scale * self.quotes.w
        rounding = _EXACT**2 * np.einsum("set,set->s", scaled_w, scaled_w)
        return Linearised(x, loss, rounding, Dense(gram), grad, scale)


def _coordinates(slices: Floats) -> Floats:
    """Return ``−log(1 − R/c)``, ``−log(1 − L/c)``, both at most 5, and τ along the last axis."""
    theta, right, left = np.moveaxis(slices, -1, 0)
    share = np.minimum(np.stack([right, left], axis=-1) / _MAX_SLOPE, -np.expm1(-5.0))
    return np.concatenate([-np.log1p(-share), (theta / (right + left))[..., None]], axis=-1)


def _increments(guess: Floats) -> Floats:
    """Return the parameters of a surface that satisfies the conditions, near slices that may violate them."""
    # The mean of the running maximum and of the reversed running minimum is non-decreasing, and equals the
    # start if that is non-decreasing. Its increments are the variables; see `_theta` for the third.
    rough = _coordinates(guess)
    rising = np.maximum.accumulate(rough, axis=1)
    smooth = (rising + np.minimum.accumulate(rough[:, ::-1], axis=1)[:, ::-1]) / 2.0
    wing_sum = np.zeros((len(guess), 2))
    tau = np.zeros(len(guess))
    increments = np.empty_like(guess)
    for i in range(guess.shape[1]):
        wings = smooth[:, i, :2]
        increments[:, i, :2] = np.maximum(wings - wing_sum, _MIN_START * wings)
        wing_sum += increments[:, i, :2]
        slopes = -_MAX_SLOPE * np.expm1(-wing_sum)
        min_tau = np.maximum(tau, slopes.max(axis=1) / 2.0)
        excess = np.maximum(smooth[:, i, 2] - min_tau, _MIN_START * smooth[:, i, 2])
        increments[:, i, 2] = slopes.sum(axis=1) * excess
        tau = min_tau + excess
    return increments.swapaxes(1, 2).reshape(len(increments), -1)


def _model(x: Floats) -> tuple[Floats, Floats]:
    """Return slices ``(surfaces, expiries, 3)`` of increments, and their Jacobian, increments last."""
    count = len(x)
    expiries = x.shape[1] // 3
    steps = x.reshape(count, 3, expiries)
    wings = -_MAX_SLOPE * np.expm1(-np.cumsum(steps[:, :2], axis=-1))
    # A wing is c (1 − e^(−y)) with y the sum of its increments so far: ∂wing/∂increment = c e^(−y) = c − wing
    # for this expiry's increment and all earlier ones (the lower triangle).
    d_wings = np.zeros((count, 2, expiries, 3, expiries))
    for side in (0, 1):
        d_wings[:, side, :, side] = (_MAX_SLOPE - wings[:, side, :, None]) * np.tri(expiries)
    d_wings = d_wings.reshape(count, 2, expiries, -1)
    theta, d_theta = _theta(steps[:, 2], wings, d_wings)
    slices = np.stack([theta, wings[:, 0], wings[:, 1]], axis=-1)
    return slices, np.stack([d_theta, d_wings[:, 0], d_wings[:, 1]], axis=2)


def _theta(steps: Floats, wings: Floats, d_wings: Floats) -> tuple[Floats, Floats]:
    """Return θ of each expiry, ψ times the minimum τ plus a step, and its Jacobian."""
    expiries = steps.shape[1]
    psi = wings.sum(axis=1)
    d_psi = d_wings.sum(axis=1)
    steeper = wings[:, 0] >= wings[:, 1]
    bound = np.where(steeper, wings[:, 0], wings[:, 1]) / 2.0
    d_bound = np.where(steeper[..., None], d_wings[:, 0], d_wings[:, 1]) / 2.0
    theta = np.empty_like(steps)
    d_theta = np.empty_like(d_bound)
    tau = np.zeros(len(steps))
    d_tau = np.zeros_like(d_bound[:, 0])
    for i in range(expiries):
        binds = bound[:, i] > tau
        minimum = np.where(binds, bound[:, i], tau)
        d_min = np.where(binds[:, None], d_bound[:, i], d_tau)
        theta[:, i] = psi[:, i] * minimum + steps[:, i]
        d_theta[:, i] = psi[:, i, None] * d_min + minimum[:, None] * d_psi[:, i]
        d_theta[:, i, 2 * expiries + i] += 1.0
        tau = theta[:, i] / psi[:, i]
        d_tau = (d_theta[:, i] - tau[:, None] * d_psi[:, i]) / psi[:, i, None]
    return theta, d_theta


def _residual_rows(slices: Floats, quotes: SurfaceQuotes) -> Floats:
    """Return derivatives by (θ, R, L) and, last, the residual: ``(surfaces, expiries, 4, strikes)``.

    ``w = (θ + (R − L) k + D)/2`` with ``D² = θ² + 2 (R − L) k θ + (R + L)² k²``.
    """
    theta, right, left = (slices[..., i, None] for i in range(3))
    tilt = (right - left) * quotes.k
    width = (right + left) * quotes.k
    root = np.sqrt(width * width + theta * (2.0 * tilt + theta))
    half = np.divide(0.5, root, out=np.zeros_like(root), where=root > 0.0)
    even = half * width * quotes.k
    odd = half * theta * quotes.k + 0.5 * quotes.k
    out = np.empty((*root.shape[:2], 4, root.shape[2]))
    out[:, :, 3], factor = quotes.errors(0.5 * (theta + tilt + root))
    out[:, :, 0] = factor * (0.5 + half * (theta + tilt))
    out[:, :, 1] = factor * (even + odd)
    out[:, :, 2] = factor * (even - odd)
    return out
