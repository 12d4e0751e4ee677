"""Responses: complete bodies within a deadline and a size limit, headers, errors by status, notices.

Fast decoders silently keep the last value of a repeated key. Only the parser in Python sees all pairs, and on
a large body it takes longer than all other work. Three shortcuts avoid it:

- The decoded members of a large object must add up to the length of its text. A repeated key makes it longer.
- The keys of a list of rows are compared with the keys of its first row, byte by byte.
- In a response with rows by venue, the parser in Python reads only the text outside the lists of rows.

Where keys differ, or where a shortcut could be wrong (an escape, a space before a colon), the text is parsed
in Python.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from io import BytesIO
from typing import Any, TypeVar

import msgspec
import numpy as np
import pandas as pd
import requests
import urllib3
from numpy.typing import NDArray

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
    headers: Mapping[str, str] = field(repr=False)  # of the response, those in `adapter.KEPT_HEADERS`
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

    Runs of blanks become one. A control character (an escape sequence, a change of direction) is written as
    its code.
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
        return NetworkError(path, f"the connection failed or broke off: {_innermost(error)}")
    if isinstance(error, requests.TooManyRedirects):
        return permanent(NetworkError(path, "too many redirects"))
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


_SMALL_BYTES = 1 << 14
_SPACES = (b" ", b"\t", b"\n", b"\r")
_Text = bytes | memoryview
_Scalar = str | int | float | bool | None
_json = msgspec.json.Decoder(msgspec.Raw)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_scalars = msgspec.json.Decoder(dict[str, _Scalar])


class _Venues(msgspec.Struct):
    series: dict[str, msgspec.Raw]


_venues = msgspec.json.Decoder(_Venues)
_SERIES = b'"series":{'
_HEAD_BYTES = 1 << 10


class DuplicateKey(Exception):
    """A JSON object has a repeated key."""


def check_keys(text: bytes) -> None:
    """Raise `DuplicateKey` if an object in a JSON text has a repeated key.

    A text that is not JSON raises `msgspec.DecodeError`.
    """
    is_unclear = b"\\" in text or any(space in text and b'"' + space in text for space in _SPACES)
    if not is_unclear and len(text) >= _SMALL_BYTES and text[:1] == b"{":
        try:
            if _SERIES in text[:_HEAD_BYTES]:
                return _check_venues(text)
            return _check_object(text)  # decodes the full text, as `_json` does
        except msgspec.ValidationError:  # the rows are not grouped by venue
            return _check_object(text)
        except msgspec.DecodeError:
            _json.decode(text)  # raises with the position of the first error, as for any other text
            raise
    _json.decode(text)
    return _parse(text) if is_unclear else _check(text)


def _check_venues(text: bytes) -> None:
    """Check each venue's rows, and the text outside these rows."""
    base = _address(text)
    outline: list[bytes] = []
    done = 0
    for rows in sorted(_venues.decode(text).series.values(), key=_address):
        begin = _address(rows) - base
        outline += [text[done:begin], b"0"]
        done = begin + len(rows)
        _check(memoryview(rows))
    outline.append(text[done:])
    _parse(b"".join(outline))


def _address(text: bytes) -> int:
    """Return the memory address of a text. A `msgspec.Raw` is a view into the text it was decoded from."""
    address: int = np.frombuffer(text, np.uint8).__array_interface__["data"][0]
    return address


def _check(text: _Text) -> None:
    """Check a JSON text without escapes and without space between a key and its colon."""
    if len(text) >= _SMALL_BYTES:
        if text[:1] == b"{":
            return _check_object(text)
        if text[:1] == b"[" and _is_list_of_equal_rows(text):
            return None
    return _parse(text)


def _check_object(text: _Text) -> None:
    """Check an object by the total length of its decoded members; parse it in Python if that differs."""
    members = {key: memoryview(raw) for key, raw in _object.decode(text).items()}
    # Each member is `"key":value,`: 4 characters more than key and value. The last one has no comma, and the
    # two braces add 2: hence + 1.
    length = sum(len(key.encode()) + len(value) + 4 for key, value in members.items()) + 1
    if length != len(text):  # a member was dropped, or there is space between members
        return _parse(text)
    for value in members.values():
        if bytes(value[:1]) in (b"{", b"["):
            _check(value)
    return None


def _is_list_of_equal_rows(text: _Text) -> bool:
    """Return whether a text is a list of flat objects with the same keys in the same order.

    Every opening brace must start the next object of the list. Between two braces there must be as many keys
    as in the first object, and each key must end like the corresponding key of the first object. The compared
    endings are long enough to tell the keys of the first object apart.
    """
    # 1. Read the keys of the first row.
    try:
        first_row = text[1 : bytes(text[:_SMALL_BYTES]).find(b"}") + 1]
        names = [f'"{name}'.encode() for name in _scalars.decode(first_row)]
    except msgspec.DecodeError:
        return False
    # 2. Count braces and ends of keys. A string value that begins with a colon counts as a key end too: the
    # counts then differ, and the caller parses the list in Python.
    codes = np.frombuffer(text, np.uint8)
    opens = np.flatnonzero(codes == ord("{"))
    key_ends = np.flatnonzero((codes[:-1] == ord('"')) & (codes[1:] == ord(":")))
    if not names or key_ends.size != opens.size * len(names) or not _are_in_a_row(codes, opens):
        return False
    # 3. Each row has its keys between its own brace and the next one.
    keys = key_ends.reshape(opens.size, len(names))
    if (keys[:, 0] < opens).any() or (keys[:-1, -1] > opens[1:]).any():
        return False
    # 4. Each key ends like the key at the same place in the first row.
    endings = _distinct_endings(names)
    return all(
        (codes[keys[:, place] - back] == ending[-back]).all()
        for place, ending in enumerate(endings)
        for back in range(1, len(ending) + 1)
    )


def _are_in_a_row(codes: NDArray[np.uint8], opens: NDArray[np.int64]) -> bool:
    """Return whether each opening brace starts an object, at the start of the list or right after ``},``.

    A brace inside a string value fails the test: the closing quotation mark of the string is followed by one
    of ``,:]}``.
    """
    lead = codes[opens[0] + 2]
    return bool(
        opens[0] == 1
        and lead not in b",:]}"
        and (codes[opens + 1] == ord('"')).all()
        and (codes[opens + 2] == lead).all()
        and (codes[opens[1:] - 1] == ord(",")).all()
        and (codes[opens[1:] - 2] == ord("}")).all()
    )


def _distinct_endings(names: Sequence[bytes]) -> list[bytes]:
    """Return the endings of distinct names, all cut to the shortest length at which they still differ."""
    length = 1
    while len({name[-length:] for name in names}) < len(names):
        length += 1
    return [name[-length:] for name in names]


def _parse(text: _Text) -> None:
    """Parse a text with the parser in Python, which raises on a repeated key."""
    _pairs.decode(bytes(text).decode())


def _reject_repeated_key(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise DuplicateKey("an object in it has the same key twice")


_pairs = json.JSONDecoder(object_pairs_hook=_reject_repeated_key, parse_int=len, parse_float=len)


_CHUNK = 1 << 16
_PLACE = re.compile(r"\(byte (\d+)\)")


class BodyTooLarge(Exception):
    """The body is larger than the cap."""


class TooSlow(Exception):
    """The body was not complete at the deadline."""


class NotJson(Exception):
    """The body is not JSON. `cut` means that it may be valid JSON that was truncated."""

    def __init__(self, why: str, cut: bool = False) -> None:
        super().__init__(why, cut)
        self.cut = cut

    def __str__(self) -> str:
        return str(self.args[0])


def read_body(raw: Any, *, deadline: float, cap: int, monotonic: Callable[[], float]) -> bytes:
    """Return the complete body of a urllib3 response, decompressed."""
    pieces = _received(raw, deadline, cap, monotonic)
    encoded = isinstance(raw, urllib3.HTTPResponse) and raw.headers.get("Content-Encoding", "")
    body = bytearray()
    for piece in _unpacked(pieces) if encoded and "gzip" in encoded.lower() else pieces:
        body += piece
        if len(body) > cap:
            raise BodyTooLarge
    return bytes(body)


def _received(raw: Any, deadline: float, cap: int, monotonic: Callable[[], float]) -> Iterator[bytes]:
    """Yield a body as it arrives, in chunks."""
    # A response replayed from a cassette has no read1, and its body is not compressed.
    is_real = isinstance(raw, urllib3.HTTPResponse)
    read = raw.read1 if is_real else raw.read
    size = 0
    while piece := read(_CHUNK, decode_content=not is_real):
        size += len(piece)
        if size > cap:
            raise BodyTooLarge
        if monotonic() > deadline:
            raise TooSlow
        yield piece


def _unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the decompressed data of one or more gzip members, in chunks."""
    # urllib3's own decoding blocks until it has output, whatever the deadline, and accepts a truncated body.
    member: Any = None
    for piece in pieces:
        full = False
        while piece or full:
            if member is None or member.eof:
                member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                unpacked = member.decompress(piece, _CHUNK)
            except zlib.error as error:
                raise urllib3.exceptions.DecodeError(f"the body cannot be decompressed: {error}") from None
            yield unpacked
            piece = member.unconsumed_tail or member.unused_data
            full = len(unpacked) == _CHUNK
    if member is not None and not member.eof:
        raise urllib3.exceptions.DecodeError("the compressed body broke off")


def check_json(body: bytes, headers: Mapping[str, str]) -> None:
    """Raise `NotJson` for a body that is not JSON in UTF-8."""
    try:
        body.decode("utf-8")
        check_keys(body)
    except DuplicateKey as error:
        raise NotJson(str(error), cut=False) from None
    except RecursionError:
        raise NotJson("its JSON is nested too deeply", cut=False) from None
    except UnicodeDecodeError:
        raise NotJson("its text is not UTF-8", cut=False) from None
    except msgspec.DecodeError as error:
        if body.lstrip()[:1] == b"<":
            raise NotJson("it is HTML (a proxy's or a login page?)", cut=False) from None
        raise NotJson(f"it is not JSON: {error}", cut=_may_be_cut(str(error), body, headers)) from None


def _may_be_cut(why: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Return whether invalid JSON may have been truncated: HTTP framing cannot show it here."""
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return False
    place = _PLACE.search(why)
    return "truncated" in why or (place is not None and int(place[1]) >= len(body))


def send_whole(
    send: Callable[..., requests.Response],
    request: requests.PreparedRequest,
    options: dict[str, Any],
    *,
    deadline: float,
    cap: int,
    monotonic: Callable[[], float],
) -> requests.Response:
    """Return the response to a request with its body read and decompressed.

    Raises
    ------
    BodyTooLarge, TooSlow, requests.RequestException, urllib3.exceptions.HTTPError
        The body exceeds `cap` bytes; it is not complete at the deadline; no complete response arrived.
    """
    response = send(request, **{**options, "stream": True})
    raw = response.raw
    try:
        body = read_body(raw, deadline=deadline, cap=cap, monotonic=monotonic)
    finally:  # a connection with unread bytes cannot be reused
        if getattr(raw, "length_remaining", None) not in (0, None):
            raw.close()
        raw.release_conn()
    response._content = body
    response._content_consumed = True  # type: ignore[attr-defined]
    # Rebuilt from the body: requests would take cookies from the original, requests-cache reads it a second
    # time, and vcrpy's response lacks an attribute that requests-cache needs (kevin1024/vcrpy#881).
    response.raw = urllib3.HTTPResponse(
        BytesIO(body), status=response.status_code, preload_content=False, request_url=request.path_url
    )
    return response
