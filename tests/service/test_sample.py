"""The service over the sample: figures agree across endpoints, and the clock hides what comes after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from tests.service.conftest import Caller, serving

CENTS = 0.02


@pytest.fixture(scope="module")
def live() -> Iterator[Caller]:
    with serving("sample") as caller:
        yield caller


@pytest.fixture(scope="module")
def board(live: Caller) -> dict[str, Any]:
    rows = live.body("/markets/symbols")["symbols"]
    return {row["symbol"]: row for row in rows}


@pytest.fixture(scope="module")
def summary(live: Caller) -> Any:
    return live.body("/oi/exchanges-summary")


def last(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["timestamp"] == rows[-1]["timestamp"]]


def total(rows: list[dict[str, Any]], name: str) -> float:
    return sum(row[name] for row in rows if row[name] is not None)


def test_it_is_labelled_and_dev_sees_the_first_two_hundred(live: Caller, board: dict[str, Any]) -> None:
    headers = live("/").headers
    assert headers["X-Derivdata-Synthetic"] == "1"
    assert headers["X-Derivdata-Source"] == "sample"
    rows = live.body("/markets/symbols", tier="dev")["symbols"]
    assert len(board) >= 400
    assert rows == list(board.values())[:200]


@pytest.mark.parametrize("symbol", ["BTC", "ETH", "DOGE", "TSLA"])
def test_the_snapshot_is_the_last_point_of_the_history(live: Caller, symbol: str) -> None:
    rates = live.body("/funding")["funding_rates"]
    now = {venue: found[symbol] for venue, found in rates.items() if symbol in found}
    start = "2026-06-30T11:00:01Z"
    series = live.body("/funding/historical", symbol=symbol, start=start, resolution="raw")["series"]
    assert now == {venue: points[-1]["y"] for venue, points in series.items()}
    assert len(now) > 5


def test_rates_are_those_of_the_venues_interval_and_leaders_the_highest(live: Caller) -> None:
    body = live.body("/funding")
    for venue, hours in body["funding_intervals"].items():
        for symbol, interval in hours.items():
            raw = float(body["funding_rates_raw"][venue][symbol])
            assert raw * 1e4 * 8 / interval == pytest.approx(body["funding_rates"][venue][symbol], abs=1e-9)
    rates = live.body("/funding")["funding_rates"]
    every = sorted((rate for found in rates.values() for rate in found.values()), reverse=True)
    leaders = live.body("/markets/funding-leaders")["data"]
    assert [row["funding_current_bps"] for row in leaders] == every[:10]


def test_open_interest_adds_up(live: Caller, board: dict[str, Any], summary: Any) -> None:
    rows = summary["exchanges"]
    assert summary["total"] == len(rows) == 43
    assert total(rows, "market_share") == pytest.approx(1.0, abs=1e-12)
    assert total(rows, "total_oi_usd") == pytest.approx(summary["total_market_oi"], abs=1.0)
    assert total([*board.values()], "oi_usd") == pytest.approx(summary["total_market_oi"], abs=10.0)
    assert [r["total_oi_usd"] for r in rows] == sorted((r["total_oi_usd"] for r in rows), reverse=True)
    assert all(r["sparkline_7d"][-1] == pytest.approx(r["total_oi_usd"], abs=CENTS) for r in rows)
    found = live.body("/markets/exchanges/all")["exchanges"]
    assert {r["exchange"]: r["oi_usd"] for r in found} == pytest.approx(
        {r["exchange"]: r["total_oi_usd"] for r in rows}, abs=1.0
    )
    rows = last(live.body("/oi/exchange-totals", start="2026-06-30T10:00Z", resolution="1h")["data"])
    assert {r["exchange"]: r["total_open_interest_usd"] for r in rows} == pytest.approx(
        {r["exchange"]: r["total_oi_usd"] for r in summary["exchanges"]}, abs=10.0
    )
    rows = live.body("/markets/BTC/exchanges")["exchanges"]
    for name in ("oi_usd", "volume_24h_usd", "liquidation_24h_usd"):
        assert total(rows, name) == pytest.approx(board["BTC"][name], abs=1.0)
    history = live.body("/oi/BTC/timeseries", range="1d")["data"]
    assert total(last(history), "open_interest_usd") == pytest.approx(board["BTC"]["oi_usd"], abs=1.0)
    volume = live.body("/volume/BTC/timeseries", range="1d")["data"]
    assert total(volume, "volume_usd") == pytest.approx(board["BTC"]["volume_24h_usd"], abs=10.0)
    assert max(r["funding_current_bps"] for r in rows) == board["BTC"]["top_funding_bps"]


def test_liquidations_agree(live: Caller, board: dict[str, Any]) -> None:
    totals = live.body("/liquidations/aggregates")
    events = live.body("/liquidations/events", limit=100_000)
    assert events["count"] == totals["totals"]["total_count"]
    assert total(events["events"], "usd_value") == pytest.approx(totals["totals"]["total_usd"], abs=1.0)
    assert total(totals["groups"], "total_usd") == pytest.approx(totals["totals"]["total_usd"], abs=1.0)
    for group in totals["groups"][:20]:
        figure = board[group["name"]]["liquidation_24h_usd"]
        assert group["total_usd"] == pytest.approx(figure, abs=1.0)
    days = live.body("/liquidations/history", range="1d", resolution="1h")["data"]
    sums = [v for day in days for side in day["exchanges"].values() for v in side.values()]
    assert sum(sums) == pytest.approx(totals["totals"]["total_usd"], abs=10.0)
    assert any(event["fill_count"] > 1 for event in events["events"])


def test_polling_since_finds_every_event_once(live: Caller) -> None:
    """Half a day in pages of 500, each from the last event of the one before."""
    since, seen = 1_782_777_600_000, []
    while True:
        page = live.body("/liquidations/events", since=since, limit=500)["events"]
        fresh = [(e["exchange"], e["oid"]) for e in page if (e["exchange"], e["oid"]) not in seen]
        if not fresh:
            break
        seen += fresh
        since = _millis(page[-1]["timestamp"]) - 1
    everything = live.body("/liquidations/events", since=1_782_777_600_000, limit=100_000)["events"]
    assert seen == [(e["exchange"], e["oid"]) for e in everything]
    assert len(seen) > 1000


def _millis(text: str) -> int:
    return pd.Timestamp(text).value // 10**6


@pytest.mark.parametrize("pair", [("BTC", "deribit"), ("SOL", "bybit")])
def test_options_agree(live: Caller, pair: tuple[str, str]) -> None:
    symbol, exchange = pair
    chain = live.body("/options/snapshot", symbol=symbol, exchange=exchange)["instruments"]
    notional = sum(o["open_interest"] * o["underlying_price"] for o in chain)
    rows = live.body("/options/overview-history", range="1d")["data"]
    own = [r for r in rows if (r["symbol"], r["exchange"]) == pair]
    assert own[-1]["notional_oi_usd"] == pytest.approx(notional, rel=1e-9)
    metrics = live.body("/options/metrics", symbol=symbol, exchange=exchange)["data"]
    history = live.body("/options/atm-history", symbol=symbol, exchange=exchange, range="1d")["data"]
    newest = {r["expiry"]: r["iv"] for r in history if r["hour"] == "2026-06-30T12:00:00Z"}
    assert {r["expiry"]: r["atm_iv"] for r in metrics} == newest
    ago = {r["expiry"]: r["iv"] for r in history if r["hour"] == "2026-06-29T12:00:00Z"}
    assert all(r["atm_iv_24h_ago"] == ago.get(r["expiry"]) for r in metrics)
    surfaces = live.body("/options/surface-history", symbol=symbol, exchange=exchange, range="1d")
    assert surfaces["hours"][-1] == "2026-06-30T12:00:00Z"
    assert len(surfaces["snapshots"][surfaces["hours"][-1]]) == len(chain)


def test_depth_is_the_sum_of_the_book(live: Caller) -> None:
    pair = {"symbol": "BTC", "exchange": "binance"}
    book = live.body("/orderbook/book", **pair)
    depth = live.body("/orderbook/depth-history", start="2026-06-30T11:00Z", **pair)["data"][-1]
    middle = (book["bids"][0][0] + book["asks"][0][0]) / 2
    for side in ("bid", "ask"):
        for bps in (10, 25, 50, 100):
            near = [p * s for p, s in book[f"{side}s"] if abs(p / middle - 1) * 1e4 <= bps]
            assert depth[f"{side}_depth_{bps}bps_usd"] == pytest.approx(sum(near), abs=1.0)


@pytest.mark.parametrize("span", ["1d", "7d", "30d"])
def test_hip3_agrees(live: Caller, span: str) -> None:
    board = live.body("/hip3-analytics/dashboard", range=span)
    volume = board["summary"]["volume"]
    parts = {
        "by-dex": total(board["by_dex"], "volume"),
        "by-symbol": total(live.body("/hip3-analytics/by-symbol", range=span)["data"], "volume_usd"),
        "timeseries": total(board["timeseries"], "volume_usd"),
        "traders": total(live.body("/hip3-analytics/leaderboard", range=span, limit=9999)["data"], "volume"),
    }
    assert parts == pytest.approx(dict.fromkeys(parts, volume), abs=1.0)
    trend = live.body("/hip3-analytics/oi-trends/total", range=span)
    ends = [rows[-1]["oi_usd"] for rows in trend["by_dex"].values()]
    assert sum(ends) == pytest.approx(trend["data"][-1]["oi_usd"], abs=1.0)
    detail = live.body("/hip3-analytics/dex-detail", dex="xyz", range=span)
    xyz = next(row for row in board["by_dex"] if row["dex_name"] == "xyz")
    assert detail["summary"]["volume"] == xyz["volume"]


def test_hip4_and_builders_agree(live: Caller) -> None:
    both, out, skew = (
        live.body("/hip4-analytics/dashboard", **venue) for venue in ({}, {"venue": "out"}, {"venue": "skew"})
    )
    assert out["summary"]["volume"] + skew["summary"]["volume"] == pytest.approx(both["summary"]["volume"])
    assert total(both["by_outcome"], "volume") == pytest.approx(both["summary"]["volume"])
    one = live.body("/hip4-analytics/outcome/101")["summary"]["volume"]
    assert one == next(r["volume"] for r in both["by_outcome"] if r["outcome_id"] == "101")
    builders = live.body("/builder-analytics/dashboard", range="30d")
    for rows in ("by_builder", "timeseries"):
        assert total(builders[rows], "volume_usd") == pytest.approx(builders["total_volume_usd"], abs=1.0)


def test_an_earlier_clock_sees_the_same_past_and_nothing_later(live: Caller) -> None:
    with serving("sample", now="2026-03-01T12:00Z") as then:
        window = {"symbol": "BTC", "start": "2026-02-28T12:00Z", "end": "2026-03-01T12:00Z"}
        assert then("/").headers["Date"] == "Sun, 01 Mar 2026 12:00:00 GMT"
        for resolution in ("raw", "1h"):
            asked = window | {"resolution": resolution}
            assert (
                then("/funding/historical", **asked).content == live("/funding/historical", **asked).content
            )
        later = then.body("/funding/historical", symbol="BTC", start="2026-03-01T12:00Z", end="2026-03-09")
        assert {p["t"] for points in later["series"].values() for p in points} <= {"2026-03-01T12:00:00Z"}
        asked = {"since": 1_772_359_200_000, "limit": 100_000}
        assert (
            max(e["timestamp"] for e in then.body("/liquidations/events", **asked)["events"])
            < "2026-03-01T12:00:01"
        )


def test_stocks_have_hours(live: Caller) -> None:
    """At 12:00 UTC on a Tuesday in June: New York is in its pre-market, Tokyo has closed."""
    found = {e["mic"]: e for e in live.body("/rwa/market-hours")["exchanges"]}
    assert found["XNYS"]["is_tradable"] is True
    assert found["XTKS"]["is_tradable"] is False
    assert found["XTKS"]["next_session"]["start"] == "2026-07-01T00:00:00Z"
    assert [h["start"] for h in found["XNYS"]["holidays"]] == ["2026-07-03T04:00:00Z"]
