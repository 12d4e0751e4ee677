"""A surface cut at any time to expiry: the slices around it, their shares, and total variance on them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.smile.essvi import ssvi_to_raw
from derivdata.analysis.status import Status
from derivdata.analysis.surface.labelling import NATURAL, bare, require_surface
from derivdata.support.arrays import Floats

__all__ = ["Extrapolation", "Interpolation", "Maturity", "at_maturity", "slices_at", "take"]

Interpolation = Literal["essvi", "linear_w", "gj_price"]
Extrapolation = Literal["flat_vol"]


class Maturity(NamedTuple):
    """A surface cut at given times to expiry: the slices before and after, their shares, and what was done.

    With ``interpolation == "essvi"`` there is one slice, `before`, and the shares are already in it.
    """

    before: xr.Dataset
    after: xr.Dataset
    share_before: xr.DataArray
    share_after: xr.DataArray
    year_fraction: xr.DataArray
    k_min: xr.DataArray
    k_max: xr.DataArray
    status: xr.DataArray
    interpolation: Interpolation


def at_maturity(
    surface: xr.Dataset,
    year_fraction: Any,
    *,
    interpolation: Interpolation | None = None,
    extrapolate: Extrapolation | None = None,
) -> Maturity:
    """Cut a surface at given times; parameters as in `derivdata.analysis.surface.total_variance`."""
    require_surface(surface)
    t = bare(year_fraction, "maturity", "year_fraction")
    chosen = _interpolation(surface, interpolation)
    if "expiry" in t.dims:
        raise ValueError(
            "year_fraction has dim expiry, which is the surface's own: rename it, or evaluate the surface "
            "at its expiries with derivdata.analysis.smile"
        )
    place = _bracket(surface, t, flat_beyond=extrapolate is not None)
    before, after = (slices_at(surface, place[name]) for name in ("at_before", "at_after"))
    shares = place["share_before"], place["share_after"]
    k_min, k_max = (_mixed(before[name], after[name], *shares) for name in ("k_min", "k_max"))
    if chosen == "essvi":
        before = _natural_slice(before, after, *shares)
    return Maturity(before, after, *shares, t, k_min, k_max, place["status"], chosen)


def _bracket(surface: xr.Dataset, t: xr.DataArray, *, flat_beyond: bool) -> xr.Dataset:
    """Tell which expiries lie around each time, and the share of each in total variance."""
    names = ("at_before", "at_after", "share_before", "share_after", "status")
    outputs = xr.apply_ufunc(
        _around,
        surface["year_fraction"],
        surface["method"] > 0,
        t,
        kwargs={"flat_beyond": flat_beyond},
        input_core_dims=[["expiry"], ["expiry"], []],
        output_core_dims=[[]] * len(names),
        dask="parallelized",
        output_dtypes=[np.int64, np.int64, np.float64, np.float64, np.int32],
    )
    return xr.Dataset({name: part.reset_coords(drop=True) for name, part in zip(names, outputs, strict=True)})


def _around(expiries: Floats, usable: Any, t: Floats, *, flat_beyond: bool) -> tuple[Any, ...]:
    t = np.asarray(t)[..., None]
    earlier = np.where(usable & (expiries <= t), expiries, -np.inf)
    later = np.where(usable & (expiries >= t), expiries, np.inf)
    before, after = earlier.argmax(axis=-1)[..., None], later.argmin(axis=-1)[..., None]
    t0, t1 = np.take_along_axis(earlier, before, -1), np.take_along_axis(later, after, -1)
    has_before, has_after = np.isfinite(t0), np.isfinite(t1)
    none = ~has_before & ~has_after
    early, late = has_after & ~has_before, has_before & ~has_after
    before, after = np.where(early, after, before), np.where(late, before, after)
    nearest = np.where(early, t1, t0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(t1 > t0, (t - t0) / (t1 - t0), 0.0)
        scale = np.where(early | late, t / nearest, 1.0)
    refused = none | (t <= 0.0) | np.isnan(t) | (late & (not flat_beyond))
    share_after = np.where(early | late | refused, 0.0, share)
    share_before = np.where(refused, np.nan, scale - share_after)
    status = _said((early, Status.SHORT_EXTRAPOLATION), (late, Status.EXTRAPOLATED))
    status |= _said((none | np.isnan(t), Status.BAD_INPUT), (t <= 0.0, Status.EXPIRED))
    return tuple(part[..., 0] for part in (before, after, share_before, share_after, status))


def _said(*flags: tuple[Any, Status]) -> NDArray[np.int32]:
    """Return the status that these conditions make."""
    status = np.zeros(np.shape(flags[0][0]), np.int32)
    for here, bit in flags:
        status |= np.where(here, np.int32(bit), np.int32(0))
    return status


def slices_at(surface: xr.Dataset, at: xr.DataArray) -> xr.Dataset:
    """Return the slice of each surface at an expiry's position."""
    picked: dict[Hashable, xr.DataArray] = {}
    for name, part in surface.drop_vars("expiry", errors="ignore").variables.items():
        if "expiry" in part.dims:
            picked[name] = take(surface[name].reset_coords(drop=True), at, dim="expiry")
    return xr.Dataset(picked, attrs=surface.attrs)


def take(values: xr.DataArray, at: xr.DataArray, *, dim: str) -> xr.DataArray:
    """`values` at a position of `dim` that differs from label to label; lazy if either is."""
    taken: xr.DataArray = xr.apply_ufunc(
        _take,
        values,
        at,
        input_core_dims=[[dim], []],
        dask="parallelized",
        output_dtypes=[values.dtype],
    )
    return taken


def _take(values: Any, at: Any) -> Any:
    shape = np.broadcast_shapes(values.shape[:-1], at.shape)
    full = np.broadcast_to(values, (*shape, values.shape[-1]))
    return np.take_along_axis(full, np.broadcast_to(at, shape)[..., None], -1)[..., 0]


def _mixed(first: xr.DataArray, second: xr.DataArray, *shares: xr.DataArray) -> xr.DataArray:
    mixed: xr.DataArray = xr.apply_ufunc(
        _mix, first, second, *shares, dask="parallelized", output_dtypes=[np.float64]
    )
    return mixed


def _mix(first: Floats, second: Floats, share_before: Floats, share_after: Floats) -> Floats:
    """Mix linearly in T between two expiries, take the nearest beyond them; NaN where the cut is."""
    with np.errstate(invalid="ignore"):  # the values may be infinite
        between = (1.0 - share_after) * first + share_after * second
    mixed = np.where(share_after == 0.0, first, between)
    return np.where(np.isnan(share_before), np.nan, mixed)


def _natural_slice(
    before: xr.Dataset, after: xr.Dataset, share_before: xr.DataArray, share_after: xr.DataArray
) -> xr.Dataset:
    ends = [part.assign(tilt=part["rho"] * part["psi"]) for part in (before, after)]
    theta, tilt, psi = (
        share_before * ends[0][name] + share_after * ends[1][name] for name in ("theta", "tilt", "psi")
    )
    rho = (tilt / psi).where(psi != 0.0, 0.0)
    raw = ssvi_to_raw(theta, rho, psi)._asdict()
    return before.assign(theta=theta, psi=psi, **raw)


def _interpolation(surface: xr.Dataset, requested: Interpolation | None) -> Interpolation:
    natural = all(name in surface for name in NATURAL)
    if requested is None:
        if surface.attrs.get("surface") == "svi":
            return "gj_price"
        return "essvi" if natural else "linear_w"
    if requested == "essvi" and not natural:
        raise ValueError(
            "interpolation='essvi' needs theta, rho and psi, which this surface has not; use linear_w"
        )
    return requested
