import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import panels
from tests.analysis.funding_made import market, series, times


def test_a_unit_against_the_name_is_rejected():
    assert panels.unit_of(series([1.0]).drop_attrs()) is None
    with pytest.raises(ValueError, match="correct one of them"):
        panels.unit_of(series([1.0]).rename("oi_usd"))


@pytest.mark.parametrize(
    ("panel", "error", "message"),
    [
        (np.zeros(3), TypeError, "panel must be a table or a panel, got ndarray"),
        (series([1.0]), ValueError, "panel must have the dim 'exchange', got dims"),
        (market([[[1.0]]]).assign_attrs(kind="predicted"), ValueError, "'sampled' or 'settled'"),
    ],
    ids=["neither table nor panel", "dim absent", "kind unknown"],
)
def test_array_that_is_not_a_funding_panel_is_rejected(panel, error, message):
    with pytest.raises(error, match=message):
        panels.require_rate(panel, "exchange")


def test_kind_must_be_stated_and_mixed_panels_have_none():
    panel = series([1.0])
    assert panels.kind_of(panel) == "settled"
    del panel.attrs["kind"]
    with pytest.raises(ValueError, match=r"sampled.*settled"):
        panels.kind_of(panel)
    # The mixture cannot be integrated, nor added: nothing may take it for one of the two.
    both = xr.concat(
        [series([1.0]), series([1.0], kind="sampled")],
        "time",
        combine_attrs="drop_conflicts",
        join="outer",
        coords="minimal",
        compat="override",
    )
    with pytest.raises(ValueError, match="kind"):
        panels.kind_of(both)


@pytest.mark.parametrize(
    ("hours", "message"),
    [
        ([0.0, 2.0, 1.0], "ascend"),
        ([0.0, 1.0, 1.0], "ascend"),
        ([], "panel must have at least one row along time"),
    ],
)
def test_times_ascend_without_repeats(hours, message):
    with pytest.raises(ValueError, match=message):
        panels.hours(series(np.zeros(len(hours)), hours=hours))


def test_times_must_be_datetimes_and_one_row_has_no_step():
    panel = series([1.0, 2.0]).assign_coords(time=[0, 1])
    with pytest.raises(TypeError, match="datetime64"):
        panels.hours(panel)
    since = panels.hours(series([1.0], hours=[0.0]))
    with pytest.raises(ValueError, match="panel must have at least two rows"):
        panels.usual_step(since)
    assert panels.usual_step(np.array([0.0, 1.0, 2.0, 9.0])) == 1.0
    assert panels.hours_at(times([-1.5]), times([0.0])[0]).tolist() == [-1.5]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_hours_count_from_the_first_row_in_any_resolution(unit):
    panel = series([1.0, 1.0, 1.0], hours=[0.0, 0.5, 30.0])
    panel = panel.assign_coords(time=panel["time"].astype(f"datetime64[{unit}]"))
    np.testing.assert_array_equal(panels.hours(panel), [0.0, 0.5, 30.0])


def test_companion_panel_is_broadcast_over_the_panel():
    panel = market(np.ones((2, 3, 4)))
    interval = xr.DataArray([1.0, 4.0, 8.0], dims="exchange", coords={"exchange": panel["exchange"]})
    spread = panels.broadcast_companion(panel, interval, units=None, name="interval_hours")
    assert spread.dims == panel.dims
    np.testing.assert_array_equal(spread.isel(symbol=1, time=2), [1.0, 4.0, 8.0])
    minutes = xr.DataArray([60.0, 60.0], dims="exchange", attrs={"units": "min"})
    with pytest.raises(ValueError, match="interval_hours must be in 'h', got 'min'"):
        panels.broadcast_companion(market(np.ones((1, 2, 3))), minutes, units="h", name="interval_hours")


def test_argument_along_a_core_dim_is_rejected():
    rates = series([1.0, 2.0])
    size = xr.DataArray([1.0, 1.0], coords={"time": rates["time"]})
    with pytest.raises(ValueError, match="size must not have the dim 'time': select one of its labels"):
        panels.along(rates, "time", size=size)
    venues = xr.DataArray([1.0], dims="dex")
    with pytest.raises(ValueError, match="size must not have the dim 'dex', which the data does not have"):
        panels.along(rates, "time", size=venues)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (xr.DataArray([1.0], dims="dex"), "interval_hours must not have the dim 'dex'"),
        (
            xr.DataArray([1.0, 2.0], dims="exchange", coords={"exchange": ["v00", "x"]}),
            "interval_hours must have the labels of the panel along exchange",
        ),
        (0.0, "positive"),
        (float("nan"), "positive"),
    ],
)
def test_companion_panel_with_other_labels_is_rejected(other, message):
    with pytest.raises(ValueError, match=message):
        panels.broadcast_companion(market(np.ones((1, 2, 3))), other, units=None, name="interval_hours")
