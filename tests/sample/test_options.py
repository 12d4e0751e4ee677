import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline

from derivdata.analysis import black76
from derivdata.sources import Query, sample
from derivdata.sources.sample import universe
from derivdata.sources.sample.universe import symbols
from derivdata.sources.service.answers.options import at_the_money
from derivdata.tables import endpoints
from tests.support.timestamps import at

STORE = sample.open()
HOUR = pd.Timedelta("1h")
PAIRS = [(s, v) for s, venues in endpoints.OPTIONS_MATRIX.items() for v in venues]
INSTANTS = ["2025-09-01 00:00", "2025-12-26 08:00", "2026-03-13 07:00", "2026-06-30 12:00"]


def chain(symbol, exchange, instant):
    return STORE.latest("options_snapshot", at(instant), within=HOUR, symbols=[symbol], venues=[exchange])


def slices(symbol, exchange, instant, topic="surface"):
    pair = {"symbols": [symbol], "venues": [exchange]}
    return sample.truth(topic, **pair, start=at(instant), end=at(instant) + HOUR)


def volatilities(symbol, exchange, instant):
    return slices(symbol, exchange, instant, "volatilities")


def priced(symbol, exchange, instant):
    """The chain, next to the true volatility and the true value in units of the forward."""
    table = chain(symbol, exchange, instant).merge(
        volatilities(symbol, exchange, instant), on=["expiry", "strike"], suffixes=("", "_true")
    )
    terms = [table[name].to_numpy() for name in ("year_fraction", "iv_true", "side")]
    unit = 1.0, np.exp(table["log_moneyness"].to_numpy())
    vega = black76.greeks(*unit, *terms, which=["vega"])["vega"]
    return table.assign(value=black76.price(*unit, *terms), vega_true=vega)


@pytest.fixture(scope="module")
def btc():
    return chain("BTC", "deribit", "2026-06-30 12:00")


def test_expiries_are_those_of_the_calendar_and_calls_and_puts_share_their_volatility(btc):
    """Two days and a Friday, the next three Fridays, the last of July and August, three quarters' ends."""
    days = ["07-01", "07-02", "07-03", "07-10", "07-17", "07-24", "07-31", "08-28", "09-25", "12-25"]
    expected = [at(f"2026-{d} 08:00") for d in days] + [at("2027-03-26 08:00")]
    assert btc["expiry"].unique().tolist() == expected
    assert len(btc) >= 500
    iv = btc.pivot(index=["expiry", "strike"], columns="side", values="iv")
    pd.testing.assert_series_equal(iv["call"], iv["put"], check_names=False)
    quarter = btc[btc["expiry"] == at("2026-09-25 08:00")]
    k = np.log(quarter["strike"] / quarter["underlying_price"]).abs()
    assert quarter.loc[k < 0.2, "open_interest"].mean() > 3 * quarter.loc[k > 0.6, "open_interest"].mean()


@pytest.mark.parametrize("instant", INSTANTS)
def test_every_pair_of_the_matrix_has_a_chain(instant):
    frame = STORE.latest("options_snapshot", at(instant), within=HOUR)
    result = frame.groupby(["symbol", "exchange"], observed=True).size()
    assert sorted(result.index) == sorted(PAIRS)
    assert result.min() >= 100
    assert result["BTC", "deribit"] >= 500
    assert (frame["expiry"] > at(instant)).all()
    both = frame.groupby(["symbol", "exchange", "expiry", "strike"], observed=True)["side"].nunique()
    assert (both == 2).all()
    # An hour before expiry only a jump reaches ZEC's farthest strike, e^0.89 times the forward: 1774 %.
    assert frame["iv"].between(0.05, 20).all()
    assert (frame["open_interest"] >= 0).all()


def test_names_are_spelled_as_the_venues_do_and_one_gives_no_greeks():
    expected = {
        "deribit": "BTC-25SEP26-100000-C",
        "binance": "BTC-260925-100000-C",
        "bybit": "BTC-25SEP26-100000-C-USDT",
        "okx": "BTC-USD-260925-100000-C",
        "derive": "BTC-20260925-100000-C",
    }
    for exchange, name in expected.items():
        result = chain("BTC", exchange, "2026-06-30 12:00").set_index("instrument_name").loc[name]
        assert (result["strike"], result["side"]) == (100_000.0, "call")
        assert result["expiry"] == at("2026-09-25 08:00")
    frame = chain("BTC", "okx", "2026-06-30 12:00")
    assert frame[["delta", "gamma", "vega", "theta"]].isna().all(axis=None)


def test_a_strike_stays_until_its_expiry():
    days = pd.date_range("2026-02-02 09:00", "2026-03-25 09:00", freq="3D", tz="UTC").as_unit("us")
    kept: set[str] = set()
    for day in days:
        frame = chain("ETH", "deribit", day.tz_localize(None).isoformat())
        kept = {n for n in kept if "27MAR26" in n or "26JUN26" in n}
        assert kept <= set(frame["instrument_name"])
        kept |= set(frame["instrument_name"])


THREE = pytest.mark.parametrize(
    ("symbol", "exchange"), [("BTC", "deribit"), ("XRP", "bybit"), ("ZEC", "derive")]
)


@THREE
def test_marks_and_volatilities_equal_the_model(symbol, exchange):
    """The volatility to 1e-4, the mark in its unit to a millionth of the coin or a hundredth of the tick."""
    table = priced(symbol, exchange, "2026-06-30 12:00")
    assert (table["iv"] - table["iv_true"]).abs().max() <= 0.5e-4 * (1 + 1e-9)
    coin = exchange == "deribit"
    mark = table["mark_coin"] if coin else table["mark_usd"] / table["underlying_price_true"]
    step = 1e-6 if coin else table["mark_usd"].diff().abs()[lambda x: x > 0].min()
    unit = 1.0 if coin else table["underlying_price_true"]
    assert ((mark - table["value"]) * unit).abs().max() <= 0.5 * max(step, 1e-6) + 1e-9
    assert table["mark_usd" if coin else "mark_coin"].isna().all()


TICKS = {
    ("BTC", "deribit"): ("coin", None),
    ("ETH", "okx"): ("coin", None),
    ("BTC", "binance"): ("usd", 5.0),  # not below 0.004 % of 108,000 = 4.32
    ("ETH", "derive"): ("usd", 0.2),  # of 4,400: 0.176
    ("XRP", "deribit"): ("usd", 0.0002),  # of 2.8: 0.000112
}


@pytest.mark.parametrize(("symbol", "exchange"), TICKS)
def test_quotes_are_on_ticks_around_the_mark(symbol, exchange):
    unit, tick = TICKS[symbol, exchange]
    frame = chain(symbol, exchange, "2026-06-30 12:00")
    bid, ask, mark = (frame[f"{name}_{unit}"] for name in ("bid", "ask", "mark"))
    assert ask.notna().all()
    assert mark.notna().all()
    assert 0.5 < bid.notna().mean() < 1, "worthless options have no bid"
    assert not (bid > mark * (1 + 1e-6)).any()
    assert not (ask < mark * (1 - 1e-6)).any()
    for price in (bid.dropna(), ask):
        steps = price / (np.where(price < 0.005, 0.0001, 0.0005) if tick is None else tick)
        assert np.abs(steps - np.round(steps)).max() < 1e-6
    assert (bid.dropna() > 0).all()


def test_spreads_are_as_wide_as_recorded_ones():
    """Half a spread at the money on Deribit, 6 Jan 2026: 0.27 points at 30 to 90 days, 1.65 within two."""
    table = priced("BTC", "deribit", "2026-06-30 12:00")
    half = (table["ask_coin"] - table["bid_coin"]) / 2 / table["vega_true"]
    middle = table["log_moneyness"].abs() < 0.4 * table["iv_true"] * np.sqrt(table["year_fraction"])
    days = table["year_fraction"] * 365
    assert 0.002 < half[middle & days.between(30, 90)].median() < 0.006
    assert 0.005 < half[middle & (days < 2)].median() < 0.03


@pytest.mark.parametrize(("symbol", "exchange"), PAIRS)
def test_true_prices_are_free_of_arbitrage(symbol, exchange):
    """Calls fall and are convex in the strike; total variance at the strikes of a later expiry is larger."""
    for instant in INSTANTS:
        t = volatilities(symbol, exchange, instant)
        t["w"] = t["iv"] ** 2 * t["year_fraction"]
        terms = (t[name].to_numpy() for name in ("year_fraction", "iv"))
        t["call"] = black76.price(1.0, np.exp(t["log_moneyness"].to_numpy()), *terms, "call")
        for _, item in t.groupby("expiry"):
            slope = np.diff(item["call"]) / np.diff(np.exp(item["log_moneyness"]))
            assert slope.min() >= -1 - 1e-9
            assert slope.max() <= 1e-9
            assert np.diff(slope).min() >= -1e-9
        for (_, early), (_, late) in itertools.pairwise(t.groupby("expiry")):
            inside = early["log_moneyness"].between(late["log_moneyness"].min(), late["log_moneyness"].max())
            k = early.loc[inside, "log_moneyness"]
            later = CubicSpline(late["log_moneyness"], late["w"])(k)
            assert (later > early.loc[inside, "w"]).all()


def test_parameters_are_the_published_ones_scaled():
    """Bakshi, Cao and Chen (1997): invariants of a scale of log returns, and the scale from the others."""
    t = slices("BTC", "deribit", "2026-06-30 12:00").iloc[0]
    assert (t["reversion"], t["correlation"]) == (2.03, -0.57)
    scale = t["vol_of_variance"] / 0.38
    assert (t["jump_mean"] / scale, t["jump_deviation"] / scale) == pytest.approx((-0.05, 0.07))
    long_run = 0.04 + 0.59 * (0.05**2 + 0.07**2)
    assert scale**2 * long_run == pytest.approx(0.45**2, rel=0.031), "a venue is at most 3 % off"
    assert t["long_variance"] / scale**2 == pytest.approx(0.04, rel=0.5)
    assert t["jumps_per_year"] == pytest.approx(0.59, rel=0.6)


@THREE
def test_forwards_and_times_to_expiry_equal_the_ground_truth(symbol, exchange):
    frame = chain(symbol, exchange, "2026-03-13 07:00")
    known = slices(symbol, exchange, "2026-03-13 07:00")
    merged = frame.merge(known, on="expiry", suffixes=("", "_true"))
    years = (merged["expiry"] - at("2026-03-13 07:00")) / pd.Timedelta("365D")
    assert merged["underlying_price"].to_numpy() == pytest.approx(
        merged["underlying_price_true"].to_numpy(), abs=1e-6
    )
    assert merged["year_fraction"].to_numpy() == pytest.approx(years.to_numpy(), rel=1e-12)
    basis = np.log(known["underlying_price"] / known["spot"]) / known["year_fraction"]
    assert basis.to_numpy() == pytest.approx(basis.iloc[0], rel=1e-9)
    assert abs(basis.iloc[0]) < 0.2


@pytest.mark.parametrize(
    "exchange",
    ["deribit", "bybit", "binance", "derive"],
)
def test_greeks_are_black_76_in_the_venues_units(exchange):
    """All four publish vega per volatility point and theta per day: see `chain.greeks` for the records."""
    true = volatilities("ETH", exchange, "2026-06-30 12:00")[["expiry", "strike", "iv", "year_fraction"]]
    frame = chain("ETH", exchange, "2026-06-30 12:00").drop(columns="iv")
    frame = frame.merge(true, on=["expiry", "strike"])
    names = ("underlying_price", "strike", "year_fraction", "iv", "side")
    greeks = black76.greeks(*(frame[name].to_numpy() for name in names))
    for name, unit in (("delta", 1.0), ("gamma", 1.0), ("vega", 0.01), ("theta", 1 / 365)):
        np.testing.assert_allclose(frame[name], greeks[name] * unit, rtol=1e-6, atol=6e-7)


def test_strikes_about_the_money_are_enough_for_its_volatility():
    """Two days of BTC on Deribit: the same result at each hour and expiry, with a tenth of the rows."""
    names = ("time", "expiry", "strike", "iv", "underlying_price")
    query = Query("options_snapshot", at("2026-03-09"), at("2026-03-11"), ["BTC"], ["deribit"], names)
    whole, near = (STORE.rows(replace(query, near_money=near)) for near in (False, True))
    assert len(near) < len(whole) / 10
    pd.testing.assert_frame_equal(at_the_money(near), at_the_money(whole))


def test_open_interest_grows_from_nothing():
    """The quarter's end of March 2027 is listed 330 days before, on 30 April 2026."""
    sizes = []
    for instant in ("2026-04-30 08:00", "2026-05-02 08:00", "2026-05-30 08:00"):
        frame = chain("BTC", "deribit", instant)
        sizes.append(frame.loc[frame["expiry"] == at("2027-03-26 08:00"), "open_interest"].sum())
    assert chain("BTC", "deribit", "2026-04-30 07:00")["expiry"].max() < at("2027-03-26 08:00")
    assert sizes[0] == 0
    assert 0 < 3 * sizes[1] < sizes[2]


def test_trades_are_made_at_the_quotes_of_their_hour_and_by_the_published_law() -> None:
    start, end = at("2026-06-01"), at("2026-06-15")
    where = {"symbols": ["BTC"], "venues": ["deribit"]}
    rows = STORE.read("options_trades", start, end, **where)
    hour = rows["time"].dt.floor("h")
    assert (rows["time"] - hour).max() < pd.Timedelta("1min")
    chain = STORE.read("options_snapshot", start, start + pd.Timedelta("3h"), **where)
    both = rows.assign(hour=hour).merge(
        chain,
        left_on=["hour", "instrument_name"],
        right_on=["time", "instrument_name"],
        suffixes=("", "_of_chain"),
    )
    quotes = both["ask_coin"].where(both["taker_side"] == "buy", both["bid_coin"])
    quotes = quotes.where(both["execution"] == "book", both["mark_coin"])
    assert len(both) > 50
    assert both["price_coin"].tolist() == quotes.tolist()
    law = sample.truth("option_trades", **where).iloc[0]
    for name, part in rows.groupby("side", observed=True):
        bought, expected = (part["taker_side"] == "buy").mean(), law[f"buy_{name}"]
        no_bid_no_sale = 0.04
        assert abs(bought - expected) < 4 * np.sqrt(expected * (1 - expected) / len(part)) + no_bid_no_sale
    blocks = rows["execution"] == "block"
    assert blocks.mean() == pytest.approx(law["block"], abs=4 * np.sqrt(law["block"] / len(rows)))
    overview = STORE.read("options_overview_history", start, end, **where).set_index("time")
    days = rows.set_index("time").eval("size * underlying_price").resample("D").sum().iloc[:-1]
    result = overview["notional_volume_24h_usd"].reindex(days.index + pd.Timedelta("1D")).to_numpy()
    assert days.sum() / result.sum() == pytest.approx(1 + law["block"] * (law["block_size"] - 1), rel=0.1)


def test_deliveries_average_the_index_and_the_published_index_is_the_log_contract() -> None:
    day, where = at("2026-06-10"), {"symbols": ["BTC"], "venues": ["deribit"]}
    (row,) = STORE.read("delivery_prices", day, day + pd.Timedelta("1D"), **where).itertuples()
    assert row.time == day + pd.Timedelta("8h")
    own = np.array([symbols().name.index("BTC")])
    prices = universe.price(own, day.value // 86_400_000_000_000, 1)[0]
    assert row.price_usd == pytest.approx(prices[90:97].mean(), abs=1e-6), "of 07:30, 07:35, ... 08:00"
    index = STORE.read("volatility_index_published", day, day + pd.Timedelta("1h"), **where)[
        "index_pct"
    ].item()
    model = sample.truth("surface", start=day, end=day + pd.Timedelta("1h"), **where).iloc[0]
    t = 30.0 / 365.0
    mean_variance = model["long_variance"] * t + (model["variance"] - model["long_variance"]) * (
        -np.expm1(-model["reversion"] * t) / model["reversion"]
    )
    mean, spread = model["jump_mean"], model["jump_deviation"]
    jump = np.exp(mean + spread**2 / 2) - 1 - mean
    variance = mean_variance + 2 * model["jumps_per_year"] * t * jump
    assert index == round(100 * np.sqrt(variance / t), 2)
