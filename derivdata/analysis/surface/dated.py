"""A surface at a strike and a date, as options are asked for: volatility, delta, forward."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76
from derivdata.analysis.black76.kernels import DeltaKind
from derivdata.analysis.inputs import require_variables
from derivdata.analysis.labelling import bare, origin_attrs, where, with_units
from derivdata.analysis.status import Status
from derivdata.analysis.surface.clock import YEAR_US, Clock, origin_us
from derivdata.analysis.surface.interpolation import variance_at, volatility
from derivdata.analysis.surface.maturity import Extrapolation, Maturity, at_maturity
from derivdata.analysis.surface.points import at_delta
from derivdata.support import times
from derivdata.support.arguments import Numbers, typed

_UNITS = {
    "forward": "USD",
    "strike_usd": "USD",
    "log_moneyness": "log-moneyness",
    "iv": "1/sqrt(year)",
    "delta": "1",
    "year_fraction": "years",
}


@typed
def at(
    surface: xr.Dataset,
    expiry: Any,
    *,
    strike: Numbers | None = None,
    target_delta: Numbers | None = None,
    side: Literal["call", "put"] | None = None,
    delta: DeltaKind = "forward",
    interest_rate: float = 0.0,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Evaluate a surface at any expiry, listed or not: the forward, and an option's volatility and delta.

    Parameters
    ----------
    surface
        As in `iv`; with coordinate ``forward``, unless only deltas are asked for.
    expiry
        An instant, several of them (dim ``expiry``), or a DataArray of instants; or times to expiry
        [years] as in `iv`, for surfaces without instants too.
    strike, target_delta
        Which options: by strike [USD], or by delta, positive of a call and negative of a put: a number, a
        1-D array (dim ``strike`` or ``target_delta``) or a DataArray. None of both is at the forward.
    side
        Whose delta is given; None: of the option out of the money, or of the sign of `target_delta`.
    delta, interest_rate
        Convention of delta, as in `constant_maturity`.
    extrapolate, clock
        As in `iv`.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, then those of the expiries and of the options
        ``forward`` [USD], its logarithm linear in time between expiries and that of the nearest beyond;
        ``strike_usd`` (NaN without a forward), ``log_moneyness``, ``iv`` [per √year], ``delta`` [1] and
        ``year_fraction`` [years]. Of several options with the delta, that nearest the money, or of
        premium-adjusted calls that of the highest strike; NaN with ``DELTA_UNREACHABLE`` where none within 40
        deviations has it. ``EXTRAPOLATED`` where the strike lies outside the quotes, whose wings then count,
        and what `constant_maturity` says.

    Raises
    ------
    ValueError
        Both a strike and a delta; a strike of a surface without forwards; instants of one without
        instants; as in `iv`.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> option = dd.analysis.surface.at(surface, "2026-08-07T08:00Z", strike=120_000.0)
    >>> [round(option[name].item(), 3) for name in ("iv", "delta")]
    [0.445, 0.301]
    """
    if strike is not None and target_delta is not None:
        raise ValueError("strike and target_delta are given: an option has one of the two")
    years = _years(surface, expiry)
    cut = at_maturity(surface, years, extrapolate=extrapolate, clock=clock)
    forward = forward_of(cut)
    wanted = None if target_delta is None else bare(target_delta, "target_delta")
    if strike is not None:
        require_variables(surface, "surface", ("forward",))
        ratio: Any = bare(strike, "strike") / forward
        k = np.log(ratio)
    elif wanted is not None:
        k = at_delta(cut, wanted, delta, interest_rate).where(wanted.notnull())
    else:
        k = xr.zeros_like(forward).where(cut.share_before.notnull())
    vol = volatility(variance_at(cut, k), cut.year_fraction)
    k = k * xr.ones_like(vol)
    out_of_the_money = where(k < 0.0, "put", "call") if wanted is None else where(wanted < 0.0, "put", "call")
    greek = black76.greeks(
        1.0, np.exp(k), cut.year_fraction, vol, out_of_the_money if side is None else side,
        which=("delta",), delta=delta, interest_rate=interest_rate,
    )  # fmt: skip
    status = cut.status | cut.before["status"] | cut.after["status"]
    there = cut.share_before.notnull()
    outside = there & ((k < cut.k_min) | (k > cut.k_max))
    lost = there & k.isnull() & (wanted is not None)
    for here, bit in ((outside, Status.EXTRAPOLATED), (lost, Status.DELTA_UNREACHABLE)):
        status = status | where(here, np.int32(bit), np.int32(0))
    parts = {
        "forward": forward, "strike_usd": forward * np.exp(k), "log_moneyness": k, "iv": vol,
        "delta": greek["delta"], "year_fraction": years, "status": status.astype(np.int32),
    }  # fmt: skip
    found = xr.Dataset({name: part.drop_attrs() for name, part in parts.items()})
    labels = found.transpose(*vol.dims).rename(instant="expiry") if "instant" in found.dims else found
    return with_units(labels.assign_attrs(origin_attrs(surface)), _UNITS)


def forward_of(cut: Maturity) -> xr.DataArray:
    """Return the forward of a cut [USD], NaN where the surface has none."""
    if "forward" not in cut.before:
        return xr.full_like(cut.share_before, np.nan)
    (t0, f0), (t1, f1) = (
        [part[name] for name in ("year_fraction", "forward")] for part in (cut.before, cut.after)
    )
    apart = t1 > t0
    share = ((cut.year_fraction - t0) / (t1 - t0).where(apart, 1.0)).where(apart, 0.0)
    first: Any = np.log(f0)
    forward: Any = np.exp(first + share * (np.log(f1) - first))
    known: xr.DataArray = forward.transpose(*cut.share_before.dims)
    return known


def _years(surface: xr.Dataset, expiry: Any) -> xr.DataArray:
    """Return times to expiry; of several instants over ``instant``, which is labelled by them."""
    kind = getattr(expiry, "dtype", None)
    if isinstance(expiry, xr.DataArray):
        instants = expiry.rename(expiry="instant") if "expiry" in expiry.dims else expiry
        if instants.dtype.kind != "M":
            return bare(expiry, "maturity", "expiry")
    elif isinstance(expiry, int | float) or (kind is not None and getattr(kind, "kind", "") in "iuf"):
        return bare(expiry, "maturity", "expiry")
    elif isinstance(expiry, str | pd.Timestamp | np.datetime64) or not hasattr(expiry, "__iter__"):
        instants = xr.DataArray(times.instant(expiry, "expiry").tz_localize(None).to_datetime64())
    else:
        stamps = [times.instant(each, "expiry").tz_localize(None) for each in expiry]
        label = np.array(stamps, dtype="datetime64[us]")
        instants = xr.DataArray(label, {"instant": label}, ["instant"])
    return years_until(surface, instants)


def years_until(surface: xr.Dataset, instants: xr.DataArray, argument: str = "surface") -> xr.DataArray:
    """Return the time from a surface's instant to others [years]; what rounding leaves of none is 0."""
    at_us = instants.astype("datetime64[us]").astype(np.int64).astype(np.float64)
    years = (at_us - origin_us(surface, argument)).reset_coords(drop=True) / YEAR_US
    return years.where(abs(years) > 1e-12, 0.0)
