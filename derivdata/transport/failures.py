"""From an HTTP status to the error that says what, why, and what to do."""

from __future__ import annotations

from typing import Any

import msgspec

from derivdata.api import endpoint_of
from derivdata.errors import (
    AuthError,
    BadRequest,
    FetchError,
    NotFound,
    RateLimited,
    SchemaError,
    ServerError,
    TierError,
)
from derivdata.transport.served import Served
from derivdata.transport.timing import retry_after

__all__ = ["checked"]

_LONGEST_MESSAGE = 500
_WINDOW = ("start", "range")


class _Body(msgspec.Struct):
    error: Any = None
    message: Any = None
    required_tier: Any = None
    docs: Any = None
    retry_after: Any = None


def checked(served: Served) -> Served:
    """The answer, if its status is 200.

    Raises
    ------
    BadRequest, AuthError, TierError, NotFound, RateLimited, ServerError, SchemaError
        By status; with the service's own words.
    """
    if served.status == 200:
        return served
    if 200 <= served.status < 400:
        raise SchemaError(f"{served.request}: HTTP {served.status} instead of an answer")
    raise _failure(served, _read(served.body))


def _failure(served: Served, body: _Body) -> FetchError:
    path, status = served.request.path, served.status
    said = _words(served, body)
    if status == 401:
        fix = "pass api_key= to dd.connect, set DERIVDATA_API_KEY, or write ~/.config/derivdata/key"
        return AuthError(path, f"{said} (HTTP 401); {fix}", status=status)
    if status == 403:
        return TierError(path, f"{_tier(served, body)}{said} (HTTP 403)", status=status)
    if status == 404:
        return NotFound(path, f"{said} (HTTP 404)", status=status)
    if status == 429:
        return _rate_limited(served, body, said)
    if status >= 500:
        return ServerError(path, f"{said} (HTTP {status}); try again later", status=status)
    return BadRequest(path, f"{said} (HTTP {status})", status=status)


def _rate_limited(served: Served, body: _Body, said: str) -> RateLimited:
    seconds = retry_after(served.headers.get("Retry-After"), served.headers.get("Date"))
    if seconds is None and isinstance(body.retry_after, int | float) and body.retry_after >= 0:
        seconds = float(body.retry_after)
    when = "later" if seconds is None else f"in {seconds:g} s"
    message = f"{said} (HTTP 429); try again {when}: what came so far is in the cache"
    return RateLimited(served.request.path, message, status=429, retry_after=seconds)


def _tier(served: Served, body: _Body) -> str:
    """The tier that the service names, else what the API document says of the endpoint."""
    if isinstance(body.required_tier, str):
        return f"this needs the {body.required_tier.capitalize()} tier or a higher one: "
    endpoint = endpoint_of(served.request.path)
    if endpoint is None:
        return ""
    given = f"the API document opens this endpoint to the {endpoint.tier.capitalize()} tier and higher ones"
    dated = any(p.name in _WINDOW for p in endpoint.params)
    return f"{given}, Dev to its last 30 days: " if endpoint.tier == "dev" and dated else f"{given}: "


def _read(body: bytes) -> _Body:
    try:
        return msgspec.json.decode(body, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Body()


def _words(served: Served, body: _Body) -> str:
    """What the service said: its JSON's words, else its text, else the bare status."""
    said = "; ".join(dict.fromkeys(s for s in (body.error, body.message) if isinstance(s, str) and s))
    if not said and served.headers.get("Content-Type", "").startswith("text/plain"):
        said = served.body.decode("utf-8", "replace")
    said = " ".join(said.split())[:_LONGEST_MESSAGE]
    return said or f"the service answered HTTP {served.status} without a word"
