"""A response without rows says whether any venue was requested for its window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata import tables
from derivdata.sources.archive import open_archive
from derivdata.sources.archive.ledger import LedgerEntry
from tests.service.test_liquidation_coverage import noticed

NOW = pd.Timestamp("2026-03-02T12:00:00", tz="UTC").as_unit("us")
DAY = pd.Timedelta(1, "D")
SYMBOLS = ("BTC", "ETH", "SOL")
VALUES: dict[str, dict[str, Any]] = {
    "funding_settlements": {"rate_bps_8h": 1.0, "interval_hours": 8.0, "kind": "settled"},
    "funding_history": {"rate_bps_8h": 1.0, "resolution": "raw", "kind": "sampled"},
    "oi_history": {"oi_usd": 1e6, "resolution": "raw"},
    "prices_history": {"price_usd": 5e4, "resolution": "raw", "kind": "mark"},
}


@pytest.fixture
def market(tmp_path: Path) -> Iterator[None]:
    """Store rows of a month ago of three symbols; in the last day bybit returned ETH, okx failed on SOL."""
    archive = open_archive(tmp_path / "market")
    for name, values in VALUES.items():
        rows = [{"symbol": s, "exchange": "bybit", "time": NOW - 30 * DAY, **values} for s in SYMBOLS]
        entries = [LedgerEntry("bybit", s, NOW - 31 * DAY, NOW - 29 * DAY) for s in SYMBOLS]
        entries += [
            LedgerEntry("bybit", "ETH", NOW - DAY, NOW),
            LedgerEntry("okx", "SOL", NOW - DAY, NOW, "HTTP 503"),
        ]
        archive.merge(name, tables.TABLES[name].conform(pd.DataFrame(rows)), requests=entries)
    dd.connect(str(tmp_path / "market"), now=NOW)
    yield
    dd.disconnect()


@pytest.mark.parametrize(
    ("call", "table"),
    [
        ("funding.settlements", "funding_settlements"),
        ("funding.history", "funding_history"),
        ("oi.history", "oi_history"),
        ("prices.history", "prices_history"),
    ],
)
def test_empty_response_says_that_the_range_was_never_requested(market: None, call: str, table: str) -> None:
    family, _, name = call.partition(".")
    said = {}
    for symbol in SYMBOLS:
        rows, notices = noticed(getattr(getattr(dd, family), name), symbol, NOW - DAY, NOW)
        assert rows.empty
        said[symbol] = [text for text in notices if "requested" in text]
    assert said["ETH"] == [], "bybit was asked, and has none"
    assert len(said["BTC"]) == len(said["SOL"]) == 1
    assert f"{table} of BTC in this range was never requested from any venue" in said["BTC"][0]
    assert f"{table} of SOL in this range was requested from okx without a response" in said["SOL"][0]
