"""Columns: kinds of values, and the cast of any values to a column's dtype or a `SchemaError`."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arrays import Array

_STR = pd.StringDtype(na_value=np.nan)
_LARGEST_EXACT = 2.0**53
"""Floats below hold every whole number."""

_PLAIN_TEXT: frozenset[type] = frozenset({str, NoneType})
_PLAIN_NUMBERS: frozenset[type] = frozenset({float, int, NoneType})


class Kind(StrEnum):
    """Kind of value of a column; its text is the dtype of pandas."""

    TEXT = "category"
    LABEL = "str"
    NUMBER = "float64"
    COUNT = "Int64"
    RANK = "rank"
    FLAG = "boolean"
    TIME = "datetime64[us, UTC]"

    @property
    def dtype(self) -> str:
        """The pandas dtype; a rank is a count that reads ``"500+"`` as missing."""
        return "Int64" if self is Kind.RANK else str(self.value)


@dataclass(frozen=True)
class Column:
    """One column of the library's one vocabulary: its kind, unit and meaning.

    Attributes
    ----------
    allowed
        The words that it may hold beside missing; empty where any may stand.
    least
        The smallest number that is possible; None where any number is.
    positive
        Whether zero is impossible, too.
    most
        The largest number that is possible: beyond it lies a wrong unit, or what a source writes for
        "undefined". None where any number is.
    default
        The word that rows without a value get: in a column of a key that earlier versions did not have, or
        where text may be empty, which CSV does not tell from missing. None where such rows stay missing.
    """

    kind: Kind
    unit: str
    doc: str
    allowed: tuple[str, ...] = ()
    least: float | None = None
    positive: bool = False
    most: float | None = None
    default: str | None = None

    def outside(self, values: Array) -> Iterator[tuple[Array, str]]:
        """Yield the numbers that are impossible, as a mask, with the reason."""
        with np.errstate(invalid="ignore"):
            if self.least is not None:
                below = values <= self.least if self.positive else values < self.least
                is_zero = self.least == 0.0
                why = (
                    "is not above 0"
                    if self.positive
                    else "is negative"
                    if is_zero
                    else f"is below {self.least:g}"
                )
                yield below, why
            if self.most is not None:
                yield values > self.most, f"is above {self.most:g}, which is impossible"


def cast_columns(
    table: str,
    columns: Mapping[str, Column],
    given: Any,
    *,
    wire: Mapping[str, str] | None = None,
    optional: Collection[str] = (),
) -> dict[str, Any]:
    """Return a table's columns, each in its dtype, rows as they come."""
    cast_ones: dict[str, Any] = {}
    for name, column in columns.items():
        source = name if wire is None else wire.get(name, name)
        if source in given:
            values = given[source]
            if column.default is not None:
                values = _with_default(column, values)
            cast_ones[name] = cast(table, name, column, values)
        elif name in optional:
            size = len(next(iter(given.values()))) if isinstance(given, Mapping) else len(given)
            is_number = column.kind is Kind.NUMBER
            empty = [column.default] * size
            missing = np.full(size, np.nan) if is_number else cast(table, name, column, empty)
            cast_ones[name] = missing
        else:
            as_sent = f" (wire {source!r})" if source != name else ""
            raise SchemaError(f"{table}.{name}{as_sent} is missing; see the answer with dd.raw(path, ...)")
    return cast_ones


def _with_default(column: Column, values: Any) -> pd.Series:
    """Return values with the column's default for each that is missing."""
    listed = values.to_pylist() if isinstance(values, pa.ChunkedArray) else values
    words = pd.Series(listed, dtype=object).reset_index(drop=True)
    return words.where(words.notna(), column.default)


def cast(table: str, name: str, column: Column, values: Any) -> Any:
    """Convert values to the column's dtype; a Series that has it already comes back as it is."""
    is_cast = isinstance(values, pd.Series) and values.dtype == column.kind.dtype
    try:
        # Categories that are cast may still be unsorted or unused, so that text is always looked at.
        result = values if is_cast and column.kind is not Kind.TEXT else _CASTS[column.kind](values)
        if column.kind is Kind.NUMBER and np.isinf(result).any():
            raise ValueError("a value is infinite")
        if column.allowed:
            words = result.cat.categories if isinstance(result, pd.Series) else result.categories
            others = sorted(set(words) - set(column.allowed))
            if others:
                raise ValueError(f"{others[0]!r} is not one of {', '.join(column.allowed)}")
    except (ValueError, TypeError, OverflowError) as problem:
        raise SchemaError(
            f"{table}.{name} is not {column.kind.name.lower()}: {str(problem)[:200]}; "
            "see the answer with dd.raw(path, ...)"
        ) from None
    return result


def written_as_text(frame: pd.DataFrame, columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return a frame whose text columns hold digits where a reader of a file made them whole numbers.

    Such a reader makes floats of whole numbers where some are missing; floats that may be rounded, or of a
    column without missing values ("1E5"), stay as they are and are refused.
    """
    changed = {}
    for name, column in columns.items():
        if column.kind not in (Kind.TEXT, Kind.LABEL) or name not in frame.columns:
            continue
        values = frame[name]
        if values.dtype.kind == "f" and values.isna().any():
            known = values.dropna().to_numpy(np.float64)
            if not ((np.floor(known) == known) & (np.abs(known) < _LARGEST_EXACT)).all():
                continue
            values = values.astype("Int64")
        if values.dtype.kind in "iu":
            changed[name] = values.astype("string").astype(_STR)
    return frame.assign(**changed) if changed else frame


def text(values: Any) -> Any:
    """Return categories, sorted and only those in use, so that equal tables have equal dtypes."""
    array = values.array if isinstance(values, pd.Series) else values
    if not isinstance(array, pd.Categorical):
        values = array = _categorical(array)
    words = array.categories
    codes = array.codes
    used = np.zeros(len(words) + 1, dtype=bool)  # the last place is for −1, what is missing
    used[codes[:1]] = True
    used[codes[1:][codes[1:] != codes[:-1]]] = True  # runs of equal neighbours are looked at once
    used = used[:-1]
    if used.all() and words.dtype == "str" and words.is_monotonic_increasing and not array.ordered:
        return values
    return array.set_categories(pd.Index(sorted(words[used]), dtype="str"), ordered=False)


@lru_cache(maxsize=256)
def words_dtype(*words: str) -> pd.CategoricalDtype:
    """Return the dtype of a text column that holds these words, in their order."""
    return pd.CategoricalDtype(pd.Index(words, dtype="str"))


def coded(words: Iterable[str], codes: Array) -> pd.Categorical:
    """Build a text column from the place of each row's word among `words`."""
    return pd.Categorical.from_codes(codes, dtype=words_dtype(*words), validate=False)


def repeated(value: Any, size: int) -> Any:
    """Repeat `value` in every one of `size` rows, as cheaply as its kind allows."""
    if isinstance(value, str):
        return coded([value], np.zeros(size, dtype=np.int8))
    if isinstance(value, pd.Timestamp):
        instants = np.full(size, times.naive_utc(value.as_unit("us")).to_datetime64())
        return pd.DatetimeIndex(instants, tz="UTC")
    return [value] * size


def _categorical(values: Any) -> pd.Categorical:
    if isinstance(values, pa.ChunkedArray):
        encoded = values.combine_chunks().dictionary_encode()
        indices = encoded.indices.fill_null(-1) if encoded.null_count else encoded.indices
        return coded(encoded.dictionary.to_pylist(), indices.to_numpy())
    listed = (
        np.fromiter(values, dtype=object, count=len(values)) if isinstance(values, list | tuple) else values
    )
    codes, words = pd.factorize(listed)
    _refuse_others(words)
    return pd.Categorical.from_codes(codes, categories=pd.Index(words, dtype="str"))


def _label(values: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        return _STR.__from_arrow__(values)
    if isinstance(values, pd.Categorical) or isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        return pd.array(np.asarray(values, dtype=object), dtype="str")
    if not isinstance(getattr(values, "dtype", None), pd.StringDtype) and not _only(values, _PLAIN_TEXT):
        _refuse_others(values)
    return pd.array(values, dtype="str")


def _refuse_others(values: Any) -> None:
    wrong = [v for v in values if not (isinstance(v, str) or v is None or v is pd.NA or v != v)]
    if wrong:
        raise TypeError(f"expected text, got {wrong[0]!r}")


def _only(values: Any, kinds: frozenset[type]) -> bool:
    """Return whether a list holds these kinds of value and no other, not even a derived kind."""
    return isinstance(values, list) and set(map(type, values)) <= kinds


def floats(values: Sequence[float | None]) -> Array:
    """Return numbers as an array, None as NaN."""
    numbers = packed(values)
    return np.array(values, dtype=np.float64) if numbers is None else numbers


def packed(values: Sequence[Any]) -> Array | None:
    """Return numbers as an array, faster than numpy does; None where one is missing or is no number."""
    room = bytearray(8 * len(values))
    try:
        struct.pack_into(f"{len(values)}d", room, 0, *values)
    except (struct.error, OverflowError):
        return None
    return np.frombuffer(room)


def _number(values: Any) -> Array:
    if isinstance(values, pa.ChunkedArray):
        return np.array(values)
    if _only(values, _PLAIN_NUMBERS):
        return floats(values)
    if isinstance(values, pd.Series | pd.Index) or hasattr(values, "to_numpy"):
        numeric = pd.api.types.is_numeric_dtype(values.dtype) and values.dtype != bool
        if not numeric and not _all_numbers(values):
            raise TypeError(f"expected numbers, got {values.dtype}")
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    array = np.asarray(values)
    if array.ndim != 1:
        raise TypeError(f"expected a number a row, got {values!r:.60}")
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
    missing = np.isnan(numbers)
    whole = missing | (np.isfinite(numbers) & (np.floor(numbers) == numbers))
    if not whole.all():
        raise ValueError(f"{(~whole).sum()} of {whole.size} are not whole, the first is {numbers[~whole][0]}")
    return pd.arrays.IntegerArray(np.where(missing, 1, numbers).astype(np.int64), missing)


def ranks(values: Any) -> Any:
    """Convert whole numbers, some of them text; other text ("500+") is beyond the ranks and missing."""
    if isinstance(getattr(values, "dtype", None), pd.Int64Dtype):
        return values
    return _count(
        [
            int(v) if isinstance(v, str) and v.isdecimal() else None if isinstance(v, str) else v
            for v in values
        ]
    )


def _time(values: Any) -> Any:
    if isinstance(values, pd.Series):
        values = pd.Index(values, copy=True)
    if getattr(values, "dtype", None) == Kind.TIME.dtype:
        return getattr(values, "array", values)
    if isinstance(values, pa.ChunkedArray):
        return times.parse(values).array
    if not isinstance(values, pd.DatetimeIndex):
        values = list(values)
        if not _only(values, _PLAIN_TEXT):
            numbers = [v for v in values if isinstance(v, bool | int | float) and v == v]
            if numbers:
                raise TypeError(f"expected an instant, got {numbers[0]!r}")
        return times.parse(values).array
    if values.tz is None and not values.isna().all():
        raise ValueError("instants without a zone: say which with .dt.tz_localize('UTC')")
    return times.utc(values).as_unit("us").array


_CASTS = {
    Kind.TEXT: text,
    Kind.LABEL: _label,
    Kind.NUMBER: _number,
    Kind.COUNT: _count,
    Kind.RANK: ranks,
    Kind.FLAG: lambda values: pd.array(values, dtype="boolean"),
    Kind.TIME: _time,
}
