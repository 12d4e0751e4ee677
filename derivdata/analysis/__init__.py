"""Pure functions on panels, surfaces and tables: one module per question, loaded when first used.

Four functions are in the package itself: `carry_table`, `flags` for results with a status, and `percentile`
and `rank` for panels.
"""

from __future__ import annotations

import importlib
from typing import Any

from derivdata.support.text import did_you_mean

__all__ = [
    "align",
    "backtest",
    "basis",
    "black76",
    "business_time",
    "carry_table",
    "chain",
    "delivery",
    "depth",
    "exposure",
    "flags",
    "funding",
    "futures",
    "liquidations",
    "oi",
    "option_trades",
    "percentile",
    "position",
    "rank",
    "risk_neutral",
    "sessions",
    "smile",
    "surface",
    "taker",
    "variance",
    "volatility",
]
_FUNCTIONS = {
    "carry_table": "funding.carry_forecast",
    "flags": "status",
    "percentile": "align",
    "rank": "align",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(
            f"module 'derivdata.analysis' has no attribute {name!r}{did_you_mean(name, __all__)}"
        )
    module = importlib.import_module(f"derivdata.analysis.{_FUNCTIONS.get(name, name)}")
    return getattr(module, name) if name in _FUNCTIONS else module


__dir__ = __all__.copy
