"""Responses: their headers, the exception for each status, and the notices for the user."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import pandas as pd

from derivdata.errors import (
    AuthError,
    BadRequest,
    DataNotice,
    DeprecationNotice,
    FetchError,
    NetworkError,
    NotFound,
    RateLimited,
    SchemaError,
    ServerError,
    TierError,
)
from derivdata.support.text import escape_controls, warn_caller
from derivdata.tables.endpoints import LOCAL, Request, endpoint_of

T = TypeVar("T")

DIGEST_HEADER = "X-Body-Sha256"
"""Header in which the hash of the body is passed on and cached, so that it is computed once."""


@dataclass(frozen=True)
class Response:
    """One HTTP response, of any status."""

    request: Request
    status: int
    # Headers of the response that are in `adapter.KEPT_HEADERS`.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    as_of: pd.Timestamp  # the server's ``Date``; NaT for an error without one
    source: str
    synthetic: bool
    attribution: str = ""
    sha256: str = field(kw_only=True, compare=False, repr=False)
    passed: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False, repr=False)
    """By reader, the rules that run again; this version of the library has already checked all others."""


@lru_cache(maxsize=256)
def http_date(text: str | None) -> pd.Timestamp | None:
    """Return the time of a ``Date`` header; None if it cannot be read."""
    try:
        return pd.Timestamp(parsedate_to_datetime(text or "")).tz_convert("UTC").as_unit("us")
    except (ValueError, TypeError, OverflowError):
        return None


_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
"""Whole seconds by RFC 9110; some servers send a fraction."""


def retry_after(value: str | None, date: str | None) -> float | None:
    """Return the seconds in a ``Retry-After`` header; None if it cannot be read.

    A date counts from the response's own ``Date``, so the machine's clock does not matter.
    """
    if value is not None and _SECONDS.fullmatch(value.strip()):
        seconds = float(value)
    else:
        then = http_date(value)
        now = http_date(date)
        if then is None or now is None:
            return None
        seconds = max((then - now).total_seconds(), 0.0)
    return seconds


def plain_text(text: str, limit: int) -> str:
    """Return a server's text as one printable line of at most `limit` characters.

    Consecutive blanks become one. Control characters (escape sequences, direction marks) are written as
    codes.
    """
    shown = escape_controls(" ".join(text[: 4 * limit].split()))
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


class _Noticed(msgspec.Struct):
    notices: Any = None


_NOTICES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Noticed | list[msgspec.Raw] | str)


def notices_in(body: bytes) -> Any:
    """Return the ``notices`` of a response as sent; None without any."""
    if b'"notices"' not in body:
        return None
    decoded = _NOTICES.decode(body)
    return decoded.notices if isinstance(decoded, _Noticed) else None


_LONGEST_MESSAGE = 500
_WINDOW = ("start", "range")
_SOURCE = "X-Derivdata-Source"
"""Header that only the local service sends, with every response."""

_NOT_HOSTED = (
    "the hosted service does not have this endpoint; the sample, archives and venues do: call "
    "dd.connect('sample'), dd.connect('path/to/archive') or dd.connect('venues')"
)


class _Body(msgspec.Struct):
    error: Any = None
    message: Any = None
    required_tier: Any = None
    docs: Any = None
    retry_after: Any = None


_BODIES = msgspec.json.Decoder(_Body)


def error_of(response: Response) -> FetchError | SchemaError:
    """Return the exception for a response whose status is not 200, with the service's own message."""
    if 200 <= response.status < 400:
        return SchemaError(f"{response.request}: expected HTTP 200, got HTTP {response.status}")
    body = _read(response.body)
    path = response.request.path
    status = response.status
    message = _message(response, body)
    if status == 401:
        fix = "pass api_key= to dd.connect, set DERIVDATA_API_KEY, or write ~/.config/derivdata/key"
        return AuthError(path, f"{message} (HTTP 401); {fix}", status=status)
    if status in (400, 403, 404) and path.startswith(LOCAL) and _SOURCE not in response.headers:
        return NotFound(path, f"{_NOT_HOSTED} (HTTP {status})", status=status)
    if status == 403:
        return TierError(path, f"{_tier(response, body)}{message} (HTTP 403)", status=status)
    if status == 404:
        return NotFound(path, f"{message} (HTTP 404)", status=status)
    if status == 429:
        return _rate_limited(response, body, message)
    if status >= 500:
        return ServerError(path, f"{message} (HTTP {status}); try again later", status=status)
    return BadRequest(path, f"{message} (HTTP {status})", status=status)


def _rate_limited(response: Response, body: _Body, words: str) -> RateLimited:
    """Return the error of a 429, with the wait from the header, else from the body."""
    seconds = retry_after(response.headers.get("Retry-After"), response.headers.get("Date"))
    if seconds is None and isinstance(body.retry_after, int | float) and body.retry_after >= 0:
        seconds = float(body.retry_after)
    when = "later" if seconds is None else f"in {seconds:g} s"
    message = f"{words} (HTTP 429); try again {when}: the responses so far are in the cache"
    return RateLimited(response.request.path, message, status=429, retry_after=seconds)


def _tier(response: Response, body: _Body) -> str:
    """Return the required tier: from the service's response, else from the API document."""
    if isinstance(body.required_tier, str):
        return f"this needs the {plain_text(body.required_tier, 40).capitalize()} tier or higher: "
    endpoint = endpoint_of(response.request.path)
    if endpoint is None:
        return ""
    tier = f"the API document lists this endpoint for the {endpoint.tier.capitalize()} tier and higher"
    has_window = any(p.name in _WINDOW for p in endpoint.params)
    if endpoint.tier == "dev" and has_window:
        return f"{tier}, for Dev only the last 30 days: "
    return f"{tier}: "


def _read(body: bytes) -> _Body:
    try:
        return _BODIES.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Body()


def _message(response: Response, body: _Body) -> str:
    """Return the service's message: from its JSON, else its text, else only the status."""
    message = "; ".join(dict.fromkeys(s for s in (body.error, body.message) if isinstance(s, str) and s))
    if not message and response.headers.get("Content-Type", "").startswith("text/plain"):
        message = response.body.decode("utf-8", "replace")
    message = plain_text(message, _LONGEST_MESSAGE)
    return message or f"the service returned HTTP {response.status} with an empty body"


def permanent(error: FetchError) -> FetchError:
    """Mark the error as not retryable."""
    error.retryable = False
    return error


def network_error(path: str, error: Exception) -> FetchError:
    """Return the package's error for an exception of requests or urllib3, with only the path shown."""
    # Imported here because a response from the cache needs neither of them.
    import requests
    import urllib3

    if isinstance(error, requests.exceptions.SSLError):
        return permanent(NetworkError(path, f"the server's certificate was rejected: {_innermost(error)}"))
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return NetworkError(path, "the connection timed out")
    if isinstance(error, requests.exceptions.Timeout | urllib3.exceptions.TimeoutError):
        return NetworkError(path, "the server stopped sending")
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return NetworkError(path, f"the connection failed or was interrupted: {_innermost(error)}")
    if isinstance(error, requests.TooManyRedirects):
        return permanent(NetworkError(path, "too many redirects"))
    if isinstance(error, requests.exceptions.InvalidSchema) and "SOCKS" in str(error):
        return permanent(
            NetworkError(path, "the proxy needs SOCKS: install PySocks, or set an HTTP proxy in HTTPS_PROXY")
        )
    if isinstance(error, requests.exceptions.InvalidSchema):
        return permanent(
            NetworkError(path, "the server redirects to an address over plain http, which is not followed")
        )
    return permanent(NetworkError(path, f"the request could not be sent: {type(error).__name__}"))


def _innermost(error: BaseException) -> str:
    """Return the system's message, without the exceptions that wrap it."""
    reason = getattr(error, "reason", None)
    cause = next((a for a in (reason, *error.args) if isinstance(a, BaseException)), None)
    if cause is not None:
        return _innermost(cause)
    return plain_text(str(error).rpartition(">: ")[2], _LONGEST_MESSAGE)


NOTICE_LENGTH = 300
"""Maximum length of a notice that is shown [characters]."""

_DEPRECATION = ("Deprecation", "Sunset", "Link", "Warning")
_deprecated: set[tuple[str, str]] = set()
"""Source and endpoint of each deprecation that was already warned about."""


def notify(about: Request | str, notice: str, category: type[Warning] = DataNotice) -> None:
    """Warn the library's caller with a notice about a request or a path."""
    warn_caller(f"{about}: {notice}", category)


def warn_deprecated(response: Response) -> None:
    """Warn once per source and endpoint that the endpoint, or a way to request it, is deprecated."""
    path = response.request.path
    endpoint = endpoint_of(path)
    about = response.source, path if endpoint is None else endpoint.path
    if ("Deprecation" in response.headers or "Sunset" in response.headers) and about not in _deprecated:
        _deprecated.add(about)
        headers = response.headers
        text = "; ".join(f"{name}: {headers[name]}" for name in _DEPRECATION if name in headers)
        notify(path, plain_text(text, NOTICE_LENGTH), DeprecationNotice)


def progress(items: Iterable[T], *, total: int, label: str) -> Iterable[T]:
    """Return `items` with a progress bar on a terminal, and in a notebook with ipywidgets.

    A notebook without ipywidgets gets no bar: tqdm would print a warning and red text instead.
    """
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    in_notebook = running is not None and "IPKernelApp" in running.config
    drawn = in_notebook and importlib.util.find_spec("ipywidgets") is not None
    if total < 2 or not (drawn or sys.stderr.isatty()):
        return items
    from tqdm.auto import tqdm

    return tqdm(items, total=total, desc=label, leave=False)
