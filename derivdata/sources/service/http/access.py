"""Access to the service: keys, tiers, request limits, hosts, origins and the size of bodies.

Any web page can make a browser send requests to 127.0.0.1. With DNS rebinding it can also read the responses.
Such a request carries the name of that page in ``Host`` or ``Origin``. A numeric address cannot be rebound.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import math
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from derivdata.sources.service.refusal import DOCS, Refusal
from derivdata.support.text import HiddenKeys, shown_tier
from derivdata.tables import endpoints


class Caller(NamedTuple):
    """Sender of a request: its tier, and a name for counting requests, which is never the key itself."""

    tier: str
    name: bytes


class Keys:
    """Digests of keys and their tiers; with `keyless` a request without a known key counts as Team."""

    def __init__(self, tiers: Mapping[str, str], *, keyless: bool = False) -> None:
        tiers = HiddenKeys(tiers)
        unknown = [shown_tier(tier) for tier in sorted(set(tiers.values()) - set(endpoints.TIERS))]
        if unknown:
            raise ValueError(f"tier {unknown[0]} is not one of {', '.join(endpoints.TIERS)}")
        if not all(tiers):
            raise ValueError("a key is empty: set a key for each tier")
        self._tiers = [(_digest(key), tier) for key, tier in tiers.items()]
        self._keyless = keyless

    def caller(self, sent: str | None, address: str = "") -> Caller:
        """Return the caller with a key, or with an `address` if no key is needed.

        Keys are compared in constant time. Raises `Refusal` (401) for a missing or unknown key.
        """
        digest = _digest(sent or "")
        matches = [tier for stored, tier in self._tiers if hmac.compare_digest(stored, digest)]
        if matches:
            return Caller(matches[0], digest)
        if self._keyless:
            return Caller(endpoints.TIERS[-1], address.encode())
        why = "invalid API key" if sent else "missing API key: send it in the header X-Api-Key"
        raise Refusal(401, why, docs=DOCS)

    @staticmethod
    def admit(tier: str, needed: str) -> None:
        """Raise `Refusal` (403) if a tier is below the needed tier."""
        if not endpoints.allows(tier, needed):
            error = f"this endpoint needs {needed.title()} or higher; the key's tier is {tier.title()}"
            raise Refusal(403, error, required_tier=needed, docs=DOCS)


class RateLimit:
    """At most `limit` requests of one caller in any `seconds`; `most_callers` are remembered."""

    def __init__(
        self,
        limit: int,
        *,
        seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        most_callers: int = 4096,
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._most = most_callers
        self._admitted: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._admitted)

    def admit(self, caller: Hashable) -> dict[str, str]:
        """Count a request and return headers with the number of remaining requests.

        Raises `Refusal` (429) if the limit is reached; a rejected request does not count.
        """
        now = self._clock()
        recent = self._admitted.setdefault(caller, deque())
        self._admitted.move_to_end(caller)
        if len(self._admitted) > self._most:
            self._admitted.popitem(last=False)
        while recent and now - recent[0] >= self._seconds:
            recent.popleft()
        if len(recent) >= self._limit:
            wait = recent[0] + self._seconds - now
            message = f"at most {self._limit} requests in {self._seconds:g} s for each key; wait {wait:.3f} s"
            headers = {"Retry-After": str(math.ceil(wait)), **self._headers(0)}
            about = {"message": message, "retry_after": math.ceil(wait)}
            raise Refusal(429, "rate limit exceeded", headers=headers, **about)
        recent.append(now)
        return self._headers(self._limit - len(recent))

    def _headers(self, remaining: int) -> dict[str, str]:
        return {"X-RateLimit-Limit": str(self._limit), "X-RateLimit-Remaining": str(remaining)}


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


_BODY_BYTES = 1 << 16
_HOST = re.compile(r"(?:\[([^][@/?#\s]+)\]|([^][:@/?#\s]+))(?::\d{1,5})?")


class Guard:
    """ASGI middleware that rejects requests by their host, origin or body before the application."""

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
        """Pass a request on, or send an error response."""
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
        await self._run(request, receive, send)

    async def _run(self, request: Request, receive: Receive, send: Send) -> None:
        """Run the application; if the service ends before anything was sent, send 503."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(request.scope, _bodiless(receive), noted)
        except asyncio.CancelledError:
            if started:
                return  # the server closes a connection with an incomplete response
            headers = {"Retry-After": "1", "Connection": "close"}
            error = "the service is shutting down: retry once it is running again"
            refusal = Refusal(503, error, headers=headers)
            await self._refuse(request, refusal)(request.scope, receive, send)

    def _check_host(self, request: Request) -> None:
        host = request.headers.get("Host", "")
        name = _name(host)
        if not (name == "localhost" or name in self._allowed or _is_address(name)):
            error = f"host {host[:100]!r} is not allowed: start the service with --allow-host for that name"
            raise Refusal(421, error)

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("Origin")
        if origin is None:
            return
        host = urlsplit(origin).netloc
        is_own = host != "" and host == request.headers.get("Host")
        if not is_own and _name(host) not in self._allowed:
            raise Refusal(403, f"pages of {origin[:100]!r} may not read this service")

    async def _drain(self, request: Request, receive: Receive) -> None:
        """Read and discard the body, which no endpoint uses; raise `Refusal` if it is large or slow."""
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
    match = _HOST.fullmatch(host)
    if match is None:
        return ""
    name = match[1] or match[2]
    return name.lower().rstrip(".")


def _too_large() -> Refusal:
    return Refusal(413, f"a body has at most {_BODY_BYTES} bytes", headers={"Connection": "close"})


def _bodiless(receive: Receive) -> Receive:
    """Return a `receive` for after the body was read: first an empty body, then the client's messages."""
    sent_empty = False

    async def after() -> Message:
        nonlocal sent_empty
        if sent_empty:
            return await receive()
        sent_empty = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return after
