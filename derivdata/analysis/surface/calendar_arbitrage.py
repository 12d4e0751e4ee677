"""Calendar arbitrage between the expiries of a surface."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.inputs import require_variables
from derivdata.analysis.surface.chunks import in_chunks
from derivdata.analysis.surface.essvi_parameters import NATURAL
from derivdata.analysis.surface.labelling import require_surface, with_units
from derivdata.analysis.surface.maturity import slices_at, take
from derivdata.analysis.surface.ssvi_problem import Floats
from derivdata.support.arguments import typed

__all__ = ["TOLERANCE", "calendar_check", "pair_conditions", "previous"]

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
        ``min_gap >= −1e-10``; True for the first expiry, False without a slice. For surfaces with θ, ρ, ψ
        also `pair_conditions`: ``necessary``, ``s1``, ``s2`` and ``free``, booleans, True for the first.
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
    if all(name in surface for name in NATURAL):
        for name, holds in pair_conditions(earlier, later).items():
            checked[name] = usable & (~paired | holds)
    units = {"min_gap": "1", "argmin_k": "log-moneyness"}
    checked = with_units(checked.rename(later="expiry").reset_coords(drop=True), units)
    return checked.transpose(*surface["method"].dims)


@typed
def pair_conditions(earlier: xr.Dataset, later: xr.Dataset) -> xr.Dataset:
    """Return closed conditions under which the later of two SSVI slices lies nowhere below the earlier.

    Parameters
    ----------
    earlier, later
        Datasets with ``theta``, ``rho``, ``psi``.

    Returns
    -------
    Dataset of booleans
        ``necessary``: ``θ₂ >= θ₁`` and ``ψ₂ − ψ₁ >= |ρ₂ψ₂ − ρ₁ψ₁|``. ``s1``: ``ψ₂/θ₂ <= ψ₁/θ₁``. ``s2``:
        ``(ρ₂ψ₂ − ρ₁ψ₁)² <= (θ₂ − θ₁)(ψ₂²/θ₂ − ψ₁²/θ₁)``. ``free``: `necessary` and `s1` or `s2`. False
        where a parameter is NaN. Each holds up to rounding (1e-12 relative).

    Notes
    -----
    Hendriks and Martini, proposition 3.1, as corrected by Pasquazzi (arXiv:2304.02106). A pair that is free
    by `s2` alone may cross when (θ, ψ, ρψ) are interpolated linearly in between.
    """
    for name, part in (("earlier", earlier), ("later", later)):
        require_variables(part, name, NATURAL)
    (t1, r1, p1), (t2, r2, p2) = ([part[name] for name in NATURAL] for part in (earlier, later))
    slack = 1e-12
    turn = r2 * p2 - r1 * p1
    spread = p2**2 / t2 - p1**2 / t1
    necessary = (t2 - t1 >= -slack * t2) & (p2 - p1 - np.abs(turn) >= -slack * p2)
    s1 = p2 * t1 <= p1 * t2 * (1.0 + slack)
    s2 = turn**2 <= (t2 - t1) * spread
    return xr.Dataset({"necessary": necessary, "s1": s1, "s2": s2, "free": necessary & (s1 | s2)})


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
