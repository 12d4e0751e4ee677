# What `derivdata.analysis.__getattr__` resolves lazily, for type checkers and completion; never executed.
from derivdata.analysis import align as align
from derivdata.analysis import backtest as backtest
from derivdata.analysis import basis as basis
from derivdata.analysis import black76 as black76
from derivdata.analysis import business_time as business_time
from derivdata.analysis import chain as chain
from derivdata.analysis import delivery as delivery
from derivdata.analysis import exposure as exposure
from derivdata.analysis import funding as funding
from derivdata.analysis import futures as futures
from derivdata.analysis import liquidations as liquidations
from derivdata.analysis import oi as oi
from derivdata.analysis import option_trades as option_trades
from derivdata.analysis import position as position
from derivdata.analysis import risk_neutral as risk_neutral
from derivdata.analysis import smile as smile
from derivdata.analysis import surface as surface
from derivdata.analysis import taker as taker
from derivdata.analysis import variance as variance
from derivdata.analysis import volatility as volatility
from derivdata.analysis.funding.carry_tables import carry_table as carry_table
from derivdata.analysis.ranking import percentile as percentile
from derivdata.analysis.ranking import rank as rank

__all__ = [
    "align",
    "backtest",
    "basis",
    "black76",
    "business_time",
    "carry_table",
    "chain",
    "delivery",
    "exposure",
    "funding",
    "futures",
    "liquidations",
    "oi",
    "option_trades",
    "percentile",
    "position",
    "rank",
    "risk_neutral",
    "smile",
    "surface",
    "taker",
    "variance",
    "volatility",
]
