"""Sums over the symbols of each venue over time, a day at a time so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from derivdata.service.buckets import length
from derivdata.service.view import Series, View
from derivdata.service.window import Window, adaptive

__all__ = ["cut", "totals"]

_DAY = pd.Timedelta(1, "D")
_COLUMNS = ["exchange", "time", "value", "symbol_count"]


def cut(window: Window, each: pd.Timedelta) -> list[Window]:
    """Cut a window into parts of whole days, at the same midnights whatever its start.

    Each keeps the length that the whole was asked for.
    """
    first = window.start.floor(each)
    count = max(-((first - window.end) // each), 0)
    starts = [first + n * each for n in range(count)]
    return [window._replace(start=max(s, window.start), end=min(s + each, window.end)) for s in starts]


def totals(
    view: View,
    table: str,
    value: str,
    window: Window,
    resolution: str | None,
    *,
    exchanges: Sequence[str] | None = None,
    added: bool = False,
) -> Series:
    """Add up and count the symbols of every venue and step.

    All days are at one resolution: the finest of those that single days would be at.

    Returns
    -------
    Series
        Its frame has exchange (text), time, value, symbol_count; sorted by time and venue.
    """

    def made(day: Window, used: str | None = None) -> Series:
        key = f"{table} {resolution} {used} {day.start} {day.end} {window.requested} {exchanges}"
        ask = partial(view.series, table, value, day, resolution, exchanges=exchanges, added=added, used=used)
        return view.once(key, lambda: _summed(ask(), value))

    days = cut(window, _DAY)
    parts = [made(day) for day in days]
    held = {part.used for part in parts if len(part.frame) or part.notices}
    finest = min(held, key=length, default=resolution or adaptive(window.requested))
    parts = [
        part if part.used == finest else made(day, finest) for day, part in zip(days, parts, strict=True)
    ]
    found = [part.frame for part in parts if len(part.frame)]
    whole = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=_COLUMNS)
    return Series(whole, finest, list(dict.fromkeys(n for part in parts for n in part.notices)))


def _summed(series: Series, value: str) -> Series:
    frame = series.frame
    venue = pd.Categorical(frame["exchange"])
    codes, times = pd.factorize(frame["time"], sort=True)
    cell = codes * len(venue.categories) + venue.codes
    size = len(times) * len(venue.categories)
    count = np.bincount(cell, minlength=size)
    total = np.bincount(cell, frame[value].to_numpy(), minlength=size)
    seen = np.flatnonzero(count)
    place, which = np.divmod(seen, max(len(venue.categories), 1))
    columns = [np.asarray(venue.categories, dtype=object)[which], times.take(place), total[seen], count[seen]]
    return series._replace(frame=pd.DataFrame(dict(zip(_COLUMNS, columns, strict=True))))
