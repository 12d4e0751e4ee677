"""Two concurrent writers and a full disk: acknowledged rows are stored, rejected ones raise."""

from __future__ import annotations

import errno
import itertools
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, open_archive, storage
from tests.archive.rates import EVER, rates
from tests.archive.test_writers import failing_at, named_files
from tests.reliability.conftest import Measured
from tests.reliability.processes import output, started
from tests.reliability.promises import count

PROMISE = "archive: disk and files"
FUNDING = "funding_history"

WRITER = """
    import sys, warnings
    import pandas as pd
    from derivdata.sources.archive import open_archive
    from derivdata.errors import DataNotice
    from tests.archive.rates import START, rates

    folder, me, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore", DataNotice)
    archive, written = open_archive(folder), 0
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(rounds):
        later = START + pd.Timedelta(12 * n, "h")
        mine = rates([f"{me}{n}"], ["okx"])
        shared = rates(["SHARED"], ["okx"], start=later, hours=48)
        disputed = rates(["DISPUTED"], ["okx"], start=later, hours=48, plus=1000.0 * (me == "B"))
        shared["rate_bps_8h"] += 12.0 * n
        disputed["rate_bps_8h"] += 12.0 * n
        written += archive.append(
            "funding_history", pd.concat([mine, shared, disputed]), accept=["unit"]
        )
    print(written)
"""


def together(folder: Path, rounds: int) -> list[subprocess.Popen[str]]:
    """Start two writers at once."""
    writers = [started(WRITER, folder, name, rounds) for name in "AB"]
    for item in writers:
        assert item.stdout is not None
        assert item.stdout.readline() == "ready\n", item.communicate()[1]
    for item in writers:
        assert item.stdin is not None
        item.stdin.write("go\n")
        item.stdin.flush()
    return writers


def watched(archive: Archive, writers: list[subprocess.Popen[str]]) -> None:
    """Look on while they write, and once afterwards: appends are whole, and never less than before."""
    before = 0
    under_way = True
    while under_way:
        under_way = any(item.poll() is None for item in writers)
        sizes = archive.read(FUNDING, *EVER).groupby("symbol", observed=True).size()
        assert (sizes.drop(["SHARED", "DISPUTED"], errors="ignore") == 96).all()
        assert sizes.sum() >= before
        before = int(sizes.sum())


def test_concurrent_writers_store_every_row_once(tmp_path: Path, measured: Measured) -> None:
    """Distinct rows, rows of both, and conflicting rows; a reader runs at the same time."""
    rounds = count(8, 60)
    archive = open_archive(tmp_path / "x")
    writers = together(archive.path, rounds)
    try:
        watched(archive, writers)
        written = sum(int(output(item)) for item in writers)
    finally:
        for item in writers:
            item.kill()
    rows = archive.read(FUNDING, *EVER)
    mine = rows[~rows["symbol"].isin(["SHARED", "DISPUTED"])]
    names = [f"{writer}{n}" for writer in "AB" for n in range(rounds)]
    expected = tables.TABLES["funding_history"].conform(rates(names, ["okx"]))
    pd.testing.assert_frame_equal(tables.TABLES["funding_history"].conform(mine), expected)
    hours = [float(hour) for hour in range(48 + 12 * (rounds - 1))]
    assert rows.loc[rows["symbol"] == "SHARED", "rate_bps_8h"].tolist() == hours
    assert (rows.loc[rows["symbol"] == "DISPUTED", "rate_bps_8h"] % 1000).tolist() == hours
    assert written == len(rows) == len(expected) + 2 * len(hours)
    assert files_of(archive) == set(named_files(archive.path))
    measured(PROMISE, f"2 writers × {rounds} overlapping appends: {written:,} rows, none lost, none double")


def files_of(archive: Archive) -> set[str]:
    return {str(path.relative_to(archive.path)) for path in archive.path.glob("*/*/*")}


def test_waiting_writer_names_a_stopped_one_and_then_continues(tmp_path: Path, measured: Measured) -> None:
    """At any stop, another writer is served or gets the holder of the lock, and both ends are well."""
    chance, refused, stops = random.Random(3), 0, count(6, 60)
    archive = open_archive(tmp_path / "x", lock_timeout=0.05)
    archive.append(FUNDING, rates(["FIRST"], ["okx"]))
    other = started(WRITER, tmp_path / "x", "A", 10_000)
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        other.stdin.flush()
        for stop in range(stops):
            time.sleep(chance.uniform(0.005, 0.06))
            other.send_signal(signal.SIGSTOP)
            refused += not _appended(archive, f"S{stop}", other.pid)
            assert len(archive.read(FUNDING, *EVER, symbols=["FIRST"])) == 96
            other.send_signal(signal.SIGCONT)
    finally:
        other.kill()
        other.communicate()
    patient = open_archive(tmp_path / "x")
    assert sum(patient.append(FUNDING, rates([f"S{n}"], ["okx"])) for n in range(stops)) == 96 * refused
    assert refused, "it was stopped with the lock in its hands"
    measured(PROMISE, f"a writer stopped {stops} times: {refused} others told who holds the lock, 0 lost")


def _appended(archive: Archive, symbol: str, holder: int) -> bool:
    try:
        return archive.append(FUNDING, rates([symbol], ["okx"])) == 96
    except ArchiveError as problem:
        message = str(problem)
    # It may have been stopped in the time before it wrote down who it is.
    told = rf"process ({holder}|unknown) has held the writer's lock for over 0\.05 s. Nothing was written"
    assert re.search(told, message), message
    return False


@pytest.mark.parametrize(
    ("module", "name"),
    [(Path, "open"), (os, "replace"), (pq.ParquetWriter, "write_table"), (storage, "sync")],
)
def test_full_disk_raises_one_clear_error_and_loses_nothing(
    module: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Measured
) -> None:
    """At the first call that an append makes of the disk, at the second, and so on to the last."""
    archive, names, refused, unconfirmed = open_archive(tmp_path / "x"), ["FIRST"], 0, 0
    archive.append(FUNDING, rates(names, ["okx"]))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for at in itertools.count(1):
        real = getattr(module, name)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, failing_at(at, real, full))
            try:
                archive.append(FUNDING, rates([f"S{at}"], ["okx"]))
                break
            except ArchiveError as problem:
                refused += 1
                message = str(problem)
        assert "No space left on device" in message
        there = "the rows were written, but" in message
        unconfirmed += there
        names += [f"S{at}"] * there
        for seen in (archive, open_archive(tmp_path / "x")):
            assert sorted(seen.symbols(FUNDING)) == sorted(names)
        assert files_of(archive) == set(named_files(archive.path))
        assert archive.append(FUNDING, rates([f"S{at}"], ["okx"])) == (0 if there else 96)
        names += [f"S{at}"] * (not there)
    assert refused
    assert bool(unconfirmed) == (name == "sync"), "rows that are in, but nobody knows for how long"
    measured(PROMISE, f"a disk full at {refused} calls of {name}: refused in one line, 0 lost, 0 left over")
