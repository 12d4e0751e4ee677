"""Helpers for labelled arrays of options: arguments, elementwise kernels, units, chunks of slices, tables."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from derivdata.analysis.panels import require_variables
from derivdata.analysis.status import flag_attrs
from derivdata.support.arrays import Floats
from derivdata.support.text import import_extra
from derivdata.support.times import naive_utc

where: Any = xr.where
"""`xarray.where`, which has no annotations."""

KEYS = ("symbol", "exchange", "time")
_ABSENT = {"f": np.nan, "i": 0, "U": ""}
MAX_CELLS = 4_000_000
CHUNK_CELLS = 1_000_000
_FEW_INSTANTS = 8
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
    """Call `xarray.apply_ufunc` with core dims, dtypes and sizes of new dims; lazy for a lazy input.

    Outputs lose the attributes of the inputs, but coordinates keep their attributes.
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
    # apply_ufunc drops the attributes of coordinates: restore them from the first array that has them.
    labelled = [array for array in arrays if isinstance(array, xr.DataArray)]
    if not labelled:
        return outputs
    attrs: dict[Any, Any] = {}
    for array in reversed(labelled):
        attrs |= {name: coord.attrs for name, coord in array.coords.items() if coord.attrs}
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        for name in attrs.keys() & output.coords.keys():
            output.coords[name].attrs = dict(attrs[name])
    return outputs


def elementwise(kernel: Callable[..., Floats], *arrays: Any, **options: Any) -> xr.DataArray:
    """Apply a kernel with one float output elementwise, without floating-point warnings."""

    def quiet(*blocks: Floats, **kwargs: Any) -> Floats:
        with np.errstate(all="ignore"):
            return kernel(*blocks, **kwargs)

    result: xr.DataArray = applied(quiet, *arrays, **options)
    return result


def named(value: Any, dims: Sequence[str], argument: str) -> xr.DataArray:
    """Return a DataArray unchanged; label a bare array with the last of `dims`."""
    if isinstance(value, xr.DataArray):
        return value
    try:
        is_lazy = hasattr(value, "__dask_graph__") and hasattr(value, "ndim")  # a Dataset has no ndim
        array = value if is_lazy else np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError, RuntimeError):
        raise TypeError(f"{argument} must be numbers, got {type(value).__name__}") from None
    if array.ndim > len(dims):
        raise TypeError(
            f"{argument} is a bare array of {array.ndim} dimensions; wrap it in a DataArray that names them"
        )
    return xr.DataArray(array, dims=list(dims[len(dims) - array.ndim :]))


def bare(value: Any, name: str, argument: str | None = None) -> xr.DataArray:
    """Return a DataArray unchanged, a number as scalar, and a 1-D array over a dim `name` that it labels."""
    array = named(value, (name,), argument or name)
    labelled: bool = array is not value and array.ndim == 1
    return array.assign_coords({name: array.to_numpy()}) if labelled else array


def previous(t: Floats, usable: Any) -> Any:
    """Return the position of the previous usable expiry along the last axis, −1 for none."""
    earlier = usable[..., None, :] & (t[..., None, :] < t[..., :, None])
    last = np.where(earlier, t[..., None, :], -np.inf)
    return np.where(earlier.any(axis=-1), last.argmax(axis=-1), -1)


def with_units(result: xr.Dataset, units: Mapping[str, str]) -> xr.Dataset:
    """Return a result whose variables have only these units and CF flags as attributes."""
    out = result.copy()
    for name, variable in out.data_vars.items():
        variable.attrs = {"units": units[str(name)]} if name in units else {}
    if "status" in out:
        out["status"].attrs = flag_attrs()
    return out


def origin_attrs(surface: xr.Dataset) -> dict[str, Any]:
    """Return the source of a surface, if known, as attributes of a result."""
    return {name: surface.attrs[name] for name in ("provenance",) if name in surface.attrs}


def whole_surface(surface: xr.Dataset) -> xr.Dataset:
    """Return a fit with its expiries in one chunk; raise for an argument that is not a fit of a surface."""
    if "method" not in surface.variables and "strike" in surface.dims:
        raise ValueError(
            "surface: expected a fit, got quotes by strike; fit them first with "
            "dd.analysis.surface.from_chain(surface)"
        )
    require_variables(surface, "surface", _OF_A_SURFACE, dims=("expiry",))
    if not surface.sizes["expiry"]:
        raise ValueError("surface must have at least one expiry")
    lazy = any("expiry" in variable.dims and variable.chunks for variable in surface.variables.values())
    return surface.chunk(expiry=-1) if lazy else surface


def in_chunks(
    kernel: Callable[[xr.Dataset], xr.Dataset], fit: xr.Dataset, *, most: int, whole: tuple[str, ...] = ()
) -> xr.Dataset:
    """Apply `kernel` to a fit in memory, at most `most` slices at a time; lazy fits use their chunks.

    The dims in `whole` are not split. The kernel must treat the labels of all other dims independently, and
    all variables of its result must have those dims.
    """
    slices = fit["method"]
    sizes = {str(dim): size for dim, size in slices.sizes.items() if dim not in whole and size > 1}
    if slices.chunks or slices.size <= most or not sizes:
        return kernel(fit)
    longest = max(sizes, key=sizes.__getitem__)
    step = max(sizes[longest] * most // slices.size, 1)
    cuts = (fit.isel({longest: slice(first, first + step)}) for first in range(0, sizes[longest], step))
    chunks = [in_chunks(kernel, cut, most=most, whole=whole) for cut in cuts]
    return xr.concat(chunks, longest, data_vars="all", coords="minimal", compat="override", join="override")


def keys_of(frame: pd.DataFrame) -> list[str]:
    """Return the columns that identify a chain."""
    return [name for name in KEYS if name in frame]


def by_label(
    table: pd.DataFrame, place: Sequence[str], variables: Mapping[str, Sequence[str]], units: dict[str, str]
) -> xr.Dataset:
    """Put columns of a table on a grid over `place` and the keys that vary; other keys become scalars.

    `variables` names each column with the part of `place` that it depends on. Cells without a row are NaN for
    numbers, 0 for flags and empty for text. Times are naive UTC: several are the dim ``time``, a single one
    is the scalar ``as_of``. A long history has few strikes in common from day to day, so its grid grows with
    the square of its length and is almost empty: a variable of over 4 million cells is lazy, filled chunk by
    chunk.
    """
    # 1. Find the labels along each dim, and the position of each row.
    keys = keys_of(table)
    table = table.dropna(subset=list(place))
    varying = [name for name in keys if table[name].nunique() > 1]
    codes = {}
    labels = {}
    for name in (*varying, *place):
        codes[name], labels[name] = pd.factorize(plain(table[name]), sort=True)

    # 2. Put the variables on their grids.
    data = {}
    for name, depends in variables.items():
        dims = [*varying, *depends]
        shape = [len(labels[dim]) for dim in dims]
        long = "time" in varying and len(labels["time"]) > _FEW_INSTANTS and math.prod(shape) > MAX_CELLS
        scatter = functools.partial(_lazily, axis=varying.index("time")) if long else _scattered
        values = scatter(plain(table[name]), [codes[dim] for dim in dims], shape)
        attrs: dict[str, Any] = {"units": units[name]} if name in units else {}
        if name.endswith("status"):
            attrs = flag_attrs()
        data[name] = (dims, values, attrs)

    # 3. Turn keys with a single label into scalars.
    result = xr.Dataset(data, coords=labels)
    for name in keys if len(table) else []:
        if name not in varying:
            result = result.assign_coords({"as_of" if name == "time" else name: plain(table[name])[0]})
    return result


def plain(column: Any) -> Any:
    """Return a column as labels of an array: times as naive UTC, other values as text."""
    if column.dtype.kind == "M":
        return naive_utc(column).to_numpy()
    return column.to_numpy(dtype=str if column.dtype.kind == "O" else None)


def _scattered(
    values: npt.NDArray[Any], codes: list[npt.NDArray[np.intp]], shape: list[int]
) -> npt.NDArray[Any]:
    """Return values on a grid at the positions `codes` of each dim; other cells are missing."""
    grid = np.full(shape, _ABSENT[values.dtype.kind], dtype=values.dtype)
    if len(values):
        grid[tuple(codes)] = values if codes else values[0]
    return grid


def _lazily(
    values: npt.NDArray[Any], codes: list[npt.NDArray[np.intp]], shape: list[int], *, axis: int
) -> Any:
    """Return the grid of `_scattered` in chunks along an axis, each filled from its rows when computed."""
    reason = (
        f"one grid of {shape[axis]} chains would have {math.prod(shape):,} cells, almost all empty: pass "
        "fewer times, or use surface.from_chain, which fits a few at a time; to fill it chunk by chunk"
    )
    da = import_extra("dask.array", "dask", reason)
    delayed = import_extra("dask", "dask", reason).delayed
    step = max(CHUNK_CELLS * shape[axis] // math.prod(shape), 1)
    order = np.argsort(codes[axis], kind="stable")
    sorted_codes = codes[axis][order]
    chunks = []
    for start in range(0, shape[axis], step):
        # Select the rows of this chunk, with positions relative to its start.
        end = min(start + step, shape[axis])
        first_row, end_row = np.searchsorted(sorted_codes, [start, end])
        rows = order[first_row:end_row]
        chunk_codes = [code[rows] for code in codes]
        chunk_codes[axis] = chunk_codes[axis] - start
        chunk_shape = [*shape[:axis], end - start, *shape[axis + 1 :]]
        grid = delayed(_scattered, pure=False)(values[rows], chunk_codes, chunk_shape)
        chunks.append(da.from_delayed(grid, chunk_shape, dtype=values.dtype))
    return da.concatenate(chunks, axis=axis)
