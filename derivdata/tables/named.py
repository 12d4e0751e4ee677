"""Tables of the market data that section 4.10 of the API document names."""

from __future__ import annotations

from dataclasses import replace

from derivdata.tables.define import define
from derivdata.tables.documented import MARKETS_SYMBOL_EXCHANGES, MARKETS_SYMBOLS

ORDERBOOK_BOOK = define(
    "orderbook_book",
    key="symbol exchange time side level",
    rest="price_usd size",
    side="bid ask",
    wire={"time": "timestamp"},
    doc="Order book of one symbol on one venue; side is 'bid' or 'ask'.",
)
ORDERBOOK_DEPTH_HISTORY = define(
    "orderbook_depth_history",
    key="symbol exchange time depth_bps",
    rest="bid_depth_usd ask_depth_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Value bid and offered near the mid price over time, one row per distance.",
)
OPTIONS_SURFACE_HISTORY = define(
    "options_surface_history",
    key="symbol exchange time expiry strike side",
    rest="iv open_interest underlying_price",
    side="call put",
    doc="Options surface of every hour.",
)
OPTIONS_ATM_HISTORY = define(
    "options_atm_history",
    key="symbol exchange time expiry",
    rest="strike iv underlying_price",
    wire={"time": "hour"},
    doc="At-the-money volatility of every hour and expiry.",
)
OPTIONS_METRICS = define(
    "options_metrics",
    key="symbol exchange expiry",
    rest="time underlying_price atm_strike atm_iv atm_iv_24h_ago atm_iv_change_24h",
    doc="At-the-money volatility per expiry, now and a day ago.",
)
OPTIONS_OVERVIEW_HISTORY = define(
    "options_overview_history",
    key="symbol exchange time",
    rest="notional_oi_usd notional_volume_24h_usd",
    wire={"time": "timestamp"},
    doc="Options open interest and volume by venue and symbol, every hour.",
)
LIQUIDATIONS_HISTORY = define(
    "liquidations_history",
    key="exchange time",
    rest="long_usd short_usd resolution",
    wire={"time": "date"},
    optional="resolution",
    doc="Liquidated value by venue and side over time.",
)
LIQUIDATIONS_AGGREGATES = define(
    "liquidations_aggregates",
    key="group_by name",
    rest="time long_count short_count total_count long_usd short_usd total_usd",
    doc="Liquidations of the last hours by symbol, venue or both.",
)
OI_EXCHANGE_TOTALS = define(
    "oi_exchange_totals",
    key="exchange time",
    rest="total_oi_usd symbol_count resolution",
    wire={"time": "timestamp", "total_oi_usd": "total_open_interest_usd"},
    optional="symbol_count",
    doc="Open interest of every venue over all symbols, over time.",
)
VOLUME_EXCHANGE_TOTALS = define(
    "volume_exchange_totals",
    key="exchange time",
    rest="total_volume_usd symbol_count resolution",
    wire={"time": "timestamp"},
    optional="symbol_count",
    doc="Volume of every venue over all symbols, over time.",
)
VOLUME_OI_RATIO = define(
    "volume_oi_ratio",
    key="exchange time",
    rest="volume_oi_ratio volume_usd oi_usd resolution",
    wire={"time": "timestamp", "volume_oi_ratio": "ratio", "volume_usd": "volume", "oi_usd": "open_interest"},
    doc="Volume over open interest of every venue, over time.",
)
OI_TOP_SYMBOLS = define(
    "oi_top_symbols",
    key="symbol exchange time",
    rest="oi_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Open interest of a venue's largest symbols over time.",
)
VOLUME_TOP_SYMBOLS = define(
    "volume_top_symbols",
    key="symbol exchange time",
    rest="volume_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Volume of a venue's largest symbols over time.",
)
MARKETS_EXCHANGE_HISTORY = define(
    "markets_exchange_history",
    key="exchange time",
    rest="volume_usd oi_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Volume and open interest of one venue over time.",
)
MARKETS_PRICE_BUCKETS = define(
    "markets_price_buckets",
    key="rank",
    rest="time label lower_pct upper_pct symbol_count symbols",
    wire={"time": "timestamp", "lower_pct": "min", "upper_pct": "max", "symbol_count": "count"},
    doc="How many symbols rose or fell by how much in 24 hours, one row per bucket from the top.",
)
MARKETS_EXCHANGES = define(
    "markets_exchanges",
    key="exchange",
    rest="time volume_24h_usd oi_usd symbol_count liquidation_24h_usd",
    wire={"time": "timestamp"},
    optional="volume_24h_usd oi_usd symbol_count liquidation_24h_usd",
    doc="State of every venue.",
)
MARKETS_EXCHANGE_SYMBOLS = replace(
    MARKETS_SYMBOL_EXCHANGES,
    name="markets_exchange_symbols",
    doc="State of every symbol on one venue at an instant.",
)
MARKETS_SYMBOL_STATS = replace(
    MARKETS_SYMBOLS, name="markets_symbol_stats", doc="State of one symbol: its row of the leaderboard."
)
RWA_MARKET_HOURS = define(
    "rwa_market_hours",
    key="exchange_id start session",
    rest="time end is_tradable name short_name mic timezone is_tradable_now next_session_start",
    optional="name short_name mic timezone is_tradable_now next_session_start",
    doc="Sessions and holidays of the exchanges behind real-world assets, one row per interval.",
)
