"""Record and replay the responses behind a notebook or a report as one portable file.

A bundle is a zip of JSON: the raw body, status, relevant headers, request, date and hash of each response,
and the versions that recorded them. It never contains keys, credentials or pickles. `derivdata.client.bundle`
defines the file; this module builds tables from its responses, with the fetchers.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from derivdata import tables
from derivdata.client.bundle import Entry, request_of, response_of
from derivdata.client.bundle.files import Bundle, info, verify
from derivdata.client.bundle.recording import record, replay
from derivdata.client.transport import SESSION, Response
from derivdata.client.transport.session import Replacements
from derivdata.errors import DataNotice, DeprecationNotice, DerivdataError, NotRecorded
from derivdata.matrix import FETCHERS
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables.endpoints import Endpoint, ParamKind, Request, endpoint_of
from derivdata.tables.frames import joined_provenance
from derivdata.tables.schema import Table

__all__ = ["bundle_diff", "info", "record", "replay", "verify"]
__dir__ = __all__.copy


_ARGUMENTS = {
    "exchange": ("venue", "venues"),
    "exchanges": ("venues",),
    "min_value": ("min_volume_usd",),
    "range": ("window", "start"),
}
"""Arguments of fetchers by wire name, if they are neither that name nor its plural."""


@dataclass(frozen=True)
class BundleTables:
    """Tables of a recording.

    Attributes
    ----------
    tables
        Rows by table name; the latest response wins for rows with the same key.
    answers
        One row per response: ``path``, ``query``, ``status``, ``date``, ``sha256``, the ``table`` that it is
        part of (missing for an error, or without a fetcher for it) and its number of ``rows``.
    synthetic
        Whether the recorded data is synthetic.
    """

    tables: Mapping[str, pd.DataFrame]
    answers: pd.DataFrame
    synthetic: bool


@typed
def tables_of(path: str | Path) -> BundleTables:
    """Return the tables of a bundle's responses.

    Parameters
    ----------
    path
        The bundle.

    Returns
    -------
    BundleTables
        Tables by name, and one row per response.

    Raises
    ------
    BundleError
        The file is not a bundle, or it is damaged or malicious.
    """
    bundle = Bundle(path)
    frames: dict[str, list[pd.DataFrame]] = {}
    lines: list[dict[str, Any]] = []
    try:
        for entry in bundle.entries:
            endpoint = endpoint_of(entry.path)
            frame = table_of(entry, bundle.body(entry), bundle.manifest.asof)
            name = None
            rows = None
            if endpoint is not None and isinstance(frame, pd.DataFrame):
                name = endpoint.table
                rows = len(frame)
                frames.setdefault(name, []).append(frame)
            query = str(request_of(entry)).partition("?")[2]
            facts = {"path": entry.path, "query": query, "status": entry.status, "date": entry.date}
            lines.append({**facts, "sha256": entry.sha256, "table": name, "rows": rows})
        joined = {name: _joined(name, table_frames) for name, table_frames in sorted(frames.items())}
        columns = ["path", "query", "status", "date", "sha256", "table", "rows"]
        answers = pd.DataFrame(lines, columns=columns).astype({"rows": "Int64"})
        return BundleTables(joined, answers, bool(bundle.manifest.synthetic))
    finally:
        bundle.close()


def _joined(name: str, frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return one table of several responses, without the duplicate rows of overlapping requests."""
    table = tables.TABLES.get(name)
    # Without attrs, which pd.concat would compare between all frames.
    joined = pd.concat([pd.DataFrame(dict(frame.items())) for frame in frames], ignore_index=True)
    if table is not None:
        joined = table.conform(joined.drop_duplicates(list(table.key), keep="last"))
    joined.attrs["provenance"] = joined_provenance([frame.attrs.get("provenance") for frame in frames])
    return joined


def table_of(entry: Entry, body: bytes, asof: str | None) -> pd.DataFrame | None:
    """Return the table of a response; None for an error, or if no fetcher sends this request.

    The fetcher is called with the request's parameters at the recorded time `asof`, and gets only this
    response.
    """
    endpoint = endpoint_of(entry.path)
    if endpoint is None or entry.status != 200 or endpoint.table not in FETCHERS:
        return None
    fetcher = FETCHERS[endpoint.table]
    signature = inspect.signature(fetcher)
    sent = _sent(endpoint, request_of(entry), signature)
    if sent is None:
        return None
    # Arguments that were not sent are None at first; if the fetcher does not accept this, its defaults apply.
    unsent = {n: None for n, p in signature.parameters.items() if p.default is not inspect.Parameter.empty}
    with _answering(entry, body, asof):
        frame = _called(fetcher, unsent | sent)
        if frame is None:
            frame = _called(fetcher, sent)
    return frame


@contextmanager
def _answering(entry: Entry, body: bytes, asof: str | None) -> Iterator[None]:
    """Serve one response, at a fixed time and without warnings."""
    request = request_of(entry)

    def respond(requested: Request) -> Response:
        if requested != request:
            raise NotRecorded(str(requested), "the fetcher needs more responses than this one")
        return response_of(entry, body)

    def clock() -> pd.Timestamp:
        if asof is None:
            raise NotRecorded("the clock", "the recording does not have a clock")
        return times.timestamp(asof)

    before: Replacements = {
        "responder": SESSION.responder,
        "observer": SESSION.observer,
        "clock": SESSION.clock,
    }
    try:
        SESSION.install(responder=respond, observer=None, clock=clock)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataNotice)
            warnings.simplefilter("ignore", DeprecationNotice)
            yield
    finally:
        SESSION.install(**before)


def _called(fetcher: Callable[..., pd.DataFrame], arguments: dict[str, Any]) -> pd.DataFrame | None:
    """Return a fetcher's result; None if it raises on the arguments or the response."""
    try:
        return fetcher(**arguments)
    except (DerivdataError, ValueError, TypeError):
        return None


def _sent(endpoint: Endpoint, request: Request, signature: inspect.Signature) -> dict[str, Any] | None:
    """Return the fetcher's arguments for a request; None if a parameter has no argument."""
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
    """Return the argument of a fetcher that is sent as `text`."""
    if kind is ParamKind.INTEGER:
        return int(text)
    if kind is ParamKind.NUMBER:
        return float(text)
    if kind is ParamKind.MILLIS:
        return pd.Timestamp(int(text), unit="ms", tz="UTC")
    if kind is ParamKind.DAYS:  # the longest window, to the minute, that is requested as this number of days
        return f"{int(text.removesuffix('d')) * 1440 - 1}m"
    if kind is ParamKind.LIST:
        return text.split(",")
    if kind is ParamKind.TICK:
        return times.timestamp(text)
    return text


_ANSWER_COLUMNS = ("change", "path", "query_a", "query_b", "sha256_a", "sha256_b", "table", "rows")


class _Pair(NamedTuple):
    """Corresponding responses of two recordings; None if one does not have it."""

    a: Entry | None
    b: Entry | None


@dataclass(frozen=True)
class BundleDiff:
    """Difference of two recordings.

    Attributes
    ----------
    answers
        One row per response that differs: ``change`` is ``changed`` (the same request), ``moved`` (the same
        except its window), ``only in a`` or ``only in b``; queries and hashes of both; its ``table`` and the
        number of its ``rows`` that differ, missing without a fetcher for it.
    rows
        Table name to the rows that differ: the table's key, ``change`` (``changed``, ``only in a``,
        ``only in b``), and every other column twice, ending in ``_a`` and ``_b``.
    """

    answers: pd.DataFrame
    rows: Mapping[str, pd.DataFrame]

    def __bool__(self) -> bool:
        return len(self.answers) > 0

    def __repr__(self) -> str:
        if not self:
            return "BundleDiff(no difference)"
        counts = ", ".join(f"{n} {change}" for change, n in self.answers["change"].value_counts().items())
        rows = ", ".join(f"{len(frame)} of {name}" for name, frame in self.rows.items())
        return f"BundleDiff(responses: {counts}; rows: {rows or 'none'})"


@typed
def bundle_diff(a: str | Path, b: str | Path) -> BundleDiff:
    """Compare two recordings.

    Responses are compared by their bodies, those of repeated requests in order. A request that is in only one
    recording is compared with a request of the other that differs only in its times, if there is one: a
    notebook with a lookback requests another window every day.

    Parameters
    ----------
    a, b
        Bundles.

    Returns
    -------
    BundleDiff
        Responses and rows that differ; ``bool(difference)`` is False if nothing differs.

    Raises
    ------
    BundleError
        A file is not a bundle, or it is damaged or malicious.
    """
    first = Bundle(a)
    try:
        second = Bundle(b)
        try:
            return _difference(first, second)
        finally:
            second.close()
    finally:
        first.close()


def _difference(a: Bundle, b: Bundle) -> BundleDiff:
    """Compare two open bundles."""
    lines: list[tuple[Any, ...]] = []
    rows: dict[str, list[pd.DataFrame]] = {}
    for pair in _pairs(a.entries, b.entries):
        if _is_same(pair):
            continue
        name, changed = _compared(pair, a, b)
        lines.append(_line(pair, name, changed))
        if name is not None and changed is not None and len(changed):
            rows.setdefault(name, []).append(changed)
    answers = pd.DataFrame(lines, columns=list(_ANSWER_COLUMNS)).astype({"rows": "Int64"})
    return BundleDiff(answers, {n: pd.concat(f, ignore_index=True) for n, f in sorted(rows.items())})


def _is_same(pair: _Pair) -> bool:
    """Return whether two recordings have the same response to the same request."""
    a, b = pair
    if a is None or b is None:
        return False
    return a.status == b.status and a.sha256 == b.sha256 and request_of(a) == request_of(b)


def _pairs(a: Iterable[Entry], b: Iterable[Entry]) -> list[_Pair]:
    """Pair the responses by request, then the rest by request without its times."""
    exact, left_a, left_b = _matched(a, b, request_of)
    moved, only_a, only_b = _matched(left_a, left_b, _timeless)
    singles = [*(_Pair(e, None) for e in only_a), *(_Pair(None, e) for e in only_b)]
    return [*exact, *moved, *singles]


def _matched(
    a: Iterable[Entry], b: Iterable[Entry], key: Callable[[Entry], Request]
) -> tuple[list[_Pair], list[Entry], list[Entry]]:
    """Return the pairs with the same key, in order of arrival, and the rest of each side."""
    waiting: dict[Request, list[Entry]] = {}
    for entry in b:
        waiting.setdefault(key(entry), []).append(entry)
    pairs: list[_Pair] = []
    left: list[Entry] = []
    for entry in a:
        counterparts = waiting.get(key(entry))
        if counterparts:
            pairs.append(_Pair(entry, counterparts.pop(0)))
        else:
            left.append(entry)
    return pairs, left, [entry for entries in waiting.values() for entry in entries]


def _timeless(entry: Entry) -> Request:
    """Return a request without its times."""
    request = request_of(entry)
    endpoint = endpoint_of(entry.path)
    if endpoint is None:
        return request
    time_params = {p.name for p in endpoint.params if p.kind in (ParamKind.TICK, ParamKind.MILLIS)}
    return Request(request.path, tuple(pair for pair in request.query if pair[0] not in time_params))


def _line(pair: _Pair, name: str | None, changed: pd.DataFrame | None) -> tuple[Any, ...]:
    """Return the row of `BundleDiff.answers` for a pair that differs."""
    if pair.a is None:
        change = "only in b"
    elif pair.b is None:
        change = "only in a"
    elif request_of(pair.a) == request_of(pair.b):
        change = "changed"
    else:
        change = "moved"
    queries = [None if entry is None else str(request_of(entry)).partition("?")[2] for entry in pair]
    hashes = [None if entry is None else entry.sha256 for entry in pair]
    rows = None if changed is None else len(changed)
    return (change, _path(pair), *queries, *hashes, name, rows)


def _path(pair: _Pair) -> str:
    """Return the path of the responses of a pair."""
    return next(entry.path for entry in pair if entry is not None)


def _compared(pair: _Pair, a: Bundle, b: Bundle) -> tuple[str | None, pd.DataFrame | None]:
    """Return the table of a pair's endpoint and the rows that differ; None without a fetcher for both."""
    endpoint = endpoint_of(_path(pair))
    if endpoint is None:
        return None, None
    table = tables.TABLES.get(endpoint.table)
    if table is None:
        return endpoint.table, None
    first = _rows(table, pair.a, a)
    second = _rows(table, pair.b, b)
    if first is None or second is None:
        return table.name, None
    return table.name, changed_rows(table, first, second)


def _rows(table: Table, entry: Entry | None, bundle: Bundle) -> pd.DataFrame | None:
    if entry is None:
        return table.empty()
    frame = table_of(entry, bundle.body(entry), bundle.manifest.asof)
    is_this_table = isinstance(frame, pd.DataFrame) and set(table.columns) <= set(frame.columns)
    return frame if is_this_table else None


def changed_rows(table: Table, a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that differ between two frames of a table, side by side.

    The time of a snapshot is not compared, since every snapshot has a different one.
    """
    names = list(table.columns)
    if "time" in names and _is_snapshot(a) and _is_snapshot(b):
        names.remove("time")
    key = [name for name in names if name in table.key]
    values = [name for name in names if name not in table.key]
    both = _plain(a[names]).merge(
        _plain(b[names]), on=key, how="outer", suffixes=("_a", "_b"), indicator="change"
    )
    shared = both["change"] == "both"
    differs = ~shared
    for name in values:
        value_a = both[f"{name}_a"]
        value_b = both[f"{name}_b"]
        is_equal = (value_a == value_b) | (value_a.isna() & value_b.isna())
        differs |= ~is_equal.fillna(False).astype(bool)
    labels = {"left_only": "only in a", "right_only": "only in b", "both": "changed"}
    both["change"] = both["change"].astype("str").map(labels)
    sides = [f"{name}_{side}" for name in values for side in "ab"]
    return both.loc[differs, [*key, "change", *sides]].reset_index(drop=True)


def _is_snapshot(frame: pd.DataFrame) -> bool:
    return "time" in frame.columns and frame["time"].nunique() <= 1


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with categories as text, since two responses rarely have the same categories."""
    texts = frame.select_dtypes("category").columns
    return frame.astype(dict.fromkeys(texts, "str"))
