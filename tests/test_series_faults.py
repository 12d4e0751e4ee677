"""Parts of series that contradict their peers, on values computed by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from derivdata.tables.history_rows import rate_changes
from derivdata.tables.series_faults import (
    SeriesFault,
    apart_from_peers,
    copied_series,
    exchanged_levels,
    frozen_runs,
    lone_rates,
    lone_spikes,
    mirrored_rates,
    peer_changes,
    repeated_pair,
    scaled_series,
    scattered_levels,
    still_levels,
    unchanged_series,
)
from tests.support.shared import shared_path

HOUR = 3_600_000_000
ROWS = 240


def rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return series, market, times and values of venues with hourly rows."""
    venues, count = values.shape
    series = np.repeat(np.arange(venues), count)
    times = np.tile(np.arange(count) * HOUR, venues)
    return series, np.zeros(values.size, dtype=np.int64), times, values.reshape(-1)


def walks(venues: int = 4, seed: int = 1) -> np.ndarray:
    """Return levels of several venues of different size that move by a tenth of a percent an hour."""
    rng = np.random.default_rng(seed)
    sizes = np.array([1.0, 3.0, 10.0, 30.0])[:venues, None]
    return np.asarray(sizes * 1e8 * np.exp(np.cumsum(rng.normal(0.0, 0.001, (venues, ROWS)), axis=1)))


def test_valid_series_have_no_fault() -> None:
    for seed in range(20):
        given = rows(walks(seed=seed))
        assert peer_changes(*given) == []
        assert exchanged_levels(*given) == []
        assert frozen_runs(*given, is_rate=False) == []


@pytest.mark.parametrize("factor", [8.0, 1e2, 1e4, 1e-3])
@pytest.mark.parametrize(("first", "stop"), [(0, 80), (80, 160), (120, 240), (180, 240)])
def test_a_part_in_another_unit_is_found(factor: float, first: int, stop: int) -> None:
    values = walks()
    values[2, first:stop] *= factor
    [fault] = peer_changes(*rows(values))
    assert fault.row == 2 * ROWS + first
    assert fault.rows == stop - first
    assert fault.factor == pytest.approx(factor, rel=0.1)


def test_disagreement_of_two_venues_alone_is_not_a_fault() -> None:
    values = walks(2)
    values[0, 120:] *= 100.0
    assert peer_changes(*rows(values)) == []


def test_a_run_of_one_value_is_found_where_the_others_move() -> None:
    values = walks()
    values[1, 150:210] = values[1, 150]
    assert frozen_runs(*rows(values), is_rate=False) == [SeriesFault(ROWS + 150, 60, 1.0)]
    values[:, 150:210] = values[:, [150]]
    assert frozen_runs(*rows(values), is_rate=False) == [], "the market stood still"


@pytest.mark.parametrize(("value", "count"), [(1.0, 0), (0.25, 0), (0.123456, 1)])
def test_a_rate_at_its_floor_is_not_frozen(value: float, count: int) -> None:
    rates = np.random.default_rng(3).normal(1.0, 0.5, (3, ROWS))
    rates[0, 100:180] = value
    assert len(frozen_runs(*rows(rates), is_rate=True)) == count


def test_swapped_venues_are_found() -> None:
    values = walks()
    values[[0, 3], 100:] = values[[3, 0], 100:]
    assert exchanged_levels(*rows(values)) == [(100, 3 * ROWS + 100)]


def test_rates_that_change_their_sign_or_are_zero_are_in_the_same_unit() -> None:
    """As on Bluefin and Kalshi in August 2026: -8 bps with hours at 1 bps, and 0 at first."""
    rng = np.random.default_rng(4)
    values = rng.normal(1.0, 0.2, (5, ROWS))
    values[1] = rng.normal(-8.0, 0.5, ROWS)
    values[1, 100:180] = 1.0
    values[3, :60] = 0.0
    assert peer_changes(*rows(values), is_rate=True) == []
    values[1, 100:180] = rng.normal(-0.08, 0.002, 80)
    [fault] = peer_changes(*rows(values), is_rate=True)
    assert fault.row == ROWS + 100
    assert fault.factor == pytest.approx(1 / 100, rel=0.1)
    values[1, 100:180] = rng.normal(-1.0, 0.02, 80)
    assert peer_changes(*rows(values), is_rate=True) == [], "a venue may have eight times the rates of others"


def test_rates_of_hours_are_not_in_another_unit() -> None:
    """As on Pacifica on 2026-08-15, with a hundredth of its rate for an hour of six."""
    rng = np.random.default_rng(4)
    values = rng.normal(1.0, 0.05, (5, ROWS))
    values[2, 220:] /= 100.0
    assert peer_changes(*rows(values), is_rate=True) == []
    values[2, 200:] = 0.01
    [fault] = peer_changes(*rows(values), is_rate=True)
    assert fault.row == 2 * ROWS + 200


def test_recorded_rates_have_no_fault_except_one_frozen_feed() -> None:
    """BTC and ETH on 39 venues, 10 to 15 August 2026: TxFlow repeats one rate for 16 and 24 hours."""
    recorded = json.loads(shared_path("data/funding_snapshots_2026/snapshots.json").read_text())
    stamps = pd.to_datetime([row[0] for row in recorded["rows"]], utc=True).as_unit("us").asi8
    for first, stop in [(0, 72), (0, 287), (60, 204), (87, 287), (190, 262)]:
        for place, _ in enumerate(recorded["symbols"]):
            rates = np.array([row[1 + place] for row in recorded["rows"][first:stop]], dtype=np.float64)
            series = np.repeat(np.arange(rates.shape[1]), len(rates))
            values = rates.T.reshape(-1)
            known = np.isfinite(values)
            times = np.tile(stamps[first:stop], rates.shape[1])[known]
            given = (series[known], np.zeros(known.sum(), dtype=np.int64), times, values[known])
            assert peer_changes(*given, is_rate=True) == []
            assert rate_changes(given[0], given[3]) == []
            still = {recorded["venues"][given[0][run.row]] for run in frozen_runs(*given, is_rate=True)}
            assert still <= {"txflow"}


def test_series_with_one_value_are_found_but_not_the_interest_of_a_formula() -> None:
    values = walks()
    values[2] = values[2, 0]
    series, _, times, flat = rows(values)
    assert unchanged_series(series, times, flat, is_rate=False) == [SeriesFault(2 * ROWS, ROWS, 1.0)]
    # Venues pay these interest rates: 1 bps per 8 hours or per hour, 10 % per year, and none. No formula
    # gives the last two, so a series that has only one of them is a fault.
    for value, count in [(1.0, 0), (0.125, 0), (0.9132, 0), (0.0, 0), (0.73214, 1), (0.383472, 1)]:
        rates = np.full(series.size, value)
        rates[ROWS:] = walks().reshape(-1)[ROWS:]
        assert len(unchanged_series(series, times, rates, is_rate=True)) == count


def test_copied_series_are_found_once() -> None:
    values = walks()
    values[3] = values[1]
    assert copied_series(*rows(values)) == [(ROWS, 3 * ROWS)]
    values[[1, 3]] = 1.0
    assert copied_series(*rows(values)) == [], "one value is no copy"


def test_prices_of_a_venue_with_fewer_rows_are_compared_at_the_same_times() -> None:
    """A market that rises by 28 % is 10 % higher in the last rows than at its median."""
    prices = np.exp(np.linspace(0.0, 0.25, ROWS))
    last = ROWS // 6
    series = np.repeat(np.arange(4), [ROWS, ROWS, ROWS, last])
    times = np.concatenate([*[np.arange(ROWS)] * 3, np.arange(ROWS)[-last:]])
    values = np.concatenate([*[prices] * 3, prices[-last:]])
    market = np.zeros_like(series)
    assert len(scaled_series(series, market, values, kind="price")) == 1
    assert scaled_series(series, market, values, kind="price", times=times) == []
    values[-last:] *= 1.1
    [fault] = scaled_series(series, market, values, kind="price", times=times)
    assert fault.row == 3 * ROWS


def test_price_series_in_another_unit_is_reported_if_the_others_agree() -> None:
    """Four series at 100 to 103; then the last one at 2.5 times its price."""
    series, market, _, _ = rows(walks())
    prices = np.full((4, ROWS), 100.0) + np.arange(4)[:, None]
    assert scaled_series(series, market, prices.reshape(-1), kind="price") == []
    without_second = prices.copy()
    without_second[1] = np.nan
    assert scaled_series(series, market, without_second.reshape(-1), kind="price") == []
    prices[3] *= 2.5
    [fault] = scaled_series(series, market, prices.reshape(-1), kind="price")
    assert (fault.row, fault.rows, round(fault.factor, 3)) == (3 * ROWS, ROWS, round(2.5 * 103.0 / 101.0, 3))


def test_rate_series_in_another_unit_is_reported_if_the_others_agree() -> None:
    series, market, _, _ = rows(walks())
    rates = np.array([1.0, 1.2, 0.9, 105.0])[:, None] * np.ones(ROWS)
    [fault] = scaled_series(series, market, rates.reshape(-1), kind="rate")
    assert fault.row == 3 * ROWS
    rates[0] = 0.01
    assert scaled_series(series, market, rates.reshape(-1), kind="rate") == []


def test_runs_of_one_level_and_lone_spikes_are_found() -> None:
    values = walks()
    values[:, 100:150] = 0.0
    series, _, times, flat = rows(values)
    assert still_levels(series, times, flat) == [SeriesFault(n * ROWS + 100, 50, 1.0) for n in range(4)]
    spiky = walks()
    spiky[1, [20, 40]] = 150.0 * spiky[1, [19, 39]].max()
    [fault] = lone_spikes(series, spiky.reshape(-1))
    assert (fault.row, fault.rows) == (ROWS + 20, 2)
    assert lone_spikes(series, walks().reshape(-1)) == []


def test_two_rates_that_repeat_are_of_one_unit_and_sign() -> None:
    usual = np.array([1.0, 0.31, 1.0, -0.72, 1.0, 0.54, 1.0, 0.18] * 4)
    assert repeated_pair(usual) is None
    for factor in (8.0, 1e-3, -1.0):
        wrong = np.append(usual, factor * usual)
        assert repeated_pair(wrong) is not None
    ticks = np.array([0.08, -0.08, 0.16, -0.16, 0.64, 0.0] * 8)
    assert repeated_pair(ticks) is None, "as lighter and Coinbase round"


def prices_of_three_venues() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return hourly prices of three venues that move together, with premiums of 0, 0.2 and -0.3 %."""
    steps = np.random.default_rng(5).normal(0.0, 0.005, 120)
    price = 50_000.0 * np.exp(np.cumsum(steps))
    values = np.concatenate([price, 1.002 * price, 0.997 * price])
    series = np.repeat([0, 1, 2], 120)
    return series, np.zeros(360, dtype=np.int64), np.tile(np.arange(120) * HOUR, 3), values


def test_prices_with_constant_premiums_do_not_move_apart() -> None:
    assert apart_from_peers(*prices_of_three_venues()) == []


def test_prices_that_are_a_row_late_move_apart() -> None:
    series, market, times, values = prices_of_three_venues()
    values[121:240] = values[120:239].copy()
    assert [(fault.row, fault.rows) for fault in apart_from_peers(series, market, times, values)] == [
        (120, 120)
    ]


def test_prices_in_another_order_are_scattered() -> None:
    series, _, _, values = prices_of_three_venues()
    assert scattered_levels(series, values) == []
    outlier = values.copy()
    outlier[150] *= 1.5
    assert scattered_levels(series, outlier) == []
    np.random.default_rng(1).shuffle(values[120:240])
    assert [fault.row for fault in scattered_levels(series, values)] == [120]


def test_mirrored_interest_is_found() -> None:
    """The interest of most venues is 0.01 % per 8 hours, 1 bps, and never -1 bps."""
    rates = np.array([1.0, 1.0, 0.7, 1.0, -0.3, 1.0, 1.0, 0.2, 1.0, 1.0])
    series = np.zeros(10, dtype=np.int64)
    assert mirrored_rates(series, rates) == []
    assert [fault.factor for fault in mirrored_rates(series, -rates)] == [-1.0]
    # A venue that rounds to whole bps has -1 bps for all rates from -1.5 to -0.5 bps.
    whole = np.array([-1.0, -1.0, 0.0, -1.0, -2.0, -1.0, 1.0, -3.0, -1.0, 0.0])
    assert mirrored_rates(series, whole) == []
    # A series that has only -1 bps is not rounded: it repeats the interest.
    assert len(mirrored_rates(series, np.full(10, -1.0))) == 1
    assert len(mirrored_rates(series, np.full(10, -0.9999999))) == 1


def test_rates_between_missing_ones_are_not_lone() -> None:
    rates = np.tile([0.1, np.nan, 9.0, np.nan], 10)
    series = np.zeros(rates.size, dtype=np.int64)
    assert lone_rates(series, rates) == []
    assert [fault.rows for fault in lone_rates(series, np.nan_to_num(rates, nan=0.1))] == [10]
