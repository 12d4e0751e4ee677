"""The surface of ``sample@1``: one eSSVI slice per expiry, without arbitrage by construction.

Total variance at ``k = ln(K/F)`` is ``θ/2 (1 + ρφk + √((φk + ρ)² + 1 − ρ²))`` with

- ``θ(T) = v∞ T + (v0 − v∞)(1 − e^(−λT))/λ``, increasing since both variances are positive,
- ``φ(θ) = η / √(θ(1 + θ))``, so that ``ψ = θφ`` increases and ``ψ/θ`` falls, and ``ψφ ≤ η²``,
- ``ρ(T) = ρ∞ + (ρ0 − ρ∞) e^(−T/τ)``, slow enough that ``|d(ρψ)| ≤ dψ``.

With ``η²(1 + |ρ|) ≤ 4`` these are the conditions of Gatheral and Jacquier (2014, theorem 4.2) and of Hendriks
and Martini (2019, proposition 3.1) with ``ψ/θ`` falling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.sources.sample.grid import Ints
from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.options.forward_curves import bounded_paths, venue_offsets
from derivdata.sources.sample.universe import symbols

__all__ = ["EssviSurface", "Slices"]

_REVERSION = 5.0
_TILT_YEARS = 0.4


class Slices(NamedTuple):
    """Parameters of every slice; arrays of shape ``(expiries, instants)``."""

    theta: Floats
    rho: Floats
    psi: Floats


class EssviSurface:
    """Volatilities of eSSVI slices: a surface that the library's own fits contain."""

    quoted = False

    def parameters(self, symbol: str, exchange: str, years: Floats, time: Ints) -> dict[str, Floats]:
        """Return ``theta``, ``rho`` and ``psi`` of every expiry and instant."""
        return _slices(symbol, exchange, years, time)._asdict()

    def total_variance(
        self, symbol: str, exchange: str, years: Floats, time: Ints, k: Floats, place: Ints
    ) -> Floats:
        """Return total implied variance at log-moneyness `k`, ``(options, instants)``."""
        slices = _slices(symbol, exchange, years, time)
        theta, rho, psi = slices.theta[place], slices.rho[place], slices.psi[place]
        x = psi / theta * k
        return np.asarray(0.5 * theta * (1.0 + rho * x + np.sqrt((x + rho) ** 2 + 1.0 - rho * rho)))

    def typical_variance(self, symbol: str, exchange: str, years: Floats, time: Ints) -> Floats:
        """Return total variance at the money."""
        return _slices(symbol, exchange, years, time).theta


def _slices(symbol: str, exchange: str, years: Floats, time: Ints) -> Slices:
    """Return the slices; every parameter is bounded away from where arbitrage begins."""
    bounded, offsets = bounded_paths(symbol, time), venue_offsets(symbol, exchange)
    level = symbols().volatility[symbols().name.index(symbol)] ** 2 * (1.0 + 0.06 * offsets[0])
    short_variance = level * np.exp(0.35 * bounded[0])
    long_variance = level * 1.1 * np.exp(0.12 * bounded[1])
    short_rho = -0.12 + 0.08 * bounded[2]
    long_rho = -0.30 + 0.06 * bounded[3]
    eta = (0.85 + 0.08 * offsets[1]) * (1.0 + 0.06 * bounded[4])
    faded = -np.expm1(-_REVERSION * years) / _REVERSION
    theta = long_variance * years + (short_variance - long_variance) * faded
    rho = long_rho + (short_rho - long_rho) * np.exp(-years / _TILT_YEARS)
    return Slices(theta, rho, eta * np.sqrt(theta / (1.0 + theta)))
