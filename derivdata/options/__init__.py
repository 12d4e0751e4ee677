"""Options: every active instrument of one symbol on one venue, as a table or as a surface, and over time.

The snapshot carries no time and no prices: ``time`` is the server's ``Date``. Greeks are the venue's own,
in units that the API does not state; analysis computes its own from the implied volatility.
"""

from derivdata.options.chains import metrics, snapshot, surface
from derivdata.options.histories import atm_history, overview_history, surface_history, trades

__all__ = ["atm_history", "metrics", "overview_history", "snapshot", "surface", "surface_history", "trades"]
__dir__ = __all__.copy
