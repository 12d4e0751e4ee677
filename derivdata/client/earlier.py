"""Compare a response with the earlier responses of the same source in this process.

Past rows of a history do not change, and a snapshot differs little from the previous minute. If a source
contradicts its earlier responses, one of the two is wrong, so a notice names both. Responses of an archive,
the sample and venues are not compared: their rows have their own corrections.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from derivdata.client.reading import HOUR_US, CheckedResponse
from derivdata.client.transport import SESSION
from derivdata.support.arrays import Array
from derivdata.support.forking import renew_in_child
from derivdata.tables.history_rows import shown_time

__all__ = ["clear", "unlike_earlier"]

_WINDOW = frozenset({"start", "end", "since", "limit", "exchanges", "exchange_filter"})
"""Parameters that select rows and do not change their values."""
_OPEN_KEY = (
    "part", "key", "symbol", "dex", "dex_name", "coin", "outcome_id", "venue", "builder", "address",
    "rank", "timestamp", "t", "date", "day",
)  # fmt: skip
"""Columns that identify a row of an open table, if present."""
_ROLLING = frozenset({"timestamp", "t", "date", "day"})
"""Keys of open tables whose window ends now."""
_MAX_QUERIES = 64
_MAX_WINDOWS = 7
_MAX_ROWS = 200_000
_MAX_STORED_ROWS = 1_000_000
"""Rows of all stored responses, about 100 MB."""
_SETTLED_US = HOUR_US
"""Time after its timestamp during which a row may change."""
_SAME_MINUTE_US = 60_000_000
_SAME_HISTORY = 1e-5
_SAME_MINUTE = {0.2: 0.1, 0.5: 0.02}
"""Relative changes within a minute, each with the share of rows from which it is implausible."""
_SAME_HOUR = 3.0
"""Factor by which at most half of a snapshot's values may change within an hour."""
_SHARE_OF_HOUR = 0.5  # maximum share of rows that may change or disappear within an hour
_MIN_ROWS_OF_HOUR = 3  # minimum rows that changed
_QUICK = ("liquidation", "rate", "bps", "premium", "basis", "spread", "imbalance", "change")
"""Words in names of columns whose values may multiply within a minute."""
_JUMPING = ("liquidations_", "orderbook_")
"""Tables whose snapshots may change completely from one second to the next."""


@dataclass(frozen=True)
class _Earlier:
    """Rows of an earlier response, with its request."""

    columns: dict[str, Any]
    requested: dict[str, str]
    window_us: tuple[int, int] | None
    as_of_us: int
    size: int


class _Responses:
    """The newest responses of one source by query; safe for threads and forked children."""

    def __init__(self) -> None:
        self._after_fork()

    def _after_fork(self) -> None:
        self._fork_lock = threading.Lock()
        self._source: Callable[[], object | None] = _nothing
        self._by_query: dict[Any, tuple[_Earlier, ...]] = {}

    def clear(self, _closed: object = None) -> None:
        """Remove all responses.

        It does not use the lock, because garbage collection may call it at any time.
        """
        self._by_query = {}

    def add(self, source: object, query: Any, latest: _Earlier) -> tuple[_Earlier, ...]:
        """Store a response, and return those to the same query before it, oldest first."""
        with self._fork_lock:
            if self._source() is not source:
                self.clear()
                # Weak, so that a closed connection and its key are not kept alive
                self._source = weakref.ref(source, self.clear)
            before = self._by_query.pop(query, ())
            others = [response for response in before if response.window_us != latest.window_us]
            self._by_query[query] = (*others[-_MAX_WINDOWS:], latest)
            self._by_query = _within_limits(self._by_query)
        return before


def _nothing() -> None:
    """Return no source."""


_RESPONSES = _Responses()
renew_in_child(_RESPONSES)


def _within_limits(by_query: dict[Any, tuple[_Earlier, ...]]) -> dict[Any, tuple[_Earlier, ...]]:
    """Return the newest queries and windows within the limits, at least the newest one."""
    rows = 0
    newest: dict[Any, tuple[_Earlier, ...]] = {}
    for query in [*by_query][: -_MAX_QUERIES - 1 : -1]:
        windows: list[_Earlier] = []
        for response in reversed(by_query[query]):
            rows += response.size
            if rows <= _MAX_STORED_ROWS or not (newest or windows):
                windows.append(response)
        if windows:
            newest[query] = tuple(reversed(windows))
    return dict(reversed(newest.items()))


def clear() -> None:
    """Remove the stored rows of all responses."""
    _RESPONSES.clear()


def unlike_earlier(e: CheckedResponse, *, is_whole: bool) -> list[str]:
    """Return sentences about rows that differ from an earlier response, and store the new rows.

    Pass ``is_whole=False`` if the rows are a selection from the response: rows of the earlier response that
    it lacks are then not reported. Responses of local sources are neither compared nor stored.
    """
    source = SESSION.origin()
    if source is None or e.as_of_us is None or not 0 < e.size <= _MAX_ROWS:
        return []
    fixed = tuple(sorted(pair for pair in e.requested.items() if pair[0] not in _WINDOW))
    query = e.response.request.path, "" if e.table is None else e.table.name, fixed, e.step_us
    # Copies, since the caller may change the table
    columns = {name: values.copy() for name, values in e.columns.items()}
    latest = _Earlier(columns, e.requested, e.window_us, e.as_of_us, e.size)
    earlier = _most_alike(_RESPONSES.add(source, query, latest), e)
    if earlier is None or _are_equal(earlier.columns, columns):
        return []
    keys = _keys(e)
    pairs = _pairs(earlier.columns, columns, keys)
    if pairs is None:
        return []
    if e.window_us is not None and "time" in keys:
        return [*_changed_history(e, earlier, pairs, keys)]
    return [*_changed_snapshot(e, earlier, pairs, keys, is_whole=is_whole)]


def _most_alike(responses: Sequence[_Earlier], e: CheckedResponse) -> _Earlier | None:
    """Return the stored response whose window overlaps most, on ties the newest."""
    best = None
    longest = 0
    for response in responses:
        overlap = 1
        if e.window_us is not None and response.window_us is not None:
            overlap = min(e.window_us[1], response.window_us[1]) - max(e.window_us[0], response.window_us[0])
        if overlap > 0 and overlap >= longest:
            best = response
            longest = overlap
    return best


def _are_equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether two responses have the same rows."""
    if first is second:
        return True
    if first.keys() != second.keys():
        return False
    return all(_are_equal_columns(values, second[name]) for name, values in first.items())


def _are_equal_columns(first: Any, second: Any) -> bool:
    """Return whether two columns have the same values, missing ones included."""
    if len(first) != len(second):
        return False
    # faster than pandas, which compares extension arrays in several passes
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and first.dtype == second.dtype:
        return bool(np.array_equal(first, second, equal_nan=first.dtype.kind == "f"))
    return bool(pd.Series(first).equals(pd.Series(second)))


def _keys(e: CheckedResponse) -> list[str]:
    """Return the columns that identify a row; the time of a snapshot is not one of them."""
    if e.table is None:
        return [name for name in _OPEN_KEY if name in e.columns]
    is_history = e.window_us is not None
    return [name for name in e.table.key if name in e.columns and (name != "time" or is_history)]


def _pairs(first: dict[str, Any], second: dict[str, Any], keys: Sequence[str]) -> pd.DataFrame | None:
    """Return the rows of two responses side by side, by their keys; None if keys repeat."""
    if not keys or not {*keys} <= first.keys():
        return None
    frames = []
    for columns in (first, second):
        frame = pd.DataFrame({name: _plain(values) for name, values in columns.items()})
        if frame.duplicated([*keys]).any():
            return None
        frames.append(frame)
    return frames[0].merge(frames[1], how="outer", on=[*keys], suffixes=("_before", "_now"), indicator=True)


def _plain(values: Any) -> Any:
    """Return a column without categories, whose lists may differ between responses."""
    return np.asarray(values) if isinstance(values, pd.Categorical) else values


def _figures(pairs: pd.DataFrame) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name of each numeric column, with the earlier and the present values of common rows."""
    both = pairs[pairs["_merge"] == "both"]
    for column in both.columns:
        name = str(column).removesuffix("_before")
        if name == column or both[column].dtype.kind not in "fiu":
            continue
        present = both[f"{name}_now"]
        if present.dtype.kind in "fiu":
            yield name, both[column].to_numpy(np.float64), present.to_numpy(np.float64)


def _where(row: pd.Series, keys: Sequence[str]) -> str:
    """Return the keys of a row as text."""
    words = []
    for key in keys:
        value = row[key]
        is_time = isinstance(value, pd.Timestamp)
        words.append(shown_time(int(value.value) // 1000) if is_time else str(value))
    return " ".join(word for word in words if word not in ("nan", "None"))


def _changed_history(
    e: CheckedResponse, earlier: _Earlier, pairs: pd.DataFrame, keys: Sequence[str]
) -> Iterator[str]:
    """Find past rows that changed or disappeared."""
    yield from _missing_rows(e, pairs[pairs["_merge"] == "left_only"], keys)
    settled_us = earlier.as_of_us - _SETTLED_US - 2 * e.step_us
    stamps = np.asarray(pairs["time"].astype("datetime64[us, UTC]").astype(np.int64))
    pairs = pairs[stamps < settled_us]
    both = pairs[pairs["_merge"] == "both"]
    for name, before, now in _figures(pairs):
        with np.errstate(invalid="ignore"):
            scale = np.fmax(np.abs(before), np.abs(now))
            is_other = np.abs(now - before) > _SAME_HISTORY * scale + 1e-9
        is_other |= np.isfinite(before) & np.isnan(now)
        if is_other.any():
            first = int(np.argmax(is_other))
            yield (
                f"{name} of {_where(both.iloc[first], keys)} is {now[first]:g}, but was "
                f"{before[first]:g} in an earlier response; {int(is_other.sum())} of {len(both)} past "
                "rows differ"
            )


def _missing_rows(e: CheckedResponse, rows: pd.DataFrame, keys: Sequence[str]) -> Iterator[str]:
    """Find earlier rows of the requested window that are missing now, of venues that have other rows.

    The caller may have selected venues, so a venue without any row is not missing.
    """
    limit = e.requested.get("limit")
    if e.window_us is None or (limit is not None and e.size >= int(limit)):
        return
    stamps = np.asarray(rows["time"].astype("datetime64[us, UTC]").astype(np.int64))
    is_missing = (stamps >= e.window_us[0]) & (stamps < e.window_us[1])
    if "exchange" in rows:
        is_missing &= np.asarray(rows["exchange"].isin(set(e.columns["exchange"])))
    if is_missing.any():
        first = rows.iloc[int(np.argmax(is_missing))]
        yield (
            f"{int(is_missing.sum())} past rows from an earlier response are missing, first "
            f"{_where(first, keys)}"
        )


def _changed_snapshot(
    e: CheckedResponse, earlier: _Earlier, pairs: pd.DataFrame, keys: Sequence[str], *, is_whole: bool
) -> Iterator[str]:
    """Find figures of a snapshot that cannot have changed so much since the earlier one."""
    apart = abs((e.as_of_us or 0) - earlier.as_of_us)
    table = "" if e.table is None else e.table.name
    is_minute = apart <= _SAME_MINUTE_US
    if apart > HOUR_US or table.startswith(_JUMPING) or ("rank" in keys and not is_minute):
        return
    minutes = f"{apart / 60e6:.0f} minutes before"
    both = pairs[pairs["_merge"] == "both"]
    for name, before, now in _figures(pairs):
        is_steady = is_minute and not any(word in name for word in _QUICK)
        is_other = _other_in_minute(before, now) if is_steady else _other_in_hour(before, now)
        if is_other.any():
            first = int(np.argmax(is_other))
            yield (
                f"{name} of {_where(both.iloc[first], keys)} is {now[first]:g}, but was "
                f"{before[first]:g} {minutes}; {int(is_other.sum())} of {len(both)} rows differ by as "
                "much"
            )
    gone = pairs[pairs["_merge"] == "left_only"]
    most_gone = 0 if is_minute else _SHARE_OF_HOUR * len(pairs)
    limit = e.requested.get("limit")
    # Rows of rolling tables, and of rankings, disappear over time.
    is_rolling = not _ROLLING.isdisjoint(keys) or (limit is not None and e.size >= int(limit))
    if is_whole and not is_rolling and len(gone) > most_gone and earlier.requested == e.requested:
        yield (
            f"{len(gone)} of {len(pairs)} rows from a response {minutes} are missing, first "
            f"{_where(gone.iloc[0], keys)}"
        )


def _other_in_minute(before: Array, now: Array) -> Array:
    """Return a mask of changed values, if more values changed than is plausible within a minute."""
    sizes = np.abs(before[np.isfinite(before)])
    minimum = 0.05 * float(np.median(sizes)) if sizes.size else 0.0
    with np.errstate(invalid="ignore"):
        larger = np.fmax(np.abs(before), np.abs(now))
        change = np.abs(now - before)
        is_lost = np.isfinite(before) & np.isnan(now)
        for factor, share in _SAME_MINUTE.items():
            is_other = is_lost | (change > factor * larger + minimum)
            if is_other.sum() > share * before.size:
                return np.asarray(is_other)
    return np.zeros(before.size, dtype=bool)


def _other_in_hour(before: Array, now: Array) -> Array:
    """Return a mask of positive values that changed by a factor of three, if half of them did."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = now / before
    is_other = (before > 0) & (now > 0) & ((ratio > _SAME_HOUR) | (ratio < 1 / _SAME_HOUR))
    is_usual = is_other.sum() < max(_MIN_ROWS_OF_HOUR, _SHARE_OF_HOUR * before.size)
    return np.zeros(before.size, dtype=bool) if is_usual else np.asarray(is_other)
