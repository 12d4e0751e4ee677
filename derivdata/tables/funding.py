"""Tables of funding rates."""

from __future__ import annotations

from derivdata.tables.definition import define

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
