"""Open interest: current values of each venue, and symbols and venues over time.

Windows are half-open ``[start, end)``. A naive time is UTC; a `start` such as ``"30d"`` looks back from
`end`; without `end` the window ends at `derivdata.asof`. ``resolution=None`` leaves the choice to the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import quantities, transport
from derivdata.client.quantities import quantity
from derivdata.client.reading import Envelope
from derivdata.client.retrieval import By, tabulate
from derivdata.client.transport import DecodedResponse
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints
from derivdata.tables.frames import over_all_contracts

__all__ = ["exchange_totals", "exchanges", "history", "sparklines", "top_symbols"]
__dir__ = __all__.copy


class _Exchange(msgspec.Struct):
    exchange: str
    total_oi_usd: float | None
    symbol_count: int | None
    top_symbol: str | None
    change_24h: float | None
    change_7d: float | None
    market_share: float | None
    sparkline_7d: list[float | None] = []


class _Summary(Envelope):
    exchanges: list[_Exchange]


_HISTORY = quantity(endpoints.OI_TIMESERIES, "open_interest_usd", "open_interest_all_contracts_usd")
_TOTALS = quantity(endpoints.OI_EXCHANGE_TOTALS, "total_open_interest_usd")
_TOP = quantity(endpoints.OI_TOP_SYMBOLS, "oi_usd")


@typed
def exchanges() -> pd.DataFrame:
    """Return the current open interest of each venue.

    Returns
    -------
    DataFrame, table ``oi_exchanges``
        One row per venue. ``market_share`` is a fraction of all open interest; the API does not document the
        unit of ``change_24h`` and ``change_7d``. ``time`` is the server's ``Date``.

    Notes
    -----
    ``GET /oi/exchanges-summary``, Dev and above. `sparklines` returns the last week from the same response.
    Errors: see `derivdata.funding.snapshot`.

    Examples
    --------
    >>> venues = dd.oi.exchanges()
    >>> venues["market_share"].sum().round(3).item()
    1.0
    """
    response = transport.get(endpoints.OI_EXCHANGES_SUMMARY, {}, into=_Summary)
    return tabulate(
        tables.TABLES["oi_exchanges"],
        [response],
        lambda a: tables.TABLES["oi_exchanges"].rows(a.body.exchanges, time=a.as_of),
    )


@typed
def sparklines() -> pd.DataFrame:
    """Return seven points of open interest over the last week, by venue.

    Returns
    -------
    DataFrame, table ``oi_sparklines``
        One row per venue and point. ``days_ago`` counts steps before the newest point (0). According to the
        API document the oldest point comes first; the hour of the points is undocumented.

    Notes
    -----
    ``GET /oi/exchanges-summary``, Dev and above; the same response as `exchanges`. Errors: see
    `derivdata.funding.snapshot`.
    """
    response = transport.get(endpoints.OI_EXCHANGES_SUMMARY, {}, into=_Summary)
    return tabulate(tables.TABLES["oi_sparklines"], [response], _sparkline_columns)


@typed
def history(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
    by: By = "symbol",
) -> pd.DataFrame:
    """Return open interest of symbols on each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution, by
        As in `derivdata.funding.history`.

    Returns
    -------
    DataFrame, table ``oi_history``
        One row per symbol, venue and step; rows with null are dropped. ``oi_usd`` [USD] is of one contract
        of the venue, which represents the symbol (a perpetual in USDT before one in coins).
        ``oi_all_contracts_usd`` [USD] is the sum over all perpetuals of the symbol, in USDT, USDC and coins.
        Only collected archives have it, from polls; it is NaN if a contract is unknown. With ``by="coin"``,
        ``oi_usd`` is this sum if the source has it for the symbol and venue, else still of one contract;
        ``dd.panel(table, by="coin")`` sums the symbols of a coin.

    Notes
    -----
    ``GET /oi/{symbol}/timeseries``, Dev and above. Errors: see `derivdata.funding.history`.

    Examples
    --------
    >>> dd.oi.history(["BTC", "ETH"], "7d", venues=["binance"]).shape
    (336, 6)
    """
    table = quantities.over_time(_HISTORY, symbols, start, end, venues, resolution, by)
    return over_all_contracts(table) if by == "coin" else table


@typed
def exchange_totals(
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return total open interest of each venue over a window.

    Parameters
    ----------
    start, end, venues, resolution
        As in `history`.

    Returns
    -------
    DataFrame, table ``oi_exchange_totals``
        One row per venue and step; ``total_oi_usd`` [USD], over all symbols. Rows with null are dropped.

    Notes
    -----
    ``GET /oi/exchange-totals``, Dev and above. Errors: see `history`.
    """
    return quantities.over_time(_TOTALS, None, start, end, venues, resolution)


@typed
def top_symbols(
    venue: str, start: times.TimeLike, end: times.TimeLike | None = None, *, limit: int | None = None
) -> pd.DataFrame:
    """Return open interest of a venue's largest symbols over a window.

    Parameters
    ----------
    venue
        One venue.
    start, end
        Half-open window.
    limit
        Maximum number of symbols; None uses the service's default (50).

    Returns
    -------
    DataFrame, table ``oi_top_symbols``
        One row per symbol and time; ``oi_usd`` [USD]. Rows with null are dropped.

    Notes
    -----
    ``GET /oi/exchange-top-symbols-timeseries``, Dev and above. The symbols are the largest ones today: a
    study of the past with them has look-ahead bias. Errors: see `history`.
    """
    return quantities.top_symbols(_TOP, venue, start, end, limit)


def _sparkline_columns(response: DecodedResponse[_Summary]) -> dict[str, Any]:
    venues: list[str] = []
    days_ago: list[int] = []
    values: list[float | None] = []
    for row in response.body.exchanges:
        count = len(row.sparkline_7d)
        venues += [row.exchange] * count
        days_ago += reversed(range(count))
        values += row.sparkline_7d
    return {
        "exchange": venues,
        "days_ago": days_ago,
        "time": pd.DatetimeIndex([response.as_of]).repeat(len(values)),
        "oi_usd": values,
    }
