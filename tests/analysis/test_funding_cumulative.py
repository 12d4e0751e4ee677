import numpy as np
import pytest
import xarray as xr

from derivdata.analysis import funding
from tests.analysis.funding_made import market, noisy, series, times
from tests.support.records import attrs_of

NAN = np.nan


@pytest.mark.parametrize("step", [1 / 60, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])
def test_constant_samples_sum_to_90_bps_in_30_days_at_every_resolution(step):
    accrued = funding.cumulative(series(np.ones(round(720 / step)), step=step, kind="sampled"))
    assert float(accrued["funding_bps"][-1]) == pytest.approx(90.0, rel=1e-12)
    assert float(accrued["covered_hours"][-1]) == pytest.approx(720.0)
    assert float(accrued["missing_hours"][-1]) == 0.0


STEADY = [[(720 // hours, hours)] for hours in (1, 2, 4, 8)]
CHANGED = [[(45, 8), (90, 4)], [(30, 8), (60, 4), (240, 1)], [(480, 1), (30, 8)]]


@pytest.mark.parametrize("changes", STEADY + CHANGED)
@pytest.mark.parametrize("read", ["reported", "inferred"])
def test_constant_settlements_sum_to_90_bps_in_30_days_across_interval_changes(changes, read):
    interval = np.repeat([hours for _, hours in changes], [count for count, _ in changes]).astype(float)
    panel = series(np.ones(interval.size), hours=interval.cumsum())
    hours = panel.copy(data=interval).assign_attrs(units="h")
    if read == "inferred":
        result = funding.infer_interval(panel)
        hours = result["interval_hours"]
        assert attrs_of(hours) == {"units": "h"}
        assert (result["changed"].sum(), result["missing"].sum()) == (len(changes) - 1, 0)
    accrued = funding.cumulative(panel.assign_coords(interval_hours=hours))
    assert float(accrued["funding_bps"][-1]) == pytest.approx(90.0, rel=1e-12)
    assert float(accrued["covered_hours"][-1]) == 720.0


def test_samples_are_valid_until_the_next_for_at_most_two_steps():
    """2 bps/8h for 4 h, then −1 for 12 h, then 8 for the last row's hour: 1 − 1.5 + 1."""
    panel = series([2.0, -1.0, 8.0], hours=[0.0, 4.0, 16.0], kind="sampled")
    accrued = funding.cumulative(panel, max_gap="12h", step="1h")
    np.testing.assert_allclose(accrued["funding_bps"], [1.0, -0.5, 0.5], rtol=1e-15)
    panel = series([8.0, NAN, 8.0, NAN, NAN, 8.0], step=1.0, kind="sampled")
    accrued = funding.cumulative(panel)
    np.testing.assert_array_equal(accrued["funding_bps"], [1.0, 2.0, 3.0, 4.0, NAN, NAN])
    skipping = funding.cumulative(panel, gaps="skip")
    np.testing.assert_array_equal(skipping["funding_bps"], [1.0, 2.0, 3.0, 4.0, 4.0, 5.0])
    np.testing.assert_array_equal(skipping["missing_hours"], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(skipping["covered_hours"], [1.0, 2.0, 3.0, 4.0, 4.0, 5.0])


def test_missing_settlement_is_a_gap_and_a_late_one_is_not():
    panel = series([1.0, 1.0, 1.0], hours=[8.0, 16.0, 32.0])
    accrued = funding.cumulative(panel)
    np.testing.assert_array_equal(accrued["funding_bps"], [1.0, 2.0, NAN])
    skipping = funding.cumulative(panel, gaps="skip")
    np.testing.assert_array_equal(skipping["funding_bps"], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(skipping["missing_hours"], [0.0, 0.0, 8.0])
    hours = np.array([8.0, 16.0, 24.0, 32.0]) + np.array([0.0, 0.01, 0.002, 0.03])
    accrued = funding.cumulative(series(np.ones(4), hours=hours))
    np.testing.assert_array_equal(accrued["funding_bps"], [1.0, 2.0, 3.0, 4.0])
    panel = series([1.0, 1.0, 1.0], step=8.0)
    interval = panel.copy(data=[8.0, NAN, 8.0]).assign_attrs(units="h")
    accrued = funding.cumulative(panel.assign_coords(interval_hours=interval))
    np.testing.assert_array_equal(accrued["funding_bps"], [1.0, NAN, NAN])


@pytest.mark.parametrize(
    ("lost", "before", "after"),
    [(1, 1, 8), (3, 1, 8), (2, 4, 8), (1, 4, 24), (1, 8, 1), (2, 8, 4), (3, 1, 2)],
)
def test_settlements_lost_just_before_a_change_of_interval_are_missing(lost, before, after):
    """The last settlements before the change are missing, which is less than half of a longer interval."""
    interval = np.repeat([float(before), float(after)], [6, 4])
    hours = interval.cumsum()
    kept = np.append(np.arange(6 - lost), np.arange(6, 10))
    panel = series(np.ones(kept.size), hours=hours[kept])
    panel = panel.assign_coords(interval_hours=panel.copy(data=interval[kept]).assign_attrs(units="h"))
    accrued = funding.cumulative(panel, gaps="skip")
    assert float(accrued["missing_hours"][-1]) == lost * before
    assert float(accrued["covered_hours"][-1]) == interval[kept].sum()


def test_nothing_accrues_before_the_first_value():
    accrued = funding.cumulative(series([NAN, NAN, 3.0, 1.0], step=8.0))
    np.testing.assert_array_equal(accrued["funding_bps"], [NAN, NAN, 3.0, 4.0])
    accrued = funding.cumulative(series([NAN, 3.0, 1.0], step=8.0, kind="sampled"))
    np.testing.assert_array_equal(accrued["funding_bps"], [NAN, 3.0, 4.0])
    for options in ({}, {"gaps": "skip"}):
        accrued = funding.cumulative(series([NAN] * 4, kind="sampled"), **options)
        assert all(figure.isnull().all() for figure in accrued.values())


def test_masked_rows_equal_dropped_rows():
    panel = noisy(symbols=1, venues=1, gaps=0.3, kind="sampled").squeeze(drop=True)
    kept = panel.dropna("time")
    options = {"gaps": "skip", "max_gap": "12h", "step": "8h"}
    masked, dropped = (funding.cumulative(part, **options) for part in (panel, kept))
    last = {"time": -1}
    for name in ("funding_bps", "covered_hours", "missing_hours"):
        at_next = masked[name].sel(time=kept["time"][1:].values)
        before = masked[name].shift(time=1).sel(time=kept["time"][1:].values)
        assert np.isfinite(at_next).all()
        np.testing.assert_allclose(before, dropped[name][:-1], rtol=1e-12, atol=1e-12)
    assert float(masked["funding_bps"].isel(last)) == pytest.approx(float(dropped["funding_bps"].isel(last)))


def test_venues_of_unequal_interval_share_a_panel():
    """Hourly at 1 bps/8h next to eight-hourly: rows where only one of them settles are not gaps."""
    hours = np.arange(1.0, 25.0)
    hourly = series(np.ones(24), hours=hours)
    eight = series(np.where(hours % 8 == 0, 1.0, NAN), hours=hours)
    panel = xr.concat([hourly, eight], xr.DataArray(["dex", "cex"], dims="exchange", name="exchange"))
    interval = xr.DataArray([1.0, 8.0], dims="exchange", coords={"exchange": ["dex", "cex"]})
    interval.attrs["units"] = "h"
    accrued = funding.cumulative(panel.assign_coords(interval_hours=interval))["funding_bps"]
    np.testing.assert_allclose(accrued.isel(time=-1), [3.0, 3.0])
    assert accrued.sel(exchange="cex").isel(time=slice(7, 15)).values.tolist() == [1.0] * 8


@pytest.mark.parametrize(
    ("panel", "options", "message"),
    [
        (series([1.0]).drop_vars("interval_hours"), {}, r"assign_coords\(interval_hours=8.0\)"),
        (
            series([1.0]),
            {"max_gap": "2h"},
            "max_gap= and step= apply only to sampled rates, and this panel is settled",
        ),
        (
            series([1.0, 1.0], kind="sampled"),
            {"compound": True},
            "compound=True needs payments, got sampled rates",
        ),
        (series([1.0], kind="sampled"), {}, "pass step"),
        (series([1.0, 1.0]).assign_coords(interval_hours=-1.0), {}, "positive"),
    ],
)
def test_invalid_arguments_of_cumulative_raise(panel, options, message):
    with pytest.raises(ValueError, match=message):
        funding.cumulative(panel, **options)


def test_result_has_units_and_payments_compound():
    accrued = funding.cumulative(market(np.ones((1, 2, 3))).transpose("time", ...))
    assert accrued["funding_bps"].dims == ("time", "symbol", "exchange")
    assert attrs_of(accrued["funding_bps"]) == {"units": "bps", "kind": "settled"}
    assert accrued["covered_hours"].attrs["units"] == "h"
    assert accrued["time"].values[0] == times(8.0)
    # Two payments of 1 % each: 1.01² − 1 = 201 bps, not 200.
    panel = series([100.0, 100.0])
    accrued = funding.cumulative(panel, compound=True)
    assert float(accrued["funding_bps"][-1]) == pytest.approx(201.0, rel=1e-13)


def test_period_sums_with_gaps_interval_changes_and_samples():
    rates = series(np.full(24, 2.0), step=1.0)
    rates[10] = NAN
    sums = funding.period_sums(rates)["funding_bps"]
    np.testing.assert_allclose(sums, [2.0, NAN, 2.0])
    assert sums["time"].dt.hour.values.tolist() == [8, 16, 0]
    assert attrs_of(sums) == {"units": "bps", "kind": "settled"}
    assert np.isnan(funding.period_sums(rates[1:])["funding_bps"][0])
    rates = series(np.full(9, 3.0), hours=[8, *range(9, 17)])
    rates = rates.assign_coords(interval_hours=("time", [8.0] + [1.0] * 8))
    np.testing.assert_allclose(funding.period_sums(rates)["funding_bps"], [3.0, 3.0])
    # 2 bps/8h for four hours of eight and 4 for the others: 1 + 2 bps.
    rates = series([2.0] * 4 + [4.0] * 4, step=1.0, kind="sampled")
    assert funding.period_sums(rates)["funding_bps"].values.tolist() == [3.0]
