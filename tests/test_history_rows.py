"""Missing rows of histories, contradictory intervals and lasting changes of units, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from derivdata.tables.history_rows import (
    grid_runs,
    is_off_grid,
    level_changes,
    payment_runs,
    rate_changes,
    step_text,
)
from derivdata.tables.payments import HOUR_US, contradicted


def hours(*values: float) -> np.ndarray:
    return np.array(values) * HOUR_US


def series_of(rows: list[float]) -> np.ndarray:
    return np.zeros(len(rows), dtype=np.int64)


def test_runs_of_missing_steps_are_counted_per_series_in_any_order_of_rows() -> None:
    # Series 0 has the hours 0, 1, 4 of 0 to 5; series 1 the hours 2 to 5; row 5 is given twice.
    series = np.array([1, 0, 1, 0, 1, 0, 1, 1])
    stamps = hours(5, 4, 2, 0, 3, 1, 4, 5).astype(np.int64)
    runs = grid_runs(series, stamps, 0, 6 * HOUR_US, HOUR_US)
    results = [
        (int(code), start // HOUR_US, end // HOUR_US, int(rows), bool(head), bool(tail))
        for code, start, end, rows, head, tail in zip(*runs[:6], strict=True)
    ]
    assert results == [(0, 2, 4, 2, False, False), (0, 5, 6, 1, False, True), (1, 0, 2, 2, True, False)]
    assert runs.expected.tolist() == [6, 6]


def test_missing_payments_are_counted_by_the_interval_of_each() -> None:
    # 8 h until 16, then hourly from 17; 18 and 19 are missing. A row of 21 adds up two payments.
    stamps = hours(0, 8, 16, 17, 20, 22).astype(np.int64)
    paid, counts = np.array([8.0, 8, 8, 1, 1, 2]), np.array([1.0, 1, 1, 1, 1, 2])
    runs = payment_runs(series_of([*stamps]), stamps, paid, counts, 0, 24 * HOUR_US)
    assert (runs.start // HOUR_US).tolist() == [18, 23]
    assert runs.rows.tolist() == [2, 1]
    assert runs.is_tail.tolist() == [False, True]
    assert runs.expected.tolist() == [9]


@pytest.mark.parametrize(
    ("stamps", "intervals", "rows"),
    [
        ([1, 2, 3, 14, 22], [1, 1, 1, 8, 8], 3),  # three hourly payments before the first of 8 hours
        ([1, 2, 3, 19, 27], [1, 1, 1, 8, 8], 1),  # one payment of 8 hours may be missing
        ([8, 16, 28, 29, 30], [8, 8, 1, 1, 1], 4),  # one payment of 8 hours and three hourly ones
        ([8, 16, 17, 18, 19], [8, 8, 1, 1, 1], 0),
    ],
)
def test_missing_payments_at_a_change_of_interval(stamps: list[int], intervals: list[int], rows: int) -> None:
    times = hours(*stamps).astype(np.int64)
    ones = np.ones(len(times))
    runs = payment_runs(
        series_of([*times]), times, np.array(intervals, float), ones, int(times[0]), int(times[-1]) + 1
    )
    assert runs.rows.sum() == rows


def test_a_payment_without_an_interval_counts_nothing() -> None:
    stamps = hours(0, 8, 30).astype(np.int64)
    runs = payment_runs(
        series_of([*stamps]), stamps, np.full(3, np.nan), np.ones(3), -100 * HOUR_US, 100 * HOUR_US
    )
    assert runs.rows.size == 0


def test_steps_have_units_and_a_grid() -> None:
    assert [step_text(HOUR_US), step_text(HOUR_US // 12), step_text(24 * HOUR_US)] == ["1 h", "5 min", "1 d"]
    assert is_off_grid(hours(1, 1.5), HOUR_US).tolist() == [False, True]


@pytest.mark.parametrize(
    ("stamps", "stated", "wrong"),
    [
        ([0, 8, 16, 24, 32], [8, 8, 4, 4, 4], [2, 3, 4]),  # the spacing is 8 h throughout
        ([0, 8, 16], [1, 1, 1], [1, 2]),  # all gaps of a short series
        ([0, 8, 24, 32, 40, 48], [8, 8, 8, 8, 8, 8], []),  # one payment is missing
        ([0, 8, 12, 20, 28], [8, 8, 8, 8, 8], []),  # one payment is early
        ([0, 8, 16, 17, 18, 19, 20], [8, 8, 8, 1, 1, 1, 1], []),  # a change
        ([0, 1, 2, 3, 8, 16], [1, 1, 1, 1, 8, 8], []),  # a change, the first payment early
        ([0, 3, 5, 8, 16], [8, 8, 8, 8, 8], [1, 2, 3]),  # payments in a row before their interval is over
    ],
)
def test_intervals_that_payments_contradict(
    stamps: list[float], stated: list[float], wrong: list[int]
) -> None:
    result = contradicted(series_of(stamps), hours(*stamps).astype(np.int64), np.array(stated, dtype=float))
    assert np.flatnonzero(result.rows).tolist() == wrong


@pytest.mark.parametrize("factor", [0.001, 0.0001, 8.0, 100.0, 10_000.0])
def test_a_lasting_step_of_levels_names_its_first_row(factor: float) -> None:
    levels = 1e9 * (1 + 0.01 * np.sin(np.arange(40.0)))
    moved = np.where(np.arange(40) >= 25, levels * factor, levels)
    (change,) = level_changes(np.zeros(40, dtype=int), moved)
    assert (change.row, change.rows) == (25, 15)
    assert change.factor == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize(
    "levels",
    [
        np.where(np.arange(40) == 20, 1e11, 1e9),  # a single row
        np.where(np.arange(40) >= 20, 3e9, 1e9),  # a market may treble
        np.append([1e5, 1e7], np.full(38, 1e9)),  # a new listing
        np.geomspace(1e6, 1e10, 40),  # growth
    ],
)
def test_levels_that_move_like_markets_raise_no_question(levels: np.ndarray) -> None:
    assert level_changes(np.zeros(40, dtype=int), levels) == []


@pytest.mark.parametrize("factor", [8.0, 100.0, 10_000.0, 0.125, 0.01])
def test_the_repeated_rate_of_a_venue_shows_its_unit(factor: float) -> None:
    rates = np.where(np.arange(60) % 3 == 0, 1.0, np.sin(np.arange(60.0)))
    rates[30:] *= factor
    (change,) = rate_changes(np.zeros(60, dtype=int), rates)
    assert 28 <= change.row <= 31
    assert change.factor == pytest.approx(factor)


def test_multiples_of_the_step_of_a_venue_are_one_unit() -> None:
    """As on Coinbase US on 2026-08-14, whose rates are multiples of 0.08 bps."""
    rates = np.repeat([0.72, 0.64, 0.56, 0.4, 0.32, 0.08], [4, 4, 1, 5, 5, 5])
    assert rate_changes(np.zeros(24, dtype=int), rates) == []
    rates = np.repeat([0.64, 0.08], 12)
    (change,) = rate_changes(np.zeros(24, dtype=int), rates)
    assert (change.row, change.factor) == (12, pytest.approx(1 / 8))


@pytest.mark.parametrize("factor", [100.0, 10_000.0])
def test_change_of_unit_is_reported_at_its_first_row(factor: float) -> None:
    """Rates of 0.1 to 0.9 bps, from row 30 on times a factor."""
    rates = 0.5 + 0.4 * np.cos(np.arange(60.0) * 7)
    scaled = np.where(np.arange(60) >= 30, rates * factor, rates)
    (change,) = rate_changes(np.zeros(60, dtype=int), scaled)
    assert change.row == 30


def test_market_reversal_is_not_taken_for_another_unit() -> None:
    calm = np.full(40, 1.0)
    wild = 8.0 + 10 * np.abs(np.sin(np.arange(40.0)))
    assert rate_changes(np.zeros(80, dtype=int), np.append(calm, wild)) == []
    assert rate_changes(np.zeros(0, dtype=int), np.zeros(0)) == []
