import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from derivdata.analysis import funding
from derivdata.analysis.funding import rolling
from tests.analysis.funding_made import market, series
from tests.support.records import assert_identical

NAN = np.nan


def _exact(values, window, *, lag_rows=1, least=None):
    """The definition in rational arithmetic: no rounding but the square root and the last division."""
    least = max(2, window // 2) if least is None else least
    scores = np.full(len(values), NAN)
    for t, value in enumerate(values):
        end = t - lag_rows
        past = [Fraction(v) for v in values[max(0, end - window + 1) : max(0, end + 1)] if not math.isnan(v)]
        if len(past) < least or math.isnan(value):
            continue
        mean = sum(past) / len(past)
        variance = sum((v - mean) ** 2 for v in past) / (len(past) - 1)
        if variance > Fraction(1, 10**18):
            scores[t] = float(Fraction(value) - mean) / math.sqrt(variance)
    return scores


def _rough(rng, rows):
    """Funding as a running sum meets it: pinned at 1, jitter of 1e-4, jumps, −2048 outliers."""
    values = np.concatenate(
        [
            rng.normal(size=rows // 4),
            np.ones(rows // 4),
            1.0 + 1e-4 * rng.normal(size=rows // 4),
            10.0 + 0.5 * rng.normal(size=rows - 3 * (rows // 4)),
        ]
    )
    values[rng.random(rows) < 0.1] = NAN
    values[[rows // 8, rows // 2 + 3]] = -2048.0
    return values


@pytest.mark.parametrize("window", [2, 3, 5, 8, 24, 37])
def test_zscores_equal_exact_arithmetic(window):
    values = _rough(np.random.default_rng(window), 240)
    scores = funding.zscore(series(values), rows=window)
    np.testing.assert_allclose(scores, _exact(values, window), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("lag", "least"), [(0, None), (1, 2), (3, None), (50, 7)])
def test_lags_and_shares_of_the_window(lag, least):
    values = _rough(np.random.default_rng(5), 120)
    scores = funding.zscore(series(values), rows=12, lag_rows=lag, min_rows=least)
    np.testing.assert_allclose(scores, _exact(values, 12, lag_rows=lag, least=least), rtol=1e-9, atol=1e-9)


def test_a_window_longer_than_one_block_of_memory():
    values = np.random.default_rng(1).normal(size=30_000)
    scores = funding.zscore(series(values, step=1.0), rows=500)
    for t in (499, 500, 10_239, 10_240, 10_739, 29_999):
        past = values[t - 500 : t] if t >= 500 else values[:t]
        assert float(scores[t]) == pytest.approx((values[t] - past.mean()) / past.std(ddof=1), rel=1e-10)


def test_zscores_equal_hand_calculation():
    """Window −1, 0, 1: mean 0, deviation 1, so that 5 scores 5; with itself included it would soften."""
    values = [-1.0, 0.0, 1.0, 5.0]
    assert float(funding.zscore(series(values), rows=3)[-1]) == pytest.approx(5.0)
    assert float(funding.zscore(series(values), rows=3, lag_rows=0)[-1]) == pytest.approx(
        3.0 / math.sqrt(7.0)
    )
    # Window 1 2 3 4 100: median 3, absolute deviations 2 1 0 1 97, so 1.4826 × 1.
    scores = funding.zscore(series([1.0, 2.0, 3.0, 4.0, 100.0, 6.0]), rows=5, robust=True, min_rows=5)
    assert float(scores[-1]) == pytest.approx(3.0 / 1.482602218505602)
    assert np.isnan(scores[:-1]).all()
    scores = funding.zscore(series([1.0, 2.0, 4.0, NAN, 3.0, NAN, NAN, NAN, 1.0]), rows=6)
    assert np.isnan(scores.values).tolist() == [True, True, True, True, False, True, True, True, True]


def test_robust_zscores_use_bounded_memory():
    """All of them together would be 0.4 GB."""
    panel = market(np.random.default_rng(3).normal(0.0, 1.0, (1, 600, 512)))
    tracemalloc.start()
    scores = funding.zscore(panel, rows=168, robust=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
    values = panel.values[0, 599]
    past = values[500 - 168 : 500]
    spread = 1.482602218505602 * np.median(np.abs(past - np.median(past)))
    assert float(scores[0, 599, 500]) == pytest.approx((values[500] - np.median(past)) / spread)


def sorted_windows(values, window, least):
    """Median and 1.4826 × MAD of every run, each of which numpy sorts."""
    runs = sliding_window_view(values, window, axis=-1)
    few = np.isfinite(runs).sum(axis=-1) < least
    runs = np.where(few[..., None], 0.0, runs)
    centre = np.nanmedian(runs, axis=-1)
    spread = np.nanmedian(np.abs(runs - centre[..., None]), axis=-1)
    return np.where(few, NAN, centre), np.where(few, NAN, 1.482602218505602 * spread)


@pytest.mark.parametrize("shape", [(1, 40, 2), (3, 7000, 5), (7, 3000, 24), (2, 9000, 61)])
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_incrementally_sorted_windows_equal_sorted_windows(shape, missing):
    """To the bit; with repeated values, both zeros, gaps longer than a window; some windows do not move."""
    rows, count, window = shape
    rng = np.random.default_rng(window)
    values = rng.normal(size=(rows, count + window - 1)).round(1)
    values[rng.random(values.shape) < missing] = NAN
    values[:, 10 : 12 + window] = NAN
    values[values == 0.0] *= rng.choice([-1.0, 1.0], (values == 0.0).sum())
    with np.errstate(invalid="ignore"):
        expected = sorted_windows(values, window, 2)
        result = rolling.median_and_deviation(values, window, 2)
    for item, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(item, other)


@pytest.mark.parametrize("options", [{"rows": 1}, {"rows": 5, "lag_rows": -1}, {"rows": 5, "min_rows": 6}])
def test_invalid_windows_raise(options):
    with pytest.raises(ValueError, match=r"expected 2 <= min_rows <= rows|later ones"):
        funding.zscore(series(np.ones(9)), **options)


def test_windows_of_time_and_times_that_do_not_ascend():
    panel = series(np.random.default_rng(1).standard_normal(60))
    assert_identical(funding.zscore(panel, "4d"), funding.zscore(panel, rows=12))
    for wrong, message in (
        ("10h", "window must be a whole number of the panel's steps, got '10h'"),
        (None, "window= or rows= is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            funding.zscore(panel, wrong)
    panel = series(np.arange(20.0))
    for wrong in (panel[::-1], panel.isel(time=[0, 1, 1, *range(2, 19)])):
        with pytest.raises(ValueError, match="the times of panel must ascend without duplicates"):
            funding.zscore(wrong, rows=5)
