"""Liquidation responses name the venue and time requested: no rows and not requested differ."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata import tables
from derivdata.errors import DataNotice
from derivdata.sources.archive import open_archive
from derivdata.sources.archive.ledger import LedgerEntry
from tests.service.market import fill

NOW = pd.Timestamp("2026-03-02T12:00:00", tz="UTC").as_unit("us")
HOUR = pd.Timedelta(1, "h")
FILLS = tables.TABLES["liquidations_fills"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Bybit was streamed all day, okx for six hours, gateio requested for BTC only, binance only polled."""
    archive = open_archive(tmp_path / "market")
    fills = [("bybit", "1", 20.0), ("bybit", "2", 3.0), ("okx", "3", 1.5)]
    rows = [fill(number, NOW - hours * HOUR, 50.0, exchange=venue) for venue, number, hours in fills]
    entries = [
        LedgerEntry("bybit", None, NOW - 30 * HOUR, NOW),
        LedgerEntry("okx", None, NOW - 6 * HOUR, NOW - 4 * HOUR),
        LedgerEntry("okx", None, NOW - 4 * HOUR, NOW),
        LedgerEntry("okx", None, NOW - 9 * HOUR, NOW - 8 * HOUR, "HTTP 503"),
        LedgerEntry("gateio", "BTC", NOW - 24 * HOUR, NOW),
    ]
    archive.merge("liquidations_fills", FILLS.conform(pd.DataFrame(rows)), requests=entries)
    state = tables.TABLES["funding_history"]
    archive.append(
        "funding_history", state.empty(), requests=[LedgerEntry("binance", None, NOW - 24 * HOUR, NOW)]
    )
    yield tmp_path / "market"
    dd.disconnect()


def noticed(call: Any, *args: Any, **options: Any) -> tuple[pd.DataFrame, list[str]]:
    """Return the result and its notices, except those about made-up prices of 1 USD."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        frame = call(*args, **options)
    return frame, [str(notice.message) for notice in caught if "since 2021" not in str(notice.message)]


def _span(first: float, last: float) -> list[str]:
    return [f"{NOW - first * HOUR:%Y-%m-%dT%H:%M:%S}Z", f"{NOW - last * HOUR:%Y-%m-%dT%H:%M:%S}Z"]


def _plain(spans: Any) -> Any:
    return [[f"{pd.Timestamp(at):%Y-%m-%dT%H:%M:%S}Z" for at in span] for span in spans]


def test_liquidation_events_state_requested_spans_by_venue(folder: Path) -> None:
    dd.connect(str(folder), now=NOW)
    orders, notices = noticed(dd.liquidations.events, since=NOW - 24 * HOUR)
    assert len(orders) == 3
    coverage = dd.provenance(orders)["coverage"]
    asked = {name: _plain(spans) for name, spans in coverage["asked"].items()}
    assert asked == {
        "binance": [],
        "bybit": [_span(24, 0)],
        "gateio": [],
        "okx": [_span(6, 0)],
    }
    assert _plain(coverage["observed"]) == [_span(6, 0)], "when all of them were"
    assert coverage["missed"] == []
    (said,) = [text for text in notices if "were requested or streamed" in text]
    assert "for part of the window: okx 25%; for some symbols: gateio (BTC); not at all: binance" in said
    assert said.endswith("(an empty result does not mean that there were none)")
    assert any("were requested or streamed" in text for text in dd.provenance(orders)["notices"])


def test_coverage_is_limited_to_the_requested_venues(folder: Path) -> None:
    dd.connect(str(folder), now=NOW)
    orders, notices = noticed(dd.liquidations.events, since=NOW - 24 * HOUR, venues="bybit")
    assert len(orders) == 2
    assert notices == []
    assert set(dd.provenance(orders)["coverage"]["asked"]) == {"bybit"}


def test_symbol_that_was_not_requested_has_a_notice(folder: Path) -> None:
    """Liquidations of gateio were requested for BTC only, and there were none."""
    dd.connect(str(folder), now=NOW)
    orders, notices = noticed(dd.liquidations.events, since=NOW - 2 * HOUR, venues="gateio", symbols="ETH")
    assert orders.empty
    assert "not at all: gateio" in notices[0]
    orders, notices = noticed(dd.liquidations.events, since=NOW - 2 * HOUR, venues="gateio", symbols="BTC")
    assert orders.empty
    assert notices == []


def test_coverage_of_several_symbols_is_their_intersection(folder: Path) -> None:
    archive = open_archive(folder)
    more = [
        LedgerEntry("gateio", "ETH", NOW - 18 * HOUR, NOW - 12 * HOUR),
        LedgerEntry("gateio", None, NOW - HOUR, NOW),
    ]
    archive.merge("liquidations_fills", FILLS.empty(), requests=more)
    dd.connect(str(folder), now=NOW)
    given: dict[str, Any] = {"since": NOW - 24 * HOUR, "venues": "gateio"}
    for symbols, spans, part in (
        (["BTC"], [_span(24, 0)], None),
        (["BTC", "ETH"], [_span(18, 12), _span(1, 0)], "29%"),
        (["BTC", "SOL"], [_span(1, 0)], "4%"),
        (None, [_span(1, 0)], "4%"),
    ):
        rows, notices = noticed(dd.liquidations.events, symbols=symbols, **given)
        assert _plain(dd.provenance(rows)["coverage"]["asked"]["gateio"]) == spans
        messages = [text for text in notices if "were requested or streamed" in text]
        assert len(messages) == (part is not None)
        assert all(f"for part of the window: gateio {part} (" in text for text in messages)


def test_liquidation_sums_state_requested_spans(folder: Path) -> None:
    dd.connect(str(folder), now=NOW)
    _, notices = noticed(dd.liquidations.history, None, NOW - 48 * HOUR, NOW, resolution="1h")
    assert any("bybit 62%, okx 12%; for some symbols: gateio (BTC); not" in text for text in notices), notices
    _, notices = noticed(dd.liquidations.aggregates, "6h")
    assert any("okx 50%; for some symbols: gateio (BTC); not at all: binance (" in text for text in notices)


def test_archive_without_a_ledger_states_no_coverage(tmp_path: Path) -> None:
    archive = open_archive(tmp_path / "own")
    archive.append(
        "liquidations_fills", FILLS.conform(pd.DataFrame([fill("1", NOW - HOUR, 50.0, exchange="bybit")]))
    )
    dd.connect(str(tmp_path / "own"), now=NOW)
    orders, notices = noticed(dd.liquidations.events, since=NOW - 24 * HOUR)
    assert notices == []
    assert set(dd.provenance(orders)["coverage"]) == {"observed", "missed"}
    assert _plain(dd.provenance(orders)["coverage"]["observed"]) == [_span(24, 0)]
    dd.disconnect()
