"""Surfaces along time: calendar arbitrage, forward variance and term structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.black76.kernels import DeltaKind
from derivdata.analysis.labelling import (
    applied,
    bare,
    in_chunks,
    previous,
    where,
    whole_surface,
    with_units,
)
from derivdata.analysis.smile.svi import parameter_names, slice_of, total_variance
from derivdata.analysis.status import Status
from derivdata.analysis.surface.clock import Clock
from derivdata.analysis.surface.maturity import Extrapolation, at_maturity
from derivdata.analysis.surface.points import (
    AtTheMoney,
    constant_maturity,
    points_at_expiries,
    require_points,
)
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats

TOLERANCE = 1e-10
"""How far total variance may fall, in total variance, before it counts."""

_SLICES = 4096
_POINTS = 801
_ZOOMS = 4
_ZOOM_POINTS = 17
_FLOOR = 1e-3
_FARTHEST = 100.0  # log-moneyness


@typed
def calendar_check(surface: xr.Dataset) -> xr.Dataset:
    """Check each expiry for calendar arbitrage against the one before it.

    Parameters
    ----------
    surface
        Any surface or set of smiles with dim ``expiry``, in any order of time.

    Returns
    -------
    Dataset over the surface's dims
        ``min_gap``, the least ``w − w_before`` for ``|k| ≤ 100``, and ``argmin_k``; NaN for the first
        expiry. ``ok``: ``min_gap >= −1e-10``; True for the first expiry, False without a slice.
    """
    surface = whole_surface(surface)
    bare = surface.drop_vars([name for name in surface.coords if name != "year_fraction"])

    def check(part: xr.Dataset) -> xr.Dataset:
        names = parameter_names(part)
        gap, place, ok = applied(
            _least_gaps,
            *(part["year_fraction"].reset_coords(drop=True), part["method"] > 0),
            *(part[name] for name in names),
            core=[["expiry"]] * (2 + len(names)),
            out=[["expiry"]] * 3,
            types=[np.float64, np.float64, np.bool_],
        )
        checked = xr.Dataset({"min_gap": gap, "argmin_k": place, "ok": ok}).reset_coords(drop=True)
        return with_units(
            checked.transpose(*part["method"].dims), {"min_gap": "1", "argmin_k": "log-moneyness"}
        )

    checked = in_chunks(check, bare, most=_SLICES, whole=("expiry",))
    return checked.assign_coords({name: surface.coords[name] for name in surface.coords})


def _least_gaps(t: Floats, usable: Bools, *raw: Floats) -> tuple[Floats, Floats, Bools]:
    """Find where each slice, along the last axis, rises least over that of the expiry before."""
    t, usable, *parts = np.broadcast_arrays(t, usable, *raw)
    before = previous(t, usable)
    later = slice_of([part[..., None] for part in parts])
    earlier = slice_of([np.take_along_axis(part, np.maximum(before, 0), -1)[..., None] for part in parts])
    width = np.sqrt(np.maximum(total_variance(0.0, earlier), _FLOOR**2))
    end = np.arcsinh(_FARTHEST / width)
    low = -end
    high = end
    for points in (_POINTS, *[_ZOOM_POINTS] * _ZOOMS):
        u = low + (high - low) * np.linspace(0.0, 1.0, points)
        k = width * np.sinh(u)
        rise = total_variance(k, later) - total_variance(k, earlier)
        at = np.where(np.isnan(rise), np.inf, rise).argmin(axis=-1)[..., None]
        place = np.take_along_axis(u, at, -1)
        step = (high - low) / (points - 1)
        low = np.maximum(place - step, -end)
        high = np.minimum(place + step, end)
    paired = usable & (before >= 0)
    gap, k = (np.where(paired, np.take_along_axis(part, at, -1)[..., 0], np.nan) for part in (rise, k))
    return gap, k, usable & (~paired | (gap >= -TOLERANCE))


@typed
def forward_variance(
    surface: xr.Dataset,
    near: Numbers,
    far: Numbers,
    *,
    log_moneyness: Numbers = 0.0,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute the variance per year that a surface holds between two times to expiry.

    Parameters
    ----------
    surface, extrapolate, clock
        As in `iv`.
    near, far
        Times to expiry [years]: numbers, 1-D arrays of one length (dim ``maturity``) or DataArrays.
    log_moneyness
        Where, at both times.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, then those of the times and of k
        ``variance`` [per year], ``(w(far) − w(near))/(far − near)``; ``vol``, its root [per √year];
        ``status``. Negative variance is NaN with ``CALENDAR``, never 0.

    Raises
    ------
    ValueError
        `near` is not before `far`; what `total_variance` raises.
    """
    times = [_plain(each, name) for each, name in ((near, "near"), (far, "far"))]
    if len({each.sizes["maturity"] for each in times if "maturity" in each.dims}) > 1:
        raise ValueError("near and far are not equally long")
    if not bool((times[0] < times[1]).all()):
        raise ValueError("near is not before far: both are times to expiry in years")
    cuts = [at_maturity(surface, t, extrapolate=extrapolate, clock=clock) for t in times]
    k = bare(log_moneyness, "log_moneyness")
    result = _between(*(cut.total_variance(k) for cut in cuts), *times)
    status = (cuts[0].status | cuts[1].status | result["status"]).astype(np.int32)
    return with_units(result.assign(status=status), {"variance": "1/year", "vol": "1/√year"})


@typed
def term_structure(
    surface: xr.Dataset,
    *,
    point: str = "atm",
    delta: DeltaKind = "forward",
    atm: AtTheMoney = "forward",
    interest_rate: float = 0.0,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Follow one point of the smile along the surface's own expiries, with the slope of the curve.

    Parameters
    ----------
    surface, clock
        As in `iv`; tenors between expiries depend on the clock.
    point, delta, atm, interest_rate
        A point of `constant_maturity` and its conventions.

    Returns
    -------
    Dataset over the surface's dims
        The point under the name that `constant_maturity` gives it [per √year]; ``total_variance`` at the
        forward; ``forward_variance`` [per year] and ``forward_vol`` [per √year] at the forward since the
        expiry before (the first: since now), NaN with ``CALENDAR`` where negative; ``status``. Without
        dim ``expiry``: ``slope_90d_30d``, the point at 90 less at 30 days, and ``ratio_7d_30d``, at 7 over
        30 days, NaN where a tenor lies beyond the last expiry.
    """
    surface = whole_surface(surface)
    require_points([point], "point")
    usable = surface["method"] > 0
    t = surface["year_fraction"].drop_vars("expiry", errors="ignore").reset_coords(drop=True)
    at_points = points_at_expiries(surface, [point], delta=delta, atm=atm, interest_rate=interest_rate)
    name = str(next(iter(at_points.data_vars)))
    w = smile.total_variance(surface, 0.0, extrapolate=True).reset_coords(drop=True)
    forward = _since(t, w.drop_vars("expiry", errors="ignore"))
    out = forward.assign({name: at_points[name], "total_variance": w}).where(usable)
    status = where(usable, at_points["status"], surface["status"]) | forward["status"]
    fixed = constant_maturity(
        surface, tenors=("7d", "30d", "90d"), points=[point], delta=delta, atm=atm,
        interest_rate=interest_rate, clock=clock,
    )[name]  # fmt: skip
    week, month, quarter = (fixed.isel(tenor=i, drop=True) for i in range(3))
    out = out.assign(status=status.astype(np.int32), slope_90d_30d=quarter - month, ratio_7d_30d=week / month)
    per_root = dict.fromkeys((name, "forward_vol", "slope_90d_30d"), "1/√year")
    units = {"forward_variance": "1/year", "total_variance": "1", "ratio_7d_30d": "1"} | per_root
    return with_units(out, units).assign_coords({each: surface.coords[each] for each in surface.coords})


def _between(near: xr.DataArray, far: xr.DataArray, start: Any, end: Any) -> xr.Dataset:
    variance = (far - near) / (end - start)
    falls = variance < 0.0
    variance = variance.where(~falls).rename(None)
    status = where(falls, np.int32(Status.CALENDAR), np.int32(0))
    return xr.Dataset({"variance": variance, "vol": np.sqrt(variance), "status": status})


def _since(t: xr.DataArray, w: xr.DataArray) -> xr.Dataset:
    """Return the forward variance at each expiry since the one before it that has a slice."""
    before = applied(_last, t, w, core=[["expiry"]] * 2, out=[["expiry"]] * 2, types=[np.float64] * 2)
    forward = _between(before[1], w, before[0], t)
    return forward.rename(variance="forward_variance", vol="forward_vol")


def _last(t: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return the time and total variance of the expiry before each one; 0 and 0 before the first."""
    t, w = np.broadcast_arrays(t, w)
    at = previous(t, np.isfinite(w))
    last = [np.where(at < 0, 0.0, np.take_along_axis(part, np.maximum(at, 0), -1)) for part in (t, w)]
    return last[0], last[1]


def _plain(value: Any, argument: str) -> xr.DataArray:
    """Return a time without a coordinate of its own, so that two of them line up by position."""
    if isinstance(value, xr.DataArray):
        return value
    return bare(value, "maturity", argument).drop_vars("maturity", errors="ignore")
