"""Months of collecting: what is too old goes, a full disk is one clear line, and a line says what goes on.

And the unit and the container of docs/venues.md: commands that parse, a unit that systemd takes.
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

from derivdata.cli import _parser
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.reporting import Minute, StatusLine
from tests.archive.rates import rates
from tests.archive.test_writers import named_files
from tests.collect.clocks import EventClock
from tests.collect.days import hold_minutes
from tests.collect.direct import faked

START = pd.Timestamp("2026-01-20T10:30:30", tz="UTC")
LAST = int(pd.Timestamp("2026-01-22", tz="UTC").timestamp())
FUNDING = "funding_history"
ROOT = Path(__file__).resolve().parents[2]
EVER = (pd.Timestamp("2000-01-01", tz="UTC"), pd.Timestamp("2100-01-01", tz="UTC"))


def _rates_at(day: str) -> pd.DataFrame:
    """Return a day of rates that begins at a day."""
    return rates(["BTC"], ["okx"], hours=24, start=pd.Timestamp(day, tz="UTC"))


def test_whole_months_that_are_too_old_go_with_their_ledger(archive: Archive) -> None:
    for day in ("2025-11-20", "2025-12-20", "2026-01-10"):
        first = pd.Timestamp(day, tz="UTC")
        request = LedgerEntry("okx", None, first, first + pd.Timedelta(1, "D"))
        archive.merge(FUNDING, _rates_at(day), requests=[request])
    failed = LedgerEntry("okx", "ETH", "2025-11-30", "2026-01-02", "HTTP 503")
    archive.merge(FUNDING, _rates_at("2026-01-10"), requests=[failed])
    before, size = archive.version, len(_rates_at("2026-01-10"))
    assert archive.drop_before("2026-01-15") == (2 * size, 2), (
        "January has rows from the 10th, and is not over"
    )
    rows = archive.read(FUNDING, *EVER)
    assert len(rows) == size
    assert rows["time"].min() == pd.Timestamp("2026-01-10", tz="UTC")
    asked = [
        (f"{row.start:%m-%d}", f"{row.end:%m-%d}", row.answered) for row in archive.requests().itertuples()
    ]
    assert asked == [("01-10", "01-11", True), ("01-01", "01-02", False)]
    window = archive.unanswered(FUNDING, "okx", "BTC", "2025-12-20", "2025-12-21")
    assert len(window) == 1, "what was dropped reads as not asked"
    assert archive.version != before, "clients must not take their cached answers for these"
    assert {*named_files(archive.path)} == {
        str(p.relative_to(archive.path)) for p in archive.path.glob("*/*/*")
    }
    assert archive.drop_before("2026-01-15") == (0, 0)


def test_a_table_of_which_all_is_too_old_goes(archive: Archive) -> None:
    archive.append(FUNDING, _rates_at("2025-11-20"))
    assert archive.drop_before("2026-01-01").files == 1
    assert archive.tables() == frozenset()
    archive.append(FUNDING, _rates_at("2026-01-20"))
    assert len(archive.read(FUNDING, *EVER)) == len(_rates_at("2026-01-20"))


def test_a_collector_keeps_as_long_as_it_was_told_and_refills_no_further(archive, monkeypatch) -> None:
    clock = EventClock(START)
    fakes = faked(LAST, clock, monkeypatch)
    archive.append(FUNDING, _rates_at("2025-12-20"))
    archive.merge(
        "oi_history",
        archive.read("oi_history", *EVER),
        requests=[LedgerEntry("okx", None, "2025-12-20", "2025-12-21")],
    )
    found: list[Minute] = []

    def stop_after_two(minute: Minute) -> None:
        found.append(minute)
        if len(found) == 2:
            clock.stop()

    options = {"venues": ["okx"], "symbols": ["BTC"], "names": [FUNDING, "funding_settlements"]}
    week = pd.Timedelta(7, "D")
    with pytest.raises(ValueError, match="keep: 1 days"):
        Collector(archive, keep=pd.Timedelta(1, "D"), since=week, **options)  # type: ignore[arg-type]
    Collector(
        archive, keep=week, since=week, clock=clock, addresses=fakes.addresses, log=stop_after_two, **options
    ).run()  # type: ignore[arg-type]
    assert [minute.dropped for minute in found] == [len(_rates_at("2025-12-20")), 0], "once a day"
    settled = archive.requests().set_index("table").loc[["funding_settlements"], "start"]
    assert settled.min() >= START - week


def test_a_full_disk_ends_collecting_and_nothing_is_lost(made, archive, clock, monkeypatch) -> None:
    """The disk is full at the last step of the append of the third minute."""
    minutes: list[Minute] = []

    def fill_up(minute: Minute) -> None:
        minutes.append(minute)
        if len(minutes) == 3:
            monkeypatch.setattr("derivdata.sources.archive.manifest.save", _full)

    collector = made("okx", names=[FUNDING], log=fill_up)
    with pytest.raises(ArchiveError, match=r"No space left on device$"):
        collector.run()
    assert len(archive.read(FUNDING, *EVER)) == 2 * 3, "two contracts in three minutes"
    assert hold_minutes(archive, ["okx"], START, clock.utc()) == 3
    assert {*named_files(archive.path)} == {
        str(p.relative_to(archive.path)) for p in archive.path.glob("*/*/*")
    }


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_minute_is_a_line_of_json_and_a_line_of_text() -> None:
    minute = Minute(
        START, {FUNDING: 1200, "oi_history": 0}, {"okx oi_history": "HTTP 503"}, {"bybit": "HTTP 451"}
    )
    minute.changed, minute.dropped = {"okx instruments": "BTC-USDT-SWAP is listed no more"}, 7
    told = json.loads(minute.json())
    assert told["rows"] == {FUNDING: 1200, "oi_history": 0}
    assert told["time"] == "2026-01-20 10:30:30+00:00"
    assert told["dropped"] == 7
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
    found = re.search(
        rf"```{language}\n(.*?)```", (ROOT / "docs" / "venues.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    return found[1]


def test_the_commands_of_unit_and_container_are_ours() -> None:
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
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "derivdata-collect.service"
    unit.write_text(_block("ini").replace("/usr/local/bin/derivdata", sys.executable), encoding="utf-8")
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=120
    )
    if "Failed to initialize manager" in run.stderr:
        pytest.skip("systemd-analyze cannot run here")
    assert [line for line in run.stderr.splitlines() if unit.name in line] == []
