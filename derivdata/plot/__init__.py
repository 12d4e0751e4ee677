"""Figures of tables, panels and fits: one function per question, which returns matplotlib ``Axes``.

Each function draws on the axes ``ax``, or on a new figure of the size ``figsize`` [inches], and returns the
axes. It labels axes with units, writes times in UTC, and states below the axes the source of the data, its
time, and whether it is synthetic. Most results of an analysis do not have a source. Pass the table, panel or
surface that they were computed from as ``source``, or a text with the data, its licence and window. Figures
of several strips replace the axes ``ax`` and return their main axes. ``derivdata.plot.data(ax)`` returns the
drawn data as a frame.

Five functions accept ``engine="plotly"`` (extra ``derivdata[plotly]``) and return a plotly ``Figure`` with
the same numbers and words, zoom, and a hover text for each mark.
"""

from derivdata.plot.backtests import backtest, pnl_attribution
from derivdata.plot.by_strike import option_flow, strikes
from derivdata.plot.frames import data
from derivdata.plot.funding import carry, cumulative_funding, funding_heatmap, funding_history
from derivdata.plot.orders import liquidations, orderbook_depth
from derivdata.plot.positions import open_interest, positioning, taker_volume
from derivdata.plot.smiles import calibration, implied_density, smile
from derivdata.plot.surfaces import card, surface, venue_difference
from derivdata.plot.volatilities import term_structure, volatility

__all__ = [
    "backtest",
    "calibration",
    "card",
    "carry",
    "cumulative_funding",
    "data",
    "funding_heatmap",
    "funding_history",
    "implied_density",
    "liquidations",
    "open_interest",
    "option_flow",
    "orderbook_depth",
    "pnl_attribution",
    "positioning",
    "smile",
    "strikes",
    "surface",
    "taker_volume",
    "term_structure",
    "venue_difference",
    "volatility",
]
__dir__ = __all__.copy
