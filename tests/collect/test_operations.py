"""Months of collecting: old rows are removed, a full disk is one line, and a line reports progress.

Output of an archive's status, and the systemd unit and container of docs/venues.md.
"""

from __future__ import annotations

import errno
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from derivdata import tables
from derivdata.cli import _parser
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry, LedgerFile
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.reporting import Minute, StatusLine, late, status
from derivdata.sources.collect.state import Poll
from derivdata.sources.service.http import pages
from tests.archive.rates import rates
from tests.archive.test_writers import named_files
from tests.collect.clocks import EventClock, SimulatedClock
from tests.collect.days import assert_minutes_equal_ledger
from tests.collect.direct import faked

START = pd.Timestamp("2026-01-20T10:30:30", tz="UTC")
LAST = int(pd.Timestamp("2026-01-22", tz="UTC").timestamp())
FUNDING = "funding_history"
ROOT = Path(__file__).resolve().parents[2]
MINUTE = pd.Timedelta(1, "min")
_FILE = LedgerFile("a.zip", "0" * 64, 9, "2026-03-02")
FIRST = pd.Timestamp("2026-03-02T08:00:00", tz="UTC").as_unit("us")
EVER = (pd.Timestamp("2000-01-01", tz="UTC"), pd.Timestamp("2100-01-01", tz="UTC"))


def _rates_at(day: str) -> pd.DataFrame:
    """Return a day of rates that begins at a day."""
    return rates(["BTC"], ["okx"], hours=24, start=pd.Timestamp(day, tz="UTC"))


@pytest.fixture
def three_months(archive: Archive) -> Archive:
    """Rates of a day in November, December and January, and a failed request over all of December."""
    for day in ("2025-11-20", "2025-12-20", "2026-01-10"):
        first = pd.Timestamp(day, tz="UTC")
        request = LedgerEntry("okx", None, first, first + pd.Timedelta(1, "D"))
        archive.merge(FUNDING, _rates_at(day), requests=[request])
    failed = LedgerEntry("okx", "ETH", "2025-11-30", "2026-01-02", "HTTP 503")
    archive.merge(FUNDING, _rates_at("2026-01-10"), requests=[failed])
    return archive


def test_retention_removes_whole_months(three_months: Archive) -> None:
    """January has a row from before the 15th, but is not over."""
    archive = three_months
    version, size = archive.version, len(_rates_at("2026-01-10"))
    assert archive.drop_before("2026-01-15") == (2 * size, 2)
    rows = archive.read(FUNDING, *EVER)
    assert len(rows) == size
    assert rows["time"].min() == pd.Timestamp("2026-01-10", tz="UTC")
    assert archive.version != version, "cached responses of clients are not current"
    files = {str(path.relative_to(archive.path)) for path in archive.path.glob("*/*/*")}
    assert {*named_files(archive.path)} == files
    assert archive.drop_before("2026-01-15") == (0, 0)


def test_retention_removes_ledger_entries_of_removed_months(three_months: Archive) -> None:
    three_months.drop_before("2026-01-15")
    entries = three_months.requests()
    ledger = [(f"{row.start:%m-%d}", f"{row.end:%m-%d}", row.answered) for row in entries.itertuples()]
    assert ledger == [("01-10", "01-11", True), ("01-01", "01-02", False)]
    window = three_months.unanswered(FUNDING, "okx", "BTC", "2025-12-20", "2025-12-21")
    assert len(window) == 1, "as if it had not been requested"


def test_rows_can_be_added_after_all_were_removed(three_months: Archive) -> None:
    assert three_months.drop_before("2026-03-01").files > 0
    assert three_months.tables() == frozenset()
    three_months.append(FUNDING, _rates_at("2026-01-20"))
    assert len(three_months.read(FUNDING, *EVER)) == len(_rates_at("2026-01-20"))


def test_collector_applies_keep_and_does_not_refill_before_it(archive, monkeypatch) -> None:
    clock = EventClock(START)
    fakes = faked(LAST, clock, monkeypatch)
    archive.append(FUNDING, _rates_at("2025-12-20"))
    entries = [LedgerEntry("okx", None, "2025-12-20", "2025-12-21")]
    archive.merge("oi_history", archive.read("oi_history", *EVER), requests=entries)
    results: list[Minute] = []

    def stop_after_two(minute: Minute) -> None:
        results.append(minute)
        if len(results) == 2:
            clock.stop()

    options = {"venues": ["okx"], "symbols": ["BTC"], "names": [FUNDING, "funding_settlements"]}
    week = pd.Timedelta(7, "D")
    with pytest.raises(ValueError, match="got 1 days"):
        Collector(archive, keep=pd.Timedelta(1, "D"), since=week, **options)  # type: ignore[arg-type]
    Collector(
        archive, keep=week, since=week, clock=clock, addresses=fakes.addresses, log=stop_after_two, **options
    ).run()  # type: ignore[arg-type]
    assert [minute.dropped for minute in results] == [len(_rates_at("2025-12-20")), 0], "once a day"
    settled = archive.requests().set_index("table").loc[["funding_settlements"], "start"]
    assert settled.min() >= START - week


def test_full_disk_ends_collecting_without_losing_stored_rows(
    make_collector, archive, clock, monkeypatch
) -> None:
    """The disk is full at the last step of the append of the third minute."""
    minutes: list[Minute] = []

    def fill_up(minute: Minute) -> None:
        minutes.append(minute)
        if len(minutes) == 3:
            monkeypatch.setattr("derivdata.sources.archive.manifest.save", _full)

    collector = make_collector("okx", names=[FUNDING], log=fill_up)
    with pytest.raises(ArchiveError, match=r"No space left on device$"):
        collector.run()
    assert len(archive.read(FUNDING, *EVER)) == 2 * 3, "two contracts in three minutes"
    assert assert_minutes_equal_ledger(archive, ["okx"], START, clock.utc()) == 3
    assert {*named_files(archive.path)} == {
        str(p.relative_to(archive.path)) for p in archive.path.glob("*/*/*")
    }


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_each_minute_is_logged_as_one_line_of_json_or_text() -> None:
    minute = Minute(
        START, {FUNDING: 1200, "oi_history": 0}, {"okx oi_history": "HTTP 503"}, {"bybit": "HTTP 451"}
    )
    minute.changed, minute.dropped = {"okx instruments": "BTC-USDT-SWAP is no longer listed"}, 7
    result = json.loads(minute.json())
    assert result["rows"] == {FUNDING: 1200, "oi_history": 0}
    assert result["time"] == "2026-01-20 10:30:30+00:00"
    assert result["dropped"] == 7
    assert "\n" not in minute.json()
    assert minute.line() == (
        "2026-01-20 10:30:30; 1,200 funding_history; failed: okx oi_history; unavailable: bybit; "
        "lists changed: okx instruments; 7 old rows dropped"
    )


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_status_line_replaces_itself_on_a_terminal_and_is_silent_elsewhere() -> None:
    terminal, file = _Terminal(), io.StringIO()
    line = StatusLine(terminal)
    line.show("15 of 15 venues\x1b[31m")
    line.show("done")
    line.end()
    shown = "15 of 15 venues\\x1b[31m"
    assert terminal.getvalue() == f"\r{shown}\r{'done'.ljust(len(shown))}\r    \r"
    StatusLine(file).show("15 of 15 venues")
    assert file.getvalue() == ""


def _block(language: str) -> str:
    result = re.search(
        rf"```{language}\n(.*?)```", (ROOT / "docs" / "venues.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert result is not None
    return result[1]


def test_documented_systemd_and_docker_commands_parse() -> None:
    start = re.search(r"(?m)^ExecStart=(.*)$", _block("ini"))
    assert start is not None
    program, *options = shlex.split(start[1])
    assert program.endswith("/derivdata")
    arguments = _parser().parse_args(options)
    assert (arguments.command, arguments.keep, arguments.log) == ("collect", "400d", "json")
    file = _block("dockerfile")
    parts = {name: json.loads(words) for name, words in re.findall(r"(?m)^(ENTRYPOINT|CMD) (\[.*\])$", file)}
    program, *options = [*parts["ENTRYPOINT"], *parts["CMD"]]
    assert program == "derivdata"
    arguments = _parser().parse_args(options)
    assert arguments.command == "collect"
    assert str(arguments.to).startswith("/data/"), "the archive lies in the volume"
    assert file.startswith("FROM python:3.11"), "the oldest Python that the locks are made for"
    assert "STOPSIGNAL SIGTERM" in file
    [user] = re.findall(r"(?m)^USER (\w+)$", file)
    assert f"useradd --create-home {user}" in file
    assert f"chown {user} /data" in file


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_documented_unit(tmp_path: Path) -> None:
    unit = tmp_path / "derivdata-collect.service"
    unit.write_text(_block("ini").replace("/usr/local/bin/derivdata", sys.executable), encoding="utf-8")
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=120
    )
    if "Failed to initialize manager" in run.stderr:
        pytest.skip("systemd-analyze cannot run here")
    assert [line for line in run.stderr.splitlines() if unit.name in line] == []


@pytest.mark.parametrize(("table", "minutes", "holes"), [
    ("options_snapshot", range(0, 60, 5), 0),
    ("options_snapshot", [0, 5, 15, 20], 1),
    ("funding_history", range(60), 0),
    ("funding_history", [0, 1, 3, 4, 9], 2),
])  # fmt: skip
def test_gap_is_longer_than_the_polling_interval(archive, table, minutes, holes) -> None:
    """Deribit's chain comes every five minutes, its rates every minute; a poll's window is of one minute."""
    starts = [FIRST + pd.Timedelta(minute, "min") for minute in minutes]
    entries = [LedgerEntry("deribit", None, at, at + pd.Timedelta(1, "min")) for at in starts]
    archive.append(table, tables.TABLES[table].empty(), requests=entries)
    result = status(archive, FIRST + pd.Timedelta(1, "h"))
    assert result[["exchange", "table", "holes"]].to_numpy().tolist() == [["deribit", table, holes]]


@pytest.mark.parametrize(
    ("polled", "spans", "holes"),
    [
        (range(0, 60, 5), [(0, 60)], 0),
        ([0, 5, 20, 25], [(0, 10), (20, 30)], 1),  # 10 and 15 are lacking
    ],
)
def test_consecutive_polls_are_one_ledger_entry(archive, monkeypatch, polled, spans, holes) -> None:
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
    ledger = archive.requests()
    new = ledger[ledger["start"] >= FIRST]
    minutes = [((w.start - FIRST) / MINUTE, (w.end - FIRST) / MINUTE) for w in new.itertuples()]
    assert minutes == spans
    result = status(archive, FIRST + pd.Timedelta(1, "h"))
    assert result["holes"].tolist() == [holes]
    gaps = archive.unanswered("options_snapshot", "deribit", None, FIRST, FIRST + pd.Timedelta(30, "min"))
    assert len(gaps) == holes


def test_outage_is_one_ledger_entry_until_a_response(archive: Archive) -> None:
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


def test_removed_venue_is_not_late_but_a_stopped_collector_is(archive: Archive) -> None:
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
    ("entries", "shown"),
    [
        pytest.param([], "Gaps are listed only for an archive", id="empty"),
        pytest.param(
            [(None, 0, 60, "")], "None: 1 pairs of venue and table, all without gaps", id="complete"
        ),
        pytest.param([("BTC", 0, 60, ""), ("ETH", 0, 60, "")], "None: 1 pairs", id="by symbol"),
        pytest.param([(None, 0, 60, _FILE)], "None: 1 pairs", id="from a file"),
        pytest.param([(None, 0, 10, ""), (None, 40, 60, "")], "okx funding_history 0.0 1 0", id="one gap"),
        pytest.param([(None, 0, 60, "<b>\x1b")], "– 0 1 &lt;b&gt;\\x1b", id="only failures"),
        pytest.param(
            [(None, 0, 50, ""), (None, 50, 60, "HTTP 451")], "10.0 0 1 HTTP 451", id="failed at the end"
        ),
    ],
)
def test_status_page_shows_lag_gaps_and_the_last_error(archive, entries, shown) -> None:
    """Entries of okx: symbol, first and last minute, and the file or the error of the request."""
    for symbol, first, last, origin in entries:
        stated = {"file": origin} if isinstance(origin, LedgerFile) else {"error": origin}
        entry = LedgerEntry("okx", symbol, FIRST + first * MINUTE, FIRST + last * MINUTE, **stated)
        archive.merge("funding_history", tables.TABLES["funding_history"].empty(), requests=[entry])
    page = pages._gaps(status(archive, FIRST + 60 * MINUTE))
    assert shown in " ".join(re.sub("<[^>]+>", " ", page).split())
