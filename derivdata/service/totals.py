"""Sums over the symbols of each venue over time, a day at a time so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from derivdata.service.span import Span
from derivdata.service.view import View

__all__ = ["cut", "totals"]

_DAY = pd.Timedelta(1, "D")
_COLUMNS = ["exchange", "time", "value", "symbol_count"]


def cut(span: Span, length: pd.Timedelta) -> list[Span]:
    """The window in parts of whole days, cut at the same midnights whatever its start.

    Each keeps the length that the whole was asked for.
    """
    first = span.start.floor(length)
    count = max(-((first - span.end) // length), 0)
    starts = [first + n * length for n in range(count)]
    return [span._replace(start=max(s, span.start), end=min(s + length, span.end)) for s in starts]


def totals(
    view: View,
    table: str,
    value: str,
    span: Span,
    resolution: str | None,
    *,
    exchanges: Sequence[str] | None = None,
    added: bool = False,
) -> tuple[pd.DataFrame, str]:
    """Sum and number of symbols of every venue and step, and the resolution that was used.

    Returns
    -------
    DataFrame
        exchange (text), time, value, symbol_count; sorted by time and venue.
    """
    parts, used = [], resolution or ""
    for day in cut(span, _DAY):
        key = f"{table} {resolution} {day.start} {day.end} {span.asked} {exchanges}"
        part, used = view.once(key, partial(_day, view, table, value, day, resolution, exchanges, added))
        parts.append(part)
    if not parts:
        _, used = view.series(table, value, span, resolution, exchanges=exchanges, added=added)
    found = [p for p in parts if len(p)]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=_COLUMNS), used


def _day(
    view: View,
    table: str,
    value: str,
    span: Span,
    resolution: str | None,
    exchanges: Sequence[str] | None,
    added: bool,
) -> tuple[pd.DataFrame, str]:
    frame, used = view.series(table, value, span, resolution, exchanges=exchanges, added=added)
    venue = pd.Categorical(frame["exchange"])
    codes, times = pd.factorize(frame["time"], sort=True)
    cell = codes * len(venue.categories) + venue.codes
    size = len(times) * len(venue.categories)
    count = np.bincount(cell, minlength=size)
    total = np.bincount(cell, frame[value].to_numpy(), minlength=size)
    seen = np.flatnonzero(count)
    place, which = np.divmod(seen, max(len(venue.categories), 1))
    columns = [np.asarray(venue.categories, dtype=object)[which], times.take(place), total[seen], count[seen]]
    return pd.DataFrame(dict(zip(_COLUMNS, columns, strict=True))), used
