"""Symbols ranked: the leaderboard, movers, funding leaders, buckets of price changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, answer_time
from derivdata.client.retrieval import tabulate
from derivdata.client.transport import Answer
from derivdata.support.arguments import typed
from derivdata.tables import endpoints
from derivdata.tables.contracts import symbol_of, venue_names


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
        One row per symbol, best rank first. Figures that the service lacks are NaN; the asset's class,
        group and subgroup are missing where the service gives none.

    Notes
    -----
    ``GET /markets/symbols``, Dev (top 200) and above (all). Errors are those of `derivdata.funding.snapshot`.

    Examples
    --------
    >>> board = dd.markets.symbols()
    >>> board["symbol"].head(3).tolist(), board["oi_usd"].is_monotonic_decreasing
    (['BTC', 'ETH', 'SOL'], True)
    """
    answer = transport.get(endpoints.MARKETS_SYMBOLS, {"exchanges": venue_names(venues)}, into=_Symbols)
    return tabulate(
        tables.TABLES["markets_symbols"],
        [answer],
        lambda a: tables.TABLES["markets_symbols"].rows(a.body.symbols, timestamp=answer_time(a)),
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
        Smallest 24-hour volume of a symbol [USD]; the service's default is 10,000,000.
    limit
        Entries per list; the service's default unless given.
    venues
        Venues; None is all.

    Returns
    -------
    DataFrame, table ``markets_price_movers``
        One row per entry: ``direction`` is ``gainer`` or ``loser``, ``rank`` counts from 1 in each.

    Notes
    -----
    ``GET /markets/price-movers`` (wire ``min_value``), Dev and above. Errors are those of
    `derivdata.funding.snapshot`.
    """
    query = {"min_value": min_volume_usd, "limit": limit, "exchanges": venue_names(venues)}
    answer = transport.get(endpoints.MARKETS_PRICE_MOVERS, query, into=_Movers)
    return tabulate(tables.TABLES["markets_price_movers"], [answer], _mover_columns)


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
        Up to ten rows, highest rate first; ``funding_current_bps_8h`` [bps/8h].

    Notes
    -----
    ``GET /markets/funding-leaders``, Dev and above. Errors are those of `derivdata.funding.snapshot`.
    """
    answer = transport.get(
        endpoints.MARKETS_FUNDING_LEADERS, {"exchanges": venue_names(venues)}, into=_Leaders
    )
    return tabulate(
        tables.TABLES["markets_funding_leaders"],
        [answer],
        lambda a: tables.TABLES["markets_funding_leaders"].rows(a.body.data, timestamp=answer_time(a)),
    )


@typed
def price_buckets(*, venues: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Count the symbols by how much their price changed in 24 hours.

    Parameters
    ----------
    venues
        Venues; None is all.

    Returns
    -------
    DataFrame, table ``markets_price_buckets``
        One row per bucket from the top; ``lower_pct`` and ``upper_pct`` [%] are NaN where it is open,
        ``symbols`` are joined by commas.

    Notes
    -----
    ``GET /markets/price-buckets``, Dev and above. Errors are those of `derivdata.funding.snapshot`.
    """
    answer = transport.get(
        endpoints.MARKETS_PRICE_BUCKETS, {"exchanges": venue_names(venues)}, into=_PriceBuckets
    )
    return tabulate(tables.TABLES["markets_price_buckets"], [answer], _bucket_columns)


@typed
def symbol_stats(symbol: str) -> pd.DataFrame:
    """Return the state of one symbol now: its figures of the leaderboard.

    Parameters
    ----------
    symbol
        Asset without quote.

    Returns
    -------
    DataFrame, table ``markets_symbol_stats``
        One row; ``rank`` is missing where the service leaves it out.

    Raises
    ------
    NotFound
        The symbol is not known.
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /markets/{symbol}/stats``; Free sees BTC and ETH.
    """
    answer = transport.get(endpoints.MARKETS_SYMBOL_STATS, {"symbol": symbol_of(symbol)}, into=_Stats)
    return tabulate(
        tables.TABLES["markets_symbol_stats"],
        [answer],
        lambda a: tables.TABLES["markets_symbol_stats"].rows([a.body], timestamp=answer_time(a)),
    )


def _bucket_columns(answer: Answer[_PriceBuckets]) -> dict[str, Any]:
    buckets = answer.body.buckets
    columns = tables.TABLES["markets_price_buckets"].rows(buckets, timestamp=answer_time(answer))
    return columns | {
        "rank": list(range(1, len(buckets) + 1)),
        "symbols": [",".join(bucket.symbols) for bucket in buckets],
    }


def _mover_columns(answer: Answer[_Movers]) -> dict[str, Any]:
    body = answer.body
    columns = tables.TABLES["markets_price_movers"].rows(
        [*body.gainers, *body.losers], timestamp=answer_time(answer)
    )
    return columns | {"direction": ["gainer"] * len(body.gainers) + ["loser"] * len(body.losers)}
