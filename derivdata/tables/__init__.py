"""Every column and every table, as data, with the venues' facts; and panels made from tables."""

from __future__ import annotations

from derivdata.tables.columns import COLUMNS
from derivdata.tables.contracts import QUOTES, Contract, contract
from derivdata.tables.definitions import (
    FUNDING_HISTORY,
    FUNDING_METADATA,
    FUNDING_SETTLEMENTS,
    FUNDING_SNAPSHOT,
    LIQUIDATIONS_EVENTS,
    LIQUIDATIONS_FILLS,
    MARKETS_FUNDING_LEADERS,
    MARKETS_PRICE_MOVERS,
    MARKETS_SYMBOL_EXCHANGES,
    MARKETS_SYMBOLS,
    OI_EXCHANGES,
    OI_HISTORY,
    OI_SPARKLINES,
    OPTIONS_SNAPSHOT,
    TABLES,
    VOLUME_HISTORY,
)
from derivdata.tables.panel import panel, provenance
from derivdata.tables.surface import surface
from derivdata.tables.venues import VENUES, VENUES_AS_OF, Venue

__all__ = [
    "COLUMNS",
    "FUNDING_HISTORY",
    "FUNDING_METADATA",
    "FUNDING_SETTLEMENTS",
    "FUNDING_SNAPSHOT",
    "LIQUIDATIONS_EVENTS",
    "LIQUIDATIONS_FILLS",
    "MARKETS_FUNDING_LEADERS",
    "MARKETS_PRICE_MOVERS",
    "MARKETS_SYMBOLS",
    "MARKETS_SYMBOL_EXCHANGES",
    "OI_EXCHANGES",
    "OI_HISTORY",
    "OI_SPARKLINES",
    "OPTIONS_SNAPSHOT",
    "QUOTES",
    "TABLES",
    "VENUES",
    "VENUES_AS_OF",
    "VOLUME_HISTORY",
    "Contract",
    "Venue",
    "contract",
    "panel",
    "provenance",
    "surface",
]
