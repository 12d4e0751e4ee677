"""First-order autoregression of one series on a regular grid, and what it says about decay.

NaN marks steps without a value; a pair of neighbours counts only where both are known. Rates per step are
turned into half-lives by ``−ln 2 / ln φ``: 0 for φ ≤ 0, inf for φ ≥ 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from derivdata.support.arrays import Floats

__all__ = [
    "Fit",
    "corrected",
    "decay",
    "fit_likelihood",
    "fit_squares",
    "half_life_steps",
    "mean_slope",
]


class Fit(NamedTuple):
    """``x[t] = intercept + phi x[t − 1] + noise``."""

    pairs: int
    phi: float
    intercept: float
    variance: float
    """Of the noise: residual sum of squares over their number."""
    stderr: float
    """Of phi."""
    loglik: float
    """Gaussian: of the pairs given their first values (squares), or of all values (likelihood)."""


def fit_squares(series: Floats) -> Fit:
    """Least squares over the pairs of neighbours; NaN figures below three pairs or without variation."""
    both = np.isfinite(series[:-1]) & np.isfinite(series[1:])
    x, y, n = series[:-1][both], series[1:][both], int(both.sum())
    # Both sides about their own means: with a level that is large against its moves (a rate at its floor),
    # products with the level itself would leave nothing but rounding of the slope.
    around, beyond = (x - x.mean(), y - y.mean()) if n else (x, y)
    spread = float(around @ around)
    if n < 3 or spread <= 1e-24 * float(x @ x):
        return Fit(n, *[np.nan] * 5)
    phi = float(around @ beyond) / spread
    intercept = float(y.mean() - phi * x.mean())
    squares = float(np.square(beyond - phi * around).sum())
    variance = squares / n
    loglik = -0.5 * n * (np.log(2.0 * np.pi * variance) + 1.0) if variance > 0.0 else np.inf
    return Fit(n, phi, intercept, variance, float(np.sqrt(squares / (n - 2) / spread)), float(loglik))


def fit_likelihood(series: Floats) -> Fit:
    """Exact Gaussian maximum likelihood of a stationary series; values across a gap count for what they say.

    NaN figures below three values or without variation.
    """
    at = np.flatnonzero(np.isfinite(series))
    values, steps = series[at], np.diff(at)
    pairs = int((steps == 1).sum())
    if values.size < 3 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return Fit(pairs, *[np.nan] * 5)
    limit = 1.0 - 1e-9
    best = minimize_scalar(
        lambda phi: -_profile(phi, values, steps)[0],
        bounds=(-limit, limit),
        method="bounded",
        options={"xatol": 1e-10},
    )
    loglik, mean, variance = _profile(best.x, values, steps)
    stderr = np.sqrt((1.0 - best.x**2) / values.size)
    return Fit(pairs, float(best.x), float(mean * (1.0 - best.x)), variance, float(stderr), loglik)


def corrected(phi: Any, pairs: Any) -> Any:
    """Slope without the small-sample bias of least squares: ``(nφ + 1)/(n − 3)`` (Marriott, Pope 1954)."""
    return (pairs * phi + 1.0) / (pairs - 3.0)


def half_life_steps(phi: Any) -> Floats:
    """Return the steps in which a deviation halves; 0 for φ ≤ 0, inf for φ ≥ 1."""
    phi = np.asarray(phi, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(2.0) / np.abs(np.log(np.clip(phi, 0.0, 1.0))), dtype=np.float64)


def mean_slope(phi: Any) -> Floats:
    """Return the correlation of neighbouring step means of a process that decays by φ (0 to 1) per step.

    ``(1 − φ)² / (2(κ − 1 + φ))``, κ = −ln φ: averaging makes a process look more persistent than it is.
    """
    kappa = np.maximum(-np.log(np.asarray(phi, dtype=np.float64)), 1e-8)
    fall = -np.expm1(-kappa)
    return np.asarray(fall**2 / (2.0 * (kappa - fall)), dtype=np.float64)


def decay(slope: Any) -> Floats:
    """φ of the process whose step means have this correlation: the inverse of `mean_slope`.

    Unchanged at or below 0 and at or above 1, where there is none.
    """
    slope = np.asarray(slope, dtype=np.float64)
    low, high = np.full(slope.shape, np.log(1e-8)), np.full(slope.shape, np.log(1e4))
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = mean_slope(np.exp(-np.exp(np.minimum(middle, 6.5)))) > slope
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    phi = np.exp(-np.exp(0.5 * (low + high)))
    return np.where((slope > 0.0) & (slope < 1.0), phi, slope)


def _profile(phi: float, values: Floats, steps: Any) -> tuple[float, float, float]:
    """Return the log-likelihood at φ with the best mean and variance, and these two."""
    carried = phi**steps
    scale = np.append(1.0 / (1.0 - phi**2), (1.0 - carried**2) / (1.0 - phi**2))
    level = np.append(1.0, 1.0 - carried)
    target = np.append(values[0], values[1:] - carried * values[:-1])
    mean = float((level * target / scale).sum() / (level**2 / scale).sum())
    variance = float((np.square(target - level * mean) / scale).mean())
    loglik = -0.5 * (values.size * (np.log(2.0 * np.pi * variance) + 1.0) + np.log(scale).sum())
    return float(loglik), mean, variance
