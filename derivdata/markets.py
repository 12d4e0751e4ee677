"""Market snapshots: symbols, venues, price movers, funding leaders.

Prices and current funding refresh about once a minute, rolling figures about every ten minutes; ``time`` is
the time of the response, not of each figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd
from msgspec import UNSET

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, Figure, response_time, timestamps
from derivdata.client.retrieval import get_windows, tabulate, venue_names
from derivdata.client.transport import DecodedResponse
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints
from derivdata.tables.contracts import symbol_of, venue_of

__all__ = [
    "exchange_history",
    "exchange_symbols",
    "exchanges",
    "funding_leaders",
    "price_buckets",
    "price_movers",
    "symbol_exchanges",
    "symbol_stats",
    "symbols",
]
__dir__ = __all__.copy


class _Figures(msgspec.Struct):
    symbol: str
    price_usd: float | None
    price_24h_change_pct: float | None
    volume_24h_usd: float | None
    volume_24h_change_pct: float | None
    oi_usd: float | None
    oi_24h_change_pct: float | None
    top_funding_bps: float | None
    top_funding_exchange: str | None
    liquidation_24h_usd: float | None
    asset_class: str | None = None
    asset_group: str | None = None
    asset_subgroup: str | None = None


class _Symbol(_Figures, kw_only=True):
    rank: int


class _Symbols(Envelope):
    timestamp: str
    symbols: list[_Symbol]


class _Mover(msgspec.Struct):
    symbol: str
    price_usd: float | None
    price_24h_change_pct: float | None
    rank: int


class _Movers(Envelope):
    timestamp: str
    gainers: list[_Mover]
    losers: list[_Mover]


class _Leader(msgspec.Struct):
    symbol: str
    exchange: str
    funding_current_bps: float | None
    rank: int
    oi_rank: float | str | None = None


class _Leaders(Envelope):
    timestamp: str
    data: list[_Leader]


class _PriceBucket(msgspec.Struct):
    label: str
    min: float | None
    max: float | None
    count: int
    symbols: list[str]


class _PriceBuckets(Envelope):
    timestamp: str
    buckets: list[_PriceBucket]


class _Stats(_Figures, kw_only=True):
    timestamp: str
    rank: int | None = None


@typed
def symbols(*, venues: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return the leaderboard of symbols, ranked by open interest.

    Parameters
    ----------
    venues
        Venues over which the figures are computed; None is all.

    Returns
    -------
    DataFrame, table ``markets_symbols``
        One row per symbol, largest open interest first. Prices, open interest, 24-hour volume and
        liquidations are in USD, changes over 24 hours in percent, and the highest funding rate
        ``top_funding_bps_8h`` in bps/8h. Figures that the service does not have are NaN. The asset's class,
        group and subgroup may be missing.

    Notes
    -----
    ``GET /markets/symbols``, Dev (top 200) and above (all). Errors: see `derivdata.funding.snapshot`.

    Examples
    --------
    >>> board = dd.markets.symbols()
    >>> board["symbol"].head(3).tolist(), board["oi_usd"].is_monotonic_decreasing
    (['BTC', 'ETH', 'SOL'], True)
    """
    response = transport.get(endpoints.MARKETS_SYMBOLS, {"exchanges": venue_names(venues)}, into=_Symbols)
    return tabulate(
        tables.TABLES["markets_symbols"],
        [response],
        lambda a: tables.TABLES["markets_symbols"].rows(a.body.symbols, timestamp=response_time(a)),
    )


@typed
def price_movers(
    *,
    min_volume_usd: float | None = None,
    limit: int | None = None,
    venues: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the largest gainers and losers of the last 24 hours.

    Parameters
    ----------
    min_volume_usd
        Minimum 24-hour volume of a symbol [USD]; the service's default is 10,000,000.
    limit
        Entries per list; None uses the service's default.
    venues
        Venues; None is all.

    Returns
    -------
    DataFrame, table ``markets_price_movers``
        One row per entry: ``direction`` is ``"gainer"`` or ``"loser"``, and ``rank`` counts from 1 in each.
        ``price_usd`` [USD] and ``price_24h_change_pct`` [%] are NaN for null.

    Notes
    -----
    ``GET /markets/price-movers`` (wire ``min_value``), Dev and above. Errors: see
    `derivdata.funding.snapshot`.
    """
    query = {"min_value": min_volume_usd, "limit": limit, "exchanges": venue_names(venues)}
    response = transport.get(endpoints.MARKETS_PRICE_MOVERS, query, into=_Movers)
    return tabulate(tables.TABLES["markets_price_movers"], [response], _mover_columns)


@typed
def funding_leaders(*, venues: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return the highest funding rates among all pairs of symbol and venue.

    Parameters
    ----------
    venues
        Venues; None is all.

    Returns
    -------
    DataFrame, table ``markets_funding_leaders``
        Up to ten rows, highest rate first. ``funding_current_bps_8h`` [bps/8h] is NaN for null, and
        ``oi_rank`` is missing beyond the ranked list.

    Notes
    -----
    ``GET /markets/funding-leaders``, Dev and above. Errors: see `derivdata.funding.snapshot`.
    """
    response = transport.get(
        endpoints.MARKETS_FUNDING_LEADERS, {"exchanges": venue_names(venues)}, into=_Leaders
    )
    return tabulate(
        tables.TABLES["markets_funding_leaders"],
        [response],
        lambda a: tables.TABLES["markets_funding_leaders"].rows(a.body.data, timestamp=response_time(a)),
    )


@typed
def price_buckets(*, venues: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return counts of symbols by their 24-hour price change.

    Parameters
    ----------
    venues
        Venues; None is all.

    Returns
    -------
    DataFrame, table ``markets_price_buckets``
        One row per bucket, highest first; ``lower_pct`` and ``upper_pct`` [%] are NaN for an open end,
        ``symbols`` are joined by commas.

    Notes
    -----
    ``GET /markets/price-buckets``, Dev and above. Errors: see `derivdata.funding.snapshot`.
    """
    response = transport.get(
        endpoints.MARKETS_PRICE_BUCKETS, {"exchanges": venue_names(venues)}, into=_PriceBuckets
    )
    return tabulate(tables.TABLES["markets_price_buckets"], [response], _bucket_columns)


@typed
def symbol_stats(symbol: str) -> pd.DataFrame:
    """Return the current figures of one symbol, as in the leaderboard.

    Parameters
    ----------
    symbol
        Asset without quote.

    Returns
    -------
    DataFrame, table ``markets_symbol_stats``
        One row, with the units of `symbols`. ``rank`` may be missing; figures that the service does not have
        are NaN.

    Raises
    ------
    NotFound
        The symbol is unknown.
    FetchError, SchemaError
        The request failed, or the response is not this table.

    Notes
    -----
    ``GET /markets/{symbol}/stats``; Free sees BTC and ETH.
    """
    response = transport.get(endpoints.MARKETS_SYMBOL_STATS, {"symbol": symbol_of(symbol)}, into=_Stats)
    return tabulate(
        tables.TABLES["markets_symbol_stats"],
        [response],
        lambda a: tables.TABLES["markets_symbol_stats"].rows([a.body], timestamp=response_time(a)),
    )


def _bucket_columns(response: DecodedResponse[_PriceBuckets]) -> dict[str, Any]:
    buckets = response.body.buckets
    columns = tables.TABLES["markets_price_buckets"].rows(buckets, timestamp=response_time(response))
    return columns | {
        "rank": list(range(1, len(buckets) + 1)),
        "symbols": [",".join(bucket.symbols) for bucket in buckets],
    }


def _mover_columns(response: DecodedResponse[_Movers]) -> dict[str, Any]:
    body = response.body
    columns = tables.TABLES["markets_price_movers"].rows(
        [*body.gainers, *body.losers], timestamp=response_time(response)
    )
    return columns | {"direction": ["gainer"] * len(body.gainers) + ["loser"] * len(body.losers)}


class _State(msgspec.Struct, kw_only=True):
    price_usd: Figure = UNSET
    price_24h_change_pct: float | None = None
    volume_24h_usd: float | None = None
    oi_usd: float | None = None
    funding_current_bps: float | None = None
    funding_avg_7d_bps: float | None = None
    liquidation_24h_usd: float | None = None
    symbol_count: int | None = None


class _OnExchange(_State, kw_only=True):
    exchange: str


class _OfSymbol(_State, kw_only=True):
    symbol: str


class _SymbolExchanges(Envelope):
    symbol: str
    timestamp: str
    exchanges: list[_OnExchange]


class _ExchangeSymbols(Envelope):
    exchange: str
    timestamp: str
    symbols: list[_OfSymbol]


class _Exchanges(Envelope):
    timestamp: str
    exchanges: list[_OnExchange]


class _Step(msgspec.Struct):
    timestamp: str
    volume_usd: float | None
    oi_usd: float | None


class _ExchangeHistory(Envelope):
    exchange: str
    data: list[_Step]


@typed
def exchanges() -> pd.DataFrame:
    """Return the current figures of each venue, over all its symbols.

    Returns
    -------
    DataFrame, table ``markets_exchanges``
        One row per venue: ``volume_24h_usd``, ``oi_usd`` and ``liquidation_24h_usd`` [USD], and
        ``symbol_count``. Figures that the service does not have are missing.

    Notes
    -----
    ``GET /markets/exchanges/all``, Dev and above. Errors: see `derivdata.funding.snapshot`.
    """
    response = transport.get(endpoints.MARKETS_EXCHANGES, {}, into=_Exchanges)
    return tabulate(
        tables.TABLES["markets_exchanges"],
        [response],
        lambda a: tables.TABLES["markets_exchanges"].rows(a.body.exchanges, timestamp=response_time(a)),
    )


@typed
def exchange_symbols(venue: str) -> pd.DataFrame:
    """Return the current figures of each symbol on one venue.

    Parameters
    ----------
    venue
        Venue, such as ``"binance"``.

    Returns
    -------
    DataFrame, table ``markets_exchange_symbols``
        One row per symbol, with the columns of `symbol_exchanges`.

    Raises
    ------
    NotFound
        The venue is unknown.
    FetchError, SchemaError
        The request failed, or the response is not this table.

    Notes
    -----
    ``GET /markets/exchanges/{exchange}/symbols``, Dev and above.
    """
    response = transport.get(
        endpoints.MARKETS_EXCHANGE_SYMBOLS, {"exchange": venue_of(venue)}, into=_ExchangeSymbols
    )
    return tabulate(
        tables.TABLES["markets_exchange_symbols"],
        [response],
        lambda a: tables.TABLES["markets_exchange_symbols"].rows(
            a.body.symbols, exchange=a.body.exchange, timestamp=response_time(a)
        ),
    )


@typed
def symbol_exchanges(symbol: str) -> pd.DataFrame:
    """Return the current figures of one symbol on each venue.

    Parameters
    ----------
    symbol
        Asset without quote.

    Returns
    -------
    DataFrame, table ``markets_symbol_exchanges``
        One row per venue: price, 24-hour volume, open interest and 24-hour liquidations [USD],
        ``price_24h_change_pct`` [%], and the current and the 7-day mean funding rate [bps/8h]. Figures that
        the service does not have are NaN.

    Notes
    -----
    ``GET /markets/{symbol}/exchanges``, Dev and above. Errors: see `symbol_stats`.
    """
    response = transport.get(
        endpoints.MARKETS_SYMBOL_EXCHANGES, {"symbol": symbol_of(symbol)}, into=_SymbolExchanges
    )
    return tabulate(
        tables.TABLES["markets_symbol_exchanges"],
        [response],
        lambda a: tables.TABLES["markets_symbol_exchanges"].rows(
            a.body.exchanges, symbol=a.body.symbol, timestamp=response_time(a)
        ),
    )


@typed
def exchange_history(venue: str, start: times.TimeLike, end: times.TimeLike | None = None) -> pd.DataFrame:
    """Return volume and open interest of one venue over a window.

    Parameters
    ----------
    venue
        Venue, such as ``"binance"``.
    start, end
        Half-open window ``[start, end)``; a lookback such as ``"30d"`` reaches back from `end`.

    Returns
    -------
    DataFrame, table ``markets_exchange_history``
        One row per step; ``volume_usd`` and ``oi_usd`` [USD], NaN for null. ``resolution`` is the step, which
        the server chooses by the length of the window.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a time is not valid.
    NotFound
        The venue is unknown.
    FetchError, SchemaError
        A request failed, or a response is not this table.

    Notes
    -----
    ``GET /markets/exchanges/{exchange}/timeseries``, Dev and above.
    """
    responses = get_windows(
        endpoints.MARKETS_EXCHANGE_TIMESERIES,
        [{"exchange": venue_of(venue)}],
        [times.window(start, end)],
        _ExchangeHistory,
    )
    return tabulate(tables.TABLES["markets_exchange_history"], responses, _exchange_columns)


def _exchange_columns(response: DecodedResponse[_ExchangeHistory]) -> dict[str, Any]:
    body = response.body
    return tables.TABLES["markets_exchange_history"].rows(
        body.data, exchange=body.exchange, resolution=body.resolution
    ) | {"timestamp": timestamps(response, [step.timestamp for step in body.data])}
