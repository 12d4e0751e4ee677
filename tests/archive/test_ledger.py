"""The ledger of requests, an archive's id and version, and archives of earlier versions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.ledger import LedgerEntry, RequestEntry
from derivdata.support.times import Window
from tests.archive.rates import EVER, START, rates, said

_OLD = Path(__file__).parents[1] / "data" / "archive_format_4"


def hour(number: float) -> pd.Timestamp:
    return (START + pd.Timedelta(number, "h")).as_unit("us")


def ask(archive: Archive, *requests: RequestEntry, rows: pd.DataFrame | None = None) -> int:
    """Append rows, or none, with requests."""
    return archive.append("funding_history", rates(hours=1)[:0] if rows is None else rows, requests=requests)


def windows(*pairs: tuple[float, float]) -> list[Window]:
    return [Window(hour(a), hour(b)) for a, b in pairs]


def test_ledger_distinguishes_no_rows_from_not_requested(tmp_path: Path) -> None:
    """BTC has rows, LTC was requested and has none, XRP was not requested."""
    archive = open_archive(tmp_path)
    entries = [LedgerEntry("okx", "BTC", hour(0), hour(4)), LedgerEntry("okx", "LTC", hour(0), hour(4))]
    assert archive.append("funding_history", rates(["BTC"], ["okx"], hours=4), requests=entries) == 4
    assert archive.unanswered("funding_history", "okx", "LTC", hour(0), hour(4)) == []
    assert archive.unanswered("funding_history", "okx", "XRP", hour(0), hour(4)) == windows((0, 4))
    assert archive.unanswered("funding_history", "okx", "BTC", hour(2), hour(9)) == windows((4, 9))
    assert archive.unanswered("oi_history", "okx", "BTC", hour(0), hour(4)) == windows((0, 4))
    assert archive.requests()["symbol"].tolist() == ["BTC", "LTC"]


def test_adjacent_windows_of_the_ledger_are_joined(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    for start, end in ((4, 6), (0, 2), (2, 4), (8, 10)):
        ask(archive, ("okx", "BTC", hour(start), hour(end)))
    rows = archive.requests()
    assert list(zip(rows["start"], rows["end"], strict=True)) == windows((0, 6), (8, 10))
    assert archive.unanswered("funding_history", "okx", "BTC", hour(1), hour(12)) == windows((6, 8), (10, 12))
    assert len(list(tmp_path.glob("ledger-*.json"))) == 1


def test_request_of_all_symbols_covers_each_symbol(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    of_all = LedgerEntry("okx", None, hour(0), hour(2))
    ask(archive, of_all, LedgerEntry("okx", "BTC", hour(2), hour(3)), rows=rates(hours=1))
    assert archive.unanswered("funding_history", "okx", "BTC", hour(0), hour(4)) == windows((3, 4))
    assert archive.unanswered("funding_history", "okx", None, hour(0), hour(4)) == windows((2, 4))


def test_failed_request_stays_in_the_ledger_until_a_response(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    failed = LedgerEntry("okx", "BTC", hour(0), hour(4), "HTTP 451: \x1b restricted")
    ask(archive, failed)
    assert archive.unanswered("funding_history", "okx", "BTC", hour(0), hour(4)) == windows((0, 4))
    ask(archive, LedgerEntry("okx", "BTC", hour(1), hour(2)))
    rows = archive.requests()
    assert rows["answered"].tolist() == [True, False, False]
    assert rows["error"].tolist()[1:] == [r"HTTP 451: \x1b restricted"] * 2
    assert list(zip(rows["start"], rows["end"], strict=True)) == windows((1, 2), (0, 1), (2, 4))


def test_the_ledger_and_the_rows_change_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is cut off as it replaces the manifest leaves neither, and no file."""
    archive = open_archive(tmp_path)
    ask(archive, LedgerEntry("okx", "BTC", hour(0), hour(1)), rows=rates(hours=1))
    before = sorted(p.name for p in tmp_path.rglob("ledger-*"))

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", cut_off)
        with pytest.raises(KeyboardInterrupt):
            ask(archive, LedgerEntry("okx", "BTC", hour(1), hour(2)))
    assert sorted(p.name for p in tmp_path.rglob("ledger-*")) == before
    assert archive.unanswered("funding_history", "okx", "BTC", hour(0), hour(2)) == windows((1, 2))


def test_version_states_whether_appended_rows_change_the_past(tmp_path: Path) -> None:
    """Rows that are over an hour older than the newest row change it."""
    archive = open_archive(tmp_path)
    steps = [
        (["BTC"], hour(0), 10, False),
        (["BTC"], hour(0), 12, False),
        (["BTC"], hour(0), 12, False),  # no new row
        (["ETH"], hour(10), 1, False),
        (["ETH"], hour(9.9), 1, True),
    ]
    versions = []
    for symbols, start, hours, changes_past in steps:
        past_before = archive.version.partition(".")[0]
        archive.append("funding_history", rates(symbols, ["okx"], hours=hours, start=start))
        assert (past(archive) != past_before) == changes_past
        versions.append(archive.version)
    assert len(set(versions)) == 4
    assert versions[1] == versions[2]


def test_identity_of_an_archive_is_its_own_and_does_not_change(tmp_path: Path) -> None:
    archive, other = open_archive(tmp_path / "a"), open_archive(tmp_path / "b")
    archive.append("funding_history", rates(["BTC"], ["okx"], hours=10))
    identity = archive.id
    archive.append("funding_history", rates(["BTC"], ["okx"], hours=12))
    assert archive.id == open_archive(tmp_path / "a").id == identity
    other.append("funding_history", rates(["BTC"], ["okx"], hours=10))
    assert other.id != identity


@pytest.mark.parametrize(
    ("start", "error", "changes_past"), [(2, "", True), (9.5, "", False), (2, "HTTP 451", False)]
)
def test_response_without_rows_changes_the_version(
    tmp_path: Path, start: float, error: str, changes_past: bool
) -> None:
    """A window that a service reports as never requested: its response is not stored."""
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTC"], ["okx"], hours=10))
    before, identity = archive.version, archive.identity
    entry = LedgerEntry("okx", "LTC", hour(start), hour(10), error)
    assert ask(archive, entry) == 0
    assert archive.version != before
    assert archive.identity != identity
    assert (past(archive) != before.partition(".")[0]) == changes_past
    version = archive.version
    ask(archive, entry)
    assert archive.version == version


def past(archive: Archive) -> str:
    return archive.version.partition(".")[0]


def test_copies_with_different_corrections_have_different_versions(tmp_path: Path) -> None:
    """A copy is restored and corrected again: a client must not reuse cached responses of the other."""
    first = open_archive(tmp_path / "a")
    first.append("funding_history", rates(["BTC"], ["okx"], hours=10))
    second = open_archive(shutil.copytree(first.path, tmp_path / "b"))
    assert (second.id, second.version) == (first.id, first.version)
    for archive, value in ((first, 50.0), (second, 100.0)):
        archive.replace(
            "funding_history", rates(["BTC"], ["okx"], hours=1, plus=value), {"symbol": "BTC"}, end=hour(1)
        )
    assert second.id == first.id
    assert past(second) != past(first)


def test_archive_of_an_earlier_format_opens_unchanged_and_accepts_rows(tmp_path: Path) -> None:
    """Format 4; the hour's number is its rate (tests/archive/rates.py), and one row was deleted."""
    before = {p.relative_to(_OLD): p.read_bytes() for p in _OLD.rglob("*") if p.is_file()}
    archive = open_archive(_OLD, create=False)
    rows = archive.read("funding_history", *EVER)
    assert len(rows) == 384 - 1
    ether = rows[(rows["symbol"] == "ETH") & (rows["exchange"] == "okx")]
    assert ether["rate_bps_8h"].tolist()[:3] == [1.0, 2.0, 3.0]
    assert archive.version == "c6846cf25bce0903.c6846cf25bce0903"
    assert (len(archive.corrections()), len(archive.requests())) == (1, 1)
    assert {p.relative_to(_OLD): p.read_bytes() for p in _OLD.rglob("*") if p.is_file()} == before
    copy = open_archive(shutil.copytree(_OLD, tmp_path / "copy"))
    assert copy.append("funding_history", rates(["XRP"], ["okx"])) == 96
    assert copy.id == archive.id
    assert past(copy) != past(archive), "these rows came late"
    assert said(copy.path)["version"] == 4
    copy.undo(1)
    assert len(copy.read("funding_history", *EVER)) == 384 + 96
    assert copy.read("funding_history", *EVER, symbols=["ETH"], venues=["okx"])["rate_bps_8h"].iloc[0] == 0.0
