"""Endpoints of open interest."""

from __future__ import annotations

from derivdata.tables.endpoints import quantities
from derivdata.tables.endpoints.model import Endpoint
from derivdata.tables.endpoints.params import AGGREGATE_SECONDS

OI_EXCHANGES_SUMMARY = Endpoint(
    "/oi/exchanges-summary",
    "dev",
    "oi_exchanges",
    "Open interest of every venue.",
    fresh_seconds=AGGREGATE_SECONDS,
)
OI_TIMESERIES = quantities.timeseries("oi", "Open interest")
OI_EXCHANGE_TOTALS = quantities.exchange_totals("oi", "Open interest")
OI_TOP_SYMBOLS = quantities.top_symbols("oi", "Open interest")
