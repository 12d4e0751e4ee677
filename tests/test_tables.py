"""The vocabulary of columns, the venues' facts, panels and surfaces."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import derivdata as dd
from derivdata import tables
from derivdata.analysis.funding import slippage_bps
from derivdata.errors import DataNotice
from tests.support.records import assert_identical, attrs_of
from tests.support.rows import rows
from tests.support.shared import shared_path

NOON = pd.Timestamp("2026-06-30T12:00", tz="UTC")
SUFFIXES = {
    "_bps_8h": "bps/8h",
    "_usd": "USD",
    "_coin": "coin",
    "_pct": "%",
    "_hours": "h",
    "_share": "fraction",
}


def test_columns_agree_with_their_suffix_and_the_tables() -> None:
    assert [name for name, column in tables.COLUMNS.items() if not column.doc.endswith(".")] == []
    assert [
        (name, column.unit)
        for name, column in tables.COLUMNS.items()
        for suffix, unit in SUFFIXES.items()
        if name.endswith(suffix) and column.unit != unit
    ] == []
    for name, table in tables.TABLES.items():
        kinds = table.columns["kind"].allowed if "kind" in table.columns else ()
        expected = name.startswith("funding_") and name not in ("funding_metadata", "funding_rates")
        assert (kinds == ("sampled", "settled")) == expected
    sides = {table.columns["side"].allowed for table in tables.TABLES.values() if "side" in table.columns}
    assert sides == {("long", "short"), ("call", "put"), ("bid", "ask")}
    used = {name for table in tables.TABLES.values() for name in table.columns}
    assert used == set(tables.COLUMNS)


def test_venues_are_those_of_the_recorded_list() -> None:
    assert len(tables.VENUES) == 43
    kinds = pd.Series({slug: venue.kind for slug, venue in tables.VENUES.items()})
    assert kinds.value_counts().to_dict() == {"dex": 28, "cex": 11, "other": 4}
    recorded = pd.read_csv(shared_path("data/funding_snapshots_2026/venues.csv"), dtype={"display": "str"})
    assert set(recorded["slug"]) == set(tables.VENUES)
    for row in recorded.itertuples():
        venue = tables.VENUES[row.slug]
        assert venue.interval_hours == (None if np.isnan(row.interval_hours_btc) else row.interval_hours_btc)
        if isinstance(row.display, str):
            assert venue.display_name == row.display


def test_venues_have_display_names_and_intervals() -> None:
    assert tables.VENUES["huobi"].display_name == "HTX"
    assert tables.VENUES["zo"].display_name == "01"
    assert tables.VENUES["edgex"].interval_hours == 4


def _history(**change: object) -> pd.DataFrame:
    columns = {
        "symbol": ["BTC", "BTC", "ETH"],
        "exchange": ["okx", "zo", "okx"],
        "timestamp": ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T00:00:00Z"],
        "y": [1.0, 2.0, 3.0],
        "resolution": "1h",
        "kind": "sampled",
    }
    return rows("funding_history", **(columns | change))


def test_panel_has_dims_units_and_times() -> None:
    panel = dd.panel(_history())
    assert panel.dims == ("symbol", "exchange", "time")
    assert attrs_of(panel) == {"units": "bps/8h", "kind": "sampled", "resolution": "1h"}
    assert panel["time"].dtype == "datetime64[us]"
    assert dd.panel(tables.TABLES["funding_history"].empty()).shape == (0, 0, 0)


def test_panel_is_the_same_after_netcdf(tmp_path: object) -> None:
    panel = dd.panel(_history())
    panel.to_netcdf(f"{tmp_path}/panel.nc")
    with xr.open_dataarray(f"{tmp_path}/panel.nc") as back:
        assert_identical(back.load(), panel)
        assert (back["time"] == panel["time"]).all()


@given(
    cells=st.lists(
        st.tuples(
            st.sampled_from(["BTC", "ETH", "SOL"]),
            st.sampled_from(["zo", "okx", "binance", "gate"]),
            st.integers(0, 5),
        ),
        unique=True,
        min_size=1,
    ),
    text=st.sampled_from(["category", "unsorted category", "str", "object"]),
    zone=st.sampled_from(["UTC", "Asia/Kolkata"]),
)
def test_panel_equals_pandas_pivot(cells: list[tuple[str, str, int]], text: str, zone: str) -> None:
    frame = pd.DataFrame(cells, columns=["symbol", "exchange", "hour"])
    frame["time"] = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(frame.pop("hour"), "h")
    frame["rate_bps_8h"] = np.arange(len(frame), dtype=float)
    expected = frame.assign(time=frame["time"].dt.tz_localize(None)).set_index(["symbol", "exchange", "time"])
    expected = expected["rate_bps_8h"].to_xarray().sortby(["symbol", "exchange", "time"])

    frame["time"] = frame["time"].dt.tz_convert(zone)
    for name, unsorted in (
        ("symbol", ["SOL", "XRP", "BTC", "ETH"]),
        ("exchange", ["zo", "okx", "binance", "gate"]),
    ):
        frame[name] = (
            pd.Categorical(frame[name], unsorted) if text.startswith("unsorted") else frame[name].astype(text)
        )
    panel = dd.panel(frame)
    np.testing.assert_array_equal(panel.values, expected.values)
    for dim in panel.dims:
        assert (panel[dim].values == expected[dim].values).all()


@pytest.mark.parametrize(
    ("frame", "value", "message"),
    [
        (_history(), "price", "table must have the column 'price'"),
        (_history(), "resolution", "column 'resolution' must have numbers, got category"),
        (_history(kind=["sampled", "settled", "sampled"]), None, "mixes sampled and settled: keep"),
        (_history(resolution=["1h", "8h", "8h"]), None, "mixes 1h and 8h: keep the rows of one resolution"),
        (pd.concat([_history(), _history()]), None, "rows repeat"),
        (_history().assign(exchange=["okx", None, "zo"]), None, "exchange is missing in 1 rows"),
        (_history().assign(time=pd.Timestamp("2026-01-01")), None, "table must have times with a time zone"),
    ],
)
def test_panel_rejects_duplicate_or_missing_labels(
    frame: pd.DataFrame, value: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        dd.panel(frame, value)


def test_provenance_is_read_from_frames_and_panels() -> None:
    frame = _history()
    with pytest.raises(ValueError, match="no provenance"):
        dd.provenance(frame)
    frame.attrs["provenance"] = {"source": "test", "synthetic": True}
    assert dd.provenance(frame) == {"source": "test", "synthetic": True}
    assert dd.provenance(dd.panel(frame)) == {"source": "test", "synthetic": True}


def _chain(**change: object) -> pd.DataFrame:
    columns = {
        "symbol": "BTC",
        "exchange": "deribit",
        "time": NOON,
        "instrument_name": ["a", "b", "c"],
        "expiry": ["2026-07-03T08:00:00Z", "2026-07-03T08:00:00Z", "2026-07-10T08:00:00Z"],
        "strike": [100_000.0, 100_000.0, 90_000.0],
        "side": ["call", "put", "call"],
        "iv": [0.5, 0.51, None],
        "open_interest": [10.0, 20.0, 30.0],
        "underlying_price": [101_000.0, 101_000.0, 102_000.0],
    }
    return rows("options_snapshot", **(columns | change))


def test_surface_contains_every_instrument_and_survives_netcdf(tmp_path: object) -> None:
    surface = tables.surface(_chain())
    assert surface["underlying_price"].values.tolist() == [101_000.0, 102_000.0]
    assert surface["year_fraction"].values[0] == pytest.approx((2 + 20 / 24) / 365, rel=1e-15)
    assert surface["as_of"].values == np.datetime64("2026-06-30T12:00")
    surface.to_netcdf(f"{tmp_path}/surface.nc")
    with xr.open_dataset(f"{tmp_path}/surface.nc") as back:
        xr.testing.assert_equal(back.load(), surface)
        assert back["iv"].attrs["units"] == "1/√year"
        assert back["observed"].dtype == bool


def _listed(seed: int) -> pd.DataFrame:
    """Options at some of the places of a grid, out of order, some figures missing."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(list(itertools.product(range(4), range(7), ("call", "put"))))[:40]
    figures = rng.normal(size=(len(places), 7))
    figures[rng.random(figures.shape) < 0.2] = np.nan
    columns = dict(zip(("iv", "delta", "gamma", "vega", "theta", "open_interest"), figures.T, strict=False))
    columns |= {
        "instrument_name": [f"{e}-{k}-{s}" for e, k, s in places],
        "expiry": [f"2026-07-{10 + 7 * int(e)} 08:00:00" for e, _, _ in places],
        "strike": [90_000.0 + 500.0 * int(k) for _, k, _ in places],
        "side": [str(s) for _, _, s in places],
        "underlying_price": figures[:, 6],
    }
    return rows("options_snapshot", symbol="BTC", exchange="okx", time=NOON, **columns)


def _unstacked(chain: pd.DataFrame) -> xr.Dataset:
    """Return the surface's values as pandas and xarray arrange them."""
    plain = chain.assign(expiry=chain["expiry"].dt.tz_localize(None), side=chain["side"].astype(object))
    result = plain.assign(observed=True).set_index(["expiry", "strike", "side"]).to_xarray()
    with xr.set_options(use_numbagg=False, use_bottleneck=False):  # numpy's median, whatever is installed
        prices = result["underlying_price"].median(["strike", "side"])
    figures = result[["iv", "delta", "gamma", "vega", "theta", "open_interest"]]
    return figures.assign(observed=result["observed"].notnull(), underlying_price=prices)


@pytest.mark.parametrize("seed", range(5))
def test_surface_equals_xarrays_own_conversion(seed: int) -> None:
    chain = _listed(seed)
    before = chain.copy(deep=True)
    surface, expected = tables.surface(chain), _unstacked(chain)
    assert [*surface.indexes] == ["expiry", "strike", "side"]
    for dim in surface.dims:
        assert surface.indexes[dim].equals(expected.indexes[dim])
    for name, values in expected.items():
        np.testing.assert_array_equal(surface[name].transpose(*values.dims), values)
    pd.testing.assert_frame_equal(chain, before)
    history = tables.surface(chain.drop(columns="delta")).isel(time=0)
    for name in ("iv", "open_interest", "underlying_price", "observed", "year_fraction"):
        np.testing.assert_array_equal(history[name], surface[name])
    plain = xr.Dataset(
        {n: (v.dims, v.values, v.attrs) for n, v in surface.data_vars.items()},
        {n: (v.dims, v.values, v.attrs) for n, v in surface.coords.items()},
        surface.attrs,
    )
    assert_identical(surface, plain)
    assert {n: v.dtype for n, v in surface.variables.items()} == {
        n: v.dtype for n, v in plain.variables.items()
    }


def test_surfaces_share_no_mutable_data_and_need_one_venue() -> None:
    one = tables.surface(_chain())
    one.indexes["side"].name = "changed"
    one["iv"][:] = 7.0
    two = tables.surface(_chain())
    assert two.indexes["side"].name == "side"
    assert two["iv"].max() < 1
    with pytest.raises(ValueError, match="rows must have one exchange for a surface, got 2"):
        tables.surface(_chain(exchange=["deribit", "okx", "okx"]))


def test_surfaces_of_no_rows_are_empty(tmp_path: object) -> None:
    none = tables.surface(tables.TABLES["options_snapshot"].empty())
    assert none.sizes == {"expiry": 0, "strike": 0, "side": 2}
    assert np.isnat(none["as_of"].values)
    assert none["underlying_price"].shape == (0,)
    history = tables.surface(tables.TABLES["options_surface_history"].empty())
    assert history.sizes == {"time": 0, "expiry": 0, "strike": 0, "side": 2}
    full = tables.surface(_chain())
    for name, variable in none.variables.items():
        assert variable.dims == full[name].dims
        assert variable.dtype.kind == full[name].dtype.kind, name
    none.to_netcdf(f"{tmp_path}/none.nc")


def test_surface_of_duplicate_options_keeps_the_larger_open_interest_and_the_median_price() -> None:
    held = pd.DataFrame(
        {
            "symbol": "BTC",
            "exchange": "deribit",
            "time": NOON,
            "expiry": pd.Timestamp("2026-07-03T08:00", tz="UTC"),
            "strike": [1e5, 1e5, 1e5, 9e4],
            "side": ["call", "call", "put", "put"],
            "iv": [0.4, 0.6, 0.5, 0.7],
            "open_interest": [np.nan, 30.0, 20.0, 10.0],
            "underlying_price": [7.0, 101.0, 102.0, 106.0],
        }
    )
    held.attrs["provenance"] = {"source": "test"}
    with pytest.warns(DataNotice, match="1 instruments share expiry, strike and side") as messages:
        history = tables.surface(held)
    assert messages[0].filename == __file__, "the warning points at the user's line"
    place = {"expiry": "2026-07-03T08:00", "strike": 1e5, "side": "call", "time": "2026-06-30T12:00"}
    assert history["iv"].sel(place).item() == 0.6
    assert history["underlying_price"].values.tolist() == [[102.0]], "of 101, 102 and 106"
    assert dd.provenance(history) == {"source": "test"}


def test_depth_is_by_side_and_distance() -> None:
    columns = {
        "timestamp": ["2026-01-01T00:00:00Z"] * 2 + ["2026-01-01T01:00:00Z"] * 2,
        "depth_bps": [10.0, 25.0, 10.0, 25.0],
        "bid_depth_usd": [1.0, 2.0, 3.0, 4.0],
        "ask_depth_usd": [5.0, 6.0, None, 8.0],
    }
    table = rows("orderbook_depth_history", symbol="BTC", exchange="okx", **columns)
    depth = dd.panel(table)
    assert depth.dims == ("symbol", "exchange", "time", "side", "depth_bps")
    assert depth.attrs["units"] == "USD"
    place = {"symbol": "BTC", "exchange": "okx", "time": "2026-01-01T01:00", "depth_bps": 10.0}
    assert depth.sel(place | {"side": "bid"}).item() == 3.0
    assert np.isnan(depth.sel(place | {"side": "ask"}).item())
    now = depth.isel(symbol=0, time=0)
    slipped = slippage_bps(now, 1.5)
    assert slipped.sel(exchange="okx", side="bid").item() == pytest.approx((1 * 5 + 0.5 * 13.75) / 1.5)


def test_time_column_states_start_or_end_of_step() -> None:
    ends = {"funding_settlements", "futures_history", "positioning_history", "prices_history", "prices_spot"}
    ends |= {"delivery_prices", "volatility_index_published"}
    for name, table in tables.TABLES.items():
        if "time" in table.key and name != "options_trades":
            said = table.columns["time"].doc.lower()
            assert ("end" in said, "start" in said) == (name in ends, name not in ends), name
