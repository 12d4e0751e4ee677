"""Sums over symbols that lie beside large files: values by hand, and against the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, manifest, open_archive, parquet_reader, parquet_writer
from derivdata.sources.archive.schemas import to_arrow
from derivdata.sources.archive.step_sums import SumsBuilder, sums_of_frame
from tests.archive.rates import EVER

OI = "oi_history"
START = pd.Timestamp("2026-01-30", tz="UTC").as_unit("us")


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few rows are large, and merged by eights."""
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 16)
    monkeypatch.setattr(parquet_writer, "_SUMS_FROM_ROWS", 8)
    monkeypatch.setattr("derivdata.sources.archive.append._SMALL_ROWS", 8)


def hours(symbol: str, exchange: str, first: int, values: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "symbol": symbol,
            "exchange": exchange,
            "time": START + pd.to_timedelta(np.arange(first, first + len(values)), "h"),
            "oi_usd": values,
            "resolution": "1h",
        }
    )


def many(symbols: int = 6, count: int = 72, seed: int = 4) -> pd.DataFrame:
    """Hours of some symbols on two venues, over the end of a month."""
    draw = np.random.default_rng(seed)
    pairs = [(f"S{i}", venue) for i in range(symbols) for venue in ("binance", "okx")]
    return pd.concat(
        [hours(*pair, 0, draw.lognormal(15, 1, count).round(2).tolist()) for pair in pairs], ignore_index=True
    )


def assert_as_rows(archive: Archive, **chosen: Any) -> pd.DataFrame:
    """Sums are those of the rows that are read."""
    sums = archive.step_sums(OI, *EVER, **chosen)
    expected = sums_of_frame(archive.read(OI, *EVER, **chosen), "oi_usd")
    texts = {"exchange": str, "resolution": str}
    pd.testing.assert_frame_equal(sums.astype(texts), expected.astype(texts), rtol=1e-12)
    return sums


def assert_whole(archive: Archive) -> None:
    """The files of sums are there that the manifest names, and no others."""
    named = {path for file in archive._manifest().files() for path in file.paths}
    assert {str(p.relative_to(archive.path)) for p in archive.path.glob("*/*/*")} == named


def test_values_by_hand(tmp_path: Path) -> None:
    """At 02:00 SOL replaces ETH on binance: as many symbols, and others."""
    rows = pd.concat(
        [
            hours("BTC", "binance", 0, [1.0, 2.0, 4.0, 8.0]),
            hours("ETH", "binance", 0, [10.0, 20.0]),
            hours("SOL", "binance", 2, [100.0, np.nan]),
            hours("BTC", "okx", 0, [0.5, 0.5, 0.5, 0.5]),
            hours("ETH", "okx", 0, [5.0, 5.0, 5.0, 5.0]),
            hours("SOL", "okx", 0, [50.0, 50.0, 50.0, 50.0]),
            hours("XRP", "okx", 0, [500.0, 500.0, 500.0, 500.0]),
            hours("ADA", "okx", 0, [5000.0, 5000.0, 5000.0, 5000.0]),
            hours("BNB", "okx", 0, [1.0, 1.0, 1.0, 1.0]),
            hours("DOT", "okx", 0, [1.0, 1.0, 1.0, 1.0]),
        ],
        ignore_index=True,
    )
    archive = open_archive(tmp_path)
    archive.append(OI, rows, accept=["unit"])
    assert len(list(tmp_path.rglob("*.sums"))) == 1
    sums = archive.step_sums(OI, *EVER)
    binance = sums[sums["exchange"] == "binance"]
    assert binance["time"].tolist() == [START + pd.Timedelta(hour, "h") for hour in range(4)]
    assert binance["value"].tolist()[:3] == [11.0, 22.0, 104.0]
    assert np.isnan(binance["value"].iloc[3]), "a value is missing"
    assert binance["symbols"].tolist() == [2, 2, 2, 2]
    hashes = binance["symbol_hash"].tolist()
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]
    okx = sums[sums["exchange"] == "okx"]
    assert okx["value"].tolist() == [5557.5] * 4
    assert okx["symbols"].tolist() == [7] * 4
    assert set(sums["resolution"]) == {"1h"}
    one = archive.step_sums(OI, START + pd.Timedelta(1, "h"), START + pd.Timedelta(2, "h"), venues=["okx"])
    assert one[["value", "symbols"]].values.tolist() == [[5557.5, 7.0]]


def test_hashes_are_those_of_every_process_and_version() -> None:
    """Eight bytes of BLAKE2b, the least first: kept in files, so that they may never change."""
    sums = sums_of_frame(hours("BTC", "okx", 0, [1.0]), "oi_usd")
    assert sums["symbol_hash"].tolist() == [11807706389153180965]


def test_files_are_added_up_and_only_few_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row an hour of each pair, as a collector appends: files are merged by eights, with their sums."""
    monkeypatch.setattr(parquet_writer, "_SUMS_FROM_ROWS", 50)
    archive, rows = open_archive(tmp_path), many(count=20)
    for _, hour in rows.groupby("time"):
        archive.append(OI, hour, accept=["unit"])
    assert_whole(archive)
    assert_as_rows(archive)
    assert_as_rows(archive, venues=["okx"])
    assert len(list(tmp_path.rglob("*.sums"))) == 2
    files = archive._manifest().tables[OI].files
    assert max(file.level for file in files) > 0
    loaded, real = [], parquet_reader.load

    def counted(*arguments: Any, **options: Any) -> Any:
        found = real(*arguments, **options)
        loaded.append(len(found))
        return found

    monkeypatch.setattr(parquet_reader, "load", counted)
    assert archive.step_sums(OI, *EVER)["symbols"].sum() == len(rows)
    assert sum(loaded) == sum(file.rows for file in files if not file.sums) < len(rows) / 4


def test_corrections_and_retention(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(OI, many(), accept=["unit"])
    before = assert_as_rows(archive)
    first = archive.delete(OI, {"symbol": "S3"}, end=START + pd.Timedelta(5, "h"))
    assert assert_as_rows(archive)["symbols"].tolist() != before["symbols"].tolist()
    assert_whole(archive)
    archive.replace(OI, hours("S1", "okx", 7, [1e6]), {"symbol": "S1"}, start=START + pd.Timedelta(7, "h"))
    assert archive.step_sums(OI, *EVER).attrs["provenance"]["notices"]
    assert_as_rows(archive)
    archive.undo(2)
    archive.undo(first.number)
    after = assert_as_rows(archive)
    pd.testing.assert_frame_equal(after.reset_index(drop=True), before, rtol=1e-12)
    assert_whole(archive)
    archive.drop_before("2026-02-01")
    assert_as_rows(archive)
    assert_whole(archive)
    assert archive.step_sums(OI, *EVER)["time"].min() == pd.Timestamp("2026-02-01", tz="UTC")


def test_the_same_rows_make_the_same_files(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        archive = open_archive(tmp_path / name)
        archive.append(OI, many(), accept=["unit"])
        digests.append([(file.digest, file.sums) for file in archive._manifest().tables[OI].files])
    assert digests[0] == digests[1]
    assert all(sums for _, sums in digests[0])


def test_a_damaged_or_missing_file_of_sums_is_named(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(OI, many(), accept=["unit"])
    path, other = sorted(tmp_path.rglob("*.sums"))
    whole = path.read_bytes()
    path.write_bytes(other.read_bytes())  # whole, and of other rows
    with pytest.raises(ArchiveError, match=r"\.sums: the file is damaged"):
        archive.step_sums(OI, *EVER)
    for place in (10, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ArchiveError, match=r"\.sums: the file is damaged"):
            archive.step_sums(OI, *EVER)
    path.unlink()
    with pytest.raises(ArchiveError, match=r"is missing: .*\.sums"):
        archive.step_sums(OI, *EVER)
    assert len(archive.read(OI, *EVER)) == len(many()), "rows are read without it"


def test_an_archive_without_sums_is_summed_by_rows_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions wrote neither the files nor the manifest's field."""
    archive, rows = open_archive(tmp_path), many()
    with monkeypatch.context() as patch:
        patch.setattr(parquet_writer, "_SUMS_FROM_ROWS", 10**9)
        archive.append(OI, rows[rows["time"] < START + pd.Timedelta(60, "h")], accept=["unit"])
    path = tmp_path / manifest.NAME
    path.write_bytes(path.read_bytes().replace(b',"sums":""', b""))
    assert b"sums" not in path.read_bytes()
    archive = open_archive(tmp_path)
    assert_as_rows(archive)
    archive.append(OI, rows, accept=["unit"])
    assert list(tmp_path.rglob("*.sums"))
    assert_as_rows(archive)


def test_irregular_instants_and_small_files_have_no_sums(tmp_path: Path) -> None:
    """Of rows at instants of their own there are as many sums, which saves nothing."""
    archive = open_archive(tmp_path)
    rows = many()
    rows["time"] += pd.to_timedelta(np.arange(len(rows)), "us")
    archive.append(OI, rows.assign(resolution="raw"), accept=["unit"])
    archive.append("volume_history", many(1, 3).rename(columns={"oi_usd": "volume_usd"}), accept=["unit"])
    assert not list(tmp_path.rglob("*.sums"))
    assert_as_rows(archive)
    with pytest.raises(ValueError, match="sums are kept of oi_history and volume_history"):
        archive.step_sums("funding_history", *EVER)


def test_parts_of_a_large_file_are_added_up_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derivdata.sources.archive.step_sums._MOST_PENDING", 300)  # of 144 sums a file
    monkeypatch.setattr("derivdata.sources.archive.parquet_writer._CHUNK_GROUPS", 1)
    archive = open_archive(tmp_path)
    archive.append(OI, many(20), accept=["unit"])
    assert len(list(tmp_path.rglob("*.sums"))) == 2
    assert_as_rows(archive)


def test_a_file_of_irregular_instants_is_given_up_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each piece of a large file would be grouped with all before it, and kept in memory for nothing."""
    monkeypatch.setattr("derivdata.sources.archive.step_sums._MOST_PENDING", 20)
    builder = SumsBuilder(tables.TABLES[OI])
    rows = hours("BTC", "okx", 0, [1.0] * 30)
    for first in range(0, 30, 10):
        some = rows.iloc[first : first + 10].reset_index(drop=True)
        builder.take(to_arrow(tables.TABLES[OI], tables.TABLES[OI].conform(some)))
    assert builder._parts == []
    assert builder.write(tmp_path / "draft") == ""
    assert list(tmp_path.iterdir()) == []


def test_sums_of_an_interrupted_writer_are_removed(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(OI, many(), accept=["unit"])
    left = next(tmp_path.rglob("*.sums")).with_name("0" * 32 + ".sums")
    left.write_bytes(b"cut off")
    archive._storage.sweep({path for file in archive._manifest().files() for path in file.paths})
    assert not left.exists()
    assert_whole(archive)
    assert_as_rows(archive)
