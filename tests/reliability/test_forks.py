"""Processes that are forked, spawned or borrowed from a pool, and threads, on one connection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.reliability.conftest import Measured
from tests.reliability.pools import POOLS, WORKERS
from tests.reliability.processes import ROOT, finished
from tests.reliability.promises import SOAK, count
from tests.transport.server import ReceivedRequest, Reply, Server, serving

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def server() -> Iterator[Server]:
    """Start a server that records its requests; some responses are late so that they overlap."""

    def answer(request: ReceivedRequest) -> Reply:
        if request.path[-1] in "05":
            time.sleep(0.002)
        return Reply.json({"path": request.path})

    with serving(answer) as running:
        yield running


def run(what: str, kind: str, source: str, number: int, folder: Path) -> Any:
    """Result of a function of `pools` in its own process, in which every child has ended too."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.reliability.pools", what, kind, source, str(number), str(folder)],
        cwd=ROOT,
        env={**os.environ, "DERIVDATA_BASE_URL": source if "://" in source else ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", POOLS)
def test_every_process_and_thread_gets_its_own_responses(
    kind: str, server: Server, tmp_path: Path, measured: Measured
) -> None:
    requests = count(200, 2000)
    result = run("pool", kind, server.url, requests, tmp_path)
    assert result == {"right": requests, "cached": requests}
    measured(
        "forked processes", f"{requests:,} requests of one kind of pool, all right, now and from the cache"
    )


@pytest.mark.parametrize("kind", ["fork", "concurrent.futures", "threads"] if SOAK else ["fork", "threads"])
def test_a_forked_child_reaches_the_service_in_its_parent(
    kind: str, tmp_path: Path, measured: Measured
) -> None:
    requests = count(24, 700)
    result = run("pool", kind, "sample", requests, tmp_path)
    assert result["right"] == requests
    measured("forked processes", f"{requests} requests to a service in the parent, all right")


@pytest.mark.parametrize("how", ["used", "unused"] if SOAK else ["used"])
def test_child_of_a_stopped_service_gets_a_clear_error(how: str, tmp_path: Path) -> None:
    message = run("orphaned", how, "sample", 0, tmp_path)
    assert message.startswith("NetworkError: /funding/historical: the service of 'sample' ran in the process")
    assert message.endswith("call dd.connect in this process")


def test_responses_of_forked_children_are_recorded(server: Server, tmp_path: Path) -> None:
    result = run("recorded", "fork", server.url, 0, tmp_path)
    assert result == {"again": [f"/echo/{n}" for n in range(11)], "answers": 11, "files": []}


def test_child_that_outlives_the_recording_warns_once(server: Server, tmp_path: Path) -> None:
    [notice] = run("noticed", "fork", server.url, 0, tmp_path)
    assert "/echo/1 and later ones are not recorded; end the pool before the recording" in notice


def test_forks_during_any_operation_work(server: Server, tmp_path: Path, measured: Measured) -> None:
    """Three threads fetch and record, so locks are held and files half written at the fork."""
    forks = count(16, 400)
    result = run("restless", "fork", server.url, forks, tmp_path)
    assert result == {"children": forks, "wrong": [], "recorded": True, "files": []}
    measured("forked processes", f"{forks} forks while 3 threads fetch and record: 0 hang, 0 wrong")


FIRST_TOUCH = """
import json, os, sys, threading, time
import derivdata as dd
from derivdata.support import forking

forking._PATIENCE_SECONDS = 250.0  # a fork that gives up waiting is as wrong as a child that hangs
dd.connect(sys.argv[1], cache="off")

def touch(family):
    getattr(dd, family)
    dd.raw("/echo/0")

families = ["funding", "plot", "report"]
threads = [threading.Thread(target=touch, args=[name]) for name in families]
[thread.start() for thread in threads]
pipes = []
for n, module in enumerate(["funding", "plot", "reports", "client.transport.network"]):
    while f"derivdata.{module}" not in sys.modules:  # it is there from the first line of its import on
        time.sleep(0.0005)
    read, write = os.pipe()
    if os.fork() == 0:
        [getattr(dd, name) for name in families]
        os.write(write, json.dumps(dd.raw(f"/echo/{n}")["path"]).encode())
        os._exit(0)
    os.close(write)
    pipes.append(os.fdopen(read))
found = [json.loads(pipe.read()) for pipe in pipes]
[thread.join() for thread in threads]
print(json.dumps(found))
"""


def test_a_fork_while_families_are_imported_for_the_first_time(server: Server) -> None:
    result = json.loads(finished(FIRST_TOUCH, server.url))
    assert result == [f"/echo/{n}" for n in range(4)]


def test_replay_and_venue_session_work_in_children(server: Server, tmp_path: Path) -> None:
    requests = count(100, 1000)
    assert run("replayed", "fork", server.url, requests, tmp_path) == requests
    assert run("keyless", "fork", server.url, requests, tmp_path) == [requests] * WORKERS


def test_child_of_a_process_connected_to_venues_asks_the_parent(tmp_path: Path) -> None:
    result = run("venues", "fork", "venues", 0, tmp_path)
    assert len(result["truth"]) == 24, "a payment an hour on that day"
    for first, rates, then in result["told"]:
        assert first == result["before"]
        assert rates == pytest.approx(result["truth"])
        assert pd.Timestamp(then) >= pd.Timestamp(first) + pd.Timedelta(5, "min"), "the parent has asked anew"
