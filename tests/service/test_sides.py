"""Liquidations whose side the source does not know, and steps that the answer cannot have."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

from tests.service.conftest import Caller, serving
from tests.service.memory_store import MemoryStore
from tests.service.test_straddling import fill


@pytest.fixture(scope="module")
def sided() -> Iterator[Caller]:
    """One long of 100, one short of 20, and 3 USD of an order of which no side is known."""
    orders = [
        fill("a", "2026-06-30 09:00", 100.0),
        fill("b", "2026-06-30 10:00", 20.0, "short"),
        fill("c", "2026-06-30 11:00", 3.0),
    ]
    frame = pd.DataFrame(orders)
    frame.loc[frame["order_id"] == "c", "side"] = None
    with serving(MemoryStore({"liquidations_fills": frame}, now="2026-06-30 12:00", label="sided")) as caller:
        yield caller


def test_no_side_counts_in_the_total_alone_and_is_told(sided: Caller) -> None:
    assert sided.body("/liquidations/aggregates")["totals"] == {
        "long_count": 1,
        "short_count": 1,
        "long_usd": 100.0,
        "short_usd": 20.0,
        "total_count": 3,
        "total_usd": 123.0,
    }
    body = sided.body("/liquidations/history", start="2026-06-30T00:00Z", resolution="1h")
    assert [row["date"][11:13] for row in body["data"]] == ["09", "10"]
    assert body["notices"] == ["3.00 USD of liquidations are left out: their side is not known"]
    body = sided.body(
        "/liquidations/history", start="2026-06-30T09:00Z", end="2026-06-30T10:00Z", resolution="raw"
    )
    assert body["resolution"] == "1m"
    assert body["notices"] == ["resolution=raw is not served: sums of liquidations are by 1m at the finest"]
