"""Times, windows, lookbacks and wire formats; the clock is handed in and never the machine's."""

from __future__ import annotations

import datetime as dt
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivdata.support import times

NOON = pd.Timestamp("2026-06-30T12:00", tz="UTC")


@pytest.mark.parametrize(
    "value",
    [
        "2026-06-30T12:00:00Z",
        "2026-06-30 12:00:00",
        "2026-06-30T14:00+02:00",
        dt.datetime(2026, 6, 30, 12),  # noqa: DTZ001
        dt.datetime(2026, 6, 30, 12, tzinfo=dt.UTC),
        np.datetime64("2026-06-30T12:00"),
        pd.Timestamp("2026-06-30T21:00", tz="Asia/Tokyo"),
    ],
)
def test_instant_is_utc_for_every_input_type(value: times.TimeLike) -> None:
    stamp = times.timestamp(value)
    assert stamp == NOON
    assert str(stamp.tz) == "UTC"
    assert stamp.unit == "us"


@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "2026-13-01",
        "",
        "10s",
        "12:00",
        "2026",
        "1/2/2026",
        pd.NaT,
        1_750_000_000,
        True,
        None,
    ],
)
def test_invalid_time_raises_with_the_argument_name(value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="start"):
        times.timestamp(value, "start")


def test_lookback_is_relative_to_the_end_or_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "_clock", lambda: NOON)
    assert times.window("30d") == (pd.Timestamp("2026-05-31T12:00", tz="UTC"), NOON)
    assert times.window("12h", "2026-01-02").start == pd.Timestamp("2026-01-01T12:00", tz="UTC")
    assert times.window("45s", "2026-01-01").start == pd.Timestamp("2025-12-31T23:59:15", tz="UTC")
    assert times.window("2w", "2026-01-15").start == pd.Timestamp("2026-01-01", tz="UTC")


def test_reversed_empty_or_century_long_windows_raise() -> None:
    for start, end in (("2026-01-02", "2026-01-01"), ("2026-01-01", "2026-01-01"), ("0d", "2026-01-01")):
        with pytest.raises(
            ValueError,
            match=r"must be before end, got start 2026-01-0[12]T00:00:00Z and end 2026-01-01T00:00:00Z",
        ):
            times.window(start, end)
    for start, end in (("7d", "1677-01-01"), ("1800-01-01", "1900-01-01"), ("1970-01-01", "2100-01-01")):
        with pytest.raises(ValueError, match="at most 100 years within 1970 to 2261, got start"):
            times.window(start, end)
    assert times.lookback("5217w") == pd.Timedelta(36_519, "D")
    with pytest.raises(ValueError, match="must look back at most 100 years, got '999999w'"):
        times.window("999999w", "2026-01-01")


def _one_by_one(text: str) -> pd.Timestamp | None:
    """The slow reference: one text at a time; None for an invalid time."""
    try:
        stamp = pd.to_datetime(pd.Series([text], dtype=object), format="ISO8601", utc=True).iloc[0]
    except ValueError:
        return None
    return stamp.as_unit("us")


@pytest.mark.parametrize(
    "day", ["2026-01-01", "2024-02-29", "2026-02-29", "2026-13-01", "0999-01-01", "2026-1-1"]
)
def test_lists_of_times_equal_single_times(day: str) -> None:
    clocks = ["00:00:00", "23:59:59.123456", "12:30:00.1234567", "24:00:00", "23:59:60", "12:30", "1230", ""]
    for between, clock, zone in product("T _", clocks, ["Z", "", "z", " Z", "+02:00", "-0530", "+25:00"]):
        text = f"{day}{between}{clock}{zone}"
        expected = _one_by_one(text)
        if expected is None:
            with pytest.raises(ValueError, match=r".+"):
                times.parse([text, text])
        else:
            assert times.parse([text, text]).tolist() == [expected, expected]


def test_a_list_may_change_its_format_or_lack_a_text() -> None:
    texts = ["2026-06-30T12:00:00Z", "2026-06-30 12:00:00", "2026-06-30T14:00:00+02:00", "", None]
    for ordered in permutations(texts):
        missing = [not text for text in ordered]
        assert times.parse(list(ordered)).isna().tolist() == missing
        assert set(times.parse(list(ordered)).dropna()) == {NOON}
    assert len(times.parse([])) == 0


@given(st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2200, 1, 1)))  # noqa: DTZ001
def test_iso_text_reads_back_to_the_microsecond(moment: dt.datetime) -> None:
    stamp = times.timestamp(moment)
    assert times.iso(stamp).endswith("Z")
    assert times.timestamp(times.iso(stamp)) == stamp
    assert times.parse([times.iso(stamp)])[0] == stamp


def test_year_fraction_is_actual_365() -> None:
    assert times.year_fraction(NOON, NOON + pd.Timedelta(365, "D")) == 1.0
    assert times.year_fraction(NOON, NOON + pd.Timedelta(12, "h")) == 0.5 / 365
    later = np.array(["2027-06-30T12:00", "NaT"], dtype="datetime64[us]")
    years = times.year_fraction(np.datetime64("2026-06-30T12:00", "us"), later)
    assert years[0] == 1.0
    assert np.isnan(years[1])


@pytest.mark.parametrize("value", ["5", " 90 ", "1.5", 5])
def test_a_length_needs_a_unit(value: Any) -> None:
    with pytest.raises(ValueError, match="every must be a length of time such as '90s'"):
        times.length(value, "every")


def test_a_length_may_be_a_timedelta_of_the_standard_library() -> None:
    assert times.length(dt.timedelta(days=1, hours=2)) == pd.Timedelta("26h")
    assert times.length("0") == pd.Timedelta(0)


def test_resolutions_are_durations_except_raw() -> None:
    assert times.resolution("8h") == pd.Timedelta(8, "h")
    assert times.resolution("raw") is None


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["2026-01-31T08:00:00Z", "2026-01-31T08:00:00.000001Z"],
        ["2026-01-31 08:00:00", "1969-12-31 23:59:59"],
        ["2026-01-31T08:00:00Z", "", None],
    ],
)
def test_microseconds_of_lists_equal_single_conversion(texts: list[str | None]) -> None:
    expected = [times.timestamp(text).asm8.view("i8") if text else pd.NaT.value for text in texts]
    result = times.micros(texts)
    assert result.tolist() == expected
    assert result.flags.writeable
    assert times.parse(texts).asi8.tolist() == expected
