"""A store as it stands at the service's clock."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from derivdata import tables
from derivdata.sources.service import buckets, running_answer
from derivdata.sources.service.refusal import not_found
from derivdata.sources.service.store import Store, SummedStore
from derivdata.sources.service.window import INSTANT, Window, adaptive, resolve
from derivdata.support import times
from derivdata.tables import endpoints

__all__ = ["Series", "View", "read_around", "stated"]

T = TypeVar("T")

_KNOWN = frozenset(tables.VENUES).union(*endpoints.OPTIONS_MATRIX.values())
_LONGEST = pd.Timedelta(1, "D")
_REMEMBERED = 1024
_CACHED_BYTES = 128 << 20
_KEYS = ("symbol", "exchange", "time")
_FIRST_DAYS = 8
_BLOCK_ROWS = 500_000
"""Rows of one block of a series, read or made: some 150 MiB with what is made from them."""
_DECIMALS = {"rate_bps_8h": 6}


_NOT_MADE = object()


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
    """A store as of an instant: no later row is visible.

    Parameters
    ----------
    store
        Source of the base tables.
    now
        The instant; rows stamped with it are visible.
    """

    def __init__(self, store: Store, now: pd.Timestamp) -> None:
        self.store, self.now = store, now
        self.horizon = now + INSTANT
        self._memo: OrderedDict[tuple[str, str], _SharedResult] = OrderedDict()
        self._lock = threading.Lock()
        self._cache: OrderedDict[Hashable, tuple[Any, int, list[str]]] = OrderedDict()
        self._cached_bytes = 0

    @property
    def exchanges(self) -> frozenset[str]:
        """Slugs of every venue that is known: the library's and the store's."""
        return self.once("exchanges", lambda: _KNOWN.union(*self._all_exchanges()))

    def _all_exchanges(self) -> list[tuple[str, ...]]:
        return [self.store.exchanges(table) for table in sorted(self.store.tables())]

    @property
    def asks_by_symbol(self) -> bool:
        """Return whether a read of single symbols asks venues, and so may have other rows than one of all."""
        return getattr(self.store, "asks_by_symbol", False)

    def has(self, *names: str) -> bool:
        """Return whether the store has any of the tables."""
        return any(name in self.store.tables() for name in names)

    def need(self, *names: str) -> None:
        """Refuse (404) where the store holds none of the tables."""
        if not self.has(*names):
            raise not_found(
                f"{self.store.label} holds no {' nor '.join(names)}, which this answer is made of"
            )

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` returns, made once for each state of the store while it is among the last used.

        Concurrent calls with one name share the work; other names do not wait.
        """
        key = (name, self.store.identity)
        with self._lock:
            shared = self._memo.setdefault(key, _SharedResult())
            self._memo.move_to_end(key)
            if len(self._memo) > _REMEMBERED:
                self._memo.popitem(last=False)
        with shared.lock:
            if shared.value is _NOT_MADE:
                with running_answer.noted() as shared.corrections:
                    shared.value = make()
            else:
                running_answer.note(shared.corrections)
            return shared.value  # type: ignore[no-any-return]

    def recall(self, key: Hashable, *, identity: str | None = None) -> Any:
        """Return what was remembered under a key, or None; `identity` is the store's state, None is now."""
        full = (key, self.store.identity if identity is None else identity)
        with self._lock:
            entry = self._cache.get(full)
            if entry is None:
                return None
            self._cache.move_to_end(full)
        running_answer.note(entry[2])
        return entry[0]

    def remember(
        self,
        key: Hashable,
        value: Any,
        size: int,
        noted: Sequence[str] = (),
        *,
        identity: str | None = None,
    ) -> None:
        """Keep a value of so many bytes, and forget those that were not recalled for longest.

        `noted` are the corrections of the rows that it was made of, for every answer that recalls it.
        `identity` is the state of the store before they were read: another may have come since. None is now.
        """
        full = (key, self.store.identity if identity is None else identity)
        with self._lock:
            self._cached_bytes += size - self._cache.pop(full, (None, 0, []))[1]
            self._cache[full] = (value, size, list(noted))
            while self._cached_bytes > _CACHED_BYTES:
                self._cached_bytes -= self._cache.popitem(last=False)[1][1]

    def window(self, params: Mapping[str, Any], tier: str) -> Window:
        """Return the window that is requested, as far as the tier sees it and the store can hold rows of it.

        Raises
        ------
        Refusal
            See `derivdata.sources.service.window.resolve`.
        """
        if params.get("range") == "all":
            params = {**params, "range": None, "start": self.store.start}
        window = resolve(params, now=self.now, tier=tier)
        return window._replace(start=max(window.start, self.store.start.floor("1D") - _LONGEST))

    def read(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Read the rows of a table with ``start <= time < end`` that are known at the clock.

        Volume is known when its step is over. With `columns`, these alone and rows in any order.
        """
        running_answer.check()
        end = min(end, self.horizon)
        if start >= end or not self.has(table):
            empty = tables.TABLES[table].empty()
            return empty if columns is None else empty[list(columns)]
        frame = self.store.read(table, start, end, symbols=symbols, venues=venues, columns=columns)
        return self._known(table, running_answer.note_read(frame), end)

    def step_sums(
        self,
        table: str,
        value: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Sum a column of the rows that `read` returns over the symbols of each venue, step and instant.

        Columns are those of `derivdata.sources.archive.Archive.step_sums`, which saves reading the rows.
        """
        running_answer.check()
        end = min(end, self.horizon)
        if start < end and self.has(table) and isinstance(self.store, SummedStore):
            sums = self.store.step_sums(table, start, end, venues=venues)
            if sums is not None:
                return self._known(table, running_answer.note_read(sums), end)
        from derivdata.sources.archive.step_sums import sums_of_frame  # many services sum nothing

        names = ("symbol", "exchange", "resolution", "time", value)
        return sums_of_frame(self.read(table, start, end, venues=venues, columns=names), value)

    def _known(self, table: str, frame: pd.DataFrame, end: pd.Timestamp) -> pd.DataFrame:
        """Return those of the rows before `end` that are known at the clock."""
        if table != "volume_history" or end + _LONGEST <= self.now:
            return frame
        return frame[buckets.ends(stated(frame)) <= self.now]

    def current(
        self,
        table: str,
        *,
        at: pd.Timestamp | None = None,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest row of every series whose value still holds at an instant (default: the clock).

        A settlement holds for its interval, a row with a resolution as `buckets` says, others an hour.
        """
        at = self.now if at is None else min(at, self.now)
        if not self.has(table):
            return tables.TABLES[table].empty()
        frame = self.latest(table, at, within=_LONGEST, symbols=symbols, venues=venues)
        return frame[(at - frame["time"]) <= _reach(frame)]

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return what the store's `latest` does; every read of an answer passes here or through `read`."""
        return running_answer.note_read(
            self.store.latest(table, at, within=within, symbols=symbols, venues=venues)
        )

    def series(
        self,
        table: str,
        value: str,
        window: Window,
        resolution: str | None,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        added: bool = False,
        used: str | None = None,
        kind: str | None = None,
    ) -> Series:
        """Return a column over a window at a resolution.

        Where all rows state resolutions of their own that are coarser than the one asked, the finest of them
        is used; `used` is one to use whatever they state. `added` sums a bucket's rows instead of averaging
        them over time; rows that are longer than a bucket have no place in it and are left out. `kind` takes
        the rows of one kind of price, and samples them instead: see `buckets.samples`.
        """
        parts: list[tuple[Window, Series]] = []
        start, days = window.start, _FIRST_DAYS
        while start < window.end or not parts:
            end = min(start.floor("1D") + days * _LONGEST, window.end)
            part = window._replace(start=start, end=end)
            series, rows = self._part(table, value, part, resolution, symbols, venues, added, used, kind)
            parts.append((part, series))
            per_day = max(rows, len(series.frame), 1) / max((end - start) / _LONGEST, 1.0)
            start, days = end, min(max(int(_BLOCK_ROWS / per_day), 1), 3650)
        steps = {series.used for _, series in parts if len(series.frame) or series.notices}
        finest = min(steps, key=buckets.length, default=parts[0][1].used)
        whole = [
            series
            if series.used == finest
            else self._part(table, value, part, resolution, symbols, venues, added, finest, kind)[0]
            for part, series in parts
        ]
        notices = list(dict.fromkeys(notice for series in whole for notice in series.notices))
        return Series(_joined([series.frame for series in whole]), finest, notices)

    def _part(
        self,
        table: str,
        value: str,
        window: Window,
        resolution: str | None,
        symbols: Sequence[str] | None,
        venues: Sequence[str] | None,
        added: bool,
        used: str | None,
        kind: str | None,
    ) -> tuple[Series, int]:
        """Return a column over a window that fits into memory, and how many rows were read for it."""
        frame, step = self.around(table, window, resolution, symbols=symbols, venues=venues, kind=kind)
        rows, step = len(frame), used or step
        long = buckets.longer(frame[buckets.ends(frame) > window.start], step) if added else []
        notices = [f"rows by {name} are left out: they are longer than buckets of {step}" for name in long]
        frame = frame[~frame["resolution"].isin(long)] if long else frame
        frame = self.combined(frame, value, window, step, added=added, sampled=kind is not None)
        frame = frame[[*_KEYS, value]]
        return Series(frame, step, notices), rows

    def around(
        self,
        table: str,
        window: Window,
        resolution: str | None,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        kind: str | None = None,
    ) -> tuple[pd.DataFrame, str]:
        """Read a window, the whole buckets that it touches, and what reaches into the first.

        With them the resolution that is used; rows that state none are raw.
        """

        def read(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            frame = self.read(table, start, end, symbols=symbols, venues=venues)
            return frame if kind is None else frame[frame["kind"] == kind]

        used = resolution or adaptive(window.requested)
        frame = read_around(read, window, times.resolution(used))
        stated = buckets.steps(frame)
        return frame, max(used, min(stated, key=buckets.length, default=used), key=buckets.length)

    def combined(
        self,
        frame: pd.DataFrame,
        value: str,
        window: Window,
        used: str,
        *,
        added: bool = False,
        sampled: bool = False,
    ) -> pd.DataFrame:
        """Return a column of what `around` read, in the window and at the resolution, without gaps."""
        step = times.resolution(used)
        if step is not None and (frame["resolution"] != used).any():
            if sampled:
                frame = buckets.samples(frame, value, step, self.horizon)
                return frame[(frame["time"] >= window.start) & (frame["time"] < window.end)]
            combine = buckets.sums if added else buckets.means
            frame = combine(frame, value, step, self.horizon)
            frame[value] = frame[value].round(_DECIMALS.get(value, 2))
        inside = (frame["time"] >= window.start) & (frame["time"] < window.end) & frame[value].notna()
        return frame[inside]


def read_around(
    read: Callable[[pd.Timestamp, pd.Timestamp], pd.DataFrame], window: Window, step: pd.Timedelta | None
) -> pd.DataFrame:
    """Read a window, the whole buckets that it touches, and what reaches into the first.

    `read` takes start and end; `step` is the length of a bucket, None where there are none. Rows that state
    no resolution are marked as raw.
    """
    start, end, lead = window.start, window.end, pd.Timedelta(0)
    if step is not None:
        start, end, lead = start.floor(step), end.ceil(step), max(buckets.HOLD, step)
    for back in (lead, _LONGEST):
        frame = stated(read(start - back, end))
        longest = max((times.resolution(name) or buckets.HOLD for name in buckets.steps(frame)), default=lead)
        if step is None or longest <= back:
            break
    return frame


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Join parts of a series that follow each other in time, sorted as each is."""
    frames = [frame for frame in frames if len(frame)] or frames[:1]
    if len(frames) == 1:
        return frames[0]
    columns = {name: pd.concat([frame[name] for frame in frames], ignore_index=True) for name in frames[0]}
    for name in ("symbol", "exchange"):
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
        return pd.to_timedelta(buckets.holds(stated(frame)["resolution"]), unit="us")
    return buckets.HOLD


def stated(frame: pd.DataFrame) -> pd.DataFrame:
    """Mark the rows that state no step as raw."""
    if not {"unstated", ""} & set(buckets.steps(frame)):
        return frame
    silent = frame["resolution"].isna() | (frame["resolution"] == "unstated")
    return frame.assign(resolution=frame["resolution"].astype(object).mask(silent, "raw"))
