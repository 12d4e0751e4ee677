"""Refuse foreign hosts, foreign origins and oversized bodies before routing.

A page of any web site can have a browser send requests to 127.0.0.1, and by a name of its own that points
there (DNS rebinding) read the answers: such a request carries that name in ``Host`` or ``Origin``. An address
in figures cannot be rebound.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from derivdata.sources.service.refusal import Refusal

_BODY_BYTES = 1 << 16
_HOST = re.compile(r"(?:\[([^][@/?#\s]+)\]|([^][:@/?#\s]+))(?::\d{1,5})?")


class Guard:
    """An ASGI application around another that sees only requests that may be answered."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        refuse: Callable[[Request, Refusal], Response],
        hosts: Collection[str] = (),
        body_seconds: float = 30.0,
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._body_seconds = body_seconds
        names = {name.lower().rstrip(".") for name in hosts}
        self._allowed = {name for name in names if name != "localhost" and not _is_address(name)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            self._check_host(request)
            self._check_origin(request)
            await self._drain(request, receive)
        except Refusal as refusal:
            await self._refuse(request, refusal)(scope, receive, send)
            return
        await self._answer(request, receive, send)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        """Have the request answered; where the service ends meanwhile, say so if nothing was sent."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(request.scope, _bodiless(receive), noted)
        except asyncio.CancelledError:
            if started:
                return  # the server closes a connection whose answer is not complete
            headers = {"Retry-After": "1", "Connection": "close"}
            refusal = Refusal(503, "the service is ending: ask again once it is back", headers=headers)
            await self._refuse(request, refusal)(request.scope, receive, send)

    def _check_host(self, request: Request) -> None:
        host = request.headers.get("Host", "")
        name = _name(host)
        if not (name == "localhost" or name in self._allowed or _is_address(name)):
            raise Refusal(
                421, f"this service is not called {host[:100]!r}: start it with --allow-host for that name"
            )

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("Origin")
        if origin is None:
            return
        host = urlsplit(origin).netloc
        is_own = host != "" and host == request.headers.get("Host")
        if not is_own and _name(host) not in self._allowed:
            raise Refusal(403, f"pages of {origin[:100]!r} may not read this service")

    async def _drain(self, request: Request, receive: Receive) -> None:
        """Read the body, which no endpoint has a use for, up to a bound."""
        length = request.headers.get("Content-Length", "0")
        try:
            if not length.isdecimal() or len(length) > 9 or int(length) > _BODY_BYTES:
                raise _too_large()
            async with asyncio.timeout(self._body_seconds):
                size = 0
                more = True
                while more:
                    message = await receive()
                    size += len(message.get("body", b""))
                    more = message.get("more_body", False)
                    if size > _BODY_BYTES:
                        raise _too_large()
        except TimeoutError:
            headers = {"Connection": "close"}
            raise Refusal(408, "the body of the request did not arrive", headers=headers) from None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """Return the host of ``host:port`` in lower case, without brackets and a dot at its end."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""


def _too_large() -> Refusal:
    return Refusal(413, f"a body has at most {_BODY_BYTES} bytes", headers={"Connection": "close"})


def _bodiless(receive: Receive) -> Receive:
    """Return what is received after the body was read: an empty body, then what comes."""
    given = False

    async def after() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return after
