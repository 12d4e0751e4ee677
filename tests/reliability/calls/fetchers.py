"""Calls of fetchers, and of top-level, unit, table and venue functions."""

from __future__ import annotations

from typing import Any

from tests.reliability.calls.made import DAY, HISTORY, Calls, fetched, history, options

__all__ = ["CALLS", "FETCHERS"]

FIRST = {"start": "2026-06-01", "end": "2026-06-02"}
OKX, BTC = {"venues": ["okx"]}, {"symbols": "BTC"}
STEPS = FIRST | OKX | {"resolution": "4h"}
SURFACE = {"symbol": "BTC", "venue": "deribit"}

FETCHERS: dict[str, dict[str, Any]] = {
    "funding.snapshot": {},
    "funding.metadata": {},
    "funding.history": BTC | STEPS,
    "funding.settlements": BTC | FIRST | OKX,
    "markets.symbols": OKX,
    "markets.price_movers": {"limit": 2},
    "markets.funding_leaders": OKX,
    "markets.price_buckets": OKX,
    "markets.exchanges": {},
    "markets.exchange_symbols": {"venue": "okx"},
    "markets.symbol_exchanges": {"symbol": "BTC"},
    "markets.symbol_stats": {"symbol": "BTC"},
    "markets.exchange_history": {"venue": "okx", **FIRST},
    "oi.exchanges": {},
    "oi.sparklines": {},
    "oi.history": BTC | STEPS,
    "oi.exchange_totals": STEPS,
    "oi.top_symbols": {"venue": "okx", **FIRST, "limit": 2},
    "volume.history": BTC | STEPS,
    "volume.exchange_totals": STEPS,
    "volume.top_symbols": {"venue": "okx", **FIRST, "limit": 2},
    "volume.oi_ratio": STEPS | {"window_days": 1},
    "liquidations.events": {"since": "3h", "limit": 4000, "symbols": ["BTC", "ETH"]},
    "liquidations.poll": {"since": "10m", "limit": 400, "venues": ["binance", "okx", "bybit"]},
    "liquidations.history": BTC | FIRST | {"resolution": "4h"},
    "liquidations.aggregates": {"window": "4h", "group_by": "exchange"},
    "options.snapshot": {"symbol": "BTC", "venues": "deribit"},
    "options.surface": SURFACE,
    "options.metrics": SURFACE,
    "options.atm_history": SURFACE | {"start": "6h"},
    "options.surface_history": SURFACE | {"start": "3h"},
    "options.overview_history": {"start": "6h"},
    "options.trades": BTC | {"start": "2h", "venues": "okx"},
    "delivery.prices": BTC | {"start": "5d", "venues": "okx"},
    "volatility.index_published": BTC | STEPS | {"venues": "deribit"},
    "orderbook.book": {"symbol": "BTC", "venue": "binance", "limit": 3},
    "orderbook.depth_history": {"symbol": "BTC", "venue": "binance", **FIRST, "resolution": "4h"},
    "futures.history": BTC | STEPS,
    "positioning.history": BTC | STEPS,
    "prices.history": BTC | STEPS,
    "prices.spot": BTC | STEPS,
    "volume.taker": BTC | STEPS,
    "rwa.market_hours": {"venues": "XNYS"},
    "hip3.dashboard": {"window": "1d"},
    "hip3.dex_detail": {"dex": "xyz", "window": "1d"},
    "hip3.by_dex": {"window": "1d"},
    "hip3.by_symbol": {"window": "1d", "dex": "xyz", "limit": 2},
    "hip3.timeseries_symbol": {"window": "1d", "symbol": "xyz:TSLA"},
    "hip3.timeseries_dex_breakdown": {"window": "1d", "dex": "xyz"},
    "hip3.leaderboard": {"window": "1d", "limit": 2},
    "hip3.oi_trends_total": {"window": "1d"},
    "hip3.oi_trends_dex": {"dex": "xyz", "window": "1d"},
    "hip3.candles": {"coin": "xyz:TSLA", **FIRST},
    "hip4.dashboard": {"window": "1d", "venue": "out"},
    "hip4.outcome": {"outcome_id": "108", "window": "7d"},
    "hip4.oi_eod": {"start": "2026-06-28"},
    "hip4.leaderboard": {"window": "1d", "limit": 2},
    "builders.dashboard": {"window": "1d"},
}
"""A call of every fetcher with a response of one request, small and not empty."""

CALLS: Calls = {
    "instruments": lambda: {"symbols": "BTC", "venues": ["okx"]},
    "bundle_diff": lambda: {"a": "a.ddz", "b": "b.ddz"},
    "connect": lambda: {"source": "https://api.example.com", "api_key": "k"},
    "open_archive": lambda: {"path": "archive", "lock_timeout": 1.0},
    "replay": lambda: {"path": "a.ddz"},
    "record": lambda: {"path": "new.ddz"},
    "features": lambda: {
        "symbols": "BTC", "start": "2026-06-30", "names": ["oi"], "end": "2026-06-30T04:00", "venues": "okx",
        "max_age": "2h",
    },
    "gaps": lambda: {"table": history(), "column": "rate_bps_8h", **DAY},
    "panel": lambda: {"table": history(), "column": "rate_bps_8h", "by": "coin"},
    "plan": lambda: {"symbols": "BTC", **HISTORY},
    "provenance": lambda: {"data": fetched()},
    "quality": lambda: {"table": history(), "column": "rate_bps_8h", **DAY},
    "raw": lambda: {"path": "/oi/exchanges-summary"},
    "cache_clear": lambda: {"older_than": "30d"},
    # units
    "units.convert": lambda: {"values": 0.0001, "old": "native", "new": "bps_8h", "hours": 8.0},
    "concat": lambda: {"frames": [history()]},
    "tables.contract": lambda: {"name": "BTC-USDT"},
    "tables.base": lambda: {"name": "kPEPE"},
    "tables.expiry": lambda: {"label": "27MAR26"},
    "tables.snapshots": lambda: {"rows": options()},
    "tables.surface": lambda: {"rows": options()},
    "venues.read": lambda: {
        "venue": "binance", "request": "/fapi/v1/fundingRate",
        "body": '[{"symbol": "BTCUSDT", "fundingTime": 1698768000000, "fundingRate": "0.0001"}]',
        "at": "2023-11-01", "context": {"interval_hours": 8.0},
    },
}  # fmt: skip
