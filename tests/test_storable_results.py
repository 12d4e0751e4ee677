"""Results are written to zarr and netCDF in parts: times, text and attributes are preserved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding, oi, surface

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def rates() -> xr.DataArray:
    dd.connect("sample", cache="off")
    return dd.panel(
        dd.funding.history("BTC", "2026-06-10", "2026-06-12", venues=["binance", "okx", "hyperliquid"])
    )


def test_times_appended_to_zarr_are_unchanged(rates: xr.DataArray, tmp_path: Path) -> None:
    parts = rates.to_dataset(name="rate")
    parts.isel(time=slice(0, 1)).to_zarr(tmp_path / "rates", consolidated=False)
    for place in range(1, 4):
        one_hour = parts.isel(time=slice(place, place + 1))
        one_hour.to_zarr(tmp_path / "rates", append_dim="time", consolidated=False)
    stored = xr.open_zarr(tmp_path / "rates", consolidated=False)["time"].values
    expected = pd.date_range("2026-06-10", periods=4, freq="h")
    assert stored.astype("datetime64[us]").tolist() == list(expected.to_pydatetime())


def test_venue_names_appended_to_zarr_are_not_truncated(rates: xr.DataArray, tmp_path: Path) -> None:
    """``okx`` comes first, ``hyperliquid`` is appended."""
    first = funding.best_pair(rates.sel(exchange=["binance", "okx"]).isel(time=slice(0, 5)))
    later = funding.best_pair(rates.isel(time=slice(5, 48)))
    assert first["long"].dtype == later["long"].dtype == object
    first.to_zarr(tmp_path / "pairs", consolidated=False)
    later.to_zarr(tmp_path / "pairs", append_dim="time", consolidated=False)
    stored = xr.open_zarr(tmp_path / "pairs", consolidated=False)["long"].values.ravel().tolist()
    assert stored == [*first["long"].values.ravel(), *later["long"].values.ravel()]


@pytest.mark.parametrize("missing", [False, True])
def test_times_have_one_encoding(missing: bool, tmp_path: Path) -> None:
    dd.connect("sample", cache="off")
    fit = surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    for name in ("expiry",):
        assert fit[name].encoding["units"] == "microseconds since 1970-01-01"
        assert fit[name].encoding["dtype"] == "int64"
    shifted = fit.assign(next_time=fit["expiry"].shift(expiry=-1) if missing else fit["expiry"])
    shifted.drop_attrs().to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "fit.nc", engine="h5netcdf") as stored:
        np.testing.assert_array_equal(stored["next_time"].values, shifted["next_time"].values)


def test_lists_in_attributes_are_text(tmp_path: Path) -> None:
    dd.connect("sample", cache="off")
    open_interest = dd.panel(dd.oi.history("BTC", "2d", venues=["binance", "okx", "risex"]), "oi_usd")
    share: Any = oi.market_share(
        open_interest.where(
            (open_interest["exchange"] != "okx") | (open_interest["time"] > open_interest["time"][9])
        )
    )
    assert share.attrs["dropped"] == "BTC/okx"
    share.to_netcdf(tmp_path / "share.nc", engine="h5netcdf")
    with xr.open_dataarray(tmp_path / "share.nc", engine="h5netcdf") as stored:
        assert stored.attrs["dropped"] == "BTC/okx"
    assert oi.market_share(open_interest).attrs["dropped"] == ""
