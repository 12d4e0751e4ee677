"""Patterns that no market makes: found in altered series, and not in recorded or random ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from derivdata.tables.series_patterns import (
    OF_EIGHT_HOURS,
    UNITS,
    late_series,
    limited_series,
    opposite_runs,
    other_interest,
    other_sections,
    repeated_blocks,
    repeated_steps,
    rising_series,
    split_levels,
    straight_runs,
    tiny_rates,
    unrelated_series,
)
from tests.support.shared import shared_path

ROWS = 120
HOUR_US = 3_600_000_000
Floats = NDArray[np.float64]


def walk(seed: int, *, step: float = 0.01) -> Floats:
    return np.exp(np.cumsum(np.random.default_rng(seed).normal(0.0, step, ROWS)))


def joined(*values: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return series, market, times and values of several venues of one market."""
    series = np.repeat(np.arange(len(values)), ROWS)
    times = np.tile(np.arange(ROWS) * HOUR_US, len(values))
    return series, np.zeros_like(series), times, np.concatenate(values)


ALONE = np.zeros(ROWS, dtype=np.int64)


def test_a_repeated_page_is_found() -> None:
    values = walk(1)
    assert repeated_blocks(ALONE, values) == []
    values[60:100] = values[10:50]
    ((first, second),) = repeated_blocks(ALONE, values)
    assert second - first == 50
    assert 60 <= second < 80
    values[60:100] = values[10]  # one value again is not a page
    values[10:50] = values[10]
    assert repeated_blocks(ALONE, values) == []


def test_a_short_page_is_found_in_distinct_values_only() -> None:
    values = walk(1)
    values[60:66] = values[10:16]
    assert repeated_blocks(ALONE, values) == [(10, 60)]
    assert repeated_blocks(ALONE, np.round(values, 2)) == []


@pytest.mark.parametrize(("sign", "word"), [(1.0, "above"), (-1.0, "below")])
def test_a_limited_series_is_found(sign: float, word: str) -> None:
    values = sign * walk(3)
    assert limited_series(ALONE, values, is_rate=False) == []
    limit = float(np.median(values))
    wrong = np.minimum(values, limit) if sign > 0.0 else np.maximum(values, limit)
    (fault,) = limited_series(ALONE, wrong, is_rate=False)
    assert fault.factor == sign
    assert fault.rows == 60
    assert limited_series(ALONE, np.minimum(values, round(limit, 2)), is_rate=False) == []  # a cap
    assert limited_series(ALONE, np.where(np.arange(ROWS) < 60, 2.34567, values), is_rate=False) == []


def test_a_section_of_another_size_is_found() -> None:
    times = np.arange(ROWS) * HOUR_US
    values = walk(4, step=0.3)
    assert other_sections(ALONE, times, values) == []
    wrong = walk(4, step=0.05)
    wrong[30:70] /= 24.0
    (fault,) = other_sections(ALONE, times, wrong)
    assert (fault.row, fault.rows) == (30, 40)
    assert fault.factor == pytest.approx(1 / 24, rel=0.5)
    assert other_sections(ALONE, times // 12, wrong) == []  # less than a day


def test_a_straight_line_is_found() -> None:
    values = walk(2)
    assert straight_runs(ALONE, values) == []
    values[30:51] = np.linspace(values[30], values[50], 21)
    assert [(run.row, run.rows) for run in straight_runs(ALONE, values)] == [(30, 21)]
    assert straight_runs(ALONE, np.full(ROWS, 3.0)) == []


def test_a_running_sum_is_found() -> None:
    volumes = walk(3, step=0.3)
    assert rising_series(ALONE, volumes) == []
    assert [run.rows for run in rising_series(ALONE, np.cumsum(volumes))] == [ROWS]


def test_another_size_is_found() -> None:
    values = walk(4, step=0.2)
    assert split_levels(ALONE, values) == []
    values[70:] *= 1e-5
    (split,) = split_levels(ALONE, values)
    assert (split.row, split.rows) == (70, 50)
    assert 1e-5 / 3 < split.factor < 3e-5


def test_repeated_rows_are_found_next_to_venues_that_move() -> None:
    padded = walk(5)[np.arange(ROWS) // 4 * 4]
    result = repeated_steps(*(joined(walk(6), padded)[place] for place in (0, 1, 3)))
    assert [(run.row, run.factor) for run in result] == [(ROWS, 4.0)]
    assert repeated_steps(*(joined(padded, padded)[place] for place in (0, 1, 3))) == []


def test_late_and_unrelated_series_are_found() -> None:
    market = walk(7)
    near = [market * walk(seed, step=0.001) for seed in (8, 9, 10)]
    assert late_series(*joined(*near)) == []
    late = np.append(near[2][:2], near[2][:-2])
    assert [run.factor for run in late_series(*joined(*near[:2], late))] == [2.0]
    early = np.append(near[2][2:], near[2][-2:])
    assert [run.factor for run in late_series(*joined(*near[:2], early))] == [-2.0]
    assert unrelated_series(*joined(*near)) == []
    assert [run.row for run in unrelated_series(*joined(*near[:2], near[2][::-1]))] == [240]
    far = [walk(seed) for seed in (11, 12, 13)]
    assert unrelated_series(*joined(*far)) == []


def test_market_that_differs_from_others_is_rarely_flagged_late() -> None:
    """The largest correlation of 24 lags of 50 unrelated rows is often above that of venues that agree."""
    late = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        common = random.normal(size=50)
        steps = [*(0.7 * common + 0.7 * random.normal(size=50) for _ in range(3)), random.normal(size=50)]
        values = np.concatenate([np.exp(0.3 * np.cumsum(step)) for step in steps])
        series = np.repeat(np.arange(4), 50)
        late += bool(late_series(series, np.zeros_like(series), np.tile(np.arange(50) * HOUR_US, 4), values))
    assert late <= 1


def test_opposite_signs_are_found() -> None:
    rates = np.where(np.arange(ROWS) < 40, -1.5, 0.8)
    (run,) = opposite_runs(*joined(rates, rates, rates, rates, np.abs(rates)))
    assert (run.row, run.rows) == (4 * ROWS, 40)
    assert opposite_runs(*joined(rates, rates, rates, np.abs(rates))) == []  # three others
    assert opposite_runs(*joined(rates, rates, rates)) == []
    assert opposite_runs(*joined(rates, rates, np.abs(rates) * 0.1)) == []  # near 0
    (run,) = opposite_runs(*joined(rates, rates, -rates))
    assert run.rows == ROWS
    thin = np.where(np.arange(ROWS) < 80, -1.0, 1.0)
    assert opposite_runs(*joined(rates, rates, thin)) == []  # it has both signs
    assert opposite_runs(*joined(rates, rates, 20.0 * np.abs(rates))) == []  # and another market's size


def test_rates_in_other_units_are_found() -> None:
    rates = np.tile([1.0, 1.0, 0.4, 1.0, -0.3, 2.5, 1.0, 0.2, 1.0, 1.0], 12)
    factors = np.concatenate([UNITS, OF_EIGHT_HOURS])
    assert tiny_rates(rates) is None
    assert tiny_rates(rates / 100) == pytest.approx(0.025)
    assert other_interest(rates, factors) is None
    assert [other_interest(rates * factor, factors) for factor in (100.0, 8.0, 0.125)] == [100.0, 8.0, 0.125]
    rounded = np.tile([0.01, 0.02, 0.31, 0.01, -0.12, 1.7, 0.08, 0.01], 12)
    assert other_interest(rounded, factors) is None  # 0.01 is a step of rounding
    assert other_interest(np.round(rounded / 10, 2), factors) is None  # even if all rates are small
    assert other_interest(np.full(24, 0.01), factors) == 0.01


def test_recorded_payments_have_none_of_the_patterns() -> None:
    """BTC at six venues, 2020 to 2023, in windows of 30 days; at 8 hours rates are per interval."""
    frames = []
    for path in sorted(shared_path("data/funding_2020_2023").glob("BTC-*.csv")):
        venue = path.name.split("_")[1]
        if venue == "dydx":  # each hour
            continue
        rows = pd.read_csv(path)
        stamps = pd.to_datetime(rows["Date"], format="mixed")
        if venue != "gate":
            stamps -= pd.Timedelta(3, "h")
        rates = rows.filter(like="Rate").iloc[:, 0].astype(float) * 1e4
        frames.append(pd.DataFrame({"venue": venue, "time": stamps.dt.round("h"), "rate": rates}))
    payments = pd.concat(frames).dropna().sort_values(["venue", "time"])
    for start in pd.date_range("2020-01-01", "2023-12-01", freq="30D"):
        inside = payments["time"].between(start, start + pd.Timedelta(30, "D"), inclusive="left")
        window = payments[inside]
        series = window.groupby("venue").ngroup().to_numpy()
        market = np.zeros_like(series)
        times = window["time"].astype("datetime64[us]").astype("int64").to_numpy()
        rates = window["rate"].to_numpy()
        results = [
            repeated_blocks(series, rates),
            straight_runs(series, rates),
            rising_series(series, rates),
            opposite_runs(series, market, times, rates),
            [] if tiny_rates(rates) is None else ["tiny"],
            [
                code
                for code in np.unique(series).tolist()
                if other_interest(rates[series == code], np.concatenate([UNITS, OF_EIGHT_HOURS])) is not None
            ],
        ]
        assert results == [[]] * len(results), start
