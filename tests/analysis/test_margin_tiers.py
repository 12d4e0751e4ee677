"""Maintenance margin by position size: the stated tiers, and their use in a backtest and a portfolio."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import backtest
from derivdata.tables.venue_facts import MaintenanceTiers
from tests.analysis.test_backtest import panel

TIERS = pd.DataFrame(
    {
        "symbol": "BTC",
        "exchange": ["alpha", "alpha", "beta"],
        "max_notional_usd": [50_000.0, 200_000.0, np.nan],
        "max_size_coins": [np.nan, np.nan, 10.0],
        "maintenance_margin": [0.004, 0.2, 0.006],
    }
)


def test_a_position_has_the_rate_of_the_tier_of_its_size() -> None:
    tiers = MaintenanceTiers(TIERS, ["BTC", "ETH"], ["alpha", "beta"])
    sizes = np.array([1_000.0, 50_000.0, 50_001.0, 1e9])
    coins = sizes / 100.0
    assert tiers.rates(0, 0, coins, sizes).tolist() == [0.004, 0.004, 0.2, 0.2]
    assert tiers.rates(0, 1, coins, sizes).tolist() == [0.006] * 4
    assert tiers.rates(1, 0, coins, sizes).tolist() == [0.01] * 4
    assert tiers.absent == ["ETH on alpha", "ETH on beta"]
    # 1e9 USD are above the 200,000 USD of alpha's last tier, and their 10 million coins above beta's 10.
    assert tiers.beyond == ["BTC on alpha (200,000 USD)", "BTC on beta (10 coins)"]
    within = MaintenanceTiers(TIERS, ["BTC"], ["alpha"])
    within.rates(0, 0, 1.0, 200_000.0)
    assert within.beyond == []
    assert within.beyond_notice() == ""


def test_legs_larger_than_the_last_tier_give_a_notice() -> None:
    rates = panel([[[0.0] * 3, [4.0] * 3]])
    marks = panel(np.full((1, 2, 3), 100.0), unit="USD")
    rule = backtest.HoldPair("BTC", "alpha", "beta")
    with pytest.warns(dd.errors.DataNotice, match=r"BTC on alpha \(200,000 USD\), BTC on beta \(10 coins\)"):
        backtest.carry(
            rates, rule, backtest.Costs(fee_bps=0.0), prices=marks, leg_usd=300_000.0, maintenance=TIERS
        )


def test_a_large_leg_on_okx_has_the_rate_of_its_tier() -> None:
    """By hand from the recorded tiers: 150 BTC are in tier 3, 250 in tier 4, 19,000 in tier 97."""
    table = dd.venues.margin_tiers(["okx", "bitget", "gateio"])
    tiers = MaintenanceTiers(table, ["BTC"], ["okx", "bitget", "gateio"])
    coins = np.array([10.0, 10.1, 150.0, 250.0, 19_000.0])
    assert tiers.rates(0, 0, coins, coins * 1e5).tolist() == [0.004, 0.005, 0.0075, 0.0125, 0.4775]
    usd = np.array([200_000.0, 200_001.0, 4e7, 1.1e9])
    assert tiers.rates(0, 1, usd / 1e5, usd).tolist() == [0.004, 0.005, 0.02, 0.6]
    assert tiers.rates(0, 2, 12.0, 1_200_000.0).item() == 0.004
    leverage = table["max_leverage"][table["exchange"] == "okx"]
    assert leverage.iloc[[2, 5, 25, 98]].tolist() == [50.0, 28.57, 7.4, 2.0]


def test_the_newest_tiers_of_a_table_count() -> None:
    times = pd.to_datetime(["2026-01-01", "2026-02-01"], utc=True).repeat(3)
    older = TIERS.assign(maintenance_margin=0.5)
    table = pd.concat([older, TIERS], ignore_index=True).assign(time=times)
    assert MaintenanceTiers(table, ["BTC"], ["alpha"]).rates(0, 0, 1.0, 1.0).item() == 0.004


@pytest.mark.filterwarnings("ignore:maintenance. positions exceed the last tier:derivdata.errors.DataNotice")
def test_a_larger_position_is_liquidated_by_its_tier() -> None:
    """Both legs have 3 times leverage; alpha's mark falls by 15 % and leaves 18 % of the notional."""
    prices = np.array([[[100.0, 100.0, 85.0, 85.0, 85.0], [100.0, 100.0, 85.0, 85.0, 85.0]]])
    rates = panel([[[0.0] * 5, [4.0] * 5]])
    marks = panel(prices, unit="USD")
    rule = backtest.HoldPair("BTC", "alpha", "beta")
    reasons = {}
    for leg_usd in (40_000.0, 100_000.0):
        result = backtest.carry(
            rates, rule, backtest.Costs(fee_bps=0.0), prices=marks, leg_usd=leg_usd, maintenance=TIERS
        )
        reasons[leg_usd] = backtest.trades(result)["reason"].tolist()[0]
    # 33.3 % of margin less 15 % are 18.3 %: above 0.4 %, and above 20 % of 85 % only for the smaller tier
    assert reasons == {40_000.0: "end", 100_000.0: "end"}
    deeper = panel(np.where(prices == 85.0, 82.0, prices), unit="USD")
    for leg_usd in (40_000.0, 100_000.0):
        result = backtest.carry(
            rates, rule, backtest.Costs(fee_bps=0.0), prices=deeper, leg_usd=leg_usd, maintenance=TIERS
        )
        reasons[leg_usd] = backtest.trades(result)["reason"].tolist()[0]
    # 15.3 % are left of 82 %: 20 % of 82 % are 16.4 %
    assert reasons == {40_000.0: "end", 100_000.0: "liquidation"}


def test_contracts_without_tiers_are_named() -> None:
    rates = panel([[[0.0] * 3, [4.0] * 3]])
    with pytest.warns(
        dd.errors.DataNotice, match="1% of notional is used for 1 contracts without tiers: BTC on beta"
    ):
        backtest.carry(
            rates,
            backtest.SpreadThreshold(1.0),
            backtest.Costs(fee_bps=0.0),
            maintenance=TIERS[TIERS["exchange"] == "alpha"],
        )


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (TIERS.drop(columns="symbol"), "lacks symbol"),
        (TIERS.assign(maintenance_margin=0.0), "above 0 and up to 1"),
        (TIERS.assign(maintenance_margin=0.5), "pass a lower leverage"),
    ],
)
def test_an_impossible_table_of_tiers_is_rejected(table: pd.DataFrame, text: str) -> None:
    rates = panel([[[0.0] * 3, [4.0] * 3]])
    with pytest.raises(ValueError, match=text):
        backtest.carry(rates, backtest.SpreadThreshold(1.0), backtest.Costs(fee_bps=0.0), maintenance=table)


def test_stated_tiers_have_a_day_and_a_source() -> None:
    rows = dd.venues.margin_tiers()
    assert {"okx", "gateio", "kucoin", "bitget"} == {*rows["exchange"]}
    assert (rows["source"].str.len() > 20).all()
    sizes = rows["max_notional_usd"].fillna(rows["max_size_coins"])
    for _, tiers in rows.assign(size=sizes).groupby(["exchange", "symbol"]):
        assert tiers["size"].is_monotonic_increasing
        assert tiers["maintenance_margin"].is_monotonic_increasing
    assert dd.venues.margin_tiers(["okx"], day="2026-01-01").empty
