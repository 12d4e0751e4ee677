"""Backfill of histories into an archive: request the windows that its ledger lacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError, DerivdataError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import list_contracts
from derivdata.sources.collect.history_rows import (
    LIQUIDATIONS,
    OF_KINDS,
    TABLES,
    History,
    PartialPage,
    Surroundings,
    answered_requests,
    covers_all,
    entries,
    has_step,
    has_two_paths,
    history,
    join_frames,
    joined,
    liquidations,
    refilling,
    summary,
    walks_of,
    without_other_path,
)
from derivdata.sources.collect.plausibility import doubts, require_plausible
from derivdata.sources.collect.session import (
    QUARANTINE,
    Clock,
    Contracts,
    MachineClock,
    Quarantine,
    Shared,
    Stopped,
    VenueSession,
    is_collected,
    shared_by_host,
)
from derivdata.sources.venues.endpoint import DATED, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument
from derivdata.sources.venues.registry import VENUES
from derivdata.support import times

_LISTED_WITHIN = pd.Timedelta(10, "min")
"""Time after an event or step within which a venue lists it; a window counts as complete only later."""
_MAX_LISTED = pd.Timedelta(366, "D")  # dated futures
_NAMED = 3  # number of contracts named in a notice
_LISTED_LATE = ("funding_settlements", "positioning_history", "options_trades", "delivery_prices")


@dataclass
class Backfilled:
    """Result of a backfill: written rows, and the reasons of failed windows."""

    written: dict[tuple[str, str], int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    requests: int = 0

    def add(self, other: Backfilled) -> None:
        """Add the result of another backfill."""
        for key, rows in other.written.items():
            self.count(*key, rows)
        self.failed += other.failed
        self.notices += other.notices
        self.requests += other.requests

    def count(self, exchange: str, table: str, rows: int) -> None:
        """Add a number of written rows."""
        self.written[exchange, table] = self.written.get((exchange, table), 0) + rows

    def frame(self) -> pd.DataFrame:
        """Return rows written per venue and table."""
        rows = [(venue, table, rows) for (venue, table), rows in sorted(self.written.items())]
        return pd.DataFrame(rows, columns=["exchange", "table", "rows"])


def chosen_venues(names: Sequence[str] | None, *, unconfirmed: bool = False) -> list[str]:
    """Return the venues to request: the named ones, else default venues with a confirmed endpoint."""
    if names is None:
        return [
            name
            for name, venue in VENUES.items()
            if venue.is_default and any(is_collected(e, unconfirmed=unconfirmed) for e in venue.endpoints)
        ]
    for name in names:
        if name not in VENUES:
            raise ValueError(f"venues must be among {', '.join(VENUES)}, got {name!r}")
    return list(dict.fromkeys(names))


def requested_window(
    names: Sequence[str],
    available: Collection[str],
    start: times.TimeLike,
    end: times.TimeLike | None,
    clock: Clock,
) -> times.Window:
    """Return the window of a backfill, by default until now; raise `ValueError` for unavailable tables."""
    for name in names:
        if name not in available:
            raise ValueError(f"tables must be among {', '.join(available)}, got {name!r}")
    until = clock.utc()
    if end is not None:
        until = times.timestamp(end, "end")
    return times.window(start, until)


def backfill(
    archive: Archive,
    symbols: Iterable[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: Sequence[str] | None = None,
    names: Sequence[str] = ("funding_settlements", "oi_history"),
    clock: Clock | None = None,
    addresses: Mapping[str, str] | None = None,
    shared: Mapping[str, Shared] | None = None,
    unconfirmed: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Backfilled:
    """Fetch the missing windows of some histories, with one thread per venue.

    Parameters
    ----------
    symbols
        Base symbols: ``["BTC", "ETH"]``.
    start, end
        Half-open window; `end` None is now.
    venues
        None requests all venues except those that must be named (derive) and those that closed (bitmex).
    names
        Tables of `TABLES`.
    clock, addresses
        Clock, and addresses to use instead of the venues' own; for tests and mirrors.
    shared
        State that the sessions of this process share, by venue; above all the request budget.
    unconfirmed
        Whether to send requests that the specification does not confirm, too.
    progress
        Called with a line for each finished window, and in long windows with the number of requests.

    Returns
    -------
    Backfilled
        A failed window is in the ledger with its error, and in `failed`; other windows are complete.

    Raises
    ------
    ValueError
        A venue or table is unknown.
    ArchiveError
        The archive cannot be written.
    """
    clock = clock or MachineClock()
    window = requested_window(names, TABLES, start, end, clock)
    done = Backfilled()
    exchanges = chosen_venues(venues, unconfirmed=unconfirmed)
    quarantine = Quarantine(archive.path / QUARANTINE)
    states = {**shared_by_host((VENUES[name] for name in exchanges), quarantine), **(shared or {})}
    wanted = list(dict.fromkeys(symbols))
    jobs = []
    for name in exchanges:
        session = VenueSession(VENUES[name], clock, address=(addresses or {}).get(name), shared=states[name])
        session.progress = progress
        report = progress or (lambda _: None)
        jobs.append(_Job(archive, session, wanted, window, names, unconfirmed, done, report))
    if len(jobs) == 1:
        jobs[0].run()
    else:
        _run_together(jobs)
    done.requests = sum(job.session.requests for job in jobs)
    for job in jobs:
        if job.fatal is not None:
            raise job.fatal
    return done


def _run_together(jobs: Sequence[_Job]) -> None:
    """Run the backfills of several venues at once."""
    threads = []
    for job in jobs:
        # Daemon threads, as for all requests to venues, so that a slow venue does not delay the exit.
        thread = threading.Thread(target=job.run, name=f"derivdata-history-{job.exchange}", daemon=True)
        threads.append(thread)
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class _Job:
    """The backfill of one venue; its errors do not affect other venues."""

    archive: Archive
    session: VenueSession
    symbols: list[str]
    window: times.Window
    names: Sequence[str]
    unconfirmed: bool
    done: Backfilled
    progress: Callable[[str], None]
    fatal: BaseException | None = None
    _late_starts: list[str] = field(default_factory=list)  # of the current table

    @property
    def exchange(self) -> str:
        return self.session.venue.exchange

    def run(self) -> None:
        """Fill the histories of the venue. An error that ends all backfills is stored in `fatal`."""
        try:
            with self.session.shared.history_lock:
                self._venue()
        except ArchiveError as problem:
            self.fatal = problem
        except DerivdataError as problem:
            failure = f"{self.exchange}: {str(problem).removeprefix(f'{self.exchange} ')}"
            self.done.failed.append(failure)  # shared with the threads of other venues
            self.progress(failure)
        except BaseException as problem:  # raised in the caller's thread
            self.fatal = problem
        finally:
            self.done.notices += self.session.notices
            self.session.close()

    def _venue(self) -> None:
        """Fill the histories of all tables, and add notices about missing and unconfirmed requests."""
        requests: dict[str, list[VenueEndpoint]] = {}
        notices: list[str] = []
        for table in self.names:
            endpoints = refilling(self.session.venue, table, unconfirmed=self.unconfirmed)
            if endpoints:
                requests[table] = endpoints
            else:
                text = f"no confirmed request of {self.exchange} returns the history of {table}"
                self.done.notices.append(f"{text}: only polled rows are stored")
            unconfirmed = [e.note for e in endpoints if e.note and not e.confirmed]
            notices += [f"{self.exchange} {table}: request not confirmed: {note}" for note in unconfirmed]
        self.done.notices += dict.fromkeys(notices)  # several requests may have the same note
        if not requests:
            return
        contracts = list_contracts(self.session, intervals=False)
        for table, endpoints in requests.items():
            if table == LIQUIDATIONS:
                self._liquidations(contracts, endpoints)
                continue
            for item in self._items(contracts, table):
                self._contract(endpoints, table, item)
            self._name_late_starts(table)

    def _items(self, contracts: Contracts, table: str) -> list[Instrument]:
        """Return the contracts of the symbols whose history a table has: dated futures, or a perpetual."""
        items: list[Instrument] = []
        for symbol in self.symbols:
            perpetual = contracts.by_symbol.get(symbol) or contracts.ended.get(symbol)
            if table == DATED:
                items += [item for item in contracts.dated if item.symbol == symbol]
            elif perpetual is not None:
                items.append(perpetual)
        return items

    def _name_late_starts(self, table: str) -> None:
        """Add a notice about contracts whose rows begin late, if the venue does not state their listing."""
        if not self._late_starts:
            return
        shown = "; ".join(self._late_starts[:_NAMED])
        if len(self._late_starts) > _NAMED:
            shown = f"{shown}; and {len(self._late_starts) - _NAMED} more"
        self.done.notices.append(
            f"{self.exchange} {table}: rows begin late, and the venue does not state the listing time: "
            f"{shown}; they may be listed later, or rows may be missing"
        )
        self._late_starts = []

    def _liquidations(self, contracts: Contracts, endpoints: list[VenueEndpoint]) -> None:
        """Request all liquidations if the venue has a list of all, else those of the symbols."""
        scopes: list[str | None] = [*self.symbols]
        if any(map(covers_all, endpoints)):
            scopes = [None]
        window = self._reachable(endpoints[0])
        if window is None:
            return
        for symbol in scopes:
            walks = walks_of(endpoints, contracts, symbol)
            if not walks:
                continue
            for gap in self.archive.unanswered(LIQUIDATIONS, self.exchange, symbol, *window):
                try:
                    fills = liquidations(self.session, walks, gap)
                except DerivdataError as problem:
                    self._enter_failure(LIQUIDATIONS, symbol, gap, problem)
                    continue
                rows = fills.rows
                if has_two_paths(self.session.venue):
                    # Streamed rows before the gap have other IDs; a list may cut times to seconds.
                    rows = rows[rows["time"] >= gap.start.floor("s")]
                    rows = without_other_path(self.archive, self.exchange, rows)
                requests = answered_requests(self.exchange, symbol, gap, fills)
                self._write(LIQUIDATIONS, symbol, rows, requests)

    def _contract(self, endpoints: list[VenueEndpoint], table: str, item: Instrument) -> None:
        """Fill the missing windows of one contract's history."""
        covering = [endpoint for endpoint in endpoints if endpoint.covers(item)]
        if table not in OF_KINDS:
            covering = covering[:1]
        window = self._longest_reach(covering)
        if window is not None:
            window = listed_part(item, window)
        if window is None:
            return
        if table == "funding_settlements" and item.listed is None:  # listed since the first payment at least
            paid = self.archive.read(table, symbols=[item.symbol], venues=[self.exchange])["time"]
            if len(paid):
                item = item._replace(listed=times.us(paid.min()))
        is_stepped = has_step(table) and not any(e.paging and e.paging.thinned for e in covering)
        now = self.session.clock.utc()
        gaps = self.archive.unanswered(table, self.exchange, item.symbol, *window, now=now)
        if is_stepped:
            gaps = joined(gaps)
        for gap in gaps:
            self._fill_gap(covering, table, item, gap, is_stepped=is_stepped)

    def _fill_gap(
        self,
        endpoints: list[VenueEndpoint],
        table: str,
        item: Instrument,
        gap: times.Window,
        *,
        is_stepped: bool,
    ) -> None:
        """Request one window of a contract's history; write its rows and ledger entries."""
        now = self.session.clock.utc()
        end = _complete_until(table, gap, now)
        stored = None
        requested = gap
        if is_stepped:
            stored = Surroundings(self.archive, self.exchange, table, item.symbol, gap)
            requested = stored.with_next_row()
        try:
            rows, partial, implied = self._rows(endpoints, item, table, requested)
            require_plausible(self.session, self.archive, table, rows)
            usual = self.session.venue.usual_hours(item)
            self.done.notices += doubts(self.archive, self.exchange, table, rows, usual)
            self.done.notices += [f"{self.exchange} {table}: {text}" for text in implied]
        except DerivdataError as problem:
            self._enter_failure(table, item.symbol, gap, problem)
            return
        entered: list[LedgerEntry] = []
        # Expired dated futures may not be listed any more, so a window of a symbol is never complete.
        if end > gap.start and table != DATED:
            answered = times.Window(gap.start, end)
            if stored is not None:
                partial += self._missing(stored, rows, answered, now, item, self._first_of(endpoints, item))
            entered += entries(self.exchange, item.symbol, answered, partial, now)
            if stored is not None:
                entered += stored.missing_before(rows, answered, now)
        self._write(table, item.symbol, rows, entered)

    def _missing(
        self,
        stored: Surroundings,
        rows: pd.DataFrame,
        answered: times.Window,
        now: pd.Timestamp,
        item: Instrument,
        listed: int | None,
    ) -> list[PartialPage]:
        """Return the sections of a window without rows, and note a late start without a stated listing."""
        if listed is None:
            late_start = stored.late_start(rows, answered)
            if late_start:
                self._late_starts.append(late_start)
        return stored.missing(rows, answered, now, is_active=item.active, listed=listed)

    def _rows(
        self, endpoints: list[VenueEndpoint], item: Instrument, table: str, gap: times.Window
    ) -> History:
        """Return the rows of a window from all endpoints, each as far back as it reaches.

        If there are two prices of one kind at one time, the price of the first endpoint is used.
        """
        keyed = tables.TABLES[table]
        frames = []
        partial = list[PartialPage]()
        doubtful = list[str]()
        for endpoint in endpoints:
            reach = self._reachable(endpoint)
            if reach is not None and reach.start < gap.end:
                window = times.Window(max(gap.start, reach.start), gap.end)
                past = history(self.session, endpoint, item, table, window)
                frames.append(past.rows)
                partial += past.partial
                doubtful += past.doubts
        rows = join_frames(table, frames)
        if len(frames) > 1:
            rows = rows.drop_duplicates([*keyed.key])
        return History(keyed.conform(rows), partial, doubtful)

    def _first_of(self, endpoints: list[VenueEndpoint], item: Instrument) -> int | None:
        """Return the start [µs] of a contract's rows: its listing, or the reach of its requests if later."""
        windows = self._reachable_windows(endpoints)
        if item.listed is None or not windows:
            return None
        return max(item.listed, times.us(min(window.start for window in windows)))

    def _longest_reach(self, endpoints: list[VenueEndpoint]) -> times.Window | None:
        """Return the longest window that one of several endpoints reaches, or None."""
        windows = self._reachable_windows(endpoints)
        return max(windows, key=lambda window: window.end - window.start, default=None)

    def _reachable_windows(self, endpoints: list[VenueEndpoint]) -> list[times.Window]:
        return [window for window in map(self._reachable, endpoints) if window is not None]

    def _reachable(self, endpoint: VenueEndpoint) -> times.Window | None:
        """Return the window that an endpoint reaches, or None if it ends before."""
        if endpoint.paging is None or endpoint.paging.reach_days is None:
            return self.window
        reach = pd.Timedelta(endpoint.paging.reach_days, "D")
        first = max(self.window.start, self.session.clock.utc() - reach)
        if first >= self.window.end:
            return None
        return times.Window(first, self.window.end)

    def _enter_failure(
        self, table: str, symbol: str | None, gap: times.Window, problem: DerivdataError
    ) -> None:
        """Enter a failed window in the ledger; raise an error that ends all further requests."""
        if isinstance(problem, Stopped | ArchiveError):
            raise problem
        entry = LedgerEntry(self.exchange, symbol, *gap, str(problem)[:500])
        self._write(table, symbol, tables.TABLES[table].empty(), [entry])

    def _write(self, table: str, symbol: str | None, rows: pd.DataFrame, requests: list[LedgerEntry]) -> None:
        """Append rows and their ledger entries in one step, and report them."""
        # Adapters derive intervals of payments from rows before the window, too: keep stored intervals.
        conformed = tables.TABLES[table].conform(rows)
        counts = self.archive.merge(table, conformed, requests=requests, keeps_intervals=True)
        self.done.count(self.exchange, table, counts.written)
        label = f"{self.exchange} {table} {symbol or 'of all symbols'}"
        errors = []
        incomplete = []
        for request in requests:
            if request.incomplete_at is not None:
                incomplete.append(request)
            elif request.error:
                errors.append(request.error)
        errors += summary(incomplete)
        errors += counts.conflicts[:_NAMED]
        if len(counts.conflicts) > _NAMED:
            errors.append(f"{len(counts.conflicts) - _NAMED} more payments have two rates")
        self.done.failed += [f"{label}: {error.removeprefix(f'{self.exchange} ')}" for error in errors]
        self.progress(f"{label}: {'; '.join(errors) or f'{counts.written} rows'}")


def _complete_until(table: str, gap: times.Window, now: pd.Timestamp) -> pd.Timestamp:
    """Return the time until which a response about a window has all rows.

    The venue has listed all payments before then, and the row of the current step appears when it is over.
    More payments of the current hour may follow, and late ones after a halt.
    """
    listed = now - _LISTED_WITHIN
    end = gap.end
    if table in ("volume_taker", "volatility_index_published"):
        end = listed.floor("h")
    elif table == "funding_settlements":
        end = min(listed, gap.end).floor("h")
    elif table in _LISTED_LATE:
        end = listed
    return min(gap.end, max(gap.start, end))


def listed_part(item: Instrument, window: times.Window) -> times.Window | None:
    """Return the part of a window in which a contract may be listed; a dated one is for a year at most."""
    if not item.is_dated:
        return window
    expiry = pd.Timestamp(item.expiry, unit="us", tz="UTC")
    first = max(window.start, expiry - _MAX_LISTED)
    last = min(window.end, expiry)
    if first >= last:
        return None
    return times.Window(first, last)
