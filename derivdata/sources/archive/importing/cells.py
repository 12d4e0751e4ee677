"""Cells of files as numbers, words and intervals of the library, each row checked separately.

Arrow converts whole columns. If a cell does not fit, each distinct text is parsed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.support.arrays import Array
from derivdata.tables.payments import VALID_HOURS

_BLANK = frozenset({"", "nan", "null", "none", "na", "n/a", "<na>", "nat", "-"})
_MINUS = "\u2212"
"""The sign that word processors write for minus."""
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?|[-+]?[1-9]\d?(,\d{2})+,\d{3}(\.\d*)?")
"""``7,200,000.5``, and ``6,04,14,900.5`` of India, whose groups above thousands have two digits."""
_GROUPED = re.compile(
    r"[-+]?[1-9]\d{0,2}(?P<mark>['\u2019 \u00a0\u2009\u202f])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d*)?%?"
)
"""``6'041'490.5`` of Switzerland, ``6 041 490,5`` of France: thousands apart by one mark."""
_DECIMAL_COMMA = re.compile(r"[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+%?")
"""``0,0001``, ``67.000,50``."""
_NEGATIVE = re.compile(r"\((?P<inner>[\d.,%]+)\)|(?P<before>\d[\d.,]*)-")
"""``(0.00002)`` of accountants, ``0.00002-`` of SAP."""
_CURRENCY = re.compile(r"(?<=\d) ?(USD[TC]?|\$)$")
_LARGE = re.compile(r"(?P<digits>\$?[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?) ?(?P<unit>K|M|B|bn|mn)")
_LARGE_UNITS = {"K": 1e3, "M": 1e6, "mn": 1e6, "B": 1e9, "bn": 1e9}
"""``2.01B`` of dashboards."""
_MANY_DOTS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3}){2,}")
_DOTTED = re.compile(r"[-+]?([1-9]\d{0,2}(\.\d{3})*|0)")
"""``2.000.000.001``: dots between thousands, which two of them in a number show. ``0.123`` is a fraction."""
_SHOWN = 20
"""Rejected rows of a chunk that are shown with their reasons."""


class Words(NamedTuple):
    """A text column as distinct texts and the index of each row's text; -1 for missing."""

    codes: Array
    texts: list[str]

    def mapped(self, change: Callable[[str], Any]) -> Array:
        """Return the result of `change` for each row's text; None if missing."""
        changed = np.empty(len(self.texts) + 1, dtype=object)
        for place, text in enumerate(self.texts):
            changed[place] = change(text)
        return changed[self.codes]

    def replaced(self, change: Callable[[str], str | None]) -> Words:
        """Return the column with other texts; None is missing."""
        return distinct([change(text) for text in self.texts], self.codes)

    def is_in(self, texts: Sequence[str]) -> Array:
        """Return a mask of the rows whose text is one of these."""
        return np.append([text in texts for text in self.texts], False).astype(bool)[self.codes]

    @property
    def is_missing(self) -> Array:
        """Mask of the rows without text."""
        return self.codes < 0

    def category(self) -> pd.Categorical:
        """Return the words as a categorical column."""
        return pd.Categorical.from_codes(self.codes, pd.Index(self.texts, dtype="str"))

    def strings(self) -> Array:
        """Return the text of each row as an object; None where it is missing."""
        return np.array([*self.texts, None], dtype=object)[self.codes]


def distinct(texts: Sequence[str | None], codes: Array) -> Words:
    """Return a column of texts, some of which may be equal or missing, as `Words`."""
    places, unique = pd.factorize(np.array(texts, dtype=object))
    # A missing text has the place -1. The code -1 indexes the last item, so it is missing as well.
    moved = np.append(places, -1).astype(np.int32)
    return Words(moved[codes], unique.tolist())


def repeated_word(text: str, size: int) -> Words:
    """Return a column with the same text in every row."""
    return Words(np.zeros(size, dtype=np.int32), [text])


class Rejections:
    """Rejected rows of a chunk, and the reasons of the first ones by position."""

    def __init__(self, size: int) -> None:
        self.bad = np.zeros(size, dtype=bool)
        self.reasons: dict[int, str] = {}

    def reject(self, rows: Any, why: str | Callable[[int], str]) -> None:
        """Reject rows; `why` is the reason, or a function that returns it for the position of a row."""
        new = np.flatnonzero(np.asarray(rows, dtype=bool) & ~self.bad)
        self.bad[new] = True
        for row in new[:_SHOWN].tolist():
            if isinstance(why, str):
                self.reasons[row] = why
            else:
                self.reasons[row] = why(row)

    def reject_one(self, row: int, why: str) -> None:
        """Reject one row."""
        self.bad[row] = True
        if len(self.reasons) < _SHOWN:
            self.reasons[row] = why


def encoded(column: pa.ChunkedArray) -> Words:
    """Return a column as stripped text; whole numbers have no fraction."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    values = column.combine_chunks().dictionary_encode()
    if isinstance(values, pa.ChunkedArray):
        values = pa.chunked_array(values).combine_chunks()
    codes = values.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return distinct([_word(value) for value in values.dictionary.to_pylist()], codes)


def _word(value: Any) -> str | None:
    """Return a cell as text; None for a missing one."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    if text.lower() in _BLANK:
        return None
    return text


def first_cell(values: pa.ChunkedArray) -> str:
    """Return the first text of a column that is not empty; empty for columns of other types."""
    if not pa.types.is_string(values.type):
        return ""
    for cell in values.slice(0, 100).to_pylist():
        if cell:
            return str(cell).strip()
    return ""


def numbers(column: pa.ChunkedArray, name: str, rejections: Rejections, *, suffix: str = "") -> Array:
    """Return float64: blank is NaN, other text is rejected; cells may end in `suffix`, ``%`` or ``h``."""
    kind = column.type
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind) or pa.types.is_integer(kind):
        values = floats(column.cast(pa.float64(), safe=False))
    elif pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_nested(kind):
        values = np.where(np.asarray(column.is_null()), np.nan, np.inf)
    else:
        values = _text_numbers(column, suffix)
    bad = np.isinf(values)
    if not bad.any():
        return values
    rejections.reject(bad, lambda row: f"{name}={shown(column, row)} is not a number")
    return np.where(bad, np.nan, values)


def floats(column: pa.ChunkedArray) -> Array:
    """Return numbers as an array, NaN where missing."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if values.null_count:
        values = pc.fill_null(values, np.nan)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _text_numbers(column: pa.ChunkedArray, suffix: str) -> Array:
    """Return the numbers in texts; infinity for other texts."""
    if not suffix and pa.types.is_string(column.type):
        try:
            return floats(pc.cast(column, pa.float64()))
        except pa.ArrowInvalid:
            pass
    words = encoded(column).replaced(_plain_number)
    if any(map(_MANY_DOTS.fullmatch, words.texts)) and all(map(_DOTTED.fullmatch, words.texts)):
        words = words.replaced(lambda text: text.replace(".", ""))
    if _has_decimal_commas(words.texts):
        words = words.replaced(lambda text: text.replace(".", "").replace(",", "."))
    return words.mapped(lambda text: _number(text, suffix)).astype(np.float64)


def _has_decimal_commas(texts: Sequence[str]) -> bool:
    """Return whether commas are decimal points: some text proves it, and none has a decimal point.

    ``1,234`` alone is a number with thousands.
    """
    with_commas = [text.replace(" ", "") for text in texts if "," in text]
    if all(map(_THOUSANDS.fullmatch, with_commas)) or not all(map(_DECIMAL_COMMA.fullmatch, with_commas)):
        return False
    return not any("." in text for text in texts if "," not in text)


def _plain_number(text: str) -> str:
    """Return a number with a leading sign and without currency or thousands separators; other text as is."""
    match = _NEGATIVE.fullmatch(text)
    if match is not None:
        text = f"-{match['inner'] or match['before']}"
    text = _CURRENCY.sub("", text)
    match = _GROUPED.fullmatch(text)
    if match is not None:
        text = text.replace(match["mark"], "")
    match = _LARGE.fullmatch(text)
    if match is not None:
        digits = match["digits"].removeprefix("$").replace(",", "")
        return f"{float(digits) * _LARGE_UNITS[match['unit']]:.15g}"
    return text


def _number(text: str, suffix: str) -> float:
    """Return the number that a text contains; infinity if it is not a number."""
    if suffix:
        text = text.lower().removesuffix(suffix).strip()
    text = text.replace(_MINUS, "-").removeprefix("$")
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    number = _float(text)
    if number is None:
        return np.inf
    return number


def _float(text: str) -> float | None:
    """Return the number that a text contains; None if it is not a number."""
    # float() reads "1_000" and digits of other scripts, which are not numbers in files.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def shown(column: Any, row: int) -> str:
    """Return the value of a row for a message."""
    return repr(column[row].as_py())[:60]


_PER_HOUR = {
    "hours": 1.0,
    "minutes": 60.0,
    "seconds": 3_600.0,
    "ms": 3_600_000.0,
    "µs": 3_600_000_000.0,
    "ns": 3_600_000_000_000.0,
}
_PER_HOUR_BY_WORD = {
    **dict.fromkeys(("h", "hr", "hour", "hours"), 1.0),
    **dict.fromkeys(("m", "min", "minutes"), 60.0),
    **dict.fromkeys(("s", "sec", "seconds"), 3_600.0),
    **dict.fromkeys(("d", "day"), 1 / 24),
    "ms": 3_600_000.0,
}
_DURATION = re.compile(r"(?:PT)?(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:\d{4}-\d{2}-(\d{2})T)?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?Z?")
"""``08:00:00``, and BitMEX's ``2000-01-01T08:00:00.000Z``, which counts from the first day of a month."""
_MONTHS = re.compile(r"P\d+M", re.IGNORECASE)
"""``P1M`` is a month; pandas 3.1 reads it as a minute."""
_DOT_NET = re.compile(r"(\d+)\.(\d{2}:\d{2}:\d{2})")
"""``1.00:00:00``: days and a clock, as .NET writes a span."""


def interval_hours(column: pa.ChunkedArray, rejections: Rejections) -> Array:
    """Return intervals in hours; a value outside `VALID_HOURS` in every unit is rejected.

    The unit is the smallest one in which the number is a valid interval: 8 is hours, 480 minutes, 28800
    seconds. A number is a valid interval in one unit only.
    """
    if pa.types.is_duration(column.type):
        micros = column.cast(pa.duration("us")).cast(pa.int64())
        values = np.asarray(micros.cast(pa.float64()).to_numpy(zero_copy_only=False)) / 3.6e9
    elif pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        values = encoded(column).mapped(_hours_of).astype(np.float64)
    else:
        values = numbers(column, "interval_hours", rejections)
    rejections.reject(np.isinf(values), lambda row: f"interval_hours={shown(column, row)} is not a number")
    with np.errstate(invalid="ignore"):
        hours = np.where(np.isin(values, VALID_HOURS), values, np.nan)
        for per_hour in _PER_HOUR.values():
            stated = np.round(values / per_hour, 9)
            hours = np.where(np.isnan(hours) & np.isin(stated, VALID_HOURS), stated, hours)
    wrong = np.isfinite(values) & np.isnan(hours)
    rejections.reject(wrong, lambda row: _no_interval(values[row]))
    return hours


def _no_interval(value: float) -> str:
    message = f"interval_hours={value:g} is not a funding interval"
    if value <= 0:
        return message
    *others, last = (f"{hours:g}" for hours in VALID_HOURS)
    return f"{message}: venues pay every {', '.join(others)} or {last} hours"


def _hours_of(text: str) -> float:
    """Return the hours of a text such as ``8h``, or its number; infinity for any other text."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        days = int(clock[1] or 1) - 1
        return 24 * days + int(clock[2]) + int(clock[3]) / 60 + int(clock[4] or 0) / 3600
    duration = _DURATION.fullmatch(text)
    if duration is not None and duration[2].lower() in _PER_HOUR_BY_WORD:
        return float(duration[1]) / _PER_HOUR_BY_WORD[duration[2].lower()]
    number = _float(text)
    if number is None:
        return _span_hours(text)
    return number


def _span_hours(text: str) -> float:
    """Return the hours of a span such as ``1 days 00:00:00``, ``1.00:00:00`` or ``P1D``, else infinity."""
    if _MONTHS.match(text):
        return np.inf
    try:
        span = pd.Timedelta(_DOT_NET.sub(r"\1 days \2", text))
    except ValueError:
        return np.inf
    if pd.isna(span):
        return np.inf
    return float(span / pd.Timedelta(1, "h"))
