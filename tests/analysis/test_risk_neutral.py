import numpy as np
import pytest
import xarray as xr
from scipy import integrate, special, stats

from derivdata.analysis import black76, risk_neutral, smile, surface, variance
from derivdata.analysis.smile import svi
from derivdata.analysis.status import Status

T = np.array([0.05, 0.2, 0.6])


def three() -> xr.Dataset:
    """Three expiries of raw SVI without arbitrage, one with the wings of a crash."""
    raw = svi.Raw(
        a=xr.DataArray([0.002, 0.010, 0.03], dims="expiry"),
        b=xr.DataArray([0.05, 0.10, 0.20], dims="expiry"),
        rho=xr.DataArray([-0.4, -0.3, -0.3], dims="expiry"),
        m=xr.DataArray([0.01, 0.02, 0.05], dims="expiry"),
        sigma=xr.DataArray([0.08, 0.2, 0.3], dims="expiry"),
    )
    return smile.from_raw(raw, xr.DataArray(T, dims="expiry")).assign_attrs(surface="svi")


@pytest.fixture
def flat():
    """A surface of 40 % volatility at a quarter of a year: returns have a deviation of 0.2."""
    return surface.from_essvi([0.04], [0.0], [0.0], [0.25], forward=[100.0])


NORMAL = stats.norm(-0.02, 0.2)


def test_density_of_a_flat_smile_is_lognormal(flat):
    k = np.linspace(-1.0, 1.0, 21)
    result = risk_neutral.density(flat, k)
    np.testing.assert_allclose(result["density"].isel(expiry=0), NORMAL.pdf(k), rtol=1e-12)
    np.testing.assert_allclose(result["distribution"].isel(expiry=0), NORMAL.cdf(k), atol=1e-15)
    assert float(result["mass"].item()) == pytest.approx(1.0, abs=1e-12)
    assert float(result["martingale"].item()) == pytest.approx(1.0, abs=1e-12)
    assert int(result["status"].item()) == 0


def test_quantiles_of_a_flat_smile_are_lognormal(flat):
    p = [1e-6, 0.05, 0.5, 0.95]
    quantiles = risk_neutral.quantile(flat, p)
    np.testing.assert_allclose(quantiles["log_moneyness"].isel(expiry=0), NORMAL.ppf(p), atol=1e-12)
    np.testing.assert_allclose(quantiles["price_usd"].isel(expiry=0), 100 * np.exp(NORMAL.ppf(p)), rtol=1e-12)


def test_moments_of_a_flat_smile_are_those_of_a_normal_distribution(flat):
    moments = risk_neutral.moments(flat)
    expected = {"mean": -0.02, "standard_deviation": 0.2, "skewness": 0.0, "excess_kurtosis": 0.0}
    for name, value in expected.items():
        assert float(moments[name].item()) == pytest.approx(value, abs=1e-10), name


def test_quoted_share_is_the_part_of_the_fourth_moment_within_the_quotes(flat):
    k_min, k_max = xr.full_like(flat["k_min"], -0.4), xr.full_like(flat["k_max"], 0.3)
    moments = risk_neutral.moments(flat.assign(k_min=k_min, k_max=k_max))
    within = integrate.quad(lambda x: x**4 * NORMAL.pdf(x), -0.4, 0.3)[0] / NORMAL.moment(4)
    assert float(moments["quoted_share"].item()) == pytest.approx(within, rel=1e-9)


def test_between_expiries_the_density_is_the_curvature_of_calls():
    """C''(K) of the prices that the surface itself gives, by central differences of 1e-3."""
    made, t, step = three(), 0.11, 1e-3
    strike = np.array([0.7, 0.9, 1.0, 1.2])
    k = xr.DataArray(np.log(strike + step * np.arange(-1, 2)[:, None]), dims=("shift", "x"))
    vol = surface.iv(made, k, t)
    calls = black76.price(1.0, np.exp(k), t, vol, "call")
    second = (calls.isel(shift=0) - 2 * calls.isel(shift=1) + calls.isel(shift=2)) / step**2
    result = risk_neutral.density(made, np.log(strike), t)
    np.testing.assert_allclose(result["density"].to_numpy() / strike, second.to_numpy(), rtol=1e-4)
    slope = 1.0 + (calls.isel(shift=2) - calls.isel(shift=0)) / (2 * step)
    np.testing.assert_allclose(result["distribution"].to_numpy(), slope.to_numpy(), atol=1e-5)
    assert float(result["mass"]) == pytest.approx(1.0, abs=1e-9)
    assert float(result["martingale"]) == pytest.approx(1.0, abs=1e-9)


def test_quantiles_invert_the_distribution_at_any_time():
    made, p = three(), np.array([0.001, 0.01, 0.3, 0.5, 0.9, 0.999])
    for t in (None, [0.03, 0.11, 0.4]):
        k = risk_neutral.quantile(made, p, t)["log_moneyness"]
        back = risk_neutral.density(made, k, t)["distribution"]
        np.testing.assert_allclose(back.to_numpy(), np.broadcast_to(p, back.shape), atol=1e-12)
    with pytest.raises(ValueError, match="probability must be above 0"):
        risk_neutral.quantile(made, 1.0)


def test_mean_of_log_returns_is_minus_half_the_variance_swap():
    fit = three()
    moments = risk_neutral.moments(fit)
    total_variance = variance.model_free(fit, method="smile")["total_variance"]
    np.testing.assert_allclose(-2 * moments["mean"], total_variance, rtol=1e-6)


def test_skewness_equals_numerical_integral_of_the_density():
    """Simpson's rule on half a million points."""
    fit = three()
    moments = risk_neutral.moments(fit)
    x = np.linspace(-40, 20, 500_001)
    density = risk_neutral.density(fit.isel(expiry=[1]), x)["density"].isel(expiry=0).to_numpy()
    mean, deviation = float(moments["mean"][1]), float(moments["standard_deviation"][1])
    third = integrate.simpson(((x - mean) / deviation) ** 3 * density, x=x)
    assert float(moments["skewness"][1]) == pytest.approx(third, rel=1e-6)
    assert (moments["skewness"] < 0).all()


def test_moments_of_no_expiry_are_empty():
    assert risk_neutral.moments(three(), np.empty(0))["mean"].shape == (0,)


def test_status_of_butterflies_wings_and_missing_fits():
    """Vogt's slice (Gatheral and Jacquier 2014, example 3.1)."""
    vogt = svi.Raw(*(xr.DataArray([x], dims="expiry") for x in (-0.0410, 0.1331, 0.3060, 0.3586, 0.4153)))
    fit = smile.from_raw(vogt, xr.DataArray([1.0], dims="expiry"))
    result = risk_neutral.density(fit, np.linspace(0.5, 1.5, 101))
    assert int(result["status"].item()) == Status.BUTTERFLY
    assert float(result["density"].min()) < 0
    assert float(result["mass"].item()) == pytest.approx(1.0, abs=1e-9)
    steep = svi.Raw(*(xr.DataArray([x], dims="expiry") for x in (0.04, 1.5, 0.5, 0.0, 0.1)))
    fit = smile.from_raw(steep, xr.DataArray([1.0], dims="expiry"))
    result = risk_neutral.moments(fit)
    assert int(result["status"].item()) & Status.NOT_MARTINGALE
    assert np.isnan(result["mean"].item())
    holed = three()
    holed = holed.where(xr.DataArray([True, False, True], dims="expiry"))
    holed = holed.assign(method=holed["method"].fillna(0).astype(np.int8), status=("expiry", [0, 2, 0]))
    result = risk_neutral.density(holed, [0.0])
    assert np.isnan(result["density"]).to_numpy()[:, 0].tolist() == [False, True, False]
    assert np.isnan(result["mass"]).to_numpy().tolist() == [False, True, False]
    assert result["status"].to_numpy().tolist() == [0, 2, 0]


@pytest.mark.parametrize("p", [1e-300, 1e-200, 1e-120, 1e-40, 0.3, 1.0 - 1e-6])
def test_quantiles_of_a_flat_smile_are_those_of_the_lognormal(p):
    w = 0.36 * 30 / 365
    flat = smile.from_raw(
        svi.Raw(*(xr.DataArray([x], dims="expiry") for x in (w, 0.0, 0.0, 0.0, 0.1))), 30 / 365
    )
    result = risk_neutral.quantile(flat, [p])["log_moneyness"]
    assert float(result.squeeze()) == pytest.approx(-w / 2 + w**0.5 * special.ndtri(p), rel=1e-9)
