"""The checks of histories agree with slow ones, which look at a row, a step or a pair of rates at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import derivdata.tables.history_rows as history_rows
from derivdata.support.arrays import Array
from derivdata.tables import TABLES
from derivdata.tables.history_rows import RequestedWindow, grid_runs, missing_row_sentences, rate_changes
from derivdata.tables.payments import HOUR_US

_HOURS = 40


def _slow_runs(rows: set[tuple[int, int]], count: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """Return series, first step and length of each run of steps without a row."""
    runs = []
    for series in range(count):
        length = 0
        for step in range(first, last + 1):
            if step < last and (series, step) not in rows:
                length += 1
                continue
            if length:
                runs.append((series, step - length, length))
            length = 0
    return runs


def _slow_repeated_change(rates: Array) -> tuple[int, float] | None:
    """Return the row and the factor of the change of one series, by every pair of repeated rates."""
    positive = [float(np.round(rate, 6)) for rate in rates if rate > 0]
    common = sorted(
        value for value, rows in Counter(positive).items() if value > 0 and rows >= max(4, 0.1 * rates.size)
    )
    for low in common:
        for high in common:
            if high <= low or min(abs(np.log(high / low / f)) for f in history_rows._FACTORS) > np.log(1.001):
                continue
            of_low = [n for n, rate in enumerate(rates) if abs(rate - low) <= 1e-6 * low + 5e-7]
            of_high = [n for n, rate in enumerate(rates) if abs(rate - high) <= 1e-6 * high + 5e-7]
            finite = [n for n, rate in enumerate(rates) if np.isfinite(rate)]
            is_step = all(abs(rates[n] / low - round(rates[n] / low)) < 1e-4 for n in finite)
            if is_step and {*finite} != {*of_low, *of_high}:
                continue  # the venue rounds to this step
            for before, after, factor in ((of_low, of_high, high / low), (of_high, of_low, low / high)):
                is_later = before[-1] < after[0]
                is_usual = len(before) >= 0.2 * after[0] and len(after) >= 0.2 * (rates.size - after[0])
                if is_later and is_usual:
                    return before[-1] + 1, factor
    return None


def _slow_far_change(rates: Array) -> tuple[int, float] | None:
    """Return the first row from which rates are in another unit, by the medians around every row."""
    rows = [n for n, rate in enumerate(rates) if np.isfinite(rate)]
    values = [float(rates[n]) for n in rows]
    for place in range(12, len(values) - 11):
        largest = max(values[:place])
        before = float(np.median(values[max(0, place - 50) : place]))
        after = float(np.median(values[place : place + 50]))
        if values[place] <= max(largest, 5.0) or before == 0 or after < 5 * largest:
            continue
        if 60 < after / before < 170 or 6e3 < after / before < 1.7e4:
            return rows[place], after / before
    return None


def _slow_change(rates: Array) -> tuple[int, float] | None:
    return _slow_repeated_change(rates) or _slow_far_change(rates)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_runs_of_missing_rows(seed: int, is_shuffled: bool) -> None:
    rng = np.random.default_rng(seed)
    share = rng.choice([0.3, 0.9, 1.0])
    pairs = [(s, step) for s in range(3) for step in range(_HOURS) if step == 20 or rng.random() < share]
    order = rng.permutation(len(pairs)) if is_shuffled else np.arange(len(pairs))
    series, steps = np.array(pairs)[order].T
    runs = grid_runs(series, steps * HOUR_US, 0, _HOURS * HOUR_US, HOUR_US)
    result = zip(runs.series.tolist(), (runs.start // HOUR_US).tolist(), runs.rows.tolist(), strict=True)
    assert [*result] == _slow_runs({*pairs}, 3, 0, _HOURS)


@pytest.mark.parametrize("seed", range(20))
def test_sentences_do_not_depend_on_partitioning_or_duplicate_rows(seed: int) -> None:
    """The same rows in one part, and in two parts with two duplicate rows."""
    rng = np.random.default_rng(seed)
    table = TABLES["funding_history"]
    window = RequestedWindow(0, _HOURS * HOUR_US, HOUR_US, bool(rng.integers(2)))
    pairs = _hours_of_venues(rng)
    expected = missing_row_sentences(table, [_part(pairs)], window)
    cut = int(rng.integers(1, len(pairs)))
    parts = [_part(pairs[:cut]), _part([*pairs[cut - 1 :], pairs[0]])]
    assert missing_row_sentences(table, parts, window) == expected


def test_outages_longer_than_six_hours_have_a_sentence_and_complete_rows_have_none() -> None:
    long_outages = complete_tables = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pairs = _hours_of_venues(rng)
        window = RequestedWindow(0, _HOURS * HOUR_US, HOUR_US, bool(rng.integers(2)))
        sentences = missing_row_sentences(TABLES["funding_history"], [_part(pairs)], window)
        venues = sorted({venue for venue, _ in pairs})
        steps = {(venues.index(venue), hour) for venue, hour in pairs}
        outages = _slow_runs(steps, len(venues), 2, _HOURS - 2)
        if max((length for _, _, length in outages), default=0) > 6:
            long_outages += 1
            assert sentences != []
        if len(pairs) == len(venues) * _HOURS:
            complete_tables += 1
            assert sentences == []
    assert long_outages >= 3
    assert complete_tables >= 3


def _hours_of_venues(rng: np.random.Generator) -> list[tuple[str, int]]:
    """Return pairs of venue and hour: of one to three venues, all hours or about 30 or 80 % of them."""
    pairs = []
    for venue in ["okx", "bybit", "gate"][: rng.integers(1, 4)]:
        share = rng.choice([0.3, 0.8, 1.0])
        # Each venue has at least the row of hour 20.
        pairs += [(venue, hour) for hour in range(_HOURS) if hour == 20 or rng.random() < share]
    return pairs


def _part(pairs: list[tuple[str, int]]) -> dict[str, object]:
    hours = np.array([hour for _, hour in pairs]) * HOUR_US
    size = len(pairs)
    return {
        "symbol": pd.Categorical(["BTC"] * size),
        "exchange": pd.Categorical([venue for venue, _ in pairs]),
        "kind": pd.Categorical(["sampled"] * size),
        "time": pd.DatetimeIndex(hours.view("datetime64[us]"), tz="UTC"),
    }


def _rates(rng: np.random.Generator) -> Array:
    size = int(rng.integers(1, 200))
    rates = rng.normal(0, rng.choice([0.1, 1, 5]), size).round(2)
    usual = rng.choice([0.0, 0.3, 0.7])
    rates[rng.random(size) < usual] = rng.choice([0.0, 1.0, -1.0, 0.01])
    rates[rng.random(size) < rng.choice([0.0, 0.2])] = np.nan
    if rng.random() < 0.7:
        rates[int(rng.integers(size)) :] *= rng.choice([0.01, 8, 100, 1e4])
    return rates


@pytest.mark.parametrize("seed", range(60))
def test_changes_of_rates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    every = [_rates(rng) for _ in range(int(rng.integers(1, 8)))]
    starts = np.cumsum([0, *(rates.size for rates in every)])
    expected = []
    for start, rates in zip(starts.tolist(), every, strict=False):
        change = _slow_change(np.abs(rates))
        if change is not None:
            expected.append((start + change[0], change[1], rates.size - change[0]))
    series = np.repeat(np.arange(len(every)), [rates.size for rates in every])
    result = rate_changes(series, np.concatenate(every))
    assert [(change.row, change.rows) for change in result] == [(row, rows) for row, _, rows in expected]
    np.testing.assert_allclose([change.factor for change in result], [factor for _, factor, _ in expected])


def test_reference_check_detects_changes() -> None:
    """The random rates of the test above hold changes of both kinds."""
    rates = [_rates(np.random.default_rng(seed)) for seed in range(200)]
    assert sum(_slow_change(np.abs(value)) is not None for value in rates) >= 10


def test_sentence_counts_missing_and_expected_payments_of_every_series() -> None:
    """Five venues pay every 8 hours, six times; one to five payments after the first are missing.

    The sentence names three venues. The other two lack 1 + 1 of 6 + 6 payments.
    """
    lacking = {"alpha": 4, "beta": 3, "delta": 1, "gamma": 2, "omega": 1}
    hours: list[int] = []
    venues = []
    for venue, count in lacking.items():
        paid = [0, *range(8 * (count + 1), 48, 8)]
        hours += paid
        venues += [venue] * len(paid)
    size = len(hours)
    part = {
        "symbol": pd.Categorical(["BTC"] * size),
        "exchange": pd.Categorical(venues),
        "time": pd.to_datetime(hours, unit="h", utc=True).as_unit("us"),
        "interval_hours": np.full(size, 8.0),
        "payment_count": np.ones(size),
    }
    window = RequestedWindow(0, 48 * HOUR_US, 8 * HOUR_US, False)
    [sentence] = missing_row_sentences(TABLES["funding_settlements"], [part], window)
    assert sentence.split("; ") == [
        "BTC alpha: 4 of 6 payments are missing, first 1970-01-01 08:00",
        "BTC beta: 3 of 6 payments are missing, first 1970-01-01 08:00",
        "BTC gamma: 2 of 6 payments are missing, first 1970-01-01 08:00",
        "2 more series lack 2 of 12 payments",
    ]
