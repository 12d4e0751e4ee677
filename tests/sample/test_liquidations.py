import math

import numpy as np
import pandas as pd
import pytest

from derivdata.sources import sample
from tests.support.timestamps import at

STORE = sample.open()


@pytest.fixture(scope="module")
def fills():
    """Ten quiet days of everything."""
    return STORE.read("liquidations_fills", at("2026-03-01"), at("2026-03-11"))


@pytest.fixture(scope="module")
def clusters():
    return sample.truth("clusters", start="2026-03-01", end="2026-03-11")


def test_orders_have_several_fills_that_add_up_and_slip_against_the_liquidated(fills):
    orders = fills.groupby("order_id")
    assert orders["filled_quantity"].sum().to_numpy() == pytest.approx(
        orders["quantity"].first().to_numpy(), abs=2e-6
    )
    for name in ("exchange", "symbol", "side", "order_price_usd", "quantity", "status"):
        assert (orders[name].nunique() == 1).all()
    assert orders.size().max() == 6
    assert orders.size().mean() == pytest.approx(1 + sum(0.45**k for k in range(1, 6)), abs=0.02)
    assert (fills["filled_quantity"] > 0).all()
    value = fills["filled_quantity"] * fills["fill_price_usd"]
    assert fills["value_usd"].to_numpy() == pytest.approx(value.to_numpy(), abs=1e-6)
    assert set(fills["side"]) == {"long", "short"}
    slip = fills["fill_price_usd"] / fills["order_price_usd"] - 1
    assert (slip[fills["side"] == "long"] < 0).all()
    assert (slip[fills["side"] == "short"] > 0).all()


def test_clusters_equal_the_ground_truth(fills, clusters):
    """Every order belongs to one cluster, and each cluster's totals equal the sums of its orders."""
    assert clusters["order_count"].sum() == pytest.approx(fills["order_id"].nunique(), abs=20)
    for cluster in clusters[clusters["order_count"] > 12].head(5).itertuples():
        inside = fills["time"].between(cluster.time, cluster.end) & (fills["symbol"] == cluster.symbol)
        assert fills["order_id"][inside].nunique() >= cluster.order_count
        assert cluster.cluster == fills["order_id"][inside].iloc[0]


def test_branching_ratio_is_recovered():
    """A cluster's size has mean ``1/(1 − n)`` and variance ``n/(1 − n)³``; few orders are lost."""
    known = sample.truth("liquidations", symbols=["BTC"]).iloc[0]
    sizes = sample.truth("clusters", symbols=["BTC"], start="2026-03-01", end="2026-03-31")["order_count"]
    n = known.branching
    error = math.sqrt(n / (1 - n) ** 3 / len(sizes))
    assert sizes.mean() == pytest.approx(1 / (1 - n), abs=4 * error)
    assert (sizes == 1).mean() == pytest.approx(math.exp(-n), abs=4 * 0.5 / math.sqrt(len(sizes)))
    assert len(sizes) == pytest.approx(
        30 * known.clusters_per_day, abs=4 * math.sqrt(30 * known.clusters_per_day)
    )


def test_values_follow_a_pareto_law_and_counts_cluster_in_time(fills):
    known = sample.truth("liquidations", symbols=["BTC"]).iloc[0]
    value = fills[fills["symbol"] == "BTC"].groupby("order_id")["value_usd"].sum().to_numpy()
    assert value.min() == pytest.approx(known.smallest_usd, rel=0.01)
    inside = value[value < known.largest_usd * 0.99]
    tail = 1 / np.mean(np.log(inside / known.smallest_usd))
    assert tail == pytest.approx(known["tail"], rel=0.06)
    # Orders per ten minutes: a variance of ``mean / (1 − n)²`` for windows long against the delays.
    first = fills[fills["symbol"] == "ETH"].drop_duplicates("order_id")["time"].dt.floor("10min")
    windows = pd.date_range("2026-03-01", "2026-03-11", freq="10min", inclusive="left", tz="UTC")
    counts = first.value_counts().reindex(windows, fill_value=0)
    assert 1 - math.sqrt(counts.mean() / counts.var()) == pytest.approx(0.55, abs=0.08)


@pytest.mark.parametrize("shock", [0, 3])
def test_shocks_strike_every_symbol(shock):
    instant = sample.truth("shocks")["time"].iloc[shock]
    minutes = pd.Timedelta("15min")
    before = STORE.read("liquidations_fills", instant - 3 * minutes, instant - 2 * minutes)
    after = STORE.read("liquidations_fills", instant, instant + minutes)
    assert after["order_id"].nunique() > 8 * before["order_id"].nunique()
    assert after["symbol"].nunique() > 300
