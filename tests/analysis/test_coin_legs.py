"""Inverse and quanto contracts in backtests, against loops over the payments of one position."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import backtest, funding

VENUES = ["a", "b"]
FEE = 5.0
LEG = 100_000.0
ROWS = 60


def _market(seed: int = 0) -> tuple[xr.DataArray, xr.DataArray]:
    """Return payments of each hour of BTC and ETH on two venues, and marks of the same hours."""
    rng = np.random.default_rng(seed)
    times = pd.date_range("2026-01-01", periods=ROWS, freq="1h")
    labels = {"symbol": ["BTC", "ETH"], "exchange": VENUES, "time": times}
    rates = xr.DataArray(
        rng.normal(1.0, 5.0, (2, 2, ROWS)), labels, tuple(labels), "rate_bps_8h",
        {"units": "bps/8h", "kind": "settled"},
    ).assign_coords(interval_hours=1.0)  # fmt: skip
    paths = np.cumsum(0.02 * rng.standard_normal((2, 1, ROWS)), axis=-1)
    noise = 0.001 * rng.standard_normal((2, 2, ROWS))
    levels = np.array([60_000.0, 3_000.0])[:, None, None]
    prices = xr.DataArray(
        levels * np.exp(paths + noise), labels, tuple(labels), "price_usd", {"units": "USD"}
    )
    return rates, prices


def _loop(rates: np.ndarray, prices: np.ndarray, settle: np.ndarray | None, kind: str, direction: int):
    """Return coins and USD that one leg earned from the first row to the last, payment by payment.

    `prices` are prices of the leg, `settle` prices of the coin in which a quanto contract is settled.
    """
    price, notional = prices[0], LEG * prices[0] / _mean_entry
    coins = 0.0
    for row in range(1, len(prices)):
        rate = -direction * rates[row] / 8.0 / 1e4
        if kind == "inverse":
            coins += rate * notional / prices[row]
        elif kind == "quanto":
            coins += rate * notional / (price * settle[0]) * prices[row]
        else:
            coins += rate * notional / price * prices[row]
    fee = FEE / 1e4
    last = prices[-1]
    if kind == "inverse":
        coins += direction * notional * (1.0 / price - 1.0 / last) - fee * notional * (
            1.0 / price + 1.0 / last
        )
        return coins, coins * last
    if kind == "quanto":
        multiplier = notional / (price * settle[0])
        coins += direction * multiplier * (last - price) - fee * multiplier * (price + last)
        return coins, coins * settle[-1]
    units = notional / price
    coins += direction * units * (last - price) - fee * units * (price + last)
    return np.nan, coins


@pytest.mark.parametrize(
    ("symbol", "contracts"),
    [
        ("BTC", {"a": "inverse"}),
        ("BTC", {"b": "inverse"}),
        ("BTC", {"a": "inverse", "b": "inverse"}),
        ("ETH", {"a": "quanto:BTC"}),
        ("ETH", {"a": "inverse", "b": "quanto:BTC"}),
        ("BTC", {"a": "linear"}),
    ],
)
def test_carry_of_a_pair_equals_a_loop_over_payments(symbol: str, contracts: dict[str, str]) -> None:
    global _mean_entry
    rates, prices = _market()
    result = backtest.carry(
        rates, backtest.HoldPair(symbol, "a", "b"), backtest.Costs(fee_bps=FEE), prices=prices,
        contracts=contracts, leg_usd=LEG, leverage=1.0,
    )  # fmt: skip
    own = prices.sel(symbol=symbol)
    _mean_entry = float(own[:, 0].mean())
    coins, usd = {}, 0.0
    for venue, direction, leg in (("a", 1, "long"), ("b", -1, "short")):
        kind = contracts.get(venue, "linear").partition(":")[0]
        settle = prices.sel(symbol="BTC", exchange=venue).values
        paid = rates.sel(symbol=symbol, exchange=venue).values
        coins[leg], of_leg = _loop(paid, own.sel(exchange=venue).values, settle, kind, direction)
        usd += of_leg
    assert float(result["net_usd"]) == pytest.approx(usd, rel=1e-9)
    (trade,) = backtest.trades(result).to_dict("records")
    assert trade["net_usd"] == pytest.approx(usd, rel=1e-9)
    for leg, expected in coins.items():
        assert trade[f"{leg}_coin"] == pytest.approx(expected, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("symbol", "contracts"),
    [("BTC", {"a": "inverse"}), ("ETH", {"a": "quanto:BTC", "b": "inverse"}), ("ETH", {})],
)
def test_realised_carry_in_coin_and_usd_equals_the_loop(symbol: str, contracts: dict[str, str]) -> None:
    global _mean_entry
    rates, prices = _market(5)
    start, end = prices["time"].values[[0, -1]]
    result = funding.realised_carry(
        rates, "a", "b", pd.Timestamp(start), pd.Timestamp(end), fee_bps=FEE, contracts=contracts,
        prices=prices, leg_usd=LEG,
    ).sel(symbol=symbol)  # fmt: skip
    own = prices.sel(symbol=symbol)
    _mean_entry = float(own[:, 0].mean())
    total = 0.0
    for venue, direction, leg in (("a", 1, "long"), ("b", -1, "short")):
        kind = contracts.get(venue, "linear").partition(":")[0]
        settle = prices.sel(symbol="BTC", exchange=venue).values
        paid = rates.sel(symbol=symbol, exchange=venue).values
        coins, usd = _loop(paid, own.sel(exchange=venue).values, settle, kind, direction)
        assert float(result[f"{leg}_usd"]) == pytest.approx(usd, rel=1e-9)
        assert float(result[f"{leg}_coin"]) == pytest.approx(coins, rel=1e-9, nan_ok=True)
        total += usd
    assert float(result["net_usd"]) == pytest.approx(total, rel=1e-9)
    with pytest.raises(ValueError, match="needs prices="):
        funding.realised_carry(rates, "a", "b", start, end, fee_bps=FEE, contracts={"a": "inverse"})


def test_linear_contracts_equal_a_backtest_without_contracts() -> None:
    rates, prices = _market(3)
    rule, costs = backtest.SpreadThreshold(1.0, window="2h"), backtest.Costs(fee_bps=1.0)
    plain = backtest.carry(rates, rule, costs, prices=prices)
    stated = backtest.carry(rates, rule, costs, prices=prices, contracts={"a": "linear"})
    np.testing.assert_allclose(stated["equity_usd"], plain["equity_usd"], rtol=1e-12)


def test_maintenance_of_an_inverse_leg_is_of_its_fixed_notional() -> None:
    """A tenth of 100,000 USD; a linear leg needs a tenth of its value after the rise."""
    rates, prices = _market(1)
    rates = rates * 0.0
    rates.attrs = {"units": "bps/8h", "kind": "settled"}
    up = np.linspace(1.0, 2.2, ROWS)
    prices = (prices * 0.0 + 100.0 * xr.DataArray(up, dims="time")).assign_attrs(units="USD")
    rule, costs = backtest.HoldPair("BTC", "a", "b"), backtest.Costs(fee_bps=0.0)
    options = {"prices": prices, "leverage": 2.0, "maintenance": 0.1}
    linear = backtest.trades(backtest.carry(rates, rule, costs, **options)).iloc[0]
    inverse = backtest.trades(backtest.carry(rates, rule, costs, contracts={"b": "inverse"}, **options)).iloc[
        0
    ]
    assert linear["reason"] == inverse["reason"] == "liquidation"
    assert linear["exit"] < inverse["exit"]
    # A short of 1,000 coins with 50,000 USD of margin: 50,000 − 1,000 (P − 100) against 0.1 × 100,000.
    at = prices.sel(symbol="BTC", exchange="b").to_series()
    assert inverse["exit"].tz_localize(None) == at[at > 140.0].index[0]
    assert linear["exit"].tz_localize(None) == at[150_000.0 - 1_000.0 * at < 100.0 * at].index[0]


@pytest.mark.parametrize(
    ("contracts", "message"),
    [
        ({"c": "inverse"}, "contracts has the venue 'c'"),
        ({"a": "quanto"}, "must be 'linear', 'inverse' or 'quanto:'"),
        ({"a": "quanto:SOL"}, r"contracts\['a'\]='quanto:SOL'"),
    ],
)
def test_contracts_that_cannot_be_valued_are_rejected(contracts: dict[str, str], message: str) -> None:
    rates, prices = _market()
    rule, costs = backtest.HoldPair("BTC", "a", "b"), backtest.Costs(fee_bps=0.0)
    with pytest.raises(ValueError, match=message):
        backtest.carry(rates, rule, costs, prices=prices, contracts=contracts)
    with pytest.raises(ValueError, match="needs prices="):
        backtest.carry(rates, rule, costs, contracts={"a": "inverse"})


def _one_coin_on_two_venues(rates: list[float], paid: list[float]) -> xr.DataArray:
    """Return hourly payments of BTC on "a" [bps/8h], NaN where the interval is unknown, and none on "b"."""
    times = pd.date_range("2026-01-01", periods=len(rates), freq="1h")
    labels = {"symbol": ["BTC"], "exchange": VENUES, "time": times}
    values = np.zeros((1, 2, len(rates)))
    values[0, 0] = rates
    hours = np.where(np.isfinite(values), 1.0, np.nan)
    attrs = {"units": "bps/8h", "kind": "settled"}
    panel = xr.DataArray(values, labels, tuple(labels), "rate_bps_8h", attrs)
    own = np.full(values.shape, np.nan)
    own[0, 0] = paid
    return panel.assign_coords(interval_hours=(panel.dims, hours), payment_bps=(panel.dims, own))


def _constant(panel: xr.DataArray, price: float) -> xr.DataArray:
    bare = panel.drop_vars(["interval_hours", "payment_bps"], errors="ignore")
    return (0.0 * bare.fillna(0.0) + price).rename("price_usd").assign_attrs(units="USD")


@pytest.mark.parametrize("kind", ["linear", "inverse"])
def test_payment_without_an_interval_is_in_coin_sums(kind: str) -> None:
    """The payments of 01:00 to 05:00 are 1, 1, 3, 1 and 1 bps; the interval of the third is not known."""
    nan = np.nan
    panel = _one_coin_on_two_venues([8.0, 8.0, 8.0, nan, 8.0, 8.0], [nan, nan, nan, 3.0, nan, nan])
    result = funding.realised_carry(
        panel, "b", "a", panel["time"].values[0], panel["time"].values[-1],
        fee_bps=0.0, contracts={"a": kind}, prices=_constant(panel, 50_000.0), leg_usd=LEG,
    ).sel(symbol="BTC")  # fmt: skip
    assert result["net_bps"].item() == pytest.approx(7.0)
    assert result["short_usd"].item() == pytest.approx(7.0 * LEG / 1e4)
    assert result["net_usd"].item() == pytest.approx(7.0 * LEG / 1e4)


def test_coin_sums_omit_the_same_payments_as_bps_sums() -> None:
    """A payment that is there twice counts once, and below `min_cover` neither sum is known."""
    panel = _one_coin_on_two_venues([8.0] * 12, [np.nan] * 12).drop_vars("payment_bps")
    times = panel["time"].values.copy()
    times[6] = times[5] + np.timedelta64(10, "m")  # 10 minutes after the one before
    twice = panel.assign_coords(time=times)
    options = {"fee_bps": 0.0, "prices": _constant(twice, 50_000.0), "leg_usd": LEG}
    result = funding.realised_carry(
        twice, "b", "a", times[0], times[-1], overlap="nan", min_cover=0.8, **options
    )
    result = result.sel(symbol="BTC")
    assert result["net_bps"].item() == pytest.approx(10.0)
    assert result["net_usd"].item() == pytest.approx(10.0 * LEG / 1e4)
    few = funding.realised_carry(
        twice, "b", "a", times[0], times[-1], overlap="nan", min_cover=0.99, **options
    )
    assert few[["net_bps", "long_usd", "short_usd", "net_usd"]].to_array().isnull().all()
