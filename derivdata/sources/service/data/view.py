"""A store at the service's clock, through which every response reads.

Nothing later than the clock is seen; volume is known when its step is over. Each read adds the corrections of
its rows to those of the answer under way. What several answers are made of is made once (`View.once`). A
history is read in blocks of days that hold about half a million rows, so that memory does not grow with the
window.

A cache with a limit in bytes that drops the least recently used entries.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from derivdata import tables
from derivdata.sources.query import Query
from derivdata.sources.service.data import running_answer, windows
from derivdata.sources.service.data.store import Store
from derivdata.sources.service.data.windows import INSTANT, AnswerWindow, adaptive, resolve
from derivdata.sources.service.refusal import not_found
from derivdata.support import times
from derivdata.tables import endpoints

Entry = TypeVar("Entry")


class BoundedCache(Generic[Entry]):
    """What was used last, as much as fits into `limit` bytes by `size_of` key and value; not locked."""

    def __init__(self, limit: int, size_of: Callable[[Hashable, Entry], int]) -> None:
        self._limit = limit
        self._size_of = size_of
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[Entry, int]] = OrderedDict()

    def get(self, key: Hashable) -> Entry | None:
        """Return the value of a key, or None."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: Hashable, value: Entry) -> None:
        """Keep a value, as large as it is now, and drop the oldest that no longer fit."""
        if key in self._entries:
            self.size -= self._entries.pop(key)[1]
        if (size := self._size_of(key, value)) > self._limit:
            return
        self._entries[key] = value, size
        self.size += size
        while self.size > self._limit:
            self.size -= self._entries.popitem(last=False)[1][1]


T = TypeVar("T")

_KNOWN = frozenset(tables.VENUES).union(*endpoints.OPTIONS_MATRIX.values())
_LONGEST = pd.Timedelta(1, "D")
_SAME_SUBJECT = {"funding_history": "funding_settlements", "funding_settlements": "funding_history"}
_CACHED_BYTES = 128 << 20
_SMALL = 4096
"""Bytes counted for a result in addition to its frames."""

_KEYS = ("symbol", "exchange", "time")
_STEPS_OVER = ("volume_history", "volume_taker")
"""Tables whose rows are known when their step is over."""

_DECIMALS = {"rate_bps_8h": 6}

_NOT_MADE = object()


class StoredColumn(NamedTuple):
    """What a history is of."""

    # `table`, `value`: a base table, and the column that is shown; empty shows whole rows, sampled instead of
    # averaged, see `buckets.samples`
    table: str
    value: str = ""
    # Whether the rows of a bucket add up, as volume does; else they are averaged over time. Rows that are
    # longer than a bucket have no place in a sum and are left out
    added: bool = False
    # Of a table that has several series of a pair, a column and the word in it whose rows are shown
    only: tuple[str, str] | None = None
    # A second column of the same unit, shown where rows have it
    second: str = ""

    @property
    def columns(self) -> list[str]:
        """What is shown, after the keys."""
        if self.value:
            return [*_KEYS, self.value, *([self.second] if self.second else [])]
        beside = {"resolution", *(self.only or ())[:1]}
        names = dict.fromkeys([*_KEYS, *tables.TABLES[self.table].columns])
        return [name for name in names if name not in beside]


class Series(NamedTuple):
    """A column over a window, the resolution that it is at, and what was left out of it."""

    frame: pd.DataFrame
    used: str
    notices: list[str]


class _SharedResult:
    """A result that is computed once, and the lock of the callers that wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: Any = _NOT_MADE
        self.corrections: list[str] = []


class View:
    """A store as of an instant `now`, up to and including it: no later row is visible.

    `first_days` and `block_rows` are the days of the first block of a history, and the rows of the next ones.
    """

    first_days = 8
    block_rows = 500_000

    def __init__(self, store: Store, now: pd.Timestamp) -> None:
        self.store = store
        self.now = now
        self.horizon = now + INSTANT
        self._memo = BoundedCache[_SharedResult](
            _CACHED_BYTES, lambda _, made: _SMALL + _bytes_of(made.value)
        )
        self._lock = threading.Lock()

    @property
    def exchanges(self) -> frozenset[str]:
        """Slugs of every venue that is known: the library's and the store's."""
        names = sorted(self.store.tables())
        return self.once("exchanges", lambda: _KNOWN.union(*map(self.store.exchanges, names)))

    def has(self, *names: str) -> bool:
        """Return whether the store has any of the tables."""
        return any(name in self.store.tables() for name in names)

    def need(self, *names: str) -> None:
        """Refuse (404) where the store holds none of the tables."""
        if not self.has(*names):
            raise not_found(
                f"{self.store.label} holds no {' nor '.join(names)}, which this response needs"
                f"{self._instead(names)}"
            )

    def _instead(self, names: Sequence[str]) -> str:
        """Name the table of payments where rates were asked for, and the other way round."""
        other = next((_SAME_SUBJECT[name] for name in names if name in _SAME_SUBJECT), None)
        if other is None or not self.has(other):
            return ""
        return f"; it has {other}: use dd.{other.replace('_', '.', 1)}"

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns, made once for each state of the store while it is among the last used.

        Concurrent calls with one name, which says all else that the result depends on, share the work.
        """
        key = (name, self.store.identity)  # before the reads: rows written meanwhile must not count as read
        with self._lock:
            shared = self._memo.get(key)
            if shared is None:
                self._memo.put(key, shared := _SharedResult())
        with shared.lock:
            if shared.value is not _NOT_MADE:
                running_answer.note(shared.corrections)
                return shared.value  # type: ignore[no-any-return]
            with running_answer.noted() as shared.corrections:
                shared.value = made = make()
        with self._lock:
            if self._memo.get(key) is shared:
                self._memo.put(key, shared)  # it is larger now
        return made

    def window(self, params: Mapping[str, Any], tier: str) -> AnswerWindow:
        """Return the window that is requested, as far as the tier sees it and the store can hold rows of it.

        Raises `Refusal`: see `derivdata.sources.service.data.windows.resolve`.
        """
        if params.get("range") == "all":
            params = {**params, "range": None, "start": self.store.start}
        window = resolve(params, now=self.now, tier=tier)
        return window._replace(start=max(window.start, self.store.start.floor("1D") - _LONGEST))

    def rows(self, query: Query) -> pd.DataFrame:
        """Return the rows of a query that are known at the clock."""
        query = replace(query, end=min(query.end, self.horizon))
        running_answer.check()
        if query.start >= query.end or not self.has(query.table):
            empty = tables.TABLES[query.table].empty()
            return empty if query.columns is None else empty[list(query.columns)]
        return self._known(query, running_answer.note_read(self.store.rows(query)))

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Return sums over the symbols of each venue, of the rows that `rows` returns: see `Store.sums`."""
        query = replace(query, end=min(query.end, self.horizon))
        running_answer.check()
        return self._known(query, running_answer.note_read(self.store.sums(query, value)))

    def _known(self, query: Query, frame: pd.DataFrame) -> pd.DataFrame:
        if query.table not in _STEPS_OVER or query.end + _LONGEST <= self.now:
            return frame
        return frame[windows.ends(stated(frame)) <= self.now]

    def current(
        self,
        table: str,
        at: pd.Timestamp | None = None,
        symbols: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest row of each series whose value still holds at an instant (default: the clock)."""
        at = self.now if at is None else min(at, self.now)
        if not self.has(table):
            return tables.TABLES[table].empty()
        frame = self.latest(table, at, _LONGEST, symbols)
        return frame[(at - frame["time"]) <= _reach(frame)]

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest row at or before `at`, no older than `within`, of each series: `Store.newest`."""
        query = Query(table, at - within, at + INSTANT, symbols, venues)
        return running_answer.note_read(self.store.newest(query))

    def series(
        self,
        column: StoredColumn,
        window: AnswerWindow,
        resolution: str | None,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> Series:
        """Return a column at a resolution, or at the finest that rows state where all are coarser."""
        requested = resolution or adaptive(window.requested)
        chosen = Query(column.table, window.start, window.end, symbols, venues)

        def made(part: AnswerWindow) -> tuple[tuple[AnswerWindow, Series], int]:
            series, rows = self._part(column, chosen, part, requested)
            return (part, series), max(rows, len(series.frame))

        parts = self.blocks(window, made)
        steps = {series.used for _, series in parts if len(series.frame) or series.notices}
        finest = min(steps, key=windows.length, default=parts[0][1].used)
        whole = [
            series if series.used == finest else self._part(column, chosen, part, requested, finest)[0]
            for part, series in parts
        ]
        notices = list(dict.fromkeys(notice for series in whole for notice in series.notices))
        return Series(_joined([series.frame for series in whole]), finest, notices)

    def blocks(self, window: AnswerWindow, make: Callable[[AnswerWindow], tuple[T, int]]) -> list[T]:
        """Return the results for blocks of a window; the length of a block depends on the rows before it."""
        results: list[T] = []
        start = window.start
        days = self.first_days
        while start < window.end or not results:
            end = min(start.floor("1D") + days * _LONGEST, window.end)
            result, rows = make(window._replace(start=start, end=end))
            results.append(result)
            per_day = max(rows, 1) / max((end - start) / _LONGEST, 1.0)
            start = end
            days = min(max(int(self.block_rows / per_day), 1), 3650)
        return results

    def _part(
        self,
        column: StoredColumn,
        chosen: Query,
        window: AnswerWindow,
        requested: str,
        used: str | None = None,
    ) -> tuple[Series, int]:
        """Return a column over a window that fits into memory, and how many rows were read for it."""
        frame, step = self.around(column, window, requested, chosen.symbols, chosen.venues)
        rows = len(frame)
        step = used or step
        frame, notices = left_out(frame, column, window, step)
        shown = self.combined(frame, column, window, step)
        if column.second:
            of_second = column._replace(value=column.second, second="")
            beside = self.combined(frame[frame[column.second].notna()], of_second, window, step)
            places = pd.MultiIndex.from_frame(beside[[*_KEYS]]).get_indexer(
                pd.MultiIndex.from_frame(shown[[*_KEYS]])
            )
            values = np.append(beside[column.second].to_numpy(dtype=np.float64), np.nan)
            shown = shown.assign(**{column.second: values[places]})  # the last value if the row has none
        return Series(shown[column.columns], step, notices), rows

    def around(
        self,
        column: StoredColumn,
        window: AnswerWindow,
        resolution: str | None,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> tuple[pd.DataFrame, str]:
        """Return what `read_around` reads of a window, and the resolution that is used."""

        def read(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            frame = self.rows(Query(column.table, start, end, symbols, venues))
            return frame if column.only is None else frame[frame[column.only[0]] == column.only[1]]

        used = resolution or adaptive(window.requested)
        frame = read_around(read, window, times.resolution(used))
        return frame, finest_step(frame, used)

    def combined(
        self, frame: pd.DataFrame, column: StoredColumn, window: AnswerWindow, used: str
    ) -> pd.DataFrame:
        """Return a column of what `around` read, in the window and at the resolution, without gaps."""
        step = times.resolution(used)
        value = column.value
        if step is not None and (frame["resolution"] != used).any():
            if not value:
                by = [name for name in tables.TABLES[column.table].key if name != "time"]
                combine_rows = windows.added if column.added else windows.samples
                frame = combine_rows(frame, by, step, self.horizon)
            else:
                combine = windows.sums if column.added else windows.means
                frame = combine(frame, value, step, self.horizon)
                frame[value] = frame[value].round(_DECIMALS.get(value, 2))
        inside = (frame["time"] >= window.start) & (frame["time"] < window.end)
        return frame[inside & frame[value].notna() if value else inside]


def _bytes_of(value: Any) -> int:
    if isinstance(value, pd.DataFrame | pd.Series):
        return int(np.sum(value.memory_usage()))
    return sum(map(_bytes_of, value)) if isinstance(value, tuple | list) else 0


def read_around(
    read: Callable[[pd.Timestamp, pd.Timestamp], pd.DataFrame],
    window: AnswerWindow,
    step: pd.Timedelta | None,
) -> pd.DataFrame:
    """Read a window, the whole buckets of length `step` that it touches, and what reaches into the first."""
    start = window.start
    end = window.end
    lead = pd.Timedelta(0)
    if step is not None:
        start = start.floor(step)
        end = end.ceil(step)
        lead = max(windows.HOLD, step)
    for back in (lead, _LONGEST):
        frame = stated(read(start - back, end))
        longest = max((times.resolution(name) or windows.HOLD for name in windows.steps(frame)), default=lead)
        if step is None or longest <= back:
            break
    return frame


def finest_step(frame: pd.DataFrame, requested: str) -> str:
    """Return the resolution that is used: the finest that rows state, unless the requested one is coarser."""
    stated = min(windows.steps(frame), key=windows.length, default=requested)
    return max(requested, stated, key=windows.length)


def left_out(
    frame: pd.DataFrame, column: StoredColumn, window: AnswerWindow, step: str
) -> tuple[pd.DataFrame, list[str]]:
    """Drop rows that add up and are longer than a bucket, and so have no place in it; say so."""
    long = windows.longer(frame[windows.ends(frame) > window.start], step) if column.added else []
    notices = [f"rows by {name} are left out: they are longer than buckets of {step}" for name in long]
    return (frame[~frame["resolution"].isin(long)] if long else frame), notices


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Join parts of a series that follow each other in time, sorted as each is."""
    frames = [frame for frame in frames if len(frame)] or frames[:1]
    if len(frames) == 1:
        return frames[0]
    columns = {name: pd.concat([frame[name] for frame in frames], ignore_index=True) for name in frames[0]}
    for name in (n for n, kind in frames[0].dtypes.items() if kind == "category"):
        texts = [pd.Categorical(frame[name]) for frame in frames]
        columns[name] = pd.Series(union_categoricals(texts, sort_categories=True))
    order = np.lexsort(
        (columns["time"].array.asi8, columns["exchange"].cat.codes, columns["symbol"].cat.codes)
    )
    return pd.DataFrame(columns, copy=False).take(order)


def _reach(frame: pd.DataFrame) -> Any:
    if "interval_hours" in frame:
        return pd.to_timedelta(frame["interval_hours"], unit="h")
    if "resolution" in frame:
        return pd.to_timedelta(windows.holds(stated(frame)["resolution"]), unit="us")
    return windows.HOLD


def stated(frame: pd.DataFrame) -> pd.DataFrame:
    """Mark the rows that state no step as raw."""
    if not {"unstated", ""} & set(windows.steps(frame)):
        return frame
    silent = frame["resolution"].isna() | (frame["resolution"] == "unstated")
    return frame.assign(resolution=frame["resolution"].astype(object).mask(silent, "raw"))
