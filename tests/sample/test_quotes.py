"""Mark, index and last price of the sample against its own market, funding and books."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from derivdata.sources import sample
from derivdata.tables import TABLES
from tests.support.instants import at

STORE = sample.open()
FEW = {"symbols": ["BTC", "PEPE"], "venues": ["binance", "hyperliquid", "okx"]}
START, END = "2026-03-09 23:40", "2026-03-10 00:30"


def prices(start: str = START, end: str = END) -> pd.DataFrame:
    rows = STORE.read("prices_history", at(start), at(end), **FEW)
    return rows.pivot(index=["symbol", "exchange", "time"], columns="kind", values="price_usd")


def test_rows_are_the_table_and_parts_join() -> None:
    whole = STORE.read("prices_history", at(START), at(END), **FEW)
    cuts = (START, "2026-03-09 23:41", "2026-03-10 00:00:01", END)
    parts = [STORE.read("prices_history", at(a), at(b), **FEW) for a, b in pairwise(cuts)]
    pd.testing.assert_frame_equal(TABLES["prices_history"].conform(pd.concat(parts)), whole)
    assert len(whole) == 3 * 10 * whole.groupby(["symbol", "exchange"], observed=True).ngroups
    newest = STORE.latest("prices_history", at("2026-03-10 00:07"), within=pd.Timedelta("1h"), **FEW)
    last = whole[whole["time"] == at("2026-03-10 00:05")].reset_index(drop=True)
    pd.testing.assert_frame_equal(newest, last)


def test_mark_and_index_are_the_market_s_price_and_below_it_by_the_published_premium() -> None:
    market = STORE.read("markets_symbol_exchanges", at(START), at(END), **FEW)
    held = market.set_index(["symbol", "exchange", "time"])["price_usd"]
    pd.testing.assert_series_equal(prices()["mark"], held, check_names=False, check_exact=True)
    found = 1e4 * (prices()["mark"] / prices()["index"] - 1.0)
    told = sample.truth("premium", start=at(START), end=at(END), **FEW)
    told["time"] = told["time"].astype("datetime64[us, UTC]")
    right = told.set_index(["symbol", "exchange", "time"])["premium_bps"]
    assert len(found) == len(right)
    joined = pd.concat([found.rename("found"), right], axis=1).dropna()
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
