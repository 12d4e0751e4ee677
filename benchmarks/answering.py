"""Responses for the library: in place of all HTTP, or from a server in this process."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pandas as pd

import derivdata as dd
from derivdata.client.transport import SESSION, Response
from derivdata.tables.endpoints import Request

__all__ = ["NOW", "answer_with", "history_table", "serve"]

NOW = pd.Timestamp("2026-06-30T12:00", tz="UTC")


def answer_with(body: bytes) -> None:
    """Have every fetcher of this process read `body` for any request; its hash is precomputed."""

    def answer(request: Request) -> Response:
        return Response(
            request=request,
            status=200,
            headers={},
            body=body,
            as_of=NOW,
            source="benchmark",
            synthetic=True,
            sha256="0" * 64,
        )

    SESSION.responder = answer


def history_table() -> pd.DataFrame:
    """The history that `answer_with` was given, as one table."""
    return dd.funding.history("BTC", "2026-01-01", "2026-06-01", resolution=None)


def serve(body: bytes) -> ThreadingHTTPServer:
    """Start a server in this process that returns a body for every path; both sides cache it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
