"""Liquidated value over time and by group, orders with fills on both sides of an edge, and unknown sides.

The hand-written market has BTC long 177,100, ETH short 3,040, SOL short 1,510 in a day.
"""

from __future__ import annotations

import pandas as pd

from tests.service.conftest import Caller, serving
from tests.service.market import fill
from tests.service.memory_store import MemoryStore

MIDNIGHT = "2026-06-30T00:00:00Z"


FILLS = pd.DataFrame(
    [
        fill("early", "2026-06-29 12:00", 1.0),
        fill("both", "2026-06-29 23:59:59", 100.0),
        fill("both", "2026-06-30 00:00:01", 10.0),
        fill("late", "2026-06-30 06:00", 1.0),
    ]
)


def test_liquidation_history_is_hourly_for_short_windows_and_chosen_symbols(ask: Caller) -> None:
    body = ask.body("/liquidations/history", start="2026-06-30T00:00Z", symbol="ETH,SOL")
    assert body["resolution"] == "1h"
    assert [row["date"][11:13] for row in body["data"]] == ["10", "11"]
    assert body["data"][0]["exchanges"] == {"hyperliquid": {"long_usd": 0.0, "short_usd": 3040.0}}
    ask.error("/liquidations/aggregates", 400, range="2h")
    ask.error("/liquidations/aggregates", 400, group_by="side")


def test_dev_tier_is_limited_to_30_days_of_events(store: MemoryStore) -> None:
    """On 29 July, 30 days reach back to 29 June.

    The order ``old`` is of 28 June, the orders ``a1`` (of two venues) and ``b7`` are of 30 June, 09:00 to
    11:00.
    """
    with serving(store, now="2026-07-29") as ask:
        from_start = ask.body("/liquidations/events", tier="dev", since="0")
        assert [event["oid"] for event in from_start["events"]] == ["a1", "a1", "b7"]
        raised = "since was raised from 1970-01-01T00:00:00Z to 2026-06-29T00:00:00Z"
        assert raised in from_start["notices"][0]
        after_orders = ask.body("/liquidations/events", tier="dev", since="1782820800000")  # 30 June, 12:00
        assert after_orders["events"] == []
        assert "notices" not in after_orders
        everything = ask.body("/liquidations/events", tier="pro", since="0")
        assert [event["oid"] for event in everything["events"]] == ["old", "a1", "a1", "b7"]


def test_order_counts_once_on_the_day_of_its_last_fill() -> None:
    with serving({"liquidations_fills": FILLS}) as straddled:
        body = straddled.body("/liquidations/history", start="2026-06-29T00:00Z", resolution="1d")
        assert [(row["date"], row["exchanges"]["binance"]["long_usd"]) for row in body["data"]] == [
            ("2026-06-29T00:00:00Z", 1.0),
            (MIDNIGHT, 111.0),
        ]
        # An hour that ends at midnight and the hour that begins there.
        before = straddled.body(
            "/liquidations/history", start="2026-06-29T23:00Z", end=MIDNIGHT, resolution="1h"
        )
        after = straddled.body(
            "/liquidations/history", start=MIDNIGHT, end="2026-06-30T01:00Z", resolution="1h"
        )
        assert before["data"] == []
        assert [row["exchanges"]["binance"]["long_usd"] for row in after["data"]] == [110.0]
        # Six hours from 18:00 end at midnight: the first of the steps in which the response is read.
        since = int(pd.Timestamp("2026-06-29 18:00", tz="UTC").timestamp() * 1000) - 1
        events = straddled.body("/liquidations/events", since=since)["events"]
        assert [(e["oid"], e["usd_value"], e["fill_count"]) for e in events] == [
            ("both", 110.0, 2),
            ("late", 1.0, 1),
        ]


def test_order_row_replaces_its_fills_at_any_times() -> None:
    """The store has the complete order at its first fill: it is in that day and not in the next."""
    whole = pd.DataFrame([fill("both", "2026-06-29 23:59:59", 110.0)]).drop(columns="fill_id")
    frames = {"liquidations_fills": FILLS, "liquidations_events": whole.assign(fill_count=2)}
    with serving(frames) as caller:
        rows = caller.body("/liquidations/history", start="2026-06-29T00:00Z", resolution="1d")["data"]
    assert [row["exchanges"]["binance"]["long_usd"] for row in rows] == [111.0, 1.0]


def test_orders_of_unknown_side_count_only_in_the_total_with_a_notice() -> None:
    """One long of 100, one short of 20, and 3 USD of an order of unknown side.

    The side of an order is the first known one, and a fill without a value adds nothing.
    """
    orders = [("a", "08:59", float("nan"), None), ("a", "09:00", 100.0, "long"), ("a", "09:01", 0.0, "short")]
    orders += [("b", "10:00", 20.0, "short"), ("c", "11:00", 3.0, None)]
    frame = pd.DataFrame([fill(name, f"2026-06-30 {time}", *rest) for name, time, *rest in orders])
    with serving({"liquidations_fills": frame}) as sided:
        assert sided.body("/liquidations/aggregates")["totals"] == {
            "long_count": 1,
            "short_count": 1,
            "long_usd": 100.0,
            "short_usd": 20.0,
            "total_count": 3,
            "total_usd": 123.0,
        }
        body = sided.body("/liquidations/history", start="2026-06-30T00:00Z", resolution="1h")
        assert [(row["date"][11:13], *row["exchanges"]["binance"].values()) for row in body["data"]] == [
            ("09", 100.0, 0.0),
            ("10", 0.0, 20.0),
        ]
        assert body["notices"] == ["liquidations without a side were omitted (3.00 USD)"]
        body = sided.body(
            "/liquidations/history", start="2026-06-30T09:00Z", end="2026-06-30T10:00Z", resolution="raw"
        )
        assert body["resolution"] == "1m"
        assert body["notices"] == [
            "resolution=raw is not available: the finest step of liquidation sums is 1m"
        ]


def _sums(venue: str, *rows: tuple[str, float, float]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["time", "long_usd", "short_usd"])
    stamps = pd.to_datetime(frame["time"], utc=True)
    return frame.assign(time=stamps, symbol="BTC", exchange=venue, resolution="raw")


def test_stored_sums_are_served_if_the_store_has_no_orders() -> None:
    """Two hours of okx add up to 14 and 6; binance has orders, so that its sums are not counted twice."""
    hours = _sums(
        "okx", ("2026-06-30T00:00", 10.0, 1.0), ("2026-06-30T01:00", 4.0, 5.0), ("2026-06-29T23:00", 7.0, 7.0)
    )
    alone = {"liquidations_history": hours}
    with serving(alone, now="2026-06-30T12:00Z") as ask:
        window = {"start": MIDNIGHT, "end": "2026-06-30T12:00Z"}
        body = ask.body("/liquidations/history", **window, resolution="1h")
        assert [row["exchanges"]["okx"] for row in body["data"]] == [
            {"long_usd": 10.0, "short_usd": 1.0},
            {"long_usd": 4.0, "short_usd": 5.0},
        ]
        (day,) = ask.body("/liquidations/history", **window, resolution="12h")["data"]
        assert day["exchanges"] == {"okx": {"long_usd": 14.0, "short_usd": 6.0}}
        assert not ask.body("/liquidations/history", **window, symbol="ETH")["data"]
        ask.error("/liquidations/events", 404)
    both = pd.concat([hours, _sums("binance", ("2026-06-30T00:00", 99.0, 99.0))], ignore_index=True)
    with serving({"liquidations_history": both, "liquidations_fills": FILLS}, now="2026-06-30T12:00Z") as ask:
        body = ask.body("/liquidations/history", start=MIDNIGHT, end="2026-06-30T12:00Z", resolution="12h")
        (day,) = body["data"]
        assert day["exchanges"]["okx"] == {"long_usd": 14.0, "short_usd": 6.0}
        assert day["exchanges"]["binance"]["long_usd"] == 111.0


def test_daily_sums_are_not_served_as_hourly_sums() -> None:
    days = _sums("okx", ("2026-06-28", 10.0, 1.0), ("2026-06-29", 4.0, 5.0))
    with serving({"liquidations_history": days}, now="2026-06-30T12:00Z") as ask:
        body = ask.body("/liquidations/history", start="2026-06-28T00:00Z", end=MIDNIGHT, resolution="1h")
        assert body["resolution"] == "1d"
        assert [row["date"] for row in body["data"]] == ["2026-06-28T00:00:00Z", "2026-06-29T00:00:00Z"]
        assert "have a step of 1d: resolution=1d is used" in body["notices"][0]
