"""Status of collected data by venue, and checks of each venue's endpoints."""

from __future__ import annotations

import pandas as pd

from derivdata.archive import Archive

__all__ = ["status"]

_HOUR = pd.Timedelta(1, "h")


def status(archive: Archive, now: pd.Timestamp) -> pd.DataFrame:
    """Return per venue and table what was collected.

    Columns are the last row, rows of the last hour, the minutes since the last answer, holes between answered
    windows, windows that failed, and the last error.
    """
    rows = []
    ledger = archive.requests()
    for (exchange, table), requests in ledger.groupby(["exchange", "table"], sort=True):
        answered, failed = requests[requests["answered"]], requests[~requests["answered"]]
        recent = archive.read(table, now - _HOUR, now + _HOUR, exchanges=[exchange])
        holes = sum(
            int((one["start"].iloc[1:].to_numpy() > one["end"].iloc[:-1].to_numpy()).sum())
            for _, one in answered.sort_values("start").groupby("symbol", dropna=False)
        )
        last = answered["end"].max() if len(answered) else pd.NaT
        rows.append(
            {
                "exchange": exchange,
                "table": table,
                "last_row": recent["time"].max() if len(recent) else pd.NaT,
                "rows_last_hour": len(recent),
                "lag_minutes": round((now - last).total_seconds() / 60, 1) if last is not pd.NaT else None,
                "holes": holes,
                "failed": len(failed),
                "last_error": failed["error"].iloc[-1] if len(failed) else "",
            }
        )
    columns = "exchange table last_row rows_last_hour lag_minutes holes failed last_error".split()
    return pd.DataFrame(rows, columns=columns)
