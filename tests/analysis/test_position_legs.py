"""Positions with futures, perpetuals and spot, and legs that are settled at a delivery price."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import position
from derivdata.analysis.status import Status
from tests.analysis.test_position import AS_OF, BOOK, EXPIRIES, FORWARDS, made

SPOT = 99_800.0


def surface(**changes: float) -> xr.Dataset:
    spot = SPOT * (1 + changes.get("move", 0.0))
    return made(**changes).assign_coords(spot=spot)


def hedges(**columns: list) -> pd.DataFrame:
    """A future, a linear and an inverse perpetual, and spot."""
    rows = {
        "expiry": [EXPIRIES[1], pd.NaT, pd.NaT, pd.NaT],
        "strike": [np.nan] * 4,
        "side": ["future", "perpetual", "perpetual", "spot"],
        "quantity": [-1.5, 0.5, -50_000.0, 2.0],
        "price": [100_000.0, 99_000.0, 99_000.0, np.nan],
        "contract": ["linear", None, "inverse", None],
    }
    return pd.DataFrame(rows | columns)


def test_values_and_greeks_of_legs_without_volatility_are_their_closed_forms():
    """Inverse: Q (1/P − 1/F) coins, worth F times as many USD."""
    result = position.greeks(hedges(), surface())
    forward = np.array([FORWARDS[1], SPOT, SPOT, SPOT])
    usd = [-1.5 * 1_000.0, 0.5 * 800.0, -50_000.0 * (1 / 99_000 - 1 / SPOT) * SPOT, 2 * SPOT]
    np.testing.assert_allclose(result["value"].sel(currency="usd"), usd, rtol=1e-12)
    np.testing.assert_allclose(result["value"].sel(currency="coin"), usd / forward, rtol=1e-12)
    in_coin = [-1.5 * 100_000 / FORWARDS[1] ** 2, 0.5 * 99_000 / SPOT**2, -50_000 / SPOT**2, 0.0]
    np.testing.assert_allclose(result["delta"].sel(currency="coin"), in_coin, rtol=1e-12)
    np.testing.assert_allclose(result["delta"].sel(currency="usd"), [-1.5, 0.5, -50_000 / 99_000, 2.0])
    np.testing.assert_allclose(result["gamma"].sel(currency="coin"), -2 * np.array(in_coin) / forward)
    for name in ("vega", "theta", "vanna", "volga"):
        assert (result[name] == 0.0).all(), name
    assert np.isnan(result["iv"]).all()
    assert np.isfinite(result["year_fraction"]).to_numpy().tolist() == [True, False, False, False]
    assert (result["status"] == 0).all()
    np.testing.assert_allclose(result["rho"].sel(currency="usd"), [-1.5 * FORWARDS[1] * 40 / 365, 0, 0, 0])


def test_coin_greeks_of_a_future_are_differences_of_its_coin_value():
    legs = hedges()
    now = position.greeks(legs, surface()).sel(currency="coin")

    def value(move: float) -> np.ndarray:
        shifted = surface().assign_coords(forward=surface()["forward"] + move, spot=surface()["spot"] + move)
        return position.greeks(legs, shifted)["value"].sel(currency="coin").to_numpy()

    np.testing.assert_allclose(now["delta"], (value(10) - value(-10)) / 20, rtol=1e-6, atol=1e-14)
    second = (value(100) - 2 * value(0) + value(-100)) / 1e4
    np.testing.assert_allclose(now["gamma"], second, rtol=1e-4, atol=1e-16)


def test_hedge_without_an_entry_price_has_zero_value_then_its_move():
    legs = hedges(price=[np.nan] * 4).iloc[:3]
    now, after = surface(), surface(passed=1.0, move=-0.04)
    assert (abs(position.greeks(legs, now)["value"]) < 1e-9).all()
    for method in ("greeks", "revaluation"):
        result = position.attribution(legs, now, after, method=method)
        move = np.array([FORWARDS[1], SPOT, SPOT]) * -0.04
        usd = [-1.5 * move[0], 0.5 * move[1], -50_000 / SPOT * move[2]]
        np.testing.assert_allclose(result["pnl_by_leg"].sel(currency="usd"), usd, rtol=1e-12)
        inverse = result["pnl_by_leg"].sel(currency="coin").isel(leg=2)
        assert float(inverse) == pytest.approx(-50_000 * (1 / SPOT - 1 / (SPOT * 0.96)), rel=1e-12)
        np.testing.assert_allclose(result["residual"].sel(currency="usd"), 0.0, atol=1e-8)
    scenario = position.scenarios(legs, now, spot_change=-0.04)
    np.testing.assert_allclose(scenario["pnl_by_leg"].sel(currency="usd").squeeze(), usd, rtol=1e-12)


def test_call_less_put_less_future_earns_nothing():
    """C − P − (F − K): parity holds at every forward, volatility and time, in USD and in coin."""
    strike, expiry = 105_000.0, EXPIRIES[1]
    book = pd.DataFrame(
        {
            "expiry": [expiry] * 3,
            "strike": [strike, strike, np.nan],
            "side": ["call", "put", "future"],
            "quantity": [1.0, -1.0, -1.0],
            "price": [np.nan, np.nan, strike],
        }
    )
    now, after = surface(), surface(level=1.3, passed=3.0, move=0.07)
    for name in ("value", "delta", "gamma", "vega", "vanna", "volga", "speed"):
        total = position.greeks(book, now)[name].sum("leg")
        assert (abs(total) < 1e-9).all(), name
    for method in ("greeks", "revaluation"):
        result = position.attribution(book, now, after, method=method)
        assert (abs(result["pnl"]) < 1e-9).all()
        assert (abs(result["contribution"]) < 1e-8).all()
    grid = position.scenarios(
        book, now, spot_change=[-0.5, 0.3], vol_change=[-0.1, 0.2], elapsed=["0d", "40d"]
    )
    assert (abs(grid["value"]) < 1e-8).all()
    late = surface(passed=41.0, move=0.2)
    over = position.attribution(book, now, late, delivery={expiry: 131_000.0})
    assert (abs(over["pnl"]) < 1e-9).all()


def test_a_leg_that_expires_is_settled_at_the_delivery_price():
    """2 puts of 95,000 delivered at 90,000: 10,000 USD, or 10,000 / 90,000 coins."""
    now, after = surface(), surface(passed=12.0, move=-0.03)
    delivered = {"2026-01-11": 90_000.0}
    start = position.greeks(BOOK, now)["value"].isel(leg=0)
    for method in ("greeks", "revaluation"):
        result = position.attribution(BOOK, now, after, method=method, delivery=delivered)
        paid = result["pnl_by_leg"].isel(leg=0) + start
        np.testing.assert_allclose(paid, [10_000.0, 10_000 / 90_000], rtol=1e-12)
        np.testing.assert_allclose(
            result["contribution_by_leg"].isel(leg=0).sum("term") + result["residual_by_leg"].isel(leg=0),
            result["pnl_by_leg"].isel(leg=0),
            rtol=1e-12,
        )
        np.testing.assert_allclose(result["settlement_price"], [90_000, np.nan, np.nan])
        assert int(result["status"][0]) & Status.EXPIRED
        assert not int(result["status"][1]) & Status.EXPIRED
        alive = position.attribution(BOOK.iloc[1:], now, after, method=method)
        np.testing.assert_allclose(result["pnl_by_leg"].isel(leg=[1, 2]), alive["pnl_by_leg"], rtol=1e-12)
    result = position.attribution(BOOK, now, after, delivery=delivered)
    term = result["contribution_by_leg"].sel(currency="usd").isel(leg=0).to_series()
    # Out of the money at the old forward of 100,000: its whole value was time value.
    assert term["theta"] == pytest.approx(-float(start.sel(currency="usd")), rel=1e-12)
    assert term["settlement"] == pytest.approx(10_000.0, rel=1e-12)
    assert term["delta"] + term["charm"] == pytest.approx(0.0, abs=1e-9)
    assert (abs(result["residual_by_leg"].isel(leg=0)) < 1e-9).all()
    assert (result["contribution_by_leg"].sel(term="settlement").isel(leg=[1, 2]) == 0.0).all()


def test_deliveries_of_a_table_are_those_of_the_contract():
    now, after = surface(), surface(passed=12.0)
    now = now.assign_coords(symbol="BTC", exchange="binance")
    future = pd.DataFrame({"expiry": [EXPIRIES[0]], "side": ["future"], "quantity": [1.0]})
    both = pd.concat([BOOK.iloc[:1], future], ignore_index=True)
    stamp = pd.Timestamp(EXPIRIES[0], tz="UTC")
    table = pd.DataFrame(
        {
            "symbol": ["BTC", "BTC", "ETH", "BTC"],
            "exchange": ["binance", "binance", "binance", "okx"],
            "contract": ["option:USDT", "future:USD", "option:USDT", "option:USD"],
            "time": [stamp] * 4,
            "price_usd": [90_000.0, 90_100.0, 3_000.0, 1.0],
        }
    )
    result = position.attribution(both, now, after, delivery=table)
    assert result["settlement_price"].to_numpy().tolist() == [90_000.0, 90_100.0]
    assert float(result["pnl_by_leg"].sel(currency="usd").isel(leg=1)) == pytest.approx(-9_900.0)
    with pytest.raises(ValueError, match="delivery does not have a price for the expiry 2026-01-11 08:00"):
        position.attribution(BOOK, now, after, delivery=table[table["symbol"] == "ETH"])
    twice = pd.concat([table, table.assign(contract="option:USDC", price_usd=90_050.0)])
    with pytest.raises(ValueError, match="differ between contracts option:USDC, option:USDT"):
        position.attribution(BOOK, now, after, delivery=twice)
    named = position.attribution(BOOK, now, after, delivery=twice, contract="option:USDC")
    assert float(named["settlement_price"][0]) == 90_050.0


def test_without_a_delivery_price_an_expired_leg_stays_nan():
    result = position.attribution(BOOK, surface(), surface(passed=12.0))
    assert np.isnan(result["pnl_by_leg"].isel(leg=0)).all()
    assert np.isnan(result["vol_change"][0])
    assert "settlement" not in result["term"]


def test_a_leg_that_expires_at_the_second_surface_is_settled():
    result = position.attribution(BOOK, surface(), surface(passed=10.0), delivery={"2026-01-11": 94_000.0})
    value = position.greeks(BOOK, surface())["value"].sel(currency="usd").isel(leg=0)
    assert float(result["pnl_by_leg"].sel(currency="usd").isel(leg=0) + value) == pytest.approx(2_000.0)
    assert pd.Timestamp(AS_OF) + pd.Timedelta("10D") == pd.Timestamp(EXPIRIES[0])


def test_spot_splits_only_moves_of_unexpired_futures_into_delta_and_rho():
    """A settled leg and a perpetual have no basis: their entire move is delta."""
    book = pd.concat([BOOK.iloc[:2], hedges().iloc[:2]], ignore_index=True)
    result = position.attribution(
        book,
        surface(),
        surface(passed=12.0, move=-0.03),
        delivery={"2026-01-11": 90_000.0},
        spot=(100.0, 99.0),
    )
    terms = result["contribution_by_leg"].sel(currency="usd")
    rho = terms.sel(term="rho").to_numpy()
    assert rho[[0, 3]].tolist() == [0.0, 0.0]
    # The future fell by 3 %, spot by 1 %: two thirds of its move is basis.
    assert rho[2] == pytest.approx(-1.5 * FORWARDS[1] * -0.02)
    assert float(terms.sel(term="delta")[2]) == pytest.approx(-1.5 * FORWARDS[1] * -0.01)
    np.testing.assert_allclose(terms.sum("term") + result["residual_by_leg"].sel(currency="usd"),
                               result["pnl_by_leg"].sel(currency="usd"), rtol=1e-9)  # fmt: skip


def test_histories_take_hedge_legs():
    times = [np.datetime64("2026-01-01T08:00"), np.datetime64("2026-01-02T08:00")]
    both = xr.concat([surface(), surface(passed=1.0, move=0.1)], pd.Index(times, name="time"))
    result = position.greeks(hedges(), both).sel(currency="usd")
    assert set(result["value"].dims) == {"time", "leg"}
    assert float(result["value"].isel(time=1, leg=1)) == pytest.approx(0.5 * (SPOT * 1.1 - 99_000.0))


def test_invalid_legs_raise_with_their_name():
    for change, message in (
        (
            {"side": ["futures", "spot", "spot", "spot"]},
            r"of call, put, future, perpetual, spot, got 'futures'; did you mean 'future'\?",
        ),
        ({"strike": [1.0] * 4}, "a leg with the side 'future' must not have a strike"),
        ({"price": [-1.0] * 4}, "'price' of legs must be above 0"),
        ({"contract": ["quanto"] * 4}, "the contract of a leg must be 'linear' or 'inverse', got 'quanto'"),
        ({"contract": ["inverse"] * 4}, "a leg with the side 'spot' must not have the contract 'inverse'"),
        ({"expiry": [EXPIRIES[1]] * 4}, "a leg with the side 'perpetual' must not have an expiry"),
    ):
        with pytest.raises(ValueError, match=message):
            position.greeks(hedges(**change), surface())
    with pytest.raises(
        ValueError, match=r"surface must have the coordinate 'spot' \[USD\] to value a perpetual or spot leg"
    ):
        position.greeks(hedges(), made())
    with pytest.raises(ValueError, match="legs must have at least one option"):
        position.vega_buckets(hedges(), surface())
    only = hedges().iloc[:1].drop(columns=["strike", "price", "contract"])
    assert float(position.greeks(only, made())["delta"].sel(currency="usd")[0]) == -1.5


def test_vega_buckets_exclude_hedges():
    both = pd.concat([BOOK, hedges()], ignore_index=True)
    with_hedges = position.vega_buckets(both, surface())
    np.testing.assert_allclose(with_hedges["vega"], position.vega_buckets(BOOK, surface())["vega"])
