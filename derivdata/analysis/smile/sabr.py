"""SABR smiles by the lognormal expansion of Hagan, Kumar, Lesniewski and Woodward (2002), equation 2.17a.

Not free of arbitrage, and of no meaning far from the money: check it, and do not go far beyond the quotes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_together
from derivdata.analysis.least_squares import Minimum, minimise
from derivdata.analysis.smile.least_squares_dense import DenseProblem
from derivdata.analysis.smile.parameters import Floats
from derivdata.analysis.smile.quotes import SmileQuotes
from derivdata.support.arguments import Numbers, typed

__all__ = ["Sabr", "fit_sabr", "sabr_iv", "sabr_jet"]

_SMALL_Z = 0.02
_TERMS = 9
_MOST_RHO = 0.9999
_STARTS = ((-0.4, 0.7), (0.4, 0.7))


class Sabr(NamedTuple):
    """Volatility level, elasticity, correlation and volatility of volatility [per √year]."""

    alpha: Any
    beta: Any
    rho: Any
    nu: Any


@typed
def sabr_iv(log_moneyness: Numbers, sabr: Sabr, year_fraction: Numbers, *, forward: Numbers = 1.0) -> Any:
    """Hagan's lognormal volatility [per √year].

    Parameters
    ----------
    log_moneyness
        ``ln(K/F)``: float, array or DataArray.
    sabr
        Parameters, broadcast against `log_moneyness`.
    year_fraction
        Time to expiry [years].
    forward
        In the units of `sabr.alpha`; it matters only where ``beta`` is not 1.
    """
    require_together(log_moneyness=log_moneyness, year_fraction=year_fraction, forward=forward)
    return xr.apply_ufunc(
        lambda k, a, b, r, n, t, f: np.exp(_log_iv(k, Sabr(a, b, r, n), t, f)[0]),
        *(log_moneyness, *sabr, year_fraction, forward),
        dask="parallelized",
        output_dtypes=[np.float64],
    )


def sabr_jet(k: Floats, sabr: Sabr, t: Floats, forward: Floats) -> tuple[Floats, Floats, Floats]:
    """``w = iv² T`` and its first two derivatives in k, on arrays that broadcast."""
    log_iv, first, second = _log_iv(k, sabr, t, forward)
    w = t * np.exp(2.0 * log_iv)
    return w, 2.0 * w * first, 2.0 * w * (second + 2.0 * first * first)


def fit_sabr(quotes: SmileQuotes, *, beta: float, forward: Floats) -> tuple[Sabr, Minimum]:
    """Return the best SABR smiles with this `beta`, of two starts each."""
    minima = [_from(quotes, beta, forward, *start) for start in _STARTS]
    best = minima[0]
    for other in minima[1:]:
        better = other.loss < best.loss
        nfev = best.nfev + other.nfev
        best = Minimum(*(np.where(better, a, b) for a, b in zip(other, best, strict=True)))._replace(
            nfev=nfev
        )
    log_alpha, rho, log_nu = best.x
    return Sabr(np.exp(log_alpha), np.full_like(rho, beta), rho, np.exp(log_nu)), best


def _from(quotes: SmileQuotes, beta: float, forward: Floats, rho: float, nu: float) -> Minimum:
    count = len(quotes.k)
    order = np.where(quotes.used, np.abs(quotes.k), np.inf).argmin(axis=1)
    level = np.log(quotes.iv[np.arange(count), order]) + (1.0 - beta) * np.log(forward)
    scale = -0.5 * np.log(quotes.t)
    one = np.ones(count)
    low = np.stack([level - 5.0, -_MOST_RHO * one, scale - 9.0])
    high = np.stack([level + 5.0, _MOST_RHO * one, scale + np.log(4.0)])
    weight = quotes.weight * quotes.w
    weight = weight / weight.sum(axis=1, keepdims=True)
    constants = np.stack([beta * one, quotes.t, forward])
    reach = np.array([[1.0], [0.5], [1.5]])
    problem = DenseProblem(_curve, quotes.k, quotes.iv, weight, constants, low, high, reach)
    return minimise(problem, np.stack([level, rho * one, scale + np.log(nu)]))


def _curve(x: Floats, constants: Floats, k: Floats) -> tuple[Floats, Floats]:
    (log_alpha, rho, log_nu), (beta, t, forward) = x, constants
    alpha, nu = np.exp(log_alpha), np.exp(log_nu)
    middle = forward ** (1.0 - beta) * np.exp((1.0 - beta) / 2.0 * k)
    z = -nu / alpha * middle * k
    u, by_z, _, by_rho = _stretch(z, rho)
    level, cross, own = _corrections(Sabr(alpha, beta, rho, nu), t, middle)
    late = 1.0 + level + rho * cross + own
    iv = alpha / (middle * _strike_factor(k, beta)[0]) / u * late
    through_z = by_z * z / u
    return iv, iv * np.stack(
        [
            1.0 + through_z + (2.0 * level + rho * cross) / late,
            -by_rho / u + (cross - 0.25 * rho * np.square(nu) * t) / late,
            -through_z + (rho * cross + 2.0 * own) / late,
        ]
    )


def _log_iv(k: Floats, sabr: Sabr, t: Floats, forward: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ln iv and its first two derivatives in k."""
    c = (1.0 - sabr.beta) / 2.0
    middle = forward ** (2.0 * c) * np.exp(c * k)
    speed = -sabr.nu / sabr.alpha * middle
    z, dz, d2z = speed * k, speed * (1.0 + c * k), speed * c * (2.0 + c * k)
    u, du, d2u, _ = _stretch(z, sabr.rho)
    strike, d_strike, d2_strike = _strike_factor(k, sabr.beta)
    level, cross, own = _corrections(sabr, t, middle)
    cross = sabr.rho * cross
    late, d_late = 1.0 + level + cross + own, -c * (2.0 * level + cross)
    d2_late = c * c * (4.0 * level + cross)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(sabr.alpha / (middle * strike * u) * late)
        slopes = (du * dz / u, d_strike / strike, d_late / late)
        bends = ((d2u * dz * dz + du * d2z) / u, d2_strike / strike, d2_late / late)
    first = slopes[2] - slopes[1] - slopes[0] - c
    square = [bend - slope * slope for bend, slope in zip(bends, slopes, strict=True)]
    return value, first, square[2] - square[1] - square[0]


def _corrections(sabr: Sabr, t: Floats, middle: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the three terms of the correction in T; the second is still to be multiplied by ρ."""
    level = np.square((1.0 - sabr.beta) * sabr.alpha / middle) / 24.0
    cross = sabr.beta * sabr.nu * sabr.alpha / (4.0 * middle)
    own = (2.0 - 3.0 * np.square(sabr.rho)) * np.square(sabr.nu) / 24.0
    return t * level, t * cross, t * own


def _strike_factor(k: Floats, beta: Floats) -> tuple[Floats, Floats, Floats]:
    p, q = np.square(1.0 - beta) / 24.0, (1.0 - beta) ** 4 / 1920.0
    square = np.square(k)
    return 1.0 + square * (p + q * square), k * (2.0 * p + 4.0 * q * square), 2.0 * p + 12.0 * q * square


def _stretch(z: Floats, rho: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """``u = χ(z)/z``, its first two derivatives in z, and the one in ρ.

    ``χ' = 1/√(1 − 2ρz + z²)`` generates the Legendre polynomials, which gives the series about 0.
    """
    z, rho = np.broadcast_arrays(z, rho)
    small = np.abs(z) < _SMALL_Z
    u, du, d2u, by_rho = (np.array(part) for part in _closed(np.where(small, 1.0, z), rho))
    for part, value in zip((u, du, d2u, by_rho), _series(z[small], rho[small]), strict=True):
        part[small] = value
    return u, du, d2u, by_rho


def _closed(z: Floats, rho: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    root = np.sqrt(1.0 - 2.0 * rho * z + z * z)
    rest = 1.0 - np.square(rho)
    part = (z * z - 2.0 * rho * z) / (root + 1.0)
    chi = np.where(
        z > -1.0,
        np.log1p((part + z) / (1.0 - rho)),
        np.arcsinh((z - rho) / np.sqrt(rest)) + np.arcsinh(rho / np.sqrt(rest)),
    )
    u = chi / z
    first = (1.0 / root - u) / z
    second = ((rho - z) / root**3 - 2.0 * first) / z
    return u, first, second, (part + rho * z) / (root * rest * z)


def _series(z: Floats, rho: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    power, d_power, d2_power = np.ones_like(z), np.zeros_like(z), np.zeros_like(z)
    now, before, d_now, d_before = np.ones_like(z), np.zeros_like(z), np.zeros_like(z), np.zeros_like(z)
    u, du, d2u, by_rho = (np.zeros_like(z) for _ in range(4))
    for n in range(_TERMS):
        u, by_rho = u + now * power / (n + 1), by_rho + d_now * power / (n + 1)
        du, d2u = du + now * d_power / (n + 1), d2u + now * d2_power / (n + 1)
        d2_power, d_power, power = (n + 1) * d_power, (n + 1) * power, power * z
        step = ((2 * n + 1) * rho * now - n * before) / (n + 1)
        d_step = d_before + (2 * n + 1) * now
        now, before, d_now, d_before = step, now, d_step, d_now
    return u, du, d2u, by_rho
