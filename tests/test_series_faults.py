"""Parts of series that their peers contradict, on figures worked out by hand."""

import numpy as np
import pytest

from derivdata.tables.series_faults import SeriesFault, exchanged_levels, frozen_runs, peer_changes

HOUR = 3_600_000_000
ROWS = 240


def rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return series, market, times and values of venues with hourly rows."""
    venues, count = values.shape
    series = np.repeat(np.arange(venues), count)
    times = np.tile(np.arange(count) * HOUR, venues)
    return series, np.zeros(values.size, dtype=np.int64), times, values.reshape(-1)


def walks(venues: int = 4, seed: int = 1) -> np.ndarray:
    """Return levels of several venues that move by a tenth of a percent an hour, each of its own size."""
    rng = np.random.default_rng(seed)
    sizes = np.array([1.0, 3.0, 10.0, 30.0])[:venues, None]
    return np.asarray(sizes * 1e8 * np.exp(np.cumsum(rng.normal(0.0, 0.001, (venues, ROWS)), axis=1)))


def test_right_series_have_no_fault() -> None:
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


def test_two_venues_cannot_tell_which_is_wrong() -> None:
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


def test_venues_that_change_places_are_found() -> None:
    values = walks()
    values[[0, 3], 100:] = values[[3, 0], 100:]
    assert exchanged_levels(*rows(values)) == [(100, 3 * ROWS + 100)]
