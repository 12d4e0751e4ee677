"""Liquidations by request: from a venue's public list of liquidations, or from its list of all trades.

A stream has another ID, price and clock for the same event. If a venue's path changes between stream and
requests, the same event has equal contract, side and coins in both, and times within a second.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from math import isclose
from typing import NamedTuple

import pandas as pd

from derivdata.errors import DerivdataError, SchemaError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import contract_name, endpoints_for
from derivdata.sources.collect.history_rows import PartialPage, entries, pages
from derivdata.sources.collect.session import Contracts, Stopped, VenueSession
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, Liquidation, Records
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.support.times import Window

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
    """The liquidations of one venue, requested from the end of the last answered poll.

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
    """Return the ledger entries of a window that was answered from some time on."""
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
