import numpy as np
import pytest
from scipy.signal import lfilter

from derivdata.analysis import funding
from derivdata.analysis.funding import persistence
from derivdata.analysis.status import FundingStatus
from tests.analysis.funding_made import market, series, times
from tests.support.records import assert_identical
from tests.support.shared import known

NAN = np.nan


def _ols(panel, **options):
    return funding.half_life(panel, **{"method": "ols"} | options)


def _decaying(half_life, rows, seed, *, count=1):
    """Stationary Gaussian autoregressions, one per row of the result."""
    rng = np.random.default_rng(seed)
    phi = 0.5 ** (1.0 / half_life)
    noise = rng.standard_normal((count, rows))
    noise[:, 0] /= np.sqrt(1.0 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise)


def test_gaps_are_not_bridged():
    """Alternating rates with every other row missing have no adjacent known values."""
    values = np.where(np.arange(200) % 2 == 0, 1.0, NAN)
    result = _ols(series(values), period="8h")
    assert int(result["pairs"]) == 0
    assert int(result["status"]) == FundingStatus.TOO_FEW
    assert np.isnan(result["half_life_hours"])
    values = _decaying(4.0, 300, 8)[0]
    values[100:140] = NAN
    result = _ols(series(values), level=None)
    x, y = values[:-1], values[1:]
    both = np.isfinite(x) & np.isfinite(y)
    slope = np.polyfit(x[both], y[both], 1)[0]
    assert int(result["pairs"]) == 99 + 159
    assert float(result["phi"]) == pytest.approx(slope, rel=1e-10)
    result = _ols(series(_decaying(3.0, 30, 2)[0]))
    assert int(result["pairs"]) == 29
    assert np.isnan(result["phi"])
    assert int(result["status"]) == FundingStatus.TOO_FEW


def test_series_without_a_half_life_have_a_status():
    rng = np.random.default_rng(4)
    values = np.where(np.arange(100) % 2 == 0, 1.0, -1.0) + 0.1 * rng.standard_normal(100)
    result = _ols(series(values), resamples=99)
    assert float(result["phi"]) < -0.9
    assert np.isnan(result["half_life_hours"])
    assert int(result["status"]) == FundingStatus.ANTI_PERSISTENT
    result = _ols(series(np.exp(0.01 * np.arange(100.0))), level=None)
    assert float(result["phi"]) > 1.0
    assert float(result["half_life_hours"]) == np.inf
    assert int(result["status"]) == FundingStatus.UNIT_ROOT
    result = _ols(series(np.ones(100)))
    assert np.isnan(result["half_life_hours"])
    assert int(result["status"]) == FundingStatus.CONSTANT
    assert int(result["pairs"]) == 99
    walk = np.random.default_rng(0).standard_normal(120).cumsum()
    result = funding.half_life(series(walk), resamples=199)
    assert float(result["half_life_high_hours"]) == np.inf


def test_samples_are_taken_at_settlements_even_when_stamps_are_not_on_the_hour():
    values = _decaying(3.0, 200, 9)[0]
    hours = np.arange(200) * 8.0
    on_time = series(values[:199], hours=hours[:199], kind="sampled")
    early = series(np.repeat(values, 2), hours=np.sort(np.append(hours - 0.01, hours - 3.0)), kind="sampled")
    result, expected = (_ols(panel, level=None) for panel in (early, on_time))
    assert float(result["phi"]) == pytest.approx(float(expected["phi"]), rel=1e-12)


def test_each_venue_has_its_own_step_and_a_spread_a_half_life():
    hourly = _decaying(6.0, 320, 1)[0]
    eight = np.where(np.arange(1, 321) % 8 == 0, np.repeat(_decaying(2.0, 40, 2)[0], 8), NAN)
    panel = market(np.stack([hourly, eight])[None], step=1.0)
    result = _ols(panel, level=None).squeeze()
    assert result["step_hours"].values.tolist() == [1.0, 8.0]
    assert result["pairs"].values.tolist() == [319.0, 39.0]
    panel = market(_decaying(3.0, 200, 4, count=2)[None])
    result = _ols(funding.spread(panel, "v00", "v01"), level=None)
    assert result["half_life_hours"].dims == ("symbol",)
    assert np.isfinite(result["half_life_hours"]).all()


def test_results_depend_on_the_generator_and_not_on_neighbours():
    values = _decaying(3.0, 60, 7, count=3)[:, None, :]
    together = funding.half_life(market(values), resamples=99)
    alone = funding.half_life(market(values).isel(symbol=[2]), resamples=99)
    assert_identical(together.isel(symbol=[2]), alone)
    panel = series(_decaying(3.0, 60, 7)[0])
    one, same, other = (
        funding.half_life(panel, resamples=99, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert_identical(one, same)
    assert not one.equals(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 90.0}, "probability"),
        ({"resamples": 10}, "from 99 to 100,000"),
        ({"rng": -1}, "a seed of 0 or more"),
        ({"period": "0h"}, "period must be longer than 0, got '0h'"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        _ols(series(np.zeros(40)), **options)


def test_settlements_off_their_grid_are_omitted():
    values = _decaying(3.0, 80, 6)[0]
    hours = np.arange(80) * 8.0
    extra = series(np.append(values, 99.0), hours=np.append(hours, 27.0)).sortby("time")
    result = _ols(extra, level=None)
    assert float(result["phi"]) == pytest.approx(np.polyfit(values[:-1], values[1:], 1)[0], rel=1e-10)
    assert int(result["off_grid"]) == 1
    assert extra["time"].values[4] == times(27.0)


@pytest.mark.parametrize("tick", [1e-10, 1e-9, 1e-7, 1e-3, 1.0])
def test_single_tick_on_a_constant_level_is_antipersistent(tick):
    """199 pairs of a level with one tick: phi = Σxy/Σx² about the means = −(1/199)/(198/199) = −1/198."""
    values = np.ones(200)
    values[100] += tick
    result = _ols(series(values), level=None)
    assert float(result["phi"]) == pytest.approx(-1 / 198, rel=1e-6 if tick > 1e-10 else 1e-4)
    assert np.isnan(result["half_life_hours"])
    assert int(result["status"]) == FundingStatus.ANTI_PERSISTENT


@pytest.mark.parametrize(
    ("phi", "status"),
    [(0.0, FundingStatus.ANTI_PERSISTENT), (0.9, FundingStatus(0)), (1.0, FundingStatus.UNIT_ROOT)],
)
def test_status_of_slopes_at_and_between_the_limits(phi, status):
    assert persistence._status(phi) == status


def test_autoregression_of_lh_series_equals_r():
    """R's ``lh`` with ``ar.ols``; ``arima`` uses another estimator."""
    ols = _ols(series([float(row["value"]) for row in known("ar1_lh_series")]), level=None)
    hours = ols["half_life_hours"]
    figures = {
        "phi_ols": ols["phi"],
        # R demeans by the series' mean, 2.4 for these 48 values: c' = c − (1 − φ) × 2.4.
        "ar_ols_intercept (demeaned by series mean)": ols["intercept_bps_8h"] - (1.0 - ols["phi"]) * 2.4,
        "sigma2_ols (RSS/n)": ols["noise_variance"],
        "c_ols (x_t=c+phi x_{t-1})": ols["intercept_bps_8h"],
        "long_run_mean=c/(1-phi)": ols["mean_bps_8h"],
        "half_life_steps=-ln2/ln(phi)": hours / 8.0,
        "half_life_hours_if_step_8h": hours,
        "ou_kappa_per_day_if_step_8h": 24.0 * np.log(2.0) / hours,
        "phi_bias_corrected=(n*phi+1)/(n-3) (Marriott-Pope/Kendall), n=47 pairs": ols["phi_corrected"],
        "half_life_steps_bias_corrected": ols["half_life_corrected_hours"] / 8.0,
    }
    rows = [row for row in known("ar1_expected") if not row["quantity"].endswith("_ml")]
    assert {row["quantity"] for row in rows} == set(figures)
    for row in rows:
        result = float(figures[row["quantity"]])
        if row["published"]:
            published = pytest.approx(float(row["published"]), rel=0.0, abs=float(row["tolerance"]))
            assert result == published, row["quantity"]
        # Half a printed unit and the rounding of numbers of order one.
        printed = 0.5 * 10.0 ** -len(row["value"].partition(".")[2]) + 1e-14 * max(1.0, result)
        assert result == pytest.approx(float(row["value"]), rel=0.0, abs=printed), row["quantity"]
    assert int(ols["pairs"]) == 47
