"""Every symbol of a venue over time: a window is its days put together."""

from __future__ import annotations

import pandas as pd
import pytest

from derivdata.sources.service.buckets import length
from derivdata.sources.service.venue_totals import cut
from derivdata.sources.service.view import Series, StoredColumn, View
from derivdata.sources.service.window import AnswerWindow, adaptive, resolve
from tests.service.test_venue_totals import COLUMNS, STORES


def by_day(view: View, column: StoredColumn, window: AnswerWindow) -> Series:
    """The series of every day, at the finest of their resolutions."""

    def made(day: AnswerWindow, used: str | None = None) -> Series:
        return view.series(column, day, None, venues=["okx"], used=used)

    days = cut(window)
    parts = [made(day) for day in days]
    steps = {part.used for part in parts if len(part.frame) or part.notices}
    finest = min(steps, key=length, default=adaptive(window.requested))
    parts = [made(day, finest) for day in days]
    notices = list(dict.fromkeys(notice for part in parts for notice in part.notices))
    return Series(pd.concat([part.frame.astype({"symbol": str}) for part in parts]), finest, notices)


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.value)
@pytest.mark.parametrize("start", ["2026-06-22T05:00Z", "2026-06-28T17:30Z", "2026-06-30T00:00Z"])
def test_the_same_as_the_series_of_every_day(store: str, column: StoredColumn, start: str) -> None:
    """Windows of a week, of days and of hours: at 4 h, at 1 h and raw.

    A row of a whole day is known to a later part of it where another row is of a day: so windows of the store
    that has some begin at midnight.
    """
    source = STORES[store]
    start = start if store != "irregular" else f"{start[:10]}T00:00Z"
    view = View(source, source.now)
    window = resolve({"start": pd.Timestamp(start), "end": None}, now=view.now, tier="pro")
    expected, found = by_day(view, column, window), view.series(column, window, None, venues=["okx"])
    assert (found.used, found.notices) == (expected.used, expected.notices)
    left, right = (
        part.frame.astype({"symbol": object})[["time", "symbol", column.value]].sort_values(
            ["symbol", "time"], ignore_index=True
        )
        for part in (found, expected)
    )
    pd.testing.assert_frame_equal(left, right, check_dtype=False, rtol=1e-12)
