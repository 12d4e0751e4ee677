"""Totals of venues from sums over their symbols equal totals of rows; rows are read only if necessary."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derivdata import tables
from derivdata.sources import Query, sample
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.service.data.market import by_rows, by_sums, totals
from derivdata.sources.service.data.view import StoredColumn, View
from derivdata.sources.service.data.windows import resolve
from tests.archive.rates import interest
from tests.reliability.promises import SOAK
from tests.service import slow_totals
from tests.service.memory_store import MemoryStore, sums_of
from tests.service.test_venue_totals import difference

START = pd.Timestamp("2026-06-01", tz="UTC").as_unit("us")
OI = "oi_history"
OI_USD, VOLUME = StoredColumn(OI, "oi_usd"), StoredColumn("volume_history", "volume_usd", added=True)
HOUR = pd.Timedelta(1, "h")
hours = partial(interest, start=START)
VALUES = st.sampled_from([1.0, 2.5, 1e6, 12345.67, 0.0])


@st.composite
def histories(draw: st.DrawFn) -> pd.DataFrame:
    """Rows of two venues: mostly all symbols at every time of a grid, with all kinds of irregularities."""
    step = draw(st.sampled_from([5, 30, 60]))
    count = draw(st.integers(4, 60))
    parts = []
    for venue in ("binance", "okx"):
        resolution = draw(st.sampled_from([{5: "5m", 30: "30m", 60: "1h"}[step], "raw", "1h"]))
        minutes = np.arange(count) * step + draw(st.sampled_from([0, 0, 0, 7]))
        gone = draw(st.sets(st.integers(0, count - 1), max_size=3))
        minutes = np.delete(minutes, np.array(sorted(gone), dtype=int))
        for symbol in draw(st.sampled_from(["A", "AB", "ABC"])):
            first = draw(st.sampled_from([0, 0, 0, 2, 20]))
            last = draw(st.sampled_from([count, count, count, 10]))
            chosen = minutes[first:last]
            rows = pd.DataFrame(
                {
                    "symbol": symbol,
                    "exchange": venue,
                    "time": START + pd.to_timedelta(chosen, "min"),
                    "oi_usd": draw(VALUES) + np.arange(len(chosen)) * draw(VALUES),
                    "resolution": resolution,
                }
            )
            for place in draw(st.sets(st.integers(0, 60), max_size=2)):
                if place < len(rows):
                    rows.loc[place, "oi_usd"] = np.nan
            for place in draw(st.sets(st.integers(0, 60), max_size=1)):
                if place < len(rows):
                    rows.loc[place, "resolution"] = draw(st.sampled_from(["1h", "4h"]))
            parts.append(rows)
    return tables.TABLES[OI].conform(pd.concat(parts, ignore_index=True))


@settings(max_examples=2_000 if SOAK else 20, deadline=None)
@given(
    histories(),
    st.sampled_from([None, "5min", "30min", "1h", "4h", "1D"]),
    st.sampled_from([3, 90, 100_000]),
    st.booleans(),
)
def test_totals_from_sums_equal_totals_from_rows_or_are_marked_unsure(
    rows: pd.DataFrame, step: str | None, minutes: int, added: bool
) -> None:
    """By symbol and bucket, then over symbols, is the oracle; every one of its cells is sure or named."""
    horizon = START + pd.Timedelta(minutes, "min")
    width = None if step is None else pd.Timedelta(step)
    seen = rows[rows["time"] < horizon]
    expected = by_rows(seen, "oi_usd", width, horizon, added=added)
    sure, unsure = by_sums(sums_of(seen, "oi_usd"), width, horizon, added=added)
    truth = {
        (t, v): (x, n)
        for t, v, x, n in zip(
            expected.time.tolist(),
            expected.exchange,
            expected.value.tolist(),
            expected.symbols.tolist(),
            strict=True,
        )
    }
    named = set(zip(unsure.time.tolist(), unsure.exchange, strict=True))
    cells = list(zip(sure.time.tolist(), sure.exchange, strict=True))
    assert cells == sorted(cells), "sorted by time and venue"
    assert not named & set(cells)
    assert set(truth) - named == set(cells)
    for cell, value, count in zip(cells, sure.value.tolist(), sure.symbols.tolist(), strict=True):
        assert count == truth[cell][1]
        assert value == pytest.approx(truth[cell][0], rel=1e-9, abs=1e-9)


@settings(max_examples=400 if SOAK else 8, deadline=None)
@given(histories(), st.sampled_from(["5m", "1h", "4h", "1d"]), st.booleans())
def test_totals_equal_those_of_the_rows(rows: pd.DataFrame, step: str, added: bool) -> None:
    """By either path: from sums, or from the rows of a venue."""
    column = VOLUME if added else OI_USD
    store = MemoryStore({column.table: rows.rename(columns={"oi_usd": column.value})}, now="2026-06-02T20:00")
    assert_same(View(store, store.now), "2026-05-31T22:00Z", step, column)


def sums_and_unsure(rows: pd.DataFrame, step: str) -> tuple[dict[int, float], list[int]]:
    """By the bucket's hour: the totals of sums, and the hours without one."""
    horizon = START + pd.Timedelta(9, "D")
    frame = tables.TABLES[OI].conform(rows)
    sure, unsure = by_sums(sums_of(frame, "oi_usd"), pd.Timedelta(step), horizon, added=False)
    hour = [(time - START.value // 1000) // 3_600_000_000 for time in (*sure.time, *unsure.time)]
    return dict(zip(hour, sure.value.tolist(), strict=False)), hour[len(sure.time) :]


def test_totals_from_sums_equal_hand_calculation_and_unsure_buckets_are_named() -> None:
    """Two symbols over eight hours: the mean of 1 2 3 4 and of 10 20 30 40 is 27.5 together."""
    rows = pd.concat(
        [hours("A", "okx", 0, [1, 2, 3, 4, 5, 5, 5, 5]), hours("B", "okx", 0, [10, 20, 30, 40, 0, 0, 0, 0])]
    )
    assert sums_and_unsure(rows, "4h") == ({0: 27.5, 4: 5.0}, [])
    # As many symbols at every hour, and others from the third on.
    others = hours("B", "okx", 0, [2.0] * 6), hours("C", "okx", 6, [2.0] * 6)
    rows = pd.concat([hours("A", "okx", 0, [1.0] * 12), *others])
    assert sums_and_unsure(rows, "4h") == ({0: 3.0, 8: 3.0}, [4])
    # A's hour holds until 01:00, B's five minutes do not: the half hour at 00:30 is A's alone.
    rows = pd.concat([hours("A", "okx", 0, [1.0]), hours("B", "okx", 0, [5.0], "5m")])
    assert sums_and_unsure(rows, "30min")[1] == [0, 0]
    assert sums_and_unsure(rows, "5min")[0] == {}


class Read(Archive):
    """An archive that notes how many rows were read of it."""

    read_rows = 0

    def rows(self, query: Query) -> pd.DataFrame:
        frame = super().rows(query)
        self.read_rows += len(frame)
        return frame


def listed() -> pd.DataFrame:
    """Three days of eight symbols on two venues; on okx one comes on the second day at 09:00."""
    draw = np.random.default_rng(6)
    rows = [
        hours(f"S{i}", venue, 0, draw.lognormal(15, 1, 72)) for i in range(8) for venue in ("binance", "okx")
    ]
    return pd.concat([*rows, hours("NEW", "okx", 33, draw.lognormal(15, 1, 39))], ignore_index=True)


def assert_same(
    view: View, start: str, resolution: str | None, column: StoredColumn = OI_USD, **options: Any
) -> pd.DataFrame:
    window = resolve({"start": pd.Timestamp(start), "end": None}, now=view.now, tier="pro")
    result = totals(view, column, window, resolution, **options)
    expected = slow_totals.totals(view, column, window, resolution, **options)
    assert difference(result, expected) == ""
    return result.frame


@pytest.fixture
def archive(tmp_path: Path) -> Read:
    archive = Read(open_archive(tmp_path)._storage)
    archive.append(OI, listed(), accept=["unit"])
    return archive


def test_only_buckets_next_to_a_listing_read_rows(archive: Read) -> None:
    """Of 1,191 rows, those of one venue that reach into the bucket from 08:00 to 12:00: five hours of eight.

    The clock cuts the last hour short for all symbols: that needs no rows.
    """
    view = View(archive, archive.now)
    window = resolve({"start": START, "end": None}, now=view.now, tier="pro")
    frame = totals(view, OI_USD, window, "4h").frame
    assert len(frame) == 2 * 18
    okx = frame[frame["exchange"] == "okx"]["symbol_count"].tolist()
    assert okx == [8] * 8 + [9] * 10
    assert archive.read_rows == 5 * 8 + 3, "and NEW at 09:00, 10:00 and 11:00"
    assert_same(view, "2026-06-01T05:00Z", "4h")
    assert_same(view, "2026-06-01T05:00Z", "1h", venues=["okx"])
    assert_same(view, "2026-06-01T05:00Z", "1d")


def test_bucket_with_a_missing_value_and_a_listing_is_computed_from_rows(tmp_path: Path) -> None:
    """From 20:00 to 24:00 are A with 1, B with 10 (it holds over its gap), six with 5, NEW with 100: 141."""
    b = np.where(np.arange(48) == 21, np.nan, 10.0)
    others = [hours(f"S{number}", "okx", 0, [5.0] * 48) for number in range(6)]
    rows = [hours("A", "okx", 0, [1.0] * 48), hours("B", "okx", 0, b), hours("NEW", "okx", 20, [100.0] * 28)]
    archive = open_archive(tmp_path)
    archive.append(OI, pd.concat([*rows, *others]), accept=["unit"])
    view = View(archive, archive.now)
    window = resolve({"start": START, "end": None}, now=view.now, tier="pro")
    frame = totals(view, OI_USD, window, "4h").frame.set_index("time")
    assert frame.loc[START + 20 * HOUR, "value"] == 141.0
    assert frame.loc[START + 20 * HOUR, "symbol_count"] == 9


@pytest.mark.parametrize("column", [OI_USD, VOLUME])
@pytest.mark.parametrize("end", [None, 8 * 24 * HOUR])
def test_totals_with_unstated_resolutions_outside_the_window(
    column: StoredColumn, end: Any, tmp_path: Path
) -> None:
    """A day of rows without a resolution, then hours: the window has only hours, of eight symbols with 2."""
    parts = [hours(f"S{n}", "okx", 0, [2.0] * 24, "unstated") for n in range(8)]
    parts += [hours(f"S{n}", "okx", 24, [2.0] * 216) for n in range(8)]
    archive = open_archive(tmp_path)
    archive.append(column.table, pd.concat(parts).rename(columns={"oi_usd": column.value}), accept=["unit"])
    view = View(archive, archive.now)
    since = {"start": START + 5 * 24 * HOUR, "end": None if end is None else START + end}
    window = resolve(since, now=view.now, tier="pro")
    frame = totals(view, column, window, "4h").frame
    assert frame["value"].iloc[0] == (64.0 if column.added else 16.0)
    assert set(frame["symbol_count"]) == {8}


def test_volume_without_a_resolution_counts_at_its_timestamp(tmp_path: Path) -> None:
    rows = pd.concat([hours(f"S{n}", "okx", 0, [1.0] * 24, "unstated") for n in range(8)])
    archive = open_archive(tmp_path)
    archive.append("volume_history", rows.rename(columns={"oi_usd": "volume_usd"}), accept=["unit"])
    view = View(archive, archive.now)
    whole = START, START + 48 * HOUR
    assert len(view.rows(Query("volume_history", *whole))) == 8 * 24
    assert view.sums(Query("volume_history", *whole), "volume_usd")["symbols"].sum() == 8 * 24


@pytest.mark.parametrize("column", [OI_USD, VOLUME])
def test_sample_sums_equal_sums_of_its_rows(column: StoredColumn) -> None:
    """Over three weeks in which pairs come and go; hashes differ, and are equal where the others are."""
    store, end = sample.open(), START + pd.Timedelta(1, "D")
    query = Query(column.table, START - pd.Timedelta(20, "D"), end, venues=["okx", "hyperliquid"])
    keys = ["exchange", "resolution", "time"]
    left, right = (
        frame.astype({"exchange": str, "resolution": str}).sort_values(keys, ignore_index=True)
        for frame in (store.sums(query, column.value), sums_of(store.rows(query), column.value))
    )
    plain = [*keys, "value", "symbols"]
    pd.testing.assert_frame_equal(left[plain], right[plain], check_dtype=False, rtol=1e-12)
    changes = [
        frame.groupby("exchange")["symbol_hash"].transform(lambda hashes: hashes.diff().ne(0))
        for frame in (left, right)
    ]
    assert changes[0].tolist() == changes[1].tolist()
    assert sum(changes[0]) > 2, "more than the first row of each venue"
    assert store.sums(Query(column.table, store.start - 2 * HOUR, store.start - HOUR), column.value).empty
