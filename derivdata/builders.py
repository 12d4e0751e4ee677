"""Builder analytics: an open table, as those of `derivdata.hip3`. Dev and above."""

from __future__ import annotations

import pandas as pd

from derivdata.client.quantities import fetch_rows
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["dashboard"]
__dir__ = __all__.copy


@typed
def dashboard(window: times.Instant | None = None) -> pd.DataFrame:
    """Return builders at a glance, a row per builder and one per day: ``GET /builder-analytics/dashboard``.

    Parameters
    ----------
    window
        A preset, a lookback or a start, as in `derivdata.hip3`; the service's own choice unless given.
    """
    return fetch_rows(endpoints.BUILDERS_DASHBOARD, {"range": window})
