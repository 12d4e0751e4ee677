"""What the families' histories share: lists of names, windows cut to answers of bearable size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import pandas as pd

from derivdata import api, times, transport
from derivdata.api import Endpoint
from derivdata.errors import TierError
from derivdata.fetch.naming import names
from derivdata.fetch.validation import instants
from derivdata.transport import Answer, progress

T = TypeVar("T")

_BYTES_PER_ANSWER = 18_750_000
_ROW_BYTES = {
    api.FUNDING_SETTLEMENT.path: 100,
    api.OI_TIMESERIES.path: 95,
    api.VOLUME_TIMESERIES.path: 95,
    api.OI_EXCHANGE_TOTALS.path: 120,
    api.VOLUME_EXCHANGE_TOTALS.path: 120,
    api.VOLUME_OI_RATIO.path: 120,
    api.ORDERBOOK_DEPTH_HISTORY.path: 320,
}
"""Size of a row by path, as the local service writes it; others take some 75 bytes."""

_POINT_BYTES = 75
_VENUES = 50
_RAW_STEP = pd.Timedelta(1, "min")
_MINUTE = pd.Timedelta(1, "min")
_DAY = pd.Timedelta(1, "D")
_CAP_DAYS = 90
_NO_DATA = re.compile(r"\bno (data|options)\b", re.IGNORECASE)


def pieces(
    endpoint: Endpoint,
    window: times.Window,
    resolution: str | None,
    exchanges: str | Sequence[str] | None,
) -> list[times.Window]:
    """Cut the window into spans that one answer each can carry.

    Cuts lie on multiples of the span since 1970, so that overlapping windows share their pieces in the
    cache. A window whose resolution the server chooses is never cut: that would change the choice.
    """
    if resolution is None:
        return [window]
    step = times.resolution(resolution) or _RAW_STEP
    step_bytes = _ROW_BYTES.get(endpoint.path, _POINT_BYTES) * _venues(exchanges)
    return cut(window, step * (_BYTES_PER_ANSWER // step_bytes))


def cut(window: times.Window, span: pd.Timedelta) -> list[times.Window]:
    """Cut the window at multiples of `span` since 1970."""
    epoch = pd.Timestamp(0, tz="UTC").as_unit("us")
    first, last = (window.start - epoch) // span + 1, -((epoch - window.end) // span)
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

    Raises
    ------
    TierError
        Not even the newest span is covered; and whatever `transport.get_each` raises.
    """
    if len(spans) == 1:
        # One request each, as one series: where no rate limit stands several are then under way at a time.
        queries = [{**one, "start": spans[0].start, "end": spans[0].end} for one in each]
        for answer in transport.get_each(endpoint, queries, into=into, until=spans[0].end, quiet=True):
            without = [notice for notice in answer.notices if _NO_DATA.search(notice)]
            for notice in [n for n in answer.notices if n not in without] + without[:1]:
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
    empty: list[tuple[api.Request, str]] = []
    count = 0
    try:
        for answer in answers:
            count += 1
            without = [notice for notice in answer.notices if _NO_DATA.search(notice)]
            empty += [(answer.request, notice) for notice in without[:1]]
            for notice in answer.notices:
                if notice not in without:
                    transport.notify(answer.request, notice)
            yield answer
    except TierError as error:
        if not count:
            raise
        end = queries[count]["end"]
        transport.notify(error.path, f"left out {times.iso(spans[0].start)} to {times.iso(end)}: {error}")
    if empty and len(empty) == count:
        transport.notify(*empty[-1])


def days_back(window: times.Window, *, spare: pd.Timedelta = _MINUTE) -> str:
    """Return the rolling range in whole days, ending now, that contains a window.

    `asof` is floored to the minute and the service counts from its own second: `spare` makes up for it, but
    not beyond the 90 days that are the most below Pro.

    Raises
    ------
    ValueError
        The window starts at the current instant or after it.
    """
    now = times.asof()
    if window.start >= now:
        raise ValueError(f"start {times.iso(window.start)} is not before dd.asof(), {times.iso(now)}")
    exact, ample = (-((window.start - now - more) // _DAY) for more in (pd.Timedelta(0), spare))
    return f"{exact if exact == _CAP_DAYS else ample}d"


def wide_rows(
    answer: Answer[Any], rows: Sequence[Mapping[str, Any]], exchange: str, value: str
) -> dict[str, Any]:
    """Return the columns of rows with one field per symbol beside ``timestamp``; null is no row.

    Raises
    ------
    SchemaError
        A row has no ``timestamp``, or a symbol's value is no number.
    """
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


def _venues(exchanges: str | Sequence[str] | None) -> int:
    """Return how many venues an answer may hold."""
    listed = exchanges.split(",") if isinstance(exchanges, str) else exchanges
    return _VENUES if listed is None or "all" in listed else len(names(listed, "exchanges"))
