"""Status of an archive: holes are what lies between polls beyond the usual."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from derivdata import tables
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry, LedgerFile
from derivdata.sources.collect.bulk import Poll
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.reporting import late, status
from derivdata.sources.service import status_page
from tests.collect.clocks import SimulatedClock

MINUTE = pd.Timedelta(1, "min")
_FILE = LedgerFile("a.zip", "0" * 64, 9, "2026-03-02")
FIRST = pd.Timestamp("2026-03-02T08:00:00", tz="UTC").as_unit("us")


@pytest.mark.parametrize(("table", "minutes", "holes"), [
    ("options_snapshot", range(0, 60, 5), 0),
    ("options_snapshot", [0, 5, 15, 20], 1),
    ("funding_history", range(60), 0),
    ("funding_history", [0, 1, 3, 4, 9], 2),
])  # fmt: skip
def test_a_hole_is_longer_than_from_one_poll_to_the_next(archive, table, minutes, holes) -> None:
    """Deribit's chain comes every five minutes, its rates every minute; a poll's window is of one minute."""
    starts = [FIRST + pd.Timedelta(minute, "min") for minute in minutes]
    asked = [LedgerEntry("deribit", None, at, at + pd.Timedelta(1, "min")) for at in starts]
    archive.append(table, tables.TABLES[table].empty(), requests=asked)
    found = status(archive, FIRST + pd.Timedelta(1, "h"))
    assert found[["exchange", "table", "holes"]].to_numpy().tolist() == [["deribit", table, holes]]


@pytest.mark.parametrize(
    ("polled", "spans", "holes"),
    [
        (range(0, 60, 5), [(0, 60)], 0),
        ([0, 5, 20, 25], [(0, 10), (20, 30)], 1),  # 10 and 15 are lacking
    ],
)
def test_a_poll_stands_for_the_time_until_the_next_so_that_the_ledger_does_not_grow(
    archive, monkeypatch, polled, spans, holes
) -> None:
    """Chains of five minutes, entered by the collector, after older windows of a minute."""
    clock = SimulatedClock("2026-03-02T08:00:05")
    collector = Collector(
        archive, venues=["deribit"], symbols=(), clock=clock, addresses={"deribit": "http://x"}
    )
    before = [FIRST - pd.Timedelta(m, "min") for m in (15, 10, 5)]
    old = [LedgerEntry("deribit", None, at, at + pd.Timedelta(1, "min")) for at in before]
    archive.append("options_snapshot", tables.TABLES["options_snapshot"].empty(), requests=old)
    for minute in polled:
        at = FIRST + pd.Timedelta(minute, "min") + pd.Timedelta(5, "s")
        empty = {"options_snapshot": tables.TABLES["options_snapshot"].empty()}
        collector._write([Poll("deribit", at, frames=empty)])
    asked = archive.requests()
    new = asked[asked["start"] >= FIRST]
    minutes = [((w.start - FIRST) / MINUTE, (w.end - FIRST) / MINUTE) for w in new.itertuples()]
    assert minutes == spans
    found = status(archive, FIRST + pd.Timedelta(1, "h"))
    assert found["holes"].tolist() == [holes]
    gaps = archive.unanswered("options_snapshot", "deribit", None, FIRST, FIRST + pd.Timedelta(30, "min"))
    assert len(gaps) == holes


def test_an_outage_is_one_window_of_the_ledger_until_it_is_answered(archive: Archive) -> None:
    empty = tables.TABLES["funding_history"].empty()
    for minute in range(6):
        at = FIRST + minute * MINUTE
        why = f"not asked: left alone for another {60 - minute} s" if minute != 3 else "HTTP 503"
        archive.merge("funding_history", empty, requests=[LedgerEntry("okx", None, at, at + MINUTE, why)])
    failed = archive.requests()
    spans = [((w.start - FIRST) / MINUTE, (w.end - FIRST) / MINUTE, w.error) for w in failed.itertuples()]
    assert spans == [
        (0, 3, "not asked: left alone for another 58 s"),
        (3, 4, "HTTP 503"),
        (4, 6, "not asked: left alone for another 55 s"),
    ]
    archive.merge("funding_history", empty, requests=[LedgerEntry("okx", None, FIRST, FIRST + 6 * MINUTE)])
    assert archive.requests()["answered"].tolist() == [True]


def test_a_venue_that_was_dropped_on_purpose_is_not_late_and_a_dead_collector_is(archive: Archive) -> None:
    empty, hours = tables.TABLES["funding_history"].empty(), [FIRST + pd.Timedelta(h, "h") for h in range(4)]
    for exchange, end in (("okx", hours[1]), ("bybit", hours[3])):
        archive.merge("funding_history", empty, requests=[LedgerEntry(exchange, None, FIRST, end)])
    failed = LedgerEntry("gateio", None, FIRST, hours[3], "HTTP 451")
    archive.merge("funding_history", empty, requests=[failed])
    limit = pd.Timedelta(10, "min")
    assert late(archive, hours[1] + 20 * MINUTE, limit) == ["gateio funding_history", "okx funding_history"]
    assert late(archive, hours[3], limit) == ["gateio funding_history"]
    assert late(archive, hours[3] + pd.Timedelta(1, "D"), limit) == [
        "bybit funding_history",
        "gateio funding_history",
    ]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ([], "This source keeps no ledger"),
        ([("okx", None, 0, 60, "")], "None: 1 pairs of venue and table were answered"),
        ([("okx", "BTC", 0, 60, ""), ("okx", "ETH", 0, 60, "")], "None: 1 pairs"),
        ([("okx", None, 0, 60, _FILE)], "None: 1 pairs"),
        ([("okx", None, 0, 10, ""), ("okx", None, 40, 60, "")], "okx funding_history 0.0 1 0"),
        ([("okx", None, 0, 60, "<b>\x1b")], "– 0 1 &lt;b&gt;\\x1b"),
        ([("okx", None, 0, 50, ""), ("okx", None, 50, 60, "HTTP 451")], "10.0 0 1 HTTP 451"),
    ],
)
def test_the_page_shows_every_kind_of_ledger(archive: Archive, asked: list[Any], shown: str) -> None:
    """None, whole, by symbols, of files, with a hole, never answered, failed at last: unknown is a dash."""
    for venue, symbol, first, last, more in asked:
        said = {"file": more} if isinstance(more, LedgerFile) else {"error": more}
        entry = LedgerEntry(venue, symbol, FIRST + first * MINUTE, FIRST + last * MINUTE, **said)
        archive.merge("funding_history", tables.TABLES["funding_history"].empty(), requests=[entry])
    page = status_page._gaps(status(archive, FIRST + 60 * MINUTE))
    assert shown in " ".join(re.sub("<[^>]+>", " ", page).split())
