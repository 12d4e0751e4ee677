"""The table that an answer of a bundle makes, by the fetcher of its endpoint."""

from __future__ import annotations

import importlib.util
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

from derivdata.client.bundle.layout import Entry, request_of, response_of
from derivdata.client.transport import SESSION, Response
from derivdata.errors import DataNotice, DeprecationNotice, DerivdataError, NotRecorded
from derivdata.support import times
from derivdata.tables.endpoints import Endpoint, ParamKind, Request, endpoint_of

__all__ = ["table_of"]

_ARGUMENTS = {
    "exchange": ("venue", "venues"),
    "exchanges": ("venues",),
    "min_value": ("min_volume_usd",),
    "range": ("window", "start"),
}
"""Fetchers' arguments by wire name, where they are neither that name nor its plural."""


def table_of(entry: Entry, body: bytes, asof: str | None) -> pd.DataFrame | None:
    """Return what an answer's fetcher makes of it; None for an error, or where no fetcher requests just that.

    The fetcher itself is called, with the request's parameters, at the recorded time `asof`, and given this
    answer and no other.
    """
    endpoint = endpoint_of(entry.path)
    fetcher = None if endpoint is None or entry.status != 200 else _fetcher(endpoint)
    if endpoint is None or fetcher is None:
        return None
    sent = _sent(endpoint, request_of(entry), inspect.signature(fetcher))
    if sent is None:
        return None
    unsent = _optional(inspect.signature(fetcher))
    with _answering(entry, body, asof):
        frame = _called(fetcher, unsent | sent)
        if frame is None:
            frame = _called(fetcher, sent)
    return frame


def _fetcher(endpoint: Endpoint) -> Callable[..., pd.DataFrame] | None:
    family, _, name = endpoint.table.partition("_")
    if importlib.util.find_spec(f"derivdata.{family}") is None:
        return None
    return getattr(importlib.import_module(f"derivdata.{family}"), name, None)


@contextmanager
def _answering(entry: Entry, body: bytes, asof: str | None) -> Iterator[None]:
    """One answer is all that there is, its time stands still, and nobody watches."""
    request = request_of(entry)

    def respond(requested: Request) -> Response:
        if requested != request:
            raise NotRecorded(str(requested), "a fetcher asks for more than this answer")
        return response_of(entry, body)

    def clock() -> pd.Timestamp:
        if asof is None:
            raise NotRecorded("the clock", "the recording holds no time")
        return times.instant(asof)

    restore = SESSION.install(responder=respond, observer=None, clock=clock)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataNotice)
            warnings.simplefilter("ignore", DeprecationNotice)
            yield
    finally:
        restore()


def _called(fetcher: Callable[..., pd.DataFrame], arguments: dict[str, Any]) -> pd.DataFrame | None:
    try:
        return fetcher(**arguments)
    except (DerivdataError, ValueError, TypeError):
        return None


def _optional(signature: inspect.Signature) -> dict[str, Any]:
    """None for every argument that may be left out: a fetcher's own default may be sent."""
    empty = inspect.Parameter.empty
    return {name: None for name, p in signature.parameters.items() if p.default is not empty}


def _sent(endpoint: Endpoint, request: Request, signature: inspect.Signature) -> dict[str, Any] | None:
    """Return the fetcher's arguments for what was sent; None where it has none for something."""
    kinds = {p.name: p.kind for p in endpoint.params}
    sent: dict[str, Any] = {}
    for wire, value in (*endpoint.values(request.path).items(), *request.query):
        candidates = (wire, f"{wire}s", *_ARGUMENTS.get(wire, ()))
        name = next((n for n in candidates if n in signature.parameters), None)
        if name is None or wire not in kinds:
            return None
        sent[name] = _value(kinds[wire], value)
    return sent


def _value(kind: ParamKind, text: str) -> Any:
    if kind is ParamKind.INTEGER:
        return int(text)
    if kind is ParamKind.NUMBER:
        return float(text)
    if kind is ParamKind.MILLIS:
        return pd.Timestamp(int(text), unit="ms", tz="UTC")
    if kind is ParamKind.DAYS:  # the longest window, to the minute, that is asked for as so many days
        return f"{int(text.removesuffix('d')) * 1440 - 1}m"
    if kind is ParamKind.LIST:
        return text.split(",")
    return times.instant(text) if kind is ParamKind.INSTANT else text
