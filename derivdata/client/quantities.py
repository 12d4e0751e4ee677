"""Fetchers that many tables share: open interest and volume over time, largest symbols, local tables.

Responses that no document describes are laid out as rows, so that nothing in them is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from derivdata.client import transport
from derivdata.client.reading import CheckedAnswer, Envelope, decode_raw, instants
from derivdata.client.retrieval import (
    By,
    get_windows,
    pieces,
    rolling,
    symbol_names,
    symbols_to_request,
    tabulate,
    venue_names,
)
from derivdata.client.rules import check
from derivdata.client.transport import Answer
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.forking import DECODERS
from derivdata.tables import TABLES
from derivdata.tables.contracts import venue_of
from derivdata.tables.definitions import OPEN_TABLES
from derivdata.tables.endpoints import Endpoint
from derivdata.tables.schema import Kind, OpenTable, Table, coded


class Quantity(NamedTuple):
    """One way to ask for a quantity."""

    endpoint: Endpoint
    into: type[Any]
    value: str  # its field in a row of the answer; of wide rows, the table's column

    @property
    def table(self) -> Table:
        """The table that its rows make."""
        return TABLES[self.endpoint.table]


def quantity(endpoint: Endpoint, value: str, *others: str) -> Quantity:
    """Return a way to ask for a quantity whose rows, one for each venue and step, are in ``data``.

    `others` are further numbers of a row, which the source may lack.
    """
    fields: list[Any] = [("exchange", str), (value, float | None), ("symbol_count", int | None, None)]
    fields += [(name, float | None, None) for name in others]
    row = msgspec.defstruct("Row", [*fields, ("timestamp", str, ""), ("t", str, "")])
    named: list[Any] = [("symbol", str)] if "{symbol}" in endpoint.path else []
    rows = [*named, ("data", list[row])]  # type: ignore[valid-type]
    return Quantity(endpoint, msgspec.defstruct("Rows", rows, bases=(Envelope,), kw_only=True), value)


class TopSymbols(Envelope):
    """The answer to a question for a venue's largest symbols: a field per symbol in each row."""

    symbols: list[str]
    timeseries: list[dict[str, float | str | None]]


def over_time(
    quantity: Quantity,
    symbols: str | Sequence[str] | None,
    start: times.Instant,
    end: times.Instant | None,
    venues: str | Sequence[str] | None,
    resolution: times.Resolution | None,
    by: By = "symbol",
) -> pd.DataFrame:
    """Return a quantity on every venue over a window: of symbols, or of each venue in all for None."""
    slugs = venue_names(venues)
    spans = pieces(quantity.endpoint, times.window(start, end), resolution, slugs)
    query = {"exchanges": slugs, "resolution": resolution}
    each = [query]
    if symbols is not None:
        requested = symbols_to_request(quantity.endpoint, symbol_names(symbols), by)
        each = [{"symbol": symbol, **query} for symbol in requested]
    answers = get_windows(quantity.endpoint, each, spans, quantity.into)
    columns = partial(_columns, table=quantity.table.name, value=quantity.value)
    return tabulate(quantity.table, answers, columns)


def top_symbols(
    quantity: Quantity, venue: str, start: times.Instant, end: times.Instant | None, limit: int | None
) -> pd.DataFrame:
    """Return a quantity of a venue's largest symbols over a window."""
    slug = venue_of(venue)
    each = [{"exchange": slug, "limit": limit}]
    answers = get_windows(quantity.endpoint, each, [times.window(start, end)], TopSymbols)
    columns = partial(_largest_columns, venue=slug, value=quantity.value)
    return tabulate(quantity.table, answers, columns)


def _columns(answer: Answer[Any], *, table: str, value: str) -> dict[str, Any]:
    """Return the columns of the rows that have a value: a null on the wire is no row."""
    rows = [row for row in answer.body.data if getattr(row, value) is not None]
    constants = {name: getattr(answer.body, name) for name in ("symbol", "resolution")}
    columns = TABLES[table].rows(rows, **constants)
    return columns | {"timestamp": instants(answer, [row.timestamp or row.t for row in rows])}


def _largest_columns(answer: Answer[TopSymbols], *, venue: str, value: str) -> dict[str, Any]:
    """Return the columns of rows with one field per symbol next to ``timestamp``; null is no row."""
    rows: Sequence[Mapping[str, Any]] = answer.body.timeseries
    stamps = instants(answer, [row.get("timestamp") or row.get("t") for row in rows])
    cells = [
        (stamp, symbol, row[symbol])
        for stamp, row in zip(stamps, rows, strict=True)
        for symbol in answer.body.symbols
        if row.get(symbol) is not None
    ]
    return {
        "symbol": [symbol for _, symbol, _ in cells],
        "exchange": [venue] * len(cells),
        "timestamp": pd.DatetimeIndex([stamp for stamp, _, _ in cells], dtype=stamps.dtype),
        value: [number for _, _, number in cells],
        "resolution": [answer.body.resolution] * len(cells),
    }


class _Rows(Envelope, kw_only=True):
    """The answer of a local table: its rows by venue."""

    symbol: str
    kind: str | None = None
    quote: str | None = None
    series: dict[str, msgspec.Raw]


_BESIDE = ("symbol", "kind", "quote", "resolution")
_TYPES = {Kind.NUMBER: float, Kind.COUNT: int, Kind.RANK: int, Kind.FLAG: bool}
"""Types of the fields of a row; others are text."""


def table_rows(
    endpoint: Endpoint,
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None,
    venues: str | Sequence[str] | None,
    by: By = "symbol",
    **query: Any,
) -> pd.DataFrame:
    """Return the rows of symbols in a local table over a window; `query` has its other parameters."""
    listed = symbols_to_request(endpoint, symbol_names(symbols), by)
    slugs = venue_names(venues)
    spans = pieces(endpoint, times.window(start, end), query.get("resolution", "raw"), slugs)
    each = [{"symbol": s, "exchanges": slugs, **query} for s in listed]
    answers = get_windows(endpoint, each, spans, _Rows)
    columns = partial(_by_venue, table=endpoint.table)
    return tabulate(TABLES[endpoint.table], answers, columns, listed=listed)


def _by_venue(answer: Answer[_Rows], *, table: str) -> dict[str, Any]:
    """Return the columns of the rows under ``series``, with those that are one for the whole answer."""
    definition = TABLES[table]
    stated = {n: getattr(answer.body, n) for n in _BESIDE if n in definition.columns}
    beside = {n: word for n, word in stated.items() if word is not None}
    decoder = DECODERS[list[row_type(table, ("exchange", *beside))]]  # type: ignore[misc]
    rows: list[Any] = []
    sizes = []
    for venue, raw in answer.body.series.items():
        own = decode_raw(answer, raw, decoder, f"$.series.{venue}")
        rows += own
        sizes.append(len(own))
    columns = definition.rows(rows, **beside)
    return columns | {"exchange": coded(answer.body.series, np.repeat(np.arange(len(sizes)), sizes))}


@lru_cache
def row_type(table: str, beside: tuple[str, ...] = ()) -> type[msgspec.Struct]:
    """Return the structure of a row without the columns that stand `beside` it."""
    columns = TABLES[table].columns
    fields = []
    for name in (one for one in columns if one not in beside):
        kind = _TYPES.get(columns[name].kind, str)
        optional = (kind | None, None) if name in TABLES[table].optional else (kind,)
        fields.append((TABLES[table].wire.get(name, name), *optional))
    return msgspec.defstruct(table, fields, gc=False, kw_only=True)


def fetch_rows(endpoint: Endpoint, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return every part of the answer as rows of its open table.

    A list of objects gives a row each, an object one row, an object of objects or lists a row each with
    its name in ``key``, an empty list or object none; what is at the top of the answer is the row of
    part ``answer``. A ``range`` is given the endpoint's own name for it.
    """
    if "range" in params:
        params = {**params, "range": rolling(endpoint, params["range"])}
    return _table(endpoint, [transport.get(endpoint, params, into=dict[str, Any])])


def fetch_windows(
    endpoint: Endpoint, params: Mapping[str, Any], spans: Sequence[times.Window]
) -> pd.DataFrame:
    """Return the answers over spans as one open table."""
    return _table(endpoint, list(get_windows(endpoint, [params], spans, dict[str, Any]))[::-1])


def _table(endpoint: Endpoint, answers: Sequence[Answer[dict[str, Any]]]) -> pd.DataFrame:
    """Return the rows of all answers; what is at the top of several alike is one row."""
    table = OPEN_TABLES[endpoint.table]
    tops: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    seen: list[Answer[Any]] = []
    for answer in answers:
        try:
            if answer.body.get("success") is False:
                reason = answer.body.get("error", "no reason given")
                raise SchemaError(f"{endpoint.path}.success is false: {reason}")
            parts = answer.body.items()
            answer_rows = [row for name, value in parts if _has_rows(value) for row in _part(name, value)]
            checked_rows, notices = _checked(answer, table, answer_rows)
        except SchemaError:
            transport.SESSION.forget(answer.request)
            raise
        for notice in notices:
            transport.notify(answer.request, notice)
        # The fields next to the rows; an empty list is no rows.
        top = {name: value for name, value in answer.body.items() if not _has_rows(value) and value != []}
        if "range" not in top and "period" in top:
            top["range"] = top["period"]
        tops += [top] if top and top not in tops else []
        rows += checked_rows
        seen.append(replace(answer, notices=(*answer.notices, *notices)))
    frame = table.build([*({"part": "answer", **top} for top in tops), *rows])
    frame.attrs["provenance"] = transport.provenance(seen)
    return frame


def _checked(
    answer: Answer[Any], table: OpenTable, rows: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows that the rules keep, and the notices about the answer."""
    built = table.build(rows)
    columns = {
        name: values.to_numpy() if values.dtype == "float64" else values.array
        for name, values in built.items()
    }
    for name in ("timestamp", "t"):
        if name in built and built[name].dtype.kind == "M" and built[name].notna().all():
            columns["time"] = columns[name]
    evidence = CheckedAnswer(answer, None, {"place": np.arange(len(rows)), **columns}, {})
    notices = check(evidence)
    return [rows[place] for place in evidence.columns["place"]], notices


def _has_rows(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _part(name: str, value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield {"part": name, **_object(name, item)}
    elif all(_has_rows(item) or item == [] for item in value.values()):
        for key, item in value.items():
            for row in item if isinstance(item, list) else [item]:
                yield {"part": name, "key": key, **_object(name, row)}
    else:
        yield {"part": name, **value}


def _object(name: str, item: Any) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise SchemaError(f"{name} holds {item!r:.60} among objects; see the response with dd.raw(path, ...)")
    return item
