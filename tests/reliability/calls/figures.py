"""Calls of figures."""

from __future__ import annotations

from derivdata import plot
from tests.plot import made
from tests.reliability.calls.made import (
    amounts,
    attributed,
    backtested,
    book,
    carry,
    events,
    fitted,
    history,
    one_volatility,
    options,
    quotes,
    rates,
    venues,
    whole,
)
from tests.reliability.calls.walk import Calls

__all__ = ["CALLS"]

CALLS: Calls = {
    "plot.cumulative_funding": lambda: {
        "sampled": history(), "settled": None, "venue": "binance", "symbol": "BTC", "source": None,
        "ax": None,
    },
    "plot.funding_heatmap": lambda: {
        "data": rates(), "symbol": "BTC", "step": "8h", "reach": 2.0, "centre": 0.0, "by_kind": False,
        "source": None, "ax": None,
    },
    "plot.funding_history": lambda: {
        "data": rates(), "symbol": "BTC", "venues": ["okx"], "highlight": 1, "source": None, "ax": None,
    },
    "plot.carry": lambda: {
        "forecast": [carry(), carry("16h")], "kind": "hold", "source": None, "ax": None,
    },
    "plot.liquidations": lambda: {
        "events": events(), "coverage": None, "price": None, "start": None, "end": None, "top": 3,
        "source": None, "ax": None,
    },
    "plot.open_interest": lambda: {
        "data": amounts(), "kind": "trend", "symbol": "BTC", "price": None, "top": 2, "window": "7d",
        "source": None, "ax": None,
    },
    "plot.positioning": lambda: {
        "data": made.positioned(), "symbol": "BTC", "funding": None, "change": "1d", "source": None,
        "ax": None,
    },
    "plot.taker_volume": lambda: {
        "data": made.taken(), "symbol": "BTC", "window": "2d", "price": None, "source": None, "ax": None,
    },
    "plot.option_flow": lambda: {
        "trades": made.option_trades(), "expiry": None, "source": None, "ax": None,
    },
    "plot.calibration": lambda: {"probability": made.delivered(), "source": None, "ax": None},
    "plot.strikes": lambda: {
        "chain": options(), "kind": "gamma", "expiry": None, "dealer": {"call": 1.0, "put": -0.5},
        "contract_size": 1.0, "source": None, "ax": None,
    },
    "plot.smile": lambda: {
        "quotes": quotes(), "fit": fitted(), "expiries": None, "limit": 2, "source": None, "ax": None,
    },
    "plot.surface": lambda: {"data": whole(), "kind": "heat", "reach": 2.0, "source": None, "ax": None},
    "plot.term_structure": lambda: {"data": whole(), "before": whole(), "source": None, "ax": None},
    "plot.implied_density": lambda: {
        "data": whole(), "expiries": None, "limit": 2, "source": None, "ax": None,
    },
    "plot.data": lambda: {"ax": plot.orderbook_depth(book())},
    "plot.card": lambda: {"data": whole()},
    "plot.pnl_attribution": lambda: {
        "attribution": attributed(), "currency": "usd", "source": None, "ax": None,
    },
    "plot.backtest": lambda: {"result": backtested(), "kind": "trades", "source": None, "ax": None},
    "plot.volatility": lambda: {
        "data": one_volatility(), "kind": "realised", "realised": one_volatility(), "own": None,
        "implied": None,
        "symbol": "BTC", "source": None, "ax": None,
    },
    "plot.orderbook_depth": lambda: {"data": book(), "source": None, "ax": None},
    "plot.venue_difference": lambda: {
        "data": venues(), "reference": "deribit", "days": (40, 60), "source": None, "ax": None,
    },
}  # fmt: skip
