"""A store at the service's clock, through which every response reads, and a cache with a limit in bytes.

Rows later than the clock are not visible; the volume of a step is visible when the step is over. Each read
adds the corrections of its rows to the current response. Results that several responses need are made once
(`View.once`). A history is read in blocks of days with about half a million rows, so memory does not grow
with the window.

The windows in which each venue's liquidations were requested or streamed distinguish an empty result from
missing requests. A collected store has a ledger of requests (`LedgerStore`); other stores give no notice.
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
from derivdata.sources import Query
from derivdata.sources.service.data import windows
from derivdata.sources.service.data.store import LedgerStore, Store, check, not_found, note, note_read, noted
from derivdata.sources.service.data.windows import TICK, ResponseWindow, adaptive, resolve
from derivdata.support import times
from derivdata.tables import endpoints

Entry = TypeVar("Entry")


class BoundedCache(Generic[Entry]):
    """The most recently used entries within `limit` bytes; `size_of` gives an entry's bytes; not locked."""

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
        """Store a value with its current size, and drop the least recently used entries beyond the limit."""
        if key in self._entries:
            _, stored_size = self._entries.pop(key)
            self.size -= stored_size
        size = self._size_of(key, value)
        if size > self._limit:
            return
        self._entries[key] = value, size
        self.size += size
        while self.size > self._limit:
            _, (_, oldest_size) = self._entries.popitem(last=False)
            self.size -= oldest_size


T = TypeVar("T")

_KNOWN_VENUES = frozenset(tables.VENUES).union(*endpoints.OPTIONS_MATRIX.values())
_LONGEST_STEP = pd.Timedelta(1, "D")
"""Longest resolution of rows and of responses."""
_OTHER_RATES = {"funding_history": "funding_settlements", "funding_settlements": "funding_history"}
_CACHED_BYTES = 128 << 20
_ENTRY_BYTES = 4096
"""Bytes counted for a result in addition to its frames."""

_KEYS = ("symbol", "exchange", "time")
_COMPLETE_STEPS_ONLY = ("volume_history", "volume_taker")
"""Tables whose rows are visible only when their step is over."""

_DECIMALS = {"rate_bps_8h": 6}

_NOT_COMPUTED = object()


class StoredColumn(NamedTuple):
    """Column of a base table whose history is requested."""

    table: str  # a base table
    value: str = ""  # its column; empty for all columns, which are sampled instead of averaged
    # Whether the rows of a bucket are added up, as for volume; else they are averaged over time.
    added: bool = False
    # In a table with several series per pair, a column and the value in it that selects one of them.
    only: tuple[str, str] | None = None
    second: str = ""  # a second column of the same unit, shown in rows that have it

    @property
    def columns(self) -> list[str]:
        """Keys and columns of a response."""
        if self.second:
            return [*_KEYS, self.value, self.second]
        if self.value:
            return [*_KEYS, self.value]
        omitted = {"resolution"}
        if self.only is not None:
            omitted.add(self.only[0])
        names = dict.fromkeys([*_KEYS, *tables.TABLES[self.table].columns])
        return [name for name in names if name not in omitted]


class Series(NamedTuple):
    """A column over a window, its resolution, and notices about omitted rows."""

    frame: pd.DataFrame
    used: str
    notices: list[str]


class _SharedResult:
    """A result that is computed once, and a lock for the callers that wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: Any = _NOT_COMPUTED
        self.corrections: list[str] = []


class View:
    """A store at the time `now`: rows at `now` are visible, later rows are not.

    A history is read in blocks, which limits memory. `first_days` is the length of the first block, whose
    rows per day are not known yet. `block_rows` is the target size of the others.
    """

    first_days = 8
    block_rows = 500_000

    def __init__(self, store: Store, now: pd.Timestamp) -> None:
        self.store = store
        self.now = now
        self.horizon = now + TICK
        self._memo = BoundedCache[_SharedResult](
            _CACHED_BYTES, lambda _, shared: _ENTRY_BYTES + _bytes_of(shared.value)
        )
        self._lock = threading.Lock()

    @property
    def exchanges(self) -> frozenset[str]:
        """Slugs of all known venues: the library's and the store's."""
        names = sorted(self.store.tables())
        return self.once("exchanges", lambda: _KNOWN_VENUES.union(*map(self.store.exchanges, names)))

    def has(self, *names: str) -> bool:
        """Return whether the store has any of the tables."""
        return any(name in self.store.tables() for name in names)

    def need(self, *names: str) -> None:
        """Raise `Refusal` (404) if the store has none of the tables."""
        if not self.has(*names):
            raise not_found(
                f"{self.store.label} does not have {' or '.join(names)}, which this response "
                f"requires{self._instead(names)}"
            )

    def _instead(self, names: Sequence[str]) -> str:
        """Return advice to use payments instead of missing rates, or rates instead of missing payments."""
        for name in names:
            other = _OTHER_RATES.get(name, "")
            if self.has(other):
                return f"; it has {other}: use dd.{other.replace('_', '.', 1)}"
        return ""

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, cached for the present state of the store.

        `name` identifies everything else that the result depends on. Concurrent calls with the same name
        wait for one computation.
        """
        # Computed before reading, so that rows written meanwhile do not count as read.
        key = (name, self.store.identity)
        with self._lock:
            shared = self._memo.get(key)
            if shared is None:
                shared = _SharedResult()
                self._memo.put(key, shared)
        with shared.lock:
            if shared.value is not _NOT_COMPUTED:
                note(shared.corrections)
                return shared.value  # type: ignore[no-any-return]
            with noted() as shared.corrections:
                made = make()
            shared.value = made
        with self._lock:
            if self._memo.get(key) is shared:
                self._memo.put(key, shared)  # stored again, because its size has changed
        return made

    def window(self, params: Mapping[str, Any], tier: str) -> ResponseWindow:
        """Return the requested window, cut to the range of the tier and of the store.

        Raises `Refusal`: see `derivdata.sources.service.data.windows.resolve`.
        """
        if params.get("range") == "all":
            params = {**params, "range": None, "start": self.store.start}
        window = resolve(params, now=self.now, tier=tier)
        return window._replace(start=max(window.start, self.store.start.floor("1D") - _LONGEST_STEP))

    def rows(self, query: Query) -> pd.DataFrame:
        """Return the rows of a query that are visible at the clock."""
        query = replace(query, end=min(query.end, self.horizon))
        check()
        if query.start >= query.end or not self.has(query.table):
            empty = tables.TABLES[query.table].empty()
            if query.columns is not None:
                empty = empty[list(query.columns)]
            return empty
        return self._visible(query, note_read(self.store.rows(query)))

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Return sums over the symbols of each venue for the rows of `rows`: see `Store.sums`."""
        query = replace(query, end=min(query.end, self.horizon))
        check()
        return self._visible(query, note_read(self.store.sums(query, value)))

    def _visible(self, query: Query, frame: pd.DataFrame) -> pd.DataFrame:
        """Drop rows of `_COMPLETE_STEPS_ONLY` whose step ends after the clock."""
        if query.table not in _COMPLETE_STEPS_ONLY or query.end + _LONGEST_STEP <= self.now:
            return frame
        return frame[windows.ends(stated(frame)) <= self.now]

    def current(
        self,
        table: str,
        at: pd.Timestamp | None = None,
        symbols: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest row of each series if it is still valid at a time (default: the clock)."""
        at = min(at or self.now, self.now)
        if not self.has(table):
            return tables.TABLES[table].empty()
        frame = self.latest(table, at, _LONGEST_STEP, symbols)
        return frame[(at - frame["time"]) <= _validity(frame)]

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest row at or before `at`, no older than `within`, of each series: `Store.newest`."""
        query = Query(table, at - within, at + TICK, symbols, venues)
        return note_read(self.store.newest(query))

    def series(
        self,
        column: StoredColumn,
        window: ResponseWindow,
        resolution: str | None,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> Series:
        """Return a column at a resolution, or at the finest resolution of the rows if all are coarser."""
        requested = resolution or adaptive(window.requested)
        query = Query(column.table, window.start, window.end, symbols, venues)

        def read_block(block: ResponseWindow) -> tuple[tuple[ResponseWindow, Series], int]:
            series, rows = self._block(column, query, block, requested)
            return (block, series), max(rows, len(series.frame))

        blocks = self.blocks(window, read_block)
        steps = {series.used for _, series in blocks if len(series.frame) or series.notices}
        finest = min(steps, key=windows.length, default=blocks[0][1].used)
        frames = []
        notices: dict[str, None] = {}  # several blocks may have the same notice
        for block, series in blocks:
            if series.used != finest:  # a block without fine rows
                series, _ = self._block(column, query, block, requested, finest)
            frames.append(series.frame)
            notices |= dict.fromkeys(series.notices)
        return Series(_joined(frames), finest, list(notices))

    def blocks(self, window: ResponseWindow, make: Callable[[ResponseWindow], tuple[T, int]]) -> list[T]:
        """Return the results of `make` for consecutive blocks of a window.

        `make` also returns the number of rows of its block, from which the next block's length follows.
        """
        results: list[T] = []
        start = window.start
        days = self.first_days
        while start < window.end or not results:
            # Blocks end at midnight, so that none divides a bucket, which is a day or shorter.
            end = min(start.floor("1D") + days * _LONGEST_STEP, window.end)
            result, rows = make(window._replace(start=start, end=end))
            results.append(result)
            per_day = max(rows, 1) / max((end - start) / _LONGEST_STEP, 1.0)
            start = end
            days = min(max(int(self.block_rows / per_day), 1), 3650)
        return results

    def _block(
        self,
        column: StoredColumn,
        query: Query,
        window: ResponseWindow,
        requested: str,
        used: str | None = None,
    ) -> tuple[Series, int]:
        """Return a column over one block at the step `used`, and the number of rows that were read for it.

        Without `used` the step is the requested one, or the finest of the rows if that is coarser.
        """
        frame, step = self.around(column, window, requested, query.symbols, query.venues)
        rows = len(frame)
        step = used or step
        frame, notices = without_long_rows(frame, column, window, step)
        shown = self.combined(frame, column, window, step)
        if column.second:
            second_column = column._replace(value=column.second, second="")
            second = self.combined(frame[frame[column.second].notna()], second_column, window, step)
            shown_keys = pd.MultiIndex.from_frame(shown[[*_KEYS]])
            places = pd.MultiIndex.from_frame(second[[*_KEYS]]).get_indexer(shown_keys)
            # A missing key has the position −1, which is the appended NaN.
            values = np.append(second[column.second].to_numpy(dtype=np.float64), np.nan)
            shown = shown.assign(**{column.second: values[places]})
        return Series(shown[column.columns], step, notices), rows

    def around(
        self,
        column: StoredColumn,
        window: ResponseWindow,
        resolution: str | None,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> tuple[pd.DataFrame, str]:
        """Return the rows that a window needs (see `read_around`), and the resolution to use."""

        def read(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            frame = self.rows(Query(column.table, start, end, symbols, venues))
            if column.only is not None:
                name, selected = column.only
                frame = frame[frame[name] == selected]
            return frame

        used = resolution or adaptive(window.requested)
        frame = read_around(read, window, times.resolution(used))
        return frame, finest_step(frame, used)

    def combined(
        self, frame: pd.DataFrame, column: StoredColumn, window: ResponseWindow, used: str
    ) -> pd.DataFrame:
        """Return a column of the rows of `around`, in the window, at a resolution and without NaN."""
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
        if value:
            inside &= frame[value].notna()
        return frame[inside]


def _bytes_of(value: Any) -> int:
    """Return the bytes of the frames in a value."""
    if isinstance(value, pd.DataFrame | pd.Series):
        return int(np.sum(value.memory_usage()))
    if isinstance(value, tuple | list):
        return sum(map(_bytes_of, value))
    return 0


def read_around(
    read: Callable[[pd.Timestamp, pd.Timestamp], pd.DataFrame],
    window: ResponseWindow,
    step: pd.Timedelta | None,
) -> pd.DataFrame:
    """Read the complete buckets of a window, and the earlier rows that are valid in the first bucket.

    If rows are valid for longer than expected, the window is read again with the rows of the day before.
    """
    if step is None:
        return stated(read(window.start, window.end))
    start = window.start.floor(step)
    end = window.end.ceil(step)
    lead = max(windows.HOLD, step)
    frame = stated(read(start - lead, end))
    validities = [times.resolution(name) or windows.HOLD for name in windows.steps(frame)]
    if max(validities, default=lead) <= lead:
        return frame
    return stated(read(start - _LONGEST_STEP, end))


def finest_step(frame: pd.DataFrame, requested: str) -> str:
    """Return the resolution to use: the finest of the rows, or the requested one if it is coarser."""
    finest = min(windows.steps(frame), key=windows.length, default=requested)
    return max(requested, finest, key=windows.length)


def without_long_rows(
    frame: pd.DataFrame, column: StoredColumn, window: ResponseWindow, step: str
) -> tuple[pd.DataFrame, list[str]]:
    """Drop rows that are longer than a bucket if the column is summed, because they cannot be split.

    Also returns a notice for each resolution that was dropped.
    """
    if not column.added:
        return frame, []
    long = windows.longer(frame[windows.ends(frame) > window.start], step)
    if not long:
        return frame, []
    why = f"their step is longer than the buckets of {step}"
    notices = [f"rows of resolution {name} were omitted: {why}" for name in long]
    return frame[~frame["resolution"].isin(long)], notices


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Join consecutive blocks of a series, sorted by symbol, venue and time."""
    frames = [frame for frame in frames if len(frame)] or frames[:1]
    if len(frames) == 1:
        return frames[0]
    columns = {}
    for name, dtype in frames[0].dtypes.items():
        values = [frame[name] for frame in frames]
        if dtype == "category":  # pd.concat converts different categories to objects
            texts = list(map(pd.Categorical, values))
            columns[name] = pd.Series(union_categoricals(texts, sort_categories=True))
        else:
            columns[name] = pd.concat(values, ignore_index=True)
    order = np.lexsort(
        (columns["time"].array.asi8, columns["exchange"].cat.codes, columns["symbol"].cat.codes)
    )
    return pd.DataFrame(columns, copy=False).take(order)


def _validity(frame: pd.DataFrame) -> Any:
    """Return the length of time for which each row's value is valid."""
    if "interval_hours" in frame:
        return pd.to_timedelta(frame["interval_hours"], unit="h")
    if "resolution" in frame:
        return pd.to_timedelta(windows.holds(stated(frame)["resolution"]), unit="us")
    return windows.HOLD


def stated(frame: pd.DataFrame) -> pd.DataFrame:
    """Set the resolution of rows without one to ``raw``."""
    if not {"unstated", ""} & set(windows.steps(frame)):
        return frame
    is_unstated = frame["resolution"].isna() | (frame["resolution"] == "unstated")
    return frame.assign(resolution=frame["resolution"].astype(object).mask(is_unstated, "raw"))


class RequestCoverage(NamedTuple):
    """Windows in which each venue was requested for all wanted symbols."""

    spans: Mapping[str, list[times.Window]]
    requested_symbols: Mapping[str, list[str]]  # of venues without such a window


_LIQUIDATIONS = "liquidations_fills"
_LEDGER_DELAY = pd.Timedelta(8, "min")
"""Maximum delay of the ledger: 7 minutes for polled lists, 3 for streams."""
_MAX_SHOWN = 8
_EMPTY_ADVICE = "(an empty result does not mean that there were none)"


def requested_spans(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> RequestCoverage | None:
    """Return the windows with successful requests for all symbols of each venue; None without a ledger."""
    ledger = _ledger(view)
    if ledger.empty:
        return None
    answered = ledger[(ledger["table"] == _LIQUIDATIONS) & ledger["answered"]]
    answered = answered[(answered["end"] > start) & (answered["start"] < end)]
    if symbols is not None:
        answered = answered[answered["symbol"].isna() | answered["symbol"].isin(symbols)]
    names = sorted(set(ledger["exchange"] if venues is None else venues))
    spans: dict[str, list[times.Window]] = {}
    requested_symbols_of_venue: dict[str, list[str]] = {}
    for name in names:
        rows = answered[answered["exchange"] == name]
        requested_symbols = sorted(set(rows["symbol"].dropna()))
        spans[name] = _common_spans(rows, requested_symbols, symbols, start, end)
        if requested_symbols and not spans[name]:
            requested_symbols_of_venue[name] = requested_symbols
    return RequestCoverage(spans, requested_symbols_of_venue)


def notices_of(coverage: RequestCoverage | None, start: pd.Timestamp, end: pd.Timestamp) -> list[str]:
    """Return a notice if some venues were not requested for the whole window."""
    if coverage is None:
        return []
    gaps = _gaps(coverage, end - start)
    if not gaps:
        return []
    return [f"liquidations were requested or streamed {'; '.join(gaps)} {_EMPTY_ADVICE}"]


def _gaps(coverage: RequestCoverage, length: pd.Timedelta) -> list[str]:
    """Return texts about the venues that were not requested for a whole window."""
    zero = pd.Timedelta(0)
    partly = []
    never = []
    for name, spans in coverage.spans.items():
        covered = sum((span.end - span.start for span in spans), zero)
        if covered == zero and name not in coverage.requested_symbols:
            never.append(name)
        elif zero < covered < length - _LEDGER_DELAY:
            partly.append(f"{name} {covered / length:.0%}")
    gaps = []
    if partly:
        gaps.append("for part of the window: " + _shown_names(partly))
    if coverage.requested_symbols:
        of_symbols = [
            f"{name} ({_shown_names(symbols)})" for name, symbols in coverage.requested_symbols.items()
        ]
        gaps.append("for some symbols: " + _shown_names(of_symbols))
    if never:
        gaps.append("not at all: " + _shown_names(never))
    return gaps


def never_requested(
    view: View,
    table: str,
    symbol: str,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    venues: Sequence[str] | None = None,
) -> list[str]:
    """Return a notice if no venue responded for any time in a window; empty without a ledger."""
    ledger = _ledger(view)
    if ledger.empty:
        return []
    is_relevant = (ledger["symbol"].isna() | (ledger["symbol"] == symbol)) & (ledger["table"] == table)
    is_relevant &= (ledger["end"] > start) & (ledger["start"] < end)
    sources = "any venue"
    if venues is not None:
        is_relevant &= ledger["exchange"].isin(venues)
        sources = _shown_names(sorted(venues))
    requested = ledger[is_relevant]
    if requested["answered"].any():
        return []
    rows = f"{table} of {symbol} in this range was"
    failed = sorted(set(requested["exchange"]))
    if failed:
        return [f"{rows} requested from {_shown_names(failed)} without a response {_EMPTY_ADVICE}"]
    return [f"{rows} never requested from {sources} {_EMPTY_ADVICE}"]


def on_wire(coverage: RequestCoverage) -> dict[str, list[list[str]]]:
    """Return the spans as lists of ISO times for a response."""
    spans = {}
    for name, requested in coverage.spans.items():
        spans[name] = [[times.iso(window.start), times.iso(window.end)] for window in requested]
    return spans


def _shown_names(names: list[str]) -> str:
    """Join names, with the number of names beyond the first eight."""
    listed = ", ".join(names[:_MAX_SHOWN])
    if len(names) > _MAX_SHOWN:
        listed += f" and {len(names) - _MAX_SHOWN} others"
    return listed


def _ledger(view: View) -> pd.DataFrame:
    """Return the store's ledger, cached until the store changes; empty if the store keeps no ledger."""
    store = view.store
    if not isinstance(store, LedgerStore):
        return pd.DataFrame()
    return view.once("ledger", store.requests)


def _common_spans(
    rows: pd.DataFrame,
    with_entries: Sequence[str],
    symbols: Sequence[str] | None,
    start: pd.Timestamp,
    end: pd.Timestamp,
) -> list[times.Window]:
    """Return the windows in which a venue was requested for every symbol.

    The symbols in `with_entries` have separate ledger entries, in addition to entries for all symbols.
    """
    # A symbol without entries of its own has the entries for all symbols. The windows of every symbol include
    # these, so they are the common windows.
    if symbols is None or not set(symbols) <= set(with_entries):
        return _union(rows[rows["symbol"].isna()], start, end)
    common: list[times.Window] | None = None
    for symbol in with_entries:
        spans = _union(rows[rows["symbol"].isna() | (rows["symbol"] == symbol)], start, end)
        if common is not None:
            pairs = ((max(a.start, b.start), min(a.end, b.end)) for a in common for b in spans)
            spans = [times.Window(first, last) for first, last in pairs if first < last]
        common = spans
    return common or []


def _union(rows: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp) -> list[times.Window]:
    """Return the union of the windows in rows of the ledger, sorted and cut to ``[start, end)``."""
    result: list[times.Window] = []
    for row in rows.sort_values("start").itertuples():
        first = max(row.start, start)
        last = min(row.end, end)
        if result and first <= result[-1].end:
            result[-1] = times.Window(result[-1].start, max(last, result[-1].end))
        else:
            result.append(times.Window(first, last))
    return result
