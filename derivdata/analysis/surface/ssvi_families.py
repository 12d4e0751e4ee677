"""SSVI of Gatheral and Jacquier (2014): one correlation and one function φ(θ) for the whole surface.

``power``: ``φ = η θ^(−γ) (1 + θ)^(γ − 1)``; free of butterflies if ``η (1 + |ρ|) <= 2`` and ``γ <= 1/2``
(with a larger γ short expiries break the second condition, which the paper's one-line condition leaves
out). ``heston``: ``φ = (1 − (1 − e^(−λθ))/(λθ))/(λθ)`` with ``λ >= (1 + |ρ|)/4``; it never exceeds 1/2, which
is too flat for the short smiles of crypto markets. Both keep the calendar in order where θ does not fall.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from derivdata.analysis.inputs import together
from derivdata.analysis.least_squares import Minimum
from derivdata.analysis.surface.ssvi_problem import Floats, SurfaceQuotes, fit_model
from derivdata.support.arguments import Numbers, typed

__all__ = ["FAMILIES", "Family", "at_the_money", "fit_family", "heston_phi", "isotonic", "power_phi"]

_SERIES = 0.1
_TERMS = np.arange(1, 11)
_FACTORS = (-1.0) ** (_TERMS + 1) / np.cumprod(np.append(1.0, _TERMS + 1.0))[1:]


class Family(NamedTuple):
    """A curve ψ(θ) in parameters x = (ρ, …).

    `curve` goes from θ ``(surfaces, expiries)`` and x ``(surfaces, parameters)`` to ψ and ∂ψ/∂x; `published`
    gives the parameters by which the literature knows the curve, one array for each of `names`.
    """

    names: tuple[str, ...]
    published: Callable[[Floats], tuple[Floats, ...]]
    curve: Callable[[Floats, Floats], tuple[Floats, Floats]]
    start: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@typed
def power_phi(theta: Numbers, eta: Numbers, gamma: Numbers) -> Any:
    """Power-law ``φ(θ) = η θ^(−γ) (1 + θ)^(γ − 1)``; arrays and DataArrays broadcast, NaN stays NaN."""
    theta, eta, gamma = together(theta=theta, eta=eta, gamma=gamma)
    return eta * theta**-gamma * (1.0 + theta) ** (gamma - 1.0)


@typed
def heston_phi(theta: Numbers, lam: Numbers) -> Floats:
    """Heston-like ``φ(θ) = (1 − (1 − e^(−λθ))/(λθ))/(λθ)``, 1/2 at 0; arrays broadcast, NaN stays NaN."""
    theta, lam = together(theta=theta, lam=lam)
    x = np.asarray(np.multiply(lam, theta), dtype=np.float64)
    return np.asarray(np.divide(_heston(x)[0], x, out=np.full_like(x, 0.5), where=x != 0.0))


def at_the_money(quotes: SurfaceQuotes, otherwise: Floats) -> Floats:
    """Total variance at k = 0 between the two quotes around it, `otherwise` where there is none on a side."""
    here = quotes.scale > 0.0
    below = np.where(here & (quotes.k <= 0.0), quotes.k, -np.inf)
    above = np.where(here & (quotes.k > 0.0), quotes.k, np.inf)
    left, right = below.argmax(axis=-1)[..., None], above.argmin(axis=-1)[..., None]
    k0, k1, w0, w1 = (
        np.take_along_axis(part, at, -1)[..., 0]
        for part, at in ((below, left), (above, right), (quotes.w, left), (quotes.w, right))
    )
    both = np.isfinite(k0) & np.isfinite(k1)
    share = np.divide(-k0, k1 - k0, out=np.zeros_like(w0), where=both)
    return np.where(both, w0 + share * (w1 - w0), otherwise)


def isotonic(values: Floats) -> Floats:
    """Return the closest non-decreasing sequence along the last axis, in least squares.

    What pooling adjacent violators gives, in its closed form: the greatest, over starts up to here, of the
    least mean that ends here or later.
    """
    size = values.shape[-1]
    sums = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)
    length = np.arange(1, size + 1) - np.arange(size)[:, None]
    blocks = sums[..., None, 1:] - sums[..., :-1, None]
    means = np.where(length > 0, blocks / np.maximum(length, 1), np.inf)
    least = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
    upto = np.where(length > 0, least, -np.inf)
    return np.asarray(upto.max(axis=-2))


def fit_family(family: Family, quotes: SurfaceQuotes, guess: Floats, theta: Floats) -> tuple[Floats, Minimum]:
    """Fit slices ``(surfaces, expiries, 3)`` of one family through the total variances θ at the money."""

    def model(x: Floats, theta: Floats) -> tuple[Floats, Floats]:
        return _slices(family, theta, x)

    tilt = np.median((guess[..., 1] - guess[..., 2]) / (guess[..., 1] + guess[..., 2]), axis=1)
    start = np.column_stack([np.clip(tilt, -0.9, 0.9), *(np.full(len(tilt), each) for each in family.start)])
    bounds = np.array((-0.999, *family.lower)), np.array((0.999, *family.upper))
    minimum = fit_model(model, theta, start, bounds, quotes)
    return _slices(family, theta, minimum.x.T)[0], minimum


def _slices(family: Family, theta: Floats, x: Floats) -> tuple[Floats, Floats]:
    psi, d_psi = family.curve(theta, x)
    sides = np.stack([1.0 + x[:, :1], 1.0 - x[:, :1]], axis=-1) / 2.0
    jacobian = np.zeros((*theta.shape, 3, x.shape[1]))
    jacobian[:, :, 1:] = sides[..., None] * d_psi[:, :, None]
    jacobian[:, :, 1, 0] += psi / 2.0
    jacobian[:, :, 2, 0] -= psi / 2.0
    wings = np.broadcast_to(psi[..., None] * sides, (*theta.shape, 2))
    return np.concatenate([theta[..., None], wings], axis=-1), jacobian


def _power(theta: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Return ψ and ∂ψ/∂x of x = (ρ, s, γ), with ``η = 2 s/(1 + |ρ|)``: ``s <= 1`` is free of butterflies."""
    rho, share, gamma = (x[:, i, None] for i in range(3))
    psi = theta * power_phi(theta, _eta(rho, share), gamma)
    slopes = [-np.sign(rho) / (1.0 + np.abs(rho)), 1.0 / share, -np.log(theta / (1.0 + theta))]
    return psi, np.stack([psi * slope for slope in slopes], axis=-1)


def _eta(rho: Floats, share: Floats) -> Floats:
    return 2.0 * share / (1.0 + np.abs(rho))


def _heston_curve(theta: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Return ψ and ∂ψ/∂x of x = (ρ, y), with ``λ = (1 + |ρ|)/4 + e^y``."""
    rho, excess = x[:, :1], np.exp(x[:, 1:])
    lam = _lam(rho, excess)
    height, slope = _heston(lam * theta)
    d_lam = (lam * theta * slope - height) / lam**2
    return height / lam, np.stack([d_lam * np.sign(rho) / 4.0, d_lam * excess], axis=-1)


def _lam(rho: Floats, excess: Floats) -> Floats:
    return (1.0 + np.abs(rho)) / 4.0 + excess


def _heston(x: Floats) -> tuple[Floats, Floats]:
    """``h = 1 − (1 − e^(−x))/x`` and its derivative; by series near 0, where that cancels."""
    small = np.abs(x) < _SERIES
    near, far = np.where(small, x, 0.0), np.where(small, 1.0, x)
    powers = near[..., None] ** (_TERMS - 1.0)
    series = near * (powers @ _FACTORS), powers @ (_TERMS * _FACTORS)
    decay = np.exp(-far)
    exact = 1.0 + np.expm1(-far) / far, (-np.expm1(-far) - far * decay) / far**2
    return np.where(small, series[0], exact[0]), np.where(small, series[1], exact[1])


FAMILIES = {
    "ssvi_power": Family(
        ("eta", "gamma"),
        lambda x: (_eta(x[:, 0], x[:, 1]), x[:, 2]),
        _power,
        start=(0.5, 0.4),
        lower=(1e-6, 0.0),
        upper=(1.0, 0.5),
    ),
    "ssvi_heston": Family(
        ("lam",),
        lambda x: (_lam(x[:, 0], np.exp(x[:, 1])),),
        _heston_curve,
        start=(0.0,),
        lower=(-20.0,),
        upper=(20.0,),
    ),
}
"""The families by the name of their method."""
