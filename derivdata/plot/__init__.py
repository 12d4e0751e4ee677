"""Tables, panels and fits in, matplotlib ``Axes`` out: one function per question.

Every function draws on the axes ``ax`` that it is given, or on a new figure of the size ``figsize`` [inches],
and returns the axes. It labels axes with units, writes times in UTC, and states below the axes where the data
is from, as of when, and whether it is synthetic. Most results of an analysis do not carry that along:
``source`` is the table, panel or surface that they were made of, or words: the data, its licence and window.
Figures of several strips take the place of the axes given and return the main one of theirs.
``derivdata.plot.data(ax)`` gives what a figure draws as a frame.

Five take ``engine="plotly"`` (extra ``derivdata[plotly]``): the same numbers and words, with a hover text for
each mark and zoom, as a plotly ``Figure`` instead of axes.
"""

from derivdata.plot.backtests import backtest, pnl_attribution
from derivdata.plot.carry_bars import carry, cumulative_funding
from derivdata.plot.flows import calibration, option_flow, positioning, taker_volume
from derivdata.plot.frames import data
from derivdata.plot.funding_rates import funding_heatmap, funding_history
from derivdata.plot.oi_shares import open_interest
from derivdata.plot.orders import liquidations, orderbook_depth
from derivdata.plot.smiles import implied_density, smile
from derivdata.plot.strike_bars import strikes
from derivdata.plot.surfaces import card, surface, venue_difference
from derivdata.plot.term_structures import term_structure
from derivdata.plot.volatilities import volatility

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
