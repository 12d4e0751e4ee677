"""Liquidations: orders as they come, a live feed of them, and their sums.

``side`` is the side that was liquidated. Feeds are throttled on some venues, so that levels do not compare
across venues.
"""

from derivdata.liquidations.feed import poll
from derivdata.liquidations.orders import events
from derivdata.liquidations.sums import aggregates, history

__all__ = ["aggregates", "events", "history", "poll"]
__dir__ = __all__.copy
