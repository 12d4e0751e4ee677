"""Typed answers for fetchers, and the provenance of their tables."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import pandas as pd

from derivdata import times
from derivdata.api import Endpoint, Request, endpoint_of
from derivdata.errors import DataNotice, DeprecationNotice, SchemaError
from derivdata.notices import warn_caller
from derivdata.transport.response import Response, notices_in, plain_text
from derivdata.transport.session import SESSION

__all__ = [
    "Answer",
    "decode_body",
    "decode_items",
    "decode_raw",
    "get",
    "get_each",
    "notify",
    "progress",
    "provenance",
    "warn_deprecated",
]

T = TypeVar("T")

_BATCH = 512
_NOTICES = 20
_NOTICE_LENGTH = 300

_DEPRECATION = ("Deprecation", "Sunset", "Link", "Warning")
_deprecated: set[tuple[str, str]] = set()
"""Source and endpoint of every deprecation that a warning was given for."""


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
    source, synthetic
        The source, and whether its data is synthetic.
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


class _Provenance(dict[str, Any]):
    """A dict that is its own deep copy, and must not be changed.

    pandas copies ``attrs`` deeply at every step of a computation (pandas-dev/pandas#60357), and a provenance
    of a thousand requests would cost more than the step.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> _Provenance:
        return self


def get(
    endpoint: Endpoint,
    params: Mapping[str, Any],
    *,
    into: type[T],
    until: pd.Timestamp | None = None,
    quiet: bool = False,
) -> Answer[T]:
    """Request one answer and decode it.

    Parameters
    ----------
    endpoint, params
        What is requested; a parameter that is None is not sent.
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
    notices = tuple(plain_text(text, _NOTICE_LENGTH) for text in texts)
    if len(items) > _NOTICES:
        notices = (*notices[:-1], f"and {len(items) - _NOTICES + 1:,} more notices")
    if not quiet:
        for notice in notices:
            notify(request, notice)
    if "Deprecation" in response.headers or "Sunset" in response.headers:
        warn_deprecated(response)
    return Answer(
        body=body,
        as_of=response.as_of,
        request=request,
        sha256=response.sha256,
        notices=notices,
        source=response.source,
        synthetic=response.synthetic,
        attribution=response.attribution,
    )


def get_each(
    endpoint: Endpoint,
    params: Sequence[Mapping[str, Any]],
    *,
    into: type[T],
    until: pd.Timestamp | Sequence[pd.Timestamp | None] | None = None,
    quiet: bool = False,
) -> Iterator[Answer[T]]:
    """Yield one answer for each set of parameters, in order; a bar on a terminal and in a notebook.

    Each is requested when it is wanted, and up to seven that come after it where no rate limit stands. The
    first error ends it; what came before is in the cache, so that running it again goes on from there.

    Raises
    ------
    ValueError
        `until` is a sequence of another length; and whatever `get` raises.
    """
    single = until is None or isinstance(until, pd.Timestamp)
    ends = [until] * len(params) if single else list(until)  # type: ignore[arg-type]
    requests = [(endpoint.request(one), end) for one, end in zip(params, ends, strict=True)]
    responses = SESSION.serve_each(requests, endpoint)
    for response in progress(responses, total=len(params), label=endpoint.path):
        yield _answer(response, into, quiet)


def decode_body(response: Response, into: Any) -> Any:
    """Return the body decoded as `into`; one that is something else is removed from the cache.

    Raises
    ------
    SchemaError
        The message names path and field.
    """
    try:
        return msgspec.json.decode(response.body, type=into)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(response.request, str(error)) from None


def decode_raw(answer: Answer[Any], raw: msgspec.Raw, decoder: msgspec.json.Decoder[T], place: str) -> T:
    """Return a part of an answer that its struct left as `msgspec.Raw`, decoded when it is needed.

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
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        message = str(error) if "`$" in str(error) else f"{error} - at `$`"
        raise _unreadable(answer.request, message.replace("`$", f"`{place}")) from None


def decode_items(
    answer: Answer[Any], items: Sequence[msgspec.Raw], decoder: msgspec.json.Decoder[list[T]], place: str
) -> Iterator[list[T]]:
    """Yield items of a list that a struct left as `msgspec.Raw`, decoded some at a time.

    So many stay in the processor's cache until they are read, where a whole long list does not.

    Raises
    ------
    SchemaError
        An item is not what `decoder` says; the message names path and field, and the item within a slice.
    """
    for start in range(0, len(items), _BATCH):
        some = items[start : start + _BATCH]
        listed = msgspec.Raw(b"[%b]" % b",".join(some))
        yield decode_raw(answer, listed, decoder, f"{place}[{start}:{start + len(some)}]")


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
            "notices": list(dict.fromkeys(n for a in answers for n in a.notices)),
            "attribution": "; ".join(dict.fromkeys(a.attribution for a in answers if a.attribution)),
        }
    )


def notify(about: Request | str, notice: str, category: type[Warning] = DataNotice) -> None:
    """Warn the caller of the library of something about a request or a path."""
    warn_caller(f"{about}: {notice}", category)


def warn_deprecated(response: Response) -> None:
    """Warn that an endpoint of a source, or the way in which it was requested, will end; once for each."""
    path = response.request.path
    endpoint = endpoint_of(path)
    about = response.source, path if endpoint is None else endpoint.path
    if ("Deprecation" in response.headers or "Sunset" in response.headers) and about not in _deprecated:
        _deprecated.add(about)
        headers = response.headers
        text = "; ".join(f"{name}: {headers[name]}" for name in _DEPRECATION if name in headers)
        notify(path, plain_text(text, _NOTICE_LENGTH), DeprecationNotice)


def progress(items: Iterable[T], *, total: int, label: str) -> Iterable[T]:
    """Return `items`, with a bar while they are gone through if there is somebody to see it."""
    if total < 2 or not (_in_notebook() or sys.stderr.isatty()):
        return items
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook it asks for a library of widgets, and does without
        from tqdm.auto import tqdm
    return tqdm(items, total=total, desc=label, leave=False)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and "IPKernelApp" in running.config


def _unreadable(request: Request, message: str) -> SchemaError:
    """Return the error of an answer that cannot be read, which is not kept."""
    SESSION.forget(request)
    message = plain_text(message, 2 * _NOTICE_LENGTH)
    return SchemaError(f"{request.path}: {message}; see the answer with dd.raw({request.path!r}, ...)")
