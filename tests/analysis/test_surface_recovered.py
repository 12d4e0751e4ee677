"""eSSVI surfaces with known parameters come back from quotes at the strikes of the sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import surface, variance
from derivdata.tables import endpoints

PAIRS = [(symbol, venue) for symbol, venues in endpoints.OPTIONS_MATRIX.items() for venue in venues]


@pytest.fixture(scope="module", autouse=True)
def _sample() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DERIVDATA_BASE_URL", raising=False)
        yield


def truth(quotes: xr.Dataset) -> xr.Dataset:
    """Slices without arbitrage: θ grows, ψ grows, ψ/θ falls, and ρ moves slowly."""
    years = quotes["year_fraction"]
    short, long = 0.30, 0.36
    theta = long * years + (short - long) * -np.expm1(-5.0 * years) / 5.0
    rho = -0.30 + 0.18 * np.exp(-years / 0.4)
    psi = 0.85 * np.sqrt(theta / (1.0 + theta))
    return xr.Dataset({"theta": theta, "rho": rho, "psi": psi}).drop_vars("year_fraction")


def quoted(quotes: xr.Dataset) -> xr.Dataset:
    """The chain with the volatilities of `truth`, in six digits as a service writes them."""
    p = truth(quotes)
    k = np.log(quotes["strike"] / quotes["underlying_price"])
    x = p["psi"] / p["theta"] * k
    w = p["theta"] / 2 * (1 + p["rho"] * x + np.sqrt((x + p["rho"]) ** 2 + 1 - p["rho"] ** 2))
    iv = np.sqrt(w / quotes["year_fraction"]).round(6)
    return quotes.assign(iv=iv.where(quotes["observed"]).transpose(*quotes["iv"].dims))


def test_essvi_finds_the_true_parameters() -> None:
    dd.connect("sample")
    failures = []
    for symbol, venue in PAIRS:
        chain = quoted(dd.options.surface(symbol, venue))
        fit = surface.from_chain(chain, method="essvi", weights="equal")
        known = truth(chain).sel(expiry=fit["expiry"])
        right = {
            name: np.allclose(fit[name], known[name], rtol=tolerance, atol=tolerance * 0.1)
            for name, tolerance in (("theta", 2e-5), ("rho", 2e-3), ("psi", 2e-3))
        }
        right["six digits of volatility"] = float(fit["rmse_vol"].max()) < 1e-6
        right["status"] = int(fit["status"].max()) == 0
        right["calendar"] = bool(surface.calendar_check(fit)["ok"].all())
        failures += [f"{symbol} on {venue}: {name}" for name, ok in right.items() if not ok]
    assert failures == []


def test_model_free_variance_is_that_of_the_true_surface() -> None:
    dd.connect("sample")
    chain = quoted(dd.options.surface("BTC", "deribit"))
    fit = surface.from_chain(chain, method="essvi", weights="equal")
    known = truth(chain).sel(expiry=fit["expiry"])
    exact = surface.from_essvi(
        known["theta"],
        known["rho"],
        known["psi"],
        fit["year_fraction"],
        k_min=fit["k_min"],
        k_max=fit["k_max"],
    )
    mine, true = (variance.model_free(s, method="fukasawa")["total_variance"] for s in (fit, exact))
    np.testing.assert_allclose(mine, true, rtol=1e-4)
