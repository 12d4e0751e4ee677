"""SSVI slices: at most three parameters, free of butterflies by their bounds.

``w = θ/2 (1 + ρ φ k + √((φ k + ρ)² + 1 − ρ²))`` is raw SVI with natural ``Δ = μ = 0``. With ``ψ = θ φ`` it
has no butterfly if ``ψ (1 + |ρ|) < 4`` and ``ψ φ (1 + |ρ|) ≤ 4`` (Gatheral and Jacquier 2014, theorem 4.2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from derivdata.analysis.inputs import together
from derivdata.analysis.least_squares import Minimum, minimise
from derivdata.analysis.smile.least_squares_dense import DenseProblem
from derivdata.analysis.smile.parameters import Floats, Raw
from derivdata.analysis.smile.quotes import SmileQuotes
from derivdata.support.arguments import Numbers, typed

__all__ = ["SsviConditions", "fit_ssvi", "ssvi_conditions", "ssvi_to_raw"]

_STARTS = (-0.4, 0.4)
_MOST_RHO = 0.9999


class SsviConditions(NamedTuple):
    """``ψ(1 + |ρ|)``, to be below 4, ``ψφ(1 + |ρ|)``, to be at most 4, and whether both are."""

    slope: Any
    curvature: Any
    free: Any


@typed
def ssvi_conditions(theta: Numbers, rho: Numbers, phi: Numbers) -> SsviConditions:
    """Return the two conditions that keep an SSVI slice free of butterflies.

    Parameters
    ----------
    theta, rho, phi
        ATM total variance, skew and curvature: floats, arrays or DataArrays.
    """
    theta, rho, phi = together(theta=theta, rho=rho, phi=phi)
    slope = theta * phi * (1.0 + abs(rho))
    curvature = slope * phi
    return SsviConditions(slope, curvature, (slope < 4.0) & (curvature <= 4.0))


@typed
def ssvi_to_raw(theta: Numbers, rho: Numbers, phi: Numbers) -> Raw:
    """Return the raw SVI parameters of an SSVI slice; floats, arrays or DataArrays."""
    theta, rho, phi = together(theta=theta, rho=rho, phi=phi)
    rest = 1.0 - rho**2
    return Raw(theta * rest / 2.0, theta * phi / 2.0, rho, -rho / phi, rest**0.5 / phi)


def fit_ssvi(quotes: SmileQuotes) -> tuple[Raw, Minimum]:
    """Return the best butterfly-free SSVI slices, from one start on either side of no skew."""
    minima = [_from(quotes, rho) for rho in _STARTS]
    best = minima[0].loss <= minima[1].loss
    both = Minimum(*(np.where(best, a, b) for a, b in zip(*minima, strict=True)))
    log_theta, rho, share = both.x
    return ssvi_to_raw(np.exp(log_theta), rho, _phi(log_theta, rho, share)[0]), both


def _from(quotes: SmileQuotes, rho: float) -> Minimum:
    count = len(quotes.k)
    order = np.where(quotes.used, np.abs(quotes.k), np.inf).argmin(axis=1)
    nearest = np.log(quotes.w[np.arange(count), order])
    spread = np.full(count, 7.0)
    low = np.stack([nearest - spread, np.full(count, -_MOST_RHO), np.full(count, 1e-9)])
    high = np.stack([nearest + spread, np.full(count, _MOST_RHO), np.ones(count)])
    weight = quotes.weight / quotes.weight.sum(axis=1, keepdims=True)
    problem = DenseProblem(
        _curve, quotes.k, quotes.w, weight, np.empty((0, count)), low, high, np.array([[1.0], [0.5], [0.3]])
    )
    return minimise(problem, np.stack([nearest, np.full(count, rho), np.full(count, 0.5)]))


def _phi(log_theta: Floats, rho: Floats, share: Floats) -> tuple[Floats, Floats, Floats]:
    """``φ`` as a `share` of the most that the two conditions allow, and d ln φ by ln θ and by ρ."""
    theta, wide = np.exp(log_theta), 1.0 + np.abs(rho)
    flat, round_ = 4.0 / wide, np.sqrt(4.0 * theta / wide)
    by_slope = flat < round_
    most = np.minimum(flat, round_) * (1.0 - 1e-9)
    power = np.where(by_slope, 1.0, 0.5)
    return share * most / theta, np.where(by_slope, -1.0, -0.5), -power * np.sign(rho) / wide


def _curve(x: Floats, _: Floats, k: Floats) -> tuple[Floats, Floats]:
    log_theta, rho, share = x
    theta = np.exp(log_theta)
    phi, by_theta, by_rho = _phi(log_theta, rho, share)
    shifted = phi * k + rho
    root = np.sqrt(np.square(shifted) + 1.0 - np.square(rho))
    w = theta / 2.0 * (1.0 + rho * phi * k + root)
    per_phi = theta / 2.0 * phi * k * (rho + shifted / root)
    per_rho = theta / 2.0 * phi * k * (1.0 + 1.0 / root)
    return w, np.stack([w + per_phi * by_theta, per_rho + per_phi * by_rho, per_phi / share])
