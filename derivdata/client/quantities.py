"""Fetchers that tables share, the catalog of a source, and the plan of a large fetch.

Responses without a documented schema become open tables, with all their fields.
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
from derivdata.client.earlier import unlike_earlier
from derivdata.client.reading import CheckedResponse, Envelope, decode_raw, timestamps
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
from derivdata.client.transport import DecodedResponse
from derivdata.client.transport.settings import spacing_seconds
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.forking import DECODERS
from derivdata.tables import TABLES, endpoints
from derivdata.tables.contracts import venue_of
from derivdata.tables.definitions import OPEN_TABLES
from derivdata.tables.endpoints import Endpoint
from derivdata.tables.schema import Kind, OpenTable, Table, coded


class Quantity(NamedTuple):
    """A quantity that an endpoint returns over time."""

    endpoint: Endpoint
    into: type[Any]
    value: str  # its field in a row of the response; for wide rows, the table's column

    @property
    def table(self) -> Table:
        """Table of the rows that the endpoint returns."""
        return TABLES[self.endpoint.table]


def quantity(endpoint: Endpoint, value: str, *others: str) -> Quantity:
    """Return a quantity whose rows, one per venue and step, are in the response's ``data``.

    `others` are further numbers of a row, which may be missing.
    """
    fields: list[Any] = [("exchange", str), (value, float | None), ("symbol_count", int | None, None)]
    fields += [(name, float | None, None) for name in others]
    row = msgspec.defstruct("Row", [*fields, ("timestamp", str, ""), ("t", str, "")])
    symbol: list[Any] = [("symbol", str)] if "{symbol}" in endpoint.path else []
    rows = [*symbol, ("data", list[row])]  # type: ignore[valid-type]
    return Quantity(endpoint, msgspec.defstruct("Rows", rows, bases=(Envelope,), kw_only=True), value)


class TopSymbols(Envelope):
    """The response of a venue's largest symbols: each row has a field per symbol."""

    symbols: list[str]
    timeseries: list[dict[str, float | str | None]]


def over_time(
    quantity: Quantity,
    symbols: str | Sequence[str] | None,
    start: times.TimeLike,
    end: times.TimeLike | None,
    venues: str | Sequence[str] | None,
    resolution: times.Resolution | None,
    by: By = "symbol",
) -> pd.DataFrame:
    """Return a quantity by venue over a window: of symbols, or for None the total of each venue."""
    slugs = venue_names(venues)
    spans = pieces(quantity.endpoint, times.window(start, end), resolution, slugs)
    query = {"exchanges": slugs, "resolution": resolution}
    queries = [query]
    if symbols is not None:
        requested = symbols_to_request(quantity.endpoint, symbol_names(symbols), by)
        queries = [{"symbol": symbol, **query} for symbol in requested]
    responses = get_windows(quantity.endpoint, queries, spans, quantity.into)
    columns = partial(_columns, table=quantity.table.name, value=quantity.value)
    return tabulate(quantity.table, responses, columns)


def top_symbols(
    quantity: Quantity, venue: str, start: times.TimeLike, end: times.TimeLike | None, limit: int | None
) -> pd.DataFrame:
    """Return a quantity of a venue's largest symbols over a window."""
    slug = venue_of(venue)
    queries = [{"exchange": slug, "limit": limit}]
    responses = get_windows(quantity.endpoint, queries, [times.window(start, end)], TopSymbols)
    columns = partial(_largest_columns, venue=slug, value=quantity.value)
    return tabulate(quantity.table, responses, columns)


def _columns(response: DecodedResponse[Any], *, table: str, value: str) -> dict[str, Any]:
    """Return the columns of the rows that have a value; rows with null are dropped."""
    rows = [row for row in response.body.data if getattr(row, value) is not None]
    constants = {name: getattr(response.body, name) for name in ("symbol", "resolution")}
    columns = TABLES[table].rows(rows, **constants)
    # The time of a row is in `timestamp`, or in `t` as some responses name it.
    return columns | {"timestamp": timestamps(response, [row.timestamp or row.t for row in rows])}


def _largest_columns(response: DecodedResponse[TopSymbols], *, venue: str, value: str) -> dict[str, Any]:
    """Return the columns of wide rows (a ``timestamp`` and a field per symbol) in long form, no nulls."""
    rows: Sequence[Mapping[str, Any]] = response.body.timeseries
    stamps = timestamps(response, [row.get("timestamp") or row.get("t") for row in rows])
    symbols = []
    row_times = []
    values = []
    for stamp, row in zip(stamps, rows, strict=True):
        for symbol in response.body.symbols:
            if row.get(symbol) is not None:
                symbols.append(symbol)
                row_times.append(stamp)
                values.append(row[symbol])
    return {
        "symbol": symbols,
        "exchange": [venue] * len(values),
        "timestamp": pd.DatetimeIndex(row_times, dtype=stamps.dtype),
        value: values,
        "resolution": [response.body.resolution] * len(values),
    }


class _Rows(Envelope, kw_only=True):
    """The response of a local table: its rows by venue."""

    symbol: str
    kind: str | None = None
    quote: str | None = None
    series: dict[str, msgspec.Raw]


_CONSTANTS = ("symbol", "kind", "quote", "resolution")
"""Fields that a response states once for all its rows."""
_TYPES = {Kind.NUMBER: float, Kind.COUNT: int, Kind.RANK: int, Kind.FLAG: bool}
"""Types of the fields of a row; others are text."""


def table_rows(
    endpoint: Endpoint,
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None,
    venues: str | Sequence[str] | None,
    by: By = "symbol",
    **query: Any,
) -> pd.DataFrame:
    """Return the rows of symbols in a local table over a window; `query` has its other parameters."""
    listed = symbols_to_request(endpoint, symbol_names(symbols), by)
    slugs = venue_names(venues)
    spans = pieces(endpoint, times.window(start, end), query.get("resolution", "raw"), slugs)
    queries = [{"symbol": symbol, "exchanges": slugs, **query} for symbol in listed]
    responses = get_windows(endpoint, queries, spans, _Rows)
    columns = partial(_by_venue, table=endpoint.table)
    return tabulate(TABLES[endpoint.table], responses, columns, listed=listed)


def _by_venue(response: DecodedResponse[_Rows], *, table: str) -> dict[str, Any]:
    """Return the columns of the rows under ``series``, and of the fields that are constant in a response."""
    definition = TABLES[table]
    constants: dict[str, Any] = {}
    for name in _CONSTANTS:
        if name in definition.columns and getattr(response.body, name) is not None:
            constants[name] = getattr(response.body, name)
    # Derived from the table, so that the row format is declared once.
    decoder = DECODERS[list[row_type(table, ("exchange", *constants))]]  # type: ignore[misc]
    rows: list[Any] = []
    sizes = []
    for venue, raw in response.body.series.items():
        venue_rows = decode_raw(response, raw, decoder, f"$.series.{venue}")
        rows += venue_rows
        sizes.append(len(venue_rows))
    columns = definition.rows(rows, **constants)
    return columns | {"exchange": coded(response.body.series, np.repeat(np.arange(len(sizes)), sizes))}


@lru_cache
def row_type(table: str, excluded: tuple[str, ...] = ()) -> type[msgspec.Struct]:
    """Return the struct of a table's row on the wire, without the `excluded` columns."""
    columns = TABLES[table].columns
    fields = []
    for name in columns:
        if name in excluded:
            continue
        kind = _TYPES.get(columns[name].kind, str)
        optional = (kind | None, None) if name in TABLES[table].optional else (kind,)
        fields.append((TABLES[table].wire.get(name, name), *optional))
    return msgspec.defstruct(table, fields, gc=False, kw_only=True)


def fetch_rows(endpoint: Endpoint, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return a response as rows of its open table.

    The column ``part`` is the name of the top-level field. A list of objects gives one row per object, an
    object one row, and an object of objects or lists one row per item, with the item's name in ``key``. An
    empty list or object becomes no row. Top-level scalars are the row of part ``answer``. A ``range`` is
    replaced by the endpoint's own name for it.
    """
    if "range" in params:
        params = {**params, "range": rolling(endpoint, params["range"])}
    return _table(endpoint, [transport.get(endpoint, params, into=dict[str, Any])])


def fetch_windows(
    endpoint: Endpoint, params: Mapping[str, Any], spans: Sequence[times.Window]
) -> pd.DataFrame:
    """Return the responses over several spans as one open table."""
    # Responses arrive newest first; the rows of an open table are in order of time.
    return _table(endpoint, list(get_windows(endpoint, [params], spans, dict[str, Any]))[::-1])


def _table(endpoint: Endpoint, responses: Sequence[DecodedResponse[dict[str, Any]]]) -> pd.DataFrame:
    """Return the rows of all responses; equal top-level scalars of several responses give one row."""
    table = OPEN_TABLES[endpoint.table]
    tops: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    seen: list[DecodedResponse[Any]] = []
    for response in responses:
        try:
            if response.body.get("success") is False:
                reason = response.body.get("error", "no reason given")
                raise SchemaError(f"{endpoint.path}.success is false: {reason}")
            checked_rows, notices = _checked(response, table, _body_rows(response.body))
        except SchemaError:
            transport.SESSION.forget(response.request)
            raise
        for notice in notices:
            transport.notify(response.request, notice)
        # The scalars next to the rows. An empty list has no rows and is not a scalar either.
        top = {name: value for name, value in response.body.items() if not _has_rows(value) and value != []}
        if "range" not in top and "period" in top:
            top["range"] = top["period"]
        if top and top not in tops:
            tops.append(top)
        rows += checked_rows
        seen.append(replace(response, notices=(*response.notices, *notices)))
    frame = table.build([*({"part": "answer", **top} for top in tops), *rows])
    frame.attrs["provenance"] = transport.provenance(seen)
    return frame


def _checked(
    response: DecodedResponse[Any], table: OpenTable, rows: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Check a response against the rules; return the rows that pass and the notices."""
    built = table.build(rows)
    columns = {
        name: values.to_numpy() if values.dtype == "float64" else values.array
        for name, values in built.items()
    }
    # Rules compare the column `time` with the requested window.
    for name in ("timestamp", "t"):
        if name in built and built[name].dtype.kind == "M" and built[name].notna().all():
            columns["time"] = columns[name]
    evidence = CheckedResponse(response, None, {"place": np.arange(len(rows)), **columns}, {})
    notices = check(evidence)
    if transport.SESSION.origin() is not None:
        notices += unlike_earlier(evidence, is_whole=True)
    return [rows[place] for place in evidence.columns["place"]], notices


def _has_rows(value: Any) -> bool:
    """Return whether a value is an object, or a list with objects."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _body_rows(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a response, without its top-level scalars."""
    rows: list[dict[str, Any]] = []
    for name, value in body.items():
        if _has_rows(value):
            rows += _field_rows(name, value)
    return rows


def _field_rows(name: str, value: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a top-level field; see `fetch_rows`."""
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
        raise SchemaError(
            f"{name}: expected a list of objects, but one item is {item!r:.60}; see the response with "
            "dd.raw(path, ...)"
        )
    return item


_HISTORIES = {
    "funding.history": endpoints.FUNDING_HISTORICAL,
    "funding.settlements": endpoints.FUNDING_SETTLEMENT,
    "oi.history": endpoints.OI_TIMESERIES,
    "volume.history": endpoints.VOLUME_TIMESERIES,
    "prices.history": endpoints.PRICES_HISTORY,
}
_SETTLED: times.Resolution = "1h"
_CatalogRow = row_type("catalog")
_InstrumentRow = row_type("instruments")


class _Catalog(Envelope):
    timestamp: str
    tables: list[_CatalogRow]  # type: ignore[valid-type]


class _Instruments(Envelope):
    timestamp: str
    instruments: list[_InstrumentRow]  # type: ignore[valid-type]


@typed
def plan(
    symbols: str | Sequence[str],
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    resolution: times.Resolution | None = "1h",
    latency_seconds: float = 0.3,
) -> pd.DataFrame:
    """Estimate how many requests a fetch of histories makes, and how long they take, without sending any.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As for ``dd.funding.history``.
    latency_seconds
        Assumed time of one response [s]. Requests are counted as sequential.

    Returns
    -------
    DataFrame, one row per fetcher
        ``fetcher``; ``tier``, the lowest with access; ``requests``; ``per_second``, the rate limit of the
        service (NaN without one); ``seconds`` [s] within the rate limit and with an empty cache. Cached
        responses take no time, and an archive, the sample and a replay have no rate limit.
        ``attrs["summary"]`` is a summary in one line.

    Raises
    ------
    ValueError, TypeError
        `start` is not before `end`; a name or the resolution is not valid; `latency_seconds` is negative.
    """
    if not latency_seconds >= 0:
        raise ValueError(f"latency_seconds must be 0 or more, got {latency_seconds!r}")
    listed = symbol_names(symbols)
    window = times.window(start, end)
    rows: list[dict[str, Any]] = []
    for fetcher, endpoint in _HISTORIES.items():
        step = _SETTLED if endpoint is endpoints.FUNDING_SETTLEMENT else resolution
        count = len(listed) * len(pieces(endpoint, window, step, venue_names(venues)))
        pause = max(spacing_seconds(endpoint), latency_seconds)
        rows.append(
            {
                "fetcher": fetcher,
                "tier": endpoint.tier,
                "requests": count,
                "per_second": float("nan") if endpoint.per_second is None else endpoint.per_second,
                "seconds": (count - 1) * pause + latency_seconds,
            }
        )
    requests = pd.DataFrame(rows)
    estimates = "; ".join(
        f"{row['fetcher']} {row['requests']:,} requests, {_duration(row['seconds'])}" for row in rows
    )
    span = f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC"
    requests.attrs["summary"] = f"{span}: {estimates}"
    return requests


@typed
def catalog() -> pd.DataFrame:
    """Return the contents of an archive, of the sample, or of the stored responses of venues.

    Returns
    -------
    DataFrame, table ``catalog``
        One row per table and venue (``unstated`` for tables without venues): ``first`` and ``last`` time up
        to the source's clock; ``step_hours`` [h] between the last rows of one of its series, missing for
        events, single times and tables without venues; ``row_count``, missing for rows that are generated on
        request.

    Raises
    ------
    NotFound
        The source is the hosted service, which has no catalog.
    FetchError, SchemaError
        The request failed, or the response is not this table.

    Notes
    -----
    ``GET /local/catalog``, which is not part of the API document.
    """
    response = transport.get(endpoints.CATALOG, {}, into=_Catalog)
    return tabulate(TABLES["catalog"], [response], lambda a: TABLES["catalog"].rows(a.body.tables))


@typed
def instruments(
    symbols: str | Sequence[str] | None = None, *, venues: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the current and former contracts of venues, each as it was last listed.

    Parameters
    ----------
    symbols, venues
        Symbols and venues to return; None returns all.

    Returns
    -------
    DataFrame, table ``instruments``
        One row per contract: base ``symbol`` and ``quote``, ``contract_size`` and ``multiplier``, its kind,
        ``listed``, ``delisted`` and ``expiry``, ``tick`` and ``step`` of price and size; NaN or NaT if the
        venue's list does not state them. ``is_active`` is False for a delisted contract, whose ``time`` is
        when it was first missing from the list.

    Raises
    ------
    NotFound
        The source is the hosted service, or has no lists.
    FetchError, SchemaError
        The request failed, or the response is not this table.

    Notes
    -----
    ``GET /local/instruments``, which is not part of the API document. Pass the symbols of this table to
    `derivdata.analysis.funding.universe`: a list of today's contracts has survivorship bias.

    Examples
    --------
    >>> contracts = dd.instruments("BTC", venues=["okx", "bybit"])
    >>> int(contracts["is_perpetual"].sum())
    2
    """
    listed = None if symbols is None else symbol_names(symbols)
    query = {"symbols": listed, "exchanges": venue_names(venues)}
    response = transport.get(endpoints.INSTRUMENTS, query, into=_Instruments)
    return tabulate(
        TABLES["instruments"], [response], lambda a: TABLES["instruments"].rows(a.body.instruments)
    )


def _duration(seconds: float) -> str:
    """Return a duration as text in s, min or h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
