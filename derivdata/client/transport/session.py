"""The session of this process: who answers its requests, and the typed answers that fetchers get."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec
import pandas as pd

from derivdata.client.transport.connection import Connection
from derivdata.client.transport.display import NOTICE_LENGTH, notify, progress, warn_deprecated
from derivdata.client.transport.response import Response, error_of, notices_in, plain_text
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.decoders import DECODERS
from derivdata.tables.endpoints import Endpoint, Request

__all__ = [
    "SESSION",
    "Answer",
    "Observer",
    "Responder",
    "Session",
    "decode_body",
    "get",
    "get_each",
    "provenance",
    "unreadable",
]

T = TypeVar("T")

Observer: TypeAlias = Callable[[Response], None]
Responder: TypeAlias = Callable[[Request], Response]
Clock: TypeAlias = Callable[[], pd.Timestamp]

_NOTICES = 20


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A decoded answer, and what is known of it.

    Attributes
    ----------
    body
        The wire struct.
    as_of
        The server's ``Date``.
    sha256
        Hash of the raw body.
    notices
        The service's notices: clamps, no data.
    corrections
        Corrections that a source states of its rows; they go into the provenance without a warning.
    source, synthetic
        The source, and whether its data is synthetic.
    attribution
        The text that the API's terms ask for, or empty.
    age
        Seconds that caches on the way have kept it, as its ``Age`` says.
    """

    body: T
    as_of: pd.Timestamp
    request: Request
    sha256: str
    notices: tuple[str, ...]
    source: str
    synthetic: bool
    attribution: str = ""
    corrections: tuple[str, ...] = ()
    age: float = 0.0


class _Provenance(dict[str, Any]):
    """A dict that is its own deep copy, and must not be changed.

    pandas copies ``attrs`` deeply at every step of a computation (pandas-dev/pandas#60357), and a provenance
    of a thousand requests would cost more than the step.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> _Provenance:
        return self


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


_UNCHANGED = _Unchanged.UNCHANGED


class Session:
    """The one way of every fetch of this process to its answers: `SESSION` is its only instance.

    Attributes
    ----------
    connection
        The source that is connected; None before `connect`.
    responder
        Answers instead of connection, cache and network: a replay.
    observer
        Is shown every response, those from the cache too: a recording.
    clock
        Tells the time: the connection's, a recording's or a replay's.
    closers
        What `disconnect` calls before it closes the connection, the newest first.
    """

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.responder: Responder | None = None
        self.observer: Observer | None = None
        self.clock: Clock = lambda: self.current().clock()
        self.closers: list[Callable[[], None]] = []

    def current(self) -> Connection:
        """Return the connection, made from ``DERIVDATA_BASE_URL`` where nothing is connected."""
        if self.connection is None:
            from derivdata.client.transport.connecting import connect  # which is built on this module

            return connect()
        return self.connection

    def serve(self, request: Request, endpoint: Endpoint | None, until: pd.Timestamp | None) -> Response:
        """Return the response to a request, of status 200, after the observer has seen it."""
        responder = self.responder
        if responder is not None:
            return self._checked(responder(request))
        return self._checked(self.current()._serve(request, endpoint, until))

    def serve_each(
        self, requests: Sequence[tuple[Request, pd.Timestamp | None]], endpoint: Endpoint
    ) -> Iterator[Response]:
        """Return the responses to requests at one endpoint, in order and as they are wanted; see `serve`."""
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
        """Remove an answer from the cache, so that it is requested again."""
        if self.responder is None:
            self.current()._forget(request)

    def install(
        self,
        *,
        responder: Responder | _Unchanged | None = _UNCHANGED,
        observer: Observer | _Unchanged | None = _UNCHANGED,
        clock: Clock | _Unchanged = _UNCHANGED,
    ) -> Callable[[], None]:
        """Replace responder, observer or clock, those that are given; return what takes that back."""
        given = {"responder": responder, "observer": observer, "clock": clock}
        new = {name: value for name, value in given.items() if value is not _UNCHANGED}
        before = {name: getattr(self, name) for name in new}

        def restore() -> None:
            vars(self).update(before)

        vars(self).update(new)
        return restore

    def holds_key(self, data: bytes) -> bool:
        """Return whether the key of the connection is in `data`."""
        return self.connection is not None and self.connection._holds_key(data)

    def replace_connection(self, connection: Connection | None) -> None:
        """Take a connection as the current one, and close the one before."""
        before, self.connection = self.connection, connection
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
) -> Answer[T]:
    """Request one answer and decode it."""
    request = endpoint.request(params)
    return _answer(SESSION.serve(request, endpoint, until), into, quiet)


def _answer(response: Response, into: type[T], quiet: bool) -> Answer[T]:
    request = response.request
    body = decode_body(response, into)
    # The service may send notices that the wire struct leaves out, as text or as objects.
    sent = body.notices if hasattr(body, "notices") else notices_in(response.body)
    items = sent if isinstance(sent, list | tuple) else [sent] if sent else []
    texts = [
        n if isinstance(n, str) else json.dumps(n, sort_keys=True, default=str) for n in items[:_NOTICES]
    ]
    notices = tuple(plain_text(text, NOTICE_LENGTH) for text in texts)
    if len(items) > _NOTICES:
        notices = (*notices[:-1], f"and {len(items) - _NOTICES + 1:,} more notices")
    if not quiet:
        for notice in notices:
            notify(request, notice)
    if "Deprecation" in response.headers or "Sunset" in response.headers:
        warn_deprecated(response)
    corrected = unquote(response.headers.get("X-Derivdata-Corrections", "")).split("\n")
    age = response.headers.get("Age", "")
    return Answer(
        body=body,
        as_of=response.as_of,
        request=request,
        sha256=response.sha256,
        notices=notices,
        source=response.source,
        synthetic=response.synthetic,
        attribution=response.attribution,
        age=float(age) if age.isdecimal() else 0.0,
        corrections=tuple(plain_text(text, NOTICE_LENGTH) for text in corrected[: _NOTICES + 1] if text),
    )


def get_each(
    endpoint: Endpoint,
    params: Sequence[Mapping[str, Any]],
    *,
    into: type[T],
    until: pd.Timestamp | Sequence[pd.Timestamp | None] | None = None,
    quiet: bool = False,
) -> Iterator[Answer[T]]:
    """Return one answer for each set of parameters, in order; a bar on a terminal and in a notebook.

    Each is requested when it is wanted, and up to seven that come after it where no rate limit stands. The
    first error ends it; what came before is in the cache, so that running it again goes on from there.
    """
    single = until is None or isinstance(until, pd.Timestamp)
    ends = [until] * len(params) if single else list(until)  # type: ignore[arg-type]
    requests = [(endpoint.request(one), end) for one, end in zip(params, ends, strict=True)]
    responses: Iterable[Response] = SESSION.serve_each(requests, endpoint)
    if len(requests) > 1:
        responses = progress(responses, total=len(requests), label=endpoint.path)
    return (_answer(response, into, quiet) for response in responses)


def decode_body(response: Response, into: Any) -> Any:
    """Return the body decoded as `into`; one that is something else is removed from the cache."""
    try:
        return DECODERS[into].decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(response.request, str(error)) from None


def provenance(answers: Sequence[Answer[Any]]) -> dict[str, Any]:
    """Return the metadata of some answers, ready for JSON and independent of the time of the call."""
    last = max((a.as_of for a in answers), default=None)
    return _Provenance(
        {
            "source": ", ".join(dict.fromkeys(a.source for a in answers)),
            "synthetic": any(a.synthetic for a in answers),
            "as_of": None if last is None else times.iso(last),
            "requests": [
                {
                    "path": a.request.path,
                    "query": dict(a.request.query),
                    "sha256": a.sha256,
                    "as_of": times.iso(a.as_of),
                }
                for a in answers
            ],
            "notices": list(dict.fromkeys(n for a in answers for n in (*a.notices, *a.corrections))),
            "attribution": "; ".join(dict.fromkeys(a.attribution for a in answers if a.attribution)),
        }
    )


def unreadable(request: Request, message: str) -> SchemaError:
    """Return the error of an answer that cannot be read, which is not kept."""
    SESSION.forget(request)
    message = plain_text(message, 2 * NOTICE_LENGTH)
    return SchemaError(f"{request.path}: {message}; see the answer with dd.raw({request.path!r}, ...)")
