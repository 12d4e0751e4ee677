"""Local tables by their rows: prices and positioning at the end of each step, taker volume added up."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import NotFound
from derivdata.tables import endpoints
from tests.service import market
from tests.service.conftest import Caller
from tests.service.conftest import serving as served
from tests.transport.server import ReceivedRequest, Reply, serving

PATH = "/local/prices/history"


def points(body: Any, venue: str) -> dict[str, float]:
    return {point["timestamp"][11:16]: point["y"] for point in body["series"].get(venue, [])}


def prices(ask: Caller, **params: Any) -> Any:
    return ask.body(PATH, **{"symbol": "BTC", "start": "2026-06-30T10:00Z", "resolution": "1h", **params})


def test_price_of_a_step_is_the_newest_at_its_end(ask: Caller) -> None:
    """In (10:00, 11:00] binance was polled at 10:00:05 and at 10:59:05; before 10:00 it was not."""
    body = prices(ask, end="2026-06-30T12:00Z")
    assert (body["symbol"], body["kind"], body["unit"], body["resolution"]) == ("BTC", "mark", "usd", "1h")
    assert points(body, "binance") == {"11:00": 101.0}
    assert points(body, "hyperliquid") == {"10:00": 99.0, "11:00": 98.0}
    assert body["notices"] == []
    assert points(prices(ask), "binance") == {"11:00": 101.0, "12:00": 104.0}
    body = prices(ask, end="2026-06-30T12:00Z", resolution="5m")
    assert points(body, "binance") == {"10:05": 100.0, "11:00": 101.0, "11:05": 102.0, "11:35": 103.0}
    assert points(body, "hyperliquid") == {"10:00": 99.0, "11:00": 98.0}
    body = prices(ask, exchanges="hyperliquid", end="2026-06-30T12:00Z", resolution="5m")
    assert (body["resolution"], points(body, "hyperliquid")) == ("1h", {"10:00": 99.0, "11:00": 98.0})


def test_split_windows_join_to_the_long_window(ask: Caller) -> None:
    whole = prices(ask, end="2026-06-30T12:00Z", resolution="15m")["series"]["binance"]
    parts = [
        prices(ask, start=f"2026-06-30T{a}Z", end=f"2026-06-30T{b}Z", resolution="15m")["series"]
        for a, b in (("10:00", "10:15"), ("10:15", "11:07"), ("11:07", "12:00"))
    ]
    assert [point for part in parts for point in part.get("binance", [])] == whole
    assert len(whole) == 4


def test_price_kinds_are_separate_and_raw_rows_are_unchanged(ask: Caller) -> None:
    index = prices(ask, kind="index", resolution="raw")
    assert index["series"] == {"binance": [{"timestamp": "2026-06-30T10:59:05Z", "y": 100.5}]}
    last = prices(ask, kind="last")
    assert (last["series"], last["notices"]) == ({}, ["no data in this range"])
    assert "kind must be one of mark, index, last" in ask.error(PATH, 400, symbol="BTC", kind="mid")["error"]


FROM_TEN = {"symbol": "BTC", "start": "2026-06-30T10:00Z", "resolution": "1h"}


def test_positioning_of_an_hour_is_its_last_row(ask: Caller) -> None:
    body = ask.body("/local/positioning/history", **FROM_TEN)
    assert (body["kind"], body["unit"], body["resolution"]) == ("accounts", "ratio", "1h")
    columns = ("long_share", "short_share", "long_short_ratio")
    results = {
        venue: [(row["timestamp"][11:16], *map(row.get, columns)) for row in rows]
        for venue, rows in body["series"].items()
    }
    assert results == {
        "binance": [("11:00", 0.75, 0.25, 3.0), ("12:00", 0.8, 0.2, 4.0)],
        "hyperliquid": [("11:00", None, None, 1.5)],
    }
    top = ask.body("/local/positioning/history", **FROM_TEN, kind="top_positions")["series"]
    assert [row["long_short_ratio"] for row in top["binance"]] == [0.25]


def test_spot_prices_are_of_one_quote_currency(ask: Caller) -> None:
    for quote, venue, price in (("USDT", "binance", 99.5), ("USD", "kraken", 99.0)):
        body = ask.body("/local/prices/spot", **FROM_TEN, quote=quote)
        assert (body["quote"], body["unit"]) == (quote, "quote")
        assert {v: [row["y"] for row in rows] for v, rows in body["series"].items()} == {venue: [price]}


def test_taker_volume_is_summed_over_a_bucket(ask: Caller) -> None:
    taker = ask.body("/local/volume/taker", **FROM_TEN)
    results = {
        venue: [(row["timestamp"][11:16], row["buy_usd"], row["sell_usd"]) for row in rows]
        for venue, rows in taker["series"].items()
    }
    assert results == {
        "binance": [("10:00", 30.0, 10.0), ("11:00", 40.0, 5.0)],
        "hyperliquid": [("10:00", 7.0, 8.0)],
    }


def test_rows_with_a_longer_step_than_the_buckets_are_omitted(ask: Caller) -> None:
    """Rows of hyperliquid are hourly."""
    finer = ask.body("/local/volume/taker", **FROM_TEN | {"resolution": "30m"})
    assert [row["buy_usd"] for row in finer["series"]["binance"]] == [10.0, 20.0, 40.0]
    assert "hyperliquid" not in finer["series"]
    assert finer["notices"] == [
        "rows of resolution 1h were omitted: their step is longer than the buckets of 30m"
    ]


def test_history_of_dated_futures_has_one_row_per_contract(ask: Caller) -> None:
    dated = ask.body("/local/futures/history", **FROM_TEN)["series"]
    results = [
        (row["timestamp"][11:16], row["instrument_name"], row["price_usd"]) for row in dated["deribit"]
    ]
    assert sorted(results) == [("11:00", "BTC-25SEP26", 103.0), ("11:00", "BTC-30JUN26", 100.5)]
    assert dated["okx"][0]["index_price_usd"] is None


def test_single_rows_are_served_unchanged_up_to_the_clock(ask: Caller) -> None:
    body = ask.body("/local/options/trades", symbol="BTC", start="2026-06-30T10:00Z")
    assert {venue: [row["trade_id"] for row in rows] for venue, rows in body["series"].items()} == {
        "bybit": ["1"],
        "deribit": ["1"],
    }
    (block,) = body["series"]["deribit"]
    assert (block["execution"], block["price_coin"], block["price_usd"]) == ("block", 0.05, None)
    assert "resolution" not in body
    delivered = ask.body("/local/delivery/prices", symbol="BTC", start="2026-06-29T12:00Z")["series"]
    assert [row["price_usd"] for row in delivered["deribit"]] == [99.25]
    asked = {"symbol": "BTC", "start": "2026-06-30T10:00Z", "resolution": "1h"}
    index = ask.body("/local/volatility/index_published", **asked)["series"]["deribit"]
    assert [(row["timestamp"][11:16], row["index_pct"]) for row in index] == [("11:00", 48.5)]


def test_dev_tier_is_limited_to_30_days_and_openapi_marks_local_paths(ask: Caller) -> None:
    body = ask.body(PATH, tier="dev", symbol="BTC", start="2026-01-01", resolution="1h")
    assert "Dev covers the rolling 30 days" in body["notices"][0]
    document = ask.body("/openapi.json")
    ours = [
        p
        for p, item in document["paths"].items()
        if "Not part of the API document" in item["get"]["description"]
    ]
    assert ours == [e.path for e in endpoints.ENDPOINTS if e.local]
    assert document["paths"][PATH]["get"]["tags"] == ["local"]


def test_tiny_prices_keep_their_digits_and_missing_prices_return_404() -> None:
    """Means are rounded to cents; a price of 8e-6 would become nothing."""
    time = [market.at("2026-06-30 10:10"), market.at("2026-06-30 10:50")]
    rows = market.series("PEPE", "okx", time, price_usd=[7.5e-6, 8.25e-6], kind="mark", resolution="raw")
    with served({"prices_history": rows}) as ask:
        body = ask.body(PATH, symbol="PEPE", start="2026-06-30T10:00Z", resolution="1h")
    assert body["series"] == {"okx": [{"timestamp": "2026-06-30T11:00:00Z", "y": 8.25e-6}]}
    with served({"oi_history": market.open_interest()}) as ask:
        assert "does not have prices_history" in ask.error(PATH, 404, symbol="BTC")["error"]


@pytest.mark.parametrize("status", [403, 404])
def test_service_without_prices_raises_an_error_that_names_sources_with_prices(status: int) -> None:
    """Another service returns nothing useful for the path: the error names the sources with prices."""

    def hosted(request: ReceivedRequest) -> Reply:
        return Reply(b'{"error": "not found"}', status, date=pd.Timestamp("2026-06-30T12:00", tz="UTC"))

    with serving(hosted) as server:
        dd.connect(server.url, api_key="a-key")
        with pytest.raises(NotFound, match=r"the sample, archives and venues do.*dd\.connect\('venues'\)"):
            dd.prices.history("BTC", "2026-06-01", "2026-06-02")
        dd.disconnect()
