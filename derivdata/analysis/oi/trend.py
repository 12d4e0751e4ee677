"""Trends of shares: the median slope, with an interval that autocorrelation does not fool."""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from scipy.special import ndtri

from derivdata._typing import Array
from derivdata.analysis.inputs import require_times
from derivdata.analysis.panels import hours, require_share
from derivdata.arguments import typed

_PAIRS = 1_000_000
_DAY_US = 86_400_000_000


@typed
def share_trend(
    share: xr.DataArray, *, ci: Literal["ar1", "iid"] = "ar1", confidence: float = 0.95
) -> xr.Dataset:
    """Estimate the slope of shares per day (Theil–Sen), with an interval that allows for autocorrelation.

    Parameters
    ----------
    share
        Fractions with a ``time`` dim.
    ci
        ``"ar1"`` inflates the variance of Kendall's S by (1 + φ)/(1 − φ), with φ of the detrended
        residuals; ``"iid"`` does not, and is far too narrow for shares that persist.
    confidence
        Nominal coverage of the interval.

    Returns
    -------
    Dataset
        ``slope``, ``low``, ``high`` [per day], ``phi`` and ``n`` over the other dims. NaN below three points.
        Above 3,000 points the median is over a million pairs drawn with a fixed seed.

    Raises
    ------
    ValueError
        No ``time`` dim, times that do not ascend without repeats, or an unknown `ci`.

    Notes
    -----
    Sen (1968), JASA 63:1379. The interval's order statistics follow Kendall's S with ties corrected. Without
    a trend a nominal 95 % covers, of 270 steps, 92 % at φ = 0.95, 90 % at 0.99 and 87 % of random walks; but
    50 % where noise of three times its shocks hides a φ of 0.95, which the first autocorrelation
    cannot see.
    """
    require_share(share, "time")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"{confidence=} is a probability: 0.95")
    if "time" in share.coords:
        require_times(share, "share")
        if share.sizes["time"]:
            hours(share, name="share")
    days = share["time"].values.astype("datetime64[us]").astype(np.int64) / _DAY_US
    slope, low, high, phi, count = xr.apply_ufunc(
        _theil_sen,
        share,
        input_core_dims=[["time"]],
        output_core_dims=[[]] * 5,
        kwargs={"x": days - days[:1], "inflate": ci == "ar1", "z": float(ndtri(0.5 + confidence / 2))},
        vectorize=True,
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64] * 5,
        dask_gufunc_kwargs={"allow_rechunk": True},
    )
    result = xr.Dataset({"slope": slope, "low": low, "high": high, "phi": phi, "n": count})
    for name in ("slope", "low", "high"):
        result[name].attrs["units"] = "1/day"
    return result.assign_attrs(ci=ci, confidence=confidence)


def _theil_sen(y: Array, *, x: Array, inflate: bool, z: float) -> tuple[float, float, float, float, float]:
    finite = np.isfinite(y)
    x, y = x[finite], y[finite]
    n = y.size
    if n < 3:
        return np.nan, np.nan, np.nan, np.nan, float(n)
    slopes = np.sort(_pair_slopes(x, y))
    if not slopes.size:  # all at one instant
        return np.nan, np.nan, np.nan, np.nan, float(n)
    slope = float(np.median(slopes))
    phi = _autocorrelation(y - slope * x) if inflate else 0.0
    _, ties = np.unique(y, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18
    spread = z * np.sqrt(variance * (1 + phi) / (1 - phi)) * slopes.size / (n * (n - 1) / 2)
    low = max(round((slopes.size - spread) / 2) - 1, 0)
    high = min(round((slopes.size + spread) / 2), slopes.size - 1)
    return slope, float(slopes[low]), float(slopes[high]), phi, float(n)


def _pair_slopes(x: Array, y: Array) -> Array:
    n = y.size
    if n <= 3000:
        i, j = np.triu_indices(n, 1)
    else:
        draw = np.random.default_rng(1968).integers(0, n, size=(2, _PAIRS))
        i, j = draw[:, draw[0] != draw[1]]
    run = x[j] - x[i]
    return np.asarray((y[j] - y[i])[run != 0] / run[run != 0])


def _autocorrelation(residuals: Array) -> float:
    """Return the lag-one autocorrelation, corrected for its bias in short series and kept in [0, 0.99]."""
    centred = residuals - residuals.mean()
    power = float(centred @ centred)
    n = residuals.size
    if power == 0.0 or n < 5:
        return 0.0
    phi = float(centred[1:] @ centred[:-1]) / power
    return float(np.clip((n * phi + 2) / (n - 4), 0.0, 0.99))
