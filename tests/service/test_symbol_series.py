"""Every symbol of a venue over time: what `View.series` returns of its days, which are read once."""

from __future__ import annotations

import pandas as pd
import pytest

from derivdata.sources.service.buckets import length
from derivdata.sources.service.kept_days import DAY, cut
from derivdata.sources.service.symbol_series import symbols_of
from derivdata.sources.service.view import Series, View
from derivdata.sources.service.window import Window, adaptive, resolve
from tests.service.test_venue_totals import COLUMNS, STORES, Counting


def by_day(view: View, table: str, value: str, window: Window, *, added: bool) -> Series:
    """The series of every day, at the finest of their resolutions."""

    def made(day: Window, used: str | None = None) -> Series:
        return view.series(table, value, day, None, venues=["okx"], added=added, used=used)

    days = cut(window, DAY)
    parts = [made(day) for day in days]
    steps = {part.used for part in parts if len(part.frame) or part.notices}
    finest = min(steps, key=length, default=adaptive(window.requested))
    parts = [made(day, finest) for day in days]
    notices = list(dict.fromkeys(notice for part in parts for notice in part.notices))
    return Series(pd.concat([part.frame.astype({"symbol": str}) for part in parts]), finest, notices)


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.parametrize(("table", "value", "added"), COLUMNS)
@pytest.mark.parametrize("start", ["2026-06-22T05:00Z", "2026-06-28T17:30Z", "2026-06-30T00:00Z"])
def test_the_same_as_the_series_of_every_day(
    store: str, table: str, value: str, added: bool, start: str
) -> None:
    """Windows of a week, of days and of hours: at 4 h, at 1 h and raw."""
    source = STORES[store]
    view = View(source, source.now)
    window = resolve({"start": pd.Timestamp(start), "end": None}, now=view.now, tier="pro")
    expected = by_day(view, table, value, window, added=added)
    right = expected.frame.astype({"symbol": object})[["time", "symbol", value]]
    for _ in range(2):  # made, then remembered
        points, used, notices = symbols_of(view, table, value, window, "okx", added=added)
        assert (used, notices) == (expected.used, expected.notices)
        stamps = pd.DatetimeIndex(points.time.view("M8[us]"), tz="UTC")
        left = pd.DataFrame({"time": stamps, "symbol": points.symbol, value: points.value})
        left, right = (frame.sort_values(["symbol", "time"], ignore_index=True) for frame in (left, right))
        pd.testing.assert_frame_equal(left, right, check_dtype=False, rtol=1e-12)


def test_a_second_request_reads_nothing_and_a_longer_one_its_new_day() -> None:
    store = Counting()
    view = View(store, store.now)

    def ask(start: str) -> float:
        window = resolve(
            {"start": pd.Timestamp(start), "end": pd.Timestamp("2026-06-22T00:00Z")}, now=view.now, tier="pro"
        )
        before = store.days
        symbols_of(view, "oi_history", "oi_usd", window, "okx", added=False)
        return store.days - before

    assert 12 < ask("2026-06-10T00:00Z") < 14
    assert ask("2026-06-10T00:00Z") == 0
    assert 1 < ask("2026-06-09T00:00Z") < 1.3
