import numpy as np
import pytest

from derivdata.analysis import funding
from derivdata.tables.payments import assign_intervals
from tests.analysis.funding_made import series

NAN = np.nan


def _inferred(gaps, **options):
    hours = np.concatenate([[0.0], np.cumsum(gaps)])
    return funding.infer_interval(series(np.ones(hours.size), hours=hours), **options)


def test_a_change_is_dated_to_its_first_settlement_and_known_after_three():
    result = _inferred([8, 8, 8, 4, 4, 4])
    np.testing.assert_array_equal(result["interval_hours"], [8, 8, 8, 8, 4, 4, 4])
    assert result["changed"].values.tolist() == [False] * 4 + [True, False, False]
    result = _inferred([8, 8, 8, 4, 4, 4], backdate=False)
    np.testing.assert_array_equal(result["interval_hours"], [NAN, NAN, NAN, 8, NAN, NAN, 4])
    assert result["changed"].values.tolist() == [False] * 6 + [True]
    result = _inferred([4, 4, 4, 8, 8, 8])
    np.testing.assert_array_equal(result["interval_hours"], [4, 4, 4, 4, 8, 8, 8])
    assert not result["missing"].any()


@pytest.mark.parametrize("hole", [8.0, 12.0, 16.0, 32.0])
def test_a_gap_of_several_intervals_is_missing_data_not_a_change(hole):
    """A gap of 2, 3, 4 or 8 intervals of 4 hours lacks one payment less."""
    result = _inferred([4, 4, 4, hole, 4, 4])
    np.testing.assert_array_equal(result["interval_hours"], [4] * 7)
    assert not result["changed"].any()
    assert result["missing"].values.tolist() == [0, 0, 0, 0, hole / 4 - 1, 0, 0]


def test_one_payment_after_another_interval_changes_no_interval():
    result = _inferred([8, 8, 8, 5, 8, 8, 8])
    np.testing.assert_array_equal(result["interval_hours"], [8] * 8)
    assert not result["changed"].any()


def test_late_payment_keeps_its_interval():
    """As on htx on 2021-04-07: 10 h after the previous payment, and 6 h before the next one."""
    result = _inferred([8, 8, 8, 10, 6, 8])
    np.testing.assert_array_equal(result["interval_hours"], [8] * 7)
    assert not result["missing"].any()
    without_backdating = _inferred([8, 8, 8, 10, 6, 8], backdate=False)
    np.testing.assert_array_equal(without_backdating["interval_hours"], [NAN, NAN, NAN, 8, 8, 8, 8])


def test_extra_payment_between_two_others_has_an_unknown_interval():
    """As on htx on 2021-10-28: 3 h after the previous payment, and 5 h before the next one."""
    result = _inferred([8, 8, 8, 3, 5, 8])
    np.testing.assert_array_equal(result["interval_hours"], [8, 8, 8, 8, NAN, NAN, 8])


def test_gaps_a_few_minutes_off_the_interval_are_the_interval():
    result = _inferred([8.0, 8.05, 7.98, 8.2, 7.8])
    np.testing.assert_array_equal(result["interval_hours"], [8.0] * 6)


@pytest.mark.parametrize(
    ("gaps", "change", "missing"),
    [
        ([1] * 10 + [11] + [8] * 5, 11, 3),  # three payments of 1 h, and then one of 8 h
        ([1] * 10 + [18] + [8] * 5, 11, 3),  # two of 1 h and one of 8 h are missing
        ([8] * 5 + [12] + [4] * 5, 6, 1),
        ([1] * 5 + [3] + [4] * 5, 6, 0),  # payments of 4 h count from midnight
    ],
)
def test_payments_missing_at_a_change_may_be_of_either_interval(gaps, change, missing):
    result = _inferred(gaps)
    expected = [gaps[0]] * change + [gaps[-1]] * (len(gaps) + 1 - change)
    np.testing.assert_array_equal(result["interval_hours"], expected)
    assert np.flatnonzero(result["changed"]).tolist() == [change]
    assert result["missing"].values.tolist() == [0] * change + [missing] + [0] * (len(gaps) - change)


def test_intervals_are_those_that_an_archive_assigns():
    random = np.random.default_rng(5)
    for _ in range(300):
        steps = np.repeat(random.choice([1, 2, 3, 4, 6, 8, 12, 24], 4), random.integers(1, 9, 4))
        gaps = steps * np.where(random.random(steps.size) < 0.12, random.integers(2, 6, steps.size), 1)
        times = np.append(0, np.cumsum(gaps)) * 3_600_000_000
        expected = assign_intervals(np.zeros(times.size, dtype=np.int64), times).hours
        np.testing.assert_array_equal(_inferred(gaps)["interval_hours"], expected)


def test_too_short_series_and_samples_give_no_interval():
    assert _inferred([8, 8])["interval_hours"].isnull().all()
    with pytest.raises(
        ValueError, match=r"panel must have settlements, got sampled rates.*pass dd.funding.settlements"
    ):
        funding.infer_interval(series(np.ones(5), kind="sampled"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confirm": 0}, "confirm"),
        ({"candidates": []}, "must have at least one interval"),
        ({"candidates": ["0h", "8h"]}, "candidates must be longer than 0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        _inferred([8, 8, 8], **options)
