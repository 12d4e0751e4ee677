"""Divide a table into blocks of whole series, so that what is computed of each takes little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.support import times
from derivdata.support.arrays import Array, Bools, Floats, Indices

Numbers: TypeAlias = NDArray[np.int16] | NDArray[np.int32]
"""Of the series of rows: two bytes are enough for most tables."""

_BLOCK_ROWS = 150_000
_MOST_BLOCKS = 64  # each of them is one pass over the numbers of the series
_CHUNK = 1_000_000
_MOST_COMBINATIONS = 1 << 22


class Columns(NamedTuple):
    """Columns of a table that are examined, in the order of its rows."""

    series: Numbers
    """Number of each row's series, −1 where a key is missing."""
    stamps: Array
    """Microseconds since 1970."""
    value: Floats
    stated: Floats | None
    """Hours that the table states for the step up to each row; None where it states none."""
    settled: Bools | None
    """Which rows are settlements; None where the table does not say it."""
    expiry: Array | None
    """Microseconds since 1970 after which a series has no rows, NaT for none."""


class Block(NamedTuple):
    """Rows of some series that follow one another: all of the series of some symbols."""

    rows: Indices
    """In the order of the table."""
    first: int
    """Number of the first series."""
    number: int
    """How many series there are."""


def columns_of(table: pd.DataFrame, column: str, series: Numbers) -> Columns:
    """Return what is examined of a table; columns that have the right type are not copied."""
    stated = settled = expiry = None
    if "interval_hours" in table.columns:
        stated = table["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
        if "kind" in table.columns:  # sampled rates state an interval too, and may be polled each second
            settled = (table["kind"] == "settled").to_numpy(dtype=bool, na_value=False)
    if "expiry" in table.columns:
        expiry = times.stamps_of(table["expiry"])
    stamps = times.stamps_of(table["time"])
    value = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
    return Columns(series, stamps, value, stated, settled, expiry)


def numbered_series(table: pd.DataFrame, keys: Sequence[str]) -> tuple[Numbers, Indices]:
    """Return the number of each row's series in the order of the keys, and the first row of each series.

    A row without a key has the number −1. Without keys all rows are one series.
    """
    series: Any = np.zeros(len(table), dtype=np.int32)
    number = min(len(table), 1)
    for key in keys:
        places, labels = _places(table[key])
        combinations = number * max(labels, 1)
        series = series.astype(np.int64 if combinations > np.iinfo(np.int32).max else np.int32, copy=False)
        series *= max(labels, 1)  # what is below zero stays so: the place of a label is below their number
        np.add(series, places, out=series, casting="same_kind")
        series[places < 0] = -1
        series, number = _renumbered(series, combinations)
    first = np.full(number, -1, dtype=np.intp)
    starts = range(0, len(table), _CHUNK)
    for start in reversed(starts):  # the last assignment of a series wins, so the rows are assigned backwards
        part = series[start : start + _CHUNK][::-1]
        rows = np.arange(start + part.size - 1, start - 1, -1)
        kept = part >= 0
        first[part[kept]] = rows[kept]
    few = number <= np.iinfo(np.int16).max
    return series.astype(np.int16, copy=False) if few else series, first


def _places(values: pd.Series) -> tuple[Any, int]:
    """Return the place of each value among the labels, −1 of a missing one, and the number of labels."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), len(values.cat.categories)
    places, labels = pd.factorize(values, sort=True)
    return places, len(labels)


def _renumbered(series: Any, combinations: int) -> tuple[Numbers, int]:
    """Replace each combination by its place among those that occur, and those below zero by −1."""
    if combinations > _MOST_COMBINATIONS:
        places, labels = pd.factorize(np.where(series < 0, -1, series), sort=True)
        lacking = bool(labels.size) and labels[0] == -1
        return (places - lacking).astype(np.int32), labels.size - lacking
    occurs = np.zeros(combinations + 1, dtype=bool)
    for start in range(0, series.size, _CHUNK):
        occurs[np.maximum(series[start : start + _CHUNK], -1)] = True  # −1 is the last place
    occurs[-1] = False
    place = np.cumsum(occurs, dtype=np.int32) - 1
    place[-1] = -1
    for start in range(0, series.size, _CHUNK):
        part = series[start : start + _CHUNK]
        part[:] = place[np.maximum(part, -1)]
    return series.astype(np.int32, copy=False), int(occurs.sum())


def blocks(series: Numbers, groups: Indices) -> Iterator[Block]:
    """Iterate over blocks of series that belong together.

    Parameters
    ----------
    series
        Number of each row's series.
    groups
        Number of each series' group, ascending: series of one group are in one block.
    """
    size = np.zeros(groups.size, dtype=np.int64)
    for start in range(0, series.size, _CHUNK):
        part = series[start : start + _CHUNK]
        size += np.bincount(part[part >= 0], minlength=groups.size)
    most = max(_BLOCK_ROWS, series.size // _MOST_BLOCKS)
    begins = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size)
    first = 0
    while first < groups.size:
        total = np.cumsum(size[first:])
        fitting = begins[(begins > first) & (total[np.maximum(begins - first - 1, 0)] <= most)]
        stop = int(fitting[-1] if fitting.size else begins[begins > first][0])
        rows = np.flatnonzero((series >= first) & (series < stop))
        yield Block(rows, first, stop - first)
        first = stop
