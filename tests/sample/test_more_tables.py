"""Books, candles and market hours: the right rows."""

from __future__ import annotations

import pandas as pd

from derivdata.sources import sample
from tests.support.timestamps import at


def test_order_books_are_sorted_and_uncrossed() -> None:
    """Bids are below asks, best first, and deep enough for the largest depth distance."""
    book = sample.open().latest(
        "orderbook_book", at("2026-03-10 09:03"), within=pd.Timedelta(1, "h"), symbols=["BTC"]
    )
    assert (book["time"] == at("2026-03-10 09:00")).all()
    for _, levels in book.groupby("exchange", observed=True):
        bids, asks = (
            levels[levels["side"] == side].sort_values("level")["price_usd"] for side in ("bid", "ask")
        )
        assert bids.is_monotonic_decreasing
        assert asks.is_monotonic_increasing
        assert bids.iloc[0] < asks.iloc[0]
        assert asks.iloc[-1] / bids.iloc[0] - 1 > 0.01


def test_candles_are_contiguous_and_contain_their_prices() -> None:
    candles = sample.open().read("hip3_hourly_candles", at("2026-03-09"), at("2026-03-11"))
    for _, coin in candles.groupby(["dex", "symbol"], observed=True):
        assert (coin["open_usd"].to_numpy()[1:] == coin["close_usd"].to_numpy()[:-1]).all()
    ends = candles[["open_usd", "close_usd"]]
    assert (candles["low_usd"] <= ends.min(axis=1)).all()
    assert (candles["high_usd"] >= ends.max(axis=1)).all()


def test_hours_follow_the_clocks_of_their_zone() -> None:
    """New York opens at 14:30 UTC in winter and 13:30 in summer; a Sunday has no session."""
    opens = {}
    for day in ("2026-01-14 15:00", "2026-07-08 15:00"):
        hours = sample.open().latest("rwa_market_hours", at(day), within=pd.Timedelta(1, "D"))
        regular = hours[(hours["mic"] == "XNYS") & (hours["session"] == "regular")]
        opens[day[:10]] = regular[regular["start"].dt.floor("D") == at(day[:10])]["start"].iloc[0]
        assert set(regular["start"].dt.day_of_week) <= {0, 1, 2, 3, 4}
        assert regular["is_tradable_now"].all()
    assert opens == {"2026-01-14": at("2026-01-14 14:30"), "2026-07-08": at("2026-07-08 13:30")}
    holiday = sample.open().latest("rwa_market_hours", at("2026-07-03 15:00"), within=pd.Timedelta(1, "D"))
    assert not holiday[holiday["mic"] == "XNYS"]["is_tradable_now"].any()
