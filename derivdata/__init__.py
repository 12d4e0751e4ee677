"""Crypto derivatives data as tidy pandas frames and xarray surfaces, replayable offline.

>>> import derivdata as dd
>>> dd.connect("sample")  # doctest: +SKIP
>>> dd.funding.history("BTC", "30d")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib

# typing.TYPE_CHECKING without typing, which takes longer to load than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_FAMILIES = (
    "builders",
    "funding",
    "hip3",
    "hip4",
    "liquidations",
    "markets",
    "oi",
    "options",
    "orderbook",
    "prices",
    "rwa",
    "volume",
)
_MODULES = {
    **{family: family for family in _FAMILIES},
    "analysis": "analysis",
    "archive": "sources.archive",
    "bundle": "client.bundle",
    "collect": "sources.collect",
    "errors": "errors",
    "plot": "plot",
    "sample": "sources.sample",
    "tables": "tables",
    "units": "units",
    "venues": "sources.venues",
}
_NAMES = {
    "asof": "client.transport",
    "bundle_diff": "client.bundle",
    "cache_clear": "client.transport",
    "cache_info": "client.transport",
    "concat": "tables.joining",
    "connect": "client.transport",
    "disconnect": "client.transport",
    "open_archive": "sources.archive",
    "panel": "tables.panels",
    "plan": "client.plan",
    "provenance": "tables.panels",
    "quality": "analysis.quality",
    "raw": "client.transport",
    "record": "client.bundle",
    "replay": "client.bundle",
    "report": "reports",
    "serve": "sources.service",
}

__all__ = sorted([*_MODULES, *_NAMES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(f"derivdata.{_MODULES[name]}")
    elif name in _NAMES:
        value = getattr(importlib.import_module(f"derivdata.{_NAMES[name]}"), name)
    else:
        from derivdata.support.text import did_you_mean

        raise AttributeError(f"module 'derivdata' has no attribute {name!r}{did_you_mean(name, __all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
