import math

import numpy as np
import pandas as pd
import pytest

from derivdata.sources import sample

STORE = sample.open()
MONTH = (pd.Timestamp("2026-05-01", tz="UTC"), pd.Timestamp("2026-06-01", tz="UTC"))


def rates(symbol, start, end, **chosen):
    window = (pd.to_datetime(t, utc=True).as_unit("us") for t in (start, end))
    return STORE.read("funding_history", *window, symbols=[symbol], **chosen)


def wide(frame):
    return frame.pivot(index="time", columns="exchange", values="rate_bps_8h")


@pytest.fixture(scope="module")
def btc():
    """Ten months of BTC: nine free venues and three clamped ones."""
    venues = [
        v
        for v, s in sample.truth("funding", symbols=["BTC"])[["exchange", "style"]].to_numpy()
        if s == "free"
    ]
    return wide(rates("BTC", "2025-09-01", "2026-07-01", venues=[*venues, "binance", "grvt", "hyperliquid"]))


def test_half_lives_of_spreads_are_recovered(btc):
    """AR(1) by least squares on hourly values of ten months, against the truth.

    The standard error of a half-life h over n hours is about ``h √(2.9 h / n)``, four of which are allowed;
    the least-squares bias of up to ``-4 / n`` in φ adds little.
    """
    for spread in sample.truth("spreads", symbols=["BTC"]).itertuples():
        x = (btc[spread.exchange] - btc[spread.other_exchange]).to_numpy()[::12]
        now, then = x[1:], x[:-1]
        both = ~np.isnan(now + then)
        h, n = spread.half_life_hours, both.sum()
        slope = np.cov(then[both], now[both])[0, 1] / np.var(then[both], ddof=1)
        error = math.sqrt(2.9 * h / n)
        assert -math.log(2) / math.log(slope) == pytest.approx(h, rel=4 * error)
        effective = n * math.log(2) / (2 * h)
        assert np.nanmean(x) == pytest.approx(
            spread.mean_bps_8h, abs=4 * spread.deviation_bps_8h / math.sqrt(effective)
        )
        assert np.nanstd(x) == pytest.approx(spread.deviation_bps_8h, rel=4 / math.sqrt(2 * effective))


def test_rates_have_fat_tails():
    """Smaller symbols are squeezed: the kurtosis of changes of the base is far above the normal's 3."""
    free = wide(rates("KAVA", "2025-09-01", "2026-06-30", venues=["coinbase", "paradex", "cryptocom"])).mean(
        axis=1
    )
    change = free.diff(12).dropna()
    assert ((change - change.mean()) ** 4).mean() / change.var() ** 2 > 10
    extremes = STORE.read(
        "funding_history", *[pd.Timestamp(t, tz="UTC") for t in ("2026-02-10", "2026-02-11")]
    )
    assert extremes["rate_bps_8h"].min() < -50
    assert extremes["rate_bps_8h"].abs().median() < 3


def test_samples_have_gaps_and_late_venues_are_late(btc):
    spans = sample.truth("funding", symbols=["BTC"]).set_index("exchange")
    late = spans.loc[["kalshi", "risex", "decibel"], "start"]
    for venue, start in late.items():
        assert btc[venue].first_valid_index() >= start
        assert btc[venue].first_valid_index() < start + pd.Timedelta("8h")
    there = btc["binance"].notna()
    holes = (~there).sum()
    assert 0 < holes < 0.01 * len(btc)
    runs = (there != there.shift()).cumsum()[~there].value_counts()
    assert runs.max() <= 2 * 96


@pytest.mark.parametrize("symbol", ["BTC", "SOL"])
def test_payments_are_means_of_the_samples(symbol):
    """Where no sample of (t − h, t] is missing, the payment at t is their mean to the last digit."""
    samples = rates(symbol, *MONTH)
    paid = STORE.read("funding_settlements", *MONTH, symbols=[symbol])
    paid = paid[paid["time"] > MONTH[0]]
    series = {v: g.set_index("time")["rate_bps_8h"] for v, g in samples.groupby("exchange", observed=True)}
    checked = 0
    for row in paid.sample(400, random_state=1).itertuples():
        start = row.time - pd.Timedelta(row.interval_hours, "h")
        held = series[row.exchange].loc[start : row.time - pd.Timedelta("1us")]
        if len(held) == row.interval_hours * 12:
            assert row.rate_bps_8h == pytest.approx(math.fsum(held) / len(held), abs=5.1e-7)
            checked += 1
    assert checked > 300


def test_intervals_change_when_the_ground_truth_states():
    known = sample.truth("intervals")
    changes = known[known.duplicated(["symbol", "exchange"])]
    assert len(changes) > 100
    assert set(known["interval_hours"]) == {1.0, 4.0, 8.0}
    for change in changes.sample(6, random_state=2).itertuples():
        paid = STORE.read(
            "funding_settlements", change.time - pd.Timedelta("3D"), change.time + pd.Timedelta("3D"),
            symbols=[change.symbol], venues=[change.exchange],
        )  # fmt: skip
        before, after = (paid[paid["time"] <= change.time], paid[paid["time"] > change.time])
        for part, hours in ((before, {1, 4, 8} - {change.interval_hours}), (after, {change.interval_hours})):
            gaps = part["time"].diff().dropna().dt.total_seconds() / 3600
            assert part["interval_hours"].nunique() == 1
            assert part["interval_hours"].iloc[0] in hours
            assert gaps.tolist() == part["interval_hours"].tolist()[1:]


def test_large_symbols_keep_the_venues_own_interval():
    paid = STORE.latest("funding_settlements", STORE.now, within=pd.Timedelta("9h"), symbols=["BTC"])
    hours = paid.set_index("exchange")["interval_hours"]
    assert hours[["binance", "okx", "edgex", "hyperliquid", "coinbase"]].tolist() == [8.0, 8.0, 4.0, 1.0, 1.0]
