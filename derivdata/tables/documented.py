"""Tables of sections 4.1 to 4.9 of the API document, and base tables of archives."""

from __future__ import annotations

from derivdata.tables.define import define

FUNDING_SNAPSHOT = define(
    "funding_snapshot",
    key="symbol exchange",
    rest="time rate_bps_8h rate_native interval_hours oi_rank kind",
    wire={"time": "timestamp"},
    optional="rate_native interval_hours oi_rank",
    doc="Funding rate of every venue and symbol now, one row per pair that has one.",
)
FUNDING_METADATA = define(
    "funding_metadata",
    key="exchange",
    rest="time display_name interval_hours",
    wire={"time": "timestamp", "exchange": "name", "display_name": "display", "interval_hours": "interval"},
    optional="interval_hours",
    doc="Venues of the funding snapshot with their usual interval.",
)
FUNDING_HISTORY = define(
    "funding_history",
    key="symbol exchange time",
    rest="rate_bps_8h resolution kind",
    wire={"time": "timestamp", "rate_bps_8h": "y"},
    doc="Funding rate of every venue over time, sampled, one row per venue and step.",
)
FUNDING_SETTLEMENTS = define(
    "funding_settlements",
    key="symbol exchange time",
    rest="rate_bps_8h interval_hours kind",
    wire={"time": "timestamp", "rate_bps_8h": "y"},
    doc="Funding payments, one row per settlement; the payment is rate_bps_8h × interval_hours / 8 bps.",
)
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
OI_EXCHANGES = define(
    "oi_exchanges",
    key="exchange",
    rest="time total_oi_usd symbol_count top_symbol change_24h change_7d market_share",
    order="",
    doc="Open interest of every venue now.",
)
OI_SPARKLINES = define(
    "oi_sparklines",
    key="exchange days_ago",
    rest="time oi_usd",
    doc="Open interest of every venue over the last week, seven points, as the summary shows it.",
)
OI_HISTORY = define(
    "oi_history",
    key="symbol exchange time",
    rest="oi_usd resolution",
    wire={"time": "timestamp", "oi_usd": "open_interest_usd"},
    doc="Open interest of every venue over time.",
)
VOLUME_HISTORY = define(
    "volume_history",
    key="symbol exchange time",
    rest="volume_usd resolution",
    wire={"time": "timestamp"},
    doc="Volume of every venue over time, per step.",
)
LIQUIDATIONS_EVENTS = define(
    "liquidations_events",
    key="exchange order_id",
    rest="time symbol side order_price_usd fill_price_usd quantity filled_quantity value_usd status "
    "fill_count",
    wire={
        "time": "timestamp",
        "order_id": "oid",
        "order_price_usd": "price",
        "fill_price_usd": "avg_price",
        "value_usd": "usd_value",
    },
    order="time exchange order_id",
    doc="Liquidation orders, one row per order with its fills consolidated.",
)
LIQUIDATIONS_FILLS = define(
    "liquidations_fills",
    key="exchange order_id fill_id",
    rest="time symbol side order_price_usd fill_price_usd quantity filled_quantity value_usd status",
    order="time exchange order_id fill_id",
    doc="Single fills of liquidation orders, as a venue reports them; the service consolidates them.",
)
OPTIONS_SNAPSHOT = define(
    "options_snapshot",
    key="symbol exchange time instrument_name",
    rest="expiry strike side iv delta gamma vega theta open_interest underlying_price",
    optional="delta gamma vega theta",
    side="call put",
    order="symbol exchange time expiry strike side",
    doc="Every active option of one symbol on one venue at an instant.",
)
