import functools

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from derivdata.analysis import smile, surface
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.evaluate import RAW, Method
from derivdata.analysis.status import Status
from tests.analysis.smile_reference import best_of_starts, rms
from tests.analysis.smiles import crypto_like, raw_sets
from tests.support.examples import examples

NAN = np.nan
fit_equally = functools.partial(smile.fit, weights="equal")


def has(fit, bit):
    return (fit["status"] & int(bit)).astype(bool).values


def labelled(k, iv, t):
    slices = xr.DataArray(np.arange(len(t)), dims="expiry")
    return (
        xr.DataArray(k, {"expiry": slices}, ("expiry", "strike")),
        xr.DataArray(iv, {"expiry": slices}, ("expiry", "strike")),
        xr.DataArray(t, {"expiry": slices}, "expiry"),
    )


class TestRecovery:
    def test_fit_of_a_thousand_slices_recovers_parameters(self):
        k, iv, t, raw = crypto_like(1000, 40, seed=1)
        fit = fit_equally(k, iv, t)
        for actual, truth in zip([fit[name] for name in RAW], raw, strict=True):
            np.testing.assert_allclose(actual, truth, rtol=0, atol=1e-8)
        assert (fit["status"] == 0).all()
        assert float(fit["rmse_vol"].max()) < 1e-12

    def test_wings_at_their_bounds(self):
        """A put wing without slope, |ρ| = 1, is a solution like any other."""
        raw = svi.Raw(0.02, 0.15, 1.0, 0.05, 0.2)
        k = np.linspace(-0.8, 0.8, 33)
        fit = fit_equally(k, np.sqrt(svi.total_variance(k, raw) / 0.5), 0.5)
        np.testing.assert_allclose([fit[name] for name in RAW], raw, atol=1e-7)

    def test_a_flat_smile(self):
        fit = fit_equally(np.linspace(-0.5, 0.5, 11), np.full(11, 0.6), 0.25)
        np.testing.assert_allclose(smile.iv(fit, np.linspace(-0.5, 0.5, 7)), 0.6, rtol=1e-12)
        assert int(fit["status"]) == 0

    def test_noisy_slices_are_as_good_as_the_best_of_twelve_starts(self):
        """Eight to ten quotes with 3 % noise have local minima."""
        k, iv, t, _ = crypto_like(4, 10, seed=21, noise=0.03, fewest=8)
        fit = fit_equally(k, iv, t)
        for i in range(4):
            used = np.isfinite(iv[i])
            quotes, raw = (k[i, used], iv[i, used], t[i]), np.array([fit[name][i] for name in RAW])
            assert rms(*quotes, raw) <= 1.0001 * rms(*quotes, best_of_starts(*quotes))


class TestLadder:
    k = np.array([-0.3, -0.1, 0.0, 0.1, 0.3])
    iv = np.array([0.62, 0.55, 0.5, 0.52, 0.58])

    def first(self, count):
        iv = np.where(np.arange(5) < count, self.iv, NAN)
        return fit_equally(self.k, iv, 0.5)

    @pytest.mark.parametrize(
        ("count", "rung"),
        [
            (5, Method.SVI),
            (4, Method.SSVI),
            (3, Method.SSVI),
            (2, Method.LINE),
            (1, Method.FLAT),
            (0, Method.NONE),
        ],
    )
    def test_few_strikes_use_a_simpler_model(self, count, rung):
        fit = self.first(count)
        asked = rung == Method.SVI
        assert int(fit["method"]) == rung
        assert bool(has(fit, Status.TOO_FEW_STRIKES)) != asked
        assert bool(has(fit, Status.FALLBACK_USED)) == (not asked and rung != Method.NONE)
        assert int(fit["n"]) == count

    def test_three_quotes_of_an_ssvi_slice_give_it_back(self):
        """θ = 0.04, ρ = −0.3, φ = 4: ``w = θ/2 (1 + ρφk + √((φk + ρ)² + 1 − ρ²))``."""
        theta, rho, phi = 0.04, -0.3, 4.0
        k = np.array([-0.3, 0.02, 0.4])
        w = theta / 2 * (1 + rho * phi * k + np.sqrt((phi * k + rho) ** 2 + 1 - rho**2))
        fit = fit_equally(k, np.sqrt(w / 0.3), 0.3)
        raw = (theta * (1 - rho**2) / 2, theta * phi / 2, rho, -rho / phi, np.sqrt(1 - rho**2) / phi)
        np.testing.assert_allclose([fit[name] for name in RAW], raw, atol=1e-8)

    def test_fewer_quotes_than_a_smile(self):
        """Two are a line that goes on flat below and straight above, one is flat, two at a strike are one."""
        fit = self.first(2)
        w = 0.5 * self.iv[:2] ** 2
        k = np.array([-0.3, -0.2, -0.1])
        np.testing.assert_allclose(smile.total_variance(fit, k), [w[0], w.mean(), w[1]], rtol=1e-14)
        slope = (w[1] - w[0]) / 0.2
        outside = smile.total_variance(fit, np.array([-0.5, 0.7]), extrapolate=True)
        np.testing.assert_allclose(outside, [w[0] - 0.2 * slope, w[1]], rtol=1e-14)
        fit = self.first(1)
        np.testing.assert_allclose(
            smile.iv(fit, np.array([-2.0, 0.0, 2.0]), extrapolate=True), 0.62, rtol=1e-14
        )
        assert np.isnan(smile.iv(fit, 0.0))
        k, iv = np.array([-0.1, -0.1, 0.1, 0.1]), np.array([0.5, 0.52, 0.6, 0.62])
        fit = fit_equally(k, iv, 1.0)
        assert int(fit["method"]) == Method.LINE
        assert int(fit["n"]) == 4
        np.testing.assert_allclose(
            smile.total_variance(fit, np.array([-0.1, 0.1])), [(0.5**2 + 0.52**2) / 2, (0.6**2 + 0.62**2) / 2]
        )

    def test_rmse_is_nan_without_degrees_of_freedom(self):
        assert np.isnan(self.first(5)["rmse_vol"])
        assert np.isnan(self.first(3)["rmse_vol"])
        assert np.isfinite(self.first(4)["rmse_vol"])
        k, iv, t, _ = crypto_like(1, 6, seed=2, noise=0.01)
        assert float(fit_equally(k, iv, t)["rmse_vol"][0]) > 0


class TestReasons:
    def test_unfittable_slice_is_nan_with_a_status(self):
        k, iv, t, _ = crypto_like(5, 12, seed=3)
        iv[0], t[1], t[2], iv[3] = NAN, 0.0, NAN, -0.5
        fit = fit_equally(k, iv, t)
        assert has(fit, Status.TOO_FEW_STRIKES).tolist() == [True, False, False, True, False]
        assert has(fit, Status.EXPIRED).tolist() == [False, True, False, False, False]
        assert has(fit, Status.BAD_INPUT).tolist() == [False, False, True, False, False]
        assert fit["method"].values[:4].tolist() == [0, 0, 0, 0]
        assert np.isnan(smile.iv(fit, 0.0, extrapolate=True)[:4]).all()
        assert np.isnan(fit["rmse_vol"][:4]).all()
        assert float(smile.iv(fit, 0.0)[4]) == pytest.approx(float(np.interp(0.0, k[4], iv[4])), rel=0.05)

    def test_the_range_of_the_quotes_is_kept(self):
        k, iv, t, _ = crypto_like(2, 12, seed=3)
        iv[0, :2], iv[0, -1] = NAN, 0.0
        k[1, 3], iv[1, 5] = NAN, np.inf
        fit = fit_equally(k, iv, t)
        assert fit["k_min"].values.tolist() == [k[0, 2], k[1, 0]]
        assert fit["k_max"].values.tolist() == [k[0, -2], k[1, -1]]
        assert fit["n"].values.tolist() == [9, 10]

    def test_smile_of_vogt_has_butterfly_arbitrage(self):
        """Its total variance is convex, and the minimum of g is published."""
        raw = raw_sets()["vogt"]
        k = np.linspace(-1.5, 1.5, 41)
        w = svi.total_variance(k, raw)
        assert (np.diff(w, 2) > 0).all()
        fit = fit_equally(k, np.sqrt(w), 1.0)
        assert bool(has(fit, Status.BUTTERFLY))
        assert float(smile.butterfly_check(fit)["min_g"]) == pytest.approx(-0.032863573453623, abs=1e-8)

    def test_butterfly_flag_equals_butterfly_check(self):
        k, iv, t, _ = crypto_like(120, 14, seed=4, noise=0.02, fewest=3)
        fit = fit_equally(k, iv, t)
        np.testing.assert_array_equal(has(fit, Status.BUTTERFLY), ~smile.butterfly_check(fit)["ok"])

    def test_total_variance_of_fits_is_never_negative(self):
        """Quotes that pull the free fit's minimum below 0."""
        k = np.array([-1.0, -0.8, -0.6, -0.4, -0.2, 0.6, 0.8, 1.0])
        w = np.array([0.8, 0.6, 0.4, 0.2, 0.02, 0.1, 0.3, 0.5])
        fit = fit_equally(k, np.sqrt(w), 1.0)
        raw = [float(fit[name]) for name in RAW]
        assert raw[0] + raw[1] * raw[4] * np.sqrt(1 - raw[2] ** 2) >= -1e-15
        assert (smile.total_variance(fit, np.linspace(-1, 1, 999)) >= -1e-15).all()


class TestArrays:
    def test_bare_arrays_of_any_rank(self):
        k, iv, t, _ = crypto_like(6, 12, seed=6, noise=0.01)
        flat = fit_equally(k, iv, t)
        cube = fit_equally(k.reshape(2, 3, 12), iv.reshape(2, 3, 12), t.reshape(2, 3))
        assert flat["a"].dims == ("slice",)
        assert cube["a"].dims == ("slice_0", "slice_1")
        np.testing.assert_array_equal(cube["a"].values.ravel(), flat["a"])
        np.testing.assert_array_equal(fit_equally(k[1], iv[1], t[1])["a"], flat["a"][1])
        empty = fit_equally(np.empty((0, 4)), np.empty((0, 4)), np.empty(0))
        assert empty["a"].shape == (0,)
        none = fit_equally(np.empty((2, 0)), np.empty((2, 0)), np.full(2, 0.5))
        assert has(none, Status.TOO_FEW_STRIKES).all()
        assert none["n"].values.tolist() == [0, 0]

    def test_dims_in_any_order_shared_strikes_and_forwards(self):
        iv = xr.DataArray(
            0.5 + 0.1 * np.random.default_rng(0).random((2, 3, 9)), dims=("time", "expiry", "strike")
        )
        k = xr.DataArray(np.linspace(-0.4, 0.4, 9), dims="strike")
        t = xr.DataArray([0.1, 0.2, 0.3], dims="expiry")
        fit = fit_equally(k, iv, t)
        turned = fit_equally(k, iv.transpose("strike", "expiry", "time"), t)
        assert fit["a"].dims == ("time", "expiry")
        assert fit["year_fraction"].dims == ("expiry",)
        xr.testing.assert_equal(turned.transpose("time", "expiry", ...), fit)
        k, iv, t = labelled(*crypto_like(3, 8, seed=8)[:3])
        forward = xr.DataArray([90.0, 91.0, 92.0], dims="expiry")
        fit = fit_equally(k, iv, t, forward=forward)
        np.testing.assert_array_equal(fit.coords["forward"], forward)
        assert "forward" not in fit_equally(k, iv, t).coords


class TestWeights:
    k, iv, t, _ = crypto_like(3, 15, seed=9, noise=0.03)

    def test_equal_weights_of_any_size_give_the_same_fit(self):
        expected = smile.iv(fit_equally(self.k, self.iv, self.t), 0.0)
        for weight in (1.0, 250.0):
            fit = smile.fit(self.k, self.iv, self.t, weights=np.full_like(self.iv, weight))
            np.testing.assert_allclose(smile.iv(fit, 0.0), expected, rtol=1e-6)

    def test_weight_of_zero_or_nan_omits_the_quote(self):
        weights = np.ones_like(self.iv)
        weights[:, 3], weights[:, 8] = 0.0, NAN
        without_quotes = self.iv.copy()
        without_quotes[:, [3, 8]] = NAN
        xr.testing.assert_equal(
            smile.fit(self.k, self.iv, self.t, weights=weights),
            fit_equally(self.k, without_quotes, self.t),
        )

    def test_fit_passes_through_a_quote_of_very_large_weight(self):
        weights = np.ones_like(self.iv)
        weights[:, 5] = 1e8
        fit = smile.fit(self.k, self.iv, self.t, weights=weights)
        k5 = xr.DataArray(self.k[:, 5], dims="slice")
        np.testing.assert_allclose(smile.iv(fit, k5), self.iv[:, 5], atol=1e-5)

    def test_variance_weights_use_residuals_of_total_variance(self):
        """By the definition: the loss in w is at most that with equal weights, and vice versa."""

        def loss(weights):
            fit = smile.fit(self.k, self.iv, self.t, weights=weights)
            w = smile.total_variance(fit, xr.DataArray(self.k, dims=("slice", "strike")))
            error = w.values - self.iv**2 * self.t[:, None]
            return (error**2).sum(axis=1), ((error / self.iv) ** 2).sum(axis=1)

        (variance_w, variance_vol), (equal_w, equal_vol) = loss("variance"), loss("equal")
        assert (variance_w < equal_w).all()
        assert (equal_vol < variance_vol).all()


quotes = st.integers(0, 2**32 - 1).map(lambda seed: crypto_like(3, 14, seed=seed, noise=0.005, fewest=6)[:3])


class TestProperties:
    @examples(4, 40)
    @given(quotes, st.permutations(range(14)))
    def test_a_mirrored_smile_in_any_order_is_the_mirror_image(self, given_quotes, order):
        k, iv, t = given_quotes
        fit, mirrored = fit_equally(k, iv, t), fit_equally(-k[:, order], iv[:, order], t)
        np.testing.assert_allclose(mirrored["rmse_vol"], fit["rmse_vol"], rtol=1e-4)
        np.testing.assert_allclose(smile.iv(mirrored, 0.0), smile.iv(fit, 0.0), rtol=1e-4)
        np.testing.assert_array_equal(mirrored["method"], fit["method"])


class TestMisuse:
    k, iv = np.linspace(-0.2, 0.2, 6), np.full(6, 0.5)

    def test_an_unknown_weighting(self):
        message = (
            "weights must be one of equal, vega, price, variance or an array over the quotes, got 'spread'"
        )
        with pytest.raises(ValueError, match=message):
            smile.fit(self.k, self.iv, 0.5, weights="spread")

    def test_volatility_in_percent_and_arrays_without_the_dim_of_strikes_raise(self):
        with pytest.raises(ValueError, match="looks like percent"):
            fit_equally(self.k, np.full(self.k.shape, 16.0), 0.5)
        iv = xr.DataArray(self.iv, dims="k")
        with pytest.raises(ValueError, match="iv must have the dim 'strike', got dims"):
            fit_equally(xr.DataArray(self.k, dims="k"), iv, 0.5)
        assert int(fit_equally(xr.DataArray(self.k, dims="k"), iv, 0.5, dim="k")["n"]) == 6
        with pytest.raises(TypeError, match="names them"):
            fit_equally(np.zeros((2, 6)), xr.DataArray(np.ones((2, 6)), dims=("expiry", "strike")), 0.5)


@pytest.mark.parametrize("weights", ["vega", "equal"])
def test_a_concave_smile_is_flagged_and_noise_is_not(weights):
    """Over an event; no slice is concave. Noise of a point changes its sign from strike to strike."""
    k = np.linspace(-0.4, 0.4, 15)
    concave = smile.fit(k, 0.6 - 0.5 * k**2, 0.25, weights=weights)
    assert int(concave["status"]) == Status.OFF_QUOTES
    assert int(smile.fit(k, 0.6 + 0.2 * k**2, 0.25, weights=weights)["status"]) == 0
    noisy = 0.6 + 0.2 * k**2 + 0.01 * np.where(np.arange(15) % 2, 1.0, -1.0)
    assert int(smile.fit(k, noisy, 0.25, weights=weights)["status"]) == 0
    order = np.random.default_rng(0).permutation(15)
    again = smile.fit(k[order], (0.6 - 0.5 * k**2)[order], 0.25, weights=weights)
    assert int(again["status"]) == Status.OFF_QUOTES


def test_volatilities_of_fifteen_hundred_percent_are_fitted():
    k = np.linspace(-0.2, 0.2, 9)
    fit = smile.fit(k, 14.5 + 8.0 * k**2, 1 / 8760)
    np.testing.assert_allclose(smile.iv(fit, k), 14.5 + 8.0 * k**2, rtol=1e-4)


@pytest.mark.parametrize("fitted", [smile.fit, surface.fit])
def test_a_labelled_array_in_another_unit_is_rejected(fitted):
    k = np.linspace(-0.2, 0.2, 9)[None, :]
    iv = xr.DataArray(0.5 + k**2, dims=["expiry", "strike"], attrs={"units": "1/√year"})
    moneyness = xr.DataArray(k, dims=["expiry", "strike"], attrs={"units": "1"})
    years = xr.DataArray([0.1], dims="expiry", attrs={"units": "years"})
    assert int((fitted(moneyness, iv, years)["method"] > 0).sum()) == 1
    for arguments, message in (
        (
            (moneyness, iv, years.assign_attrs(units="days")),
            "year_fraction must be in 'years' or 'year', got 'days'",
        ),
        ((moneyness, iv.assign_attrs(units="%"), years), "iv must be in '1/√year', got '%'"),
        (
            (moneyness.assign_attrs(units="USD"), iv, years),
            "log_moneyness must be in '1' or 'log-moneyness', got 'USD'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(*arguments)
