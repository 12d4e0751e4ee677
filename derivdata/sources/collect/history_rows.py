"""One history of one contract: the requests that return it, and the rows of a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.errors import SchemaError
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import contract_name, endpoints_for
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import DATED, Venue, VenueEndpoint, walk
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.registry import VENUES
from derivdata.sources.venues.row_checks import implied_price_doubts
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.tables.history_rows import is_off_grid, shown_time, step_text

TABLES = {
    "funding_settlements": ("settlements",),
    "oi_history": ("oi_history",),
    "prices_history": ("prices", "oi_history", "settlements"),
    DATED: ("prices",),
    "funding_history": ("funding_series",),
    "positioning_history": ("positioning", "oi_history"),
    "prices_spot": ("spot",),
    "volume_taker": ("taker", "oi_history"),
    "liquidations_fills": ("liquidations",),
    "options_trades": ("option_trades",),
    "delivery_prices": ("deliveries",),
    "volatility_index_published": ("volatility_index",),
}
"""Tables that venues' histories can refill, and the kinds of request for each.

Some venues have reliable prices only in responses about open interest or payments; Gate has all of its
statistics in one response.
"""
OF_KINDS = ("prices_history", "positioning_history", "delivery_prices")
"""Tables for which each request returns another kind of rows."""

NAMED_ONLY = (
    "positioning_history",
    "prices_spot",
    "volume_taker",
    "options_trades",
    "delivery_prices",
    "volatility_index_published",
)
"""Tables collected only if named, since each takes several requests per contract and hour."""

_BEFORE = {
    "funding_settlements": pd.Timedelta(25, "h"),  # three payments of 8 h confirm the first row's interval
    "positioning_history": pd.Timedelta(2, "h"),  # a period that ends in the window; some omit the start
    "volume_taker": pd.Timedelta(1, "h"),
    "volatility_index_published": pd.Timedelta(2, "h"),
}
_MOST_PAGES = 20_000
_BESIDE = pd.Timedelta(1, "h")
_PROGRESS_EVERY = 5  # requests of a walk between progress lines
_ASIDE_US = times.us(pd.Timedelta(1, "D"))
"""Distance of rows from their window: a bucket of a day may be stamped at either end."""
_ENDS_WITHIN = pd.Timedelta(1, "D")
"""Maximum time from the last row of a traded contract to the end of a window; it pays every 8 hours."""
_AHEAD = pd.Timedelta(10, "min")
_EVENTS = ("options_trades", "delivery_prices")
"""Tables with a row per event; a symbol may be without events for days."""


def pages(
    session: VenueSession,
    endpoint: VenueEndpoint,
    first: int,
    last: int,
    given: Mapping[str, str],
    *,
    context: Mapping[str, Any] | None = None,
) -> Iterator[Records]:
    """Yield every page of a window [µs], or raise; `given` has the parameters that do not change.

    The first empty page of a walk is requested again, because one of the venue's servers may be behind.
    """
    steps = walk(endpoint.paging, first, last)
    params = next(steps)
    is_sure = endpoint.paging is None
    for number in range(1, _MOST_PAGES + 1):
        page, _, _ = session.ask(endpoint, {**params, **given}, context=context)
        if not page.times and not is_sure:
            page, _, _ = session.ask(endpoint, {**params, **given}, context=context)
            is_sure = True
        _require_window(endpoint, page, first, last)
        if number % _PROGRESS_EVERY == 0 and session.progress is not None and page.times:
            is_back = endpoint.paging is not None and endpoint.paging.descending
            walked = last - min(page.times) if is_back else max(page.times) - first
            share = min(max(walked / max(last - first, 1), 0.001), 1.0)
            named = " ".join([endpoint.exchange, endpoint.place, *given.values()])
            session.progress(f"{named}: {number} of about {max(number, round(number / share))} requests")
        yield page
        try:
            params = steps.send(page)
        except StopIteration:
            return
        except SchemaError as problem:
            raise SchemaError(f"{endpoint.where}: {problem}") from None
    raise SchemaError(f"{endpoint.where}: {_MOST_PAGES:,} pages do not reach the end of the window")


def _require_window(endpoint: VenueEndpoint, page: Records, first: int, last: int) -> None:
    """Raise `SchemaError` if all rows of a page are outside of the requested window [µs]."""
    paging = endpoint.paging
    if paging is None or not (paging.start and paging.end and page.times):
        return
    oldest = min(page.times)
    newest = max(page.times)
    if newest < first - _ASIDE_US or oldest > last + _ASIDE_US:
        days = [np.datetime64(stamp, "us") for stamp in (first, last, oldest, newest)]
        raise SchemaError(
            f"{endpoint.where}: requested {days[0]} to {days[1]}, the response has rows from {days[2]} to "
            f"{days[3]}"
        )


def require_contract(endpoint: VenueEndpoint, page: Records, item: Instrument) -> None:
    """Raise `SchemaError` if a page is about another contract than requested."""
    pasts = (page.payments, page.oi, page.prices, page.positioning, page.taken, page.books)
    contracts = {row.instrument.name: row.instrument.symbol for rows in pasts for row in rows}
    named = {*contracts.values()}
    of_many = endpoint.symbol in ("", "currency")
    others = ""
    if len(contracts) > 1 and not of_many:
        others = " and ".join(sorted(contracts)[:2])
    elif named and (item.symbol not in named if of_many else named != {item.symbol}):
        others = ", ".join(sorted(named - {item.symbol})[:3])
    if others:
        raise SchemaError(f"{endpoint.where}: requested {item.name}, the response is about {others}")


def refilling(venue: Venue, table: str, *, unconfirmed: bool) -> list[VenueEndpoint]:
    """Return the requests that refill a table, in order of preference."""
    return [
        endpoint
        for what in TABLES[table]
        for endpoint in endpoints_for(venue, what, unconfirmed=unconfirmed)
        if table in endpoint.tables and (table not in _EVENTS or endpoint.paging is not None)
    ]


class PartialPage(NamedTuple):
    """An incomplete page: the affected window, and the reason.

    `missing` is the number of rows that are missing at the step of the series. With `is_open` the last rows
    are missing.
    """

    window: times.Window
    error: str
    missing: int = 0
    is_open: bool = False

    @classmethod
    def of(cls, page: Records, window: times.Window) -> PartialPage | None:
        """Return a page with omitted rows, cut to a window; None if it is complete."""
        if not page.left_out:
            return None
        start, end = window
        if page.times:
            stamps = pd.to_datetime([min(page.times), max(page.times)], unit="us", utc=True)
            # An omitted row may be at an edge of the page.
            start = max(start, stamps[0] - _BESIDE)
            end = min(end, stamps[1] + _BESIDE)
        error = f"{len(page.left_out)} rows left out: {page.left_out[0]}"
        return cls(times.Window(start, end), error[:500]) if start < end else None


class History(NamedTuple):
    """The rows of a window, and its incomplete pages."""

    rows: pd.DataFrame
    partial: list[PartialPage]
    doubts: Sequence[str] = ()


def entries(
    exchange: str,
    symbol: str | None,
    window: times.Window,
    partial: Iterable[PartialPage],
    at: pd.Timestamp | None = None,
) -> list[LedgerEntry]:
    """Return the ledger entries of a window: successful, except where rows were omitted or are missing.

    `at` is the time of the response.
    """
    result = list[LedgerEntry]()
    start = window.start
    for page in sorted(partial, key=lambda page: page.window.start):
        first = max(page.window.start, start)
        last = min(page.window.end, window.end)
        if first < last:
            if start < first:
                result.append(LedgerEntry(exchange, symbol, start, first))
            incomplete_at = at if page.missing else None
            result.append(
                LedgerEntry(exchange, symbol, first, last, page.error, None, incomplete_at, page.is_open)
            )
            start = last
    if start < window.end:
        result.append(LedgerEntry(exchange, symbol, start, window.end))
    return result


def history(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument, table: str, window: times.Window
) -> History:
    """Walk one history of one contract and return the rows of the window.

    A page that fails raises. Single rows that fail are omitted, and their page is in `History.partial`.
    """
    first = times.us(window.start - _BEFORE.get(table, pd.Timedelta(0)))
    last = times.us(window.end)
    records = Records()
    given = {endpoint.symbol: contract_name(endpoint, item)} if endpoint.symbol else {}
    context: dict[str, Any] = {"instrument": item.name}
    marks = endpoint.marks
    if marks is not None and (table == DATED if DATED in endpoint.tables else not item.inverse):
        prices = Records()
        of_contract = {marks.symbol: contract_name(marks, item)}
        for page in pages(session, marks, first, last, of_contract, context=context):
            require_contract(marks, page, item)
            prices.add(page)
        prices.prices = list({row.time: row for row in prices.prices}.values())  # pages overlap by a row
        if table == DATED:
            records.prices = prices.prices
        else:
            context |= frames(endpoint.exchange, prices, ["prices_history"])
    partial: list[PartialPage] = []
    for page in pages(session, endpoint, first, last, given, context=context):
        require_contract(endpoint, page, item)
        records.add(page)
        if (incomplete := PartialPage.of(page, window)) is not None:
            partial.append(incomplete)
    _require_past(endpoint, records, session.clock.utc())
    frame = _of_window(endpoint, records, item, table, window)
    if table not in _EVENTS:
        _require_whole(session, endpoint, frame, item, table, window)
    doubts = list(implied_price_doubts(records.oi)) if table == "oi_history" else []
    return History(frame, partial, doubts)


def _require_whole(
    session: VenueSession,
    endpoint: VenueEndpoint,
    frame: pd.DataFrame,
    item: Instrument,
    table: str,
    window: times.Window,
) -> None:
    """Raise `SchemaError` if rows of a traded contract end long before the window, or are too sparse.

    An empty history may be before the listing, or of a new contract, if other contracts have rows until now.
    Payments of a listed contract may not be empty while others are paid.
    """
    where = f"{endpoint.where}: {item.name}"
    now = session.clock.utc()
    end = min(window.end, now)
    is_recent = end >= now - _ENDS_WITHIN
    first = window.end if item.listed is None else pd.Timestamp(item.listed, unit="us", tz="UTC")
    is_due = table == "funding_settlements" and max(first, window.start) < end - _ENDS_WITHIN
    empty_end = window.start if is_recent or is_due else end  # how far an empty history reaches
    newest = frame["time"].max() if len(frame) else empty_end
    is_short = item.active and newest < end - _ENDS_WITHIN
    others = is_short and frame.empty and _has_rows_of_another(session, endpoint, item, table, end)
    if is_short and (len(frame) or (is_due if others else is_recent)):
        raise SchemaError(
            f"{where} is still traded, but its rows end at {times.iso(newest)} in a window until "
            f"{times.iso(end)}"
        )
    words = list(frame["resolution"].unique()) if "resolution" in frame else []
    step = times.RESOLUTIONS.get(str(words[0])) if len(words) == 1 else None
    if step is not None:
        _require_grid(frame, times.us(step), where)
    apart = frame["time"].sort_values().diff().median()
    is_thinned = endpoint.paging is not None and endpoint.paging.thinned
    if step is not None and len(frame) > 3 and not is_thinned and apart > 1.5 * step:
        raise SchemaError(f"{where}: rows must be {step} apart, got {apart}")


def _require_past(endpoint: VenueEndpoint, records: Records, now: pd.Timestamp) -> None:
    """Raise `SchemaError` for rows in the future, whose times have another zone or unit."""
    pasts: tuple[Sequence[Any], ...] = (
        records.payments,
        records.oi,
        records.prices,
        records.positioning,
        records.taken,
    )
    newest = max((row.time for rows in pasts for row in rows), default=0)
    if newest > times.us(now + _AHEAD):
        stamp = times.iso(pd.Timestamp(newest, unit="us", tz="UTC"))
        raise SchemaError(f"{endpoint.where}: the newest row is of {stamp}, but the time is {times.iso(now)}")


def _require_grid(frame: pd.DataFrame, step: int, where: str) -> None:
    """Raise `SchemaError` for rows that are not on the grid of their step [µs]."""
    stamps = frame["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
    is_off = is_off_grid(stamps, step)
    if is_off.any():
        first = shown_time(int(stamps[is_off].min()))
        count = f"{int(is_off.sum())} of {len(stamps)}"
        raise SchemaError(f"{where}: {count} rows are off the {step_text(step)} grid, first {first}")


def _has_rows_of_another(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument, table: str, end: pd.Timestamp
) -> bool:
    """Return whether an endpoint has rows of the last day for BTC, or for its first contract."""
    listing = session.shared.listing
    listed = [] if listing is None else listing.contracts.by_symbol.values()
    other = min(filter(endpoint.covers, listed), key=lambda contract: contract.symbol != "BTC", default=item)
    last_day = times.Window(end - _ENDS_WITHIN, end)
    return other.symbol != item.symbol and len(history(session, endpoint, other, table, last_day).rows) > 0


def _of_window(
    endpoint: VenueEndpoint, records: Records, item: Instrument, table: str, window: times.Window
) -> pd.DataFrame:
    """Return the rows of a table in a window; of rows in two pages the last one."""
    records.oi = list({row.time: row for row in records.oi}.values())  # pages overlap by a row
    records.taken = list({row.time: row for row in records.taken}.values())
    records.positioning = list({(row.time, row.kind): row for row in records.positioning}.values())
    records.prices = list({(row.time, row.kind): row for row in records.prices}.values())
    records.trades = list({(row.option.name, row.trade_id): row for row in records.trades}.values())
    records.indices = list({row.time: row for row in records.indices}.values())
    usual = VENUES[endpoint.exchange].usual_hours
    frame = frames(endpoint.exchange, records, [table], listed=usual)[table]
    inside = (frame["time"] >= window.start) & (frame["time"] < window.end) & (frame["symbol"] == item.symbol)
    unvalued = [row.oi_usd is None for row in records.oi]
    if table == "volume_taker":
        unvalued = frame.loc[inside, "buy_usd"].isna().tolist()
    if table in ("oi_history", "volume_taker") and any(unvalued):
        why = f"{table} of {item.name} is in coins, without prices of the same minutes"
        raise SchemaError(f"{endpoint.where}: {why}")
    return tables.TABLES[table].conform(frame[inside])
