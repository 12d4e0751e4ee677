"""Collecting for months: a thread a venue polls each minute, and a minute is written at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError, DerivdataError, NetworkError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.bulk import AGAIN, Poll
from derivdata.sources.collect.clock import Clock, MachineClock
from derivdata.sources.collect.files import QUARANTINE, Quarantine
from derivdata.sources.collect.histories import chosen_venues
from derivdata.sources.collect.liquidations import has_two_paths, without_other_path
from derivdata.sources.collect.refills import Refills
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.collect.session import Stopped, VenueSession, shared_by_host
from derivdata.sources.collect.sockets import LiquidationStream
from derivdata.sources.collect.state import BOOKS, VenueState
from derivdata.sources.venues.registry import VENUES

_STEP = pd.Timedelta(1, "min")
_WEEK = pd.Timedelta(7, "D")
_AFTER = pd.Timedelta(5, "s")  # of each minute
_DEADLINE_SECONDS = 50.0
_SHARE_SECONDS = 25.0
"""How long of a minute a venue is asked for what it tells of one contract a request."""
_LIQUIDATIONS = "liquidations_fills"
_OWN = pd.Timedelta(1, "h")
"""How long ids are remembered of what came by a path: longer than a poll reaches back."""


def _listened_to(venues: Sequence[str], streams: Sequence[str]) -> list[str]:
    """Return the venues whose liquidations come by their stream.

    Raises `ValueError`: one of `streams` has none.
    """
    for name in streams:
        if name not in VENUES or VENUES[name].stream is None:
            raise ValueError(f"streams: {name!r} has no stream of liquidations that is known")
    pushing = [name for name in venues if (stream := VENUES[name].stream) and stream.is_default]
    return [name for name in venues if name in pushing or name in streams]


class Collector:
    """Polls venues and appends their answers to an archive.

    Parameters
    ----------
    archive
        Where rows go; rows are acknowledged when it has them on disk.
    venues
        None is all but those that must be named (derive).
    symbols
        Assets whose histories are refilled every hour; the state is kept of all contracts.
    names
        Tables to keep; None is all that polls give.
    depth
        Symbols whose order books and depth are kept, each minute.
    streams
        Venues whose liquidations are listened to though they have a list of them to ask for, which is the
        default there: a venue is collected by one path, since the two do not name the same row alike.
    since
        How far back refills reach; where the archive's ledger begins before, they reach back to there.
    keep
        What is older goes, in whole months or days; None keeps all.
    share_seconds
        How long of a poll a venue is asked for what it tells of one contract a request; None: for all that
        is due.
    clock, addresses, unconfirmed
        As in `derivdata.sources.collect.backfill`.
    sockets
        Where venues' WebSockets are instead of their own addresses.
    fail_after
        `run` ends with a `NetworkError` when no venue answered for so long; None goes on for ever.
    log
        Called with each minute.
    progress
        Called by `once` with a line for each venue that was asked.
    """

    def __init__(
        self,
        archive: Archive,
        *,
        venues: Sequence[str] | None = None,
        symbols: Sequence[str] = ("BTC", "ETH"),
        names: Sequence[str] | None = None,
        since: pd.Timedelta = _WEEK,
        depth: Sequence[str] = (),
        streams: Sequence[str] = (),
        keep: pd.Timedelta | None = None,
        share_seconds: float | None = _SHARE_SECONDS,
        clock: Clock | None = None,
        addresses: Mapping[str, str] | None = None,
        sockets: Mapping[str, str] | None = None,
        unconfirmed: bool = False,
        fail_after: pd.Timedelta | None = None,
        log: Callable[[Minute], None] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        unknown = [name for name in names or () if name not in tables.TABLES]
        if unknown:
            raise ValueError(f"tables: there is no table {unknown[0]!r}")
        if keep is not None and keep < since:
            raise ValueError(f"keep: {keep} is less than the {since} that refills reach back")
        self.archive, self.symbols, self.names, self.since = archive, list(symbols), names, since
        self.keep, self._fail_after = keep, fail_after
        self.clock = clock or MachineClock()
        self.gone: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self._sockets = dict(sockets or {})
        self._addresses, self._unconfirmed = dict(addresses or {}), unconfirmed
        self._log, self._progress = log, progress
        chosen = chosen_venues(venues, unconfirmed=unconfirmed)
        self._listened = _listened_to(chosen, streams) if self._keeps(_LIQUIDATIONS) else []
        quarantine = Quarantine(archive.path / QUARANTINE)
        self.shared = shared_by_host((VENUES[name] for name in chosen), quarantine)
        self._states = {
            name: VenueState(
                VenueSession(VENUES[name], self.clock, address=self._addresses.get(name), shared=shared),
                unconfirmed=unconfirmed,
                symbols=self.symbols if self._keeps(_LIQUIDATIONS) and name not in self._listened else None,
                depth=depth if any(map(self._keeps, BOOKS)) else (),
                first=self.symbols,
                seconds=share_seconds,
                names=names,
            )
            for name, shared in self.shared.items()
        }
        self._streams: dict[str, LiquidationStream] = {}
        self._running: set[str] = set()
        self._polls: queue.Queue[Poll | BaseException] = queue.Queue()
        self.refills = Refills(
            archive,
            self.shared,
            self.symbols,
            names=names,
            since=since,
            keep=keep,
            clock=self.clock,
            addresses=self._addresses,
            unconfirmed=unconfirmed,
        )
        self._own: dict[str, dict[str, pd.Timestamp]] = {}  # ids of fills of each venue with two paths
        self._dropped: pd.Timestamp | None = None

    def _keeps(self, table: str) -> bool:
        return self.names is None or table in self.names

    def ask_book(self, exchange: str, symbol: str) -> None:
        """Ask a venue for the order book of a symbol, and write it with its depth.

        Raises
        ------
        ArchiveError
            The archive cannot be written.
        """
        poll = self._states[exchange].begin()
        try:
            self._states[exchange].add_book(poll, symbol)
        except DerivdataError as problem:
            poll.failed = dict.fromkeys(BOOKS, str(problem))
        self.failed = self._write([poll]).failed

    @property
    def venues(self) -> list[str]:
        """Return the venues that it asks."""
        return [*self._states]

    def venues_without(self, table: str) -> list[str]:
        """Return the venues whose polls return funding, but nothing of a table."""
        polled = {name: state.tables for name, state in self._states.items()}
        return [
            name for name, tables in polled.items() if "funding_history" in tables and table not in tables
        ]

    def shares_of_open_interest(self) -> dict[str, tuple[int, int]]:
        """Return of how many contracts of how many open interest is known, of venues that tell it singly."""
        shares = {name: state.by_contract for name, state in self._states.items()}
        return {name: (one.covered, one.wanted) for name, one in shares.items() if one.endpoints}

    @property
    def terms(self) -> list[str]:
        """Return what the terms of venues that must be named say, a line each."""
        return [f"{name}: {VENUES[name].terms}" for name in self._states if VENUES[name].named_only]

    def once(self) -> dict[str, int]:
        """Poll every venue once, refill the histories, and return the rows written per table.

        A venue that did not even list its contracts is not asked for histories: each would only time out.

        Raises
        ------
        ArchiveError
            The archive cannot be written.
        """
        minute = self._minute(deadline=None)
        self.refills.once([name for name in self._here() if self.shared[name].listing is not None])
        self.refills.count(minute)
        return minute.rows

    def run(self) -> None:
        """Collect until the clock is stopped.

        Raises
        ------
        ArchiveError
            The archive cannot be written: a full disk, say. What was acknowledged before is there.
        NetworkError
            No venue answered for `fail_after`.
        """
        self._listen()
        try:
            self._run()
        finally:
            for stream in self._streams.values():
                stream.stop()
            self.refills.end()
            last = Minute(self.clock.utc())
            self._write_liquidations(last)
            self.refills.count(last)

    def _listen(self) -> None:
        """Connect to the channels of liquidations, each in a thread of its own."""
        for name in self._listened:
            state = self._states[name]
            stream = self._streams[name] = LiquidationStream(
                state.session.venue,
                state.listed,
                self.clock,
                address=self._sockets.get(name),
                quarantine=self.shared[name].quarantine,
            )
            stream.start()

    def _write_liquidations(self, minute: Minute) -> None:
        """Append what was pushed, with the windows that were listened to."""
        frames, requests = [], []
        for name, stream in self._streams.items():
            rows, covered, error = stream.drain()
            frames.append(self._of_one_path(name, rows))
            requests += [LedgerEntry(name, None, window.start, window.end) for window in covered]
            if error:
                minute.failed[f"{name} {_LIQUIDATIONS}"] = error
        if frames:
            keyed = tables.TABLES[_LIQUIDATIONS]
            rows = keyed.conform(pd.concat(frames, ignore_index=True))
            written = self.archive.merge(_LIQUIDATIONS, rows, requests=requests).written
            minute.rows[_LIQUIDATIONS] = minute.rows.get(_LIQUIDATIONS, 0) + written

    def _of_one_path(self, name: str, rows: pd.DataFrame) -> pd.DataFrame:
        """Leave out what is stored by the venue's other path: of before a restart, or of a gap."""
        if rows.empty or not has_two_paths(VENUES[name]):
            return rows
        last = rows["time"].max()
        own = self._own.setdefault(name, {})
        rows = without_other_path(self.archive, name, rows, own.keys())
        own |= dict(zip(rows["order_id"].astype(str), rows["time"], strict=True))
        self._own[name] = {key: time for key, time in own.items() if time > last - _OWN}
        return rows

    def _run(self) -> None:
        answered = self.clock.utc()
        while True:
            now = self.clock.utc()
            start = (now - _AFTER).floor("min") + _STEP + _AFTER
            if self.clock.wait((start - now).total_seconds()):
                return
            minute = self._minute(deadline=_DEADLINE_SECONDS)
            self._write_liquidations(minute)
            self.refills.count(minute)
            self.refills.start_due(self._here())
            self._drop_old(minute)
            if self._log is not None:
                minute.gone = dict(self.gone)
                self._log(minute)
            if any(minute.rows.values()) or (self._here() and not minute.failed):
                answered = minute.time
            if self._fail_after is not None and minute.time - answered >= self._fail_after:
                why = next(iter([*minute.failed.values(), *self.gone.values()]), "nothing came")
                raise NetworkError("venues", f"nothing was collected since {answered:%Y-%m-%d %H:%M}: {why}")

    def _here(self) -> list[str]:
        """Return the venues that do not refuse this address."""
        return [name for name in self._states if name not in self.gone]

    def _drop_old(self, minute: Minute) -> None:
        """Remove what is older than is to be kept, once a day."""
        today = minute.time.floor("D")
        if self.keep is not None and (self._dropped is None or self._dropped < today):
            self._dropped = today
            minute.dropped = self.archive.drop_before(minute.time - self.keep).rows

    def close(self) -> None:
        """Close every connection."""
        for state in self._states.values():
            state.session.close()

    def _minute(self, *, deadline: float | None) -> Minute:
        """Poll the venues that are not still busy, and write what came before the deadline.

        What comes later is written with the next minute: a slow venue delays no other.
        """
        for name, state in self._states.items():
            if name not in self._running and name not in self.gone:
                self._running.add(name)
                poll = threading.Thread(
                    target=self._poll, args=(state,), name=f"derivdata-poll-{name}", daemon=True
                )
                poll.start()
        polls: list[Poll] = []
        ends = None if deadline is None else self.clock.utc() + pd.Timedelta(deadline, "s")
        while self._running:
            left = None if ends is None else (ends - self.clock.utc()).total_seconds()
            answer = self.clock.receive(self._polls, left if left is None else max(left, 0.01))
            if answer is None or isinstance(answer, Stopped):
                break
            if isinstance(answer, BaseException):
                raise answer
            self._running.discard(answer.exchange)
            if answer.gone:
                self.gone[answer.exchange] = next(iter(answer.failed.values()), "it refuses this address")
            polls.append(answer)
            if self._progress is not None:
                self._progress(f"{len(polls)} of {len(self._states)} venues: {answer.exchange}")
        minute = self._write(polls)
        minute.failed |= {f"{p.exchange} {part}": why for p in polls for part, why in p.parts.items()}
        self.failed = minute.failed
        return minute

    def _poll(self, state: VenueState) -> None:
        try:
            self._polls.put(state.poll())
        except Exception as problem:  # of an adapter: it loses this venue's minute, the others go on
            ends_all = isinstance(problem, Stopped | ArchiveError)
            self._polls.put(problem if ends_all else state.lost(problem))
        except BaseException as problem:  # reaches the collector's own thread
            self._polls.put(problem)

    def _write(self, polls: list[Poll]) -> Minute:
        """Append the venues' rows, each table atomically with the requests that they came from."""
        minute = Minute(self.clock.utc())
        names = {table for poll in polls for table in (*poll.frames, *poll.failed, *poll.requests)}
        for table in sorted(names):
            if table not in tables.TABLES or not self._keeps(table):
                continue
            parts, requests = [], []
            for poll in polls:
                if table in poll.frames:
                    rows = poll.frames[table]
                    parts.append(self._of_one_path(poll.exchange, rows) if table == _LIQUIDATIONS else rows)
                if table in poll.failed:
                    minute.failed[f"{poll.exchange} {table}"] = poll.failed[table]
                if table in poll.requests:
                    requests += poll.requests[table]
                elif table in poll.frames or table in poll.failed:
                    error = "" if table in poll.frames else poll.failed[table][:500]
                    requests += self._requests(poll, table, error)
            keyed = tables.TABLES[table]
            rows = keyed.conform(pd.concat(parts, ignore_index=True)) if parts else keyed.empty()
            minute.rows[table] = self.archive.merge(table, rows, requests=requests).written
        return minute

    def _requests(self, poll: Poll, table: str, error: str) -> list[LedgerEntry]:
        """Return what a poll asked for a table, until it is asked for the next time.

        What a request that failed would have told is not there: it is entered under that request's name.
        """
        start, cadence = poll.at.floor("min"), self._states[poll.exchange].cadence(table)
        again = start + min(cadence, AGAIN)
        whole = LedgerEntry(poll.exchange, None, start, again if error else start + cadence, error)
        return [whole] + [
            LedgerEntry(poll.exchange, part, start, again, poll.parts[part][:500])
            for lacking, part in poll.missing
            if lacking == table
        ]
