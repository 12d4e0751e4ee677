"""A venue as one series: what its symbols add up to over time, from sums over them at single instants.

A bucket's total is the sum of its symbols' means over time. While the symbols of a venue stay the same, each
value holds as long as the others of its instant, so the means have the same weights and their sum is the mean
of the sums. Where a symbol comes or goes within reach of a bucket, or a value is missing, only the rows tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.service import buckets

__all__ = ["Totals", "added_up", "by_rows", "by_sums", "joined"]

_Array = np.ndarray[Any, Any]


class Totals(NamedTuple):
    """Sums over symbols and their number, by time [µs] and venue."""

    time: _Array
    exchange: _Array
    value: _Array
    symbols: _Array

    def take(self, chosen: _Array) -> Totals:
        """Return some of them, by number or mask."""
        return Totals(*(column[chosen] for column in self))

    def between(self, start: pd.Timestamp, end: pd.Timestamp) -> Totals:
        """Return those with ``start <= time < end``; they are sorted by time."""
        edges = np.searchsorted(self.time, [buckets.micros(start), buckets.micros(end)])
        return Totals(*(column[slice(*edges)] for column in self))


def joined(parts: Sequence[Totals]) -> Totals:
    """Join totals, sorted by time and venue."""
    whole = parts[0] if len(parts) == 1 else Totals(*map(np.concatenate, zip(*parts, strict=True)))
    return whole.take(np.lexsort((pd.factorize(whole.exchange, sort=True)[0], whole.time)))


def added_up(first: Totals, second: Totals) -> Totals:
    """Return the sums of both over all their times and venues, sorted."""
    both = joined([first, second])
    opens = np.ones(len(both.time), dtype=bool)
    opens[1:] = (both.time[1:] != both.time[:-1]) | (both.exchange[1:] != both.exchange[:-1])
    begin = np.flatnonzero(opens)
    if not begin.size:
        return both
    value, symbols = (np.add.reduceat(column, begin) for column in (both.value, both.symbols))
    return Totals(both.time[begin], both.exchange[begin], value, symbols)


def by_rows(
    rows: pd.DataFrame, value: str, width: pd.Timedelta | None, horizon: pd.Timestamp, *, added: bool
) -> Totals:
    """Add up rows by symbol and bucket, then over the symbols; sorted input, as for `buckets.means`.

    `width` is the length of a bucket; None takes each row as it is.
    """
    if width is not None:
        rows = (buckets.sums if added else buckets.means)(rows, value, width, horizon)
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
    """Return what `by_rows` does, from the sums over symbols at each instant; and what only rows can tell.

    Of the latter time and venue count.
    """
    series = _instants(sums)
    time, venue, symbols = series["time"].array.asi8, series["exchange"].cat, series["symbols"].to_numpy()
    names = np.asarray(venue.categories, dtype=object)
    if width is None:
        whole = Totals(time, names[venue.codes], series["value"].to_numpy(), symbols)
        unsure = np.isnan(whole.value)
        return joined([whole.take(~unsure)]), joined([whole.take(unsure)])
    micros = buckets.micros_of(width)
    reach = 1 if added or sums.empty else int(np.max(buckets.holds(sums["resolution"])))
    cells = _Cells(series, micros, reach, horizon)
    combined = (buckets.sums if added else buckets.means)(series, "value", width, horizon)
    codes, start = combined["exchange"].cat.codes.to_numpy(), combined["time"].array.asi8
    cell = cells.number(codes, start // micros)
    whole = Totals(start, names[codes], combined["value"].to_numpy(), cells.symbols[cell])
    unsure = np.flatnonzero(cells.unsure)
    codes, bucket = np.divmod(unsure, cells.count)
    missing = Totals((bucket + cells.first) * micros, names[codes], *[cells.symbols[unsure]] * 2)
    return joined([whole.take(~cells.unsure[cell])]), joined([missing])


class _Cells:
    """Buckets of venues: the number of symbols in each, and whether only rows can tell its total.

    That is where the symbols of two instants differ of which both may reach into the bucket, or where a value
    is missing. A value reaches as far as the longest of the frame holds: one that ends earlier for some
    symbols than for others is then never missed.
    """

    def __init__(self, series: pd.DataFrame, micros: int, reach: int, horizon: pd.Timestamp) -> None:
        since = series["time"].array.asi8
        until = np.maximum(np.minimum(since + reach, buckets.micros(horizon)), since + 1)
        row, bucket, _ = buckets.pieces(since, until, micros)
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

    def number(self, codes: _Array, bucket: _Array) -> _Array:
        """Return the number of the cell of a venue and bucket."""
        return np.asarray(codes.astype(np.intp) * self.count + (bucket - self.first))


def _instants(sums: pd.DataFrame) -> pd.DataFrame:
    """Return one row per venue and instant, sorted by both, as a series of which the symbol is empty.

    Rows of several resolutions at one instant hold for different times: their value is NaN.
    """
    venue = pd.Categorical(sums["exchange"])
    time = sums["time"].array.asi8
    order = np.lexsort((time, venue.codes))
    series = sums.take(order).reset_index(drop=True)
    series = series.assign(symbol=pd.Categorical.from_codes(np.zeros(len(series), np.int8), [""]))
    series["exchange"] = venue.take(order)
    same = (time[order][1:] == time[order][:-1]) & (venue.codes[order][1:] == venue.codes[order][:-1])
    if same.any():
        several = np.append(same, False) | np.append(False, same)
        series.loc[several, "value"] = np.nan
        series = series[np.append(True, ~same)].reset_index(drop=True)
    return series
