"""Sums over the symbols of each venue over time, made day by day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.service import buckets
from derivdata.service.day_steps import DayAtStep, Step, at_one_step, step_of
from derivdata.service.kept_days import DAY, cut, kept_days
from derivdata.service.venue_series import Totals, by_rows, by_sums, joined
from derivdata.service.view import Series, View, read_around
from derivdata.service.window import INSTANT, Window, adaptive

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
            return view.step_sums(question.table, question.value, start, end, exchanges=question.exchanges)

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
            parts.append(_from_rows(view, question, cells, chosen, width))
    whole = joined(parts)
    for day in days:
        part = whole.between(day.start, day.end)
        yield DayAtStep(part, len(part.time), chosen)


def _from_rows(
    view: View, question: _Question, cells: Totals, step: Step, width: pd.Timedelta | None
) -> Totals:
    """Make the totals of some venues and buckets from rows."""
    venues = sorted(set(cells.exchange))
    first, last = (pd.Timestamp(int(t), unit="us", tz="UTC") for t in (cells.time[0], cells.time[-1]))
    end = last + (width or INSTANT)
    rows, _ = view.around(question.table, Window(first, end, end - first, []), step.used, exchanges=venues)
    rows = rows[~rows["resolution"].isin(step.left_out)] if step.left_out else rows
    found = by_rows(rows, question.value, width, view.horizon, added=question.added)
    wanted = pd.MultiIndex.from_arrays([cells.time, cells.exchange])
    return found.take(np.flatnonzero(pd.MultiIndex.from_arrays([found.time, found.exchange]).isin(wanted)))
