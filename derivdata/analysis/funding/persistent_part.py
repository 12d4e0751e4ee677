"""Half-life of the part of a series that stays, next to noise that goes, a cycle, a floor or a pinned level.

The model is an autoregression under moving-average noise, an ARMA(1, 1): its autocovariances fall by φ from
each lag to the next, but not from lag 0 to lag 1. So the lags from 1 on tell φ, whatever the noise. How far
they can be trusted is simulated: a φ of a grid stays in the interval if the data's autocovariances are not
extreme among those of series with that φ, and with the data's first autocorrelation, gaps and floor. As a
floor or a pinned level takes from autocorrelations, simulated values have more before they are cut off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import hermite_e, polynomial
from scipy.special import factorial, ndtri

from derivdata.support.arrays import Bools, Floats

_LAGS = 8
_POINTS = 24
_SHORTEST = 0.3  # steps
_ATOM = 0.03  # share of values at an extreme from which it is a floor or a cap
_PINNED = 0.1  # share of values at a level between from which it is one that a venue pins rates to
_WIDER = 0.5
"""Of the nominal tails: the noise is fitted to the data's first autocorrelation, which makes the simulations
too alike where that is high by chance. With whole tails a nominal 90 % covers 77 to 85 % at a half-life of a
thirtieth of the data; see the table in docs/methods/carry.md."""
_ALTERNATES = 3.0  # standard errors by which a first autocorrelation is below zero
_LARGEST = 0.999
_TINY = 1e-300
_NODES = 4000
_DEGREES = 30
_BLOCK = 4_000_000  # simulated values at once


class PersistentPart(NamedTuple):
    """Half-life [steps] of what decays slowest, and how much of the variance that is."""

    half_life: float
    """Median-unbiased; 0 where all is gone within a third of a step, inf where nothing decays; 0 with ends of
    NaN where neighbours go against each other, so that nothing stays."""
    low: float
    high: float
    share: float
    """First autocorrelation over φ, from 0 to 1: the rest of the variance is gone after a step."""


def persistent_part(series: Floats, *, slots: int, level: float, resamples: int, seed: int) -> PersistentPart:
    """Estimate the half-life of the persistent part by test inversion.

    The values lie on a regular grid and must vary, NaN where there is none; the means of the `slots` of a
    cycle are taken out of data and simulations. The statistic at φ is
    ``Σ_k φ^k (γ[k + 2] − φ γ[k + 1]) / γ[0]`` over eight lags: 0 except bias where φ is right. Weak
    identification (little persistence, much noise) makes wide intervals and not wrong ones, as the moments
    themselves are tested and not an estimate (Anderson and Rubin 1949, Annals of Mathematical Statistics 20).
    """
    known = np.isfinite(series)
    lives = np.exp(np.linspace(np.log(_SHORTEST), np.log(max(int(known.sum()), 2)), _POINTS))
    phis = 0.5 ** (1.0 / lives)
    own = _autocovariances(np.where(known, series, 0.0)[:, None, None], known, slots)
    observed = _statistics(own, phis[:, None])[:, 0]
    first = float(own[1, 0, 0] / max(own[0, 0, 0], _TINY))
    atoms = _atoms(series[known])
    if first < -_ALTERNATES / np.sqrt(known.sum()):  # no share of any persistent part makes it negative
        return PersistentPart(0.0, np.nan, np.nan, 0.0)
    tail = 0.5 * _WIDER * (1.0 - level)
    uncut = _uncut(first, atoms)
    ends = np.empty((3, _POINTS))
    chunk = max(1, _BLOCK // (series.size * resamples))
    for begin in range(0, _POINTS, chunk):
        part = slice(begin, begin + chunk)
        simulated = _clipped(_simulated(phis[part], uncut, series.size, resamples, seed), atoms)
        simulated[~known] = 0.0
        statistics = _statistics(_autocovariances(simulated, known, slots), phis[part, None])
        ends[:, part] = np.quantile(statistics, [tail, 0.5, 1.0 - tail], axis=1)
    high, half_life, low = (_crossing(lives, observed - end) for end in ends)
    share = float(np.clip(first * 2.0 ** (1.0 / half_life), 0.0, 1.0)) if half_life > 0.0 else 0.0
    return PersistentPart(half_life, low, high, share)


def _autocovariances(values: Floats, known: Bools, slots: int) -> Floats:
    """Return autocovariances (lag, φ, sample) of values (step, φ, sample), 0 where not known."""
    centred = np.empty_like(values)
    for slot in range(slots):
        rows = known[slot::slots]
        mean = values[slot::slots].sum(axis=0) / max(int(rows.sum()), 1)
        centred[slot::slots] = np.where(rows[:, None, None], values[slot::slots] - mean, 0.0)
    result = np.empty((_LAGS + 2, *values.shape[1:]))
    for lag in range(_LAGS + 2):
        pairs = int((known[lag:] & known[: known.size - lag]).sum())
        products = np.einsum("tgr,tgr->gr", centred[lag:], centred[: known.size - lag])
        result[lag] = products / max(pairs, 1)
    return result


def _statistics(autocovariances: Floats, phi: Floats) -> Floats:
    """Return the statistic (φ, sample) of autocovariances (lag, φ, sample)."""
    total = np.zeros(np.broadcast_shapes(autocovariances.shape[1:], phi.shape))
    for lag in range(_LAGS):
        total = total + phi**lag * (autocovariances[lag + 2] - phi * autocovariances[lag + 1])
    return np.asarray(total / np.maximum(autocovariances[0], _TINY))


def _moving_average(phi: Floats, first: float) -> Floats:
    """θ of the ARMA(1, 1) with φ and a first autocorrelation, as near to it as one can be.

    From ``ρ₁ = (1 + φθ)(φ + θ) / (1 + 2φθ + θ²)``: a quadratic in θ whose roots are each other's inverse; the
    one inside the unit circle is taken. Where no root is real, the end that comes nearest is.
    """
    away = phi - first
    slope = 1.0 + phi**2 - 2.0 * phi * first
    root = slope**2 - 4.0 * away**2
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = (np.sqrt(np.maximum(root, 0.0)) - slope) / (2.0 * away)
    theta = np.where(np.abs(away) < 1e-9, 0.0, np.where(root < 0.0, -np.sign(away), theta))
    return np.clip(theta, -_LARGEST, _LARGEST)


def _simulated(phi: Floats, first: float, size: int, samples: int, seed: int) -> Floats:
    """Return Gaussian ARMA(1, 1) series (step, φ, sample) that start in their stationary distribution."""
    rng = np.random.default_rng(seed)
    theta = _moving_average(phi, first)[:, None]
    slope = phi[:, None]
    noise = rng.standard_normal((size + 1, samples))
    # The start holds its own shock once, and older ones with what is left of the stationary variance.
    left = (1.0 + 2.0 * slope * theta + theta**2) / (1.0 - slope**2) - 1.0
    value = noise[0] + np.sqrt(np.maximum(left, 0.0)) * rng.standard_normal(samples)
    result = np.empty((size, phi.size, samples))
    for step in range(size):
        value = slope * value + noise[step + 1] + theta * noise[step]
        result[step] = value
    return result


class _Atoms(NamedTuple):
    """Shares of values at the lowest and the highest; at a level between them, and below that one."""

    low: float
    high: float
    inner: float
    below: float


def _atoms(values: Floats) -> _Atoms:
    """Return the shares of values at a floor, a cap and a pinned level, 0 where there is none."""
    near = 1e-9 * max(float(np.abs(values).max()), _TINY)
    low = float((values <= np.min(values) + near).mean())
    high = float((values >= np.max(values) - near).mean())
    ordered = np.sort(values)
    edges = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > near)
    runs = np.diff(np.append(edges, ordered.size))
    place = int(np.argmax(runs))
    inner = runs[place] / ordered.size
    below = edges[place] / ordered.size
    pinned = inner > _PINNED and 0 < place < runs.size - 1
    return _Atoms(low if low > _ATOM else 0.0, high if high > _ATOM else 0.0, inner if pinned else 0.0, below)


def _clipped(simulated: Floats, atoms: _Atoms) -> Floats:
    """Cut off what lies beyond floor and cap, and pin what lies within the range of the level between."""
    low, high, inner, below = atoms
    if inner:  # venues pay the interest rate while the premium is within a range, and the excess beyond it
        bottom, top = np.quantile(simulated, [below, below + inner], axis=0)
        simulated = simulated - np.clip(simulated, bottom, top)
    if low + high >= 1.0 or low + high == 0.0:
        return simulated
    bottom, top = np.quantile(simulated, [low, 1.0 - high], axis=0)
    return np.clip(simulated, bottom if low else -np.inf, top if high else np.inf)


def _uncut(first: float, atoms: _Atoms) -> float:
    """Return the first autocorrelation of Gaussian values that have `first` when they are cut off and pinned.

    Between neighbours with correlation r, Hermite polynomials of degree n have rⁿ (Mehler). Cut values are a
    sum of these, and so have the mean of rⁿ over the shares that each degree has of their variance.
    """
    if first <= 0.0 or not any(atoms[:3]):
        return first
    normal = np.asarray(ndtri((np.arange(_NODES) + 0.5) / _NODES))
    cut = _clipped(normal[:, None, None], atoms)[:, 0, 0]
    degrees = hermite_e.hermevander(normal, _DEGREES) / np.sqrt(factorial(np.arange(_DEGREES + 1)))
    shares = np.square((cut - cut.mean()) @ degrees)
    grid = np.linspace(0.0, 1.0, 501)
    return float(np.interp(first, polynomial.polyval(grid, shares / shares.sum()), grid))


def _crossing(lives: Floats, apart: Floats) -> float:
    """Return the half-life at which falling values last cross zero; 0 or inf beyond the grid."""
    above = np.flatnonzero(apart >= 0.0)
    if not above.size:
        return 0.0
    last = int(above[-1])
    if last == lives.size - 1:
        return float("inf")
    share = apart[last] / (apart[last] - apart[last + 1])
    return float(lives[last] * (lives[last + 1] / lives[last]) ** share)
