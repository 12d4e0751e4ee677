"""Funding payments as rows: one row per payment, at its hour."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata import units
from derivdata.errors import SchemaError
from derivdata.tables.payment_intervals import HOUR_US, payment_time

__all__ = ["SOURCES", "Payments", "conflict_text", "is_same_rate", "merge_payments", "rates_of"]

SOURCES = ("row", "list", "spacing")
"""Statements that an interval may rest on: the payment's own row, the venue's list, the series' spacing."""

_SAME_RATE = 5.1e-9  # venues round rates to 8 decimals
_SAME_SHARE = 1e-6
_APART_US = HOUR_US // 2  # no venue pays more than once an hour
_LEAST_HALT = 2  # intervals without a payment before several payments count as a catch-up

Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


class Payments(NamedTuple):
    """Payments of many series, sorted by series and time, one row each."""

    rows: _Integers
    """Place of each payment (of several, the first) in the arrays that were given."""
    times: _Integers
    """Microseconds since 1970."""
    native: _Floats
    """Fraction of notional per payment; of several payments their sum."""
    counts: _Integers
    """Payments that the row adds up."""


def is_same_rate(first: Any, second: Any) -> NDArray[np.bool_]:
    """Return where two fractions are one rate, up to rounding at the eighth decimal."""
    apart = np.abs(np.asarray(first) - second)
    return np.asarray((apart <= _SAME_RATE) | (apart <= _SAME_SHARE * np.abs(first)))


def merge_payments(
    series: _Integers,
    times: _Integers,
    native: _Floats,
    count: _Integers,
    names: Any,
    conflicts: list[str] | None = None,
    *,
    keep_conflicts: bool = False,
) -> Payments:
    """Return one row per payment.

    Stamps within 60 s of a whole hour become that hour. A payment that is there twice is one row. Several
    payments shortly after each other that make up for a halt become one row at the next whole hour, with
    their sum and count; a payment of that hour is part of it.

    Parameters
    ----------
    series, times
        Number of each row's series, and its stamp [µs], in any order.
    native
        Fraction of notional that is paid; NaN where it is not known.
    count
        Payments that each row adds up already, 1 for most.
    names
        Names of the series, for errors.
    conflicts
        Gets a text about each row that contradicts an earlier one of the same payment, and the row is left
        out; None raises.
    keep_conflicts
        Keep such rows without an error.

    Raises
    ------
    SchemaError
        Two rows are one payment with two rates; the message names both.
    """
    order = np.lexsort((times, series)).astype(np.int64)
    series = series[order]
    stamps = times[order]
    native = native[order]
    count = count[order]
    hours = payment_time(stamps)
    bins = -(-hours // HOUR_US)
    is_again: Bools = np.zeros(len(order), dtype=np.bool_)
    is_again[1:] = (series[1:] == series[:-1]) & (stamps[1:] - stamps[:-1] < _APART_US)
    if not is_again.any():
        return Payments(order, hours, native, count)
    groups = _Groups(series, stamps, bins, native, np.flatnonzero(~is_again))
    catch_ups = groups.catch_ups()
    is_kept = ~groups.is_copy
    hours = hours.copy()
    native = native.copy()
    count = count.copy()
    found: list[str] = []
    for place in groups.several:
        first, end = groups.bounds(place)
        is_kept[first:end] = False
        rows = catch_ups.get(place)
        if rows is None:
            kept = groups.kept(place, names, found, keep_conflicts=keep_conflicts)
            is_kept[kept] = True
            continue
        is_kept[rows[0]] = True
        hours[rows[0]] = bins[end - 1] * HOUR_US
        native[rows[0]] = native[rows].sum()
        count[rows[0]] = count[rows].sum()
    firsts = np.array([rows[0] for rows in catch_ups.values()], dtype=np.int64)
    followers = _payments_of_the_hour(firsts, series, hours, is_kept)
    has_follower = followers >= 0
    firsts = firsts[has_follower]
    followers = followers[has_follower]
    native[firsts] += native[followers]
    count[firsts] += count[followers]
    is_kept[followers] = False
    if conflicts is not None:
        conflicts += found
    elif found and not keep_conflicts:
        raise SchemaError(found[0])
    return Payments(order[is_kept], hours[is_kept], native[is_kept], count[is_kept])


def _payments_of_the_hour(
    rows: _Integers, series: _Integers, hours: _Integers, is_kept: Bools
) -> NDArray[np.intp]:
    """Return of each catch-up row the kept payment that follows at the same hour; -1 for none."""
    kept = np.append(np.flatnonzero(is_kept), -1)
    following = kept[np.searchsorted(kept[:-1], rows, side="right")]
    is_same = (series[following] == series[rows]) & (hours[following] == hours[rows]) & (following > rows)
    return np.where(is_same, following, -1)


class _Groups:
    """Rows of one series that are less than half an hour apart."""

    def __init__(
        self, series: _Integers, stamps: _Integers, bins: _Integers, native: _Floats, starts: NDArray[np.intp]
    ) -> None:
        self._series = series
        self._stamps = stamps
        self._bins = bins
        self._native = native
        self._starts = starts
        self._ends = np.append(starts[1:], len(series))
        counts = self._ends - starts
        first = np.repeat(starts, counts)
        is_copy = (stamps == stamps[first]) & is_same_rate(native, native[first])
        is_copied = np.logical_and.reduceat(is_copy, starts) & (counts > 1)
        self.is_copy: Bools = is_copy & np.repeat(is_copied, counts)
        """Rows of groups that have one payment, stamp and rate, several times: pages overlap."""
        self.is_copy[starts] = False
        self.several: list[int] = np.flatnonzero((counts > 1) & ~is_copied).tolist()
        """Groups of rows that differ."""

    def bounds(self, place: int) -> tuple[int, int]:
        """Return the first row of a group, and the one after its last."""
        return int(self._starts[place]), int(self._ends[place])

    def kept(self, place: int, names: Any, found: list[str], *, keep_conflicts: bool) -> list[int]:
        """Return the rows of a group that are payments of their own, and add texts about contradictions."""
        stamps = self._stamps
        native = self._native
        rows: list[int] = []
        last = -1
        for row in range(*self.bounds(place)):
            if last < 0 or stamps[row] - stamps[last] >= _APART_US:
                rows.append(row)
                last = row
            elif not _is_same(native[row], native[last]):
                name = names[self._series[row]]
                found.append(conflict_text(name, stamps[last], native[last], stamps[row], native[row]))
                rows += [row] * keep_conflicts
        return rows

    def catch_ups(self) -> dict[int, list[int]]:
        """Return the rows of groups that make up for payments that a halt held back, by group.

        They come after a gap, and are at most as many as it lacks. Where the series also has groups that
        are not after a gap, its payments are there twice, and so are equal ones after a gap. Copies with
        one stamp do not tell so: the stamps of payments after a halt differ.
        """
        found: dict[int, list[int]] = {}
        with_duplicates = set[int]()
        for place in self.several:
            rows = self._distinct(place)
            gap, step = self._gap_and_step(place)
            if len(rows) > 1 and gap >= _LEAST_HALT * step and len(rows) <= round(gap / step):
                found[place] = rows
            else:
                with_duplicates.add(int(self._series[self._starts[place]]))
        return {
            place: rows
            for place, rows in found.items()
            if self._series[rows[0]] not in with_duplicates
            or not is_same_rate(self._native[rows], self._native[rows[0]]).all()
        }

    def _distinct(self, place: int) -> list[int]:
        """Return the rows whose stamp and rate are not those of a row before: pages overlap."""
        stamps = self._stamps
        native = self._native
        rows: list[int] = []
        for row in range(*self.bounds(place)):
            same = [other for other in rows if stamps[row] == stamps[other]]
            if not any(is_same_rate(native[row], native[other]) for other in same):
                rows.append(row)
        return rows

    def _gap_and_step(self, place: int) -> tuple[float, float]:
        """Return the hours before a group, and the shortest gap next to it (infinite for none)."""
        near = range(max(place - 2, 0), min(place + 3, len(self._starts)))
        series = self._series[self._starts]
        hours = sorted({int(self._bins[self._ends[i] - 1]) for i in near if series[i] == series[place]})
        own = int(self._bins[self._ends[place] - 1])
        before = [hour for hour in hours if hour < own]
        gap = own - before[-1] if before else 0
        others = [later - earlier for earlier, later in pairwise(hours) if later != own]
        return float(gap), float(min(others, default=np.inf))


def _is_same(first: float, second: float) -> bool:
    return bool((np.isnan(first) and np.isnan(second)) or is_same_rate(first, second))


def conflict_text(name: str, first_us: int, first: float, second_us: int, second: float) -> str:
    """Return the error of a payment with two rates, which names both rows."""
    shown = [
        f"{np.datetime_as_string(np.datetime64(int(stamp), 'us'), unit='ms')}Z with rate {rate:.10g}"
        for stamp, rate in ((first_us, first), (second_us, second))
    ]
    return f"the payment of {name} has two rates: {shown[0]} and {shown[1]}; find out which is right"


def rates_of(native: _Floats, hours: _Floats) -> _Floats:
    """Return rates [bps/8h] of payments that are for some hours; NaN where either is not known."""
    bps: _Floats = units.convert(native, "native", "bps_8h", hours=hours)
    return bps
