"""Pure functions on panels, surfaces and tables: one module per question, loaded when first used."""

from __future__ import annotations

import importlib
from types import ModuleType

from derivdata.support.text import did_you_mean

__all__ = [
    "align",
    "backtest",
    "basis",
    "black76",
    "business_time",
    "chain",
    "exposure",
    "funding",
    "liquidations",
    "oi",
    "position",
    "risk_neutral",
    "smile",
    "surface",
    "variance",
    "volatility",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(
            f"module 'derivdata.analysis' has no attribute {name!r}{did_you_mean(name, __all__)}"
        )
    return importlib.import_module(f"derivdata.analysis.{name}")


__dir__ = __all__.copy
