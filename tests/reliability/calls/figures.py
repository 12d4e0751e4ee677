"""Calls of figures."""

from __future__ import annotations

from derivdata import plot
from tests.plot.made import index_history
from tests.reliability.calls.call import Calls
from tests.reliability.calls.made import (
    amounts,
    attributed,
    backtested,
    book,
    carry,
    cone,
    events,
    fitted,
    history,
    one_volatility,
    options,
    quotes,
    rates,
    sized,
    swept,
    venues,
    whole,
)

__all__ = ["CALLS"]

CALLS: Calls = {
    "plot.cumulative_funding": lambda: {
        "sampled": history(), "settled": None, "venue": "binance", "symbol": "BTC", "source": None,
        "ax": None,
    },
    "plot.funding_heatmap": lambda: {
        "data": rates(), "symbol": "BTC", "step": "8h", "limit": 2.0, "centre": 0.0, "by_kind": False,
        "source": None, "ax": None,
    },
    "plot.funding_history": lambda: {
        "data": rates(), "symbol": "BTC", "venues": ["okx"], "highlight": 1, "source": None, "ax": None,
    },
    "plot.funding_spreads": lambda: {"carry": carry(), "source": None, "ax": None},
    "plot.net_carry": lambda: {"carry": [carry(), carry(48.0)], "source": None, "ax": None},
    "plot.liquidations": lambda: {
        "events": events(), "coverage": None, "price": None, "start": None, "end": None, "venues": 3,
        "source": None, "ax": None,
    },
    "plot.oi_share": lambda: {"data": amounts(), "symbol": "BTC", "venues": 2, "source": None, "ax": None},
    "plot.share_trend": lambda: {
        "data": amounts(), "symbol": "BTC", "venues": 2, "days": 7.0, "source": None,
        "ax": None,
    },
    "plot.open_interest_by_strike": lambda: {
        "chain": options(), "expiry": None, "contract_size": 1.0, "source": None, "ax": None,
    },
    "plot.smile": lambda: {
        "quotes": quotes(), "fit": fitted(), "expiries": None, "most": 2, "source": None, "ax": None,
    },
    "plot.surface": lambda: {"data": whole(), "kind": "heat", "reach": 2.0, "source": None, "ax": None},
    "plot.term_structure": lambda: {"data": whole(), "before": whole(), "source": None, "ax": None},
    "plot.implied_density": lambda: {
        "data": whole(), "expiries": None, "most": 2, "source": None, "ax": None,
    },
    "plot.volatility_history": lambda: {
        "history": index_history(), "symbol": "BTC", "source": None, "ax": None,
    },
    "plot.data": lambda: {"ax": plot.orderbook_depth(book())},
    "plot.card": lambda: {"data": whole()},
    "plot.pnl_attribution": lambda: {
        "attribution": attributed(), "currency": "usd", "source": None, "ax": None,
    },
    "plot.volatility_cone": lambda: {
        "cone": cone(), "bar_days": 1.0, "implied": {7.0: 0.5}, "source": None, "ax": None,
    },
    "plot.backtest_attribution": lambda: {"result": backtested(), "source": None, "ax": None},
    "plot.backtest_capacity": lambda: {"curve": sized(), "source": None, "ax": None},
    "plot.backtest_equity": lambda: {"result": backtested(), "source": None, "ax": None},
    "plot.backtest_positions": lambda: {"result": backtested(), "source": None, "ax": None},
    "plot.backtest_sweep": lambda: {"table": swept(), "source": None, "ax": None},
    "plot.backtest_trades": lambda: {"result": backtested(), "source": None, "ax": None},
    "plot.backtest_turnover": lambda: {"result": backtested(), "source": None, "ax": None},
    "plot.gamma_exposure": lambda: {
        "chain": options(), "dealer": {"call": 1.0, "put": -0.5}, "contract_size": 1.0, "source": None,
        "ax": None,
    },
    "plot.implied_and_realised": lambda: {
        "implied": one_volatility(), "realised": one_volatility(), "symbol": "BTC", "source": None,
        "ax": None,
    },
    "plot.oi_level": lambda: {
        "data": amounts(), "price": amounts("price_usd"), "symbol": "BTC", "source": None, "ax": None,
    },
    "plot.orderbook_depth": lambda: {"data": book(), "source": None, "ax": None},
    "plot.venue_difference": lambda: {
        "data": venues(), "reference": "deribit", "days": (40, 60), "source": None, "ax": None,
    },
}  # fmt: skip
