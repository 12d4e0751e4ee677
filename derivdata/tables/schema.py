"""Columns and tables: types, units and keys. All frames are built and checked here.

Values are cast to the dtype of their column, or raise `SchemaError`. A table has one row per key and declared
columns. An open table is a payload without a schema.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from msgspec import UNSET, Struct
from msgspec.structs import astuple

from derivdata.errors import SchemaError
from derivdata.support import plain_data, times
from derivdata.support.arrays import Array
from derivdata.support.calls import Provenance
from derivdata.support.text import escape_controls, import_extra

__all__ = [
    "Column", "Kind", "OpenTable", "Table", "arrangement", "coded", "floats", "ranks", "repeated",
]  # fmt: skip

_STR = pd.StringDtype(na_value=np.nan)
_LARGEST_EXACT = 2.0**53
"""Floats below this represent every integer exactly."""

_PLAIN_TEXT: frozenset[type] = frozenset({str, NoneType})
_PLAIN_NUMBERS: frozenset[type] = frozenset({float, int, NoneType})


class Kind(StrEnum):
    """Kind of a column's values; the member's value is the pandas dtype."""

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
    """Definition of a column: its kind, unit and meaning, and the values that it allows.

    Attributes
    ----------
    allowed
        The allowed words, in addition to missing; empty if any word is allowed.
    minimum
        The smallest possible number; None if any number is possible.
    positive
        Whether zero is impossible, too.
    maximum
        The largest possible number. A larger one has a wrong unit, or is a placeholder of the source for
        "undefined". None if any number is possible.
    default
        The word that replaces missing values: for a key column that earlier versions did not have, or for
        text that may be empty, because CSV does not distinguish empty from missing. None leaves them missing.
    """

    kind: Kind
    unit: str
    doc: str
    allowed: tuple[str, ...] = ()
    minimum: float | None = None
    positive: bool = False
    maximum: float | None = None
    default: str | None = None

    def outside(self, values: Array) -> Iterator[tuple[Array, str]]:
        """Yield the numbers that are impossible, as a mask, with the reason."""
        with np.errstate(invalid="ignore"):  # comparisons with NaN are false
            if self.minimum is not None and self.positive:
                yield values <= self.minimum, "is not above 0"
            elif self.minimum == 0.0:
                yield values < 0.0, "is negative"
            elif self.minimum is not None:
                yield values < self.minimum, f"is below {self.minimum:g}"
            if self.maximum is not None:
                yield values > self.maximum, f"is above {self.maximum:g}, which is impossible"


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
    wire = wire or {}
    for name, column in columns.items():
        source = wire.get(name, name)
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
            shown = f"{table}.{name}"
            if source != name:
                shown += f" (wire {source!r})"
            raise SchemaError(f"{shown} is missing; see the response with dd.raw(path, ...)")
    return result


def _row_count(table: Any) -> int:
    """Return the number of rows of a mapping of columns or of a frame."""
    if isinstance(table, Mapping):
        return len(next(iter(table.values())))
    return len(table)


def _with_default(column: Column, values: Any) -> pd.Series:
    """Replace missing values by the column's default."""
    if isinstance(values, pa.ChunkedArray):
        values = values.to_pylist()
    words = pd.Series(values, dtype=object).reset_index(drop=True)
    return words.where(words.notna(), column.default)


def cast(table: str, name: str, column: Column, values: Any) -> Any:
    """Convert values to the column's dtype; a Series of that dtype is returned unchanged."""
    is_cast = isinstance(values, pd.Series) and values.dtype == column.kind.dtype
    try:
        # Categories of the right dtype may still be unsorted or unused, so text is always processed.
        result = values if is_cast and column.kind is not Kind.TEXT else _CASTS[column.kind](values)
        if column.kind is Kind.NUMBER and np.isinf(result).any():
            raise ValueError("a value is infinite: expected finite numbers")
        if column.allowed:
            others = sorted(set(bare(result).categories) - set(column.allowed))
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
    array = bare(values)
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
    """Return a categorical text column from each row's position in `words`; −1 is missing."""
    return pd.Categorical.from_codes(codes, dtype=words_dtype(*words), validate=False)


def repeated(value: Any, size: int) -> Any:
    """Return `size` rows of `value`: categorical for text, UTC times for a Timestamp, else a list."""
    if isinstance(value, str):
        return coded([value], np.zeros(size, dtype=np.int8))
    if isinstance(value, pd.Timestamp):
        timestamps = np.full(size, times.naive_utc(value.as_unit("us")).to_datetime64())
        return pd.DatetimeIndex(timestamps, tz="UTC")
    return [value] * size


def _categorical(values: Any) -> pd.Categorical:
    """Convert text, or codes of Arrow, to a categorical column."""
    if isinstance(values, pa.ChunkedArray):
        encoded = values.combine_chunks().dictionary_encode()
        indices = encoded.indices
        if encoded.null_count:
            indices = indices.fill_null(-1)
        return coded(encoded.dictionary.to_pylist(), indices.to_numpy())
    if isinstance(values, list | tuple):
        values = np.fromiter(values, dtype=object, count=len(values))  # np.array would convert numbers
    codes, words = pd.factorize(values)
    _require_text(words)
    return pd.Categorical.from_codes(codes, categories=pd.Index(words, dtype="str"))


def _label(values: Any) -> Any:
    """Convert text to a string column."""
    if isinstance(values, pa.ChunkedArray):
        return _STR.__from_arrow__(values)
    if isinstance(values, pd.Categorical) or isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        return pd.array(np.asarray(values, dtype=object), dtype="str")
    if not isinstance(getattr(values, "dtype", None), pd.StringDtype) and not _only(values, _PLAIN_TEXT):
        _require_text(values)
    return pd.array(values, dtype="str")


def _require_text(values: Any) -> None:
    """Raise `TypeError` for a value that is neither text nor missing."""
    for value in values:
        if not (isinstance(value, str) or value is None or value is pd.NA or value != value):
            raise TypeError(f"expected text, got {value!r}")


def _only(values: Any, kinds: frozenset[type]) -> bool:
    """Return whether values are a list whose elements have exactly these types, not subclasses."""
    return isinstance(values, list) and set(map(type, values)) <= kinds


def floats(values: Sequence[float | None]) -> Array:
    """Return numbers as a float64 array, with NaN for None."""
    numbers = packed(values)
    if numbers is None:
        return np.array(values, dtype=np.float64)
    return numbers


def packed(values: Sequence[Any]) -> Array | None:
    """Convert numbers to an array faster than numpy; return None if a value is missing or not a number."""
    buffer = bytearray(8 * len(values))
    try:
        struct.pack_into(f"{len(values)}d", buffer, 0, *values)
    except (struct.error, OverflowError):
        return None
    return np.frombuffer(buffer)


def _number(values: Any) -> Array:
    """Convert numbers to float64; missing ones are NaN."""
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
        raise TypeError(f"expected one number per row, got {values!r:.60}")
    if array.dtype.kind == "O" and _all_numbers(array):
        array = array.astype(np.float64)  # None becomes NaN
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"expected numbers, got {array.ravel()[0]!r}")
    return array.astype(np.float64, copy=False)


def _all_numbers(values: Any) -> bool:
    kind = pd.api.types.infer_dtype(values, skipna=True)
    return kind in ("integer", "floating", "mixed-integer-float", "empty")


def _count(values: Any) -> Any:
    """Convert whole numbers to a nullable integer column."""
    numbers = _number(values)
    missing = np.isnan(numbers)
    is_whole = missing | (np.isfinite(numbers) & (np.floor(numbers) == numbers))
    if not is_whole.all():
        wrong = numbers[~is_whole]
        raise ValueError(f"{wrong.size} of {is_whole.size} values are not whole numbers, first {wrong[0]}")
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
    """Convert ISO text or datetimes with a zone to a column of UTC times in µs."""
    if isinstance(values, pd.Series):
        values = pd.Index(values, copy=True)
    if getattr(values, "dtype", None) == Kind.TIME.dtype:
        return getattr(values, "array", values)
    if isinstance(values, pa.ChunkedArray):
        return times.parse(values).array
    if not isinstance(values, pd.DatetimeIndex):
        values = list(values)
        if not _only(values, _PLAIN_TEXT):
            _reject_numbers(values)
        return times.parse(values).array
    if values.tz is None and not values.isna().all():
        raise ValueError("times without a zone; state it with .dt.tz_localize('UTC')")
    return times.utc(values).as_unit("us").array


def _reject_numbers(values: list[Any]) -> None:
    """Raise `TypeError` for a number other than NaN, which pandas would read as a time."""
    for value in values:
        if isinstance(value, bool | int | float) and value == value:
            raise TypeError(f"expected a time, got {value!r}")


_CASTS = {
    Kind.TEXT: text,
    Kind.LABEL: _label,
    Kind.NUMBER: _number,
    Kind.COUNT: _count,
    Kind.RANK: ranks,
    Kind.FLAG: lambda values: pd.array(values, dtype="boolean"),
    Kind.TIME: _time,
}


_ARROW = {
    Kind.TEXT: pa.string(),
    Kind.LABEL: pa.large_string(),
    Kind.TIME: pa.string(),
    Kind.NUMBER: pa.float64(),
    Kind.COUNT: pa.float64(),
}
_BATCH = 512
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if pd.__version__.startswith("3.0.") else {}
"""Option for exact numbers in `pandas.read_csv`; from pandas 3.1 on they are always exact."""


@dataclass(frozen=True)
class Table:
    """A tidy table with a fixed schema: one row per key, declared columns, declared dtypes.

    Attributes
    ----------
    name
        Family and fetcher: ``funding_history`` is what ``dd.funding.history`` returns.
    key
        Columns that identify a row; they may not be missing, and two rows may not have equal keys.
    columns
        Every column in order, the key's first.
    wire
        Column to wire name, where they differ.
    optional
        Columns that a response may lack; they are then missing in every row.
    order
        Columns that rows are sorted by; the key by default.
    doc
        One line that defines a row.
    """

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, Column]
    doc: str
    wire: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()

    def empty(self) -> pd.DataFrame:
        """Return a frame with all columns and no rows."""
        return self.frame(self.joined([]))

    def rows(self, rows: Sequence[Struct], **constants: Any) -> dict[str, Any]:
        """Return wire-named columns from decoded structs, and `constants` repeated in every row.

        Columns without a field in the struct, or without a value in any row (`msgspec.UNSET`), are omitted,
        so that `build` can name them.
        """
        # Batches stay in the processor's cache while all their fields are read.
        batches = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
        return self.batches(batches) | {n: repeated(v, len(rows)) for n, v in constants.items()}

    def batches(self, batches: Iterable[Sequence[Struct]]) -> dict[str, Any]:
        """Return the columns of structs in batches; each batch is released before the next one."""
        return gather(batches, {self.wire.get(n, n): column.kind for n, column in self.columns.items()})

    def build(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """Build the table from wire-named columns of equal length; unknown names are dropped."""
        return self.frame(self.joined([self.typed(columns)]))

    def typed(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table's columns from wire-named ones, each in its dtype, rows in the given order."""
        return cast_columns(self.name, self.columns, columns, wire=self.wire, optional=self.optional)

    def some(self, names: Sequence[str], given: Any) -> pd.DataFrame:
        """Return some columns of a mapping or frame, each in its dtype, rows unsorted and unchecked."""
        columns = {name: self.columns[name] for name in names}
        return pd.DataFrame(cast_columns(self.name, columns, given, optional=self.optional), copy=False)

    def joined(self, tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return typed columns of several tables as one, sorted and checked; without tables, no rows."""
        if not tables:
            tables = [cast_columns(self.name, self.columns, {name: [] for name in self.columns})]
        if len(tables) == 1:
            return self._checked(tables[0])
        return self._checked({name: _joined([table[name] for table in tables]) for name in self.columns})

    def frame(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """Build a frame from sorted and checked columns."""
        frame = pd.DataFrame(dict(enumerate(columns.values())), copy=False)
        frame.columns = self._labels.view()
        return frame

    def conform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Convert a frame with the library's names to this table: cast, order and sort it, and check it.

        Parameters
        ----------
        frame
            A table of pandas, polars, pyarrow, DuckDB, ibis or narwhals, lazy ones included, read from any
            format. Columns may be in the index. Whole numbers in a column of text become their digits:
            readers of CSV parse identifiers as numbers. ``read_csv`` also preserves leading zeros.

        Returns
        -------
        DataFrame
            The table, with the ``attrs`` of the frame.

        Raises
        ------
        SchemaError
            A column is missing or has values of another kind, a key is missing, or two rows share a key.
        """
        frame = plain_data.with_index_as_columns(plain_data.to_pandas(frame))
        rows = written_as_text(frame.reset_index(drop=True), self.columns)
        result = self.frame(
            self._checked(cast_columns(self.name, self.columns, rows, optional=self.optional))
        )
        result.attrs = dict(frame.attrs)
        if isinstance(frame.attrs.get("provenance"), dict):  # a plain one if it was read from Parquet
            result.attrs["provenance"] = Provenance(frame.attrs["provenance"])
        return result

    def read_csv(self, file: Any) -> pd.DataFrame:
        """Read the table from a CSV file that ``to_csv`` of pandas or another library wrote.

        Text is not interpreted ("007", "NA", "NULL"), and numbers are exact. An empty field is missing.

        Parameters
        ----------
        file
            Path, address or open file, as `pandas.read_csv` takes it.

        Returns
        -------
        DataFrame
            The table. CSV does not store ``attrs``: pass ``source=`` to figures.

        Raises
        ------
        SchemaError
            As for ``conform``.
        """
        texts = {n: "str" for n, column in self.columns.items() if column.kind in (Kind.TEXT, Kind.LABEL)}
        return self.conform(pd.read_csv(file, dtype=texts, keep_default_na=False, na_values=[""], **_EXACT))

    def to_pandera(self) -> Any:
        """Return a `pandera.pandas.DataFrameSchema` that checks this table in your own pipeline.

        It has the dtypes, the allowed words and bounds of columns, and the key: never missing, no duplicates.

        Returns
        -------
        pandera.pandas.DataFrameSchema
            ``schema.validate(frame)`` raises pandera's ``SchemaError`` at the first fault.

        Raises
        ------
        ImportError
            pandera is not installed (``derivdata[pandera]``).
        """
        pandera = import_extra("pandera.pandas", "pandera", "Table.to_pandera")
        columns = {}
        for name, column in self.columns.items():
            checks = []
            if column.allowed:
                checks.append(pandera.Check.isin([*column.allowed]))
            if column.minimum is not None:
                above = pandera.Check.gt if column.positive else pandera.Check.ge
                checks.append(above(column.minimum))
            if column.maximum is not None:
                checks.append(pandera.Check.le(column.maximum))
            columns[name] = pandera.Column(column.kind.dtype, checks, nullable=name not in self.key)
        return pandera.DataFrameSchema(columns, unique=[*self.key], name=self.name)

    @cached_property
    def _labels(self) -> pd.Index:
        """Names of the columns, cached because making them takes longer than making a short frame."""
        return pd.Index([*self.columns], dtype="str")

    def _checked(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns in the table's order of rows; raise if a key is missing or occurs twice."""
        ordered = dict(columns)
        sizes = {name: len(values) for name, values in ordered.items()}
        if len(set(sizes.values())) > 1:
            raise SchemaError(f"{self.name}: columns of unequal length {sizes}")
        for name in self.key:
            missing = pd.isna(bare(ordered[name]))
            if missing.any():
                raise SchemaError(
                    f"{self.name}.{name} is part of the key but missing in {int(missing.sum())} rows; to "
                    f"read rows from CSV, use dd.tables.TABLES[{self.name!r}].read_csv(path), which "
                    "reads 'NA' and 'NULL' as text"
                )
        by = [*self.order, *(k for k in self.key if k not in self.order)]
        rank, tied = arrangement([ordered[name] for name in by])
        if rank is not None:
            ordered = {name: bare(values).take(rank) for name, values in ordered.items()}
        self._require_unique(ordered, tied)
        return ordered

    def _require_unique(self, columns: Mapping[str, Any], tied: Array) -> None:
        """Raise `SchemaError` for rows with equal keys: a repeated page, or a row that a venue sent twice.

        `tied` marks rows that equal the previous row in key and order.
        """
        keys = {name: bare(columns[name]) for name in self.key}
        if set(self.order) <= set(self.key):
            repeats = np.flatnonzero(tied) + 1
        else:
            labels = [keys[name] for name in self.key if self.columns[name].kind is Kind.LABEL]
            if any(len(values.unique()) == len(values) for values in labels):
                return  # a label that identifies each row, such as an ID; faster than the check below
            repeats = np.flatnonzero(pd.DataFrame(keys).duplicated())
        if repeats.size:
            row = ", ".join(f"{name}={values[repeats[0]]}" for name, values in keys.items())
            raise SchemaError(
                f"{self.name}: {repeats.size} rows repeat a key, the first at {escape_controls(row)}"
            )


def _joined(columns: list[Any]) -> Any:
    if isinstance(columns[0].dtype, pd.CategoricalDtype):
        return text(pd.api.types.union_categoricals([bare(column) for column in columns]))
    return pd.concat([pd.Series(column, copy=False) for column in columns], ignore_index=True)


def arrangement(columns: Sequence[Any]) -> tuple[Array | None, Array]:
    """Return the positions that sort rows by `columns`, and a mask of sorted rows equal to the previous one.

    The positions are None if the rows are sorted already. The mask has one element less than there are rows.
    The remaining columns are not read once all neighbouring rows differ.
    """
    tied = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in columns:
        if not tied.any():
            return None, tied
        codes = _codes(column)
        if (tied & (codes[1:] < codes[:-1])).any():
            return _sorted(columns)
        tied &= codes[1:] == codes[:-1]
    return None, tied


def bare(column: Any) -> Any:
    """Return the array of a column."""
    return column.array if isinstance(column, pd.Series) else column


def _sorted(columns: Sequence[Any]) -> tuple[Array, Array]:
    """Return the order of rows and the mask of `arrangement`, for rows that are not sorted.

    Each column sorts only the rows that are equal in all columns before it.
    """
    rank = np.arange(len(columns[0]))
    tied = np.ones(max(rank.size - 1, 0), dtype=bool)
    for column in columns:
        unsettled = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        codes = _codes(column.take(rank[unsettled]))
        group = np.cumsum(np.append(True, ~tied))[unsettled]
        if group.size and group[-1] < 2**16:
            group = group.astype(np.uint16)  # numpy sorts 16-bit integers in linear time
        # ~(>=) instead of <, because codes of numbers may be NaN, which are sorted to the end.
        if ((group[1:] == group[:-1]) & ~(codes[1:] >= codes[:-1])).any():
            order = np.lexsort((codes, group))
            rank[unsettled] = rank[unsettled[order]]
            codes = codes[order]
            group = group[order]
        tied[unsettled[:-1]] &= (codes[1:] == codes[:-1]) & (group[1:] == group[:-1])
    return rank, tied


def _codes(column: Any) -> Array:
    """Return numbers with the order of the values; categories are sorted, so their codes are enough."""
    values = bare(column)
    if isinstance(values, pd.Categorical):
        return np.asarray(values.codes)
    if values.dtype.kind == "M":
        return np.asarray(values.asi8)
    if values.dtype == "float64":
        return np.asarray(values)
    if isinstance(values, pd.arrays.NumpyExtensionArray):
        values = np.asarray(values)  # pandas does not sort its own arrays of objects
    return np.asarray(pd.factorize(values, sort=True)[0])


def gather(batches: Iterable[Sequence[Struct]], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return columns by field, without fields that the structs lack or that all rows leave `msgspec.UNSET`.

    A column of text or numbers is an Arrow array if all its values are of its kind, else a list.
    """
    arrays: dict[str, list[Any]] = {name: [] for name in kinds}
    for rows in batches:
        fields = rows[0].__struct_fields__
        # One list with all fields, row by row: a column is a slice with a step, in half the time of zip.
        values = [*chain.from_iterable(map(astuple, rows))]
        for place, name in enumerate(fields):
            if name in arrays:
                arrays[name].append(_arrow(values[place :: len(fields)], kinds[name]))
    is_empty = not any(arrays.values())
    columns = {name: _whole_column(chunks) for name, chunks in arrays.items() if chunks or is_empty}
    return {name: values for name, values in columns.items() if values is not None}


def _arrow(values: list[Any], kind: Kind) -> Any:
    """Return values as an Arrow array if all are of the kind, else the list."""
    if values[0] is UNSET:  # otherwise Arrow reads up to the last value before it fails
        return values
    numbers = packed(values) if kind in (Kind.NUMBER, Kind.COUNT) else None
    if numbers is not None:
        return pa.array(numbers)
    try:
        return pa.array(values, _ARROW[kind]) if kind in _ARROW else values
    except (pa.ArrowInvalid, TypeError):
        return values


def _whole_column(chunks: list[Any]) -> Any:
    """Join the chunks of a column; return None if no row sets it."""
    if chunks and not any(isinstance(chunk, list) for chunk in chunks):
        return pa.chunked_array(chunks)
    values: list[Any] = []
    for chunk in chunks:
        values += chunk if isinstance(chunk, list) else chunk.to_pylist()
    if values and values.count(UNSET) == len(values):
        return None
    return [None if value is UNSET else value for value in values]


_IDS = re.compile(r"(.*_)?o?id")
_TIME_NAMES = frozenset({"timestamp", "t", "time", "date", "day", "hour"})
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,14})", re.ASCII)
_DECIMAL = re.compile(r"[+-]?((0|[1-9]\d*)?\.\d+|(0|[1-9]\d*)(\.\d*)?[eE][+-]?\d{1,2})", re.ASCII)


@dataclass(frozen=True)
class OpenTable:
    """A table whose columns are the fields of its rows, typed by one rule.

    The rule uses all values of a column. If all are true or false, it is a flag. If all are numbers or text
    of digits, it is a float. If it has the name of a time and all values are times, it is a time. A list or
    an object becomes its JSON text. Everything else is text. A column with the name of an ID is text. So is a
    column with an integer that a float would change: more than 15 digits, or a leading zero. A field that a
    row lacks is missing. Columns are in the order of their first appearance, under their wire names. ``part``
    comes first and names the section of the response with the row.

    Attributes
    ----------
    name
        Family and fetcher.
    doc
        One line that defines a row.
    """

    name: str
    doc: str

    def build(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """Build the frame of `rows`."""
        names: dict[str, None] = {}  # distinct names in the order of their first row
        for row in rows:
            if not isinstance(row, Mapping):
                raise SchemaError(
                    f"{self.name}: expected one object per row, got {row!r:.60}; see dd.raw(path, ...)"
                )
            names |= dict.fromkeys(row)
        return pd.DataFrame({name: _typed(name, [row.get(name) for row in rows]) for name in names})


def _typed(name: str, values: list[Any]) -> Any:
    """Return a column by the rule of `OpenTable`."""
    present = [v for v in values if v is not None]
    if present and all(isinstance(v, bool) for v in present):
        return pd.array(values, dtype="boolean")
    is_id = _IDS.fullmatch(name) is not None  # a name, though it may be written as a number
    if present and not is_id and all(map(_is_number, present)):
        return np.array(values, dtype=object).astype(np.float64)  # None becomes NaN
    if name in _TIME_NAMES and all(isinstance(v, str) for v in present):
        with suppress(ValueError):
            return times.parse(values)
    return pd.array(list(map(_written, values)), dtype="str")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return bool(_WHOLE.fullmatch(value) or _DECIMAL.fullmatch(value))
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _LARGEST_EXACT)


def _written(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
