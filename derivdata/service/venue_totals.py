"""Sums over the symbols of each venue over time.

A window is made day by day, and each day is kept: a window that overlaps an earlier one makes the days that
are new. Days that are missing are read several at a time, as many as a block of rows holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.service import buckets, corrections
from derivdata.service.buckets import length
from derivdata.service.view import Series, View
from derivdata.service.window import Window, adaptive

__all__ = ["cut", "totals"]

_DAY = pd.Timedelta(1, "D")
_COLUMNS = ["exchange", "time", "value", "symbol_count"]
_BLOCK_ROWS = 400_000
"""Rows that are read at once, about: some 100 MiB with what is made from them."""
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


def cut(window: Window, each: pd.Timedelta) -> list[Window]:
    """Cut a window into parts of whole days, at the same midnights whatever its start.

    Each keeps the length that was requested of the whole.
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
    named = None if exchanges is None else tuple(sorted(exchanges))
    question = _Question(table, value, resolution or adaptive(window.requested), named, added)
    days = cut(window, _DAY)
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
    keys = [(question, used, day.start, day.end) for day in days]
    sums = {key: view.recall(key) for key in keys}
    missing = [day for day, key in zip(days, keys, strict=True) if sums[key] is None]
    for run in _runs(missing):
        for day, made, noted in _run(view, question, run, used):
            key = (question, used, day.start, day.end)
            sums[key] = made
            view.remember(key, made, made.size, noted)  # now: the next block may be cancelled
    return [sums[key] for key in keys]


def _runs(days: list[Window]) -> list[list[Window]]:
    """Days that follow each other, together."""
    runs: list[list[Window]] = []
    for day in days:
        if runs and runs[-1][-1].end == day.start:
            runs[-1].append(day)
        else:
            runs.append([day])
    return runs


def _run(
    view: View, question: _Question, days: list[Window], used: str | None
) -> Iterator[tuple[Window, _Day, list[str]]]:
    """Make days that follow each other, as many at once as a block holds by what the ones before had.

    Each comes with the corrections of the rows that it was made of.
    """
    place, together = 0, 1
    while place < len(days):
        block = days[place : place + together]
        frame, noted = _read(view, question, block)
        # Days of several steps differ in what their step would be, and corrections may be of some days alone.
        apart = len(block) > 1 and (bool(noted) or frame["resolution"].nunique() > 1)
        for part in [[day] for day in block] if apart else [block]:
            rows, own = _read(view, question, part) if apart else (frame, noted)
            for day, made in _summed(view, question, rows, part, used):
                yield day, made, own
        place += len(block)
        fitting = int(_BLOCK_ROWS * len(block) / max(len(frame), 1))
        together = 1 if noted else max(min(fitting, 2 * together, 32), 1)


def _read(view: View, question: _Question, days: list[Window]) -> tuple[pd.DataFrame, list[str]]:
    """Read the rows around days that follow each other, and their corrections."""
    whole = days[0]._replace(end=days[-1].end)
    with corrections.noted() as noted:
        frame, _ = view.around(question.table, whole, question.step, exchanges=question.exchanges)
    return frame, noted


def _summed(
    view: View, question: _Question, frame: pd.DataFrame, days: list[Window], used: str | None
) -> Iterator[tuple[Window, _Day]]:
    """Add up the rows around one day, or around days whose rows are all of one step."""
    whole = days[0]._replace(end=days[-1].end)
    stated = map(str, frame["resolution"].unique())
    finest = max(question.step, min(stated, key=length, default=question.step), key=length)
    step = used or finest
    long = buckets.longer(frame[buckets.ends(frame) > whole.start], step) if question.added else []
    rows = frame[~frame["resolution"].isin(long)] if long else frame
    time, exchange, value, count = _cells(view, question, rows, whole, step)
    for day in days:
        part = slice(*np.searchsorted(time, [buckets.micros(day.start), buckets.micros(day.end)]))
        yield day, _Day(time[part], exchange[part], value[part], count[part], finest, tuple(long))


def _cells(
    view: View, question: _Question, rows: pd.DataFrame, window: Window, step: str
) -> tuple[np.ndarray[Any, Any], ...]:
    """Time, venue, sum and number of symbols of every step and venue that has any, by time and venue."""
    regular = _regular(view, question, rows, window, step)
    if regular is None:
        frame = view.combined(rows, question.value, window, step, added=question.added)
        time, values = frame["time"].array.asi8, frame[question.value].to_numpy()
        venue = pd.Categorical(frame["exchange"])
    else:
        time, venue, values = regular
    codes, stamps = pd.factorize(time, sort=True)
    names = np.asarray(venue.categories, dtype=object)
    cell = codes * len(names) + venue.codes
    count = np.bincount(cell, minlength=len(stamps) * len(names))
    total = np.bincount(cell, values, minlength=len(stamps) * len(names))
    seen = np.flatnonzero(count)
    place, which = np.divmod(seen, max(len(names), 1))
    return np.asarray(stamps)[place], names[which], total[seen], count[seen]


def _regular(
    view: View, question: _Question, rows: pd.DataFrame, window: Window, step: str
) -> tuple[Any, Any, Any] | None:
    """Return what `View.combined` gives where rows need no weights, without sorting.

    It is None where they may. Where every row states one step R, lies on its grid and ends before the
    clock, and buckets are of whole R, every row of a bucket has the same weight: means are sums over counts.
    """
    names, resolution = rows["resolution"].unique(), times.resolution(step)
    own = times.resolution(str(names[0])) if len(names) == 1 else None
    if own is None or resolution is None or own == resolution or resolution % own != pd.Timedelta(0):
        return None
    micros, width = rows["time"].array.asi8, buckets.micros_of(own)
    late = micros + width > buckets.micros(view.horizon)
    if (micros % width).any() or late.any():
        return None
    symbol, venue = (pd.Categorical(rows[name]) for name in ("symbol", "exchange"))
    bucket = micros // buckets.micros_of(resolution)
    first = int(bucket.min())
    shape = (len(symbol.categories), len(venue.categories), int(bucket.max()) - first + 1)
    values = rows[question.value].to_numpy()
    if np.prod(shape, dtype=float) > _MOST_CELLS or np.isnan(values).any():
        return None
    cell = (symbol.codes.astype(np.int64) * shape[1] + venue.codes) * shape[2] + (bucket - first)
    count = np.bincount(cell, minlength=int(np.prod(shape)))
    total = np.bincount(cell, values, minlength=count.size)
    seen = np.flatnonzero(count)
    result = total[seen] if question.added else total[seen] / count[seen]
    time = (seen % shape[2] + first) * buckets.micros_of(resolution)
    inside = (time >= buckets.micros(window.start)) & (time < buckets.micros(window.end))
    codes = (seen // shape[2] % shape[1])[inside]
    return time[inside], pd.Categorical.from_codes(codes, venue.categories), result.round(2)[inside]
