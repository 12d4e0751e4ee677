"""Endpoints of the HIP-4 analytics."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import AGGREGATE_SECONDS, LIMIT, RANGE, START

_VENUE = Param("venue", ParamKind.TEXT, "Left out, both together.", choices=("out", "skew"))

HIP4_DASHBOARD = Endpoint(
    "/hip4-analytics/dashboard",
    "dev",
    "hip4_dashboard",
    "HIP-4 at a glance.",
    params=(RANGE, _VENUE),
    fresh_seconds=AGGREGATE_SECONDS,
)
HIP4_OUTCOME = Endpoint(
    "/hip4-analytics/outcome/{outcome_id}",
    "dev",
    "hip4_outcome",
    "One outcome of HIP-4.",
    params=(
        Param("outcome_id", ParamKind.TEXT, "Outcome's id.", required=True, in_path=True),
        RANGE,
        _VENUE,
    ),
    fresh_seconds=AGGREGATE_SECONDS,
)
HIP4_OI_EOD = Endpoint(
    "/hip4-analytics/oi-eod",
    "dev",
    "hip4_oi_eod",
    "Open interest at the end of each day.",
    params=(START, _VENUE),
    fresh_seconds=AGGREGATE_SECONDS,
)
HIP4_LEADERBOARD = Endpoint(
    "/hip4-analytics/leaderboard",
    "dev",
    "hip4_leaderboard",
    "Largest traders.",
    params=(LIMIT, RANGE, _VENUE),
    fresh_seconds=AGGREGATE_SECONDS,
)
