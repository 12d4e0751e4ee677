import numpy as np
import pytest
import xarray as xr
from scipy.stats import spearmanr

from derivdata.analysis import funding
from derivdata.analysis.status import FundingStatus
from tests.analysis.funding_made import dollars, market, noisy, series, times

NAN = np.nan


def _weighted(rates, oi, **options):
    panel = market(np.array(rates).reshape(1, -1, 1))
    names = [f"v{i:02d}" for i in range(len(oi))]
    size = (
        market(np.array(oi, dtype=float).reshape(1, -1, 1), venues=names)
        .drop_attrs()
        .assign_attrs(units="USD")
    )
    return funding.oi_weighted(panel, size, **options).squeeze()


def test_a_rate_is_weighted_by_what_is_known_on_both_sides():
    result = _weighted([1.0, NAN, -2.0, 7.0], [100.0, 50.0, 50.0, NAN])
    assert float(result["rate_bps_8h"]) == 0.0
    assert float(result["covered"]) == 0.75
    result = _weighted([1.0, NAN], [40.0, 60.0])
    assert np.isnan(result["rate_bps_8h"])
    assert float(result["covered"]) == 0.4
    assert float(_weighted([1.0, NAN], [40.0, 60.0], min_cover=0.4)["rate_bps_8h"]) == 1.0
    # The open interest of a venue that the panel does not have is not covered either.
    result = _weighted([1.0, 3.0], [100.0, 100.0, 50.0])
    assert float(result["rate_bps_8h"]) == 2.0
    assert float(result["covered"]) == 0.8
    assert float(_weighted([1.0, 3.0], [0.75, 0.25])["rate_bps_8h"]) == 1.5  # any amount above 0 counts


@pytest.mark.parametrize("oi", [[0.0, 0.0], [NAN, NAN]])
def test_missing_open_interest_gives_nan(oi):
    result = _weighted([1.0, 2.0], oi)
    assert np.isnan(result["rate_bps_8h"])
    assert np.isnan(result["covered"])


def test_open_interest_at_other_times_is_rejected():
    panel = noisy()
    with pytest.raises(ValueError, match="align it first"):
        funding.oi_weighted(panel, dollars(panel).isel(time=slice(1, None)))
    with pytest.raises(ValueError, match="must be in 'USD', got 'coin'"):
        funding.oi_weighted(panel, dollars(panel).assign_attrs(units="coin").rename("oi"))
    with pytest.raises(ValueError, match="dims"):
        funding.oi_weighted(panel, dollars(panel).isel(time=0, drop=True))
    with pytest.raises(ValueError, match="min_cover"):
        funding.oi_weighted(panel, dollars(panel), min_cover=50)


def _interest(values):
    values = np.asarray(values, dtype=float)
    return xr.DataArray(
        values,
        dims=("symbol", "time"),
        coords={"symbol": [f"S{i}" for i in range(len(values))], "time": times(np.arange(values.shape[1]))},
        attrs={"units": "USD"},
    )


def test_universe_is_selected_from_the_previous_row():
    """S0 is delisted after two rows, S2 takes its place one row after it was seen to be larger."""
    member = funding.universe(_interest([[9, 9, NAN, NAN], [5, 5, 5, 5], [1, 1, 8, 8]]), 2)
    assert member.values.T.tolist() == [
        [False, False, False],
        [True, True, False],
        [True, True, False],
        [False, True, True],
    ]
    assert member.dtype == bool
    oi = _interest([[9, 9, NAN, NAN], [5, 5, 5, 5], [1, 1, 8, 8]])
    listed_today = funding.universe(oi.sel(symbol=["S1", "S2"]), 1)
    assert funding.universe(oi, 1).sel(symbol="S1").values.tolist() == [False, False, False, False]
    assert listed_today.sel(symbol="S1").values.tolist() == [False, True, True, False]
    venues = xr.concat(
        [_interest([[4, NAN], [3, 3]]), _interest([[NAN, NAN], [2, 2]])],
        xr.DataArray(["x", "y"], dims="exchange", name="exchange"),
    )
    member = funding.universe(venues, 1, lag_rows=0)
    assert member.values.T.tolist() == [[False, True], [False, True]]
    member = funding.universe(
        _interest([[3, NAN, 0], [3, NAN, 0], [3, NAN, 2]]).isel(symbol=[2, 0, 1]), 2, lag_rows=0
    )
    at = member.sel(symbol=["S0", "S1", "S2"]).values.T.tolist()
    assert at == [[True, True, False], [False, False, False], [False, False, True]]


@pytest.mark.parametrize("options", [{"top": 0}, {"top": 1, "lag_rows": -1}])
def test_universe_with_look_ahead_is_rejected(options):
    with pytest.raises(ValueError, match="no look ahead"):
        funding.universe(_interest([[1.0, 2.0]]), **options)


def _moving(seed=0, rows=400, **options):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(rows)
    values = np.stack([common, 0.8 * common + 0.6 * rng.standard_normal(rows), rng.standard_normal(rows)])
    return market(values[None], **options)


def test_correlations_are_computed_on_period_sums():
    panel = _moving()
    result = funding.comovement(panel, max_lag=1).squeeze()
    rows = panel.squeeze().values
    np.testing.assert_allclose(result["correlation"].sel(lag=0), np.corrcoef(rows), rtol=1e-10, atol=1e-12)
    ahead = np.corrcoef(rows[0, :-1], rows[1, 1:])[0, 1]
    assert float(result["correlation"].sel(first="v00", second="v01", lag=1)) == pytest.approx(
        ahead, rel=1e-10
    )
    assert float(result["correlation"].sel(first="v01", second="v00", lag=-1)) == pytest.approx(
        ahead, rel=1e-10
    )
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(rows))
    assert float(result["top_share"]) == pytest.approx(eigenvalues[-1] / 3, rel=1e-10)
    assert result["periods"].sel(lag=0).values.tolist() == [[400] * 3] * 3
    assert result["periods"].sel(lag=1).values.tolist() == [[399] * 3] * 3
    panel = panel.where(np.random.default_rng(4).random(panel.shape) > 0.3)
    result = funding.comovement(panel).squeeze()
    a, b = panel.squeeze().values[:2]
    both = np.isfinite(a) & np.isfinite(b)
    assert float(result["correlation"].sel(first="v00", second="v01")) == pytest.approx(
        np.corrcoef(a[both], b[both])[0, 1], rel=1e-10
    )


def test_rank_correlation_uses_shared_periods():
    values = np.random.default_rng(5).standard_normal((6, 90)).round(1)
    values[1:3, :20] = values[3, 50:55] = values[4, 80] = NAN
    result = funding.comovement(market(values[None]), method="spearman").squeeze()
    for i, j in np.ndindex(6, 6):
        both = np.isfinite(values[i]) & np.isfinite(values[j])
        assert int(result["periods"][i, j]) == both.sum()
        expected = spearmanr(values[i][both], values[j][both]).statistic
        assert float(result["correlation"][i, j]) == pytest.approx(expected, rel=1e-12)


def test_hourly_and_eight_hourly_venues_are_compared_over_the_same_periods():
    rng = np.random.default_rng(8)
    hourly = rng.standard_normal(8 * 60)
    hours = np.arange(1.0, 8 * 60 + 1)
    sums = hourly.reshape(60, 8).mean(axis=1)
    eight = np.full(480, NAN)
    eight[7::8] = 0.5 * sums + 0.1 * rng.standard_normal(60)
    panel = xr.concat(
        [series(hourly, hours=hours), series(eight, hours=hours)],
        xr.DataArray(["dex", "cex"], dims="exchange", name="exchange"),
    )
    interval = xr.DataArray(
        [1.0, 8.0], dims="exchange", coords={"exchange": ["dex", "cex"]}, attrs={"units": "h"}
    )
    result = funding.comovement(panel.assign_coords(interval_hours=interval))
    assert float(result["correlation"].sel(first="dex", second="cex").squeeze()) == pytest.approx(
        np.corrcoef(sums, eight[7::8])[0, 1], rel=1e-9
    )


def test_carried_rates_are_omitted():
    """Every other sample of a venue is real, the rest is carried: it moves with nothing but itself."""
    panel = _moving(rows=1_200, step=1.0, kind="sampled")
    real = xr.DataArray(np.arange(1_200) % 2 == 0, dims="time")
    sparse = panel.where((panel["exchange"] != "v02") | real)
    result = funding.comovement(sparse).squeeze()
    assert result["status"].values.tolist() == [0, 0, FundingStatus.FILLED]
    assert np.isnan(result["correlation"].sel(first="v02")).all()
    assert np.isfinite(result["correlation"].sel(first="v00", second="v01")).all()
    assert float(result["filled_share"].sel(exchange="v02")) == pytest.approx(0.5)
    anyway = funding.comovement(sparse, max_filled=1.0).squeeze()
    assert np.isfinite(anyway["correlation"]).all()
    panel = _moving(rows=800, step=1.0, kind="sampled")
    row = np.arange(800)
    held = panel.isel(time=row - row % 2).assign_coords(time=panel["time"])
    age = xr.zeros_like(held).assign_attrs(units="h") + np.where(row % 2 == 1, 1.0, 0.0)
    age = age.assign_attrs(units="h")
    blind = funding.comovement(held).squeeze()
    seeing = funding.comovement(held, age_hours=age).squeeze()
    assert blind["status"].values.tolist() == [0, 0, 0]
    assert seeing["status"].values.tolist() == [FundingStatus.FILLED] * 3
    np.testing.assert_allclose(seeing["filled_share"], 0.5)


def test_constant_or_short_series_have_no_correlation():
    panel = _moving()
    panel[{"exchange": 2}] = 1.0
    result = funding.comovement(panel).squeeze()
    assert np.isnan(result["correlation"].sel(first="v02")).all()
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(panel.squeeze().values[:2]))
    assert float(result["top_share"]) == pytest.approx(eigenvalues[-1] / 2, rel=1e-10)
    result = funding.comovement(_moving(rows=29)).squeeze()
    assert np.isnan(result["correlation"]).all()
    assert np.isnan(result["top_share"])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_lag": -1}, "max_lag"), ({"age_hours": _moving()}, "only to sampled rates")],
)
def test_comovement_rejects_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        funding.comovement(_moving(), **options)
