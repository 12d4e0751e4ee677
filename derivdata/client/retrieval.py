"""From requests to a table: windows are cut into requests, answers are checked and become one table.

`tabulate` is how each fetcher makes its table. It checks an answer against `rules.RULES` as soon as its
columns are there: a contradiction or an impossible figure is a `SchemaError`, and the answer is removed from
the cache; what is unlikely is a `DataNotice`, which stays in the provenance.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import pandas as pd

from derivdata.client import transport
from derivdata.client.reading import HOUR_US, CheckedAnswer
from derivdata.client.rules import check
from derivdata.client.transport import Answer, progress
from derivdata.errors import DerivdataError, NotFound, SchemaError, TierError
from derivdata.support import times
from derivdata.support.text import nearest_symbols
from derivdata.tables import endpoints
from derivdata.tables.coins import other_tickers
from derivdata.tables.contracts import BUNDLED_COINS, base, symbol_of, venue_of
from derivdata.tables.endpoints import Endpoint
from derivdata.tables.history_rows import PAYMENTS, SPARSE, RequestedWindow, missing_row_sentences
from derivdata.tables.schema import Table
from derivdata.tables.venue_facts import FACTS

By: TypeAlias = Literal["symbol", "coin"]
"""Whether to request symbols as they are, or all contracts of their coins: ``PEPE`` is also ``1000PEPE``."""

T = TypeVar("T")

_HOURLY = ("options_atm_history", "options_surface_history", "options_overview_history")
"""Tables with a row an hour, whose responses state no resolution."""
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
"""Size of a row by path, as the local service writes it; others take some 75 bytes."""

_POINT_BYTES = 75
_VENUES = 50
"""Most venues that an answer about all of them is taken to hold."""

_RAW_STEP = pd.Timedelta(1, "min")
_MISSING_ROWS = "missing rows"
"""Name of the comparison with the window, among the rules that run again."""
_NO_DATA = re.compile(r"\bno (data|options)\b", re.IGNORECASE)


class _Listed(msgspec.Struct):
    symbols: list[str]


def names(value: str | Sequence[str], argument: str) -> list[str]:
    """Return a list of names from one name or several."""
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(name, str) and name for name in listed):
        raise TypeError(f"{argument} must be a name or a list of names, not {value!r}")
    if any("," in name for name in listed):
        separate = [name.strip() for text in listed for name in text.split(",")]
        raise ValueError(f"{argument}={value!r} has several names in one text: pass a list, {separate!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must name at least one, and each once: {listed!r}")
    return listed


def symbol_names(value: str | Sequence[str], argument: str = "symbols") -> list[str]:
    """Return the base symbols of one name or several."""
    return names([symbol_of(name) for name in names(value, argument)], argument)


def symbol_filter(value: str | Sequence[str] | None, argument: str = "symbols") -> list[str] | None:
    """Return the base symbols of a filter; None is no filter."""
    return None if value is None else symbol_names(value, argument)


def venue_names(value: Any, argument: str = "venues") -> Any:
    """Return the slugs of one venue or several; None, and what is no text, is the endpoint's to check."""
    if value is None:
        return None
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, Iterable):
        return value
    return [venue_of(name, argument) if isinstance(name, str) else name for name in listed]


def pieces(
    endpoint: Endpoint,
    window: times.Window,
    resolution: times.Resolution | None,
    venues: str | Sequence[str] | None,
) -> list[times.Window]:
    """Cut the window into spans that one answer each can carry.

    Cuts lie on multiples of the span since 1970, so that overlapping windows share their pieces in the
    cache. A window whose resolution the server chooses is never cut: that would change the choice.
    """
    if resolution is None:
        return [window]
    listed = venues.split(",") if isinstance(venues, str) else venues
    count = _VENUES if listed is None or "all" in listed else max(len(set(listed)), 1)
    step = times.RESOLUTIONS.get(resolution, _RAW_STEP)
    step_bytes = _ROW_BYTES.get(endpoint.path, _POINT_BYTES) * count
    return cut(window, step * (_BYTES_PER_ANSWER // step_bytes))


def cut(window: times.Window, span: pd.Timedelta) -> list[times.Window]:
    """Cut the window at multiples of `span` since 1970."""
    epoch = pd.Timestamp(0, tz="UTC").as_unit("us")
    first = (window.start - epoch) // span + 1
    last = -((epoch - window.end) // span)
    cuts = [window.start, *(epoch + span * n for n in range(int(first), int(last))), window.end]
    return [times.Window(a, b) for a, b in pairwise(cuts) if a < b]


def get_windows(
    endpoint: Endpoint,
    each: Sequence[Mapping[str, Any]],
    spans: Sequence[times.Window],
    into: type[T],
) -> Iterator[Answer[T]]:
    """Yield the answers to each set of parameters over the spans, the newest span first.

    A span that the key's tier does not cover is left out with a `DataNotice`, and so are those before it,
    where a newer one answers. A notice of no data is given only if no part has any.
    """
    if len(spans) == 1:
        # One request each, as one series: where no rate limit stands several are then under way at a time.
        queries = [{**one, "start": spans[0].start, "end": spans[0].end} for one in each]
        for answer in transport.get_each(endpoint, queries, into=into, until=spans[0].end, quiet=True):
            for notice in _notify_others(answer):
                transport.notify(answer.request, notice)
            yield answer
        return
    for one in progress(each, total=len(each), label=endpoint.path):
        yield from _covered(endpoint, one, spans, into)


def _covered(
    endpoint: Endpoint, one: Mapping[str, Any], spans: Sequence[times.Window], into: type[T]
) -> Iterator[Answer[T]]:
    queries = [{**one, "start": span.start, "end": span.end} for span in reversed(spans)]
    answers = transport.get_each(endpoint, queries, into=into, until=[q["end"] for q in queries], quiet=True)
    empty: list[tuple[endpoints.Request, str]] = []
    count = 0
    try:
        for answer in answers:
            count += 1
            empty += [(answer.request, notice) for notice in _notify_others(answer)]
            yield answer
    except TierError as error:
        if not count:
            raise
        end = queries[count]["end"]
        transport.notify(error.path, f"left out {times.iso(spans[0].start)} to {times.iso(end)}: {error}")
    if empty and len(empty) == count:
        transport.notify(*empty[-1])


def _notify_others(answer: Answer[Any]) -> list[str]:
    """Notify what an answer says except that it has no data; return the first word of that, if any."""
    without = [notice for notice in answer.notices if _NO_DATA.search(notice)]
    for notice in answer.notices:
        if notice not in without:
            transport.notify(answer.request, notice)
    return without[:1]


def tabulate(
    table: Table,
    answers: Iterable[Answer[T]],
    columns: Callable[[Answer[T]], Mapping[str, Any]],
    *,
    within: times.Window | None = None,
    listed: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the table of some answers that keep the rules, with their provenance in ``attrs``."""
    seen: list[Answer[Any]] = []
    readings: list[Reading] = []
    facts: dict[str, Any] = {}
    for answer in answers:
        reading = read_columns(table, answer, columns, within=within)
        for notice in reading.notices:
            if not any(notice in earlier.notices for earlier in seen):
                transport.notify(answer.request, notice)
        notices = (*answer.notices, *reading.notices)
        seen.append(replace(answer, body=None, notices=notices))  # type: ignore[arg-type]
        readings.append(reading)
        facts |= reading.facts
    parts = [reading.columns for reading in readings]
    incomplete = _notify_missing(table, seen, readings, is_cut=within is not None)
    _notify_empty(seen, parts)
    _require_listed(seen, listed, parts)
    try:
        frame = table.frame(table.joined(parts))
    except SchemaError:
        for answer in seen:
            transport.SESSION.forget(answer.request)
        raise
    for place, (answer, reading) in enumerate(zip(seen, readings, strict=True)):
        keep_passed(answer, reading, is_complete=place not in incomplete)
    provenance = transport.provenance(seen)
    provenance.update(facts)
    frame.attrs["provenance"] = provenance
    return frame


class Reading(NamedTuple):
    """Typed columns of a response that keeps the rules, and what the checks said about it."""

    columns: dict[str, Any]
    notices: list[str]
    facts: dict[str, Any]  # for the provenance
    window: RequestedWindow | None  # with which the rows are compared
    reader: str  # who read it; empty if not only the response decides about the columns
    effective: list[str]  # rules that gave a notice or changed rows
    passed: Sequence[str] | None  # the same of an earlier reading, None of the first


def read_columns(
    table: Table,
    answer: Answer[T],
    columns: Callable[[Answer[T]], Mapping[str, Any]],
    *,
    within: times.Window | None = None,
) -> Reading:
    """Read and check the columns of a response; one from the cache that has passed is not checked again."""
    reader = _reader_name(table, columns)
    passed = answer.passed.get(reader)
    try:
        raw = columns(answer)
        evidence = CheckedAnswer(answer, table, table.typed(raw), raw)
        notices = check(evidence, passed)
    except SchemaError:
        transport.SESSION.forget(answer.request)
        raise
    if within is not None:
        start, end = map(times.us, within)
        stamps = evidence.columns["time"].asi8
        evidence.keep((stamps >= start) & (stamps < end))
    window = _requested_window(evidence, within)
    return Reading(evidence.columns, notices, evidence.facts, window, reader, evidence.effective, passed)


def keep_passed(answer: Answer[Any], reading: Reading, *, is_complete: bool) -> None:
    """Note in the cache which checks a response passed; `is_complete` says that no row was missing."""
    if not reading.reader:
        return
    rules = [*reading.effective]
    if not is_complete:
        rules.append(_MISSING_ROWS)
    if reading.passed is None or (is_complete and _MISSING_ROWS in reading.passed):
        transport.SESSION.keep_passed(answer, reading.reader, rules)


def _reader_name(table: Table, columns: Callable[..., Any]) -> str:
    """Return a name for a table and the function that reads its columns; empty if more decides about them.

    What a response holds and who reads it decide whether rules are broken. Filters of a fetcher that the
    request does not state are text in a `partial`.
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
    place = f"{columns.__module__}:{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name}"
    return " ".join([table.name, f"{place}:{code.co_firstlineno}", *words])


def _requested_window(e: CheckedAnswer, within: times.Window | None) -> RequestedWindow | None:
    """Return the window that a response is about; None where its table has no regular rows in a window."""
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
        late = _PAID_LATE_US if name == PAYMENTS else 0
        end = min(end, e.as_of_us - late)
    step = e.step_us if is_stated else HOUR_US
    is_hosted = e.endpoint is not None and not e.endpoint.local
    return RequestedWindow(start, end, step, is_hosted) if start < end else None


def _notify_missing(
    table: Table, seen: list[Answer[Any]], readings: Sequence[Reading], *, is_cut: bool
) -> set[int]:
    """Warn of rows that the requested windows lack, with the newest response to each question.

    `is_cut` says that rows outside of a narrower window were removed.

    Returns
    -------
    set
        Places of the responses that lack rows, or of which only several together show whether rows miss.
    """
    questions: dict[tuple[Any, ...], list[int]] = {}
    for place, (answer, reading) in enumerate(zip(seen, readings, strict=True)):
        window = reading.window
        if window is None:
            continue
        parameters = tuple(pair for pair in answer.request.query if pair[0] not in ("start", "end"))
        questions.setdefault((answer.request.path, parameters, window.step), []).append(place)
    incomplete: set[int] = set()
    for places in questions.values():
        chosen = [readings[place].columns for place in places]
        answer = seen[places[0]]
        missing = _absent_venues(answer, chosen)
        if is_cut or not _is_known_complete([readings[place] for place in places]):
            spans = [window for place in places if (window := readings[place].window) is not None]
            span = spans[0]._replace(start=min(w.start for w in spans), end=max(w.end for w in spans))
            missing += missing_row_sentences(table, chosen, span)
        for notice in missing:
            answer = replace(answer, notices=(*answer.notices, notice))
            transport.notify(answer.request, notice)
        seen[places[0]] = answer
        if missing or is_cut or len(places) > 1:
            incomplete.update(places)
    return incomplete


def _is_known_complete(readings: Sequence[Reading]) -> bool:
    """Return whether a question has one response, which lacked no row when it was read before."""
    passed = readings[0].passed
    return len(readings) == 1 and passed is not None and _MISSING_ROWS not in passed


def _absent_venues(answer: Answer[Any], parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the requested venues without a row, where others have rows."""
    query = dict(answer.request.query)
    requested = query.get("exchanges", "all").split(",")
    if "all" in requested:
        return []
    columns = [part["exchange"] for part in parts if "exchange" in part]
    present = {name for values in columns for name in pd.unique(values)}
    if not present:
        return []
    absent = sorted({*requested} - present)
    return (
        [f"{', '.join(absent)}: no rows in the window of {len(requested)} requested venues"] if absent else []
    )


def _notify_empty(seen: list[Answer[Any]], parts: Sequence[Mapping[str, Any]]) -> None:
    """Warn once for each question over a window whose answers have no rows and no notice that says why."""
    sizes: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    last: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for place, (answer, part) in enumerate(zip(seen, parts, strict=True)):
        request = answer.request
        if not {"start", "range"} & dict(request.query).keys():
            continue
        question = request.path, tuple(pair for pair in request.query if pair[0] not in ("start", "end"))
        rows = len(next(iter(part.values()))) + len(answer.notices)
        sizes[question] = sizes.get(question, 0) + rows
        last[question] = place
    for question, size in sizes.items():
        if not size:
            answer = seen[last[question]]
            notice = "the answer has no rows, and no notice that says why"
            seen[last[question]] = replace(answer, notices=(*answer.notices, notice))
            transport.notify(answer.request, notice)


def listed_symbols() -> list[str]:
    """Return the symbols of the source's own list."""
    return transport.get(endpoints.FUNDING_METADATA, {}, into=_Listed, quiet=True).body.symbols


def _require_listed(
    seen: Sequence[Answer[Any]], symbols: Sequence[str], parts: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse symbols without rows that the source's own list lacks, where the list can be read."""
    present = {word for part in parts for word in part["symbol"].categories} if symbols else set()
    for symbol in symbols:
        if symbol in present:
            continue
        try:
            listed = listed_symbols()
        except DerivdataError:  # the tier, the recording or the archive does not have it
            return
        if listed and symbol not in listed:
            near = nearest_symbols(symbol, listed)
            raise NotFound(
                seen[0].request.path,
                f"unknown symbol {symbol!r}: it has no rows in this window, and is not among the "
                f"{len(listed)} symbols of {endpoints.FUNDING_METADATA.path}"
                + (f"; did you mean {', '.join(near)}?" if near else ""),
            )


@functools.cache
def _bundled() -> frozenset[str]:
    """Return the coins of which contracts of several coins are known."""
    stated = {base(fact.symbol)[0] for fact in FACTS if fact.fact == "multiplier"}
    return frozenset({*BUNDLED_COINS, *stated})


def _contracts(symbol: str, listed: Iterable[str]) -> list[str]:
    """Return the listed symbols that are contracts of a symbol's coin, or of one that it was renamed from."""
    coin = base(symbol)[0]
    coins = {coin, *other_tickers(coin)}
    return [name for name in listed if base(name)[0] in coins]


@functools.lru_cache(maxsize=4096)
def _has_several_contracts(symbol: str) -> bool:
    coin = base(symbol)[0]
    return coin in _bundled() or bool(other_tickers(coin))


def symbols_to_request(endpoint: Endpoint, symbols: Sequence[str], by: By) -> list[str]:
    """Return the symbols to request: with ``by="coin"`` all contracts of their coins that the source lists.

    By symbol they are the symbols given. Where the source lists other contracts of their coins, a notice
    names these.
    """
    if by == "coin":
        try:
            listed = listed_symbols()
        except NotFound as error:  # an archive without funding has no list of symbols
            transport.notify(endpoint.path, f"other contracts of the coins are not known: {error}")
            listed = []
        contracts = [_contracts(symbol, listed) or [symbol] for symbol in symbols]
        return list(dict.fromkeys(name for names in contracts for name in names))
    suspects = [symbol for symbol in symbols if _has_several_contracts(symbol)]
    if suspects:
        try:
            listed = listed_symbols()
        except DerivdataError:  # the tier, the recording or the archive does not have the list
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


def rolling(endpoint: Endpoint, window: times.Instant | None) -> str | None:
    """Return the endpoint's ``range`` for a window that ends now: the shortest known one that contains it."""
    choices = next(p.choices for p in endpoint.params if p.name == "range")
    if window is None or (isinstance(window, str) and window in choices):
        return window
    length = times.lookback(window) if isinstance(window, str) else None
    if length is None:
        try:
            length = times.asof() - times.instant(window, "window")
        except ValueError:  # text that is no lookback and no instant: the service judges it
            return str(window)
    lengths = {name: times.lookback(name) or pd.Timedelta.max for name in choices}
    holding = [name for name in choices if lengths[name] >= length]
    if not holding:
        return str(window) if isinstance(window, str) else f"{-(-length // pd.Timedelta(1, 'D'))}d"
    chosen = min(holding, key=lengths.__getitem__)
    if lengths[chosen] != length:
        transport.notify(
            endpoint.path, f"window={window!s} is answered by range={chosen}: known are {', '.join(choices)}"
        )
    return chosen


def days_back(window: times.Window, *, spare: pd.Timedelta = _MINUTE) -> str:
    """Return the rolling range in whole days, ending now, that contains a window.

    `asof` is floored to the minute and the service counts from its own second: `spare` makes up for it, but
    not beyond the 90 days that are the most below Pro.
    """
    now = times.asof()
    if window.start >= now:
        shown = f"the window from start {times.iso(window.start)} to end {times.iso(window.end)}"
        raise ValueError(f"{shown} is not before dd.asof(), {times.iso(now)}")
    exact, ample = (-((window.start - now - more) // _DAY) for more in (pd.Timedelta(0), spare))
    return f"{exact if exact == _CAP_DAYS else ample}d"
