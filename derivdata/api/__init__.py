"""The API document as data: endpoints, parameters, tiers, limits."""

from __future__ import annotations

from derivdata.api.endpoints import (
    ENDPOINTS,
    FUNDING,
    FUNDING_HISTORICAL,
    FUNDING_METADATA,
    FUNDING_SETTLEMENT,
    LIQUIDATIONS_EVENTS,
    MARKETS_FUNDING_LEADERS,
    MARKETS_PRICE_MOVERS,
    MARKETS_SYMBOLS,
    OI_EXCHANGES_SUMMARY,
    OI_TIMESERIES,
    OPTIONS_MATRIX,
    OPTIONS_SNAPSHOT,
    endpoint_of,
)
from derivdata.api.model import TIERS, Endpoint, Param, ParamKind, Request, allows

__all__ = [
    "ENDPOINTS",
    "FUNDING",
    "FUNDING_HISTORICAL",
    "FUNDING_METADATA",
    "FUNDING_SETTLEMENT",
    "LIQUIDATIONS_EVENTS",
    "MARKETS_FUNDING_LEADERS",
    "MARKETS_PRICE_MOVERS",
    "MARKETS_SYMBOLS",
    "OI_EXCHANGES_SUMMARY",
    "OI_TIMESERIES",
    "OPTIONS_MATRIX",
    "OPTIONS_SNAPSHOT",
    "TIERS",
    "Endpoint",
    "Param",
    "ParamKind",
    "Request",
    "allows",
    "endpoint_of",
]
