"""Tables, panels and fits in, matplotlib ``Axes`` out: one function per question.

Every function draws on the axes ``ax`` that it is given, or on a new figure, and returns them. It labels
axes with units, writes times in UTC, and states below the axes where the data is from, as of when, and
whether it is synthetic. Most results of an analysis do not carry that along: ``source`` is the table, panel
or surface that they were made of. Figures of several strips take the place of the axes given and return the
main one of theirs. ``derivdata.plot.data(ax)`` gives what a figure draws as a frame.
"""

from __future__ import annotations

from derivdata.plot.attributions import pnl_attribution
from derivdata.plot.backtests import (
    backtest_attribution,
    backtest_capacity,
    backtest_equity,
    backtest_positions,
    backtest_sweep,
    backtest_trades,
    backtest_turnover,
)
from derivdata.plot.cards import Card, card
from derivdata.plot.carry import cumulative_funding, funding_spreads, net_carry
from derivdata.plot.densities import implied_density
from derivdata.plot.frames import data
from derivdata.plot.funding_rates import funding_heatmap, funding_history
from derivdata.plot.levels_over_time import implied_and_realised, oi_level
from derivdata.plot.liquidation_orders import liquidations
from derivdata.plot.oi_shares import oi_share, share_trend
from derivdata.plot.open_interest import gamma_exposure, open_interest_by_strike
from derivdata.plot.order_books import orderbook_depth
from derivdata.plot.smiles import smile
from derivdata.plot.surfaces import surface
from derivdata.plot.term_structures import term_structure
from derivdata.plot.venue_differences import venue_difference
from derivdata.plot.volatility_cones import volatility_cone
from derivdata.plot.volatility_histories import volatility_history

__all__ = [
    "Card",
    "backtest_attribution",
    "backtest_capacity",
    "backtest_equity",
    "backtest_positions",
    "backtest_sweep",
    "backtest_trades",
    "backtest_turnover",
    "card",
    "cumulative_funding",
    "data",
    "funding_heatmap",
    "funding_history",
    "funding_spreads",
    "gamma_exposure",
    "implied_and_realised",
    "implied_density",
    "liquidations",
    "net_carry",
    "oi_level",
    "oi_share",
    "open_interest_by_strike",
    "orderbook_depth",
    "pnl_attribution",
    "share_trend",
    "smile",
    "surface",
    "term_structure",
    "venue_difference",
    "volatility_cone",
    "volatility_history",
]


def __dir__() -> list[str]:
    return __all__
