"""Live tables from the venues, pushed by a channel if it has them, else polled."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.histories import chosen_venues
from derivdata.sources.collect.history_rows import LIQUIDATIONS
from derivdata.sources.collect.reporting import StatusLine
from derivdata.sources.collect.session import Clock, MachineClock, Stopped
from derivdata.sources.collect.state import BOOKS, VenueState
from derivdata.sources.collect.venue_feeds import VenuePolls, VenueStream, chosen_contracts, until_next_minute
from derivdata.sources.venues.endpoint import Stream
from derivdata.sources.venues.record_types import Instrument
from derivdata.sources.venues.registry import STATE_STREAMS, VENUES
from derivdata.support.arguments import typed
from derivdata.support.text import warn_caller
from derivdata.support.times import Window
from derivdata.tables.contracts import venue_of

COVERAGE = "coverage"
_COLUMNS = ("table", "exchange", "symbol", "start", "end", "answered", "error")
_DRAIN_SECONDS = 1.0
_END_SECONDS = 30.0
_MINUTE = pd.Timedelta(1, "min")
_NO_DATA = "nothing was received from the channel"
_CONNECTING = "the channel was not connected yet"
_DROPPED = (
    "rows were dropped, because the venues send faster than the program reads: read faster, or pass a larger "
    "max_queue"
)


class Update(NamedTuple):
    """New rows of a table; rows of ``"coverage"`` are covered windows and gaps."""

    table: str
    rows: pd.DataFrame


def _add_or_extend(entries: list[LedgerEntry], entry: LedgerEntry) -> None:
    """Add a window, or extend the one that ends at its start if they differ only in time."""
    for place, before in enumerate(entries):
        differs_only_in_time = before._replace(start=entry.start, end=entry.end) == entry
        if differs_only_in_time and before.end == entry.start:
            entries[place] = before._replace(end=entry.end)
            return
    entries.append(entry)


@dataclass
class _Batch:
    """Result of one poll or one channel: rows and ledger entries by table.

    The rows of a channel arrived within `span`; their windows may be reported later.
    """

    rows: dict[str, pd.DataFrame]
    entries: dict[str, list[LedgerEntry]]
    span: Window | None = None

    def updates(self) -> Iterator[Update]:
        """Yield the rows of each table, and then those of coverage."""
        for table, rows in self.rows.items():
            yield Update(table, rows)
        windows = []
        for table, entries in self.entries.items():
            for entry in entries:
                start = pd.Timestamp(entry.start)
                end = pd.Timestamp(entry.end)
                answered = not entry.error
                windows.append((table, entry.exchange, entry.symbol, start, end, answered, entry.error))
        if windows:
            yield Update(COVERAGE, pd.DataFrame(windows, columns=list(_COLUMNS)))


@dataclass
class _Channel:
    """A channel, and its windows."""

    stream: VenueStream
    reached: pd.Timestamp  # end of the last window
    drained: pd.Timestamp  # start of the rows that will be read next
    error: str = ""
    is_reported: bool = False  # whether it has had a window
    is_broken: bool = False
    entries: list[LedgerEntry] = field(default_factory=list)  # windows that are not in the queue yet

    @property
    def is_due(self) -> bool:
        """Whether to report windows: there is a gap, or a window of a minute."""
        for entry in self.entries:
            if entry.error or pd.Timestamp(entry.end) - pd.Timestamp(entry.start) >= _MINUTE:
                return True
        return False

    @property
    def gap_reason(self) -> str:
        """The reason for time between two windows."""
        if self.error:
            return self.error
        if self.is_reported:
            return _NO_DATA
        return _CONNECTING

    def add_window(self, start: pd.Timestamp, end: pd.Timestamp, error: str = "") -> None:
        """Add a window, or a gap with an `error`, without the time before the end of the last one."""
        start = max(start, self.reached)
        if start >= end:
            return
        self.reached = end
        self.is_reported = True
        _add_or_extend(self.entries, LedgerEntry(self.stream.venue.exchange, None, start, end, error))


class Live:
    """An iterator over new rows of tables, by ``for`` or ``async for``, only once; see `live`."""

    def __init__(
        self,
        names: Sequence[str],
        symbols: Sequence[str] | None,
        polls: VenuePolls,
        streams: Mapping[str, Sequence[Stream]],
        clock: Clock,
        max_queue: int,
    ) -> None:
        self._names = names
        self._symbols = symbols
        self._polls = polls
        self._clock = clock
        self._max_queue = max_queue
        self._listing: dict[str, threading.Lock] = {}
        now = clock.utc()
        self._channels: list[_Channel] = []
        for name, of_venue in streams.items():
            self._channels += [_Channel(self._stream(name, stream), now, now) for stream in of_venue]
        self._wanted: dict[str, list[str]] = {}  # polled tables by venue
        self._polled: list[str] = []
        for name, state in polls.states.items():
            pushed = polls.pushed[name]
            self._wanted[name] = [
                table for table in names if state.polls_table(table) and table not in pushed
            ]
            # Pushed liquidations are compared with polled prices, so these venues are polled, too.
            if self._wanted[name] or LIQUIDATIONS in pushed:
                self._polled.append(name)
        self._status = StatusLine()
        self._first = {*self._polled}
        self._hours: dict[str, pd.Timestamp] = {}
        self._queue: deque[_Batch] = deque()
        self._lost: list[tuple[str, str, Window]] = []  # table and venue of dropped rows
        self._problem: BaseException | None = None
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self._broken: dict[str, set[str]] = {}  # by venue, the tables whose channels cannot be read
        self._fallbacks: set[str] = set()  # venues that are polled instead
        self._warned: set[tuple[str, str]] = set()

    def __iter__(self) -> Iterator[Update]:
        self._start()
        try:
            while not self._is_closed:
                yield from self._next()
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[Update]:
        self._start()
        try:
            while not self._is_closed:
                for update in await asyncio.to_thread(self._next):
                    yield update
        finally:
            await asyncio.to_thread(self.close)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the polls, the channels, the iteration and all threads."""
        self._is_closed = True
        self._clock.stop()
        with self._changed:
            self._changed.notify_all()
        if self._threads:  # else the channels were not started
            for channel in self._channels:
                channel.stream.stop()
        for thread in self._threads:
            thread.join(_END_SECONDS)
        self._polls.close()

    def _stream(self, name: str, stream: Stream) -> VenueStream:
        """Return the channel of a venue about the chosen contracts."""
        state = self._polls.states[name]
        is_state = stream is not VENUES[name].stream
        lock = self._listing.setdefault(name, threading.Lock())  # a venue's channels share its list

        def contracts() -> tuple[list[Instrument], dict[str, pd.DataFrame]]:
            hour = self._clock.utc().floor("h")
            with lock:
                if name not in self._polled and self._hours.get(name) != hour:
                    self._hours[name] = hour
                    state.contracts = None  # list them again, since polls of this venue do not
                items, context = state.listed()
            return chosen_contracts(items, self._symbols, is_state=is_state), context

        return self._polls.stream(name, stream, contracts)

    def _start(self) -> None:
        """Start the channels and polls; raise if that was done before."""
        if self._threads or self._is_closed:
            raise ValueError("this feed was already iterated or closed: call dd.live again")
        for channel in self._channels:
            channel.stream.start()
        for name in self._polled:
            self._start_thread(name, partial(self._poll, name))
        if self._channels:
            self._start_thread("channels", self._listen)

    def _start_thread(self, title: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._run, args=(work,), name=f"derivdata-live-{title}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        """Work in a thread until the clock is stopped."""
        try:
            work()
        except Stopped:
            pass
        except BaseException as problem:  # raised in the iterating thread
            with self._changed:
                self._problem = problem
                self._changed.notify_all()

    def _poll(self, name: str) -> None:
        """Poll a venue each minute."""
        state = self._polls.states[name]
        wanted = self._wanted[name]
        while True:
            self._poll_once(name, state, wanted)
            if name in self._first:
                self._first.discard(name)
                self._status.show(self._polls.line([*self._first]))
            if not self._first:
                self._status.end()
            if self._clock.wait(until_next_minute(self._clock.utc())):
                return

    def _poll_once(self, name: str, state: VenueState, wanted: Sequence[str]) -> None:
        """Poll a venue once, and add the result to the queue."""
        poll = self._polls.poll(name, state)
        rows = {table: poll.frames[table] for table in wanted if table in poll.frames}
        entries = {table: state.entries(poll, table) for table in wanted}
        why = self._omit_doubtful_fills(name, rows, poll.at)
        if why:
            entries[LIQUIDATIONS].append(LedgerEntry(name, "figures", poll.at, self._clock.utc(), why))
        self._put(self._batch(rows, entries))

    def _listen(self) -> None:
        """Read the channels each second; report windows each minute, and gaps at once."""
        while not self._clock.wait(_DRAIN_SECONDS):
            for channel in self._channels:
                since = self._clock.utc()
                rows, covered, error = channel.stream.drain()
                channel.error = error or channel.error
                for window in covered:
                    channel.add_window(channel.reached, window.start, channel.gap_reason)
                    channel.add_window(window.start, window.end)
                now = self._clock.utc()
                exchange = channel.stream.venue.exchange
                self._check_channel(channel, now)
                why = channel.stream.omitted or self._omit_doubtful_fills(exchange, rows, now)
                if why:
                    _add_or_extend(channel.entries, LedgerEntry(exchange, "figures", since, now, why))
                if not covered and now - channel.reached >= _MINUTE:
                    channel.add_window(channel.reached, now, channel.error or _NO_DATA)
                batch = self._batch(rows, {})
                batch.span = Window(channel.drained, now)
                channel.drained = since
                if channel.is_due:
                    tables = [table for table in channel.stream.tables if table in self._names]
                    batch.entries = dict.fromkeys(tables, channel.entries)
                    channel.entries = []
                    channel.error = ""
                if batch.rows or batch.entries:
                    self._put(batch)

    def _check_channel(self, channel: _Channel, now: pd.Timestamp) -> None:
        """Poll the tables of an unreadable channel until it can be read again."""
        name = channel.stream.venue.exchange
        channel.is_broken = channel.stream.is_broken(now)
        broken: set[str] = set()
        for other in self._channels:
            if other.is_broken and other.stream.venue.exchange == name:
                broken.update(other.stream.tables)
        self._broken[name] = broken.intersection(self._names)
        if self._broken[name] and name not in self._fallbacks:
            self._fallbacks.add(name)
            self._start_thread(f"{name}-instead", partial(self._poll_broken_channels, name))

    def _poll_broken_channels(self, name: str) -> None:
        """Poll the tables of a venue's unreadable channels, at once and then each minute."""
        state: VenueState | None = None
        wanted: set[str] = set()
        while self._broken[name]:
            if state is None or self._broken[name] != wanted:
                wanted = {*self._broken[name]}
                if state is not None:
                    state.session.close()
                state = self._polls.replacement_state(name, sorted(wanted))
            available = [table for table in sorted(wanted) if state.polls_table(table)]
            if available:
                self._poll_once(name, state, available)
            if self._clock.wait(until_next_minute(self._clock.utc())):
                break
        if state is not None:
            state.session.close()
        self._fallbacks.discard(name)

    def _omit_doubtful_fills(self, name: str, rows: dict[str, pd.DataFrame], now: pd.Timestamp) -> str:
        """Drop liquidations far from the venue's last prices, and return a text about them."""
        if LIQUIDATIONS not in rows:
            return ""
        rows[LIQUIDATIONS], why = self._polls.states[name].sound_fills(rows[LIQUIDATIONS], now)
        return why

    def _batch(self, rows: Mapping[str, pd.DataFrame], entries: dict[str, list[LedgerEntry]]) -> _Batch:
        """Return the rows of the wanted tables and symbols, without empty tables."""
        wanted = {}
        for table, frame in rows.items():
            if table not in self._names:
                continue
            if self._symbols is not None:
                frame = frame[frame["symbol"].isin(self._symbols)]
            if len(frame):
                wanted[table] = frame.reset_index(drop=True)
        with_windows = {table: windows for table, windows in entries.items() if windows}
        return _Batch(wanted, with_windows)

    def _put(self, batch: _Batch) -> None:
        """Add to the queue; if it is full, drop the oldest rows, whose windows become gaps."""
        with self._changed:
            self._mark_lost(batch)
            self._queue.append(batch)
            if len(self._queue) > self._max_queue:
                old = self._queue.popleft()
                # 1. Report the windows of the dropped batch as gaps, with the windows of the next one.
                following = self._queue[0]
                for table, entries in old.entries.items():
                    lost: list[LedgerEntry] = []
                    for entry in entries:
                        _add_or_extend(lost, entry._replace(error=entry.error or _DROPPED))
                    for entry in following.entries.get(table, []):
                        _add_or_extend(lost, entry)
                    following.entries[table] = lost
                # 2. A later batch may have the windows of dropped rows of a channel: mark these as gaps too.
                if old.span is not None:
                    for table, rows in old.rows.items():
                        self._lost.append((table, str(rows["exchange"].iloc[0]), old.span))
                    for queued in self._queue:
                        self._mark_lost(queued)
            self._changed.notify_all()

    def _mark_lost(self, batch: _Batch) -> None:
        """Turn the windows of a batch into gaps where dropped rows of a channel arrived.

        A loss is forgotten once windows up to its end are in the queue.
        """
        for loss in [*self._lost]:
            table, exchange, span = loss
            for place, entry in enumerate(batch.entries.get(table, [])):
                if entry.exchange == exchange and pd.Timestamp(entry.end) > span.start:
                    if pd.Timestamp(entry.start) < span.end:
                        gap = entry._replace(error=entry.error or _DROPPED)
                        batch.entries[table] = [*batch.entries[table]]  # two tables may share the list
                        batch.entries[table][place] = gap
                    if pd.Timestamp(entry.end) >= span.end and loss in self._lost:
                        self._lost.remove(loss)

    def _next(self) -> list[Update]:
        """Wait for the next batch and return its updates; raise an error of a thread."""
        with self._changed:
            while not self._queue and self._problem is None and not self._is_closed:
                self._changed.wait()
            if self._problem is not None:
                raise self._problem
            if not self._queue:  # closed
                return []
            batch = self._queue.popleft()
        for table, entries in batch.entries.items():
            for entry in entries:
                if entry.error not in ("", _CONNECTING) and (entry.exchange, table) not in self._warned:
                    self._warned.add((entry.exchange, table))
                    where = f"{entry.exchange} {table}"
                    warn_caller(f"{where}: {entry.error}; later gaps are only in the coverage rows")
        return list(batch.updates())


@typed
def live(
    tables: str | Sequence[str],
    venues: str | Sequence[str] | None = None,
    symbols: str | Sequence[str] | None = None,
    *,
    max_queue: int = 1000,
    unconfirmed: bool = False,
    clock: Any = None,
    addresses: Mapping[str, str] | None = None,
    sockets: Mapping[str, str] | None = None,
) -> Live:
    """Return an iterator over live tables of venues, with the units and columns of every other source.

    Parameters
    ----------
    tables
        Tables to follow: ``"funding_history"``, ``["oi_history", "liquidations_fills"]``, or the tables of
        the order book, which take a request per symbol.
    venues
        None is all venues except those that must be named (derive) and those that closed (bitmex).
    symbols
        Assets; None is all contracts.
    max_queue
        Maximum number of unread polls and frames; beyond it the oldest rows are dropped, and become gaps.
    unconfirmed
        Whether to send requests that the specification does not confirm, too.
    clock, addresses, sockets
        Clock, and addresses to use instead of the venues' own; for tests and mirrors.

    Returns
    -------
    Live
        An iterable, also with ``async for``, of pairs of a table's name and its new rows. Pairs named
        ``"coverage"`` have a row for each window of time: ``table``, ``exchange``, ``symbol`` (None: all),
        ``start``, ``end``, whether it was ``answered``, and the ``error`` if not; if the symbol is
        ``"figures"``, doubtful values were omitted. Iteration and all threads end with ``break``, `close` or
        the end of a ``with`` block.

    Raises
    ------
    ValueError
        A table or venue is unknown; the venues do not publish a table live; order books without symbols;
        `tables` is empty; or `max_queue` is below 1.

    Notes
    -----
    If a venue pushes a table, its channel is used (package websockets), with at most one row per second and
    contract. Other tables are polled each minute, within a quarter of the venue's published limit. If a venue
    fails, a notice is given the first time for each table, with rows of coverage; other venues continue.
    Rows are not repeated within a channel, but after a break a venue may send the newest rows again.
    """
    names = list(dict.fromkeys(_as_list(tables)))
    wanted = None if symbols is None else _as_list(symbols)
    if isinstance(venues, str):
        venues = venues.split(",")
    exchanges = None if venues is None else [venue_of(name, "venues") for name in venues]
    if not names:
        raise ValueError("tables must name at least one table, got none")
    if max_queue < 1:
        raise ValueError(f"max_queue must be at least 1, got {max_queue}")
    if {*names} & {*BOOKS} and not wanted:
        raise ValueError("order books require symbols, such as symbols=['BTC']")
    ticking: Clock = clock or MachineClock()
    streams: dict[str, list[Stream]] = {}
    pushed: dict[str, set[str]] = {}  # tables by venue
    for name in chosen_venues(exchanges, unconfirmed=unconfirmed):
        streams[name] = _chosen_streams(name, names)
        pushed[name] = {table for stream in streams[name] for table in _tables_of(name, stream)}
    polls = VenuePolls(
        exchanges,
        ticking,
        symbols=wanted or (),
        names=names,
        depth=wanted or (),
        streams=[name for name, of_venue in streams.items() if VENUES[name].stream in of_venue],
        addresses=addresses,
        sockets=sockets,
        unconfirmed=unconfirmed,
        pushed=pushed,
    )
    _require_published(names, polls)
    return Live(names, wanted, polls, streams, ticking, max_queue)


def _as_list(names: str | Sequence[str]) -> list[str]:
    if isinstance(names, str):
        return [names]
    return list(names)


def _chosen_streams(exchange: str, names: Sequence[str]) -> list[Stream]:
    """Return a venue's channels with some of the tables."""
    available: list[Stream] = []
    if find_spec("websockets"):
        available += STATE_STREAMS.get(exchange, ())
    of_liquidations = VENUES[exchange].stream
    if of_liquidations is not None and LIQUIDATIONS in names:
        available.append(of_liquidations)
    return [stream for stream in available if not set(names).isdisjoint(_tables_of(exchange, stream))]


def _require_published(names: Sequence[str], polls: VenuePolls) -> None:
    """Raise `ValueError` for a table that no venue polls or pushes."""
    for table in names:
        if not any(
            state.polls_table(table) or table in polls.pushed[name] for name, state in polls.states.items()
        ):
            listed_venues = ", ".join(polls.states)
            raise ValueError(f"tables: {table!r} is not published live by {listed_venues}")


def _tables_of(exchange: str, stream: Stream) -> tuple[str, ...]:
    return next(e.tables for e in VENUES[exchange].endpoints if e.path == stream.channel)
