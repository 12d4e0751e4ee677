"""Sums over the symbols of each venue over time, from one aggregate of the store.

All days of an answer are at one resolution, the finest of those that single days would be at, and each day
is as if it had been asked for alone: windows that meet give what one long window gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.query import Query
from derivdata.sources.service import buckets
from derivdata.sources.service.venue_series import (
    Totals,
    added_up,
    by_rows,
    by_sums,
    changed_symbols,
    joined,
    without,
)
from derivdata.sources.service.view import Series, StoredColumn, View, read_around, stated
from derivdata.sources.service.window import INSTANT, AnswerWindow, adaptive
from derivdata.support import times

_NOTHING = Totals(np.zeros(0, np.int64), np.zeros(0, object), np.zeros(0), np.zeros(0, np.int64))
_COLUMNS = ["exchange", "time", "value", "symbol_count"]
_DAY = pd.Timedelta(1, "D")
_BLOCK_DAYS = 8
_BLOCK_ROWS = 1_000_000
"""Rows that are read at once, about, where sums do not tell."""


def totals(
    view: View,
    column: StoredColumn,
    window: AnswerWindow,
    resolution: str | None,
    *,
    venues: Sequence[str] | None = None,
) -> Series:
    """Add up and count the symbols of every venue and step.

    The frame has exchange (text), time, value, symbol_count; sorted by time and venue. It is shared between
    requests: take a copy before changing it.
    """
    named = None if venues is None else tuple(sorted(venues))
    question = _Question(view, column, resolution or adaptive(window.requested), named)
    key = ("totals", column, window.start, window.end, question.step, named)
    return view.once(key, lambda: question.answer(window))


def cut(window: AnswerWindow) -> list[AnswerWindow]:
    """Cut a window at midnights; each part keeps the length that was requested of the whole."""
    first = window.start.floor("1D")
    starts = [first + n * _DAY for n in range(max(-((first - window.end) // _DAY), 0))]
    return [window._replace(start=max(s, window.start), end=min(s + _DAY, window.end)) for s in starts]


class _Day(NamedTuple):
    """A day, from when to when rows reach into it, their place among the sums, and their resolutions."""

    window: AnswerWindow
    start: pd.Timestamp
    end: pd.Timestamp
    first: int
    last: int
    names: tuple[str, ...]

    def finest(self, requested: str) -> str:
        """Return the resolution that the day alone would be at."""
        return max(requested, min(self.names, key=buckets.length, default=requested), key=buckets.length)


@dataclass(frozen=True)
class _Question:
    """Sums to make; `step` is the requested one, or that chosen by the length of the window."""

    view: View
    column: StoredColumn
    step: str
    venues: tuple[str, ...] | None

    def answer(self, window: AnswerWindow) -> Series:
        """Return the totals at the finest resolution of the days that have any."""

        def read(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            query = Query(self.column.table, start, end, venues=self.venues)
            return self.view.sums(query, self.column.value)

        sums = read_around(read, window, times.resolution(self.step)).sort_values("time", kind="stable")
        texts = {name: pd.Categorical(sums[name]) for name in ("exchange", "resolution")}
        sums = sums.assign(**texts)
        sums.attrs = {}  # pandas would copy them with every selection
        days = list(self._days(sums, window))
        made = {step: self._made(sums, days, step) for step in {day.finest(self.step) for day in days}}
        # A day without rows has no say in the resolution, unless all of its rows were left out as too long.
        steps = {
            step
            for day in days
            for step in [day.finest(self.step)]
            if len(made[step].between(day.window.start, day.window.end).time)
            or self._left_out(sums, day, step)
        }
        used = min(steps, key=buckets.length, default=self.step)
        whole = made[used] if used in made else self._made(sums, days, used)
        names = dict.fromkeys(name for day in days for name in self._left_out(sums, day, used))
        notices = [f"rows by {name} are left out: they are longer than buckets of {used}" for name in names]
        stamps = pd.DatetimeIndex(whole.time.view("M8[us]")).tz_localize("UTC")
        columns = (whole.exchange, stamps, whole.value, whole.symbols)
        return Series(pd.DataFrame(dict(zip(_COLUMNS, columns, strict=True))), used, notices)

    def _days(self, sums: pd.DataFrame, window: AnswerWindow) -> Iterator[_Day]:
        """Find what `View.around` would read of each day alone."""
        time, step = sums["time"].array.asi8, times.resolution(self.step)
        named = pd.Categorical(sums["resolution"])
        for day in cut(window):
            start, end, leads = day.start, day.end, [pd.Timedelta(0)]
            if step is not None:
                start, end, leads = start.floor(step), end.ceil(step), [max(buckets.HOLD, step), _DAY]
            last = int(np.searchsorted(time, times.us(end)))
            for lead in leads:
                first = int(np.searchsorted(time, times.us(start - lead)))
                names = [str(named.categories[n]) for n in np.unique(named.codes[first:last])]
                if all((times.resolution(name) or buckets.HOLD) <= lead for name in names):
                    break
            yield _Day(day, start - lead, end, first, last, tuple(names))

    def _left_out(self, sums: pd.DataFrame, day: _Day, used: str) -> tuple[str, ...]:
        """List resolutions of rows of volume that are longer than a bucket, and so have no place in it."""
        if not self.column.added or not any(
            buckets.length(name) > buckets.length(used) for name in day.names
        ):
            return ()
        rows = sums.iloc[day.first : day.last]
        return tuple(buckets.longer(rows[buckets.ends(rows) > day.window.start], used))

    def _made(self, sums: pd.DataFrame, days: list[_Day], used: str) -> Totals:
        """Return the totals of all days at one resolution."""

        def kind(day: _Day) -> tuple[tuple[str, ...], bool, pd.Timestamp | None]:
            left_out = self._left_out(sums, day, used)
            plain = set(day.names) - set(left_out) <= {used}
            # Of raw rows a day reads none before it: what still holds from yesterday is not in it.
            alone = times.resolution(self.step) is None and not plain
            return left_out, plain, day.start if alone else None

        parts = [_NOTHING]
        for (left_out, plain, _), some in groupby(days, key=kind):
            run = list(some)
            part = sums.iloc[run[0].first : run[-1].last]
            part = part[~part["resolution"].isin(left_out)] if left_out else part
            # Rows that are all of the step are taken as they are.
            width = None if plain else times.resolution(used)
            sure, unsure = by_sums(part, width, self.view.horizon, added=self.column.added)
            start, end = run[0].window.start, run[-1].window.end
            cells = unsure.between(start, end)
            held = pd.Timedelta(0)
            if len(cells.time) and not self.column.added and width is not None:
                held = pd.Timedelta(int(np.max(buckets.holds(part["resolution"]))), "us")
            others = _Unsure(self, part, run[0].start, run[-1].end, width, held, left_out).totals(cells)
            parts += [joined([sure, *others]).between(start, end)]
        return joined(parts)


@dataclass(frozen=True)
class _Unsure:
    """Buckets of venues whose totals sums do not tell; `sums` are those around them."""

    question: _Question
    sums: pd.DataFrame
    start: pd.Timestamp
    end: pd.Timestamp
    width: pd.Timedelta | None
    held: pd.Timedelta
    left_out: tuple[str, ...]

    def totals(self, cells: Totals) -> Iterator[Totals]:
        """Make them from the rows of the symbols that come or go, or else from all rows of their venues."""
        store, table = self.question.view.store, self.question.column.table
        numbers = store.symbol_hashes(store.symbols(table)) if len(cells.time) else {}
        hashes = {number: name for name, number in numbers.items()}
        for some in _blocks(cells, _BLOCK_DAYS):
            near = self._near(some)
            changed = {
                str(venue): None if self.width is None else changed_symbols(own, hashes)
                for venue, own in near.groupby("exchange", observed=True)
            }
            symbols = sorted(set().union(*(names for names in changed.values() if names is not None)))
            known = np.array([bool(changed[venue]) for venue in some.exchange])
            made = self._from_changes(some.take(known), symbols, hashes) if known.any() else None
            if made is not None:
                yield made
                some = some.take(~known)
            days = _BLOCK_ROWS * _BLOCK_DAYS / max(near["symbols"].sum(), 1)
            for part in _blocks(some, max(int(days), 1)):
                rows = self._rows(part)
                yield self._wanted(part, self._by_rows(rows))

    def _from_changes(self, cells: Totals, symbols: list[str], hashes: dict[int, str]) -> Totals | None:
        """Take some symbols out of the sums, and add their rows up beside; None where more changed."""
        rows = self._rows(cells, symbols)
        rest = without(self._near(cells), rows, self.question.column.value, hashes)
        if rest is None:
            return None
        sure, unsure = by_sums(rest, self.width, self.question.view.horizon, added=self.question.column.added)
        if len(self._wanted(cells, unsure).time):
            return None
        return added_up(self._wanted(cells, sure), self._wanted(cells, self._by_rows(rows)))

    def _span(self, cells: Totals) -> tuple[pd.Timestamp, pd.Timestamp]:
        """Return from when to when rows reach into some buckets."""
        first, last = (pd.Timestamp(int(t), unit="us", tz="UTC") for t in (cells.time[0], cells.time[-1]))
        return max(first - self.held, self.start), min(last + (self.width or INSTANT), self.end)

    def _near(self, cells: Totals) -> pd.DataFrame:
        start, end = self._span(cells)
        inside = (self.sums["time"] >= start) & (self.sums["time"] < end)
        return self.sums[inside & self.sums["exchange"].isin(set(cells.exchange))]

    def _rows(self, cells: Totals, symbols: list[str] | None = None) -> pd.DataFrame:
        """Read the rows of the cells' venues, of some symbols or all, sorted by symbol, venue and time."""
        column, (start, end) = self.question.column, self._span(cells)
        names = ("symbol", "exchange", "resolution", "time", column.value)
        venues = sorted(set(cells.exchange))
        rows = stated(self.question.view.rows(Query(column.table, start, end, symbols, venues, names)))
        rows = rows[~rows["resolution"].isin(self.left_out)]
        keys = [pd.Categorical(rows[name]).codes for name in ("exchange", "symbol")]
        return rows.take(np.lexsort((rows["time"].array.asi8, *keys)))

    def _by_rows(self, rows: pd.DataFrame) -> Totals:
        column, horizon = self.question.column, self.question.view.horizon
        return by_rows(rows, column.value, self.width, horizon, added=column.added)

    @staticmethod
    def _wanted(cells: Totals, found: Totals) -> Totals:
        venues = sorted(set(cells.exchange) | set(found.exchange))
        wanted, others = (
            part.time * len(venues) + np.searchsorted(venues, part.exchange.astype(str))
            for part in (cells, found)
        )
        return found.take(np.isin(others, wanted))


def _blocks(cells: Totals, days: int) -> Iterator[Totals]:
    """Cut cells, sorted by time, into parts of at most so many days."""
    day = cells.time // times.us(_DAY)
    block = (day - day[:1].sum()) // days
    for number in np.unique(block):
        yield cells.take(block == number)
