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
def dashboard(window: times.TimeLike | None = None, *, venue: str | None = None) -> pd.DataFrame:
    """Return an overview of HIP-4, by outcome and by day.

    Parameters
    ----------
    window
        A preset, a lookback or a start, as in `derivdata.hip3`; None leaves the choice to the service.
    venue
        ``"out"`` or ``"skew"``; None is both.

    Returns
    -------
    DataFrame, open table ``hip4_dashboard``
        Rows with totals, one row per outcome and one per day; ``part`` distinguishes them.

    Notes
    -----
    ``GET /hip4-analytics/dashboard``, Dev and above. Errors: see `derivdata.hip3.dashboard`.
    """
    return fetch_rows(endpoints.HIP4_DASHBOARD, {"range": window, "venue": venue})


@typed
def outcome(
    outcome_id: str | int, window: times.TimeLike | None = None, *, venue: str | None = None
) -> pd.DataFrame:
    """Return the activity of one HIP-4 outcome, in total and by day.

    Parameters
    ----------
    outcome_id
        Number of the outcome.
    window, venue
        As in `dashboard`.

    Returns
    -------
    DataFrame, open table ``hip4_outcome``
        One row with totals and one per day; ``part`` distinguishes them.

    Notes
    -----
    ``GET /hip4-analytics/outcome/{outcome_id}``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(
        endpoints.HIP4_OUTCOME, {"outcome_id": str(outcome_id), "range": window, "venue": venue}
    )


@typed
def oi_eod(start: times.TimeLike | None = None, *, venue: str | None = None) -> pd.DataFrame:
    """Return open interest of HIP-4 markets at the end of each day.

    Parameters
    ----------
    start
        Time of the first day, or a lookback such as ``"30d"``; None leaves the choice to the service.
    venue
        As in `dashboard`.

    Returns
    -------
    DataFrame, open table ``hip4_oi_eod``
        One row per day.

    Notes
    -----
    ``GET /hip4-analytics/oi-eod``, Dev and above. Errors: see `dashboard`.
    """
    since = None if start is None else times.since(start, "start")
    return fetch_rows(endpoints.HIP4_OI_EOD, {"start": since, "venue": venue})


@typed
def leaderboard(
    window: times.TimeLike | None = None, *, venue: str | None = None, limit: int | None = None
) -> pd.DataFrame:
    """Return the largest traders on HIP-4 markets.

    Parameters
    ----------
    window, venue
        As in `dashboard`.
    limit
        Maximum number of rows; None uses the service's default.

    Returns
    -------
    DataFrame, open table ``hip4_leaderboard``
        One row per trader.

    Notes
    -----
    ``GET /hip4-analytics/leaderboard``, Dev and above. Errors: see `dashboard`.
    """
    return fetch_rows(endpoints.HIP4_LEADERBOARD, {"range": window, "venue": venue, "limit": limit})
