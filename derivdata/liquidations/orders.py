"""The latest liquidation orders, or those since an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, decode_items
from derivdata.client.retrieval import tabulate
from derivdata.client.transport import Answer
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.notices import warn_caller
from derivdata.tables import endpoints
from derivdata.tables.contracts import symbol_filter, venue_names

LIMIT = 1000
"""Most orders in one answer unless another number is asked for."""


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
    limit: int = LIMIT,
    min_usd: float | None = None,
    venues: str | Sequence[str] | None = None,
    symbols: str | Sequence[str] | None = None,
    exclude_symbols: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the latest liquidation orders, or those since an instant.

    Parameters
    ----------
    since
        Only orders after this instant, or after a lookback such as ``"2h"``.
    limit
        Most orders in the answer. One that is full comes with a `DataNotice`: there may be more.
    min_usd
        Smallest value [USD]. The service ignores it together with `since`; it is applied here.
    venues, symbols, exclude_symbols
        Venues and assets; `symbols` and `exclude_symbols` exclude each other.

    Returns
    -------
    DataFrame, table ``liquidations_events``
        One row per order of a venue, with its fills consolidated, in order of time. ``side`` is the
        liquidated side. Prices and sizes that the service lacks are NaN. ``provenance["coverage"]`` holds
        the spans that the answer surely covers (``observed``) and those of which it may lack orders
        (``missed``). Where the service knows when each venue was asked or listened to, ``asked`` says so by
        venue, and only what lies within the spans of all venues that were is observed.

    Raises
    ------
    ValueError, TypeError
        `symbols` and `exclude_symbols` together; a value that is not of its kind.
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /liquidations/events``, Dev and above. No document says whether a full answer lacks the oldest
    orders since the instant or the newest: it surely holds only what lies between its own.

    Examples
    --------
    >>> orders = dd.liquidations.events(since="1h", min_usd=10_000.0)
    >>> bool((orders["value_usd"] >= 10_000.0).all()), orders["time"].is_monotonic_increasing
    (True, True)
    """
    after = None if since is None else times.since(since)
    query = {
        "since": after,
        "limit": limit,
        "min_usd": min_usd,
        "exchange": venue_names(venues),
        "symbol": symbol_filter(symbols),
        "exclude_symbol": symbol_filter(exclude_symbols, "exclude_symbols"),
    }
    frame, full = ask(query)
    provenance = frame.attrs["provenance"]
    provenance |= {"coverage": within_asked(_covered(frame, after, full=full), provenance)}
    if full:
        notice = f"the answer is full at limit={limit}: there may be more; raise limit or shorten the window"
        warn_caller(f"{endpoints.LIQUIDATIONS_EVENTS.path}: {notice}")
        provenance["notices"] = [*provenance["notices"], notice]
    if min_usd is not None:
        frame = tables.TABLES["liquidations_events"].conform(frame[frame["value_usd"] >= min_usd])
    frame.attrs["provenance"] = provenance
    return frame


def ask(query: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
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


def within_asked(spans: dict[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
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
    return {**spans, **coverage(observed), "missed": spans["missed"], "asked": requested}


def _windows(spans: Sequence[Sequence[str]]) -> list[times.Window]:
    return [times.Window(times.instant(start), times.instant(end)) for start, end in spans]


def _columns(answer: Answer[_Events]) -> dict[str, Any]:
    orders = decode_items(answer, answer.body.events, _EVENTS, "$.events")
    columns = tables.TABLES["liquidations_events"].batches(orders)
    if isinstance(columns["oid"], list):  # some of them are numbers
        columns["oid"] = list(map(str, columns["oid"]))
    return columns


def coverage(
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
        return coverage([times.Window(first, now)])
    if not full:
        return coverage([times.Window(since, now)])
    missed = [times.Window(since, first), times.Window(last, now)]
    return coverage([times.Window(first, last)], missed)
