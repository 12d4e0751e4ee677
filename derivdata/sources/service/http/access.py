"""Access to the service: keys, tiers, limits, hosts and origins; and the typed parameters of a request.

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
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from email.utils import format_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pandas as pd
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from derivdata.sources.service.data.store import DOCS, Refusal, bad_request
from derivdata.support import times
from derivdata.support.text import HiddenKeys, did_you_mean, shown_tier
from derivdata.tables import contracts, endpoints


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
            raise ValueError(f"tier must be one of {', '.join(endpoints.TIERS)}, got {unknown[0]}")
        if not all(tiers):
            raise ValueError("an API key is empty: set a key for each tier")
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
        if sent:
            raise Refusal(401, "invalid API key", docs=DOCS)
        raise Refusal(401, "missing API key: send it in the header X-Api-Key", docs=DOCS)

    @staticmethod
    def admit(tier: str, needed: str) -> None:
        """Raise `Refusal` (403) if a tier is below the needed tier."""
        if not endpoints.allows(tier, needed):
            error = f"this endpoint requires {needed.title()} or higher; the key's tier is {tier.title()}"
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
        self._most_callers = most_callers
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
        # Without a required key every client address is a caller: memory must not grow with their number.
        if len(self._admitted) > self._most_callers:
            self._admitted.popitem(last=False)
        while recent and now - recent[0] >= self._seconds:
            recent.popleft()
        if len(recent) >= self._limit:
            wait = recent[0] + self._seconds - now
            message = f"at most {self._limit} requests in {self._seconds:g} s per key; wait {wait:.3f} s"
            retry_after = math.ceil(wait)
            headers = {"Retry-After": str(retry_after), **self._headers(0)}
            raise Refusal(
                429, "rate limit exceeded", headers=headers, message=message, retry_after=retry_after
            )
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
        # localhost and addresses are always valid hosts. In this set they would be valid origins too, and a
        # web page of any other local server could read the data.
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
            await self._discard_body(request, receive)
        except Refusal as refusal:
            await self._refuse(request, refusal)(scope, receive, send)
            return
        await self._run(request, receive, send)

    async def _run(self, request: Request, receive: Receive, send: Send) -> None:
        """Run the application; if the service ends before anything was sent, send 503."""
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(request.scope, _after_body(receive), send_and_note)
        except asyncio.CancelledError:
            if has_started:
                return  # the server closes a connection with an incomplete response
            headers = {"Retry-After": "1", "Connection": "close"}
            error = "the service is shutting down: retry once it is running again"
            refusal = Refusal(503, error, headers=headers)
            await self._refuse(request, refusal)(request.scope, receive, send)

    def _check_host(self, request: Request) -> None:
        """Raise `Refusal` (421) for the name of another host."""
        host = request.headers.get("Host", "")
        name = _host_name(host)
        if not (name == "localhost" or name in self._allowed or _is_address(name)):
            error = f"host {host[:100]!r} is not allowed: start the service with --allow-host NAME"
            raise Refusal(421, error)

    def _check_origin(self, request: Request) -> None:
        """Raise `Refusal` (403) if a web page of another host sends the request."""
        origin = request.headers.get("Origin")
        if origin is None:
            return
        host = urlsplit(origin).netloc
        is_own = host != "" and host == request.headers.get("Host")
        if not is_own and _host_name(host) not in self._allowed:
            raise Refusal(403, f"requests from web pages of {origin[:100]!r} are not allowed")

    async def _discard_body(self, request: Request, receive: Receive) -> None:
        """Read and discard the body, which no endpoint uses; raise `Refusal` if it is large or slow."""
        length = request.headers.get("Content-Length", "0")
        try:
            # int() raises for texts of thousands of digits, so the length is compared first.
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
            error = f"the request body did not arrive within {self._body_seconds:g} s"
            raise Refusal(408, error, headers=headers) from None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _host_name(host: str) -> str:
    """Return the host of ``host:port`` in lower case, without brackets and a dot at its end."""
    match = _HOST.fullmatch(host)
    if match is None:
        return ""
    name = match[1] or match[2]
    return name.lower().rstrip(".")


def _too_large() -> Refusal:
    return Refusal(413, f"the request body exceeds {_BODY_BYTES} bytes", headers={"Connection": "close"})


def _after_body(receive: Receive) -> Receive:
    """Return the `receive` of the application: first an empty body, then the client's next messages."""
    sent_empty = False

    async def after() -> Message:
        nonlocal sent_empty
        if sent_empty:
            return await receive()
        sent_empty = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return after


_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII | re.IGNORECASE
)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
LARGEST = 100_000
"""Maximum of every integer parameter."""

_EPOCH = pd.Timestamp(0, tz="UTC").as_unit("us")
_SLUGS = ("exchange", "exchanges")
_PATHS_WITH_OTHER_EXCHANGES = ("/rwa/market-hours",)
"""Paths whose exchanges are not the venues of the API."""

_LEGACY_NAMES = {
    "period": "range",
    "days": "range",
    "start_time": "start",
    "end_time": "end",
    "min_day": "start",
}
"""Legacy time parameter to its replacement."""

LEGACY_PATHS = {"/oi/coin": endpoints.OI_TIMESERIES, "/volume/coin": endpoints.VOLUME_TIMESERIES}
"""Legacy path, which takes the symbol as ``coin``, to the endpoint that replaces it."""

LEGACY_UNTIL = pd.Timestamp("2026-07-21", tz="UTC")
"""Legacy parameters and paths are accepted before this time (section 9 of the API document)."""


class Query(NamedTuple):
    """The parameters of a query by their current names, and the legacy names that it used."""

    texts: dict[str, str]
    legacy: list[str]


def given(endpoint: endpoints.Endpoint, pairs: Sequence[tuple[str, str]], now: pd.Timestamp) -> Query:
    """Return the parameters of `endpoint` in a query, legacy ones under their current names.

    Raises `Refusal`: a parameter is repeated or empty, or has a legacy name after `LEGACY_UNTIL`.
    """
    names = {p.name for p in endpoint.params if not p.in_path}
    current_pairs = [(name, value) for name, value in pairs if name in names]
    legacy: list[str] = []
    for name, value in pairs:
        current = _LEGACY_NAMES.get(name)
        if name in names or current not in names:
            continue
        if now >= LEGACY_UNTIL:
            raise bad_request(f"{name} was retired: use {current}")
        legacy.append(name)
        if name == "days":
            value = _as_range(value)
        current_pairs.append((current, value))
    _require_single(current_pairs, legacy)
    return Query(dict(current_pairs), legacy)


def _as_range(days: str) -> str:
    """Return a legacy number of days as the text of `range`."""
    if days.isascii() and days.isdigit():
        return f"{days}d"
    return days


def _require_single(pairs: Sequence[tuple[str, str]], legacy: Sequence[str]) -> None:
    """Raise `Refusal` if a parameter is repeated or empty."""
    counts = Counter(name for name, _ in pairs)
    for name, count in counts.items():
        if count > 1:
            raise bad_request(f"{_with_legacy_names(name, legacy)} was sent {count} times: pass {name} once")
    for name, value in pairs:
        if not value.strip():
            raise bad_request(f"{name} is empty: omit it or set a value")


def _with_legacy_names(name: str, legacy: Sequence[str]) -> str:
    """Return a parameter's name, with the legacy names in the query."""
    old = [alias for alias in dict.fromkeys(legacy) if _LEGACY_NAMES[alias] == name]
    if not old:
        return name
    return f"{name} (also as {', '.join(old)})"


def legacy_headers(names: Sequence[str]) -> dict[str, str]:
    """Return the headers of a response to a request that used legacy parameters."""
    if not names:
        return {}
    advice = "; ".join(f"use {_LEGACY_NAMES[name]} instead of {name}" for name in dict.fromkeys(names))
    return {**_sunset("/docs", "deprecation"), "Warning": f'299 - "{advice}"'}


def legacy_path_headers(successor: str) -> dict[str, str]:
    """Return the headers of a response under a legacy path."""
    return _sunset(successor, "successor-version")


def _sunset(target: str, relation: str) -> dict[str, str]:
    sunset = format_datetime(LEGACY_UNTIL.to_pydatetime(), usegmt=True)
    return {"Deprecation": "true", "Sunset": sunset, "Link": f'<{target}>; rel="{relation}"'}


def parse(
    endpoint: endpoints.Endpoint, texts: Mapping[str, str], exchanges: frozenset[str]
) -> dict[str, Any]:
    """Return the values of all parameters, with defaults; raise `Refusal` for invalid or missing ones."""
    for name, other in endpoint.exclusive:
        if name in texts and other in texts:
            raise bad_request(f"{name} cannot be combined with {other}: pass one of them")
    values: dict[str, Any] = {}
    for p in endpoint.params:
        if p.name in texts:
            values[p.name] = value = _PARSERS[p.kind](p.name, texts[p.name])
            if p.choices and value not in p.choices:
                choices = ", ".join(p.choices)
                raise bad_request(f"{p.name} must be one of {choices}, got {texts[p.name]!r}")
            if p.name in _SLUGS and not p.in_path and endpoint.path not in _PATHS_WITH_OTHER_EXCHANGES:
                values[p.name] = _require_venues(p.name, value, exchanges)
        elif p.required:
            raise bad_request(f"{p.name} is required")
        else:
            values[p.name] = p.default
    return values


def _require_venues(name: str, value: str | tuple[str, ...], exchanges: frozenset[str]) -> Any:
    """Return the venue or venues; ``all`` is None. Raise `Refusal` for an unknown venue."""
    if value == ("all",):
        return None
    slugs = [value] if isinstance(value, str) else value
    for slug in slugs:
        if slug in exchanges:
            continue
        advice = "; dd.markets.exchanges() lists its venues"
        if slug != slug.lower():
            advice = "; slugs are lower case, like 'binance'"
        elif slug in contracts.ADAPTERS_ONLY:
            advice = ': dd.connect("venues") has it'
        near = did_you_mean(slug, exchanges, advice)
        raise bad_request(f"{name}={slug!r} is not a venue of this source{near}")
    return value


# Each of these functions parses the text of a parameter, and raises `Refusal` (400) with its name.


def _list(name: str, text: str) -> tuple[str, ...]:
    items = text.split(",")
    if not all(item.strip() for item in items):
        raise bad_request(f"{name} must be values separated by single commas, got {text!r}")
    return tuple(dict.fromkeys(items))


def _integer(name: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not 1 <= int(text) <= LARGEST:
        raise bad_request(f"{name} must be an integer from 1 to {LARGEST}, got {text!r}")
    return int(text)


def _number(name: str, text: str) -> float:
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise bad_request(f"{name} must be a finite number, got {text!r}")
    return float(text)


def _timestamp(name: str, text: str) -> pd.Timestamp:
    if not _ISO.fullmatch(text):
        raise bad_request(f"{name} must be an ISO 8601 time such as 2026-01-31T08:00:00Z, got {text!r}")
    try:
        return times.timestamp(text.replace(",", "."), name)
    except ValueError as problem:
        raise bad_request(str(problem)) from None


def _millis(name: str, text: str) -> pd.Timestamp:
    if not re.fullmatch(r"\d{1,13}", text, re.ASCII):
        raise bad_request(f"{name} must be a Unix time in milliseconds, got {text!r}")
    return _EPOCH + pd.Timedelta(int(text), "ms")


def _days(name: str, text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,3}d", text, re.ASCII):
        raise bad_request(f"{name} must be a number of days such as 30d, got {text!r}")
    return text


_PARSERS: dict[endpoints.ParamKind, Callable[[str, str], Any]] = {
    endpoints.ParamKind.TEXT: lambda _, text: text,
    endpoints.ParamKind.LIST: _list,
    endpoints.ParamKind.INTEGER: _integer,
    endpoints.ParamKind.NUMBER: _number,
    endpoints.ParamKind.TICK: _timestamp,
    endpoints.ParamKind.MILLIS: _millis,
    endpoints.ParamKind.DAYS: _days,
}
