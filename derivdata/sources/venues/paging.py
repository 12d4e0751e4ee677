"""Paging through histories: choose the next page from the content of the last one.

A walk never counts pages and never steps by an assumed interval. It ends when a page is empty or brings no
row beyond the last. Pages overlap by the row at their edge, which is written once: so an edge may be
inclusive or not, and rows that share an instant are not lost. A full page that brings nothing new, and a page
that is the one before, end a walk with a `SchemaError`: the venue did not answer the question.
"""

from __future__ import annotations

from collections.abc import Generator

import pandas as pd

from derivdata.errors import SchemaError
from derivdata.sources.venues.endpoint import Paging
from derivdata.sources.venues.record_types import Records

_UNITS_US = {"ms": 1_000, "s": 1_000_000, "ns": 1, "iso": 1_000}
"""Microseconds between two pages; nanoseconds are requested in whole microseconds."""


def walk(paging: Paging | None, start: int, end: int) -> Generator[dict[str, str], Records, None]:
    """Yield the parameters of each page of a window [µs]; send the content of the page.

    Examples
    --------
    >>> steps = walk(Paging(limit=2), 0, 3_600_000_000)
    >>> next(steps)
    {'limit': '2', 'startTime': '0', 'endTime': '3600000'}
    """
    if paging is None:
        yield {}
    elif paging.by == "time":
        span = None if paging.span_hours is None else int(paging.span_hours * 3_600_000_000)
        yield from (_backward if paging.descending else _forward)(paging, start, end, span)
    else:
        yield from _numbered(paging, start, end)


def _forward(
    paging: Paging, start: int, end: int, span: int | None
) -> Generator[dict[str, str], Records, None]:
    while start < end:
        last = end if span is None else min(end, start + span)
        page = yield _params(paging, start, last)
        newest = max(page.times, default=start)
        if newest > start:
            start = newest
        elif paging.start and _is_full(paging, page):
            raise SchemaError("a full page brings no row after the page before")
        elif last < end:
            start = last  # nothing more in this part of the window
        else:
            return


def _backward(
    paging: Paging, start: int, end: int, span: int | None
) -> Generator[dict[str, str], Records, None]:
    unit = _UNITS_US[paging.unit]
    while start < end:
        first = start if span is None else max(start, end - span)
        last = end
        while True:
            page = yield _params(paging, first, last)
            oldest = min(page.times, default=last) + (unit if paging.exclusive else 0)
            if oldest >= last and paging.end and not paging.thinned and _is_full(paging, page):
                raise SchemaError("a full page brings no row before the page before")
            if paging.thinned or oldest >= last or oldest <= first:
                break
            last = oldest
        end = first


def _numbered(paging: Paging, start: int, end: int) -> Generator[dict[str, str], Records, None]:
    number = 1
    cursor = "1" if paging.by == "page" else ""
    seen: set[str] = set()
    before = Records()
    while True:
        params = _params(paging, start, end)
        page = yield {**params, **({paging.cursor: cursor} if cursor else {})}
        if page.times and page.times == before.times and _is_full(paging, page):
            raise SchemaError("a page is the one before once more")
        before = page
        if not page.times and paging.descending:
            return
        if page.times and min(page.times) < start:
            return
        number += 1
        cursor = str(number) if paging.by == "page" else page.cursor or ""
        if not cursor or cursor in seen:
            return
        seen.add(cursor)


def _is_full(paging: Paging, page: Records) -> bool:
    """Whether a page has as many rows as it may have: there are more, so that it cannot be the last."""
    return 0 < paging.limit <= len(page.times)


def _params(paging: Paging, start: int, end: int) -> dict[str, str]:
    params = {paging.limit_name: str(paging.limit)} if paging.limit_name and paging.limit else {}
    for name, instant in ((paging.start, start), (paging.end, end)):
        if name:
            params[name] = _written(paging, instant)
    return params


def _written(paging: Paging, instant: int) -> str:
    if paging.unit == "iso":
        stamp = pd.Timestamp(instant, unit="us", tz="UTC")
        return f"{stamp:%Y-%m-%dT%H:%M:%S}.{instant // 1000 % 1000:03}Z"
    if paging.unit == "ns":
        return str(instant * 1000)
    return str(instant // _UNITS_US[paging.unit])
