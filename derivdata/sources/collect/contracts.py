"""Contracts that a venue lists, the preferred contract of each symbol, and state of contracts over polls.

Some venues need a request for each contract's open interest. Other venues do not state the interval in a
response: it is the time between two payments that were announced as the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import pandas as pd

from derivdata.client.transport.adapter import Unreachable
from derivdata.errors import DerivdataError, NetworkError, SchemaError, VenueError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.plausibility import hold_list
from derivdata.sources.collect.session import ContractList, Contracts, Stopped, VenueSession, is_collected
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, OiPoint, Records, State
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.tables.contracts import base, hip3_contract
from derivdata.tables.payments import VALID_HOURS

_MAX_PAGES = 50
LISTED_FOR = pd.Timedelta(1, "h")


def endpoints_for(venue: Venue, what: str, *, unconfirmed: bool) -> list[VenueEndpoint]:
    """Return the venue's requests of a kind, in order of preference."""
    return [
        endpoint
        for endpoint in venue.endpoints
        if endpoint.what == what
        and endpoint.method != "WS"
        and is_collected(endpoint, unconfirmed=unconfirmed)
    ]


def contract_name(endpoint: VenueEndpoint, item: Instrument) -> str:
    """Return the name of a contract as a request of this endpoint needs it.

    The endpoint may state a format (`VenueEndpoint.names`). Without one, the form depends on its parameter.
    """
    form_of_parameter = {
        "market_id": item.name.partition(":")[0],
        "market_snapshots.product_ids[]": item.name.partition(":")[0],
        "pair": item.name.partition("_")[0],
        "currency": item.symbol if item.inverse else item.quote,
        "instFamily": item.name.removesuffix("-SWAP"),
        "index_name": f"{item.symbol}_{item.quote}".lower(),
    }
    coin = {"base": base(item.symbol)[0], "quote": item.quote, "pair": item.name.rpartition("_")[2]}
    formatted = endpoint.names.format(item.name, symbol=item.symbol, **coin)
    if endpoint.names != "{}":
        return formatted
    return form_of_parameter.get(endpoint.symbol, formatted)


def contract_params(endpoint: VenueEndpoint, item: Instrument) -> dict[str, str]:
    """Return the parameter with the name of a contract; empty for a request about all contracts."""
    if not endpoint.symbol:
        return {}
    return {endpoint.symbol: contract_name(endpoint, item)}


def batches(endpoint: VenueEndpoint, contracts: Contracts) -> list[dict[str, str]]:
    """Return the parameters of requests that together name all contracts of an endpoint."""
    covered = filter(endpoint.covers, contracts.by_symbol.values())
    names = [contract_name(endpoint, item) for item in covered]
    starts = range(0, len(names), endpoint.batch)
    return [{endpoint.symbol: ",".join(names[start : start + endpoint.batch])} for start in starts]


def list_contracts(
    session: VenueSession, *, intervals: bool = True, again: bool = False, dexes: bool = False
) -> Contracts:
    """Return the contracts of this hour's lists; they and the intervals become the session's context.

    Lists are requested once an hour, and `again` requests the lists of contracts at once. `intervals` also
    requests the lists of intervals, which can change with each payment, and `dexes` the contracts of other
    dexes. If a request fails, the older list is used until the next request. Without an older list, or if the
    venue blocks this address, the error is raised.
    """
    shared = session.shared
    now = session.clock.utc()
    listing = [endpoint for endpoint in session.venue.endpoints if endpoint.lists]
    interval_lists = [
        e for e in session.venue.endpoints if e.what == "intervals" and e.exchange != "hyperliquid"
    ]
    hour = now.floor(LISTED_FOR)

    def is_list_due(endpoint: VenueEndpoint) -> bool:
        listed = shared.lists.get(endpoint)
        if listed is None or hour > listed[0].floor(LISTED_FOR):
            return True
        return again and endpoint.lists and endpoint.every is None  # polls request the other lists

    due = list(filter(is_list_due, listing))
    if intervals:
        due += filter(is_list_due, interval_lists)
    session.expected += sum(e.every is None for e in due)  # a poll counts the others
    problems = _request_lists(session, due, listing[0])
    if shared.lists.keys().isdisjoint(listing):
        raise problems[0]
    if dexes:
        due += _request_due_dexes(session, listing, hour)
    if shared.listing is None or len(problems) < len(due):
        unknown = tuple(e.margin for e in interval_lists if e not in shared.lists)
        shared.listing = _joined_lists(session, unknown)
    session.context.update(shared.listing.frames)
    return shared.listing.contracts


def _request_lists(
    session: VenueSession, due: list[VenueEndpoint], first: VenueEndpoint
) -> list[DerivdataError]:
    """Request lists and return the errors; raise if the venue blocks this address."""
    shared = session.shared
    now = session.clock.utc()
    problems: list[DerivdataError] = []
    silent: set[str] = set()  # unreachable hosts, so that each is waited for only once
    for endpoint in due:
        if endpoint.host in silent:
            continue
        try:
            listed = all_pages(session, endpoint, {})
            _, before = shared.lists.get(endpoint, (now, listed))
            held, news = hold_list(before, listed, shared.doubted)
            shared.lists[endpoint] = now, listed
            shared.list_errors.pop(endpoint.label, None)
            if held:
                shared.list_errors[endpoint.label] = (
                    f"{len(held)} changes of the contract list are doubtful and not used yet, first {held[0]}"
                )
            shared.add_list_news(endpoint.label, news)
        except Stopped:
            raise
        except DerivdataError as problem:
            if endpoint is first and isinstance(problem, VenueError) and problem.reason == "region":
                raise
            if isinstance(problem, Unreachable):
                silent.add(endpoint.host)
            shared.list_errors[endpoint.label] = str(problem)
            problems.append(problem)
    return problems


def other_dexes(session: VenueSession) -> list[str]:
    """Return the listed dexes that are not venues themselves."""
    if session.shared.dexes is None:
        return []
    exchange = session.venue.exchange
    _, listed = session.shared.dexes
    return [name for name in listed.dexes if hip3_contract(exchange, f"{name}:")[0] == exchange]


def _request_due_dexes(
    session: VenueSession, listing: Sequence[VenueEndpoint], hour: pd.Timestamp
) -> list[VenueEndpoint]:
    """Request this hour's list of dexes if it is due; return its endpoint, or none."""
    dexes = session.shared.dexes
    if dexes is not None and hour <= dexes[0].floor(LISTED_FOR):
        return []
    for endpoint in listing:
        if endpoint.dex:
            _request_dexes(session, endpoint)
            return [endpoint]
    return []


def _request_dexes(session: VenueSession, endpoint: VenueEndpoint) -> None:
    """Request the list of dexes, and the contracts of the other dexes by `endpoint`.

    If a list fails, the older one is used. A host without such a list has no other dexes.
    """
    shared = session.shared
    now = session.clock.utc()
    source = next(e for e in session.venue.endpoints if e.what == "dexes")
    shared.list_errors.pop(source.label, None)
    try:
        records = all_pages(session, source, {})
    except VenueError as problem:
        if problem.status != 404:
            shared.list_errors[source.label] = str(problem)
            return
        shared.add_list_news(source.label, [f"the list of dexes is not available: {problem}"])
        records = Records()
    except (NetworkError, SchemaError) as problem:
        shared.list_errors[source.label] = str(problem)
        return
    shared.dexes = now, records
    for dex in other_dexes(session):
        label = f"{endpoint.label} {dex}"
        shared.list_errors.pop(label, None)
        try:
            contracts, _, _ = session.request(endpoint, {endpoint.dex: dex})
            records.add(contracts)
        except (VenueError, NetworkError, SchemaError) as problem:
            shared.list_errors[label] = str(problem)


def _joined_lists(session: VenueSession, unknown: tuple[str, ...]) -> ContractList:
    """Return the contracts and intervals of all lists; `unknown` are margins without an interval list."""
    records = Records()
    for _, listed in list(session.shared.lists.values()):
        records.add(Records(listed.instruments, listed.intervals, listed.states))
    if session.shared.dexes is not None:
        _, listed_dexes = session.shared.dexes
        records.add(Records(listed_dexes.instruments))
    records.instruments = list({item.name: item for item in records.instruments}.values())
    at = times.us(session.clock.utc())
    names = ["instruments", "intervals"]
    tables = frames(session.venue.exchange, records, names, at=at)
    return ContractList(Contracts(records.instruments), {**tables, "margins_without_intervals": unknown})


def changed(archive: Archive, listed: pd.DataFrame) -> pd.DataFrame:
    """Return the contracts that differ from the archive's, and the contracts that left the venue's list."""
    if "instruments" not in archive.tables() or listed.empty:
        return listed
    now = listed["time"].max()
    stored = archive.read("instruments", venues=list(listed["exchange"].unique()))
    stored = stored.sort_values("time").drop_duplicates("instrument_name", keep="last")
    removed = stored[stored["is_active"] & ~stored["instrument_name"].isin(listed["instrument_name"])]
    delisted = removed["delisted"].fillna(now).where(removed["is_perpetual"])
    removed = removed.assign(is_active=False, time=now, delisted=delisted)
    current = pd.concat([listed, removed], ignore_index=True)
    compared = listed.columns.drop("time").to_list()
    is_stored = pd.concat([stored, current], ignore_index=True).duplicated(compared)
    return current[~is_stored.iloc[len(stored) :].to_numpy()]


def all_pages(session: VenueSession, endpoint: VenueEndpoint, params: Mapping[str, str]) -> Records:
    """Return the records of all pages of a response, which follow by a cursor; most have one page."""
    records = Records()
    query = params
    for _ in range(_MAX_PAGES):
        page, _, _ = session.request(endpoint, query)
        records.add(page)
        if not page.cursor or endpoint.paging is None or not endpoint.paging.cursor:
            break
        query = {**params, endpoint.paging.cursor: page.cursor}
    if endpoint.lists and not records.instruments:
        raise SchemaError(f"{endpoint.where}: the list of contracts is empty")
    return records


_MINUTE = pd.Timedelta(1, "min")
_MAX_CONSECUTIVE_ERRORS = 5  # consecutive errors, after which the others are skipped
_HOUR_US = 3_600_000_000


class Share(NamedTuple):
    """Result of one poll: open interest with its own times, ledger entries, and the last error."""

    points: list[OiPoint]
    requests: list[LedgerEntry]
    error: str


class ContractStates:
    """The open interest of one venue's contracts, a share of them in each poll.

    Contracts with the oldest request come first; among contracts without a request `symbols`, then those with
    the largest volume. A poll requests as many as are needed to request all within the endpoint's cadence,
    for at most `seconds`. Contracts that are not the preferred one of their symbol come last, and only with
    `all_contracts`.
    """

    def __init__(
        self,
        session: VenueSession,
        endpoints: Sequence[VenueEndpoint],
        *,
        symbols: Sequence[str] = (),
        seconds: float | None = None,
        all_contracts: bool = False,
    ) -> None:
        self._all_contracts = all_contracts
        self.endpoints = list(endpoints)
        self.wanted = 0
        self._session = session
        self._symbols = frozenset(symbols)
        self._seconds = seconds
        self._requested: dict[str, pd.Timestamp] = {}
        self._states: dict[str, tuple[pd.Timestamp, State]] = {}

    def poll(self, contracts: Contracts, states: Mapping[str, State], now: pd.Timestamp) -> Share:
        """Request a share of the contracts; `states` of this minute have marks and volumes."""
        share = Share([], [], "")
        error_weight = 0  # of consecutive errors
        started = self._session.clock.utc()
        for endpoint, item in self.due(contracts, states, now):
            spent = (self._session.clock.utc() - started).total_seconds()
            if self._seconds is not None and spent >= self._seconds:
                break
            self._requested[item.name] = now
            point, error, weight = self._try(endpoint, item, states.get(item.name))
            error_weight += weight
            if not error:
                error_weight = 0
            if item.name not in contracts.other_names:  # of others only the sum is stored, see `known`
                share = share._replace(error=error or share.error)
                if point is not None:
                    share.points.append(point)
                self._enter(share, endpoint, item, now, error)
            if error_weight >= _MAX_CONSECUTIVE_ERRORS or endpoint not in self.endpoints:
                break
        return share

    def _try(
        self, endpoint: VenueEndpoint, item: Instrument, state: State | None
    ) -> tuple[OiPoint | None, str, int]:
        """Request one contract; return its open interest, or the error and its weight."""
        try:
            return self._point(endpoint, item, state), "", 0
        except Stopped:
            raise
        except VenueError as problem:
            if problem.status == 404 or problem.reason == "region":
                self.endpoints.remove(endpoint)  # not available here: skip it in this run
            if problem.reason == "refused":
                return None, str(problem), 1
            # If the venue is unreachable, busy or limiting, requests about other contracts would fail, too.
            return None, str(problem), _MAX_CONSECUTIVE_ERRORS
        except NetworkError as problem:
            return None, str(problem), _MAX_CONSECUTIVE_ERRORS
        except DerivdataError as problem:
            return None, str(problem), 1

    def _enter(
        self, share: Share, endpoint: VenueEndpoint, item: Instrument, now: pd.Timestamp, error: str
    ) -> None:
        """Add a ledger entry for the request of a perpetual."""
        if item.perpetual:
            start = now.floor("min")
            end = start + pd.Timedelta(endpoint.every or 0, "s")
            share.requests.append(LedgerEntry(endpoint.exchange, item.symbol, start, end, error[:500]))

    def known(self, now: pd.Timestamp) -> list[State]:
        """Return open interest that is not older than its cadence, without own times."""
        oldest = now - self._cadence() - _MINUTE
        return [state for at, state in self._states.values() if at >= oldest]

    @property
    def covered(self) -> int:
        """Return the number of contracts with known open interest."""
        return len(self._states)

    def _cadence(self) -> pd.Timedelta:
        return pd.Timedelta(max((e.every or 0.0 for e in self.endpoints), default=0.0), "s")

    def due(
        self, contracts: Contracts, states: Mapping[str, State], now: pd.Timestamp
    ) -> list[tuple[VenueEndpoint, Instrument]]:
        """Return the requests of this poll, in order."""

        def volume(item: Instrument) -> float:
            state = states.get(item.name)
            if state is None or state.volume_usd is None:
                return 0.0
            return state.volume_usd

        candidates = sorted(contracts.collected, key=volume, reverse=True)
        if self._all_contracts:
            candidates += sorted(contracts.others, key=volume, reverse=True)
        listed: list[tuple[VenueEndpoint, Instrument]] = []
        for endpoint in self.endpoints:
            covered = list(filter(endpoint.covers, candidates))
            listed += [(endpoint, item) for item in covered[: endpoint.largest or None]]
        self.wanted = len(listed)
        names = {item.name for _, item in listed}
        self._states = {name: state for name, state in self._states.items() if name in names}
        never = pd.Timestamp(0, tz="UTC")

        def rank(request: tuple[VenueEndpoint, Instrument]) -> tuple[pd.Timestamp, bool, bool, float]:
            _, item = request
            last = self._requested.get(item.name, never)
            is_other = item.name in contracts.other_names
            return last, is_other, item.symbol not in self._symbols, -volume(item)

        listed.sort(key=rank)
        since = now - self._cadence() + _MINUTE / 2  # a poll may begin some seconds late
        due = [
            (endpoint, item) for endpoint, item in listed if self._requested.get(item.name, never) <= since
        ]
        if self._seconds is None:
            return due
        return due[: ceil(len(listed) * (_MINUTE / max(self._cadence(), _MINUTE)))]

    def _point(self, endpoint: VenueEndpoint, item: Instrument, polled: State | None) -> OiPoint:
        """Request one contract, and convert coins to USD at the mark of the same minute."""
        params = contract_params(endpoint, item)
        records, _, _ = self._session.request(endpoint, params, context={"instrument": item.name})
        state = next((row for row in records.states if row.instrument.name == item.name), None)
        if state is None or (state.oi_coins is None and state.oi_usd is None):
            raise DerivdataError(f"{endpoint.where}: expected the open interest of {item.name}, got none")
        usd = state.oi_usd
        if usd is None and state.oi_coins is not None and polled is not None and polled.mark is not None:
            usd = state.oi_coins * polled.mark
        if usd is None:
            why = (
                f"open interest of {item.name} is in coins, and its mark price of the same minute is missing"
            )
            raise DerivdataError(f"{endpoint.where}: {why}")
        now = self._session.clock.utc()
        without_time = State(
            item,
            None,
            volume_usd=state.volume_usd,
            change_pct=state.change_pct,
            oi_coins=state.oi_coins,
            oi_usd=usd,
        )
        self._states[item.name] = now, without_time
        time = state.time
        if time is None:
            time = times.us(now)
        return OiPoint(item, time, usd, "raw", state.oi_coins)


class _NextPayment(NamedTuple):
    """Next payment by a response and time of the response [µs], and hours since the payment before."""

    time: int
    at: int
    hours: float | None


class PaymentSpacing:
    """Next payments of a venue's contracts in the last polls."""

    def __init__(self) -> None:
        self._last: dict[str, _NextPayment] = {}  # by contract

    def fill(self, states: Iterable[State], at: pd.Timestamp) -> list[State]:
        """Return states with the interval of each rate whose response has the next payment.

        The interval is known from the first payment between two polls less than an hour apart, which cannot
        have missed another payment, until polls are further apart. A list's interval may be older.
        """
        filled = []
        for state in states:
            if state.rate is not None and state.next_payment is not None:
                now = state.time  # the venue's clock, if stated
                if now is None:
                    now = times.us(at)
                hours = self._hours(state.instrument.name, state.next_payment, now)
                if hours is not None or state.period_h is None:
                    state = state._replace(period_h=hours, settle_h=hours)
            filled.append(state)
        return filled

    def _hours(self, name: str, next_payment: int, now: int) -> float | None:
        """Return the hours between the last two payments of a contract; None if they are not known."""
        hours = None
        last = self._last.get(name)
        if last is not None and next_payment == last.time:
            hours = last.hours
        elif last is not None:
            spacing = (next_payment - last.time) / _HOUR_US
            # A venue may name a payment as the next for some seconds after it was made.
            passed = last.time <= now < min(last.at, last.time) + _HOUR_US
            if passed and spacing in VALID_HOURS:
                hours = spacing
        self._last[name] = _NextPayment(next_payment, now, hours)
        return hours
