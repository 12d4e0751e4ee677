"""Collection from the venues: send the requests of `derivdata.sources.venues`, and store rows in an archive.

Only this package sends requests to venues, and only `derivdata.sources.collect.session` reads the machine's
clock.
"""

from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.histories import backfill

__all__ = ["Collector", "backfill"]
__dir__ = __all__.copy
