"""Tables and arrays in plain types: native numbers, text, and instants in UTC.

pandas, Arrow and xarray hold the same values in many types. `typed` passes the data that a function takes
through `plain`, so that a result does not depend on their type, time unit or time zone. Tables of polars,
pyarrow, DuckDB, ibis and all that narwhals takes become pandas frames. Neither narwhals nor pyarrow is
imported before such a table arrives.
"""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from derivdata.support.times import naive_utc, utc

TIME_COLUMNS = frozenset(
    {
        "time",
        "expiry",
        "start",
        "end",
        "entry",
        "exit",
        "event",
        "as_of",
        "available_at",
        "last_time",
        "next_time",
        "next_session_start",
        "settlement_time",
        "quoted_at",
        "listed",
        "delisted",
        "first",
        "last",
    }
)
"""Columns and coordinates in which ISO text is read as instants."""

_ZONE = re.compile(r"(?:Z|[+-]\d{2}(?::?\d{2})?)\s*$", re.IGNORECASE)
_DAY = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
_ZONED = pd.DatetimeTZDtype("us", "UTC")


def plain(value: Any) -> Any:
    """Return a table, an array or a column in plain types; anything else as it is."""
    if isinstance(value, pd.DataFrame):
        return _plain_frame(value)
    if isinstance(value, pd.Series):
        return _plain_column(value, str(value.name))
    if isinstance(value, np.ndarray):
        return _native(value)
    kind = type(value)
    if kind.__module__.partition(".")[0] != "xarray":
        return value
    if kind.__name__ == "DataArray":
        return _plain_array(value)
    return _plain_dataset(value) if kind.__name__ == "Dataset" else value


def _plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in plain types; the frame itself where every column is plain."""
    changed = {}
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if not _is_plain(dtype, name):
            column = frame.iloc[:, place]
            converted = _plain_column(column, str(name))
            if converted is not column:
                changed[place] = converted
    if not changed:
        return frame
    columns = [changed.get(place, frame.iloc[:, place]) for place in range(frame.shape[1])]
    result = pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)
    result.attrs = dict(frame.attrs)
    return result


def _is_plain(dtype: Any, name: Any) -> bool:
    """Return whether a column needs no look at its values: most columns of most tables."""
    if isinstance(dtype, np.dtype):
        return dtype.isnative and dtype.kind != "O"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return bool(dtype == _ZONED)
    return (
        isinstance(dtype, pd.CategoricalDtype | pd.StringDtype)
        and name not in TIME_COLUMNS
        and not _by_arrow(dtype)
        and not _has_own_order(dtype)
    )


def _has_own_order(dtype: Any) -> bool:
    """Return whether categories are in another order than their values: results would be sorted by it."""
    if not isinstance(dtype, pd.CategoricalDtype):
        return False
    return bool(dtype.ordered) or not dtype.categories.is_monotonic_increasing


def _by_arrow(dtype: Any) -> bool:
    """Return whether categories are held by Arrow."""
    return isinstance(dtype, pd.CategoricalDtype) and isinstance(dtype.categories.dtype, pd.ArrowDtype)


def _plain_column(column: pd.Series, name: str) -> pd.Series:
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _plain_column(of_arrow(column, dtype.pyarrow_dtype), name)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return column if dtype == _ZONED else _in_range(lambda: utc(column).dt.as_unit("us"), name)
    if isinstance(dtype, pd.CategoricalDtype):
        return _of_categories(column, name)
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        return column.astype(dtype.newbyteorder("="))
    if isinstance(dtype, pd.Float32Dtype | pd.Float64Dtype):
        # A column of single precision stays one: tolerances depend on it.
        values = column.to_numpy(dtype.numpy_dtype, na_value=np.nan)
        return pd.Series(values, column.index, name=column.name)
    return _of_objects(column, name) if dtype.kind == "O" else column


def _of_categories(column: pd.Series, name: str) -> pd.Series:
    """Return a categorical with sorted plain categories, or its values where these are instants."""
    if _has_own_order(column.dtype):
        words = column.dtype.categories
        with suppress(TypeError):  # words of several types have no order
            words = words.sort_values()
        column = column.cat.set_categories(words, ordered=False)
    before = column.dtype.categories
    categories = _plain_column(pd.Series(before), name)
    if categories.dtype == before.dtype and categories.dtype.kind != "M":
        return column
    if categories.dtype.kind == "M":
        return _plain_column(column.astype(categories.dtype), name)
    return column.cat.rename_categories(pd.Index(categories))


def _of_objects(column: pd.Series, name: str) -> pd.Series:
    """Return datetimes and ISO text as instants; other objects and text as they are."""
    first = _first(column)
    is_text = name in TIME_COLUMNS and isinstance(first, str) and _DAY.match(first)
    return _instants(column, name) if is_text or isinstance(first, dt.date) else column


def of_arrow(column: pd.Series, kind: Any) -> pd.Series:
    """Return a column that Arrow holds in the types of pandas and numpy."""
    import pyarrow as pa

    if pa.types.is_boolean(kind) and column.hasnans:
        return column.astype("boolean")
    values = pa.array(column.array)
    if pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    held = values.to_pandas(date_as_object=False)
    return pd.Series(held.array, column.index, name=column.name)


def _first(values: Any) -> Any:
    """Return the first value that is not missing."""
    return next(
        (value for value in values if value is not None and value is not pd.NaT and value == value), None
    )


def _instants(column: pd.Series, name: str) -> pd.Series:
    """Return datetimes or ISO text as instants; without a zone unless all have one, else as they are."""
    known = column[column.notna()]
    if isinstance(known.iloc[0], str):
        zoned = known.astype("str").str.contains(_ZONE)
    else:
        zoned = known.map(lambda value: getattr(value, "tzinfo", None) is not None)
    if zoned.any() and not zoned.all():
        return column  # the function says that they are not instants
    try:
        parsed = pd.to_datetime(column, utc=True, format="ISO8601").dt.as_unit("us")
    except (ValueError, TypeError, OverflowError):
        return column
    return parsed if zoned.all() else naive_utc(parsed)


def _in_range(convert: Any, name: str) -> Any:
    try:
        return convert()
    except (ValueError, OverflowError):
        raise ValueError(f"{name} has a time outside the years that can be handled") from None


def _native(values: Any) -> Any:
    """Return numbers in the byte order of this machine."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _plain_array(array: Any) -> Any:
    data = _plain_variable(array.variable, str(array.name))
    coords = _changed(array.coords)
    if data is None and not coords:
        return array
    result = array if data is None else array.copy(data=data)
    return _with_coords(result, coords)


def _plain_dataset(dataset: Any) -> Any:
    changed = _changed(dataset.variables)
    if not changed:
        return dataset
    data = {name: values for name, values in changed.items() if name not in dataset.coords}
    result = dataset.assign({name: dataset[name].copy(data=values) for name, values in data.items()})
    coords = {name: values for name, values in changed.items() if name in dataset.coords}
    return _with_coords(result.assign_attrs(dataset.attrs), coords)


def _with_coords(data: Any, changed: dict[Any, Any]) -> Any:
    if not changed:
        return data
    parts = {name: (data[name].dims, values, data[name].attrs) for name, values in changed.items()}
    return data.assign_coords(parts)


def _changed(variables: Any) -> dict[Any, Any]:
    """Return the plain values of the variables that are not plain."""
    found = {}
    for name, variable in variables.items():
        values = _plain_variable(getattr(variable, "variable", variable), str(name))
        if values is not None:
            found[name] = values
    return found


def _plain_variable(variable: Any, name: str) -> Any:
    """Return the plain values of a variable, or None where it is plain already; times are naive UTC."""
    dtype = variable.dtype
    if isinstance(dtype, np.dtype) and dtype.kind not in "OU":
        return None if dtype.isnative else variable.data.astype(dtype.newbyteorder("="))
    if isinstance(dtype, np.dtype) and (name not in TIME_COLUMNS and dtype.kind == "U"):
        return None
    if variable.ndim > 1 or hasattr(variable.data, "__dask_graph__"):
        return None
    values = variable.to_index() if variable.ndim == 1 else variable.values
    if isinstance(values, pd.MultiIndex):
        return None
    column = pd.Series(values if variable.ndim else [values.item()])
    converted = _plain_column(column, name)
    if converted is column and column.dtype.kind != "M":
        return None
    if converted.dtype.kind != "M":
        return converted.to_numpy() if converted.dtype.kind in "iufb" else None
    naive = naive_utc(converted).to_numpy()
    return naive if variable.ndim else naive[0]


_TIMES_ON_DISK = {
    "units": "microseconds since 1970-01-01",
    "dtype": "int64",
    "calendar": "proleptic_gregorian",
}


def storable(data: Any) -> Any:
    """Return a DataArray or Dataset that can be written to netCDF or zarr, and appended to.

    xarray chooses how to store times from the first values that it writes: days since the first of them, for
    one. Whole hours that are appended later are then read as days. Fixed-length text is cut to the length of
    the first. So times have an encoding, text is of any length, and lists in ``attrs`` are joined text.
    """
    import xarray as xr

    whole = data if isinstance(data, xr.Dataset) else data.to_dataset(name=_UNNAMED)
    fixed = {
        name: (variable.dims, variable.data.astype(object), variable.attrs)
        for name, variable in whole.variables.items()
        if variable.dtype.kind == "U"
    }
    if fixed:
        coords = {name: value for name, value in fixed.items() if name in whole.coords}
        whole = whole.assign_coords(coords).assign({n: v for n, v in fixed.items() if n not in coords})
    for variable in whole.variables.values():
        if variable.dtype.kind == "M":
            variable.encoding = {**_TIMES_ON_DISK, **variable.encoding}
    if not isinstance(data, xr.Dataset):
        array = whole[_UNNAMED].rename(data.name)
        array.attrs = dict(data.attrs)
        whole = array
    for name, value in whole.attrs.items():
        if isinstance(value, list | tuple):
            whole.attrs[name] = " ".join(map(str, value))
    return whole


_UNNAMED = "_value"


def is_table(value: Any) -> bool:
    """Return whether a value is a table, eager or lazy, or a stream of rows of Arrow."""
    if _is_dask(value):
        return True
    import narwhals as nw

    return isinstance(nw.from_native(value, pass_through=True), nw.DataFrame | nw.LazyFrame) or _streams(
        value
    )


def _is_dask(value: Any) -> bool:
    """Return whether a value is a frame of dask, whose support narwhals 2.29 announces to end."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "columns") and hasattr(value, "partitions")


def _streams(value: Any) -> bool:
    """Return whether a value gives rows by Arrow's interface; a single column has no ``schema``."""
    gives = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return gives and (hasattr(value, "schema") or hasattr(value, "columns"))


def to_pandas(table: Any) -> pd.DataFrame:
    """Return a table as a pandas frame whose columns Arrow does not hold; a lazy table is computed.

    Raises
    ------
    TypeError
        The value is not a table.
    """
    if isinstance(table, pd.DataFrame):
        return _without_arrow(table)
    if _is_dask(table):
        return _without_arrow(table.compute())
    import narwhals as nw

    frame = nw.from_native(table, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        if not _streams(table):
            raise TypeError(
                f"table must be a pandas.DataFrame or a table of another library, not {type(table).__name__}"
            )
        import pyarrow as pa

        rows = pa.table(table)
    elif frame.implementation.is_pandas_like():
        return _without_arrow(frame.to_pandas())
    else:
        rows = frame.to_arrow()
    return _without_arrow(rows.to_pandas(types_mapper=pd.ArrowDtype))


def _without_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the types of pandas and numpy in place of Arrow's."""
    # merged

    dtypes = list(frame.dtypes)
    if not any(isinstance(dtype, pd.ArrowDtype) for dtype in dtypes):
        return frame
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    for place, dtype in enumerate(dtypes):
        if isinstance(dtype, pd.ArrowDtype):
            columns[place] = of_arrow(columns[place], dtype.pyarrow_dtype)
    result = pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)
    result.attrs = dict(frame.attrs)
    return result


def with_index_as_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the named levels of its index as columns, except those that are columns already."""
    names = [name for name in frame.index.names if isinstance(name, str) and name not in frame.columns]
    if not names:
        return frame
    others = [level for level, name in enumerate(frame.index.names) if name not in names]
    if others:
        frame = frame.reset_index(level=others, drop=True)
    return frame.reset_index()
