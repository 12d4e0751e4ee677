"""Liquidations: orders, a live feed of orders, and totals.

``side`` is the side that was liquidated. Some venues throttle their feeds, so levels cannot be compared
across venues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal, TypeAlias

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, decode_items, timestamps
from derivdata.client.retrieval import (
    get_windows,
    pieces,
    rolling,
    symbol_filter,
    symbol_names,
    tabulate,
    venue_names,
)
from derivdata.client.transport import DecodedResponse
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.text import warn_caller
from derivdata.tables import endpoints

__all__ = ["aggregates", "events", "history", "poll"]
__dir__ = __all__.copy

_LIMIT = 1000
"""Maximum number of orders in one response, unless `limit` is given."""
_MAX_PAGE = 100_000
"""Maximum number of orders that is requested at once."""
_MILLISECOND = pd.Timedelta(1, "ms")
_ADVICE = "raise limit or shorten the window"

Cut: TypeAlias = Literal["oldest", "newest"]
"""The orders that are missing in a full response."""


class _Event(msgspec.Struct, gc=False):
    timestamp: str
    exchange: str
    symbol: str
    side: str
    oid: str | int
    usd_value: float
    price: float | None = None
    avg_price: float | None = None
    quantity: float | None = None
    filled_quantity: float | None = None
    status: str | None = None
    fill_count: int | None = None


class _Events(Envelope):
    events: list[msgspec.Raw]
    coverage: dict[str, list[tuple[str, str]]] | None = None


_EVENTS = msgspec.json.Decoder(list[_Event])


@typed
def events(
    symbols: str | Sequence[str] | None = None,
    since: times.TimeLike | None = None,
    *,
    limit: int | None = None,
    min_usd: float | None = None,
    venues: str | Sequence[str] | None = None,
    exclude_symbols: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the latest liquidation orders, or all orders since a time.

    Parameters
    ----------
    symbols
        Assets, ``["BTC", "ETH"]``; None requests all of them except `exclude_symbols`.
    since
        Only orders after this time, or after a lookback such as ``"2h"``.
    limit
        Maximum number of orders: with `since` the first ones after it, otherwise the newest ones. None
        returns all orders after `since`, requested page by page, or without `since` the newest 1,000. If the
        result has `limit` orders, a `DataNotice` states that there may be more.
    min_usd
        Minimum value of an order [USD]. The service ignores it together with `since`, so the library filters
        each page, and requests further pages until the window is complete or `limit` orders remain.
    venues
        Venues; None requests all of them.
    exclude_symbols
        Assets to exclude; not together with `symbols`.

    Returns
    -------
    DataFrame, table ``liquidations_events``
        One row per order of a venue, with its fills consolidated, in order of time. ``side`` is the
        liquidated side, ``value_usd`` [USD]. Prices and sizes that the service does not have are NaN.
        ``attrs["provenance"]["coverage"]`` has the spans that the result covers (``observed``) and those in
        which orders may be missing (``missed``). If the service stores when each venue was requested or
        streamed, ``asked`` has these spans by venue, and ``observed`` is limited to the spans of all venues.

    Raises
    ------
    ValueError, TypeError
        `limit` is not positive, `symbols` and `exclude_symbols` are both given, or a type is wrong.
    FetchError, SchemaError
        A request failed, or a response is not this table.

    Notes
    -----
    ``GET /liquidations/events``, Dev and above. The API document does not define whether the newest or the
    oldest orders are missing in a full response with `since`; the library requests a single order to find
    out. If the newest are missing, the next page starts at the last order. If the oldest are missing, the
    page is enlarged up to 100,000 orders. If it is still full, the span before its first order is
    ``missed``, with a `DataNotice`.

    Examples
    --------
    >>> orders = dd.liquidations.events(since="1h", min_usd=10_000.0)
    >>> bool((orders["value_usd"] >= 10_000.0).all()), orders["time"].is_monotonic_increasing
    (True, True)
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be a positive integer, got {limit}")
    after = None if since is None else times.since(since)
    query = {
        "since": after,
        "limit": _LIMIT if limit is None else limit,
        "min_usd": min_usd,
        "exchange": venue_names(venues),
        "symbol": symbol_filter(symbols),
        "exclude_symbol": symbol_filter(exclude_symbols, "exclude_symbols"),
    }
    if after is not None and (limit is None or min_usd is not None):
        return _all_since(query, after, limit)
    frame, full = _request(query)
    provenance = frame.attrs["provenance"]
    provenance |= {"coverage": _within_requested(_covered(frame, after, full=full), provenance)}
    if full:
        _notice(
            provenance, f"the result has limit={query['limit']} rows, so more orders may exist: {_ADVICE}"
        )
    if min_usd is not None:
        frame = tables.TABLES["liquidations_events"].conform(frame[frame["value_usd"] >= min_usd])
    frame.attrs["provenance"] = provenance
    return frame


def _all_since(query: Mapping[str, Any], since: pd.Timestamp, limit: int | None) -> pd.DataFrame:
    """Request the orders after a time page by page; return at most `limit` orders of the minimum value."""
    # 1. Request pages until the window is complete or `limit` orders match. `min_usd` is not sent: the
    # service ignores it together with `since`.
    request = {**query, "min_usd": None, "since": since, "limit": max(query["limit"], _LIMIT)}
    pages: list[pd.DataFrame] = []
    matching = 0
    lacks: Cut | None = None
    while True:
        page, missing = _next_page(request, lacks, complete=True)
        lacks = missing or lacks
        pages.append(page)
        matching += len(_large(page, query["min_usd"]))
        if missing != "newest" or (limit is not None and matching >= limit):
            break
        request["since"] = _just_before_last(page)
    # 2. Join the pages, and find the span that they cover.
    table = tables.TABLES["liquidations_events"]
    orders = pd.concat(pages, ignore_index=True).drop_duplicates(["exchange", "order_id"])
    frame = table.conform(_large(orders, query["min_usd"]))
    end = times.timestamp(page.attrs["provenance"]["as_of"])
    observed, _ = _covered_span(page, since, missing)
    covered_until = observed.end
    provenance = _merged([page.attrs["provenance"] for page in pages])
    if missing == "oldest":
        size = f"the service returns at most {len(page):,} orders"
        _notice(
            provenance,
            f"orders before {times.iso(observed.start)} may be missing because {size}: request a shorter "
            "window",
        )
    # 3. Cut the result at `limit`.
    if limit is not None and len(frame) >= limit:
        frame = table.conform(frame.head(limit))
        covered_until = frame["time"].iloc[-1]
        _notice(provenance, f"the result has limit={limit} rows, so more orders may exist: {_ADVICE}")
    # Empty spans, such as the first one unless the oldest orders are missing, are dropped by `_coverage`.
    missed = [times.Window(since, observed.start), times.Window(covered_until, end)]
    observed = times.Window(observed.start, covered_until)
    spans = _within_requested(_coverage([observed], missed), provenance)
    frame.attrs["provenance"] = provenance | {"coverage": spans}
    return frame


def _large(orders: pd.DataFrame, min_usd: float | None) -> pd.DataFrame:
    """Return the orders of at least a value [USD]; all without one."""
    if min_usd is None:
        return orders
    return orders[orders["value_usd"] >= min_usd]


def _merged(pages: Sequence[Any]) -> Any:
    """Return the provenance of the last page with the requests and notices of all pages."""
    requests = [request for page in pages for request in page["requests"]]
    notices = list(dict.fromkeys(notice for page in pages for notice in page["notices"]))
    return pages[-1] | {"requests": requests, "notices": notices}


def _notice(provenance: dict[str, Any], notice: str) -> None:
    """Warn of a notice and add it to the provenance."""
    warn_caller(f"{endpoints.LIQUIDATIONS_EVENTS.path}: {notice}")
    provenance["notices"] = [*provenance["notices"], notice]


def _next_page(
    query: Mapping[str, Any], cut: Cut | None, *, complete: bool = False
) -> tuple[pd.DataFrame, Cut | None]:
    """Return a page of orders, and whether its ``"oldest"`` or ``"newest"`` orders are cut off; else None.

    `cut` states which orders are missing in full pages, if known. If all orders of a page share a timestamp,
    the next request could not continue from it, so a page of twice the size is requested. With `complete`, a
    page without the oldest orders is enlarged in the same way, up to `_MAX_PAGE` orders.
    """
    frame, full = _request(query)
    if not full:
        return frame, None
    larger = {**query, "limit": 2 * query["limit"]}
    if frame["time"].iloc[0] == frame["time"].iloc[-1] or _just_before_last(frame) <= query["since"]:
        return _next_page(larger, cut, complete=complete)
    cut = cut or _cut(query, frame)
    if complete and cut == "oldest" and query["limit"] < _MAX_PAGE:
        return _next_page({**larger, "limit": min(larger["limit"], _MAX_PAGE)}, cut, complete=True)
    return frame, cut


def _cut(query: Mapping[str, Any], frame: pd.DataFrame) -> Cut:
    """Request a single order to see whether the oldest or the newest orders are missing in full pages."""
    single, _ = _request({**query, "limit": 1})
    return "newest" if len(single) and single["time"].iloc[0] <= frame["time"].iloc[0] else "oldest"


def _just_before_last(frame: pd.DataFrame) -> pd.Timestamp:
    """Return a time just before the last order, in whole milliseconds as the API needs it."""
    return frame["time"].iloc[-1].floor("ms") - _MILLISECOND


def _request(query: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """Request a page of orders. Return it, and whether it is full."""
    response = transport.get(endpoints.LIQUIDATIONS_EVENTS, query, into=_Events)
    frame = tabulate(tables.TABLES["liquidations_events"], [response], _columns)
    if response.body.coverage is not None:
        requested = {name: list(map(list, spans)) for name, spans in response.body.coverage.items()}
        try:
            for spans in requested.values():
                _windows(spans)
        except ValueError as problem:
            raise SchemaError(f"{endpoints.LIQUIDATIONS_EVENTS.path}: $.coverage: {problem}") from None
        frame.attrs["provenance"] = frame.attrs["provenance"] | {"coverage": {"asked": requested}}
    return frame, len(frame) >= query["limit"]


def _within_requested(spans: dict[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Add when each venue was requested to the spans, and limit the observed spans to these times.

    A venue that was never requested is in ``asked`` with an empty list, and does not limit the spans.
    """
    requested = provenance.get("coverage", {}).get("asked")
    if requested is None:
        return spans
    observed = _windows(spans["observed"])
    for venue_spans in filter(None, map(_windows, requested.values())):
        overlaps = (
            times.Window(max(span.start, own.start), min(span.end, own.end))
            for span, own in product(observed, venue_spans)
        )
        observed = [span for span in overlaps if span.start < span.end]
    return {**spans, **_coverage(observed), "missed": spans["missed"], "asked": requested}


def _windows(spans: Sequence[Sequence[str]]) -> list[times.Window]:
    return [times.Window(times.timestamp(start), times.timestamp(end)) for start, end in spans]


def _columns(response: DecodedResponse[_Events]) -> dict[str, Any]:
    orders = decode_items(response, response.body.events, _EVENTS, "$.events")
    columns = tables.TABLES["liquidations_events"].batches(orders)
    if isinstance(columns["oid"], list):  # some venues send numbers
        columns["oid"] = list(map(str, columns["oid"]))
    return columns


def _coverage(
    observed: Sequence[times.Window], missed: Sequence[times.Window] = ()
) -> dict[str, list[list[str]]]:
    """Return the provenance's entry about covered spans, without empty spans."""

    def texts(spans: Sequence[times.Window]) -> list[list[str]]:
        return [[times.iso(span.start), times.iso(span.end)] for span in spans if span.start < span.end]

    return {"observed": texts(observed), "missed": texts(missed)}


def _covered(frame: pd.DataFrame, since: pd.Timestamp | None, *, full: bool) -> dict[str, list[list[str]]]:
    """Return the spans of a single response. If it is full, the oldest or the newest may be missing."""
    now = times.timestamp(frame.attrs["provenance"]["as_of"])
    first = frame["time"].iloc[0] if len(frame) else now
    last = frame["time"].iloc[-1] if len(frame) else now
    if since is None:
        return _coverage([times.Window(first, now)])
    if not full:
        return _coverage([times.Window(since, now)])
    missed = [times.Window(since, first), times.Window(last, now)]
    return _coverage([times.Window(first, last)], missed)


ALL_SYMBOLS = "all"
"""Symbol of rows that are totals over all symbols."""


class _Sides(msgspec.Struct):
    long_usd: float | None
    short_usd: float | None


class _Bucket(msgspec.Struct):
    date: str
    exchanges: dict[str, _Sides]


class _History(Envelope):
    data: list[_Bucket]


class _Group(msgspec.Struct):
    name: str
    long_count: int
    short_count: int
    long_usd: float
    short_usd: float
    total_count: int
    total_usd: float


class _Aggregates(Envelope):
    group_by: str
    groups: list[_Group]


@typed
def history(
    symbols: str | Sequence[str] | None,
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return liquidated value by symbol, venue and side over a window.

    Parameters
    ----------
    symbols
        Assets, ``"BTC"`` or ``["BTC", "ETH"]``, one request each. None requests the total over all symbols.
    start, end
        Half-open window; a lookback such as ``"7d"`` reaches back from `end`.
    venues
        Venues whose rows are returned; None is all. The API cannot filter by venue, so the library does.
    resolution
        Step, ``"1m"`` to ``"1d"``; None leaves the choice to the server.

    Returns
    -------
    DataFrame, table ``liquidations_history``
        One row per symbol, venue and step that starts at ``time``; ``long_usd`` and ``short_usd`` [USD], NaN
        for null. ``symbol`` is ``"all"`` if `symbols` is None. ``resolution`` is the step that the server
        used, or ``unstated``.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name, time or resolution is not valid.
    FetchError, SchemaError
        A request failed, or a response is not this table. A partial table is never returned.

    Notes
    -----
    ``GET /liquidations/history``, Dev (30 days) and above.

    Examples
    --------
    >>> sums = dd.liquidations.history(["BTC", "ETH"], "1d", venues=["binance", "okx"])
    >>> sorted(sums["symbol"].unique()), sorted(sums["exchange"].unique())
    (['BTC', 'ETH'], ['binance', 'okx'])
    """
    spans = pieces(endpoints.LIQUIDATIONS_HISTORY, times.window(start, end), resolution, None)
    listed = [None] if symbols is None else symbol_names(symbols)
    queries = [{"symbol": symbol, "resolution": resolution} for symbol in listed]
    responses = get_windows(endpoints.LIQUIDATIONS_HISTORY, queries, spans, _History)
    slugs = venue_names(venues)
    # As text: `tabulate` caches checks by the text arguments of a partial.
    columns = partial(_history_columns, venues="" if slugs is None else ",".join(map(str, slugs)))
    return tabulate(tables.TABLES["liquidations_history"], responses, columns)


@typed
def aggregates(window: times.TimeLike = "24h", *, group_by: str = "symbol") -> pd.DataFrame:
    """Return total liquidations of the last hours, by symbol or venue.

    Parameters
    ----------
    window
        ``"1h"``, ``"4h"``, ``"12h"`` or ``"24h"``, ending now. For another lookback or a start, the shortest
        of these that contains it is requested, with a `DataNotice`.
    group_by
        ``"symbol"``, ``"exchange"`` or ``"symbol_exchange"``.

    Returns
    -------
    DataFrame, table ``liquidations_aggregates``
        One row per group: numbers of orders, and ``long_usd``, ``short_usd`` and ``total_usd`` [USD].
        ``time`` is the server's ``Date``.

    Raises
    ------
    ValueError
        The window is longer than a day, or not valid.
    FetchError, SchemaError
        The request failed, or the response is not this table.

    Notes
    -----
    ``GET /liquidations/aggregates`` (wire ``range``), Dev and above.

    Examples
    --------
    >>> sums = dd.liquidations.aggregates("24h", group_by="exchange")
    >>> bool(np.allclose(sums["long_usd"] + sums["short_usd"], sums["total_usd"]))
    True
    """
    query = {"range": rolling(endpoints.LIQUIDATIONS_AGGREGATES, window), "group_by": group_by}
    response = transport.get(endpoints.LIQUIDATIONS_AGGREGATES, query, into=_Aggregates)
    return tabulate(
        tables.TABLES["liquidations_aggregates"],
        [response],
        lambda a: tables.TABLES["liquidations_aggregates"].rows(
            a.body.groups, group_by=a.body.group_by, time=a.as_of
        ),
    )


def _history_columns(response: DecodedResponse[_History], venues: str) -> dict[str, Any]:
    """Return the columns of `venues`, separated by commas; of all venues for an empty text."""
    requested = venues.split(",")
    stamps = timestamps(response, [bucket.date for bucket in response.body.data])
    exchanges = []
    dates = []
    sides = []
    for stamp, bucket in zip(stamps, response.body.data, strict=True):
        for venue, venue_sides in bucket.exchanges.items():
            if not venues or venue in requested:
                exchanges.append(venue)
                dates.append(stamp)
                sides.append(venue_sides)
    symbol = dict(response.request.query).get("symbol", ALL_SYMBOLS)
    columns = tables.TABLES["liquidations_history"].rows(
        sides, symbol=symbol, resolution=response.body.resolution
    )
    return columns | {"exchange": exchanges, "date": pd.DatetimeIndex(dates, dtype=stamps.dtype)}


_LATE = pd.Timedelta(30, "s")


@typed
def poll(
    since: times.TimeLike = "5m",
    *,
    every: float = 10.0,
    limit: int = _LIMIT,
    min_usd: float | None = None,
    venues: str | Sequence[str] | None = None,
    symbols: str | Sequence[str] | None = None,
    exclude_symbols: str | Sequence[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pd.DataFrame]:
    """Yield liquidation orders as they arrive, indefinitely.

    Parameters
    ----------
    since
        Start of the feed: a time or a lookback.
    every
        Seconds between two requests, once the feed has caught up.
    limit
        Maximum number of orders in one response, up to the service's own limit.
    min_usd, venues, symbols, exclude_symbols
        As in `events`.
    sleep
        Function that waits a number of seconds, for tests.

    Yields
    ------
    DataFrame, table ``liquidations_events``
        The orders of one response that were not yielded before; may be empty.
        ``attrs["provenance"]["coverage"]`` has the spans that the response covers (``observed``) and those in
        which orders may be missing because it was full (``missed``).
        `derivdata.analysis.liquidations.observed` returns them as a frame.

    Notes
    -----
    ``GET /liquidations/events`` with ``since``. Each request starts half a minute before the last response,
    for orders that the service stored late; repeated orders are dropped by venue and order id. Errors: see
    `events`. To continue after an error, pass the end of the last span as `since`.

    In a full response the newest or the oldest orders are missing. The API document does not define which;
    the library requests a single order to find out. If the newest are missing, the next request continues
    immediately from the last order, and nothing is lost. If the oldest are missing, the span before the
    first order is ``missed``: raise `limit`.
    """
    query = {
        "exchange": venue_names(venues),
        "symbol": symbol_filter(symbols),
        "exclude_symbol": symbol_filter(exclude_symbols, "exclude_symbols"),
    }
    reached = times.since(since)
    after = reached - _LATE
    cut = None
    seen: dict[tuple[str, str], pd.Timestamp] = {}
    while True:
        frame, lacks = _next_page({**query, "since": after, "limit": limit}, cut)
        cut = lacks or cut
        observed, missed = _covered_span(frame, reached, lacks)
        new = _large(_unseen(frame, seen, reached - _LATE), min_usd)
        new = tables.TABLES["liquidations_events"].conform(new)
        provenance = frame.attrs["provenance"]
        spans = _within_requested(_coverage([observed], [missed]), provenance)
        new.attrs["provenance"] = provenance | {"coverage": spans}
        yield new
        reached = observed.end
        if lacks == "newest":  # continue at once from the last order
            after = _just_before_last(frame)
        else:
            after = reached - _LATE
            sleep(every)


def _covered_span(
    frame: pd.DataFrame, reached: pd.Timestamp, lacks: Cut | None
) -> tuple[times.Window, times.Window]:
    """Return the span that a response covers, and the span before it in which orders may be missing."""
    now = times.timestamp(frame.attrs["provenance"]["as_of"])
    start = max(reached, frame["time"].iloc[0]) if lacks == "oldest" else reached
    end = frame["time"].iloc[-1] if lacks == "newest" else now
    return times.Window(start, max(start, end)), times.Window(reached, start)


def _unseen(
    frame: pd.DataFrame, seen: dict[tuple[str, str], pd.Timestamp], horizon: pd.Timestamp
) -> pd.DataFrame:
    """Return the rows with new orders. Orders before `horizon` cannot repeat and are removed from `seen`."""
    keys = list(zip(frame["exchange"].astype("str"), frame["order_id"], strict=True))
    is_new = [key not in seen for key in keys]
    for key, stamp in list(seen.items()):
        if stamp < horizon:
            del seen[key]
    seen.update(zip(keys, frame["time"], strict=True))
    return frame[is_new]
