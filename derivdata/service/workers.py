"""The service in several processes that share one port.

The parent listens and answers nothing: its socket goes to the workers, and the system hands each connection
to one that waits. A worker that dies is replaced; workers end with the parent. Keys and the clock are the
same in all of them. What a process keeps is its own: the request rates of each key, the queue in which keys
take turns, and the answers kept in memory. So a key whose connections reach N workers can be answered N times
as often as the documented rate.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import pandas as pd
import uvicorn

from derivdata.service import connections
from derivdata.service.application import app
from derivdata.service.server import clock_of, open_store

__all__ = ["Settings", "run_workers"]

_SHORT_SECONDS = 5.0
_MOST_FAILURES = 3
_PATIENCE = 10.0


class Settings(NamedTuple):
    """What every worker serves: the source, its clock (None: the machine's), key to tier, and the rest."""

    source: str
    now: pd.Timestamp | None
    keys: Mapping[str, str]
    keyless: bool
    hosts: Sequence[str]


def run_workers(count: int, settings: Settings, listener: socket.socket) -> None:
    """Run workers until the process is interrupted.

    Raises
    ------
    OSError
        Workers ended as soon as they were started.
    """
    # Not a fork: the parent may have threads, of pyarrow for one, whose locks a forked child would inherit.
    context = multiprocessing.get_context("spawn")

    def started() -> tuple[multiprocessing.context.SpawnProcess, float]:
        process = context.Process(target=_work, args=(settings, listener), daemon=True)
        process.start()
        return process, time.monotonic()

    workers = [started() for _ in range(count)]
    failures = 0
    try:
        while True:
            multiprocessing.connection.wait([process.sentinel for process, _ in workers])
            for place, (process, began) in enumerate(workers):
                if process.exitcode is None:
                    continue
                failures = failures + 1 if time.monotonic() - began < _SHORT_SECONDS else 0
                if failures >= _MOST_FAILURES:
                    code = process.exitcode
                    raise OSError(f"workers of the service end as soon as they start (exit code {code})")
                workers[place] = started()
    finally:
        for process, _ in workers:
            process.terminate()
        for process, _ in workers:
            process.join(_PATIENCE)
            process.kill()  # does nothing to one that has ended


def _work(settings: Settings, listener: socket.socket) -> None:
    """Serve in this process until it is told to end, or its parent is gone."""
    store = open_store(settings.source)
    clock = clock_of(store, settings.now, live=settings.now is None)
    served = app(
        store,
        clock=clock,
        keys=settings.keys,
        keyless=settings.keyless,
        limits=True,
        hosts=settings.hosts,
    )
    server = uvicorn.Server(connections.config(served))
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def _end_with_parent(server: uvicorn.Server) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        server.should_exit = True
