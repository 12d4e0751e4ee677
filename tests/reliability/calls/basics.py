"""Calls of what stands at the top, of units, of tables and of venues."""

from __future__ import annotations

from tests.reliability.calls.call import Calls
from tests.reliability.calls.made import (
    DAY,
    HISTORY,
    fetched,
    history,
    options,
)

__all__ = ["CALLS"]

CALLS: Calls = {
    "bundle_diff": lambda: {"a": "a.ddz", "b": "b.ddz"},
    "connect": lambda: {
        "source": "https://api.example.com", "api_key": "k", "cache": "on", "offline": False, "now": None,
        "attribution_url": None,
    },
    "open_archive": lambda: {"path": "archive", "create": True, "lock_timeout": 1.0},
    "replay": lambda: {"path": "a.ddz"},
    "record": lambda: {"path": "new.ddz", "about": None},
    "features": lambda: {
        "symbols": "BTC", "start": "2026-06-30", "names": ["oi"], "end": "2026-06-30T04:00", "venues": "okx",
        "options_venue": "deribit", "resolution": "1h", "max_age": "2h",
    },
    "panel": lambda: {"table": history(), "column": "rate_bps_8h", "by": "coin", "prices": None},
    "plan": lambda: {"symbols": "BTC", **HISTORY, "latency_seconds": 0.3},
    "provenance": lambda: {"data": fetched()},
    "quality": lambda: {"table": history(), "column": "rate_bps_8h", **DAY, "outlier": 12.0},
    "raw": lambda: {"path": "/oi/exchanges-summary"},
    "cache_clear": lambda: {"older_than": "30d"},
    # units
    "units.convert": lambda: {"values": 0.0001, "old": "native", "new": "bps_8h", "hours": 8.0},
    "concat": lambda: {"frames": [history()]},
    "tables.contract": lambda: {"name": "BTC-USDT"},
    "tables.base": lambda: {"name": "kPEPE"},
    "tables.surface": lambda: {"rows": options()},
    "venues.read": lambda: {
        "venue": "binance", "request": "/fapi/v1/fundingRate",
        "body": '[{"symbol": "BTCUSDT", "fundingTime": 1698768000000, "fundingRate": "0.0001"}]',
        "at": "2023-11-01", "context": {"interval_hours": 8.0},
    },
}  # fmt: skip
