"""Values of any kind that arrives, as the one dtype of a column, or a `SchemaError` that says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.errors import SchemaError
from derivdata.schema.kinds import Column, Kind


def cast(table: str, name: str, column: Column, values: Any) -> pd.Series:
    try:
        return pd.Series(_CASTS[column.kind](values), name=name, copy=False)
    except (ValueError, TypeError, OverflowError) as problem:
        raise SchemaError(
            f"{table}.{name} is not {column.kind.name.lower()}: {str(problem)[:200]}; "
            "see the answer with dd.raw(path, ...)"
        ) from None


def text(values: Any) -> Any:
    """Categories sorted and only those in use, so that equal tables have equal dtypes."""
    if isinstance(values, pd.Series):
        values = values.array
    if not isinstance(values, pd.Categorical):
        found = pd.Index(values, dtype=object)
        wrong = [v for v in found.unique() if not (isinstance(v, str) or v is None or v is pd.NA or v != v)]
        if wrong:
            raise TypeError(f"expected text, got {wrong[0]!r}")
        values = pd.Categorical(found)
    used = np.bincount(values.codes + 1, minlength=len(values.categories) + 1)[1:] > 0
    ordered = pd.Index(sorted(values.categories[used]), dtype="str")
    return values if ordered.identical(values.categories) else values.set_categories(ordered)


def _label(values: Any) -> Any:
    if isinstance(values, pd.Categorical) or isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        return pd.array(np.asarray(values, dtype=object), dtype="str")
    if not isinstance(getattr(values, "dtype", None), pd.StringDtype):
        wrong = [v for v in values if not (isinstance(v, str) or v is None or v is pd.NA or v != v)]
        if wrong:
            raise TypeError(f"expected text, got {wrong[0]!r}")
    return pd.array(values, dtype="str")


def _number(values: Any) -> np.ndarray[Any, Any]:
    if isinstance(values, pd.Series | pd.Index) or hasattr(values, "to_numpy"):
        numeric = pd.api.types.is_numeric_dtype(values.dtype) and values.dtype != bool
        if not numeric and not _all_numbers(values):
            raise TypeError(f"expected numbers, got {values.dtype}")
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    array = np.asarray(values)
    if array.dtype.kind == "O" and _all_numbers(array):
        array = np.array([np.nan if v is None else v for v in array], dtype=np.float64)
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"expected numbers, got {array.ravel()[0]!r}")
    return array.astype(np.float64, copy=False)


def _all_numbers(values: Any) -> bool:
    return all(
        v is None or v is pd.NA or (isinstance(v, int | float | np.number) and not isinstance(v, bool))
        for v in values
    )


def _count(values: Any) -> Any:
    numbers = _number(values)
    whole = np.isnan(numbers) | (np.floor(numbers) == numbers)
    if not whole.all():
        raise ValueError(f"{(~whole).sum()} of {whole.size} are not whole, the first is {numbers[~whole][0]}")
    return pd.array(pd.Series(numbers), dtype="Float64").astype("Int64")


def _rank(values: Any) -> Any:
    if isinstance(getattr(values, "dtype", None), pd.Int64Dtype):
        return values
    return _count(
        [
            int(v) if isinstance(v, str) and v.isdecimal() else None if isinstance(v, str) else v
            for v in values
        ]
    )


def _flag(values: Any) -> Any:
    return pd.array(values, dtype="boolean")


def _time(values: Any) -> pd.DatetimeIndex:
    if isinstance(values, pd.Series):
        values = pd.Index(values)
    if not isinstance(values, pd.DatetimeIndex):
        values = list(values)
        wrong = [v for v in values if isinstance(v, bool | int | float) and v == v]
        if wrong:
            raise TypeError(f"expected an instant, got {wrong[0]!r}")
        return times.parse(values)
    if values.tz is None and len(values):
        raise ValueError("instants without a zone: say which with .dt.tz_localize('UTC')")
    return (
        values.tz_localize("UTC").as_unit("us")
        if values.tz is None
        else values.tz_convert("UTC").as_unit("us")
    )


_CASTS = {
    Kind.TEXT: text,
    Kind.LABEL: _label,
    Kind.NUMBER: _number,
    Kind.COUNT: _count,
    Kind.RANK: _rank,
    Kind.FLAG: _flag,
    Kind.TIME: _time,
}
