"""An archive whose rows are of several steps: 24 USD on 29 June as one day, then 1 USD in every hour.

Open interest is 5 on 29 June, as one day, and 7 at every hour of 30 June up to noon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from tests.service import market
from tests.service.conftest import Caller, serving
from tests.service.market import at
from tests.service.memory_store import MemoryStore

LEFT_OUT = "rows of resolution 1d were omitted: their step is longer than the buckets of 1h"
WINDOW = {"start": "2026-06-29T00:00Z", "end": "2026-06-30T06:00Z"}


def frames() -> dict[str, pd.DataFrame]:
    hours = market.every("1h", "2026-06-30 00:00", "2026-06-30 11:00")
    results = {}
    for table, column, of_day, of_hour in (
        ("volume_history", "volume_usd", 24.0, 1.0),
        ("oi_history", "oi_usd", 5.0, 7.0),
    ):
        day = market.series("BTC", "binance", [at("2026-06-29")], **{column: of_day}, resolution="1d")
        rest = market.series("BTC", "binance", hours, **{column: of_hour}, resolution="1h")
        results[table] = pd.concat([day, rest], ignore_index=True)
    return results


@pytest.fixture(scope="module")
def mixed() -> Iterator[Caller]:
    with serving(MemoryStore(frames(), now=market.NOW, label="mixed")) as caller:
        yield caller


def values(body: Any, name: str) -> list[float]:
    return [row[name] for row in body["data"]]


def test_daily_rows_are_omitted_from_hourly_requests(mixed: Caller) -> None:
    body = mixed.body("/volume/BTC/timeseries", resolution="1h", **WINDOW)
    assert (values(body, "volume_usd"), body["resolution"], body["notices"]) == ([1.0] * 6, "1h", [LEFT_OUT])
    body = mixed.body("/volume/exchange-totals", resolution="1h", **WINDOW)
    assert (values(body, "total_volume_usd"), body["resolution"]) == ([1.0] * 6, "1h")
    assert body["notices"] == [LEFT_OUT]
    held = mixed.body("/oi/exchange-totals", resolution="1h", **WINDOW)
    assert values(held, "total_open_interest_usd") == [5.0] * 24 + [7.0] * 6
    assert (held["resolution"], held["notices"]) == ("1h", [])
    for path, name in (
        ("/volume/BTC/timeseries", "volume_usd"),
        ("/volume/exchange-totals", "total_volume_usd"),
    ):
        body = mixed.body(path, resolution="1d", start="2026-06-29T00:00Z")
        assert (values(body, name), body["resolution"], body["notices"]) == ([24.0, 12.0], "1d", [])
    body = mixed.body("/volume/BTC/timeseries", resolution="1h", start="2026-06-30T00:00Z")
    assert (values(body, "volume_usd"), body["notices"]) == ([1.0] * 12, [])


@pytest.mark.parametrize("path", ["/volume/BTC/timeseries", "/volume/exchange-totals"])
def test_request_finer_than_stored_rows_returns_the_finest_step(mixed: Caller, path: str) -> None:
    """Daily and hourly rows: a request for minutes or raw rows returns hourly rows."""
    for asked in ("5m", "raw"):
        body = mixed.body(path, resolution=asked, **WINDOW)
        assert (len(body["data"]), body["resolution"], body["notices"]) == (6, "1h", [LEFT_OUT])


def test_venue_timeseries_uses_the_coarser_step_of_volume_and_oi() -> None:
    """Volume by the day next to open interest by the hour: both by the day."""
    hours = market.every("1h", "2026-06-28 00:00", "2026-06-29 23:00")
    days = market.every("1D", "2026-06-28", "2026-06-29")
    frames = {
        "volume_history": market.series("BTC", "binance", days, volume_usd=24.0, resolution="1d"),
        "oi_history": market.series("BTC", "binance", hours, oi_usd=7.0, resolution="1h"),
    }
    with serving(frames) as caller:
        body = caller.body("/markets/exchanges/binance/timeseries", start="2026-06-28", end="2026-06-30")
    assert body["resolution"] == "1d"
    assert [(row["volume_usd"], row["oi_usd"]) for row in body["data"]] == [(24.0, 7.0)] * 2
