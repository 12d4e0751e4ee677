"""Tables of traded volume."""

from __future__ import annotations

from derivdata.tables.definition import define

VOLUME_HISTORY = define(
    "volume_history",
    key="symbol exchange time",
    rest="volume_usd resolution",
    wire={"time": "timestamp"},
    doc="Volume of every venue over time, per step.",
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
VOLUME_TOP_SYMBOLS = define(
    "volume_top_symbols",
    key="symbol exchange time",
    rest="volume_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Volume of a venue's largest symbols over time.",
)
