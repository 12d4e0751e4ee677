"""The service over the sample: the view of a tier, and data after the clock is hidden."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.conftest import Caller, serving


@pytest.fixture(scope="module")
def live() -> Iterator[Caller]:
    with serving("sample") as caller:
        yield caller


def test_dev_tier_gets_200_symbols(live: Caller) -> None:
    board = live.body("/markets/symbols")["symbols"]
    assert len(board) >= 400
    assert live.body("/markets/symbols", tier="dev")["symbols"] == board[:200]


def test_depth_equals_the_sum_of_book_levels(live: Caller) -> None:
    pair = {"symbol": "BTC", "exchange": "binance"}
    book = live.body("/orderbook/book", **pair)
    depth = live.body("/orderbook/depth-history", start="2026-06-30T11:00Z", **pair)["data"][-1]
    middle = (book["bids"][0][0] + book["asks"][0][0]) / 2
    for side in ("bid", "ask"):
        for bps in (10, 25, 50, 100):
            near = [p * s for p, s in book[f"{side}s"] if abs(p / middle - 1) * 1e4 <= bps]
            assert depth[f"{side}_depth_{bps}bps_usd"] == pytest.approx(sum(near), abs=1.0)


def test_earlier_clock_gives_the_same_past_without_later_rows(live: Caller) -> None:
    with serving("sample", now="2026-03-01T12:00Z") as then:
        window = {"symbol": "BTC", "start": "2026-02-28T12:00Z", "end": "2026-03-01T12:00Z"}
        assert then("/").headers["Date"] == "Sun, 01 Mar 2026 12:00:00 GMT"
        for resolution in ("raw", "1h"):
            one, other = (ask("/funding/historical", **window, resolution=resolution) for ask in (then, live))
            assert one.content == other.content
        later = then.body("/funding/historical", symbol="BTC", start="2026-03-01T12:00Z", end="2026-03-09")
        assert {p["t"] for points in later["series"].values() for p in points} <= {"2026-03-01T12:00:00Z"}
        asked = {"since": 1_772_359_200_000, "limit": 100_000}
        events = then.body("/liquidations/events", **asked)["events"]
        assert max(event["timestamp"] for event in events) < "2026-03-01T12:00:01"
