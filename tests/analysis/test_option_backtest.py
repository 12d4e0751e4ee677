"""Backtests of option strategies against a plain loop, closed forms and hand calculations."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import backtest, position, surface
from derivdata.analysis.backtest import DeltaHedge, OptionCosts, OptionLeg, Roll
from derivdata.analysis.backtest.costs import Fees
from tests.analysis.option_oracle import (
    FUNDING_BPS,
    STEP,
    SlowStrangle,
    black,
    made_chains,
    perpetual,
    settlements,
)

FREE = OptionCosts(option_fee_bps=0.0, option_fee_cap=0.0, delivery_fee_bps=0.0, fee_bps=0.0)
COSTS = OptionCosts(
    option_fee_bps=3.0, option_fee_cap=0.125, delivery_fee_bps=1.5, fee_bps=5.0, slippage_bps=1.0
)
START = pd.Timestamp("2026-01-02T08:00", tz="UTC")
STRANGLE = Roll([OptionLeg("call", -1.0, "7d", delta=0.3), OptionLeg("put", -1.0, "7d", delta=0.3)])


def path(rows: int, *, volatility: float = 0.6, step: pd.Timedelta = STEP, seed: int = 3) -> np.ndarray:
    shocks = np.random.default_rng(seed).standard_normal(rows - 1)
    spread = volatility * np.sqrt(step / pd.Timedelta(365, "D"))
    return 100_000.0 * np.exp(np.append(0.0, np.cumsum(spread * shocks - spread**2 / 2)))


def fridays(spots: np.ndarray, step: pd.Timedelta = STEP) -> dict[pd.Timestamp, float]:
    """A delivery price 20 USD above the index of each Friday."""
    every = pd.Timedelta(7, "D") // step
    return {START + place * step: spots[place] + 20.0 for place in range(every, len(spots), every)}


@pytest.fixture(scope="module", params=[True, False], ids=["coin options", "USD options"])
def market(request):
    spots = path(50)
    chains = made_chains(spots, in_coin=request.param)
    return spots, chains, surface.from_chain(chains), request.param


def sums(result, currency):
    names = ("option_pnl", "underlying_pnl", "hedge_pnl", "funding")
    gains = sum(result[f"{name}_{currency}"] for name in names)
    return gains - result[f"fees_{currency}"] - result[f"spread_{currency}"]


@pytest.mark.parametrize(
    ("currency", "contract"), [*itertools.product(("usd", "coin"), ("linear", "inverse"))]
)
def test_equity_equals_a_plain_loop_and_the_sum_of_contributions(market, currency, contract):
    spots, chains, surfaces, in_coin = market
    capital = 100_000.0 if currency == "usd" else 2.0
    perp, paid = perpetual(spots), fridays(spots)
    result = backtest.options(
        chains,
        STRANGLE,
        COSTS,
        hedge=DeltaHedge(every="16h", contract=contract),
        prices=perp,
        funding=settlements(len(spots)),
        delivery=paid,
        surfaces=surfaces,
        currency=currency,
        capital=capital,
    )
    slow = SlowStrangle(
        chains,
        surfaces,
        quoted_in_coin=in_coin,
        account_in_coin=currency == "coin",
        inverse_hedge=contract == "inverse",
        delivery=paid,
        perp=perp,
        fees={"option": 3e-4, "cap": 0.125, "delivery": 1.5e-4, "hedge": 5e-4, "slippage": 1e-4},
        hedge_rows=2,
        delta=0.3,
        days=7.0,
        capital=capital,
    ).equity()
    equity = result[f"equity_{currency}"]
    scale = 1.0 if currency == "usd" else 1e-5
    np.testing.assert_allclose(equity, slow, rtol=0.0, atol=1e-8 * scale)
    total = capital + sums(result, currency).cumsum("time")
    np.testing.assert_allclose(equity, total, rtol=0.0, atol=1e-8 * scale)
    terms = result[f"contribution_{currency}"].sum("term")
    np.testing.assert_allclose(terms, result[f"option_pnl_{currency}"], rtol=0.0, atol=1e-8 * scale)
    # Two weeks of 7 days end within 49 steps of 8 hours: four deliveries, three entries of two legs.
    assert result["fill_reason"].to_numpy().tolist().count(1) == 4
    assert (result["fill_reason"] == 0).sum() == 6
    for name in ("refused_trades", "unmarked_options", "interpolated_marks", "unhedged"):
        assert not result[name].any(), name
    assert float(result["missing_funding_hours"]) == 0.0


def test_contributions_equal_position_attribution(market):
    _, chains, surfaces, in_coin = market
    legs = pd.DataFrame(
        {
            "side": ["call", "put"],
            "expiry": [START + pd.Timedelta(14, "D")] * 2,
            "strike": [104_000.0, 96_000.0],
            "quantity": [2.0, -1.0],
        }
    )
    currency = "coin" if in_coin else "usd"
    result = backtest.options(
        chains[chains["time"] <= START + 2 * STEP],
        lambda state: legs if state.opened is None else None,
        FREE,
        surfaces=surfaces,
        currency=currency,
        capital=100_000.0,
    )
    found = position.attribution(legs, surfaces.isel(time=0), surfaces.isel(time=1))
    expected = found["contribution"].sel(currency=currency).to_series()
    terms = result[f"contribution_{currency}"].isel(time=1).to_series()
    shared = [name for name in terms.index if name in expected.index]
    assert len(shared) == 9
    np.testing.assert_allclose(terms[shared], expected[shared], rtol=1e-9, atol=1e-12)
    residual = float(found["residual"].sel(currency=currency))
    assert terms["residual"] == pytest.approx(residual, rel=1e-6, abs=1e-9)
    now = position.greeks(legs, surfaces.isel(time=0)).sel(currency=currency).sum("leg")
    for name in ("gamma", "vega", "theta"):
        assert float(result[name][0]) == pytest.approx(float(now[name]), rel=1e-9)


def test_a_hedged_straddle_at_flat_volatility_earns_its_gamma():
    """½ Γ S² (r² − σ² dt) step by step: volatility is 50 % in the options and 90 % on the path."""
    step = pd.Timedelta(30, "min")
    spots = path(5 * 48, volatility=0.9, step=step, seed=11)
    chains = made_chains(
        spots, in_coin=False, step=step, expiries=1, carry=0.0, half_spread=0.0, iv=0.5,
        strikes=(70_000.0, 130_001.0, 5_000.0),
    )  # fmt: skip
    chains["ask_usd"] -= 5.0
    chains["bid_usd"] = chains["ask_usd"]
    surfaces = surface.from_chain(chains)
    leg = [OptionLeg(side, 1.0, "7d") for side in ("call", "put")]
    # The last two days are omitted: near the expiry gamma jumps from hour to hour.
    result = backtest.options(
        chains,
        Roll(leg),
        FREE,
        hedge=DeltaHedge(every="30min"),
        surfaces=surfaces,
        capital=10_000.0,
    )
    sigma, dt = 0.5, 1.0 / (365 * 48)
    strike = float(result["fill_strike"][0])
    earned = 0.0
    for place in range(5 * 48 - 1):
        years = 7 / 365 - place * dt
        s = sigma * np.sqrt(years)
        d1 = np.log(spots[place] / strike) / s + s / 2
        gamma = 2 * np.exp(-d1 * d1 / 2) / np.sqrt(2 * np.pi) / (spots[place] * s)
        move = spots[place + 1] / spots[place] - 1
        earned += 0.5 * gamma * spots[place] ** 2 * (move**2 - sigma**2 * dt)
    assert earned > 1_000.0
    assert float(result["net_usd"]) == pytest.approx(earned, rel=0.01)
    assert float(result["fees_usd"].sum() + result["spread_usd"].sum()) == pytest.approx(0.0, abs=1e-6)
    parts = result["contribution_usd"].sum("time").to_series()
    # The hedge takes the delta: theta and gamma are left.
    assert parts["gamma"] + parts["theta"] == pytest.approx(earned, rel=0.02)
    assert abs(parts["vega"]) < 1e-3 * earned


def test_call_less_put_less_future_earns_nothing():
    """C − P pays X − K and cost F − K; in coin 1 − K/X and 1 − K/F, against an inverse future of K USD."""
    spots = path(25)
    for in_coin in (False, True):
        chains = made_chains(spots, in_coin=in_coin, half_spread=0.0)
        unit = "coin" if in_coin else "usd"
        chains[f"ask_{unit}"] -= 1e-4 if in_coin else 5.0
        chains[f"bid_{unit}"] = chains[f"ask_{unit}"].where(chains[f"ask_{unit}"] > 0.0)
        expiry = START + pd.Timedelta(7, "D")
        book = pd.DataFrame(
            {
                "side": ["call", "put", "future"],
                "expiry": [expiry] * 3,
                "strike": [102_000.0, 102_000.0, np.nan],
                "quantity": [1.0, -1.0, -102_000.0 if in_coin else -1.0],
                "contract": ["linear", "linear", "inverse" if in_coin else "linear"],
            }
        )
        currency = "coin" if in_coin else "usd"
        result = backtest.options(
            chains,
            lambda state, book=book: book if state.opened is None else None,
            FREE,
            delivery={expiry: 91_234.0},
            currency=currency,
            capital=10.0,
        )
        scale = 1.0 if in_coin else 1e5
        assert abs(float(result[f"net_{currency}"])) < 1e-11 * scale
        assert (abs(result[f"equity_{currency}"] - 10.0) < 1e-9 * scale).all()
        assert abs(float(result[f"option_pnl_{currency}"].sum())) > 1e-3 * scale


def test_covered_call_on_recorded_chains_equals_hand_calculation():
    """Buy 1 BTC at the index, sell a call of 16 January at its bid, and hold it to delivery."""
    from tests.analysis.deribit import STAMPS_2026, chain_2026
    from tests.support.shared import shared_path

    frames = []
    for stamp in STAMPS_2026[:6]:
        raw = pd.read_csv(shared_path(f"data/options_deribit_2026/deribit_options_snapshot_{stamp}.csv"))
        frame = chain_2026(stamp).assign(index_price_usd=raw["index_price"])
        frames.append(frame[frame["symbol"] == "BTC"])
    chains = pd.concat(frames, ignore_index=True)
    expiry = pd.Timestamp("2026-01-16T08:00", tz="UTC")
    legs = pd.DataFrame(
        {
            "side": ["spot", "call"],
            "expiry": [pd.NaT, expiry],
            "strike": [np.nan, 96_000.0],
            "quantity": [1.0, -1.0],
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        result = backtest.options(
            chains,
            lambda state: legs if state.opened is None else None,
            COSTS,
            delivery={expiry: 96_400.0},
            capital=100_000.0,
        )
    first = chains[chains["time"] == chains["time"].min()]
    call = first[
        (first["expiry"] == expiry) & (first["strike"] == 96_000.0) & (first["side"] == "call")
    ].iloc[0]
    spot, bid = first["index_price_usd"].median(), call["bid_coin"]
    assert spot == pytest.approx(92_790.0, abs=10.0)
    premium = bid * spot
    option_fee = min(0.0003, 0.125 * bid) * spot
    spot_costs = spot * (5e-4 + 1e-4)
    delivered = 400.0 + min(1.5e-4 * 96_400.0, 0.125 * 400.0)
    last = chains[chains["time"] == chains["time"].max()]["index_price_usd"].median()
    net = (last - spot) + premium - option_fee - spot_costs - delivered
    assert float(result["net_usd"]) == pytest.approx(net, abs=1e-8)
    # The delivery lies between two chains and is a row of its own.
    assert pd.Timestamp("2026-01-16T08:00") in result.indexes["time"]
    assert result.sizes["time"] == 7


def test_target_is_traded_completely_or_not_at_all():
    spots = path(25)
    chains = made_chains(spots)
    at_first = chains["time"] == START
    no_puts = chains["bid_coin"].mask(at_first & (chains["side"] == "put"))
    with pytest.warns(
        dd.errors.DataNotice,
        match="option backtest: 1 position changes were not traded because a quote or mark is",
    ):
        result = backtest.options(
            chains.assign(bid_coin=no_puts), STRANGLE, COSTS, delivery=fridays(spots), capital=1e5
        )
    assert result["refused_trades"].to_numpy().tolist() == [1, *[0] * 24]
    assert result["option_legs"].to_numpy()[:2].tolist() == [0, 2]
    assert (result["fill_time"].to_numpy()[:2] == np.datetime64(START.tz_localize(None) + STEP)).all()
    # A crossed quote is none.
    crossed = chains.assign(bid_coin=chains["bid_coin"].mask(at_first, chains["ask_coin"] * 1.1))
    with pytest.warns(
        dd.errors.DataNotice,
        match="option backtest: 1 position changes were not traded because a quote or mark is",
    ):
        result = backtest.options(crossed, STRANGLE, COSTS, delivery=fridays(spots), capital=1e5)
    assert int(result["refused_trades"].sum()) == 1


def test_fills_are_at_bid_and_ask_and_fees_are_capped():
    spots = path(10)
    chains = made_chains(spots)
    legs = pd.DataFrame(
        {
            "side": ["call", "call"],
            "expiry": [START + pd.Timedelta(7, "D")] * 2,
            "strike": [100_000.0, 126_000.0],
            "quantity": [-2.0, 3.0],
        }
    )
    with pytest.warns(
        dd.errors.DataNotice,
        match="option backtest: 8 position changes were not traded because a quote or mark is",
    ):
        result = backtest.options(
            chains, lambda state: legs if state.opened is None else legs.iloc[:0], COSTS, capital=1e5
        )
    for place, (strike, quantity, row, quote) in enumerate(
        [(100_000, -2, 0, "bid"), (126_000, 3, 0, "ask"), (100_000, 2, 1, "ask"), (126_000, -3, 1, "bid")]
    ):
        if place == 2:
            # The far call has no bid at the second chain: nothing is closed.
            assert result.sizes["fill"] == 2
            assert np.isnan(_quote(chains, row, 126_000, "bid"))
            break
        price = _quote(chains, row, strike, quote) * spots[row]
        assert float(result["fill_price"][place]) == pytest.approx(price, rel=1e-12)
        fee = min(3e-4 * spots[row], 0.125 * price) * abs(quantity)
        assert float(result["fill_fee_usd"][place]) == pytest.approx(fee, rel=1e-12)
        assert float(result["fill_quantity"][place]) == quantity
    assert float(result["fill_fee_usd"][1]) < 3 * 3e-4 * spots[0]


def _quote(chains, row, strike, name):
    at = (chains["time"] == START + row * STEP) & (chains["strike"] == strike) & (chains["side"] == "call")
    at &= chains["expiry"] == START + pd.Timedelta(7, "D")
    return float(chains.loc[at, f"{name}_coin"].iloc[0])


def test_expiries_without_a_delivery_price_are_rejected():
    chains = made_chains(path(25))
    with pytest.raises(ValueError, match="expires at 2026-01-09 08:00 UTC is still open: pass delivery="):
        backtest.options(chains, STRANGLE, COSTS)
    with pytest.raises(ValueError, match="delivery does not have a price for the expiry 2026-01-09 08:00"):
        backtest.options(chains, STRANGLE, COSTS, delivery={"2026-01-16": 1.0})
    table = pd.DataFrame(
        {
            "symbol": "BTC",
            "exchange": ["deribit", "okx"],
            "contract": ["index:USD", "option:USD"],
            "time": [START + pd.Timedelta(7, "D")] * 2,
            "price_usd": [95_000.0, 1.0],
        }
    )
    result = backtest.options(chains, STRANGLE, COSTS, delivery=table, capital=1e5)
    paid = result["fill_price"].to_numpy()[result["fill_reason"].to_numpy() == 1]
    strikes = result["fill_strike"].to_numpy()[:2]
    assert paid.tolist() == pytest.approx([max(95_000 - strikes[0], 0), max(strikes[1] - 95_000, 0)])


def test_hours_without_a_chain_are_counted():
    spots = path(25)
    chains, paid = made_chains(spots), fridays(spots)
    without_two_chains = chains[~chains["time"].isin([START + 4 * STEP, START + 5 * STEP])]
    with pytest.warns(
        dd.errors.DataNotice, match="option backtest: chains are missing for 16 h with open options"
    ):
        result = backtest.options(without_two_chains, STRANGLE, COSTS, delivery=paid, capital=1e5)
    assert float(result["gap_hours"]) == 16.0


def test_marks_of_an_expiry_that_is_not_listed_are_interpolated_and_counted():
    """The expiry of the strangle is missing in the fifth chain."""
    spots = path(25)
    chains, paid = made_chains(spots), fridays(spots)
    is_unlisted = (chains["time"] == START + 4 * STEP) & (chains["expiry"] == START + pd.Timedelta(7, "D"))
    with pytest.warns(
        dd.errors.DataNotice,
        match="option backtest: 2 option marks belong to expiries without a separate fit",
    ):
        result = backtest.options(chains[~is_unlisted], STRANGLE, COSTS, delivery=paid, capital=1e5)
    assert result["interpolated_marks"].to_numpy().tolist() == [0, 0, 0, 0, 2, *[0] * 20]


def test_options_without_a_fit_have_no_mark_and_no_profit():
    """The surface of the fifth chain is missing."""
    spots = path(25)
    chains, paid = made_chains(spots), fridays(spots)
    fitted = surface.from_chain(chains)
    without_fit = fitted.where(fitted["time"] != np.datetime64((START + 4 * STEP).tz_localize(None)))
    method = without_fit["method"].fillna(0).astype(np.int8)
    without_fit = without_fit.assign(method=method, status=fitted["status"])
    with pytest.warns(dd.errors.DataNotice, match="2 option marks are missing"):
        result = backtest.options(chains, STRANGLE, COSTS, delivery=paid, surfaces=without_fit, capital=1e5)
    assert result["unmarked_options"].to_numpy()[4] == 2
    assert float(result["option_pnl_usd"][4]) == 0.0


def test_hedges_without_a_price_and_missing_funding_are_counted():
    spots = path(25)
    with pytest.warns(
        dd.errors.DataNotice,
        match="1 hedges were not traded because a price is missing; funding payments are missing for 8 h",
    ):
        result = backtest.options(
            made_chains(spots),
            STRANGLE,
            COSTS,
            hedge=DeltaHedge(every="8h", max_price_age="1h"),
            prices=perpetual(spots).drop(index=4),
            funding=settlements(25).drop(index=6),
            delivery=fridays(spots),
            capital=1e5,
        )
    assert result["unhedged"].to_numpy().tolist() == [0, 0, 0, 0, 1, *[0] * 20]
    assert float(result["missing_funding_hours"]) == 8.0
    total = 1e5 + sums(result, "usd").cumsum("time")
    np.testing.assert_allclose(result["equity_usd"], total, rtol=0.0, atol=1e-8)


def test_funding_is_paid_on_the_hedge_after_it_was_traded():
    spots = path(4)
    chains = made_chains(spots)
    legs = pd.DataFrame({"side": ["perpetual"], "quantity": [2.0]})
    result = backtest.options(
        chains,
        lambda state: legs if state.opened is None else None,
        FREE,
        prices=perpetual(spots),
        funding=settlements(4),
    )
    expected = [0.0, *(-2.0 * (spots[1:] + 5.0) * 1.5e-4)]
    np.testing.assert_allclose(result["funding_usd"], expected, rtol=1e-12)
    np.testing.assert_allclose(result["underlying_pnl_usd"], [0.0, *(2.0 * np.diff(spots))], atol=1e-8)
    inverse = legs.assign(contract="inverse", quantity=100_000.0)
    result = backtest.options(
        chains,
        lambda state: inverse if state.opened is None else None,
        FREE,
        prices=perpetual(spots),
        funding=settlements(4),
        currency="coin",
        capital=1.0,
    )
    price = spots + 5.0
    np.testing.assert_allclose(result["funding_coin"], [0.0, *(-15.0 / spots[1:])], rtol=1e-12)
    gains = 100_000.0 * (1 / price[:-1] - 1 / price[1:])
    np.testing.assert_allclose(result["underlying_pnl_coin"], [0.0, *gains], rtol=1e-9, atol=1e-15)


def test_delta_band_trades_only_outside_it_and_hedge_removes_delta():
    spots = path(21, volatility=0.8)
    chains = made_chains(spots)
    common = {"prices": perpetual(spots), "capital": 1e5}
    free = backtest.options(chains, STRANGLE, COSTS, hedge=DeltaHedge(every="8h"), **common)
    assert (abs(free["net_delta"]) < 1e-9).to_numpy()[:-1].all()
    band = backtest.options(chains, STRANGLE, COSTS, hedge=DeltaHedge(band=0.15), **common)
    held = band["hedge_quantity"].to_numpy()
    traded = np.append(True, np.diff(held) != 0.0)
    net = band["net_delta"].to_numpy()
    assert (abs(net[~traded]) <= 0.15 + 1e-12).all()
    assert (abs(net[traded]) < 1e-4).all()
    assert 1 < traded.sum() < 20
    # Without the trade the delta would have been outside.
    before = band["delta"].to_numpy()[1:] + held[:-1] * (spots[1:] + 5.0) / spots[1:]
    assert (abs(before[traded[1:]]) > 0.15 - 1e-4).all()


def test_hedge_without_a_price_is_traded_at_the_next_price():
    """The strangle is sold at the first chain, whose price is missing; the band is never reached."""
    spots = path(6, volatility=0.01)
    with pytest.warns(dd.errors.DataNotice, match="2 hedges were not traded"):
        result = backtest.options(
            made_chains(spots),
            STRANGLE,
            FREE,
            hedge=DeltaHedge(band=5.0),
            prices=perpetual(spots).drop(index=[0, 1]),
        )
    assert (result["hedge_quantity"] != 0.0).to_numpy().tolist() == [False, False, True, True, True, True]
    assert abs(float(result["net_delta"][2])) < 1e-6


def test_rolls_by_week_month_time_and_delta():
    spots = path(31 * 3)
    chains, paid = made_chains(spots, strikes=(70_000.0, 130_001.0, 5_000.0)), fridays(spots)
    surfaces = surface.from_chain(chains, method="essvi", weights="price")
    call = [OptionLeg("call", -1.0, "21d", moneyness=1.0)]

    def entries(rule):
        result = backtest.options(chains, rule, FREE, delivery=paid, surfaces=surfaces, capital=1e5)
        sold = (result["fill_quantity"] < 0) & (result["fill_reason"] == 0)
        return pd.DatetimeIndex(result["fill_time"].to_numpy()[sold.to_numpy()]), result

    times, _ = entries(Roll(call, every="weekly"))
    assert (times - times[0]).days.tolist() == [0, 7, 14, 21, 28]
    month = [OptionLeg("call", -1.0, "28d")]
    times, _ = entries(Roll(month, every="monthly"))
    assert times.tolist() == [pd.Timestamp("2026-01-02T08:00"), pd.Timestamp("2026-01-30T08:00")]
    times, _ = entries(Roll(call, every="3d"))
    assert set(np.diff(times).astype("timedelta64[h]").astype(int)) == {72}
    times, _ = entries(Roll(call, min_tenor="10d"))
    # Of 21 days: the first chain with less than 10 days left is 11 days and 8 hours on.
    assert (times[1] - times[0]) == pd.Timedelta("11D 8h")
    times, _ = entries(Roll(call, max_delta=0.7))
    # The first chain at which the sold call has a delta above 0.7, by the chain's own volatilities.
    sold = chains[(chains["expiry"] == START + pd.Timedelta(21, "D")) & (chains["side"] == "call")]
    sold = sold[sold["strike"] == 100_000.0]
    years = (sold["expiry"] - sold["time"]) / pd.Timedelta(365, "D")
    deltas = [
        black(row.underlying_price, row.strike, t, row.iv, "call")[1]
        for row, t in zip(sold.itertuples(), years, strict=True)
    ]
    assert times[1] == sold["time"][np.array(deltas) > 0.7].iloc[0].tz_localize(None)
    assert len(entries(Roll(call))[0]) == 2  # once it has expired


def test_legs_equal_to_held_ones_wait_for_the_next_roll():
    """At a constant index the same call is chosen every three days, and the roll stays at its hours."""
    chains = made_chains(np.full(40, 100_000.0), iv=0.5, expiries=6)
    rule = Roll([OptionLeg("call", -1.0, "35d", moneyness=1.0)], every="3d")
    times = []

    def followed(state):
        legs = rule(state)
        if legs is not None:
            times.append(state.now)
        return legs

    result = backtest.options(chains, followed, FREE, capital=1e5)
    assert times == [START + pd.Timedelta(days, "D") for days in range(0, 13, 3)]
    # The expiry nearest to 35 days is another one from the 4th day on: the call is exchanged on the 6th.
    exchanged = pd.DatetimeIndex(np.unique(result["fill_time"]))
    assert (exchanged - exchanged[0]).days.tolist() == [0, 6, 12]


def test_future_is_rolled_at_or_before_its_delivery():
    spots = path(31)
    chains = made_chains(spots, strikes=(90_000.0, 110_001.0, 10_000.0))
    near = [OptionLeg("future", 1.0, "7d")]
    result = backtest.options(chains, Roll(near), FREE, delivery=fridays(spots), capital=1e5)
    assert result["fill_reason"].to_numpy().tolist() == [0, 1, 0]
    assert (result["fill_time"][1:] == np.datetime64("2026-01-09T08:00")).all()
    result = backtest.options(chains, Roll(near, min_tenor="2d"), FREE, capital=1e5)
    # The first chain with less than two days left.
    assert (result["fill_time"][1:] == np.datetime64("2026-01-07T16:00")).all()


def test_calendar_spread_is_rolled_when_its_near_leg_expires():
    spots = path(45)
    chains = made_chains(spots)
    rule = Roll([OptionLeg("call", -1.0, "7d"), OptionLeg("call", 1.0, "21d")])
    result = backtest.options(chains, rule, COSTS, delivery=fridays(spots), capital=1e5)
    assert result["option_legs"].to_numpy().tolist() == [2] * 45
    week = result.sel(time="2026-01-09T08:00")
    at = result["fill_time"].to_numpy() == week["time"].to_numpy()
    quantities = result["fill_quantity"].to_numpy()[at].tolist()
    # The near call is delivered, the far one sold at its bid, and both are opened again.
    assert quantities[0] == 1.0
    assert sorted(quantities[1:]) in ([-1.0, -1.0, 1.0], [-1.0])


def test_margin_of_shorts_is_the_published_formula():
    spots = np.full(4, 100_000.0)
    chains = made_chains(spots)
    legs = pd.DataFrame(
        {
            "side": ["call", "put", "call", "perpetual"],
            "expiry": [START + pd.Timedelta(14, "D")] * 3 + [pd.NaT],
            "strike": [104_000.0, 80_000.0, 110_000.0, np.nan],
            "quantity": [-2.0, -1.0, 5.0, -1.0],
        }
    )
    result = backtest.options(
        chains, lambda state: legs if state.opened is None else None, FREE, capital=20_000.0
    )
    marks = dict(zip(result["fill_strike"].to_numpy(), result["fill_mark"].to_numpy(), strict=True))
    call = 2 * (0.15 * 100_000 - 4_000 + marks[104_000.0])
    put = 0.1 * 100_000 + marks[80_000.0]
    assert float(result["margin_usd"][0]) == pytest.approx(call + put + 0.05 * 100_000, rel=1e-9)
    assert int(result["margin_calls"]) == 4


def test_venue_fees_are_the_declared_facts_at_that_date():
    deribit = Fees(OptionCosts(), "BTC", "deribit", "deribit")
    assert deribit.of_trade(1_000.0, 100_000.0, "2026-01-05") == pytest.approx(30.0)
    assert deribit.of_trade(100.0, 100_000.0, "2026-01-05") == pytest.approx(12.5)
    assert deribit.of_delivery(1_000.0, 100_000.0, "2026-01-09") == pytest.approx(15.0)  # a Friday
    assert deribit.of_delivery(1_000.0, 100_000.0, "2026-01-08") == 0.0
    assert deribit.of_delivery(0.0, 100_000.0, "2026-01-09") == 0.0
    okx = Fees(OptionCosts(), "BTC", "okx", "okx")
    assert okx.of_trade(100.0, 100_000.0, "2026-01-05") == pytest.approx(7.0)
    assert okx.of_delivery(1_000.0, 100_000.0, "2026-01-09") == pytest.approx(20.0)
    binance = Fees(OptionCosts(), "BTC", "binance", "binance")
    assert binance.of_trade(100.0, 100_000.0, "2026-01-05") == pytest.approx(10.0)
    with pytest.warns(dd.errors.DataNotice, match="option_fee_cap of okx is unknown on 2025-01-01"):
        okx.of_trade(100.0, 100_000.0, "2025-01-01")
    with pytest.raises(
        ValueError, match=r"dd\.venues\.facts\(\) does not have option_taker_fee_bps of BTC on derive"
    ):
        Fees(OptionCosts(), "BTC", "derive", "derive").of_trade(1.0, 1.0, "2026-01-01")


def test_invalid_input_raises_with_its_name():
    chains = made_chains(path(4))
    for changed, message in (
        (chains.drop(columns=["bid_coin", "ask_coin"]), "chains must have bid and ask"),
        (chains[chains["time"] == START], "chains must have at least two timestamps for a backtest, got one"),
        (pd.concat([chains, chains.assign(exchange="okx")]), "chains must have one 'exchange', got 2"),
        (
            chains.assign(bid_usd=1.0),
            "chains must have prices in one currency per option, got rows in coin and in USD",
        ),
        (
            pd.concat([chains.assign(instrument_name="a"), chains.assign(instrument_name="b")]),
            "chains has two rows of the option 2026-01-09 60000 call at one timestamp",
        ),
        (chains.iloc[:0], "chains is empty: check symbols, venues and the window of the request"),
    ):
        with pytest.raises(ValueError, match=message):
            backtest.options(changed, STRANGLE, COSTS)
    with pytest.raises(TypeError, match="the rule must return a table of legs or None, got dict"):
        backtest.options(chains, lambda state: {}, COSTS)
    with pytest.raises(ValueError, match="funding does not have the exchange 'deribit'"):
        backtest.options(chains, STRANGLE, COSTS, funding=settlements(4).assign(exchange="okx"))
    fitted = surface.from_chain(chains)
    with pytest.raises(ValueError, match="surfaces lacks 3 of 4 timestamps"):
        backtest.options(chains, STRANGLE, COSTS, surfaces=fitted.isel(time=[0]))
    in_usd = chains.rename(columns={"bid_coin": "bid_usd", "ask_coin": "ask_usd"})
    with pytest.raises(ValueError, match=r"are [0-9.]+e-06 times the marks"):
        backtest.options(in_usd, STRANGLE, COSTS, surfaces=fitted)
    with pytest.raises(ValueError, match="surfaces has the symbol 'ETH' but chains has 'BTC'"):
        backtest.options(chains, STRANGLE, COSTS, surfaces=fitted.assign_coords(symbol="ETH"))
    for build, message in (
        (lambda: OptionLeg("calls", 1.0), "side must be one of .*, got 'calls'"),
        (lambda: OptionLeg("call", 1.0), "needs tenor="),
        (lambda: OptionLeg("spot", 1.0, "7d"), "a leg with the side 'spot' must not have a tenor"),
        (lambda: OptionLeg("call", 0.0, "7d"), "other than 0"),
        (lambda: OptionLeg("call", 1.0, "7d", delta=30.0), r"delta must be between 0 and 1, got 30\.0"),
        (lambda: OptionLeg("call", 1.0, "7d", delta=0.3, moneyness=1.0), "pass one of them"),
        (lambda: Roll([]), "legs must be a list of at least one OptionLeg"),
        (lambda: Roll(STRANGLE.legs, every="yearly"), "a length of time such as '3d', got 'yearly'"),
        (lambda: DeltaHedge(), "needs every="),
        (lambda: OptionCosts(option_fee_cap=-1.0), "option_fee_cap must be 0 or more, got -1"),
        (lambda: OptionCosts(option_fee_cap=12.5), "12.5 % is 0.125"),
        (lambda: OptionCosts(fee_bps=np.nan), "fee_bps must be a finite number, got nan"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
    for build, message in (
        (lambda: OptionLeg("call", "1", "7d"), "quantity must be a number, got str"),
        (lambda: OptionLeg("call", 1.0, 7), "tenor must be text, a pandas.Timedelta or None, got int"),
        (lambda: Roll(OptionLeg("spot", 1.0)), "legs must be a list"),
        (lambda: DeltaHedge(every=8), "every must be text"),
        (lambda: OptionCosts(option_fee_bps="3"), "option_fee_bps must be a number or None, got str"),
    ):
        with pytest.raises(TypeError, match=message):
            build()


def test_a_delivery_price_in_another_unit_is_rejected():
    spots = path(31)
    delivered = {expiry: price / 1000.0 for expiry, price in fridays(spots).items()}
    with pytest.raises(ValueError, match=r"delivery has 9[0-9.]+ USD for the expiry 2026-01-09 08:00 UTC"):
        backtest.options(made_chains(spots), STRANGLE, FREE, delivery=delivered, capital=1e5)


def test_infinite_cap_has_no_effect():
    fees = Fees(OptionCosts(option_fee_bps=3.0, option_fee_cap=np.inf), "BTC", "deribit", "deribit")
    assert fees.of_trade(10.0, 100_000.0, "2026-01-05") == pytest.approx(30.0)


def test_row_order_does_not_affect_results():
    chains = made_chains(path(10))
    shuffled = chains.sample(frac=1.0, random_state=5)
    rule = Roll([OptionLeg("call", -1.0, "10D 12h", delta=0.3)])  # as far from one expiry as from the next
    results = [backtest.options(chain_, rule, COSTS, capital=1e5) for chain_ in (chains, shuffled)]
    assert results[0]["fill_strike"].to_numpy().tolist() == results[1]["fill_strike"].to_numpy().tolist()
    assert (results[0]["fill_expiry"] == results[1]["fill_expiry"]).all()
    np.testing.assert_allclose(results[0]["equity_usd"], results[1]["equity_usd"], rtol=1e-9)


def test_a_rule_sees_quotes_and_positions_of_its_time():
    seen = []

    def rule(state):
        assert state.position.shape[0] == (0 if state.opened is None else 1)
        seen.append(state)
        return pd.DataFrame([OptionLeg("put", -1.0, "7d", delta=0.2).chosen(state)])

    chains = made_chains(path(4))
    backtest.options(chains, rule, FREE, capital=1e5)
    assert [state.now for state in seen] == [START + place * STEP for place in range(3)]
    first, second = seen[:2]
    assert first.opened is None
    assert first.position.empty
    assert second.opened == START
    assert second.position[["side", "quantity"]].to_numpy().tolist() == [["put", -1.0]]
    quotes = second.quotes
    assert len(quotes) == (chains["time"] == START + STEP).sum()
    near = quotes[(quotes["bid_usd"].notna()) & (quotes["days"] > 1)]
    assert (near["bid_usd"] <= near["mark_usd"] + 1.0).all()
    assert (near["mark_usd"] <= near["ask_usd"] + 1.0).all()


def test_closed_legs_can_be_opened_again():
    """Flat at first and from row 4 to 6; each return to the roll enters again."""
    spots = path(10)
    roll = Roll([OptionLeg("call", -1.0, "7d")])
    closed = {START + place * STEP for place in (0, 1, 4, 5, 6)}
    result = backtest.options(
        made_chains(spots),
        lambda state: pd.DataFrame() if state.now in closed else roll(state),
        FREE,
        capital=1e5,
    )
    assert result["option_legs"].to_numpy().tolist() == [0, 0, 1, 1, 0, 0, 0, 1, 1, 1]


def test_description_of_a_rule_has_no_memory_address():
    def never(state):
        return None

    result = backtest.options(made_chains(path(3)), never, FREE, capital=1e5)
    assert result.attrs["rule"] == (
        "<function test_description_of_a_rule_has_no_memory_address.<locals>.never>"
    )


def test_payments_with_late_stamps_are_paid_at_their_due_time():
    """Three milliseconds after the hour belong to the hour: the position before its trade pays."""
    spots = path(12)
    rule = Roll(STRANGLE.legs, every="16h")
    surfaces = surface.from_chain(made_chains(spots))
    paid = settlements(12)

    def equity(funding):
        result = backtest.options(
            made_chains(spots),
            rule,
            COSTS,
            hedge=DeltaHedge(every="8h"),
            prices=perpetual(spots),
            funding=funding,
            surfaces=surfaces,
            capital=1e5,
        )
        return result["equity_usd"].to_numpy()

    late = paid.assign(time=paid["time"] + pd.Timedelta(3, "ms"))
    np.testing.assert_array_equal(equity(late), equity(paid))
    # A payment without an interval pays for the hours since the last one.
    is_unknown = np.arange(12) == 5
    unknown = paid.assign(
        rate_native=FUNDING_BPS / 1e4,
        interval_hours=np.where(is_unknown, np.nan, 8.0),
        rate_bps_8h=np.where(is_unknown, np.nan, FUNDING_BPS),
    )
    np.testing.assert_allclose(equity(unknown), equity(paid), rtol=1e-12)


def test_losses_above_the_capital_give_a_notice():
    spots = np.linspace(100_000.0, 110_000.0, 6)
    rule = Roll([OptionLeg("call", -1.0, "7d")])
    with pytest.warns(dd.errors.DataNotice, match="option backtest: equity is below 0 at [1-5] timestamps"):
        backtest.options(made_chains(spots), rule, FREE, capital=100.0)
