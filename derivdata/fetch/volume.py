"""Volume: symbols and venues over time, and volume against open interest.

Windows are half-open ``[start, end)``; a naive instant is UTC; a `start` such as ``"30d"`` looks back from
`end`, and no `end` is `derivdata.asof`. Volume is what was traded in the bucket that starts at ``time``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd

from derivdata import api, tables, times, transport
from derivdata.arguments import typed
from derivdata.fetch.windows import get_windows, names, pieces, rows_inside, wide_rows
from derivdata.transport import Answer

__all__ = ["exchange_totals", "history", "oi_ratio", "top_symbols"]


class _Row(msgspec.Struct):
    exchange: str
    volume_usd: float | None
    timestamp: str = ""
    t: str = ""


class _Timeseries(msgspec.Struct):
    symbol: str
    data: list[_Row]
    resolution: str = "unstated"
    notices: Any = None


class _Total(msgspec.Struct):
    exchange: str
    total_volume_usd: float | None
    symbol_count: int | None = None
    timestamp: str = ""
    t: str = ""


class _Totals(msgspec.Struct):
    data: list[_Total]
    resolution: str = "unstated"
    notices: Any = None


class _Ratio(msgspec.Struct):
    ratio: float | None
    volume: float | None
    open_interest: float | None
    timestamp: str = ""
    t: str = ""


class _Ratios(msgspec.Struct):
    data: dict[str, list[_Ratio]]
    resolution: str = "unstated"
    notices: Any = None


class _TopSymbols(msgspec.Struct):
    symbols: list[str]
    timeseries: list[dict[str, float | str | None]]
    resolution: str = "unstated"
    notices: Any = None


@typed
def history(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    exchanges: str | Sequence[str] | None = None,
    resolution: str | None = "1h",
) -> pd.DataFrame:
    """Volume of one symbol or several on every venue over a window.

    Parameters
    ----------
    symbols
        Assets without quote; one request each, more for long windows.
    start, end
        Half-open window.
    exchanges
        Venues; None is all.
    resolution
        Step, ``"1m"`` to ``"1d"`` or ``"raw"``; None leaves the choice to the server.

    Returns
    -------
    DataFrame, table ``volume_history``
        One row per symbol, venue and step; ``volume_usd`` [USD]. A null on the wire is no row.

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
    ``GET /volume/{symbol}/timeseries``, Dev and above.

    Examples
    --------
    >>> bool((dd.volume.history("BTC", "1d", exchanges=["binance", "okx"])["volume_usd"] > 0).all())
    True
    """
    spans = pieces(api.VOLUME_TIMESERIES, times.window(start, end), resolution, exchanges)
    each = [
        {"symbol": s, "exchanges": exchanges, "resolution": resolution} for s in names(symbols, "symbols")
    ]
    answers = get_windows(api.VOLUME_TIMESERIES, each, spans, _Timeseries)
    return transport.tabulate(tables.VOLUME_HISTORY, answers, _history_columns)


@typed
def exchange_totals(
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    exchanges: str | Sequence[str] | None = None,
    resolution: str | None = "1h",
) -> pd.DataFrame:
    """Volume of every venue over all its symbols, over a window.

    Parameters
    ----------
    start, end, exchanges, resolution
        As in `history`.

    Returns
    -------
    DataFrame, table ``volume_exchange_totals``
        One row per venue and step; ``total_volume_usd`` [USD]. A null on the wire is no row.

    Raises
    ------
    ValueError, TypeError, FetchError, SchemaError
        As in `history`.

    Notes
    -----
    ``GET /volume/exchange-totals``, Dev and above.
    """
    spans = pieces(api.VOLUME_EXCHANGE_TOTALS, times.window(start, end), resolution, exchanges)
    each = [{"exchanges": exchanges, "resolution": resolution}]
    answers = get_windows(api.VOLUME_EXCHANGE_TOTALS, each, spans, _Totals)
    return transport.tabulate(tables.VOLUME_EXCHANGE_TOTALS, answers, _total_columns)


@typed
def top_symbols(
    exchange: str, start: times.Instant, end: times.Instant | None = None, *, limit: int | None = None
) -> pd.DataFrame:
    """Volume of a venue's largest symbols over a window.

    Parameters
    ----------
    exchange
        One venue.
    start, end
        Half-open window.
    limit
        Most symbols; the service's default (50) unless given.

    Returns
    -------
    DataFrame, table ``volume_top_symbols``
        One row per symbol and instant; ``volume_usd`` [USD]. A null on the wire is no row.

    Raises
    ------
    ValueError, TypeError, FetchError, SchemaError
        As in `history`.

    Notes
    -----
    ``GET /volume/exchange-top-symbols-timeseries``, Dev and above. The list is today's: on past data it is
    chosen with hindsight.
    """
    each = [{"exchange": exchange, "limit": limit}]
    answers = get_windows(api.VOLUME_TOP_SYMBOLS, each, [times.window(start, end)], _TopSymbols)
    return transport.tabulate(
        tables.VOLUME_TOP_SYMBOLS, answers, lambda a: wide_rows(a, a.body.timeseries, exchange, "volume_usd")
    )


@typed
def oi_ratio(
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    window_days: int | None = None,
    exchanges: str | Sequence[str] | None = None,
    resolution: str | None = "1d",
) -> pd.DataFrame:
    """Volume over open interest of every venue, over a window.

    Parameters
    ----------
    start, end, exchanges, resolution
        As in `history`.
    window_days
        Days that volume is added up over, 1 to 365 (Dev at most 7); the service's default unless given.

    Returns
    -------
    DataFrame, table ``volume_oi_ratio``
        One row per venue and step: ``volume_oi_ratio``, ``volume_usd`` and ``oi_usd`` [USD]. A null ratio is
        no row.

    Raises
    ------
    ValueError, TypeError, FetchError, SchemaError
        As in `history`.

    Notes
    -----
    ``GET /volume-oi-ratio``, Dev and above.
    """
    spans = pieces(api.VOLUME_OI_RATIO, times.window(start, end), resolution, exchanges)
    each = [{"window_days": window_days, "exchanges": exchanges, "resolution": resolution}]
    answers = get_windows(api.VOLUME_OI_RATIO, each, spans, _Ratios)
    return transport.tabulate(tables.VOLUME_OI_RATIO, answers, _ratio_columns)


def _history_columns(answer: Answer[_Timeseries]) -> dict[str, Any]:
    rows, stamps = rows_inside(answer, [row for row in answer.body.data if row.volume_usd is not None])
    columns = tables.VOLUME_HISTORY.rows(rows, symbol=answer.body.symbol, resolution=answer.body.resolution)
    return columns | {"timestamp": stamps}


def _total_columns(answer: Answer[_Totals]) -> dict[str, Any]:
    rows, stamps = rows_inside(answer, [row for row in answer.body.data if row.total_volume_usd is not None])
    columns = tables.VOLUME_EXCHANGE_TOTALS.rows(rows, resolution=answer.body.resolution)
    return columns | {"timestamp": stamps}


def _ratio_columns(answer: Answer[_Ratios]) -> dict[str, Any]:
    parts: list[tuple[str, Any, pd.Timestamp]] = []
    for venue, points in answer.body.data.items():
        rows, stamps = rows_inside(answer, [p for p in points if p.ratio is not None])
        parts += [(venue, row, stamp) for row, stamp in zip(rows, stamps, strict=True)]
    columns = tables.VOLUME_OI_RATIO.rows([row for _, row, _ in parts], resolution=answer.body.resolution)
    stamped = pd.DatetimeIndex([stamp for *_, stamp in parts], dtype="datetime64[us, UTC]")
    return columns | {"exchange": [venue for venue, *_ in parts], "timestamp": stamped}
