"""Backtest carry: simulate the earnings of a rule, traded on the data known at each time.

A rule is called at every row with past data only. It returns a pair of venues for each symbol: long where
funding is low, short where it is high. Positions receive the payments after they were opened, at each venue's
timestamps, and pay fees, slippage and the price mismatch of their legs. A backtest of data that is
informational only is informational only, too.

`options` backtests option strategies: legs by tenor and delta, traded at bid and ask, hedged with a
perpetual.
"""

from derivdata.analysis.backtest.book import Portfolio
from derivdata.analysis.backtest.costs import Costs, OptionCosts, capacity
from derivdata.analysis.backtest.engine import carry, sweep
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
