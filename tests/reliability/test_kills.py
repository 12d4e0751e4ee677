"""kill -9 at random moments, and many concurrent writers: files are valid, acknowledged data is present."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pandas as pd
import pytest

from derivdata import tables
from derivdata.sources.archive import open_archive
from tests.archive.rates import EVER, rates
from tests.archive.test_writers import named_files
from tests.reliability.conftest import Measured
from tests.reliability.processes import finished
from tests.reliability.promises import SOAK, count
from tests.support.kept_answers import kept

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

KILLER = """
    import json, os, random, signal, sys, time
    from pathlib import Path

    def killed(kills, work, longest):
        '''Work in a child until it is killed; how often it said that something is written, for each kill.'''
        chance, acknowledged = random.Random(7), []
        for kill in range(kills):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                work(kill, lambda: os.write(write, b"."))
            os.close(write)
            said = sum(len(os.read(read, 1)) for _ in range(chance.randint(1, 4)))
            time.sleep(chance.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            while part := os.read(read, 10_000):
                said += len(part)
            os.close(read)
            acknowledged.append(said)
        print(json.dumps(acknowledged))
"""

CACHE = """
    from derivdata.client.transport.cache import ResponseFiles
    from tests.support.kept_answers import keep

    def work(kill, told):
        files, n = ResponseFiles(Path(sys.argv[1]) / f"{kill}", "s"), 0  # each with a gigabyte of its own
        while True:
            body = random.Random(f"{kill} {n}").randbytes(200_000)
            keep(files, f"k{n}", body)
            told()
            n += 1

    killed(int(sys.argv[2]), work, 0.05)
"""

ARCHIVE = """
    from derivdata.sources.archive import open_archive
    from tests.archive.rates import rates

    def work(kill, told):
        archive = open_archive(Path(sys.argv[1]) / f"a{kill}")
        for n in range(1000):
            archive.append("funding_history", rates([f"S{n:03d}"], ["okx"]))
            told()

    killed(int(sys.argv[2]), work, 0.25)
"""


def test_a_killed_cache_writer_leaves_whole_records(tmp_path: Path, measured: Measured) -> None:
    kills = count(10, 200)
    acknowledged = json.loads(finished(KILLER + CACHE, tmp_path, kills))
    for kill, said in enumerate(acknowledged):
        # One record more may be whole: the writer was killed before it acknowledged it.
        bodies = {f"k{n}": random.Random(f"{kill} {n}").randbytes(200_000) for n in range(said + 1)}
        result = kept(tmp_path / f"{kill}" / "s")
        assert result in (bodies, {key: bodies[key] for key in list(bodies)[:said]})
    assert len(set(acknowledged)) > 1, "the moments differed"
    measured("killed: cache", f"{kills} kills, {sum(acknowledged):,} records acknowledged: 0 damaged, 0 lost")


def test_a_killed_archive_writer_leaves_whole_appends(tmp_path: Path, measured: Measured) -> None:
    """Acknowledged rows are present, present rows are whole, and the next append clears up."""
    kills = count(10, 200)
    acknowledged = json.loads(finished(KILLER + ARCHIVE, tmp_path, kills))
    for kill, said in enumerate(acknowledged):
        # One append more may be whole: the writer was killed before it acknowledged it.
        folder = tmp_path / f"a{kill}"
        archive = open_archive(folder)
        there = list(archive.symbols("funding_history"))
        names = [f"S{n:03d}" for n in range(said + 1)]
        assert there in (names[:said], names)
        expected = tables.TABLES["funding_history"].conform(rates(there, ["okx"]))
        pd.testing.assert_frame_equal(archive.read("funding_history", *EVER), expected)
        assert archive.append("funding_history", rates([*names, "LAST"], ["okx"])) == (
            (said + 2 - len(there)) * 96
        )
        assert {str(p.relative_to(folder)) for p in folder.glob("*/*/*")} == set(named_files(folder))
    assert len(set(acknowledged)) > 1, "the moments differed"
    measured(
        "killed: archive", f"{kills} kills, {sum(acknowledged):,} appends acknowledged: 0 damaged, 0 lost"
    )


WRITERS = """
    import os, random, sys, threading, time
    from pathlib import Path
    from derivdata.client.transport.cache import ResponseFiles
    from tests.support.kept_answers import keep

    folder, processes, writes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

    def body(key):
        return random.Random(key).randbytes(50_000)

    def write(files, name, longest):
        chance = random.Random(name)
        for n in range(writes):
            key = f"{name}-{n}"
            began = time.monotonic()
            keep(files, key, body(key))
            longest.append(time.monotonic() - began)
            other = f"{chance.randrange(processes)}-{chance.randrange(4)}-{chance.randrange(writes)}"
            record = files.record(other)
            assert record is None or record.body == body(other)

    def work(process):
        files, longest = ResponseFiles(folder, "shared"), []
        threads = [threading.Thread(target=write, args=(files, f"{process}-{t}", longest)) for t in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(longest) == 4 * writes
        return max(longest)

    children = []
    for process in range(processes):
        read, end = os.pipe()
        if os.fork() == 0:
            os.write(end, repr(work(process)).encode())
            os._exit(0)
        os.close(end)
        children.append(read)
    print(max(float(os.read(read, 100)) for read in children))
"""


def test_many_writers_lose_nothing_and_none_waits_long(tmp_path: Path, measured: Measured) -> None:
    processes, writes = 8, count(6, 50)
    longest = float(finished(WRITERS, tmp_path, processes, writes))
    expected = {f"{p}-{t}-{n}" for p in range(processes) for t in range(4) for n in range(writes)}
    assert kept(tmp_path / "shared") == {key: random.Random(key).randbytes(50_000) for key in expected}
    assert not SOAK or longest < 2.0
    measured(
        "many writers",
        f"{len(expected):,} writes of 8 × 4: all present, the longest took {longest * 1000:.0f} ms",
    )
