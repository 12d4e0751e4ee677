from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import funding
from tests.analysis.funding_made import series
from tests.support.shared import known


def test_published_pairs():
    rates = known("funding_pair_panel")
    panel = xr.DataArray(
        [[float(row[venue] or "nan") for venue in "abc"] for row in rates],
        dims=("time", "exchange"),
        coords={
            "time": np.array([row["time"].rstrip("Z") for row in rates], "datetime64[us]"),
            "exchange": list("abc"),
        },
        attrs={"units": "bps/8h", "kind": "settled"},
    )
    best = funding.best_pair(panel)
    for place, row in enumerate(known("funding_pair_expected")):
        at = best.isel(time=place)
        assert (str(at["long"].values), str(at["short"].values)) == (row["long"], row["short"])
        assert float(at["spread_bps_8h"]) == pytest.approx(float(row["spread_bps_8h"]), abs=2e-16)
    assert best["venues"].values.tolist() == [3, 3, 2, 3]


def _lh() -> xr.Dataset:
    values = [float(row["value"]) for row in known("ar1_lh_series")]
    return funding.half_life(series(values), method="ols", level=None)


AUTOREGRESSION: dict[str, Callable[[xr.Dataset], Any]] = {
    "phi_ols": lambda ols: ols["phi"],
    # R demeans by the series' mean, 2.4 for these 48 values: c' = c − (1 − φ) × 2.4.
    "ar_ols_intercept (demeaned by series mean)": lambda ols: (
        ols["intercept_bps_8h"] - (1.0 - ols["phi"]) * 2.4
    ),
    "sigma2_ols (RSS/n)": lambda ols: ols["noise_variance"],
    "c_ols (x_t=c+phi x_{t-1})": lambda ols: ols["intercept_bps_8h"],
    "long_run_mean=c/(1-phi)": lambda ols: ols["mean_bps_8h"],
    "half_life_steps=-ln2/ln(phi)": lambda ols: ols["half_life_hours"] / 8.0,
    "half_life_hours_if_step_8h": lambda ols: ols["half_life_hours"],
    "ou_kappa_per_day_if_step_8h": lambda ols: 24.0 * np.log(2.0) / ols["half_life_hours"],
    "phi_bias_corrected=(n*phi+1)/(n-3) (Marriott-Pope/Kendall), n=47 pairs": lambda ols: ols[
        "phi_corrected"
    ],
    "half_life_steps_bias_corrected": lambda ols: ols["half_life_corrected_hours"] / 8.0,
}


def test_autoregression_of_the_lh_series():
    """R's ``lh`` with ``ar.ols``; the rows of ``arima`` are those of another estimator."""
    ols = _lh()
    rows = [row for row in known("ar1_expected") if not row["quantity"].endswith("_ml")]
    assert {row["quantity"] for row in rows} == set(AUTOREGRESSION)
    for row in rows:
        found = float(AUTOREGRESSION[row["quantity"]](ols))
        if row["published"]:
            published = pytest.approx(float(row["published"]), rel=0.0, abs=float(row["tolerance"]))
            assert found == published, row["quantity"]
        # Half a printed unit and the rounding of numbers of order one.
        printed = 0.5 * 10.0 ** -len(row["value"].partition(".")[2]) + 1e-14 * max(1.0, found)
        assert found == pytest.approx(float(row["value"]), rel=0.0, abs=printed), row["quantity"]
    assert int(ols["pairs"]) == 47
