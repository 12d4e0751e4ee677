"""Split windows into requests, check the responses, and join them into one table.

Each fetcher builds its table with `tabulate`, which checks the columns of each response against
`rules.RULES`. A contradiction or an impossible value raises `SchemaError`, and the response is removed from
the cache. An unlikely value gives a `DataNotice`, which is also stored in the provenance.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import pandas as pd

from derivdata.client import transport
from derivdata.client.earlier import unlike_earlier
from derivdata.client.reading import HOUR_US, CheckedResponse
from derivdata.client.rules import check
from derivdata.client.transport import DecodedResponse, progress
from derivdata.errors import DerivdataError, NotFound, SchemaError, TierError
from derivdata.support import times
from derivdata.support.text import nearest_symbols
from derivdata.tables import endpoints
from derivdata.tables.contracts import BUNDLED_COINS, base, symbol_of, venue_of
from derivdata.tables.endpoints import Endpoint
from derivdata.tables.frames import other_tickers
from derivdata.tables.history_rows import PAYMENTS, SPARSE, RequestedWindow, missing_row_sentences
from derivdata.tables.schema import Table
from derivdata.tables.venue_facts import FACTS

By: TypeAlias = Literal["symbol", "coin"]
"""Whether to request the given symbols, or all contracts of their coins (``PEPE`` and ``1000PEPE``)."""

T = TypeVar("T")

_HOURLY = ("options_atm_history", "options_surface_history", "options_overview_history")
"""Tables with hourly rows, whose responses do not state a resolution."""
_PAID_LATE_US = HOUR_US
_BYTES_PER_ANSWER = 18_750_000
_ROW_BYTES = {
    endpoints.FUNDING_SETTLEMENT.path: 100,
    endpoints.OI_TIMESERIES.path: 95,
    endpoints.VOLUME_TIMESERIES.path: 95,
    endpoints.OI_EXCHANGE_TOTALS.path: 120,
    endpoints.VOLUME_EXCHANGE_TOTALS.path: 120,
    endpoints.VOLUME_OI_RATIO.path: 120,
    endpoints.ORDERBOOK_DEPTH_HISTORY.path: 320,
}
"""Size of a row by path as the local service writes it [bytes]; `_POINT_BYTES` for other paths."""

_POINT_BYTES = 75
_VENUES = 50
"""Assumed number of venues in a response about all venues."""

_RAW_STEP = pd.Timedelta(1, "min")
_MISSING_ROWS = "missing rows"
"""Name of the comparison with the requested window, in the list of rules that run again."""
_NO_DATA = re.compile(r"\bno (data|options)\b", re.IGNORECASE)


class _Listed(msgspec.Struct):
    symbols: list[str]


def names(value: str | Sequence[str], argument: str) -> list[str]:
    """Return one or several names as a list."""
    listed: list[Any] = [value]
    if isinstance(value, Iterable) and not isinstance(value, str):
        listed = list(value)
    if not all(isinstance(name, str) and name for name in listed):
        raise TypeError(f"{argument} must be a name or a list of names, got {value!r}")
    if "," in "".join(listed):
        separate = [name.strip() for name in ",".join(listed).split(",")]
        raise ValueError(f"{argument}={value!r} is one string with several names: pass a list, {separate!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must have at least one name and no duplicates, got {listed!r}")
    return listed


def symbol_names(value: str | Sequence[str], argument: str = "symbols") -> list[str]:
    """Return the base symbols of one or several names."""
    return names([symbol_of(name) for name in names(value, argument)], argument)


def symbol_filter(value: str | Sequence[str] | None, argument: str = "symbols") -> list[str] | None:
    """Return the base symbols of a filter; None means no filter."""
    return None if value is None else symbol_names(value, argument)


def venue_names(value: Any, argument: str = "venues") -> Any:
    """Return the slugs of one or several venues. None and values of other types are returned unchanged."""
    if value is None:
        return None
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, Iterable):
        return value
    return [venue_of(name, argument) if isinstance(name, str) else name for name in value]


def pieces(
    endpoint: Endpoint,
    window: times.Window,
    resolution: times.Resolution | None,
    venues: str | Sequence[str] | None,
) -> list[times.Window]:
    """Split the window into spans that fit into one response each.

    Splits are at multiples of the span since 1970, so that overlapping windows share cached responses. A
    window whose resolution the server chooses is not split, since the length affects the choice.
    """
    if resolution is None:
        return [window]
    if isinstance(venues, str):
        venues = venues.split(",")
    count = _VENUES
    if venues is not None and "all" not in venues:
        count = max(len(set(venues)), 1)
    step = times.RESOLUTIONS.get(resolution, _RAW_STEP)
    step_bytes = _ROW_BYTES.get(endpoint.path, _POINT_BYTES) * count
    return cut(window, step * (_BYTES_PER_ANSWER // step_bytes))


def cut(window: times.Window, span: pd.Timedelta) -> list[times.Window]:
    """Split the window at multiples of `span` since 1970."""
    epoch = pd.Timestamp(0, tz="UTC").as_unit("us")
    first = (window.start - epoch) // span + 1
    spans = []
    start = window.start
    end = epoch + span * first
    while end < window.end:
        spans.append(times.Window(start, end))
        start = end
        end += span
    return [*spans, times.Window(start, window.end)]


def get_windows(
    endpoint: Endpoint, queries: Sequence[Mapping[str, Any]], spans: Sequence[times.Window], into: type[T]
) -> Iterator[DecodedResponse[T]]:
    """Yield the responses to each query over the spans, newest span first.

    If the key's tier does not cover a span, this span and earlier ones are skipped with a `DataNotice`, as
    long as a newer span has a response. A notice of missing data is given only if no span has data.
    """
    if len(spans) == 1:
        # One series of all queries, so that several requests run concurrently without a rate limit.
        bounded = [{**query, "start": spans[0].start, "end": spans[0].end} for query in queries]
        for response in transport.get_each(endpoint, bounded, into=into, until=spans[0].end, quiet=True):
            for notice in _notify_others(response):
                transport.notify(response.request, notice)
            yield response
        return
    for query in progress(queries, total=len(queries), label=endpoint.path):
        yield from _covered(endpoint, query, spans, into)


def _covered(
    endpoint: Endpoint, query: Mapping[str, Any], spans: Sequence[times.Window], into: type[T]
) -> Iterator[DecodedResponse[T]]:
    """Yield the responses to a query over the spans that the tier covers."""
    queries = [{**query, "start": span.start, "end": span.end} for span in reversed(spans)]
    ends = [span.end for span in reversed(spans)]
    responses = transport.get_each(endpoint, queries, into=into, until=ends, quiet=True)
    empty: list[tuple[endpoints.Request, str]] = []
    count = 0
    try:
        for response in responses:
            count += 1
            empty += [(response.request, notice) for notice in _notify_others(response)]
            yield response
    except TierError as error:
        if not count:
            raise
        skipped = f"{times.iso(spans[0].start)} to {times.iso(ends[count])}"
        transport.notify(error.path, f"omitted {skipped}: {error}")
    if empty and len(empty) == count:
        transport.notify(*empty[-1])


def _notify_others(response: DecodedResponse[Any]) -> list[str]:
    """Warn of a response's notices, except a notice of missing data, which is returned in a list."""
    no_data = [notice for notice in response.notices if _NO_DATA.search(notice)]
    for notice in response.notices:
        if notice not in no_data:
            transport.notify(response.request, notice)
    return no_data[:1]


def tabulate(
    table: Table,
    responses: Iterable[DecodedResponse[T]],
    columns: Callable[[DecodedResponse[T]], Mapping[str, Any]],
    *,
    within: times.Window | None = None,
    listed: Sequence[str] = (),
) -> pd.DataFrame:
    """Check responses and return them as one table, with their provenance in ``attrs``.

    Rows outside of `within` are removed. Symbols in `listed` without rows must be in the source's list.
    """
    # 1. Check each response, and warn of notices that no earlier response had.
    seen: list[DecodedResponse[Any]] = []
    readings: list[Reading] = []
    facts: dict[str, Any] = {}
    for response in responses:
        reading = read_columns(table, response, columns, within=within)
        for notice in reading.notices:
            if not any(notice in earlier.notices for earlier in seen):
                transport.notify(response.request, notice)
        notices = (*response.notices, *reading.notices)
        seen.append(replace(response, body=None, notices=notices))  # type: ignore[arg-type]
        readings.append(reading)
        facts |= reading.facts
    # 2. Compare the rows with the requested windows and names.
    columns_read = [reading.columns for reading in readings]
    incomplete = _notify_missing(table, seen, readings, is_cut=within is not None)
    _notify_empty(seen, columns_read)
    _require_listed(seen, listed, columns_read)
    # 3. Join the columns; a duplicate row is an error of the responses.
    try:
        frame = table.frame(table.joined(columns_read))
    except SchemaError:
        for response in seen:
            transport.SESSION.forget(response.request)
        raise
    # 4. Store in the cache which checks passed.
    for place, (response, reading) in enumerate(zip(seen, readings, strict=True)):
        keep_passed(response, reading, is_complete=place not in incomplete)
    provenance = transport.provenance(seen)
    provenance.update(facts)
    frame.attrs["provenance"] = provenance
    return frame


class Reading(NamedTuple):
    """Typed columns of a response that passed the rules, and the results of the checks."""

    columns: dict[str, Any]
    notices: list[str]
    facts: dict[str, Any]  # for the provenance
    window: RequestedWindow | None  # to compare the rows with
    reader: str  # table and function that read it; empty if the columns do not depend on the response alone
    effective: list[str]  # rules that gave a notice or changed rows
    passed: Sequence[str] | None  # `effective` of an earlier reading; None at the first


def read_columns(
    table: Table,
    response: DecodedResponse[T],
    columns: Callable[[DecodedResponse[T]], Mapping[str, Any]],
    *,
    within: times.Window | None = None,
) -> Reading:
    """Read and check the columns of a response. Only some rules run for a checked response from the cache."""
    reader = _reader_name(table, columns)
    passed = response.passed.get(reader)
    try:
        raw = columns(response)
        evidence = CheckedResponse(response, table, table.typed(raw), raw)
        notices = check(evidence, passed)
        if transport.SESSION.origin() is not None:
            notices += unlike_earlier(evidence, is_whole=bool(reader))
    except SchemaError:
        transport.SESSION.forget(response.request)
        raise
    if within is not None:
        start, end = map(times.us, within)
        stamps = evidence.columns["time"].asi8
        evidence.keep((stamps >= start) & (stamps < end))
    window = _requested_window(evidence, within)
    return Reading(evidence.columns, notices, evidence.facts, window, reader, evidence.effective, passed)


def keep_passed(response: DecodedResponse[Any], reading: Reading, *, is_complete: bool) -> None:
    """Store in the cache which checks a response passed, and whether all its rows were there."""
    if not reading.reader:
        return
    rules = [*reading.effective]
    if not is_complete:
        rules.append(_MISSING_ROWS)
    if reading.passed is None or (is_complete and _MISSING_ROWS in reading.passed):
        transport.SESSION.keep_passed(response, reading.reader, rules)


def _reader_name(table: Table, columns: Callable[..., Any]) -> str:
    """Return a name for a table and the function that reads its columns.

    The name is a cache key of the checks, so it must determine the columns of a response. Filters of a
    fetcher that are not in the request are text arguments of a `partial`, and part of the name. It is empty
    for functions that depend on more, such as closures.
    """
    words: list[str] = []
    if isinstance(columns, functools.partial):
        words = [f"{name}={value}" for name, value in columns.keywords.items() if isinstance(value, str)]
        if columns.args or len(words) < len(columns.keywords):
            return ""
        columns = columns.func
    code = getattr(columns, "__code__", None)
    if code is None or code.co_freevars:
        return ""
    return " ".join([table.name, f"{columns.__module__}:{code.co_qualname}:{code.co_firstlineno}", *words])


def _requested_window(e: CheckedResponse, within: times.Window | None) -> RequestedWindow | None:
    """Return the window of a response; None if its table does not have regular rows in a window."""
    if e.table is None or e.window_us is None or e.time_us is None:
        return None
    name = e.table.name
    stated = [e.stated.get("resolution"), e.requested.get("resolution")]
    is_stated = any(word in times.RESOLUTIONS for word in stated)
    is_regular = "resolution" in e.table.columns or name in (PAYMENTS, *_HOURLY, *SPARSE)
    if not is_regular or not (is_stated or name in (PAYMENTS, *_HOURLY)):
        return None
    start, end = e.window_us
    if within is not None:
        start = max(start, times.us(within.start))
        end = min(end, times.us(within.end))
    if e.as_of_us is not None:
        end = min(end, e.as_of_us)
        if name == PAYMENTS:
            end = min(end, e.as_of_us - _PAID_LATE_US)
    if start >= end:
        return None
    step = e.step_us if is_stated else HOUR_US
    is_hosted = e.endpoint is not None and not e.endpoint.local
    return RequestedWindow(start, end, step, is_hosted)


def _notify_missing(
    table: Table, seen: list[DecodedResponse[Any]], readings: Sequence[Reading], *, is_cut: bool
) -> set[int]:
    """Warn of rows that are missing in the requested windows, with the newest response to each query.

    A query is the endpoint and all parameters except the window. `is_cut` means that rows outside of a
    narrower window were removed.

    Returns
    -------
    set
        Positions of the responses with missing rows, or whose completeness depends on other responses.
    """
    # 1. Group the responses by query.
    queries: dict[tuple[Any, ...], list[int]] = {}
    for place, (response, reading) in enumerate(zip(seen, readings, strict=True)):
        window = reading.window
        if window is None:
            continue
        parameters = tuple(pair for pair in response.request.query if pair[0] not in ("start", "end"))
        queries.setdefault((response.request.path, parameters, window.step), []).append(place)
    # 2. Compare the rows of each query with its window, and add the notices to its newest response.
    incomplete: set[int] = set()
    for places in queries.values():
        query_readings = [readings[place] for place in places]
        columns = [reading.columns for reading in query_readings]
        response = seen[places[0]]
        missing = _absent_venues(response, columns)
        if is_cut or not _is_known_complete(query_readings):
            missing += missing_row_sentences(table, columns, _hull(query_readings))
        for notice in missing:
            response = replace(response, notices=(*response.notices, notice))
            transport.notify(response.request, notice)
        seen[places[0]] = response
        if missing or is_cut or len(places) > 1:
            incomplete.update(places)
    return incomplete


def _hull(readings: Sequence[Reading]) -> RequestedWindow:
    """Return the window from the first start to the last end of the readings' windows."""
    windows = [reading.window for reading in readings if reading.window is not None]
    start = min(window.start for window in windows)
    end = max(window.end for window in windows)
    return windows[0]._replace(start=start, end=end)


def _is_known_complete(readings: Sequence[Reading]) -> bool:
    """Return whether a query has one response that was complete when it was read before."""
    passed = readings[0].passed
    return len(readings) == 1 and passed is not None and _MISSING_ROWS not in passed


def _absent_venues(response: DecodedResponse[Any], columns_read: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence that names the requested venues without rows, if other venues have rows."""
    query = dict(response.request.query)
    requested = query.get("exchanges", "all").split(",")
    if "all" in requested:
        return []
    present: set[str] = set()
    for columns in columns_read:
        if "exchange" in columns:
            present.update(pd.unique(columns["exchange"]))
    absent = sorted({*requested} - present)
    if not present or not absent:
        return []
    return [
        f"{', '.join(absent)}: no rows in the window ({len(absent)} of {len(requested)} requested venues)"
    ]


def _notify_empty(seen: list[DecodedResponse[Any]], columns_read: Sequence[Mapping[str, Any]]) -> None:
    """Warn once for each query over a window whose responses have neither rows nor a notice."""
    sizes: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    last: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for place, (response, columns) in enumerate(zip(seen, columns_read, strict=True)):
        request = response.request
        if not {"start", "range"} & dict(request.query).keys():
            continue
        query = request.path, tuple(pair for pair in request.query if pair[0] not in ("start", "end"))
        rows = len(next(iter(columns.values()))) + len(response.notices)
        sizes[query] = sizes.get(query, 0) + rows
        last[query] = place
    for query, size in sizes.items():
        if not size:
            response = seen[last[query]]
            notice = "the response has no rows and no notice that explains it"
            seen[last[query]] = replace(response, notices=(*response.notices, notice))
            transport.notify(response.request, notice)


def listed_symbols() -> list[str]:
    """Return the symbols of the source's own list."""
    return transport.get(endpoints.FUNDING_METADATA, {}, into=_Listed, quiet=True).body.symbols


def _require_listed(
    seen: Sequence[DecodedResponse[Any]], symbols: Sequence[str], columns_read: Sequence[Mapping[str, Any]]
) -> None:
    """Raise for symbols without rows that are not in the source's own list, if it can be read."""
    present: set[str] = set()
    if symbols:
        for columns in columns_read:
            present.update(columns["symbol"].categories)
    for symbol in symbols:
        if symbol in present:
            continue
        try:
            listed = listed_symbols()
        except DerivdataError:  # the list is not available at this tier, in this recording or in this archive
            return
        if not listed or symbol in listed:
            continue
        message = (
            f"unknown symbol {symbol!r}: it has no rows in this window, and is not among the "
            f"{len(listed)} symbols of {endpoints.FUNDING_METADATA.path}"
        )
        near = ", ".join(nearest_symbols(symbol, listed))
        if near:
            message += f"; did you mean {near}?"
        raise NotFound(seen[0].request.path, message)


@functools.cache
def _bundled() -> frozenset[str]:
    """Return the coins that have known contracts of several coins, such as 1000PEPE."""
    stated = {base(fact.symbol)[0] for fact in FACTS if fact.fact == "multiplier"}
    return frozenset({*BUNDLED_COINS, *stated})


def _contracts(symbol: str, listed: Iterable[str]) -> list[str]:
    """Return the listed symbols that are contracts of a symbol's coin, also under its former tickers."""
    coin = base(symbol)[0]
    coins = {coin, *other_tickers(coin)}
    return [name for name in listed if base(name)[0] in coins]


@functools.lru_cache(maxsize=4096)
def _has_several_contracts(symbol: str) -> bool:
    coin = base(symbol)[0]
    return coin in _bundled() or bool(other_tickers(coin))


def symbols_to_request(endpoint: Endpoint, symbols: Sequence[str], by: By) -> list[str]:
    """Return the symbols to request: with ``by="coin"`` all contracts of their coins that the source lists.

    With ``by="symbol"`` the symbols are returned unchanged, and a notice names other listed contracts of
    their coins.
    """
    if by == "coin":
        try:
            listed = listed_symbols()
        except NotFound as error:  # an archive without funding has no list of symbols
            transport.notify(endpoint.path, f"other contracts of the coins are unknown: {error}")
            listed = []
        contracts: dict[str, None] = {}  # in order and without duplicates
        for symbol in symbols:
            contracts |= dict.fromkeys(_contracts(symbol, listed) or [symbol])
        return list(contracts)
    suspects = list(filter(_has_several_contracts, symbols))
    if suspects:
        try:
            listed = listed_symbols()
        except DerivdataError:  # the list is not available at this tier, in this recording or in this archive
            return list(symbols)
        for symbol in suspects:
            others = [name for name in _contracts(symbol, listed) if name not in symbols]
            if others:
                transport.notify(
                    endpoint.path,
                    f"{symbol} is also traded as {', '.join(others)}, which are other symbols: by='coin' "
                    "returns them too, and dd.panel(table, by='coin') joins them",
                )
    return list(symbols)


_MINUTE = pd.Timedelta(1, "min")
_DAY = pd.Timedelta(1, "D")
_CAP_DAYS = 90


def rolling(endpoint: Endpoint, window: times.TimeLike | None) -> str | None:
    """Return the endpoint's ``range`` for a window that ends now: the shortest choice that contains it."""
    choices = next(p.choices for p in endpoint.params if p.name == "range")
    if window is None or (isinstance(window, str) and window in choices):
        return window
    length = times.lookback(window)
    if length is None:
        try:
            length = times.asof() - times.timestamp(window, "window")
        except ValueError:  # the service rejects text that is neither a lookback nor a time
            return str(window)
    lengths = {name: times.lookback(name) or pd.Timedelta.max for name in choices}
    sufficient = [name for name in choices if lengths[name] >= length]
    if not sufficient:
        if isinstance(window, str):
            return window
        return f"{-(-length // _DAY)}d"
    shortest = min(sufficient, key=lengths.__getitem__)
    if lengths[shortest] != length:
        transport.notify(
            endpoint.path,
            f"window={window!s} is not available, range={shortest} is used; available: {', '.join(choices)}",
        )
    return shortest


def days_back(window: times.Window, *, spare: pd.Timedelta = _MINUTE) -> str:
    """Return the rolling range in whole days, ending now, that contains a window.

    `asof` is floored to the minute and the service counts from its own second: the window is extended by
    `spare`, but not beyond 90 days, the maximum below Pro.
    """
    now = times.asof()
    if window.start >= now:
        shown = f"the window from start {times.iso(window.start)} to end {times.iso(window.end)}"
        raise ValueError(f"{shown} must begin before dd.asof(), {times.iso(now)}")
    # Negative lengths make floor division round the days up.
    exact_days = -((window.start - now) // _DAY)
    if exact_days == _CAP_DAYS:
        return f"{exact_days}d"
    days = -((window.start - now - spare) // _DAY)
    return f"{days}d"
