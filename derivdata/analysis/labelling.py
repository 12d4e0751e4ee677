"""Labelled arrays of options: arguments, elementwise kernels, units, and large sets of slices in pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.analysis.status import flag_attrs
from derivdata.support.arrays import Floats

where: Any = xr.where
"""`xarray.where`, which has no annotations."""

_OF_A_SURFACE = ("year_fraction", "method", "status", "k_min", "k_max", "a", "b", "rho", "m", "sigma")


def applied(
    kernel: Callable[..., Any],
    *arrays: Any,
    core: Sequence[Sequence[str]] | None = None,
    out: Sequence[Sequence[str]] = ((),),
    types: Sequence[Any] = (np.float64,),
    sizes: Mapping[str, int] | None = None,
    **kwargs: Any,
) -> Any:
    """`xarray.apply_ufunc`, lazy where an input is: dims of inputs and outputs, types, sizes of new dims.

    Outputs have none of the attributes of the inputs, but coordinates keep theirs.
    """
    outputs = xr.apply_ufunc(
        kernel,
        *arrays,
        kwargs=kwargs,
        keep_attrs=False,
        input_core_dims=core if core is not None else [[]] * len(arrays),
        output_core_dims=out,
        dask="parallelized",
        output_dtypes=list(types),
        dask_gufunc_kwargs={} if sizes is None else {"output_sizes": sizes},
    )
    labelled = [each for each in arrays if isinstance(each, xr.DataArray)]
    said = {name: one.attrs for each in reversed(labelled) for name, one in each.coords.items() if one.attrs}
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        for name in said.keys() & (output.coords.keys() if labelled else ()):
            output.coords[name].attrs = dict(said[name])
    return outputs


def elementwise(kernel: Callable[..., Floats], *arrays: Any, **options: Any) -> xr.DataArray:
    """Return the one array of floats that a kernel makes of others, without floating-point warnings."""

    def quiet(*blocks: Floats, **kwargs: Any) -> Floats:
        with np.errstate(all="ignore"):
            return kernel(*blocks, **kwargs)

    result: xr.DataArray = applied(quiet, *arrays, **options)
    return result


def named(value: Any, dims: Sequence[str], argument: str) -> xr.DataArray:
    """Return a DataArray as it is; a bare array under the last of `dims`."""
    if isinstance(value, xr.DataArray):
        return value
    try:
        is_lazy = hasattr(value, "__dask_graph__") and hasattr(value, "ndim")  # a Dataset has no ndim
        array = value if is_lazy else np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError, RuntimeError):
        raise TypeError(f"{argument} must be numbers, not {type(value).__name__}") from None
    if array.ndim > len(dims):
        raise TypeError(
            f"{argument} is a bare array of {array.ndim} dimensions; wrap it in a DataArray that names them"
        )
    return xr.DataArray(array, dims=list(dims[len(dims) - array.ndim :]))


def bare(value: Any, name: str, argument: str | None = None) -> xr.DataArray:
    """Return a DataArray as it is; a number; a 1-D array over a new dim `name`, which it labels."""
    array = named(value, (name,), argument or name)
    labelled: bool = array is not value and array.ndim == 1
    return array.assign_coords({name: array.to_numpy()}) if labelled else array


def previous(t: Floats, usable: Any) -> Any:
    """Return the position along the last axis of the usable expiry before each one, −1 without one."""
    earlier = usable[..., None, :] & (t[..., None, :] < t[..., :, None])
    last = np.where(earlier, t[..., None, :], -np.inf)
    return np.where(earlier.any(axis=-1), last.argmax(axis=-1), -1)


def with_units(result: xr.Dataset, units: Mapping[str, str]) -> xr.Dataset:
    """Return a result whose variables have these units as their only attributes, and CF flags."""
    out = result.copy()
    for name, part in out.data_vars.items():
        part.attrs = {"units": units[str(name)]} if name in units else {}
    if "status" in out:
        out["status"].attrs = flag_attrs()
    return out


def origin_attrs(surface: xr.Dataset) -> dict[str, Any]:
    """Return where a surface comes from, if it says so, as attributes of what is made from it."""
    return {name: surface.attrs[name] for name in ("provenance",) if name in surface.attrs}


def whole_surface(surface: xr.Dataset) -> xr.Dataset:
    """Refuse what is no fit of ``dd.analysis.surface``; put the expiries of a lazy one into one chunk."""
    require_variables(surface, "surface", _OF_A_SURFACE, dims=("expiry",))
    if not surface.sizes["expiry"]:
        raise ValueError("surface has no expiries")
    lazy = any("expiry" in part.dims and part.chunks for part in surface.variables.values())
    return surface.chunk(expiry=-1) if lazy else surface


def in_chunks(
    kernel: Callable[[xr.Dataset], xr.Dataset], fit: xr.Dataset, *, most: int, whole: tuple[str, ...] = ()
) -> xr.Dataset:
    """`kernel` of a fit in memory, at most `most` slices at a time; lazy ones are left to their chunks.

    The kernel treats the labels of every dim but `whole`, which are not cut, apart from each other; all
    variables of its result have those dims.
    """
    slices = fit["method"]
    sizes = {str(dim): size for dim, size in slices.sizes.items() if dim not in whole and size > 1}
    if slices.chunks or slices.size <= most or not sizes:
        return kernel(fit)
    longest = max(sizes, key=sizes.__getitem__)
    step = max(sizes[longest] * most // slices.size, 1)
    cuts = (fit.isel({longest: slice(first, first + step)}) for first in range(0, sizes[longest], step))
    parts = [in_chunks(kernel, cut, most=most, whole=whole) for cut in cuts]
    return xr.concat(parts, longest, data_vars="all", coords="minimal", compat="override", join="override")
