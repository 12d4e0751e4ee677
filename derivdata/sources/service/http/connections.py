"""HTTP protocol of the service: httptools and uvloop where they are installed, else plain Python.

A connection is closed if its request does not end in time, or if its client does not read the response.
uvicorn alone would wait indefinitely.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

REQUEST_SECONDS = 30.0
"""Seconds from the first byte of a request (or the connection) to its last header, and seconds in which a
client must read a part of its response."""


class _CountedTransport:
    """A transport that counts what is written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def counts(self) -> tuple[int, int]:
        """Return the bytes that the client has taken, and those that it has not."""
        untaken = self._transport.get_write_buffer_size()
        if sys.platform == "linux":  # what its kernel has acknowledged: ours may hold megabytes for it
            import fcntl
            import termios

            sent = fcntl.ioctl(self._transport.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4))
            untaken += int.from_bytes(sent, sys.byteorder)
        return self._written - untaken, untaken


class _TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    request_seconds = REQUEST_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._counted = _CountedTransport(transport)
        self._loop = asyncio.get_running_loop()
        super().connection_made(self._counted)
        self._taken, self._taken_at = 0, self._loop.time()
        self._arriving_since: float | None = self._loop.time()
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._arriving_since = None
        elif self._arriving_since is None:
            self._arriving_since = self._loop.time()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(problem)

    def _is_answering(self) -> bool:
        """Return whether the headers of a request are complete and its answer is not."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._timer = self._loop.call_later(self.request_seconds / 8.0, self._look)

    def _look(self) -> None:
        """Close the connection where nothing arrived, or nothing was taken, for too long."""
        if self._counted.is_closing() and not self._counted.get_write_buffer_size():
            return
        now, (taken, untaken) = self._loop.time(), self._counted.counts()
        if taken != self._taken or not untaken:
            self._taken = taken
            self._taken_at = now
        since = self._arriving_since
        if now - self._taken_at >= self.request_seconds:
            self._counted.abort()
        elif since is not None and now - since >= self.request_seconds and not self._is_answering():
            self._counted.close()
            self._arriving_since = None
            self._wait()  # until what is unsent is gone
        else:
            self._wait()


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
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
