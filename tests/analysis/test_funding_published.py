"""Every published and hand-derived funding figure, row by row; no row may be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

from derivdata import units
from derivdata.analysis import funding
from derivdata.analysis.funding.payback import hours_to_earn
from tests.analysis.funding_made import dollars, market, series
from tests.support.shared import known

HOURLY = [0.0000125] * 8
MIXED_NATIVE = np.array([0.0001, 0.00005, -0.00002, 0.00004])
MIXED_HOURS = np.array([8.0, 4.0, 4.0, 4.0])


def _hourly(*, compound: bool) -> float:
    panel = series(units.convert(np.array(HOURLY), "native", "bps_8h", hours=1.0), step=1.0)
    return float(funding.cumulative(panel, compound=compound)["funding_bps"][-1]) / 1e4


def _mixed() -> float:
    panel = series(
        units.convert(MIXED_NATIVE, "native", "bps_8h", hours=MIXED_HOURS), hours=[8.0, 12.0, 16.0, 20.0]
    )
    return float(
        funding.cumulative(panel.assign_coords(interval_hours=("time", MIXED_HOURS)))["funding_bps"][-1]
    )


def _weighted(rates: list[float]) -> float:
    panel = market(np.array(rates).reshape(1, 3, 1))
    oi = dollars(panel).copy(data=np.array([100.0, 50.0, 50.0]).reshape(1, 3, 1))
    return float(funding.oi_weighted(panel, oi)["rate_bps_8h"].squeeze())


def _on_capital() -> float:
    """Constant 5 bps/8h: a fifth of one leg's notional is the capital of either."""
    rows = np.stack([np.full(60, -2.0), np.full(60, 3.0)])[None]
    paid = funding.realised_carry(market(rows), "v00", "v01", "2026-01-01", "2026-01-11", fee_bps=0.0)
    return float(units.convert(paid["net_bps"].squeeze(), "bps", "apr", hours=240.0)) / (1 / 5 + 1 / 5)


def _pair_carry() -> float:
    panel = market(np.array([-2.0, 3.0]).reshape(1, 2, 1), venues=["A", "B"])
    return float(funding.spread(panel, "A", "B").squeeze())


def _reverting(cost: float, mean: float) -> float:
    return float(hours_to_earn(5.0, cost, mean, 24.0))


VENUES_OWN = {"hl_funding_8h", "deribit_funding_8h"}
"""Rows that a venue computes from its premium; the package takes the venue's rate."""

FIGURES: dict[tuple[str, str], Callable[[], Any]] = {
    ("simple_apr", "f=0.0001 per 8h"): lambda: units.convert(
        units.convert(0.0001, "native", "bps_8h", hours=8), "bps_8h", "apr"
    ),
    ("compound_apy", "f=0.0001 per 8h"): lambda: units.convert(1.0, "bps_8h", "apy", hours=8),
    ("compound_apy", "f=0.0000125 per 1h"): lambda: units.convert(1.0, "bps_8h", "apy", hours=1),
    ("to_8h_bps", "raw=0.0000125 interval=1h"): lambda: units.convert(0.0000125, "native", "bps_8h", hours=1),
    ("to_8h_bps", "raw=0.0001 interval=8h"): lambda: units.convert(0.0001, "native", "bps_8h", hours=8),
    ("to_8h_bps", "raw=-0.00023 interval=4h"): lambda: units.convert(-0.00023, "native", "bps_8h", hours=4),
    ("from_8h_bps", "8h_bps=-4.6 to 4h decimal"): lambda: units.convert(-4.6, "bps_8h", "native", hours=4),
    ("apr_simple_from_8h_bps", "8h_bps=1"): lambda: units.convert(1.0, "bps_8h", "apr"),
    ("hl_payment_1h", "rate_8h=0.0095 position=10 coin oracle=10000"): lambda: (
        10 * 10_000 * units.convert(95.0, "bps_8h", "bps", hours=1.0) / 1e4
    ),
    ("deribit_payment", "rate_8h=0.00075 position=10000 USD held 1 minute"): lambda: (
        10_000 * units.convert(7.5, "bps_8h", "bps", hours=1 / 60) / 1e4
    ),
    ("cumulative_simple", "8 hourly payments of 0.0000125"): lambda: _hourly(compound=False),
    ("cumulative_compound", "8 hourly payments of 0.0000125"): lambda: _hourly(compound=True),
    (
        "cumulative_mixed_interval",
        "+1.0 bps@8h, then three 4h settlements of raw 0.00005,-0.00002,0.00004 -> bps",
    ): _mixed,
    ("cumulative_from_8h_panel_WRONG", "same data summed as 8h-normalised bps"): lambda: float(
        units.convert(MIXED_NATIVE, "native", "bps_8h", hours=MIXED_HOURS).sum()
    ),
    ("pair_carry_8h_bps", "long A f=-2.0, short B f=+3.0"): _pair_carry,
    (
        "breakeven_hours",
        "carry=5 bps/8h, taker fees A=5 B=5 bps, in+out, both legs => cost 20 bps",
    ): lambda: hours_to_earn(5.0, 20.0, 5.0, np.inf),
    ("breakeven_hours_ou", "s0=5 mu=1 bps/8h, half-life 24h, cost=20 bps"): lambda: _reverting(20.0, 1.0),
    (
        "breakeven_hours_ou_none",
        "s0=5 mu=0, half-life 24h, cost=25 bps (max reachable 21.64)",
    ): lambda: _reverting(25.0, 0.0),
    ("oi_weighted_funding_bps", "f=[1,3,-2] oi_usd=[100,50,50]"): lambda: _weighted([1.0, 3.0, -2.0]),
    ("oi_weighted_funding_bps", "f=[1,nan,-2] oi_usd=[100,50,50] (pairwise drop)"): lambda: _weighted(
        [1.0, np.nan, -2.0]
    ),
    (
        "net_apr_on_capital",
        "carry 5 bps/8h, leverage 5x each leg (capital=2/5 of one-leg notional)",
    ): _on_capital,
}


def test_every_row_of_the_file_has_its_figure():
    rows = {(row["quantity"], row["inputs"]) for row in known("funding_expected")}
    assert {row for row in rows if row[0] not in VENUES_OWN} == set(FIGURES)


@pytest.mark.parametrize("key", FIGURES, ids=[f"{quantity}: {inputs}" for quantity, inputs in FIGURES])
def test_funding_figure(key):
    row = next(r for r in known("funding_expected") if (r["quantity"], r["inputs"]) == key)
    exact = row["tolerance"] in ("exact", "")
    expected = float(row["expected"])
    # "exact" is arithmetic: a double may miss the decimal by its own rounding.
    tolerance = 4e-16 * abs(expected) if exact else float(row["tolerance"])
    assert FIGURES[key]() == pytest.approx(expected, rel=0.0, abs=tolerance)


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
