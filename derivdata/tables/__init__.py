"""Every column and every table, as data, with facts about venues; and arrays made from tables."""

from __future__ import annotations

from derivdata.tables.columns import COLUMNS
from derivdata.tables.contracts import VENUES, contract, venue_slug
from derivdata.tables.definitions import TABLES
from derivdata.tables.panels import depth
from derivdata.tables.surfaces import surface, surface_history

__all__ = [
    "COLUMNS",
    "TABLES",
    "VENUES",
    "contract",
    "depth",
    "surface",
    "surface_history",
    "venue_slug",
]


def __dir__() -> list[str]:
    return __all__
