"""Backtests of mixed positions against a plain loop: options, futures, perpetuals and spot with a hedge."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.analysis import backtest, surface
from derivdata.analysis.backtest import DeltaHedge, OptionCosts
from tests.analysis.option_book_oracle import Leg, SlowBook
from tests.analysis.option_oracle import made_chains, perpetual, settlements
from tests.analysis.test_option_backtest import fridays, path, sums
from tests.support.examples import some

pytestmark = pytest.mark.drawn
ROWS = 26
COSTS = OptionCosts(
    option_fee_bps=3.0, option_fee_cap=0.125, delivery_fee_bps=1.5, fee_bps=5.0, slippage_bps=1.0
)
FEES = {"option": 3e-4, "cap": 0.125, "delivery": 1.5e-4, "other": 5e-4, "slippage": 1e-4}


@pytest.fixture(scope="module", params=[True, False], ids=["coin options", "USD options"])
def market(request: pytest.FixtureRequest) -> tuple[Any, pd.DataFrame, Any, bool]:
    spots = path(ROWS, seed=11)
    chains = made_chains(spots, in_coin=request.param, expiries=2, strikes=(80_000.0, 124_001.0, 4_000.0))
    return spots, chains, surface.from_chain(chains), request.param


def drawn_plan(rng: random.Random, chains: pd.DataFrame) -> dict[pd.Timestamp, dict[Leg, float]]:
    """Draw the legs to hold from random times on; some quotes and perpetual prices are missing."""
    plan: dict[pd.Timestamp, dict[Leg, float]] = {}
    for now, chain in chains.groupby("time"):
        if rng.random() < 0.55:
            continue
        legs: dict[Leg, float] = {}
        live = chain[chain["expiry"] > now]
        for _ in range(rng.randint(0, 3)):
            row = live.iloc[rng.randrange(len(live))]
            legs[Leg(row["side"], row["expiry"], row["strike"])] = rng.choice([-2.0, -1.0, 0.5, 1.0])
        expiry = rng.choice(sorted(live["expiry"].unique()))
        for leg, coins in (
            (Leg("future", expiry), 1.0),
            (Leg("future", expiry, inverse=True), 90_000.0),
            (Leg("perpetual"), 1.0),
            (Leg("perpetual", inverse=True), 90_000.0),
            (Leg("spot"), 1.0),
        ):
            if rng.random() < 0.3:
                legs[leg] = coins * rng.choice([-1.0, 0.5, 1.5])
        plan[now] = legs
    return plan


def table_of(legs: dict[Leg, float]) -> pd.DataFrame:
    rows = [
        (
            leg.side,
            leg.expiry or pd.NaT,
            leg.strike or np.nan,
            quantity,
            "inverse" if leg.inverse else "linear",
        )
        for leg, quantity in legs.items()
    ]
    table = pd.DataFrame(rows, columns=["side", "expiry", "strike", "quantity", "contract"])
    return table.assign(expiry=pd.to_datetime(table["expiry"], utc=True))


@pytest.mark.filterwarnings("ignore:option backtest:derivdata.errors.DataNotice")
@pytest.mark.parametrize("seed", some(range(60), 10))
def test_mixed_book_equals_a_plain_loop(seed: int, market: tuple[Any, pd.DataFrame, Any, bool]) -> None:
    """Equity equals the loop's, and the sum of its parts, within 1e-8 of a USD or 1e-13 of a coin."""
    rng = random.Random(seed)
    spots, chains, surfaces, quoted_in_coin = market
    in_coin = rng.random() < 0.5
    capital = 5.0 if in_coin else 500_000.0
    marks = perpetual(spots)
    marks = marks[[rng.random() > 0.15 or place == 0 for place in range(len(marks))]]
    paid = settlements(len(spots))
    paid = paid[[rng.random() > 0.2 for _ in range(len(paid))]]
    paid = paid.assign(rate_bps_8h=[rng.uniform(-20.0, 20.0) for _ in range(len(paid))])
    delivered = fridays(spots)
    plan = drawn_plan(rng, chains)
    hours = rng.choice([None, 8.0, 24.0])
    band = rng.choice([None, 0.25]) if hours is not None else 0.5
    has_hedge = rng.random() < 0.75
    is_inverse = rng.random() < 0.5
    hedge = None
    if has_hedge:
        every = None if hours is None else f"{hours:.0f}h"
        hedge = DeltaHedge(every=every, band=band, contract="inverse" if is_inverse else "linear")
    currency = "coin" if in_coin else "usd"
    result = backtest.options(
        chains,
        lambda state: table_of(plan[state.now]) if state.now in plan else None,
        COSTS,
        hedge=hedge,
        prices=marks,
        funding=paid,
        delivery=delivered,
        surfaces=surfaces,
        currency=currency,
        capital=capital,
    )
    slow = SlowBook(
        dict(list(chains.groupby("time"))),
        surfaces,
        quoted_in_coin,
        in_coin,
        capital,
        dict(zip(marks["time"], marks["price_usd"], strict=True)),
        dict(zip(paid["time"], paid["rate_bps_8h"] / 1e4, strict=True)),
        delivered,
        plan,
        FEES,
        hours,
        band,
        is_inverse,
    )
    tolerance = 1e-13 if in_coin else 1e-8
    equity = result[f"equity_{currency}"]
    np.testing.assert_allclose(equity, slow.equity(has_hedge), rtol=0.0, atol=tolerance)
    total = capital + sums(result, currency).cumsum("time")
    np.testing.assert_allclose(equity, total, rtol=0.0, atol=tolerance)
    assert (result["fill_reason"] == 1).any() or (result["fill_reason"] == 0).any()
