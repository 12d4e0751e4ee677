"""A venue as one series: what its symbols add up to, from sums over them at single instants.

The total of a bucket is the sum over the symbols of each one's mean over time (of volume: of what its rows
add up to), and the number of symbols that have one. A symbol that is listed in the middle of a bucket counts
with the mean over the time that it was there; a missing value is not there, which is not the value 0.

A store adds up its rows at each instant, some hundred times fewer numbers than rows. While the same symbols
stand at all instants that reach into a bucket, their means have the same weights, and the sum of the means is
the mean of the sums. That the symbols are the same is seen by a hash, the exclusive or over the hashes of
their names. Where it changes, or where rows of several resolutions stand at one instant, a bucket is *unsure*
and is added up from the rows of its venue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.service.data import buckets
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
    """Return what `by_rows` does, from sums at each instant; and time and venue that only rows can tell."""
    series = _instants(sums[sums["symbols"] > 0])
    time, venue, symbols = series["time"].array.asi8, series["exchange"].cat, series["symbols"].to_numpy()
    names = np.asarray(venue.categories, dtype=object)
    if width is None:
        whole = Totals(time, names[venue.codes], series["value"].to_numpy(), symbols)
        unsure = np.isnan(whole.value)
        return joined([whole.take(~unsure)]), joined([whole.take(unsure)])
    micros = times.us(width)
    reach = 1 if added or series.empty else int(np.max(buckets.holds(series["resolution"])))
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
    """Buckets of venues: their number of symbols, and whether these differ at instants that reach in."""

    def __init__(self, series: pd.DataFrame, micros: int, reach: int, horizon: pd.Timestamp) -> None:
        since = series["time"].array.asi8
        until = np.maximum(np.minimum(since + reach, times.us(horizon)), since + 1)
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
