from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import align
from derivdata.tables.panels import provenance
from tests.support.records import assert_identical, attrs_of


def panel(stamps: list[str], values: list[float], **attrs: str) -> xr.DataArray:
    times = pd.DatetimeIndex(stamps).as_unit("us")
    return xr.DataArray(
        [values], dims=("exchange", "time"), coords={"exchange": ["a"], "time": times}, attrs=attrs
    )


SAMPLED = panel(
    ["2026-01-01T00:10", "2026-01-01T01:10", "2026-01-01T02:10", "2026-01-01T06:10"],
    [1.0, 2.0, 3.0, 4.0],
    units="bps/8h",
    kind="sampled",
)


def test_aligned_rows_are_the_newest_available_at_each_time() -> None:
    result = align.align(SAMPLED, "1h")
    hours = result["time"].dt.hour.values.tolist()
    assert hours == [1, 2, 3, 4, 5, 6]
    value = result["value"].sel(exchange="a").values
    np.testing.assert_array_equal(value, [1.0, 2.0, 3.0, 3.0, np.nan, np.nan])
    staleness = result["staleness"].sel(exchange="a").values
    np.testing.assert_allclose(staleness[:4], [50 / 60, 50 / 60, 50 / 60, 110 / 60])
    assert np.isnan(staleness[4:]).all()
    assert attrs_of(result["value"]) == SAMPLED.attrs
    assert result["time"].dtype == "datetime64[us]"


GRID = pd.DatetimeIndex(["2026-01-01T01:10", "2026-01-01T02:09"])


def test_tolerance_of_zero_takes_only_rows_at_the_time_itself() -> None:
    value = align.align(SAMPLED, GRID, tolerance="0h")["value"].values
    np.testing.assert_array_equal(value, [[2.0, np.nan]])


def test_row_is_available_after_its_delay() -> None:
    value = align.align(SAMPLED, GRID, tolerance="2h", delay="1h")["value"].values
    assert value.tolist() == [[1.0, 1.0]]


def test_missing_value_is_skipped_for_an_older_one() -> None:
    without_second = SAMPLED.where(SAMPLED != 2.0)
    result = align.align(without_second, pd.DatetimeIndex(["2026-01-01T01:30"]), tolerance="80min")
    assert result["value"].item() == 1.0
    assert result["staleness"].item() == pytest.approx(80 / 60)


def test_settlements_are_valid_for_their_interval() -> None:
    settled = SAMPLED.assign_attrs(kind="settled")
    with pytest.raises(ValueError, match="panel must have interval_hours, the interval of each settlement"):
        align.align(settled, "1h")
    value = align.align(settled.assign_coords(interval_hours=1.0), "1h")["value"].values[0]
    np.testing.assert_array_equal(value, [1.0, 2.0, 3.0, np.nan, np.nan, np.nan])


def test_alignment_has_no_look_ahead() -> None:
    grid = pd.date_range("2026-01-01", "2026-01-01T02:00", freq="30min")
    spoiled = SAMPLED.copy(data=np.where(SAMPLED["time"] > grid[-1], 1e9, SAMPLED))
    for delay in ("0h", "1h"):
        one, other = (align.align(x, grid, tolerance="2h", delay=delay) for x in (SAMPLED, spoiled))
        assert_identical(one, other)


def test_empty_input_aligns_to_an_empty_result() -> None:
    empty = SAMPLED.isel(time=slice(0, 0))
    assert align.align(empty, "1h").sizes["time"] == 0
    assert np.isnan(align.align(empty, pd.DatetimeIndex(["2026-01-01"]), tolerance="1h")["value"]).all()
    with pytest.raises(ValueError, match="the times of panel must ascend without duplicates"):
        align.align(SAMPLED.isel(time=[1, 0]), "1h")
    with pytest.raises(ValueError, match="panel must have the dim 'time', got dims"):
        align.align(SAMPLED.rename(time="t"), "1h")


LEFT = pd.DataFrame(
    {
        "symbol": ["BTC"] * 3,
        "exchange": ["b", "a", "a"],
        "time": pd.to_datetime(["2026-01-01T02:00Z", "2026-01-01T03:30Z", "2026-01-01T01:00Z"]),
    }
)
RIGHT = pd.DataFrame(
    {
        "symbol": ["BTC"] * 3,
        "exchange": ["a", "a", "b"],
        "time": pd.to_datetime(["2026-01-01T01:00Z", "2026-01-01T03:00Z", "2026-01-01T03:00Z"]),
        "oi_usd": [10.0, 20.0, 30.0],
    },
    index=[7, 3, 3],
)


def test_asof_join_takes_the_newest_available_row_per_venue() -> None:
    joined = align.asof_join(LEFT, RIGHT, tolerance="4h")
    np.testing.assert_array_equal(joined["oi_usd"], [np.nan, 20.0, 10.0])
    within_ten_minutes = align.asof_join(LEFT, RIGHT, tolerance="10min")
    np.testing.assert_array_equal(within_ten_minutes["oi_usd"], [np.nan, np.nan, 10.0])


def test_asof_join_with_a_delay_takes_rows_that_were_available() -> None:
    joined = align.asof_join(LEFT, RIGHT, tolerance="4h", delay="1h")
    np.testing.assert_array_equal(joined["oi_usd"], [np.nan, 10.0, np.nan])
    assert joined["available_at"].iloc[1] == pd.Timestamp("2026-01-01T02:00Z")


@pytest.mark.parametrize(
    "dtypes",
    [{"symbol": "category"}, {"symbol": "category", "exchange": pd.CategoricalDtype(["a", "b", "c"])}],
)
def test_asof_join_does_not_depend_on_the_dtype_of_labels(dtypes: dict[str, Any]) -> None:
    expected = align.asof_join(LEFT, RIGHT, tolerance="4h")
    joined = align.asof_join(LEFT.astype(dtypes), RIGHT, tolerance="4h")
    pd.testing.assert_frame_equal(joined.astype(expected.dtypes), expected)


def test_asof_join_by_a_column_of_integers_and_floats() -> None:
    left, right = LEFT.assign(strike=[1, 2, 2]), RIGHT.assign(strike=[2.0, 2.0, 1.0])
    joined = align.asof_join(left, right, tolerance="4h", by=("strike",))
    np.testing.assert_array_equal(joined["oi_usd"], [np.nan, 20.0, 10.0])


def test_asof_join_adds_a_suffix_to_columns_of_both_tables() -> None:
    joined = align.asof_join(LEFT.assign(oi_usd=1.0), RIGHT, tolerance="4h", by=("exchange",))
    assert joined.columns.tolist()[3:] == ["oi_usd", "symbol_right", "oi_usd_right", "available_at"]


def test_asof_join_needs_equal_keys_and_times_with_a_zone() -> None:
    with pytest.raises(ValueError, match="right has no column 'exchange'"):
        align.asof_join(LEFT, RIGHT.drop(columns="exchange"), tolerance="1h")
    with pytest.raises(ValueError, match="left must have times with a time zone"):
        align.asof_join(LEFT.assign(time=LEFT["time"].dt.tz_localize(None)), RIGHT, tolerance="1h")


def test_joined_table_has_the_provenance_of_both() -> None:
    times = pd.to_datetime(["2026-01-01T00:00Z", "2026-01-01T01:00Z"])
    left = pd.DataFrame({"time": times, "symbol": "BTC", "exchange": "a", "x": [1.0, 2.0]})
    right = left.rename(columns={"x": "y"})
    assert attrs_of(align.asof_join(left, right, tolerance="1h")) == {}
    left.attrs["provenance"] = {"source": "archive", "synthetic": False, "requests": [{"path": "/funding"}]}
    right.attrs["provenance"] = {"source": "sample", "synthetic": True, "requests": [{"path": "/oi"}]}
    stated = provenance(align.asof_join(left, right, tolerance="1h"))
    assert (stated["source"], stated["synthetic"]) == ("archive, sample", True)
    assert [request["path"] for request in stated["requests"]] == ["/funding", "/oi"]
