"""Venues polled in parallel, their streams, and the workers that refill histories each hour."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec

import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.bulk import LIQUIDATIONS, Poll
from derivdata.sources.collect.histories import Backfilled, backfill, chosen_venues
from derivdata.sources.collect.history_rows import NAMED_ONLY
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.collect.session import (
    Clock,
    Contracts,
    Quarantine,
    Stopped,
    VenueSession,
    shared_by_host,
)
from derivdata.sources.collect.sockets import Listed, VenueStream
from derivdata.sources.collect.state import BOOKS, VenueState
from derivdata.sources.venues.endpoint import Stream
from derivdata.sources.venues.record_types import Instrument
from derivdata.sources.venues.registry import STATE_STREAMS, VENUES
from derivdata.support.text import did_you_mean

_STEP = pd.Timedelta(1, "min")
_AFTER = pd.Timedelta(5, "s")  # of each minute
_SHOWN = 3


def _listened_to(venues: Sequence[str], named: Sequence[str]) -> dict[str, Stream]:
    """Return the streams of liquidations that are a venue's default, or whose venue is in `named`."""
    for name in named:
        if name not in VENUES or VENUES[name].stream is None:
            raise ValueError(f"streams: {name!r} does not have a stream of liquidations")
    streams = {name: stream for name in venues if (stream := VENUES[name].stream) is not None}
    return {name: stream for name, stream in streams.items() if stream.is_default or name in named}


def until_next_minute(now: pd.Timestamp) -> float:
    """Return how long to wait until the next poll of a minute [s]."""
    return float(((now - _AFTER).floor("min") + _STEP + _AFTER - now).total_seconds())


def chosen_contracts(
    items: list[Instrument], symbols: Sequence[str] | None, *, is_state: bool = True
) -> list[Instrument]:
    """Return the contracts of some symbols or all; with `is_state` only the preferred one of each symbol."""
    items = [*Contracts(items).by_symbol.values()] if is_state else items
    return [item for item in items if symbols is None or item.symbol in symbols]


class VenuePolls:
    """State of each venue, and the venues that block this address; options as in `Collector`.

    Tables in `pushed`, by venue, are not polled. `open_interest` is from before the first poll, by venue and
    symbol in USD.
    """

    def __init__(
        self,
        venues: Sequence[str] | None,
        clock: Clock,
        *,
        symbols: Sequence[str],
        names: Sequence[str] | None,
        depth: Sequence[str] = (),
        streams: Sequence[str] = (),
        share_seconds: float | None = None,
        all_contracts: bool = False,
        addresses: Mapping[str, str] | None = None,
        sockets: Mapping[str, str] | None = None,
        unconfirmed: bool = False,
        quarantine: Quarantine | None = None,
        pushed: Mapping[str, Collection[str]] | None = None,
        open_interest: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        for name in names or ():
            if name not in tables.TABLES:
                raise ValueError(f"tables: unknown table {name!r}{did_you_mean(name, tables.TABLES)}")
        self.names = names
        self.gone = dict[str, str]()
        self._symbols = symbols
        self.clock = clock
        self.addresses = addresses or {}
        self.unconfirmed = unconfirmed
        self._sockets = sockets or {}
        self.pushed = pushed or {}
        exchanges = chosen_venues(venues, unconfirmed=unconfirmed)
        self.listened = _listened_to(exchanges, streams) if self.keeps(LIQUIDATIONS) else {}
        self.shared = shared_by_host((VENUES[name] for name in exchanges), quarantine)
        needed = {name: {*(names or ())} - {*self.pushed.get(name, ())} for name in exchanges}
        for name in exchanges if self.keeps(LIQUIDATIONS) else ():
            if any(LIQUIDATIONS in endpoint.tables for endpoint in VENUES[name].endpoints):
                needed[name].add("prices_history")  # liquidations are compared with prices
        self.states = {
            name: VenueState(
                VenueSession(VENUES[name], clock, address=self.addresses.get(name), shared=shared),
                unconfirmed=unconfirmed,
                symbols=symbols if self.keeps(LIQUIDATIONS) else None,
                is_listened=name in self.listened,
                depth=depth if any(map(self.keeps, BOOKS)) else (),
                first=symbols,
                seconds=share_seconds,
                all_contracts=all_contracts,
                names=None if names is None else [*needed[name]],
                open_interest=(open_interest or {}).get(name),
            )
            for name, shared in self.shared.items()
        }

    def keeps(self, table: str) -> bool:
        """Return whether a table is collected."""
        return self.names is None or table in self.names

    def here(self) -> list[str]:
        """Return the venues that do not block this address."""
        return [name for name in self.states if name not in self.gone]

    def ask_again(self) -> None:
        """Forget the venues and requests that blocked this address, so that they are tried again."""
        self.gone.clear()
        for shared in self.shared.values():
            shared.refused.clear()

    def stand_in(self, name: str, names: Sequence[str]) -> VenueState:
        """Return a state that polls some tables of a venue while its channels cannot be read."""
        session = VenueSession(
            VENUES[name], self.clock, address=self.addresses.get(name), shared=self.shared[name]
        )
        symbols = self._symbols if LIQUIDATIONS in names else None
        return VenueState(
            session, unconfirmed=self.unconfirmed, symbols=symbols, first=self._symbols, names=[*names]
        )

    def poll(self, name: str, state: VenueState | None = None) -> Poll:
        """Poll a venue; an error of its adapter affects only this poll.

        Raises `Stopped` or `ArchiveError`, which end all polls.
        """
        state = state or self.states[name]
        try:
            poll = state.poll()
        except (Stopped, ArchiveError):
            raise
        except Exception as problem:  # an adapter's error is stored in the poll and in the ledger
            poll = state.lost(problem)
        state.session.expected = 0  # only the requests made count from now on
        if poll.gone:
            self.gone[name] = next(iter(poll.failed.values()), "it blocks this address")
        return poll

    def line(self, running: Collection[str]) -> str:
        """Return a line with finished and expected venues and requests, and the slowest venues."""
        sessions = {name: state.session for name, state in self.states.items()}
        done = sum(session.requests for session in sessions.values())
        expected = sum(max(session.requests, session.expected) for session in sessions.values())
        slowest = sorted(running, key=lambda name: -sessions[name].answer_seconds())[:_SHOWN]
        waiting = f"; waiting for {', '.join(slowest)}" if slowest else ""
        finished = len(sessions) - len(running)
        return f"{finished} of {len(sessions)} venues, {done} of {expected} requests{waiting}"

    def stream(self, name: str, stream: Stream, contracts: Listed | None = None) -> VenueStream:
        """Return a channel of a venue about some contracts or all; it is not started."""
        state = self.states[name]
        return VenueStream(
            state.session.venue,
            stream,
            contracts or state.listed,
            self.clock,
            address=self._sockets.get(name),
            quarantine=self.shared[name].quarantine,
        )

    def state_streams(self, symbols: Sequence[str]) -> list[VenueStream]:
        """Return the channels of collected tables about some symbols; they are not started."""
        if not find_spec("websockets"):
            return []
        collected = []
        for name, state in self.states.items():

            def contracts(state: VenueState = state) -> tuple[list[Instrument], dict[str, pd.DataFrame]]:
                items, context = state.listed()
                return chosen_contracts(items, symbols), context

            streams = [self.stream(name, stream, contracts) for stream in STATE_STREAMS.get(name, ())]
            collected += [stream for stream in streams if any(map(self.keeps, stream.tables))]
        return collected

    def close(self) -> None:
        """Close every connection."""
        for state in self.states.values():
            state.session.close()


_REFILL_AT = pd.Timedelta(2, "min")  # of an hour: payments are listed a little after it
_REFILLED = ("funding_settlements", "oi_history")
_DAY = pd.Timedelta(1, "D")
"""Reach of refills of liquidations: lists of all trades take many requests."""
END_SECONDS = 30.0
"""Seconds to wait at the end for refills in the middle of a request; written rows are kept."""
_MINUTE = pd.Timedelta(1, "min")


class Refills:
    """Workers that request the histories of some symbols, one worker per venue.

    Histories are completed for `since`, or from the start of the archive's ledger, but not beyond `keep`.
    """

    def __init__(
        self,
        archive: Archive,
        polls: VenuePolls,
        symbols: Sequence[str],
        *,
        since: pd.Timedelta,
        keep: pd.Timedelta | None,
    ) -> None:
        self.workers: dict[str, threading.Thread] = {}
        self._archive = archive
        self._polls = polls
        self._symbols = list(symbols)
        self._clock = polls.clock
        self._since = since
        self._keep = keep
        available = _REFILLED if polls.names is None else (*_REFILLED, *NAMED_ONLY)
        self._tables = [name for name in available if polls.keeps(name)]
        self._started: dict[str, pd.Timestamp] = {}
        self._reported: dict[str, pd.Timestamp] = {}
        self._done: queue.Queue[Backfilled | ArchiveError] = queue.Queue()
        self._running: set[str] = set()
        self._ended = threading.Condition()

    def start_due(self, venues: Sequence[str]) -> None:
        """Start the workers of an hour, except for venues whose previous refill is still running."""
        now = self._clock.utc()
        hour = now.floor("h")
        if now - hour < _REFILL_AT:
            return
        for name in venues:
            last = self._started.get(name, hour - _DAY)
            if last < hour and name not in self._running:
                self._started[name] = hour
                self._start(name)
            elif last < hour and self._reported.get(name) != hour:
                self._reported[name] = hour
                self._enter_slow(name, last, hour)

    def _enter_slow(self, name: str, started: pd.Timestamp, hour: pd.Timestamp) -> None:
        """Enter a failed hour in the ledger because the venue's worker was busy."""
        why = f"the refill of {started:%Y-%m-%d %H:%M} is still under way"
        self._done.put(Backfilled(failed=[f"{name}: {why}"]))
        for table in self._tables:
            requests = [LedgerEntry(name, symbol, started, hour, why) for symbol in self._symbols]
            self._archive.merge(table, tables.TABLES[table].empty(), requests=requests)

    def once(self, venues: Sequence[str]) -> None:
        """Refill now, and wait for all venues."""
        for name in venues:
            self._start(name)
        with self._ended:
            self._ended.wait_for(lambda: not self._running)

    def end(self) -> None:
        """Wait some time for the workers, whose own waits end when the clock is stopped."""
        with self._ended:
            self._ended.wait_for(lambda: not self._running, END_SECONDS)

    def count(self, minute: Minute) -> None:
        """Add the refills since the last call to a minute; raise `ArchiveError` of a failed write."""
        while not self._done.empty():
            done = self._done.get()
            if isinstance(done, ArchiveError):
                raise done
            for (_, table), rows in done.written.items():
                minute.rows[table] = minute.rows.get(table, 0) + rows
            count = sum(label.startswith("history ") for label in minute.failed)
            for number, text in enumerate(done.failed, count):
                minute.failed[f"history {number}"] = text

    def _start(self, name: str) -> None:
        if not self._symbols:
            return
        # Daemon threads, as for all requests to venues, so that a slow venue does not delay the exit.
        title = f"derivdata-refill-{name}"
        worker = threading.Thread(target=self._run, args=(name,), name=title, daemon=True)
        self.workers[name] = worker
        self._running.add(name)  # before the start: the worker may be done when it returns
        try:
            worker.start()
        except RuntimeError:  # without a thread, nothing else would remove the name
            with self._ended:
                self._running.discard(name)
                self._ended.notify_all()
            self._started.pop(name, None)
            raise

    def _run(self, name: str) -> None:
        try:
            self._done.put(self._refilled(name))
        except Stopped:
            pass
        except ArchiveError as problem:  # ends the collector, in its own thread
            self._done.put(problem)
        except Exception as problem:  # an adapter's error: polls continue, and the next hour retries
            self._done.put(Backfilled(failed=[f"{name}: {problem!r}"]))
        finally:
            with self._ended:
                self._running.discard(name)
                self._ended.notify_all()

    def _refilled(self, name: str) -> Backfilled:
        """Request the missing histories of the symbols from a venue."""
        now = self._clock.utc()
        hour = now.floor("h")
        first = self._first(now)
        # Payments are stamped at the full hour, and the end of a window is exclusive.
        listed = (now - _REFILL_AT).floor("h") + _MINUTE
        windows = {t: (first, listed if t == "funding_settlements" else hour) for t in self._tables}
        if self._polls.keeps(LIQUIDATIONS):
            windows[LIQUIDATIONS] = max(first, hour - _DAY), hour
        done = Backfilled()
        for table, window in windows.items():
            filled = backfill(
                self._archive,
                self._symbols,
                *window,
                venues=[name],
                names=[table],
                clock=self._clock,
                addresses=self._polls.addresses,
                shared=self._polls.shared,
                unconfirmed=self._polls.unconfirmed,
            )
            done.add(filled)
        return done

    def _first(self, now: pd.Timestamp) -> pd.Timestamp:
        """Return the start of the histories to complete, which includes the gap of a long interruption."""
        ledger = self._archive.requests()
        answered = ledger["table"].isin(self._tables) & ledger["answered"] & (ledger["source"] == "request")
        earliest = ledger.loc[answered, "start"].min()
        first = now.floor("h") - self._since
        if earliest is not pd.NaT:
            first = min(first, earliest)
        return first if self._keep is None else max(first, (now - self._keep).ceil("D"))
