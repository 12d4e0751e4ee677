"""Columns: kinds of values, and casting values to the dtype of a column, or raising `SchemaError`."""

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
"""Floats below this represent every integer exactly."""

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
    """One column of the library's vocabulary: its kind, unit and meaning.

    Attributes
    ----------
    allowed
        The allowed words, in addition to missing; empty if any word is allowed.
    least
        The smallest possible number; None if any number is possible.
    positive
        Whether zero is impossible, too.
    most
        The largest possible number. A larger one has a wrong unit, or is a placeholder of the source for
        "undefined". None if any number is possible.
    default
        The word for rows without a value, in a key column that earlier versions did not have, or where text
        may be empty, which CSV does not distinguish from missing. None if such rows stay missing.
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
        with np.errstate(invalid="ignore"):  # comparisons with NaN are false
            if self.least is not None and self.positive:
                yield values <= self.least, "is not above 0"
            elif self.least == 0.0:
                yield values < 0.0, "is negative"
            elif self.least is not None:
                yield values < self.least, f"is below {self.least:g}"
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
    """Return a table's columns, each in its dtype, in the order of the given rows."""
    result: dict[str, Any] = {}
    for name, column in columns.items():
        source = name if wire is None else wire.get(name, name)
        if source in given:
            values = given[source]
            if column.default is not None:
                values = _with_default(column, values)
            result[name] = cast(table, name, column, values)
        elif name in optional:
            size = _row_count(given)
            if column.kind is Kind.NUMBER:
                result[name] = np.full(size, np.nan)
            else:
                result[name] = cast(table, name, column, [column.default] * size)
        else:
            as_sent = f" (wire {source!r})" if source != name else ""
            raise SchemaError(f"{table}.{name}{as_sent} is missing; see the response with dd.raw(path, ...)")
    return result


def _row_count(table: Any) -> int:
    """Return the number of rows of a mapping of columns or of a frame."""
    if isinstance(table, Mapping):
        return len(next(iter(table.values())))
    return len(table)


def _with_default(column: Column, values: Any) -> pd.Series:
    """Replace missing values by the column's default."""
    listed = values.to_pylist() if isinstance(values, pa.ChunkedArray) else values
    words = pd.Series(listed, dtype=object).reset_index(drop=True)
    return words.where(words.notna(), column.default)


def cast(table: str, name: str, column: Column, values: Any) -> Any:
    """Convert values to the column's dtype; a Series of that dtype is returned unchanged."""
    is_cast = isinstance(values, pd.Series) and values.dtype == column.kind.dtype
    try:
        # Categories of the right dtype may still be unsorted or unused, so text is always processed.
        result = values if is_cast and column.kind is not Kind.TEXT else _CASTS[column.kind](values)
        if column.kind is Kind.NUMBER and np.isinf(result).any():
            raise ValueError("a value is infinite")
        if column.allowed:
            words = result.cat.categories if isinstance(result, pd.Series) else result.categories
            others = sorted(set(words) - set(column.allowed))
            if others:
                raise ValueError(f"expected one of {', '.join(column.allowed)}, got {others[0]!r}")
    except (ValueError, TypeError, OverflowError) as problem:
        raise SchemaError(
            f"{table}.{name} is not {column.kind.name.lower()}: {str(problem)[:200]}; "
            "see the response with dd.raw(path, ...)"
        ) from None
    return result


def written_as_text(frame: pd.DataFrame, columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return a frame with digits in text columns that a reader of a file parsed as whole numbers.

    Such a reader makes floats of integers if some are missing. Other floats, which may be rounded or written
    as "1E5", are not changed, and raise an error later.
    """
    changed = {}
    for name, column in columns.items():
        if column.kind not in (Kind.TEXT, Kind.LABEL) or name not in frame.columns:
            continue
        values = frame[name]
        if values.dtype.kind == "f" and values.isna().any():
            numbers = values.dropna().to_numpy(np.float64)
            if not ((np.floor(numbers) == numbers) & (np.abs(numbers) < _LARGEST_EXACT)).all():
                continue
            values = values.astype("Int64")
        if values.dtype.kind in "iu":
            changed[name] = values.astype("string").astype(_STR)
    return frame.assign(**changed) if changed else frame


def text(values: Any) -> Any:
    """Return categories, sorted and without unused ones, so that equal tables have equal dtypes."""
    array = values.array if isinstance(values, pd.Series) else values
    if not isinstance(array, pd.Categorical):
        values = array = _categorical(array)
    words = array.categories
    codes = array.codes
    used = np.zeros(len(words) + 1, dtype=bool)  # the last element is for the code −1, missing values
    used[codes[:1]] = True
    used[codes[1:][codes[1:] != codes[:-1]]] = True  # once for each run of equal adjacent values
    used = used[:-1]
    if used.all() and words.dtype == "str" and words.is_monotonic_increasing and not array.ordered:
        return values
    return array.set_categories(pd.Index(sorted(words[used]), dtype="str"), ordered=False)


@lru_cache(maxsize=256)
def words_dtype(*words: str) -> pd.CategoricalDtype:
    """Return the dtype of a text column with these words, in their order."""
    return pd.CategoricalDtype(pd.Index(words, dtype="str"))


def coded(words: Iterable[str], codes: Array) -> pd.Categorical:
    """Build a text column from the position of each row's word among `words`."""
    return pd.Categorical.from_codes(codes, dtype=words_dtype(*words), validate=False)


def repeated(value: Any, size: int) -> Any:
    """Repeat `value` in `size` rows, as a constant of its kind."""
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
    if isinstance(values, list | tuple):
        values = np.fromiter(values, dtype=object, count=len(values))  # np.array would convert numbers
    codes, words = pd.factorize(values)
    _require_text(words)
    return pd.Categorical.from_codes(codes, categories=pd.Index(words, dtype="str"))


def _label(values: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        return _STR.__from_arrow__(values)
    if isinstance(values, pd.Categorical) or isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        return pd.array(np.asarray(values, dtype=object), dtype="str")
    if not isinstance(getattr(values, "dtype", None), pd.StringDtype) and not _only(values, _PLAIN_TEXT):
        _require_text(values)
    return pd.array(values, dtype="str")


def _require_text(values: Any) -> None:
    """Raise `TypeError` for a value that is neither text nor missing."""
    wrong = [v for v in values if not (isinstance(v, str) or v is None or v is pd.NA or v != v)]
    if wrong:
        raise TypeError(f"expected text, got {wrong[0]!r}")


def _only(values: Any, kinds: frozenset[type]) -> bool:
    """Return whether values are a list with these types only, without subclasses."""
    return isinstance(values, list) and set(map(type, values)) <= kinds


def floats(values: Sequence[float | None]) -> Array:
    """Return numbers as an array, None as NaN."""
    numbers = packed(values)
    return np.array(values, dtype=np.float64) if numbers is None else numbers


def packed(values: Sequence[Any]) -> Array | None:
    """Convert numbers to an array faster than numpy; return None if a value is missing or not a number."""
    buffer = bytearray(8 * len(values))
    try:
        struct.pack_into(f"{len(values)}d", buffer, 0, *values)
    except (struct.error, OverflowError):
        return None
    return np.frombuffer(buffer)


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
    kind = pd.api.types.infer_dtype(values, skipna=True)
    return kind in ("integer", "floating", "mixed-integer-float", "empty")


def _count(values: Any) -> Any:
    numbers = _number(values)
    missing = np.isnan(numbers)
    is_whole = missing | (np.isfinite(numbers) & (np.floor(numbers) == numbers))
    if not is_whole.all():
        wrong = numbers[~is_whole]
        raise ValueError(f"{wrong.size} of {is_whole.size} are not whole, the first is {wrong[0]}")
    return pd.arrays.IntegerArray(np.where(missing, 1, numbers).astype(np.int64), missing)


def ranks(values: Any) -> Any:
    """Convert integers and text of digits to ranks; other text ("500+") becomes missing."""
    if isinstance(getattr(values, "dtype", None), pd.Int64Dtype):
        return values
    numbers: list[Any] = []
    for value in values:
        if not isinstance(value, str):
            numbers.append(value)
        elif value.isdecimal():
            numbers.append(int(value))
        else:
            numbers.append(None)
    return _count(numbers)


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
                raise TypeError(f"expected a time, got {numbers[0]!r}")
        return times.parse(values).array
    if values.tz is None and not values.isna().all():
        raise ValueError("times without a zone; state it with .dt.tz_localize('UTC')")
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
