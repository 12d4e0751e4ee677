"""Builder analytics: frontends that route orders to Hyperliquid, as an open table (see `derivdata.hip3`)."""

from __future__ import annotations

import pandas as pd

from derivdata.client.quantities import fetch_rows
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["dashboard"]
__dir__ = __all__.copy


@typed
def dashboard(window: times.TimeLike | None = None) -> pd.DataFrame:
    """Return an overview of builders.

    Parameters
    ----------
    window
        A preset, a lookback or a start, as in `derivdata.hip3`; None leaves the choice to the service.

    Returns
    -------
    DataFrame, open table ``builders_dashboard``
        Rows with totals, one row per builder and one per day; ``part`` distinguishes them.

    Notes
    -----
    ``GET /builder-analytics/dashboard``, Dev and above. Errors: see `derivdata.hip3.dashboard`.
    """
    return fetch_rows(endpoints.BUILDERS_DASHBOARD, {"range": window})
