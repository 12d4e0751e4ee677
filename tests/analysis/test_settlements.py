import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import align, funding
from derivdata.analysis.settlements import _overlapping, _without_overlap, merge_late_stamps, scheduled
from derivdata.analysis.status import FundingStatus
from tests.support.records import assert_identical

LATE = pd.Timedelta("12ms")
STAMPS = pd.date_range("2026-01-01", periods=12, freq="8h").as_unit("us")


def settled(
    values: list[float], stamps: pd.DatetimeIndex = STAMPS, interval_hours: float = 8.0
) -> xr.DataArray:
    coords = {"time": stamps[: len(values)], "interval_hours": interval_hours}
    return xr.DataArray(values, coords, ("time",), attrs={"units": "bps/8h", "kind": "settled"})


def venues(stamps: pd.DatetimeIndex = STAMPS, **rates: list[float]) -> xr.DataArray:
    series = [settled(values, stamps) for values in rates.values()]
    return xr.concat(
        series,
        xr.DataArray(np.array(list(rates)), dims="exchange", name="exchange"),
        join="outer",
        combine_attrs="override",
    )


def test_time_within_a_minute_of_the_hour_counts_as_the_hour():
    minute = np.timedelta64(60, "s")
    more = minute + np.timedelta64(1, "us")
    hour = np.datetime64("2026-01-01T08:00", "us")
    near = hour + np.array([np.timedelta64(0, "us"), np.timedelta64(1, "us"), minute, -minute])
    assert scheduled(near).tolist() == [hour.item()] * 4
    far = hour + np.array([more, -more])
    assert scheduled(far).tolist() == far.tolist()


def test_a_late_payment_belongs_to_the_span_that_it_ends():
    """100 bps stamped 12 ms after 00:00 belong to the 8 hours before 00:00."""
    panel = settled([1.0, 1.0, 1.0, 100.0, 1.0], STAMPS + LATE)
    sums = funding.period_sums(panel)
    assert sums["funding_bps"].sel(time="2026-01-02T00:00").item() == 100.0
    np.testing.assert_array_equal(sums["funding_bps"], [1.0, 1.0, 1.0, 100.0, 1.0])
    np.testing.assert_array_equal(sums["coverage"], [1.0] * 5)


def test_incomplete_span_states_its_coverage():
    """Seven of eight hours paid 1 bps/8h each: 7/8 bps, covering 7 of 8 hours."""
    stamps = pd.date_range("2026-01-01T01:00", periods=16, freq="h").as_unit("us")
    panel = settled([1.0] * 16, stamps, 1.0).drop_isel(time=2)
    strict = funding.period_sums(panel)
    np.testing.assert_array_equal(strict["funding_bps"], [np.nan, 1.0])
    np.testing.assert_array_equal(strict["coverage"], [7 / 8, 1.0])
    np.testing.assert_allclose(funding.period_sums(panel, min_cover=0.8)["funding_bps"], [0.875, 1.0])
    with pytest.raises(ValueError, match="min_cover"):
        funding.period_sums(panel, min_cover=0.0)


def test_a_payment_just_after_the_entry_is_the_one_before_it():
    """100 bps at 00:00:00.012 were due at 00:00: an entry at 00:00 earns the next 30 only, an exit all."""
    panels = [venues(STAMPS + late, a=[0.0, 0, 0, 100, 30, 0, 0], b=[0.0] * 7) for late in (LATE, 0 * LATE)]
    for panel, (entry, exit_, paid) in itertools.product(
        panels,
        (
            ("2026-01-02", "2026-01-03", -30.0),
            ("2026-01-01T16:00", "2026-01-02", -100.0),
            ("2026-01-01T16:00", "2026-01-01T23:59:59", 0.0),
        ),
    ):
        carry = funding.realised_carry(panel, "a", "b", entry, exit_, fee_bps=0.0)
        assert carry["long_bps"].item() == carry["gross_bps"].item() == paid, (entry, exit_)
        assert carry["status"].item() == 0


def test_the_best_pair_sees_venues_that_stamp_late():
    """b pays 12 ms late: at 00:00 the pair is long b (−2), short c (3), not long a (1), short c."""
    exact = venues(a=[1.0, 1.0], c=[3.0, 3.0])
    late = venues(STAMPS + LATE, b=[-2.0, -2.0])
    best = funding.best_pair(xr.concat([exact, late], "exchange", join="outer", combine_attrs="override"))
    assert best.sizes["time"] == 2
    assert best["long"].values.tolist() == ["b", "b"]
    assert best["spread_bps_8h"].values.tolist() == [5.0, 5.0]
    assert best["venues"].values.tolist() == [3, 3]
    # `xr.concat` over a pandas Index of text gives labels of a type of numpy's own.
    index = pd.Index(["b", "a"], name="exchange")
    panel = xr.concat([settled([1.0, 2.0]), settled([3.0, 5.0])], index)
    best = funding.best_pair(panel)
    assert (best["long"].values.tolist(), best["short"].values.tolist()) == (["b", "b"], ["a", "a"])
    assert funding.spread(panel).sel(long="b", short="a").values.tolist() == [2.0, 3.0]


def test_late_payments_align_with_others_at_the_hour():
    panel = xr.concat(
        [venues(a=[1.0, 2.0]), venues(STAMPS + LATE, b=[4.0, 4.0])],
        "exchange",
        join="outer",
        combine_attrs="override",
    )
    np.testing.assert_array_equal(funding.spread(panel, "a", "b"), [3.0, 2.0])
    assert funding.spread(panel).sel(long="a", short="b").values.tolist() == [3.0, 2.0]
    np.testing.assert_array_equal(funding.dispersion(panel)["range_bps_8h"], [3.0, 2.0])
    result = align.align(settled([1.0, 2.0, 3.0], STAMPS + LATE), "8h")
    np.testing.assert_array_equal(result["value"], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(result["staleness"], [0.0, 0.0, 0.0])
    # a pays hourly 12 ms late, b 8-hourly on the hour: each keeps its own interval after they are merged.
    rates = venues(STAMPS[1:2], b=[8.0])
    late = venues(STAMPS[1:2] + LATE, a=[2.0])
    panel = xr.concat([late, rates], "exchange", join="outer", combine_attrs="override")
    interval = xr.where(panel["exchange"] == "a", 1.0, 8.0).broadcast_like(panel)
    merged, hours = merge_late_stamps(panel, interval)
    assert merged.transpose("exchange", "time").values.tolist() == [[2.0], [8.0]]
    assert hours.transpose("exchange", "time").values.tolist() == [[1.0], [8.0]]


def test_missing_share_is_counted_in_due_payments():
    """168 hourly payments of 0.125 bps less one: 20.875 bps, 167/168 of the hours due."""
    stamps = pd.date_range("2026-01-01", periods=169, freq="h").as_unit("us")
    panel = venues(stamps, a=[0.0] * 169, b=[1.0] * 169).assign_coords(interval_hours=1.0)
    panel = panel.where(~((panel["exchange"] == "b") & (panel["time"] == stamps[50])))
    carry = funding.realised_carry(panel, "a", "b", stamps[0], stamps[-1], fee_bps=0.0)
    assert carry["net_bps"].item() == pytest.approx(20.875, rel=1e-12)
    assert carry["short_coverage"].item() == pytest.approx(167 / 168, rel=1e-12)
    assert carry["long_coverage"].item() == 1.0
    assert carry["status"].item() == FundingStatus.GAP
    strict = funding.realised_carry(panel, "a", "b", stamps[0], stamps[-1], fee_bps=0.0, min_cover=1.0)
    assert np.isnan(strict["net_bps"].item())
    # Payments at 08:00 and 16:00; until 24:00 one of three is missing, until 23:55 none is due yet.
    panel = venues(STAMPS[1:], a=[1.0, 1.0], b=[0.0, 0.0])
    whole, overdue = (
        funding.realised_carry(panel, "b", "a", STAMPS[0], end, fee_bps=0.0, min_cover=0.5)
        for end in ("2026-01-01T23:55", "2026-01-02T00:00")
    )
    assert (whole["status"].item(), whole["short_coverage"].item()) == (0, 1.0)
    assert overdue["status"].item() == FundingStatus.GAP
    assert overdue["short_coverage"].item() == pytest.approx(2 / 3)
    assert overdue["short_bps"].item() == 2.0


def test_duplicate_payments_are_rejected():
    duplicated = settled([1.0] * 4, STAMPS[:3].append(STAMPS[2:3] + pd.Timedelta("30s")))
    with pytest.raises(ValueError, match=r"two settlements within 1 min of 2026-01-01T16:00:00.*duplicated"):
        funding.cumulative(duplicated)
    with pytest.raises(ValueError, match="two settlements within 1 min"):
        funding.period_sums(duplicated)
    with pytest.raises(ValueError, match="a has two settlements within 1 min"):
        funding.best_pair(duplicated.expand_dims(exchange=["a"]))
    with pytest.raises(ValueError, match="exchange 0 has two settlements within 1 min"):
        funding.cumulative(duplicated.expand_dims(exchange=2).copy())  # without labels


def test_first_of_two_payments_within_a_minute_counts_if_overlaps_are_nan():
    panel = settled([1.0, 1.0, 5.0, 9.0], STAMPS[:3].append(STAMPS[2:3] + pd.Timedelta("30s")))
    np.testing.assert_array_equal(funding.period_sums(panel, overlap="nan")["funding_bps"], [1.0, 1.0, 5.0])


def test_sums_with_overlapping_payments_have_no_look_ahead():
    """Venue a pays 0 to 13 bps; its rows 4 and 9 overlap the payments of 8 hours before them."""
    half_a_minute_late, in_the_middle = STAMPS[3] + pd.Timedelta("30s"), STAMPS[7] + pd.Timedelta("3h")
    stamps = STAMPS.append(pd.DatetimeIndex([half_a_minute_late, in_the_middle])).sort_values().as_unit("us")
    panel = venues(stamps, a=list(range(14)), b=[0.5] * 14)
    panel = panel.where((panel["exchange"] == "a") | panel["time"].isin(STAMPS))
    sums = funding.cumulative(panel, overlap="nan")["funding_bps"]
    assert sums.sel(exchange="a")[-1].item() == sum(range(14)) - 4 - 9
    for rows in range(1, 14):
        sums_of_first_rows = funding.cumulative(panel.isel(time=slice(rows)), overlap="nan")["funding_bps"]
        assert_identical(sums_of_first_rows, sums.sel(time=sums_of_first_rows["time"]))


@pytest.mark.parametrize("lazy", [False, True])
def test_odd_payment_is_named_or_omitted(lazy):
    """Of 40 venues, the 18th has a payment 3 hours after its payment of 17 January 16:00."""
    stamps = pd.date_range("2026-01-01", periods=200, freq="8h").as_unit("us")
    times = stamps.append(pd.DatetimeIndex([stamps[50] + pd.Timedelta("3h")])).sort_values()
    values = np.where(times.isin(stamps), 1.0, np.nan) * np.ones((40, 1))
    values[17, 51] = 1.0
    names = [f"v{place:02d}" for place in range(40)]
    panel = xr.concat([settled(row, times) for row in values], pd.Index(names, name="exchange"))
    panel = panel.chunk(exchange=16) if lazy else panel
    for refused in (
        lambda: funding.cumulative(panel).compute(),
        lambda: funding.forecast_carry(panel, hold="7d", fee_bps=2.0).compute(),
        lambda: funding.comovement(panel).compute(),
    ):
        with pytest.raises(
            ValueError, match=r"settlements of v17 .* 2026-01-17T19:00:00 pays for 8 h and comes 3"
        ):
            refused()
    sums = funding.period_sums(panel, overlap="nan")["funding_bps"].compute()
    assert sums.notnull().all()
    held = funding.forecast_carry(panel, hold="7d", fee_bps=2.0, overlap="nan")["net_bps"]
    assert held.notnull().all()


def test_payments_overlapping_after_omissions_are_omitted_too():
    """Against passes over the whole: the first that overlaps goes, until none does."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        since = np.cumsum(rng.choice([0.5, 1.0, 4.0, 8.0, 8.0], 60))
        paid = rng.choice([0.0, 1.0, 4.0, 8.0, 8.0], (2, 60))
        expected = paid.copy()
        for series in expected:
            while (wrong := _overlapping(series, since))[0].any():
                series[int(np.argmax(wrong[0]))] = 0.0
        result = _without_overlap(
            np.ones((2, 60)), paid, np.arange(2), since=since, origin=STAMPS[0], names=[], strict=False
        )
        np.testing.assert_array_equal(np.isnan(result), (paid > 0.0) & (expected == 0.0))


@pytest.mark.parametrize("hourly", [1, 4])
def test_intervals_longer_than_the_time_between_payments_are_rejected(hourly):
    stamps = pd.date_range("2026-01-01", periods=40, freq=f"{hourly}h").as_unit("us")
    panel = settled([1.0] * 40, stamps, hourly)
    assert funding.cumulative(panel)["funding_bps"][-1] == 40 * hourly / 8
    wrong = panel.assign_coords(interval_hours=8.0)
    for refused in (
        lambda: funding.cumulative(wrong),
        lambda: funding.period_sums(wrong),
        lambda: funding.comovement(wrong.expand_dims(exchange=["a"])),
    ):
        with pytest.raises(ValueError, match=f"pays for 8 h and comes {hourly} h after"):
            refused()


def test_late_payments_are_accepted_and_too_frequent_ones_rejected():
    """8 hours each: 3 h late and punctual again, over and over; 11 and 5 hours apart."""
    hours = np.cumsum([8, 11, 5, 8, 11, 5, 11, 5])
    panel = settled([1.0] * 8, pd.DatetimeIndex(np.datetime64("2026-01-01") + hours * np.timedelta64(1, "h")))
    assert funding.cumulative(panel)["funding_bps"][-1] == 8.0
    # Each payment is for 8 hours, and comes after 7. At the fifth the surplus is 4 hours, half an interval.
    stamps = pd.date_range("2026-01-01", periods=9, freq="7h").as_unit("us")
    assert funding.cumulative(settled([1.0] * 4, stamps[:4]))["funding_bps"][-1] == 4.0
    with pytest.raises(ValueError, match="2026-01-02T04:00:00 pays for 8 h and comes 7 h"):
        funding.cumulative(settled([1.0] * 9, stamps))


def test_pair_filters_check_every_hour_covered_by_a_payment():
    """a and b pay 1 and 2 every hour, c 40 at 00:00 for 8 hours, 12 ms late."""
    hours = pd.date_range("2026-01-01", periods=8, freq="h").as_unit("us")
    at = hours.append(hours[:1] + LATE).sort_values()
    rates = np.full((3, 9), np.nan)
    rates[0, [0, *range(2, 9)]], rates[1, [0, *range(2, 9)]], rates[2, 1] = 1.0, 2.0, 40.0
    names = ["a", "b", "c"]
    panel = xr.DataArray(
        rates,
        {"exchange": names, "time": at, "interval_hours": ("exchange", [1.0, 1.0, 8.0])},
        ("exchange", "time"),
        attrs={"units": "bps/8h", "kind": "settled"},
    )

    def shorts(where, **filters):
        """Return the short venue of each of the eight hours as one letter."""
        short = funding.best_pair(where, **filters)["short"]
        assert (short["time"].to_numpy() == hours.to_numpy()).all()
        return "".join(short.values.tolist())

    assert shorts(panel) == "cccccccc"
    # Not tradable at its payment and from 04:00 on.
    listed = xr.ones_like(panel, dtype=bool).drop_vars("interval_hours")
    listed[2, :2] = listed[2, 5:] = False
    assert shorts(panel, tradable=listed) == "bcccbbbb"
    amounts = xr.where(listed, 9.0, 1.0).assign_attrs(units="USD")
    assert shorts(panel, oi_usd=amounts, min_oi_usd=5.0) == "bcccbbbb"
    ages = xr.where(listed, 1.0, 9.0).assign_attrs(units="h")
    assert shorts(panel, age_hours=ages, max_age="2h") == "bcccbbbb"
    # Marks next to the payments only: those of one hour are compared with each other.
    marks = xr.where(panel.notnull() | (at > at[1]), 100.0, np.nan).drop_vars("interval_hours")
    marks[2, 1], marks[2, 6] = 0.91, 0.91
    assert shorts(panel, prices=marks.assign_attrs(units="USD")) == "bccccbcc"
    assert shorts(panel.chunk(time=3), tradable=listed.chunk(time=3)) == "bcccbbbb"


def test_late_stamps_in_chunks_are_merged_lazily():
    pytest.importorskip("dask")
    panel = xr.concat(
        [venues(a=[1.0, 2.0, 3.0]), venues(STAMPS + LATE, b=[4.0, 4.0, 4.0])],
        "exchange",
        join="outer",
        combine_attrs="override",
    )
    lazy = funding.best_pair(panel.chunk(time=2))
    assert lazy["spread_bps_8h"].chunks is not None
    assert_identical(lazy.compute(), funding.best_pair(panel))


@pytest.mark.parametrize(("gap", "missing"), [(11.9, 0.0), (12.1, 4.1), (13.0, 5.0)])
def test_a_payment_is_missing_from_one_and_a_half_intervals_on(gap, missing):
    """Halfway to the second of two 8-hour intervals: before, the payment is late; after, one is missing."""
    stamps = STAMPS[0] + pd.to_timedelta([0.0, gap], "h")
    result = funding.cumulative(settled([1.0, 1.0], stamps), gaps="skip")
    assert result["missing_hours"][-1].item() == pytest.approx(missing, abs=1e-9)


def test_two_hourly_payments_may_follow_a_sum_that_is_an_hour_late():
    """Three payments of a halt at 15:00 instead of 14:00, the next one at 16:00: 8 hours paid in 8."""
    hours = np.array([2.0, 4.0, 6.0, 8.0, 15.0, 16.0, 18.0, 20.0])
    paid = np.array([2.0, 2.0, 2.0, 2.0, 6.0, 2.0, 2.0, 2.0])
    stamps = pd.DatetimeIndex(np.datetime64("2026-01-01") + (hours * 3600).astype("timedelta64[s]"))
    panel = settled([1.0] * 8, stamps, 2).assign_coords(interval_hours=("time", paid))
    result = funding.cumulative(panel)
    assert result["funding_bps"][-1].item() == pytest.approx(20 / 8)
    assert result["missing_hours"][-1].item() == 0.0
    twice = pd.DatetimeIndex([*stamps, stamps[-1] + pd.Timedelta("1h"), stamps[-1] + pd.Timedelta("2h")])
    panel = settled([1.0] * 10, twice, 2).assign_coords(interval_hours=("time", [*paid, 2.0, 2.0]))
    with pytest.raises(ValueError, match="2026-01-01T21:00:00 pays for 2 h and comes 1 h"):
        funding.cumulative(panel)
