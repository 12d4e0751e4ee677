"""The fetchers of open interest and volume, written once: histories, totals of venues, largest symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from derivdata.client.reading import Envelope, instants
from derivdata.client.retrieval import get_windows, pieces, tabulate
from derivdata.client.transport import Answer
from derivdata.support import times
from derivdata.tables.contracts import symbol_names, venue_names, venue_of
from derivdata.tables.endpoints import Endpoint
from derivdata.tables.schema import Table


class Quantity(NamedTuple):
    """One way to ask for a quantity."""

    endpoint: Endpoint
    table: Table
    into: type[Any]
    value: str  # its field in a row of the answer; of wide rows, the table's column


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
) -> pd.DataFrame:
    """Return a quantity on every venue over a window: of symbols, or of each venue in all for None."""
    slugs = venue_names(venues)
    spans = pieces(quantity.endpoint, times.window(start, end), resolution, slugs)
    query = {"exchanges": slugs, "resolution": resolution}
    each = [query] if symbols is None else [{"symbol": s, **query} for s in symbol_names(symbols)]
    answers = get_windows(quantity.endpoint, each, spans, quantity.into)
    return tabulate(quantity.table, answers, lambda answer: _columns(quantity, answer))


def top_symbols(
    quantity: Quantity, venue: str, start: times.Instant, end: times.Instant | None, limit: int | None
) -> pd.DataFrame:
    """Return a quantity of a venue's largest symbols over a window."""
    slug = venue_of(venue)
    each = [{"exchange": slug, "limit": limit}]
    answers = get_windows(quantity.endpoint, each, [times.window(start, end)], TopSymbols)
    return tabulate(quantity.table, answers, lambda a: _wide_rows(a, a.body.timeseries, slug, quantity.value))


def _columns(quantity: Quantity, answer: Answer[Any]) -> dict[str, Any]:
    """Return the columns of the rows that have a value: a null on the wire is no row."""
    rows = [row for row in answer.body.data if getattr(row, quantity.value) is not None]
    constants = {name: getattr(answer.body, name) for name in ("symbol", "resolution")}
    columns = quantity.table.rows(rows, **constants)
    return columns | {"timestamp": instants(answer, [row.timestamp or row.t for row in rows])}


def _wide_rows(
    answer: Answer[Any], rows: Sequence[Mapping[str, Any]], exchange: str, value: str
) -> dict[str, Any]:
    """Return the columns of rows with one field per symbol beside ``timestamp``; null is no row."""
    stamps = instants(answer, [row.get("timestamp") or row.get("t") for row in rows])
    cells = [
        (stamp, symbol, row[symbol])
        for stamp, row in zip(stamps, rows, strict=True)
        for symbol in answer.body.symbols
        if row.get(symbol) is not None
    ]
    return {
        "symbol": [symbol for _, symbol, _ in cells],
        "exchange": [exchange] * len(cells),
        "timestamp": pd.DatetimeIndex([stamp for stamp, _, _ in cells], dtype=stamps.dtype),
        value: [number for _, _, number in cells],
        "resolution": [answer.body.resolution] * len(cells),
    }
