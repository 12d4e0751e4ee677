"""Builder analytics, as an open table like those of `derivdata.hip3`. Dev and above."""

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
    """Return an overview of builders: ``GET /builder-analytics/dashboard``.

    Parameters
    ----------
    window
        A preset, a lookback or a start, as in `derivdata.hip3`; None leaves the choice to the service.

    Returns
    -------
    DataFrame, open table ``builders_dashboard``
        One row per builder and one per day.
    """
    return fetch_rows(endpoints.BUILDERS_DASHBOARD, {"range": window})
