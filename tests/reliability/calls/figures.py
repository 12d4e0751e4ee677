"""Calls of figures."""

from __future__ import annotations

from derivdata import plot
from tests.plot import made as figures_made
from tests.reliability.calls import made
from tests.reliability.calls.made import Calls

__all__ = ["CALLS"]

CALLS: Calls = {
    "plot.cumulative_funding": lambda: {"sampled": made.history(), "venue": "binance", "symbol": "BTC"},
    "plot.funding_heatmap": lambda: {"data": made.rates(), "symbol": "BTC", "step": "8h", "reach": 2.0},
    "plot.funding_history": lambda: {
        "data": made.rates(), "symbol": "BTC", "venues": ["okx"], "highlight": 1,
    },
    "plot.carry": lambda: {"forecast": [made.carry(), made.carry("16h")], "kind": "hold"},
    "plot.liquidations": lambda: {"events": figures_made.liquidated(), "top": 3},
    "plot.open_interest": lambda: {
        "data": made.amounts(), "kind": "trend", "symbol": "BTC", "top": 2, "window": "7d",
    },
    "plot.positioning": lambda: {"data": figures_made.positioned(), "symbol": "BTC"},
    "plot.taker_volume": lambda: {"data": figures_made.taken(), "symbol": "BTC", "window": "2d"},
    "plot.option_flow": lambda: {"trades": figures_made.option_trades()},
    "plot.calibration": lambda: {"probability": figures_made.delivered()},
    "plot.strikes": lambda: {"chain": made.options(), "kind": "gamma", "dealer": {"call": 1.0, "put": -0.5}},
    "plot.smile": lambda: {"quotes": made.quotes(), "fit": made.fitted(), "limit": 2},
    "plot.surface": lambda: {"data": made.whole()},
    "plot.term_structure": lambda: {"data": made.whole(), "before": made.whole()},
    "plot.implied_density": lambda: {"data": made.whole()},
    "plot.data": lambda: {"ax": plot.orderbook_depth(figures_made.depths())},
    "plot.card": lambda: {"data": made.whole()},
    "plot.pnl_attribution": lambda: {"attribution": made.attributed()},
    "plot.backtest": lambda: {"result": made.backtested(), "kind": "trades"},
    "plot.volatility": lambda: {
        "data": made.one_volatility(), "kind": "realised", "realised": made.one_volatility(), "symbol": "BTC",
    },
    "plot.orderbook_depth": lambda: {"data": figures_made.depths()},
    "plot.venue_difference": lambda: {"data": made.venues(), "tenors": ("40d", "60d")},
}  # fmt: skip
