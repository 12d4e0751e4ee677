"""Which window and which resolution a response has, by tier and clock."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service import market
from tests.service.conftest import Caller, serving
from tests.service.memory_store import MemoryStore

HISTORY = "/funding/historical"


def history(ask: Caller, **params: Any) -> Any:
    return ask.body(HISTORY, **{"symbol": "BTC", "exchanges": "binance", **params})


def ends(body: Any) -> tuple[str, str]:
    points = body["series"]["binance"]
    return points[0]["t"], points[-1]["t"]


def test_default_window_is_the_last_seven_days(ask: Caller) -> None:
    """A window of 7 days has buckets of 4 hours; now, 12:00, starts a new bucket."""
    body = history(ask)
    assert body["resolution"] == "4h"
    assert ends(body) == ("2026-06-23T12:00:00Z", "2026-06-30T12:00:00Z")
    assert len(body["series"]["binance"]) == 7 * 6 + 1
    assert body["notices"] == []
    before = history(ask, end="2026-06-20T00:00Z")
    assert ends(before) == ("2026-06-13T00:00:00Z", "2026-06-19T20:00:00Z")


@pytest.mark.parametrize(
    ("start", "resolution"),
    [
        ("2026-06-28T00:00:01Z", "raw"),
        ("2026-06-28T00:00:00Z", "1h"),
        ("2026-06-22T00:00:01Z", "1h"),
        ("2026-06-22T00:00:00Z", "4h"),
        ("2026-05-22T00:00:00Z", "4h"),
    ],
)
def test_default_resolution_depends_on_the_window_length(ask: Caller, start: str, resolution: str) -> None:
    """Under 24 hours, under 7 days, longer: here all end on 29 June at midnight."""
    body = history(ask, start=start, end="2026-06-29")
    assert body["resolution"] == resolution


def test_windows_are_half_open(ask: Caller) -> None:
    window = {"start": "2026-06-29T10:00Z", "end": "2026-06-29T11:00Z"}
    assert ends(history(ask, resolution="raw", **window)) == ("2026-06-29T10:00:00Z", "2026-06-29T10:30:00Z")
    assert ends(history(ask, resolution="1h", **window)) == ("2026-06-29T10:00:00Z", "2026-06-29T10:00:00Z")
    until_now = history(ask, start="2026-06-30T00:00Z", end="2026-06-30T12:00Z")
    assert ends(until_now)[1] == "2026-06-30T11:30:00Z"


def test_window_without_an_end_or_beyond_now_has_the_row_of_now(ask: Caller) -> None:
    without_end = history(ask, start="2026-06-30T00:00Z")
    beyond_now = history(ask, start="2026-06-30T00:00Z", end="2026-07-30", resolution="raw")
    assert ends(without_end)[1] == ends(beyond_now)[1] == "2026-06-30T12:00:00Z"
    assert beyond_now["notices"] == []


def test_start_of_the_dev_tier_is_raised_to_30_days_ago(ask: Caller) -> None:
    """Now is 30 June 12:00, so the start is 31 May 12:00; the first whole day is 1 June."""
    body = history(ask, tier="dev", start="2026-05-25", resolution="raw")
    assert ends(body) == ("2026-05-31T12:00:00Z", "2026-06-30T12:00:00Z")
    assert len(body["notices"]) == 1
    assert "start was raised from 2026-05-25T00:00:00Z to 2026-05-31T12:00:00Z" in body["notices"][0]
    days = history(ask, tier="dev", start="2026-05-25", resolution="1d")
    assert ends(days)[0] == "2026-06-01T00:00:00Z"
    until_2_june = history(ask, tier="dev", end="2026-06-02T00:00Z", resolution="1d")
    assert ends(until_2_june) == ("2026-06-01T00:00:00Z", "2026-06-01T00:00:00Z")
    assert "start was raised" in until_2_june["notices"][0]


def test_start_of_the_pro_tier_is_not_raised(ask: Caller) -> None:
    body = history(ask, start="2026-05-25", resolution="raw")
    assert ends(body)[0] == "2026-05-25T00:00:00Z"
    assert body["notices"] == []


def test_end_in_the_future_is_set_to_now(ask: Caller) -> None:
    body = history(ask, tier="dev", start="2026-06-29", end="2026-08-01")
    assert body["notices"] == ["end was set from 2026-08-01T00:00:00Z to now, 2026-06-30T12:00:00Z"]
    assert body["resolution"] == "4h"


@pytest.mark.parametrize(
    ("start", "end"), [("2026-05-01", "2026-05-31T12:00Z"), ("2026-07-01", "2026-07-02")]
)
def test_dev_window_before_the_last_30_days_returns_403(ask: Caller, start: str, end: str) -> None:
    body = ask.error(HISTORY, 403, tier="dev", symbol="BTC", start=start, end=end)
    assert body["required_tier"] == "pro"
    assert "2026-05-31T12:00:00Z to 2026-06-30T12:00:00Z" in body["error"]


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        ("2024-01-01", "2024-02-01", "historical funding starts in September 2025 (2025-09-01 00:00:00 UTC)"),
        ("2026-07-01", "2026-07-02", "the window begins after the time of memory, 2026-06-30 12:00:00 UTC"),
    ],
)
def test_pro_window_without_data_states_the_reason(ask: Caller, start: str, end: str, why: str) -> None:
    for path in (HISTORY, "/funding/settlement"):
        body = ask.body(path, symbol="BTC", start=start, end=end)
        assert body["series"] == {}
        assert body["notices"] == [f"no data for this request: {why}"]


def test_preset_ranges_end_now(ask: Caller) -> None:
    body = ask.body("/oi/BTC/timeseries", range="1d", exchanges="binance", resolution="1h")
    assert body["data"][0] == {
        "timestamp": "2026-06-29T12:00:00Z",
        "exchange": "binance",
        "open_interest_usd": 990.0,
    }
    assert len(body["data"]) == 25
    dev = ask.body("/oi/BTC/timeseries", tier="dev", range="90d")
    assert "start was raised" in dev["notices"][0]


def test_volume_of_the_current_hour_is_not_served() -> None:
    """1 USD each hour up to the hour that begins at 11:00; at 11:59:59 eleven hours are over."""
    hours = market.every("1h", "2026-06-30 00:00", "2026-06-30 11:00")
    frames = {
        "volume_history": market.series("BTC", "binance", hours, volume_usd=1.0, resolution="1h"),
        "oi_history": market.series("BTC", "binance", hours, oi_usd=2.0, resolution="1h"),
    }
    store = MemoryStore(frames, now=market.NOW)
    day = {"start": "2026-06-30T00:00Z", "resolution": "1h"}
    for now, over in (("2026-06-30 11:59:59", 11), ("2026-06-30 12:00", 12)):
        with serving(store, now=now) as ask:
            rows = ask.body("/volume/BTC/timeseries", **day)["data"]
            assert [row["timestamp"][11:13] for row in rows] == [f"{hour:02d}" for hour in range(over)]
            assert len(ask.body("/volume/exchange-totals", **day)["data"]) == over
            assert ask.body("/markets/symbols")["symbols"][0]["volume_24h_usd"] == over
            wide = ask.body("/volume/exchange-top-symbols-timeseries", exchange="binance", range="7d")
            assert sum(row["BTC"] for row in wide["timeseries"]) == over
            one = ask.body("/markets/exchanges/binance/timeseries", range="1d")["data"]
            assert sum(row["volume_usd"] or 0 for row in one) == over


@pytest.mark.parametrize("tier", ["dev", "pro"])
def test_the_default_start_is_derived_from_an_end_that_was_set_to_now(ask: Caller, tier: str) -> None:
    body = ask.body(HISTORY, tier=tier, symbol="BTC", exchanges="binance", end="2027-01-01")
    assert ends(body) == ("2026-06-23T12:00:00Z", "2026-06-30T12:00:00Z")


def test_range_that_begins_in_the_future_is_rejected(ask: Caller) -> None:
    """Dev: wholly outside the rolling 30 days; Pro has no such window, so the range itself is wrong."""
    assert ask.error(HISTORY, 403, tier="dev", symbol="BTC", start="2027-01-01")["required_tier"] == "pro"
    assert "is not before end" in ask.error(HISTORY, 400, symbol="BTC", start="2027-01-01")["error"]
    assert (
        "is not before end"
        in ask.error(HISTORY, 400, tier="dev", symbol="BTC", start="2027-01-02", end="2027-01-01")["error"]
    )
