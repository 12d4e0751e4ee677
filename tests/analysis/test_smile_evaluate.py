import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.essvi import ssvi_to_raw
from derivdata.analysis.smile.evaluate import certified, check_slices, durrleman
from derivdata.analysis.smile.svi import Raw
from tests.analysis.smiles import points, published, raw_sets
from tests.support.records import assert_identical, attrs_of
from tests.support.shared import known_path

WITH_POINTS = ("vogt", "vogt_guaranteed", "vogt_optimal", "raw_free", "market_like", "crypto30d")
WITH_G = ("vogt", "vogt_guaranteed", "vogt_optimal", "raw_free", "market_like", "market_like_gj_repair")


def fit_of(name, t=1.0):
    return smile.from_raw(raw_sets()[name], t)


@pytest.mark.parametrize("name", WITH_POINTS)
def test_curve_derivatives_and_density_equal_high_precision_reference(name):
    table, fit = points(name), fit_of(name)
    k = table["k"].to_numpy()
    for derivative, column in enumerate(("w", "dw", "d2w")):
        actual = smile.total_variance(fit, k, derivative=derivative)
        np.testing.assert_allclose(actual, table[column], rtol=0, atol=1e-13)
    np.testing.assert_allclose(durrleman(fit, k), table["g"], rtol=0, atol=1e-13)


def test_svi_vertex_and_volatility_equal_quantlib():
    """QuantLib svivolatility.cpp: ``w(m) = a + b σ``."""
    raw = raw_sets()["quantlib_svi"]
    actual = float(smile.total_variance(smile.from_raw(raw, 11 / 365), raw.m))
    assert actual == pytest.approx(-0.0666 + 0.229 * 0.337, abs=1e-16)
    fit = fit_of("crypto30d", t=30 / 365)
    np.testing.assert_allclose(
        smile.iv(fit, 0.1), np.sqrt(smile.total_variance(fit, 0.1) * 365 / 30), rtol=1e-15
    )


def test_vogt_is_convex_and_flagged_between_its_published_roots():
    # Why slopes and convexity in k are no check at all.
    fit, k = fit_of("vogt"), np.linspace(-3, 3, 601)
    assert (smile.total_variance(fit, k, derivative=2) > 0).all()
    assert (np.abs(smile.total_variance(fit, k, derivative=1)) < 0.2).all()
    assert not smile.butterfly_check(fit)["ok"]
    figures, fit = published("vogt", "g"), fit_of("vogt")
    low, high = figures["root_lo"], figures["root_hi"]
    signs = np.sign(durrleman(fit, np.array([low - 1e-9, low + 1e-9, high - 1e-9, high + 1e-9])))
    assert signs.values.tolist() == [1, -1, -1, 1]


@pytest.mark.parametrize("name", WITH_G)
def test_minimum_and_limits_of_g(name):
    figures, result = published(name, "g"), smile.butterfly_check(fit_of(name))
    for variable, figure in (("g_left", "g_minus_inf"), ("g_right", "g_plus_inf"), ("min_g", "min_g")):
        if figure in figures:
            assert float(result[variable]) == pytest.approx(figures[figure], abs=1e-12)
    if "argmin_g" in figures:
        assert float(result["argmin_k"]) == pytest.approx(figures["argmin_g"], abs=1e-6)
    assert bool(result["ok"]) == (figures.get("min_g", 1.0) >= 0)


def test_too_steep_a_wing_and_too_low_a_vertex_fail():
    steep = smile.from_raw(svi.Raw(0.04, 1.2, 0.8, 0.0, 0.3), 1.0)
    sunk = smile.from_raw(svi.Raw(-0.05, 0.1, 0.0, 0.0, 0.3), 1.0)
    assert not smile.butterfly_check(steep)["ok"]
    assert not smile.butterfly_check(sunk)["ok"]
    assert float(smile.butterfly_check(steep)["g_right"]) == pytest.approx(0.25 - (1.2 * 1.8) ** 2 / 16)


def test_ssvi_conditions_and_limits():
    """Gatheral and Jacquier's conditions of an SSVI slice, theorem 4.2, against the check of its curve."""
    table = pd.read_csv(known_path("ssvi_conditions"))
    theta, rho, phi = (table[name].to_numpy() for name in ("theta", "rho", "phi"))
    raw = ssvi_to_raw(*(xr.DataArray(x, dims="case") for x in (theta, rho, theta * phi)))
    fit = smile.from_raw(raw, 1.0)
    np.testing.assert_allclose(durrleman(fit, 0.0), table["g_at_0"], rtol=1e-12)
    check = smile.butterfly_check(fit)
    np.testing.assert_allclose(check["g_left"], table["g_minus_inf"], atol=1e-13)
    np.testing.assert_allclose(check["g_right"], table["g_plus_inf"], atol=1e-13)
    free = (table["cond1_lt4"] & table["cond2_le4"]).to_numpy()
    assert check["ok"].values[free].all()
    assert not check["ok"].values[~table["cond1_lt4"].to_numpy()].any()


def random_slices(count, seed):
    rng = np.random.default_rng(seed)
    b, rho = np.exp(rng.uniform(-4, 0, count)), rng.uniform(-0.99, 0.99, count)
    m, sigma = rng.normal(0, 0.2, count), np.exp(rng.uniform(-6, 0.5, count))
    a = np.exp(rng.uniform(-6, 0, count)) - b * sigma * np.sqrt(1 - rho**2)
    return svi.Raw(a, b, rho, m, sigma)


def test_quick_butterfly_proof_never_passes_a_slice_failing_the_dense_check():
    """Two independent routes: Bernstein coefficients of a polynomial, and g sampled on the line."""
    raw = random_slices(1500, seed=4)
    proved = certified(raw)
    assert not certified(raw._replace(sigma=0.0 * raw.sigma)).any(), "a kink has no second derivative"
    ok = smile.butterfly_check(smile.from_raw(svi.Raw(*(xr.DataArray(x, dims="n") for x in raw)), 1.0))["ok"]
    ok = ok.values
    assert not (proved & ~ok).any()
    assert 0.1 < ok.mean() < 0.9
    assert (proved & ok).sum() > 0.99 * ok.sum()


class TestRange:
    fit = staticmethod(
        lambda: smile.from_raw(svi.Raw(0.02, 0.4, -0.6, 0.05, 0.2), 0.5, k_min=-0.3, k_max=0.4)
    )

    def test_extrapolation_happens_only_on_request(self):
        actual = smile.iv(self.fit(), np.array([-0.31, -0.3, 0.0, 0.4, 0.41]))
        assert actual.isnull().values.tolist() == [True, False, False, False, True]
        k = np.array([-2.0, 2.0])
        actual = smile.total_variance(self.fit(), k, extrapolate=True)
        np.testing.assert_array_equal(actual, svi.total_variance(k, svi.Raw(0.02, 0.4, -0.6, 0.05, 0.2)))
        fit = smile.from_raw(svi.Raw(*[np.nan] * 5), 0.5, k_min=np.nan, k_max=np.nan)
        assert np.isnan(smile.iv(fit, 0.0, extrapolate=True))
        result = smile.butterfly_check(fit)
        assert not result["ok"]
        assert np.isnan([float(result[name]) for name in ("min_g", "argmin_k", "g_left", "g_right")]).all()


def surface_of_slices():
    raw = svi.Raw(*(xr.DataArray(x, dims="expiry") for x in random_slices(4, seed=1)))
    t = xr.DataArray([0.1, 0.2, 0.5, 1.0], {"expiry": [10, 20, 50, 100]}, "expiry")
    return smile.from_raw(raw, t)


def test_dims_are_the_slices_then_the_points():
    fit = surface_of_slices()
    k = xr.DataArray(np.zeros((3, 4)), dims=("strike", "expiry"))
    assert smile.iv(fit, k).dims == ("expiry", "strike")
    assert smile.iv(fit, np.linspace(-0.1, 0.1, 5)).dims == ("expiry", "log_moneyness")
    assert smile.iv(fit, 0.0).dims == ("expiry",)
    with pytest.raises(ValueError, match="derivative must be 0, 1 or 2, got 3"):
        smile.total_variance(fit, 0.0, derivative=3)
    with pytest.raises(TypeError, match="names them"):
        smile.iv(fit, np.zeros((2, 2)))
    fit["year_fraction"].attrs["units"] = "years"
    for result in (smile.iv(fit, k), durrleman(fit, k), smile.butterfly_check(fit)):
        assert attrs_of(result["year_fraction"]) == {"units": "years"}
    assert [part.attrs for part in smile.butterfly_check(fit).values()] == [{}] * 5


@pytest.mark.parametrize(("slope", "ok"), [(1.25, False), (1.2499, True)])
def test_wing_slope_of_two_is_rejected_despite_positive_density(slope, ok):
    """Lee (2004): total variance grows by less than 2 per unit of log-moneyness. Here b (1 + rho) is 2.

    With a = 3 the density falls to zero from above: g is near (a/2 - 1) / w > 0 far to the right.
    """
    raw = Raw(*(np.array([p]) for p in (3.0, slope, 0.6, 0.0, 0.5)))
    result = check_slices(raw, np.array([-4.0]), np.array([4.0]))
    assert result.min_g[0] > 0.0
    assert bool(result.ok[0]) is ok


SETS = (*WITH_POINTS, "market_like_gj_repair", "quantlib_svi")


@pytest.mark.parametrize("name", SETS)
def test_jump_wings_convert_back_to_raw(name):
    raw = raw_sets()[name]
    wings = svi.convert(raw, 0.7)
    np.testing.assert_allclose(svi.convert(wings, 0.7), raw, rtol=0, atol=1e-13)


def test_published_and_impossible_jump_wings():
    """Gatheral and Jacquier 2014, example 5.1, t = 1."""
    wings = published("vogt", "jw")
    expected = [wings[name] for name in ("v", "psi", "p", "c", "vtilde")]
    np.testing.assert_allclose(svi.convert(raw_sets()["vogt"], 1.0), expected, rtol=1e-13)
    # beta = 0: the general inverse divides by it.
    raw = svi.Raw(0.02, 0.2, 0.3, 0.0, 0.4)
    wings = svi.convert(raw, 0.5)
    centred = wings._replace(psi=raw.b * raw.rho / (2 * np.sqrt(wings.v * 0.5)))
    np.testing.assert_allclose(svi.convert(centred, 0.5), raw, atol=1e-12)
    with pytest.raises(ValueError, match="-p <= 2 psi <= c"):
        svi.convert(svi.JumpWings(0.04, 0.5, 0.3, 0.2, 0.03), 1.0)
    raw = svi.Raw(np.array([0.02, np.nan]), *(np.full(2, x) for x in (0.4, -0.6, 0.05, 0.2)))
    wings = svi.convert(raw, 1.0)
    assert [np.isnan(x[1]) for x in wings] == [True] * 5
    assert np.isfinite([x[0] for x in svi.convert(wings, 1.0)]).all()


@pytest.mark.parametrize("name", ["vogt_guaranteed", "vogt_optimal"])
def test_jump_wings_of_the_paper_give_its_raw_slices(name):
    wings, changed = published("vogt", "jw"), published(name, "jw")
    given_wings = svi.JumpWings(wings["v"], wings["psi"], wings["p"], changed["c"], changed["vtilde"])
    np.testing.assert_allclose(svi.convert(given_wings, 1.0), raw_sets()[name], rtol=0, atol=1e-13)


def test_labels_and_laziness_of_parameters_are_kept():
    raw = svi.Raw(*(xr.DataArray(np.full(3, x), dims="expiry") for x in raw_sets()["raw_free"]))
    lazy = svi.Raw(*(x.chunk({"expiry": 1}) for x in raw))
    t = xr.DataArray([0.1, 0.2, 0.3], dims="expiry")
    for whole, part in zip(svi.convert(raw, t), svi.convert(lazy, t), strict=True):
        assert isinstance(part.data, da.Array)
        assert_identical(whole, part.compute())


@pytest.mark.parametrize("away", [0.0, 1e-9, 1e-7])
@pytest.mark.parametrize("rho", [0.0, -0.3])
def test_jump_wings_of_a_min_variance_at_the_money_are_rejected(away, rho):
    """Every sigma has the same jump wings there, so they do not determine raw parameters."""
    raw = svi.Raw(0.02, 0.1, rho, rho * 0.15 / np.sqrt(1 - rho**2) + away, 0.15)
    with pytest.raises(ValueError, match="do not determine the slice"):
        svi.convert(svi.convert(raw, 0.25), 0.25)
    near = raw._replace(m=raw.m + 1e-3)
    np.testing.assert_allclose(svi.convert(svi.convert(near, 0.25), 0.25), near, rtol=1e-6)


def test_jump_wings_of_no_slice_are_rejected_and_flat_ones_are_flat():
    with pytest.raises(ValueError, match=r"1 jump-wing set\(s\) must have v of at least v_min"):
        svi.convert(svi.JumpWings(0.03, -0.1, 0.5, 0.4, 0.04), 1.0)
    with pytest.raises(ValueError, match="psi = 0 and v above v_min"):
        svi.convert(svi.JumpWings(0.04, 0.0, 0.5, 0.4, 0.03), 1.0)
    flat = svi.convert(svi.JumpWings(0.36, 0.0, 0.0, 0.0, 0.36), 0.25)
    assert [float(part) for part in flat[:2]] == [0.09, 0.0]
    np.testing.assert_allclose(svi.total_variance(np.array([-1.0, 0.0, 2.0]), flat), 0.09)
