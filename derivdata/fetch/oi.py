"""Open interest: every venue now, and one symbol over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from derivdata import api, tables, times, transport
from derivdata.fetch.windows import asked, inside, names, pieces
from derivdata.transport import Answer

__all__ = ["exchanges", "history", "sparklines"]


class _Exchange(msgspec.Struct):
    exchange: str
    total_oi_usd: float | None
    symbol_count: int | None
    top_symbol: str | None
    change_24h: float | None
    change_7d: float | None
    market_share: float | None
    sparkline_7d: list[float | None] = []


class _Summary(msgspec.Struct):
    exchanges: list[_Exchange]


class _Row(msgspec.Struct):
    exchange: str
    open_interest_usd: float | None = None
    timestamp: str = ""
    t: str = ""


class _Timeseries(msgspec.Struct):
    symbol: str
    data: list[_Row]
    resolution: str = "unstated"
    notices: list[Any] = []


def exchanges() -> pd.DataFrame:
    """Open interest of every venue now.

    Returns
    -------
    DataFrame, table ``oi_exchanges``
        One row per venue. ``market_share`` is a fraction of all open interest; the unit of ``change_24h``
        and ``change_7d`` is not stated by the API. ``time`` is the server's ``Date``.

    Raises
    ------
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /oi/exchanges-summary``, Dev and above. Its week's line is `sparklines`.
    """
    answer = transport.get(api.OI_EXCHANGES_SUMMARY, {}, into=_Summary)
    return transport.tabulate(
        tables.OI_EXCHANGES, [answer], lambda a: tables.OI_EXCHANGES.rows(a.body.exchanges, time=a.as_of)
    )


def sparklines() -> pd.DataFrame:
    """Open interest of every venue over the last week, as the summary's line of seven points.

    Returns
    -------
    DataFrame, table ``oi_sparklines``
        One row per venue and point. ``days_ago`` counts steps before the newest point (0); the API says
        that the oldest comes first and not at what hour points are taken.

    Raises
    ------
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /oi/exchanges-summary``, Dev and above; the same answer as `exchanges`.
    """
    answer = transport.get(api.OI_EXCHANGES_SUMMARY, {}, into=_Summary)
    return transport.tabulate(tables.OI_SPARKLINES, [answer], _sparkline_columns)


def history(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    exchanges: str | Sequence[str] | None = None,
    resolution: str | None = "1h",
) -> pd.DataFrame:
    """Open interest of one symbol or several on every venue over a window.

    Parameters
    ----------
    symbols
        Assets without quote; one request each, more for long windows.
    start, end
        Half-open window ``[start, end)``; a naive instant is UTC; ``"30d"`` looks back from `end`; no
        `end` is `derivdata.asof`.
    exchanges
        Venues; None is all.
    resolution
        Step, ``"1m"`` to ``"1d"`` or ``"raw"``; None leaves the choice to the server.

    Returns
    -------
    DataFrame, table ``oi_history``
        One row per symbol, venue and step; ``oi_usd`` [USD]. A null on the wire is no row.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name, instant or resolution is not one.
    NotFound
        A symbol is not known.
    FetchError, SchemaError
        No answer, or one that is not this table; never a part of one.

    Notes
    -----
    ``GET /oi/{symbol}/timeseries``, Dev and above.
    """
    spans = pieces(times.window(start, end), resolution, exchanges)
    queries = [
        {"symbol": s, "exchanges": exchanges, "resolution": resolution, **asked(span)}
        for s in names(symbols, "symbols")
        for span in spans
    ]
    answers = transport.get_each(
        api.OI_TIMESERIES, queries, into=_Timeseries, until=[q["end"] for q in queries]
    )
    return transport.tabulate(tables.OI_HISTORY, answers, _history_columns)


def _sparkline_columns(answer: Answer[_Summary]) -> dict[str, Any]:
    points = [
        (row.exchange, len(row.sparkline_7d) - 1 - place, value)
        for row in answer.body.exchanges
        for place, value in enumerate(row.sparkline_7d)
    ]
    return {
        "exchange": [exchange for exchange, _, _ in points],
        "days_ago": [days for _, days, _ in points],
        "time": pd.DatetimeIndex([answer.as_of]).repeat(len(points)),
        "oi_usd": [value for _, _, value in points],
    }


def _history_columns(answer: Answer[_Timeseries]) -> dict[str, Any]:
    rows = answer.body.data
    stamps = times.parse([row.timestamp or row.t for row in rows])
    values = np.array([row.open_interest_usd for row in rows], dtype=np.float64)
    kept = np.flatnonzero(~np.isnan(values) & inside(answer, stamps))
    return {
        "symbol": [answer.body.symbol] * kept.size,
        "exchange": [rows[i].exchange for i in kept],
        "timestamp": stamps[kept],
        "open_interest_usd": values[kept],
        "resolution": [answer.body.resolution] * kept.size,
    }
