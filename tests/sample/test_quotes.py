"""Prices, positioning and taker volume of the sample against its own market, funding, books and truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice
from derivdata.matrix import FETCHERS
from derivdata.sources import sample
from derivdata.tables import TABLES
from derivdata.tables.endpoints import ENDPOINTS, Endpoint
from tests.support.timestamps import at

STORE = sample.open()
FEW = {"symbols": ["BTC", "PEPE"], "venues": ["binance", "hyperliquid", "okx"]}
START, END = "2026-03-09 23:40", "2026-03-10 00:30"
LOCAL = [endpoint for endpoint in ENDPOINTS if endpoint.rows]


@pytest.mark.parametrize("endpoint", LOCAL, ids=[endpoint.table for endpoint in LOCAL])
def test_a_local_table_is_made_stored_served_and_fetched(endpoint: Endpoint, tmp_path: Path) -> None:
    """Every row of the sample comes back by the table's name, except prices between full hours."""
    name, window = endpoint.table, ("2026-03-01", "2026-03-03")
    steps = {} if endpoint.rows == "single" else {"resolution": "1h"}
    dd.connect("sample")
    venue = ["okx" if "okx" in STORE.exchanges(name) else STORE.exchanges(name)[0]]
    rows = FETCHERS[name]("BTC", *window, venues=venue, **steps)
    made = STORE.read(name, at(window[0]), at(window[1]), symbols=["BTC"], venues=venue)
    for choice in (p for p in endpoint.params if p.name in ("kind", "quote")):
        made = made[made[choice.name] == choice.default]
    made = made[made["time"] == made["time"].dt.floor("h")] if steps else made
    held = TABLES[name].conform(made.assign(**steps))
    assert len(held) > 0
    pd.testing.assert_frame_equal(rows, held, rtol=1e-9)
    dd.open_archive(tmp_path / "market").append(name, held)
    dd.connect(str(tmp_path / "market"), now=window[1])
    pd.testing.assert_frame_equal(FETCHERS[name]("BTC", *window, venues=venue, **steps), held, rtol=1e-9)
    dd.disconnect()


def prices(start: str = START, end: str = END) -> pd.DataFrame:
    rows = STORE.read("prices_history", at(start), at(end), **FEW)
    return rows.pivot(index=["symbol", "exchange", "time"], columns="kind", values="price_usd")


def test_mark_and_index_are_the_market_s_price_and_below_it_by_the_published_premium() -> None:
    market = STORE.read("markets_symbol_exchanges", at(START), at(END), **FEW)
    held = market.set_index(["symbol", "exchange", "time"])["price_usd"]
    pd.testing.assert_series_equal(prices()["mark"], held, check_names=False, check_exact=True)
    result = 1e4 * (prices()["mark"] / prices()["index"] - 1.0)
    told = sample.truth("premium", start=at(START), end=at(END), **FEW)
    told["time"] = told["time"].astype("datetime64[us, UTC]")
    right = told.set_index(["symbol", "exchange", "time"])["premium_bps"]
    assert len(result) == len(right)
    joined = pd.concat([result.rename("found"), right], axis=1).dropna()
    joined = joined.loc["BTC"]  # prices of PEPE have eight digits after the point, and so four of their own
    np.testing.assert_allclose(joined["found"], joined["premium_bps"], atol=1e-6)


def test_funding_is_formed_from_the_premium() -> None:
    """A free venue shows the premium itself; binance shows p + clamp(1 - p, ±band)."""
    shown = STORE.read("funding_history", at(START), at(END), **FEW)
    rates = shown.set_index(["symbol", "exchange", "time"])["rate_bps_8h"]
    premium = sample.truth("premium", start=at(START), end=at(END), **FEW)
    p = premium.set_index(["symbol", "exchange", "time"])["premium_bps"].reindex(rates.index)
    laws = sample.truth("funding", **FEW).set_index(["symbol", "exchange"])["band_bps_8h"]
    band = laws.reindex(rates.index.droplevel("time")).to_numpy()
    clamped = np.where(np.isnan(band), p, p + np.clip(1.0 - p, -band, band))
    np.testing.assert_allclose(rates, clamped, atol=6e-7)


def test_the_last_price_is_a_best_price_of_the_book() -> None:
    book = STORE.latest("orderbook_book", at("2026-03-10 00:05"), within=pd.Timedelta("1h"), **FEW)
    best = book[book["level"] == 1].pivot(index=["symbol", "exchange"], columns="side", values="price_usd")
    last = prices().xs(at("2026-03-10 00:05"), level="time")["last"].reindex(best.index)
    at_bid, at_ask = (np.abs(last / best[side] - 1.0) < 1e-3 * 1e-4 for side in ("bid", "ask"))
    assert (at_bid | at_ask)["BTC"].all()
    several = prices()
    above = (several["last"] > several["mark"]).loc["BTC"]
    assert above.any()
    assert not above.all()


def test_dated_futures_are_the_forwards_of_options_on_them_and_follow_the_truth() -> None:
    """Deribit and binance; a forward over spot is ``e^(bT)``, with one b for all expiries of a time."""
    hour = pd.Timestamp("2026-03-25T07:00Z")
    rows = STORE.read("futures_history", hour, hour + pd.Timedelta("1h"), symbols=["BTC"])
    chain = STORE.read(
        "options_snapshot", hour, hour + pd.Timedelta("1h"), symbols=["BTC"], venues=["deribit"]
    )
    own = rows[rows["exchange"] == "deribit"].set_index("expiry")["price_usd"]
    forwards = chain.groupby("expiry")["underlying_price"].first()
    assert own.size == 9
    assert own.to_dict() == forwards[own.index].to_dict()
    assert set(rows.loc[rows["exchange"] == "binance", "instrument_name"]) == {
        "BTCUSDT_260327", "BTCUSDT_260626", "BTCUSDT_260925", "BTCUSDT_261225",
    }  # fmt: skip
    truth = sample.truth("futures", symbols=["BTC"], start=hour, end=hour + pd.Timedelta("1h"))
    assert (truth.groupby("exchange")["carry"].agg(np.ptp) < 1e-12).all()
    expected = truth["spot"] * np.exp(truth["carry"] * truth["year_fraction"])
    pairs = rows.sort_values(["exchange", "expiry"]).reset_index(drop=True)
    assert np.allclose(pairs["price_usd"], expected, rtol=1e-9)
    assert np.allclose(pairs["oi_usd"], truth["oi_usd"], rtol=1e-6)


def test_positioning_follows_the_published_law() -> None:
    """All pairs at ten times that are weeks apart: venues of a symbol share x, and each has its z."""
    instants = pd.date_range("2025-10-01 07:00", freq="21D", periods=10, tz="UTC")
    rows = pd.concat([STORE.read("positioning_history", t, t + pd.Timedelta("1min")) for t in instants])
    rows["log"] = np.log(rows["long_share"] / rows["short_share"])
    truth = sample.truth("positioning").drop_duplicates("kind").set_index("kind")
    for kind, part in rows.groupby("kind", observed=True):
        law = truth.loc[kind]
        groups = part.groupby(["symbol", "time"], observed=True)["log"]
        means, counts = groups.mean()[groups.size() > 9], groups.size()[groups.size() > 9]
        noise = np.mean(law["deviation"] ** 2 / counts)
        assert len(means) > 300
        size = groups.transform("size")  # a row is a part of its own mean
        apart = (part["log"] - groups.transform("mean")) * np.sqrt(size / (size - 1))
        assert apart.std() == pytest.approx(law["deviation"], rel=0.02)
        assert np.sqrt(means.var() - noise) == pytest.approx(abs(law["crowding"]), rel=0.15)
        assert means.mean() == pytest.approx(law["mean"], abs=0.04)
    sums = rows["long_share"] + rows["short_share"]
    np.testing.assert_allclose(sums, 1.0, atol=1e-12)


def test_accounts_are_long_where_longs_pay_and_takers_buy_what_rises() -> None:
    start, end = at("2026-05-01"), at("2026-06-20")
    one = {"symbols": ["BTC"], "venues": ["hyperliquid"]}
    taken = STORE.read("volume_taker", start, end, **one).set_index("time")
    traded = STORE.read("volume_history", start, end, **one).set_index("time")["volume_usd"]
    np.testing.assert_allclose(taken["buy_usd"] + taken["sell_usd"], traded, atol=2e-6)
    marks = STORE.read("prices_history", start, end + pd.Timedelta("1min"), **one).query("kind == 'mark'")
    price = np.log(marks.set_index("time")["price_usd"].reindex([*taken.index, end]))
    moved = np.diff(price) / (sample.truth("prices", symbols=["BTC"])["volatility"][0] / np.sqrt(8760.0))
    law = sample.truth("taker_volume", **one).iloc[0]
    told = np.arctanh((taken["buy_usd"] - taken["sell_usd"]) / traded)
    slope = np.cov(told, moved)[0, 1] / moved.var(ddof=1)
    assert slope == pytest.approx(law["impact"], abs=4 * law["deviation"] / np.sqrt(len(told)))
    assert np.std(told - slope * moved) == pytest.approx(law["deviation"], rel=0.1)
    rates = STORE.read("funding_history", start, end, symbols=["BTC"]).groupby("time")["rate_bps_8h"].mean()
    longs = STORE.read("positioning_history", start, end, **one)
    longs = longs.pivot(index="time", columns="kind", values="long_share").join(rates, how="inner")
    result = longs.corr(method="spearman")["rate_bps_8h"]
    assert result["accounts"] > 0.5
    assert result["top_positions"] < -0.5


def test_spot_is_the_index_within_its_deviation_and_usd_differs_by_the_price_of_usdt() -> None:
    start, end = at("2026-02-01"), at("2026-04-01")
    where = {"symbols": ["BTC", "ETH"], "venues": ["binance", "coinbase"]}
    law = sample.truth("spot", **where).iloc[0]
    rows = STORE.read("prices_spot", start, end, **where).set_index(["symbol", "exchange", "time"])
    index = STORE.read("prices_history", start, end, **where).query("kind == 'index'")
    index = index.set_index(["symbol", "exchange", "time"])["price_usd"]
    apart = (1e4 * (rows["price"] / index.reindex(rows.index) - 1.0)).unstack("exchange")
    assert apart["binance"].std() == pytest.approx(law["deviation_bps"], rel=0.06)
    assert set(rows.xs("coinbase", level="exchange")["quote"]) == {"USD"}
    tether = apart["coinbase"].unstack("symbol")
    own = (tether["BTC"] - tether["ETH"]).std() / np.sqrt(2.0)
    assert own == pytest.approx(law["deviation_bps"], rel=0.06)
    assert tether.mean(axis=1).std() == pytest.approx(law["usdt_deviation_bps"], rel=0.35)


def test_prices_requested_at_a_finer_step_state_the_step_of_the_sample() -> None:
    """The sample has a price every five minutes, 288 a day."""
    dd.connect("sample")
    with pytest.warns(DataNotice, match="requested resolution '1m', but the response has '5m'"):
        rows = dd.prices.history("BTC", "2026-06-01", "2026-06-02", venues=["okx"], resolution="1m")
    assert len(rows) == 288
    assert rows["resolution"].unique().tolist() == ["5m"]
    dd.disconnect()
