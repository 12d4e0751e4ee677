"""Requests about many contracts of a venue at once: bulk responses, and public lists of liquidations.

A stream has another ID, price and clock for the same event. If a venue's path changes between stream and
requests, the same event has equal contract, side and coins in both, and times within a second.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import ceil, isclose
from typing import NamedTuple

import pandas as pd

from derivdata.errors import DerivdataError, SchemaError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import all_pages, batches, contract_name, endpoints_for, other_dexes
from derivdata.sources.collect.history_rows import PartialPage, entries, pages
from derivdata.sources.collect.questions import require_current
from derivdata.sources.collect.session import Contracts, Stopped, VenueSession
from derivdata.sources.venues.endpoint import STATE_TABLES, Venue, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, Liquidation, Records, State
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.support.times import Window

CHAINS = ("options_snapshot",)
AGAIN = pd.Timedelta(5, "min")
"""Time after which failed requests are repeated, if they are due less often than that."""
_SOONER = 0.95
"""Share of a cadence after which a request is due, since polls begin at varying seconds of a minute."""
_FIGURES = ("rate", "mark", "index_price", "last", "oi_usd", "volume_usd", "change_pct")
_LASTING = ("period_h", "settle_h", "volume_usd", "change_pct")
_MINUTE = pd.Timedelta(1, "min")
_DEX_CADENCE = pd.Timedelta(5, "min")
_MOST_FAILED = 5
"""Consecutive failed requests of a poll after which the remaining ones are skipped."""


@dataclass
class Poll:
    """Result of one poll of a venue: frames by table, and the errors of tables without a response."""

    exchange: str
    at: pd.Timestamp
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    # Errors by request, if other requests filled the tables or an older list is used.
    problems: dict[str, str] = field(default_factory=dict)
    # Incomplete tables, each with the label of the request in `problems`.
    missing: list[tuple[str, str]] = field(default_factory=list)
    # Ledger entries by table, if the request is not about all contracts for the minute of the poll.
    requests: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    gone: bool = False  # whether the venue blocks this address
    changed: dict[str, str] = field(default_factory=dict)  # changes of its lists, by request

    def add_problem(self, endpoint: VenueEndpoint, why: str, incomplete: Sequence[str] = ()) -> None:
        """Add an error of a request, and the tables that are incomplete for it."""
        before = self.problems.get(endpoint.label)
        self.problems[endpoint.label] = why if before is None else f"{before}; {why}"
        self.missing += [(table, endpoint.label) for table in incomplete]


class PolledEndpoint:
    """State of a polled endpoint: its last response, and when to send which requests next."""

    def __init__(self, endpoint: VenueEndpoint, now: pd.Timestamp) -> None:
        self.endpoint = endpoint
        self.cadence = pd.Timedelta((endpoint.every or 0) * _SOONER, "s")
        self.due = self.again = now  # when to send all requests, and when to repeat failed ones
        self.records = Records()
        self.unanswered: list[dict[str, str]] = []  # parameters of requests of the last poll that failed
        self._fields: set[str] = set()  # figures that it has sent so far
        self._reported_on: pd.Timestamp | None = None

    def keep(self, records: Records, now: pd.Timestamp, *, is_complete: bool) -> None:
        """Store the records of a complete poll, or add those of repeated requests."""
        if is_complete:
            self.due = now + self.cadence
            self.records = Records()
        self.records.add(records)

    def gone_fields(self, now: pd.Timestamp) -> list[str]:
        """Return, once a day, the figures that it sent before and sends for no contract now."""
        present = {
            name for name in _FIGURES if any(getattr(s, name) is not None for s in self.records.states)
        }
        gone = sorted(self._fields - present)
        today = now.floor("D")
        self._fields |= present
        if not gone or self._reported_on == today:
            return []
        self._reported_on = today
        return gone


class BulkAnswers:
    """The endpoints of a venue whose responses are about many contracts."""

    def __init__(self, session: VenueSession, endpoints: Sequence[VenueEndpoint]) -> None:
        self._session = session
        self._polled = {endpoint: PolledEndpoint(endpoint, session.clock.utc()) for endpoint in endpoints}
        self._dexes: dict[str, pd.Timestamp] = {}  # time of the last request for each of the other dexes
        self.arrived: dict[str, int] = {}  # arrival of the last response in this poll by contract [µs]

    @property
    def endpoints(self) -> list[VenueEndpoint]:
        """Return the polled endpoints."""
        return [*self._polled]

    def lasting(self) -> Records:
        """Return the figures of older responses that remain valid: intervals, and figures of 24 hours."""
        lasting = []
        for polled in self._polled.values():
            for state in polled.records.states:
                figures = {name: getattr(state, name) for name in _LASTING}
                lasting.append(State(state.instrument, None, **figures))
        return Records(states=lasting)

    def count(self, now: pd.Timestamp, contracts: Contracts | None) -> int:
        """Return the number of due requests, for the known contracts."""
        due = [endpoint for endpoint, polled in self._polled.items() if now >= polled.due]
        return sum(len(self._params(endpoint, contracts)) for endpoint in due)

    def ask(self, poll: Poll, contracts: Contracts | None) -> dict[VenueEndpoint, Records]:
        """Send the due requests, and repeat failed ones after `AGAIN`; return the records by endpoint."""
        self.arrived = {}
        answered: dict[VenueEndpoint, Records] = {}
        lost: dict[VenueEndpoint, str] = {}
        for endpoint, polled in self._polled.items():
            is_due = poll.at >= polled.due
            params = self._params(endpoint, contracts) if is_due else polled.unanswered
            if not is_due and (not params or poll.at < polled.again):
                continue
            self._dexes |= {query[endpoint.dex]: poll.at for query in params if endpoint.dex in query}
            records, unanswered, why = self._responses(endpoint, params, poll.at)
            if is_due and not unanswered and (why := self._shortage(polled, records, contracts)):
                unanswered = params
            polled.again = poll.at + min(polled.cadence, AGAIN * _SOONER)
            polled.unanswered = unanswered
            is_answered = not unanswered or len(unanswered) < len(params)
            if is_answered:
                polled.keep(records, poll.at, is_complete=is_due)
                answered[endpoint] = records
            elif is_due:
                polled.due = polled.again
                polled.records = Records()
                lost[endpoint] = why
            if unanswered and (is_answered or not is_due):
                failure = f"{len(unanswered)} of {len(params)} requests failed: {why}"
                poll.add_problem(endpoint, failure, endpoint.tables or CHAINS)
        self._add_problems(poll, answered, lost)
        return answered

    def _add_problems(
        self, poll: Poll, answered: dict[VenueEndpoint, Records], lost: dict[VenueEndpoint, str]
    ) -> None:
        """Add to a poll the omitted rows and missing figures of responses, and the failed tables."""
        for endpoint, records in answered.items():
            if records.left_out:
                why = f"{len(records.left_out)} left out: {records.left_out[0]}"
                poll.add_problem(endpoint, why, endpoint.tables or CHAINS)
            if gone := self._polled[endpoint].gone_fields(poll.at):
                poll.add_problem(endpoint, f"no longer sends {', '.join(gone)}: these columns are empty")
        filled = {table for endpoint in answered for table in endpoint.tables}
        for endpoint, why in lost.items():
            affected = set(endpoint.tables or CHAINS)
            poll.failed |= dict.fromkeys(sorted(affected - filled), why)
            if affected & filled:
                poll.add_problem(endpoint, why, sorted(affected & filled))

    def _shortage(self, polled: PolledEndpoint, records: Records, contracts: Contracts | None) -> str:
        """Return an error text if a response has no contracts, or less than half of the last poll's."""
        endpoint = polled.endpoint
        count = len(records.states)
        last = len(polled.records.states)
        listed = () if contracts is None else contracts.by_symbol.values()
        is_about_listed = any(endpoint.covers(item) for item in listed)
        if not {*endpoint.tables} & {*STATE_TABLES} or not is_about_listed:
            return ""
        if count and 2 * count >= last:
            return ""
        expected = f"{last} as in the last poll" if last else "the listed contracts"
        return f"{endpoint.where}: expected {expected}, got {count} contracts"

    def _responses(
        self, endpoint: VenueEndpoint, queries: list[dict[str, str]], since: pd.Timestamp
    ) -> tuple[Records, list[dict[str, str]], str]:
        """Return the records of some requests, the failed requests, and the first error.

        A list that this poll has requested already is used again. After `_MOST_FAILED` consecutive failures
        the remaining requests count as failed.
        """
        records = Records()
        why = ""
        consecutive = 0
        unanswered: list[dict[str, str]] = []
        listed_at, listed = self._session.shared.lists.get(endpoint, (None, records))
        for place, params in enumerate(queries):
            try:
                if listed_at is not None and listed_at >= since:
                    response = listed
                else:
                    response = all_pages(self._session, endpoint, params)
                require_current(endpoint, response, self._session.clock.utc())
            except Stopped:
                raise
            except DerivdataError as problem:
                why = why or str(problem)
                consecutive += 1
                unanswered.append(params)
                if consecutive == _MOST_FAILED:
                    return records, [*unanswered, *queries[place + 1 :]], why
                continue
            consecutive = 0
            arrived = times.us(self._session.clock.utc())
            self.arrived |= {row.instrument.name: arrived for row in response.states}
            self.arrived |= {option.name: arrived for option in response.options}
            records.add(response)
        return records, unanswered, why

    def _due_dexes(self) -> list[str]:
        """Return the fifth of the other dexes with the oldest requests, each due every 5 minutes."""
        names = other_dexes(self._session)
        oldest = self._session.clock.utc() - _DEX_CADENCE * _SOONER
        never = pd.Timestamp(0, tz="UTC")
        waiting = [name for name in names if self._dexes.get(name, never) <= oldest]
        waiting.sort(key=lambda name: self._dexes.get(name, never))
        return waiting[: ceil(len(names) * (_MINUTE / _DEX_CADENCE))]

    def _params(self, endpoint: VenueEndpoint, contracts: Contracts | None) -> list[dict[str, str]]:
        """Return the parameters of each request of one poll."""
        if endpoint.batch:
            return [] if contracts is None else batches(endpoint, contracts)
        if not endpoint.expiry:
            queries = [{endpoint.symbol: value} if value else {} for value in endpoint.each or ("",)]
            if endpoint.dex:
                queries += [{endpoint.dex: name} for name in self._due_dexes()]
            return queries
        others = [polled.records.options for other, polled in self._polled.items() if other is not endpoint]
        listed = sorted({(option.symbol, option.expiry) for options in others for option in options})
        return [
            {endpoint.symbol: symbol, endpoint.expiry: f"{pd.Timestamp(expiry, unit='us'):%y%m%d}"}
            for symbol, expiry in listed
        ]


LIQUIDATIONS = "liquidations_fills"
_OVERLAP = pd.Timedelta(2, "min")  # a venue may list a liquidation some seconds later
_LONGEST = pd.Timedelta(1, "h")  # maximum window of a poll; refills request older ones
_APART = pd.Timedelta(1, "s")
_SAME_COINS = 1e-6


class ListWalk(NamedTuple):
    """A list to walk: request, value of its parameter `symbol`, and the contract if it is about one."""

    endpoint: VenueEndpoint
    name: str
    item: Instrument | None


class WalkedRows(NamedTuple):
    """The liquidations of a window, and the time from which they are complete."""

    rows: pd.DataFrame
    complete_from: pd.Timestamp
    partial: list[PartialPage]  # pages with omitted rows


def covers_all(endpoint: VenueEndpoint) -> bool:
    """Return whether a request is about all contracts, or those of a currency, and not about one."""
    return not endpoint.symbol or bool(endpoint.each)


def walks_of(endpoints: Sequence[VenueEndpoint], contracts: Contracts, symbol: str | None) -> list[ListWalk]:
    """Return the lists with the liquidations of all contracts of a symbol, or of all symbols (None)."""
    if symbol is None:
        return [ListWalk(e, value, None) for e in endpoints if covers_all(e) for value in e.each or ("",)]
    walks = []
    for item in contracts.items:
        if item.symbol == symbol and item.perpetual and item.active:
            covering = [e for e in endpoints if not covers_all(e) and e.covers(item)]
            walks += [ListWalk(e, contract_name(e, item), item) for e in covering[:1]]
    return walks


def liquidations(session: VenueSession, walks: Sequence[ListWalk], window: Window) -> WalkedRows:
    """Walk lists over a window, with the rows shortly before it; their IDs do not depend on the window."""
    first = times.us(window.start - _OVERLAP)
    last = times.us(window.end)
    rows: list[Liquidation] = []
    complete_from = first
    partial = list[PartialPage]()
    for walk in walks:
        listed, reached, incomplete = _walked(session, walk, first, last)
        partial += incomplete
        rows += [row for row in listed if first <= row.time < last]
        complete_from = max(complete_from, reached)
    name = session.venue.exchange
    frame = frames(name, Records(liquidations=rows), [LIQUIDATIONS])[LIQUIDATIONS]
    since = pd.Timestamp(complete_from, unit="us", tz="UTC").as_unit("us")
    return WalkedRows(frame, max(window.start, since), partial)


def _walked(
    session: VenueSession, walk: ListWalk, first: int, last: int
) -> tuple[list[Liquidation], int, list[PartialPage]]:
    """Return the rows of all pages, the time [µs] from which they are complete, and incomplete pages.

    Equal rows with one time are different fills. Pages by time overlap, so the maximum count of a row in one
    page is used: a page whose edge does not cut the rows has all of them. Pages by cursor do not overlap.
    """
    endpoint = walk.endpoint
    rows = Counter[Liquidation]()
    context = None if walk.item is None else {"instrument": walk.item.name}
    limit = endpoint.paging.limit if endpoint.paging else 0
    by_cursor = endpoint.paging is not None and endpoint.paging.by == "cursor"
    page = Records()
    partial = list[PartialPage]()
    window = Window(*pd.to_datetime([first, last], unit="us", utc=True).as_unit("us"))
    given = {endpoint.symbol: walk.name} if walk.name else {}
    for page in pages(session, endpoint, first, last, given, context=context):
        if limit and len(page.times) >= limit and min(page.times) == max(page.times):
            why = f"all {limit} rows of a page have the same time, so more may be missing"
            raise SchemaError(f"{endpoint.where}: {why}")
        if (incomplete := PartialPage.of(page, window)) is not None:
            partial.append(incomplete)
        counts = Counter(page.liquidations)
        rows = rows + counts if by_cursor else rows | counts  # | is the maximum of counts
    descending = endpoint.paging is not None and endpoint.paging.descending
    is_cut = descending and limit and len(page.times) >= limit and min(page.times) > first
    # The end of a list may cut equal rows with its oldest time, so rows begin after it.
    rows = Counter({row: 1 if row.order_id else count for row, count in rows.items()})
    return [*rows.elements()], min(page.times) + 1 if is_cut else first, partial


class LiquidationPolls:
    """The liquidations of one venue, requested from the end of the last successful poll.

    If a venue does not list all liquidations, each of `symbols` is requested.
    """

    def __init__(self, session: VenueSession, symbols: Sequence[str], *, unconfirmed: bool) -> None:
        self._session = session
        listed = endpoints_for(session.venue, "liquidations", unconfirmed=unconfirmed)
        self._endpoints = [endpoint for endpoint in listed if endpoint.every is not None]
        self._scopes: list[str | None] = [None] if any(map(covers_all, self._endpoints)) else [*symbols]
        self._every = pd.Timedelta(max((e.every or 0 for e in self._endpoints), default=0), "s")
        self._answered: dict[str | None, pd.Timestamp] = {}

    @property
    def is_available(self) -> bool:
        """Whether the venue has requests for liquidations."""
        return bool(self._endpoints and self._scopes)

    def poll(
        self, contracts: Contracts, now: pd.Timestamp
    ) -> tuple[list[pd.DataFrame], list[LedgerEntry], str]:
        """Return the rows since the last poll, ledger entries, and the last error."""
        rows: list[pd.DataFrame] = []
        requests: list[LedgerEntry] = []
        error = ""
        for scope in self._scopes if self._endpoints else []:
            start = max(self._answered.get(scope, now - self._every), now - _LONGEST)
            walks = walks_of(self._endpoints, contracts, scope)
            if not walks or now - start < 0.95 * self._every:
                continue
            exchange = self._session.venue.exchange
            try:
                fills = liquidations(self._session, walks, Window(start, now))
            except Stopped:
                raise
            except DerivdataError as problem:
                error = str(problem)
                requests.append(LedgerEntry(exchange, scope, start, now, error[:500]))
                continue
            self._answered[scope] = now
            rows.append(fills.rows)
            requests += answered_requests(exchange, scope, Window(start, now), fills)
        return rows, requests, error


def answered_requests(
    exchange: str, symbol: str | None, window: Window, fills: WalkedRows
) -> list[LedgerEntry]:
    """Return the ledger entries of a window that is covered from some time on."""
    complete_from = fills.complete_from
    if complete_from >= window.end:
        return [LedgerEntry(exchange, symbol, *window, "the venue's list begins later")]
    answered = entries(exchange, symbol, Window(complete_from, window.end), fills.partial)
    if complete_from > window.start:
        error = f"the venue's list begins at {complete_from:%Y-%m-%d %H:%M:%S}"
        answered.append(LedgerEntry(exchange, symbol, window.start, complete_from, error))
    return answered


def has_two_paths(venue: Venue) -> bool:
    """Return whether a venue has liquidations both by a stream and by request."""
    return venue.stream is not None and any(
        endpoint.what == "liquidations" and endpoint.method != "WS" for endpoint in venue.endpoints
    )


def without_other_path(
    archive: Archive, exchange: str, rows: pd.DataFrame, own: Collection[str] = ()
) -> pd.DataFrame:
    """Return the fills of one venue without those that the archive has by the venue's other path.

    `own` has the IDs of earlier fills by the same path, which are other events even if they look equal. Each
    stored row matches at most one of `rows`, since equal fills with one time are different events.
    """
    if rows.empty:
        return rows
    first = rows["time"].min() - _APART
    last = rows["time"].max() + _APART
    stored = archive.read(LIQUIDATIONS, first, last + pd.Timedelta(1, "us"), venues=[exchange])
    ids = stored["order_id"].astype(str)
    stored_ids = set(ids) & set(rows["order_id"].astype(str))
    others: dict[tuple[str, str], list[tuple[pd.Timestamp, float]]] = defaultdict(list)
    for row in stored[~ids.isin(stored_ids.union(own))].itertuples():
        others[str(row.symbol), str(row.side)].append((row.time, row.quantity))
    if not others:
        return rows
    is_new = []
    for row in rows.itertuples():
        candidates = others[str(row.symbol), str(row.side)]
        match = None
        if row.order_id not in stored_ids:
            match = next((candidate for candidate in candidates if _is_same(row, *candidate)), None)
        if match is not None:
            candidates.remove(match)
        is_new.append(match is None)
    return rows[is_new]


def _is_same(row: object, time: pd.Timestamp, quantity: float) -> bool:
    """Return whether a stored row may be the same event; its quantity is of the order or of the fill."""
    coins = (row.quantity, row.filled_quantity)  # type: ignore[attr-defined]
    near = abs(row.time - time) <= _APART  # type: ignore[attr-defined]
    return near and any(isclose(count, quantity, rel_tol=_SAME_COINS) for count in coins)
