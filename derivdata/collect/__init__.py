"""Collecting from the venues: what `derivdata.venues` says to ask is asked, and kept in an archive.

Only this package asks venues, and only `derivdata.collect.clock` reads the machine's clock.
"""

from __future__ import annotations

from derivdata.collect.clock import MachineClock
from derivdata.collect.collector import Collector
from derivdata.collect.histories import Backfilled, backfill

__all__ = ["Backfilled", "Collector", "MachineClock", "backfill"]


def __dir__() -> list[str]:
    return __all__
