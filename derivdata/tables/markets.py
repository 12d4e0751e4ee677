"""Tables of market states and rankings."""

from __future__ import annotations

from dataclasses import replace

from derivdata.tables.definition import define

MARKETS_SYMBOLS = define(
    "markets_symbols",
    key="symbol",
    rest="time rank price_usd price_24h_change_pct volume_24h_usd volume_24h_change_pct oi_usd "
    "oi_24h_change_pct top_funding_bps_8h top_funding_exchange liquidation_24h_usd "
    "asset_class asset_group asset_subgroup",
    wire={"time": "timestamp", "top_funding_bps_8h": "top_funding_bps"},
    optional="asset_class asset_group asset_subgroup",
    order="rank",
    doc="Leaderboard of symbols by open interest.",
)
MARKETS_PRICE_MOVERS = define(
    "markets_price_movers",
    key="direction symbol",
    rest="time rank price_usd price_24h_change_pct",
    wire={"time": "timestamp"},
    order="direction rank",
    doc="Largest gainers and losers of the last 24 hours, each list ranked from 1.",
)
MARKETS_FUNDING_LEADERS = define(
    "markets_funding_leaders",
    key="symbol exchange",
    rest="time rank funding_current_bps_8h oi_rank",
    wire={"time": "timestamp", "funding_current_bps_8h": "funding_current_bps"},
    order="rank",
    doc="Highest funding rates among all pairs of symbol and venue, up to ten.",
)
MARKETS_SYMBOL_EXCHANGES = define(
    "markets_symbol_exchanges",
    key="symbol exchange time",
    rest="price_usd price_24h_change_pct volume_24h_usd oi_usd funding_current_bps_8h "
    "funding_avg_7d_bps_8h liquidation_24h_usd",
    wire={
        "time": "timestamp",
        "funding_current_bps_8h": "funding_current_bps",
        "funding_avg_7d_bps_8h": "funding_avg_7d_bps",
    },
    optional="price_24h_change_pct volume_24h_usd oi_usd funding_current_bps_8h funding_avg_7d_bps_8h "
    "liquidation_24h_usd",
    doc="State of one symbol on each venue at an instant.",
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
