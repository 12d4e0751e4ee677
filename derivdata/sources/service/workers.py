"""The service in several processes that share one port.

The parent listens and answers nothing: its socket goes to the workers. A worker that dies is replaced;
workers end with the parent. Keys and the clock are the same in all of them; request rates, the queue in which
keys take turns and the answers kept in memory are each process's own.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import NamedTuple

import pandas as pd
import uvicorn

from derivdata.sources.service.data.store import clock_of, open_store
from derivdata.sources.service.http import connections
from derivdata.sources.service.http.application import app

_SHORT_SECONDS = 5.0
_MOST_FAILURES = 3
_PATIENCE = 10.0


class WorkerSettings(NamedTuple):
    """What every worker serves: the source, its clock (None: the machine's), key to tier, and the rest."""

    source: str
    now: pd.Timestamp | None
    keys: Mapping[str, str]
    keyless: bool
    hosts: Sequence[str]


def run_workers(count: int, settings: WorkerSettings, listener: socket.socket) -> None:
    """Run workers until SIGINT or SIGTERM; raise `OSError` where they end as soon as they start."""
    workers: dict[SpawnProcess, float] = {}
    with _stop_requests() as stop:
        try:
            _keep_running(count, settings, listener, workers, stop)
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join(_PATIENCE)
                worker.kill()  # does nothing to one that has ended


def _keep_running(
    count: int,
    settings: WorkerSettings,
    listener: socket.socket,
    workers: dict[SpawnProcess, float],
    stop: Connection,
) -> None:
    """Start workers, and another for each that ends, until `stop` is readable; `workers` by their start."""
    failures = 0
    while not stop.poll():
        if len(workers) < count:
            # Not a fork: a child would inherit the locks that threads of the parent hold, pyarrow's for one.
            context = multiprocessing.get_context("spawn")
            worker = context.Process(target=_work, args=(settings, listener), daemon=True)
            with _interrupts_blocked():
                worker.start()
            workers[worker] = time.monotonic()
            continue
        multiprocessing.connection.wait([stop, *(worker.sentinel for worker in workers)])
        for worker in [worker for worker in workers if worker.exitcode is not None]:
            failures = failures + 1 if time.monotonic() - workers.pop(worker) < _SHORT_SECONDS else 0
            if failures >= _MOST_FAILURES:
                code = worker.exitcode
                raise OSError(f"workers of the service end as soon as they start (exit code {code})")


@contextmanager
def _stop_requests() -> Iterator[Connection]:
    """Yield a connection that is readable once SIGINT or SIGTERM has come: an exception may be lost."""
    stop, request = multiprocessing.Pipe(duplex=False)
    with stop, request:
        if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
            yield stop
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, lambda *_: request.send(None)) for number in signals]
        try:
            yield stop
        finally:
            for number, handler in zip(signals, before, strict=True):
                signal.signal(number, handler)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let processes that are started meanwhile inherit that SIGINT, which reaches all of them, is blocked."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its own start would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(settings: WorkerSettings, listener: socket.socket) -> None:
    """Serve in this process until it is stopped, or its parent is gone."""
    store = open_store(settings.source)
    clock = clock_of(store, settings.now, live=settings.now is None)
    served = app(store, clock=clock, keys=settings.keys, keyless=settings.keyless, hosts=settings.hosts)
    server = uvicorn.Server(connections.config(served))
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def _end_with_parent(server: uvicorn.Server) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        server.should_exit = True
