"""Liquidated value over time and by group: BTC long 177,100, ETH short 3,040, SOL short 1,510 in a day."""

from __future__ import annotations

from tests.service.conftest import Caller, serving
from tests.service.memory_store import MemoryStore


def test_by_the_hour_under_a_day_and_for_some_symbols(ask: Caller) -> None:
    body = ask.body("/liquidations/history", start="2026-06-30T00:00Z", symbol="ETH,SOL")
    assert body["resolution"] == "1h"
    assert [row["date"][11:13] for row in body["data"]] == ["10", "11"]
    assert body["data"][0]["exchanges"] == {"hyperliquid": {"long_usd": 0.0, "short_usd": 3040.0}}
    ask.error("/liquidations/aggregates", 400, range="2h")
    ask.error("/liquidations/aggregates", 400, group_by="side")


def test_dev_sees_thirty_days_of_events_whatever_since_says(store: MemoryStore) -> None:
    """At midnight of 29 July the order of 28 June, 11:00, is older than 30 days; those of 30 June are not."""
    with serving(store, now="2026-07-29") as ask:
        for since, seen in (("0", ["a1", "a1", "b7"]), ("1782820800000", [])):
            body = ask.body("/liquidations/events", tier="dev", since=since)
            assert [event["oid"] for event in body["events"]] == seen
            assert ("notices" in body) == (since == "0")
        assert (
            "since was raised from 1970-01-01T00:00:00Z to 2026-06-29T00:00:00Z"
            in ask.body("/liquidations/events", tier="dev", since="0")["notices"][0]
        )
        everything = ask.body("/liquidations/events", tier="pro", since="0")
        assert [event["oid"] for event in everything["events"]] == ["old", "a1", "a1", "b7"]
