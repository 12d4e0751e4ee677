"""What is known of the sample comes back: clusters of liquidations, and trends of shares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import liquidations, oi
from derivdata.sources import sample

GAP = pd.Timedelta("60s")


@pytest.fixture(scope="module")
def events() -> pd.DataFrame:
    store = sample.open()
    start, end = store.now - pd.Timedelta(20, "D"), store.now
    fills = store.read("liquidations_fills", start, end, symbols=["BTC"])
    orders = fills.groupby(["exchange", "order_id"], observed=True)
    return orders.agg(
        time=("time", "min"), side=("side", "first"), value_usd=("value_usd", "sum")
    ).reset_index()


def true_clusters(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
    """The sample's clusters, those within a minute of one another taken as one."""
    truth = sample.truth("clusters", symbols=["BTC"], start=start, end=end).sort_values("time")
    reached = truth["end"].cummax().shift(1)
    group = (truth["time"] - reached > GAP).cumsum()
    merged = truth.groupby(group)
    return merged.agg(start=("time", "min"), count=("order_count", "sum"), value_usd=("value_usd", "sum"))


def test_true_clusters_are_found_again(events: pd.DataFrame) -> None:
    found = liquidations.clusters(events, "60s")
    assert found["value_usd"].sum() == pytest.approx(events["value_usd"].sum(), rel=1e-12)
    inner = found.iloc[5:-5]
    truth = true_clusters(inner["start"].iloc[0], inner["end"].iloc[-1] + GAP)
    both = inner.merge(truth.reset_index(drop=True), on="start", suffixes=("", "_true"))
    whole = both[both["count"] == both["count_true"]]
    assert len(whole) >= 0.95 * len(inner), "a wait of over a minute inside a cluster is rare"
    assert whole["value_usd"].to_numpy() == pytest.approx(whole["value_usd_true"].to_numpy(), rel=1e-3)


def test_the_share_of_orders_that_others_caused_is_near_the_truth(events: pd.DataFrame) -> None:
    branching = sample.truth("liquidations", symbols=["BTC"])["branching"].iloc[0]
    counts = liquidations.bucket(events, "30min")["count"]
    assert liquidations.branching_ratio(counts).item() == pytest.approx(branching, abs=0.08)


def test_trends_of_shares_hold_the_true_slope() -> None:
    dd.connect("sample")
    panel = dd.panel(dd.oi.history("BTC", "120d", resolution="1d"), "oi_usd").isel(symbol=0)
    truth = sample.truth("oi", symbols=["BTC"]).set_index("exchange")
    venues = truth["level_usd"].nlargest(12).index.intersection(panel["exchange"].values)
    found = oi.share_trend(oi.market_share(panel).sel(exchange=list(venues)))
    years = (panel["time"].values - panel["time"].values[0]) / pd.Timedelta(365, "D")
    held = truth.loc[panel["exchange"].values]
    path = held["level_usd"].to_numpy()[:, None] * np.exp(held["growth_per_year"].to_numpy()[:, None] * years)
    share = pd.DataFrame(path / path.sum(axis=0), index=held.index)
    slope = (share.iloc[:, -1] - share.iloc[:, 0]) / (365.0 * years[-1])
    inside = (found["low"].values <= slope[venues]) & (slope[venues] <= found["high"].values)
    assert inside.mean() >= 0.8, "of nominal 95 % intervals, over twelve venues that share one total"
