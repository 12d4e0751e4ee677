"""Contracts that a venue lists, the one that represents each symbol, and what polls remember of them.

Open interest of some venues takes a request for each contract. Of others no response states the interval: it
is the time between two payments that were seen to come next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import pandas as pd

from derivdata.client.transport.keyless import Unreachable
from derivdata.errors import DerivdataError, NetworkError, SchemaError, VenueError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.files import is_collected
from derivdata.sources.collect.questions import hold_list
from derivdata.sources.collect.session import ContractList, Contracts, Stopped, VenueSession
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, OiPoint, Records, State
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.tables.contracts import base, hip3_contract
from derivdata.tables.payments import VALID_HOURS

_PAGES = 50
LISTED_FOR = pd.Timedelta(1, "h")


def endpoints_for(venue: Venue, what: str, *, unconfirmed: bool) -> list[VenueEndpoint]:
    """Return the venue's requests of a kind, in the order of preference."""
    return [
        endpoint
        for endpoint in venue.endpoints
        if endpoint.what == what
        and endpoint.method != "WS"
        and is_collected(endpoint, unconfirmed=unconfirmed)
    ]


def contract_name(endpoint: VenueEndpoint, item: Instrument) -> str:
    """Return what the venue calls a contract in a request."""
    names = {
        "market_id": item.name.partition(":")[0],
        "market_snapshots.product_ids[]": item.name.partition(":")[0],
        "pair": item.name.partition("_")[0],
        "currency": item.symbol if item.inverse else item.quote,
        "instFamily": item.name.removesuffix("-SWAP"),
        "index_name": f"{item.symbol}_{item.quote}".lower(),
    }
    coin = {"base": base(item.symbol)[0], "quote": item.quote, "pair": item.name.rpartition("_")[2]}
    own = endpoint.names.format(item.name, symbol=item.symbol, **coin)
    return own if endpoint.names != "{}" else names.get(endpoint.symbol, own)


def batches(endpoint: VenueEndpoint, contracts: Contracts) -> list[dict[str, str]]:
    """Return the parameters of the requests that together name all contracts that they are about."""
    fitting = [item for item in contracts.by_symbol.values() if endpoint.covers(item)]
    names = [contract_name(endpoint, item) for item in fitting]
    return [
        {endpoint.symbol: ",".join(names[i : i + endpoint.batch])}
        for i in range(0, len(names), endpoint.batch)
    ]


def list_contracts(
    session: VenueSession, *, intervals: bool = True, again: bool = False, dexes: bool = False
) -> Contracts:
    """Return the contracts of this hour's lists; they and the intervals become the session's context.

    An interval can change with each payment. A list that fails leaves the older one in use, and is asked for
    the next time. With `dexes` the contracts of other dexes are listed too. Raises why where there is no list
    at all, or the venue's first refuses this address.
    """
    shared = session.shared
    now = session.clock.utc()
    listing = [endpoint for endpoint in session.venue.endpoints if endpoint.lists]
    told = [e for e in session.venue.endpoints if e.what == "intervals" and e.exchange != "hyperliquid"]
    hour = now.floor(LISTED_FOR)
    due = [
        e
        for e in (*listing, *(told if intervals else ()))
        if (listed := shared.lists.get(e)) is None
        or hour > listed[0].floor(LISTED_FOR)
        or (again and e.lists and e.every is None)
    ]
    session.expected += sum(e.every is None for e in due)  # a poll counts the others
    problems = _ask_lists(session, due, listing[0])
    if not any(endpoint in shared.lists for endpoint in listing):
        raise problems[0]
    of_dexes = next((e for e in listing if e.dex), None) if dexes else None
    is_due = shared.dexes is None or hour > shared.dexes[0].floor(LISTED_FOR)
    if of_dexes is not None and is_due:
        _ask_dexes(session, of_dexes)
        due.append(of_dexes)
    if shared.listing is None or len(problems) < len(due):
        unknown = tuple(e.margin for e in told if e not in shared.lists)
        shared.listing = _merged(session, unknown)
    session.context.update(shared.listing.frames)
    return shared.listing.contracts


def _ask_lists(session: VenueSession, due: list[VenueEndpoint], first: VenueEndpoint) -> list[DerivdataError]:
    """Ask for lists, and return why some did not come; raise where the first one refuses this address."""
    shared = session.shared
    now = session.clock.utc()
    problems: list[DerivdataError] = []
    silent: set[str] = set()  # hosts that were not reached: one wait for each, not one for each list
    for endpoint in due:
        if endpoint.host in silent:
            continue
        try:
            listed = all_pages(session, endpoint, {})
            held, news = hold_list(shared.lists.get(endpoint, (now, listed))[1], listed, shared.doubted)
            shared.lists[endpoint] = now, listed
            shared.list_errors.pop(endpoint.label, None)
            if held:
                shared.list_errors[endpoint.label] = f"{len(held)} left as they were listed before: {held[0]}"
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
    """Return the dexes that a venue lists and that are not venues of their own."""
    if session.shared.dexes is None:
        return []
    exchange = session.venue.exchange
    names = session.shared.dexes[1].dexes
    return [name for name in names if hip3_contract(exchange, f"{name}:")[0] == exchange]


def _ask_dexes(session: VenueSession, endpoint: VenueEndpoint) -> None:
    """Ask for the list of dexes, and by `endpoint` for the contracts of the other ones.

    A list that fails leaves the older one in use. An address that has no such list has no other dexes.
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
        shared.add_list_news(source.label, [f"no list of dexes: {problem}"])
        records = Records()
    except (NetworkError, SchemaError) as problem:
        shared.list_errors[source.label] = str(problem)
        return
    shared.dexes = now, records
    for dex in other_dexes(session):
        label = f"{endpoint.label} {dex}"
        shared.list_errors.pop(label, None)
        try:
            records.add(session.ask(endpoint, {endpoint.dex: dex})[0])
        except (VenueError, NetworkError, SchemaError) as problem:
            shared.list_errors[label] = str(problem)


def _merged(session: VenueSession, unknown: tuple[str, ...]) -> ContractList:
    """Return the contracts and intervals of all lists; `unknown` are margins whose intervals never came."""
    records = Records()
    for _, listed in list(session.shared.lists.values()):
        records.add(Records(listed.instruments, listed.intervals, listed.states))
    if session.shared.dexes is not None:
        records.add(Records(session.shared.dexes[1].instruments))
    records.instruments = list({item.name: item for item in records.instruments}.values())
    at = times.us(session.clock.utc())
    names = ["instruments", "intervals"]
    tables = frames(session.venue.exchange, records, names, at=at)
    return ContractList(Contracts(records.instruments), {**tables, "margins_without_intervals": unknown})


def changed(archive: Archive, listed: pd.DataFrame) -> pd.DataFrame:
    """Return the contracts of a venue's list that the archive has otherwise, and those that left it."""
    if "instruments" not in archive.tables() or listed.empty:
        return listed
    now = listed["time"].max()
    known = archive.read("instruments", venues=list(listed["exchange"].unique()))
    known = known.sort_values("time").drop_duplicates("instrument_name", keep="last")
    gone = known[known["is_active"] & ~known["instrument_name"].isin(listed["instrument_name"])]
    ended = gone["delisted"].fillna(now).where(gone["is_perpetual"])
    gone = gone.assign(is_active=False, time=now, delisted=ended)
    both = pd.concat([listed, gone], ignore_index=True)
    alike = [name for name in listed if name != "time"]
    told = pd.concat([known, both], ignore_index=True).duplicated(alike)
    return both[~told.iloc[len(known) :].to_numpy()]


def all_pages(session: VenueSession, endpoint: VenueEndpoint, params: Mapping[str, str]) -> Records:
    """Return what all pages of an answer say, which follow by a cursor; most have one page."""
    records = Records()
    cursor = ""
    for _ in range(_PAGES):
        name = endpoint.paging.cursor if endpoint.paging else ""
        page, _, _ = session.ask(endpoint, {**params, **({name: cursor} if cursor and name else {})})
        records.add(page)
        cursor = page.cursor or ""
        if not cursor or not name:
            break
    if endpoint.lists and not records.instruments:
        raise SchemaError(f"{endpoint.where}: the list of contracts is empty")
    return records


_MINUTE = pd.Timedelta(1, "min")
_MOST_BAD = 5  # answers in a row: then it is not about the contract
_HOUR_US = 3_600_000_000


class Share(NamedTuple):
    """What one poll was told: open interest at its own instants, what was asked, and the last error."""

    points: list[OiPoint]
    requests: list[LedgerEntry]
    error: str


class ContractStates:
    """The open interest of one venue's contracts, a share of them in each poll.

    Those not asked for longest come first; of those never asked `symbols`, then those with the most volume.
    A poll takes as many as make all within the endpoint's cadence, but no longer than `seconds`. Contracts
    that another one represents come last, and only with `all_contracts`.
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
        self._asked: dict[str, pd.Timestamp] = {}
        self._held: dict[str, tuple[pd.Timestamp, State]] = {}

    def poll(self, contracts: Contracts, states: Mapping[str, State], now: pd.Timestamp) -> Share:
        """Ask for a share of the contracts; `states` of this minute have the marks and the volumes."""
        share = Share([], [], "")
        bad = 0
        started = self._session.clock.utc()
        others = {item.name for item in contracts.others}
        for endpoint, item in self.due(contracts, states, now):
            spent = (self._session.clock.utc() - started).total_seconds()
            if self._seconds is not None and spent >= self._seconds:
                break
            self._asked[item.name] = now
            state = states.get(item.name)
            point, error, weight = self._try(endpoint, item, None if state is None else state.mark)
            bad = bad + weight if error else 0
            if item.name not in others:  # of other contracts the open interest alone is needed: see `known`
                share = share._replace(error=error or share.error)
                share.points.extend([] if point is None else [point])
                self._enter(share, endpoint, item, now, error)
            if bad >= _MOST_BAD or endpoint not in self.endpoints:
                break
        return share

    def _try(
        self, endpoint: VenueEndpoint, item: Instrument, mark: float | None
    ) -> tuple[OiPoint | None, str, int]:
        """Ask for one contract; return its open interest, or the error and how much that counts."""
        try:
            return self._ask(endpoint, item, mark), "", 0
        except Stopped:
            raise
        except DerivdataError as problem:
            if isinstance(problem, VenueError) and (problem.status == 404 or problem.reason == "region"):
                self.endpoints.remove(endpoint)  # there is no such request here: not again in this run
            refused = isinstance(problem, VenueError) and problem.reason == "refused"
            # Out of reach, busy or limiting, the venue would answer about the next contract no better.
            weight = _MOST_BAD if isinstance(problem, VenueError | NetworkError) and not refused else 1
            return None, str(problem), weight

    def _enter(
        self, share: Share, endpoint: VenueEndpoint, item: Instrument, now: pd.Timestamp, error: str
    ) -> None:
        """Add a request for a perpetual to the ledger, where its symbol represents it."""
        if item.perpetual:
            start = now.floor("min")
            end = start + pd.Timedelta(endpoint.every or 0, "s")
            share.requests.append(LedgerEntry(endpoint.exchange, item.symbol, start, end, error[:500]))

    def known(self, now: pd.Timestamp) -> list[State]:
        """Return the open interest that is not older than its cadence, without an instant of its own."""
        oldest = now - self._cadence() - _MINUTE
        return [state for at, state in self._held.values() if at >= oldest]

    @property
    def covered(self) -> int:
        """Return of how many contracts open interest is known."""
        return len(self._held)

    def _cadence(self) -> pd.Timedelta:
        return pd.Timedelta(max((e.every or 0.0 for e in self.endpoints), default=0.0), "s")

    def due(
        self, contracts: Contracts, states: Mapping[str, State], now: pd.Timestamp
    ) -> list[tuple[VenueEndpoint, Instrument]]:
        """Return what to ask in this poll, in order."""

        def volume(item: Instrument) -> float:
            state = states.get(item.name)
            return (state.volume_usd if state is not None else None) or 0.0

        listed: list[tuple[VenueEndpoint, Instrument]] = []
        for endpoint in self.endpoints:
            own = [item for item in contracts.collected if endpoint.covers(item)]
            others = contracts.others if self._all_contracts else []
            others = [item for item in others if endpoint.covers(item)]
            fitting = sorted(own, key=volume, reverse=True) + sorted(others, key=volume, reverse=True)
            listed += [(endpoint, item) for item in fitting[: endpoint.largest or None]]
        self.wanted = len(listed)
        names = {item.name for _, item in listed}
        self._held = {name: held for name, held in self._held.items() if name in names}
        never = pd.Timestamp(0, tz="UTC")

        other_names = {item.name for item in contracts.others}

        def rank(one: tuple[VenueEndpoint, Instrument]) -> tuple[pd.Timestamp, bool, bool, float]:
            item = one[1]
            last = self._asked.get(item.name, never)
            return last, item.name in other_names, item.symbol not in self._symbols, -volume(item)

        listed.sort(key=rank)
        since = now - self._cadence() + _MINUTE / 2  # a poll may begin some seconds late
        due = [one for one in listed if self._asked.get(one[1].name, never) <= since]
        if self._seconds is None:
            return due
        return due[: ceil(len(listed) * (_MINUTE / max(self._cadence(), _MINUTE)))]

    def _ask(self, endpoint: VenueEndpoint, item: Instrument, mark: float | None) -> OiPoint:
        """Ask for one contract, and value its coins at the mark of the same minute."""
        params = {endpoint.symbol: contract_name(endpoint, item)}
        records, _, _ = self._session.ask(endpoint, params, context={"instrument": item.name})
        state = next((row for row in records.states if row.instrument.name == item.name), None)
        if state is None or (state.oi_coins is None and state.oi_usd is None):
            raise DerivdataError(f"{endpoint.where}: the response lacks {item.name}")
        usd = state.oi_usd
        if usd is None and state.oi_coins is not None and mark is not None:
            usd = state.oi_coins * mark
        if usd is None:
            why = f"open interest of {item.name} is in coins, and no mark price of the same minute is at hand"
            raise DerivdataError(f"{endpoint.where}: {why}")
        now = self._session.clock.utc()
        told = State(item, None, volume_usd=state.volume_usd, change_pct=state.change_pct)
        self._held[item.name] = now, told._replace(oi_coins=state.oi_coins, oi_usd=usd)
        time = times.us(now) if state.time is None else state.time
        return OiPoint(item, time, usd, "raw", state.oi_coins)


class _Seen(NamedTuple):
    """The payment that an answer named as the next, when, and the hours since the payment before."""

    next_payment: int
    at: int
    hours: float | None


class PaymentSpacing:
    """What the polls of one venue told of its contracts' next payments."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def fill(self, states: Iterable[State], at: pd.Timestamp) -> list[State]:
        """Return states with the interval of each rate whose answer names the next payment.

        It is known from the first payment on that passes between polls less than an hour apart, which cannot
        have missed another, until one passes that no two such polls saw; a list's interval may be older.
        """
        filled = []
        for state in states:
            if state.rate is not None and state.next_payment is not None:
                now = times.us(at) if state.time is None else state.time  # by the venue's clock, if told
                seen = self._seen.get(state.instrument.name)
                hours = None if seen is None else seen.hours
                if seen is not None and state.next_payment != seen.next_payment:
                    spacing = (state.next_payment - seen.next_payment) / _HOUR_US
                    # A venue may name a payment as the next for some seconds after it was made.
                    passed = seen.next_payment <= now < min(seen.at, seen.next_payment) + _HOUR_US
                    hours = spacing if passed and spacing in VALID_HOURS else None
                self._seen[state.instrument.name] = _Seen(state.next_payment, now, hours)
                if hours is not None or state.period_h is None:
                    state = state._replace(period_h=hours, settle_h=hours)
            filled.append(state)
        return filled
