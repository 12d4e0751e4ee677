"""Values of files as values of the library: numbers, words and instants, each row judged for itself."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.support.times import has_zone, naive_utc
from derivdata.tables.expiries import expiries, iso_of

_BLANK = frozenset({"", "nan", "null", "none", "na", "n/a", "<na>", "nat", "-"})
_FIXED = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_ZONED = re.compile(r".*(Z|:\d{2}(\.\d+)?[+-]\d{2}(:?\d{2})?)")
_EPOCH = re.compile(r"\d+(\.\d*)?(e\+?\d+)?", re.IGNORECASE)
_EARLIEST, _LATEST = 1_200_000_000, 4_200_000_000
_MICROS_PER = {1: 1_000_000.0, 1_000: 1_000.0, 1_000_000: 1.0, 1_000_000_000: 0.001}
_MISSING = np.datetime64("NaT", "us")


class Rejections:
    """Rejected rows of a chunk, and position and reason of the first."""

    def __init__(self, size: int) -> None:
        self.bad = np.zeros(size, dtype=bool)
        self.first: tuple[int, str] | None = None

    def reject(self, rows: Any, why: str | Callable[[int], str]) -> None:
        """Turn down some rows; `why` is the reason, or gives that of the row at a position."""
        new = np.flatnonzero(np.asarray(rows, dtype=bool) & ~self.bad)
        if not new.size:
            return
        self.bad[new] = True
        if self.first is None or new[0] < self.first[0]:
            first = int(new[0])
            self.first = (first, why if isinstance(why, str) else why(first))


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


def zone(name: str) -> dt.tzinfo:
    """Zone of a name such as ``Europe/London``, ``Etc/GMT-3``, ``UTC`` or ``UTC+3`` (three hours ahead)."""
    fixed = _FIXED.fullmatch(name.strip())
    if fixed is not None:
        ahead = dt.timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        if ahead >= dt.timedelta(hours=24):
            raise ValueError(f"tz={name!r} is a day or more from UTC")
        return dt.timezone(ahead if fixed[1] == "+" else -ahead)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"tz={name!r} is no zone: write Europe/London, UTC or UTC+3") from None


def instants(
    values: Any,
    name: str,
    rejections: Rejections,
    *,
    tz: dt.tzinfo | None,
    groups: Sequence[Any] | None = None,
) -> pd.DatetimeIndex:
    """Return ISO 8601 text, numbers since 1970 in s, ms, µs or ns, or timestamps as UTC instants.

    Rows that state no zone are of `tz`, and rejected without it. `groups` are what a row belongs to, by which
    `_localized` tells the two hours that a clock shows twice.
    """
    if has_zone(values):
        zoned = pd.DatetimeIndex(values).tz_convert("UTC").as_unit("us")
        return pd.DatetimeIndex(expiries(zoned, name)[0]) if name == "expiry" else zoned
    if pd.api.types.is_datetime64_dtype(getattr(values, "dtype", None)):
        naive = np.asarray(values, dtype="datetime64[us]")
        utc = np.full(len(naive), _MISSING)
    else:
        utc, naive = _read(values, name, rejections)
    if name == "expiry":  # a date needs no zone
        dates = naive == naive.astype("datetime64[D]")
        utc[dates], naive[dates] = naive[dates], _MISSING
    floating = ~np.isnat(naive)
    if floating.any() and tz is None:
        why = "states no zone: say which with --tz, such as UTC or Europe/London"
        rejections.reject(floating, lambda i: f"{name}={shown(values, i)} {why}")
    elif tz == dt.UTC or str(tz) == "UTC":
        utc[floating] = naive[floating]
    elif floating.any():
        utc[floating], unordered = _localized(naive, floating, tz, groups)
        why = "comes twice as the clock was set back, and the file is in no order: sort it by time"
        mixed = np.zeros(len(floating), dtype=bool)
        mixed[floating] = unordered
        rejections.reject(mixed, lambda i: f"{name}={shown(values, i)} {why}")
        lost = floating & np.isnat(utc)
        rejections.reject(lost, lambda i: f"{name}={shown(values, i)} was skipped by the clock of {tz}")
    result = pd.DatetimeIndex(utc).tz_localize("UTC")
    return pd.DatetimeIndex(expiries(result, name)[0]) if name == "expiry" else result


def _read(
    values: Any, name: str, rejections: Rejections
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """UTC instants of what states its zone, and local ones of what does not."""
    texts = [text or "" for text in words(values, name, rejections)]
    if name == "expiry":
        texts = [(iso_of(text) or (text,))[0] for text in texts]
    utc, naive = np.full(len(texts), _MISSING), np.full(len(texts), _MISSING)
    kinds = np.array([_kind(text) for text in texts])
    for kind, target in (("epoch", utc), ("zoned", utc), ("naive", naive)):
        rows = np.flatnonzero(kinds == kind)
        chosen = [texts[i] for i in rows]
        target[rows] = _epochs(chosen) if kind == "epoch" else _iso(chosen, utc=kind == "zoned")
    unread = (kinds != "") & np.isnat(utc) & np.isnat(naive)
    rejections.reject(unread, lambda i: f"{name}={shown(values, i)} is no instant in ISO 8601 or since 1970")
    return utc, naive


def _kind(text: str) -> str:
    if not text:
        return ""
    if _EPOCH.fullmatch(text):
        return "epoch"
    return "zoned" if _ZONED.fullmatch(text) or text.endswith((" UTC", " GMT")) else "naive"


def _iso(texts: list[str], *, utc: bool) -> np.ndarray[Any, Any]:
    plain = [text.removesuffix(" UTC").removesuffix(" GMT") for text in texts]
    parsed = pd.DatetimeIndex(pd.to_datetime(plain, format="ISO8601", errors="coerce", utc=utc))
    return np.asarray(naive_utc(parsed).as_unit("us"))


def _epochs(texts: list[str]) -> np.ndarray[Any, Any]:
    """Instants of numbers since 1970, whose size says whether they are s, ms, µs or ns."""
    result = np.full(len(texts), _MISSING)
    whole = [int(text) if text.isdigit() else 0 for text in texts]
    amounts = np.array([float(text) for text in texts])
    for scale, micros in _MICROS_PER.items():
        rows = np.flatnonzero((amounts >= _EARLIEST * scale) & (amounts < _LATEST * scale))
        exact = [
            whole[i] * 1_000_000 // scale if whole[i] else round(float(amounts[i]) * micros) for i in rows
        ]
        result[rows] = np.array(exact, dtype=np.int64).view("datetime64[us]")
    return result


def _localized(
    naive: np.ndarray[Any, Any],
    floating: np.ndarray[Any, Any],
    tz: dt.tzinfo | None,
    groups: Sequence[Any] | None,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return local times as UTC, and which of them are ambiguous as the file is in no order.

    Summer time ends with an hour that the clock shows twice. In a file that goes forward in time the first
    row of such a double is of the first hour; in one that is newest first, of the second.
    """
    local = pd.DatetimeIndex(naive[floating])
    twice = np.asarray(local.tz_localize(tz, ambiguous="NaT", nonexistent="shift_forward").isna())
    keys = {str(i): np.asarray(group, dtype=object)[floating] for i, group in enumerate(groups or ())}
    rows = pd.DataFrame({**keys, "time": local})
    unordered = second = np.zeros(len(local), dtype=bool)
    if twice.any():
        group = (
            rows.groupby(list(keys), sort=False, dropna=False).ngroup() if keys else pd.Series(0, rows.index)
        )
        # How often each group goes forward and backward, except within repeated hours.
        step = rows["time"].groupby(group).diff().dt.total_seconds().fillna(0.0)
        before = pd.Series(twice, rows.index).groupby(group).shift(fill_value=False).to_numpy()
        step[twice & before] = 0.0
        forward, backward = ((s > 0).groupby(group).transform("sum").to_numpy() for s in (step, -step))
        newest_first = backward > forward
        again = np.where(newest_first, rows.duplicated(keep="last"), rows.duplicated())
        doubled = rows.duplicated(keep=False).to_numpy() & twice
        unordered = doubled & (np.minimum(forward, backward) > 0.1 * (forward + backward))
        if not (again & ~twice).any():  # a file that repeats every row repeats these too
            second = again & twice
    zoned = local.tz_localize(tz, ambiguous=~second, nonexistent="NaT")
    return np.asarray(naive_utc(zoned)), unordered
