"""Histories beside the polls: each venue has a worker that refills what the ledger lacks, once an hour."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.histories import Backfilled, backfill
from derivdata.sources.collect.history_rows import NAMED_ONLY
from derivdata.sources.collect.liquidations import LIQUIDATIONS
from derivdata.sources.collect.polling import VenuePolls
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.collect.session import Stopped

_REFILL_AT = pd.Timedelta(2, "min")  # of an hour: payments are listed a little after it
_REFILLED = ("funding_settlements", "oi_history")
_DAY = pd.Timedelta(1, "D")
"""How far back liquidations are refilled: some stand among all trades, which take many requests."""
END_SECONDS = 30.0
"""How long the end waits for refills that are in the middle of a request; what they had written stays."""
_MINUTE = pd.Timedelta(1, "min")


class Refills:
    """Workers that ask for the histories of the chosen symbols, one of each venue.

    Histories are to be whole for `since`, or since where the archive's ledger begins, but not beyond `keep`.
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
        known = _REFILLED if polls.names is None else (*_REFILLED, *NAMED_ONLY)
        self._tables = [name for name in known if polls.keeps(name)]
        self._started: dict[str, pd.Timestamp] = {}
        self._told: dict[str, pd.Timestamp] = {}
        self._done: queue.Queue[Backfilled | ArchiveError] = queue.Queue()
        self._running: set[str] = set()
        self._ended = threading.Condition()

    def start_due(self, venues: Sequence[str]) -> None:
        """Start the workers of an hour, but for venues whose refill before is still under way."""
        now = self._clock.utc()
        hour = now.floor("h")
        if now - hour < _REFILL_AT:
            return
        for name in venues:
            last = self._started.get(name, hour - _DAY)
            if last < hour and name not in self._running:
                self._started[name] = hour
                self._start(name)
            elif last < hour and self._told.get(name) != hour:
                self._told[name] = hour
                self._tell_slow(name, last, hour)

    def _tell_slow(self, name: str, started: pd.Timestamp, hour: pd.Timestamp) -> None:
        """Enter an hour that a venue's worker did not get to as not answered."""
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
        """Wait for the workers a while: their waits have ended with the clock's."""
        with self._ended:
            self._ended.wait_for(lambda: not self._running, END_SECONDS)

    def count(self, minute: Minute) -> None:
        """Add to a minute what was refilled since the last one, or raise why a refill could not write."""
        while not self._done.empty():
            done = self._done.get()
            if isinstance(done, ArchiveError):
                raise done
            for (_, table), rows in done.written.items():
                minute.rows[table] = minute.rows.get(table, 0) + rows
            told = sum(part.startswith("history ") for part in minute.failed)
            minute.failed.update({f"history {told + i}": text for i, text in enumerate(done.failed)})

    def _start(self, name: str) -> None:
        if not self._symbols:
            return
        # Daemons, as are all threads that ask venues: a dead one must not hold up an exit.
        title = f"derivdata-refill-{name}"
        worker = threading.Thread(target=self._run, args=(name,), name=title, daemon=True)
        self.workers[name] = worker
        self._running.add(name)  # before the start: the worker may be done when it returns
        try:
            worker.start()
        except RuntimeError:  # no more threads: nobody else would take the name out
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
        except Exception as problem:  # of an adapter: the polls go on, and the next hour asks again
            self._done.put(Backfilled(failed=[f"{name}: {problem!r}"]))
        finally:
            with self._ended:
                self._running.discard(name)
                self._ended.notify_all()

    def _refilled(self, name: str) -> Backfilled:
        """Ask a venue for the histories that the ledger lacks, of the symbols that were chosen."""
        now = self._clock.utc()
        hour = now.floor("h")
        first = self._first(now)
        # A payment bears the full hour, and a window ends before its end.
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
        """Return since when histories are to be whole: a restart after a month finds the gap of a month."""
        ledger = self._archive.requests()
        asked = ledger["table"].isin(self._tables) & ledger["answered"] & (ledger["source"] == "request")
        earliest = ledger.loc[asked, "start"].min()
        first = now.floor("h") - self._since
        if earliest is not pd.NaT:
            first = min(first, earliest)
        return first if self._keep is None else max(first, (now - self._keep).ceil("D"))
