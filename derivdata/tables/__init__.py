"""Every column and every table, as data, with facts about venues; and arrays made from tables."""

from derivdata.tables.chain_snapshots import snapshots
from derivdata.tables.coins import RENAMED_TICKERS
from derivdata.tables.columns import COLUMNS
from derivdata.tables.contracts import VENUES, base, contract
from derivdata.tables.definitions import TABLES
from derivdata.tables.expiries import expiry
from derivdata.tables.surfaces import surface

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
