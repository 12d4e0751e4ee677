"""Endpoint of real-world assets' trading hours."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import AGGREGATE_SECONDS

RWA_MARKET_HOURS = Endpoint(
    "/rwa/market-hours",
    "pro",
    "rwa_market_hours",
    "Trading sessions and holidays of the exchanges behind real-world assets.",
    params=(Param("exchange", ParamKind.LIST, "Exchanges' ids, short names or market identifier codes."),),
    fresh_seconds=AGGREGATE_SECONDS,
)
