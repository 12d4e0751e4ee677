"""Crypto derivatives data as tidy pandas frames and xarray surfaces, replayable offline.

>>> import derivdata as dd
>>> dd.connect("sample")  # doctest: +SKIP
>>> dd.funding.history("BTC", "30d")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from derivdata.service import Local

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
_MODULES = ("analysis", "errors", "tables", "units")
_NAMES = {
    "asof": "transport",
    "cache_clear": "transport",
    "cache_info": "transport",
    "connect": "transport",
    "disconnect": "transport",
    "open_archive": "archive",
    "panel": "tables",
    "provenance": "tables",
    "raw": "transport",
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
        module = importlib.import_module(f"derivdata.{_NAMES[name]}")
        if _NAMES[name] == "transport":
            module.set_starter(_start_service)
        found = getattr(module, name)
    else:
        raise AttributeError(f"module 'derivdata' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _start_service(source: str, now: pd.Timestamp | None) -> Local:
    from derivdata import service

    return service.start(source, now=now)
