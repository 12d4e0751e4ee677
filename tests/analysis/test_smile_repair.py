"""Butterflies taken out, and what cannot be repaired left in plain sight."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.status import Status
from tests.analysis.smiles import crypto_like, published, raw_sets

K = np.linspace(-1.5, 1.5, 61)


def quotes_of(name):
    return K, np.sqrt(smile.raw_total_variance(K, raw_sets()[name])), 1.0


def has(fit, bit):
    return (fit["status"] & int(bit)).astype(bool).values


@pytest.mark.parametrize("repair", ["penalty", "gj", "ssvi"])
def test_every_repair_frees_vogts_slice(repair):
    fit = smile.fit(*quotes_of("vogt"), arbitrage=repair, weights="equal")
    assert smile.butterfly_check(fit)["ok"]
    assert fit["repaired"]
    assert not has(fit, Status.BUTTERFLY)


def test_the_penalty_moves_the_smiles_little():
    """Largest move in volatility points: 1.5 and 0.6, where Gatheral and Jacquier's optimum moves 6.9."""
    for name, most in (("vogt", 0.015), ("market_like", 0.006)):
        k, iv, t = quotes_of(name)
        fit = smile.fit(k, iv, t, arbitrage="penalty", weights="equal")
        assert smile.butterfly_check(fit)["ok"]
        assert float(np.abs(smile.iv(fit, k) - iv).max()) < most


def test_closed_form_is_gatheral_and_jacquiers():
    """Example 5.1: c' and ṽ', and the raw slice that they give."""
    repaired = smile.gj_repair(raw_sets()["vogt"], 1.0)
    assert repaired.guaranteed
    np.testing.assert_allclose(repaired.raw, raw_sets()["vogt_guaranteed"], rtol=0, atol=1e-13)
    before = smile.svi_raw_to_jump_wings(raw_sets()["vogt"], 1.0)
    wings, expected = smile.svi_raw_to_jump_wings(repaired.raw, 1.0), published("vogt_guaranteed", "jw")
    np.testing.assert_allclose([wings.c, wings.v_min], [expected["c"], expected["vtilde"]], rtol=1e-12)
    np.testing.assert_allclose(wings[:3], before[:3], rtol=1e-12)


@pytest.mark.parametrize("name", ["vogt_guaranteed", "market_like_gj_repair"])
def test_conditions_of_the_guarantee(name):
    """Remark 4.2, which example 5.1 leaves out."""
    expected = published(name, "guarantee")
    wings = smile.svi_raw_to_jump_wings(raw_sets()[name], 1.0)
    steepest = max(wings.p, wings.c)
    assert np.sqrt(wings.v) * steepest == pytest.approx(expected["sqrt(w0)*max(p,c)"], abs=1e-7)
    assert (wings.p + wings.c) * steepest == pytest.approx(expected["(p+c)*max(p,c)"], rel=1e-12)


def test_the_closed_form_is_refused_where_its_conditions_fail():
    """market_like: the formula gives a slice with three times the arbitrage."""
    repaired = smile.gj_repair(raw_sets()["market_like"], 1.0)
    assert not repaired.guaranteed
    np.testing.assert_allclose(repaired.raw, raw_sets()["market_like_gj_repair"], rtol=0, atol=1e-13)
    fit = smile.fit(*quotes_of("market_like"), arbitrage="gj", weights="equal")
    assert has(fit, Status.BUTTERFLY)
    assert not fit["repaired"]
    np.testing.assert_allclose(smile.raw_parameters(fit), raw_sets()["market_like"], atol=1e-8)


def test_the_guarantee_holds_on_random_slices():
    rng = np.random.default_rng(6)
    b, rho = np.exp(rng.uniform(-3, 0, 4000)), rng.uniform(-0.95, 0.95, 4000)
    m, sigma = rng.normal(0, 0.3, 4000), np.exp(rng.uniform(-3, 0.5, 4000))
    a = np.exp(rng.uniform(-5, -1, 4000)) - b * sigma * np.sqrt(1 - rho**2)
    raw = smile.Raw(*(xr.DataArray(x, dims="n") for x in (a, b, rho, m, sigma)))
    bad = ~smile.butterfly_check(smile.from_raw(raw, 1.0))["ok"].values
    repaired = smile.gj_repair(smile.Raw(*(x[bad] for x in raw)), 1.0)
    free = smile.butterfly_check(smile.from_raw(repaired.raw, 1.0))["ok"]
    assert int(repaired.guaranteed.sum()) > 50
    assert free.values[repaired.guaranteed.values].all()
    assert not free.all()


@pytest.mark.parametrize(("repair", "least"), [("penalty", 0.9), ("ssvi", 1.0)])
def test_noisy_batches(repair, least):
    k, iv, t, _ = crypto_like(150, 14, seed=30, noise=0.02, fewest=6)
    flagged, fit = (
        smile.fit(k, iv, t, weights="equal"),
        smile.fit(k, iv, t, arbitrage=repair, weights="equal"),
    )
    bad = has(flagged, Status.BUTTERFLY)
    assert bad.sum() > 10
    np.testing.assert_array_equal(fit["repaired"] | has(fit, Status.BUTTERFLY), bad)
    assert fit["repaired"].values[bad].mean() >= least
    np.testing.assert_array_equal(smile.butterfly_check(fit)["ok"], ~has(fit, Status.BUTTERFLY))
    untouched = np.flatnonzero(~bad)
    xr.testing.assert_identical(fit["a"][untouched], flagged["a"][untouched])


def test_ssvi_says_what_it_took_the_place_of():
    fit = smile.fit(*quotes_of("market_like"), arbitrage="ssvi", weights="equal")
    assert int(fit["method"]) == smile.Method.SSVI
    assert has(fit, Status.FALLBACK_USED)
    natural = smile.svi_raw_to_natural(smile.raw_parameters(fit))
    assert smile.ssvi_conditions(natural.omega, natural.rho, natural.zeta).free


def test_ssvi_takes_the_place_of_an_interpolated_slice():
    k, iv, t, _ = crypto_like(40, 10, seed=31, noise=0.06)
    bad = has(smile.fit(k, iv, t, method="pchip", weights="equal"), Status.BUTTERFLY)
    fit = smile.fit(k, iv, t, method="pchip", arbitrage="ssvi", weights="equal")
    assert bad.any()
    np.testing.assert_array_equal(fit["method"] == smile.Method.SSVI, bad)
    assert smile.butterfly_check(fit)["ok"].all()


def test_ssvi_takes_the_place_of_a_sabr_slice():
    k = np.linspace(-3.0, 0.6, 25)
    iv = smile.sabr_iv(k, smile.Sabr(0.35, 0.5, -0.3, 1.2), 4.0)
    fit = smile.fit(k, iv, 4.0, method="sabr", beta=0.5, arbitrage="ssvi", weights="equal")
    assert int(fit["method"]) == smile.Method.SSVI
    assert fit["repaired"]
    assert smile.butterfly_check(fit)["ok"]
