"""Liquidation orders."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pandas as pd

from derivdata import api, tables, times, transport

__all__ = ["events"]


class _Event(msgspec.Struct):
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


class _Events(msgspec.Struct):
    events: list[_Event]


def events(
    *,
    since: times.Instant | None = None,
    limit: int | None = None,
    min_usd: float | None = None,
    exchanges: str | Sequence[str] | None = None,
    symbols: str | Sequence[str] | None = None,
    exclude_symbols: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Liquidation orders of late, or those since an instant.

    Parameters
    ----------
    since
        Only orders after this instant, or after a lookback such as ``"2h"``.
    limit
        Most orders in the answer; the service's default unless given.
    min_usd
        Smallest value [USD]. The service ignores it beside `since`; the rows are then held to it here.
    exchanges, symbols, exclude_symbols
        Venues and assets; `symbols` and `exclude_symbols` exclude each other.

    Returns
    -------
    DataFrame, table ``liquidations_events``
        One row per order of a venue, with its fills consolidated, in order of time. ``side`` is the
        liquidated side. Prices and sizes that the service lacks are NaN.

    Raises
    ------
    ValueError, TypeError
        `symbols` and `exclude_symbols` together; a value that is not of its kind.
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /liquidations/events``, Dev and above. The answer is a list of limited length: it may have holes.
    """
    after = None if since is None else _instant(since)
    query = {
        "since": after,
        "limit": limit,
        "min_usd": min_usd,
        "exchange": exchanges,
        "symbol": symbols,
        "exclude_symbol": exclude_symbols,
    }
    answer = transport.get(api.LIQUIDATIONS_EVENTS, query, into=_Events)
    if min_usd is not None:
        answer.body.events = [e for e in answer.body.events if e.usd_value >= min_usd]
    for event in answer.body.events:
        event.oid = str(event.oid)
    return transport.tabulate(
        tables.LIQUIDATIONS_EVENTS, [answer], lambda a: tables.LIQUIDATIONS_EVENTS.rows(a.body.events)
    )


def _instant(since: times.Instant) -> pd.Timestamp:
    back = times.lookback(since) if isinstance(since, str) else None
    return times.instant(since, "since") if back is None else times.asof() - back
