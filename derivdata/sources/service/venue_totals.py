"""Sums over the symbols of each venue over time, made day by day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.service import buckets
from derivdata.sources.service.day_steps import DayAtStep, Step, at_one_step, step_of
from derivdata.sources.service.kept_days import DAY, cut, kept_days
from derivdata.sources.service.listings import changed_symbols, without
from derivdata.sources.service.venue_series import Totals, added_up, by_rows, by_sums, joined
from derivdata.sources.service.view import Series, View, read_around, stated
from derivdata.sources.service.window import INSTANT, Window, adaptive
from derivdata.support import times

__all__ = ["totals"]

_COLUMNS = ["exchange", "time", "value", "symbol_count"]
_BLOCK_ROWS = 1_000_000
"""Rows that are read at once, about, where sums do not tell."""


class _Question(NamedTuple):
    """Sums to make; `step` is the requested one, or that chosen by the length of the window."""

    table: str
    value: str
    step: str
    exchanges: tuple[str, ...] | None
    added: bool


def totals(
    view: View,
    table: str,
    value: str,
    window: Window,
    resolution: str | None,
    *,
    venues: Sequence[str] | None = None,
    added: bool = False,
) -> Series:
    """Add up and count the symbols of every venue and step.

    All days are at one resolution: the finest of those that single days would be at.

    Returns
    -------
    Series
        Its frame has exchange (text), time, value, symbol_count; sorted by time and venue.
    """
    named = None if venues is None else tuple(sorted(venues))
    question = _Question(table, value, resolution or adaptive(window.requested), named, added)
    days = cut(window, DAY)
    parts, used, notices = at_one_step(question.step, lambda used: _made(view, question, days, used))
    return Series(_frame(parts), used, notices)


def _frame(days: list[Totals]) -> pd.DataFrame:
    if not days:
        return pd.DataFrame(columns=_COLUMNS)
    time, exchange, value, symbols = (np.concatenate(columns) for columns in zip(*days, strict=True))
    stamps = pd.DatetimeIndex(time.view("M8[us]")).tz_localize("UTC")
    return pd.DataFrame(dict(zip(_COLUMNS, (exchange, stamps, value, symbols), strict=True)))


def _made(view: View, question: _Question, days: list[Window], used: str | None) -> list[DayAtStep[Totals]]:
    """Return the sums of every day, at the step that the day itself would have or at `used`."""

    def read(window: Window) -> pd.DataFrame:
        def sums(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            return view.step_sums(question.table, question.value, start, end, venues=question.exchanges)

        return read_around(sums, window, times.resolution(question.step))

    return kept_days(
        view,
        (question, used),
        days,
        read,
        lambda sums, block: _summed(view, question, sums, block, used),
        lambda day: sum(column.nbytes for column in day.content) + 1024,
        apart=lambda sums: len(buckets.steps(sums)) > 1,  # days may differ in what their step would be
    )


def _summed(
    view: View, question: _Question, sums: pd.DataFrame, days: list[Window], used: str | None
) -> Iterator[DayAtStep[Totals]]:
    """Add up the sums around one day, or around days whose rows are all of one step."""
    chosen = step_of(sums, question.step, used, days[0].start, added=question.added)
    sums = sums[~sums["resolution"].isin(chosen.left_out)] if chosen.left_out else sums
    # Rows that are all of the step are taken as they are.
    width = None if buckets.steps(sums) == [chosen.used] else times.resolution(chosen.used)
    sure, unsure = by_sums(sums, width, view.horizon, added=question.added)
    together = max(int(_BLOCK_ROWS * len(days) / max(sums["symbols"].sum(), 1)), 1)
    parts = [sure]
    for first in range(0, len(days), together):
        some = days[first : first + together]
        cells = unsure.between(some[0].start, some[-1].end)
        if len(cells.time):
            parts.append(_Unsure(view, question, cells, chosen, width).totals(sums))
    whole = joined(parts)
    for day in days:
        part = whole.between(day.start, day.end)
        yield DayAtStep(part, len(part.time), chosen)


class _Unsure:
    """Buckets of venues whose totals sums do not tell."""

    def __init__(
        self, view: View, question: _Question, cells: Totals, step: Step, width: pd.Timedelta | None
    ) -> None:
        self._view, self._question, self._cells, self._step, self._width = view, question, cells, step, width
        self._venues = sorted(set(cells.exchange))
        first, last = (pd.Timestamp(int(t), unit="us", tz="UTC") for t in (cells.time[0], cells.time[-1]))
        self._first, self._end = first, last + (width or INSTANT)

    def totals(self, sums: pd.DataFrame) -> Totals:
        """Make them from the rows of the symbols that come or go, or else from all rows."""
        result = None
        if self._width is not None and not self._view.asks_by_symbol:
            result = self._from_changes(sums, self._width)
        return self._from_rows() if result is None else result

    def _from_changes(self, sums: pd.DataFrame, width: pd.Timedelta) -> Totals | None:
        """Take the symbols that come or go out of the sums, and add up their rows beside; None: unknown."""
        question, view = self._question, self._view
        start = self._first if question.added else self._first - _longest(sums)
        near = (sums["time"] >= start) & (sums["time"] < self._end) & sums["exchange"].isin(self._venues)
        symbols = changed_symbols(sums[near], view.store.symbols(question.table))
        if not symbols:
            return None
        rows = stated(view.read(question.table, start, self._end, symbols=symbols, venues=self._venues))
        rows = rows[~rows["resolution"].isin(self._step.left_out)]
        rest = without(sums[near], rows, question.value)
        if rest is None:
            return None
        sure, unsure = by_sums(rest, width, view.horizon, added=question.added)
        if len(self._wanted(unsure).time):  # a value is missing, or more symbols changed than were found
            return None
        others = by_rows(rows, question.value, width, view.horizon, added=question.added)
        return added_up(self._wanted(sure), self._wanted(others))

    def _from_rows(self) -> Totals:
        """Make them from all rows of the venues."""
        question, span = self._question, Window(self._first, self._end, self._end - self._first, [])
        rows, _ = self._view.around(question.table, span, self._step.used, venues=self._venues)
        rows = rows[~rows["resolution"].isin(self._step.left_out)]
        result = by_rows(rows, question.value, self._width, self._view.horizon, added=question.added)
        return self._wanted(result)

    def _wanted(self, found: Totals) -> Totals:
        cells, others = (
            part.time * len(self._venues) + np.searchsorted(self._venues, part.exchange.astype(str))
            for part in (self._cells, found)
        )
        return found.take(np.isin(others, cells))


def _longest(sums: pd.DataFrame) -> pd.Timedelta:
    return max(times.resolution(name) or buckets.HOLD for name in buckets.steps(sums))
