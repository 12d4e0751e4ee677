"""Payloads, value by value, from the hand-written market."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Caller
from tests.support.timestamps import at

NOON = "2026-06-30 12:00:00"


def test_free_tier_sees_btc_and_eth_and_absent_greeks_are_omitted(ask: Caller) -> None:
    body = ask.body("/funding", tier="free")
    assert body["symbols"] == ["BTC", "ETH"]
    assert body["funding_rates"] == {"binance": {"BTC": 1.0, "ETH": -0.5}, "hyperliquid": {"BTC": 0.1}}
    assert set(body["oi_rankings"]) <= {"BTC", "ETH"}
    # What has expired is not active; greeks that a venue never gives are omitted.
    bare = ask.body("/options/snapshot", exchange="okx", symbol="ETH")["instruments"][0]
    assert "delta" not in bare


def test_history_response_has_its_documented_envelope(ask: Caller) -> None:
    body = ask.body(
        "/funding/historical", symbol="ETH", start="2026-06-30T11:00Z", exchanges="binance,hyperliquid"
    )
    point = {"t": "2026-06-30T12:00:00Z", "timestamp": "2026-06-30T12:00:00Z", "y": -0.5}
    assert body.pop("series") == {"binance": [point]}
    assert body == {"symbol": "ETH", "unit": "bps_8h", "resolution": "raw", "notices": []}
    body = ask.body("/oi/BTC/timeseries", start="2026-06-30T11:00Z")
    rows = body.pop("data")
    assert body == {"symbol": "BTC", "unit": "usd", "resolution": "1h", "notices": []}
    assert [(row.pop("timestamp"), row.pop("exchange")) for row in rows] == [
        (f"2026-06-30T{hour}:00:00Z", venue) for hour in (11, 12) for venue in ("binance", "hyperliquid")
    ]
    expected = [{"open_interest_usd": usd} for usd in (999.58, 500.0, 1000.0, 500.0)]
    assert rows == [pytest.approx(item, abs=0.005) for item in expected]
    both = ask.body("/markets/symbols", exchanges="hyperliquid,binance")
    assert both.pop("exchanges_filter") == ["hyperliquid", "binance"]
    assert both == ask.body("/markets/symbols") == ask.body("/markets/symbols", exchanges="all")


def test_movers(ask: Caller) -> None:
    """SOL trades 2.4 million a day: below the default of ten million, above one."""
    body = ask.body("/markets/price-movers")
    bitcoin = {"symbol": "BTC", "price_usd": 60000.0, "price_24h_change_pct": 2.0}
    ether = {"symbol": "ETH", "price_usd": 3000.0, "price_24h_change_pct": -1.5, "rank": 1}
    solana = {"symbol": "SOL", "price_usd": 150.0, "price_24h_change_pct": 7.0, "rank": 1}
    assert body == {"timestamp": NOON, "gainers": [bitcoin | {"rank": 1}], "losers": [ether]}
    filtered = ask.body("/markets/price-movers", exchanges="binance,okx")
    assert filtered["exchanges_filter"] == ["binance", "okx"]
    wider = ask.body("/markets/price-movers", min_value="1e6")
    assert wider["gainers"] == [solana, bitcoin | {"rank": 2}]
    assert ask.body("/markets/price-movers", min_value=0, limit=1)["gainers"] == [solana]
    assert ask.body("/markets/price-movers", exchanges="binance", min_value=0)["losers"] == [ether]


def events(ask: Caller, **params: Any) -> list[str]:
    body = ask.body("/liquidations/events", **params)
    assert body["count"] == len(body["events"])
    return [f"{e['exchange'][0]}:{e['oid']}" for e in body["events"]]


def millis(text: str) -> int:
    return at(text).value // 10**6


def test_events_default_to_the_last_day_or_begin_at_since(ask: Caller) -> None:
    assert events(ask) == ["h:b7", "h:a1", "b:a1"]
    assert events(ask, min_usd=1511) == ["h:a1", "b:a1"]
    assert events(ask, limit=1) == ["h:b7"]
    assert events(ask, exchange="hyperliquid,aster") == ["h:b7", "h:a1"]
    assert events(ask, symbol="BTC,SOL") == ["h:b7", "b:a1"]
    assert events(ask, exclude_symbol="BTC,SOL") == ["h:a1"]
    assert events(ask, since=0) == ["b:old", "b:a1", "h:a1", "h:b7"]
    assert events(ask, since=0, limit=2) == ["b:old", "b:a1"]
    assert events(ask, since=0, min_usd=1e9) == ["b:old", "b:a1", "h:a1", "h:b7"]
    assert events(ask, since=0, exclude_symbol="BTC") == ["h:a1", "h:b7"]
    assert events(ask, since=millis("2026-06-30 09:00:02")) == ["h:a1", "h:b7"]
    assert events(ask, since=millis("2026-06-30 12:00:00")) == []
