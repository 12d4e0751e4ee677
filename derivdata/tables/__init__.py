"""Every column and every table, as data, with facts about venues; and arrays made from tables.

Each family of endpoints has a module of its name, and every table that it defines is public here: a name
is written once, in the module of its family.
"""

from __future__ import annotations

from derivdata.tables.builders import *
from derivdata.tables.columns import COLUMNS
from derivdata.tables.contracts import QUOTES, VENUES, VENUES_AS_OF, Contract, Venue, contract, venue_slug
from derivdata.tables.funding import *
from derivdata.tables.hip3 import *
from derivdata.tables.hip4 import *
from derivdata.tables.joining import concat
from derivdata.tables.liquidations import *
from derivdata.tables.markets import *
from derivdata.tables.oi import *
from derivdata.tables.options import *
from derivdata.tables.orderbook import *
from derivdata.tables.panels import depth, panel, provenance
from derivdata.tables.prices import *
from derivdata.tables.rwa import *
from derivdata.tables.schema import OpenTable, Table
from derivdata.tables.surfaces import surface, surface_history
from derivdata.tables.volume import *

_NAMED = {name: value for name, value in globals().items() if isinstance(value, Table | OpenTable)}

TABLES: dict[str, Table] = {table.name: table for table in _NAMED.values() if isinstance(table, Table)}
"""Every table of fixed columns by its name: what a fetcher returns, or an archive holds."""

OPEN_TABLES: dict[str, OpenTable] = {
    table.name: table for table in _NAMED.values() if isinstance(table, OpenTable)
}
"""Every table whose fields no document fixes, by its name."""

__all__ = [
    "COLUMNS",
    "OPEN_TABLES",
    "QUOTES",
    "TABLES",
    "VENUES",
    "VENUES_AS_OF",
    "Contract",
    "Venue",
    "concat",
    "contract",
    "depth",
    "panel",
    "provenance",
    "surface",
    "surface_history",
    "venue_slug",
]
__all__ += list(_NAMED)  # as a list of `*names`, pyright would take it for all there is


def __dir__() -> list[str]:
    return __all__
