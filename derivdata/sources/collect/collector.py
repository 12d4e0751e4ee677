"""Continuous collection: one thread per venue polls each minute, and each minute is written at once.

`Refills` are the workers that request the histories of some symbols each hour.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError, DerivdataError, NetworkError
from derivdata.sources import Query
from derivdata.sources.archive import Archive
from derivdata.sources.archive.audit import refuse_impossible
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import changed
from derivdata.sources.collect.histories import Backfilled, backfill
from derivdata.sources.collect.history_rows import (
    LIQUIDATIONS,
    NAMED_ONLY,
    has_two_paths,
    join_frames,
    without_other_path,
)
from derivdata.sources.collect.reporting import Alerts, Minute
from derivdata.sources.collect.session import QUARANTINE, Clock, MachineClock, Quarantine, Stopped
from derivdata.sources.collect.state import BOOKS, INSTRUMENTS, Poll
from derivdata.sources.collect.venue_feeds import VenuePolls, VenueStream, until_next_minute
from derivdata.sources.venues.registry import VENUES

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
        available = [*_REFILLED]
        if polls.names is not None:
            available += NAMED_ONLY
        self._tables = [name for name in available if polls.collects(name)]
        self._started: dict[str, pd.Timestamp] = {}
        self._reported: dict[str, pd.Timestamp] = {}
        # `SimpleQueue` is written in C. An interrupt in `Queue` or `Condition` can leave their lock acquired.
        self._done: queue.SimpleQueue[Backfilled | ArchiveError] = queue.SimpleQueue()
        self._running: set[str] = set()
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()  # names of workers that ended

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
        why = f"the refill that started at {started:%Y-%m-%d %H:%M} is still running"
        self._done.put(Backfilled(failed=[f"{name}: {why}"]))
        for table in self._tables:
            requests = [LedgerEntry(name, symbol, started, hour, why) for symbol in self._symbols]
            self._archive.merge(table, tables.TABLES[table].empty(), requests=requests)

    def once(self, venues: Sequence[str]) -> None:
        """Refill now, and wait for all venues."""
        for name in venues:
            self._start(name)
        while self._running:
            self._ended.get()

    def end(self) -> None:
        """Wait some time for the workers, whose own waits end when the clock is stopped."""
        deadline = time.monotonic() + END_SECONDS
        while self._running and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                self._ended.get(timeout=max(deadline - time.monotonic(), 0.0))

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
        """Start the worker of a venue."""
        if not self._symbols:
            return
        # Daemon threads, as for all requests to venues, so that a slow venue does not delay the exit.
        title = f"derivdata-refill-{name}"
        worker = threading.Thread(target=self._run, args=(name,), name=title, daemon=True)
        self.workers[name] = worker
        try:
            self._running.add(name)  # before the start: the worker may be done when it returns
            worker.start()
        except BaseException:  # also an interrupt: without a thread, nothing else would remove the name
            if not worker.is_alive():
                self._running.discard(name)
                self._started.pop(name, None)
            raise

    def _run(self, name: str) -> None:
        """Refill the histories of a venue in its worker; errors become a result."""
        try:
            self._done.put(self._refilled(name))
        except Stopped:
            pass
        except ArchiveError as problem:  # ends the collector, in its own thread
            self._done.put(problem)
        except Exception as problem:  # an adapter's error: polls continue, and the next hour retries
            self._done.put(Backfilled(failed=[f"{name}: {problem!r}"]))
        finally:
            self._running.discard(name)
            self._ended.put(name)  # after the removal, so that a waiting thread sees it

    def _refilled(self, name: str) -> Backfilled:
        """Request the missing histories of the symbols from a venue."""
        now = self._clock.utc()
        hour = now.floor("h")
        first = self._first(now)
        windows = dict.fromkeys(self._tables, (first, hour))
        if "funding_settlements" in windows:
            # Payments are stamped at the full hour, and the end of a window is exclusive.
            windows["funding_settlements"] = first, (now - _REFILL_AT).floor("h") + _MINUTE
        if self._polls.collects(LIQUIDATIONS):
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
        if self._keep is not None:
            first = max(first, (now - self._keep).ceil("D"))
        return first


_WEEK = pd.Timedelta(7, "D")
_DEADLINE_SECONDS = 50.0
_SHARE_SECONDS = 25.0
"""Seconds of a minute for requests about single contracts of a venue."""
_PUSHED_SECONDS = 10.0
"""Seconds between writes of pushed rows."""
_HUNG = pd.Timedelta(10, "min")
"""Duration of a poll after which the ledger records that the venue does not respond."""
_FILL_IDS_AGE = pd.Timedelta(1, "h")
"""Maximum age of stored IDs of fills, longer than a poll reaches back."""


class Collector:
    """Polls venues and appends their rows to an archive.

    Parameters
    ----------
    archive
        Archive for the rows, which are acknowledged when they are on disk.
    venues
        None is all venues except those that must be named (derive).
    symbols
        Assets whose histories are refilled every hour; polls are about all contracts.
    names
        Tables to store; None is all tables of the polls.
    depth
        Symbols whose order books and depth are stored each minute.
    streams
        Venues whose liquidations are streamed although they have a list of them, which is the default there.
        A venue is collected by one path, since the two have different IDs for the same row.
    since
        How far back refills reach, or to the start of the archive's ledger if that is earlier.
    push
        Whether to store, in addition to the polls, the pushed rows of `symbols`, one per second.
    keep
        Maximum age of rows, in complete months or days; None keeps all.
    share_seconds
        Seconds of a poll for requests about single contracts; None sends all that are due.
    all_contracts
        Whether to request open interest of every contract of a symbol if a venue needs a request for each
        contract (Binance and others). Without it, the sum over all contracts is missing there.
    clock, addresses, unconfirmed
        As in `derivdata.sources.collect.backfill`.
    sockets
        Addresses of WebSockets to use instead of the venues' own.
    fail_after
        `run` ends with a `NetworkError` if all venues fail for so long; None continues indefinitely.
    log
        Function that is called with the summary of each minute.
    alerts
        Alert rules that are checked after each minute.
    progress
        Function that is called after each venue's poll with a line of text: requests done and expected, and
        the slowest venues.
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
        push: bool = False,
        keep: pd.Timedelta | None = None,
        share_seconds: float | None = _SHARE_SECONDS,
        all_contracts: bool = False,
        clock: Clock | None = None,
        addresses: Mapping[str, str] | None = None,
        sockets: Mapping[str, str] | None = None,
        unconfirmed: bool = False,
        fail_after: pd.Timedelta | None = None,
        log: Callable[[Minute], None] | None = None,
        alerts: Alerts | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if keep is not None and keep < since:
            raise ValueError(
                f"keep must be at least since={since}, so that refilled rows are stored, got {keep}"
            )
        self.archive = archive
        self.symbols = list(symbols)
        self.since = since
        self.keep = keep
        self._fail_after = fail_after
        self.clock = clock or MachineClock()
        self.failed: dict[str, str] = {}
        self._log = log
        self._progress = progress or (lambda _: None)
        self._alerts = alerts
        self._venues = VenuePolls(
            venues,
            self.clock,
            symbols=self.symbols,
            names=names,
            depth=depth,
            streams=streams,
            share_seconds=share_seconds,
            all_contracts=all_contracts,
            addresses=addresses,
            sockets=sockets,
            unconfirmed=unconfirmed,
            quarantine=Quarantine(archive.path / QUARANTINE),
            open_interest=_last_open_interest(archive, self.clock.utc()),
        )
        self.shared = self._venues.shared
        self.gone = self._venues.gone
        self._states = self._venues.states
        self._streams: dict[str, VenueStream] = {}
        self._pushed: list[VenueStream] = []
        if push:
            self._pushed = self._venues.state_streams(self.symbols)
        self._push_troubles: dict[str, str] = {}  # by venue and channel, since the last minute
        self._ended = threading.Event()
        self._running: dict[str, pd.Timestamp] = {}  # venues that are being polled, and since when
        self._threads: dict[str, threading.Thread] = {}  # of the last poll of each venue
        self._polls: queue.SimpleQueue[Poll | BaseException] = queue.SimpleQueue()
        self.refills = Refills(archive, self._venues, self.symbols, since=since, keep=keep)
        # Time of each fill of the last hour by its ID, of the venues with two paths.
        self._fill_times: dict[str, dict[str, pd.Timestamp]] = {}
        self._dropped: pd.Timestamp | None = None

    def request_book(self, exchange: str, symbol: str) -> None:
        """Request the order book of a symbol from a venue, and write it with its depth."""
        poll = self._states[exchange].begin()
        try:
            self._states[exchange].add_book(poll, symbol)
        except DerivdataError as problem:
            poll.failed = dict.fromkeys(BOOKS, str(problem))
        self.failed = self._write([poll]).failed

    @property
    def venues(self) -> list[str]:
        """Return the collected venues."""
        return [*self._states]

    def venues_without(self, table: str) -> list[str]:
        """Return the venues whose polls have funding rates but not the given table."""
        names = []
        for name, state in self._states.items():
            polled = state.tables
            if "funding_history" in polled and table not in polled:
                names.append(name)
        return names

    def shares_of_open_interest(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of contracts with open interest that are known and requested, by venue.

        Only venues that need a request for each contract are included.
        """
        shares = {}
        for name, state in self._states.items():
            if state.by_contract.endpoints:
                shares[name] = (state.by_contract.covered, state.by_contract.wanted)
        return shares

    @property
    def terms(self) -> list[str]:
        """Return a line with the terms of each venue that must be named."""
        return [f"{name}: {VENUES[name].terms}" for name in self._states if VENUES[name].named_only]

    def once(self) -> dict[str, int]:
        """Poll every venue once, refill the histories, and return the rows written per table.

        Histories of a venue that did not list its contracts are not requested, since each would time out.

        Raises
        ------
        ArchiveError
            The archive cannot be written.
        """
        minute = self._minute(deadline=None)
        self.refills.once(
            [name for name in self._venues.reachable() if self.shared[name].listing is not None]
        )
        self.refills.count(minute)
        return minute.rows

    def run(self) -> None:
        """Collect until the clock is stopped.

        Raises
        ------
        ArchiveError
            The archive cannot be written, for example on a full disk. Acknowledged rows are stored.
        NetworkError
            All venues failed for `fail_after`.
        """
        streams = self._venues.listened.items()
        self._streams = {name: self._venues.stream(name, stream) for name, stream in streams}
        for stream in (*self._streams.values(), *self._pushed):
            stream.start()
        pusher = threading.Thread(target=self._keep_pushed, name="derivdata-pushed", daemon=True)
        if self._pushed:
            pusher.start()
        try:
            self._run()
        finally:
            self._ended.set()
            for stream in (*self._streams.values(), *self._pushed):
                stream.stop()
            if self._pushed:
                pusher.join(_PUSHED_SECONDS)
            self.refills.end()
            last = Minute(self.clock.utc())
            self._write_liquidations(last)
            self.refills.count(last)

    def _keep_pushed(self) -> None:
        """Append pushed rows every few seconds, until collecting ends."""
        try:
            while not (self._ended.is_set() or self.clock.wait(_PUSHED_SECONDS)):
                self._write_pushed()
        except BaseException as problem:  # raised in the collector's own thread
            self._polls.put(problem)

    def _write_pushed(self) -> None:
        """Append the pushed rows of the state; the ledger has entries of the polls only."""
        frames: dict[str, list[pd.DataFrame]] = {}
        for stream in self._pushed:
            rows, _, error = stream.drain()
            if why := error or stream.omitted:
                self._push_troubles[f"{stream.venue.exchange} {stream.channel}"] = why
            for table, frame in rows.items():
                if len(frame) and self._venues.collects(table):
                    frames.setdefault(table, []).append(frame)
        for table, pushed in frames.items():
            self.archive.merge(table, tables.TABLES[table].conform(pd.concat(pushed, ignore_index=True)))

    def _write_liquidations(self, minute: Minute) -> None:
        """Append pushed liquidations, with the windows of the streams."""
        frames = []
        requests = []
        for name, stream in self._streams.items():
            pushed, covered, error = stream.drain()
            entries = [LedgerEntry(name, None, window.start, window.end) for window in covered]
            rows, entries = self._accepted(minute, name, LIQUIDATIONS, pushed[LIQUIDATIONS], entries)
            frames.append(rows)
            requests += entries
            if error:
                minute.failed[f"{name} {LIQUIDATIONS}"] = error
        if frames:
            self._merge(minute, LIQUIDATIONS, frames, requests)

    def _merge(
        self, minute: Minute, table: str, frames: Sequence[pd.DataFrame], requests: Sequence[LedgerEntry]
    ) -> None:
        """Append rows of a table with their ledger entries, and count them in a minute."""
        rows = tables.TABLES[table].conform(join_frames(table, frames))
        written = self.archive.merge(table, rows, requests=requests).written
        minute.rows[table] = minute.rows.get(table, 0) + written

    def _accepted(
        self, minute: Minute, name: str, table: str, rows: pd.DataFrame, requests: list[LedgerEntry]
    ) -> tuple[pd.DataFrame, list[LedgerEntry]]:
        """Return a venue's rows and their ledger entries; for impossible rows, failed entries only.

        The archive would reject such rows together with the rows of all other venues.
        """
        try:
            refuse_impossible(tables.TABLES[table], rows)
        except ArchiveError as problem:
            why = str(problem)
            minute.failed[f"{name} {table}"] = why
            failed = [request._replace(error=request.error or why[:500]) for request in requests]
            return rows.iloc[:0], failed
        if table == LIQUIDATIONS:
            rows, dropped = self._states[name].sound_fills(rows, minute.time)
            if dropped:
                minute.failed[f"{name} {table}"] = dropped
            rows = self._of_one_path(name, rows)
        return rows, requests

    def _of_one_path(self, name: str, rows: pd.DataFrame) -> pd.DataFrame:
        """Drop fills that are stored by the venue's other path, before a restart or in a gap."""
        if rows.empty or not has_two_paths(VENUES[name]):
            return rows
        last = rows["time"].max()
        fill_times = self._fill_times.get(name, {})
        rows = without_other_path(self.archive, name, rows, fill_times.keys())
        fill_times |= dict(zip(rows["order_id"].astype(str), rows["time"], strict=True))
        self._fill_times[name] = {key: at for key, at in fill_times.items() if at > last - _FILL_IDS_AGE}
        return rows

    def _run(self) -> None:
        """Collect minute by minute until the clock is stopped."""
        answered = self.clock.utc()
        while True:
            if self.clock.wait(until_next_minute(self.clock.utc())):
                return
            for name, stream in self._streams.items():
                self._states[name].is_listened = not stream.is_broken(self.clock.utc())
            minute = self._minute(deadline=_DEADLINE_SECONDS)
            self._write_liquidations(minute)
            self.refills.count(minute)
            self.refills.start_due(self._venues.reachable())
            troubles = self._push_troubles
            self._push_troubles = {}
            minute.failed |= troubles
            self._drop_old(minute)
            self._check_alerts(minute)
            if self._log is not None:
                minute.gone = dict(self.gone)
                self._log(minute)
            if any(minute.rows.values()) or (self._venues.reachable() and not minute.failed):
                answered = minute.time
            if self._fail_after is not None and minute.time - answered >= self._fail_after:
                why = next(iter([*minute.failed.values(), *self.gone.values()]), "no venue sent rows")
                raise NetworkError("venues", f"no rows were collected since {answered:%Y-%m-%d %H:%M}: {why}")

    def _drop_old(self, minute: Minute) -> None:
        """Remove rows older than `keep`, once a day."""
        today = minute.time.floor("D")
        if self.keep is not None and (self._dropped is None or self._dropped < today):
            self._dropped = today
            minute.dropped = self.archive.drop_before(minute.time - self.keep).rows

    def _check_alerts(self, minute: Minute) -> None:
        if self._alerts is None:
            return
        try:
            self._alerts.check(self.archive, minute.time)
        except ArchiveError as problem:  # collecting goes on
            minute.failed["alerts"] = str(problem)

    def close(self) -> None:
        """Deliver the last alerts, and close every connection."""
        if self._alerts is not None:
            self._alerts.close()
        self._venues.close()

    def _minute(self, *, deadline: float | None) -> Minute:
        """Poll the venues that are not busy, and write the polls that finish before the deadline.

        Later polls are written with the next minute, so a slow venue does not delay others.
        """
        if self.clock.utc().minute == 0:
            self._venues.retry_blocked()
        hung = self._start_polls()
        polls: list[Poll] = []
        started = self.clock.utc()
        while self._running:
            left = None
            if deadline is not None:
                left = max(deadline - (self.clock.utc() - started).total_seconds(), 0.01)
            result = self.clock.receive(self._polls, left)
            if result is None or isinstance(result, Stopped):
                break
            if isinstance(result, BaseException):
                raise result
            self._running.pop(result.exchange, None)
            polls.append(result)
            self._progress(self._venues.line(self._running))
        minute = self._write([*polls, *hung])
        for poll in polls:
            minute.failed |= {f"{poll.exchange} {label}": why for label, why in poll.problems.items()}
            minute.changed |= {f"{poll.exchange} {label}": why for label, why in poll.changed.items()}
        self.failed = minute.failed
        return minute

    def _start_polls(self) -> list[Poll]:
        """Poll the venues that are not busy; return a failed poll for each venue that hangs."""
        now = self.clock.utc()
        hung = []
        for name in self._venues.reachable():
            since = self._running.get(name)
            # A thread puts its poll before it ends, so look at the queue after the thread. Without either, an
            # interrupt came after the poll was received.
            if since is not None and not self._threads[name].is_alive() and self._polls.empty():
                since = None
            if since is None:
                title = f"derivdata-poll-{name}"
                thread = threading.Thread(target=self._poll, args=(name,), name=title, daemon=True)
                try:
                    self._threads[name] = thread
                    self._running[name] = now
                    thread.start()
                except BaseException:  # an interrupt; without its thread the poll would never end
                    if not thread.is_alive():
                        self._running.pop(name, None)
                    raise
            elif now - since >= _HUNG:
                why = f"{name}: the poll that started at {since:%Y-%m-%d %H:%M} is still running"
                hung.append(Poll(name, now, failed=dict.fromkeys(sorted(self._states[name].tables), why)))
        return hung

    def _poll(self, name: str) -> None:
        try:
            self._polls.put(self._venues.poll(name))
        except BaseException as problem:  # raised in the collector's own thread
            self._polls.put(problem)

    def _write(self, polls: list[Poll]) -> Minute:
        """Append the venues' rows, each table atomically with its ledger entries."""
        minute = Minute(self.clock.utc())
        names = set[str]()
        for poll in polls:
            names.update(poll.frames, poll.failed, poll.requests)
        for table in sorted(names):
            if table not in tables.TABLES or not self._venues.collects(table):
                continue
            frames = []
            requests = []
            for poll in polls:
                if table in poll.failed:
                    minute.failed[f"{poll.exchange} {table}"] = poll.failed[table]
                entries = self._states[poll.exchange].entries(poll, table)
                if table in poll.frames:
                    rows = poll.frames[table]
                    rows, entries = self._accepted(minute, poll.exchange, table, rows, entries)
                    if table == INSTRUMENTS:
                        rows = changed(self.archive, rows)
                    frames.append(rows)
                requests += entries
            self._merge(minute, table, frames, requests)
        return minute


def _last_open_interest(archive: Archive, now: pd.Timestamp) -> dict[str, dict[str, float]]:
    """Return the newest open interest of the last week, by venue and symbol in USD."""
    columns = ["symbol", "exchange", "time", "oi_usd"]
    rows = archive.newest(Query("oi_history", now - _WEEK, now, None, None, columns))
    by_venue = {}
    for exchange, group in rows.groupby("exchange", observed=True):
        by_venue[str(exchange)] = dict(zip(group["symbol"].astype(str), group["oi_usd"], strict=True))
    return by_venue
