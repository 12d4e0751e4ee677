"""Calendar arbitrage between the expiries of a surface."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.labelling import applied, in_chunks, previous, require_surface, with_units
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats

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
    require_surface(surface)
    bare = surface.drop_vars([name for name in surface.coords if name != "year_fraction"])

    def check(part: xr.Dataset) -> xr.Dataset:
        gap, place, ok = applied(
            _least_gaps,
            *(part["year_fraction"].reset_coords(drop=True), part["method"] > 0),
            *(part[name] for name in Raw._fields),
            k_limit=k_limit,
            core=[["expiry"]] * 7,
            out=[["expiry"]] * 3,
            types=[np.float64, np.float64, np.bool_],
        )
        checked = xr.Dataset({"min_gap": gap, "argmin_k": place, "ok": ok}).reset_coords(drop=True)
        return with_units(
            checked.transpose(*part["method"].dims), {"min_gap": "1", "argmin_k": "log-moneyness"}
        )

    checked = in_chunks(check, bare, most=_SLICES, whole=("expiry",))
    return checked.assign_coords({name: surface.coords[name] for name in surface.coords})


def _least_gaps(t: Floats, usable: Bools, *raw: Floats, k_limit: float) -> tuple[Floats, Floats, Bools]:
    """Find where each slice, along the last axis, rises least over that of the expiry before."""
    t, usable, *parts = np.broadcast_arrays(t, usable, *raw)
    before = previous(t, usable)
    later = Raw(*(part[..., None] for part in parts))
    earlier = Raw(*(np.take_along_axis(part, np.maximum(before, 0), -1)[..., None] for part in parts))
    width = np.sqrt(np.maximum(total_variance(0.0, earlier), _FLOOR**2))
    end = np.arcsinh(k_limit / width)
    low, high = -end, end
    for points in (_POINTS, *[_ZOOM_POINTS] * _ZOOMS):
        u = low + (high - low) * np.linspace(0.0, 1.0, points)
        k = width * np.sinh(u)
        rise = total_variance(k, later) - total_variance(k, earlier)
        at = np.where(np.isnan(rise), np.inf, rise).argmin(axis=-1)[..., None]
        place, step = np.take_along_axis(u, at, -1), (high - low) / (points - 1)
        low, high = np.maximum(place - step, -end), np.minimum(place + step, end)
    paired = usable & (before >= 0)
    gap, k = (np.where(paired, np.take_along_axis(part, at, -1)[..., 0], np.nan) for part in (rise, k))
    return gap, k, usable & (~paired | (gap >= -TOLERANCE))
