"""What people give by mistake: values of every kind, and data that is not quite what was asked for."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr
from hypothesis import strategies as st

from tests.reliability.promises import count

__all__ = ["DRAWN", "VALUES", "Make", "changes"]

Make: TypeAlias = Callable[[], Any]

_TEXTS = {
    "empty": "",
    "unknown": "no such thing",
    "NUL": "a\0b",
    "surrogate": "\ud800",
    "path": "../../etc/passwd",
    "query": "a?b=c&d#e",
    "long": "x" * 5000,
    "number": "1.5",
    "length": "3h",
    "day": "2026-06-29",
    "old day": "1677-01-01",
    "last day": "9999-12-31T23:59:59Z",
    "after the window": "2026-07-15",
}
_NUMBERS = {
    "zero": 0,
    "minus one": -1,
    "one": 1,
    "vast": 10**30,
    "tiny": 5e-324,
    "huge": 1e308,
    "minus huge": -1e308,
    "NaN": float("nan"),
    "inf": float("inf"),
    "True": True,
    "complex": 1j,
    "decimal": decimal.Decimal("1.5"),
    "numpy NaN": np.float32("nan"),
}
_TIMES = {
    "naive": dt.datetime(2026, 6, 29, 1),  # noqa: DTZ001
    "date": dt.date(2026, 6, 29),
    "stamp": pd.Timestamp("2026-06-29", tz="UTC"),
    "NaT": pd.NaT,
    "numpy NaT": np.datetime64("NaT", "us"),
    "numpy year": np.datetime64("30000", "Y"),
    "time delta": pd.Timedelta("1h"),
    "minus a day": pd.Timedelta("-1D"),
}
_OTHERS: dict[str, Make] = {
    "None": lambda: None,
    "NA": lambda: pd.NA,
    "bytes": lambda: b"binance",
    "list": list,
    "dict": dict,
    "set": lambda: {"binance"},
    "texts": lambda: ["binance", "okx"],
    "same twice": lambda: ["binance", "binance"],
    "unknown names": lambda: ["nowhere", "okx"],
    "many names": lambda: [f"v{n}" for n in range(count(40, 500))],
    "mixed": lambda: ["okx", 1, None],
    "lists": lambda: [["okx"], [1, 2]],
    "backwards": lambda: [2.0, -1.0],
    "NaNs": lambda: [float("nan")] * 3,
    "mapping of text": lambda: {"long_entry": "x", "call": "x"},
    "mapping from numbers": lambda: {1: 2.0, None: 1.0},
    "legs of NaN": lambda: dict.fromkeys(("long_entry", "long_exit", "short_entry", "short_exit"), np.nan),
    "array": lambda: np.arange(3.0),
    "empty array": lambda: np.empty(0),
    "no dims": lambda: np.array(2.0),
    "two dims": lambda: np.ones((2, 3)),
    "texts in an array": lambda: np.array(["a", "b"]),
    "objects in an array": lambda: np.array([None, "x", 1.0], dtype=object),
    "series": lambda: pd.Series([1.0, 2.0], index=["a", "a"]),
    "index": lambda: pd.DatetimeIndex(["2026-06-29", "2026-06-28"]),
    "frame": pd.DataFrame,
    "data array": lambda: xr.DataArray(np.ones(2), dims="other"),
    "lone value": lambda: xr.DataArray(np.nan),
    "dataset": xr.Dataset,
    "object": object,
    "function": lambda: len,
    "generator": lambda: (name for name in ["okx"]),
    "slice": lambda: slice(1),
}


def _held(values: Mapping[str, Any]) -> dict[str, Make]:
    return {name: lambda value=value: value for name, value in values.items()}


VALUES: dict[str, Make] = {**_held(_TEXTS), **_held(_NUMBERS), **_held(_TIMES), **_OTHERS}
"""Values by what they are; each is made anew."""

DRAWN: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=12),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.binary(max_size=4),
    st.datetimes(),
    st.timedeltas(),
    st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=4), st.none()), max_size=4),
    st.dictionaries(st.text(max_size=4), st.floats(), max_size=3),
)
"""Values that nobody thought of."""


def _of_frame(frame: pd.DataFrame) -> dict[str, Make]:
    def with_column(name: Any, value: Any) -> Make:
        return lambda: frame.assign(**{name: value})

    made: dict[str, Make] = {
        "no rows": lambda: frame.iloc[:0],
        "one row": lambda: frame.iloc[:1],
        "rows twice": lambda: pd.concat([frame, frame]),
        "columns twice": lambda: pd.concat([frame, frame], axis=1),
        "backwards": lambda: frame.iloc[::-1],
        "by number": lambda: frame.set_axis(range(frame.shape[1]), axis=1),
        "as text": lambda: frame.astype(str),
        "other index": lambda: frame.set_index(frame.columns[0]),
    }
    for name in frame.columns:
        made |= {
            f"without {name}": lambda name=name: frame.drop(columns=name),
            f"{name} as NaN": with_column(name, np.nan),
            f"{name} as NaT": with_column(name, pd.NaT),
            f"{name} as number": with_column(name, -1.0),
            f"{name} as infinity": with_column(name, np.inf),
            f"{name} as text": with_column(name, "x"),
        }
    return made


def _of_labelled(data: Any) -> dict[str, Make]:
    """Of an array or a dataset, its labels and dims changed."""
    made: dict[str, Make] = {
        "without attributes": lambda: data.drop_attrs(),
        "without labels": lambda: data.drop_vars(list(data.coords)),
        "in pieces": lambda: data.chunk(),
        "backwards": lambda: data.isel({dim: slice(None, None, -1) for dim in data.dims}),
    }
    for dim in data.dims:
        made |= {
            f"no {dim}": lambda dim=dim: data.isel({dim: slice(0)}),
            f"one {dim}": lambda dim=dim: data.isel({dim: slice(1)}),
            f"first {dim}": lambda dim=dim: data.isel({dim: 0}),
            f"{dim} renamed": lambda dim=dim: data.rename({dim: "other"}),
            f"{dim} the same": lambda dim=dim: data.isel({dim: [0] * data.sizes[dim]}),
        }
    return made


def _of_array(array: xr.DataArray) -> dict[str, Make]:
    made: dict[str, Make] = _of_labelled(array) | {
        "other units": lambda: array.assign_attrs(units="furlong"),
        "other kind": lambda: array.assign_attrs(kind="furlong"),
        "number as units": lambda: array.assign_attrs(units=3),
        "NaN": lambda: array * np.nan,
        "infinity": lambda: array.copy(data=np.full(array.shape, np.inf)),
        "negative": lambda: array.copy(data=np.full(array.shape, -1.0)),
        "zero": lambda: array.copy(data=np.zeros(array.shape)),
        "booleans": lambda: array.notnull().assign_attrs(array.attrs),
        "texts": lambda: array.astype(str),
        "bare": lambda: array.to_numpy().copy(),
        "transposed": lambda: array.transpose(*array.dims[::-1]),
    }
    for dim in array.dims:
        texts = [f"x{n}" for n in range(array.sizes[dim])]
        made |= {
            f"{dim} as numbers": lambda dim=dim: array.assign_coords({dim: np.arange(array.sizes[dim])}),
            f"{dim} as texts": lambda dim=dim, texts=texts: array.assign_coords({dim: texts}),
            f"{dim} twice": lambda dim=dim: xr.concat([array, array], dim),
        }
    return made


def _of_dataset(data: xr.Dataset) -> dict[str, Make]:
    return _of_labelled(data) | {
        "NaN": lambda: data.map(lambda one: one * np.nan if one.dtype.kind == "f" else one),
        "negative": lambda: data.map(lambda one: -one if one.dtype.kind == "f" else one),
        "texts": lambda: data.map(lambda one: one.astype(str)),
        **{f"without {name}": lambda name=name: data.drop_vars(name) for name in data.variables},
    }


def changes(value: Any) -> dict[str, Make]:
    """What is not quite a valid value of an argument, by what is wrong with it."""
    if isinstance(value, pd.DataFrame):
        return _of_frame(value)
    if isinstance(value, xr.DataArray):
        return _of_array(value)
    if isinstance(value, xr.Dataset):
        return _of_dataset(value)
    return {}
