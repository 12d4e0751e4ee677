"""The service on a port: in a thread, in the foreground, or in several processes; its HTTP protocol.

With several processes the parent only opens the socket, and the workers serve it. The parent replaces a
worker that dies, and the workers end with the parent. All workers have the same keys and the same clock. Each
worker has its own request rates, its own queue and its own cache of responses.

A connection is closed if its request does not arrive in time, or if its client does not read the response.
uvicorn alone would wait indefinitely.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import multiprocessing.connection
import os
import pathlib
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

import pandas as pd
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from derivdata.sources.service.data.store import VENUES, LiveStore, Store, clock_of, open_store
from derivdata.sources.service.http.application import app
from derivdata.support import times
from derivdata.support.files import package_digest
from derivdata.support.forking import renew_in_child
from derivdata.support.text import HiddenKeys
from derivdata.tables import endpoints

REQUEST_SECONDS = 30.0
"""Seconds from the first byte of a request (or the connection) to its last header, and seconds in which a
client must read some bytes of its response."""


class _CountedTransport:
    """A transport that counts the bytes written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def counts(self) -> tuple[int, int]:
        """Return the number of bytes that the client has received, and the number still to receive."""
        unreceived = self._transport.get_write_buffer_size()
        # The kernel's send buffer may contain megabytes that the client has not acknowledged.
        if sys.platform == "linux":
            import fcntl
            import termios

            sent = fcntl.ioctl(self._transport.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4))
            unreceived += int.from_bytes(sent, sys.byteorder)
        return self._written - unreceived, unreceived


class _TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's HTTP protocol with timeouts for the request and for reading the response."""

    request_seconds = REQUEST_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count the bytes of the connection, and start the timeout of the request."""
        self._counted = _CountedTransport(transport)
        self._loop = asyncio.get_running_loop()
        super().connection_made(self._counted)
        self._received = 0
        self._received_at = self._loop.time()
        self._arriving_since: float | None = self._loop.time()
        self._schedule_check()

    def data_received(self, data: bytes) -> None:
        """Record the times at which a request begins to arrive and is complete."""
        super().data_received(data)
        if self._is_responding():
            self._arriving_since = None
        elif self._arriving_since is None:
            self._arriving_since = self._loop.time()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(problem)

    def _is_responding(self) -> bool:
        """Return whether a request's headers are complete and its response is not."""
        return self.cycle is not None and not self.cycle.response_complete

    def _schedule_check(self) -> None:
        # With eight checks per timeout, a connection is closed at most an eighth too late.
        self._timer = self._loop.call_later(self.request_seconds / 8.0, self._check_timeouts)

    def _check_timeouts(self) -> None:
        """Close the connection if its request, or the client's next receipt of bytes, takes too long."""
        if self._counted.is_closing() and not self._counted.get_write_buffer_size():
            return
        now = self._loop.time()
        received, unreceived = self._counted.counts()
        if received != self._received or not unreceived:
            self._received = received
            self._received_at = now
        since = self._arriving_since
        if now - self._received_at >= self.request_seconds:
            self._counted.abort()
        elif since is not None and now - since >= self.request_seconds and not self._is_responding():
            self._counted.close()
            self._arriving_since = None
            self._schedule_check()  # until the unsent bytes are sent
        else:
            self._schedule_check()


def config(app: ASGIApp, *, request_seconds: float = REQUEST_SECONDS) -> uvicorn.Config:
    """Return uvicorn's settings for the service."""
    return uvicorn.Config(
        app,
        http=type("TimedProtocol", (_TimedProtocol,), {"request_seconds": request_seconds}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the application sends the Date of its own clock
        proxy_headers=False,  # a client could otherwise state its address, by which requests are counted
        timeout_graceful_shutdown=1,  # slow clients must not delay the end of the service
    )


_SHORT_SECONDS = 5.0
"""A worker that ends sooner has failed at its start, for example because its source cannot be read."""
_MAX_FAILURES = 3
"""Number of such failures in a row that ends the service, instead of starting workers indefinitely."""
_WORKER_PATIENCE = 10.0
"""Seconds that a worker has to end after SIGTERM."""


class WorkerSettings(NamedTuple):
    """Arguments of `app` for every worker. `now` None is the machine's clock; `keys` maps keys to tiers."""

    source: str
    now: pd.Timestamp | None
    keys: Mapping[str, str]
    keyless: bool
    hosts: Sequence[str]


def run_workers(count: int, settings: WorkerSettings, listener: socket.socket) -> None:
    """Run workers until SIGINT or SIGTERM; raise `OSError` if they end as soon as they start."""
    workers: dict[SpawnProcess, float] = {}
    with _stop_requests() as stop:
        try:
            _keep_running(count, settings, listener, workers, stop)
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join(_WORKER_PATIENCE)
                worker.kill()  # without effect on a finished process


def _keep_running(
    count: int,
    settings: WorkerSettings,
    listener: socket.socket,
    workers: dict[SpawnProcess, float],
    stop: Connection,
) -> None:
    """Start workers, and replace those that end, until `stop` is readable; `workers` maps to start times."""
    failures = 0
    while not stop.poll():
        if len(workers) < count:
            # spawn instead of fork, because a child would inherit locks held by the parent's threads, such as
            # pyarrow's.
            context = multiprocessing.get_context("spawn")
            worker = context.Process(target=_serve_as_worker, args=(settings, listener), daemon=True)
            with _interrupts_blocked():
                worker.start()
            workers[worker] = time.monotonic()
            continue
        multiprocessing.connection.wait([stop, *(worker.sentinel for worker in workers)])
        ended = [worker for worker in workers if worker.exitcode is not None]
        for worker in ended:
            lifetime = time.monotonic() - workers.pop(worker)
            if lifetime < _SHORT_SECONDS:
                failures += 1
            else:
                failures = 0
            if failures >= _MAX_FAILURES:
                code = worker.exitcode
                raise OSError(f"{failures} workers of the service stopped while starting (exit code {code})")


@contextmanager
def _stop_requests() -> Iterator[Connection]:
    """Yield a connection that becomes readable after SIGINT or SIGTERM.

    An exception raised by a signal handler may be lost in a callback; the connection stays readable.
    """
    stop, request = multiprocessing.Pipe(duplex=False)
    with stop, request:
        # Only the main thread may set signal handlers.
        if threading.current_thread() is not threading.main_thread():
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
    """Block SIGINT for processes started in this block; a terminal sends it to the whole group."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started first, because its own start would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve_as_worker(settings: WorkerSettings, listener: socket.socket) -> None:
    """Serve in this worker process until it is stopped or its parent ends."""
    store = open_store(settings.source)
    clock = clock_of(store, settings.now, live=settings.now is None)
    served = app(store, clock=clock, keys=settings.keys, keyless=settings.keyless, hosts=settings.hosts)
    server = uvicorn.Server(config(served))
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def _end_with_parent(server: uvicorn.Server) -> None:
    """Stop the server of a worker when the parent process ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        server.should_exit = True


_THREAD_PATIENCE = 30.0
"""Seconds to wait for the thread of the service to start, and to end."""


class RunningService:
    """A service in this process, made by `start`: its `url`, and an `api_key` of its highest tier."""

    def __init__(
        self, url: str, api_key: str, store: Store, clock: Callable[[], pd.Timestamp], server: _Server
    ) -> None:
        self.url = url
        self.api_key = api_key
        self.store = store
        self.clock = clock
        self.code = code_digest()
        self._server = server

    def take_notices(self) -> list[str]:
        """Return the source's notices since the last call."""
        if not isinstance(self.store, LiveStore):
            return []
        return self.store.take_notices()

    def __repr__(self) -> str:
        return f"<derivdata service of {self.store.label} at {self.url}>"

    def close(self) -> None:
        """Stop the service; a second call does nothing."""
        self._server.stop()
        close = getattr(self.store, "close", None)
        if close is not None:
            close()


def start(
    source: str | Store,
    *,
    now: times.TimeLike | None = None,
    live: bool = False,
    limits: bool = False,
    keys: Mapping[str, str] | None = None,
    keyless: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_hosts: Collection[str] = (),
    request_seconds: float = REQUEST_SECONDS,
    page: bool = False,
    archive: str | None = None,
    venues: Sequence[str] | None = None,
) -> RunningService:
    """Start the service in a thread of this process; it accepts requests when this returns.

    `source` is ``"sample"``, ``"venues"``, the path of an archive, or a store. `now` fixes the clock, by
    default at the store's own time; with `live` it is the machine's clock. The clock of the venues always
    moves. `keys` maps keys to tiers, by default one key of Team. `port` 0 takes a free port. A request may
    take `request_seconds` to arrive. `app` and `open_store` describe the other parameters.

    Raises `ArchiveError`, `OSError` or `ValueError`: the source cannot be read, the host or port cannot be
    bound, or a tier, key or time is invalid.
    """
    keys = HiddenKeys(keys or {secrets.token_hex(16): endpoints.TIERS[-1]})
    store = source
    if isinstance(store, str):
        store = open_store(store, archive=archive, venues=venues)
    clock = clock_of(store, now, live=live)
    hosts = [host, *allow_hosts]
    served = app(store, clock=clock, keys=keys, keyless=keyless, limits=limits, hosts=hosts, page=page)
    listener = _listen(host, port)
    server = _Server(config(served, request_seconds=request_seconds), listener)
    server.start()
    highest_key = max(keys, key=lambda key: endpoints.TIERS.index(keys[key]))
    if isinstance(store, LiveStore):
        clock = _refreshed_clock(store, clock)
    return RunningService(_url(listener), highest_key, store, clock, server)


def _refreshed_clock(store: LiveStore, clock: Callable[[], pd.Timestamp]) -> Callable[[], pd.Timestamp]:
    """Return a clock that refreshes a live source before it is read; not for a forked child."""

    def read() -> pd.Timestamp:
        store.refresh()
        return clock()

    return read


def serve(
    source: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    now: times.TimeLike | None = None,
    live: bool = False,
    keys: Mapping[str, str] | None = None,
    keyless: bool = False,
    allow_hosts: Collection[str] = (),
    workers: int = 1,
    page: bool = False,
) -> None:
    """Run the service in the foreground until it is interrupted.

    The address is printed to standard output. Without `keys`, one random key per tier is generated. A
    terminal shows the keys. Elsewhere standard output may be a log, so the keys are written to a file that
    only its owner can read and that is removed when the service ends.

    Parameters
    ----------
    live
        Whether the clock is the machine's: for an archive that a collector is filling.
    keys
        Tier to key.
    allow_hosts
        As for `start`.
    workers
        Number of processes; see `derivdata.sources.service.server`. For an archive or the sample.
    page
        Whether ``/status`` shows the state of the service, without a key.

    Raises
    ------
    ArchiveError, OSError, ValueError
        As `start`; `workers` is below 1, or above 1 for the venues.
    """
    keys = HiddenKeys(keys or {})
    _require_workers(workers, source, page=page)
    store = open_store(source)
    clock = clock_of(store, now, live=live)
    generated = HiddenKeys()
    if not keys and not keyless:
        generated = HiddenKeys({tier: secrets.token_hex(16) for tier in endpoints.TIERS})
        keys = generated
    by_key = HiddenKeys({key: tier for tier, key in keys.items()})
    if len(by_key) < len(keys):
        raise ValueError("two tiers have the same key: use a different key for each tier")
    hosts = [host, *allow_hosts]
    served = app(store, clock=clock, keys=by_key, keyless=keyless, limits=True, hosts=hosts, page=page)
    listener = _listen(host, port)
    with contextlib.ExitStack() as stack:
        stack.enter_context(listener)
        stack.enter_context(_exit_on_sigterm())
        remarks = _lines_of_keys(generated, stack)
        if keyless:
            remarks.append("  no key is required: every request counts as Team")
        if page:
            remarks.append(f"  status page: {_url(listener)}/status")
        _announce(store, clock(), listener, remarks)
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        if workers == 1:
            uvicorn.Server(config(served)).run(sockets=[listener])
        else:
            settings = WorkerSettings(source, clock(), by_key, keyless, hosts)
            if live and now is None:
                settings = settings._replace(now=None)
            run_workers(workers, settings, listener)


def _require_workers(workers: int, source: str, *, page: bool) -> None:
    """Raise `ValueError` for a number of workers that the source or the status page does not allow."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if workers > 1 and source == VENUES:
        raise ValueError(
            "workers must be 1 for venues; serve the archive that they fill with several workers"
        )
    if page and workers > 1:
        raise ValueError(f"the status page requires workers=1, got {workers}")


@contextlib.contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Raise on SIGTERM, as Ctrl-C does, so that the file of keys is removed."""

    def end(_: int, __: object) -> None:
        raise SystemExit(0)

    # Only the main thread may set signal handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Server:
    """A uvicorn server in a daemon thread."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        self._listener = listener
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="derivdata-service", daemon=True
        )
        self._fork_lock = threading.Lock()
        renew_in_child(self)

    def start(self) -> None:
        """Start the thread, and wait until the server accepts requests."""
        self._thread.start()
        deadline = time.monotonic() + _THREAD_PATIENCE
        while not self._server.started and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self._server.started:
            self.stop()
            raise OSError(f"the service did not start within {_THREAD_PATIENCE:g} s")

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(_THREAD_PATIENCE)
        self._listener.close()

    def _after_fork(self) -> None:
        """Replace the sockets by the null device in a forked child, which has no thread to serve them."""
        self._fork_lock = threading.Lock()
        sockets: list[Any] = [self._listener]
        for protocol in self._server.server_state.connections:
            transport = getattr(protocol, "transport", None)
            if transport is not None:
                sockets.append(transport.get_extra_info("socket"))
        null = os.open(os.devnull, os.O_RDWR)
        for inherited in sockets:
            if inherited is not None and inherited.fileno() >= 0:
                os.dup2(null, inherited.fileno(), inheritable=False)
        os.close(null)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and port; raise `OSError` with both in the message."""
    try:
        if not 0 <= port < 1 << 16:
            raise OSError("a port must be from 0 to 65535")
        family, kind, proto, _, address = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)[0]
        # asyncio sets TCP_NODELAY only on sockets with the protocol TCP. With protocol 0 small packets are
        # delayed.
        listener = socket.socket(family, kind, proto)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        return listener
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise OSError(f"cannot listen on {host} port {port}: {why}") from None


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a hash of the code that makes responses: stored responses of other versions are not used."""
    return package_digest("sources", "analysis/black76", "support", "tables", "units")


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if ":" in host:  # IPv6
        host = f"[{host}]"
    return f"http://{host}:{port}"


def _lines_of_keys(generated: Mapping[str, str], stack: contextlib.ExitStack) -> list[str]:
    """Return lines that show generated keys on a terminal, else the file with them until the stack closes."""
    lines = [f"  key of tier {tier}: {key}" for tier, key in generated.items()]
    if not lines or sys.stdout.isatty():
        return lines
    # `mkstemp` creates it readable by its owner only.
    handle, path = tempfile.mkstemp(prefix="derivdata-keys-", suffix=".txt")
    stack.callback(lambda: pathlib.Path(path).unlink(missing_ok=True))
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(f"{tier}: {key}\n" for tier, key in generated.items())
    return [f"  keys for this run: {path}", "  to set your own keys: --key TIER=KEY"]


def _announce(store: Store, clock: pd.Timestamp, listener: socket.socket, remarks: Sequence[str]) -> None:
    """Print the source, its time, the address and further remarks."""
    label = store.label
    if store.synthetic:
        label += " (synthetic)"
    lines = [f"{label} at {times.iso(clock)}: {_url(listener)}", *remarks]
    if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        lines.append("  other machines can reach this; keys and data travel unencrypted")
        lines += _terms_of(store)
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _terms_of(store: Store) -> list[str]:
    """Return a line about redistribution if the data was collected from venues, whose terms restrict it."""
    archive = getattr(store, "archive", store)
    if not hasattr(archive, "requests"):
        return []
    names = ", ".join(sorted(set(archive.requests()["exchange"])))
    if not names:
        return []
    return [
        f"  collected from {names}: redistribution is your responsibility "
        "(derivdata venues lists their terms)"
    ]
