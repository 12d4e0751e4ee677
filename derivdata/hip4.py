"""HIP-4 analytics: outcome markets on Hyperliquid.

Open tables and windows as in `derivdata.hip3`. ``venue`` is ``"out"`` or ``"skew"``; None returns both. Dev
and above.
"""

from __future__ import annotations

import pandas as pd

from derivdata.client.quantities import fetch_rows
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["dashboard", "leaderboard", "oi_eod", "outcome"]
__dir__ = __all__.copy


@typed
def dashboard(window: times.Instant | None = None, *, venue: str | None = None) -> pd.DataFrame:
    """Return an overview of HIP-4, by outcome and by day: ``GET /hip4-analytics/dashboard``."""
    return fetch_rows(endpoints.HIP4_DASHBOARD, {"range": window, "venue": venue})


@typed
def outcome(
    outcome_id: str | int, window: times.Instant | None = None, *, venue: str | None = None
) -> pd.DataFrame:
    """Return one outcome: ``GET /hip4-analytics/outcome/{outcome_id}``."""
    return fetch_rows(
        endpoints.HIP4_OUTCOME, {"outcome_id": str(outcome_id), "range": window, "venue": venue}
    )


@typed
def oi_eod(start: times.Instant | None = None, *, venue: str | None = None) -> pd.DataFrame:
    """Return open interest at the end of each day since `start`: ``GET /hip4-analytics/oi-eod``."""
    since = None if start is None else times.since(start, "start")
    return fetch_rows(endpoints.HIP4_OI_EOD, {"start": since, "venue": venue})


@typed
def leaderboard(
    window: times.Instant | None = None, *, venue: str | None = None, limit: int | None = None
) -> pd.DataFrame:
    """Return the largest traders: ``GET /hip4-analytics/leaderboard``."""
    return fetch_rows(endpoints.HIP4_LEADERBOARD, {"range": window, "venue": venue, "limit": limit})
