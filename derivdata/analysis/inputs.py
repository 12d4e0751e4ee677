"""Checks of frames and Datasets: a ValueError, or a TypeError for another kind, names the argument."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.support.text import did_you_mean
from derivdata.tables.frames import require_columns as require_columns
from derivdata.tables.frames import require_decimal_volatility as require_decimal_volatility

_MOST_DRAWS = 100_000


def require_numbers(data: Any, argument: str) -> None:
    """Refuse an array that does not hold whole numbers or floats; its values are not read."""
    if data.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must hold numbers, not {data.dtype}")


def require_times(data: xr.DataArray | xr.Dataset, argument: str) -> None:
    """Refuse data whose ``time`` is not a dim with a coordinate of instants."""
    dtype = data["time"].dtype if "time" in data.coords and "time" in data.dims else "none at all"
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return
    raise TypeError(f"{argument} needs a time dim and coordinate in naive UTC datetime64, not {dtype}")


def require_draws(resamples: int, *, least: int = 1) -> None:
    """Refuse a number of simulated series that cannot be."""
    if not least <= resamples <= _MOST_DRAWS:
        raise ValueError(
            f"{resamples=}: {least} at least and {_MOST_DRAWS:,} at most, for the ends of an interval"
        )


def seed_of(rng: int | np.random.Generator | None) -> int:
    """Return the seed that an ``rng`` argument represents (SPEC 7): itself, or a number drawn from it."""
    if isinstance(rng, int) and rng < 0:
        raise ValueError(f"{rng=}: random numbers start at 0 or above")
    return rng if isinstance(rng, int) else int(np.random.default_rng(rng).integers(2**63))


def require_names(frame: pd.DataFrame, names: Sequence[str], argument: str, of: str) -> None:
    """Refuse names of columns that a frame does not have."""
    for name in names:
        if name not in frame.columns:
            near = did_you_mean(name, frame.columns)
            raise ValueError(f"{argument}: {of} has no column {str(name)!r}{near}")


def require_labels(data: xr.DataArray, argument: str, dim: str, labels: Sequence[str]) -> None:
    """Refuse data that does not have each of these labels once along a dim."""
    present = data[dim].to_numpy().tolist()
    for label in labels:
        if present.count(label) != 1:
            raise ValueError(
                f"{argument} has {present.count(label)} times {label!r} along {dim!r}: need it once"
            )


def require_same(parts: Mapping[str, xr.DataArray], data: xr.DataArray, of: str) -> None:
    """Refuse arrays that hold no numbers, or have other labels or lengths than the data along a dim."""
    for name, part in parts.items():
        require_numbers(part, name)
        try:
            xr.align(data, part, join="exact", copy=False)
        except ValueError:
            raise ValueError(f"{name} has other labels than {of}, or not as many along a dim") from None


def require_variables(
    data: xr.Dataset, argument: str, numbers: Sequence[str], *, dims: Sequence[str] = ()
) -> None:
    """Refuse a Dataset that lacks a variable or a dim, or holds something else where numbers belong."""
    for name in dims:
        if name not in data.dims:
            raise ValueError(f"{argument} has no dim {name!r}; its dims are {tuple(map(str, data.dims))}")
    for name in numbers:
        if name not in data.variables:
            raise ValueError(f"{argument} has no variable {name!r}{did_you_mean(name, data.variables)}")
        if not np.issubdtype(data[name].dtype, np.number):
            raise ValueError(f"{argument} has no numbers in {name!r} but {data[name].dtype}")


def with_symbol(data: Any) -> Any:
    """Return data with a dim ``symbol``, of the one that its coordinate names, or of one without a name."""
    if "symbol" in data.dims:
        return data
    name = str(data["symbol"].item()) if "symbol" in data.coords else ""
    return data.drop_vars("symbol", errors="ignore").expand_dims(symbol=[name])


def require_beside(value: Any, argument: str, data: xr.Dataset | xr.DataArray) -> None:
    """Refuse what is neither a number nor a DataArray over dims of `data`."""
    if isinstance(value, xr.DataArray):
        strange = [str(dim) for dim in value.dims if dim not in data.dims]
        if strange:
            raise ValueError(f"{argument} has a dim {strange[0]!r} that the data does not have")
    elif np.ndim(value) or isinstance(value, pd.DataFrame | xr.Dataset):
        raise TypeError(f"{argument} must be a number or a labelled DataArray, not {type(value).__name__}")


def require_together(**values: Any) -> None:
    """Refuse bare arrays that do not fit each other or the labelled ones.

    How labelled ones fit each other is left to xarray, and to pandas for its own.
    """
    sizes = _sizes(values.values())
    shape = tuple(sizes.values())
    bare = {name: np.shape(value) for name, value in values.items() if _is_bare(value)}
    labelled = _has_labels(values.values())
    if not labelled and all(isinstance(values[name], pd.Series | pd.DataFrame) for name in bare):
        return
    for name, own in bare.items():
        try:
            both = np.broadcast_shapes(shape, own)
        except ValueError:
            both = None
        if both is None or (labelled and both != shape):
            raise ValueError(f"{name} has the shape {own}, which does not fit {shape} of the others")
        shape = both


def together(**values: Any) -> list[Any]:
    """Match arguments for arithmetic: a bare array next to labelled ones gets their last dims."""
    require_together(**values)
    sizes = _sizes(values.values())
    labelled = _has_labels(values.values())
    return [_named(value, sizes) if labelled and _is_bare(value) else value for value in values.values()]


def along(data: xr.DataArray, *core: str, new: bool = False, **values: Any) -> list[Any]:
    """Match arguments to an array, apart from its core dims: a bare array gets the last of the others.

    A DataArray may have dims that the data does not have where `new` says so.
    """
    sizes = {dim: size for dim, size in data.sizes.items() if dim not in core}
    shape = tuple(sizes.values())
    for name, value in values.items():
        if isinstance(value, xr.Dataset | pd.DataFrame):
            raise TypeError(f"{name} must be a number or an array, not {type(value).__name__}")
        if isinstance(value, xr.DataArray):
            strange = [str(dim) for dim in value.dims if dim in core or not (new or dim in sizes)]
            if strange:
                raise ValueError(f"{name} has the dim {strange[0]!r}, which the data does not have")
            for dim, size in value.sizes.items():
                if dim not in value.indexes and size != sizes.get(dim, size):
                    raise ValueError(f"{name} has {size} along {dim!r} where the data has {sizes[dim]}")
        elif not _fits(np.shape(value), shape):
            raise ValueError(
                f"{name} has the shape {np.shape(value)}, which does not fit {shape} of the data"
            )
    return [_named(value, sizes) if _is_bare(value) else value for value in values.values()]


def _fits(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, own) == shape
    except ValueError:
        return False


def _has_labels(values: Iterable[Any]) -> bool:
    return any(isinstance(value, xr.DataArray | xr.Dataset) for value in values)


def _is_bare(value: Any) -> bool:
    return not isinstance(value, xr.DataArray | xr.Dataset) and np.ndim(value) > 0


def _sizes(values: Iterable[Any]) -> dict[Hashable, int]:
    """Return the sizes of all the dims that labelled arrays have, in the order in which they come."""
    sizes: dict[Hashable, int] = {}
    for value in values:
        if isinstance(value, xr.DataArray | xr.Dataset):
            sizes |= {dim: size for dim, size in value.sizes.items() if dim not in sizes}
    return sizes


def _named(value: Any, sizes: Mapping[Hashable, int]) -> xr.DataArray:
    """Label a bare array with the last of some dims."""
    dims = list(sizes)[len(sizes) - np.ndim(value) :]
    whole = value if hasattr(value, "__dask_graph__") else np.asarray(value)
    return xr.DataArray(np.broadcast_to(whole, [sizes[dim] for dim in dims]), dims=dims)
