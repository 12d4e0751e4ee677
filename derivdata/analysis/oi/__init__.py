"""Distribution of open interest over venues: shares, concentration, trends, and moves between two instants.

Open interest must be in USD or in coins throughout; it is never added across units. Shares are taken over
a balanced set of venues, so that a venue that appears or fails does not look like migration.
"""

from derivdata.analysis.oi.decomposition import in_coins, migration
from derivdata.analysis.oi.shares import by_kind, hhi, market_share, oi_to_volume
from derivdata.analysis.oi.trend import share_trend

__all__ = [
    "by_kind",
    "hhi",
    "in_coins",
    "market_share",
    "migration",
    "oi_to_volume",
    "share_trend",
]
__dir__ = __all__.copy
