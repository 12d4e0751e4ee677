"""Section 4.10 of the API document, market data: endpoints that it names, mostly without parameters."""

from __future__ import annotations

from derivdata.api.model import Endpoint, Param, ParamKind
from derivdata.api.params import (
    AGGREGATE_SECONDS,
    DAYS,
    END,
    EXCHANGE,
    EXCHANGES,
    LIMIT,
    NOT_BOTH,
    PATH_EXCHANGE,
    PATH_SYMBOL,
    RESOLUTION,
    START,
    SYMBOL,
    WINDOW,
)

_OPTIONS_SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", default="BTC")
_WEEK_TO_QUARTER = Param(
    "range",
    ParamKind.TEXT,
    "Rolling window that ends now.",
    default="7d",
    choices=("7d", "30d", "90d"),
    documented=False,
)

ORDERBOOK_BOOK = Endpoint(
    "/orderbook/book",
    "dev",
    "orderbook_book",
    "Order book of one symbol on one venue.",
    params=(SYMBOL, EXCHANGE, LIMIT),
    fresh_seconds=5.0,
)
ORDERBOOK_DEPTH_HISTORY = Endpoint(
    "/orderbook/depth-history",
    "dev",
    "orderbook_depth_history",
    "Depth within 10, 25, 50 and 100 bps of the mid price over time.",
    params=(SYMBOL, EXCHANGE, *WINDOW, RESOLUTION),
    exclusive=NOT_BOTH,
)
OPTIONS_SURFACE_HISTORY = Endpoint(
    "/options/surface-history",
    "dev",
    "options_surface_history",
    "Options surface of every hour.",
    params=(_OPTIONS_SYMBOL, EXCHANGE, DAYS),
)
OPTIONS_ATM_HISTORY = Endpoint(
    "/options/atm-history",
    "dev",
    "options_atm_history",
    "At-the-money volatility of every hour and expiry.",
    params=(_OPTIONS_SYMBOL, EXCHANGE, DAYS),
)
OPTIONS_METRICS = Endpoint(
    "/options/metrics",
    "dev",
    "options_metrics",
    "At-the-money volatility per expiry, now and a day ago.",
    params=(_OPTIONS_SYMBOL, EXCHANGE),
)
OPTIONS_OVERVIEW_HISTORY = Endpoint(
    "/options/overview-history",
    "dev",
    "options_overview_history",
    "Hourly notional open interest and rolling 24-hour volume by venue and symbol.",
    params=(DAYS,),
)
LIQUIDATIONS_HISTORY = Endpoint(
    "/liquidations/history",
    "dev",
    "liquidations_history",
    "Liquidated value by venue and side over time.",
    params=(*WINDOW, Param("symbol", ParamKind.LIST, "Base symbols."), RESOLUTION),
    exclusive=NOT_BOTH,
)
LIQUIDATIONS_AGGREGATES = Endpoint(
    "/liquidations/aggregates",
    "dev",
    "liquidations_aggregates",
    "Liquidations of the last hours by symbol, venue or both.",
    params=(
        Param(
            "range",
            ParamKind.TEXT,
            "Rolling window that ends now.",
            default="24h",
            choices=("1h", "4h", "12h", "24h"),
        ),
        Param(
            "group_by",
            ParamKind.TEXT,
            "What is added up.",
            default="symbol",
            choices=("symbol", "exchange", "symbol_exchange"),
            documented=False,
        ),
    ),
)
OI_EXCHANGE_TOTALS = Endpoint(
    "/oi/exchange-totals",
    "dev",
    "oi_exchange_totals",
    "Open interest of every venue over all symbols, over time.",
    params=(*WINDOW, EXCHANGES, RESOLUTION),
    exclusive=NOT_BOTH,
)
VOLUME_EXCHANGE_TOTALS = Endpoint(
    "/volume/exchange-totals",
    "dev",
    "volume_exchange_totals",
    "Volume of every venue over all symbols, over time.",
    params=(*WINDOW, EXCHANGES, RESOLUTION),
    exclusive=NOT_BOTH,
)
VOLUME_OI_RATIO = Endpoint(
    "/volume-oi-ratio",
    "dev",
    "volume_oi_ratio",
    "Volume over open interest of every venue, over time.",
    params=(
        *WINDOW,
        Param(
            "window_days", ParamKind.INTEGER, "Days that volume is added up over; Dev at most 7.", default=1
        ),
        EXCHANGES,
        RESOLUTION,
    ),
    exclusive=NOT_BOTH,
)
VOLUME_TIMESERIES = Endpoint(
    "/volume/{symbol}/timeseries",
    "dev",
    "volume_history",
    "Volume of one symbol on every venue over time.",
    params=(PATH_SYMBOL, *WINDOW, EXCHANGES, RESOLUTION),
    exclusive=NOT_BOTH,
)
OI_TOP_SYMBOLS = Endpoint(
    "/oi/exchange-top-symbols-timeseries",
    "dev",
    "oi_top_symbols",
    "Open interest of a venue's largest symbols over time.",
    params=(EXCHANGE, START, END, _WEEK_TO_QUARTER, LIMIT),
    exclusive=NOT_BOTH,
)
VOLUME_TOP_SYMBOLS = Endpoint(
    "/volume/exchange-top-symbols-timeseries",
    "dev",
    "volume_top_symbols",
    "Volume of a venue's largest symbols over time.",
    params=(EXCHANGE, START, END, _WEEK_TO_QUARTER, LIMIT),
    exclusive=NOT_BOTH,
)
MARKETS_EXCHANGE_TIMESERIES = Endpoint(
    "/markets/exchanges/{exchange}/timeseries",
    "dev",
    "markets_exchange_history",
    "Volume and open interest of one venue over time.",
    params=(PATH_EXCHANGE, *WINDOW),
    exclusive=NOT_BOTH,
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
RWA_MARKET_HOURS = Endpoint(
    "/rwa/market-hours",
    "pro",
    "rwa_market_hours",
    "Trading sessions and holidays of the exchanges behind real-world assets.",
    params=(Param("exchange", ParamKind.LIST, "Exchanges' ids, short names or market identifier codes."),),
    fresh_seconds=AGGREGATE_SECONDS,
)
