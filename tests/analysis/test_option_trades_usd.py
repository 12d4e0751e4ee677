"""Trades without a forward imply one, in coin and in USD; prices here follow Black's formula."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from derivdata.analysis import option_trades

NOW = pd.Timestamp("2026-03-02T12:00Z").as_unit("us")
EXPIRY = pd.Timestamp("2026-03-27T08:00Z").as_unit("us")
YEARS = (EXPIRY - NOW) / pd.Timedelta(365, "D")
STRIKES = np.arange(80_000.0, 126_000.0, 5000.0)


def trades(unit: str, forward: float) -> pd.DataFrame:
    rows = pd.DataFrame({"strike": np.repeat(STRIKES, 2), "side": ["call", "put"] * len(STRIKES)})
    root = 0.6 * np.sqrt(YEARS)
    d1 = np.log(forward / rows["strike"]) / root + root / 2
    call = forward * norm.cdf(d1) - rows["strike"] * norm.cdf(d1 - root)
    price = call.where(rows["side"] == "call", call - forward + rows["strike"])
    base = "BTC" if unit == "coin" else "BTC_USDC"
    return rows.assign(
        symbol="BTC",
        exchange="deribit",
        time=NOW,
        expiry=EXPIRY,
        instrument_name=[
            f"{base}-27MAR26-{k:g}-{s[0].upper()}" for k, s in zip(rows.strike, rows.side, strict=True)
        ],
        trade_id=[f"{unit}-{i}" for i in range(len(rows))],
        taker_side="buy",
        execution="book",
        size=1.0,
        iv=0.6,
        index_price_usd=100_000.0,
        underlying_price=np.nan,
        price_coin=price / forward if unit == "coin" else np.nan,
        price_usd=price if unit == "usd" else np.nan,
    )


@pytest.mark.parametrize("unit", ["coin", "usd"])
@pytest.mark.parametrize("forward", [97_000.0, 100_000.0, 104_000.0])
def test_price_and_volatility_give_the_forward(unit, forward):
    chain = option_trades.chain(trades(unit, forward))
    np.testing.assert_allclose(chain["underlying_price"], forward, rtol=1e-9)


def test_two_contracts_of_an_expiry_have_their_own_forwards():
    chain = option_trades.chain(
        pd.concat([trades("coin", 101_000.0), trades("usd", 100_500.0)], ignore_index=True)
    )
    is_usdc = chain["instrument_name"].str.startswith("BTC_USDC")
    np.testing.assert_allclose(chain.loc[is_usdc, "underlying_price"], 100_500.0, rtol=1e-9)
    np.testing.assert_allclose(chain.loc[~is_usdc, "underlying_price"], 101_000.0, rtol=1e-9)
