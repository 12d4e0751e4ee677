"""Endpoints of market states and rankings."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import (
    AGGREGATE_SECONDS,
    EXCHANGES,
    NOT_BOTH,
    PATH_EXCHANGE,
    PATH_SYMBOL,
    WINDOW,
)

MARKETS_SYMBOLS = Endpoint(
    "/markets/symbols",
    "dev",
    "markets_symbols",
    "Leaderboard of symbols by open interest.",
    params=(EXCHANGES,),
)
MARKETS_PRICE_MOVERS = Endpoint(
    "/markets/price-movers",
    "dev",
    "markets_price_movers",
    "Largest gainers and losers of 24 hours.",
    params=(
        Param("min_value", ParamKind.NUMBER, "Smallest 24-hour volume in USD.", default=10_000_000.0),
        Param("limit", ParamKind.INTEGER, "Entries per list."),
        EXCHANGES,
    ),
)
MARKETS_FUNDING_LEADERS = Endpoint(
    "/markets/funding-leaders",
    "dev",
    "markets_funding_leaders",
    "The ten highest funding rates.",
    params=(EXCHANGES,),
)
MARKETS_EXCHANGE_TIMESERIES = Endpoint(
    "/markets/exchanges/{exchange}/timeseries",
    "dev",
    "markets_exchange_history",
    "Volume and open interest of one venue over time.",
    params=(PATH_EXCHANGE, *WINDOW),
    exclusive=NOT_BOTH,
    unit="usd",
)
MARKETS_PRICE_BUCKETS = Endpoint(
    "/markets/price-buckets",
    "dev",
    "markets_price_buckets",
    "How many symbols rose or fell by how much in 24 hours.",
    params=(EXCHANGES,),
)
MARKETS_EXCHANGES = Endpoint(
    "/markets/exchanges/all",
    "dev",
    "markets_exchanges",
    "State of every venue.",
    fresh_seconds=AGGREGATE_SECONDS,
)
MARKETS_EXCHANGE_SYMBOLS = Endpoint(
    "/markets/exchanges/{exchange}/symbols",
    "dev",
    "markets_exchange_symbols",
    "State of every symbol on one venue.",
    params=(PATH_EXCHANGE,),
)
MARKETS_SYMBOL_EXCHANGES = Endpoint(
    "/markets/{symbol}/exchanges",
    "dev",
    "markets_symbol_exchanges",
    "State of one symbol on every venue.",
    params=(PATH_SYMBOL,),
)
MARKETS_SYMBOL_STATS = Endpoint(
    "/markets/{symbol}/stats",
    "free",
    "markets_symbol_stats",
    "State of one symbol; Free sees BTC and ETH.",
    params=(PATH_SYMBOL,),
)
