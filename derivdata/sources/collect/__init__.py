"""Collecting from the venues: what `derivdata.sources.venues` says to ask is asked, and kept in an archive.

Only this package asks venues, and only `derivdata.sources.collect.session` reads the machine's clock.
"""

from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.histories import backfill

__all__ = ["Collector", "backfill"]
__dir__ = __all__.copy
