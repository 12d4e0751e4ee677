import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.analysis import backtest, basis, funding, oi, taker


def panel(
    values: list[list[float]], venues: list[str], hours: list[int], name: str = "price_usd"
) -> xr.DataArray:
    time = np.datetime64("2026-01-01", "us") + np.array(hours) * np.timedelta64(1, "h")
    coords = {"symbol": ["BTC"], "exchange": venues, "time": time}
    return xr.DataArray(
        [values], dims=("symbol", "exchange", "time"), coords=coords, name=name, attrs={"units": "USD"}
    )


def test_basis_equals_hand_calculation() -> None:
    """100.1 over 100 is 10 bps, 99.9 is −10; only times and venues that both have."""
    price = panel([[100.1, 99.9, 50.0], [101.0, 102.0, 103.0]], ["okx", "zo"], [0, 1, 2])
    index = panel([[100.0, 100.0, np.nan, 1.0]], ["okx"], [0, 1, 2, 3])
    result = basis.against(price, index)
    assert result.name == "basis_bps"
    assert result.attrs["units"] == "bps"
    assert result["exchange"].values.tolist() == ["okx"]
    np.testing.assert_allclose(result.values[0, 0], [10.0, -10.0, np.nan], atol=1e-9)
    price = panel([[100.0, 0.0], [101.0, 99.0]], ["okx", "zo"], [0, 1])
    result = basis.against(price, "okx")
    np.testing.assert_allclose(result.values[0], [[0.0, np.nan], [100.0, np.nan]], atol=1e-9)
    assert result.dims == price.dims
    with pytest.raises(ValueError, match="nobody"):
        basis.against(price, "nobody")
    price = panel([[1.0]], ["okx"], [0])
    with pytest.raises(ValueError, match="bps"):
        basis.against(price.rename("rate_bps_8h").assign_attrs(units="bps/8h"), price)


def test_open_interest_in_coins_equals_hand_calculation() -> None:
    """1,000 USD at 50 are 20 coins; without a price at the time the result is missing."""
    open_interest = panel([[1000.0, 1000.0, 1000.0]], ["okx"], [0, 1, 2], "oi_usd")
    price = panel([[50.0, 0.0]], ["okx"], [0, 1])
    result = oi.in_coins(open_interest, price)
    np.testing.assert_allclose(result.values[0, 0], [20.0, np.nan, np.nan])
    assert (result.name, result.attrs["units"]) == ("oi_coin", "coin")
    share = oi.market_share(result.isel(time=[0]))
    assert share.item() == 1.0
    with pytest.raises(ValueError, match="USD"):
        oi.in_coins(result, price)


def _venue_prices(**factors: float) -> xr.DataArray:
    """Hours of one coin whose venues differ by basis points, and by the factors given."""
    rng = np.random.default_rng(1)
    path = 100.0 * np.exp(np.cumsum(0.002 * rng.standard_normal(200)))
    values = [path * factor * (1.0 + 1e-4 * rng.standard_normal(200)) for factor in factors.values()]
    times = pd.date_range("2026-01-01", periods=200, freq="h")
    labels = {"symbol": ["X"], "exchange": list(factors), "time": times}
    return xr.DataArray(np.array(values)[None], labels, tuple(labels), "price_usd", {"units": "USD"})


def test_different_coin_with_the_same_ticker_raises() -> None:
    """At 0.0091 of the others' price the basis would be −9,909 bps."""
    prices = _venue_prices(a=1.0, b=1.0, odd=0.0091)
    one_of_three = r"must belong to one coin, got X/odd \(× 0\.0091\)"
    with pytest.raises(ValueError, match=one_of_three):
        basis.against(prices, "a")
    rates = (prices * 0.0 + 1.0).rename("rate_bps_8h").assign_attrs(units="bps/8h", kind="sampled")
    with pytest.raises(ValueError, match=one_of_three):
        backtest.carry(rates, backtest.SpreadThreshold(1.0), backtest.Costs(1.0), prices=prices)
    one_of_two = r"X/a \(× .*X/odd \(× "
    with pytest.raises(ValueError, match=one_of_two):
        basis.against(prices.sel(exchange=["a", "odd"]), "a")


def test_price_and_index_of_different_coins_raise() -> None:
    prices = _venue_prices(a=1.0, b=1.0, odd=0.0091)
    with pytest.raises(ValueError, match="price and index of odd must belong to one coin, got price/X"):
        basis.against(prices, _venue_prices(a=1.0, b=1.0, odd=1.0))


def test_basis_of_four_percent_is_of_one_coin() -> None:
    curve = basis.against(_venue_prices(a=1.0, b=1.0, near=1.04), "a")
    assert float(curve.sel(exchange="near").mean()) == pytest.approx(400.0, abs=1.0)


def test_best_pair_omits_a_different_coin_with_the_same_ticker() -> None:
    """The venue `odd` has the highest rate, and prices of 0.0091 of the others: c is next."""
    prices = _venue_prices(a=1.0, b=1.0, c=1.0, odd=0.0091)
    level = xr.DataArray([0.0, 1.0, 2.0, 9.0], dims="exchange")
    rates = (prices * 0.0 + level).rename("rate_bps_8h").assign_attrs(units="bps/8h", kind="sampled")
    assert (funding.best_pair(rates)["short"] == "odd").all()
    assert (funding.best_pair(rates, prices=prices)["short"] == "c").all()


def test_quality_reports_a_different_coin_with_the_same_ticker() -> None:
    prices = _venue_prices(a=1.0, b=1.0, c=1.0, odd=0.0091)
    rows = prices.to_series().reset_index().assign(time=lambda x: x["time"].dt.tz_localize("UTC"))
    report = dd.quality(rows).set_index("exchange")
    assert report.loc["odd", "peer_scale"] == pytest.approx(0.0091, rel=0.01)
    assert (report.loc[["a", "b", "c"], "peer_scale"] == 1.0).all()
    assert "1 series out of scale" in report.attrs["summary"]


def test_taker_imbalance_equals_hand_calculation_with_a_gap() -> None:
    time = pd.date_range("2026-01-01", periods=4, freq="h")
    units = {"units": "USD"}
    buy = xr.DataArray([3.0, np.nan, 0.0, 1.0], {"time": time}, "time", attrs=units)
    sell = xr.DataArray([1.0, 5.0, 0.0, 3.0], {"time": time}, "time", attrs=units)
    np.testing.assert_array_equal(taker.imbalance(buy, sell), [0.5, np.nan, np.nan, -0.5])
    np.testing.assert_array_equal(taker.cumulative_delta(buy, sell), [2.0, np.nan, 2.0, 0.0])
    with pytest.raises(ValueError, match="the times of buy and sell must ascend without duplicates"):
        taker.cumulative_delta(buy[::-1], sell[::-1])
    with pytest.raises(ValueError, match="sell must be in 'USD', got 'coin'"):
        taker.imbalance(buy, sell.assign_attrs(units="coin"))
    with pytest.raises(
        ValueError, match=r"buy and sell must have the same dims, got \('time',\) and \('day',\)"
    ):
        taker.imbalance(buy, sell.rename(time="day"))


def test_spot_leg_earns_funding_and_short_spot_pays_the_borrow_rate() -> None:
    """Nine payments of 2 bps per 8 hours; 10.95 % a year are 1 bp per 8 hours."""
    time = pd.date_range("2026-01-01", periods=9, freq="8h").to_numpy()
    paid = xr.DataArray([[2.0] * 9], {"exchange": ["okx"], "time": time}, ("exchange", "time"))
    paid = paid.assign_attrs(units="bps/8h", kind="settled")
    paid = paid.assign_coords(interval_hours=(paid.dims, np.full((1, 9), 8.0)))
    legs = funding.with_spot(paid, borrow_apr=0.1095)
    held = {
        "start": "2025-12-31T23:00",
        "end": "2026-01-03T17:00",
        "fee_bps": {"okx": 1.0, "spot": 5.0, "borrowed": 5.0},
    }
    carry = funding.realised_carry(legs, "spot", "okx", **held)
    assert (carry["gross_bps"].item(), carry["net_bps"].item()) == pytest.approx((18.0, 6.0))
    assert funding.realised_carry(legs, "okx", "borrowed", **held)["gross_bps"].item() == pytest.approx(-27.0)
    both = xr.concat([paid, paid.assign_coords(exchange=["bybit"])], "exchange")
    both = both.expand_dims(symbol=["BTC", "ETH"])  # each is on a venue of its own
    apart = both.where((both["symbol"] == "BTC") == (both["exchange"] == "okx"))
    assert (funding.with_spot(apart).sel(exchange="spot") == 0.0).all()
    with pytest.raises(ValueError, match="panel already has the venue 'spot'"):
        funding.with_spot(legs)
    with pytest.raises(ValueError, match="rates must have at least one venue along exchange"):
        funding.with_spot(paid.isel(exchange=[]))
    for apr in (-0.1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="borrow_apr must be a fraction per year of 0 or more, got"):
            funding.with_spot(paid, borrow_apr=apr)
    assert funding.with_spot(paid, borrow_apr=10**30).sel(exchange="borrowed").max() < 0.0


def _two_symbols(**last: float) -> xr.DataArray:
    """Return prices of BTC, which agree, and of X, whose venues differ by the factors given."""
    btc = _venue_prices(**dict.fromkeys(last, 1.0)).assign_coords(symbol=["BTC"])
    return xr.concat([btc, _venue_prices(**last)], "symbol").assign_attrs(units="USD")


@pytest.mark.parametrize("factor", [0.92, 1.09, 1.2])
def test_price_squeeze_gives_results_with_a_notice(factor: float) -> None:
    prices = _two_symbols(a=1.0, b=factor)
    with pytest.warns(dd.errors.DataNotice, match=r"X/a .* 200 of 200 timestamps.*X/b"):
        found = basis.against(prices, "a").sel(exchange="b")
    assert float(found.sel(symbol="X").mean()) == pytest.approx(1e4 * (factor - 1.0), abs=2.0)
    assert float(found.sel(symbol="BTC").mean()) == pytest.approx(0.0, abs=2.0)
    with pytest.warns(dd.errors.DataNotice, match="price and index of b are more than 5 % apart"):
        found = basis.against(prices, _two_symbols(a=1.0, b=1.0))
    assert float(found.sel(symbol="X", exchange="b").mean()) == pytest.approx(1e4 * (factor - 1.0), abs=2.0)
    rates = (prices * 0.0 + 1.0).rename("rate_bps_8h").assign_attrs(units="bps/8h", kind="sampled")
    rule = backtest.HoldPair("X", "a", "b")
    with pytest.warns(dd.errors.DataNotice, match="are more than 5 % apart.*basis of a dated future"):
        result = backtest.carry(rates, rule, backtest.Costs(0.0), prices=prices)
    assert result.sizes["trade"] == 1


def test_price_squeeze_of_10_of_200_hours_is_kept_with_a_notice() -> None:
    prices = _venue_prices(a=1.0, b=1.0, c=1.0)
    prices[0, 2, 50:60] *= 0.4
    with pytest.warns(dd.errors.DataNotice, match=r"X/c \(× 0\.4, 10 of 200 timestamps\)"):
        result = basis.against(prices, "a", apart="keep").sel(exchange="c", symbol="X")
    assert result["apart"].values.sum() == 10
    assert result["apart"].values[50:60].all()
    assert result.values[50:60] == pytest.approx(-6000.0, abs=2.0)


def test_price_of_another_level_for_40_of_200_hours_is_another_coin() -> None:
    prices = _venue_prices(a=1.0, b=1.0, c=1.0)
    prices[0, 2, 50:90] *= 0.4
    with pytest.raises(ValueError, match="prices must belong to one coin, got X/c"):
        basis.against(prices, "a")
    with pytest.warns(dd.errors.DataNotice, match="are used"):
        assert basis.against(prices, "a", apart="keep")["apart"].values.sum() == 40


def test_different_coin_does_not_affect_other_symbols() -> None:
    prices = _two_symbols(a=1.0, b=1.0, odd=0.0091)
    with pytest.warns(
        dd.errors.DataNotice, match=r"must belong to one coin, got X/odd \(× 0\.0091\).*omitted"
    ):
        found = basis.against(prices, "a")
    assert np.isnan(found.sel(symbol="X", exchange="odd")).all()
    assert found.sel(symbol="X", exchange=["a", "b"]).notnull().all()
    xr.testing.assert_equal(found.sel(symbol="BTC"), basis.against(prices.sel(symbol=["BTC"]), "a")[0])
    rates = (prices * 0.0 + 1.0).rename("rate_bps_8h").assign_attrs(units="bps/8h", kind="sampled")
    rates = rates + xr.DataArray([0.0, 1.0, 5.0], dims="exchange")
    rates = rates.assign_attrs(units="bps/8h", kind="sampled").rename("rate_bps_8h")
    with pytest.warns(dd.errors.DataNotice, match="prices must belong to one coin, got X/odd"):
        result = backtest.carry(rates, backtest.SpreadThreshold(0.5), backtest.Costs(0.0), prices=prices)
    trades = backtest.trades(result)
    assert set(trades.loc[trades["symbol"] == "X", "short"]) == {"b"}
    assert set(trades.loc[trades["symbol"] == "BTC", "short"]) == {"odd"}


def test_sums_of_float32_panels_have_the_digits_of_float64():
    """A year of minutes: added up in float32 the sum is 0.2 % off."""
    time = pd.date_range("2025-01-01", periods=525_600, freq="1min")

    def panel(value: float) -> xr.DataArray:
        values = np.full((1, time.size), value, np.float32)
        return xr.DataArray(
            values, {"exchange": ["okx"], "time": time}, ("exchange", "time"), attrs={"units": "USD"}
        )

    delta = taker.cumulative_delta(panel(2_345_678.25), panel(1_234_567.5))
    assert delta.dtype == np.float64
    assert float(delta[0, -1]) == time.size * 1_111_110.75
