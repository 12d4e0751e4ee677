import json

import numpy as np
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding
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


def test_a_held_pair_on_the_first_of_january_2021():
    """binance 2.2753, 2.6336, 3.4457 (some milliseconds late); bybit 3.4729, 1, 1."""
    panel = _settled("binance", "bybit", start="2020-12-30", end="2021-01-03")
    held = funding.realised_carry(
        panel, "bybit", "binance", "2020-12-31T23:59:59Z", "2021-01-01T16:01:00Z", fee_bps=0.5
    )
    assert float(held["long_bps"]) == pytest.approx(-5.4729, abs=1e-10)
    assert float(held["short_bps"]) == pytest.approx(8.3546, abs=1e-10)
    assert float(held["net_bps"]) == pytest.approx(8.3546 - 5.4729 - 2.0, abs=1e-10)


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
