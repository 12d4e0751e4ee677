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
    "rwa",
    "volume",
)
_MODULES = ("analysis", "errors", "plot", "tables", "units", "venues")
_NAMES = {
    "asof": "transport",
    "bundle_diff": "bundle",
    "cache_clear": "transport",
    "cache_info": "transport",
    "connect": "transport",
    "disconnect": "transport",
    "open_archive": "archive",
    "panel": "tables",
    "plan": "fetch.plan",
    "provenance": "tables",
    "quality": "analysis.quality",
    "raw": "transport",
    "record": "bundle",
    "replay": "bundle",
    "report": "reports",
    "serve": "service",
}

__all__ = sorted([*_FAMILIES, *_MODULES, *_NAMES])


def __getattr__(name: str) -> Any:
    if name in _FAMILIES:
        found = importlib.import_module(f"derivdata.fetch.{name}")
    elif name in _MODULES:
        found = importlib.import_module(f"derivdata.{name}")
    elif name in _NAMES:
        found = getattr(importlib.import_module(f"derivdata.{_NAMES[name]}"), name)
    else:
        raise AttributeError(f"module 'derivdata' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
