"""Wrong folders and files: one clear error each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.queries import engine
from derivdata.sources.archive.schemas import archive_table
from tests.archive.rates import EVER, START, rates, said, say


def test_missing_folder_raises_and_is_created_by_the_first_append_only(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="nowhere: archive not found"):
        open_archive(tmp_path / "nowhere", create=False)
    open_archive(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_folder_with_other_files_raises_and_is_unchanged(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("mine")
    with pytest.raises(
        ArchiveError, match=r"not an archive: archive.json is missing, and the folder contains 'thesis.txt'"
    ):
        open_archive(tmp_path)
    assert [*tmp_path.iterdir()] == [thesis]
    with pytest.raises(ArchiveError, match=r"cannot be read as an archive|this is a file"):
        open_archive(thesis)


def test_folder_with_files_since_the_open_raises_at_the_append(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ArchiveError, match="not an archive"):
        archive.append("funding_history", rates())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("text", [{}, {"seal": ""}, {"seal": "0" * 32}])
def test_manifest_without_a_seal_is_rejected(archive: Archive, text: dict[str, str]) -> None:
    """Each byte of a sealed one is tested in reliability."""
    path = archive.path / "archive.json"
    path.write_text(json.dumps(said(archive.path) | text, separators=(",", ":")))
    with pytest.raises(ArchiveError, match=r"archive\.json is damaged \(the seal does not match the text\)"):
        open_archive(archive.path)


@pytest.mark.parametrize("given", [{"blocks": ""}, {"blocks": "", "schema": ""}])
def test_a_file_without_checksums_is_not_read(archive: Archive, given: dict[str, str]) -> None:
    text = said(archive.path)
    for part in text["tables"]["funding_history"]["parts"]:
        part.update(given)
    say(archive.path, text)
    with pytest.raises(ArchiveError, match=r"the file is damaged \(the checksum of a block does not match"):
        archive.read("funding_history", *EVER)
    for part in text["tables"]["funding_history"]["parts"]:
        for name in given:
            del part[name]
    say(archive.path, text)
    with pytest.raises(ArchiveError, match=r"archive\.json is damaged .*missing required field `blocks`"):
        open_archive(archive.path)


def test_cleanup_removes_only_files_in_the_journal(archive: Archive) -> None:
    """An older manifest is restored after a writer was killed; files that it does not list remain."""
    path = archive.path / "archive.json"
    before = path.read_bytes()
    archive.append("funding_history", rates(["SOL"], start=START + pd.Timedelta("60D")))
    (newest,) = archive.path.glob("funding_history/2026-03*/*.parquet")
    path.write_bytes(before)
    orphan = newest.with_name("0" * 32 + ".parquet")
    other = newest.with_name("1" * 32 + ".parquet")
    for item in (orphan, other):
        item.write_bytes(b"")
    named = [
        str(item.relative_to(archive.path)) for item in (orphan, *archive.path.rglob("2026-01*/*.parquet"))
    ]
    (archive.path / ".writing").write_text(
        "\n".join(["1", *named, "../mine/archive.json", "archive.json", ""])
    )
    assert open_archive(archive.path).append("funding_history", rates(["XRP"])) == 192
    assert (newest.exists(), orphan.exists(), other.exists()) == (True, False, True)
    assert len(open_archive(archive.path).read("funding_history", *EVER)) == 384 + 192


def test_damage_of_a_copy_is_not_reported_for_the_original(archive: Archive, tmp_path: Path) -> None:
    """Copies have the same files; a query of the intact one fails for another reason meanwhile."""
    copy = open_archive(shutil.copytree(archive.path, tmp_path / "copy"))
    table = archive_table("funding_history")
    files = copy._entry(table).files
    for file in files:
        (copy.path / file.path).write_bytes(b"nothing")
    with engine() as one, one.files.serving(copy._storage, files):
        with pytest.raises(ArchiveError, match=r"copy/.*: the file is damaged"):
            copy.read(table.name, *EVER)
        with pytest.raises(ArchiveError, match="mine: DuckDB cannot read: Binder Error"):
            one.select("SELECT nonsense FROM read_parquet({files})", archive._storage, files)


def test_file_of_another_table_is_rejected(archive: Archive) -> None:
    text = said(archive.path)
    say(archive.path, text | {"tables": {"oi_history": text["tables"]["funding_history"]}})
    with pytest.raises(ArchiveError, match="expected rows of oi_history, got funding_history"):
        archive.read("oi_history", *EVER)
