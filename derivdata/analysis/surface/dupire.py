"""Local volatility of a surface, by Dupire's formula in closed form."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.black76.normalised import time_value
from derivdata.analysis.labelling import bare, origin_attrs, where, with_units
from derivdata.analysis.status import Status
from derivdata.analysis.surface.clock import Clock
from derivdata.analysis.surface.maturity import Extrapolation, Maturity, at_maturity
from derivdata.analysis.surface.mixture import mixture_of
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

_JUST_BEFORE = 1.0 - 1e-9
"""An expiry itself has two slopes in time: that of the interval which ends there counts."""
_ROOT_TAU = np.sqrt(2.0 * np.pi)


@typed
def local_volatility(
    surface: xr.Dataset,
    log_moneyness: Numbers,
    year_fraction: Numbers,
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute the local volatility at which a diffusion has the prices of a surface.

    Parameters
    ----------
    surface, log_moneyness, year_fraction, extrapolate, clock
        As in `iv`; k outside the quotes counts on the fitted wings. Events of a clock are jumps, which have
        no local variance.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, then those of T and of k
        ``local_variance`` [1/year] and ``local_vol``, its root [1/√year], NaN where it is not positive;
        ``status`` says why: ``CALENDAR`` where prices fall with time, ``BUTTERFLY`` where the density is
        not positive, ``EXTRAPOLATED`` outside the quotes, and where price and density are both below
        1e-290 (NaN), ``SHORT_EXTRAPOLATION`` and the rest as in `iv`.

    Raises
    ------
    ValueError
        What `total_variance` raises.

    Notes
    -----
    ``σ² = 2 ∂c/∂T / (x² ∂²c/∂x²)`` with the undiscounted call ``c`` over the forward at ``x = K/F(T)``
    (Dupire 1994); for one smile that is ``∂w/∂T / g(k)`` (Gatheral 2006, equation 1.10). At an expiry the
    slope in time is that of the interval before it: piecewise interpolation makes local variance jump there.

    Examples
    --------
    A term structure without smiles has the forward volatility as its local one:

    >>> flat = dd.analysis.surface.from_essvi([0.02, 0.05], [0.0, 0.0], [0.0, 0.0], [0.1, 0.2])
    >>> round(dd.analysis.surface.local_volatility(flat, 0.3, 0.15)["local_vol"].item(), 6)
    0.547723
    """
    t = bare(year_fraction, "maturity", "year_fraction")
    cut = at_maturity(surface, t * _JUST_BEFORE, extrapolate=extrapolate, clock=clock)
    k = bare(log_moneyness, "log_moneyness")
    mixture = mixture_of(cut)
    weighted = mixture.density(k, weighted=True)
    twice_slope = _slope_in_time(cut, k)
    variance = twice_slope / weighted
    positive = (twice_slope > 0.0) & (weighted > 0.0)
    vanished = (abs(twice_slope) < 1e-290) | (abs(weighted) < 1e-290)
    local = variance.where(positive & ~vanished)
    bits = [
        ((twice_slope <= 0.0) & ~vanished, Status.CALENDAR),
        ((weighted <= 0.0) & ~vanished, Status.BUTTERFLY),
        (vanished | (k < cut.k_min) | (k > cut.k_max), Status.EXTRAPOLATED),
    ]
    status = mixture.status
    for here, bit in bits:
        status = status | where(here & cut.share_before.notnull(), np.int32(bit), np.int32(0))
    result = xr.Dataset(
        {"local_variance": local, "local_vol": local**0.5, "status": status.astype(np.int32)}
    ).reset_coords(drop=True)
    if "maturity" in t.coords:
        result = result.assign_coords(maturity=t["maturity"])
    result = result.transpose(*weighted.dims)
    result = result.assign_attrs(origin_attrs(surface))
    return with_units(result, {"local_variance": "1/year", "local_vol": "1/sqrt(year)"})


def _slope_in_time(cut: Maturity, k: xr.DataArray) -> xr.DataArray:
    """Return ``2 ∂c/∂T`` at fixed k.

    Of one smile ``∂c/∂w = φ(d₁)/(2√w)``; of mixed prices ``c = α c₁ + (1 − α) c₂`` it is ``α' (c₁ − c₂)``.
    """
    both = cut.share_after > 0.0
    slopes = where(both, -cut.slope, cut.slope), where(both, cut.slope, 0.0)
    first, second = (_total_variance(part, k) for part in (cut.before, cut.after))
    linear = cut.share_before * first + (cut.share_after * second).where(cut.share_after > 0.0, 0.0)
    change = slopes[0] * first + (slopes[1] * second).where(slopes[1] != 0.0, 0.0)
    alone: xr.DataArray = _vega(k, linear) * change
    if not cut.mixes:
        return alone
    levels = [_total_variance(part, xr.zeros_like(cut.share_before)) for part in (cut.before, cut.after)]
    mixed_here = cut.price_share.notnull()
    middle = cut.share_before * levels[0] + cut.share_after * levels[1]
    rate = -(slopes[0] * levels[0] + slopes[1] * levels[1]) / (2.0 * np.sqrt(middle))
    rate = (rate / (np.sqrt(levels[1]) - np.sqrt(levels[0]))).where(mixed_here)
    mixed = 2.0 * rate * _difference(k, first, second)
    result: xr.DataArray = mixed.where(mixed_here, alone)
    return result


def _difference(k: xr.DataArray, first: xr.DataArray, second: xr.DataArray) -> xr.DataArray:
    """Return the call over the forward by one total variance less that by another, by time values alone."""
    difference: xr.DataArray = xr.apply_ufunc(
        _time_values, k, first, second, dask="parallelized", output_dtypes=[np.float64]
    )
    return difference


def _time_values(k: Floats, first: Floats, second: Floats) -> Floats:
    x, w1, w2 = (part.ravel() for part in np.broadcast_arrays(k, first, second))
    out = np.full(x.shape, np.nan)
    at = np.flatnonzero((w1 > 0.0) & (w2 > 0.0) & np.isfinite(x))
    size = np.abs(x[at])
    values = [time_value(size, np.sqrt(w[at])) for w in (w1, w2)]
    out[at] = np.exp(x[at] / 2.0) * (values[0] - values[1])
    return out.reshape(np.broadcast_shapes(np.shape(k), np.shape(first), np.shape(second)))


def _total_variance(fit: xr.Dataset, k: xr.DataArray) -> xr.DataArray:
    return smile.total_variance(fit, k, extrapolate=True).reset_coords(drop=True)


def _vega(k: xr.DataArray, w: xr.DataArray) -> xr.DataArray:
    """``φ(d₁)/√w``, twice the derivative of the call over the forward in its total variance."""
    root = np.sqrt(w.where(w > 0.0))
    d1 = -k / root + root / 2.0
    vega: xr.DataArray = np.exp(-0.5 * d1**2) / (_ROOT_TAU * root)
    return vega
