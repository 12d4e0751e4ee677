"""Other files in an archive's folder, also of other versions: read, ignored, or one error."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources import Query
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.tables.schema import Kind, Table
from tests.archive.rates import EVER, rates, said, say
from tests.reliability.conftest import Measured
from tests.reliability.promises import count

PROMISE = "archive: disk and files"
FUNDING = "funding_history"
TEXT = "not an archive's"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """One of 96 hours of two symbols, in two months."""
    filled = open_archive(tmp_path / "mine")
    filled.append(FUNDING, rates(["BTC", "ETH"], ["okx"]))
    return filled


def one_of(archive: Archive) -> Path:
    return min(archive.path.rglob("*.parquet"))


def others(path: Path) -> None:
    """A Parquet file that somebody else wrote."""
    pq.write_table(pa.table({"price": [1.0, 2.0], "when": ["a", "b"]}), path)


def neighbour(archive: Archive) -> Archive:
    """Another archive next to it."""
    second = open_archive(archive.path.parent / "neighbour")
    second.append(FUNDING, rates(["SOL"], ["okx"], start=pd.Timestamp("2026-03-01", tz="UTC")))
    return second


def add_files(archive: Archive) -> None:
    others(archive.path / "prices.parquet")
    others(one_of(archive).with_name("prices.parquet"))
    (archive.path / "notes.txt").write_text(TEXT)
    (one_of(archive).with_name("notes.txt")).write_text(TEXT)
    (archive.path / FUNDING / "2026-13").mkdir()


def instead(archive: Archive) -> None:
    path = one_of(archive)
    path.unlink()
    others(path)


def of_a_twin(archive: Archive) -> None:
    """Replace a file by one with the same layout and other values."""
    twin = open_archive(archive.path.parent / "twin")
    twin.append(FUNDING, rates(["BTC", "ETH"], ["xko"]))
    assert one_of(twin).stat().st_size == one_of(archive).stat().st_size
    shutil.copy(one_of(twin), one_of(archive))


def folder_instead(archive: Archive) -> None:
    path = one_of(archive)
    path.unlink()
    path.mkdir()


def linked(archive: Archive) -> None:
    """Replace the file by a link to it."""
    path = one_of(archive)
    path.symlink_to(path.rename(archive.path.parent / "elsewhere"))


def dangling(archive: Archive) -> None:
    path = one_of(archive)
    path.unlink()
    path.symlink_to(archive.path.parent / "nowhere")


def of_another_program(archive: Archive) -> None:
    (archive.path / "archive.json").write_text('{"format": "x", "version": 1}')


def marker_gone(archive: Archive) -> None:
    (archive.path / "archive.json").unlink()


def marker_leads_away(archive: Archive) -> None:
    """Point the marker to a file of a neighbouring archive."""
    text = said(neighbour(archive).path)
    for part in text["tables"][FUNDING]["parts"]:
        part["file"] = f"../neighbour/{part['file']}"
    say(archive.path, text)


class Case(NamedTuple):
    """A change of an archive, and the error of a reader and of a writer; None without one."""

    spoil: Callable[[Archive], None]
    read: str | None
    append: str | None


_DAMAGED, _MARKER = "the file is damaged .*: restore it from a copy", r"archive\.json is damaged"
CASES = {
    "other files": Case(add_files, None, None),
    "another's Parquet instead": Case(instead, _DAMAGED, _DAMAGED),
    "a twin's file instead": Case(of_a_twin, _DAMAGED, _DAMAGED),
    "a folder instead": Case(folder_instead, _DAMAGED, _DAMAGED),
    "a link instead": Case(linked, None, None),
    "a link to nothing": Case(dangling, r"the file .*\.parquet of the archive is missing", "is missing"),
    "marker of another program": Case(of_another_program, "does not belong to", "does not belong to"),
    "marker gone": Case(marker_gone, "not an archive: ", "not an archive: "),
    "marker that leads away": Case(
        marker_leads_away, "is not a valid path of an archive", "is not a valid path of an archive"
    ),
}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the lock."""
    return {
        str(p): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in {".lock", ".merging", ".merged", ".writing"}
    }


def read(archive: Archive) -> pd.DataFrame:
    return open_archive(archive.path, create=False).read(FUNDING, *EVER)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_foreign_file_is_ignored_or_raises_one_clear_error(archive: Archive, case: Case) -> None:
    whole = read(archive)
    case.spoil(archive)
    spoilt = contents(archive.path.parent)
    if case.read is None:
        pd.testing.assert_frame_equal(read(archive), whole)
    else:
        with pytest.raises(ArchiveError, match=case.read):
            read(archive)
    more = rates(["BTC", "ETH", "SOL"], ["okx"])
    if case.append is None:
        assert archive.append(FUNDING, more) == 96
        pd.testing.assert_frame_equal(read(archive), tables.TABLES["funding_history"].conform(more))
        ours = re.compile(r".*/[0-9a-f]{32}\.parquet|.*/archive\.json")
        foreign = {path: data for path, data in spoilt.items() if not ours.fullmatch(path)}
        assert foreign.items() <= contents(archive.path.parent).items()
    else:
        with pytest.raises(ArchiveError, match=case.append):
            archive.append(FUNDING, more)
        assert contents(archive.path.parent) == spoilt


def small(folder: Path) -> Archive:
    """Return an archive with two months, a corrected hour, and a ledger."""
    made = open_archive(folder)
    entry = LedgerEntry("okx", "BTC", "2026-01-31T22:00", "2026-02-01T02:00")
    hours = rates(["BTC", "ETH"], ["okx"], hours=4, start=pd.Timestamp("2026-01-31T22:00", tz="UTC"))
    made.append(FUNDING, hours, requests=[entry])
    made.delete(FUNDING, {"symbol": "ETH"}, start="2026-02-01T01:00", reason="twice")
    return made


READS: dict[str, Callable[[Archive], Any]] = {
    "requests": lambda a: a.requests().to_csv(),
    "unanswered": lambda a: a.unanswered(FUNDING, "okx", "BTC", "2026-01-01", "2026-03-01"),
    "about": lambda a: (a.id, a.version, a.identity, a.info().to_csv(), a.corrections().to_csv()),
    "rows": lambda a: a.read(FUNDING, *EVER).to_csv(),
    "one series": lambda a: a.read(FUNDING, *EVER, symbols=["ETH"], columns=["rate_bps_8h"]).to_csv(),
    "newest": lambda a: a.latest(FUNDING, EVER[1], within=pd.Timedelta("99999D")).to_csv(),
    "sums": lambda a: a.sums(Query(FUNDING, *EVER), "rate_bps_8h").to_csv(),
    "undo": lambda a: (a.undo(1), a.read(FUNDING, *EVER).to_csv())[1],
}


def answers(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return the result of each read; None if it raises."""
    results: dict[str, Any] = {}
    for name in names:
        try:
            results[name] = READS[name](open_archive(folder, create=False))
        except ArchiveError:
            results[name] = None
    return results


DAMAGES: dict[str, Callable[[bytes, int], bytes]] = {
    "changed": lambda good, at: good[:at] + bytes([good[at] ^ (0x01, 0x20, 0xFF)[at % 3]]) + good[at + 1 :],
    "cut": lambda good, at: good[:at],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_byte_is_rejected_or_harmless(tmp_path: Path, measured: Measured, damage: str) -> None:
    """One byte changed, or a file cut off there, in a copy whose other files are links.

    The gate tries some bytes, DERIVDATA_SOAK=1 every one of them.
    """
    whole = small(tmp_path / "mine").path
    expected = answers(shutil.copytree(whole, tmp_path / "copy" / "mine"), READS)
    assert None not in expected.values()
    names = sorted(str(p.relative_to(whole)) for p in whole.rglob("*") if p.stat().st_size and p.is_file())
    assert [Path(name).suffix for name in names].count(".parquet") == 3
    refused, tried = 0, 0
    for name in names:
        good, ledger = (whole / name).read_bytes(), name.startswith("ledger")
        step = count(997 if name.endswith("parquet") else 4 if ledger else 29, 1)
        for at in range(len(name) % step, len(good), step):
            copy = tmp_path / name / str(at) / "mine"
            shutil.copytree(whole, copy, copy_function=os.link)
            (copy / name).unlink()
            (copy / name).write_bytes(DAMAGES[damage](good, at))
            reads = list(READS)[:2] if ledger and step > 1 else READS
            result = answers(copy, reads)
            for read, value in result.items():
                assert value in (None, expected[read]), (name, at, read)
            assert None in result.values(), (name, at)
            refused += list(result.values()).count(None)
            tried += 1
            shutil.rmtree(copy)
    measured(PROMISE, f"{tried:,} bytes of a small archive {damage}: {refused:,} reads refused, 0 wrong")


def test_flipped_byte_is_detected_before_a_merge(archive: Archive, tmp_path: Path) -> None:
    later = rates(["BTC", "ETH"], ["okx"], start=pd.Timestamp("2026-02-20", tz="UTC"), hours=24)
    name = max(archive.path.rglob("*.parquet")).relative_to(archive.path)
    good = (archive.path / name).read_bytes()
    expected = pd.concat([rates(["BTC", "ETH"], ["okx"]), later])
    messages = []
    for at in range(4, len(good), 151):  # every byte would take minutes
        copy = open_archive(shutil.copytree(archive.path, tmp_path / str(at)))
        (copy.path / name).write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        try:
            copy.append(FUNDING, later)
        except ArchiveError as problem:
            messages.append(str(problem))
        else:
            pd.testing.assert_frame_equal(read(copy), tables.TABLES["funding_history"].conform(expected))
    assert len(messages) > 10
    assert all(str(name) in message and "is damaged" in message for message in messages)


@pytest.mark.parametrize("name", [".lock", ".archive.json.new"])
def test_symbolic_links_are_not_written_through(archive: Archive, name: str) -> None:
    precious = archive.path.parent / "precious"
    precious.write_text(TEXT)
    (archive.path / name).unlink(missing_ok=True)
    (archive.path / name).symlink_to(precious)
    if name == ".lock":
        with pytest.raises(ArchiveError, match="cannot be written: Too many levels of symbolic links"):
            archive.append(FUNDING, rates(["SOL"], ["okx"]))
    else:
        assert archive.append(FUNDING, rates(["SOL"], ["okx"])) == 96
    assert precious.read_text() == TEXT
    assert len(read(archive)) >= 192


def test_cleanup_does_not_follow_links_into_another_archive(archive: Archive) -> None:
    """A table's folder is a link into a neighbouring archive: its files remain after a sweep."""
    second = neighbour(archive)
    mine, theirs = archive.path / FUNDING, second.path / FUNDING
    for path in sorted(mine.rglob("*.parquet")):
        (theirs / path.parent.name).mkdir(exist_ok=True)
        path.rename(theirs / path.parent.name / path.name)
    shutil.rmtree(mine)
    mine.symlink_to(theirs)
    (archive.path / ".writing").write_text("1")
    before = read(second)
    assert archive.append(FUNDING, rates(["XRP"], ["okx"])) == 96
    pd.testing.assert_frame_equal(read(second), before)


def test_control_characters_in_a_folder_name_are_escaped(tmp_path: Path) -> None:
    odd = open_archive(tmp_path / "<img src=x onerror=alert(1)>")
    odd.append(FUNDING, rates(["BTC"], ["okx"]))
    shown = odd._repr_html_()
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert "<img" not in shown


def version(monkeypatch: pytest.MonkeyPatch, archive: Archive, table: Table, frame: pd.DataFrame) -> None:
    """Rows that another version of the library wrote."""
    with monkeypatch.context() as patch:
        patch.setitem(tables.TABLES, table.name, table)
        archive.append(table.name, frame)


NOW = tables.TABLES["oi_exchange_totals"]
TIMES = pd.to_datetime(["2026-01-30T00:00:00Z", "2026-01-30T01:00:00Z"])


def totals(venue: str, **more: object) -> pd.DataFrame:
    """Two hours of a venue."""
    given = {"exchange": venue, "time": TIMES, "total_oi_usd": [5.0, 6.0], "symbol_count": [1, 2]}
    return pd.DataFrame(given | {"resolution": "1h"} | more)


def read_totals(archive: Archive) -> pd.DataFrame:
    return open_archive(archive.path).read(NOW.name, *EVER)


def without(table: Table, name: str) -> Table:
    return replace(
        table,
        columns={n: c for n, c in table.columns.items() if n != name},
        optional=frozenset(table.optional) - {name},
    )


def test_an_older_file_without_a_column_that_may_be_missing_is_read_and_merged(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = without(NOW, "symbol_count")
    version(monkeypatch, archive, older, totals("aevo").drop(columns="symbol_count"))
    for venue in ("bybit", "okx"):
        archive.append(NOW.name, totals(venue))
    result = read_totals(archive)
    assert result["exchange"].tolist() == ["aevo"] * 2 + ["bybit"] * 2 + ["okx"] * 2
    assert result["symbol_count"].fillna(-1).tolist() == [-1, -1, 1, 2, 1, 2]
    assert result["total_oi_usd"].tolist() == [5.0, 6.0] * 3


@pytest.mark.parametrize("appends", [0, 2])
def test_an_older_file_with_a_column_of_another_kind_is_read(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, appends: int
) -> None:
    """Counts that were once numbers."""
    kinds = NOW.columns
    older = replace(NOW, columns=kinds | {"symbol_count": replace(kinds["symbol_count"], kind=Kind.NUMBER)})
    version(monkeypatch, archive, older, totals("aevo", symbol_count=[3.0, float("nan")]))
    for venue in ("bybit", "okx")[:appends]:
        archive.append(NOW.name, totals(venue))
    result = read_totals(archive)
    assert result["symbol_count"].fillna(-1).tolist() == [3, -1] + [1, 2] * appends
    assert result["symbol_count"].dtype == "Int64"


def test_incompatible_older_file_is_named_and_kept(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    older = without(NOW, "total_oi_usd")
    version(monkeypatch, archive, older, totals("aevo").drop(columns="total_oi_usd"))
    before = contents(archive.path)
    told = r"\.parquet: another version of derivdata wrote this file \(columns are missing: total_oi_usd"
    for attempt in (lambda: read_totals(archive), lambda: archive.append(NOW.name, totals("aevo"))):
        with pytest.raises(ArchiveError, match=told):
            attempt()
    assert contents(archive.path) == before
    assert len(read(archive)) == 192


def test_a_number_that_this_version_cannot_hold_is_named(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = NOW.columns
    older = replace(NOW, columns=kinds | {"symbol_count": replace(kinds["symbol_count"], kind=Kind.NUMBER)})
    version(monkeypatch, archive, older, totals("aevo", symbol_count=[3.5, 1.0]))
    with pytest.raises(ArchiveError, match=r"\.parquet: another version of derivdata wrote this file .*3\.5"):
        read_totals(archive)


def test_column_of_a_newer_version_survives_appends(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = NOW.columns | {"fee_usd": NOW.columns["total_oi_usd"]}
    newer = replace(NOW, columns=columns, optional=frozenset(NOW.optional) | {"fee_usd"})
    version(monkeypatch, archive, newer, totals("aevo", fee_usd=0.25))
    for venue in ("bybit", "okx", "woo"):
        assert archive.append(NOW.name, totals(venue)) == 2
        assert archive.append(NOW.name, totals("aevo")) == 0
    result = read_totals(archive)
    assert result["exchange"].tolist() == [name for name in ("aevo", "bybit", "okx", "woo") for _ in TIMES]
    assert "fee_usd" not in result
    with monkeypatch.context() as patch:
        patch.setitem(tables.TABLES, NOW.name, newer)
        later = read_totals(archive)
    assert later["fee_usd"].fillna(-1).tolist() == [0.25] * 2 + [-1] * 6


@pytest.mark.parametrize(
    ("version", "told"),
    [
        *((number, r"which was never released: import the files under tables") for number in (1, 2, 3)),
        (5, "this version reads up to 4: update derivdata"),
    ],
)
@pytest.mark.parametrize("is_sealed", [True, False])
def test_unknown_format_is_rejected_and_unchanged(
    archive: Archive, version: int, told: str, is_sealed: bool
) -> None:
    text = said(archive.path) | {"version": version}
    say(archive.path, text)
    if not is_sealed:
        (archive.path / "archive.json").write_text(json.dumps(text))
    before = contents(archive.path)
    for attempt in (lambda: read(archive), lambda: archive.append(FUNDING, rates(["SOL"]))):
        with pytest.raises(ArchiveError, match=f"has format {version}, {told}"):
            attempt()
    assert contents(archive.path) == before


def test_tables_of_a_newer_version_survive_appends(archive: Archive) -> None:
    text = said(archive.path)
    text["tables"]["prices_of_later"] = {"parts": [], "values": {"symbol": ["BTC"]}}
    say(archive.path, text)
    assert archive.append(FUNDING, rates(["SOL"], ["okx"])) == 96
    assert said(archive.path)["tables"]["prices_of_later"]["values"] == {"symbol": ["BTC"]}
