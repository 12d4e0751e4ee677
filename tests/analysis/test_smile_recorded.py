"""Every expiry of the recorded Deribit chains: fitted, or refused with its reason."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.status import Status
from tests.analysis.deribit import STAMPS_2026, chain_2025, chain_2026

CHAINS = ("2025", *STAMPS_2026)


@cache
def quotes(stamp):
    """Log-moneyness, volatility out of the money and years of one recorded instant, over slice and strike."""
    if stamp == "2025":
        chain, now = chain_2025(), pd.Timestamp("2025-12-05 01:10")
        expiry, iv = chain["expiry"] + pd.Timedelta(hours=8), chain["iv"] / 100
    else:
        chain = chain_2026(stamp)
        now, expiry, iv = chain["time"].iloc[0], chain["expiry"], chain["iv"]
    table = pd.DataFrame(
        {
            "slice": chain["symbol"].astype(str) + " " + expiry.astype(str),
            "k": np.log(chain["strike"] / chain["underlying_price"]),
            "iv": iv.where(iv > 0),
            "t": (expiry - now).dt.total_seconds() / 31_536_000,
        }
    )
    table = table[(chain["side"] == "call") == (table["k"] > 0)]
    table["strike"] = table.sort_values("k").groupby("slice").cumcount()
    grid = table.set_index(["slice", "strike"]).to_xarray()
    return grid["k"], grid["iv"], grid["t"].max("strike")


def flags(fit):
    return {bit.name for bit in Status if ((fit["status"] & int(bit)) > 0).any()}


@pytest.mark.parametrize("stamp", CHAINS)
def test_every_expiry_is_fitted_or_refused_with_a_reason(stamp):
    k, iv, t = quotes(stamp)
    fit = smile.fit(k, iv, t, weights="equal")
    assert fit.sizes["slice"] >= 10
    fitted = fit["method"] > 0
    assert (fit["status"].where(~fitted, 1) > 0).all()
    assert fitted.all()
    np.testing.assert_array_equal(
        smile.butterfly_check(fit)["ok"], (fit["status"] & int(Status.BUTTERFLY)) == 0
    )
    assert flags(fit) <= {"BUTTERFLY", "TOO_FEW_STRIKES", "FALLBACK_USED", "NOT_CONVERGED"}


def test_median_errors_in_volatility_points():
    """Three quarters of the expiries within a volatility point; the rest expire within days."""
    errors = xr.concat(
        [smile.fit(*quotes(stamp), weights="equal")["rmse_vol"].drop_vars("slice") for stamp in CHAINS],
        "slice",
    )
    assert float(errors.median()) < 0.005
    assert float(errors.quantile(0.75)) < 0.01
