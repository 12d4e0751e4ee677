"""Every column and every table, as data, with facts about venues; and arrays made from tables."""

from derivdata.tables.chains import snapshots, surface
from derivdata.tables.contracts import VENUES, base, contract, expiry
from derivdata.tables.definitions import COLUMNS, TABLES
from derivdata.tables.frames import RENAMED_TICKERS

__all__ = [
    "COLUMNS",
    "RENAMED_TICKERS",
    "TABLES",
    "VENUES",
    "base",
    "contract",
    "expiry",
    "snapshots",
    "surface",
]
__dir__ = __all__.copy
