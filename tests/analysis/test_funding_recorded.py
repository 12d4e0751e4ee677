import json

import numpy as np
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding
from tests.support.shared import shared_path


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


def test_recorded_week_has_no_false_alarm_of_sign_changes(snapshots):
    table = snapshots.rename("rate_bps_8h").to_series().dropna().reset_index()
    report = dd.quality(table.assign(time=table["time"].dt.tz_localize("UTC")))
    assert (len(report), int(report["sign_change"].sum())) == (78, 0)


def test_recorded_samples_are_held_until_the_next_and_gaps_counted(snapshots):
    """binance, BTC: 0.9398 for the 27.25 minutes to 22:12:44, then 0.9367 for 37.75 to 22:50:29."""
    accrued = funding.cumulative(snapshots, max_gap="3h")["funding_bps"].sel(symbol="BTC", exchange="binance")
    assert float(accrued[0]) == pytest.approx(0.9398 * (27.25 / 60) / 8, rel=1e-12)
    assert float(accrued[1]) == pytest.approx((0.9398 * 27.25 + 0.9367 * 37.75) / 60 / 8, rel=1e-12)
    assert np.isfinite(accrued).all()
