"""Mistakes that data of perpetuals invites, one by one: the figure is right, or the input refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding, liquidations, oi
from derivdata.tables import contract

TIMES = pd.date_range("2026-01-01", periods=200, freq="8h")
LATE = TIMES + pd.Timedelta("1ms")


def paid(values, times=TIMES, interval_hours=8.0) -> xr.DataArray:
    coords = {"time": times, "interval_hours": interval_hours}
    return xr.DataArray(
        np.asarray(values, float), coords, ("time",), attrs={"units": "bps/8h", "kind": "settled"}
    )


def pair(first, second, times=TIMES) -> xr.DataArray:
    return xr.concat([paid(first, times), paid(second, times)], pd.Index(["a", "b"], name="exchange"))


def pulse(**at: float) -> np.ndarray:
    """Payments that are zero but for some places, ``p3=100.0``."""
    values = np.zeros(200)
    for place, value in at.items():
        values[int(place[1:])] = value
    return values


@pytest.mark.parametrize("times", [TIMES, LATE], ids=["exact", "a millisecond late"])
def test_a_late_stamp_belongs_to_the_payment_it_is_late_for(times):
    """100 bps are paid at 2 January 00:00, the fourth stamp."""
    sums = funding.period_sums(paid(pulse(p3=100.0), times))["funding_bps"].to_series()
    assert sums[pd.Timestamp("2026-01-02")] == 100.0
    assert sums.drop(pd.Timestamp("2026-01-02")).fillna(0.0).eq(0.0).all()


@pytest.mark.parametrize("times", [TIMES, LATE], ids=["exact", "a millisecond late"])
def test_who_enters_at_a_payment_does_not_earn_it(times):
    """Entry on 2 January 00:00: the 100 of that stamp are missed, the 30 eight hours later are paid."""
    rates = pair(pulse(p3=100.0, p4=30.0), np.zeros(200), times)
    found = funding.realised_carry(rates, "a", "b", "2026-01-02", "2026-01-04", fee_bps=0.0)
    assert float(found.long_bps) == -30.0
    assert float(found.gross_bps) == -30.0


def test_the_best_pair_of_late_payments_is_that_of_exact_ones():
    """Settlements at 8 hours and 7 ms late meet on one grid when they are aligned as payments."""
    exact, late = paid(np.full(200, 1.0)), paid(np.full(200, 4.0), TIMES + pd.Timedelta("7ms"))
    sums = [funding.period_sums(each)["funding_bps"] for each in (exact, late)]
    both = xr.concat(sums, pd.Index(["a", "b"], name="exchange"), join="inner")
    assert both.sizes["time"] >= 199
    assert (both.sel(exchange="b") - both.sel(exchange="a")).dropna("time").to_numpy() == pytest.approx(3.0)


@pytest.mark.parametrize("step", ["1s", "10s", "29s"])
def test_quality_of_steps_below_half_a_minute(step):
    stamps = pd.date_range("2026-01-01", periods=100, freq=step, tz="UTC")
    found = dd.quality(pd.DataFrame({"time": stamps, "rate_bps_8h": np.arange(100.0)}))
    assert found.attrs["summary"] == "1 series, 100 points, 100.00% of those expected"


def test_a_rate_at_its_floor_is_no_outlier():
    """51 of every 100 rates stand at the floor of 1 bps, some of them one rounding step above it."""
    rates = np.where(np.arange(200) % 100 < 51, 1.25e-5 * 1e4 * 8, 0.5)
    rates[:30] = np.nextafter(rates[:30], 2)
    found = dd.quality(pd.DataFrame({"time": TIMES.tz_localize("UTC"), "rate_bps_8h": rates}))
    assert found["outliers"].tolist() == [0]


@pytest.mark.parametrize("tick", [1e-3, 1e-7, 1e-10])
def test_the_persistence_of_a_level_with_one_tick(tick):
    """Of 199 pairs one starts and another ends at the tick: the slope is -(1/199)/(198/199) = -1/198."""
    values = np.ones(200)
    values[100] += tick
    found = funding.half_life(paid(values), method="ols", level=None)
    assert float(found.phi) == pytest.approx(-1 / 198, rel=1e-4)
    assert np.isnan(found.half_life_hours)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: funding.zscore(paid(range(200))[::-1], rows=20), "must ascend without repeats"),
        (
            lambda: oi.market_share(
                xr.DataArray(
                    [[1.0, np.nan, 3.0, 4.0], [1.0] * 4],
                    {"exchange": ["a", "b"], "time": TIMES[:4][::-1]},
                    ("exchange", "time"),
                    attrs={"units": "USD"},
                )
            ),
            "must ascend without repeats",
        ),
        (
            lambda: funding.cumulative(
                paid(np.ones(201), TIMES.append(TIMES[50:51] + pd.Timedelta("30s")).sort_values())
            ),
            "two settlements within a minute of 2026-01-17T16:00:00",
        ),
        (
            lambda: funding.cumulative(
                paid(np.ones(160), pd.date_range("2026-01-01", periods=160, freq="h"))
            ),
            "pays for 8 h and comes 1 h after",
        ),
        (
            lambda: oi.market_share(
                xr.DataArray(
                    [[1.0, -1.0], [1.0, 3.0]],
                    {"exchange": ["a", "b"], "time": TIMES[:2]},
                    ("exchange", "time"),
                    attrs={"units": "USD"},
                )
            ),
            "oi is negative somewhere",
        ),
        (
            lambda: liquidations.bucket(
                pd.DataFrame(
                    {
                        "time": TIMES[:2].tz_localize("UTC"),
                        "side": ["Sell", "Buy"],
                        "value_usd": [1.0, 2.0],
                    }
                ),
                "1d",
            ),
            "side 'Sell': it must be 'long' or 'short'",
        ),
    ],
    ids=[
        "z-score newest first",
        "shares newest first",
        "a payment stored twice",
        "hourly payments said to pay 8 hours",
        "negative open interest",
        "sides of orders",
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_hourly_payments_pay_for_their_hour():
    """160 hours at 1 bps/8h are 20 bps."""
    hourly = paid(np.ones(160), pd.date_range("2026-01-01", periods=160, freq="h"), 1.0)
    last = funding.cumulative(hourly).isel(time=-1)
    assert float(last.funding_bps) == pytest.approx(20.0, abs=1e-12)
    assert float(last.covered_hours) == 160.0


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("BTCUSDT Perpetual", "BTC"),
        ("BTC-PERP-INTX", "BTC"),
        ("PERP_BTC_USDC", "BTC"),
        ("BTC_USDT_Perp", "BTC"),
        ("BTCFDUSD", "BTCFDUSD"),
        ("STARDUST", "STARDUST"),
        ("ROBUST", "ROBUST"),
        ("SUPERP", "SUPERP"),
    ],
)
def test_contracts_are_cut_where_the_symbol_ends(name, symbol):
    assert contract(name).symbol == symbol


def test_times_with_a_zone_are_refused_with_what_to_do():
    zoned = paid(np.ones(200), TIMES.tz_localize("UTC"))
    with pytest.raises(TypeError, match=r"naive UTC.*assign_coords\(time=.*tz_localize\(None\)\)"):
        funding.cumulative(zoned)
