"""HTTP protocol of the service: httptools and uvloop where they are installed, else plain Python.

A connection on which a request started and does not end is closed after a while, and so is one whose client
takes nothing of its answer; uvicorn would wait for ever.
"""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any, Literal

import uvicorn
from starlette.types import ASGIApp

REQUEST_SECONDS = 30.0
"""How long a request may take to arrive, from its first byte (or the connection) to its last header, and for
how long a client may take nothing of its answer."""


class _RequestTimeout:
    """Mixed into one of uvicorn's HTTP protocols, of which it needs `cycle` and `transport`."""

    request_seconds = REQUEST_SECONDS
    cycle: Any
    transport: asyncio.Transport
    _arrival: asyncio.TimerHandle | None = None
    _departure: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self._arm()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]
        if self._answering():
            self._disarm()
        elif self._arrival is None:
            self._arm()

    def connection_lost(self, problem: Exception | None) -> None:
        self._disarm()
        self._unwatch()
        super().connection_lost(problem)  # type: ignore[misc]

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._unwatch()
        self._watch()

    def resume_writing(self) -> None:
        self._unwatch()
        super().resume_writing()  # type: ignore[misc]

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        if self._departure is None:
            self._watch()

    def _answering(self) -> bool:
        """Return whether the headers of a request are complete and its answer is not."""
        return self.cycle is not None and not self.cycle.response_complete

    def _arm(self) -> None:
        self._arrival = asyncio.get_running_loop().call_later(self.request_seconds, self._expire)

    def _disarm(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _expire(self) -> None:
        self._arrival = None
        if not self._answering():
            self.transport.close()

    def _watch(self) -> None:
        """Look after a while whether the client took any of what is unsent now."""
        if unsent := self.transport.get_write_buffer_size():
            loop = asyncio.get_running_loop()
            self._departure = loop.call_later(self.request_seconds, self._look, unsent)

    def _unwatch(self) -> None:
        if self._departure is not None:
            self._departure.cancel()
            self._departure = None

    def _look(self, before: int) -> None:
        self._departure = None
        if self.transport.get_write_buffer_size() < before:
            self._watch()
        else:
            self.transport.abort()


def config(app: ASGIApp, *, request_seconds: float = REQUEST_SECONDS) -> uvicorn.Config:
    """Return uvicorn's settings for the service."""
    loop: Literal["uvloop", "asyncio"] = "uvloop" if _installed("uvloop") else "asyncio"
    return uvicorn.Config(
        app,
        loop=loop,
        http=_protocol(request_seconds),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )


def _protocol(request_seconds: float) -> type[asyncio.Protocol]:
    base: type[asyncio.Protocol]
    if _installed("httptools"):
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base
    else:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base
    return type("TimedProtocol", (_RequestTimeout, base), {"request_seconds": request_seconds})


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
