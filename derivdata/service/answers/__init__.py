"""From base tables to the payloads of the API, one function per endpoint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from derivdata.service.answers import (
    funding,
    liquidated,
    liquidations,
    markets,
    oi,
    option_history,
    options,
    quantity,
    symbols,
    totals,
)
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
    "/markets/price-buckets": symbols.price_buckets,
    "/markets/exchanges/all": symbols.exchanges,
    "/markets/exchanges/{exchange}/symbols": symbols.exchange_symbols,
    "/markets/exchanges/{exchange}/timeseries": totals.exchange_timeseries,
    "/markets/{symbol}/exchanges": symbols.symbol_exchanges,
    "/markets/{symbol}/stats": symbols.symbol_stats,
    "/oi/exchanges-summary": oi.exchanges_summary,
    "/oi/exchange-totals": partial(totals.exchange_totals, quantity=quantity.OI),
    "/oi/{symbol}/timeseries": partial(oi.timeseries, quantity=quantity.OI),
    "/oi/exchange-top-symbols-timeseries": partial(totals.top_symbols, quantity=quantity.OI),
    "/volume/exchange-totals": partial(totals.exchange_totals, quantity=quantity.VOLUME),
    "/volume/{symbol}/timeseries": partial(oi.timeseries, quantity=quantity.VOLUME),
    "/volume/exchange-top-symbols-timeseries": partial(totals.top_symbols, quantity=quantity.VOLUME),
    "/volume-oi-ratio": totals.ratio,
    "/liquidations/events": liquidations.events,
    "/liquidations/history": liquidated.history,
    "/liquidations/aggregates": liquidated.aggregates,
    "/options/snapshot": options.snapshot,
    "/options/metrics": option_history.metrics,
    "/options/atm-history": option_history.atm_history,
    "/options/surface-history": option_history.surface_history,
    "/options/overview-history": option_history.overview_history,
}
"""Path of an endpoint to the function that answers it."""
