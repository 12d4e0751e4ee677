"""The tables that the answers of a bundle make, by the fetchers of their endpoints."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata import tables
from derivdata.client.bundle.layout import Entry, request_of, response_of
from derivdata.client.bundle.reading import Bundle
from derivdata.client.transport import SESSION, Response
from derivdata.errors import DataNotice, DeprecationNotice, DerivdataError, NotRecorded
from derivdata.fetchers import FETCHERS
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables.endpoints import Endpoint, ParamKind, Request, endpoint_of
from derivdata.tables.joining import joined_provenance

_ARGUMENTS = {
    "exchange": ("venue", "venues"),
    "exchanges": ("venues",),
    "min_value": ("min_volume_usd",),
    "range": ("window", "start"),
}
"""Fetchers' arguments by wire name, where they are neither that name nor its plural."""


@dataclass(frozen=True)
class BundleTables:
    """Tables of a recording.

    Attributes
    ----------
    tables
        Table name to its rows; of rows with the same key, that of the latest answer.
    answers
        One row per answer: ``path``, ``query``, ``status``, ``date``, ``sha256``, the ``table`` that it is
        part of (missing where it is an error, or no fetcher makes a table of it) and its ``rows``.
    synthetic
        Whether the recording is of synthetic data.
    """

    tables: Mapping[str, pd.DataFrame]
    answers: pd.DataFrame
    synthetic: bool


@typed
def tables_of(path: str | Path) -> BundleTables:
    """Return every table that the answers of a bundle make.

    Parameters
    ----------
    path
        The bundle.

    Raises
    ------
    BundleError
        It is not a bundle, damaged, or built to do harm.
    """
    bundle = Bundle(path)
    frames: dict[str, list[pd.DataFrame]] = {}
    lines: list[dict[str, Any]] = []
    try:
        for entry in bundle.entries:
            endpoint = endpoint_of(entry.path)
            frame = table_of(entry, bundle.body(entry), bundle.manifest.asof)
            name = rows = None
            if endpoint is not None and isinstance(frame, pd.DataFrame):
                name, rows = endpoint.table, len(frame)
                frames.setdefault(name, []).append(frame)
            query = str(request_of(entry)).partition("?")[2]
            facts = {"path": entry.path, "query": query, "status": entry.status, "date": entry.date}
            lines.append({**facts, "sha256": entry.sha256, "table": name, "rows": rows})
        joined = {name: _joined(name, parts) for name, parts in sorted(frames.items())}
        columns = ["path", "query", "status", "date", "sha256", "table", "rows"]
        answers = pd.DataFrame(lines, columns=columns).astype({"rows": "Int64"})
        return BundleTables(joined, answers, bool(bundle.manifest.synthetic))
    finally:
        bundle.close()


def _joined(name: str, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return one table of several answers; repeated and overlapping requests give rows twice."""
    table = tables.TABLES.get(name)
    plain = [part.set_axis(part.columns, axis=1) for part in parts]
    for part in plain:
        part.attrs = {}
    joined = pd.concat(plain, ignore_index=True)
    if table is not None:
        joined = table.conform(joined.drop_duplicates(list(table.key), keep="last"))
    joined.attrs["provenance"] = joined_provenance([part.attrs.get("provenance") for part in parts])
    return joined


def table_of(entry: Entry, body: bytes, asof: str | None) -> pd.DataFrame | None:
    """Return what an answer's fetcher makes of it; None for an error, or where no fetcher requests just that.

    The fetcher itself is called, with the request's parameters, at the recorded time `asof`, and given this
    answer and no other.
    """
    endpoint = endpoint_of(entry.path)
    fetcher = None if endpoint is None or entry.status != 200 else FETCHERS.get(endpoint.table)
    if endpoint is None or fetcher is None:
        return None
    signature = inspect.signature(fetcher)
    sent = _sent(endpoint, request_of(entry), signature)
    if sent is None:
        return None
    # A fetcher's own default may be sent
    unsent = {n: None for n, p in signature.parameters.items() if p.default is not inspect.Parameter.empty}
    with _answering(entry, body, asof):
        frame = _called(fetcher, unsent | sent)
        if frame is None:
            frame = _called(fetcher, sent)
    return frame


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
