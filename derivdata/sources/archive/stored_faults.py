"""Find faults of stored rows, and repair unambiguous ones.

Each check is a function from an archive to findings, listed in `CHECKS`. A finding that can be repaired has a
function that does it, by `Archive.replace`, so that each repair is a correction that can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pandas as pd

from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.payments import TABLE as PAYMENTS
from derivdata.sources.archive.payments import wrong_intervals
from derivdata.tables import TABLES
from derivdata.tables.chains import aligned

_CHAINS = "options_snapshot"
_DAY = pd.Timedelta(1, "D")
_MICROSECOND = pd.Timedelta(1, "us")


class Finding(NamedTuple):
    """Rows of one series whose stored values are wrong, from `start` to before `end`."""

    check: str
    table: str
    symbol: str
    exchange: str
    start: pd.Timestamp
    end: pd.Timestamp
    rows: int
    text: str
    repair: Callable[[], None] | None


def _chains_row_by_row(archive: Archive) -> Iterator[Finding]:
    """Yield chains of options whose rows were stored with different timestamps, a day at a time."""
    if _CHAINS not in archive.tables():
        return
    days = archive.sql(
        f"SELECT symbol, exchange, date_trunc('day', time) AS day FROM {_CHAINS} GROUP BY ALL "
        "HAVING count(DISTINCT time) > 1 ORDER BY ALL"
    )
    for symbol, exchange, day in days.itertuples(index=False):
        start = pd.Timestamp(day)
        series = {"symbols": [symbol], "venues": [exchange]}
        rows = archive.read(_CHAINS, start, start + _DAY, **series)
        where = {"symbol": symbol, "exchange": exchange}
        label = ("chains", _CHAINS, symbol, exchange, start, start + _DAY)
        try:
            whole, _ = aligned(rows)
        except ValueError as problem:
            yield Finding(*label, len(rows), str(problem), None)
            continue
        if whole is rows:
            continue

        def repair(
            whole: pd.DataFrame = whole, where: dict[str, str] = where, start: pd.Timestamp = start
        ) -> None:
            reason = "rows of one chain have the time of the chain"
            archive.replace(_CHAINS, whole, where, start=start, end=start + _DAY, reason=reason)

        before = rows["time"].nunique()
        after = whole["time"].nunique()
        text = f"{before:,} timestamps of rows are {after:,} chains"
        if len(whole) < len(rows):
            text += f"; {len(rows) - len(whole):,} rows have a newer row of the instrument in their chain"
        yield Finding(*label, len(rows), text, repair)


def _payment_intervals(archive: Archive) -> Iterator[Finding]:
    """Yield payments whose interval contradicts the spacing of all payments of their series."""
    if PAYMENTS not in archive.tables():
        return
    series = archive.sql(f"SELECT DISTINCT symbol, exchange FROM {PAYMENTS} ORDER BY ALL")
    for symbol, exchange in series.itertuples(index=False):
        names = {"symbols": [symbol], "venues": [exchange]}
        stored, right = wrong_intervals(archive.read(PAYMENTS, **names))
        if stored.empty:
            continue
        start = stored["time"].min()
        end = stored["time"].max() + _MICROSECOND
        where = {"symbol": symbol, "exchange": exchange}

        def repair(
            right: pd.DataFrame = right,
            where: dict[str, str] = where,
            names: dict[str, list[str]] = names,
            start: pd.Timestamp = start,
            end: pd.Timestamp = end,
        ) -> None:
            rows = archive.read(PAYMENTS, start, end, **names)
            unchanged = rows[~rows["time"].isin(right["time"])]
            whole = TABLES[PAYMENTS].conform(pd.concat([unchanged, right], ignore_index=True))
            reason = "all payments of the series have another interval"
            archive.replace(PAYMENTS, whole, where, start=start, end=end, reason=reason)

        wrong = stored["interval_hours"].iloc[0]
        hours = right["interval_hours"].iloc[0]
        text = f"{len(stored):,} payments with a wrong interval"
        text += f"; the first has {wrong:g} h instead of {hours:g} h"
        yield Finding("intervals", PAYMENTS, symbol, exchange, start, end, len(stored), text, repair)


CHECKS: tuple[Callable[[Archive], Iterator[Finding]], ...] = (_chains_row_by_row, _payment_intervals)
"""Every check of stored rows."""


def stored_faults(archive: Archive, *, repair: bool = False) -> pd.DataFrame:
    """Return the faults of stored rows, and repair unambiguous ones with `repair`.

    Parameters
    ----------
    archive
        The archive.
    repair
        Whether to correct them. Each correction is listed by `Archive.corrections` and can be undone.

    Returns
    -------
    DataFrame
        One row per finding: ``check``, ``table``, ``symbol``, ``exchange``, ``start``, ``end``, ``rows``,
        ``finding`` and ``repaired``.
    """
    columns = "check table symbol exchange start end rows finding repaired".split()
    found = []
    for check in CHECKS:
        for finding in list(check(archive)):
            is_repaired = repair and finding.repair is not None
            if is_repaired and finding.repair is not None:
                finding.repair()
            found.append((*finding[:-1], is_repaired))
    return pd.DataFrame(found, columns=columns)
