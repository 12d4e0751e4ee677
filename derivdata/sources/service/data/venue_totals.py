"""Sums over the symbols of each venue over time: those of `View.series`, from one aggregate of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from derivdata.sources.query import Query
from derivdata.sources.service.data import buckets
from derivdata.sources.service.data.venue_series import Totals, by_rows, by_sums, joined
from derivdata.sources.service.data.view import (
    Series,
    StoredColumn,
    View,
    finest_step,
    left_out,
    read_around,
    stated,
)
from derivdata.sources.service.data.window import INSTANT, AnswerWindow, adaptive
from derivdata.support import times

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
    question = _Question(view, column, window, resolution or adaptive(window.requested), named)
    return view.once(("totals", column, window.start, window.end, question.step, named), question.answer)


@dataclass(frozen=True)
class _Question:
    """Sums to make; `step` is the requested one, or that chosen by the length of the window."""

    view: View
    column: StoredColumn
    window: AnswerWindow
    step: str
    venues: tuple[str, ...] | None

    def answer(self) -> Series:
        """Return the totals, at the finest resolution that rows state where all are coarser."""

        def read(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            query = Query(self.column.table, start, end, venues=self.venues)
            return self.view.sums(query, self.column.value)

        sums = read_around(read, self.window, times.resolution(self.step))
        used = finest_step(sums, self.step)
        sums, notices = left_out(sums, self.column, self.window, used)
        # Rows that are all of the step are taken as they are.
        width = times.resolution(used) if (sums["resolution"] != used).any() else None
        sure, unsure = by_sums(sums, width, self.view.horizon, added=self.column.added)
        span = self.window.start, self.window.end
        others = self._from_rows(sums, unsure.between(*span), width)
        whole = joined([sure, *others]).between(*span)
        stamps = pd.DatetimeIndex(whole.time.view("M8[us]")).tz_localize("UTC")
        columns = {"exchange": whole.exchange, "time": stamps, "value": whole.value}
        return Series(pd.DataFrame(columns | {"symbol_count": whole.symbols}), used, notices)

    def _from_rows(self, sums: pd.DataFrame, cells: Totals, width: pd.Timedelta | None) -> Iterator[Totals]:
        """Make totals that sums do not tell from the rows of their venues, about a million at a time."""
        if not len(cells.time):
            return
        column, horizon, held = self.column, self.view.horizon, pd.Timedelta(0)
        if not column.added and width is not None:
            held = pd.Timedelta(int(np.max(buckets.holds(sums["resolution"]))), "us")
        read = sums["time"].min(), sums["time"].max() + INSTANT
        days = int(_BLOCK_ROWS * ((read[1] - read[0]) / _DAY) / sums["symbols"].sum())
        block = (cells.time - cells.time[0]) // (max(days, 1) * times.us(_DAY))
        for number in np.unique(block):
            some = cells.take(block == number)
            first, last = (pd.Timestamp(int(t), unit="us", tz="UTC") for t in some.time[[0, -1]])
            span = max(first - held, read[0]), min(last + (width or INSTANT), read[1])
            names = ("symbol", "exchange", "resolution", "time", column.value)
            venues = sorted(set(some.exchange))
            rows = stated(self.view.rows(Query(column.table, *span, venues=venues, columns=names)))
            rows = rows[rows["resolution"].isin(sums["resolution"].unique())]  # others were left out
            keys = [pd.Categorical(rows[name]).codes for name in ("exchange", "symbol")]
            rows = rows.take(np.lexsort((rows["time"].array.asi8, *keys)))
            found = by_rows(rows, column.value, width, horizon, added=column.added)
            found_cells, wanted = (pd.MultiIndex.from_arrays(part[:2]) for part in (found, some))
            yield found.take(found_cells.isin(wanted))
