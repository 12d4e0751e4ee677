"""Calls of figures."""

from __future__ import annotations

from derivdata import plot
from tests.plot import made as figures_made
from tests.reliability.calls import made
from tests.reliability.calls.walk import Calls

__all__ = ["CALLS"]

CALLS: Calls = {
    "plot.cumulative_funding": lambda: {
        "sampled": made.history(), "settled": None, "venue": "binance", "symbol": "BTC", "source": None,
        "ax": None,
    },
    "plot.funding_heatmap": lambda: {
        "data": made.rates(), "symbol": "BTC", "step": "8h", "reach": 2.0, "centre": 0.0, "by_kind": False,
        "source": None, "ax": None,
    },
    "plot.funding_history": lambda: {
        "data": made.rates(), "symbol": "BTC", "venues": ["okx"], "highlight": 1, "source": None, "ax": None,
    },
    "plot.carry": lambda: {
        "forecast": [made.carry(), made.carry("16h")], "kind": "hold", "source": None, "ax": None,
    },
    "plot.liquidations": lambda: {
        "events": made.events(), "coverage": None, "price": None, "start": None, "end": None, "top": 3,
        "source": None, "ax": None,
    },
    "plot.open_interest": lambda: {
        "data": made.amounts(), "kind": "trend", "symbol": "BTC", "price": None, "top": 2, "window": "7d",
        "source": None, "ax": None,
    },
    "plot.positioning": lambda: {
        "data": figures_made.positioned(), "symbol": "BTC", "funding": None, "change": "1d", "source": None,
        "ax": None,
    },
    "plot.taker_volume": lambda: {
        "data": figures_made.taken(), "symbol": "BTC", "window": "2d", "price": None, "source": None,
        "ax": None,
    },
    "plot.option_flow": lambda: {
        "trades": figures_made.option_trades(), "expiry": None, "source": None, "ax": None,
    },
    "plot.calibration": lambda: {"probability": figures_made.delivered(), "source": None, "ax": None},
    "plot.strikes": lambda: {
        "chain": made.options(), "kind": "gamma", "expiry": None, "dealer": {"call": 1.0, "put": -0.5},
        "contract_size": 1.0, "source": None, "ax": None,
    },
    "plot.smile": lambda: {
        "quotes": made.quotes(), "fit": made.fitted(), "expiries": None, "limit": 2, "source": None,
        "ax": None,
    },
    "plot.surface": lambda: {"data": made.whole(), "kind": "heat", "reach": 2.0, "source": None, "ax": None},
    "plot.term_structure": lambda: {"data": made.whole(), "before": made.whole(), "source": None, "ax": None},
    "plot.implied_density": lambda: {
        "data": made.whole(), "expiries": None, "limit": 2, "source": None, "ax": None,
    },
    "plot.data": lambda: {"ax": plot.orderbook_depth(made.book())},
    "plot.card": lambda: {"data": made.whole()},
    "plot.pnl_attribution": lambda: {
        "attribution": made.attributed(), "currency": "usd", "source": None, "ax": None,
    },
    "plot.backtest": lambda: {"result": made.backtested(), "kind": "trades", "source": None, "ax": None},
    "plot.volatility": lambda: {
        "data": made.one_volatility(), "kind": "realised", "realised": made.one_volatility(), "own": None,
        "implied": None, "symbol": "BTC", "source": None, "ax": None,
    },
    "plot.orderbook_depth": lambda: {"data": made.book(), "source": None, "ax": None},
    "plot.venue_difference": lambda: {
        "data": made.venues(), "reference": "deribit", "days": (40, 60), "source": None, "ax": None,
    },
}  # fmt: skip
