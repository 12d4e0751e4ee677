"""Checks of frames, Datasets and panels: dims, times, unit and kind. Errors name the argument.

A panel is an `xarray.DataArray` with some of the dims ``(symbol, exchange, time)`` in any order, times in
naive UTC, and its unit in ``attrs["units"]`` or in its name (``rate_bps_8h``, ``oi_usd``). A funding panel
also has a ``kind``: ``"sampled"`` (a rate that is valid until the next sample) or ``"settled"`` (payments).
`derivdata.panel` creates it from a table; functions that take a panel also accept such a table, and `require`
converts it to the panel of its value column. Settlements have the hours that each of them covers in the
coordinate ``interval_hours``.

Misuse raises here, before anything is computed. A dask-backed panel stays lazy: only its labels are read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from enum import IntFlag
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.status import flag_attrs
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.text import did_you_mean
from derivdata.support.times import length
from derivdata.tables import panels as tables
from derivdata.tables.frames import require_columns as require_columns
from derivdata.tables.frames import require_decimal_volatility as require_decimal_volatility
from derivdata.units import (
    BPS_UNIT,
    HOUR_UNIT,
    NATIVE_UNIT,
    PERCENT_UNIT,
    RATE_UNIT,
    USD_UNIT,
    VOLATILITY_SPELLINGS,
    VOLATILITY_UNIT,
)

_MAX_DRAWS = 100_000


def require_numbers(data: Any, argument: str) -> None:
    """Raise unless an array has integers or floats; its values are not read."""
    if data.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must have numeric values, got {data.dtype}")


def require_times(data: xr.DataArray | xr.Dataset, argument: str) -> None:
    """Raise for data whose ``time`` is not a dim with a coordinate of times."""
    dtype: Any = "no time"
    if "time" in data.coords and "time" in data.dims:
        dtype = data["time"].dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return
    raise TypeError(f"{argument} must have a time dim and coordinate in naive UTC datetime64, got {dtype}")


def require_draws(resamples: int, *, minimum: int = 1) -> None:
    """Raise for an invalid number of simulated series."""
    if not minimum <= resamples <= _MAX_DRAWS:
        raise ValueError(
            f"resamples must be from {minimum} to {_MAX_DRAWS:,} to find the ends of an interval, got "
            f"{resamples!r}"
        )


def seed_of(rng: int | np.random.Generator | None) -> int:
    """Return the seed of an ``rng`` argument (SPEC 7): itself, or a number drawn from the generator."""
    if isinstance(rng, int) and rng < 0:
        raise ValueError(f"rng must be a seed of 0 or more, got {rng!r}")
    return rng if isinstance(rng, int) else int(np.random.default_rng(rng).integers(2**63))


def require_names(frame: pd.DataFrame, names: Sequence[str], argument: str, of: str) -> None:
    """Raise for names of columns that a frame does not have."""
    for name in names:
        if name not in frame.columns:
            near = did_you_mean(name, frame.columns)
            raise ValueError(f"{argument}: {of} has no column {str(name)!r}{near}")


def require_labels(data: xr.DataArray, argument: str, dim: str, labels: Sequence[str]) -> None:
    """Raise unless data has each of these labels once along a dim."""
    present = data[dim].to_numpy().tolist()
    for label in labels:
        if present.count(label) != 1:
            raise ValueError(
                f"{argument} must have {label!r} once along {dim!r}, got it {present.count(label)} times"
            )


def require_same(arrays: Mapping[str, xr.DataArray], data: xr.DataArray, of: str) -> None:
    """Raise for non-numeric arrays, or arrays with other labels or lengths than the data along a dim."""
    for name, array in arrays.items():
        require_numbers(array, name)
        try:
            xr.align(data, array, join="exact", copy=False)
        except ValueError:
            raise ValueError(f"{name} must have the labels of {of} along each dim") from None


def require_variables(
    data: xr.Dataset, argument: str, numbers: Sequence[str], *, dims: Sequence[str] = ()
) -> None:
    """Raise for a Dataset that lacks a variable or a dim, or has non-numeric values."""
    for name in dims:
        if name not in data.dims:
            raise ValueError(f"{argument} must have the dim {name!r}, got dims {tuple(map(str, data.dims))}")
    for name in numbers:
        if name not in data.variables:
            raise ValueError(f"{argument} has no variable {name!r}{did_you_mean(name, data.variables)}")
        if not np.issubdtype(data[name].dtype, np.number):
            raise ValueError(f"{argument} must have numbers in {name!r}, got {data[name].dtype}")


def with_symbol(data: Any) -> Any:
    """Return data with a dim ``symbol``, from its coordinate, or with an empty name."""
    if "symbol" in data.dims:
        return data
    name = str(data["symbol"].item()) if "symbol" in data.coords else ""
    return data.drop_vars("symbol", errors="ignore").expand_dims(symbol=[name])


def require_beside(value: Any, argument: str, data: xr.Dataset | xr.DataArray) -> None:
    """Raise for a value that is neither a number nor a DataArray over dims of `data`."""
    if isinstance(value, xr.DataArray):
        strange = [str(dim) for dim in value.dims if dim not in data.dims]
        if strange:
            raise ValueError(f"{argument} must not have the dim {strange[0]!r}, which the data does not have")
    elif np.ndim(value) or isinstance(value, pd.DataFrame | xr.Dataset):
        raise TypeError(f"{argument} must be a number or a labelled DataArray, got {type(value).__name__}")


def require_together(**values: Any) -> None:
    """Raise for bare arrays that do not match each other or the labelled ones.

    xarray and pandas align labelled arrays.
    """
    # Labelled values determine the shape. Bare arrays may extend it only if no value is labelled.
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
            raise ValueError(
                f"{name} has the shape {own}, which does not broadcast to the shape {shape} of the others"
            )
        shape = both


def together(**values: Any) -> list[Any]:
    """Prepare arguments for arithmetic: bare arrays get the last dims of the labelled ones."""
    require_together(**values)
    sizes = _sizes(values.values())
    labelled = _has_labels(values.values())
    return [_named(value, sizes) if labelled and _is_bare(value) else value for value in values.values()]


def along(data: xr.DataArray, *core: str, new: bool = False, **values: Any) -> list[Any]:
    """Check that arguments broadcast over the dims of an array except `core`, and label bare arrays.

    A bare array gets the last of these dims. A DataArray may have dims that the data lacks if `new` is set.
    """
    sizes = {dim: size for dim, size in data.sizes.items() if dim not in core}
    shape = tuple(sizes.values())
    for name, value in values.items():
        if isinstance(value, xr.Dataset | pd.DataFrame):
            raise TypeError(f"{name} must be a number or an array, got {type(value).__name__}")
        if isinstance(value, xr.DataArray):
            _reject_other_dims(name, value, core, None if new else sizes)
            for dim, size in value.sizes.items():
                if dim not in value.indexes and size != sizes.get(dim, size):
                    raise ValueError(
                        f"{name} must have {sizes[dim]} labels along {dim!r} as the data, got {size}"
                    )
        elif not _fits(np.shape(value), shape):
            raise ValueError(
                f"{name} has the shape {np.shape(value)}, which does not broadcast to the shape {shape} of "
                "the data"
            )
    return [_named(value, sizes) if _is_bare(value) else value for value in values.values()]


def _reject_other_dims(
    name: str, value: xr.DataArray, core: Sequence[str], allowed: Container[Hashable] | None
) -> None:
    """Raise for a dim of `core`, and for a dim that is not allowed; None allows all other dims."""
    for dim in value.dims:
        if dim in core:
            raise ValueError(f"{name} must not have the dim {str(dim)!r}: select one of its labels")
        if allowed is not None and dim not in allowed:
            raise ValueError(f"{name} must not have the dim {str(dim)!r}, which the data does not have")


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
    """Return the sizes of all dims of labelled arrays, in order of appearance."""
    sizes: dict[Hashable, int] = {}
    for value in values:
        if isinstance(value, xr.DataArray | xr.Dataset):
            sizes |= {dim: size for dim, size in value.sizes.items() if dim not in sizes}
    return sizes


def _named(value: Any, sizes: Mapping[Hashable, int]) -> xr.DataArray:
    """Label a bare array with the last dims of a list."""
    dims = list(sizes)[len(sizes) - np.ndim(value) :]
    whole = value if hasattr(value, "__dask_graph__") else np.asarray(value)
    return xr.DataArray(np.broadcast_to(whole, [sizes[dim] for dim in dims]), dims=dims)


Panel: TypeAlias = xr.DataArray | pd.DataFrame
"""A panel, or a table that `derivdata.panel` converts to one."""
KINDS = ("sampled", "settled")
QUANTITY_UNITS = (USD_UNIT, "coin", "coins")
"""Units of open interest and volume; amounts in different ones are never added."""
_MAX_WINDOW_ROWS = 10_000_000  # rows of a window
_SUFFIXES = {
    "_bps_8h": RATE_UNIT,
    "_bps": BPS_UNIT,
    "_native": NATIVE_UNIT,
    "_hours": HOUR_UNIT,
    "_usd": USD_UNIT,
}


def unit_of(panel: xr.DataArray, argument: str = "panel") -> str | None:
    """Return the unit of a panel, from ``attrs["units"]`` or its name; None without one."""
    stated = panel.attrs.get("units")
    name = "" if panel.name is None else str(panel.name)
    named = next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), None)
    if stated is not None and named is not None and stated != named:
        raise ValueError(
            f"{argument}: the name {name!r} means {named}, but attrs have units={stated!r}: correct one of "
            "them"
        )
    return named if stated is None else str(stated)


def require(panel: Any, *dims: str, units: str | None = None, name: str = "panel") -> xr.DataArray:
    """Return a panel, or the panel of a table, after checks of its dims, numbers and unit."""
    try:
        array = tables.panel(panel) if isinstance(panel, pd.DataFrame) else panel
    except ValueError as fault:
        raise ValueError(f"{name}: {fault}") from None
    if not isinstance(array, xr.DataArray):
        raise TypeError(f"{name} must be a table or a panel, got {type(panel).__name__}")
    absent = [dim for dim in dims if dim not in array.dims]
    if absent:
        raise ValueError(f"{name} must have the dim {absent[0]!r}, got dims {tuple(array.dims)}")
    require_numbers(array, name)
    if array.dtype != np.float64:  # integers cannot be NaN, and long sums need more digits than float32
        array = array.astype(np.float64)
    _require_labels(array, name)
    if units is None:
        return array
    unit = unit_of(array, name)
    if unit is None:
        raise ValueError(
            f"the unit of {name} is missing: set {name}.attrs['units'] = {units!r} if that is its unit"
        )
    if unit != units:
        raise ValueError(
            f"{name} must be in {units!r}, got {unit!r}: pass that quantity, or convert it with dd.units"
        )
    return array


def _require_labels(panel: xr.DataArray, name: str) -> None:
    for dim in ("symbol", "exchange", "time"):
        if not (dim in panel.coords and panel.sizes.get(dim)):
            continue
        if dim == "time":
            require_times(panel, name)
        elif panel[dim].dtype.kind in "biufcmM":
            raise TypeError(f"the labels of {name} along {dim} must be text, got {panel[dim].dtype}")


def require_quantity(oi: Any, *dims: str) -> xr.DataArray:
    """Return a panel of amounts in USD or in coins with these dims."""
    amounts: xr.DataArray = require(oi, *dims, name="oi")
    unit = unit_of(amounts, "oi")
    if unit is None:
        raise ValueError("the unit of oi is missing: set oi.attrs['units'] to 'USD' or 'coin'")
    if unit not in QUANTITY_UNITS:
        raise ValueError(f"oi must be in 'USD' or 'coin', got {unit!r}")
    return amounts


def require_share(share: Any, *dims: str) -> xr.DataArray:
    """Return a panel of fractions with these dims; a unit need not be stated."""
    fractions: xr.DataArray = require(share, *dims, name="share")
    unit = unit_of(fractions, "share")
    if unit not in (None, "fraction", "1"):
        raise ValueError(f"share must be a fraction, got {unit!r}: pass the result of market_share")
    return fractions


def require_unit_if_stated(data: xr.DataArray, name: str, *units: str) -> None:
    """Raise if an array states a unit other than these; a unit need not be stated."""
    unit = unit_of(data, name)
    if unit not in (None, *units):
        raise ValueError(
            f"{name} must be in {units[0]!r}, got {unit!r}: pass that quantity, or convert it with dd.units"
        )


def decimal_volatility(data: xr.DataArray, name: str) -> xr.DataArray:
    """Return a volatility in decimal per √year, converted from percent; a unit need not be stated."""
    unit = unit_of(data, name)
    if unit == PERCENT_UNIT:
        return (data / 100.0).assign_attrs(data.attrs | {"units": VOLATILITY_UNIT})
    if unit not in (None, *VOLATILITY_SPELLINGS):
        raise ValueError(
            f"{name} must be a volatility in {VOLATILITY_UNIT!r} or {PERCENT_UNIT!r}, got {unit!r}"
        )
    return data


def refuse_negative(data: xr.DataArray, name: str = "oi") -> None:
    """Raise for negative amounts; lazy arrays are not read."""
    if data.chunks is None and bool((data < 0.0).any()):
        raise ValueError(f"{name} must be 0 or more, got a negative value: check the table with dd.quality")


def require_rate(panel: Any, *dims: str, name: str = "panel") -> xr.DataArray:
    """Return a funding panel in bps per 8 hours with these dims; its ``kind`` need not be stated."""
    rates = require(panel, *dims, units=RATE_UNIT, name=name)
    kind = rates.attrs.get("kind")
    if kind is not None and kind not in KINDS:
        raise ValueError(f"{name}.attrs['kind'] must be 'sampled' or 'settled', got {kind!r}")
    return rates


def require_level(level: float) -> None:
    """Raise for a probability of an interval that is not between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be a probability such as 0.9, got {level}")


def kind_of(panel: xr.DataArray) -> str:
    """Return ``"sampled"`` or ``"settled"``, for the functions whose result depends on it."""
    kind = panel.attrs.get("kind")
    if kind not in KINDS:
        raise ValueError(
            "panel.attrs['kind'] must be 'sampled' (a rate over time, which is integrated) or 'settled' "
            f"(payments, which are added), got {kind!r}"
        )
    return str(kind)


def require_venues(panel: xr.DataArray, **venues: str | Sequence[str]) -> None:
    """Raise for unknown or duplicate venues of a panel."""
    listed = panel["exchange"].to_numpy().tolist()
    for argument, given in venues.items():
        for venue in [given] if isinstance(given, str) else given:
            if venue not in listed:
                has = ", ".join(map(str, listed)) or "no label"
                near = did_you_mean(venue, listed)
                raise ValueError(
                    f"{argument}: {str(venue)!r} is not a venue of this panel; "
                    f"its dim exchange has {has}{near}"
                )
            if listed.count(venue) > 1:
                raise ValueError(
                    f"{argument}: the panel must have {str(venue)!r} once along exchange: remove duplicates"
                )


def labels_of(panel: xr.DataArray, dim: str) -> NDArray[np.str_]:
    """Return the labels along a dim as text, also for extension dtypes of pandas or xarray."""
    return np.array([str(label) for label in panel[dim].to_numpy().tolist()], dtype=str)


def hours(panel: xr.DataArray, *, name: str = "panel") -> Floats:
    """Return the hours of each row since the first; times must be naive and ascend without duplicates."""
    require_times(panel, name)
    times = panel["time"].to_numpy()
    if not times.size:
        raise ValueError(f"{name} must have at least one row along time")
    since = hours_at(times, times[0])
    if np.isnan(since).any() or (np.diff(since) <= 0).any():
        raise ValueError(
            f"the times of {name} must ascend without duplicates: sort them and drop duplicates, see "
            "dd.quality"
        )
    return since


def hours_at(times: Any, origin: np.datetime64) -> Floats:
    """Return the hours of times since `origin`; NaN if missing."""
    since = np.asarray(times) - origin
    return np.asarray(since / np.timedelta64(3_600_000_000, "us"), dtype=np.float64)


def hours_of(value: str | pd.Timedelta, name: str, *, minimum: float | None = None) -> float:
    """Return the hours of a length of time such as ``"7d"``, which must be above 0 or at least `minimum`."""
    hours = float(length(value, name) / pd.Timedelta(1, "h"))
    if minimum is None and hours <= 0.0:
        raise ValueError(f"{name} must be longer than 0, got {value!r}")
    if minimum is not None and hours < minimum:
        raise ValueError(f"{name} must be at least {minimum:g} h, got {value!r}")
    return hours


def usual_step(since: Floats, name: str = "panel") -> float:
    """Return the usual hours between rows, the median gap."""
    if since.size < 2:
        raise ValueError(f"{name} must have at least two rows: the step between its rows is unknown")
    return float(np.median(np.diff(since)))


def interval_of(panel: xr.DataArray) -> xr.DataArray:
    """Return the hours covered by each settlement of a panel, over the panel's dims."""
    if "interval_hours" not in panel.coords:
        raise ValueError(
            "panel must have interval_hours, the interval of each settlement: use dd.panel(settlements) or "
            "panel.assign_coords(interval_hours=8.0); infer_interval derives it from the timestamps"
        )
    stated = panel["interval_hours"].reset_coords(drop=True)
    if not stated.dims and stated.chunks is None:
        return broadcast_companion(panel, stated.item(), units=None, name="interval_hours")
    stated = stated.assign_attrs(units=stated.attrs.get("units", HOUR_UNIT))
    return broadcast_companion(panel, stated, units=HOUR_UNIT, name="interval_hours")


def window_rows(
    panel: xr.DataArray, window: str | pd.Timedelta | None, rows: int | None, min_rows: int | None
) -> tuple[int, int]:
    """Return the rows of a window of whole steps of the panel, and the minimum number of known rows."""
    since = hours(panel) if "time" in panel.coords and panel.sizes["time"] else None
    if (window is None) == (rows is None):
        raise ValueError("window= or rows= is missing: pass window as a length of time, or rows as a number")
    if window is not None:
        nothing = float(max(2, min_rows or 2))  # without a step, any window with enough rows is valid
        steps = nothing if since is None else hours_of(window, "window") / usual_step(since)
        if not abs(steps - np.rint(steps)) < 1e-6:
            raise ValueError(
                f"window must be a whole number of the panel's steps, got {window!r}: pass rows= instead"
            )
        rows = int(np.rint(steps))
    assert rows is not None
    minimum = max(2, rows // 2) if min_rows is None else min_rows
    if not 2 <= minimum <= rows <= _MAX_WINDOW_ROWS:
        given = "" if window is None else f"window={window!r} has "
        raise ValueError(
            f"{given}rows={rows!r}, min_rows={minimum}: expected 2 <= min_rows <= rows <= "
            f"{_MAX_WINDOW_ROWS:,}"
        )
    return rows, minimum


def positive(value: Any, name: str) -> float:
    """Require a finite number above 0."""
    if np.ndim(value):
        raise TypeError(f"{name} must be one number or a labelled DataArray, got an unlabelled array")
    number = float(value)
    if not (np.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return number


def _has_same_labels(panel: xr.DataArray, other: xr.DataArray, dim: str) -> bool:
    return panel.sizes[dim] == other.sizes[dim] and panel.get_index(dim).equals(other.get_index(dim))


def broadcast_companion(panel: xr.DataArray, other: Any, *, units: str | None, name: str) -> xr.DataArray:
    """Broadcast a companion of a panel (interval, open interest, mask) to the panel's dims.

    The companion is a number, or a DataArray over some of the panel's dims with the same labels. If `units`
    is not None, it must be in this unit.
    """
    if not isinstance(other, xr.DataArray):
        return xr.DataArray(positive(other, name)).broadcast_like(panel)
    if units is not None:
        require(other, units=units, name=name)
    extra = [str(dim) for dim in other.dims if dim not in panel.dims]
    if extra:
        raise ValueError(f"{name} must not have the dim {extra[0]!r}, which the panel does not have")
    try:
        xr.align(panel, other, join="exact", copy=False)
    except ValueError:
        along = [str(dim) for dim in other.dims if not _has_same_labels(panel, other, str(dim))]
        where = f" along {' and '.join(along)}" if along else ""
        raise ValueError(
            f"{name} must have the labels of the panel{where}: reindex or align it first"
        ) from None
    return other.broadcast_like(panel).transpose(*panel.dims)


def whole(panel: xr.DataArray, *dims: str) -> xr.DataArray:
    """Put each of these dims of the panel into one chunk; in-memory panels are returned unchanged."""
    split = {dim: -1 for dim in dims if len(panel.chunksizes.get(dim, ())) > 1}
    return panel.chunk(split) if split else panel


def like(result: Any, template: xr.DataArray) -> Any:
    """Put the dims of `result` into the template's order, new dims before ``time`` or last."""
    shared = [dim for dim in template.dims if dim in result.dims]
    added = [dim for dim in result.dims if dim not in template.dims]
    at = shared.index("time") if "time" in shared else len(shared)
    return result.transpose(*shared[:at], *added, *shared[at:])


def figures_of(
    kernel: Callable[..., Any],
    *panels: xr.DataArray,
    units: Mapping[str, Any],
    over: Sequence[str] = ("time",),
    into: Mapping[str, int | None] | None = None,
    vectorize: bool = False,
    **options: Any,
) -> xr.Dataset:
    """Apply a kernel to panels and return its results; lazy if the panels are lazy.

    Parameters
    ----------
    units
        Unit of each result by its name; a dtype instead for results other than float64, and the
        `enum.IntFlag` of a status.
    over, into
        Input core dims, as far as a panel has them (each is put into one chunk), and output core dims, new
        ones with their length.
    vectorize
        Whether the kernel takes one series at a time.
    **options
        Further arguments of the kernel.
    """

    def described(unit: Any) -> tuple[Any, dict[str, Any]]:
        """Return dtype and attributes of a result."""
        if isinstance(unit, str):
            return np.float64, {"units": unit}
        status = isinstance(unit, type) and issubclass(unit, IntFlag)
        return (np.int32, flag_attrs(unit)) if status else (unit, {})

    kinds = [described(unit) for unit in units.values()]
    results = xr.apply_ufunc(
        kernel,
        *(whole(panel, *over) for panel in panels),
        input_core_dims=[[dim for dim in over if dim in panel.dims] for panel in panels],
        output_core_dims=[list(into or ())] * len(units),
        kwargs=options,
        vectorize=vectorize,
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[dtype for dtype, _ in kinds],
        dask_gufunc_kwargs={"output_sizes": {dim: size for dim, size in (into or {}).items() if size}},
    )
    # apply_ufunc returns a tuple only for several outputs.
    figures = results if len(units) > 1 else [results]
    variables = {}
    for name, (_, attrs), figure in zip(units, kinds, figures, strict=True):
        variables[name] = like(figure, panels[0]).assign_attrs(attrs)
    return xr.Dataset(variables)


def by_chunk(work: Callable[[xr.DataArray], xr.Dataset], panel: xr.DataArray) -> xr.Dataset:
    """Return ``work(panel)``, computed lazily chunk by chunk if the panel is lazy.

    `work` must be correct for each chunk alone. It receives chunks in their memory layout, whereas
    `apply_ufunc` would copy them with the core dim last.
    """
    template = work(panel)
    return xr.map_blocks(work, panel, template=template) if template.chunks else template


def row_by_row(block: NDArray[Any]) -> NDArray[Any]:
    """Return the block with its first axis outermost in memory.

    It is copied if that axis is the innermost.
    """
    return np.ascontiguousarray(block) if block.strides[0] < block.strides[-1] else block


def kind_attr(panel: xr.DataArray) -> dict[str, Any]:
    """Return the attribute ``kind`` of a panel as attributes of a result; empty without a kind."""
    return {"kind": panel.attrs["kind"]} if "kind" in panel.attrs else {}


def last_valid(valid: Bools) -> Indices:
    """Return the index of the last valid row at or before each row of the last axis, −1 without one.

    The caller limits the age of that row: only earlier rows are considered.
    """
    rows = np.where(valid, np.arange(valid.shape[-1]), -1)
    return np.maximum.accumulate(rows, axis=-1)


def row_quantiles(values: Floats, *shares: float) -> list[Floats]:
    """Return quantiles (linear) along the last axis, ignoring NaN; NaN without values."""
    if not values.shape[-1]:
        return [np.full(values.shape[:-1], np.nan)] * len(shares)
    ordered = np.sort(values, axis=-1)  # np.sort puts NaN last
    last = np.maximum(np.isfinite(ordered).sum(axis=-1) - 1, 0)
    quantiles = []
    for share in shares:
        place = last * share
        below = np.floor(place).astype(np.intp)
        above = np.minimum(below + 1, last)
        lower = np.take_along_axis(ordered, below[..., None], axis=-1)[..., 0]
        upper = np.take_along_axis(ordered, above[..., None], axis=-1)[..., 0]
        quantiles.append(lower + (upper - lower) * (place - below))
    return quantiles
