"""Tables and arrays in plain types: native numbers, text, and times in UTC.

pandas, Arrow and xarray have many types for the same values. `typed` passes the data of a function through
`plain`, so that a result does not depend on type, time unit or time zone. Tables of polars, pyarrow, DuckDB,
ibis and other libraries that narwhals supports become pandas frames. narwhals and pyarrow are imported only
when such a table arrives.
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
"""Columns and coordinates in which ISO text is read as times."""

_ZONE = re.compile(r"(?:Z|[+-]\d{2}(?::?\d{2})?)\s*$", re.IGNORECASE)
_DAY = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
_ZONED = pd.DatetimeTZDtype("us", "UTC")


def plain(value: Any) -> Any:
    """Return a table, an array or a column in plain types, and other values unchanged."""
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
    if kind.__name__ == "Dataset":
        return _plain_dataset(value)
    return value


def _plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in plain types, or the frame itself if every column is plain."""
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
    """Return whether a column is plain by its dtype, as most columns are; others are checked by value."""
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
    """Return whether categories are not in the order of their values, which would change sorted results."""
    if not isinstance(dtype, pd.CategoricalDtype):
        return False
    return bool(dtype.ordered) or not dtype.categories.is_monotonic_increasing


def _by_arrow(dtype: Any) -> bool:
    """Return whether the categories are an Arrow array."""
    return isinstance(dtype, pd.CategoricalDtype) and isinstance(dtype.categories.dtype, pd.ArrowDtype)


def _plain_column(column: pd.Series, name: str) -> pd.Series:
    """Return a column in plain types, or the column itself if it is plain."""
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _plain_column(of_arrow(column, dtype.pyarrow_dtype), name)
    if isinstance(dtype, pd.DatetimeTZDtype):
        if dtype == _ZONED:
            return column
        return _in_range(lambda: utc(column).dt.as_unit("us"), name)
    if isinstance(dtype, pd.CategoricalDtype):
        return _of_categories(column, name)
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        return column.astype(dtype.newbyteorder("="))
    if isinstance(dtype, pd.Float32Dtype | pd.Float64Dtype):
        # Single precision is preserved, because tolerances depend on it.
        values = column.to_numpy(dtype.numpy_dtype, na_value=np.nan)
        return pd.Series(values, column.index, name=column.name)
    if dtype.kind == "O":
        return _of_objects(column, name)
    return column


def _of_categories(column: pd.Series, name: str) -> pd.Series:
    """Return a categorical with sorted plain categories, or a column of times if the categories are times."""
    if _has_own_order(column.dtype):
        words = column.dtype.categories
        with suppress(TypeError):  # words of several types cannot be sorted
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
    """Convert datetimes and ISO text to times; return other objects and text unchanged."""
    first = _first(column)
    is_text = name in TIME_COLUMNS and isinstance(first, str) and _DAY.match(first)
    if is_text or isinstance(first, dt.date):
        return _times(column)
    return column


def of_arrow(column: pd.Series, kind: Any) -> pd.Series:
    """Convert an Arrow column to the types of pandas and numpy."""
    import pyarrow as pa

    if pa.types.is_boolean(kind) and column.hasnans:
        return column.astype("boolean")
    values = pa.array(column.array)
    if pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    converted = values.to_pandas(date_as_object=False)
    return pd.Series(converted.array, column.index, name=column.name)


def _first(values: Any) -> Any:
    """Return the first value that is not missing."""
    for value in values:
        if value is not None and value is not pd.NaT and value == value:
            return value
    return None


def _times(column: pd.Series) -> pd.Series:
    """Convert datetimes or ISO text to times, in UTC or all without a zone; unchanged if that fails."""
    present = column[column.notna()]
    if isinstance(present.iloc[0], str):
        zoned = present.astype("str").str.contains(_ZONE)
    else:
        zoned = present.map(lambda value: getattr(value, "tzinfo", None) is not None)
    if zoned.any() and not zoned.all():
        return column  # the called function raises the error
    try:
        parsed = pd.to_datetime(column, utc=True, format="ISO8601").dt.as_unit("us")
    except (ValueError, TypeError, OverflowError):
        return column
    if zoned.all():
        return parsed
    return naive_utc(parsed)


def _in_range(convert: Any, name: str) -> Any:
    """Return the result of a conversion of times; raise if a time is outside the range."""
    try:
        return convert()
    except (ValueError, OverflowError):
        raise ValueError(f"{name} has a time outside the range of timestamps in microseconds") from None


def _native(values: Any) -> Any:
    """Return numbers in the byte order of this machine."""
    if values.dtype.isnative:
        return values
    return values.astype(values.dtype.newbyteorder("="))


def _plain_array(array: Any) -> Any:
    """Return a DataArray with plain values and coordinates."""
    data = _plain_variable(array.variable, str(array.name))
    coords = _converted_variables(array.coords)
    if data is None and not coords:
        return array
    if data is not None:
        array = array.copy(data=data)
    return _with_coords(array, coords)


def _plain_dataset(dataset: Any) -> Any:
    """Return a Dataset with plain variables and coordinates."""
    changed = _converted_variables(dataset.variables)
    if not changed:
        return dataset
    variables = {}
    coords = {}
    for name, values in changed.items():
        if name in dataset.coords:
            coords[name] = values
        else:
            variables[name] = dataset[name].copy(data=values)
    result = dataset.assign(variables).assign_attrs(dataset.attrs)
    return _with_coords(result, coords)


def _with_coords(data: Any, changed: dict[Any, Any]) -> Any:
    if not changed:
        return data
    coords = {name: (data[name].dims, values, data[name].attrs) for name, values in changed.items()}
    return data.assign_coords(coords)


def _converted_variables(variables: Any) -> dict[Any, Any]:
    """Return the plain values, by name, of those variables that need a conversion."""
    changed = {}
    for name, variable in variables.items():
        values = _plain_variable(getattr(variable, "variable", variable), str(name))
        if values is not None:
            changed[name] = values
    return changed


def _plain_variable(variable: Any, name: str) -> Any:
    """Return the plain values of a variable, or None if it is already plain; times are naive UTC."""
    dtype = variable.dtype
    if isinstance(dtype, np.dtype) and dtype.kind not in "OU":
        return None if dtype.isnative else _native(variable.data)
    if isinstance(dtype, np.dtype) and (name not in TIME_COLUMNS and dtype.kind == "U"):
        return None
    if variable.ndim > 1 or hasattr(variable.data, "__dask_graph__"):
        return None
    if variable.ndim == 0:
        converted = _plain_values(pd.Series([variable.values.item()]), name)
        return None if converted is None else converted[0]
    values = variable.to_index()
    if isinstance(values, pd.MultiIndex):
        return None
    return _plain_values(pd.Series(values), name)


def _plain_values(column: pd.Series, name: str) -> Any:
    """Return numbers or naive times in UTC of a column of text or objects; None if it has neither."""
    converted = _plain_column(column, name)
    kind = converted.dtype.kind
    if kind == "M":
        return naive_utc(converted).to_numpy()
    if converted is column or kind not in "iufb":
        return None
    return converted.to_numpy()


_TIMES_ON_DISK = {
    "units": "microseconds since 1970-01-01",
    "dtype": "int64",
    "calendar": "proleptic_gregorian",
}


def storable(data: Any) -> Any:
    """Return a DataArray or Dataset that can be written to netCDF or zarr, and appended to.

    xarray chooses the encoding of times from the first values that it writes, for example days since the
    first time. Hours that are appended later are then read as days. Fixed-length text is cut to the length of
    the first text. So times get an encoding, text becomes objects, and lists in ``attrs`` are joined to text.
    """
    import xarray as xr

    dataset = data if isinstance(data, xr.Dataset) else data.to_dataset(name=_UNNAMED)
    result = dataset = _with_text_objects(dataset)
    for variable in dataset.variables.values():
        if variable.dtype.kind == "M":
            variable.encoding = {**_TIMES_ON_DISK, **variable.encoding}
    if not isinstance(data, xr.Dataset):
        result = dataset[_UNNAMED].rename(data.name)
        result.attrs = dict(data.attrs)
    for name, value in result.attrs.items():
        if isinstance(value, list | tuple):
            result.attrs[name] = " ".join(map(str, value))
    return result


def _with_text_objects(dataset: Any) -> Any:
    """Convert fixed-length text of a dataset to objects."""
    variables = {}
    coords = {}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind != "U":
            continue
        text = (variable.dims, variable.data.astype(object), variable.attrs)
        if name in dataset.coords:
            coords[name] = text
        else:
            variables[name] = text
    if not coords and not variables:
        return dataset
    return dataset.assign_coords(coords).assign(variables)


_UNNAMED = "_value"


def is_table(value: Any) -> bool:
    """Return whether a value is a table, eager or lazy, or an Arrow stream of rows."""
    if _is_dask(value):
        return True
    import narwhals as nw

    frame = nw.from_native(value, pass_through=True)
    return isinstance(frame, nw.DataFrame | nw.LazyFrame) or _streams(value)


def _is_dask(value: Any) -> bool:
    """Return whether a value is a dask frame, which narwhals will not support in future (notice of 2.29)."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "columns") and hasattr(value, "partitions")


def _streams(value: Any) -> bool:
    """Return whether a value exports rows by Arrow's interface; a single column lacks a ``schema``."""
    exports = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return exports and (hasattr(value, "schema") or hasattr(value, "columns"))


def to_pandas(table: Any) -> pd.DataFrame:
    """Return a table as a pandas frame without Arrow columns; a lazy table is computed.

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
                f"table must be a pandas.DataFrame or a table of another library, got {type(table).__name__}"
            )
        import pyarrow as pa

        rows = pa.table(table)
    elif frame.implementation.is_pandas_like():
        return _without_arrow(frame.to_pandas())
    else:
        rows = frame.to_arrow()
    return _without_arrow(rows.to_pandas(types_mapper=pd.ArrowDtype))


def _without_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the Arrow columns of a frame to the types of pandas and numpy."""
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
    """Return a frame with the named levels of its index as columns, unless a column has the same name."""
    names = [name for name in frame.index.names if isinstance(name, str) and name not in frame.columns]
    if not names:
        return frame
    others = [level for level, name in enumerate(frame.index.names) if name not in names]
    if others:
        frame = frame.reset_index(level=others, drop=True)
    return frame.reset_index()
