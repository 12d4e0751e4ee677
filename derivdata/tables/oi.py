"""Tables of open interest."""

from __future__ import annotations

from derivdata.tables.definition import define

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
OI_EXCHANGE_TOTALS = define(
    "oi_exchange_totals",
    key="exchange time",
    rest="total_oi_usd symbol_count resolution",
    wire={"time": "timestamp", "total_oi_usd": "total_open_interest_usd"},
    optional="symbol_count",
    doc="Open interest of every venue over all symbols, over time.",
)
OI_TOP_SYMBOLS = define(
    "oi_top_symbols",
    key="symbol exchange time",
    rest="oi_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Open interest of a venue's largest symbols over time.",
)
