"""State of venues and of symbols on them."""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd
from msgspec import UNSET

from derivdata import tables
from derivdata.client import transport
from derivdata.client.reading import Envelope, Figure, answer_time, instants
from derivdata.client.retrieval import get_windows, tabulate
from derivdata.client.transport import Answer
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints
from derivdata.tables.contracts import symbol_of, venue_of


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
    """Return the state of every venue now, over all its symbols.

    Returns
    -------
    DataFrame, table ``markets_exchanges``
        One row per venue; figures that the service lacks are NaN.

    Notes
    -----
    ``GET /markets/exchanges/all``, Dev and above. Errors are those of `derivdata.funding.snapshot`.
    """
    answer = transport.get(endpoints.MARKETS_EXCHANGES, {}, into=_Exchanges)
    return tabulate(
        tables.TABLES["markets_exchanges"],
        [answer],
        lambda a: tables.TABLES["markets_exchanges"].rows(a.body.exchanges, timestamp=answer_time(a)),
    )


@typed
def exchange_symbols(venue: str) -> pd.DataFrame:
    """Return the state of every symbol on one venue now.

    Parameters
    ----------
    venue
        Venue's slug.

    Returns
    -------
    DataFrame, table ``markets_exchange_symbols``
        One row per symbol; figures that the service lacks are NaN.

    Raises
    ------
    NotFound
        The venue is not known.
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /markets/exchanges/{exchange}/symbols``, Dev and above.
    """
    answer = transport.get(
        endpoints.MARKETS_EXCHANGE_SYMBOLS, {"exchange": venue_of(venue)}, into=_ExchangeSymbols
    )
    return tabulate(
        tables.TABLES["markets_exchange_symbols"],
        [answer],
        lambda a: tables.TABLES["markets_exchange_symbols"].rows(
            a.body.symbols, exchange=a.body.exchange, timestamp=answer_time(a)
        ),
    )


@typed
def symbol_exchanges(symbol: str) -> pd.DataFrame:
    """Return the state of one symbol on every venue now.

    Parameters
    ----------
    symbol
        Asset without quote.

    Returns
    -------
    DataFrame, table ``markets_symbol_exchanges``
        One row per venue; figures that the service lacks are NaN.

    Notes
    -----
    ``GET /markets/{symbol}/exchanges``, Dev and above. Errors are those of `symbol_stats`.
    """
    answer = transport.get(
        endpoints.MARKETS_SYMBOL_EXCHANGES, {"symbol": symbol_of(symbol)}, into=_SymbolExchanges
    )
    return tabulate(
        tables.TABLES["markets_symbol_exchanges"],
        [answer],
        lambda a: tables.TABLES["markets_symbol_exchanges"].rows(
            a.body.exchanges, symbol=a.body.symbol, timestamp=answer_time(a)
        ),
    )


@typed
def exchange_history(venue: str, start: times.Instant, end: times.Instant | None = None) -> pd.DataFrame:
    """Return volume and open interest of one venue over a window.

    Parameters
    ----------
    venue
        Venue's slug.
    start, end
        Half-open window ``[start, end)``; a lookback such as ``"30d"`` reaches back from `end`.

    Returns
    -------
    DataFrame, table ``markets_exchange_history``
        One row per step; ``volume_usd`` and ``oi_usd`` [USD], NaN where the wire has null. ``resolution`` is
        the step, which the server chooses by the length of the window.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; an instant is not one.
    NotFound
        The venue is not known.
    FetchError, SchemaError
        No answer, or one that is not this table.

    Notes
    -----
    ``GET /markets/exchanges/{exchange}/timeseries``, Dev and above.
    """
    answers = get_windows(
        endpoints.MARKETS_EXCHANGE_TIMESERIES,
        [{"exchange": venue_of(venue)}],
        [times.window(start, end)],
        _ExchangeHistory,
    )
    return tabulate(tables.TABLES["markets_exchange_history"], answers, _exchange_columns)


def _exchange_columns(answer: Answer[_ExchangeHistory]) -> dict[str, Any]:
    body = answer.body
    return tables.TABLES["markets_exchange_history"].rows(
        body.data, exchange=body.exchange, resolution=body.resolution
    ) | {"timestamp": instants(answer, [step.timestamp for step in body.data])}
