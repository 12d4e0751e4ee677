"""The eSSVI surfaces of ``sample@1`` come back from what the service serves, for every symbol and venue."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import surface, variance
from derivdata.sources import sample
from derivdata.tables import endpoints

NOW = "2026-06-30T12:00"
PAIRS = [(symbol, venue) for symbol, venues in endpoints.OPTIONS_MATRIX.items() for venue in venues]


@pytest.fixture(scope="module", autouse=True)
def _sample() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DERIVDATA_BASE_URL", raising=False)
        yield


def truth(symbol: str, venue: str) -> xr.Dataset:
    frame = sample.truth(
        "surface",
        symbols=[symbol],
        venues=[venue],
        start=NOW,
        end="2026-06-30T13:00",
        source="sample@1",
    )
    frame = frame.assign(expiry=frame["expiry"].dt.tz_localize(None)).set_index("expiry")
    return frame[["theta", "rho", "psi"]].to_xarray()


@pytest.mark.parametrize(("symbol", "venue"), PAIRS)
def test_essvi_finds_the_true_parameters(symbol: str, venue: str) -> None:
    dd.connect("sample@1")
    fit = surface.from_chain(dd.options.surface(symbol, venue), method="essvi", weights="equal")
    known = truth(symbol, venue).sel(expiry=fit["expiry"])
    for name, tolerance in (("theta", 2e-5), ("rho", 2e-3), ("psi", 2e-3)):
        np.testing.assert_allclose(fit[name], known[name], rtol=tolerance, atol=tolerance * 0.1)
    assert float(fit["rmse_vol"].max()) < 1e-6, "volatilities are served with six digits"
    assert int(fit["status"].max()) == 0
    assert bool(surface.calendar_check(fit)["ok"].all())


def test_model_free_variance_is_that_of_the_true_surface() -> None:
    dd.connect("sample@1")
    fit = surface.from_chain(dd.options.surface("BTC", "deribit"), method="essvi", weights="equal")
    known = truth("BTC", "deribit").sel(expiry=fit["expiry"])
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


def test_surfaces_of_venues_and_hours_fit_in_one_call() -> None:
    dd.connect("sample@1")
    history = dd.options.surface_history("BTC", "deribit", "3h")
    many = surface.from_chain(history, method="essvi", weights="equal")
    assert set(many["theta"].dims) == {"time", "expiry"}
    last = surface.from_chain(history.isel(time=-1), method="essvi", weights="equal")
    there = last["theta"].dropna("expiry")["expiry"]
    np.testing.assert_allclose(
        many["theta"].isel(time=-1).sel(expiry=there), last["theta"].sel(expiry=there), rtol=1e-6
    )
