"""Threads, processes, interrupts and kills: no error, no lost entry, no wrong answer, no call that hangs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path

import pytest

from derivdata import errors
from derivdata.client.transport.worker import started
from derivdata.tables.endpoints import FUNDING, Request
from tests.support.threads import in_threads
from tests.transport.conftest import HANGS_SECONDS, Joiners, Open
from tests.transport.server import Asked, Reply, serving

ROOT = Path(__file__).resolve().parents[2]


def echo(asked: Asked) -> Reply:
    return Reply.json({"path": asked.path, "pad": "x" * 2000})


def test_an_error_reaches_all_who_wait_for_it_and_is_not_kept(opened: Open, joiners: Joiners) -> None:
    replies = iter([Reply(b"<html>")])

    def slow(_: Asked) -> Reply:
        joiners.wait_for(3)
        return next(replies, Reply.json({}))

    raised: list[str] = []

    def ask(_: int) -> None:
        with pytest.raises(errors.SchemaError) as error:
            connection._serve(Request("/x", ()), FUNDING)
        raised.append(str(error.value))

    with serving(slow) as server:
        connection = opened(server.url)
        in_threads(4, ask)
        assert connection._serve(Request("/x", ()), FUNDING).body == b"{}"
        assert len(server.asked) == 2
    assert len(raised) == 4


def test_a_fault_of_ours_comes_out_where_it_was_called_and_without_its_frames() -> None:
    def broken() -> None:
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours") as raised:
        started(broken)(60.0)
    assert "broken" not in [entry.name for entry in raised.traceback]


def echo_of(path: str) -> bytes:
    return echo(Asked("GET", path, {})).body


MANY = """
    import random, sys, threading
    from pathlib import Path
    from derivdata.tables.endpoints import FUNDING, Request
    from derivdata.client.transport.settings import ConnectionSettings
    from derivdata.client.transport.connection import Connection
    from derivdata.client.transport.origin import site

    url, folder, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    connection = Connection(site(url), None, ConnectionSettings(scope="shared", folder=folder))
    chance = random.Random(seed)
    orders = [chance.sample(range(40), 40) for _ in range(4)]
    wrong = []

    def work(order):
        for n in order:
            served = connection._serve(Request(f"/x/{n}", ()), FUNDING)
            if f'"path": "/x/{n}"'.encode() not in served.body or len(served.body) < 2000:
                wrong.append(served)

    threads = [threading.Thread(target=work, args=(order,)) for order in orders]
    [t.start() for t in threads]
    [t.join() for t in threads]
    sys.exit(len(wrong))
"""


def launched(script: str, *args: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_processes_and_threads_share_one_folder(opened: Open, tmp_path: Path) -> None:
    """3 processes of 4 threads ask for the same 40 addresses: all right, and all kept."""
    with serving(echo) as server:
        running = [launched(MANY, server.url, tmp_path / "cache", seed) for seed in range(3)]
        for process in running:
            _, said = process.communicate(timeout=HANGS_SECONDS)
            assert process.returncode == 0, said.decode()
        assert len(Counter(server.paths)) == 40
        before = len(server.asked)
        assert before <= 3 * 40, "each process asks at most once"
        connection = opened(server.url, key=None, scope="shared")
        for n in range(40):
            assert connection._serve(Request(f"/x/{n}", ()), FUNDING).body == echo_of(f"/x/{n}")
        assert len(server.asked) == before


def test_a_thread_that_is_interrupted_or_cannot_start_raises_what_it_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `Thread.start` fails where it is interrupted between the two releases of its condition's lock."""

    def struck(_: threading.Thread) -> None:
        condition = threading.Condition(threading.Lock())
        with condition:
            condition.release()
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", struck)
    with pytest.raises(KeyboardInterrupt):
        started(lambda: 1)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        started(lambda: 1)
