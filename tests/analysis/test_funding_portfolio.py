from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis import backtest, funding
from derivdata.analysis.funding import portfolios
from derivdata.analysis.funding.pairs import pair_coordinates
from derivdata.analysis.funding.portfolios import moves_of
from derivdata.analysis.status import FundingStatus
from tests.measured import portfolio as measured

LIMITS = portfolios.Limits(np.inf, 1.0, 0.01, np.full(3, 0.01), np.ones(3), 0.1, 1.0)


def problem(
    gross: Any, sd: Any, *, cost: float = 0.0, held: Any = 0.0, q: float = 0.0, **limits: Any
) -> portfolios.Problem:
    """Pairs of one symbol, independent: long on venue 0, 1, 0, ... and short on venue 1, 2, 2, ..."""
    gross, legs = np.asarray(gross, float), [(0, 1), (1, 2), (0, 2)]
    signed = np.zeros((3, 1, gross.size))
    for at in range(gross.size):
        signed[legs[at][0], 0, at], signed[legs[at][1], 0, at] = 1.0, -1.0
    spread = np.broadcast_to(np.asarray(sd, float), gross.shape)
    paid, before = np.full(gross.shape, cost), np.full(gross.shape, float(held))
    moves, bounds = np.array([[0.04**2]]), LIMITS._replace(**limits)
    return portfolios.Problem(gross, paid, np.diag(spread**2), before, signed, moves, q, bounds)


@pytest.mark.parametrize(
    ("held", "size"),
    [
        (0.0, 3.0),  # 8 bps after cost over 1.633 % squared
        (4.0, 4.0),  # what is there pays no cost again: 8 bps buy no more, 12 bps sell nothing
        (9.0, 4.5),  # 12 bps are too few for as much
    ],
)
def test_a_single_pair_has_mean_over_variance(held: float, size: float) -> None:
    result = portfolios.solve(problem([12e-4], np.sqrt(8e-4 / 3.0), cost=4e-4, held=held))
    np.testing.assert_allclose(result, size, rtol=1e-4)
    half = problem([12e-4], np.sqrt(8e-4 / 3.0), cost=4e-4, held=held, aversion=2.0)
    if not held:
        np.testing.assert_allclose(portfolios.solve(half), size / 2.0, rtol=1e-4)


def test_collateral_is_maintenance_and_the_moves_of_all_legs_of_a_venue() -> None:
    """At 5 deviations of 4 % a leg needs 21 %; a long and a short on one venue share each other's moves."""
    alone = problem([1e-3], 1e-3, q=5.0)
    np.testing.assert_allclose(alone.collateral(np.array([2.0])), [0.42, 0.42, 0.0])
    both = problem([1e-3, 1e-3], 1e-3, q=5.0, initial=0.005)
    np.testing.assert_allclose(both.collateral(np.ones(2)), [0.21, 0.02, 0.21])
    counted = both._replace(limits=both.limits._replace(counted=np.array([0.5, 1.0, 1.0]), initial=0.1))
    np.testing.assert_allclose(counted.collateral(np.ones(2)), [0.42, 0.2, 0.21])


@pytest.mark.parametrize(
    ("limits", "q", "size"),
    [
        ({}, 5.0, 0.5 / 0.21),  # all capital, half on each venue
        ({"share": 0.3}, 5.0, 0.3 / 0.21),
        ({"most": 1.25}, 5.0, 1.25),
        ({}, 0.0, 5.0),  # a tenth of the notional at least
        ({"counted": np.array([0.5, 1.0, 1.0])}, 5.0, 1.0 / (0.42 + 0.21)),
    ],
)
def test_position_limits_bind(limits: dict[str, Any], q: float, size: float) -> None:
    np.testing.assert_allclose(portfolios.solve(problem([1e-2], 1e-3, q=q, **limits)), size, rtol=1e-4)


def test_a_pair_at_its_limit_leaves_the_others_their_sizes() -> None:
    held = problem([3e-3, 1e-3], 1e-2, cost=1e-4, most=1.0)._replace(held=np.array([1.0, 0.0]))
    np.testing.assert_allclose(portfolios.solve(held), 1.0, rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_no_other_sizes_within_the_limits_are_better(seed: int) -> None:
    """Against twenty thousand random sizes, many near the optimum; the solver starts from the current
    position.
    """
    rng = np.random.default_rng(seed)
    drawn = problem(
        rng.uniform(1e-4, 2e-3, 3), rng.uniform(0.002, 0.01, 3), cost=3e-4, held=0.2, q=5.0, share=0.4
    )

    def value(sizes: Any) -> Any:
        paid = drawn.cost @ np.maximum(sizes - drawn.held[:, None], 0.0)
        return drawn.gross @ sizes - paid - 0.5 * np.einsum("kn,kl,ln->n", sizes, drawn.covariance, sizes)

    result = portfolios.solve(drawn)
    near = result[:, None] * rng.uniform(0.8, 1.2, (3, 10_000))
    tried = np.hstack([near, rng.uniform(0.0, 4.0, (3, 10_000))])
    needs = np.stack([drawn.collateral(item) for item in tried.T])
    fits = (needs.max(axis=1) <= 0.4) & (needs.sum(axis=1) <= 1.0)
    assert fits.sum() > 100
    best = value(result[:, None])[0]
    assert drawn.collateral(result).max() <= 0.4 * (1.0 + 1e-12)
    assert (value(tried[:, fits]) <= best * (1.0 + 1e-6)).all()


def test_correlations_of_few_errors_are_shrunk_to_zero() -> None:
    rng = np.random.default_rng(1)
    common, noise = rng.standard_normal((400, 1)), rng.standard_normal((400, 2))
    errors = np.hstack([common + 0.5 * noise, -common])
    many, few = portfolios.correlation(errors, 400.0), portfolios.correlation(errors, 2.0)
    np.testing.assert_allclose(many[0], [1.0, 0.8, -0.89], atol=0.06)
    assert (np.abs(few[0, 1:]) < 0.95 * np.abs(many[0, 1:])).all()
    np.testing.assert_allclose(portfolios.correlation(noise, 2.0), np.eye(2))
    assert np.linalg.eigvalsh(many).min() >= -1e-12
    np.testing.assert_array_equal(portfolios.correlation(np.full((5, 2), np.nan), 1.0), np.eye(2))


def test_largest_move_of_a_random_walk_equals_reflection_principle() -> None:
    """Brownian motion goes beyond x deviations of a span with probability 2 Φ(−x): a tenth from 1.64."""
    levels = np.cumsum(np.random.default_rng(0).standard_normal((2, 24 * 900)), axis=1) * 0.005
    result = moves_of(levels, 1.0, 24.0, np.array([24 * 900 - 1]))
    np.testing.assert_allclose(np.sqrt(np.diag(result.covariance[0])), 0.005 * np.sqrt(24.0), rtol=0.1)
    assert result.threshold[0] == pytest.approx(
        1.645, abs=0.12
    )  # hourly: a little is missed between the hours
    assert abs(result.covariance[0, 0, 1]) < 0.15 * result.covariance[0, 0, 0]
    listed = np.stack([levels[0], np.where(np.arange(24 * 900) < 24 * 890, np.nan, levels[0])])
    twin = moves_of(listed, 1.0, 24.0, np.array([24 * 900 - 1])).covariance[0]  # of ten days so far
    assert twin[0, 1] == pytest.approx(np.sqrt(twin[0, 0] * twin[1, 1]), rel=0.05)
    four = 1.0 - (1.0 - 2.0 * ndtr(-4.0)) ** 7
    assert four < float(result.weekly(0, 4.0)) < 0.03  # a fatter tail than the normal one, as of prices
    for weekly in (0.001, 0.01, 0.1):
        assert float(result.weekly(0, result.deviations(0, weekly))) == pytest.approx(weekly)


@pytest.mark.parametrize("leverage", [5.0, 10.0])
def test_liquidation_frequency_is_below_the_stated_probability(leverage: float) -> None:
    claimed, came, _ = measured.liquidations(leverage, 24.0)
    assert came <= claimed < came + 0.06


def test_a_portfolio_earns_about_what_was_expected_and_keeps_its_limits() -> None:
    """52 weeks of four perpetuals of BTC and ETH; no venue above 30 %, liquidation below 1 % a week."""
    sizes, result = measured.walked(0.5, max_venue_share=0.3)
    assert float(sizes["collateral_usd"].max()) <= 300_000 * (1.0 + 1e-9)
    assert (sizes["collateral_usd"].sum("exchange") + sizes["idle_usd"] == pytest.approx(1e6)).all()
    assert float(sizes["liquidation_probability"].sum("exchange").max()) <= 0.01 * (1.0 + 1e-9)
    week = measured.by_week(sizes, result)
    assert abs(week["earned"] - week["expected"]) < 2.0 * week["deviation"] / np.sqrt(51.0)
    assert 0.7 < week["deviation"] / week["deviation expected"] < 1.4
    assert week["liquidations"] == 0.0


def made(seed: int = 0, rows: int = 200) -> tuple[xr.Dataset, xr.DataArray]:
    """Forecasts of three venues of one symbol, of which gamma pays 6 bps more, and their marks."""
    rng = np.random.default_rng(seed)
    labels = {"symbol": ["BTC"], "exchange": ["alpha", "beta", "gamma"]}
    labels["time"] = pd.date_range("2026-01-01", periods=rows, freq="8h").as_unit("us").to_numpy()
    rates = rng.normal(0.0, 0.5, (1, 3, rows)) + np.array([0.0, 0.0, 6.0])[:, None]
    paid = xr.DataArray(
        rates, labels, ("symbol", "exchange", "time"), attrs={"units": "bps/8h", "kind": "settled"}
    )
    paths = 100.0 * np.exp(
        np.cumsum(rng.normal(0.0, 0.01, (1, 1, rows)), -1) + rng.normal(0.0, 5e-4, (1, 3, rows))
    )
    marks = paid.copy(data=paths).assign_attrs(units="USD")
    paid = paid.assign_coords(interval_hours=8.0)
    return funding.forecast_history(paid, hold="1d", fee_bps=1.0, prices=marks), marks


def test_sizes_have_no_look_ahead() -> None:
    forecasts, marks = made()
    sizes = funding.portfolio(forecasts, marks, capital=1e5, start="2026-01-01")
    known = sizes["status"].values == 0
    assert known.any()
    assert (sizes["status"].values[~known] == FundingStatus.TOO_FEW).all()
    assert (sizes["leg_usd"].values[..., ~known] == 0.0).all()
    assert (sizes["leg_usd"].sum(["symbol", "pair"]).values[known] > 1e5).all()
    earns = sizes["leg_usd"].where(sizes["short"] == "gamma", 0.0).sum(["symbol", "pair"])
    np.testing.assert_allclose(earns, sizes["leg_usd"].sum(["symbol", "pair"]))
    cut = sizes["time"].values[-10]
    later = marks["time"] > cut
    changed = marks.where(~later, marks * 1.3)
    hidden = forecasts.where(forecasts["time"] <= cut, forecasts * 2.0)
    # What came of forecasts after the cut changes too, but not of those whose holding time was over.
    again = funding.portfolio(hidden.assign_attrs(forecasts.attrs), changed, capital=1e5, start="2026-01-01")
    np.testing.assert_array_equal(
        again["leg_usd"].sel(time=slice(None, cut)), sizes["leg_usd"].sel(time=slice(None, cut))
    )
    both = [item.isel(symbol=[0, 0]).assign_coords(symbol=["BTC", "ETH"]) for item in (forecasts, marks)]
    last = funding.portfolio(both[0], both[1].where(both[1]["symbol"] == "BTC"), capital=1e5)["leg_usd"]
    alone = funding.portfolio(forecasts, marks, capital=1e5)["leg_usd"]
    assert last.sizes["time"] == 1
    np.testing.assert_array_equal(last, np.stack([alone[0], 0.0 * alone[0]]))  # without marks no part


def test_a_table_of_tiers_is_the_highest_rate_of_legs_of_this_size() -> None:
    """Alpha has a second tier from 100 coins on; 20,000 USD are 200 coins at the last price of 100 USD."""
    forecasts, marks = made()
    marks = marks * (100.0 / marks.isel(exchange=1, time=-2)).item()
    marks = marks.where(marks["time"] < marks["time"][-1])  # the last price is of the row before
    tiers = pd.DataFrame(
        {
            "symbol": "BTC",
            "exchange": ["alpha", "alpha", "beta", "gamma"],
            "max_notional_usd": np.nan,
            "max_size_coins": [100.0, 1_000.0, 1_000.0, 1_000.0],
            "maintenance_margin": [0.004, 0.05, 0.006, 0.03],
        }
    )
    by_venue = {"alpha": 0.05, "beta": 0.006, "gamma": 0.03}
    stated, named = (
        funding.portfolio(forecasts, marks, capital=1e5, maintenance=given, max_leg_usd=20_000.0)
        for given in (tiers, by_venue)
    )
    assert float(stated["leg_usd"].sum()) > 1e3
    np.testing.assert_array_equal(stated["leg_usd"], named["leg_usd"])


def test_spot_leg_is_fully_paid_never_liquidated_and_never_short() -> None:
    """Gamma pays 6 bps more, and is short against coins."""
    forecasts, marks = made()
    forecasts = forecasts.isel(pair=~((forecasts["long"] == "beta") | (forecasts["short"] == "beta")).values)
    # Replace the venue alpha by coins.
    legs = [np.where(forecasts[leg] == "alpha", "spot", "gamma") for leg in ("long", "short")]
    forecasts = forecasts.assign_coords(pair_coordinates(*legs))
    marks = marks.assign_coords(exchange=["spot", "beta", "gamma"])
    start = forecasts["time"].values[-30]
    sizes = funding.portfolio(forecasts, marks, capital=1e5, maintenance={"gamma": 0.01}, start=start)
    spot = sizes.sel(exchange="spot")
    assert float(spot["exposure_usd"].max()) > 1e3
    np.testing.assert_allclose(spot["collateral_usd"], spot["exposure_usd"], rtol=1e-6)
    assert (spot["liquidation_probability"] == 0.0).all()
    # The coins are never liquidated, so the other account may have the full allowed probability.
    assert float(sizes["liquidation_probability"].max()) == pytest.approx(0.01)
    assert float(sizes["leg_usd"].where(sizes["short"] == "spot", 0.0).sum()) == 0.0
    rates = (0.0 * marks).assign_attrs(units="bps/8h", kind="settled").assign_coords(interval_hours=8.0)
    # If prices fall, the long perpetual is liquidated; if they rise, the short one.
    for factor, liquidated in ((0.3, "beta"), (2.0, "gamma")):
        jump = marks.where(marks["time"] < marks["time"][-5], marks * factor)
        options = {"prices": jump, "leg_usd": 1e4, "leverage": 3.0}
        for long in ("spot", "beta"):
            rule = backtest.HoldPair("BTC", long, "gamma")
            run = backtest.carry(rates, rule, backtest.Costs(fee_bps=0.0), **options)
            assert int(run["liquidations"]) == (liquidated in (long, "gamma"))
            if factor < 1.0 and long == "spot":
                assert abs(float(run["net_usd"])) < 100.0
        options = {"prices": jump, "transfer_every": "8h"}
        sized = backtest.carry(rates, backtest.Portfolio(sizes, 0.0), backtest.Costs(fee_bps=0.0), **options)
        assert (int(sized["liquidations"]) > 0) == (factor > 1.0)
    short = backtest.carry(rates, backtest.HoldPair("BTC", "beta", "spot"), backtest.Costs(0.0), prices=marks)
    assert backtest.trades(short).empty
    assert int(short["refused_entries"].sum()) > 0


@pytest.mark.parametrize(("mark", "lost"), [(166.0, 0), (167.0, 1)])
def test_cost_of_a_spot_leg_is_not_collateral_of_the_other_leg(mark: float, lost: int) -> None:
    """60,000 of the 100,000 USD are coins: the short has 40,000, not the 60,000 required."""
    times = pd.date_range("2026-01-01", periods=4, freq="8h").to_numpy()
    at = {"symbol": ["BTC"], "exchange": ["spot", "gamma"], "time": times}
    prices = xr.DataArray(np.full((1, 2, 4), 100.0), at, list(at), attrs={"units": "USD"})
    prices[..., 2:] = mark
    sizes = xr.Dataset(
        {
            "leg_usd": (("symbol", "pair", "time"), [[[6e4]]]),
            "collateral_usd": (("exchange", "time"), [[6e4], [6e4]]),
        },
        at | {"time": times[:1], "long": ("pair", ["spot"]), "short": ("pair", ["gamma"])},
        {"capital_usd": 1e5},
    )
    rates = (0.0 * prices).assign_attrs(units="bps/8h", kind="settled").assign_coords(interval_hours=8.0)
    options = {"prices": prices, "capital": 1e5, "maintenance": 0.0}
    run = backtest.carry(rates, backtest.Portfolio(sizes), backtest.Costs(fee_bps=0.0), **options)
    assert int(run["liquidations"]) == lost


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"capital": 0.0}, "capital"),
        ({"max_venue_share": 0.0}, "max_venue_share"),
        ({"max_liquidation": 1.0}, "max_liquidation"),
        ({"maintenance": {"alpha": 0.01}}, "maintenance does not have a fraction for beta, gamma"),
        ({"haircut": 1.0}, "haircut"),
        ({"max_leg_usd": -1.0}, "max_leg_usd"),
        (
            {"start": "2030-01-01"},
            r"not be after the last time of forecasts, 2026-01-30T00:00:00\.000000, got '2030-01-01'",
        ),
    ],
)
def test_invalid_arguments_raise_with_their_name(options: dict[str, Any], match: str) -> None:
    forecasts, marks = made(rows=90)
    with pytest.raises(ValueError, match=match):
        funding.portfolio(forecasts, marks, **{"capital": 1e5, **options})


def test_portfolio_needs_complete_forecasts_and_prices_of_their_symbols() -> None:
    forecasts, marks = made(rows=90)
    with pytest.raises(ValueError, match="forecasts must include prices, got funding only"):
        funding.portfolio(forecasts.drop_vars("price_bps"), marks, capital=1e5)
    for incomplete in (
        forecasts.drop_attrs(),
        forecasts.drop_vars(["long", "short"]),
        forecasts.drop_vars("hold_hours"),
    ):
        with pytest.raises(
            ValueError, match=r"forecasts must have long, short, hold_hours and attrs\['level'\]"
        ):
            funding.portfolio(incomplete, marks, capital=1e5)
    with pytest.raises(ValueError, match="prices must have 'BTC' once along 'symbol', got it 0 times"):
        funding.portfolio(forecasts, marks.assign_coords(symbol=["ETH"]), capital=1e5)


def test_portfolio_rule_rejects_other_venues_and_invalid_sizes() -> None:
    forecasts, marks = made(rows=90)
    sizes = funding.portfolio(forecasts, marks, capital=1e5)
    rates = marks.assign_attrs(units="bps/8h", kind="settled").assign_coords(interval_hours=8.0)
    with pytest.raises(ValueError, match="sizes has the exchange 'gamma'"):
        backtest.carry(rates.isel(exchange=[0, 1]), backtest.Portfolio(sizes), backtest.Costs(1.0))
    with pytest.raises(ValueError, match="band"):
        backtest.Portfolio(sizes, band=1.0)
    with pytest.raises(ValueError, match="capital_usd"):
        backtest.Portfolio(sizes.assign_attrs(capital_usd=0.0))
