"""Values of files as values of the library: numbers and words, each row judged for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

_BLANK = frozenset({"", "nan", "null", "none", "na", "n/a", "<na>", "nat", "-"})


class Rejections:
    """Rejected rows of a chunk, and the reason of the first."""

    def __init__(self, size: int) -> None:
        self.bad = np.zeros(size, dtype=bool)
        self._first: tuple[int, str] | None = None

    def reject(self, rows: Any, why: str | Callable[[int], str]) -> None:
        """Turn down some rows; `why` is the reason, or gives that of the row at a position."""
        new = np.flatnonzero(np.asarray(rows, dtype=bool) & ~self.bad)
        if not new.size:
            return
        self.bad[new] = True
        if self._first is None or new[0] < self._first[0]:
            first = int(new[0])
            self._first = (first, why if isinstance(why, str) else why(first))

    @property
    def first(self) -> tuple[int, str]:
        """Position and reason of the first row that does not fit."""
        if self._first is None:
            raise LookupError("every row fits")
        return self._first


def numbers(values: Any, name: str, rejections: Rejections, *, suffix: str = "") -> np.ndarray[Any, Any]:
    """Return float64: blank is NaN, other text is rejected; cells may end in `suffix`, ``%`` or ``h``."""
    if pd.api.types.is_numeric_dtype(getattr(values, "dtype", None)) and values.dtype != bool:
        result = np.array(pd.Series(values).to_numpy(dtype=np.float64, na_value=np.nan))
        bad = np.isinf(result)
    else:
        values = list(values)
        result = np.array([_number(value, suffix) for value in values], dtype=np.float64)
        bad = np.isinf(result)
    rejections.reject(bad, lambda i: f"{name}={shown(values, i)} is not a number")
    return np.where(bad, np.nan, result)


def _number(value: Any, suffix: str) -> float:
    """Return the number; NaN where blank; infinite where it is none."""
    if _blank(value):
        return np.nan
    if isinstance(value, bool | np.bool_) or (isinstance(value, str) and "_" in value):
        return np.inf
    if suffix and isinstance(value, str):
        value = value.strip().lower().removesuffix(suffix)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.inf


def words(values: Any, name: str, rejections: Rejections) -> list[str | None]:
    """Values as text without blanks around; blank is missing."""
    values = list(values)
    nested = [isinstance(value, dict | list) for value in values]
    rejections.reject(nested, lambda i: f"{name}={shown(values, i)} is not text")
    if any(nested):
        values = [None if bad else value for value, bad in zip(values, nested, strict=True)]
    texts = {value: None if _blank(value) else _word(value) for value in set(values)}
    return [texts[value] for value in values]


def _word(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _blank(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _BLANK
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def shown(values: Any, i: int) -> str:
    """Return the value of a row for a message."""
    value = values.iloc[i] if hasattr(values, "iloc") else values[i]
    return repr(value)[:60]
