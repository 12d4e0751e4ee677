"""First-order autoregression of one series on a regular grid, and the interval of its slope.

NaN marks steps without a value; a pair of neighbours counts only where both are known. Rates per step are
turned into half-lives by ``−ln 2 / ln φ``: 0 for φ ≤ 0, inf for φ ≥ 1.

Near a unit root the usual interval around φ covers far too little. Here every φ of a grid is tested (the grid
bootstrap, Hansen 1999): series with that φ are simulated from the resampled residuals, and it stays in the
interval if the t-statistic of the data is not extreme among theirs. Gaps of the data are gaps of the
simulations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from derivdata.support.arrays import Bools, Floats

_POINTS = 24
_TOP = 1.0 - 1e-6  # stands for a unit root, with a start that is still drawn from somewhere


class Fit(NamedTuple):
    """``x[t] = intercept + phi x[t − 1] + noise``."""

    pairs: int
    phi: float
    intercept: float
    variance: float
    """Of the noise: residual sum of squares over their number."""
    stderr: float
    """Of phi."""


def fit_squares(series: Floats) -> Fit:
    """Least squares over the pairs of neighbours; NaN figures below three pairs or without variation."""
    both = np.isfinite(series[:-1]) & np.isfinite(series[1:])
    x, y, n = series[:-1][both], series[1:][both], int(both.sum())
    # Both sides about their own means: with a level that is large against its moves (a rate at its floor),
    # products with the level itself would leave nothing but rounding of the slope.
    around, beyond = (x - x.mean(), y - y.mean()) if n else (x, y)
    spread = float(around @ around)
    if n < 3 or spread <= 1e-24 * float(x @ x):
        return Fit(n, *[np.nan] * 4)
    phi = float(around @ beyond) / spread
    intercept = float(y.mean() - phi * x.mean())
    squares = float(np.square(beyond - phi * around).sum())
    return Fit(n, phi, intercept, squares / n, float(np.sqrt(squares / (n - 2) / spread)))


def corrected(phi: Any, pairs: Any) -> Any:
    """Slope without the small-sample bias of least squares: ``(nφ + 1)/(n − 3)`` (Marriott, Pope 1954)."""
    return (pairs * phi + 1.0) / (pairs - 3.0)


def half_life_steps(phi: Any) -> Floats:
    """Return the steps in which a deviation halves; 0 for φ ≤ 0, inf for φ ≥ 1."""
    phi = np.asarray(phi, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(2.0) / np.abs(np.log(np.clip(phi, 0.0, 1.0))), dtype=np.float64)


def phi_interval(series: Floats, fit: Fit, *, level: float, resamples: int, seed: int) -> tuple[float, float]:
    """Return the ends of φ's interval per step: 0 where it reaches 0 or less, 1 where it reaches a unit root.

    Parameters
    ----------
    series
        Values on a regular grid, NaN where there is none.
    fit
        `fit_squares` of it.
    level
        Nominal coverage, 0.9.

    Notes
    -----
    B. E. Hansen (1999), "The grid bootstrap and the autoregressive model", Review of Economics and
    Statistics 81(4), 594-607.
    """
    reach = 5.0 * fit.stderr
    phis = np.linspace(
        min(max(fit.phi - reach, 1e-3), 0.9),
        min(max(fit.phi + reach + 10.0 / fit.pairs, 0.05), _TOP),
        _POINTS,
    )
    both = np.isfinite(series[:-1]) & np.isfinite(series[1:])
    residual = series[1:][both] - fit.intercept - fit.phi * series[:-1][both]
    residual = residual - residual.mean()
    noise, rng = residual / residual.std(), np.random.default_rng(seed)
    t_values = _t_values(_simulated(phis, both, noise, resamples, rng), phis)
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(t_values, [tail, 100.0 - tail], axis=1)
    observed = (fit.phi - phis) / fit.stderr
    above, below = observed - low, high - observed
    bottom = 0.0 if below[0] >= 0.0 else 1.0 - _last_zero(1.0 - phis[::-1], below[::-1])
    top = _last_zero(phis, above)
    return bottom, 1.0 if observed[-1] >= low[-1] and phis[-1] >= _TOP else top


def _simulated(phis: Floats, both: Bools, noise: Floats, resamples: int, rng: Any) -> Floats:
    """Return n, Σx, Σy, Σx², Σxy and Σy² of the pairs of each simulated series, over (φ, series)."""
    phi = phis[:, None]
    value = rng.standard_normal(resamples) / np.sqrt(1.0 - phi**2)
    sums = np.zeros((6, *value.shape))
    for counts in both:
        before = value
        value = phi * value + noise[rng.integers(0, noise.size, resamples)]
        if counts:
            parts = (1.0, before, value, before * before, before * value, value * value)
            for total, part in zip(sums, parts, strict=True):
                total += part
    return sums


def _t_values(sums: Floats, slopes: Floats) -> Floats:
    n, x, y, xx, xy, yy = sums
    spread, joint = xx - x * x / n, xy - x * y / n
    slope = joint / spread
    residual = np.maximum(yy - y * y / n - slope * joint, 1e-300)
    return np.asarray((slope - slopes[:, None]) / np.sqrt(residual / (n - 2.0) / spread))


def _last_zero(grid: Floats, values: Floats) -> float:
    """Find where values, falling on the whole, last cross zero; the ends of the grid if they never do."""
    positive = np.flatnonzero(values >= 0.0)
    if not positive.size:
        return float(grid[0])
    last = int(positive[-1])
    if last == grid.size - 1:
        return float(grid[-1])
    share = values[last] / (values[last] - values[last + 1])
    return float(grid[last] + share * (grid[last + 1] - grid[last]))
