"""Liquidated value over time and by group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, instants
from derivdata.client.retrieval import get_windows, pieces, rolling, symbol_names, tabulate, venue_names
from derivdata.client.transport import Answer
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

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
