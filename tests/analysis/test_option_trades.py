from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

from derivdata.analysis import black76, delivery, option_trades, surface
from derivdata.support.times import year_fraction
from tests.plot import made


def test_flow_is_taker_buys_minus_sells_without_blocks() -> None:
    """Calls: 6 bought at 0.05 and 2 sold at 0.04 coin of 100 USD: 30 - 8 USD; puts: 3 sold at 0.02."""
    result = option_trades.flow(made.option_trades(), by=["side"])
    assert result["symbol"].item() == "BTC"
    sides = {str(name): values.sel(side=["call", "put"]).values.tolist() for name, values in result.items()}
    assert sides.pop("premium_usd") == pytest.approx([22.0, -6.0])
    assert sides == {
        "bought": [6.0, 0.0],
        "sold": [2.0, 3.0],
        "net": [4.0, -3.0],
        "block": [0.0, 50.0],
        "trade_count": [2, 2],
    }


def test_premium_is_nan_if_a_trade_has_no_index_price() -> None:
    """The first trade is a call. The last one is a block of puts, which does not count."""
    trades = made.option_trades().assign(index_price_usd=[np.nan, 100.0, 100.0, np.nan])
    premium = option_trades.flow(trades, by=["side"])["premium_usd"].sel(side=["call", "put"])
    assert premium.values.tolist() == pytest.approx([np.nan, -6.0], nan_ok=True)


def test_flow_over_time_is_labelled_by_the_start_of_each_bucket() -> None:
    result = option_trades.flow(made.option_trades(), by=(), every="2h")
    assert result["net"].values.tolist() == [4.0, -3.0]
    assert result.indexes["time"].tz_localize("UTC").tolist() == [made.START, made.START + pd.Timedelta("2h")]


def test_chain_of_trades_has_size_weighted_volatility_and_implied_forward() -> None:
    """6 calls at 0.5 and 2 at 0.4: (6 × 0.5 + 2 × 0.4) / 8 = 0.475; the block of puts does not count."""
    quotes = option_trades.chain(made.option_trades()).set_index("side")
    assert quotes["iv"].to_dict() == pytest.approx({"call": 0.475, "put": 0.6})
    assert quotes["volume"].to_dict() == {"call": 8.0, "put": 3.0}
    assert set(quotes["underlying_price"]) == {101.0}


def test_forward_of_trades_follows_the_newest_index_price() -> None:
    """Trades at an index of 100 imply a forward of 102. The index of the last trade is 200."""
    rows = made.option_trades().assign(underlying_price=np.nan)
    rows["strike"], rows["side"] = [101.0, 104.0, 101.0, 98.0], ["call", "call", "put", "put"]
    rows["execution"], rows["instrument_name"] = "book", list("abcd")
    rows.loc[0, "expiry"] += pd.Timedelta("7D")  # not traded since the index was 100
    years = year_fraction(rows["time"], rows["expiry"])
    rows["price_coin"] = black76.price(102.0, rows["strike"], years, rows["iv"], rows["side"]) / 102.0
    rows.loc[3, "index_price_usd"] = 200.0
    rows.loc[3, "price_coin"] = np.nan
    result = option_trades.chain(rows)
    assert set(result["index_price_usd"]) == {200.0}
    assert result["underlying_price"].to_numpy() == pytest.approx(204.0, rel=1e-9)


def test_chain_without_trades_or_without_a_venue_raises() -> None:
    with pytest.raises(ValueError, match="trades must have the column 'exchange'"):
        option_trades.chain(made.option_trades().drop(columns="exchange"))
    with pytest.raises(
        ValueError, match=r"with a volatility and an index price in window=.6h. to at=2025-01-01 "
    ):
        option_trades.chain(made.option_trades(), at="2025-01-01")


def _flat(volatility: float, forward: float) -> xr.Dataset:
    """A surface of one volatility for two expiries, a day and two after the start at 08:00."""
    days = pd.DatetimeIndex([made.START + pd.Timedelta(hours, "h") for hours in (8, 32)]).tz_localize(None)
    k = xr.DataArray(np.linspace(-0.3, 0.3, 13), dims="strike")
    t = xr.DataArray([0.1, 0.2], {"expiry": days}, "expiry")
    fit = surface.fit(k, xr.full_like(k * t, volatility), t, forward=xr.full_like(t, forward))
    return fit.assign_coords(symbol="BTC", exchange="deribit")


def test_a_delivery_has_the_lognormal_probability_of_a_flat_surface() -> None:
    result = delivery.probabilities(_flat(0.5, 100.0), made.delivery_prices())
    k, t = np.log([0.99, 1.01]), np.array([0.1, 0.2])
    deviation = 0.5 * np.sqrt(t)
    np.testing.assert_allclose(result["log_moneyness"], k, atol=1e-12)
    np.testing.assert_allclose(result["probability"], norm.cdf(k / deviation + deviation / 2), atol=2e-6)
    later = made.delivery_prices().assign(time=lambda rows: rows["time"] + pd.Timedelta("1D"))
    for none in (later[:0], later.assign(time=lambda rows: rows["time"] + pd.Timedelta("90D"))):
        assert delivery.probabilities(_flat(0.5, 100.0), none)["probability"].isnull().all()
    missing = delivery.probabilities(_flat(0.5, 100.0), later)["probability"]
    assert np.isnan(missing.values).tolist() == [True, False]
    twice = pd.concat([made.delivery_prices()] * 2)
    with pytest.raises(ValueError, match="prices must have one delivery for each time"):
        delivery.probabilities(_flat(0.5, 100.0), twice)


def _deliveries(**prices: float) -> pd.DataFrame:
    """Return prices of both expiries by contract; ``option_USD`` is the price of ``option:USD``."""
    frame = made.delivery_prices()
    parts = []
    for name, price in prices.items():
        parts.append(frame.assign(contract=name.replace("_", ":"), price_usd=price))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(
    ("prices", "contract", "wanted"),
    [
        ({"future_USDT": 90.0, "option_USDT": 101.0}, None, 101.0),
        ({"future_USDT": 90.0, "option_USDT": 101.0}, "future:USDT", 90.0),
        ({"unstated": 90.0, "index_USD": 101.0}, None, 101.0),
        ({"unstated": 90.0, "future_USD": 101.0}, None, 90.0),
        ({"option_USD": 101.0, "option_USDT": 101.0}, None, 101.0),
    ],
)
def test_options_are_settled_at_the_price_of_their_contract(prices, contract, wanted) -> None:
    result = delivery.probabilities(_flat(0.5, 100.0), _deliveries(**prices), contract=contract)
    assert result["price_usd"].values.tolist() == [wanted, wanted]


@pytest.mark.parametrize(
    ("prices", "contract", "message"),
    [
        ({"future_USD": 90.0}, None, "only deliveries of future:USD at the expiries: pass one"),
        ({"option_USD": 90.0, "option_USDT": 91.0}, None, "differ between contracts option:USD, option:USDT"),
        ({"option_USD": 90.0}, "option:USDT", "no delivery of it at the expiries, only of option:USD"),
    ],
)
def test_ambiguous_contract_must_be_stated(prices, contract, message) -> None:
    with pytest.raises(ValueError, match=message):
        delivery.probabilities(_flat(0.5, 100.0), _deliveries(**prices), contract=contract)


@pytest.mark.parametrize(
    ("values", "inside", "statistic"),
    [
        ([0.1, 0.4, 0.6, 0.97], [0.5, 0.75], 0.25),  # at 0.1 the first quarter lies 0.15 above, at 0.75 0.15
        ([0.5, np.nan], [1.0, 1.0], 0.5),
        ([], [np.nan, np.nan], np.nan),
    ],
)
def test_calibration_counts_values_inside_intervals(
    values: list[float], inside: list[float], statistic: float
) -> None:
    held: Any = delivery.calibration(xr.DataArray(values, dims="expiry"), intervals=[0.5, 0.9])
    np.testing.assert_allclose(held["inside"], inside)
    assert held["count"].item() == np.isfinite(values).sum()
    np.testing.assert_allclose(held["ks_statistic"], statistic, atol=0.1)
    with pytest.raises(TypeError, match="probability must have numeric values, got <U3"):
        delivery.calibration(xr.DataArray(["0.5"]))
    with pytest.raises(ValueError, match="intervals must be probabilities above 0 and below 1"):
        delivery.calibration(xr.DataArray([0.5]), intervals=[1.0])
