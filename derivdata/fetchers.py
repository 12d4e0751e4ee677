"""Every fetcher by the name of the table that it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from derivdata import (
    builders,
    delivery,
    funding,
    futures,
    hip3,
    hip4,
    liquidations,
    markets,
    oi,
    options,
    orderbook,
    positioning,
    prices,
    rwa,
    volatility,
    volume,
)
from derivdata.client.plan import catalog
from derivdata.tables import TABLES
from derivdata.tables.definitions import OPEN_TABLES

__all__ = ["FAMILIES", "FETCHERS"]

FAMILIES = {
    "builders": builders,
    "delivery": delivery,
    "funding": funding,
    "futures": futures,
    "hip3": hip3,
    "hip4": hip4,
    "liquidations": liquidations,
    "markets": markets,
    "oi": oi,
    "options": options,
    "orderbook": orderbook,
    "positioning": positioning,
    "prices": prices,
    "rwa": rwa,
    "volatility": volatility,
    "volume": volume,
}

FETCHERS: dict[str, Callable[..., Any]] = {
    f"{family}_{name}": getattr(module, name)
    for family, module in FAMILIES.items()
    for name in module.__all__
    if f"{family}_{name}" in TABLES.keys() | OPEN_TABLES.keys()
} | {"catalog": catalog}
