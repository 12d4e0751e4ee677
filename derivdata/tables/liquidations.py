"""Tables of liquidations."""

from __future__ import annotations

from derivdata.tables.definition import define

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
