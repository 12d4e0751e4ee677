"""Two contracts at one strike and expiry, missing volatilities and discounted premiums.

Chains are priced here with Black's formula, and expected values are computed by hand.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import derivdata as dd
from derivdata.analysis import chain, exposure, surface
from derivdata.analysis.status import Status
from derivdata.errors import DataNotice

NOW = pd.Timestamp("2026-03-02T12:00Z").as_unit("us")
EXPIRY = pd.Timestamp("2026-06-26T08:00Z").as_unit("us")
YEARS = (EXPIRY - NOW) / pd.Timedelta(365, "D")
STRIKES = 1000.0 * np.arange(60.0, 161.0, 5.0)


def volatility(strike: np.ndarray, forward: float) -> np.ndarray:
    k = np.log(strike / forward)
    return 0.6 - 0.1 * k + 0.2 * k * k


def listed(
    forward: float, unit: str, rate: float = 0.0, calls: float = 100.0, puts: float = 50.0
) -> pd.DataFrame:
    """Return a chain with bid, ask and mark, paid in coin or in USD, discounted at a rate."""
    base = "BTC" if unit == "coin" else "BTC_USDC"
    rows = pd.DataFrame({"strike": np.repeat(STRIKES, 2), "side": ["call", "put"] * len(STRIKES)})
    iv = volatility(rows["strike"].to_numpy(), forward)
    root = iv * np.sqrt(YEARS)
    d1 = np.log(forward / rows["strike"]) / root + root / 2
    call = forward * norm.cdf(d1) - rows["strike"] * norm.cdf(d1 - root)
    price = call.where(rows["side"] == "call", call - forward + rows["strike"]) * np.exp(-rate * YEARS)
    price = price / forward if unit == "coin" else price
    return rows.assign(
        symbol="BTC",
        exchange="deribit",
        time=NOW,
        expiry=EXPIRY,
        instrument_name=[
            f"{base}-26JUN26-{k:g}-{s[0].upper()}" for k, s in zip(rows.strike, rows.side, strict=True)
        ],
        iv=iv,
        underlying_price=forward,
        open_interest=np.where(rows["side"] == "call", calls, puts),
        volume=np.where(rows["side"] == "call", 3.0, 1.0),
        index_price_usd=100_000.0,
        **{f"bid_{unit}": price * 0.99, f"ask_{unit}": price * 1.01, f"mark_{unit}": price},
    )


@pytest.fixture
def both() -> pd.DataFrame:
    """Coin options on 101,000 USD and USDC options on 100,500, with 100/50 and 30/40 of open interest."""
    return pd.concat(
        [listed(101_000.0, "coin"), listed(100_500.0, "usd", calls=30.0, puts=40.0)], ignore_index=True
    )


@pytest.mark.parametrize("prepare", [lambda rows: rows, chain.clean], ids=["raw", "cleaned"])
def test_both_contracts_are_counted(both, prepare):
    """21 strikes: calls 21 × 130, puts 21 × 90; volume twice 21 × 3 and 21 × 1."""
    options = prepare(both)
    sums = exposure.open_interest(options, by=("side",))["open_interest"]
    assert sums.sel(side=["call", "put"]).to_numpy().tolist() == [21 * 130.0, 21 * 90.0]
    assert exposure.put_call_ratio(options)["put_call_ratio"].item() == pytest.approx(90 / 130)
    assert exposure.put_call_ratio(options, weight="volume")["put_call_ratio"].item() == pytest.approx(1 / 3)
    parts = [part for _, part in both.groupby(both["instrument_name"].str.startswith("BTC_USDC"))]
    each = [exposure.gamma_exposure(part, by=())["gamma_exposure_usd"].item() for part in parts]
    together = exposure.gamma_exposure(options, by=())["gamma_exposure_usd"].item()
    assert together == pytest.approx(sum(each), rel=1e-12)


def test_the_surface_quotes_the_larger_contract_and_adds_the_open_interest(both):
    quotes = chain.smiles(chain.clean(both))
    assert quotes["forward"].to_numpy().tolist() == pytest.approx([101_000.0])
    np.testing.assert_allclose(quotes["iv"].squeeze(), volatility(STRIKES, 101_000.0), rtol=1e-9)
    outside = np.where(STRIKES > 101_000.0, 130.0, 90.0)
    np.testing.assert_array_equal(quotes["open_interest"].squeeze(), outside)
    assert (quotes["status"] & int(Status.DUPLICATE)).all()
    larger = both.assign(open_interest=both["open_interest"].where(both["bid_usd"].isna(), 1000.0))
    other = chain.smiles(chain.clean(larger))
    assert other["forward"].item() == pytest.approx(100_500.0)
    np.testing.assert_allclose(other["iv"].squeeze(), volatility(STRIKES, 100_500.0), rtol=1e-9)


def test_a_surface_of_the_table_adds_the_open_interest(both):
    table = dd.tables.TABLES["options_snapshot"].conform(both)
    with pytest.warns(DataNotice, match="42 instruments share expiry, strike and side"):
        laid_out = dd.tables.surface(table)
    assert laid_out["open_interest"].sum().item() == 21 * 130.0 + 21 * 90.0
    assert laid_out["iv"].sel(strike=60_000.0, side="call").item() == pytest.approx(
        volatility(np.array([60_000.0]), 101_000.0)[0]
    )


def test_missing_volatilities_come_from_quotes_or_else_from_the_mark(both):
    """Every fourth row lacks its volatility, and half of these have no quotes: 21 of 84, 10 by their mark."""
    number = np.arange(len(both))
    whole = chain.clean(both)
    lacking = both.assign(iv=both["iv"].where(number % 4 != 0))
    for name in ("bid_coin", "ask_coin", "bid_usd", "ask_usd"):
        lacking[name] = lacking[name].where(number % 8 != 0)
    with pytest.warns(
        DataNotice, match="21 of 84 options lack a volatility; computed 10 from bid and ask and 11"
    ):
        options = chain.clean(lacking)
    assert len(options) == len(whole)
    np.testing.assert_allclose(options["iv"], whole["iv"], rtol=1e-6)
    with pytest.warns(DataNotice, match="84 of 84 options"):
        gamma = exposure.gamma_exposure(both.drop(columns="iv"), by=())["gamma_exposure_usd"].item()
    assert gamma == pytest.approx(exposure.gamma_exposure(both, by=())["gamma_exposure_usd"].item(), rel=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("is_column", [True, False])
def test_discounted_premiums_give_the_volatilities_of_their_rate(rate, is_column):
    """The forward comes from parity, as the chain's underlying price is its index."""
    rows = listed(103_000.0, "usd", rate).drop(columns="iv").assign(underlying_price=100_000.0)
    rows = rows.assign(interest_rate=rate) if is_column else rows
    argument = {} if is_column else {"interest_rate": rate}
    with pytest.warns(DataNotice, match="42 of 42 options"):
        options = chain.clean(rows, **argument)
    assert not any(options.attrs["dropped"].values())
    quotes = chain.smiles(options, **argument)
    assert quotes["forward"].item() == pytest.approx(103_000.0, rel=1e-9)
    assert quotes["discount"].item() == pytest.approx(np.exp(-rate * YEARS), rel=1e-12)
    np.testing.assert_allclose(quotes["iv"].squeeze(), volatility(STRIKES, 103_000.0), rtol=1e-6)
    assert (quotes["iv_bid"] < quotes["iv"]).all()
    assert (quotes["iv"] < quotes["iv_ask"]).all()
    with pytest.warns(DataNotice):
        fitted = surface.from_chain(rows, **argument)
    assert fitted["breach_vol"].item() < 2e-3


def test_binance_states_the_rate():
    body = (
        '[{"symbol": "BTC-260626-100000-C", "markPrice": "5000", "markIV": "0.6", "delta": "0.5",'
        ' "theta": "-1", "gamma": "0.00001", "vega": "100", "riskFreeInterest": "0.1"}]'
    )
    rows = dd.venues.read("binance", "/eapi/v1/mark", body, at=NOW)["options_snapshot"]
    assert rows["interest_rate"].tolist() == [0.1]


def test_max_pain_by_volume_and_ratio_by_index_value(both):
    """All volume is at one strike below and one above: no one is paid between the two."""
    one = listed(101_000.0, "coin")
    traded = ((one["strike"] == 80_000.0) & (one["side"] == "put")) | (
        (one["strike"] == 120_000.0) & (one["side"] == "call")
    )
    pain = exposure.max_pain(one.assign(volume=np.where(traded, 5.0, 0.0)), weight="volume")
    assert (pain["lower"].item(), pain["upper"].item()) == (80_000.0, 120_000.0)
    ratio = exposure.put_call_ratio(both, weight="index_value")["put_call_ratio"].item()
    assert ratio == pytest.approx(90 / 130)
