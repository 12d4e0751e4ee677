"""Backtests of carry: what a rule would have earned, traded on what was known at each instant.

A rule is called at every row and sees the past only. It names a pair of venues for each symbol: long where
funding is low, short where it is high. Positions receive the payments after they were opened, at each
venue's own stamps, and pay fees, slippage and the price mismatch of their legs. A backtest of data that its
provider calls informational is informational too.

`options` backtests strategies of options: legs by tenor and delta, traded at bid and ask, hedged in a
perpetual.
"""

from derivdata.analysis.backtest.book import Portfolio
from derivdata.analysis.backtest.costs import Costs, OptionCosts, capacity
from derivdata.analysis.backtest.engine import carry
from derivdata.analysis.backtest.market import Past, Target
from derivdata.analysis.backtest.option_rules import DeltaHedge, OptionLeg, OptionState, Roll
from derivdata.analysis.backtest.option_strategies import options
from derivdata.analysis.backtest.results import trades
from derivdata.analysis.backtest.rules import (
    ForecastThreshold,
    HoldingTime,
    HoldPair,
    Rotation,
    SpreadThreshold,
    VenueLimit,
)
from derivdata.analysis.backtest.sweeps import sweep

__all__ = [
    "Costs",
    "DeltaHedge",
    "ForecastThreshold",
    "HoldPair",
    "HoldingTime",
    "OptionCosts",
    "OptionLeg",
    "OptionState",
    "Past",
    "Portfolio",
    "Roll",
    "Rotation",
    "SpreadThreshold",
    "Target",
    "VenueLimit",
    "capacity",
    "carry",
    "options",
    "sweep",
    "trades",
]
__dir__ = __all__.copy
