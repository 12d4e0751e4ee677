"""Hagan's SABR volatility and its fits."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import QuantLib as ql
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.smile.sabr import _curve
from derivdata.analysis.status import Status
from tests.shared import known_path

SETS = [
    smile.Sabr(0.6, 1.0, -0.3, 1.2),
    smile.Sabr(0.6, 0.5, 0.7, 0.8),
    smile.Sabr(0.4, 0.0, 0.0, 1.5),
    smile.Sabr(0.6, 1.0, -0.95, 3.0),
]


def test_published_volatilities():
    """QuantLib's test of the expansion of Hagan et al. 2002, to 1e-12."""
    table = pd.read_csv(known_path("sabr_hagan2002"))
    k = np.log(table["strike"] / table["forward"]).to_numpy()
    sabr = smile.Sabr(*(table[name].to_numpy() for name in ("alpha", "beta", "rho", "nu")))
    got = smile.sabr_iv(k, sabr, table["T"].to_numpy(), forward=table["forward"].to_numpy())
    np.testing.assert_allclose(got, table["lognormal_vol"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("sabr", SETS)
def test_quantlib_agrees_away_from_the_money_too(sabr):
    for strike in (20.0, 60.0, 99.0, 100.0, 101.0, 160.0, 400.0):
        alpha = sabr.alpha * 100 ** (1 - sabr.beta)
        expected = ql.sabrVolatility(strike, 100.0, 0.3, alpha, sabr.beta, sabr.nu, sabr.rho)
        got = smile.sabr_iv(np.log(strike / 100), sabr._replace(alpha=alpha), 0.3, forward=100.0)
        assert float(got) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("sabr", SETS)
def test_derivatives_are_those_of_the_curve(sabr):
    """Across the switch between series and closed form."""
    k = np.concatenate([np.linspace(-0.6, 0.6, 13), [-1e-2, -1e-4, -1e-9, 1e-9, 1e-4, 1e-2]])
    iv = smile.sabr_iv(np.linspace(-0.7, 0.7, 15), sabr, 0.3)
    fit = smile.fit(np.linspace(-0.7, 0.7, 15), iv, 0.3, method="sabr", beta=sabr.beta, weights="equal")
    step = 1e-4

    def w(x, derivative=0):
        return smile.total_variance(fit, x, derivative=derivative).values

    for derivative, tolerance in ((1, 1e-6), (2, 1e-5)):
        slope = (w(k + step, derivative - 1) - w(k - step, derivative - 1)) / (2 * step)
        np.testing.assert_allclose(w(k, derivative), slope, atol=tolerance * max(1, np.abs(slope).max()))


@pytest.mark.parametrize("sabr", SETS)
def test_slopes_of_the_search_are_those_of_the_volatility(sabr):
    """In ln alpha, rho and ln nu: a wrong one costs iterations, and no fit shows it."""
    k, constants = np.linspace(-0.4, 0.5, 10), np.array([[sabr.beta], [0.3], [100.0]])
    x = np.array([[np.log(sabr.alpha * 100 ** (1 - sabr.beta))], [sabr.rho], [np.log(sabr.nu)]])
    slopes, step = _curve(x, constants, k)[1][:, 0], 1e-5
    for place, moved in enumerate(np.eye(3)[:, :, None] * step):
        up, down = (_curve(x + sign * moved, constants, k)[0] for sign in (1, -1))
        np.testing.assert_allclose(slopes[place], ((up - down) / (2 * step))[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_parameters_are_recovered(beta):
    rng = np.random.default_rng(0)
    size = 200
    t = np.exp(rng.uniform(np.log(3 / 365), 0.0, size))
    alpha, rho = rng.uniform(0.3, 1.2, size), rng.uniform(-0.7, 0.7, size)
    nu = rng.uniform(0.2, 1.2, size) / np.sqrt(t)
    forward = rng.uniform(50, 150, size)
    sabr = smile.Sabr(alpha * forward ** (1 - beta), np.full(size, beta), rho, nu)
    k = np.linspace(-2, 2, 15) * (alpha * np.sqrt(t))[:, None]
    iv = smile.sabr_iv(k, smile.Sabr(*(x[:, None] for x in sabr)), t[:, None], forward=forward[:, None])
    fit = smile.fit(k, iv, t, method="sabr", beta=beta, forward=forward, weights="equal")
    for name, truth in zip(("sabr_alpha", "sabr_beta", "sabr_rho", "sabr_nu"), sabr, strict=True):
        np.testing.assert_allclose(fit[name], truth, rtol=1e-8, atol=1e-8)
    assert (fit["status"] & int(Status.NOT_CONVERGED) == 0).all()


def test_without_a_forward_it_is_one():
    k = np.linspace(-0.5, 0.5, 9)
    iv = smile.sabr_iv(k, SETS[1], 0.3)
    fit = smile.fit(k, iv, 0.3, method="sabr", beta=0.5, weights="equal")
    assert float(fit["sabr_alpha"]) == pytest.approx(0.6, rel=1e-8)
    given = smile.fit(k, iv, 0.3, method="sabr", beta=0.5, forward=100.0, weights="equal")
    assert float(given["sabr_alpha"]) == pytest.approx(6.0, rel=1e-8)
    np.testing.assert_allclose(smile.iv(given, k), iv, rtol=1e-8)


def test_far_from_the_quotes_there_is_no_answer():
    k = np.linspace(-0.3, 0.3, 9)
    fit = smile.fit(k, smile.sabr_iv(k, SETS[0], 0.25), 0.25, method="sabr", weights="equal")
    reach = 0.3 + np.sqrt(float(smile.total_variance(fit, 0.0)))
    got = smile.iv(fit, np.array([-0.31, reach - 1e-9, reach + 1e-9]), extrapolate=True)
    assert got.isnull().values.tolist() == [False, False, True]


def test_an_arbitrageable_expansion_is_flagged():
    """Low strikes and a large ν²T: the density that the formula implies is negative."""
    sabr = smile.Sabr(0.35, 0.5, -0.3, 1.2)
    k = np.linspace(-3.0, 0.6, 25)
    fit = smile.fit(k, smile.sabr_iv(k, sabr, 4.0), 4.0, method="sabr", beta=0.5, weights="equal")
    assert float(fit["rmse_vol"]) < 1e-8
    found = smile.butterfly_check(fit)
    assert float(found["min_g"]) < -1e-3
    assert not found["ok"]
    assert int(fit["status"]) == Status.BUTTERFLY
    assert np.isnan(found["g_left"])


def test_labels_and_laziness_are_kept():
    k = xr.DataArray(np.linspace(-0.2, 0.2, 6), dims="strike")
    sabr = SETS[0]._replace(nu=xr.DataArray([0.5, 1.0], dims="expiry"))
    whole, lazy = (smile.sabr_iv(x, sabr, 0.3) for x in (k, k.chunk({"strike": 2})))
    assert set(whole.dims) == {"expiry", "strike"}
    assert isinstance(lazy.data, da.Array)
    xr.testing.assert_allclose(lazy.compute(), whole)
