"""Results over pairs of venues are selected by their legs, and stay plain in files and DataFrames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis.funding.pairs import PairIndex, pair_coordinates

LONG = ["okx", "okx", "bybit"]
SHORT = ["bybit", "gate", "gate"]


@pytest.fixture
def pairs() -> xr.Dataset:
    figures = {"net_bps": (("symbol", "pair"), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])}
    return xr.Dataset(figures, {"symbol": ["BTC", "ETH"]}).assign_coords(pair_coordinates(LONG, SHORT))


def test_a_pair_is_selected_by_its_legs_or_its_label(pairs: xr.Dataset) -> None:
    chosen = pairs.sel(long="okx", short="gate")
    assert chosen["net_bps"].values.tolist() == [1.0, 4.0]
    assert (chosen["long"].item(), chosen["short"].item()) == ("okx", "gate")
    assert pairs.sel(pair="okx/gate")["net_bps"].identical(chosen["net_bps"])
    assert pairs["net_bps"].sel(symbol="ETH", long="okx", short="bybit").item() == 3.0


def test_one_leg_or_several_select_all_their_pairs(pairs: xr.Dataset) -> None:
    assert pairs.sel(long="okx")["pair"].values.tolist() == ["okx/bybit", "okx/gate"]
    assert pairs.sel(long=["okx", "bybit"], short="gate")["net_bps"].values.tolist() == [[1, 2], [4, 5]]


def test_unknown_pair_raises_with_its_name(pairs: xr.Dataset) -> None:
    with pytest.raises(
        KeyError, match="no pair matches long='gate', short='okx'; available pairs: okx/bybit"
    ):
        pairs.sel(long="gate", short="okx")
    with pytest.raises(TypeError, match="got a slice"):
        pairs.sel(long=slice("a", "b"))


def test_selections_and_sums_of_results_keep_the_legs(pairs: xr.Dataset) -> None:
    later = pairs.isel(pair=[2, 1])
    assert later.sel(long="bybit", short="gate")["net_bps"].values.tolist() == [2.0, 5.0]
    assert (later["net_bps"] - later["net_bps"]).sel(long="okx", short="gate").values.tolist() == [0, 0]
    joined = xr.concat([pairs.isel(pair=[0]), later], "pair")
    assert joined.sel(long="okx", short="gate")["net_bps"].values.tolist() == [1.0, 4.0]
    assert pairs.where(pairs["net_bps"].mean("symbol") > 2, drop=True).sizes["pair"] == 2
    assert pairs.rename(long="bought").sel(bought="okx", short="gate").sizes == {"symbol": 2}


def test_a_dataframe_has_the_pair_as_label(pairs: xr.Dataset) -> None:
    frame = pairs.to_dataframe()
    assert frame.index.names == ["symbol", "pair"]
    assert frame.loc[("ETH", "okx/gate"), "net_bps"] == 4.0
    columns = pairs.drop_indexes(["long", "short"]).to_dataframe()
    assert columns.loc[("ETH", "okx/gate"), ["long", "short"]].tolist() == ["okx", "gate"]


def test_the_indexes_of_a_result_list_its_pairs(pairs: xr.Dataset) -> None:
    indexes = pairs.indexes
    assert indexes["long"].tolist() == [("okx", "bybit"), ("okx", "gate"), ("bybit", "gate")]
    assert indexes["long"].names == ["long", "short"]
    assert indexes["symbol"].tolist() == ["BTC", "ETH"]


def test_variables_and_attributes_change_as_in_any_dataset(pairs: xr.Dataset) -> None:
    pairs["double"] = 2 * pairs["net_bps"]
    assert pairs.assign(half=pairs["net_bps"] / 2).sel(long="okx", short="gate")["half"].values[1] == 2.0
    assert pairs.drop_attrs()["double"].values.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
    assert set(pairs.drop_vars(["long", "short"]).coords) == {"symbol", "pair"}


def test_a_file_has_plain_text_and_the_index_is_set_again(pairs: xr.Dataset, tmp_path: Path) -> None:
    pairs.to_netcdf(tmp_path / "pairs.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "pairs.nc", engine="h5netcdf") as file:
        stored = file.load()
    assert stored["long"].values.tolist() == LONG
    assert (stored["net_bps"] - pairs["net_bps"]).sizes == pairs["net_bps"].sizes
    again = stored.set_xindex(["long", "short"], PairIndex)
    assert again.sel(long="okx", short="gate")["net_bps"].values.tolist() == [1.0, 4.0]
    xr.testing.assert_equal(again, pairs)


def test_forecasts_of_the_sample_are_selected_by_their_legs() -> None:
    dd.connect("sample", cache="off")
    paid = dd.panel(dd.funding.settlements("BTC", "40d", venues=["binance", "okx", "bybit"]))
    history = dd.analysis.funding.forecast_history(paid, hold="3d", fee_bps=1.0)
    chosen = history.sel(long="okx", short="bybit")
    legs = (history["long"] == "okx") & (history["short"] == "bybit")
    place = int(np.flatnonzero(legs.values)[0])
    expected = history["net_bps"].isel(pair=place)
    np.testing.assert_array_equal(chosen["net_bps"].values, expected.values)
    table = dd.analysis.carry_table(history.isel(time=-1))
    assert table.columns[:3].tolist() == ["symbol", "long", "short"]
    pd.testing.assert_frame_equal(
        dd.analysis.carry_table(history.isel(time=-1).sel(long="okx", short="bybit")).reset_index(drop=True),
        table[(table["long"] == "okx") & (table["short"] == "bybit")].reset_index(drop=True),
    )
