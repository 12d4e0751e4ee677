"""Funding rates: spreads between venues, accrual of positions, z-scores, persistence and forecasts.

Panels are DataArrays with some of the dims ``(symbol, exchange, time)``, in bps per 8 hours, with a ``kind``:
sampled rates are integrated over time, settlements are added. Positive rates: longs pay shorts. Missing
values remain NaN. Every function accepts arrays in memory or dask-backed, is lazy for dask-backed arrays, and
uses no row later than that of its result unless documented.
"""

from derivdata.analysis.funding.accrual import cumulative, period_sums
from derivdata.analysis.funding.best_pairs import best_pair, pick_record, pick_summary
from derivdata.analysis.funding.carry_forecast import forecast_carry, forecast_history
from derivdata.analysis.funding.ledger import infer_interval, next_settlements
from derivdata.analysis.funding.pairs import realised_carry, slippage_bps, with_spot
from derivdata.analysis.funding.persistence import breakeven, half_life
from derivdata.analysis.funding.portfolios import portfolio
from derivdata.analysis.funding.rolling import zscore
from derivdata.analysis.funding.spreads import comovement, dispersion, oi_weighted, spread, universe

__all__ = [
    "best_pair",
    "breakeven",
    "comovement",
    "cumulative",
    "dispersion",
    "forecast_carry",
    "forecast_history",
    "half_life",
    "infer_interval",
    "next_settlements",
    "oi_weighted",
    "period_sums",
    "pick_record",
    "pick_summary",
    "portfolio",
    "realised_carry",
    "slippage_bps",
    "spread",
    "universe",
    "with_spot",
    "zscore",
]
__dir__ = __all__.copy
