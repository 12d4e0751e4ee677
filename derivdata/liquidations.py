"""Liquidations: orders as they come, a live feed of them, and their sums.

``side`` is the side that was liquidated. Feeds are throttled on some venues, so that levels do not compare
across venues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, decode_items, instants
from derivdata.client.retrieval import (
    get_windows,
    pieces,
    rolling,
    symbol_filter,
    symbol_names,
    tabulate,
    venue_names,
)
from derivdata.client.transport import Answer
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.text import warn_caller
from derivdata.tables import endpoints

__all__ = ["aggregates", "events", "history", "poll"]
__dir__ = __all__.copy

_LIMIT = 1000
"""Most orders in one response unless another number is requested."""
_LARGEST = 100_000
"""Largest page that is requested."""
_MILLISECOND = pd.Timedelta(1, "ms")
_ADVICE = "raise limit or shorten the window"

Cut: TypeAlias = Literal["oldest", "newest"]
"""Which orders a full response leaves out."""


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
    *,
    since: times.Instant | None = None,
    limit: int | None = None,
    min_usd: float | None = None,
    venues: str | Sequence[str] | None = None,
    symbols: str | Sequence[str] | None = None,
    exclude_symbols: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the latest liquidation orders, or all orders since a time.

    Parameters
    ----------
    since
        Only orders after this time, or after a lookback such as ``"2h"``.
    limit
        Most orders to return: the first ones after `since`, or the newest ones without it. None returns every
        order after `since`, requested page by page, or 1,000 orders without it. A result of `limit` orders
        comes with a `DataNotice`: there may be more.
    min_usd
        Smallest value [USD]. The service ignores it together with `since`, so each page is filtered here, and
        further pages are requested until the window is complete or `limit` orders are left.
    venues, symbols, exclude_symbols
        Venues and assets; `symbols` and `exclude_symbols` exclude each other.

    Returns
    -------
    DataFrame, table ``liquidations_events``
        One row per order of a venue, with its fills consolidated, in order of time. ``side`` is the
        liquidated side. Prices and sizes that the service lacks are NaN. ``provenance["coverage"]`` holds
        the spans that the result covers (``observed``) and those of which it may lack orders (``missed``).
        Where the service knows when each venue was requested or streamed, ``asked`` lists these spans by
        venue, and ``observed`` is limited to the spans of all venues.

    Raises
    ------
    ValueError, TypeError
        `limit` is not positive, `symbols` and `exclude_symbols` are both given, or a type is wrong.
    FetchError, SchemaError
        A request fails, or a response is not this table.

    Notes
    -----
    ``GET /liquidations/events``, Dev and above. The API document does not say whether a full response with
    `since` lacks the newest orders or the oldest. A request for a single order shows it. Where the newest are
    missing, the next page starts at the last order. Where the oldest are missing, the page is enlarged up to
    100,000 orders; if it is still full, the span before its first order is ``missed``, with a `DataNotice`.

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
    frame, full = _ask(query)
    provenance = frame.attrs["provenance"]
    provenance |= {"coverage": _within_asked(_covered(frame, after, full=full), provenance)}
    if full:
        _notice(provenance, f"the result is full at limit={query['limit']}: there may be more; {_ADVICE}")
    if min_usd is not None:
        frame = tables.TABLES["liquidations_events"].conform(frame[frame["value_usd"] >= min_usd])
    frame.attrs["provenance"] = provenance
    return frame


def _all_since(query: Mapping[str, Any], since: pd.Timestamp, limit: int | None) -> pd.DataFrame:
    """Return the orders after a time that have the minimum value, page by page, at most `limit`."""
    # `min_usd` is not sent: with `since` the service ignores it.
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
    table = tables.TABLES["liquidations_events"]
    orders = pd.concat(pages, ignore_index=True).drop_duplicates(["exchange", "order_id"])
    frame = table.conform(_large(orders, query["min_usd"]))
    start = times.Window(since, page["time"].iloc[0]) if missing == "oldest" else None
    end = times.instant(page.attrs["provenance"]["as_of"])
    covered_until = end if missing != "newest" else page["time"].iloc[-1]
    provenance = _merged([page.attrs["provenance"] for page in pages])
    if start is not None:
        size = f"the service returns at most {len(page):,} orders"
        _notice(
            provenance,
            f"orders before {times.iso(start.end)} may be missing: {size}; request a shorter window",
        )
    if limit is not None and len(frame) >= limit:
        frame = table.conform(frame.head(limit))
        covered_until = frame["time"].iloc[-1]
        _notice(provenance, f"the result is full at limit={limit}: there may be more; {_ADVICE}")
    observed = times.Window(since if start is None else start.end, covered_until)
    missed = [*([] if start is None else [start]), times.Window(covered_until, end)]
    spans = _within_asked(_coverage([observed], missed), provenance)
    frame.attrs["provenance"] = provenance | {"coverage": spans}
    return frame


def _large(orders: pd.DataFrame, min_usd: float | None) -> pd.DataFrame:
    return orders if min_usd is None else orders[orders["value_usd"] >= min_usd]


def _merged(pages: Sequence[Any]) -> Any:
    """Return the provenance of several pages of one window: requests and notices of all of them."""
    requests = [request for page in pages for request in page["requests"]]
    notices = list(dict.fromkeys(notice for page in pages for notice in page["notices"]))
    return pages[-1] | {"requests": requests, "notices": notices}


def _notice(provenance: dict[str, Any], notice: str) -> None:
    warn_caller(f"{endpoints.LIQUIDATIONS_EVENTS.path}: {notice}")
    provenance["notices"] = [*provenance["notices"], notice]


def _next_page(
    query: Mapping[str, Any], cut: Cut | None, *, complete: bool = False
) -> tuple[pd.DataFrame, Cut | None]:
    """Return a response, and which orders it lacks if it is full; `cut` is what full ones lack, if known.

    A response that no next request could continue from, because its orders share a timestamp, is requested at
    twice the length; with `complete` also one that lacks the oldest orders, as far as the service allows.
    """
    frame, full = _ask(query)
    if not full:
        return frame, None
    larger = {**query, "limit": 2 * query["limit"]}
    if frame["time"].iloc[0] == frame["time"].iloc[-1] or _just_before_last(frame) <= query["since"]:
        return _next_page(larger, cut, complete=complete)
    cut = cut or _cut(query, frame)
    if complete and cut == "oldest" and query["limit"] < _LARGEST:
        return _next_page({**larger, "limit": min(larger["limit"], _LARGEST)}, cut, complete=True)
    return frame, cut


def _cut(query: Mapping[str, Any], frame: pd.DataFrame) -> Cut:
    """Find out what full responses lack: a response of one order has the oldest or the newest."""
    single, _ = _ask({**query, "limit": 1})
    return "newest" if len(single) and single["time"].iloc[0] <= frame["time"].iloc[0] else "oldest"


def _just_before_last(frame: pd.DataFrame) -> pd.Timestamp:
    """Return a time just before the last order, in the whole milliseconds of the API."""
    return frame["time"].iloc[-1].floor("ms") - _MILLISECOND


def _ask(query: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """Return the orders that answer a query, and whether they are as many as it allows."""
    answer = transport.get(endpoints.LIQUIDATIONS_EVENTS, query, into=_Events)
    frame = tabulate(tables.TABLES["liquidations_events"], [answer], _columns)
    if answer.body.coverage is not None:
        requested = {name: [list(span) for span in spans] for name, spans in answer.body.coverage.items()}
        try:
            for spans in requested.values():
                _windows(spans)
        except ValueError as problem:
            raise SchemaError(f"{endpoints.LIQUIDATIONS_EVENTS.path}: $.coverage: {problem}") from None
        frame.attrs["provenance"] = frame.attrs["provenance"] | {"coverage": {"asked": requested}}
    return frame, len(frame) >= query["limit"]


def _within_asked(spans: dict[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spans of an answer with when each venue was asked, and what is observed cut to that.

    A venue that was never asked has no orders to lack: it is in ``asked`` with no span.
    """
    requested = provenance.get("coverage", {}).get("asked")
    if requested is None:
        return spans
    observed = _windows(spans["observed"])
    for own in filter(None, map(_windows, requested.values())):
        both = (times.Window(max(a.start, b.start), min(a.end, b.end)) for a in observed for b in own)
        observed = [span for span in both if span.start < span.end]
    return {**spans, **_coverage(observed), "missed": spans["missed"], "asked": requested}


def _windows(spans: Sequence[Sequence[str]]) -> list[times.Window]:
    return [times.Window(times.instant(start), times.instant(end)) for start, end in spans]


def _columns(answer: Answer[_Events]) -> dict[str, Any]:
    orders = decode_items(answer, answer.body.events, _EVENTS, "$.events")
    columns = tables.TABLES["liquidations_events"].batches(orders)
    if isinstance(columns["oid"], list):  # some of them are numbers
        columns["oid"] = list(map(str, columns["oid"]))
    return columns


def _coverage(
    observed: Sequence[times.Window], missed: Sequence[times.Window] = ()
) -> dict[str, list[list[str]]]:
    """Return the entry of provenance about the spans that an answer covers, without empty ones."""
    return {
        name: [[times.iso(span.start), times.iso(span.end)] for span in spans if span.start < span.end]
        for name, spans in (("observed", observed), ("missed", missed))
    }


def _covered(frame: pd.DataFrame, since: pd.Timestamp | None, *, full: bool) -> dict[str, list[list[str]]]:
    """Return the spans of one answer, whose service may have left out the oldest or the newest."""
    now = times.instant(frame.attrs["provenance"]["as_of"])
    first, last = (frame["time"].iloc[0], frame["time"].iloc[-1]) if len(frame) else (now, now)
    if since is None:
        return _coverage([times.Window(first, now)])
    if not full:
        return _coverage([times.Window(since, now)])
    missed = [times.Window(since, first), times.Window(last, now)]
    return _coverage([times.Window(first, last)], missed)


ALL_SYMBOLS = "all"
"""Symbol of rows that are the sum of all symbols."""


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
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return liquidated value by symbol, venue and side over a window.

    Parameters
    ----------
    symbols
        Assets, ``"BTC"`` or ``["BTC", "ETH"]``, one request each. None requests the sum of all symbols.
    start, end
        Half-open window; a lookback such as ``"7d"`` reaches back from `end`.
    venues
        Venues whose rows are returned; None is all. The API has no such filter: the rows of other venues
        are left out here.
    resolution
        Step, ``"1m"`` to ``"1d"``; None leaves the choice to the server.

    Returns
    -------
    DataFrame, table ``liquidations_history``
        One row per symbol, venue and step, ``time`` its start; ``long_usd`` and ``short_usd`` [USD], NaN
        where the wire has null. ``symbol`` is ``"all"`` where `symbols` is None. ``resolution`` is the step
        that the server used, ``unstated`` where it does not say.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name, time or resolution is not valid.
    FetchError, SchemaError
        A request fails, or a response is not this table; part of a table is never returned.

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
    filters: list[list[str] | None] = [None]
    if symbols is not None:
        filters = [[name] for name in symbol_names(symbols)]
    each = [{"symbol": names, "resolution": resolution} for names in filters]
    answers = get_windows(endpoints.LIQUIDATIONS_HISTORY, each, spans, _History)
    chosen = venue_names(venues)
    columns = partial(_history_columns, venues="" if chosen is None else ",".join(map(str, chosen)))
    return tabulate(tables.TABLES["liquidations_history"], answers, columns)


@typed
def aggregates(window: times.Instant = "24h", *, group_by: str = "symbol") -> pd.DataFrame:
    """Return the liquidations of the last hours, added up.

    Parameters
    ----------
    window
        ``"1h"``, ``"4h"``, ``"12h"`` or ``"24h"``, ending now. Another lookback, or a start, is answered by
        the shortest of them that holds it, and a `DataNotice` says so.
    group_by
        ``"symbol"``, ``"exchange"`` or ``"symbol_exchange"``.

    Returns
    -------
    DataFrame, table ``liquidations_aggregates``
        One row per group; ``time`` is the server's ``Date``.

    Raises
    ------
    ValueError
        The window is longer than a day, or no window.
    FetchError, SchemaError
        No answer, or one that is not this table.

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
    answer = transport.get(endpoints.LIQUIDATIONS_AGGREGATES, query, into=_Aggregates)
    return tabulate(
        tables.TABLES["liquidations_aggregates"],
        [answer],
        lambda a: tables.TABLES["liquidations_aggregates"].rows(
            a.body.groups, group_by=a.body.group_by, time=a.as_of
        ),
    )


def _history_columns(answer: Answer[_History], venues: str) -> dict[str, Any]:
    """Return the columns of some venues, separated by commas; of all for an empty text."""
    chosen = venues.split(",")
    stamps = instants(answer, [bucket.date for bucket in answer.body.data])
    sides_by_venue = [
        (stamp, venue, sides)
        for stamp, bucket in zip(stamps, answer.body.data, strict=True)
        for venue, sides in bucket.exchanges.items()
        if not venues or venue in chosen
    ]
    symbol = dict(answer.request.query).get("symbol", ALL_SYMBOLS)
    return {
        "symbol": [symbol] * len(sides_by_venue),
        "exchange": [venue for _, venue, _ in sides_by_venue],
        "date": pd.DatetimeIndex([stamp for stamp, *_ in sides_by_venue], dtype=stamps.dtype),
        "long_usd": [sides.long_usd for *_, sides in sides_by_venue],
        "short_usd": [sides.short_usd for *_, sides in sides_by_venue],
        "resolution": [answer.body.resolution] * len(sides_by_venue),
    }


_LATE = pd.Timedelta(30, "s")


@typed
def poll(
    since: times.Instant = "5m",
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
        Where to start: an instant, or a lookback.
    every
        Seconds between two questions, once the feed has caught up.
    limit
        Most orders in one answer, no more than the service allows.
    min_usd, venues, symbols, exclude_symbols
        As in `events`.
    sleep
        What waits; a test gives its own.

    Yields
    ------
    DataFrame, table ``liquidations_events``
        The orders of one answer that were not yielded before, perhaps none. ``provenance["coverage"]``
        holds the spans that the answer covers (``observed``) and those of which it may have lost orders
        because it was full (``missed``); `derivdata.analysis.liquidations.observed` makes a frame of them.

    Notes
    -----
    ``GET /liquidations/events`` with ``since``. Each question reaches back half a minute before the last
    answer, for orders that reached the store late; venue and order id tell what was seen. Errors are those of
    `events`. A feed that failed is taken up again with `since` at the end of its last span.

    A full answer lacks the newest orders or the oldest, which no document says: a question for a single order
    tells. Where it lacks the newest the next question goes on from its last order, at once, and nothing is
    missed. Where it lacks the oldest the span before its first order is ``missed``: raise `limit`.
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
        new = _unseen(frame, seen, reached - _LATE)
        if min_usd is not None:
            new = new[new["value_usd"] >= min_usd]
        new = tables.TABLES["liquidations_events"].conform(new)
        provenance = frame.attrs["provenance"]
        spans = _within_asked(_coverage([observed], [missed]), provenance)
        new.attrs["provenance"] = provenance | {"coverage": spans}
        yield new
        reached = observed.end
        after = observed.end - _LATE
        if lacks == "newest":
            after = _just_before_last(frame)
        else:
            sleep(every)


def _covered_span(
    frame: pd.DataFrame, reached: pd.Timestamp, lacks: Cut | None
) -> tuple[times.Window, times.Window]:
    """Return the span that an answer covers, and the one before it of which it may have lost orders."""
    now = times.instant(frame.attrs["provenance"]["as_of"])
    start = max(reached, frame["time"].iloc[0]) if lacks == "oldest" else reached
    end = frame["time"].iloc[-1] if lacks == "newest" else now
    return times.Window(start, max(start, end)), times.Window(reached, start)


def _unseen(
    frame: pd.DataFrame, seen: dict[tuple[str, str], pd.Timestamp], horizon: pd.Timestamp
) -> pd.DataFrame:
    """Return the rows with new orders; `seen` forgets those that can no longer come again."""
    keys = list(zip(frame["exchange"].astype("str"), frame["order_id"], strict=True))
    fresh = [key not in seen for key in keys]
    for key in [key for key, stamp in seen.items() if stamp < horizon]:
        del seen[key]
    seen.update(zip(keys, frame["time"], strict=True))
    return frame[fresh]
