"""Surfaces evaluated: volatility, and total variance, at any log-moneyness and time."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.black76.inversion import deviation
from derivdata.analysis.black76.normalised import time_value
from derivdata.analysis.surface.labelling import bare
from derivdata.analysis.surface.maturity import Extrapolation, Maturity, at_maturity
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats


@typed
def iv(
    surface: xr.Dataset,
    log_moneyness: Numbers,
    year_fraction: Numbers,
    *,
    extrapolate: Extrapolation | None = None,
    wings: bool = False,
) -> xr.DataArray:
    """Evaluate the implied volatility [per √year] anywhere on a surface; total variance is ``w = iv² T``.

    At the surface's own expiries `derivdata.analysis.smile.iv` says the same without looking for neighbours.

    Parameters
    ----------
    surface
        Result of `fit`, of `from_essvi`, or of `derivdata.analysis.smile.fit` with dim ``expiry``.
    log_moneyness
        ``ln(K/F(T))``: a number, a 1-D array (dim ``log_moneyness``) or a DataArray.
    year_fraction
        Time to expiry [years]: a number, a 1-D array (dim ``maturity``) or a DataArray without dim
        ``expiry``.
    extrapolate
        Beyond the last expiry: None gives NaN, ``"flat_vol"`` holds its volatility at each k. Before the
        first expiry its volatility is always held.
    wings
        Whether to go on outside the log-moneyness of the quotes, whose ends are interpolated linearly in
        T. If not, those points are NaN.

    Returns
    -------
    DataArray over the surface's dims without ``expiry``, then those of T and of k
        NaN where no expiry has a slice, total variance is negative or no time is left. Lazy if the surface
        is.

    Raises
    ------
    ValueError
        Unknown extrapolation; `year_fraction` has dim ``expiry``.
    TypeError
        A bare array has more than one dimension.

    Notes
    -----
    Between two expiries w is linear in T at equal k: calendar-free where the expiries are, and a flat
    surface stays flat. That no butterfly lies between is checked of each pair; where one would, prices are
    mixed as in lemma 5.1 of Gatheral and Jacquier (2014), and results with a ``status`` say ``PRICES_MIXED``.
    """
    k, t = bare(log_moneyness, "log_moneyness"), bare(year_fraction, "maturity", "year_fraction")
    cut = at_maturity(surface, t, extrapolate=extrapolate)
    w = variance_at(cut, k)
    found = volatility(w if wings else w.where((cut.k_min <= k) & (k <= cut.k_max)), t)
    return found.rename("iv").assign_attrs(units="1/sqrt(year)")


def volatility(w: xr.DataArray, t: xr.DataArray) -> xr.DataArray:
    """``√(w/T)``, NaN where w is negative or no time is left."""
    return (w / t).where((w >= 0.0) & (t > 0.0)) ** 0.5


def variance_at(cut: Maturity, k: Any) -> xr.DataArray:
    """Return the total variance of a cut at any log-moneyness, in the wings too."""
    first, second = (smile.total_variance(part, k, extrapolate=True) for part in (cut.before, cut.after))
    # Beyond the last expiry, and before the first, the second slice has no share.
    linear: xr.DataArray = cut.share_before * first + cut.share_after * second
    if not cut.mixes:
        return linear
    mixed: xr.DataArray = xr.apply_ufunc(
        _mix,
        *(bare(k, "log_moneyness"), first, second, cut.price_share),
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    return mixed.transpose(*first.dims).fillna(linear)


def _mix(k: Floats, first: Floats, second: Floats, share: Floats) -> Floats:
    """Time values over √(FK) are mixed: at equal k they are the prices over the strike up to one factor."""
    full = np.broadcast_arrays(np.abs(k), first, second, share)
    x, w1, w2, alpha = (part.ravel() for part in full)
    good = (w1 > 0.0) & (w2 > 0.0) & np.isfinite(x + alpha)
    x, alpha = x[good], alpha[good]
    mixed = alpha * time_value(x, np.sqrt(w1[good])) + (1.0 - alpha) * time_value(x, np.sqrt(w2[good]))
    out = np.full(good.shape, np.nan)
    seen = mixed > 0.0
    out[np.flatnonzero(good)[seen]] = deviation(x[seen], mixed[seen]).s ** 2
    return out.reshape(full[0].shape)
