"""Liquidations by request: from a venue's public list of them, or from the trades that they are among.

A stream tells the same event by another id, price and clock. Where the path of a venue changes, one that came
by both agrees in contract, side and coins, and in the instant to a second.
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
_OVERLAP = pd.Timedelta(2, "min")  # a venue may list a liquidation a little after it
_LONGEST = pd.Timedelta(1, "h")  # of a poll; what is older is left to the refills
_APART = pd.Timedelta(1, "s")
_SAME_COINS = 1e-6


class ListWalk(NamedTuple):
    """One list to walk: a request, the value of its parameter `symbol`, and the contract if it is of one."""

    endpoint: VenueEndpoint
    name: str
    item: Instrument | None


class WalkedRows(NamedTuple):
    """The liquidations of a window, and the instant from which on none is missing."""

    rows: pd.DataFrame
    whole_from: pd.Timestamp
    partial: list[PartialPage]  # pages of which rows were left out


def covers_all(endpoint: VenueEndpoint) -> bool:
    """Whether a request is about all contracts, or those of a currency, and not about one."""
    return not endpoint.symbol or bool(endpoint.each)


def walks_of(endpoints: Sequence[VenueEndpoint], contracts: Contracts, symbol: str | None) -> list[ListWalk]:
    """Return the lists that hold the liquidations of a symbol, of all its contracts; of all (None)."""
    if symbol is None:
        return [ListWalk(e, value, None) for e in endpoints if covers_all(e) for value in e.each or ("",)]
    walks = []
    for item in contracts.items:
        if item.symbol == symbol and item.perpetual and item.active:
            fitting = [e for e in endpoints if not covers_all(e) and e.covers(item)]
            walks += [ListWalk(e, contract_name(e, item), item) for e in fitting[:1]]
    return walks


def liquidations(session: VenueSession, walks: Sequence[ListWalk], window: Window) -> WalkedRows:
    """Walk some lists over a window; rows of shortly before it come along, and have the ids they had."""
    first = times.us(window.start - _OVERLAP)
    last = times.us(window.end)
    rows: list[Liquidation] = []
    whole = first
    partial = list[PartialPage]()
    for one in walks:
        listed, reached, lacking = _walked(session, one, first, last)
        partial += lacking
        rows += [row for row in listed if first <= row.time < last]
        whole = max(whole, reached)
    name = session.venue.exchange
    frame = frames(name, Records(liquidations=rows), [LIQUIDATIONS])[LIQUIDATIONS]
    since = pd.Timestamp(whole, unit="us", tz="UTC").as_unit("us")
    return WalkedRows(frame, max(window.start, since), partial)


def _walked(
    session: VenueSession, one: ListWalk, first: int, last: int
) -> tuple[list[Liquidation], int, list[PartialPage]]:
    """Return the rows of all pages, from when on [µs] they are whole, and pages that lack rows.

    Equal rows of one instant are different fills. Pages by time overlap: of each row the most that one page
    shows count, since the page that an edge does not cut shows all of them. Pages by cursor do not.
    """
    endpoint = one.endpoint
    rows = Counter[Liquidation]()
    context = None if one.item is None else {"instrument": one.item.name}
    limit = endpoint.paging.limit if endpoint.paging else 0
    by_cursor = endpoint.paging is not None and endpoint.paging.by == "cursor"
    page = Records()
    partial = list[PartialPage]()
    window = Window(*pd.to_datetime([first, last], unit="us", utc=True).as_unit("us"))
    given = {endpoint.symbol: one.name} if one.name else {}
    for page in pages(session, endpoint, first, last, given, context=context):
        if limit and len(page.times) >= limit and min(page.times) == max(page.times):
            why = f"a page of {limit} rows is of one instant, which may have more"
            raise SchemaError(f"{endpoint.where}: {why}")
        if (lacking := PartialPage.of(page, window)) is not None:
            partial.append(lacking)
        shown = Counter(page.liquidations)
        rows = rows + shown if by_cursor else rows | shown
    descending = endpoint.paging is not None and endpoint.paging.descending
    is_cut = descending and limit and len(page.times) >= limit and min(page.times) > first
    # The end of a list may cut equal rows of its oldest instant.
    rows = Counter({row: 1 if row.order_id else count for row, count in rows.items()})
    return [*rows.elements()], min(page.times) + 1 if is_cut else first, partial


class LiquidationPolls:
    """The liquidations of one venue, asked for again from where the last poll that was answered ended.

    Where a venue has no list of all, `symbols` are asked for one by one.
    """

    def __init__(self, session: VenueSession, symbols: Sequence[str], *, unconfirmed: bool) -> None:
        self._session = session
        listed = endpoints_for(session.venue, "liquidations", unconfirmed=unconfirmed)
        self._endpoints = [endpoint for endpoint in listed if endpoint.every is not None]
        self._scopes: list[str | None] = [None] if any(map(covers_all, self._endpoints)) else [*symbols]
        self._every = pd.Timedelta(max((e.every or 0 for e in self._endpoints), default=0), "s")
        self._answered: dict[str | None, pd.Timestamp] = {}

    @property
    def is_told(self) -> bool:
        """Whether there is anything to ask for."""
        return bool(self._endpoints and self._scopes)

    def poll(
        self, contracts: Contracts, now: pd.Timestamp
    ) -> tuple[list[pd.DataFrame], list[LedgerEntry], str]:
        """Return the rows since the last poll, what was asked for them, and the last error."""
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
    """Return the ledger's entries for a window that was answered from an instant on."""
    whole_from = fills.whole_from
    if whole_from >= window.end:
        return [LedgerEntry(exchange, symbol, *window, "the venue's list begins later")]
    answered = entries(exchange, symbol, Window(whole_from, window.end), fills.partial)
    if whole_from > window.start:
        lost = f"the venue's list begins at {whole_from:%Y-%m-%d %H:%M:%S}"
        answered.append(LedgerEntry(exchange, symbol, window.start, whole_from, lost))
    return answered


def has_two_paths(venue: Venue) -> bool:
    """Return whether a venue tells its liquidations both by a stream and by request."""
    return venue.stream is not None and any(
        endpoint.what == "liquidations" and endpoint.method != "WS" for endpoint in venue.endpoints
    )


def without_other_path(
    archive: Archive, exchange: str, rows: pd.DataFrame, own: Collection[str] = ()
) -> pd.DataFrame:
    """Return the fills of one venue except those that the archive has by the venue's other path.

    `own` are ids of what came by the same path before: such a row is another event, however alike. Each
    stored row represents one of `rows` at most: equal fills of one instant are different events.
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
        twins = others[str(row.symbol), str(row.side)]
        twin = None if row.order_id in stored_ids else next((t for t in twins if _is_twin(row, *t)), None)
        if twin is not None:
            twins.remove(twin)
        is_new.append(twin is None)
    return rows[is_new]


def _is_twin(row: object, time: pd.Timestamp, quantity: float) -> bool:
    """Return whether a stored row may be the same event: some venues count what is ordered, others fills."""
    coins = (row.quantity, row.filled_quantity)  # type: ignore[attr-defined]
    near = abs(row.time - time) <= _APART  # type: ignore[attr-defined]
    return near and any(isclose(each, quantity, rel_tol=_SAME_COINS) for each in coins)
