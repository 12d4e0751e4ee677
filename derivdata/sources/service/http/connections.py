"""HTTP protocol of the service: httptools and uvloop if they are installed, else h11 and asyncio.

A connection is closed if its request does not arrive in time, or if its client does not read the response.
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
        untaken = self._transport.get_write_buffer_size()
        # The kernel's send buffer may have megabytes that the client has not acknowledged.
        if sys.platform == "linux":
            import fcntl
            import termios

            sent = fcntl.ioctl(self._transport.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4))
            untaken += int.from_bytes(sent, sys.byteorder)
        return self._written - untaken, untaken


class _TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's HTTP protocol with timeouts for the request and for reading the response."""

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
        """Return whether a request's headers are complete and its response is not."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._timer = self._loop.call_later(self.request_seconds / 8.0, self._look)

    def _look(self) -> None:
        """Close the connection if the request did not arrive, or nothing was received, for too long."""
        if self._counted.is_closing() and not self._counted.get_write_buffer_size():
            return
        now = self._loop.time()
        taken, untaken = self._counted.counts()
        if taken != self._taken or not untaken:
            self._taken = taken
            self._taken_at = now
        since = self._arriving_since
        if now - self._taken_at >= self.request_seconds:
            self._counted.abort()
        elif since is not None and now - since >= self.request_seconds and not self._is_answering():
            self._counted.close()
            self._arriving_since = None
            self._wait()  # until the unsent bytes are gone
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
