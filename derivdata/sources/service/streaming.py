"""Send large answers piece by piece, as fast as the client reads."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["StreamedResponse"]

_PIECE = 1 << 17


class StreamedResponse(Response):
    """A response whose body is never copied whole."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        for place in range(0, len(self.body), _PIECE):
            piece = bytes(self.body[place : place + _PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
