"""Status of collected data by venue and table."""

from __future__ import annotations

import pandas as pd

from derivdata.sources.archive import Archive
from derivdata.sources.venues.registry import VENUES

__all__ = ["status"]

_HOUR = pd.Timedelta(1, "h")
_WINDOW_SECONDS = 60.0  # of a poll, however seldom, in ledgers of before windows lasted until the next one


def status(archive: Archive, now: pd.Timestamp) -> pd.DataFrame:
    """Return per venue and table what was collected.

    Columns are the last row, rows of the last hour, the minutes since the last answer, holes between answered
    windows that are longer than from one poll to the next, windows that failed, and the last error.
    """
    rows = []
    ledger = archive.requests()
    for (exchange, table), requests in ledger.groupby(["exchange", "table"], sort=True):
        answered, failed = requests[requests["answered"]], requests[~requests["answered"]]
        recent = archive.read(table, now - _HOUR, now + _HOUR, venues=[exchange])
        last = answered["end"].max() if len(answered) else pd.NaT
        rows.append(
            {
                "exchange": exchange,
                "table": table,
                "last_row": recent["time"].max() if len(recent) else pd.NaT,
                "rows_last_hour": len(recent),
                "lag_minutes": None
                if last is pd.NaT
                else max(round((now - last).total_seconds() / 60, 1), 0.0),
                "holes": _holes(answered, _between_polls(exchange, table)),
                "failed": len(failed),
                "last_error": failed["error"].iloc[-1] if len(failed) else "",
            }
        )
    columns = "exchange table last_row rows_last_hour lag_minutes holes failed last_error".split()
    return pd.DataFrame(rows, columns=columns)


def _between_polls(exchange: str, table: str) -> pd.Timedelta:
    """Return what lies between the windows of two polls of the slowest endpoint of a table."""
    endpoints = VENUES[exchange].endpoints if exchange in VENUES else ()
    cadences = [one.every for one in endpoints if table in one.tables and one.every is not None]
    return pd.Timedelta(max([0.0, *(every - _WINDOW_SECONDS for every in cadences)]), "s")


def _holes(answered: pd.DataFrame, usual: pd.Timedelta) -> int:
    """Count what lies between answered windows of one symbol, or of all, and is longer than usual."""
    return sum(
        int((one["start"].iloc[1:].to_numpy() - one["end"].iloc[:-1].to_numpy() > usual.to_numpy()).sum())
        for _, one in answered.sort_values("start").groupby("symbol", dropna=False)
    )
