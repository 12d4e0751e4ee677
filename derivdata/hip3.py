"""HIP-3 analytics: dexes of third parties on Hyperliquid.

The API document does not define the fields of these responses, so the tables are open: each field becomes a
column, numbers sent as text become numbers, nothing is dropped, and ``part`` is the field of the response
that a row comes from. Dev and above.

Windows end now and have a preset length: ``"1d"``, ``"7d"``, ``"30d"`` or ``"90d"``. For another lookback or
start, the shortest preset that contains it is requested, with a `DataNotice`. Only `candles` accepts any
window.
"""

from __future__ import annotations

import pandas as pd

from derivdata.client.quantities import fetch_rows, fetch_windows
from derivdata.client.retrieval import cut
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = [
    "by_dex",
    "by_symbol",
    "candles",
    "dashboard",
    "dex_detail",
    "leaderboard",
    "oi_trends_dex",
    "oi_trends_total",
    "timeseries_dex_breakdown",
    "timeseries_symbol",
]
__dir__ = __all__.copy

_DEFAULT_CANDLES = 500
"""Maximum number of candles in one response, unless `limit` is given."""

_MAX_REQUESTS = 10_000
_CENTURY = pd.Timedelta(36_525, "D")


@typed
def dashboard(window: times.Instant | None = None) -> pd.DataFrame:
    """Return an overview of HIP-3: ``GET /hip3-analytics/dashboard``.

    Parameters
    ----------
    window
        A preset, a lookback or a start; None leaves the choice to the service.
    """
    return fetch_rows(endpoints.HIP3_DASHBOARD, {"range": window})


@typed
def dex_detail(dex: str, window: times.Instant | None = None) -> pd.DataFrame:
    """Return totals, symbols and days of one dex, such as ``"xyz"``: ``GET /hip3-analytics/dex-detail``."""
    return fetch_rows(endpoints.HIP3_DEX_DETAIL, {"dex": dex, "range": window})


@typed
def by_dex(window: times.Instant | None = None) -> pd.DataFrame:
    """Return activity by dex: ``GET /hip3-analytics/by-dex``."""
    return fetch_rows(endpoints.HIP3_BY_DEX, {"range": window})


@typed
def by_symbol(
    window: times.Instant | None = None, *, dex: str | None = None, limit: int | None = None
) -> pd.DataFrame:
    """Return activity by symbol, of one dex or of all: ``GET /hip3-analytics/by-symbol``."""
    return fetch_rows(endpoints.HIP3_BY_SYMBOL, {"range": window, "dex": dex, "limit": limit})


@typed
def timeseries_symbol(
    window: times.Instant | None = None, *, symbol: str | None = None, dex: str | None = None
) -> pd.DataFrame:
    """Return activity of a symbol over time: ``GET /hip3-analytics/timeseries/symbol``.

    Parameters
    ----------
    window
        A preset, a lookback or a start, or ``"all"``, which gives daily buckets.
    symbol, dex
        Symbol and dex to return; None is all.
    """
    return fetch_rows(endpoints.HIP3_TIMESERIES_SYMBOL, {"range": window, "symbol": symbol, "dex": dex})


@typed
def timeseries_dex_breakdown(window: times.Instant | None = None, *, dex: str | None = None) -> pd.DataFrame:
    """Return volume over time, a column per symbol: ``GET /hip3-analytics/timeseries/dex-breakdown``."""
    return fetch_rows(endpoints.HIP3_TIMESERIES_DEX_BREAKDOWN, {"range": window, "dex": dex})


@typed
def leaderboard(
    window: times.Instant | None = None, *, dex: str | None = None, limit: int | None = None
) -> pd.DataFrame:
    """Return the largest traders: ``GET /hip3-analytics/leaderboard``."""
    return fetch_rows(endpoints.HIP3_LEADERBOARD, {"range": window, "dex": dex, "limit": limit})


@typed
def oi_trends_total(window: times.Instant | None = None) -> pd.DataFrame:
    """Return open interest by day, in total and by dex: ``GET /hip3-analytics/oi-trends/total``."""
    return fetch_rows(endpoints.HIP3_OI_TRENDS_TOTAL, {"range": window})


@typed
def oi_trends_dex(dex: str, window: times.Instant | None = None) -> pd.DataFrame:
    """Return open interest of a dex by day, total and by symbol: ``GET /hip3-analytics/oi-trends/dex``."""
    return fetch_rows(endpoints.HIP3_OI_TRENDS_DEX, {"dex": dex, "range": window})


@typed
def candles(
    coin: str,
    start: times.Instant | None = None,
    end: times.Instant | None = None,
    *,
    interval: str = "1h",
    limit: int | None = None,
) -> pd.DataFrame:
    """Return open, high, low, close and volume of one coin: ``GET /hip3-analytics/candles``.

    Parameters
    ----------
    coin
        ``"xyz:TSLA"``.
    start, end
        Half-open window; a lookback such as ``"7d"`` reaches back from `end`. Without it, the newest candles.
    interval
        ``"15m"``, ``"1h"``, ``"4h"`` or ``"1d"``, or another interval of the service.
    limit
        Maximum number of candles in one response. A longer window is split into several requests.

    Raises
    ------
    ValueError
        `end` without `start`; `start` is not before `end`; `limit` is below 1.
    """
    query = {"coin": coin, "interval": interval, "limit": _DEFAULT_CANDLES if limit is None else limit}
    if start is None:
        if end is not None:
            raise ValueError("end= needs start=: pass both, or a lookback such as '7d' as start")
        return fetch_rows(endpoints.HIP3_CANDLES, query)
    window = times.window(start, end)
    length = times.lookback(interval, "interval")
    if length is not None and not length:
        raise ValueError(f"interval must be longer than 0 s, got {interval!r}")
    if length is None:
        return fetch_windows(endpoints.HIP3_CANDLES, query, [window])
    span = length * max(1, min(query["limit"], _CENTURY // length + 1))
    if (window.end - window.start) // span > _MAX_REQUESTS:
        raise ValueError(
            f"limit={limit!r} and interval={interval!r} split the window from {start!r} to {end!r} into more "
            f"than {_MAX_REQUESTS:,} requests: pass a shorter window or a larger limit"
        )
    return fetch_windows(endpoints.HIP3_CANDLES, query, cut(window, span))
