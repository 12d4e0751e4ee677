"""From base tables to the payloads of the API, one function per endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from derivdata.service.answers import funding, liquidations, markets, oi, options
from derivdata.service.answers.asking import Ask

__all__ = ["ANSWERS", "Ask"]

ANSWERS: dict[str, Callable[[Ask], dict[str, Any]]] = {
    "/funding": funding.snapshot,
    "/funding/metadata": funding.metadata,
    "/funding/historical": funding.historical,
    "/funding/settlement": funding.settlement,
    "/markets/symbols": markets.symbols,
    "/markets/price-movers": markets.price_movers,
    "/markets/funding-leaders": markets.funding_leaders,
    "/oi/exchanges-summary": oi.exchanges_summary,
    "/oi/{symbol}/timeseries": oi.timeseries,
    "/liquidations/events": liquidations.events,
    "/options/snapshot": options.snapshot,
}
"""Path of an endpoint to the function that answers it."""
