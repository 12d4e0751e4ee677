"""Many processes and threads at one cache folder and one address; and beside a stopped process."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from derivdata import bundle
from derivdata.client import transport
from derivdata.client.transport.cache import AnswerFiles
from derivdata.client.transport.settings import Pace, Timing
from derivdata.errors import ArchiveError
from derivdata.sources.archive import open_archive
from derivdata.tables.endpoints import FUNDING_HISTORICAL
from tests.archive.rates import EVER, rates
from tests.reliability.alone import PATIENCE
from tests.reliability.conftest import Measured
from tests.reliability.processes import finished, started
from tests.reliability.promises import SOAK, count
from tests.support.kept_answers import keep, kept

WRITERS = """
    import os, random, sys, threading, time
    from pathlib import Path
    from derivdata.client.transport.cache import AnswerFiles
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
        files, longest = AnswerFiles(folder, "shared"), []
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
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


STOPPED = """
    import os, signal, sys
    from pathlib import Path

    what, folder = sys.argv[1], Path(sys.argv[2])

    def stop(*_):
        print("held", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

    if what == "cache":
        from derivdata.client.transport.cache import AnswerFiles
        from tests.support.kept_answers import keep

        Path.replace = stop
        keep(AnswerFiles(folder, "s"), "k", b"1")
    elif what == "turn":
        from derivdata.tables.endpoints import FUNDING_HISTORICAL
        from derivdata.client.transport.settings import Pace
        from derivdata.client.transport.settings import Timing

        Pace._next = stop
        Pace(folder, "scope", Timing()).wait(FUNDING_HISTORICAL)
    elif what == "bundle":
        import hashlib
        import pandas as pd
        from derivdata import bundle
        from derivdata.client import transport
        from derivdata.client.transport import Response

        noon = pd.Timestamp("2026-06-30T12:00:00Z")
        recording = bundle.record(folder / "x.ddz")
        transport.SESSION.responder = lambda r: Response(
            r, 200, {}, b"1", noon, "s", True, sha256=hashlib.sha256(b"1").hexdigest()
        )
        recording._asof = noon
        transport.raw("/first")
        Path.replace = os.replace = stop
        transport.raw("/second")
    elif what == "archive":
        from derivdata.sources.archive import manifest, open_archive
        from tests.archive.rates import rates

        manifest.save = stop
        open_archive(folder).append("funding_history", rates(["ETH"]))
"""


@contextmanager
def stopped(what: str, folder: Path) -> Iterator[None]:
    """A process that was stopped in the middle of writing something below a folder."""
    process = started(STOPPED, what, folder)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said == "held\n", process.communicate()
        yield
    finally:
        process.kill()
        process.communicate()


def beside_cache(folder: Path) -> None:
    keep(AnswerFiles(folder, "s"), "k", b"2")
    assert kept(folder / "s") == {"k": b"2"}


def beside_turn(folder: Path) -> None:
    Pace(folder, "scope", Timing()).wait(FUNDING_HISTORICAL)


def beside_bundle(folder: Path) -> None:
    with bundle.replay(folder / "x.ddz"):
        assert transport.raw("/first") == 1


def beside_archive(folder: Path) -> None:
    """Readers go on; after the time that it allows another writer gets an error that names the holder."""
    archive = open_archive(folder, lock_timeout=0.3)
    assert len(archive.read("funding_history", *EVER)) == 192
    with pytest.raises(ArchiveError, match="has held the writer's lock"):
        archive.append("funding_history", rates(["SOL"]))


BESIDE = {"cache": beside_cache, "turn": beside_turn, "bundle": beside_bundle, "archive": beside_archive}


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")
def test_a_stopped_process_stops_nobody(tmp_path: Path, measured: Measured) -> None:
    waits = {}
    for round_ in range(count(1, 3)):
        for what, beside in BESIDE.items():
            folder = tmp_path / f"{what}{round_}"
            folder.mkdir()
            if what == "archive":
                open_archive(folder).append("funding_history", rates(["BTC"]))
            with ThreadPoolExecutor(1) as pool, stopped(what, folder):
                began = time.monotonic()
                pool.submit(beside, folder).result(timeout=PATIENCE)
                waits[what, round_] = time.monotonic() - began
            assert not SOAK or waits[what, round_] < 1.0, what
    longest = max(waits.values())
    measured("stopped process", f"{len(waits)} stopped: the others went on after at most {longest:.2f} s")
