"""Intervals of payments: from statements and spacing, over gaps, changes and short series."""

from __future__ import annotations

import numpy as np
import pytest

from derivdata.tables.payments import (
    VALID_HOURS,
    assign_intervals,
    confirmed_runs,
    merge_payments,
    payment_time,
)

HOUR = 3_600_000_000
NAN = float("nan")


def assigned(
    gaps: list[float], *, stated: dict[int, float] | None = None, listed: float = NAN
) -> list[float]:
    """Intervals of a series whose payments are some hours apart."""
    times = (np.cumsum([0, *gaps]) * HOUR).astype(np.int64)
    result = np.full(len(times), np.nan)
    for place, hours in (stated or {}).items():
        result[place] = hours
    series = np.zeros(len(times), dtype=np.int64)
    return assign_intervals(series, times, result, np.full(len(times), listed)).hours.tolist()


@pytest.mark.parametrize("hours", VALID_HOURS)
@pytest.mark.parametrize("missing", range(1, 13))
@pytest.mark.parametrize("place", [1, 4, 8])
def test_missing_payments_change_no_interval(hours: float, missing: int, place: int) -> None:
    gaps = [hours] * 9
    gaps[place] = hours * (missing + 1)
    assert assigned(gaps) == [hours] * 10


@pytest.mark.parametrize(
    ("gaps", "wanted"),
    [
        ([8] * 4 + [4] * 4 + [1] * 4 + [6] * 4 + [8] * 4, [8] * 5 + [4] * 4 + [1] * 4 + [6] * 4 + [8] * 4),
        ([1] * 5 + [2, 2] + [1] * 5, [1] * 13),  # two gaps in a row
        ([4, 4, 8, 4, 4], [4] * 6),  # three equal gaps, of which two are on either side of a gap
        ([1] * 5 + [3] + [4] * 4, [1] * 6 + [4] * 5),  # payments at multiples of 4 h: the first comes sooner
        ([8] * 4 + [3] + [1] * 4, [8] * 5 + [1] * 5),  # shorter than the old interval
        ([8] * 4 + [12] + [4] * 4, [8] * 5 + [4] * 5),  # the last payment of 8 h is missing
        ([1] * 4 + [5] + [4] * 4, [1] * 5 + [4] * 5),  # the last payment of 1 h is missing
        ([8, 8, 8, 9, 7, 8, 8, 8], [8] * 9),  # a payment that is an hour late
        ([8, 8, 8, 10, 6], [8] * 6),  # two hours late, at the end
    ],
)
def test_the_interval_changes_at_the_first_of_three_equal_gaps(gaps: list[float], wanted: list[int]) -> None:
    assert assigned(gaps) == wanted


@pytest.mark.parametrize(
    ("gaps", "wanted"),
    [
        ([], [NAN]),
        ([8], [NAN, NAN]),
        ([8, 8], [NAN] * 3),
        ([5, 5, 5, 5], [NAN] * 5),  # no venue pays each 5 h
        ([8, 8, 8, 4, 4], [8, 8, 8, 8, NAN, NAN]),  # a change that a third gap would confirm
        ([8, 8, 8, 4, 4, 8, 8, 8], [8, 8, 8, 8, NAN, NAN, 8, 8, 8]),
    ],
)
def test_interval_without_three_equal_gaps_is_unknown(gaps: list[float], wanted: list[float]) -> None:
    np.testing.assert_array_equal(assigned(gaps), wanted)


def test_instrument_list_gives_the_interval_of_the_newest_payments() -> None:
    assert assigned([], listed=4.0) == [4]
    assert assigned([8], listed=4.0) == [4, 4]
    assert assigned([8, 8, 8, 4], listed=4.0) == [8, 8, 8, 8, 4]
    assert assigned([8, 8, 8, 8], listed=4.0) == [8] * 5, "the spacing of the past stays"
    assert assigned([17], listed=8.0) == [8, 8], "a halt: no venue pays each 17 hours"
    np.testing.assert_array_equal(assigned([6], listed=8.0), [NAN, NAN])


def test_a_row_that_states_its_interval_keeps_it() -> None:
    assert assigned([8, 8, 8], stated=dict.fromkeys(range(4), 4.0)) == [4] * 4
    assert assigned([8, 8], stated={0: 8.0}) == [8] * 3, "rows next to it take it"
    assert assigned([4, 4, 8, 8], stated={0: 4.0, 4: 8.0}) == [4, 4, 4, 8, 8], "of a change between two"


def test_series_do_not_affect_each_other() -> None:
    times = np.concatenate([np.arange(5) * 8, np.arange(6), [0]]) * HOUR
    series = np.repeat([0, 1, 2], [5, 6, 1])
    result = assign_intervals(series, times)
    np.testing.assert_array_equal(result.hours, [8] * 5 + [1] * 6 + [NAN])
    assert result.is_confirmed.tolist() == [False, *[True] * 4, False, *[True] * 5, False]
    assert assign_intervals(np.array([]), np.array([])).hours.tolist() == []


def test_runs_of_three_are_confirmed() -> None:
    equal = np.array([[0, 1, 1, 0, 1, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1]], dtype=bool)
    expected = [[1, 1, 1, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1, 1]]
    assert confirmed_runs(equal).astype(int).tolist() == expected


@pytest.mark.parametrize(
    ("off_us", "is_rounded"), [(0, True), (60_000_000, True), (60_000_001, False), (1_800_000_000, False)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_stamps_are_rounded_to_the_hour(off_us: int, is_rounded: bool, sign: int) -> None:
    stamp = 100 * HOUR + sign * off_us
    assert payment_time(np.array([stamp]))[0] == (100 * HOUR if is_rounded else stamp)


def test_two_hourly_payments_after_a_late_sum_keep_their_interval() -> None:
    """A halt held back payments of 10:00 to 14:00, which came at 14:20: their sum is at 15:00."""
    assert assigned([2] * 4 + [7, 1] + [2] * 4) == [2] * 11
    np.testing.assert_array_equal(assigned([8] * 4 + [12, 4] + [8] * 4), [8] * 6 + [NAN] + [8] * 4)


@pytest.mark.parametrize("rate", [1e-4, NAN])
def test_duplicate_payment_after_a_halt_is_counted_once(rate: float) -> None:
    """Hour 40 has a payment, its duplicate, and 30 s later a second payment: a row of two payments."""
    hours = np.array([0.0, 8.0, 16.0, 40.0, 40.0, 40.0 + 30 / 3600])
    native = np.array([2e-4, 2e-4, 2e-4, rate, rate, 3e-4])
    counts = np.ones(6, dtype=np.int64)
    series = np.zeros(6, dtype=np.int64)
    merged = merge_payments(series, (hours * HOUR).astype(np.int64), native, counts, ["x"])
    assert merged.counts.tolist() == [1, 1, 1, 2]
    np.testing.assert_array_equal(merged.native[3:], [rate + 3e-4])
