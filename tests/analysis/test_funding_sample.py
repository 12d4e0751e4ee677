"""The sample's true parameters, found again by the analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import funding
from derivdata.sources import sample
from tests.analysis.funding_made import latest


def _table(name, symbols, start, end, **chosen):
    window = (pd.Timestamp(stamp, tz="UTC").as_unit("us") for stamp in (start, end))
    return sample.open().read(name, *window, symbols=symbols, **chosen)


def test_true_half_lives_lie_in_their_intervals():
    """22 spreads of 3 to 72 hours, 92 days: of nominal 90 % intervals 20 should cover, 16 surely."""
    symbols = ["BTC", "ETH"]
    truth = sample.truth("spreads", symbols=symbols)
    venues = sorted({*truth["exchange"], *truth["other_exchange"]})
    table = _table("funding_history", symbols, "2026-03-01", "2026-06-01", venues=venues)
    panel = dd.panel(table[table["time"].dt.minute == 0])
    spreads = funding.spread(panel)
    inside = []
    for row in truth.itertuples():
        one = spreads.sel(symbol=row.symbol, short=row.exchange, long=row.other_exchange)
        found = funding.half_life(one, period="4h", resamples=99)
        inside.append(
            float(found["half_life_low_hours"]) <= row.half_life_hours <= float(found["half_life_high_hours"])
        )
        assert abs(float(found["mean_bps_8h"]) - row.mean_bps_8h) < 1.0
    assert len(inside) == 22
    assert sum(inside) >= 16


@pytest.fixture(scope="module")
def settlements() -> pd.DataFrame:
    return _table("funding_settlements", ["1INCH"], "2025-11-20", "2026-02-01")


def test_true_changes_of_interval_are_dated_to_their_first_settlement(settlements):
    """1INCH: kucoin from 8 h to 4 h and phemex from 4 h to 1 h on 2025-12-01, aster to 4 h on 2026-01-24."""
    found = funding.infer_interval(dd.panel(settlements))
    reported = dd.panel(settlements, "interval_hours")
    np.testing.assert_array_equal(found["interval_hours"].where(reported.notnull()), reported)
    changed = found["changed"].squeeze("symbol").stack(row=["exchange", "time"])
    events = {(venue, str(time)) for venue, time in changed["row"].values[changed.values]}
    assert events == {
        ("aster", "2026-01-24 04:00:00"),
        ("kucoin", "2025-12-01 04:00:00"),
        ("phemex", "2025-12-01 01:00:00"),
    }


def test_what_was_paid_is_the_sum_of_rate_times_interval(settlements):
    accrued = latest(funding.cumulative(settlements)["funding_bps"])
    paid = settlements["rate_bps_8h"] * settlements["interval_hours"] / 8.0
    by_hand = paid.groupby(settlements["exchange"], observed=True).sum()
    complete = accrued.squeeze("symbol").dropna("exchange")
    assert complete.sizes["exchange"] >= 5
    for venue in complete["exchange"].values:
        assert float(complete.sel(exchange=venue)) == pytest.approx(by_hand[venue], rel=1e-9, abs=1e-9)


def test_hourly_samples_foretell_what_an_hourly_venue_pays():
    """Hyperliquid settles every hour: the integral of its samples is what it pays, to a few per cent."""
    chosen = {"venues": ["hyperliquid"]}
    sampled = dd.panel(_table("funding_history", ["BTC"], "2026-05-01", "2026-06-01", **chosen))
    table = _table("funding_settlements", ["BTC"], "2026-05-01T00:01", "2026-06-01T00:01", **chosen)
    paid = funding.cumulative(table, gaps="skip")
    held = funding.cumulative(sampled, gaps="skip", max_gap="2h")
    paid_bps, held_bps = (float(part["funding_bps"].isel(time=-1).squeeze()) for part in (paid, held))
    assert held_bps == pytest.approx(paid_bps, rel=0.05)
