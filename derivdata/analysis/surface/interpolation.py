"""Surfaces evaluated: volatility, and total variance, at any log-moneyness and time."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.black76.inversion import deviation
from derivdata.analysis.black76.normalised import time_value
from derivdata.analysis.labelling import bare
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.analysis.surface.clock import Clock
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
    clock: Clock | None = None,
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
    clock
        How variance grows between expiries and before the first; None: evenly. A number is what an hour of a
        weekend (Saturday 00:00 to Monday 00:00 UTC) counts relative to another, 0.5 on many days. Or a
        mapping with any of ``weekend_weight``; ``events``, a mapping from instants to what each adds to total
        variance; and ``averaging``, over how long before expiry the venue averages its settlement price
        (Deribit: ``"30min"``; ``dd.venues.facts``), whose variance falls away as it is fixed. Or what
        `derivdata.analysis.business_time.fit` gave. All but None need instants along ``expiry``.

    Returns
    -------
    DataArray over the surface's dims without ``expiry``, then those of T and of k
        NaN where no expiry has a slice, total variance is negative or no time is left. Lazy if the surface
        is.

    Raises
    ------
    ValueError
        Unknown extrapolation; `year_fraction` has dim ``expiry``; a clock that cannot be, or of a surface
        without instants.
    TypeError
        A bare array has more than one dimension.

    Notes
    -----
    Between two expiries w is linear in T at equal k: calendar-free where the expiries are, and a flat
    surface stays flat. That no butterfly lies between is checked of each pair; where one would, prices are
    mixed as in lemma 5.1 of Gatheral and Jacquier (2014), and results with a ``status`` say ``PRICES_MIXED``.
    With a clock w is as linear in business time, an event between the two aside, which adds its variance at
    its instant (all that there is where it is said to add more; ``CALENDAR``). The share of the later expiry
    is that of the variance at the money, and one for all k.
    """
    k, t = bare(log_moneyness, "log_moneyness"), bare(year_fraction, "maturity", "year_fraction")
    cut = at_maturity(surface, t, extrapolate=extrapolate, clock=clock)
    w = variance_at(cut, k)
    found = volatility(w if wings else w.where((cut.k_min <= k) & (k <= cut.k_max)), t)
    return found.rename("iv").assign_attrs(units="1/sqrt(year)")


def volatility(w: xr.DataArray, t: xr.DataArray) -> xr.DataArray:
    """``√(w/T)``, NaN where w is negative or no time is left."""
    return (w / t).where((w >= 0.0) & (t > 0.0)) ** 0.5


def variance_at(cut: Maturity, k: Any) -> xr.DataArray:
    """Return the total variance of a cut at any log-moneyness, in the wings too."""
    w: xr.DataArray = xr.apply_ufunc(
        cut_variance,
        bare(k, "log_moneyness"),
        *cut.parameters,
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    return w.transpose(*cut.share_before.dims, ...)


def cut_variance(
    k: Floats, share_before: Floats, share_after: Floats, price_share: Floats, *parameters: Floats
) -> Floats:
    """Return total variance at k of slices around a time, from `Maturity.parameters`."""
    first, second = (total_variance(k, Raw(*part)) for part in (parameters[:5], parameters[5:]))
    # Beyond the last expiry, and before the first, the second slice has no share.
    linear: Floats = share_before * first + share_after * second
    if not np.isfinite(price_share).any():
        return linear
    mixed = _mix(k, first, second, price_share)
    return np.where(np.isnan(mixed), linear, mixed)


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
