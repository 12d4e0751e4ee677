"""Calls of what fetches."""

from __future__ import annotations

from tests.reliability.calls.call import Calls
from tests.reliability.calls.made import (
    DAY,
    HISTORY,
    outcome,
)

__all__ = ["CALLS"]

CALLS: Calls = {
    "funding.history": lambda: {"symbols": "BTC", **HISTORY},
    "funding.settlements": lambda: {"symbols": ["BTC"], **DAY, "venues": "binance"},
    "markets.symbols": lambda: {"venues": ["binance"]},
    "markets.price_movers": lambda: {"min_volume_usd": 1e6, "limit": 5, "venues": None},
    "markets.funding_leaders": lambda: {"venues": ["okx", "binance"]},
    "markets.price_buckets": lambda: {"venues": "binance"},
    "markets.exchange_symbols": lambda: {"venue": "binance"},
    "markets.exchange_history": lambda: {"venue": "binance", **DAY},
    "markets.symbol_exchanges": lambda: {"symbol": "BTC"},
    "markets.symbol_stats": lambda: {"symbol": "BTC"},
    "oi.exchange_totals": lambda: HISTORY,
    "oi.history": lambda: {"symbols": "BTC", **HISTORY},
    "oi.top_symbols": lambda: {"venue": "binance", **DAY, "limit": 3},
    "volume.exchange_totals": lambda: HISTORY,
    "volume.history": lambda: {"symbols": ["BTC", "ETH"], **HISTORY},
    "volume.oi_ratio": lambda: {**HISTORY, "window_days": 1, "resolution": "1d"},
    "volume.top_symbols": lambda: {"venue": "binance", **DAY, "limit": 3},
    "liquidations.events": lambda: {
        "since": "1h", "limit": 10, "min_usd": 1000.0, "venues": "binance", "symbols": ["BTC"],
        "exclude_symbols": None,
    },
    "liquidations.history": lambda: {**DAY, "symbols": "BTC", "resolution": "1h"},
    "liquidations.aggregates": lambda: {"window": "4h", "group_by": "symbol"},
    "options.snapshot": lambda: {"symbol": "BTC", "venues": "deribit"},
    "options.surface": lambda: {"symbol": "BTC", "venue": "deribit"},
    "options.surface_history": lambda: {
        "symbol": "BTC", "venue": "deribit", "start": "2026-06-29T20:00Z", "end": "2026-06-30",
    },
    "options.atm_history": lambda: {
        "symbol": "BTC", "venue": "deribit", "start": "2026-06-29T20:00Z", "end": "2026-06-30",
    },
    "options.metrics": lambda: {"symbol": "BTC", "venue": "deribit"},
    "options.overview_history": lambda: DAY,
    "options.trades": lambda: {"symbols": "BTC", **DAY, "venues": "deribit"},
    "delivery.prices": lambda: {"symbols": "BTC", **DAY, "venues": "deribit"},
    "volatility.index_published": lambda: {"symbols": "BTC", **HISTORY},
    "orderbook.book": lambda: {"symbol": "BTC", "venue": "binance", "limit": 5},
    "orderbook.depth_history": lambda: {"symbol": "BTC", "venue": "binance", **DAY, "resolution": "1h"},
    "instruments": lambda: {"symbols": "BTC", "venues": ["okx"]},
    "futures.history": lambda: {"symbols": "BTC", **HISTORY},
    "positioning.history": lambda: {"symbols": "BTC", **HISTORY, "kind": "accounts"},
    "volume.taker": lambda: {"symbols": "BTC", **HISTORY},
    "prices.spot": lambda: {"symbols": "BTC", **HISTORY, "quote": "USDT"},
    "prices.history": lambda: {"symbols": "BTC", **HISTORY, "kind": "mark"},
    "rwa.market_hours": lambda: {"venues": "XNYS"},
    "hip3.dashboard": lambda: {"window": "7d"},
    "hip3.dex_detail": lambda: {"dex": "xyz", "window": "7d"},
    "hip3.by_dex": lambda: {"window": "7d"},
    "hip3.by_symbol": lambda: {"window": "7d", "dex": "xyz", "limit": 3},
    "hip3.timeseries_symbol": lambda: {"window": "7d", "symbol": "xyz:TSLA", "dex": None},
    "hip3.timeseries_dex_breakdown": lambda: {"window": "7d", "dex": "xyz"},
    "hip3.leaderboard": lambda: {"window": "7d", "dex": None, "limit": 3},
    "hip3.oi_trends_total": lambda: {"window": "7d"},
    "hip3.oi_trends_dex": lambda: {"dex": "xyz", "window": "7d"},
    "hip3.candles": lambda: {"coin": "xyz:TSLA", **DAY, "interval": "1h", "limit": 5},
    "hip4.dashboard": lambda: {"window": "7d", "venue": "out"},
    "hip4.outcome": lambda: {"outcome_id": outcome(), "window": "7d", "venue": "out"},
    "hip4.oi_eod": lambda: {"start": "2026-06-28", "venue": "out"},
    "hip4.leaderboard": lambda: {"window": "7d", "venue": "out", "limit": 3},
    "builders.dashboard": lambda: {"window": "7d"},
}  # fmt: skip
