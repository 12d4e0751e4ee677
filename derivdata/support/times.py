"""Times, windows, ISO text, year fractions, and the clock.

Every time is UTC with microseconds. Results do not depend on the machine's clock: `asof` reads the clock of
the connection or of the recording. Only `machine_now` reads the machine's clock.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import NotConnected
from derivdata.support.arrays import Array

T = TypeVar("T", pd.Timestamp, pd.DatetimeIndex, pd.Series, Any)

SECONDS_PER_YEAR = 31_536_000.0
"""365 days."""


TimeLike: TypeAlias = str | dt.date | dt.datetime | pd.Timestamp | np.datetime64

Resolution: TypeAlias = Literal["raw", "1m", "3m", "5m", "15m", "30m", "1h", "2h", "4h", "8h", "12h", "1d"]
"""Names of the API's resolutions."""

RESOLUTIONS = {
    name: pd.Timedelta(int(name[:-1]), name[-1].replace("d", "D"))
    for name in get_args(Resolution)
    if name != "raw"
}
"""Bucket lengths by the API's name, except ``"raw"``."""

_EPOCH_YEAR = 1970
_LAST_YEAR = 2261
FIRST, LAST = (pd.Timestamp(f"{year}-01-01", tz="UTC").as_unit("us") for year in (_EPOCH_YEAR, _LAST_YEAR))
"""Start and end of an open window, which includes all rows."""

_LONGEST = pd.Timedelta(36_525, "D")
_NUMBER = re.compile(r"\s*[-+]?[\d.]+\s*")
_LOOKBACK = re.compile(r"(\d{1,6})(s|m|h|d|w)")
_OR_LOOKBACK = " or a lookback from the end such as '90m', '12h', '30d' or '2w'"
_ISO = re.compile(r"\s*[+-]?\d{4,}-\d{2}")
_WIRE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{2}(:?\d{2}(:?\d{2}([.,]\d+)?)?)?\s?(Z|[+-]\d{2}(:?\d{2})?)?)?"
)
"""A date with an optional time of day; pandas alone would also accept "now", "today" and a year."""

_DTYPE = pd.DatetimeTZDtype("us", "UTC")
_ZONED = pa.timestamp("us", "UTC")
_NAIVE = pa.timestamp("us")
_clock: Callable[[], pd.Timestamp] | None = None


class Window(NamedTuple):
    """Half-open window ``[start, end)`` in UTC."""

    start: pd.Timestamp
    end: pd.Timestamp


def set_clock(clock: Callable[[], pd.Timestamp] | None) -> Callable[[], pd.Timestamp] | None:
    """Set the clock that `asof` reads, and return the previous one."""
    global _clock
    before = _clock
    _clock = clock
    return before


def asof() -> pd.Timestamp:
    """Return the current time of the source, floored to the minute; in replay the recorded time.

    Returns
    -------
    pandas.Timestamp
        Time in UTC.

    Raises
    ------
    NotConnected
        No source is connected.
    NotCached, NetworkError
        Offline, and the cache has no response of the source; or the server cannot be reached.
    """
    if _clock is None:
        raise NotConnected
    return _clock()


def machine_now() -> dt.datetime:
    """Return the time of this machine's clock, in UTC.

    It has five uses only: whether a cached response is fresh, whether a server's ``Date`` is in the future,
    how long a rate limit lasts whose end a server without ``Date`` states, when a message arrived while
    collecting, and whether rows to be archived are in the future.
    """
    return dt.datetime.now(dt.UTC)


def timestamp(value: TimeLike, name: str = "time", also: str = "") -> pd.Timestamp:
    """Return a time as UTC Timestamp in microseconds; a time without a zone is UTC.

    Errors have the argument's `name`, and `also`, a text about other values that it takes.
    """
    if isinstance(value, bool) or not isinstance(value, str | dt.date | np.datetime64):
        raise TypeError(f"{name} must be ISO text, a datetime or a Timestamp, got {value!r}")
    problem = f"{name} must be a time such as '2026-01-31T08:00'{also}, got {value!r}"
    if isinstance(value, str) and not _ISO.match(value):  # pandas alone would accept "now" and "today"
        raise ValueError(problem)
    try:
        stamp = pd.Timestamp(value)
    except (ValueError, OverflowError):
        raise ValueError(problem) from None
    if stamp is pd.NaT:
        raise ValueError(f"{name} is missing: pass a time such as '2026-01-31T08:00'")
    stamp = utc(stamp)
    try:
        result = stamp.as_unit("us")
    except (ValueError, OverflowError):
        result = pd.NaT
    if not 1 <= result.year <= 9999:
        raise ValueError(f"{name} must be within the years 1 to 9999, got {value!r}")
    return result


def utc(values: T) -> T:
    """Convert a Timestamp, an index or a column of times to UTC; times without a zone are UTC."""
    times = _accessor(values)
    convert = times.tz_localize if times.tz is None else times.tz_convert
    converted: T = convert("UTC")
    return converted


def naive_utc(values: T) -> T:
    """Convert a Timestamp, an index or a column of times to naive UTC, as in arrays.

    Only this function drops a zone: ``tz_localize(None)`` would keep the wall time of another zone, which is
    another time in UTC.
    """
    times = _accessor(values)
    if times.tz is None:
        return values
    naive: T = times.tz_convert(None)
    return naive


def has_zone(values: Any) -> bool:
    """Return whether a column, an index or an array of pandas has times with a zone."""
    if isinstance(values, pd.Series) and values.dtype.kind != "M":
        return False
    return getattr(_accessor(values), "tz", None) is not None


def _accessor(values: Any) -> Any:
    """Return the object with the methods of times: ``.dt`` of a column, a Timestamp or an index itself."""
    if isinstance(values, pd.Series):
        return values.dt
    return values


def lookback(text: Any, name: str = "window") -> pd.Timedelta | None:
    """Return the length of a lookback (``"45s"``, ``"90m"``, ``"12h"``, ``"2w"``).

    None for other text, and for values of other types.
    """
    if not isinstance(text, str):
        return None
    match = _LOOKBACK.fullmatch(text.strip())
    if match is None:
        return None
    length = pd.Timedelta(int(match[1]), match[2].replace("d", "D").replace("w", "W")).as_unit("us")
    if length > _LONGEST:
        raise ValueError(f"{name} must look back at most 100 years, got {text.strip()!r}")
    return length


def length(value: str | pd.Timedelta, name: str = "length") -> pd.Timedelta:
    """Return a length of time, from ``"90s"``, ``"4h"``, ``"30d"`` and the like or a Timedelta."""
    try:
        result = value if isinstance(value, pd.Timedelta) else lookback(value)
        if result is None:
            # pandas spells days and weeks D and W, and reads a number without a unit as nanoseconds
            result = pd.Timedelta(re.sub("[dw]$", lambda unit: unit[0].upper(), str(value)))
            if result and _NUMBER.fullmatch(str(value)):
                result = pd.NaT
    except (ValueError, OverflowError):
        result = pd.NaT
    if not result >= pd.Timedelta(0):
        raise ValueError(f"{name} must be a length of time such as '90s', '4h' or '30d', got {value!r}")
    return result


def window(start: TimeLike, end: TimeLike | None = None) -> Window:
    """Return a half-open window from two times, or from a lookback such as ``"30d"`` and its end."""
    back = lookback(start, "start")
    last = asof() if end is None else timestamp(end, "end")
    first = timestamp(start, "start", _OR_LOOKBACK) if back is None else last - back
    if first >= last:
        raise ValueError(
            f"start must be before end, got start {iso(first)} and end {iso(last)}: a window is [start, end)"
        )
    if last - first > _LONGEST or first < FIRST or last > LAST:
        raise ValueError(
            f"a window must have at most 100 years within {FIRST:%Y} to {LAST:%Y}, got start {iso(first)} "
            f"and end {iso(last)}"
        )
    return Window(first, last)


def since(start: TimeLike, name: str = "since") -> pd.Timestamp:
    """Return the start of a window that ends now, from a time or a lookback from `asof`."""
    back = lookback(start, name)
    result = timestamp(start, name, _OR_LOOKBACK) if back is None else asof() - back
    if not _EPOCH_YEAR <= result.year <= _LAST_YEAR:
        raise ValueError(f"{name} must be from the year {_EPOCH_YEAR} to {_LAST_YEAR}, got {start!r}")
    return result


@lru_cache(maxsize=1024)
def iso(stamp: pd.Timestamp) -> str:
    """Return ISO 8601 text in UTC ending in Z, with a fraction of a second only if it is not 0."""
    return f"{stamp.tz_convert('UTC').isoformat().removesuffix('+00:00')}Z"


def parse(texts: Any) -> pd.DatetimeIndex:
    """Parse wire text to UTC times: ``YYYY-MM-DD HH:MM:SS`` or ISO 8601, also mixed."""
    return pd.DatetimeIndex(micros(texts), dtype=_DTYPE)


def us(value: pd.Timestamp | pd.Timedelta) -> int:
    """Return a time in microseconds since 1970, or a length in microseconds."""
    return int(value.as_unit("us").asm8.view(np.int64))


def stamps_of(values: pd.Series) -> Array:
    """Return a column of times as microseconds since 1970, without a copy if they have this unit."""
    array: Any = values.array
    if isinstance(array, pd.arrays.DatetimeArray) and array.unit == "us":
        return np.asarray(array.asi8)
    return np.asarray(values.dt.as_unit("us").array.asi8)


def micros(texts: Any) -> Array:
    """Parse wire text to microseconds since 1970, faster than `parse`; NaT is the smallest integer."""
    uniform = _uniform(texts)
    if uniform is not None:
        return uniform
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.to_pylist()
    for text in texts:
        if isinstance(text, str) and text and not _WIRE.fullmatch(text):
            raise ValueError(f"{text[:60]!r} is not a date such as 2026-01-31, with or without a time of day")
    parsed = pd.to_datetime(pd.Index(texts, dtype=object), format="ISO8601", utc=True)
    return np.asarray(pd.DatetimeIndex(parsed).as_unit("us").asi8)


def resolution(name: str) -> pd.Timedelta | None:
    """Return the bucket length of a resolution; None for ``"raw"``."""
    if name == "raw":
        return None
    if name not in RESOLUTIONS:
        raise ValueError(f"resolution must be one of raw, {', '.join(RESOLUTIONS)}, got {name!r}")
    return RESOLUTIONS[name]


def year_fraction(start: Any, end: Any) -> Any:
    """Return years from `start` to `end`, ACT/365 fixed, to the microsecond."""
    return (end - start) / np.timedelta64(int(SECONDS_PER_YEAR), "s")


def _uniform(texts: Any) -> Array | None:
    """Parse texts of one wire format with Arrow; return None if Arrow cannot read them."""
    kind = _NAIVE
    if len(texts) > 0 and str(texts[0]).endswith("Z"):
        kind = _ZONED
    try:
        if not isinstance(texts, pa.ChunkedArray):
            texts = pa.array(texts, pa.string())
        stamps = texts.cast(kind)
    except (pa.ArrowInvalid, TypeError):
        return None
    if stamps.null_count:
        return None
    return np.asarray(stamps).astype(np.int64)
