"""Tables of payloads that no document describes: every field that arrives becomes a column."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from derivdata.errors import SchemaError
from derivdata.support import times

_IDS = re.compile(r"(.*_)?o?id")
_TIME_NAMES = frozenset({"timestamp", "t", "time", "date", "day", "hour"})
_LARGEST = 2**53
"""Beyond it a float no longer tells whole numbers apart."""

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,14})", re.ASCII)
_DECIMAL = re.compile(r"[+-]?((0|[1-9]\d*)?\.\d+|(0|[1-9]\d*)(\.\d*)?[eE][+-]?\d{1,2})", re.ASCII)


@dataclass(frozen=True)
class OpenTable:
    """A table whose columns are those that arrive, typed by one rule.

    The rule, for the values that a column has: all true or false, a flag; all numbers or numerals in text,
    a float; in a column named like a time, all instants, an instant; a list or an object, its JSON text;
    else text. A column named like an id is text; so is one with a whole number that a float would change,
    or with a numeral of more than 15 digits or a zero in front. What a row lacks is missing. Columns stand in
    the order in which they first arrive, wire names kept; ``part`` comes first and names the part of the
    answer where the row stood.

    Attributes
    ----------
    name
        Family and fetcher.
    doc
        One line that says what a row is.
    """

    name: str
    doc: str

    def build(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """Build the frame of `rows`."""
        wrong = [row for row in rows if not isinstance(row, Mapping)]
        if wrong:
            raise SchemaError(f"{self.name}: a row is {wrong[0]!r:.60} and no object; see dd.raw(path, ...)")
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pd.DataFrame({name: _typed(name, [row.get(name) for row in rows]) for name in names})


def _typed(name: str, values: list[Any]) -> Any:
    there = [v for v in values if v is not None]
    if there and all(isinstance(v, bool) for v in there):
        return pd.array(values, dtype="boolean")
    if _IDS.fullmatch(name):  # a name, though it may be written as a number
        return pd.array([_written(v) for v in values], dtype="str")
    if there and all(_is_number(v) for v in there):
        return np.array([np.nan if v is None else float(v) for v in values])
    if name in _TIME_NAMES and all(isinstance(v, str) for v in there):
        with suppress(ValueError):
            return times.parse(values)
    return pd.array([_written(v) for v in values], dtype="str")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return bool(_WHOLE.fullmatch(value) or _DECIMAL.fullmatch(value))
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _LARGEST)


def _written(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
