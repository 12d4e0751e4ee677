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
    by_rows,
    by_sums,
    joined,
)
from derivdata.sources.service.view import Series, StoredColumn, View, read_around, stated
from derivdata.sources.service.window import INSTANT, AnswerWindow, adaptive
from derivdata.support import times

_NOTHING = Totals(np.zeros(0, np.int64), np.zeros(0, object), np.zeros(0), np.zeros(0, np.int64))
_COLUMNS = ["exchange", "time", "value", "symbol_count"]
_DAY = pd.Timedelta(1, "D")
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
            others = self._from_rows(part, unsure.between(start, end), run[0].start, run[-1].end, width)
            parts += [joined([sure, *others]).between(start, end)]
        return joined(parts)

    def _from_rows(
        self,
        sums: pd.DataFrame,
        cells: Totals,
        start: pd.Timestamp,
        end: pd.Timestamp,
        width: pd.Timedelta | None,
    ) -> Iterator[Totals]:
        """Make totals that sums do not tell from the rows of their venues, about a million at a time."""
        if not len(cells.time):
            return
        column, horizon, held = self.column, self.view.horizon, pd.Timedelta(0)
        if not column.added and width is not None:
            held = pd.Timedelta(int(np.max(buckets.holds(sums["resolution"]))), "us")
        days = int(_BLOCK_ROWS * ((end - start) / _DAY) / max(sums["symbols"].sum(), 1))
        block = (cells.time - cells.time[0]) // (max(days, 1) * times.us(_DAY))
        for number in np.unique(block):
            some = cells.take(block == number)
            first, last = (pd.Timestamp(int(t), unit="us", tz="UTC") for t in some.time[[0, -1]])
            span = max(first - held, start), min(last + (width or INSTANT), end)
            names = ("symbol", "exchange", "resolution", "time", column.value)
            venues = sorted(set(some.exchange))
            rows = stated(self.view.rows(Query(column.table, *span, venues=venues, columns=names)))
            rows = rows[rows["resolution"].isin(sums["resolution"].unique())]  # others were left out
            keys = [pd.Categorical(rows[name]).codes for name in ("exchange", "symbol")]
            rows = rows.take(np.lexsort((rows["time"].array.asi8, *keys)))
            found = by_rows(rows, column.value, width, horizon, added=column.added)
            found_cells, wanted = (pd.MultiIndex.from_arrays(part[:2]) for part in (found, some))
            yield found.take(found_cells.isin(wanted))
