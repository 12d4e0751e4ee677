"""The surface: one eSSVI slice per expiry, free of arbitrage by construction, moving smoothly.

Total variance at ``k = ln(K/F)`` is ``θ/2 (1 + ρφk + √((φk + ρ)² + 1 − ρ²))`` with

- ``θ(T) = v∞ T + (v0 − v∞)(1 − e^(−λT))/λ``, increasing since both variances are positive,
- ``φ(θ) = η / √(θ(1 + θ))``, so that ``ψ = θφ`` increases and ``ψ/θ`` falls, and ``ψφ ≤ η²``,
- ``ρ(T) = ρ∞ + (ρ0 − ρ∞) e^(−T/τ)``, slow enough that ``|d(ρψ)| ≤ dψ``.

With ``η²(1 + |ρ|) ≤ 4`` these are the conditions of Gatheral and Jacquier (2014, theorem 4.2) and of Hendriks
and Martini (2019, proposition 3.1) with ``ψ/θ`` falling. Forwards are ``F(T) = S e^(bT)``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from derivdata.sample import noise, paths, prices
from derivdata.sample.grid import ANCHOR_DAY, DAY_US, STEP_US, STEPS, Ints
from derivdata.sample.noise import Floats, Keys
from derivdata.sample.options.listings import EXPIRY_US
from derivdata.sample.universe import symbols
from derivdata.units import SECONDS_PER_YEAR

__all__ = ["Slices", "parameters", "slices", "total_variance"]

_REVERSION = 5.0
_TILT_YEARS = 0.4
_HALF_LIFE_HOURS = 24.0 * 12.0
_MONTH = 32


class Slices(NamedTuple):
    """Parameters of every slice; arrays of shape ``(expiries, instants)``, `spot` ``(instants,)``."""

    year_fraction: Floats
    theta: Floats
    rho: Floats
    psi: Floats
    underlying_price: Floats
    spot: Floats


def parameters(symbol: str, exchange: str, time: Ints) -> dict[str, Floats]:
    """Return what the slices are made from at each instant.

    ``short_variance`` v0 and ``long_variance`` v∞ [1/year], ``short_rho`` ρ0, ``long_rho`` ρ∞, ``eta`` η,
    ``basis`` b [1/year]; every one bounded away from where arbitrage begins.
    """
    own = symbols().name.index(symbol)
    x = paths.smooth(_streams(symbol), _HALF_LIFE_HOURS, time / DAY_US)
    venue = noise.uniform(noise.key("surface", symbol, exchange), np.arange(3)) - 0.5
    level = symbols().volatility[own] ** 2 * (1.0 + 0.06 * venue[0])
    bounded = x / np.sqrt(1.0 + 0.1 * x * x)
    return {
        "short_variance": level * np.exp(0.35 * bounded[0]),
        "long_variance": level * 1.1 * np.exp(0.12 * bounded[1]),
        "short_rho": -0.12 + 0.08 * bounded[2],
        "long_rho": -0.30 + 0.06 * bounded[3],
        "eta": (0.85 + 0.08 * venue[1]) * (1.0 + 0.06 * bounded[4]),
        "basis": 0.06 + 0.03 * bounded[5] + 0.004 * venue[2],
    }


@lru_cache(maxsize=64)
def _streams(symbol: str) -> Keys:
    return np.array([noise.key("surface", symbol, n) for n in range(6)], dtype=np.uint64)


def slices(symbol: str, exchange: str, expiry: Ints, time: Ints) -> Slices:
    """Return eSSVI slices of some expiries (days since 1970) at some instants [µs]."""
    p = parameters(symbol, exchange, time)
    years = (expiry[:, None] * DAY_US + EXPIRY_US - time) / (SECONDS_PER_YEAR * 1e6)
    faded = -np.expm1(-_REVERSION * years) / _REVERSION
    theta = p["long_variance"] * years + (p["short_variance"] - p["long_variance"]) * faded
    rho = p["long_rho"] + (p["short_rho"] - p["long_rho"]) * np.exp(-years / _TILT_YEARS)
    psi = p["eta"] * np.sqrt(theta / (1.0 + theta))
    spot = _spot(symbol, time)
    return Slices(years, theta, rho, psi, spot * np.exp(p["basis"] * years), spot)


def total_variance(k: Floats, theta: Floats, rho: Floats, psi: Floats) -> Floats:
    """Return total implied variance at log-moneyness `k`."""
    x = psi / theta * k
    return np.asarray(0.5 * theta * (1.0 + rho * x + np.sqrt((x + rho) ** 2 + 1.0 - rho * rho)))


def _spot(symbol: str, time: Ints) -> Floats:
    since = time - ANCHOR_DAY * DAY_US
    months, place = np.unique(since // (_MONTH * DAY_US), return_inverse=True)
    path = np.stack([_month(symbol, month) for month in months.tolist()])
    return np.asarray(path[place, since // STEP_US % (_MONTH * STEPS)])


@lru_cache(maxsize=128)
def _month(symbol: str, number: int) -> Floats:
    """Return prices at the steps of `_MONTH` days; the next request is of the same days as a rule."""
    own = np.array([symbols().name.index(symbol)])
    return np.asarray(prices.price(own, ANCHOR_DAY + number * _MONTH, _MONTH)[0])
