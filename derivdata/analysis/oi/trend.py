"""Trends of shares: the median slope, with an interval that autocorrelation does not fool.

The variance of Kendall's S grows by the long-run variance of the residuals over their variance, 1 + 2 Σ ρ[k].
Of an autoregression that is (1 + φ)/(1 − φ), with φ the first autocorrelation. Two things hide persistence
from that one number, and each has its own estimate; the largest counts:

- a cycle of the day can make neighbours unlike: φ is taken of the residuals without their means by time of
  day, too;
- noise lowers all autocorrelations by one factor, and not the ratio of each to the one before it: where the
  first two are beyond chance, that ratio φ gives 1 + 2 ρ[1] / (1 − φ), as of an ARMA(1, 1).
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy.special import ndtri

from derivdata.analysis.inputs import require_times
from derivdata.analysis.panels import figures_of, hours, require_level, require_share
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array

_PAIRS = 1_000_000
_DAY_US = 86_400_000_000
_LEAST = 3
_ENOUGH = 8.0
"""Independent values from which an interval is trusted: with 6, one random walk in twelve passes for a trend
without a status, with 8 one in twenty; see the table in docs/market-structure.md."""
_RATIOS = 6
_LARGEST = 0.99
_ROUNDING = 1e-12


class TrendStatus(IntFlag):
    """Reasons; a status of 0 is a plain success."""

    TOO_FEW = 1 << 0
    """Fewer than three values: there is no slope."""
    CANNOT_TELL = 1 << 1
    """The values are worth fewer than eight independent ones: they may be a random walk without a trend."""


@typed
def share_trend(share: xr.DataArray, *, ci: Literal["ar1", "iid"] = "ar1", level: float = 0.95) -> xr.Dataset:
    """Estimate the slope of shares per day (Theil–Sen), with an interval that allows for autocorrelation.

    Parameters
    ----------
    share
        Fractions with a ``time`` dim.
    ci
        ``"ar1"`` inflates the variance of Kendall's S by (1 + φ)/(1 − φ), with φ of the detrended
        residuals, and by more where a cycle of the day or noise hides φ; ``"iid"`` does not, and is far too
        narrow for shares that persist.
    level
        Nominal coverage of the interval.

    Returns
    -------
    Dataset
        ``slope``, ``low``, ``high`` [per day], ``phi``, ``n``, ``n_effective`` (as many independent values
        would say as much of a trend) and ``status`` (`TrendStatus`) over the other dims. NaN below three
        points. ``cannot_tell``: ``n_effective`` is below 8, near a unit root, and an interval that leaves 0
        out may be chance. Above 3,000 points the median is over a million pairs drawn with a fixed seed.

    Raises
    ------
    ValueError
        No ``time`` dim, times that do not ascend without repeats, or an unknown `ci`.

    Notes
    -----
    Sen (1968), JASA 63:1379. The interval's order statistics follow Kendall's S with ties corrected. What it
    covers under persistence, cycles and noise is measured in docs/market-structure.md.
    """
    require_share(share, "time")
    require_level(level)
    if "time" in share.coords:
        require_times(share, "share")
        if share.sizes["time"]:
            hours(share, name="share")
    days = share["time"].values.astype("datetime64[us]").astype(np.int64) / _DAY_US
    slots = 1  # the steps of a day, whose means are a cycle, where they divide it and fill three
    if days.size >= 3:
        step = float(np.median(np.diff(days)))
        whole = round(1.0 / step)
        if whole > 1 and abs(whole * step - 1.0) < 1e-6 and days.size >= 3 * whole:
            slots = whole
    per_day, plain = dict.fromkeys(("slope", "low", "high"), "1/day"), ("phi", "n", "n_effective")
    result = figures_of(
        _theil_sen,
        share,
        units={**per_day, **dict.fromkeys(plain, "1"), "status": TrendStatus},
        vectorize=True,
        x=days - days[:1],
        slots=slots,
        inflate=ci == "ar1",
        z=float(ndtri(0.5 + level / 2)),
    )
    return result.assign_attrs(ci=ci, level=level)


def _theil_sen(y: Array, *, x: Array, slots: int, inflate: bool, z: float) -> tuple[Any, ...]:
    finite = np.isfinite(y)
    x, y = x[finite], y[finite]
    n = y.size
    slopes = np.sort(_pair_slopes(x, y)) if n >= _LEAST else np.empty(0)
    if not slopes.size:  # too few, or all at one instant
        return *[np.nan] * 4, float(n), np.nan, int(TrendStatus.TOO_FEW)
    slope = float(np.median(slopes))
    phi, inflation = _persistence(y, y - slope * x, x, slots) if inflate else (0.0, 1.0)
    _, ties = np.unique(y, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18
    spread = z * np.sqrt(variance * inflation) * slopes.size / (n * (n - 1) / 2)
    low = max(round((slopes.size - spread) / 2) - 1, 0)
    high = min(round((slopes.size + spread) / 2), slopes.size - 1)
    status = TrendStatus.CANNOT_TELL if inflate and n / inflation < _ENOUGH else TrendStatus(0)
    return slope, float(slopes[low]), float(slopes[high]), phi, float(n), n / inflation, int(status)


def _pair_slopes(x: Array, y: Array) -> Array:
    n = y.size
    if n <= 3000:
        i, j = np.triu_indices(n, 1)
    else:
        draw = np.random.default_rng(1968).integers(0, n, size=(2, _PAIRS))
        i, j = draw[:, draw[0] != draw[1]]
    run = x[j] - x[i]
    return np.asarray((y[j] - y[i])[run != 0] / run[run != 0])


def _persistence(y: Array, residuals: Array, days: Array, slots: int) -> tuple[float, float]:
    """Return φ of the residuals, corrected for its bias in short series, and the inflation of var S."""
    n, level = residuals.size, residuals - residuals.mean()
    if np.abs(level).max() <= _ROUNDING * np.abs(y).max():
        return 0.0, 1.0
    rho = _autocorrelations(level)
    phi = _corrected(rho[0], n, 2.0)
    if slots > 1:
        slot = np.rint(days * slots).astype(np.intp) % slots
        count = np.bincount(slot, minlength=slots)
        means = np.bincount(slot, weights=level, minlength=slots) / np.maximum(count, 1)
        phi = max(phi, _corrected(_autocorrelations(level - means[slot])[0], n, 2.0))
    inflation = (1.0 + phi) / (1.0 - phi)
    if min(rho[0], rho[1]) > 2.0 / np.sqrt(n):
        ratio = float(rho[1:] @ rho[:-1] / (rho[:-1] @ rho[:-1]))
        # The bias of the ratio is larger than that of ρ[1]: its correction is fitted to the simulations.
        inflation = max(inflation, 1.0 + 2.0 * rho[0] / (1.0 - _corrected(ratio, n, 5.0)))
    return phi, inflation


def _autocorrelations(centred: Array) -> Array:
    """Return those of lags 1 to 7, 0 of a series that does not move or is too short."""
    power = float(centred @ centred)
    lags = range(1, _RATIOS + 2)
    if power == 0.0 or centred.size < 5:
        return np.zeros(len(lags))
    return np.array([float(centred[lag:] @ centred[:-lag]) / power for lag in lags])


def _corrected(phi: float, n: int, bias: float) -> float:
    return float(np.clip((n * phi + bias) / (n - 4), 0.0, _LARGEST)) if n >= 5 else 0.0
