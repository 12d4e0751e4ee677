"""Contracts that a venue lists, and the one that represents each symbol."""

from __future__ import annotations

import pandas as pd

from derivdata.errors import DerivdataError, VenueError
from derivdata.sources.collect.files import is_collected
from derivdata.sources.collect.session import ContractList, Contracts, Stopped, VenueSession
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.tabulation import frames
from derivdata.sources.venues.wire import us_of

__all__ = ["contract_name", "endpoints_for", "list_contracts"]

_PAGES = 50
_LISTED_FOR = pd.Timedelta(1, "h")


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
    if endpoint.symbol == "market_id":
        return item.name.partition(":")[0]
    if endpoint.symbol == "pair":
        return item.name.partition("_")[0]
    if endpoint.symbol == "currency":
        return item.symbol if item.inverse else item.quote
    if endpoint.symbol == "instFamily":
        return item.name.removesuffix("-SWAP")
    return item.name


def list_contracts(session: VenueSession) -> Contracts:
    """Return the contracts of this hour's list; it and the intervals become the session's context.

    Lists are asked for again in each hour, since an interval can change with each payment. A list that fails
    leaves the older one in use, and is asked for again the next time.

    Raises
    ------
    VenueError, NetworkError, SchemaError
        There is no list yet, and none came; or the venue refuses this address.
    Stopped
        The clock was stopped.
    """
    shared = session.shared
    listing = shared.listing
    now = session.clock.utc()
    if listing is None or now.floor(_LISTED_FOR) > listing.at.floor(_LISTED_FOR):
        try:
            listing, shared.listing_error = _listing(session), ""
        except Stopped:
            raise
        except DerivdataError as problem:
            if listing is None or (isinstance(problem, VenueError) and problem.reason == "region"):
                raise
            shared.listing_error = str(problem)
        shared.listing = listing
    session.context.update(listing.frames)
    return listing.contracts


def _listing(session: VenueSession) -> ContractList:
    """Ask for the lists of contracts and intervals."""
    at, records = session.clock.utc(), Records()
    for endpoint in session.venue.endpoints:
        if endpoint.lists:
            records.add(_all_pages(session, endpoint))
        elif endpoint.what == "intervals" and endpoint.exchange != "hyperliquid":
            records.add(session.ask(endpoint)[0])
    records.instruments = list({item.name: item for item in records.instruments}.values())
    names = ["instruments", "intervals"]
    tables = frames(session.venue.exchange, records, names, at=us_of(session.clock.utc()))
    return ContractList(at, Contracts(records.instruments), tables)


def _all_pages(session: VenueSession, endpoint: VenueEndpoint) -> Records:
    records, cursor = Records(), ""
    for _ in range(_PAGES):
        name = endpoint.paging.cursor if endpoint.paging else ""
        page, _, _ = session.ask(endpoint, {name: cursor} if cursor and name else {})
        records.add(page)
        cursor = page.cursor or ""
        if not cursor or not name:
            break
    return records
