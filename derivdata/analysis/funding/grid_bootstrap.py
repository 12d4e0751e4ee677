"""Confidence interval of an autoregression by test inversion: the grid bootstrap (Hansen 1999).

Near a unit root the usual interval around φ covers far too little. Here every φ of a grid is tested: series
with that φ are simulated from the resampled residuals, and it stays in the interval if the t-statistic of
the data is not extreme among theirs. Gaps of the data are gaps of the simulations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.analysis.funding.ar1 import Fit, decay
from derivdata.support.arrays import Bools, Floats

__all__ = ["phi_interval"]

_POINTS = 24
_TOP = 1.0 - 1e-6  # stands for a unit root, with a start that is still drawn from somewhere


def phi_interval(
    series: Floats, fit: Fit, *, level: float, resamples: int, seed: int, means: bool
) -> tuple[float, float]:
    """Return the ends of φ's interval per step: 0 where it reaches 0 or less, 1 where it reaches a unit root.

    Parameters
    ----------
    series
        Values on a regular grid, NaN where there is none.
    fit
        `derivdata.analysis.funding.ar1.fit_squares` of it.
    level
        Nominal coverage, 0.9.
    means
        Whether values are means over their steps.

    Notes
    -----
    B. E. Hansen (1999), "The grid bootstrap and the autoregressive model", Review of Economics and
    Statistics 81(4), 594-607. With `means` the simulations are Gaussian, as residuals of means are not the
    process's own.
    """
    reach = 5.0 * fit.stderr
    slopes = np.linspace(
        min(max(fit.phi - reach, 1e-3), 0.9),
        min(max(fit.phi + reach + 10.0 / fit.pairs, 0.05), _TOP),
        _POINTS,
    )
    phis = decay(slopes) if means else slopes
    both = np.isfinite(series[:-1]) & np.isfinite(series[1:])
    noise = _noise(series, fit, both, means)
    rng = np.random.default_rng(seed)
    simulated = (_simulated_means if means else _simulated)(phis, both, noise, resamples, rng)
    t_values = _t_values(simulated, slopes)
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(t_values, [tail, 100.0 - tail], axis=1)
    observed = (fit.phi - slopes) / fit.stderr
    above, below = observed - low, high - observed
    bottom = 0.0 if below[0] >= 0.0 else 1.0 - _last_zero(1.0 - phis[::-1], below[::-1])
    top = _last_zero(phis, above)
    return bottom, 1.0 if observed[-1] >= low[-1] and slopes[-1] >= _TOP else top


def _noise(series: Floats, fit: Fit, both: Bools, means: bool) -> Floats:
    if means:
        return np.empty(0)
    residual = series[1:][both] - fit.intercept - fit.phi * series[:-1][both]
    residual = residual - residual.mean()
    return np.asarray(residual / residual.std())


def _simulated(phis: Floats, both: Bools, noise: Floats, resamples: int, rng: Any) -> Floats:
    phi = phis[:, None]
    value = rng.standard_normal(resamples) / np.sqrt(1.0 - phi**2)
    sums = np.zeros((6, *value.shape))
    for counts in both:
        before = value
        value = phi * value + noise[rng.integers(0, noise.size, resamples)]
        if counts:
            _add(sums, before, value)
    return sums


def _simulated_means(phis: Floats, both: Bools, _noise: Floats, resamples: int, rng: Any) -> Floats:
    """Step means of an Ornstein-Uhlenbeck process of unit variance, drawn exactly."""
    phi = phis[:, None]
    kappa, fall = -np.log(phi), 1.0 - phi
    end_sd = np.sqrt(1.0 - phi**2)
    shared = fall**2 / kappa / end_sd
    mean_variance = (2.0 / kappa) * (1.0 - 2.0 * fall / kappa + (1.0 - phi**2) / (2.0 * kappa))
    own = np.sqrt(np.maximum(mean_variance - shared**2, 0.0))
    state = np.broadcast_to(rng.standard_normal(resamples), (phis.size, resamples))
    sums = np.zeros((6, *state.shape))
    value = np.zeros(state.shape)
    for counts in np.append(False, both):
        first, second = rng.standard_normal((2, resamples))
        before = value
        value = state * (fall / kappa) + shared * first + own * second
        state = phi * state + end_sd * first
        if counts:
            _add(sums, before, value)
    return sums


def _add(sums: Floats, before: Floats, value: Floats) -> None:
    sums[0] += 1.0
    sums[1] += before
    sums[2] += value
    sums[3] += before * before
    sums[4] += before * value
    sums[5] += value * value


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
