"""Calendar arbitrage between the expiries of a surface."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.labelling import in_chunks, require_surface, with_units
from derivdata.analysis.surface.maturity import slices_at, take
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats

TOLERANCE = 1e-10
"""How far total variance may fall, in total variance, before it counts."""

_SLICES = 4096
_POINTS, _ZOOMS, _ZOOM_POINTS = 801, 4, 17
_FLOOR = 1e-3


@typed
def calendar_check(surface: xr.Dataset, *, k_limit: float = 100.0) -> xr.Dataset:
    """Check each expiry for calendar arbitrage against the one before it.

    Parameters
    ----------
    surface
        Any surface or set of smiles with dim ``expiry``, in any order of time.
    k_limit
        Total variance is compared for ``|k| <= k_limit``: on 801 points, dense at the money, then ever
        closer around the least gap.

    Returns
    -------
    Dataset over the surface's dims
        ``min_gap``, the least ``w − w_before``, and ``argmin_k``; both NaN for the first expiry. ``ok``:
        ``min_gap >= −1e-10``; True for the first expiry, False without a slice.
    """

    def check(part: xr.Dataset) -> xr.Dataset:
        return _checked(part, k_limit)

    require_surface(surface)
    bare = surface.drop_vars([name for name in surface.coords if name != "year_fraction"])
    checked = in_chunks(check, bare, most=_SLICES, whole=("expiry",))
    return checked.assign_coords({name: surface.coords[name] for name in surface.coords})


def _checked(surface: xr.Dataset, k_limit: float) -> xr.Dataset:
    later = surface.rename(expiry="later")
    usable = later["method"] > 0
    before = _before(surface["year_fraction"].reset_coords(drop=True), surface["method"] > 0)
    earlier = slices_at(surface, before.clip(0))
    paired = usable & (before >= 0)
    gap, where = _least_gap(earlier, later, k_limit)
    checked = xr.Dataset({"min_gap": gap.where(paired), "argmin_k": where.where(paired)})
    checked["ok"] = usable & (~paired | (gap >= -TOLERANCE))
    units = {"min_gap": "1", "argmin_k": "log-moneyness"}
    checked = with_units(checked.rename(later="expiry").reset_coords(drop=True), units)
    return checked.transpose(*surface["method"].dims)


def _before(t: xr.DataArray, usable: xr.DataArray) -> xr.DataArray:
    """Return the position of the usable expiry before each one, −1 without one, over dim ``later``."""
    predecessor: xr.DataArray = xr.apply_ufunc(
        previous,
        t,
        usable.reset_coords(drop=True),
        input_core_dims=[["expiry"], ["expiry"]],
        output_core_dims=[["later"]],
        dask="parallelized",
        output_dtypes=[np.int64],
        dask_gufunc_kwargs={"output_sizes": {"later": t.sizes["expiry"]}},
    )
    return predecessor.drop_vars("expiry", errors="ignore")


def previous(t: Floats, usable: Any) -> Any:
    """Return the position along the last axis of the usable expiry before each one, −1 without one."""
    earlier = usable[..., None, :] & (t[..., None, :] < t[..., :, None])
    last = np.where(earlier, t[..., None, :], -np.inf)
    return np.where(earlier.any(axis=-1), last.argmax(axis=-1), -1)


def _least_gap(earlier: xr.Dataset, later: xr.Dataset, k_limit: float) -> tuple[xr.DataArray, xr.DataArray]:
    width = np.sqrt(smile.total_variance(earlier, 0.0, extrapolate=True).clip(_FLOOR**2))
    end = np.arcsinh(k_limit / width)
    low, high = -end, end
    for points in (_POINTS, *[_ZOOM_POINTS] * _ZOOMS):
        share = xr.DataArray(np.linspace(0.0, 1.0, points), dims="point")
        u = low + (high - low) * share
        k = width * np.sinh(u)
        w0, w1 = (smile.total_variance(part, k, extrapolate=True) for part in (earlier, later))
        at = (w1 - w0).fillna(np.inf).argmin("point")
        place, step = take(u, at, dim="point"), (high - low) / (points - 1)
        low, high = np.maximum(place - step, -end), np.minimum(place + step, end)
    return take(w1 - w0, at, dim="point"), take(k, at, dim="point")
