"""Builder analytics: an open table, as those of `derivdata.hip3`. Dev and above."""

from __future__ import annotations

import pandas as pd

from derivdata import api, times
from derivdata.arguments import typed
from derivdata.fetch.schemaless import fetch_rows

__all__ = ["dashboard"]


def __dir__() -> list[str]:
    return __all__


@typed
def dashboard(window: times.Instant | None = None) -> pd.DataFrame:
    """Return builders at a glance, a row per builder and one per day: ``GET /builder-analytics/dashboard``.

    Parameters
    ----------
    window
        A preset, a lookback or a start, as in `derivdata.hip3`; the service's own choice unless given.
    """
    return fetch_rows(api.BUILDERS_DASHBOARD, {"range": window})
