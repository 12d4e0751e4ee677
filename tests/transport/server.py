"""A loopback server for tests: it sends the given responses and records requests."""

from __future__ import annotations

import json
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd

NOON = pd.Timestamp("2026-06-30T12:00:30Z")


@dataclass
class Reply:
    """One response; `date` None omits the Date header, `framed` False the Content-Length."""

    body: bytes = b'{"ok": true}'
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    date: pd.Timestamp | None = NOON
    length: int | None = None
    framed: bool = True
    kind: str = "application/json"
    raw: Callable[[BaseHTTPRequestHandler], None] | None = None

    @classmethod
    def json(cls, data: object, **rest: object) -> Reply:
        return cls(json.dumps(data).encode(), **rest)  # type: ignore[arg-type]


@dataclass
class ReceivedRequest:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]


class Server:
    """Requests to a running server, and its address."""

    def __init__(self, scheme: str, port: int, received: list[ReceivedRequest]) -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.port = port
        self.received = received

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.received if request.method == "GET"]


@contextmanager
def serving(answer: Callable[[ReceivedRequest], Reply], *, tls: Path | None = None) -> Iterator[Server]:
    """Start a server whose response is `answer` of the request; by https with the certificate of `tls`."""
    received: list[ReceivedRequest] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, ValueError):
                self.close_connection = True

        def finish(self) -> None:
            with suppress(ConnectionError):
                super().finish()

        def do_GET(self) -> None:
            request = ReceivedRequest(self.command, self.path, dict(self.headers))
            received.append(request)
            send(self, answer(request))

        do_HEAD = do_GET

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Server("http" if tls is None else "https", httpd.server_address[1], received)
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def reset(handler: BaseHTTPRequestHandler) -> None:
    """Let the connection end by a reset."""
    handler.connection.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER: RST on close


def endless(head: bytes, piece: bytes) -> Reply:
    """A body of one piece again and again, until the client closes: only its deadline ends it."""

    def send_pieces(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        with suppress(OSError):
            while True:
                handler.wfile.write(piece)
                handler.wfile.flush()
                time.sleep(0.02)

    return Reply(raw=send_pieces)


def send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    """Write one response."""
    if reply.raw is not None:
        reply.raw(handler)
        handler.close_connection = True
        return
    handler.send_response_only(reply.status)
    if reply.date is not None:
        handler.send_header("Date", format_datetime(reply.date.to_pydatetime(), usegmt=True))
    handler.send_header("Content-Type", reply.kind)
    for name, value in reply.headers.items():
        handler.send_header(name, value)
    if reply.framed:
        handler.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
    else:
        handler.send_header("Connection", "close")
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(reply.body)
    if reply.length is not None or not reply.framed:
        handler.wfile.flush()
        handler.close_connection = True
