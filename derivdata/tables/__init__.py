"""Declarations of all columns and tables, facts about venues, and conversion of tables to arrays."""

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
