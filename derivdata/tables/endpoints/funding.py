"""Endpoints of funding rates."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint
from derivdata.tables.endpoints.params import AGGREGATE_SECONDS, END, EXCHANGES, RESOLUTION, START, SYMBOL

FUNDING = Endpoint("/funding", "free", "funding_snapshot", "Funding rate of every venue and symbol now.")
FUNDING_METADATA = Endpoint(
    "/funding/metadata", "dev", "funding_metadata", "Symbols and venues.", fresh_seconds=AGGREGATE_SECONDS
)
FUNDING_HISTORICAL = Endpoint(
    "/funding/historical",
    "dev",
    "funding_history",
    "Funding rate of one symbol over time; not for P&L or backtesting.",
    params=(SYMBOL, START, END, EXCHANGES, RESOLUTION),
    per_second=2.0,
    unit="bps_8h",
    states_resolution=True,
)
FUNDING_SETTLEMENT = Endpoint(
    "/funding/settlement",
    "dev",
    "funding_settlements",
    "Funding payments of one symbol over time.",
    params=(SYMBOL, START, END, EXCHANGES),
    unit="bps_8h",
)
