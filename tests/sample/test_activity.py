import numpy as np
import pandas as pd
import pytest

from derivdata.sources import sample

STORE = sample.open()
SPAN = (STORE.start, STORE.now)


def wide(frame, column):
    return frame.pivot(index="time", columns="exchange", values=column)


@pytest.fixture(scope="module")
def oi():
    return wide(STORE.read("oi_history", *SPAN, symbols=["ETH"]), "oi_usd")


def test_open_interest_is_hourly_positive_and_starts_at_the_ground_truth(oi):
    assert (oi.index[1:] - oi.index[:-1] == pd.Timedelta("1h")).all()
    assert oi.min().min() > 0
    assert oi["binance"].notna().all()
    # ``level × e^z`` with a deviation of 0.05 about it, within a common price factor.
    known = sample.truth("oi", symbols=["ETH"]).set_index("exchange")["level_usd"]
    ratio = np.log(oi.iloc[0].dropna() / known)
    assert ratio.std() == pytest.approx(0.05, abs=0.02)


def test_shares_move_as_the_ground_truth_states(oi):
    """The log ratio of two venues has the slope of the difference of their growths.

    The noise has variance 2 × 0.05² and correlation time 4.3 days, so over 302 days the slope's standard
    error is ``√(12 × 0.005 × 8.7/302) / 0.83``, some 0.05 a year.
    """
    known = sample.truth("oi", symbols=["ETH"]).set_index("exchange")
    years = (oi.index - oi.index[0]) / pd.Timedelta("365D")
    for gains, loses in (("hyperliquid", "huobi"), ("lighter", "okx"), ("aster", "phemex")):
        slope = np.polyfit(years, np.log(oi[gains] / oi[loses]), 1)[0]
        expected = known.loc[gains, "growth_per_year"] - known.loc[loses, "growth_per_year"]
        assert expected > 0.5
        assert slope == pytest.approx(expected, abs=0.2)


def test_volume_follows_open_interest_and_the_hours(oi):
    volume = wide(STORE.read("volume_history", *SPAN, symbols=["ETH"]), "volume_usd")
    known = sample.truth("oi", symbols=["ETH"]).set_index("exchange")["turnover_per_day"]
    turnover = (volume.sum() / oi.sum() * 24)[["binance", "lighter", "coinbase"]]
    assert turnover.rank().tolist() == known[turnover.index].rank().tolist()
    assert (turnover / known[turnover.index]).between(0.7, 1.3).all()
    by_hour = volume["binance"].groupby(volume.index.hour).mean()
    assert by_hour.idxmax() in range(12, 19)
    weekend = volume.index.day_of_week >= 5
    assert volume["binance"][weekend].mean() < 0.8 * volume["binance"][~weekend].mean()


def test_prices_have_the_volatility_of_the_ground_truth():
    """Realised on five-minute log returns of a day in each month: about 2,900 returns, so ±6 %."""
    days = pd.date_range("2025-09-05", "2026-06-30", freq="30D", tz="UTC").as_unit("us")
    chosen = {"symbols": ["BTC", "XAU"], "venues": ["mexc"]}
    frames = [STORE.read("markets_symbol_exchanges", d, d + pd.Timedelta("1D"), **chosen) for d in days]
    known = sample.truth("prices", symbols=["BTC", "XAU"]).set_index("symbol")["volatility"]
    for symbol, expected in known.items():
        returns = [np.diff(np.log(f.loc[f["symbol"] == symbol, "price_usd"])) for f in frames]
        result = np.sqrt(np.mean(np.concatenate(returns) ** 2) * 288 * 365)
        assert result == pytest.approx(expected, rel=0.06)
