"""Typed answers for fetchers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import pandas as pd

from derivdata import times
from derivdata.api import Endpoint, Request, endpoint_of
from derivdata.arguments import typed
from derivdata.errors import DeprecationNotice, SchemaError
from derivdata.transport.connecting import current
from derivdata.transport.failures import checked
from derivdata.transport.notices import notices_in, notify
from derivdata.transport.progress import progress
from derivdata.transport.served import Served, observed, replaying, responder

__all__ = ["Answer", "get", "get_each", "part", "parts", "raw"]

T = TypeVar("T")

_BATCH = 512

_DEPRECATION = ("Deprecation", "Sunset", "Link", "Warning")
_deprecated: set[tuple[str, str]] = set()
"""Source and endpoint of every deprecation that was told."""


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
        What the service said about it: clamps, no data.
    source, synthetic
        Who answered, and whether the data was made up.
    attribution
        The text that the API's terms ask for, or empty.
    """

    body: T
    as_of: pd.Timestamp
    request: Request
    sha256: str
    notices: tuple[str, ...]
    source: str
    synthetic: bool
    attribution: str = ""


def get(
    endpoint: Endpoint,
    params: Mapping[str, Any],
    *,
    into: type[T],
    until: pd.Timestamp | None = None,
    quiet: bool = False,
) -> Answer[T]:
    """One answer, decoded.

    Parameters
    ----------
    endpoint, params
        What is asked for; a parameter that is None is not sent.
    into
        The wire struct.
    until
        End of the window: an hour after it the answer is kept for good, before that as long as the
        endpoint says.
    quiet
        Whether the answer's notices are left for the caller to `notify`.

    Raises
    ------
    ValueError, TypeError
        The parameters make no request.
    NotConnected, FetchError
        Nothing is connected; no usable answer came.
    SchemaError
        The answer is not what `into` says; the message names path and field.
    """
    request = endpoint.request(params)
    served = _serve(request, endpoint, until)
    body = _decoded(served, into)
    answer = Answer(
        body=body,
        as_of=served.as_of,
        request=request,
        sha256=served.sha256,
        notices=_notices(body, served),
        source=served.source,
        synthetic=served.synthetic,
        attribution=served.attribution,
    )
    _warn(answer, served, () if quiet else answer.notices)
    return answer


def get_each(
    endpoint: Endpoint,
    params: Sequence[Mapping[str, Any]],
    *,
    into: type[T],
    until: pd.Timestamp | Sequence[pd.Timestamp | None] | None = None,
    quiet: bool = False,
) -> Iterator[Answer[T]]:
    """One answer for each set of parameters, in order; a bar on a terminal and in a notebook.

    Each is asked for when it is wanted: whoever lets go of one before the next holds one at a time. The first
    error ends it; what came before is in the cache, so that running it again goes on from there.

    Raises
    ------
    ValueError
        `until` is a sequence of another length; and whatever `get` raises.
    """
    single = until is None or isinstance(until, pd.Timestamp)
    ends = [until] * len(params) if single else list(until)  # type: ignore[arg-type]
    pairs = zip(params, ends, strict=True)
    for one, end in progress(pairs, total=len(params), label=endpoint.path):
        yield get(endpoint, one, into=into, until=end, quiet=quiet)


def part(answer: Answer[Any], found: msgspec.Raw, decoder: msgspec.json.Decoder[T], place: str) -> T:
    """A part of an answer that its struct left as `msgspec.Raw`, decoded when it is needed.

    Parameters
    ----------
    place
        Where it stands in the answer, as messages name it: ``"$.series.binance"``.

    Raises
    ------
    SchemaError
        The part is not what `decoder` says; the message names path and field.
    """
    try:
        return decoder.decode(found)
    except msgspec.MsgspecError as error:
        said = str(error) if "`$" in str(error) else f"{error} - at `$`"
        raise _unreadable(answer.request, said.replace("`$", f"`{place}")) from None


def parts(
    answer: Answer[Any], found: Sequence[msgspec.Raw], decoder: msgspec.json.Decoder[list[T]], place: str
) -> Iterator[list[T]]:
    """Items of a list that a struct left as `msgspec.Raw`, decoded some at a time.

    So many stay in the processor's cache until they are read, where a whole long list does not.

    Raises
    ------
    SchemaError
        An item is not what `decoder` says; the message names path and field, and the item within a slice.
    """
    for start in range(0, len(found), _BATCH):
        some = found[start : start + _BATCH]
        listed = msgspec.Raw(b"[%b]" % b",".join(some))
        yield part(answer, listed, decoder, f"{place}[{start}:{start + len(some)}]")


@typed
def raw(path: str, **params: Any) -> Any:
    """The decoded JSON of any path of the API: what a table leaves out, or what has no table yet.

    Parameters
    ----------
    path
        ``"/funding"``, ``"/oi/BTC/timeseries"``.
    **params
        Query parameters; those that the API document names are written in its way, others are sent as
        text. Which values it takes is the service's to say.

    Raises
    ------
    ValueError, TypeError
        The path or a parameter makes no request.
    NotConnected, FetchError, SchemaError
        Nothing is connected; no usable answer came; it is not JSON.
    """
    if not path.startswith("/") or path.startswith("//") or any(c in path for c in "?#\\ "):
        raise ValueError(f"path={path!r} must start with one / and hold no query: give parameters by name")
    endpoint = endpoint_of(path)
    request = _plain(path, params) if endpoint is None else _canonical(endpoint, path, params)
    served = _serve(request, endpoint, None)
    _warn_deprecated(served)
    return _decoded(served, Any)


def _serve(request: Request, endpoint: Endpoint | None, until: pd.Timestamp | None) -> Served:
    answers = responder()
    served = answers(request) if answers is not None else current().serve(request, endpoint, until)
    return checked(observed(served))


def _decoded(served: Served, into: Any) -> Any:
    try:
        return msgspec.json.decode(served.body, type=into)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(served.request, str(error)) from None


def _unreadable(request: Request, said: str) -> SchemaError:
    """What cannot be read, let go of so that it is asked for again."""
    if not replaying():
        current().forget(request)
    return SchemaError(f"{request.path}: {said}; see the answer with dd.raw({request.path!r}, ...)")


def _notices(body: Any, served: Served) -> tuple[str, ...]:
    """Notices of an answer, whatever their form, also where the wire struct leaves them out."""
    found = body.notices if hasattr(body, "notices") else notices_in(served.body)
    items = found if isinstance(found, list | tuple) else [found] if found else []
    return tuple(n if isinstance(n, str) else json.dumps(n, sort_keys=True, default=str) for n in items)


def _warn(answer: Answer[Any], served: Served, notices: Sequence[str]) -> None:
    for notice in notices:
        notify(answer.request, notice)
    _warn_deprecated(served)


def _warn_deprecated(served: Served) -> None:
    """Say that an endpoint of a source, or the way in which it was asked, will end; once for each."""
    said = "; ".join(f"{name}: {served.headers[name]}" for name in _DEPRECATION if name in served.headers)
    path = served.request.path
    endpoint = endpoint_of(path)
    about = served.source, path if endpoint is None else endpoint.path
    if ("Deprecation" in served.headers or "Sunset" in served.headers) and about not in _deprecated:
        _deprecated.add(about)
        notify(path, said, DeprecationNotice)


def _canonical(endpoint: Endpoint, path: str, params: Mapping[str, Any]) -> Request:
    """The canonical request, with what the document does not name beside it."""
    names = {p.name for p in endpoint.params}
    in_path = endpoint.values(path)
    twice = sorted(set(in_path) & set(params))
    if twice:
        raise ValueError(f"{twice[0]} is already in the path {path}")
    known = endpoint.request({**in_path, **{n: v for n, v in params.items() if n in names}}, held=False)
    other = _plain(path, {n: v for n, v in params.items() if n not in names})
    return Request(known.path, tuple(sorted((*known.query, *other.query))))


def _plain(path: str, params: Mapping[str, Any]) -> Request:
    query = {name: _text(name, value) for name, value in params.items() if value is not None}
    return Request(path, tuple(sorted(query.items())))


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(_text(name, item) for item in value)
    return times.iso(times.instant(value, name))
