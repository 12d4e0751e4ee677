"""HTTP protocol of the service: httptools and uvloop where they are installed, else plain Python.

A connection on which a request started and does not end is closed after a while; uvicorn would wait for ever.
"""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any, Literal

import uvicorn
from starlette.types import ASGIApp

REQUEST_SECONDS = 30.0
"""How long a request may take to arrive, from its first byte (or the connection) to its last header."""


class _RequestTimeout:
    """Mixed into one of uvicorn's HTTP protocols, of which it needs `cycle` and `transport`."""

    request_seconds = REQUEST_SECONDS
    cycle: Any
    transport: asyncio.Transport
    _arrival: asyncio.TimerHandle | None = None

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
        super().connection_lost(problem)  # type: ignore[misc]

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
