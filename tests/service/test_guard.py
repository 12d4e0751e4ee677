"""Requests rejected before any route: other hosts, pages of other sites, bodies, incomplete requests."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from unittest.mock import Mock
from urllib.parse import urlsplit

import pandas as pd
import pytest
import requests
from starlette.types import Receive, Scope, Send

from derivdata.sources import Query, service
from derivdata.sources.service import server
from derivdata.sources.service.http.responses import UnsentBodies
from tests.service import market
from tests.service.conftest import KEYS, PATIENCE
from tests.service.memory_store import MemoryStore

KEY = {"X-Api-Key": "key-pro"}


@pytest.fixture(scope="module")
def local() -> Iterator[service.RunningService]:
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
    with closing(
        service.start(store, keys=KEYS, allow_hosts=["desk.example"], request_seconds=0.2)
    ) as result:
        yield result


def get(local: service.RunningService, **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.get(f"{local.url}/oi/exchanges-summary", headers=KEY | named, timeout=PATIENCE)


ALLOWED = "localhost LOCALHOST:99 127.0.0.1 10.1.2.3:8080 [::1]:8080 desk.example Desk.Example.:80"
OTHERS = "rebind.evil.example 127.0.0.1.evil.example desk.example.evil x [::1 desk_example evil@localhost"
NO_HOSTS = "localhost#.evil.example localhost/.evil localhost?.evil localhost:80:81"


@pytest.mark.parametrize("host", ALLOWED.split())
def test_requests_to_addresses_and_allowed_hosts_are_served(local: service.RunningService, host: str) -> None:
    assert get(local, Host=host).status_code == 200


@pytest.mark.parametrize("host", ["", *OTHERS.split(), *NO_HOSTS.split()])
def test_requests_to_other_hosts_are_rejected_with_advice(local: service.RunningService, host: str) -> None:
    answer = get(local, Host=host)
    assert answer.status_code in (400, 421)
    if answer.status_code == 421:
        assert "--allow-host" in answer.json()["error"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    else:  # what is no host at all is no HTTP for the server underneath
        assert host == "" or not host.isalnum()


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/nowhere"])
def test_documentation_page_is_rejected_for_other_hosts(local: service.RunningService, path: str) -> None:
    answer = requests.get(local.url + path, headers={"Host": "rebind.evil.example"}, timeout=PATIENCE)
    assert answer.status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "https://"]
)
def test_requests_from_other_origins_are_rejected(local: service.RunningService, origin: str) -> None:
    answer = get(local, Origin=origin)
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_requests_from_own_and_allowed_origins_are_served(local: service.RunningService) -> None:
    assert get(local, Origin=local.url).status_code == 200
    assert get(local, Origin="https://desk.example").status_code == 200


def talk(local: service.RunningService, sent: bytes, *, then: bytes = b"", times: int = 0) -> bytes:
    """Response until the service closes the connection."""
    url = urlsplit(local.url)
    came = b""
    with socket.create_connection((url.hostname, url.port), timeout=PATIENCE) as line:
        line.sendall(sent)
        try:
            for _ in range(times):
                line.sendall(then)
            while part := line.recv(1 << 16):
                came += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return came


def head(*lines: str, method: str = "GET") -> bytes:
    results = [f"{method} /oi/exchanges-summary HTTP/1.1", "Host: localhost", "X-Api-Key: key-pro", *lines]
    return "\r\n".join([*results, "", ""]).encode()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_endless_request_body_is_rejected(local: service.RunningService, method: str) -> None:
    """A GiB in chunks is sent: the service rejects it after 64 KiB and closes."""
    chunk = b"10000\r\n" + b"x" * (1 << 16) + b"\r\n"
    sent = head("Transfer-Encoding: chunked", method=method)
    came = talk(local, sent, then=chunk, times=1 << 14)
    assert came.startswith(b"HTTP/1.1 413 ") or came == b""  # or reset before the response could be read


def test_too_long_request_bodies_are_rejected_unread(local: service.RunningService) -> None:
    came = talk(local, head("Content-Length: 65537"))
    assert came.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in came.lower()
    came = talk(local, head("Content-Length: 3", "Connection: close") + b"abc")
    assert came.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: local", head("Connection: keep-alive") + b"GET /"]
)
def test_incomplete_request_is_closed_after_a_timeout(local: service.RunningService, sent: bytes) -> None:
    """`talk` returns once the service closes: after a fifth of a second, or after the 5 s that uvicorn waits
    for another request if one was complete before.
    """
    came = talk(local, sent)
    assert came.startswith(b"HTTP/1.1 200 ") == sent.startswith(b"GET /oi")


def test_connection_is_closed_when_the_client_does_not_read() -> None:
    """The rest of its response goes with it: 64 MiB are more than the sockets hold."""
    piece, gone = b"x" * (1 << 17), threading.Event()

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _piece in range(512):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        gone.set()

    listener = server._listen("127.0.0.1", 0)
    running = server._Server(server.config(app, request_seconds=0.2), listener)
    running.start()
    try:
        with socket.create_connection(listener.getsockname(), timeout=PATIENCE) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert gone.wait(PATIENCE)
    finally:
        running.stop()


def test_responses_are_rejected_while_slow_clients_hold_too_many_bytes() -> None:
    """A body counts once for all its clients, and a single one may always be sent."""
    unsent, body = UnsentBodies(limit=100), b"x" * 60
    assert unsent.has_room(b"y" * 200)
    with unsent.sending(body), unsent.sending(body):
        assert unsent.has_room(body)
        assert unsent.has_room(b"y" * 40)
        assert not unsent.has_room(b"y" * 41)
        with unsent.sending(b"y" * 40):
            assert not unsent.has_room(b"z")
    assert unsent.has_room(b"y" * 200)


def test_responses_are_rejected_until_memory_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    room = iter([False, True])
    monkeypatch.setattr(UnsentBodies, "has_room", lambda *_: next(room))
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
    with closing(service.start(store, keys=KEYS)) as full:
        refused, then = get(full), get(full)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert "slow clients" in refused.json()["error"]
    assert then.status_code == 200


def test_request_during_shutdown_gets_503() -> None:
    """The rest of the response then has no reader; the client requests again after a second."""
    asked, end = threading.Event(), threading.Event()

    class Waiting(MemoryStore):
        def newest(self, query: Query) -> pd.DataFrame:
            asked.set()
            end.wait(PATIENCE)
            return super().newest(query)

    store = Waiting({"oi_history": market.open_interest()}, now=market.NOW)
    running = service.start(store, keys=KEYS)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(get, running)
        assert asked.wait(PATIENCE)
        closing_thread = threading.Thread(target=running.close)
        closing_thread.start()
        result = answer.result(PATIENCE)
        end.set()
        closing_thread.join()
    assert (result.status_code, result.headers["Retry-After"]) == (503, "1")
    assert result.json() == {"error": "the service is shutting down: retry once it is running again"}


@pytest.mark.parametrize(
    ("counts", "aborted"),
    [
        ([(100, 900), (101, 899), (101, 899)], False),  # one byte in 40 s
        ([(100, 50), (150, 900)], False),  # all of one response was taken, and most of the next is not
        ([(100, 0), (100, 0)], False),  # nothing is there to take
        ([(100, 900), (100, 950), (100, 950)], True),
    ],
)
def test_slow_client_that_reads_in_time_stays_connected(counts: list[tuple[int, int]], aborted: bool) -> None:
    """It is looked at each 20 s; 30 without a byte are too many."""
    protocol = server._TimedProtocol.__new__(server._TimedProtocol)
    protocol._counted = Mock(**{"counts.side_effect": counts, "is_closing.return_value": False})
    protocol._loop = Mock(**{"time.side_effect": [20.0 * n for n in range(1, 9)]})
    protocol._received, protocol._received_at, protocol._arriving_since = 0, 0.0, None
    for _ in counts:
        protocol._check_timeouts()
    assert protocol._counted.abort.called == aborted


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports unacknowledged bytes (TIOCOUTQ)")
def test_bytes_in_the_kernel_buffer_count_as_unread() -> None:
    """100,000 bytes fit into the kernel's buffer, so that uvicorn's own buffer is empty."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            theirs.connect(listener.getsockname())
            ours, _ = listener.accept()
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
            counted = server._CountedTransport(transport)
            counted.write(b"x" * 100_000)
            received, unreceived = counted.counts()
            assert transport.get_write_buffer_size() == 0
            assert received + unreceived == 100_000
            assert unreceived > 50_000
            remaining = 100_000
            while remaining:
                remaining -= len(theirs.recv(remaining))
            async with asyncio.timeout(PATIENCE):
                while counted.counts() != (100_000, 0):  # the last acknowledgement may be under way
                    await asyncio.sleep(0.01)
            transport.close()

    asyncio.run(run())


def test_long_response_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first read takes three times as long as a request may take to arrive."""
    real, waits = MemoryStore.newest, iter([0.6])
    monkeypatch.setattr(
        MemoryStore, "newest", lambda self, query: time.sleep(next(waits, 0.0)) or real(self, query)
    )
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
    with closing(service.start(store, keys=KEYS, request_seconds=0.2)) as slow, requests.Session() as session:
        for path in ("/oi/exchanges-summary", "/"):
            assert session.get(slow.url + path, headers=KEY, timeout=PATIENCE).status_code == 200
