"""Folders and files that are not what they should be: one clear error each."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, open_archive
from tests.archive.rates import EVER, rates


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    filled = open_archive(tmp_path / "mine")
    filled.append("funding_history", rates())
    return filled


def rewrite(archive: Archive, **changes: Any) -> None:
    path = archive.path / "archive.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_places_that_hold_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="nowhere: there is no archive here"):
        open_archive(tmp_path / "nowhere", create=False)
    open_archive(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    for name in ("foreign", "became"):
        (tmp_path / name).mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("mine")
    with pytest.raises(ArchiveError, match=r"not an archive: it has no archive.json, but holds 'thesis.txt'"):
        open_archive(tmp_path / "foreign")
    assert [p.name for p in (tmp_path / "foreign").iterdir()] == ["thesis.txt"]
    archive = open_archive(tmp_path / "became")
    (tmp_path / "became" / "thesis.txt").write_text("mine")
    with pytest.raises(ArchiveError, match="not an archive"):
        archive.append("funding_history", rates())
    assert [p.name for p in (tmp_path / "became").iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(ArchiveError, match=r"cannot be read as an archive|this is a file"):
        open_archive(tmp_path / "x")


def test_an_archive_of_a_newer_format(archive: Archive) -> None:
    rewrite(archive, version=4, tables="of another shape")
    with pytest.raises(ArchiveError, match="format 4, this version reads up to 3: update derivdata"):
        open_archive(archive.path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "archive.json is damaged"),
        ("", "archive.json is damaged"),
        ('{"format": "another", "version": 1}', "is not that of a derivdata archive"),
        ('{"format": "derivdata-archive", "version": 2, "tables": {"oi_history": 5}}', "is damaged"),
    ],
)
def test_a_damaged_manifest(archive: Archive, text: str, why: str) -> None:
    (archive.path / "archive.json").write_text(text)
    with pytest.raises(ArchiveError, match=why):
        open_archive(archive.path)
    with pytest.raises(ArchiveError, match=why):
        archive.read("funding_history", *EVER)


def test_every_flipped_byte_of_a_file_is_noticed_or_harmless(archive: Archive, tmp_path: Path) -> None:
    expected = archive.read("funding_history", *EVER)
    name = next(archive.path.rglob("*.parquet")).relative_to(archive.path)
    whole = (archive.path / name).read_bytes()
    noticed = 0
    for at in range(0, len(whole), 41):
        copy = tmp_path / f"copy{at}"
        shutil.copytree(archive.path, copy)
        (copy / name).write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        try:
            found = open_archive(copy).read("funding_history", *EVER)
        except ArchiveError:
            noticed += 1
        else:
            pd.testing.assert_frame_equal(found, expected)
    assert noticed > 30


def test_a_file_that_was_cut(archive: Archive) -> None:
    path = next(archive.path.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ArchiveError, match=f"{path.name}: the file is damaged"):
        open_archive(archive.path).read("funding_history", *EVER)


def test_a_file_that_is_gone(archive: Archive) -> None:
    path = next(archive.path.rglob("*.parquet"))
    path.unlink()
    with pytest.raises(ArchiveError, match=f"a file of the archive is missing: .*{path.name}"):
        archive.read("funding_history", *EVER)


def test_files_of_another_table(archive: Archive) -> None:
    said = json.loads((archive.path / "archive.json").read_text())["tables"]
    rewrite(archive, tables={"oi_history": said["funding_history"]})
    with pytest.raises(ArchiveError, match="the file holds funding_history, not oi_history"):
        archive.read("oi_history", *EVER)


def test_files_of_an_older_schema_are_read(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file from before a table gained an optional column: the column is missing in its rows."""
    chain = pd.DataFrame(
        {
            "symbol": "BTC",
            "exchange": "deribit",
            "time": EVER[0],
            "instrument_name": ["B-C"],
            "expiry": EVER[1],
            "strike": 1.0,
            "side": "call",
            "iv": 0.5,
            "open_interest": 1.0,
            "underlying_price": 1.0,
            "gamma": 0.1,
        }
    )
    now = tables.TABLES["options_snapshot"]
    older = replace(now, columns={n: c for n, c in now.columns.items() if n != "gamma"})
    with monkeypatch.context() as patch:
        patch.setitem(tables.TABLES, "options_snapshot", older)
        archive.append("options_snapshot", chain)
    archive.append("options_snapshot", chain.assign(symbol="ETH"))
    found = open_archive(archive.path).read("options_snapshot", EVER[0], EVER[1])
    assert found["gamma"].fillna(-1).tolist() == [-1, 0.1]
    assert found["iv"].tolist() == [0.5, 0.5]
