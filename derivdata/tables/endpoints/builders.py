"""Endpoint of the builder analytics."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint
from derivdata.tables.endpoints.params import AGGREGATE_SECONDS, RANGE

BUILDERS_DASHBOARD = Endpoint(
    "/builder-analytics/dashboard",
    "dev",
    "builders_dashboard",
    "Builders at a glance.",
    params=(RANGE,),
    fresh_seconds=AGGREGATE_SECONDS,
)
