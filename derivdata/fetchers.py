"""Every fetcher by the name of the table that it returns."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import derivdata
from derivdata.client.plan import catalog, instruments
from derivdata.tables import TABLES
from derivdata.tables.definitions import OPEN_TABLES

__all__ = ["FAMILIES", "FETCHERS"]

FAMILIES = {name: import_module(f"derivdata.{name}") for name in derivdata._FAMILIES}

FETCHERS: dict[str, Callable[..., Any]] = {
    f"{family}_{name}": getattr(module, name)
    for family, module in FAMILIES.items()
    for name in module.__all__
    if f"{family}_{name}" in TABLES.keys() | OPEN_TABLES.keys()
} | {"catalog": catalog, "instruments": instruments}
