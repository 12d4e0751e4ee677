"""Tables of payloads without a documented schema: every field of a row becomes a column."""

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
    """A table whose columns are the fields of its rows, typed by one rule.

    The rule looks at all values of a column. Only true and false make a flag. Only numbers, or text of
    digits, make a float. Times in a column with the name of a time make a time. A list or an object becomes
    its JSON text. Everything else is text. A column with the name of an id is text, and so is one with a
    whole number that a float would change, with more than 15 digits, or with a leading zero. A field that a
    row lacks is missing. Columns are in the order of their first appearance, under their wire names.
    ``part`` comes first and names the part of the response that contained the row.

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
        wrong = [row for row in rows if not isinstance(row, Mapping)]
        if wrong:
            raise SchemaError(
                f"{self.name}: expected an object for each row, got {wrong[0]!r:.60}; see dd.raw(path, ...)"
            )
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pd.DataFrame({name: _typed(name, [row.get(name) for row in rows]) for name in names})


def _typed(name: str, values: list[Any]) -> Any:
    present = [v for v in values if v is not None]
    if present and all(isinstance(v, bool) for v in present):
        return pd.array(values, dtype="boolean")
    if _IDS.fullmatch(name):  # a name, though it may be written as a number
        return pd.array([_written(v) for v in values], dtype="str")
    if present and all(_is_number(v) for v in present):
        return np.array([np.nan if v is None else float(v) for v in values])
    if name in _TIME_NAMES and all(isinstance(v, str) for v in present):
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
