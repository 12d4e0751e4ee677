"""How answers go out, and how those who ask for the same thing at once share the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from derivdata.service.response_cache import EncodedBody

__all__ = ["Flights", "StreamedResponse"]

_PIECE = 1 << 17


class StreamedResponse(Response):
    """A response whose body goes out piece by piece, as fast as the client reads: none is copied whole."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        for place in range(0, len(self.body), _PIECE):
            piece = bytes(self.body[place : place + _PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Flights:
    """Answers that are being made; who asks for one of them waits for it. Of the serving thread alone.

    Parameters
    ----------
    at_once
        How many are made at one time: each may need a gigabyte, however many ask.
    """

    def __init__(self, *, at_once: int = 4) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._under_way: dict[Hashable, asyncio.Future[EncodedBody]] = {}

    async def run(self, ask: Hashable, make: Callable[[], Awaitable[EncodedBody]]) -> EncodedBody:
        """What `make` gives, or the same ask's `make` that is under way."""
        flight = self._under_way.get(ask)
        if flight is None:
            flight = self._under_way[ask] = asyncio.ensure_future(self._made(make))
            flight.add_done_callback(lambda _: self._under_way.pop(ask))
        return await asyncio.shield(flight)

    async def _made(self, make: Callable[[], Awaitable[EncodedBody]]) -> EncodedBody:
        async with self._room:
            return await make()
