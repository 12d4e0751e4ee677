"""Prices and greeks of arrays of any type, computed in blocks that fit into a core's cache.

Volatilities are not checked for size, because the wings of a smile may exceed the limit at which the public
functions assume percent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from derivdata.analysis.black76 import kernels
from derivdata.analysis.black76.kernels import DeltaKind, Greek
from derivdata.analysis.labelling import applied
from derivdata.analysis.panels import require_together
from derivdata.support.arrays import Floats

_BLOCK = 16384  # a dozen arrays of this length fit into a core's cache


def sign(side: Any) -> Any:
    """Return +1.0 for calls, −1.0 for puts and NaN if missing, in an array of the type of `side`."""
    if isinstance(side, xr.DataArray):
        return applied(_signs, side)
    if _is_dask(side) and hasattr(side, "dtype"):
        return side.map_blocks(_signs, dtype=np.float64)
    if isinstance(getattr(side, "dtype", None), pd.CategoricalDtype):
        values = pd.Categorical(side)
        rows = np.bincount(values.codes + 1, minlength=len(values.categories) + 1)[1:]
        # The last element is for missing values, which have the code -1.
        signs = np.full(len(rows) + 1, np.nan)
        signs[:-1][rows > 0] = _signs(values.categories.to_numpy()[rows > 0])
        return signs[values.codes]
    # pandas columns may be Series, Index or extension arrays (``df["side"].values``).
    extension = pd.api.extensions.ExtensionArray
    if isinstance(side, np.ndarray):
        return _signs(side)
    if not isinstance(side, str | list | tuple | pd.Series | pd.Index | extension):
        side = _listed(side)
    return _signs(np.asarray(side, dtype=object))


def _listed(side: Any) -> Any:
    """Return a column of polars, pyarrow or another library as a list."""
    for name in ("to_pylist", "to_list", "tolist"):
        convert = getattr(side, name, None)
        if callable(convert) and getattr(side, "ndim", 1) == 1:
            return convert()
    raise TypeError(f"side must be 'call', 'put' or an array of them, got {type(side).__name__}")


def _signs(side: npt.NDArray[Any]) -> Floats:
    """Return 1 for calls, −1 for puts and NaN for a missing side."""
    call = side == "call"
    put = side == "put"
    if np.all(call | put):
        return np.where(call, 1.0, -1.0)
    strange = ~(call | put | pd.isna(side))
    if np.any(strange):
        raise ValueError(f"side must be 'call' or 'put', got {np.asarray(side)[strange].flat[0]!r}")
    return np.where(call, 1.0, np.where(put, -1.0, np.nan))


def apply(kernel: Callable[..., tuple[Any, ...]], arrays: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    """Apply an elementwise kernel to broadcast arrays.

    Returns one output per dtype, in the type of the inputs.

    Floats, ndarrays and pandas objects give ndarrays (numpy scalars from scalars); one DataArray makes all
    outputs DataArrays, with the order of dims of the input that has the most dims; dask stays lazy.
    """
    labelled = [array for array in arrays if isinstance(array, xr.DataArray)]
    # 1. Broadcast labelled arrays by dim.
    if labelled:
        order = max(labelled, key=lambda array: array.ndim).dims
        return [output.transpose(*order, ...) for output in _under_labels(kernel, arrays, dtypes)]

    # 2. Wrap lazy arrays without labels in labelled ones, which xarray computes lazily.
    if any(map(_is_dask, arrays)):
        shape = np.broadcast_shapes(*map(np.shape, arrays))
        dims = [f"axis_{i}" for i in range(len(shape))]
        wrapped = []
        for array in arrays:
            whole = array if _is_dask(array) else np.asarray(array)
            wrapped.append(xr.DataArray(np.broadcast_to(whole, shape), dims=dims))
        return [output.data for output in _under_labels(kernel, wrapped, dtypes)]

    # 3. Convert all others to ndarrays; ``[()]`` turns a 0-d array into a numpy scalar.
    return [output[()] for output in _blocked(kernel, dtypes, *arrays)]


def _is_dask(array: Any) -> bool:
    return hasattr(array, "__dask_graph__")


def _under_labels(
    kernel: Callable[..., tuple[Any, ...]], arrays: Sequence[Any], dtypes: Sequence[Any]
) -> tuple[xr.DataArray, ...]:
    """Apply a kernel as `_blocked`, to labelled and lazy arrays too."""

    def whole(*blocks: Any) -> Any:
        values = _blocked(kernel, dtypes, *blocks)
        return values if len(values) > 1 else values[0]

    outputs = applied(whole, *arrays, out=[[]] * len(dtypes), types=dtypes)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _blocked(
    kernel: Callable[..., tuple[Any, ...]], dtypes: Sequence[Any], *arrays: Any
) -> tuple[npt.NDArray[Any], ...]:
    """Apply a kernel to broadcast arrays in blocks, and return its outputs in their common shape."""
    # 1. Flatten the arrays; a single number fills one block.
    values = [np.asarray(array, dtype=np.float64) for array in arrays]
    shape = np.broadcast_shapes(*(array.shape for array in values))
    size = int(np.prod(shape))
    flat = []
    for array in values:
        if array.size == 1:
            flat.append(np.full(min(size, _BLOCK), array.item()))
        else:
            flat.append(np.broadcast_to(array, shape).ravel())

    # 2. Apply the kernel to blocks that fit into the processor's cache.
    outputs = tuple(np.empty(size, dtype=dtype) for dtype in dtypes)
    with np.errstate(all="ignore"):
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            block = []
            for array, column in zip(values, flat, strict=True):
                block.append(column[: stop - start] if array.size == 1 else column[start:stop])
            for output, result in zip(outputs, kernel(*block), strict=True):
                output[start:stop] = result
    return tuple(output.reshape(shape) for output in outputs)


Premium = Literal["linear", "inverse"]
_UNITS: dict[Premium, str] = {"linear": "currency of the strike", "inverse": "coin"}


def price(
    forward: Any,
    strike: Any,
    year_fraction: Any,
    iv: Any,
    side: Any,
    *,
    interest_rate: Any = 0.0,
    premium: Premium = "linear",
) -> Any:
    """Return the value of each option; see `derivdata.analysis.black76.price`."""
    kernel = partial(kernels.price, inverse=premium == "inverse")
    arrays = fitting(forward, strike, year_fraction, iv, side, interest_rate)
    (value,) = apply(lambda *block: (kernel(*block),), arrays, [np.float64])
    return named(value, "price", units=_UNITS[premium], premium=premium)


def greeks(
    forward: Any,
    strike: Any,
    year_fraction: Any,
    iv: Any,
    side: Any,
    *,
    which: Sequence[Greek],
    delta: DeltaKind = "forward",
    interest_rate: Any = 0.0,
    premium: Premium = "linear",
) -> Any:
    """Return sensitivities of `price`; see `derivdata.analysis.black76.greeks`."""

    def kernel(*block: Any) -> tuple[Any, ...]:
        options = kernels.terms(*block, inverse=premium == "inverse")
        return tuple(kernels.greek(name, delta, options) for name in which)

    arrays = fitting(forward, strike, year_fraction, iv, side, interest_rate)
    values = dict(zip(which, apply(kernel, arrays, [np.float64] * len(which)), strict=True))
    if not any(isinstance(value, xr.DataArray) for value in values.values()):
        return values
    return xr.Dataset(values, attrs={"delta": delta, "premium": premium, "units": _UNITS[premium]})


def fitting(*values: Any, names: tuple[str, ...] = ("forward", "strike", "year_fraction", "iv")) -> list[Any]:
    """Return numbers, sign of the side and rate, after checking that they match."""
    *numbers, side, rate = values
    arrays = dict(zip(names, numbers, strict=True)) | {"side": sign(side), "interest_rate": rate}
    require_together(**arrays)
    return list(arrays.values())


def named(array: Any, name: str, **attrs: Any) -> Any:
    """Return a DataArray with a name and attributes, and any other array unchanged."""
    if not isinstance(array, xr.DataArray):
        return array
    return array.rename(name).assign_attrs(attrs)
