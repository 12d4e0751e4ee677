"""Prices and greeks of arrays of any kind, computed in blocks that fit into the cache of a core.

Volatilities are not checked for size: the wings of a smile may have values that the public functions would
take for percent.
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

_BLOCK = 16384  # a dozen arrays of this length stay in the cache of a core


def sign(side: Any) -> Any:
    """+1.0 for ``"call"``, -1.0 for ``"put"``, NaN where missing, in an array of the kind of `side`."""
    if isinstance(side, xr.DataArray):
        return applied(_signs, side)
    if _is_dask(side) and hasattr(side, "dtype"):
        return side.map_blocks(_signs, dtype=np.float64)
    if isinstance(getattr(side, "dtype", None), pd.CategoricalDtype):
        values = pd.Categorical(side)
        rows = np.bincount(values.codes + 1, minlength=len(values.categories) + 1)[1:]
        signs = np.full(len(rows) + 1, np.nan)  # the last for missing values, code -1
        signs[:-1][rows > 0] = _signs(values.categories.to_numpy()[rows > 0])
        return signs[values.codes]
    # Columns of pandas come as Series, Index, or as the arrays behind them (``df["side"].values``).
    extension = pd.api.extensions.ExtensionArray
    if not isinstance(side, str | list | tuple | np.ndarray | pd.Series | pd.Index | extension):
        side = _listed(side)
    return _signs(np.asarray(side, dtype=None if isinstance(side, np.ndarray) else object))


def _listed(side: Any) -> Any:
    """Return a column of polars, pyarrow or another library as a list."""
    for name in ("to_pylist", "to_list", "tolist"):
        convert = getattr(side, name, None)
        if callable(convert) and getattr(side, "ndim", 1) == 1:
            return convert()
    raise TypeError(f"side must be 'call', 'put' or an array of them, got {type(side).__name__}")


def _signs(side: npt.NDArray[Any]) -> Floats:
    call = side == "call"
    put = side == "put"
    if np.all(call | put):
        return np.where(call, 1.0, -1.0)
    strange = ~(call | put | pd.isna(side))
    if np.any(strange):
        raise ValueError(f"side must be 'call' or 'put', got {np.asarray(side)[strange].flat[0]!r}")
    return np.where(call, 1.0, np.where(put, -1.0, np.nan))


def apply(kernel: Callable[..., tuple[Any, ...]], arrays: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    """Return outputs of an elementwise kernel over broadcast arrays, one per dtype, in their kind.

    Floats, ndarrays and pandas objects give ndarrays (numpy scalars from scalars); one DataArray makes all
    outputs DataArrays, in the dims' order of the first that has the most; dask stays lazy.
    """
    labelled = [each for each in arrays if isinstance(each, xr.DataArray)]
    if labelled:
        order = max(labelled, key=lambda each: each.ndim).dims
        return [each.transpose(*order, ...) for each in _under_labels(kernel, arrays, dtypes)]
    if any(_is_dask(each) for each in arrays):
        shape = np.broadcast_shapes(*(np.shape(each) for each in arrays))
        dims = [f"axis_{i}" for i in range(len(shape))]  # counted from the last, as broadcasting does
        full = [each if _is_dask(each) else np.asarray(each) for each in arrays]
        wrapped = [xr.DataArray(np.broadcast_to(each, shape), dims=dims) for each in full]
        return [each.data for each in _under_labels(kernel, wrapped, dtypes)]
    return [each[()] for each in _blocked(kernel, dtypes, *arrays)]


def _is_dask(array: Any) -> bool:
    return hasattr(array, "__dask_graph__")


def _under_labels(
    kernel: Callable[..., tuple[Any, ...]], arrays: Sequence[Any], dtypes: Sequence[Any]
) -> tuple[xr.DataArray, ...]:
    def whole(*parts: Any) -> Any:
        values = _blocked(kernel, dtypes, *parts)
        return values if len(values) > 1 else values[0]

    outputs = applied(whole, *arrays, out=[[]] * len(dtypes), types=dtypes)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _blocked(
    kernel: Callable[..., tuple[Any, ...]], dtypes: Sequence[Any], *arrays: Any
) -> tuple[npt.NDArray[Any], ...]:
    parts = [np.asarray(each, dtype=np.float64) for each in arrays]
    shape = np.broadcast_shapes(*(each.shape for each in parts))
    size = int(np.prod(shape))
    flat = [
        np.full(min(size, _BLOCK), each.item()) if each.size == 1 else np.broadcast_to(each, shape).ravel()
        for each in parts
    ]
    single = [each.size == 1 for each in parts]
    outputs = tuple(np.empty(size, dtype=each) for each in dtypes)
    with np.errstate(all="ignore"):
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            block = [
                each[: stop - start] if one else each[start:stop]
                for each, one in zip(flat, single, strict=True)
            ]
            for output, value in zip(outputs, kernel(*block), strict=True):
                output[start:stop] = value
    return tuple(each.reshape(shape) for each in outputs)


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
        at = kernels.terms(*block, inverse=premium == "inverse")
        return tuple(kernels.greek(name, delta, at) for name in which)

    arrays = fitting(forward, strike, year_fraction, iv, side, interest_rate)
    values = dict(zip(which, apply(kernel, arrays, [np.float64] * len(which)), strict=True))
    if not any(isinstance(value, xr.DataArray) for value in values.values()):
        return values
    return xr.Dataset(values, attrs={"delta": delta, "premium": premium, "units": _UNITS[premium]})


def fitting(*values: Any, names: tuple[str, ...] = ("forward", "strike", "year_fraction", "iv")) -> list[Any]:
    """Return the numbers, the side as a sign and the rate, checked to fit each other."""
    *numbers, side, rate = values
    arrays = dict(zip(names, numbers, strict=True)) | {"side": sign(side), "interest_rate": rate}
    require_together(**arrays)
    return list(arrays.values())


def named(array: Any, name: str, **attrs: Any) -> Any:
    """Return a DataArray with a name and attributes; another array as it is."""
    return array.rename(name).assign_attrs(attrs) if isinstance(array, xr.DataArray) else array
