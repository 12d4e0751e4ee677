"""The process-wide session: destination and format of requests, and typed responses.

`raw` requests any path of the API and returns its JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import quote, unquote

import msgspec
import pandas as pd

from derivdata.client.transport.connection import Connection
from derivdata.client.transport.response import (
    NOTICE_LENGTH,
    Response,
    error_of,
    notices_in,
    notify,
    plain_text,
    progress,
    warn_deprecated,
)
from derivdata.errors import NotConnected, SchemaError
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.calls import Provenance
from derivdata.support.forking import DECODERS
from derivdata.support.text import did_you_mean
from derivdata.tables.endpoints import Endpoint, ParamKind, Request, endpoint_of

T = TypeVar("T")

Observer: TypeAlias = Callable[[Response], None]
Responder: TypeAlias = Callable[[Request], Response]
Clock: TypeAlias = Callable[[], pd.Timestamp]

_NOTICES = 20


@dataclass(frozen=True)
class DecodedResponse(Generic[T]):
    """A decoded response and its metadata."""

    body: T
    as_of: pd.Timestamp  # the server's ``Date``
    request: Request
    sha256: str  # SHA-256 of the raw body
    notices: tuple[str, ...]
    source: str
    synthetic: bool
    attribution: str = ""  # required by the API's terms
    # Corrections of rows at the source, stored in the provenance without a warning.
    corrections: tuple[str, ...] = ()
    age: float = 0.0  # seconds spent in intermediate caches, from the ``Age`` header
    passed: Mapping[str, Sequence[str]] = field(default_factory=dict)  # see `Response.passed`


class Replacements(TypedDict, total=False):
    """Attributes that `Session.install` can replace."""

    responder: Responder | None
    observer: Observer | None
    clock: Clock


class Session:
    """Serves all requests of this process. `SESSION` is its only instance."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        # An active replay, which serves requests instead of the connection.
        self.responder: Responder | None = None
        self.observer: Observer | None = None  # an active recording, which receives every response
        self.clock: Clock = lambda: self.current().clock()
        self.connector: Callable[[], Connection] | None = None  # `connect`, whose module imports this one
        self.closers: list[Callable[[], None]] = []  # called by `disconnect`, newest first

    def current(self) -> Connection:
        """Return the connection; without one, connect to ``DERIVDATA_BASE_URL``."""
        if self.connection is None:
            if self.connector is None:
                raise NotConnected
            return self.connector()
        return self.connection

    def origin(self) -> object | None:
        """Return the active replay or the connection to a URL; None for a local source."""
        if self.responder is not None:
            return self.responder
        connection = self.connection
        if connection is None or connection._local is not None:
            return None
        return connection

    def serve(self, request: Request, endpoint: Endpoint | None, until: pd.Timestamp | None) -> Response:
        """Return the response to a request; pass it to the observer, and raise unless its status is 200."""
        responder = self.responder  # another thread may end the replay meanwhile
        if responder is not None:
            return self._checked(responder(request))
        return self._checked(self.current()._serve(request, endpoint, until))

    def serve_each(
        self, requests: Sequence[tuple[Request, pd.Timestamp | None]], endpoint: Endpoint
    ) -> Iterator[Response]:
        """Yield the responses to requests at one endpoint, in order; see `serve`."""
        responder = self.responder
        if responder is not None:
            return (self._checked(responder(request)) for request, _ in requests)
        return map(self._checked, self.current()._serve_each(requests, endpoint))

    def _checked(self, response: Response) -> Response:
        if self.observer is not None:
            self.observer(response)
        if response.status != 200:
            raise error_of(response)
        return response

    def forget(self, request: Request) -> None:
        """Remove a response from the cache, so that it is requested again."""
        if self.responder is None:
            self.current()._forget(request)

    def keep_passed(self, decoded: DecodedResponse[Any], reader: str, rules: Sequence[str]) -> None:
        """Store in the cached record that a response passed the checks, and which rules run again."""
        if self.responder is None and self.connection is not None:
            self.connection._keep_passed(decoded.request, decoded.sha256, decoded.as_of, {reader: [*rules]})

    def install(self, **replacements: Unpack[Replacements]) -> Callable[[], None]:
        """Replace responder, observer or clock. Return a function that restores them."""
        before = {name: getattr(self, name) for name in replacements}
        vars(self).update(replacements)
        return lambda: vars(self).update(before)

    def holds_key(self, data: bytes) -> bool:
        """Return whether `data` contains the connection's API key."""
        return self.connection is not None and self.connection._holds_key(data)

    def end_active(self) -> None:
        """End all active recordings and replays, newest first."""
        while self.closers:
            close = self.closers[-1]  # removed only after it has run, so that an interrupt does not lose it
            close()
            if close in self.closers:
                self.closers.remove(close)

    def replace_connection(self, connection: Connection | None) -> None:
        """Set the current connection, and close the previous one."""
        before = self.connection
        self.connection = connection
        if before is not None:
            before.close()


SESSION = Session()
times.set_clock(lambda: SESSION.clock())


def get(
    endpoint: Endpoint,
    params: Mapping[str, Any],
    *,
    into: type[T],
    until: pd.Timestamp | None = None,
    quiet: bool = False,
) -> DecodedResponse[T]:
    """Send one request and decode the response."""
    request = request_of(endpoint, params)
    return _answer(SESSION.serve(request, endpoint, until), into, quiet)


def _answer(response: Response, into: type[T], quiet: bool) -> DecodedResponse[T]:
    """Decode a response; warn of its notices unless `quiet`."""
    request = response.request
    body = decode_body(response, into)
    # A wire struct without `notices` drops those that the service sends: read them from the body.
    sent = body.notices if hasattr(body, "notices") else notices_in(response.body)
    notices = _notice_texts(sent)
    if not quiet:
        for notice in notices:
            notify(request, notice)
    if "Deprecation" in response.headers or "Sunset" in response.headers:
        warn_deprecated(response)
    corrected = unquote(response.headers.get("X-Derivdata-Corrections", "")).split("\n")
    age = response.headers.get("Age", "")
    return DecodedResponse(
        body=body,
        as_of=response.as_of,
        request=request,
        sha256=response.sha256,
        notices=notices,
        source=response.source,
        synthetic=response.synthetic,
        attribution=response.attribution,
        age=float(age) if age.isdecimal() else 0.0,
        passed=response.passed,
        corrections=tuple(plain_text(text, NOTICE_LENGTH) for text in corrected[: _NOTICES + 1] if text),
    )


def _notice_texts(sent: Any) -> tuple[str, ...]:
    """Return the notices of a response, sent as one or a list of texts or objects, as printable texts."""
    if not sent:
        return ()
    if not isinstance(sent, list | tuple):
        sent = [sent]
    notices = []
    for item in sent[:_NOTICES]:
        text = item if isinstance(item, str) else json.dumps(item, sort_keys=True, default=str)
        notices.append(plain_text(text, NOTICE_LENGTH))
    if len(sent) > _NOTICES:
        notices[-1] = f"and {len(sent) - _NOTICES + 1:,} more notices"
    return tuple(notices)


def get_each(
    endpoint: Endpoint,
    params: Sequence[Mapping[str, Any]],
    *,
    into: type[T],
    until: pd.Timestamp | Sequence[pd.Timestamp | None] | None = None,
    quiet: bool = False,
) -> Iterator[DecodedResponse[T]]:
    """Yield one response for each set of parameters, in order, with a progress bar.

    Requests are sent as the iterator advances; without a rate limit up to seven are sent ahead. The first
    error ends the iterator. Earlier responses are in the cache, so a second run continues from there.
    """
    if until is None or isinstance(until, pd.Timestamp):
        until = [until] * len(params)
    requests = [(request_of(endpoint, query), end) for query, end in zip(params, until, strict=True)]
    responses: Iterable[Response] = SESSION.serve_each(requests, endpoint)
    if len(requests) > 1:
        responses = progress(responses, total=len(requests), label=endpoint.path)
    return (_answer(response, into, quiet) for response in responses)


def decode_body(response: Response, into: Any) -> Any:
    """Decode the body as `into`. A body of another shape is removed from the cache and raises."""
    try:
        return DECODERS[into].decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(response.request, str(error)) from None


def provenance(responses: Sequence[DecodedResponse[Any]]) -> dict[str, Any]:
    """Return the metadata of responses, ready for JSON and independent of the time of the call."""
    requests = []
    # The keys of these dicts are distinct texts in the order of their first response.
    sources: dict[str, None] = {}
    notices: dict[str, None] = {}
    attributions: dict[str, None] = {}
    for decoded in responses:
        request = decoded.request
        facts = {"sha256": decoded.sha256, "as_of": times.iso(decoded.as_of)}
        requests.append({"path": request.path, "query": dict(request.query), **facts})
        sources[decoded.source] = None
        notices |= dict.fromkeys((*decoded.notices, *decoded.corrections))
        if decoded.attribution:
            attributions[decoded.attribution] = None
    return Provenance(
        {
            "source": ", ".join(sources),
            "synthetic": any(decoded.synthetic for decoded in responses),
            "as_of": times.iso(max(decoded.as_of for decoded in responses)) if responses else None,
            "requests": requests,
            "notices": list(notices),
            "attribution": "; ".join(attributions),
        }
    )


def unreadable(request: Request, message: str) -> SchemaError:
    """Remove an unreadable response from the cache and return its error."""
    SESSION.forget(request)
    message = plain_text(message, 2 * NOTICE_LENGTH)
    return SchemaError(f"{request.path}: {message}; see the response with dd.raw({request.path!r}, ...)")


def request_of(endpoint: Endpoint, params: Mapping[str, Any], *, strict: bool = True) -> Request:
    """Build the canonical request for `params`; parameters that are None are omitted.

    Unless `strict`, values need not be among the choices in the API document: the service checks them.
    """
    by_name = {p.name: p for p in endpoint.params}
    unknown = sorted(set(params) - set(by_name))
    if unknown:
        raise ValueError(
            f"{endpoint.path} does not have the parameter {unknown[0]!r}; available: "
            f"{', '.join(by_name) or 'none'}{did_you_mean(unknown[0], by_name)}"
        )
    texts: dict[str, str] = {}
    passed = {name: value for name, value in params.items() if value is not None}
    for name, value in passed.items():
        p = by_name[name]
        texts[name] = _WRITERS[p.kind](name, value)
        if strict and p.documented and p.choices and texts[name] not in p.choices:
            near = did_you_mean(texts[name], p.choices)
            raise ValueError(f"{name} must be one of {', '.join(p.choices)}, got {texts[name]!r}{near}")
    for p in endpoint.params:
        if p.required and p.name not in texts:
            raise ValueError(f"{endpoint.path} needs the parameter {p.name}")
    for first, second in endpoint.exclusive:
        if first in texts and second in texts:
            raise ValueError(f"{endpoint.path}: {first} and {second} exclude each other; pass one of them")
    segments = {p.name: quote(texts.pop(p.name), safe="") for p in endpoint.params if p.in_path}
    return Request(endpoint.path.format(**segments), tuple(sorted(texts.items())))


_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters and lone surrogates, which cannot be encoded."""


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    if not value or value != value.strip() or _UNSENDABLE.search(value):
        raise ValueError(
            f"{name} must be non-empty text without spaces at its ends and without control characters, "
            f"got {value!r}"
        )
    return value


def _list(name: str, value: Any) -> str:
    if isinstance(value, str):
        value = value.split(",")
    elif not isinstance(value, Iterable):
        raise TypeError(f"{name} must be text or a list of texts, got {value!r}")
    items = [_text(name, item) for item in value]
    if not items:
        raise ValueError(f"{name} is an empty list; omit it to request all")
    if any("," in item for item in items):
        raise ValueError(f"{name}: items must not contain commas, got {items!r}")
    return ",".join(sorted(set(items)))


def _number(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    if isinstance(value, Integral):
        return str(int(value))
    return format(float(value), ".15g")


def _integer(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return str(int(value))


def _timestamp(name: str, value: Any) -> str:
    ready = isinstance(value, pd.Timestamp) and value.tz is not None and value.unit == "us"
    return times.iso(value if ready else times.timestamp(value, name))


def _days(name: str, value: Any) -> str:
    text = _text(name, value)
    if not (text.endswith("d") and text[:-1].isdecimal() and text[0] != "0"):
        raise ValueError(f"{name} must be a number of days such as '30d', got {value!r}")
    return text


_WRITERS = {
    ParamKind.TEXT: _text,
    ParamKind.LIST: _list,
    ParamKind.INTEGER: _integer,
    ParamKind.NUMBER: _number,
    ParamKind.TICK: _timestamp,
    ParamKind.MILLIS: lambda name, value: str(times.us(times.timestamp(value, name)) // 1000),
    ParamKind.DAYS: _days,
}


@typed
def raw(path: str, **params: Any) -> Any:
    """Return the decoded JSON of any path of the API, such as fields or endpoints without a table.

    Parameters
    ----------
    path
        Path of the API, such as ``"/funding"`` or ``"/oi/BTC/timeseries"``.
    **params
        Query parameters. Parameters in the API document are written in its format, others are sent as text.
        The service checks the values.

    Returns
    -------
    dict, list, str, float, int, bool or None
        The JSON body.

    Raises
    ------
    ValueError, TypeError
        The path or a parameter cannot be written as a request.
    NotConnected, FetchError, SchemaError
        No source is connected; the request failed; the response is not JSON.
    """
    if not path.startswith("/") or path.startswith("//") or any(c in path for c in "?#\\ "):
        raise ValueError(
            f"path must start with one / and must not have a query, got {path!r}: pass parameters by name"
        )
    endpoint = endpoint_of(path)
    request = _plain(path, params) if endpoint is None else _canonical(endpoint, path, params)
    response = SESSION.serve(request, endpoint, None)
    warn_deprecated(response)
    return decode_body(response, Any)


def _canonical(endpoint: Endpoint, path: str, params: Mapping[str, Any]) -> Request:
    """Return the canonical request of documented parameters, with undocumented parameters added as text."""
    names = {p.name for p in endpoint.params}
    in_path = endpoint.values(path)
    documented: dict[str, Any] = {**in_path}
    undocumented: dict[str, Any] = {}
    for name, value in params.items():
        if name in in_path:
            raise ValueError(f"{name} is already in the path {path}; pass it once")
        group = documented if name in names else undocumented
        group[name] = value
    canonical = request_of(endpoint, documented, strict=False)
    other = _plain(path, undocumented)
    return Request(canonical.path, tuple(sorted((*canonical.query, *other.query))))


def _plain(path: str, params: Mapping[str, Any]) -> Request:
    """Return a request with its parameters written as text."""
    query = {name: _query_text(name, value) for name, value in params.items() if value is not None}
    return Request(path, tuple(sorted(query.items())))


def _query_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(_query_text(name, item) for item in value)
    return times.iso(times.timestamp(value, name))
