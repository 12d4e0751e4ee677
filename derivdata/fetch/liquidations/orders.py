"""Liquidation orders of late, and a live feed of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pandas as pd

from derivdata import api, tables, times, transport

__all__ = ["events", "poll"]

_LATE = pd.Timedelta(30, "s")


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


def poll(
    since: times.Instant = "5m",
    *,
    every: float = 10.0,
    limit: int = 1000,
    min_usd: float | None = None,
    exchanges: str | Sequence[str] | None = None,
    symbols: str | Sequence[str] | None = None,
    exclude_symbols: str | Sequence[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pd.DataFrame]:
    """Liquidation orders as they come, for as long as they are asked for.

    Parameters
    ----------
    since
        Where to start: an instant, or a lookback.
    every
        Seconds between two questions.
    limit
        Most orders in one answer; one that is full may lack some.
    min_usd, exchanges, symbols, exclude_symbols
        As in `events`.
    sleep
        What waits; a test gives its own.

    Yields
    ------
    DataFrame, table ``liquidations_events``
        The orders of one answer that were not yielded before, perhaps none. ``provenance["coverage"]``
        holds the spans that the answer covers (``observed``) and those of which it may have lost orders
        because it was full (``missed``); `derivdata.analysis.liquidations.observed` makes a frame of them.

    Raises
    ------
    ValueError, TypeError, FetchError, SchemaError
        As in `events`. A feed that failed is taken up again with `since` at the end of its last span.

    Notes
    -----
    ``GET /liquidations/events`` with ``since``. Each question reaches back half a minute before the last
    answer, for orders that reached the store late; venue and order id tell what was seen.
    """
    reached = times.since(since)
    seen: dict[tuple[str, str], pd.Timestamp] = {}
    while True:
        frame = events(
            since=reached - _LATE,
            limit=limit,
            exchanges=exchanges,
            symbols=symbols,
            exclude_symbols=exclude_symbols,
        )
        covered = _covered(frame, reached, full=len(frame) >= limit)
        new = _unseen(frame, seen, reached - _LATE)
        if min_usd is not None:
            new = new[new["value_usd"] >= min_usd]
        new = tables.LIQUIDATIONS_EVENTS.conform(new)
        new.attrs["provenance"] = frame.attrs["provenance"] | {"coverage": covered}
        yield new
        reached = max(reached, times.instant(covered["observed"][-1][1]))
        sleep(every)


def _covered(frame: pd.DataFrame, reached: pd.Timestamp, *, full: bool) -> dict[str, list[list[str]]]:
    """Spans that an answer covers; a full one surely holds only what lies between its own orders."""
    now = times.instant(frame.attrs["provenance"]["as_of"])
    if not full:
        return {"observed": [[times.iso(reached), times.iso(max(now, reached))]], "missed": []}
    first, last = frame["time"].iloc[0], frame["time"].iloc[-1]
    missed = [(reached, first)] if first > reached else []
    return {
        "observed": [[times.iso(max(first, reached)), times.iso(max(last, reached))]],
        "missed": [[times.iso(a), times.iso(b)] for a, b in missed],
    }


def _unseen(
    frame: pd.DataFrame, seen: dict[tuple[str, str], pd.Timestamp], horizon: pd.Timestamp
) -> pd.DataFrame:
    """Rows whose order was not met before; `seen` forgets what can no longer come again."""
    keys = list(zip(frame["exchange"].astype("str"), frame["order_id"], strict=True))
    fresh = [key not in seen for key in keys]
    for key in [key for key, stamp in seen.items() if stamp < horizon]:
        del seen[key]
    seen.update(zip(keys, frame["time"], strict=True))
    return frame[fresh]
