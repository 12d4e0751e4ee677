"""Requests that are refused before any route: other hosts, pages of other sites, bodies, half requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pandas as pd
import pytest
import requests

from derivdata.sources import service
from derivdata.sources.query import Query
from tests.service import market
from tests.service.conftest import KEYS, PATIENCE
from tests.service.memory_store import MemoryStore

KEY = {"X-Api-Key": "key-pro"}


@pytest.fixture(scope="module")
def local() -> Iterator[service.RunningService]:
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
    with closing(service.start(store, keys=KEYS, allow_hosts=["desk.example"], request_seconds=0.2)) as found:
        yield found


def get(local: service.RunningService, **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.get(f"{local.url}/oi/exchanges-summary", headers=KEY | named, timeout=PATIENCE)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:99",
        "127.0.0.1",
        "10.1.2.3:8080",
        "[::1]:8080",
        "desk.example",
        "Desk.Example.:80",
    ],
)
def test_addresses_and_allowed_names_are_answered(local: service.RunningService, host: str) -> None:
    assert get(local, Host=host).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["rebind.evil.example", "127.0.0.1.evil.example", "desk.example.evil", "x", "", "[::1", "desk_example"],
)
def test_other_names_are_refused_with_what_to_do(local: service.RunningService, host: str) -> None:
    answer = get(local, Host=host)
    assert answer.status_code in (400, 421)
    if answer.status_code == 421:
        assert "--allow-host" in answer.json()["error"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    else:  # what is no host at all is no HTTP for the server underneath
        assert host == "" or not host.isalnum()


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/nowhere"])
def test_other_names_get_no_page_either(local: service.RunningService, path: str) -> None:
    answer = requests.get(local.url + path, headers={"Host": "rebind.evil.example"}, timeout=PATIENCE)
    assert answer.status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "https://"]
)
def test_pages_of_other_sites_are_refused(local: service.RunningService, origin: str) -> None:
    answer = get(local, Origin=origin)
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_its_own_pages_and_those_of_allowed_names_are_answered(local: service.RunningService) -> None:
    assert get(local, Origin=local.url).status_code == 200
    assert get(local, Origin="https://desk.example").status_code == 200


def talk(local: service.RunningService, sent: bytes, *, then: bytes = b"", times: int = 0) -> bytes:
    """What comes back until the service closes the connection."""
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
    found = [f"{method} /oi/exchanges-summary HTTP/1.1", "Host: localhost", "X-Api-Key: key-pro", *lines]
    return "\r\n".join([*found, "", ""]).encode()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_without_end_is_refused(local: service.RunningService, method: str) -> None:
    """A GiB in chunks is sent: the service refuses after 64 KiB and closes."""
    chunk = b"10000\r\n" + b"x" * (1 << 16) + b"\r\n"
    sent = head("Transfer-Encoding: chunked", method=method)
    came = talk(local, sent, then=chunk, times=1 << 14)
    assert came.startswith(b"HTTP/1.1 413 ") or came == b""  # or reset before the answer could be read


def test_bodies_are_refused_unread_where_they_are_too_long(local: service.RunningService) -> None:
    came = talk(local, head("Content-Length: 65537"))
    assert came.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in came.lower()
    came = talk(local, head("Content-Length: 3", "Connection: close") + b"abc")
    assert came.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: local", head("Connection: keep-alive") + b"GET /"]
)
def test_half_a_request_is_closed(local: service.RunningService, sent: bytes) -> None:
    """`talk` returns once the service closes, here after a fifth of a second."""
    came = talk(local, sent)
    assert came.startswith(b"HTTP/1.1 200 ") == sent.startswith(b"GET /oi")


class Slow(MemoryStore):
    """The first read takes three times as long as a request may take to arrive."""

    waits: tuple[float, ...] = (0.6,)

    def newest(self, query: Query) -> pd.DataFrame:
        for seconds in self.waits:
            threading.Event().wait(seconds)
        self.waits = ()
        return super().newest(query)


def test_a_long_answer_is_not_cut_off() -> None:
    store = Slow({"oi_history": market.open_interest()}, now=market.NOW)
    with closing(service.start(store, keys=KEYS, request_seconds=0.2)) as slow, requests.Session() as session:
        for path in ("/oi/exchanges-summary", "/"):
            assert session.get(slow.url + path, headers=KEY, timeout=PATIENCE).status_code == 200
