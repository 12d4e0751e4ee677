"""Choose rows of a table: by a window of time, and by values of text columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from derivdata.support import times
from derivdata.tables.schema import Kind, Table

Where: TypeAlias = Mapping[str, Collection[str]]


class TimeRange(NamedTuple):
    """Half-open window in microseconds since 1970."""

    start: int
    end: int

    def touches(self, first: int, last: int) -> bool:
        """Return whether the window contains an instant of the closed range ``[first, last]``."""
        return first < self.end and last >= self.start


EVER = TimeRange(-(2**63), 2**63 - 1)


def read_filter(
    table: Table, symbols: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, frozenset[str]]:
    """Return the symbols and venues that a read asks for, as values by column."""
    arguments = {"symbol": ("symbols", symbols), "exchange": ("venues", venues)}
    where = {}
    for column, (argument, values) in arguments.items():
        if values is None:
            continue
        if column not in table.columns:
            raise ValueError(f"{argument}: table {table.name} has no column {column!r}")
        where[column] = frozenset([values] if isinstance(values, str) else values)
    return where


class Selection(NamedTuple):
    """Rows of a table within a window that have one of the given values in some columns."""

    where: Where
    window: TimeRange

    def mask(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return for each row of a frame whether it is selected."""
        stamps = np.asarray(frame["time"].array.asi8)
        chosen = (stamps >= self.window.start) & (stamps < self.window.end)
        for name, values in self.where.items():
            chosen &= frame[name].isin(list(values)).to_numpy()
        return np.asarray(chosen)

    def narrowed(self, column: str, values: Collection[str]) -> Selection:
        """Return the rows of it that have one of some values in a column."""
        kept = frozenset(values) & frozenset(self.where.get(column, values))
        return Selection({**self.where, column: kept}, self.window)

    def overlaps(self, other: Selection) -> bool:
        """Return whether a row could be in both selections."""
        shared = set(self.where) & set(other.where)
        return self.window.touches(other.window.start, other.window.end - 1) and all(
            set(self.where[name]) & set(other.where[name]) for name in shared
        )


EVER_ALL = Selection({}, EVER)
"""Every row."""


def correction_selection(
    table: Table, where: Mapping[str, str | Sequence[str]] | None, window: TimeRange
) -> Selection:
    """Return the selection of a correction; one without any condition is refused."""
    columns = [name for name in table.key if table.columns[name].kind in (Kind.TEXT, Kind.LABEL)]
    chosen = {}
    for name, values in (where or {}).items():
        if name not in columns:
            raise ValueError(f"where: {name!r} is no column to choose by; {table.name} has {columns}")
        chosen[name] = frozenset([values] if isinstance(values, str) else values)
    if not chosen and window == EVER:
        raise ValueError("where: say which rows, by columns or by start= and end=")
    return Selection(chosen, window)


def time_range(start: times.Instant | None, end: times.Instant | None) -> TimeRange:
    """Return the window in microseconds; None leaves an end open."""
    return TimeRange(EVER.start if start is None else micros(start), EVER.end if end is None else micros(end))


def micros(value: times.Instant) -> int:
    """Return an instant as microseconds since 1970."""
    return times.us(times.instant(value))


def stamp(value: int) -> pd.Timestamp:
    """Return the instant of some microseconds since 1970."""
    return pd.Timestamp(value, unit="us", tz="UTC").as_unit("us")
