"""HIP-3 analytics: dexes of third parties on Hyperliquid.

The API document does not define the fields of these responses, so the tables are open. Each field becomes a
column under its own name, in undocumented units. Numbers sent as text become numbers, and a field that a row
lacks is missing. Nothing is dropped. ``part`` is the field of the response that a row comes from.

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
def dashboard(window: times.TimeLike | None = None) -> pd.DataFrame:
    """Return an overview of HIP-3.

    Parameters
    ----------
    window
        A preset, a lookback or a start; None leaves the choice to the service.

    Returns
    -------
    DataFrame, open table ``hip3_dashboard``
        One row per object of the response; ``part`` is the field that it comes from.

    Raises
    ------
    ValueError, TypeError
        An argument is not valid.
    BadRequest, TierError
        The service rejects an argument, or the key's tier does not include the request.
    FetchError, SchemaError
        The request failed, or the response is not an object of rows.

    Notes
    -----
    ``GET /hip3-analytics/dashboard``, Dev and above.
    """
    return fetch_rows(endpoints.HIP3_DASHBOARD, {"range": window})


@typed
def dex_detail(dex: str, window: times.TimeLike | None = None) -> pd.DataFrame:
    """Return totals of one HIP-3 dex, and its activity by symbol and by day.

    Parameters
    ----------
    dex
        Dex, such as ``"xyz"``.
    window
        As in `dashboard`.

    Returns
    -------
    DataFrame, open table ``hip3_dex_detail``
        One row with totals, one per symbol and one per day; ``part`` distinguishes them.

    Notes
    -----
    ``GET /hip3-analytics/dex-detail``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_DEX_DETAIL, {"dex": dex, "range": window})


@typed
def by_dex(window: times.TimeLike | None = None) -> pd.DataFrame:
    """Return the activity of each HIP-3 dex.

    Parameters
    ----------
    window
        As in `dashboard`.

    Returns
    -------
    DataFrame, open table ``hip3_by_dex``
        One row per dex.

    Notes
    -----
    ``GET /hip3-analytics/by-dex``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_BY_DEX, {"range": window})


@typed
def by_symbol(
    window: times.TimeLike | None = None, *, dex: str | None = None, limit: int | None = None
) -> pd.DataFrame:
    """Return the activity of each symbol on one HIP-3 dex or on all.

    Parameters
    ----------
    window
        As in `dashboard`.
    dex
        Dex to return, such as ``"xyz"``; None is all.
    limit
        Maximum number of rows; None uses the service's default.

    Returns
    -------
    DataFrame, open table ``hip3_by_symbol``
        One row per symbol.

    Notes
    -----
    ``GET /hip3-analytics/by-symbol``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_BY_SYMBOL, {"range": window, "dex": dex, "limit": limit})


@typed
def timeseries_symbol(
    window: times.TimeLike | None = None, *, symbol: str | None = None, dex: str | None = None
) -> pd.DataFrame:
    """Return the activity of a symbol on HIP-3 dexes over time.

    Parameters
    ----------
    window
        As in `dashboard`, or ``"all"``, which gives daily buckets.
    symbol, dex
        Symbol and dex to return; None is all.

    Returns
    -------
    DataFrame, open table ``hip3_timeseries_symbol``
        One row per time.

    Notes
    -----
    ``GET /hip3-analytics/timeseries/symbol``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_TIMESERIES_SYMBOL, {"range": window, "symbol": symbol, "dex": dex})


@typed
def timeseries_dex_breakdown(window: times.TimeLike | None = None, *, dex: str | None = None) -> pd.DataFrame:
    """Return the volume of HIP-3 over time, with a column per symbol or dex.

    Parameters
    ----------
    window
        As in `dashboard`.
    dex
        Dex to return, such as ``"xyz"``; None is all.

    Returns
    -------
    DataFrame, open table ``hip3_timeseries_dex_breakdown``
        One row per time, with a column of volume for each symbol or dex. Missing where the response lacks a
        value.

    Notes
    -----
    ``GET /hip3-analytics/timeseries/dex-breakdown``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_TIMESERIES_DEX_BREAKDOWN, {"range": window, "dex": dex})


@typed
def leaderboard(
    window: times.TimeLike | None = None, *, dex: str | None = None, limit: int | None = None
) -> pd.DataFrame:
    """Return the largest traders on HIP-3 dexes.

    Parameters
    ----------
    window
        As in `dashboard`.
    dex
        Dex to return, such as ``"xyz"``; None is all.
    limit
        Maximum number of rows; None uses the service's default.

    Returns
    -------
    DataFrame, open table ``hip3_leaderboard``
        One row per trader.

    Notes
    -----
    ``GET /hip3-analytics/leaderboard``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_LEADERBOARD, {"range": window, "dex": dex, "limit": limit})


@typed
def oi_trends_total(window: times.TimeLike | None = None) -> pd.DataFrame:
    """Return open interest of HIP-3 by day, in total and by dex.

    Parameters
    ----------
    window
        As in `dashboard`.

    Returns
    -------
    DataFrame, open table ``hip3_oi_trends_total``
        One row per day, and one per day and dex; ``part`` distinguishes them.

    Notes
    -----
    ``GET /hip3-analytics/oi-trends/total``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_OI_TRENDS_TOTAL, {"range": window})


@typed
def oi_trends_dex(dex: str, window: times.TimeLike | None = None) -> pd.DataFrame:
    """Return open interest of one HIP-3 dex by day, in total and by symbol.

    Parameters
    ----------
    dex
        Dex, such as ``"xyz"``.
    window
        As in `dashboard`.

    Returns
    -------
    DataFrame, open table ``hip3_oi_trends_dex``
        One row per day, and one per day and symbol; ``part`` distinguishes them.

    Notes
    -----
    ``GET /hip3-analytics/oi-trends/dex``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP3_OI_TRENDS_DEX, {"dex": dex, "range": window})


@typed
def candles(
    coin: str,
    start: times.TimeLike | None = None,
    end: times.TimeLike | None = None,
    *,
    interval: str = "1h",
    limit: int | None = None,
) -> pd.DataFrame:
    """Return open, high, low, close and volume of one coin on a HIP-3 dex.

    Parameters
    ----------
    coin
        Dex and symbol, ``"xyz:TSLA"``.
    start, end
        Half-open window; a lookback such as ``"7d"`` reaches back from `end`. Without it, the newest candles.
    interval
        ``"15m"``, ``"1h"``, ``"4h"`` or ``"1d"``, or another interval of the service.
    limit
        Maximum number of candles in one response (500 by default). A longer window is split into several
        requests.

    Returns
    -------
    DataFrame, open table ``hip3_candles``
        One row per candle, under the names of the service.

    Raises
    ------
    ValueError
        `end` without `start`; `start` is not before `end`; `limit` is below 1.
    FetchError, SchemaError
        As in `dashboard`.

    Notes
    -----
    ``GET /hip3-analytics/candles``, Dev and above.
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
