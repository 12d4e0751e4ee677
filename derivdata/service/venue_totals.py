"""Sums over the symbols of each venue over time, made day by day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import times
from derivdata._typing import Floats, Indices
from derivdata.service import buckets
from derivdata.service.buckets import length
from derivdata.service.kept_days import DAY, cut, kept_days
from derivdata.service.view import Series, View
from derivdata.service.window import Window, adaptive

__all__ = ["totals"]

_COLUMNS = ["exchange", "time", "value", "symbol_count"]
_MOST_CELLS = 8_000_000


class _Question(NamedTuple):
    """Sums to make; `step` is the requested one, or that chosen by the length of the window."""

    table: str
    value: str
    step: str
    exchanges: tuple[str, ...] | None
    added: bool


class _Day(NamedTuple):
    """Sums of one day, sorted by time and venue, and the resolutions that had no place in them.

    `finest` is the finest step that its rows state, or the requested one where that is coarser.
    """

    time: np.ndarray[Any, Any]
    exchange: np.ndarray[Any, Any]
    value: np.ndarray[Any, Any]
    symbols: np.ndarray[Any, Any]
    finest: str
    left_out: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return sum(a.nbytes for a in (self.time, self.exchange, self.value, self.symbols)) + 1024


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
    named = None if exchanges is None else tuple(sorted(exchanges))
    question = _Question(table, value, resolution or adaptive(window.requested), named, added)
    days = cut(window, DAY)
    sums = _made(view, question, days, None)
    steps = {day.finest for day in sums if len(day.time) or day.left_out}
    finest = min(steps, key=length, default=question.step)
    if any(day.finest != finest for day in sums):
        sums = _made(view, question, days, finest)
    names = dict.fromkeys(name for day in sums for name in day.left_out)
    notices = [f"rows by {name} are left out: they are longer than buckets of {finest}" for name in names]
    return Series(_frame(sums), finest, notices)


def _frame(days: list[_Day]) -> pd.DataFrame:
    days = [day for day in days if len(day.time)]
    if not days:
        return pd.DataFrame(columns=_COLUMNS)
    time = np.concatenate([day.time for day in days]).view("M8[us]")
    columns = (
        np.concatenate([getattr(day, name) for day in days]) for name in ("exchange", "value", "symbols")
    )
    exchange, value, symbols = columns
    stamps = pd.DatetimeIndex(time).tz_localize("UTC")
    return pd.DataFrame(dict(zip(_COLUMNS, (exchange, stamps, value, symbols), strict=True)))


def _made(view: View, question: _Question, days: list[Window], used: str | None) -> list[_Day]:
    """Return the sums of every day, at the step that the day itself would have or at `used`."""
    names = ("symbol", "exchange", "time", question.value, "resolution")

    def read(window: Window) -> pd.DataFrame:
        return view.around(
            question.table, window, question.step, exchanges=question.exchanges, columns=names
        )[0]

    return kept_days(
        view,
        (question, used),
        days,
        read,
        lambda frame, block: _summed(view, question, frame, block, used),
        lambda day: day.size,
        apart=lambda frame: len(buckets.steps(frame)) > 1,  # days may differ in what their step would be
    )


def _summed(
    view: View, question: _Question, frame: pd.DataFrame, days: list[Window], used: str | None
) -> Iterator[_Day]:
    """Add up the rows around one day, or around days whose rows are all of one step."""
    whole = days[0]._replace(end=days[-1].end)
    finest = max(question.step, min(buckets.steps(frame), key=length, default=question.step), key=length)
    step = used or finest
    long: list[str] = []
    if question.added and buckets.longer(frame, step):
        long = buckets.longer(frame[buckets.ends(frame) > whole.start], step)
    rows = frame[~frame["resolution"].isin(long)] if long else frame
    sums = _regular_sums(view, question, rows, whole, step)
    if sums is None:
        rows, _ = view.around(question.table, whole, question.step, exchanges=question.exchanges)
        rows = rows[~rows["resolution"].isin(long)] if long else rows
        sums = _weighted_sums(view, question, rows, whole, step)
    time, exchange, value, count = sums
    for day in days:
        part = slice(*np.searchsorted(time, [buckets.micros(day.start), buckets.micros(day.end)]))
        yield _Day(time[part], exchange[part], value[part], count[part], finest, tuple(long))


def _weighted_sums(
    view: View, question: _Question, rows: pd.DataFrame, window: Window, step: str
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return time, venue, sum and number of symbols of each step and venue, by time and venue.

    Rows are sorted; each of them weighs as much as it holds within a step.
    """
    frame = view.combined(rows, question.value, window, step, added=question.added)
    time, values = frame["time"].array.asi8, frame[question.value].to_numpy()
    venue = pd.Categorical(frame["exchange"])
    codes, stamps = pd.factorize(time, sort=True)
    names = np.asarray(venue.categories, dtype=object)
    cell = codes * len(names) + venue.codes
    count = np.bincount(cell, minlength=len(stamps) * len(names))
    total = np.bincount(cell, values, minlength=len(stamps) * len(names))
    seen = np.flatnonzero(count)
    place, which = np.divmod(seen, max(len(names), 1))
    return np.asarray(stamps)[place], names[which], total[seen], count[seen]


def _regular_sums(
    view: View, question: _Question, rows: pd.DataFrame, window: Window, step: str
) -> tuple[np.ndarray[Any, Any], ...] | None:
    """Return what `_weighted_sums` gives where rows need no weights, from rows in any order.

    It is None where they may. Where every row states one step R, lies on its grid and ends before the
    clock, and buckets are of whole R, every row of a bucket has the same weight: means are sums over counts.
    Where the buckets are R themselves, each has one row, which is taken as it is.
    """
    names, resolution = buckets.steps(rows), times.resolution(step)
    own = times.resolution(names[0]) if len(names) == 1 else None
    if own is None or resolution is None or resolution % own != pd.Timedelta(0):
        return None
    micros, width = rows["time"].array.asi8, buckets.micros_of(own)
    if (micros % width).any():
        return None
    if own != resolution and int(micros.max()) + width > buckets.micros(view.horizon):
        return None
    venue = pd.Categorical(rows["exchange"])
    bucket = micros // buckets.micros_of(resolution)
    first = int(bucket.min())
    shape = (int(bucket.max()) - first + 1, len(venue.categories))
    if own == resolution:  # of a symbol and venue a bucket has one row, whichever symbol that is
        cell = (bucket - first) * shape[1] + venue.codes
        symbols = np.bincount(cell, minlength=shape[0] * shape[1])
        value: Floats = np.asarray(np.bincount(cell, rows[question.value], minlength=symbols.size))
    else:
        summed = _symbols_summed(rows, question, bucket - first, shape)
        if summed is None:
            return None
        symbols, value = summed
    if np.isnan(value).any():
        return None
    seen = np.flatnonzero(symbols)
    place, which = np.divmod(seen, shape[1])
    time = (place + first) * buckets.micros_of(resolution)
    inside = (time >= buckets.micros(window.start)) & (time < buckets.micros(window.end))
    exchanges = np.asarray(venue.categories, dtype=object)[which[inside]]
    return time[inside], exchanges, value[seen][inside], symbols[seen][inside]


def _symbols_summed(
    rows: pd.DataFrame, question: _Question, bucket: Indices, shape: tuple[int, int]
) -> tuple[Indices, Floats] | None:
    """Return for each bucket and venue the number of symbols and the sum over their sums or means.

    Rows that follow each other in one symbol, venue and bucket are added up first: archives are sorted by
    series, so these are most. In another order of rows it only takes longer. None: there are too many cells.
    """
    symbol, venue = (pd.Categorical(rows[name]) for name in ("symbol", "exchange"))
    cells = len(symbol.categories) * shape[0] * shape[1]
    if cells > _MOST_CELLS:
        return None
    codes = symbol.codes, bucket, venue.codes
    opens = np.ones(len(rows), dtype=bool)
    opens[1:] = False
    for each in codes:
        opens[1:] |= each[1:] != each[:-1]
    begin = np.flatnonzero(opens)
    cell = symbol.codes[begin].astype(np.intp)
    cell = (cell * shape[0] + bucket[begin]) * shape[1] + venue.codes[begin]
    count = np.bincount(cell, np.diff(begin, append=len(rows)), minlength=cells)
    total = np.bincount(cell, np.add.reduceat(rows[question.value].to_numpy(), begin), minlength=cells)
    each_symbol = (total if question.added else total / np.maximum(count, 1)).round(2)
    by_symbol = (len(symbol.categories), shape[0] * shape[1])
    return (count > 0).reshape(by_symbol).sum(axis=0), each_symbol.reshape(by_symbol).sum(axis=0)
