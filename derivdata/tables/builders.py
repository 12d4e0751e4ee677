"""Table of the builder analytics."""

from __future__ import annotations

from derivdata.tables.definition import define
from derivdata.tables.schema import OpenTable

BUILDERS_DASHBOARD = OpenTable(
    "builders_dashboard", "Builders at a glance: totals, one row per builder, one per day."
)
BUILDERS_HISTORY = define(
    "builders_history",
    key="builder symbol time",
    rest="volume_usd trade_count fees_usd",
    doc="Orders that one builder routed in the quarter of an hour that starts at `time`.",
)
