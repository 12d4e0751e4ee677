"""From base tables to the payloads of the API, one function per endpoint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from derivdata.service.answers import (
    builders,
    funding,
    hip3,
    hip4,
    liquidated,
    liquidations,
    markets,
    oi,
    option_history,
    options,
    orderbook,
    quantity,
    rwa,
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
    "/orderbook/book": orderbook.book,
    "/orderbook/depth-history": orderbook.depth_history,
    "/rwa/market-hours": rwa.market_hours,
    "/hip3-analytics/dashboard": hip3.dashboard,
    "/hip3-analytics/dex-detail": hip3.dex_detail,
    "/hip3-analytics/by-dex": hip3.by_dex,
    "/hip3-analytics/by-symbol": hip3.by_symbol,
    "/hip3-analytics/timeseries/symbol": hip3.timeseries_symbol,
    "/hip3-analytics/timeseries/dex-breakdown": hip3.timeseries_dex_breakdown,
    "/hip3-analytics/leaderboard": hip3.leaderboard,
    "/hip3-analytics/oi-trends/total": hip3.oi_trends_total,
    "/hip3-analytics/oi-trends/dex": hip3.oi_trends_dex,
    "/hip3-analytics/candles": hip3.candles,
    "/hip4-analytics/dashboard": hip4.dashboard,
    "/hip4-analytics/outcome/{outcome_id}": hip4.outcome,
    "/hip4-analytics/oi-eod": hip4.oi_eod,
    "/hip4-analytics/leaderboard": hip4.leaderboard,
    "/builder-analytics/dashboard": builders.dashboard,
}
"""Path of an endpoint to the function that answers it."""
