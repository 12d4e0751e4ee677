"""Sums over the symbols of each venue over time, from one aggregate of the store.

The total of a bucket is the sum over the symbols of each one's mean over time (of volume, of the sum of its
rows), and the number of symbols that have one. A symbol that is listed in the middle of a bucket counts with
the mean over the time that it was there; a missing value is not the value 0.

A store adds up its rows at each time, some hundred times fewer numbers than rows. While the same symbols are
present at all times that reach into a bucket, their means have the same weights, and the sum of the means is
the mean of the sums. A hash shows whether the symbols are the same: the exclusive or over the hashes of their
names. Where it changes, or where rows of several resolutions are present at one time, a bucket is *unsure*
and is added up from the rows of its venue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.query import Query
from derivdata.sources.service.data import windows
from derivdata.sources.service.data.view import (
    Series,
    StoredColumn,
    View,
    finest_step,
    left_out,
    read_around,
    stated,
)
from derivdata.sources.service.data.windows import INSTANT, AnswerWindow, adaptive
from derivdata.support import times
from derivdata.support.arrays import Array


class Totals(NamedTuple):
    """Sums over symbols and their number, by time [µs] and venue."""

    time: Array
    exchange: Array
    value: Array
    symbols: Array

    def take(self, chosen: Array) -> Totals:
        """Return some of them, by number or mask."""
        return Totals(*(column[chosen] for column in self))

    def between(self, start: pd.Timestamp, end: pd.Timestamp) -> Totals:
        """Return those with ``start <= time < end``; they are sorted by time."""
        edges = np.searchsorted(self.time, [times.us(start), times.us(end)])
        return Totals(*(column[slice(*edges)] for column in self))


def joined(parts: Sequence[Totals]) -> Totals:
    """Join totals, sorted by time and venue."""
    whole = parts[0] if len(parts) == 1 else Totals(*map(np.concatenate, zip(*parts, strict=True)))
    return whole.take(np.lexsort((pd.factorize(whole.exchange, sort=True)[0], whole.time)))


def by_rows(
    rows: pd.DataFrame, value: str, width: pd.Timedelta | None, horizon: pd.Timestamp, *, added: bool
) -> Totals:
    """Add up rows by symbol and bucket (None: as they are), then over the symbols; sorted as for `means`."""
    if width is not None:
        rows = (windows.sums if added else windows.means)(rows, value, width, horizon)
    rows = rows[rows[value].notna()]
    venue = pd.Categorical(rows["exchange"])
    codes, stamps = pd.factorize(rows["time"].array.asi8, sort=True)
    names = np.asarray(venue.categories, dtype=object)
    cell = codes * len(names) + venue.codes
    count = np.bincount(cell, minlength=len(stamps) * len(names))
    total = np.bincount(cell, rows[value], minlength=len(stamps) * len(names))
    seen = np.flatnonzero(count)
    place, which = np.divmod(seen, max(len(names), 1))
    return Totals(np.asarray(stamps)[place], names[which], total[seen], count[seen])


def by_sums(
    sums: pd.DataFrame, width: pd.Timedelta | None, horizon: pd.Timestamp, *, added: bool
) -> tuple[Totals, Totals]:
    """Return what `by_rows` does, from sums at each instant; and time and venue that only rows can tell."""
    series = _instants(sums[sums["symbols"] > 0])
    time = series["time"].array.asi8
    venue = series["exchange"].cat
    symbols = series["symbols"].to_numpy()
    names = np.asarray(venue.categories, dtype=object)
    if width is None:
        whole = Totals(time, names[venue.codes], series["value"].to_numpy(), symbols)
        unsure = np.isnan(whole.value)
        return joined([whole.take(~unsure)]), joined([whole.take(unsure)])
    micros = times.us(width)
    reach = 1 if added or series.empty else int(np.max(windows.holds(series["resolution"])))
    cells = _Cells(series, micros, reach, horizon)
    combined = (windows.sums if added else windows.means)(series, "value", width, horizon)
    codes = combined["exchange"].cat.codes.to_numpy()
    start = combined["time"].array.asi8
    cell = cells.number(codes, start // micros)
    whole = Totals(start, names[codes], combined["value"].to_numpy(), cells.symbols[cell])
    unsure = np.flatnonzero(cells.unsure)
    codes, bucket = np.divmod(unsure, cells.count)
    missing = Totals((bucket + cells.first) * micros, names[codes], *[cells.symbols[unsure]] * 2)
    return joined([whole.take(~cells.unsure[cell])]), joined([missing])


class _Cells:
    """Buckets of venues: their number of symbols, and whether these differ at instants that reach in."""

    def __init__(self, series: pd.DataFrame, micros: int, reach: int, horizon: pd.Timestamp) -> None:
        since = series["time"].array.asi8
        until = np.maximum(np.minimum(since + reach, times.us(horizon)), since + 1)
        row, bucket, _ = windows.pieces(since, until, micros)
        codes = series["exchange"].cat.codes.to_numpy()[row]
        self.first = int(np.min(bucket)) if bucket.size else 0
        self.count = int(np.max(bucket)) - self.first + 1 if bucket.size else 1
        size = len(series["exchange"].cat.categories) * self.count
        cell = self.number(codes, bucket)
        self.symbols = np.zeros(size, np.int64)
        self.symbols[cell] = series["symbols"].to_numpy()[row]
        hashes = series["symbol_hash"].to_numpy()[row]
        last = np.zeros(size, np.uint64)
        last[cell] = hashes
        differing = (hashes != last[cell]) | np.isnan(series["value"].to_numpy())[row]
        self.unsure = np.bincount(cell, differing, minlength=size) > 0

    def number(self, codes: Array, bucket: Array) -> Array:
        """Return the number of the cell of a venue and bucket."""
        return np.asarray(codes.astype(np.intp) * self.count + (bucket - self.first))


def _instants(sums: pd.DataFrame) -> pd.DataFrame:
    """Return one row per venue and instant as a series; of several resolutions the value is NaN."""
    venue = pd.Categorical(sums["exchange"])
    time = sums["time"].array.asi8
    order = np.lexsort((time, venue.codes))
    series = sums.take(order).reset_index(drop=True)
    series = series.assign(symbol=pd.Categorical.from_codes(np.zeros(len(series), np.int8), [""]))
    series["exchange"] = venue.take(order)
    moved, other = (np.diff(each[order], prepend=-1) != 0 for each in (time, venue.codes))
    fresh = np.logical_or(moved, other)  # the first row of each venue and instant
    if not fresh.all():
        several = ~fresh | ~np.append(fresh[1:], True)
        series.loc[several, "value"] = np.nan
        series = series[fresh].reset_index(drop=True)
    return series


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
        column = self.column
        horizon = self.view.horizon
        held = pd.Timedelta(0)
        if not column.added and width is not None:
            held = pd.Timedelta(int(np.max(windows.holds(sums["resolution"]))), "us")
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
