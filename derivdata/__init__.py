"""Crypto derivatives data as tidy pandas frames and xarray surfaces, replayable offline.

>>> import derivdata as dd
>>> dd.connect("sample")  # doctest: +SKIP
>>> dd.funding.history("BTC", "30d")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys

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
_MODULES = ("analysis", "errors", "plot", "tables", "units", "venues")
_NAMES = {
    "asof": "transport",
    "bundle_diff": "bundle",
    "cache_clear": "transport",
    "cache_info": "transport",
    "concat": "tables",
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
        value = importlib.import_module(f"derivdata.fetch.{name}")
    elif name in _MODULES:
        value = importlib.import_module(f"derivdata.{name}")
    elif name in _NAMES:
        value = getattr(importlib.import_module(f"derivdata.{_NAMES[name]}"), name)
    else:
        raise AttributeError(f"module 'derivdata' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _FamilyFinder:
    """Finds ``derivdata.funding``, the documented name, in ``derivdata.fetch.funding``, for all families.

    Type checkers read the same from a stub of each family beside this file.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        package, _, family = name.partition(".")
        if package != "derivdata" or family not in _FAMILIES:
            return None
        return importlib.machinery.ModuleSpec(name, _FamilyFinder)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: Any) -> Any:
        module = importlib.import_module(f"derivdata.fetch.{spec.name.partition('.')[2]}")
        spec.loader_state = module.__spec__
        return module

    @staticmethod
    def exec_module(module: Any) -> None:
        # The module has run under its own name; only that name is its own, not the alias.
        module.__spec__ = module.__spec__.loader_state


if _FamilyFinder not in sys.meta_path:
    sys.meta_path.append(_FamilyFinder)  # type: ignore[arg-type]
