"""Finished months become one file each: its order, interruptions, and late rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from derivdata.errors import ArchiveError, DataNotice
from derivdata.sources.archive import Archive, manifest, open_archive, writing
from derivdata.sources.archive import writing as appending
from tests.archive.rates import EVER, conformed, rates
from tests.archive.test_writers import failing_at, named_files

FUNDING = "funding_history"
JANUARY = pd.Timestamp("2026-01-29", tz="UTC")
MARCH = pd.Timestamp("2026-03-01", tz="UTC")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Three days of January in a file each."""
    monkeypatch.setattr(appending, "MONTH_ROWS", 10)
    filled = open_archive(tmp_path)
    filled.append(FUNDING, rates(["ETH", "BTC"], hours=72, start=JANUARY))
    assert folders(filled) == ["2026-01-29", "2026-01-30", "2026-01-31"]
    return filled


def folders(archive: Archive) -> list[str]:
    """Folder of each file of the table, and no other file is there."""
    there = {str(path.relative_to(archive.path)) for path in archive.path.glob("*/*/*")}
    assert there == {file.path for file in archive._manifest().files()}
    return sorted(name.split("/")[1] for name in named_files(archive.path))


def close(archive: Archive) -> int:
    return archive.append(FUNDING, rates(["BTC"], ["okx"], hours=2, start=MARCH))


def test_closed_month_is_one_file_sorted_by_symbol_venue_and_time(archive: Archive) -> None:
    before = archive.read(FUNDING, *EVER)
    assert close(archive) == 2
    assert folders(archive) == ["2026-01", "2026-03"]
    (path,) = archive.path.glob("*/2026-01/*.parquet")
    stored = pq.ParquetFile(path).read(columns=["symbol", "exchange", "time"]).to_pylist()
    assert stored == sorted(stored, key=lambda row: (row["symbol"], row["exchange"], row["time"]))
    pd.testing.assert_frame_equal(archive.read(FUNDING, EVER[0], MARCH), before)
    assert close(archive) == 0, "what is there is known"
    assert archive.append(FUNDING, rates(["ETH", "BTC"], hours=72, start=JANUARY)) == 0


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize(
    ("slice_rows", "periods"),
    [
        (700, [(672, 1, 7), (672, 8, 14), (672, 15, 21), (960, 22, 31)]),
        (1_000, [(1_344, 1, 14), (1_632, 15, 31)]),
    ],
)
def test_a_large_month_is_sorted_by_weeks_or_halves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slice_rows: int,
    periods: list[tuple[int, int, int]],
    merged: bool,
) -> None:
    """Its days are in row groups by week or half, whether it was merged or written at once."""
    monkeypatch.setattr(writing, "SLICE_ROWS", slice_rows)
    monkeypatch.setattr(appending, "MONTH_ROWS", 10)
    archive, rows = open_archive(tmp_path), rates(["ETH", "BTC"], hours=31 * 24, start=MARCH)
    for part in (rows[rows["symbol"] == "ETH"], rows[rows["symbol"] != "ETH"]) if merged else ():
        archive.append(FUNDING, part, accept=["unit"])
    april = rates(["BTC"], ["okx"], hours=1, start=MARCH + pd.Timedelta("31D"))
    archive.append(FUNDING, april if merged else pd.concat([rows, april]), accept=["unit"])
    (path,) = archive.path.glob("*/2026-03/*.parquet")
    written = []
    for place in range(pq.read_metadata(path).num_row_groups):
        group = pq.ParquetFile(path).read_row_group(place).to_pandas()
        assert group.equals(group.sort_values(["symbol", "exchange", "time"], ignore_index=True))
        written.append((len(group), group["time"].min().day, group["time"].max().day))
    assert written == periods
    pd.testing.assert_frame_equal(archive.read(FUNDING, MARCH, "2026-04-01"), conformed(rows))


def test_late_rows_are_merged_once_they_exceed_an_eighth_of_the_month(archive: Archive) -> None:
    close(archive)
    archive.append(FUNDING, rates(["SOL"], ["okx"], hours=30, start=JANUARY))
    assert folders(archive) == ["2026-01", "2026-01", "2026-03"]
    archive.append(FUNDING, rates(["XRP"], ["okx"], hours=30, start=JANUARY))
    assert folders(archive) == ["2026-01", "2026-03"]
    assert len(archive.read(FUNDING, EVER[0], MARCH)) == 288 + 60


def test_corrections_undo_and_retention_work_in_a_closed_month(archive: Archive) -> None:
    complete = archive.read(FUNDING, *EVER)
    archive.delete(FUNDING, {"symbol": "ETH"}, start=JANUARY + pd.Timedelta("70h"))
    close(archive)
    assert len(archive.read(FUNDING, EVER[0], MARCH)) == 288 - 4
    archive.undo(1)
    pd.testing.assert_frame_equal(archive.read(FUNDING, EVER[0], MARCH), complete)
    assert archive.drop_before("2026-02-15").rows == 288
    assert folders(archive) == ["2026-03"]


@pytest.mark.parametrize(
    ("module", "name", "at"),
    [(writing.schemas, "write", 2), (manifest, "save", 2), (writing.queries, "slices", 1)],
)
def test_interrupted_merge_loses_nothing_and_the_next_append_completes_it(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, at: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing_at(at, getattr(module, name), KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            close(archive)
    assert folders(archive) == ["2026-01-29", "2026-01-30", "2026-01-31", "2026-03"]
    assert len(archive.read(FUNDING, *EVER)) == 290
    assert archive.append(FUNDING, rates(["BTC"], ["okx"], hours=3, start=MARCH)) == 1
    assert folders(archive)[0] == "2026-01"
    assert len(archive.read(FUNDING, EVER[0], MARCH)) == 288


def test_failed_merge_is_reported_and_its_rows_are_stored(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise ArchiveError("no space left")

    monkeypatch.setattr(writing, "_close_month", full)
    with pytest.warns(DataNotice, match="files of 2026-01 stay unmerged until a later append: no space left"):
        assert close(archive) == 2
    assert len(archive.read(FUNDING, *EVER)) == 290


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Let something be done after a merge has read the month and before it commits."""
    real = writing.commit

    def arrange(done: Callable[[], Any]) -> None:
        def late(*arguments: Any) -> Any:
            monkeypatch.setattr(writing, "commit", real)
            done()
            return real(*arguments)

        monkeypatch.setattr(writing, "commit", late)

    return arrange


def test_merge_does_not_overwrite_a_concurrent_change(archive: Archive, meanwhile: Any) -> None:
    corrected, pair = rates(["ETH"], ["okx"], hours=1, start=JANUARY, plus=7.0), {"symbol": "ETH"}
    pair |= {"exchange": "okx"}
    other, end = open_archive(archive.path), JANUARY + pd.Timedelta("1h")
    meanwhile(lambda: other.replace(FUNDING, corrected, pair, end=end))
    close(archive)
    assert folders(archive)[-1] == "2026-03"
    rows = archive.read(FUNDING, EVER[0], MARCH, symbols=["ETH"], venues=["okx"])
    assert rows["rate_bps_8h"].tolist()[:2] == [7.0, 1.0]
    assert len(archive.read(FUNDING, *EVER)) == 290


def test_cleanup_preserves_a_month_during_its_merge(archive: Archive, meanwhile: Any) -> None:
    """A writer was killed; the next one cleans up while the month's file is not yet in the manifest."""
    other = open_archive(archive.path)

    def next_writer() -> None:
        (archive.path / ".writing").write_text("1")
        assert other.append(FUNDING, rates(["DOGE"], ["okx"], hours=1, start=MARCH)) == 1

    meanwhile(next_writer)
    close(archive)
    assert folders(archive)[0] == "2026-01"
    assert len(archive.read(FUNDING, EVER[0], MARCH)) == 288
