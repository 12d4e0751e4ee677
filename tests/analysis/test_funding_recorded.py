"""Recorded funding of real venues: zones, holes and outliers; values read by eye in the files."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding
from derivdata.analysis.funding.status import FundingStatus
from tests.analysis.funding_made import latest
from tests.support.recorded_funding import first_set
from tests.support.shared import shared_path

VENUES = ("binance", "bybit", "dydx", "gate", "htx", "kucoin", "mexc")


def _venue(venue: str) -> xr.DataArray:
    rates = first_set()["BTC", venue]
    hours = 1.0 if venue == "dydx" else 8.0
    coords = {"time": rates.index.to_numpy(), "interval_hours": ((), hours, {"units": "h"})}
    return xr.DataArray(
        rates.to_numpy(), dims="time", coords=coords, attrs={"units": "bps/8h", "kind": "settled"}
    )


def _settled(*venues: str, start: str, end: str) -> xr.DataArray:
    series = [_venue(venue).sel(time=slice(start, end)) for venue in venues]
    return xr.concat(series, xr.DataArray(list(venues), dims="exchange", name="exchange"), join="outer")


@pytest.mark.parametrize("venue", VENUES)
def test_every_venue_keeps_one_interval_through_holes_and_late_settlements(venue):
    found = funding.infer_interval(_venue(venue))
    known = found["interval_hours"].dropna("time")
    assert np.unique(known).tolist() == [1.0 if venue == "dydx" else 8.0]
    assert not found["changed"].any()
    # htx settled once more than its schedule on 2021-10-28 (3 h and 5 h apart): those two are not explained
    assert found["interval_hours"].isnull().sum() == (2 if venue == "htx" else 0)


def test_holes_of_gate_and_htx_are_counted_and_are_not_zero_funding():
    gate, htx = (funding.infer_interval(_venue(venue))["missing"] for venue in ("gate", "htx"))
    assert int(gate.sum()) == int(gate.sel(time="2021-01-01T00:00")) == 93  # 752 h after 2020-11-30 16:00
    assert int(htx.sum()) == int(htx.sel(time="2021-02-20T08:00")) == 2  # 24 h after 2021-02-19 08:00
    gate = _venue("gate").sel(time=slice("2020-11-01", "2021-01-02"))
    accrued = funding.cumulative(gate)["funding_bps"]
    assert np.isfinite(accrued.sel(time="2020-11-30T16:00"))
    assert accrued.sel(time=slice("2021-01-01", None)).isnull().all()
    skipping = funding.cumulative(gate, gaps="skip")
    assert float(skipping["missing_hours"][-1]) == 744.0


def test_a_held_pair_on_the_first_of_january_2021():
    """binance 2.2753, 2.6336, 3.4457 (some milliseconds late); bybit 3.4729, 1, 1."""
    panel = _settled("binance", "bybit", start="2020-12-30", end="2021-01-03")
    held = funding.realised_carry(
        panel,
        "bybit",
        "binance",
        "2020-12-31T23:59:59Z",
        "2021-01-01T16:01:00Z",
        fee_bps=0.5,
    )
    assert float(held["long_bps"]) == pytest.approx(-5.4729, abs=1e-10)
    assert float(held["short_bps"]) == pytest.approx(8.3546, abs=1e-10)
    assert float(held["net_bps"]) == pytest.approx(8.3546 - 5.4729 - 2.0, abs=1e-10)
    # bybit's file begins with the settlement of 2021-01-01 00:00, which pays from 16:00 on.
    held = funding.realised_carry(panel, "bybit", "binance", "2020-12-31T12:00", "2021-01-02", fee_bps=0.5)
    assert np.isnan(float(held["long_bps"]))
    assert int(held["status"]) == FundingStatus.GAP


def test_hourly_and_eight_hourly_venues_on_common_days():
    panel = _settled("binance", "dydx", "kucoin", start="2023-01-01", end="2023-03-31T23:59")
    found = funding.comovement(panel, period="24h")
    assert found["periods"].sel(first="binance", second="dydx", lag=0) >= 88
    accrued = latest(funding.cumulative(panel)["funding_bps"])
    by_hand = _venue("dydx").sel(time=slice("2023-01-01", "2023-03-31T23:59")).sum() / 8.0
    assert float(accrued.sel(exchange="dydx")) == pytest.approx(float(by_hand), rel=1e-12)
    assert float(by_hand) < 0.2 * float(accrued.sel(exchange="dydx")) * 8.0  # the sum of rates is no payment


@pytest.fixture(scope="module")
def snapshots() -> xr.DataArray:
    data = json.loads((shared_path("data/funding_snapshots_2026") / "snapshots.json").read_text())
    values = np.array([[row[1], row[2]] for row in data["rows"]], dtype=float)
    return xr.DataArray(
        values,
        dims=("time", "symbol", "exchange"),
        coords={
            "time": np.array([row[0].rstrip("Z") for row in data["rows"]], dtype="datetime64[us]"),
            "symbol": data["symbols"],
            "exchange": data["venues"],
        },
        attrs={"units": "bps/8h", "kind": "sampled"},
    )


@pytest.mark.parametrize(
    ("time", "symbol", "long", "short", "spread", "venues"),
    [
        ("2026-08-09T21:45:29", "BTC", "hotstuff", "reya", 1.511134 + 0.96, 38),
        ("2026-08-09T21:45:29", "ETH", "vest", "coinbaseus", 1.12 + 2.3208, 38),
        ("2026-08-09T22:50:29", "BTC", "kucoin", "hotstuff", 1.68 + 0.36, 38),
        ("2026-08-15T11:13:14", "BTC", "bluefin", "risex", 1.829858 + 42.99856, 39),
        ("2026-08-15T23:59:18", "BTC", "edgex", "reya", 1.157506 + 1.1592, 39),
        ("2026-08-15T23:59:18", "ETH", "vest", "woofipro", 1.0087 + 1.7968, 39),
    ],
)
def test_the_best_of_thirty_nine_venues(snapshots, time, symbol, long, short, spread, venues):
    at = funding.best_pair(snapshots).sel(time=time, symbol=symbol)
    assert (str(at["long"].values), str(at["short"].values)) == (long, short)
    assert float(at["spread_bps_8h"]) == pytest.approx(spread, abs=1e-12)
    assert int(at["venues"]) == venues


def test_no_venue_of_a_week_is_said_to_change_its_sign(snapshots):
    table = snapshots.rename("rate_bps_8h").to_series().dropna().reset_index()
    report = dd.quality(table.assign(time=table["time"].dt.tz_localize("UTC")))
    assert (len(report), int(report["sign_change"].sum())) == (78, 0)


def test_samples_are_held_until_the_next_and_holes_are_counted(snapshots):
    """binance, BTC: 0.9398 for the 27.25 minutes to 22:12:44, then 0.9367 for 37.75 to 22:50:29."""
    accrued = funding.cumulative(snapshots, max_gap="3h")["funding_bps"].sel(symbol="BTC", exchange="binance")
    assert float(accrued[0]) == pytest.approx(0.9398 * (27.25 / 60) / 8, rel=1e-12)
    assert float(accrued[1]) == pytest.approx((0.9398 * 27.25 + 0.9367 * 37.75) / 60 / 8, rel=1e-12)
    assert np.isfinite(accrued).all()
    accrued = funding.cumulative(snapshots)
    assert np.isnan(accrued["funding_bps"].sel(symbol="BTC", exchange="binance")[0])  # 27 minutes to the next
    missing = funding.cumulative(snapshots, gaps="skip")["missing_hours"].sel(
        symbol="BTC", exchange="binance"
    )
    assert float(missing[0]) == pytest.approx((27.25 - 20.0) / 60, rel=1e-9)
