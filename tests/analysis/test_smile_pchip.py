"""Interpolated smiles: exact at the quotes, scipy's between them, Lee's bound outside."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr

from derivdata.analysis import smile
from derivdata.analysis.status import Status
from tests.analysis.smiles import crypto_like

AXES = ("k", "delta")


def quotes(**options):
    k, iv, t, _ = crypto_like(60, 9, **options)
    return xr.DataArray(k, dims=("slice", "strike")), xr.DataArray(iv, dims=("slice", "strike")), t


@pytest.mark.parametrize("axis", AXES)
def test_exact_at_the_quotes(axis):
    k, iv, t = quotes(seed=40, noise=0.005, fewest=2)
    fit = smile.fit(k, iv, t, method="pchip", axis=axis)
    kept = (fit["status"] & int(Status.OUTLIER)) == 0
    error = np.abs(smile.iv(fit, k) - iv)
    assert kept.sum() > 50
    assert float(error.where(kept).max()) < 1e-12
    assert fit.attrs["axis"] == axis


@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_scipys_pchip_between_the_quotes(derivative):
    k, iv, t = quotes(seed=41, noise=0.02, fewest=2)
    fit = smile.fit(k, iv, t, method="pchip")
    for i in range(len(t)):
        used = np.isfinite(iv[i].values)
        x, w = k[i].values[used], iv[i].values[used] ** 2 * t[i]
        inside = np.linspace(x[0], x[-1], 40)[1:-1]
        expected = PchipInterpolator(x, w)(inside, nu=derivative)
        got = smile.total_variance(fit.isel(slice=i), inside, derivative=derivative)
        scale = max(np.abs(expected).max(), w.max() / (x[-1] - x[0]) ** derivative)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * scale)


def test_straight_outside_with_slopes_that_lee_allows():
    """w at k = −0.1, 0, 0.1 by hand; both wings would rise inwards or too fast."""
    w = np.array([0.10, 0.20, 0.90])
    fit = smile.fit(np.array([-0.1, 0.0, 0.1]), np.sqrt(w), 1.0, method="pchip")
    got = smile.total_variance(fit, np.array([-1.1, -0.1, 0.1, 1.1]), extrapolate=True)
    np.testing.assert_allclose(got, [0.10, 0.10, 0.90, 0.90 + 2.0], rtol=1e-8)
    slopes = smile.total_variance(fit, np.array([-1.1, 1.1]), extrapolate=True, derivative=1)
    np.testing.assert_allclose(slopes, [0.0, 2.0], rtol=1e-8)
    assert (smile.total_variance(fit, np.array([-1.1, 1.1]), extrapolate=True, derivative=2) == 0).all()
    assert smile.iv(fit, np.array([-1.1, 1.1])).isnull().all()


def test_flat_outside_on_the_delta_axis():
    k, iv, t = quotes(seed=42)
    fit = smile.fit(k, iv, t, method="pchip", axis="delta")
    got = smile.iv(fit, np.array([-9.0, 9.0]), extrapolate=True)
    np.testing.assert_allclose(got[:, 0], iv[:, 0], rtol=1e-12)
    np.testing.assert_allclose(got[:, 1], iv[:, -1], rtol=1e-12)


def test_delta_axis_interpolates_volatility_against_its_own_delta():
    """Each value satisfies ``iv = f(N(d1(k, iv)))`` with scipy's pchip as f."""
    k, iv, t = quotes(seed=43)
    fit = smile.fit(k, iv, t, method="pchip", axis="delta")
    for i in range(5):
        s = iv[i].values * np.sqrt(t[i])
        delta = ndtr(-k[i].values / s + s / 2)
        f = PchipInterpolator(delta[::-1], iv[i].values[::-1])
        at = np.linspace(float(k[i, 0]), float(k[i, -1]), 31)
        got = smile.iv(fit.isel(slice=i), at).values
        total = got * np.sqrt(t[i])
        np.testing.assert_allclose(got, f(ndtr(-at / total + total / 2)), rtol=1e-10)


def test_delta_axis_derivatives_are_those_of_the_curve():
    k, iv, t = quotes(seed=44)
    fit = smile.fit(k, iv, t, method="pchip", axis="delta").isel(slice=slice(0, 8))
    share, step = np.linspace(0.13, 0.87, 12), 1e-6
    at = fit["k_min"] + (fit["k_max"] - fit["k_min"]) * xr.DataArray(share, dims="share")
    for derivative, tolerance in ((1, 1e-6), (2, 1e-3)):
        up, down = (smile.total_variance(fit, at + move, derivative=derivative - 1) for move in (step, -step))
        got = smile.total_variance(fit, at, derivative=derivative)
        error = np.abs((up - down) / (2 * step) - got)
        assert float(error.median()) < tolerance * float(np.abs(got).max())


def test_a_quote_whose_delta_does_not_fall_is_dropped_and_noted():
    """The third volatility is so high that the call's delta rises with the strike."""
    k, iv = np.array([-0.1, 0.0, 0.05, 0.3]), np.array([0.5, 0.45, 1.6, 0.5])
    s = iv * np.sqrt(0.1)
    assert (np.diff(ndtr(-k / s + s / 2)) < 0).tolist() == [True, False, True]
    fit = smile.fit(k, iv, 0.1, method="pchip", axis="delta")
    assert int(fit["status"]) & Status.OUTLIER
    np.testing.assert_array_equal(fit["node_k"], [-0.1, 0.0, 0.3, np.nan])
    assert float(smile.iv(fit, 0.05)) < 0.6
    whole = smile.fit(k, iv, 0.1, method="pchip")
    np.testing.assert_allclose(smile.iv(whole, k), iv, rtol=1e-12)


def test_concave_prices_are_flagged():
    k = np.linspace(-0.3, 0.3, 7)
    smooth, bumped = np.full(7, 0.5), np.array([0.5, 0.5, 0.5, 0.6, 0.5, 0.5, 0.5])
    fit = smile.fit(np.tile(k, (2, 1)), np.stack([smooth, bumped]), np.full(2, 0.1), method="pchip")
    assert smile.butterfly_check(fit)["ok"].values.tolist() == [True, False]
    assert ((fit["status"] & int(Status.BUTTERFLY)) > 0).values.tolist() == [False, True]
