import numpy as np
import pandas as pd
import pytest

from derivdata.sources import sample
from tests.support.timestamps import at

STORE = sample.open()
CASES = [
    "2026-06-30 12:00",
    "2026-02-17 00:00",
    "2025-11-09 23:57",
    "2025-09-01 05:05",
    "2026-03-14 16:59:59",
]
SYMBOLS = ["BTC", "NEAR", "TSLA"]


def by_pair(frame, column):
    return frame.groupby(["symbol", "exchange"], observed=True)[column]


@pytest.fixture(scope="module", params=CASES)
def now(request):
    instant = at(request.param)
    frame = STORE.latest("markets_symbol_exchanges", instant, within=pd.Timedelta("1h"), symbols=SYMBOLS)
    return instant.floor("5min"), frame.set_index(["symbol", "exchange"])


def read(table, start, end):
    return STORE.read(table, start, end, symbols=SYMBOLS)


def test_open_interest_and_volume_use_the_last_complete_five_minutes(now):
    instant, frame = now
    assert (frame["time"] == instant).all()
    assert len(frame) > 50
    oi = read("oi_history", instant.floor("1h"), instant.floor("1h") + pd.Timedelta("1us"))
    pd.testing.assert_series_equal(frame["oi_usd"], oi.set_index(["symbol", "exchange"])["oi_usd"])
    end = instant.floor("1h")
    total = by_pair(read("volume_history", end - pd.Timedelta("24h"), end), "volume_usd").sum()
    result = frame["volume_24h_usd"].dropna()
    assert result.to_numpy() == pytest.approx(total[result.index].to_numpy(), abs=1e-5)
    assert frame.index.difference(total.index).equals(frame.index[frame["volume_24h_usd"].isna()])


def test_funding_is_the_newest_sample_and_the_mean_of_seven_days(now):
    instant, frame = now
    samples = read(
        "funding_history", instant - pd.Timedelta("1D") + pd.Timedelta("5min"), instant + pd.Timedelta("1us")
    )
    newest = by_pair(samples, "rate_bps_8h").last()
    result = frame["funding_current_bps_8h"].dropna()
    pd.testing.assert_series_equal(result, newest, check_names=False, check_exact=True)
    week = read(
        "funding_history", instant - pd.Timedelta("7D") + pd.Timedelta("1us"), instant + pd.Timedelta("1us")
    )
    mean = by_pair(week, "rate_bps_8h").mean()
    result = frame["funding_avg_7d_bps_8h"].dropna()
    pd.testing.assert_series_equal(result, mean[result.index], check_names=False, rtol=0, atol=6e-7)


def test_liquidations_are_the_fills_of_24_hours(now):
    instant, frame = now
    fills = by_pair(read("liquidations_fills", instant - pd.Timedelta("24h"), instant), "value_usd").sum()
    assert fills.index.isin(frame.index).all()
    result = frame["liquidation_24h_usd"]
    assert result.to_numpy() == pytest.approx(fills.reindex(frame.index, fill_value=0.0).to_numpy(), abs=1e-5)


def test_prices_change_as_they_moved_and_venues_quote_nearly_one(now):
    instant, frame = now
    day_before = instant - pd.Timedelta("24h")
    before = STORE.latest("markets_symbol_exchanges", day_before, within=pd.Timedelta(0), symbols=SYMBOLS)
    before = before.set_index(["symbol", "exchange"])["price_usd"].reindex(frame.index)
    expected = 100 * (frame["price_usd"] / before - 1)
    pd.testing.assert_series_equal(
        frame["price_24h_change_pct"], expected, check_names=False, rtol=0, atol=6e-7
    )
    spread = frame.groupby("symbol", observed=True)["price_usd"].agg(lambda p: p.max() / p.min() - 1)
    assert (spread < 7e-4).all()
    assert (spread > 0).all()


def test_only_new_pairs_have_missing_values():
    """A pair younger than a day has no change; all else is missing nowhere at the sample's clock."""
    frame = STORE.latest("markets_symbol_exchanges", STORE.now, within=pd.Timedelta("1h"))
    assert len(frame) > 4000
    assert not frame.drop(columns=["price_24h_change_pct"]).isna().any(axis=None)
    first = STORE.latest("markets_symbol_exchanges", at("2025-09-01 01:00"), within=pd.Timedelta("1h"))
    assert first["price_24h_change_pct"].isna().all()
    assert np.isfinite(first["price_usd"]).all()
