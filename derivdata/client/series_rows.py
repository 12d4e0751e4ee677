"""Rows of a response sorted by series and time, once for all rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from derivdata.client.reading import CheckedAnswer
from derivdata.support.arrays import Array
from derivdata.tables.series_sizes import SeriesSizes, series_sizes

__all__ = ["SeriesRows", "described", "series_rows", "venue_rows"]


@dataclass(frozen=True)
class SeriesRows:
    """Rows of a column, sorted by series and time."""

    order: Array
    """Place of each row in the response."""
    series: Array
    """Number of each row's series, from 0."""
    market: Array
    """Number of each row's market: the series without the venue."""
    times: Array
    values: Array

    @cached_property
    def by_size(self) -> SeriesSizes:
        """Sizes of the values, sorted within each series."""
        return series_sizes(self.series, self.values)


def series_rows(e: CheckedAnswer, name: str, values: Array) -> SeriesRows:
    """Return the `values` of a column by series and time. The response must have times.

    Series are in the order of the response if the rows of each are together and in time order there.
    """
    if name not in e.series_rows:
        times = np.zeros(e.size, dtype=np.int64) if e.time_us is None else e.time_us
        series = e.series("time")
        market = e.series("time", "exchange")
        order = np.arange(e.size)
        is_new = np.append(True, series[1:] != series[:-1])[: e.size]
        is_sorted = np.unique(series[is_new]).size == is_new.sum()
        if not is_sorted or (np.diff(times)[~is_new[1:]] < 0).any():
            order = np.lexsort((times, series))
            is_new = np.append(True, np.diff(series[order]) != 0)
            market = market[order]
            times = times[order]
            values = values[order]
        e.series_rows[name] = SeriesRows(order, np.cumsum(is_new) - 1, market, times, values)
    rows: SeriesRows = e.series_rows[name]
    return rows


def venue_rows(e: CheckedAnswer, name: str) -> SeriesRows | None:
    """Return a column's rows by series and time; None if the table does not have them by venue and time."""
    if e.table is None or e.time_us is None or not {"exchange", "time"} <= {*e.table.key}:
        return None
    values = e.numbers(name) if name in e.table.columns else None
    return None if values is None or not values.size else series_rows(e, name, values)


def described(e: CheckedAnswer, row: int) -> str:
    """Return the keys of a row except its time."""
    keys = () if e.table is None else e.table.key
    return " ".join(str(e.columns[key][row]) for key in keys if key in e.words)
