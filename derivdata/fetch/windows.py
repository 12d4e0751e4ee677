"""What the families' histories share: lists of names, windows cut to answers of bearable size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from derivdata import times, transport
from derivdata.api import Endpoint
from derivdata.errors import SchemaError
from derivdata.transport import Answer

T = TypeVar("T")

_ROWS_PER_ANSWER = 250_000
"""Points of some 75 bytes each: about 20 MB."""

_VENUES = 50
_RAW_STEP = pd.Timedelta(1, "min")


def names(value: str | Sequence[str], argument: str) -> list[str]:
    """A list of names from one name or several.

    Raises
    ------
    TypeError, ValueError
        Something is not text, the list is empty, or a name stands twice.
    """
    found = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) and name for name in found):
        raise TypeError(f"{argument} must be a name or a list of names, not {value!r}")
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{argument} must name at least one, and each once: {found!r}")
    return found


def pieces(
    window: times.Window, resolution: str | None, exchanges: str | Sequence[str] | None
) -> list[times.Window]:
    """The window as spans that one answer each can carry.

    Cuts lie on multiples of the span since 1970, so that overlapping windows share their pieces in the
    cache. A window whose resolution the server chooses is never cut: that would change the choice.
    """
    if resolution is None:
        return [window]
    step = times.resolution(resolution) or _RAW_STEP
    venues = _VENUES if exchanges is None or exchanges == "all" else len(names(exchanges, "exchanges"))
    span = step * (_ROWS_PER_ANSWER // venues)
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
    """One answer for each set of parameters and each span."""
    queries = [{**one, "start": span.start, "end": span.end} for one in each for span in spans]
    return transport.get_each(endpoint, queries, into=into, until=[q["end"] for q in queries])


def inside(answer: Answer[Any], stamps: pd.DatetimeIndex) -> np.ndarray[Any, Any]:
    """Which instants lie in the half-open window that the answer was asked for.

    The document does not say whether ``end`` is part of the range; a point on the cut of two pieces
    would otherwise come twice.
    """
    query = dict(answer.request.query)
    return within(times.Window(times.instant(query["start"]), times.instant(query["end"])), stamps)


def within(window: times.Window, stamps: pd.DatetimeIndex) -> np.ndarray[Any, Any]:
    """Which instants lie in a half-open window."""
    micros = stamps.as_unit("us").asi8
    start, end = (bound.as_unit("us").asm8.view(np.int64) for bound in window)
    return np.asarray((micros >= start) & (micros < end))


def days_back(window: times.Window) -> str:
    """The rolling range in whole days, ending now, that holds a window."""
    return f"{-((window.start - times.asof()) // pd.Timedelta(1, 'D'))}d"


def rows_inside(answer: Answer[Any], rows: Sequence[Any]) -> tuple[list[Any], pd.DatetimeIndex]:
    """Rows of the window that was asked for, and their instants; ``t`` stands in for ``timestamp``."""
    stamps = times.parse([row.timestamp or row.t for row in rows])
    kept = np.flatnonzero(inside(answer, stamps))
    return [rows[int(i)] for i in kept], stamps[kept]


def wide_rows(
    answer: Answer[Any], rows: Sequence[Mapping[str, Any]], exchange: str, value: str
) -> dict[str, Any]:
    """Columns of rows that hold one field per symbol beside their ``timestamp``; null is no row.

    Raises
    ------
    SchemaError
        A row has no ``timestamp``, or a symbol's value is no number.
    """
    path = answer.request.path
    if not all(isinstance(row.get("timestamp", row.get("t")), str) for row in rows):
        raise SchemaError(f"{path}: a row has no timestamp; see the answer with dd.raw({path!r}, ...)")
    stamps = times.parse([row.get("timestamp", row.get("t")) for row in rows])
    cells = [
        (stamp, symbol, number)
        for stamp, row, kept in zip(stamps, rows, inside(answer, stamps), strict=True)
        for symbol, number in row.items()
        if kept and number is not None and symbol not in ("timestamp", "t")
    ]
    return {
        "symbol": [symbol for _, symbol, _ in cells],
        "exchange": [exchange] * len(cells),
        "timestamp": pd.DatetimeIndex([stamp for stamp, _, _ in cells], dtype=stamps.dtype),
        value: [number for _, _, number in cells],
    }
