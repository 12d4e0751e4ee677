"""The matrix of features: each value was known at its time and does not change later."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from tests.support.records import assert_identical
from tests.support.rows import few_rows, rows

NAMES = ["funding", "oi", "volume", "price", "basis", "positioning", "iv30"]
START, END = "2026-06-29T00:00", "2026-06-29T12:00"
VENUES = ["okx", "bybit"]
HOUR = pd.Timedelta("1h")


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    dd.connect("sample", cache="off")  # no folder of this test alone is there yet
    return dd.features(["BTC", "ETH"], START, NAMES, end=END, venues=VENUES)


@pytest.fixture(autouse=True)
def _sample(found: xr.Dataset) -> None:
    dd.connect("sample")


def rows_of(table: pd.DataFrame, venue: str) -> pd.Series:
    """The one column of numbers of BTC at a venue, by time."""
    there = table[(table["symbol"] == "BTC") & (table["exchange"] == venue)].set_index("time")
    return there.select_dtypes("float64").iloc[:, 0].tz_localize(None)


def test_bucket_is_known_at_its_end_and_price_at_its_time(found: xr.Dataset) -> None:
    assert list(found.data_vars) == NAMES
    grid = pd.DatetimeIndex(found["time"])
    assert grid.equals(pd.date_range(START, periods=12, freq="h", unit="us"))
    fetchers = {"funding": dd.funding.history, "oi": dd.oi.history, "volume": dd.volume.history}
    for name, fetch in fetchers.items():
        there = rows_of(fetch("BTC", pd.Timestamp(START) - HOUR, END, venues=VENUES), "okx")
        assert found[name].sel(symbol="BTC", exchange="okx").values.tolist() == there[grid - HOUR].tolist()
    mark = rows_of(dd.prices.history("BTC", START, END, venues=VENUES), "bybit")
    index = rows_of(dd.prices.history("BTC", START, END, venues=VENUES, kind="index"), "bybit")
    assert found["price"].sel(symbol="BTC", exchange="bybit").values.tolist() == mark[grid].tolist()
    basis = found["basis"].sel(symbol="BTC", exchange="bybit").values
    np.testing.assert_allclose(basis, 1e4 * (mark[grid] / index[grid] - 1.0), rtol=1e-9)
    sides = dd.positioning.history("BTC", START, END, venues=VENUES).query("exchange == 'bybit'")
    ratio = found["positioning"].sel(symbol="BTC", exchange="bybit")
    assert ratio.values.tolist() == sides["long_short_ratio"].tolist()


def test_a_symbol_without_options_has_no_volatility_and_is_named() -> None:
    with pytest.warns(dd.errors.DataNotice) as notices:
        some = dd.features(["DOGE", "BTC"], START, ["iv30"], end=END)["iv30"]
    assert str(notices[-1].message).startswith("iv30 of DOGE is missing: /options/atm-history: no options of")
    assert some.notnull().all("time").to_series().to_dict() == {"DOGE": False, "BTC": True}
    assert dd.features("BTC", START, "iv999", end=END)["iv999"].isnull().all(), "beyond the last expiry"
    with pytest.warns(dd.errors.DataNotice), pytest.raises(dd.errors.BadRequest, match="no options of DOGE"):
        dd.features("DOGE", START, ["iv30"], end=END)


def test_volatility_is_interpolated_in_total_variance(found: xr.Dataset) -> None:
    assert found["iv30"].dims == ("symbol", "time")
    curve = dd.options.atm_history("ETH", "deribit", START, END)
    curve = curve[curve["time"] == pd.Timestamp("2026-06-29T05:00Z")].sort_values("expiry")
    days = [(expiry - curve["time"].iloc[0]).total_seconds() / 86400 for expiry in curve["expiry"]]
    later = next(place for place, length in enumerate(days) if length > 30)
    (t1, t2), (v1, v2) = days[later - 1 : later + 1], curve["iv"].iloc[later - 1 : later + 1]
    total = v1**2 * t1 + (v2**2 * t2 - v1**2 * t1) * (30 - t1) / (t2 - t1)
    value = found["iv30"].sel(symbol="ETH", time="2026-06-29T06:00").item()
    assert value == pytest.approx(math.sqrt(total / 30), rel=1e-12)


def test_features_have_no_look_ahead(found: xr.Dataset) -> None:
    """A source whose clock is within an hour has half of that hour's bucket, which must not show."""
    dd.connect("sample", now="2026-06-29T06:30")
    cut = dd.features(["BTC", "ETH"], START, NAMES, end="2026-06-29T06:30", venues=VENUES)
    assert cut.sizes["time"] == 7
    assert int(cut.isnull().sum().to_array().sum()) == 0
    assert_identical(cut.drop_attrs(), found.sel(time=cut["time"]).drop_attrs())


def test_units_and_origin_are_stated(found: xr.Dataset) -> None:
    assert [found[name].attrs["units"] for name in NAMES] == [
        "bps/8h", "USD", "USD", "USD", "bps", "1", "1/√year",
    ]  # fmt: skip
    one = dd.features("BTC", START, "price", end=END, venues=VENUES)
    assert set(one.attrs) == set(found.attrs) == {"call", "provenance"}
    about = dd.provenance(found)
    asked = [request["query"]["kind"] for request in about["requests"] if "/prices/" in request["path"]]
    assert sorted(asked) == ["index", "index", "mark", "mark"], "of each symbol, once"
    assert (about["source"], about["synthetic"]) == ("sample", True)
    assert {request["path"] for request in about["requests"]} == {
        "/funding/historical", "/oi/BTC/timeseries", "/oi/ETH/timeseries", "/volume/BTC/timeseries",
        "/volume/ETH/timeseries", "/local/prices/history", "/local/positioning/history",
        "/options/atm-history",
    }  # fmt: skip


def test_a_value_that_is_older_than_allowed_is_missing(tmp_path: Path) -> None:
    """Prices of hours 0 to 2 and 7: twice the step is fresh enough unless another age is given."""
    stamps = [f"2026-06-01T{hour:02d}:00:00Z" for hour in (0, 1, 2, 7)]
    marks = {"symbol": "BTC", "exchange": "okx", "kind": "mark", "resolution": "1h"}
    frame = rows("prices_history", timestamp=stamps, y=[1000.0, 1100.0, 1200.0, 1700.0], **marks)
    dd.open_archive(tmp_path / "made").append("prices_history", frame)
    dd.connect(str(tmp_path / "made"), now="2026-06-01T08:00")
    nan = float("nan")
    for age, expected in (
        (None, [1000.0, 1100.0, 1200.0, 1200.0, 1200.0, nan, nan, 1700.0]),
        ("1h", [1000.0, 1100.0, 1200.0, 1200.0, nan, nan, nan, 1700.0]),
    ):
        with few_rows():
            result = dd.features("BTC", "2026-06-01", "price", end="2026-06-01T08:00", max_age=age)
        np.testing.assert_array_equal(result["price"].values, [[expected]])


@pytest.mark.parametrize(
    ("names", "resolution", "message"),
    [
        (["fundng"], "1h", "names must be among funding, oi, .* got 'fundng'; did you mean 'funding'"),
        (["iv"], "1h", "names must be among .* got 'iv'"),
        (["iv0"], "1h", "names must be among .* got 'iv0'"),
        (["oi", "oi"], "1h", "names must have at least one name and no duplicates"),
        (["oi"], "raw", "resolution must have a step, such as '1h', got 'raw'"),
    ],
)
def test_unknown_features_and_invalid_grids_raise(names: list[str], resolution: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dd.features("BTC", START, names, end=END, resolution=resolution)
