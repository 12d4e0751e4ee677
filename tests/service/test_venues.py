"""Current symbols and venues, and venues over time, from the hand-written market."""

from __future__ import annotations

import pytest

from derivdata.sources.service.answers.markets import _BUCKETS, _bucket_of
from tests.service.conftest import Caller

NOON = "2026-06-30 12:00:00"


def test_price_change_buckets_are_nine_in_descending_order(ask: Caller) -> None:
    """SOL rose by 7, BTC by 2 (on binance, where most of its open interest is), ETH fell by 1.5."""
    body = ask.body("/markets/price-buckets")
    results = {b["label"]: (b["min"], b["max"], b["count"], b["symbols"]) for b in body["buckets"]}
    assert body["timestamp"] == NOON
    assert results == {
        ">20%": (20.0, None, 0, []),
        ">10%": (10.0, 20.0, 0, []),
        "5..10%": (5.0, 10.0, 1, ["SOL"]),
        "0..5%": (0.0, 5.0, 1, ["BTC"]),
        "0%": (0.0, 0.0, 0, []),
        "-5..0%": (-5.0, 0.0, 1, ["ETH"]),
        "-10..-5%": (-10.0, -5.0, 0, []),
        "<-10%": (-20.0, -10.0, 0, []),
        "<-20%": (None, -20.0, 0, []),
    }
    assert next(iter(results)) == ">20%"
    filtered = ask.body("/markets/price-buckets", exchanges="binance")["buckets"]
    assert sum(b["count"] for b in filtered) == 2


@pytest.mark.parametrize(
    ("change", "label"),
    [(-20.1, "<-20%"), (-20, "<-10%"), (-10, "-10..-5%"), (-5, "-5..0%"), (-1e-9, "-5..0%"), (0, "0%"),
     (1e-9, "0..5%"), (5, "0..5%"), (10, "5..10%"), (20, ">10%"), (20.1, ">20%")],
)  # fmt: skip
def test_edge_value_belongs_to_the_bucket_nearer_to_zero(change: float, label: str) -> None:
    assert _BUCKETS[int(_bucket_of(change))][0] == label


def test_venue_stats_and_symbols_equal_rows_of_the_leaderboard(ask: Caller) -> None:
    row = ask.body("/markets/symbols")["symbols"][0]
    assert ask.body("/markets/BTC/stats") == {**row, "timestamp": NOON}
    assert ask.body("/markets/ETH/stats", tier="free")["rank"] == 3
    assert ask.error("/markets/SOL/stats", 403, tier="free")["required_tier"] == "dev"
    assert ask.error("/markets/NOPE/stats", 404)["error"] == "unknown symbol 'NOPE'"
    assert ask.error("/markets/NOPE/exchanges", 404)["error"] == "unknown symbol 'NOPE'"
    body = ask.body("/markets/exchanges/hyperliquid/symbols")
    assert (body["exchange"], body["timestamp"]) == ("hyperliquid", NOON)
    assert [(row["symbol"], row["oi_usd"]) for row in body["symbols"]] == [("SOL", 700.0), ("BTC", 500.0)]
    assert ask.body("/markets/exchanges/okx/symbols")["symbols"] == []
    assert "unknown exchange 'nasdaq'" in ask.error("/markets/exchanges/nasdaq/symbols", 404)["error"]
    ask.error("/markets/exchanges/nasdaq/timeseries", 404)


def test_totals_and_volume_of_a_window_equal_hand_sums(ask: Caller) -> None:
    body = ask.body("/oi/exchange-totals", start="2026-06-30T12:00Z")
    only = ask.body("/oi/exchange-totals", start="2026-06-30T12:00Z", exchanges="hyperliquid")
    assert only["data"] == body["data"][1:]
    # Eight hours of 2.5 million on binance; the four of 12:00 have not started.
    body = ask.body(
        "/volume/exchange-totals", start="2026-06-30T00:00Z", resolution="8h", exchanges="binance"
    )
    assert [(r["timestamp"][11:13], r["total_volume_usd"]) for r in body["data"]] == [
        ("00", 20e6),
        ("08", 10e6),
    ]
    one = ask.body("/volume/BTC/timeseries", start="2026-06-30T00:00Z", resolution="12h")
    assert [(r["exchange"], r["volume_usd"]) for r in one["data"]] == [("binance", 24e6)]
    body = ask.body("/volume/BTC/timeseries", start="2026-06-30T10:00Z")
    assert [r["timestamp"][11:13] for r in body["data"]] == ["10", "11"]


TOP_SYMBOLS = "/oi/exchange-top-symbols-timeseries"


def test_largest_symbols_of_a_venue_have_a_series(ask: Caller) -> None:
    body = ask.body(TOP_SYMBOLS, exchange="binance", start="2026-06-30T11:30Z")
    assert body["symbols"] == ["BTC", "ETH"]
    assert body["timeseries"] == [{"timestamp": "2026-06-30T12:00:00Z", "BTC": 1000.0, "ETH": 300.0}]
    one = ask.body("/volume/exchange-top-symbols-timeseries", exchange="binance", limit=1, range="7d")
    assert one["symbols"] == ["BTC"]
    assert set(one["timeseries"][0]) == {"timestamp", "BTC"}


def test_largest_symbols_reject_other_ranges_and_unknown_venues(ask: Caller) -> None:
    error = ask.error(TOP_SYMBOLS, 400, exchange="binance", range="1d")["error"]
    assert "range must be one of" in error
    ask.error(TOP_SYMBOLS, 400, exchange="nasdaq")


def test_longest_window_of_the_volume_ratio_depends_on_the_tier(ask: Caller) -> None:
    ask.body("/volume-oi-ratio", tier="dev", window_days=7)
    error = ask.error("/volume-oi-ratio", 403, tier="dev", window_days=8)
    assert error["required_tier"] == "pro"
    ask.body("/volume-oi-ratio", window_days=8)


@pytest.mark.parametrize("query", ["window_days=0", "window_days=366", "window_days=x", "range=2d"])
def test_ratio_returns_400_as_plain_text(ask: Caller, query: str) -> None:
    answer = ask(f"/volume-oi-ratio?{query}")
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert query.split("=")[0] in answer.text
