import json
import math
import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.signal import lfilter

import derivdata as dd
from derivdata.analysis import backtest
from derivdata.analysis.backtest.engine import deflated_sharpe_ratio
from derivdata.analysis.backtest.results import daily_returns, long_run_ratio
from tests.analysis import backtest_oracle as oracle
from tests.measured import carry_backtest
from tests.support.examples import examples

SOAK = os.environ.get("DERIVDATA_SOAK") == "1"
VENUES = ["alpha", "beta", "gamma", "omega"]
SYMBOLS = ["BTC", "ETH", "SOL"]


def panel(values: Any, *, kind: str = "settled", hours: float = 8.0, unit: str = "bps/8h") -> xr.DataArray:
    values = np.asarray(values, dtype=np.float64)
    name = "price_usd" if unit == "USD" else "rate_bps_8h"
    rows = pd.date_range("2026-01-01", periods=values.shape[-1], freq=pd.Timedelta(hours, "h"))
    return xr.DataArray(
        values,
        dims=("symbol", "exchange", "time"),
        coords={
            "symbol": SYMBOLS[: values.shape[0]],
            "exchange": VENUES[: values.shape[1]],
            "time": rows.as_unit("us").to_numpy(),
        }
        | ({"interval_hours": 8.0} if unit != "USD" and kind == "settled" else {}),
        name=name,
        attrs={"units": unit} | ({} if unit == "USD" else {"kind": kind}),
    )


def drawn(seed: int, rows: int = 40) -> tuple[Any, Any]:
    """Rates that wander, in steps of a quarter, and prices that do; a tenth of either is missing."""
    rng = np.random.default_rng(seed)
    shape = (3, 4, rows)
    rates = np.round(4 * np.cumsum(rng.normal(0, 0.7, shape), axis=-1)) / 4
    common = np.exp(np.cumsum(rng.normal(0, 0.03, (3, 1, rows)), axis=-1))
    prices = 100 * common * np.exp(rng.normal(0, 0.002, shape))
    rates[rng.random(shape) < 0.1] = np.nan
    prices[rng.random(shape) < 0.1] = np.nan
    return rates, prices


def test_pair_equals_hand_calculation() -> None:
    """Enter at row 0 on 4 bps/8h, two payments of 4 and of 2, leave at row 3 where the spread is 0.

    Funding of one 100,000 leg: (4 + 2 + 0) bps = 60 USD. Fees: four trades of 100,000 at 2 bps = 80 USD.
    """
    rates = panel([[[1.0, 1.0, 1.0, 1.0, 1.0], [5.0, 5.0, 3.0, 1.0, 1.0]]])
    rule = backtest.SpreadThreshold(enter_bps_8h=3.0, exit_bps_8h=1.0)
    result = backtest.carry(rates, rule, backtest.Costs(fee_bps=2.0))
    [trade] = backtest.trades(result).to_dict("records")
    assert (trade["symbol"], trade["long"], trade["short"]) == ("BTC", "alpha", "beta")
    assert trade["entry"] == pd.Timestamp("2026-01-01", tz="UTC")
    assert trade["exit"] == pd.Timestamp("2026-01-02", tz="UTC")
    assert (trade["funding_usd"], trade["fees_usd"], trade["price_usd"]) == (60.0, 80.0, 0.0)
    assert (trade["net_usd"], trade["reason"], trade["missing_hours"]) == (-20.0, "rule", 0.0)
    np.testing.assert_allclose(result["equity_usd"], 1e6 + np.array([-40.0, 0.0, 20.0, -20.0, -20.0]))
    assert result["max_drawdown"].item() == pytest.approx(40 / 1e6)
    assert result["long_venue"].values.tolist() == [["alpha"] * 3 + [""] * 2]
    assert result["short_venue"].values.tolist() == [["beta"] * 3 + [""] * 2]
    assert result["turnover"].item() == pytest.approx(400_000 / 1e6 / (32 / 8760))


def test_payments_occur_at_the_times_of_each_venue() -> None:
    """One venue pays hourly, one every 8 hours: eight payments of a half, one of 8 / 8 × 4."""
    hourly, eight = np.full(10, 0.5 * 8), np.full(10, np.nan)
    eight[[0, 8]] = 8.0
    rates = panel([[hourly, eight]], hours=1.0)
    hours = xr.zeros_like(rates).assign_attrs(units="h").rename("interval_hours")
    hours[:, 0], hours[:, 1] = 1.0, 8.0
    rule = backtest.SpreadThreshold(enter_bps_8h=1.0, exit_bps_8h=-9.0)
    result = backtest.carry(rates.assign_coords(interval_hours=hours), rule, backtest.Costs(fee_bps=0.0))
    earned = result["funding_usd"].sel(symbol="BTC").values
    np.testing.assert_allclose(earned, [0, *[-5.0] * 7, 75.0, -5.0])  # 10 USD a bps; at row 8: 80 - 5


def test_price_pnl_is_the_difference_of_the_legs() -> None:
    """Long 1,000 coins at 100 and short at 100; the long venue gains 1 more than the short one."""
    prices = np.array([[[100.0, 102.0, 102.0], [100.0, 101.0, 101.0]]])
    rates = panel([[[0.0] * 3, [4.0] * 3]])
    result = backtest.carry(
        rates, backtest.SpreadThreshold(1.0), backtest.Costs(fee_bps=0.0), prices=panel(prices, unit="USD")
    )
    np.testing.assert_allclose(result["price_usd"].values, [[0.0, 1000.0, 0.0]])
    np.testing.assert_allclose(result["funding_usd"].values, [[0.0, 4e-4 * 101e3, 4e-4 * 101e3]])
    [trade] = backtest.trades(result).to_dict("records")
    assert (trade["price_usd"], trade["funding_usd"]) == pytest.approx((1000.0, 80.8))


@pytest.mark.parametrize("entry", ["2026-01-02T08:00", "2026-01-02T09:00", "2026-01-02T13:00"])
def test_missing_payment_after_an_entry_counts_fully(entry: str) -> None:
    """Of two venues that pay every 8 hours, one lacks the payment of 2 January 16:00; rows are hourly."""
    rate = np.full((2, 145), np.nan)
    rate[0, ::8], rate[1, ::8], rate[1, 40] = 1.0, 5.0, np.nan
    rates = panel([rate], hours=1.0).assign_coords(interval_hours=8.0)
    hold = backtest.HoldPair("BTC", "alpha", "beta", start=entry, end="2026-01-04")
    result = backtest.carry(
        rates,
        hold,
        backtest.Costs(fee_bps=0.0),
        prices=panel([np.full((2, 145), 100.0)], hours=1.0, unit="USD"),
    )
    assert result["missing_hours"].item() == 8.0
    assert (result["trade_entry"] == np.datetime64(entry)).all()
    assert (result["trade_exit"] == np.datetime64("2026-01-04")).all()
    early = backtest.HoldPair("BTC", "alpha", "beta", start=entry, end="2026-01-02T15:00")
    assert backtest.carry(rates, early, backtest.Costs(fee_bps=0.0))["missing_hours"].item() == 0.0


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_hourly_payments_lost_before_a_change_to_eight_hours_are_missing(lost: int) -> None:
    """Both legs pay hourly until 16:00 and then every 8 hours; the short one lacks the last hourly ones."""
    rate = np.full((2, 65), np.nan)
    rate[:, :17] = rate[:, 24::8] = 1.0
    rate[1, 17 - lost : 17] = np.nan
    interval = np.where(np.arange(65) <= 16, 1.0, 8.0)
    rates = panel([rate], hours=1.0).assign_coords(interval_hours=("time", interval))
    hold = backtest.HoldPair("BTC", "alpha", "beta", start="2026-01-01T02:00", end="2026-01-03T08:00")
    prices = panel([np.full((2, 65), 100.0)], hours=1.0, unit="USD")
    result = backtest.carry(rates, hold, backtest.Costs(fee_bps=0.0), prices=prices)
    assert result["missing_hours"].item() == lost


def test_hourly_payments_that_end_are_missing_until_the_close() -> None:
    """Beta pays last at 12:00; at 20:00 the pair is closed."""
    rate = np.ones((2, 25)) * [[1.0], [5.0]]
    rate[1, 13:] = np.nan
    rates = panel([rate], hours=1.0).assign_coords(interval_hours=1.0)
    hold = backtest.HoldPair("BTC", "alpha", "beta", start="2026-01-01T02:00", end="2026-01-01T20:00")
    assert backtest.carry(rates, hold, backtest.Costs(fee_bps=0.0))["missing_hours"].item() == 8.0


def test_capital_and_venue_limits_keep_the_highest_scores() -> None:
    levels = np.array([[0.0, 2.0], [0.0, 6.0], [0.0, 4.0]])
    rates = panel(np.repeat(levels[..., None], 4, axis=-1))
    options: dict[str, Any] = {"leg_usd": 300.0, "leverage": 2.0, "capital": 700.0}
    result = backtest.carry(rates, backtest.SpreadThreshold(1.0), backtest.Costs(fee_bps=0.0), **options)
    assert backtest.trades(result)["symbol"].tolist() == ["ETH", "SOL"]
    assert result["refused_entries"].values.tolist() == [1, 1, 1, 0]
    limited = backtest.VenueLimit(backtest.SpreadThreshold(1.0), {"beta": 200_000.0})
    result = backtest.carry(rates, limited, backtest.Costs(fee_bps=0.0))
    assert backtest.trades(result)["symbol"].tolist() == ["ETH", "SOL"]


def test_missing_marks_at_the_end_give_no_profit() -> None:
    """One price on both venues, up by a third: nothing is earned by price, though the marks of one end.

    The pair is closed a day later, at the last marks that both had.
    """
    hours = 24 * 30 + 1
    price = 100.0 * np.exp(np.linspace(0.0, 0.3, hours))
    ended = np.where(np.arange(hours) < 120, price, np.nan)
    rates = panel([[np.zeros(hours), np.ones(hours)]], hours=1.0).assign_coords(interval_hours=1.0)
    result = backtest.carry(
        rates,
        backtest.HoldPair("BTC", "alpha", "beta"),
        backtest.Costs(fee_bps=0.0),
        prices=panel([[price, ended]], hours=1.0, unit="USD"),
        transfer_every="24h",
    )
    assert float(abs(result["price_usd"]).sum()) == pytest.approx(0.0, abs=1e-6)
    [trade] = backtest.trades(result).to_dict("records")
    assert trade["reason"] == "no_mark"
    assert trade["exit"] - trade["entry"] == pd.Timedelta(119 + 25, "h"), "after more than 24 hours"
    assert trade["unmarked_hours"] == 24.0, "the first hour without one is not overdue"
    assert result["unmarked_hours"].item() == 24.0


@pytest.mark.parametrize("kind", ["settled", "sampled"])
@pytest.mark.parametrize("seed", range(6))
def test_backtest_equals_a_plain_loop_to_the_cent(kind: str, seed: int) -> None:
    rates, prices = drawn(seed)
    hours, fees = 8.0 if kind == "settled" else 1.0, [1.0, 2.0, 3.0, 4.0]
    numbers = oracle.Rules(
        settled=kind == "settled",
        hours=hours,
        fee=fees,
        slip=0.5,
        capital=100_000.0,
        leg=50_000.0,
        leverage=4.0 if seed % 2 else 8.0,
        maintenance=0.02,
        transfer=5 * hours if seed > 3 else math.inf,
        liquidation=30.0,
        limit=2.0 * hours,
    )
    expected = oracle.threshold(
        rates.tolist(), 8.0, numbers.settled, hours, 2.0, 0.5, 1.5 if seed > 1 else math.inf, numbers.limit
    )
    path, closed = oracle.backtest(rates.tolist(), 8.0, prices.tolist(), numbers, expected)
    result = backtest.carry(
        panel(rates, kind=kind, hours=hours),
        backtest.SpreadThreshold(2.0, 0.5, 1.5 if seed > 1 else math.inf),
        backtest.Costs(dict(zip(VENUES, fees, strict=True)), slippage_bps=0.5, liquidation_bps=30.0),
        prices=panel(prices, hours=hours, unit="USD"),
        capital=numbers.capital,
        leg_usd=numbers.leg,
        leverage=numbers.leverage,
        maintenance=numbers.maintenance,
        transfer_every=None if math.isinf(numbers.transfer) else pd.Timedelta(numbers.transfer, "h"),
    )
    np.testing.assert_allclose(result["equity_usd"].values, path, atol=0.005, rtol=0)
    table = backtest.trades(result)
    assert len(closed) > 3, "the market of the test moves enough for positions to be opened"
    assert "liquidation" in set(table["reason"]) or seed == 5, "and for legs to be lost"
    assert sorted(
        zip(table["symbol"], table["long"], table["short"], table["reason"], strict=True)
    ) == sorted((SYMBOLS[s], VENUES[long], VENUES[short], reason) for s, long, short, _, _, reason in closed)


def drawn_sizes(seed: int, rows: int = 40) -> xr.Dataset:
    """Sizes of all pairs of three symbols, new at every fifth row; a third of them are missing."""
    rng = np.random.default_rng([seed, 1])
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    times = panel(np.zeros((3, 4, rows)))["time"].values[2::5]
    leg = rng.uniform(2e3, 2e4, (3, len(pairs), times.size)) * (rng.random((3, len(pairs), times.size)) > 0.6)
    return xr.Dataset(
        {
            "leg_usd": (("symbol", "pair", "time"), leg),
            "collateral_usd": (("exchange", "time"), rng.uniform(500.0, 15e3, (4, times.size))),
        },
        {"symbol": SYMBOLS, "exchange": VENUES, "time": times}
        | {name: ("pair", [VENUES[p[at]] for p in pairs]) for at, name in enumerate(("long", "short"))},
        {"capital_usd": 100_000.0},
    )


@pytest.mark.parametrize("seed", range(6))
def test_portfolio_backtest_equals_a_plain_loop(seed: int) -> None:
    rates, prices = drawn(seed)
    sizes, fees = drawn_sizes(seed), {"buy": [1.0, 2.0, 3.0, 4.0], "sell": [4.0, 3.0, -1.0, 2.0]}
    rules = oracle.Rules(
        settled=True, hours=8.0, fee=[], slip=0.5, capital=100_000.0, leg=0.0, leverage=0.0,
        maintenance=0.02, transfer=24.0 if seed % 2 else math.inf, liquidation=30.0,
        oldest_mark=8.0,
    )  # fmt: skip
    legs = (sizes[leg].values for leg in ("long", "short"))
    names = [(VENUES.index(a), VENUES.index(b)) for a, b in zip(*legs, strict=True)]
    by_row = {
        2 + 5 * at: (
            {(s, *pair): float(sizes["leg_usd"][s, k, at]) for s in range(3) for k, pair in enumerate(names)},
            sizes["collateral_usd"][:, at].values.tolist(),
        )
        for at in range(sizes.sizes["time"])
    }
    path, closed = oracle.portfolio(
        rates.tolist(), 8.0, prices.tolist(), rules, by_row, list(fees.values()), 0.3
    )
    costs = {v: {side: fees[side][at] for side in fees} for at, v in enumerate(VENUES)}
    result = backtest.carry(
        panel(rates),
        backtest.Portfolio(sizes, band=0.3),
        backtest.Costs(costs, slippage_bps=0.5, liquidation_bps=30.0),
        prices=panel(prices, unit="USD"),
        capital=100_000.0,
        maintenance=0.02,
        max_mark_age="8h",
        transfer_every="1d" if seed % 2 else None,
    )
    np.testing.assert_allclose(result["equity_usd"].values, path, atol=1e-8, rtol=0)
    table = backtest.trades(result)
    columns = [table[name] for name in ("symbol", "long", "short", "entry", "exit", "reason")]
    stamps = pd.DatetimeIndex(result["time"].values, tz="UTC")
    assert sorted(zip(*columns, strict=True)) == sorted(
        (SYMBOLS[s], VENUES[a], VENUES[b], stamps[first], stamps[last], why)
        for s, a, b, first, last, why in closed
    )
    assert table["net_usd"].sum() == pytest.approx(path[-1] - 100_000.0, abs=1e-8)
    assert {"rule", "liquidation", "no_mark"} <= set(table["reason"]), "every branch is reached"


RULES: dict[str, Any] = {
    "threshold": backtest.SpreadThreshold(1.5, 0.5, 1.0),
    "mean": backtest.SpreadThreshold(1.0, 0.0, 2.0, window="32h"),
    "rotation": backtest.Rotation("24h", top=2, window="16h"),
    "bounded": backtest.VenueLimit(
        backtest.HoldingTime(backtest.SpreadThreshold(1.0), min_hold="16h", max_hold="80h"), 200_000.0
    ),
}


@examples(4, 40)
@given(
    seed=st.integers(0, 50),
    cut=st.integers(1, 38),
    rule=st.sampled_from(sorted(RULES)),
    kind=st.sampled_from(["settled", "sampled"]),
)
def test_backtest_has_no_look_ahead(seed: int, cut: int, rule: str, kind: str) -> None:
    """A sample at the row itself is of the future too: its bucket has not ended."""
    rates, prices = drawn(seed)
    other_rates, other_prices = rates.copy(), prices.copy()
    later = cut + 1 if kind == "settled" else cut
    other_rates[..., later:] = np.random.default_rng(seed + 1).normal(0, 5, other_rates[..., later:].shape)
    other_prices[..., cut + 1 :] *= 3.0
    results = [
        backtest.carry(
            panel(r, kind=kind),
            RULES[rule],
            backtest.Costs(fee_bps=1.0),
            prices=panel(p, unit="USD"),
            transfer_every="24h",
        ).isel(time=slice(0, cut + 1))
        for r, p in ((rates, prices), (other_rates, other_prices))
    ]
    for name in ("equity_usd", "long_venue", "short_venue", "fees_usd", "refused_entries"):
        np.testing.assert_array_equal(results[0][name], results[1][name], err_msg=name)


def test_custom_rule_sees_only_past_data_read_only() -> None:
    rates, _ = drawn(3)
    seen: list[Any] = []

    def rule(past: backtest.Past) -> dict[str, tuple[str, str]]:
        known = past.panel()
        seen.append((known.sizes["time"], past.positions()))
        np.testing.assert_array_equal(known, panel(rates).sel(time=slice(None, past.now)))
        assert (known["interval_hours"] == 8.0).all()
        with pytest.raises(ValueError, match="read-only"):
            known.values[...] = 0.0
        return {"ETH": ("alpha", "beta")} if past.now < np.datetime64("2026-01-05") else {}

    result = backtest.carry(panel(rates), rule, backtest.Costs(fee_bps=1.0))
    assert [rows for rows, _ in seen] == list(range(1, 40))
    assert (seen[0][1], seen[1][1], seen[-1][1]) == ({}, {"ETH": ("alpha", "beta")}, {})
    [trade] = backtest.trades(result).to_dict("records")
    assert (trade["symbol"], trade["long"], trade["short"]) == ("ETH", "alpha", "beta")
    assert trade["exit"] == pd.Timestamp("2026-01-05", tz="UTC")


@pytest.mark.parametrize("rule", [backtest.SpreadThreshold(1.0), backtest.SpreadThreshold(0.3, window="6h")])
def test_prices_between_hourly_samples_do_not_end_a_bucket(rule: Any) -> None:
    """Flat marks every 10 minutes, from before the first rate to after the last, change nothing at all."""
    rates = panel(np.random.default_rng(7).normal(0.0, 2.0, (1, 2, 96)), kind="sampled", hours=1.0)
    marks = panel(np.full((1, 2, 98 * 6), 100.0), hours=1 / 6, unit="USD")
    marks = marks.assign_coords(time=marks["time"].values - np.timedelta64(1, "h"))
    ages, means = [], []

    def watched(past: backtest.Past) -> Any:
        known = past.panel().dropna("time", how="all")["time"].values
        ages.extend((past.now - known[-1:]) / np.timedelta64(1, "h"))
        means.append(np.isfinite(past.mean("6h")).all())
        return rule(past)

    costs = backtest.Costs(fee_bps=0.1)
    priced = backtest.carry(rates, watched, costs, prices=marks)
    assert priced.sizes["time"] == 95 * 6 + 1
    assert min(ages) == pytest.approx(1.0), "the newest sample that is known began an hour ago"
    assert max(ages) == pytest.approx(1 + 5 / 6)
    assert means == [row >= 5 * 6 for row in range(95 * 6)]  # 4.5 of 6 hours are enough: at 05:00
    alone = backtest.carry(rates, rule, costs)
    assert alone.sizes["trade"] > 3
    assert priced["net_usd"].item() == pytest.approx(alone["net_usd"].item(), rel=1e-12)
    np.testing.assert_array_equal(priced["trade_entry"], alone["trade_entry"])


def test_latency_hides_the_newest_rates() -> None:
    rates = panel([[[0.0] * 6, [0.0, 0.0, 9.0, 9.0, 9.0, 9.0]]])
    rule, costs = backtest.SpreadThreshold(5.0), backtest.Costs(fee_bps=1.0)
    at_once = backtest.carry(rates, rule, costs)
    later = backtest.carry(rates, rule, costs, delay="8h")
    entries = [backtest.trades(result)["entry"].iloc[0] for result in (at_once, later)]
    assert entries[1] - entries[0] == pd.Timedelta(8, "h")


def held_by(rule: Any, rates: xr.DataArray, **options: Any) -> list[tuple[str, str] | None]:
    result = backtest.carry(rates, rule, backtest.Costs(fee_bps=0.0), **options)
    legs = zip(result["long_venue"].values[0], result["short_venue"].values[0], strict=True)
    return [(long, short) if long else None for long, short in legs]


RISING = [[[0.0] * 8, [1.0, 2.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0], [0.0, 0.0, 2.0, 4.0, 6.0, 6.0, 6.0, 6.0]]]
AB, AC = ("alpha", "beta"), ("alpha", "gamma")


def test_rules_hold_the_pairs_of_hand_calculations() -> None:
    rates = panel(RISING)
    assert held_by(backtest.SpreadThreshold(2.0, 1.5), rates) == [None, AB, AB, AB, AB, AC, AC, None]
    assert held_by(backtest.SpreadThreshold(2.0, 0.5), rates) == [None, AB, AB, AB, AB, AB, AB, None]
    assert held_by(backtest.SpreadThreshold(2.0, 0.5, 2.0), rates) == [None, AB, AB, AB, AC, AC, AC, None]
    rule = backtest.SpreadThreshold(2.0, 1.0, window="16h")
    assert held_by(rule, panel(RISING))[:4] == [None, None, AB, AB]  # (1 + 2) / 2 < 2 <= (2 + 3) / 2
    # Rows are 8 hours apart from midnight: choices fall on rows 0, 3 and 6.
    assert held_by(backtest.Rotation("24h"), panel(RISING)) == [AB, AB, AB, AC, AC, AC, AC, None]
    short = backtest.SpreadThreshold(2.0, 2.5)
    assert held_by(short, panel(RISING))[1:3] == [AB, AB]
    kept = backtest.HoldingTime(backtest.SpreadThreshold(2.0, 1.5), min_hold="48h")
    assert held_by(kept, panel(RISING)) == [None, AB, AB, AB, AB, AB, AB, None]
    ended = backtest.HoldingTime(backtest.SpreadThreshold(2.0, 0.5), max_hold="16h")
    assert held_by(ended, panel(RISING)) == [None, AB, AB, None, AC, AC, None, None]


def test_forecasts_of_pairs_and_of_venues_are_read_as_of_their_time() -> None:
    rates = panel(RISING)
    times = rates["time"].values[[1, 4]]
    pairs = xr.DataArray(
        [[[1.0, 9.0], [5.0, 0.0]]],
        dims=("symbol", "pair", "time"),
        coords={
            "symbol": ["BTC"],
            "time": times,
            "long": ("pair", ["alpha", "beta"]),
            "short": ("pair", ["beta", "gamma"]),
        },
    )
    rule = backtest.ForecastThreshold(pairs, 3.0, 1.0)
    bc = ("beta", "gamma")
    assert held_by(rule, rates) == [None, bc, bc, bc, AB, AB, AB, None]
    venues = xr.DataArray(
        [[[0.0, 0.0], [4.0, 1.0], [1.0, 6.0]]],
        dims=("symbol", "exchange", "time"),
        coords={"symbol": ["BTC"], "exchange": VENUES[:3], "time": times},
    )
    assert held_by(backtest.ForecastThreshold(venues, 3.0, 2.0), rates) == [None] + [AB] * 3 + [AC] * 3 + [
        None
    ]
    stale = backtest.ForecastThreshold(venues, 3.0, 2.0, max_age="8h")
    assert held_by(stale, rates) == [None, AB, AB, None, AC, AC, None, None]


def books(*depths: float) -> xr.DataArray:
    """Depth [USD] within 1 and 10 bps of mid, the same on both sides, one of each venue."""
    values = [[[[near, 10 * near]] * 2 for near in depths]]
    return xr.DataArray(
        values,
        dims=("symbol", "exchange", "side", "depth_bps"),
        coords={
            "symbol": ["BTC"],
            "exchange": VENUES[: len(depths)],
            "side": ["bid", "ask"],
            "depth_bps": [1.0, 10.0],
        },
        attrs={"units": "USD"},
    )


def test_slippage_comes_from_the_depth_of_the_books() -> None:
    """100,000 within 1 bps of alpha fill at 0.5 bps on average; beta has twice as much: 0.25."""
    rates, rule, costs = panel([[[0.0] * 3, [4.0] * 3]]), backtest.SpreadThreshold(1.0), backtest.Costs(0.0)
    result = backtest.carry(rates, rule, costs, depth=books(100_000.0, 200_000.0))
    np.testing.assert_allclose(result["slippage_usd"].values, [[7.5, 0.0, 7.5]])
    thin = backtest.carry(rates, rule, costs, depth=books(100_000.0, 9_000.0))
    assert (thin.sizes["trade"], thin["equity_usd"].values.tolist()) == (0, [1e6] * 3)


def test_capacity_is_the_size_with_the_highest_profit() -> None:
    """A pair earns 8 bps, and pays slippage for four orders: two legs enter and exit.

    The books have 100,000 USD within 1 bps and 900,000 USD more within 10 bps. An order of 100,000 costs
    0.5 bps. One of 400,000 costs (100 × 0.5 + 300 × 2.5) / 400 = 2 bps: four of them cost the 8 bps.
    """
    rates = panel([[[0.0] * 3, [4.0] * 3]])
    result = backtest.carry(rates, backtest.SpreadThreshold(1.0), backtest.Costs(fee_bps=0.0))
    curve = backtest.capacity(result, books(100_000.0, 100_000.0), [100_000.0, 200_000.0, 400_000.0, 2e6])
    np.testing.assert_allclose(curve["net_usd"].values, [60.0, 80.0, 0.0, 0.0], atol=1e-9)
    assert curve["capacity_usd"].item() == 200_000.0
    assert curve["filled"].values.tolist() == [1.0, 1.0, 1.0, 0.0]


def test_capacity_is_missing_if_the_earnings_at_one_size_are_unknown() -> None:
    """ETH's books do not fill 200,000, so that its unknown price gain counts at 100,000 only."""
    rates = panel([[[0.0] * 3, [4.0] * 3]] * 2)
    result = backtest.carry(rates, backtest.SpreadThreshold(1.0), backtest.Costs(fee_bps=0.0))
    assert backtest.trades(result)["symbol"].tolist() == ["BTC", "ETH"]
    unknown = result.assign(trade_price_usd=("trade", [0.0, np.nan]))
    shallow = books(10_000.0, 10_000.0).assign_coords(symbol=["ETH"])
    depth = xr.concat([books(100_000.0, 100_000.0), shallow], "symbol")
    curve = backtest.capacity(unknown, depth, [100_000.0, 200_000.0])
    np.testing.assert_allclose(curve["net_usd"].values, [np.nan, 80.0])
    assert np.isnan(curve["capacity_usd"])


def test_fees_by_venue_and_side_and_missing_fees() -> None:
    costs = backtest.Costs({"alpha": {"buy": 1.0, "sell": 2.0}, "beta": 4.0})
    np.testing.assert_allclose(costs.by_side(["BTC"], ["alpha", "beta"])[:, 0], [[1.0, 4.0], [2.0, 4.0]])
    with pytest.raises(ValueError, match="fee_bps does not have a fee for 'gamma', only for alpha, beta"):
        costs.by_side(["BTC"], ["gamma"])
    with pytest.raises(
        ValueError, match=r"fee_bps\['alpha'\] must have the sides buy and sell, got \['buy'\]"
    ):
        backtest.Costs({"alpha": {"buy": 1.0}}).by_side(["BTC"], ["alpha"])
    published = backtest.Costs().by_side(["BTC"], ["deribit", "gateio"])
    np.testing.assert_allclose(published[:, 0], [[5.0, 7.5]] * 2)
    with pytest.raises(
        ValueError, match=r"dd\.venues\.facts\(\) does not have a taker fee of mexc for every symbol"
    ):
        backtest.Costs().by_side(["BTC"], ["gateio", "mexc"])


def test_sharpe_ratio_uses_whole_days() -> None:
    """From 12:00 to 12:00 four days later, three days are whole; the second has no row and adds nothing."""
    stamps = ["01T12", "01T18", "02T00", "02T06", "02T12", "02T18"]
    stamps += ["04T00", "04T06", "04T12", "04T18", "05T00", "05T06", "05T12"]
    rates = panel([[[0.0] * 13, [4.0] * 6 + [8.0] * 7]], kind="sampled", hours=6.0)
    rates = rates.assign_coords(time=np.array([f"2026-01-{stamp}" for stamp in stamps], "datetime64[us]"))
    rule, costs = backtest.HoldPair("BTC", "alpha", "beta"), backtest.Costs(fee_bps=7.0)
    result = backtest.carry(rates, rule, costs, capital=100_000.0)
    # 30 USD by 6 hours at 4 bps/8h, 60 at 8, 60 over the hole (a sample holds for 12 hours at most): rows of
    # the 2nd earn 4 × 30; of the 3rd, nothing; of the 4th, 60 + 3 × 60. Neither fee is paid on a whole day.
    days = np.array([120.0, 0.0, 240.0]) / 100_000.0
    expected = days.mean() / days.std(ddof=1) * math.sqrt(365)
    assert result["sharpe"].item() == pytest.approx(expected)
    table = backtest.sweep(rates, {"one": rule}, costs, capital=100_000.0)
    assert table["days"].tolist() == [3]
    complete = backtest.carry(rates.isel(time=slice(2, 10)), rule, costs, capital=100_000.0)
    days = np.array([90.0 - 140.0, 0.0, 240.0 - 140.0]) / 100_000.0  # from 00:00 to 18:00: the fees are in
    assert complete["sharpe"].item() == pytest.approx(days.mean() / days.std(ddof=1) * math.sqrt(365))


@pytest.mark.parametrize(
    ("trials", "skewness", "kurtosis", "chance"),
    [(100, -3.0, 10.0, 0.9004), (46, -3.0, 10.0, 0.9505), (88, 0.0, 3.0, 0.9505)],
)
def test_deflated_sharpe_ratio_equals_published_example(
    trials: int, skewness: float, kurtosis: float, chance: float
) -> None:
    """The Deflated Sharpe Ratio (2014), its example: 2.5 a year, 1,250 days, variance 1/2 a year."""
    result = deflated_sharpe_ratio(
        2.5 / math.sqrt(250),
        trials=trials,
        variance=0.5 / 250,
        observations=1250,
        skewness=skewness,
        kurtosis=kurtosis,
    )
    assert result == pytest.approx(chance, abs=6e-5)


def test_long_run_variance_of_ar1_and_alternating_series() -> None:
    """The ratio of long-run to plain variance, by hand.

    AR(1): (1 + φ) / (1 − φ) = 9 at φ = 0.8. MA(1) with θ = −0.5: (1 + θ)² / (1 + θ²) = 0.25 / 1.25 = 0.2.
    """
    shocks = np.random.default_rng(2).standard_normal(200_000)
    assert long_run_ratio(lfilter([1.0], [1.0, -0.8], shocks))[0] == pytest.approx(9.0, rel=0.6)
    assert long_run_ratio(lfilter([1.0, -0.5], [1.0], shocks))[0] == pytest.approx(0.2, rel=0.6)
    many = lfilter([1.0], [1.0, -0.8], shocks).reshape(200, 1000)
    assert np.mean([long_run_ratio(part)[0] for part in many]) == pytest.approx(9.0, rel=0.1)
    assert long_run_ratio(np.ones(30)) == (pytest.approx(np.nan, nan_ok=True), 0)
    assert long_run_ratio(shocks[:3])[1] == 0


def test_a_sweep_reports_each_rule_and_deflates_the_best() -> None:
    rates, prices = drawn(4)
    rules = {f"{enter:g}": backtest.SpreadThreshold(enter) for enter in (1.0, 2.0, 4.0, 99.0)}
    costs = backtest.Costs(fee_bps=1.0)
    options: dict[str, Any] = {"prices": panel(prices, unit="USD")}
    table = backtest.sweep(panel(rates), rules, costs, **options)
    assert table["rule"].tolist() == list(rules)
    alone = backtest.carry(panel(rates), rules["2"], costs, **options)
    assert table["net_usd"][1] == alone["net_usd"].item()
    assert table.attrs["trials"] == 3, "the rule that never trades is no trial"
    assert math.isnan(table["deflated_sharpe"][3])
    best = table.set_index("rule").loc[table.attrs["best"]]
    assert best["sharpe"] == table["sharpe"].max()
    single = backtest.sweep(panel(rates), {"best": rules[table.attrs["best"]]}, costs, **options)
    assert single["deflated_sharpe"][0] > best["deflated_sharpe"], "three trials are worth less than one"
    days = daily_returns(backtest.carry(panel(rates), rules[table.attrs["best"]], costs, **options))
    ratio, waves = long_run_ratio(days)
    score = special.ndtri(single["deflated_if_independent"][0]) / math.sqrt(ratio)
    assert single["deflated_sharpe"][0] == pytest.approx(special.stdtr(waves, score))


@pytest.mark.skipif(not SOAK, reason="36 backtests of one to two years: with DERIVDATA_SOAK=1")
def test_documented_out_of_sample_results_are_reproduced() -> None:
    """The three rows of docs/backtest.md, from the recorded settlements."""
    tables = carry_backtest.sweeps()
    chosen = next(iter(tables.values())).attrs["best"]
    assert chosen == "from 2 bps on the mean of 3 days, hold 3 days"
    rows = [table.set_index("rule").loc[chosen] for table in tables.values()]
    results = [
        [round(100 * row["apr"], 1), round(row["sharpe"], 1), round(100 * row["max_drawdown"], 1)]
        for row in rows
    ]
    assert results == [[29.8, 8.1, 1.6], [0.9, 1.5, 0.6], [6.3, 7.9, 0.3]]
    assert [row["trades"] for row in rows] == [67, 13, 13]
    assert all(table.attrs["best"] != chosen for table in list(tables.values())[1:])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"panel": panel(drawn(1)[0]).drop_vars("interval_hours")},
            "panel must have interval_hours, the interval of each settlement",
        ),
        ({"leverage": 0.0}, "leverage"),
        (
            {"maintenance": 0.5},
            r"must be a fraction of notional from 0 to below 1/leverage=0\.333333, got 0\.5",
        ),
        ({"depth": xr.DataArray([1.0], dims="side")}, "depth must have the dim 'exchange', got dims"),
        ({"delay": "-1h"}, "delay must be a length of time such as '90s', '4h' or '30d', got '-1h'"),
        (
            {"panel": panel(drawn(1)[0]).assign_coords(interval_hours=16.0)},
            "settlements of BTC on alpha overlap: .*; functions with overlap= omit it",
        ),
        (
            {"rule": lambda past: {"BTC": ("alpha", "nowhere")}},
            "the rule must return pairs of this panel's venues, got '",
        ),
        (
            {"rule": lambda past: {"DOGE": ("alpha", "beta")}},
            "the rule must return pairs of this panel's venues, got '",
        ),
    ],
)
def test_invalid_arguments_raise_with_their_name(change: dict[str, Any], match: str) -> None:
    arguments = {"panel": panel(drawn(1)[0]), "rule": backtest.SpreadThreshold(1.0)} | change
    rates, rule = arguments.pop("panel"), arguments.pop("rule")
    with pytest.raises(ValueError, match=match):
        backtest.carry(rates, rule, backtest.Costs(fee_bps=1.0), **arguments)


def test_panel_of_one_symbol_needs_no_symbol_dim() -> None:
    rule, costs, whole = backtest.SpreadThreshold(1.0), backtest.Costs(fee_bps=1.0), panel(drawn(2)[0][:1])
    xr.testing.assert_equal(*(backtest.carry(part, rule, costs) for part in (whole, whole.isel(symbol=0))))


def test_synthetic_prices_next_to_recorded_rates_are_reported() -> None:
    def said(data: xr.DataArray, source: str) -> xr.DataArray:
        about = {"source": source, "synthetic": source == "sample", "as_of": None, "requests": []}
        return data.assign_attrs(provenance=json.dumps(about))

    rates, rule, costs = panel([[[0.0] * 6, [4.0] * 6]]), backtest.SpreadThreshold(1.0), backtest.Costs(1.0)
    own, depth = said(rates, "archive"), said(books(1e6, 1e6), "sample")
    marks = said(panel(np.full((1, 2, 6), 100.0), unit="USD"), "sample")
    alone, priced = backtest.carry(own, rule, costs), backtest.carry(own, rule, costs, prices=marks)
    for result in (
        priced,
        backtest.carry(own, rule, costs, depth=depth),
        backtest.trades(priced),
        backtest.capacity(alone, depth),
        backtest.sweep(own, {"one": rule}, costs, prices=marks),
    ):
        about = dd.provenance(result)
        assert (about["source"], about["synthetic"]) == ("archive, sample", True)
    assert (alone.attrs["kind"], dd.provenance(alone)["source"]) == ("settled", "archive")
    assert "provenance" not in backtest.carry(rates, rule, costs).attrs


def test_description_of_a_function_rule_has_no_memory_address() -> None:
    rates = panel([[[1.0, 1.0], [5.0, 5.0]]])

    def idle(past: Any) -> dict[str, tuple[str, str]]:
        return {}

    result = backtest.carry(rates, backtest.HoldingTime(idle, max_hold="3d"), backtest.Costs(fee_bps=2.0))
    name = "test_description_of_a_function_rule_has_no_memory_address.<locals>.idle"
    assert result.attrs["rule"] == f"HoldingTime(rule=<function {name}>, min_hold='0h', max_hold='3d')"
