"""Polls of one venue: responses about many contracts, joined to one row per contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain as chain_of
from math import ceil
from operator import attrgetter

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.errors import DerivdataError, SchemaError, VenueError
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import (
    ContractStates,
    PaymentSpacing,
    all_pages,
    batches,
    contract_params,
    endpoints_for,
    list_contracts,
    other_dexes,
)
from derivdata.sources.collect.history_rows import (
    LIQUIDATIONS,
    answered_requests,
    covers_all,
    liquidations,
    require_contract,
    walks_of,
)
from derivdata.sources.collect.plausibility import LastPolls, require_current
from derivdata.sources.collect.session import Contracts, Stopped, VenueSession, is_collected
from derivdata.sources.venues.endpoint import STATE_TABLES, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, OiPoint, Records, State, omitted
from derivdata.sources.venues.tabulation import frames, preferred
from derivdata.support import times
from derivdata.support.times import Window

CHAINS = ("options_snapshot",)
AGAIN = pd.Timedelta(5, "min")
"""Time after which failed requests are repeated, if they are due less often than that."""
_CADENCE_SHARE = 0.95
"""Share of a cadence after which a request is due, since polls begin at varying seconds of a minute."""
_FIGURES = ("rate", "mark", "index_price", "last", "oi_usd", "volume_usd", "change_pct")
_MINUTE = pd.Timedelta(1, "min")
_DEX_CADENCE = pd.Timedelta(5, "min")
_MAX_FAILED = 5
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
        if endpoint.label in self.problems:
            why = f"{self.problems[endpoint.label]}; {why}"
        self.problems[endpoint.label] = why
        self.missing += [(table, endpoint.label) for table in incomplete]


class PolledEndpoint:
    """A polled endpoint: the times of its next requests, its last records, and its failed requests."""

    def __init__(self, endpoint: VenueEndpoint, now: pd.Timestamp) -> None:
        self.endpoint = endpoint
        self.cadence = pd.Timedelta((endpoint.every or 0) * _CADENCE_SHARE, "s")
        self.due = now  # when to send all requests
        self.again = now  # when to repeat failed ones
        self.records = Records()
        self.unanswered: list[dict[str, str]] = []  # parameters of requests of the last poll that failed
        self._figures_before: set[str] = set()
        self._reported_on: pd.Timestamp | None = None

    def keep(self, records: Records, now: pd.Timestamp, *, is_complete: bool) -> None:
        """Store the records of a complete poll, or add the records of repeated requests."""
        if is_complete:
            self.due = now + self.cadence
            self.records = Records()
        self.records.add(records)

    def lost_figures(self, now: pd.Timestamp) -> list[str]:
        """Return the figures of earlier responses that the last one lacks for all contracts, once a day."""
        present = set()
        for name in _FIGURES:
            values = map(attrgetter(name), self.records.states)
            if any(value is not None for value in values):
                present.add(name)
        lost = sorted(self._figures_before - present)
        today = now.floor("D")
        self._figures_before |= present
        if not lost or self._reported_on == today:
            return []
        self._reported_on = today
        return lost


class BulkRequests:
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
        records = Records()
        for polled in self._polled.values():
            records.states += map(_lasting, polled.records.states)
        return records

    def count(self, now: pd.Timestamp, contracts: Contracts | None) -> int:
        """Return the number of due requests, for the known contracts."""
        count = 0
        for endpoint, polled in self._polled.items():
            if now >= polled.due:
                count += len(self._params(endpoint, contracts))
        return count

    def request(self, poll: Poll, contracts: Contracts | None) -> dict[VenueEndpoint, Records]:
        """Send the due requests, and repeat failed ones after `AGAIN`; return the records by endpoint.

        A due endpoint without any response loses the records of its last poll, and `poll` gets its error.
        Otherwise the failed requests are a problem of `poll`, and are repeated.
        """
        self.arrived = {}
        answered: dict[VenueEndpoint, Records] = {}
        lost: dict[VenueEndpoint, str] = {}
        for endpoint, polled in self._polled.items():
            is_due = poll.at >= polled.due
            params = self._due_params(polled, poll.at, contracts)
            if not is_due and not params:
                continue
            records, unanswered, why = self._responses(endpoint, params, poll.at)
            if is_due and not unanswered:
                why = self._missing_contracts(polled, records, contracts)
                if why:
                    unanswered = params  # a response that lacks contracts counts as failed
            polled.again = poll.at + min(polled.cadence, AGAIN * _CADENCE_SHARE)
            polled.unanswered = unanswered
            # Without failures an endpoint is answered, even if it has no contracts to request.
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
            if records.omitted:
                poll.add_problem(endpoint, omitted(records.omitted), endpoint.tables or CHAINS)
            figures = self._polled[endpoint].lost_figures(poll.at)
            if figures:
                poll.add_problem(
                    endpoint, f"the response no longer has {', '.join(figures)}: these columns are empty"
                )
        tables_with_rows = _tables_of(answered)
        for endpoint, why in lost.items():
            affected = set(endpoint.tables or CHAINS)
            incomplete = affected & tables_with_rows
            poll.failed |= dict.fromkeys(sorted(affected - incomplete), why)
            if incomplete:
                poll.add_problem(endpoint, why, sorted(incomplete))

    def _missing_contracts(
        self, polled: PolledEndpoint, records: Records, contracts: Contracts | None
    ) -> str:
        """Return an error text if a response has no contracts, or less than half of the last poll's.

        Empty for endpoints that do not return states, or do not cover a listed contract.
        """
        endpoint = polled.endpoint
        if contracts is None or not any(map(endpoint.covers, contracts.by_symbol.values())):
            return ""
        if not {*endpoint.tables} & {*STATE_TABLES}:
            return ""
        count = len(records.states)
        last_count = len(polled.records.states)
        if count > 0 and 2 * count >= last_count:
            return ""
        if last_count == 0:
            return f"{endpoint.where}: expected the listed contracts, got none"
        return f"{endpoint.where}: expected about {last_count} contracts as in the last poll, got {count}"

    def _responses(
        self, endpoint: VenueEndpoint, queries: list[dict[str, str]], since: pd.Timestamp
    ) -> tuple[Records, list[dict[str, str]], str]:
        """Return the records of some requests, the failed requests, and the first error.

        A list that this poll has requested already is used again. After `_MAX_FAILED` consecutive failures
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
                if consecutive == _MAX_FAILED:
                    return records, [*unanswered, *queries[place + 1 :]], why
                continue
            consecutive = 0
            arrived = times.us(self._session.clock.utc())
            self.arrived |= dict.fromkeys(map(attrgetter("instrument.name"), response.states), arrived)
            self.arrived |= dict.fromkeys(map(attrgetter("name"), response.options), arrived)
            records.add(response)
        return records, unanswered, why

    def _due_dexes(self) -> list[str]:
        """Return the dexes to request in this minute: a fifth of all, those that were requested first."""
        names = other_dexes(self._session)
        never = pd.Timestamp(0, tz="UTC")
        requested_at = {name: self._dexes.get(name, never) for name in names}
        due_before = self._session.clock.utc() - _DEX_CADENCE * _CADENCE_SHARE
        due = [name for name in names if requested_at[name] <= due_before]
        due.sort(key=requested_at.__getitem__)
        return due[: ceil(len(names) * (_MINUTE / _DEX_CADENCE))]

    def _due_params(
        self, polled: PolledEndpoint, now: pd.Timestamp, contracts: Contracts | None
    ) -> list[dict[str, str]]:
        """Return the parameters of due requests, or of failed ones that are due again."""
        endpoint = polled.endpoint
        params = []
        if now >= polled.due:
            params = self._params(endpoint, contracts)
        elif now >= polled.again:
            params = polled.unanswered
        if endpoint.dex:
            for query in params:
                if endpoint.dex in query:
                    self._dexes[query[endpoint.dex]] = now
        return params

    def _params(self, endpoint: VenueEndpoint, contracts: Contracts | None) -> list[dict[str, str]]:
        """Return the parameters of each request of one poll."""
        if endpoint.batch:
            if contracts is None:
                return []
            return batches(endpoint, contracts)
        if endpoint.expiry:
            return self._expiry_params(endpoint)
        queries = [{endpoint.symbol: value} for value in endpoint.symbol_values] or [{}]
        if endpoint.dex:
            queries += [{endpoint.dex: name} for name in self._due_dexes()]
        return queries

    def _expiry_params(self, endpoint: VenueEndpoint) -> list[dict[str, str]]:
        """Return the parameters of a request for each expiry in the last responses of other endpoints."""
        expiries = set[tuple[str, int]]()
        for other, polled in self._polled.items():
            if other is not endpoint:
                expiries.update((option.symbol, option.expiry) for option in polled.records.options)
        queries = []
        for symbol, expiry in sorted(expiries):
            day = f"{pd.Timestamp(expiry, unit='us'):%y%m%d}"
            queries.append({endpoint.symbol: symbol, endpoint.expiry: day})
        return queries


_MAX_WINDOW = pd.Timedelta(1, "h")  # maximum window of a poll; refills request older ones


class LiquidationPolls:
    """The liquidations of one venue, requested from the end of the last successful poll.

    If a venue does not list all liquidations, each of `symbols` is requested.
    """

    def __init__(self, session: VenueSession, symbols: Sequence[str], *, unconfirmed: bool) -> None:
        self._session = session
        listed = endpoints_for(session.venue, "liquidations", unconfirmed=unconfirmed)
        self._endpoints = [endpoint for endpoint in listed if endpoint.every is not None]
        self._scopes: list[str | None] = [*symbols]
        if any(map(covers_all, self._endpoints)):
            self._scopes = [None]
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
        for scope in self._scopes:
            start = max(self._answered.get(scope, now - self._every), now - _MAX_WINDOW)
            walks = walks_of(self._endpoints, contracts, scope)
            if not walks or now - start < _CADENCE_SHARE * self._every:
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


STATE = ("funding_history", "oi_history", "markets_symbol_exchanges", "prices_history", "futures_history")
OPEN_INTEREST = "oi_history"
INSTRUMENTS = "instruments"
BOOKS = ("orderbook_book", "orderbook_depth_history")
RECENT = ("options_trades", "delivery_prices")
"""Tables for which some venues list only the newest rows; polled if named."""
STATED_RATES = "funding_rates"
"""Rates by kind and settlement; polled if named, since `funding_history` has the running rates."""
_STORED_LEVELS = 100
"""Stored levels per side of a book; the depth uses all levels that the venue sent."""
_PATIENCE_SECONDS = 20.0
"""Maximum time of a poll for retries; the next minute retries, too, and histories wait longer."""
_RELIST_AFTER = pd.Timedelta(5, "min")
"""Minimum time between repeated lists because some contracts do not change."""


class VenueState:
    """A polled venue, with the times at which its requests are due.

    Parameters
    ----------
    unconfirmed
        Whether to send requests that the specification could not confirm.
    symbols
        Symbols whose liquidations are requested if lists are of one contract; None requests none.
    depth
        Symbols whose order books are requested.
    first, seconds, all_contracts
        Open interest by contract is requested for the symbols `first` first, and for at most `seconds` (None:
        all that is due); with `all_contracts` also for contracts that are not preferred for their symbol.
    names
        Tables to poll; None is all but those that are polled only if named.
    open_interest
        Open interest [USD] by symbol, with which the first poll is compared; each later poll is compared with
        the one before.
    is_listened
        Whether a channel streams the liquidations, which are then not requested.
    """

    def __init__(
        self,
        session: VenueSession,
        *,
        unconfirmed: bool = False,
        symbols: Sequence[str] | None = None,
        depth: Sequence[str] = (),
        first: Sequence[str] = (),
        seconds: float | None = None,
        all_contracts: bool = False,
        names: Sequence[str] | None = None,
        open_interest: Mapping[str, float] | None = None,
        is_listened: bool = False,
    ) -> None:
        self.is_listened = is_listened
        self.session = session
        self.depth = depth
        self._quarantine = session.shared.quarantine
        self._liquidations: LiquidationPolls | None = None
        if symbols is not None:
            self._liquidations = LiquidationPolls(session, symbols, unconfirmed=unconfirmed)
        self._books = endpoints_for(session.venue, "book", unconfirmed=unconfirmed)
        self.contracts: Contracts | None = None
        self._spacing = PaymentSpacing()
        self.held = LastPolls(session.venue.exchange, open_interest)
        self._polls_of_others = LastPolls(session.venue.exchange)
        self._others: list[State] = []  # states of perpetuals that are not the preferred one of their symbol
        self._last_states: dict[str, State] = {}  # state of each contract in the last poll, without its time
        self._unchanged_when_listed: set[str] = set()  # listed contracts that do not change
        self._listed_again_at: pd.Timestamp | None = None
        is_polled = any(endpoint.every is not None for endpoint in session.venue.endpoints)
        self._stores_instruments = is_polled and (names is None or INSTRUMENTS in names)
        self._stored_list: object = None  # the list of the last poll
        self._with_rates = names is None or bool({*names} & {"funding_history", "markets_symbol_exchanges"})
        polled = []
        for endpoint in session.venue.endpoints:
            is_state = endpoint.every is not None and endpoint.what not in ("liquidations", "book")
            if is_state and is_collected(endpoint, unconfirmed=unconfirmed):
                polled.append(endpoint)
        wanted = set(names or ())
        if names is None:
            wanted = _tables_of(polled) - {*RECENT, STATED_RATES}
        self._keeps_rate_kinds = STATED_RATES in wanted
        if self._keeps_rate_kinds:
            wanted.add("funding_history")  # its responses state the coming settlements
        bulk, of_one = _endpoints_for_tables(polled, wanted)
        self._bulk = BulkRequests(session, bulk)
        self.by_contract = ContractStates(
            session, of_one, symbols=first, seconds=seconds, all_contracts=all_contracts
        )

    @property
    def tables(self) -> set[str]:
        """Return the tables that polls of the venue fill."""
        return _tables_of([*self._bulk.endpoints, *self.by_contract.endpoints])

    def polls_table(self, table: str) -> bool:
        """Return whether polls of the venue fill a table."""
        if table in BOOKS:
            return bool(self.depth and self._books)
        if table == LIQUIDATIONS:
            return self._liquidations is not None and not self.is_listened and self._liquidations.is_available
        return table in self.tables

    def cadence(self, table: str) -> pd.Timedelta:
        """Return the time between two polls of a table, during which the earlier one is valid."""
        filling = [endpoint for endpoint in self._bulk.endpoints if table in endpoint.tables]
        seconds = [endpoint.every for endpoint in filling if endpoint.every is not None]
        return pd.Timedelta(min(seconds, default=_MINUTE.total_seconds()), "s")

    def entries(self, poll: Poll, table: str) -> list[LedgerEntry]:
        """Return the ledger entries of a poll for a table, valid until the next request.

        A failed request is entered with its label in place of the symbol. A table with rows is entered for
        all symbols (None). If some requests failed and are repeated before the next poll of the table, only
        the symbols with rows are entered.
        """
        if table in poll.requests:
            return poll.requests[table]
        if table not in poll.frames and table not in poll.failed:
            return []
        start = poll.at.floor("min")
        cadence = self.cadence(table)
        again = start + min(cadence, AGAIN)
        failed = []
        for incomplete, label in poll.missing:
            if incomplete == table:
                error = poll.problems[label][:500]
                failed.append(LedgerEntry(poll.exchange, label, start, again, error))
        if table not in poll.frames:
            return [LedgerEntry(poll.exchange, None, start, again, poll.failed[table][:500]), *failed]
        symbols = [None]
        if failed and cadence > AGAIN:
            symbols = poll.frames[table]["symbol"].unique()
        return [LedgerEntry(poll.exchange, symbol, start, start + cadence) for symbol in symbols] + failed

    def listed(self) -> tuple[list[Instrument], dict[str, pd.DataFrame]]:
        """Return the traded contracts and their context, from a list if they are not known yet."""
        if self.contracts is None:
            self.contracts = list_contracts(self.session)
        items = [item for item in self.contracts.items if item.perpetual and item.active]
        return items, dict(self.session.context)

    def begin(self) -> Poll:
        """Return an empty poll of the current time, with a limit on waiting."""
        self.session.patience = _PATIENCE_SECONDS
        self.session.waited = 0.0
        self.session.requests = 0
        return Poll(self.session.venue.exchange, self.session.clock.utc())

    def poll(self) -> Poll:
        """Send the due requests and return one row per contract; an error affects only its own tables."""
        poll = self.begin()
        try:
            # For the progress line. `list_contracts` adds its own requests to the expected number. The new
            # list may have other contracts, so the number of requests for the old ones is then replaced.
            count_before = self._bulk.count(poll.at, self.contracts)
            self.session.expected = count_before
            self.contracts = list_contracts(self.session, intervals=self._with_rates, dexes=True)
            count = self._bulk.count(poll.at, self.contracts)
            count += len(self.by_contract.due(self.contracts, {}, poll.at))
            self.session.expected += count - count_before
        except Stopped:
            raise
        except DerivdataError as problem:
            return self._mark_failed(poll, problem)
        poll.problems |= self.session.shared.list_errors
        poll.changed = self.session.shared.take_list_news()
        if self._stores_instruments and self.session.shared.listing is not self._stored_list:
            self._stored_list = self.session.shared.listing
            rows = self.session.context[INSTRUMENTS].drop(columns="position").assign(time=poll.at)
            poll.frames[INSTRUMENTS] = tables.TABLES[INSTRUMENTS].conform(rows)
        self._tabulate(poll, self._bulk.request(poll, self.contracts))
        self._add_liquidations(poll)
        for symbol in self.depth:
            self.add_book(poll, symbol)
        return poll

    def _add_liquidations(self, poll: Poll) -> None:
        """Request the liquidations since the last poll, unless a channel streams them."""
        if self._liquidations is None or self.is_listened or self.contracts is None:
            return
        rows, requests, error = self._liquidations.poll(self.contracts, poll.at)
        if rows:
            poll.frames[LIQUIDATIONS] = pd.concat(rows, ignore_index=True)
        if requests:
            poll.requests[LIQUIDATIONS] = requests
        if error:
            poll.failed[LIQUIDATIONS] = error

    def add_book(self, poll: Poll, symbol: str) -> None:
        """Request the order book of a symbol, and add it and its depth to a poll."""
        if self.contracts is None:
            self.contracts = list_contracts(self.session)
        item = self.contracts.by_symbol.get(symbol)
        endpoint = self._book_endpoint(item)
        if item is None or endpoint is None:
            return
        start = poll.at.floor("min")
        error = ""
        response = Records()
        try:
            params = contract_params(endpoint, item)
            response, _, _ = self.session.request(endpoint, params, context={"instrument": item.name})
            require_contract(endpoint, response, item)
            require_current(endpoint, response, self.session.clock.utc())
        except Stopped:
            raise
        except DerivdataError as problem:
            error = str(problem)
            poll.failed.update(dict.fromkeys(BOOKS, error))
        shortened = Records(
            books=[
                b._replace(bids=b.bids[:_STORED_LEVELS], asks=b.asks[:_STORED_LEVELS]) for b in response.books
            ]
        )
        at = times.us(self.session.clock.utc())
        for table, records in zip(BOOKS, (shortened, response), strict=True):
            why = error
            try:
                rows = frames(poll.exchange, records, [table], at=at)[table]
                if table in poll.frames:
                    rows = pd.concat([poll.frames[table], rows], ignore_index=True)
                poll.frames[table] = rows
            except SchemaError as problem:
                why = poll.failed[table] = self._quarantined(poll, table, records, problem)
            request = LedgerEntry(poll.exchange, symbol, start, start + _MINUTE, why[:500])
            poll.requests.setdefault(table, []).append(request)

    def _tabulate(self, poll: Poll, answered: Mapping[VenueEndpoint, Records]) -> None:
        """Join the records of a poll to one state per contract, check them, and add their tables."""
        # 1. Join the records, with the figures of older responses that remain valid.
        at = times.us(self.session.clock.utc())
        chain = Records()
        state = Records()
        for endpoint, records in answered.items():
            joined = chain if endpoint.what == "chain" else state
            joined.add(records)
        state.add(self._bulk.lasting())
        answered_tables = _tables_of(answered)
        names = [table for table in STATE if table in answered_tables]
        state = self._keep_traded(state.merged())
        state.states = list(map(_with_oi_usd, state.states))
        # 2. If contracts do not change, they may have left the list: request it again.
        if names and self._must_list_again(state.states, poll.at):
            self.contracts = list_contracts(self.session, intervals=self._with_rates, again=True)
            state.states += self._others
            state = self._keep_traded(state)
        state.states = self._spacing.fill(state.states, poll.at)
        # 3. Request open interest by contract, and compare all figures with the last poll.
        if self.by_contract.endpoints:
            points = self._open_interest(poll, state)
            state.add(Records(states=[*self._others, *self.by_contract.known(poll.at)]))
            state = self._keep_traded(state.merged())
            self._hold_to_last_poll(poll, state, {*names, OPEN_INTEREST})
            self._add_points(poll, state, points)
        else:
            self._hold_to_last_poll(poll, state, names)
        # 4. Add the tables.
        self._add_frames(poll, state, [name for name in names if name not in poll.failed], at)
        if self._keeps_rate_kinds and answered_tables & {"funding_history", STATED_RATES}:
            self._add_rate_kinds(poll, state, at)
        for table in RECENT:
            if table in answered_tables:
                self._add_recent(poll, state, table, at)
        if "options_snapshot" in answered_tables:
            self._add_chain(poll, chain.merged(), at)

    def _book_endpoint(self, item: Instrument | None) -> VenueEndpoint | None:
        """Return the request for the order book of a contract; None without a contract or a request."""
        if item is not None:
            for endpoint in self._books:
                if endpoint.covers(item):
                    return endpoint
        return None

    def _add_chain(self, poll: Poll, chain: Records, at: int) -> None:
        """Add the options with a volatility or open interest, without doubtful values."""
        options = [row for row in chain.options if row.iv is not None or row.open_interest is not None]
        # A chain has one time: the arrival of its last response.
        arrived = max((self._bulk.arrived[row.name] for row in options), default=at)
        chain.options, dropped = self.held.hold_chain(options, poll.at)
        if dropped:
            poll.problems["options"] = omitted(dropped, "value")
            self._quarantine.keep_records(poll.exchange, CHAINS, self.held.withheld, poll.at)
        self._add_frames(poll, chain, CHAINS, arrived)

    def _add_rate_kinds(self, poll: Poll, state: Records, at: int) -> None:
        """Add the rates with a stated settlement, for the preferred contract of each symbol."""
        rates = [row for row in state.rates if row.instrument.perpetual]
        records = Records(states=state.states, rates=preferred(rates))
        table = tables.TABLES[STATED_RATES]
        try:
            rows = frames(poll.exchange, records, [STATED_RATES], at=at)[STATED_RATES]
            poll.frames[STATED_RATES] = table.conform(rows[[*table.columns]])
        except SchemaError as problem:
            poll.failed[STATED_RATES] = self._quarantined(poll, STATED_RATES, records, problem)

    def _add_recent(self, poll: Poll, state: Records, table: str, at: int) -> None:
        """Add lists of the newest rows, which are complete from the oldest row of each symbol until now."""
        self._add_frames(poll, state, [table], at)
        rows = poll.frames.get(table)
        if rows is None or table in poll.failed:
            return
        oldest = rows.groupby("symbol", observed=True)["time"].min()
        poll.requests[table] = [
            LedgerEntry(poll.exchange, str(symbol), first, poll.at)
            for symbol, first in oldest.items()
            if first < poll.at
        ]

    def _must_list_again(self, states: list[State], now: pd.Timestamp) -> bool:
        """Return whether contracts, perhaps delisted, are unchanged since the last poll while most changed.

        The list is requested again at most every five minutes, and not for contracts that were unchanged the
        last time already and are still listed.
        """
        current = {row.instrument.name: row._replace(time=None, next_payment=None) for row in states}
        unchanged = {name for name, row in current.items() if self._last_states.get(name) == row}
        self._last_states = current
        self._unchanged_when_listed &= unchanged
        if self._listed_again_at is not None and now - self._listed_again_at < _RELIST_AFTER:
            return False
        newly_unchanged = unchanged - self._unchanged_when_listed
        if not newly_unchanged or 2 * len(unchanged) > len(current):
            return False
        self._listed_again_at = now
        self._unchanged_when_listed = unchanged
        return True

    def sound_fills(self, rows: pd.DataFrame, now: pd.Timestamp) -> tuple[pd.DataFrame, str]:
        """Return liquidations of listed contracts near their last prices, and a text about the others."""
        listed = set(rows["symbol"])
        if self.contracts is not None:
            listed = set(map(attrgetter("symbol"), self.contracts.items))
        sound, dropped = self.held.sound_fills(rows, now, listed)
        if dropped:
            others = rows[~rows.index.isin(sound.index)]
            self._quarantine.keep_rows(self.session.venue.exchange, LIQUIDATIONS, others, f"{now:%Y-%m-%d}")
        return sound, omitted(dropped)

    def _hold_to_last_poll(self, poll: Poll, state: Records, names: Iterable[str]) -> None:
        """Remove figures that contradict others, or are far from the contract's last ones."""
        listed = set[str]()
        if self.contracts is not None:
            listed = set(map(attrgetter("name"), self.contracts.items))
        self._set_arrival_times(state)
        state.states, failed, notes = self.held.hold(state.states, poll.at, listed)
        self._quarantine.keep_records(poll.exchange, names, self.held.withheld, poll.at)
        poll.failed |= failed
        # If a figure of another contract is doubtful, the sum is missing.
        others, _, _ = self._polls_of_others.hold(self._others, poll.at, listed)
        usd = self._other_open_interest(others)
        for place, row in enumerate(state.states):
            total = _sum(row.oi_usd, usd.get(row.instrument.symbol, 0.0))
            state.states[place] = row._replace(oi_all_usd=total)
        if notes:
            poll.problems["figures"] = "; ".join(notes)

    def _other_open_interest(self, states: Iterable[State]) -> dict[str, float | None]:
        """Return the open interest [USD] of the other perpetuals of each symbol; None if one is unknown."""
        usd = {row.instrument.name: row.oi_usd for row in states}
        symbols: dict[str, str] = {}  # by name of the contract
        if self.contracts is not None:
            symbols = {item.name: item.symbol for item in self.contracts.others}
        symbols |= {row.instrument.name: row.instrument.symbol for row in self._others}
        sums: dict[str, float | None] = {}
        for name, symbol in symbols.items():
            sums[symbol] = _sum(sums.get(symbol, 0.0), usd.get(name))
        return sums

    def _open_interest(self, poll: Poll, state: Records) -> list[OiPoint]:
        """Request the open interest of some contracts, which has its own times."""
        if self.contracts is None:
            return []
        by_name = {row.instrument.name: row for row in state.states}
        points, requests, error = self.by_contract.poll(self.contracts, by_name, poll.at)
        if requests:
            poll.requests[OPEN_INTEREST] = requests
        if error:
            poll.failed[OPEN_INTEREST] = error
        return points

    def _add_points(self, poll: Poll, state: Records, points: list[OiPoint]) -> None:
        """Add the open interest of contracts; doubtful points count as failed."""
        sound = {row.instrument.name for row in state.states if row.oi_usd is not None}
        accepted = []
        doubtful = set()  # symbols
        for point in points:
            if point.instrument.name in sound:
                accepted.append(point)
            else:
                doubtful.add(point.instrument.symbol)
        if doubtful:
            why = poll.failed.get(OPEN_INTEREST) or poll.problems.get("figures", "the value is doubtful")
            requests = poll.requests.get(OPEN_INTEREST, [])
            for place, request in enumerate(requests):
                if request.symbol in doubtful:
                    requests[place] = request._replace(error=why[:500])
        if accepted:
            sums = {row.instrument.symbol: row.oi_all_usd for row in state.states if row.instrument.perpetual}
            with_sums = [point._replace(oi_all_usd=sums[point.instrument.symbol]) for point in accepted]
            self._add_frames(poll, Records(oi=with_sums), [OPEN_INTEREST], times.us(poll.at))

    def _add_frames(self, poll: Poll, records: Records, names: Sequence[str], at: int) -> None:
        """Add tables of some records; an error affects only its own table."""
        for table in names:
            try:
                poll.frames |= frames(poll.exchange, records, [table], at=at)
            except SchemaError as problem:
                poll.failed[table] = self._quarantined(poll, table, records, problem)

    def _quarantined(self, poll: Poll, table: str, records: Records, problem: SchemaError) -> str:
        """Put records that do not fit a table into the quarantine; return the error."""
        body = msgspec.json.encode(records)
        return self._quarantine.keep(poll.exchange, table, body, str(problem), poll.at)

    def _set_arrival_times(self, state: Records) -> None:
        """Set the time of rows without one to the arrival of the contract's last response."""
        for place, row in enumerate(state.states):
            if row.time is None:
                state.states[place] = row._replace(time=self._bulk.arrived.get(row.instrument.name))

    def _keep_traded(self, state: Records) -> Records:
        """Remove untraded contracts, and perpetuals that are not the preferred one of their symbol.

        The latter are stored in `_others`, since they count in the open interest of their symbol. An unlisted
        contract counts if it has a price; some venues send rates of coins without a contract.
        """
        items: list[Instrument] = []
        if self.contracts is not None:
            items += self.contracts.items
        is_active = {item.name: item.active for item in items}
        for row in state.states:
            if is_active.get(row.instrument.name, _has_price(row)):
                items.append(row.instrument)
        contracts = Contracts(items)
        collected_names = set(map(attrgetter("name"), contracts.collected))
        self._others = []
        collected = []
        for row in state.states:
            if row.instrument.name in contracts.other_names:
                self._others.append(_with_oi_usd(row))
            if row.instrument.name in collected_names:
                collected.append(row)
        state.states = collected
        return state

    def lost(self, problem: Exception) -> Poll:
        """Return a failed poll after an unexpected error, with the error's type."""
        if not isinstance(problem, DerivdataError):
            problem = DerivdataError(repr(problem))
        return self._mark_failed(self.begin(), problem)

    def _mark_failed(self, poll: Poll, problem: DerivdataError) -> Poll:
        """Return a poll in which all tables failed with an error."""
        poll.failed = dict.fromkeys(sorted(self.tables), str(problem))
        poll.problems = {}
        poll.gone = isinstance(problem, VenueError) and problem.reason == "region"
        return poll


def _tables_of(endpoints: Iterable[VenueEndpoint]) -> set[str]:
    """Return all tables that some endpoints fill."""
    return set(chain_of.from_iterable(map(attrgetter("tables"), endpoints)))


def _lasting(state: State) -> State:
    """Return the values of a state that are valid longer than a poll."""
    return State(
        state.instrument,
        None,
        period_h=state.period_h,
        settle_h=state.settle_h,
        volume_usd=state.volume_usd,
        change_pct=state.change_pct,
    )


def _has_price(row: State) -> bool:
    return bool(row.mark or row.index_price or row.last or row.price)


def _sum(first: float | None, second: float | None) -> float | None:
    """Return a sum, or None if one of its terms is None."""
    if first is None or second is None:
        return None
    return first + second


def _with_oi_usd(row: State) -> State:
    """Return a state with open interest in USD, from coins and a mark of another response."""
    if row.oi_usd is None and row.oi_coins is not None and row.mark:
        return row._replace(oi_usd=row.oi_coins * row.mark)
    return row


def _endpoints_for_tables(
    endpoints: Sequence[VenueEndpoint], names: set[str]
) -> tuple[list[VenueEndpoint], list[VenueEndpoint]]:
    """Return the endpoints about many contracts, and about one contract, that fill the wanted tables."""
    if "markets_symbol_exchanges" in names:  # it has figures of all responses about the state
        names = {*names, *STATE}
    of_one = [e for e in endpoints if e.is_of_one and names & {*e.tables}]
    if of_one:
        names = {*names, "prices_history"}  # they need a mark, and the volume
    bulk = []
    for endpoint in endpoints:
        filled = CHAINS if endpoint.what == "chain" else endpoint.tables
        if not endpoint.is_of_one and names & {*filled}:
            bulk.append(endpoint)
    return bulk, of_one
