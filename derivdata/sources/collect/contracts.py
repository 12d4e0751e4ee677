"""Contracts that a venue lists, and the one that represents each symbol."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from derivdata.client.transport.keyless import Unreachable
from derivdata.errors import DerivdataError, NetworkError, SchemaError, VenueError
from derivdata.sources.archive import Archive
from derivdata.sources.collect.files import is_collected
from derivdata.sources.collect.questions import hold_list
from derivdata.sources.collect.session import ContractList, Contracts, Stopped, VenueSession
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.tables.contracts import base, hip3_contract

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
