"""Payloads, value by value, from the hand-written market."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Caller, utc

NOON = "2026-06-30 12:00:00"


def test_funding_snapshot(ask: Caller) -> None:
    """XAU's only sample is two hours old and no longer holds; raw is bps / 10,000 × interval / 8."""
    body = ask.body("/funding")
    assert body == {
        "symbols": ["BTC", "ETH", "SOL"],
        "exchanges": {
            "exchange_names": [
                {"name": "binance", "display": "BINANCE"},
                {"name": "hyperliquid", "display": "HYPERLIQUID"},
            ],
            "exchanges": ["binance", "hyperliquid"],
        },
        "funding_rates": {"binance": {"BTC": 1.0, "ETH": -0.5}, "hyperliquid": {"BTC": 0.1, "SOL": 12.0}},
        "funding_rates_raw": {
            "binance": {"BTC": "0.0001", "ETH": "-0.00005"},
            "hyperliquid": {"BTC": "0.00000125", "SOL": "0.00015"},
        },
        "funding_intervals": {"binance": {"BTC": 8, "ETH": 8}, "hyperliquid": {"BTC": 1, "SOL": 1}},
        "oi_rankings": {"BTC": 1, "ETH": 2},
        "default_oi_rank": "500+",
        "timestamp": NOON,
    }


def test_free_sees_bitcoin_and_ether_only(ask: Caller) -> None:
    body = ask.body("/funding", tier="free")
    assert body["symbols"] == ["BTC", "ETH"]
    assert body["funding_rates"] == {"binance": {"BTC": 1.0, "ETH": -0.5}, "hyperliquid": {"BTC": 0.1}}
    assert set(body["oi_rankings"]) <= {"BTC", "ETH"}


def test_metadata(ask: Caller) -> None:
    assert ask.body("/funding/metadata") == {
        "symbols": ["BTC", "ETH", "SOL"],
        "exchanges": {
            "exchange_names": [
                {"name": "binance", "display": "BINANCE", "interval": 8},
                {"name": "hyperliquid", "display": "HYPERLIQUID", "interval": 1},
            ],
            "exchanges": ["binance", "hyperliquid"],
        },
        "timestamp": NOON,
    }


def test_settlements(ask: Caller) -> None:
    body = ask.body("/funding/settlement", symbol="BTC", start="2026-06-30T07:00Z", end="2026-06-30T09:00Z")
    assert body == {
        "symbol": "BTC",
        "series": {
            "binance": [_payment("2026-06-30T08:00:00Z", 1.0, 480)],
            "hyperliquid": [
                _payment("2026-06-30T07:00:00Z", 0.2, 60),
                _payment("2026-06-30T08:00:00Z", 0.2, 60),
            ],
        },
        "notices": [],
    }


def _payment(time: str, y: float, minutes: int) -> dict[str, Any]:
    return {"t": time, "timestamp": time, "y": y, "intervalMinutes": minutes}


def test_history_has_its_envelope(ask: Caller) -> None:
    body = ask.body(
        "/funding/historical", symbol="ETH", start="2026-06-30T11:00Z", exchanges="binance,hyperliquid"
    )
    point = {"t": "2026-06-30T12:00:00Z", "timestamp": "2026-06-30T12:00:00Z", "y": -0.5}
    assert body == {
        "symbol": "ETH",
        "unit": "bps_8h",
        "resolution": "raw",
        "series": {"binance": [point]},
        "notices": [],
    }


def test_leaderboard_by_open_interest(ask: Caller) -> None:
    """BTC: OI 1000 + 500, yesterday 990 + 500; volume 24 × 2e6 after 24 × 1e6; price where OI is largest."""
    body = ask.body("/markets/symbols")
    assert body["timestamp"] == NOON
    assert [(row["rank"], row["symbol"], row["oi_usd"]) for row in body["symbols"]] == [
        (1, "BTC", 1500.0),
        (2, "SOL", 700.0),
        (3, "ETH", 300.0),
    ]
    assert body["symbols"][0] == {
        "rank": 1,
        "symbol": "BTC",
        "price_usd": 60000.0,
        "price_24h_change_pct": 2.0,
        "volume_24h_usd": 48e6,
        "volume_24h_change_pct": 100.0,
        "oi_usd": 1500.0,
        "oi_24h_change_pct": round(100 * (1500 / 1490 - 1), 6),
        "top_funding_bps": 1.0,
        "top_funding_exchange": "binance",
        "liquidation_24h_usd": 177100.0,
    }


def test_leaderboard_is_made_anew_over_a_filter(ask: Caller) -> None:
    rows = ask.body("/markets/symbols", exchanges="hyperliquid")["symbols"]
    assert [(r["rank"], r["symbol"], r["oi_usd"]) for r in rows] == [
        (1, "SOL", 700.0),
        (2, "BTC", 500.0),
    ]
    bitcoin = rows[1]
    assert (bitcoin["price_usd"], bitcoin["top_funding_bps"]) == (60010.0, 0.1)
    assert bitcoin["volume_24h_usd"] is None
    both = ask.body("/markets/symbols", exchanges="hyperliquid,binance")
    assert both == ask.body("/markets/symbols") == ask.body("/markets/symbols", exchanges="all")


def test_movers(ask: Caller) -> None:
    """SOL trades 2.4 million a day: below the default of ten million, above one."""
    body = ask.body("/markets/price-movers")
    bitcoin = {"symbol": "BTC", "price_usd": 60000.0, "price_24h_change_pct": 2.0}
    ether = {"symbol": "ETH", "price_usd": 3000.0, "price_24h_change_pct": -1.5, "rank": 1}
    solana = {"symbol": "SOL", "price_usd": 150.0, "price_24h_change_pct": 7.0, "rank": 1}
    assert body == {"timestamp": NOON, "gainers": [bitcoin | {"rank": 1}], "losers": [ether]}
    wider = ask.body("/markets/price-movers", min_value="1e6")
    assert wider["gainers"] == [solana, bitcoin | {"rank": 2}]
    assert ask.body("/markets/price-movers", min_value=0, limit=1)["gainers"] == [solana]
    assert ask.body("/markets/price-movers", exchanges="binance", min_value=0)["losers"] == [ether]


def test_funding_leaders(ask: Caller) -> None:
    """Ranks come from binance, which has most of the open interest; it does not list SOL."""
    body = ask.body("/markets/funding-leaders")
    assert body["exchanges_filter"] is None
    assert [(r["rank"], r["symbol"], r["exchange"], r["funding_current_bps"]) for r in body["data"]] == [
        (1, "SOL", "hyperliquid", 12.0),
        (2, "BTC", "binance", 1.0),
        (3, "BTC", "hyperliquid", 0.1),
        (4, "ETH", "binance", -0.5),
    ]
    assert [r["oi_rank"] for r in body["data"]] == [None, 1, 1, 2]
    filtered = ask.body("/markets/funding-leaders", exchanges="hyperliquid,aster")
    assert filtered["exchanges_filter"] == ["hyperliquid", "aster"]
    assert [(r["rank"], r["symbol"]) for r in filtered["data"]] == [(1, "SOL"), (2, "BTC")]


def test_exchanges_by_open_interest(ask: Caller) -> None:
    """binance: 1000 + 300 now, 990 + 300 a day ago, 930 + 300 a week ago; hyperliquid falls by 50 a day."""
    body = ask.body("/oi/exchanges-summary")
    assert (body["total"], body["total_market_oi"]) == (2, 2500.0)
    assert body["exchanges"] == [
        {
            "exchange": "binance",
            "total_oi_usd": 1300.0,
            "symbol_count": 2,
            "top_symbol": "BTC",
            "change_24h": round(100 * (1300 / 1290 - 1), 6),
            "change_7d": round(100 * (1300 / 1230 - 1), 6),
            "sparkline_7d": [1240.0, 1250.0, 1260.0, 1270.0, 1280.0, 1290.0, 1300.0],
            "market_share": 0.52,
        },
        {
            "exchange": "hyperliquid",
            "total_oi_usd": 1200.0,
            "symbol_count": 2,
            "top_symbol": "SOL",
            "change_24h": -4.0,
            "change_7d": round(100 * (1200 / 1550 - 1), 6),
            "sparkline_7d": [1500.0, 1450.0, 1400.0, 1350.0, 1300.0, 1250.0, 1200.0],
            "market_share": 0.48,
        },
    ]


def test_open_interest_over_time(ask: Caller) -> None:
    body = ask.body("/oi/BTC/timeseries", start="2026-06-30T11:00Z")
    rows = [("11:00", "binance", 999.58), ("11:00", "hyperliquid", 500.0)]
    rows += [("12:00", "binance", 1000.0), ("12:00", "hyperliquid", 500.0)]
    assert body == {
        "symbol": "BTC",
        "unit": "usd",
        "resolution": "1h",
        "data": [
            {
                "timestamp": f"2026-06-30T{t}:00Z",
                "exchange": e,
                "open_interest_usd": pytest.approx(v, abs=0.005),
            }
            for t, e, v in rows
        ],
        "notices": [],
    }


def test_fills_become_orders(ask: Caller) -> None:
    """Two fills of one order: 1 at 59,100 and 2 at 59,000; the same order id on another venue stays apart."""
    body = ask.body("/liquidations/events")
    assert body["count"] == 3
    assert [(e["exchange"], e["oid"]) for e in body["events"]] == [
        ("hyperliquid", "b7"),
        ("hyperliquid", "a1"),
        ("binance", "a1"),
    ]
    assert body["events"][2] == {
        "timestamp": "2026-06-30T09:00:02Z",
        "exchange": "binance",
        "symbol": "BTC",
        "side": "long",
        "price": 59000.0,
        "avg_price": (59100.0 + 2 * 59000.0) / 3,
        "quantity": 3.0,
        "filled_quantity": 3.0,
        "usd_value": 177100.0,
        "status": "filled",
        "oid": "a1",
        "fill_count": 2,
    }


def events(ask: Caller, **params: Any) -> list[str]:
    body = ask.body("/liquidations/events", **params)
    assert body["count"] == len(body["events"])
    return [f"{e['exchange'][0]}:{e['oid']}" for e in body["events"]]


def millis(text: str) -> int:
    return utc(text).value // 10**6


def test_the_snapshot_is_the_last_day_newest_first(ask: Caller) -> None:
    assert events(ask) == ["h:b7", "h:a1", "b:a1"]
    assert events(ask, min_usd=1511) == ["h:a1", "b:a1"]
    assert events(ask, limit=1) == ["h:b7"]
    assert events(ask, exchange="hyperliquid,aster") == ["h:b7", "h:a1"]
    assert events(ask, symbol="BTC,SOL") == ["h:b7", "b:a1"]
    assert events(ask, exclude_symbol="BTC,SOL") == ["h:a1"]


def test_since_reads_the_whole_store_oldest_first(ask: Caller) -> None:
    assert events(ask, since=0) == ["b:old", "b:a1", "h:a1", "h:b7"]
    assert events(ask, since=0, limit=2) == ["b:old", "b:a1"]
    assert events(ask, since=0, min_usd=1e9) == ["b:old", "b:a1", "h:a1", "h:b7"]
    assert events(ask, since=0, exclude_symbol="BTC") == ["h:a1", "h:b7"]
    assert events(ask, since=millis("2026-06-30 09:00:02")) == ["h:a1", "h:b7"]
    assert events(ask, since=millis("2026-06-30 12:00:00")) == []


def test_an_order_that_began_before_since_is_whole(ask: Caller) -> None:
    """Its first fill is older than `since`, its last newer: the event has both."""
    body = ask.body("/liquidations/events", since=millis("2026-06-30 09:00:01"), limit=1)
    assert body["events"][0]["fill_count"] == 2


def test_option_chain(ask: Caller) -> None:
    """What has expired is not active; greeks that a venue never gives are left out."""
    body = ask.body("/options/snapshot", exchange="deribit", tier="free")
    assert (body["symbol"], body["exchange"], body["count"]) == ("BTC", "deribit", 2)
    assert body["instruments"][0] == {
        "instrument_name": "BTC-31JUL26-60000-C",
        "expiry": "2026-07-31T08:00:00Z",
        "strike": 60000.0,
        "side": "call",
        "iv": 0.55,
        "delta": 0.52,
        "open_interest": 12.5,
        "underlying_price": 60100.0,
    }
    assert body["time"] == "2026-06-30T11:55:00Z", "the chain's own time; the clock's is 12:00"
    bare = ask.body("/options/snapshot", exchange="okx", symbol="ETH")["instruments"][0]
    assert "delta" not in bare
