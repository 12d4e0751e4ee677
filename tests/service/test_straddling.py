"""Liquidation orders whose fills lie on both sides of an edge at which the service cuts its reading."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

from tests.service.conftest import Caller, serving
from tests.service.market import at
from tests.service.memory_store import MemoryStore

MIDNIGHT = "2026-06-30T00:00:00Z"


def fill(order: str, time: str, value: float, side: str = "long") -> dict[str, object]:
    return {
        "exchange": "binance",
        "order_id": order,
        "fill_id": f"{order} {time}",
        "time": at(time),
        "symbol": "BTC",
        "side": side,
        "status": "filled",
        "order_price_usd": 1.0,
        "fill_price_usd": 1.0,
        "quantity": 110.0,
        "filled_quantity": value,
        "value_usd": value,
    }


FILLS = pd.DataFrame(
    [
        fill("early", "2026-06-29 12:00", 1.0),
        fill("both", "2026-06-29 23:59:59", 100.0),
        fill("both", "2026-06-30 00:00:01", 10.0),
        fill("late", "2026-06-30 06:00", 1.0),
    ]
)


@pytest.fixture(scope="module")
def straddled() -> Iterator[Caller]:
    with serving(
        MemoryStore({"liquidations_fills": FILLS}, now="2026-06-30 12:00", label="straddled")
    ) as caller:
        yield caller


def test_an_order_counts_once_and_whole_on_the_day_of_its_last_fill(straddled: Caller) -> None:
    body = straddled.body("/liquidations/history", start="2026-06-29T00:00Z", resolution="1d")
    assert [(row["date"], row["exchanges"]["binance"]["long_usd"]) for row in body["data"]] == [
        ("2026-06-29T00:00:00Z", 1.0),
        (MIDNIGHT, 111.0),
    ]
    # An hour that ends at midnight and the hour that begins there.
    before = straddled.body("/liquidations/history", start="2026-06-29T23:00Z", end=MIDNIGHT, resolution="1h")
    after = straddled.body("/liquidations/history", start=MIDNIGHT, end="2026-06-30T01:00Z", resolution="1h")
    assert before["data"] == []
    assert [row["exchanges"]["binance"]["long_usd"] for row in after["data"]] == [110.0]
    # Six hours from 18:00 end at midnight: the first of the steps in which the answer is read.
    since = int(pd.Timestamp("2026-06-29 18:00", tz="UTC").timestamp() * 1000) - 1
    events = straddled.body("/liquidations/events", since=since)["events"]
    assert [(e["oid"], e["usd_value"], e["fill_count"]) for e in events] == [
        ("both", 110.0, 2),
        ("late", 1.0, 1),
    ]


def test_a_whole_order_beside_its_fills_is_taken_whole_whatever_their_times() -> None:
    """The store has the order whole at its first fill: it lies in that day and not again in the next."""
    whole = pd.DataFrame([fill("both", "2026-06-29 23:59:59", 110.0)]).drop(columns="fill_id")
    frames = {"liquidations_fills": FILLS, "liquidations_events": whole.assign(fill_count=2)}
    with serving(frames) as caller:
        rows = caller.body("/liquidations/history", start="2026-06-29T00:00Z", resolution="1d")["data"]
    assert [row["exchanges"]["binance"]["long_usd"] for row in rows] == [111.0, 1.0]
