"""Funding payments: one row per payment, at its hour, with its interval.

A payment has the interval of its row, else the interval in the venue's list of contracts at that time, else
the spacing of the series. Spacing counts only if three gaps are equal, because a single gap may be a missing
payment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata import units
from derivdata.errors import SchemaError

__all__ = [
    "CONFIRMING_GAPS",
    "LATEST_SUM_HOURS",
    "SOURCES",
    "VALID_HOURS",
    "AssignedIntervals",
    "Payments",
    "assign_intervals",
    "confirmed_runs",
    "conflict_text",
    "contradicted",
    "ends_other_interval",
    "intervals_of_gaps",
    "is_same_rate",
    "is_valid",
    "merge_payments",
    "missing_before",
    "payment_time",
    "rates_of",
]


VALID_HOURS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 24.0)
"""Hours between payments that venues use: OKX documents 6 h, and Paradex lists markets of 24 h."""
CONFIRMING_GAPS = 3
"""Equal gaps in a row that confirm an interval."""

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000

_ROUNDING = 1 / 60  # tolerance in hours for timestamps off the whole hour
_NO_FIT = 100.0  # cost of an impossible interval, in missing payments
_EARLY_CHANGE = 1.5  # cost of a first payment before a full new interval, in missing payments

LATEST_SUM_HOURS = 1.0
"""Maximum delay of the combined payment after a halt [h]; it is stamped at the whole hour after the last
one."""
_LATE = 1.5  # maximum gap of a late payment, in intervals
_OVERLAP = 0.75  # minimum gap after a late payment as a fraction of the interval

_Array = NDArray[Any]


class AssignedIntervals(NamedTuple):
    """Interval of each payment [h], and whether it is stated or confirmed by the gap before the payment."""

    hours: NDArray[np.float64]
    """NaN where the interval is not known."""
    is_confirmed: NDArray[np.bool_]


def is_valid(hours: _Array) -> NDArray[np.bool_]:
    """Return a mask of the hours that are a valid funding interval."""
    return np.isin(hours, VALID_HOURS)


def payment_time(times: _Array) -> NDArray[np.int64]:
    """Round stamps [µs] that are at most 60 s from a whole hour to that hour; others do not change."""
    stamps = np.asarray(times, dtype=np.int64)
    after = stamps % HOUR_US
    hour = np.where(after <= MINUTE_US, stamps - after, stamps + (HOUR_US - after))
    return np.where((after <= MINUTE_US) | (after >= HOUR_US - MINUTE_US), hour, stamps)


def confirmed_runs(is_equal: _Array, minimum: int = CONFIRMING_GAPS) -> NDArray[np.bool_]:
    """Return a mask of the gaps that are in a run of at least `minimum` equal gaps.

    `is_equal` is True where a gap equals the previous one, along the last axis.
    """
    equal = np.asarray(is_equal, dtype=bool)
    size = equal.shape[-1]
    places = np.broadcast_to(np.arange(size), equal.shape)
    first = np.maximum.accumulate(np.where(equal, -1, places), axis=-1)
    starts_next = np.where(equal, size, places)
    following = np.minimum.accumulate(starts_next[..., ::-1], axis=-1)[..., ::-1]
    end = np.full(equal.shape, size)
    end[..., :-1] = following[..., 1:]
    return np.asarray(end - np.maximum(first, 0) >= minimum)


def assign_intervals(
    series: _Array, times: _Array, stated: _Array | None = None, listed: _Array | None = None
) -> AssignedIntervals:
    """Return the interval of each payment of many series.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other.
    times
        Stamps [µs] from `payment_time`, ascending within a series, without duplicates.
    stated
        Interval [h] stated by the row or by a list for its time; NaN without one. Shorter confirmed gaps
        override it.
    listed
        Interval [h] of the series in the venue's current list; NaN without one. It applies to the last
        payments, back to the last one whose spacing confirms another interval.

    Returns
    -------
    AssignedIntervals
        A missing payment does not change the intervals of its neighbours. The interval changes at the first
        of three equal gaps. If the interval is neither given nor determined by spacing, it is NaN.

    Notes
    -----
    A payment between two confirmed intervals gets the one with which fewer payments are missing.
    """
    size = len(times)
    nothing = np.full(size, np.nan)
    stated = nothing if stated is None else np.asarray(stated, dtype=np.float64)
    listed = nothing if listed is None else np.asarray(listed, dtype=np.float64)
    if not size:
        return AssignedIntervals(nothing, np.zeros(0, dtype=np.bool_))
    starts = np.append(True, series[1:] != series[:-1])
    gaps = _gaps(np.asarray(times, dtype=np.int64), starts)
    equal = np.append(False, gaps[1:] == gaps[:-1])  # NaN equals nothing, so that series stay apart
    confirmed = confirmed_runs(equal) & is_valid(gaps)
    # An interval longer than the time since the previous payment is wrong: a venue may put the current
    # interval into past rows.
    has_statement = np.isfinite(stated) & ~(confirmed & (gaps < stated))
    anchors = np.where(has_statement, stated, np.where(confirmed, gaps, np.nan))
    hours = anchors.copy()
    firsts = np.flatnonzero(starts)
    ends = np.append(firsts[1:], size)
    # The first payment of a series has no gap: it has the interval of the second one.
    with_second = firsts[ends - firsts > 1]
    hours[with_second] = np.where(np.isnan(hours[with_second]), hours[with_second + 1], hours[with_second])
    has_unknown = np.add.reduceat(np.isnan(hours), firsts) > 0
    for first, end in zip(firsts[has_unknown].tolist(), ends[has_unknown].tolist(), strict=True):
        rows = slice(first, end)
        hours[rows] = _filled(gaps[rows], anchors[rows], float(listed[end - 1]))
    return AssignedIntervals(hours, has_statement | confirmed)


def intervals_of_gaps(
    gaps: _Array, *, candidates: Sequence[float] = VALID_HOURS, confirm: int = CONFIRMING_GAPS
) -> NDArray[np.float64]:
    """Return the interval [h] of each payment of one series from the spacing alone, as in `assign_intervals`.

    `gaps` are the hours before each payment, NaN for the first. An interval must be one of `candidates`;
    `confirm` equal gaps confirm it.
    """
    equal = np.append(False, gaps[1:] == gaps[:-1])
    is_confirmed = confirmed_runs(equal, confirm) & np.isin(gaps, candidates)
    anchors = np.where(is_confirmed, gaps, np.nan)
    return _filled(gaps, anchors, np.nan, candidates, confirm)


def missing_before(gap: float, before: float, after: float) -> int:
    """Return the number of payments missing in the gap [h] at a change of the interval."""
    missing = _missing_at_change(gap, before, after)
    return 0 if missing in (_NO_FIT, _EARLY_CHANGE) else int(missing)


class Contradiction(NamedTuple):
    """Payments with a stated interval that the spacing contradicts: mask, gaps and corrected hours."""

    rows: NDArray[np.bool_]
    gaps: NDArray[np.float64]
    """Hours since the payment before; NaN for the first of a series."""
    hours: NDArray[np.float64]
    """The stated hours; the gap for contradicted rows in a run of equal gaps."""


def contradicted(series: _Array, times: _Array, stated: _Array) -> Contradiction:
    """Return the payments whose stated interval contradicts the spacing of payments.

    Three equal gaps in a row, or all gaps of a short series, contradict a different stated interval if their
    length is a valid one. Three payments in a row that are well before the end of their stated interval
    contradict it too. The first payment after a change of the interval is excepted, because a new schedule
    counts from midnight.

    Parameters
    ----------
    series, times
        As in `assign_intervals`.
    stated
        Hours that each row states; else NaN.
    """
    if not len(times):
        return Contradiction(np.zeros(0, dtype=np.bool_), np.zeros(0), np.zeros(0))
    starts = np.append(True, series[1:] != series[:-1])
    gaps = _gaps(np.asarray(times, dtype=np.int64), starts)
    equal = np.append(False, gaps[1:] == gaps[:-1])
    has_run = (confirmed_runs(equal) | _is_even(gaps, starts)) & is_valid(gaps) & np.isfinite(stated)
    is_other = has_run & (np.abs(gaps - stated) > _ROUNDING) & ~ends_other_interval(gaps, stated)
    before = np.append(np.nan, stated[:-1])
    is_change = (stated != before) & (gaps > stated / 2 - _ROUNDING)
    is_early = (gaps < _OVERLAP * stated) & ~is_change
    # A single extra payment makes two payments early, so they do not count.
    is_early &= confirmed_runs(np.append(False, is_early[1:] & is_early[:-1] & ~starts[1:]))
    return Contradiction(is_other | is_early, gaps, np.where(is_other, gaps, stated))


def ends_other_interval(gaps: _Array, stated: _Array) -> NDArray[np.bool_]:
    """Return a mask of payments that end the old interval but state the new one.

    MEXC states the new interval in the last payment of the old one (`collectCycle`, 2024-12).

    Parameters
    ----------
    gaps
        Hours before each payment, NaN before the first of a series.
    stated
        Hours that each row states; else NaN.
    """
    before = np.append(np.nan, stated[:-1])
    after = np.append(gaps[1:], np.nan)
    is_old = (np.abs(gaps - before) <= _ROUNDING) & (stated != before)
    return np.asarray(is_old & (np.isnan(after) | (np.abs(after - stated) <= _ROUNDING)))


def _is_even(gaps: NDArray[np.float64], starts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the rows of series with at least two gaps, all equal."""
    leads = np.flatnonzero(starts)
    lengths = np.diff(np.append(leads, len(gaps)))
    lowest = np.minimum.reduceat(np.where(starts, np.inf, gaps), leads)
    highest = np.maximum.reduceat(np.where(starts, -np.inf, gaps), leads)
    is_even = (lowest == highest) & (lengths > CONFIRMING_GAPS - 1)
    return np.repeat(is_even, lengths)


def _gaps(times: NDArray[np.int64], starts: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the hours before each payment, NaN before the first of a series; whole hours are exact."""
    gaps = np.full(len(times), np.nan)
    gaps[1:] = np.diff(times) / HOUR_US
    gaps[starts] = np.nan
    whole = np.rint(gaps)
    return np.where(np.abs(gaps - whole) <= _ROUNDING, whole, gaps)


def _filled(
    gaps: NDArray[np.float64],
    anchors: NDArray[np.float64],
    listed: float,
    candidates: Sequence[float] = VALID_HOURS,
    confirm: int = CONFIRMING_GAPS,
) -> NDArray[np.float64]:
    """Return the hours of one series' rows; `anchors` are the given or confirmed ones, NaN for others."""
    hours = anchors.copy()
    places = np.flatnonzero(np.isfinite(anchors))
    if not places.size:
        return _without_anchor(gaps, listed, candidates, confirm)
    bounds = np.concatenate([[-1], places, [len(gaps)]])
    # Fill each run of unknown rows between two anchors, or between an anchor and an end of the series.
    for place in np.flatnonzero(np.diff(bounds) > 1).tolist():
        first = int(bounds[place])
        last = int(bounds[place + 1])
        before = anchors[first] if first >= 0 else np.nan
        after = anchors[last] if last < len(gaps) else listed
        hours[first + 1 : last] = _between(gaps[first + 1 : last], float(before), float(after))
    if np.isnan(anchors[0]) and len(hours) > 1:
        hours[0] = hours[1]  # no gap before the first payment
    return hours


def _without_anchor(
    gaps: NDArray[np.float64], listed: float, candidates: Sequence[float], confirm: int
) -> NDArray[np.float64]:
    """Return the hours of a short series: from the list, or from enough equal gaps among multiples."""
    between = gaps[1:]
    if np.isfinite(listed):
        # A longer gap has missing or late payments; only a shorter one contradicts the list.
        hours = np.where(_is_multiple(gaps, listed) | (gaps > listed), listed, np.nan)
        hours[0] = listed if len(gaps) == 1 else hours[1]
        return hours
    step = float(np.min(between, initial=np.inf))
    is_step = step in candidates and np.count_nonzero(between == step) >= confirm
    if is_step and _is_multiple(between, step).all():
        return np.full(len(gaps), step)
    return np.full(len(gaps), np.nan)


def _is_multiple(gaps: NDArray[np.float64], step: float) -> NDArray[np.bool_]:
    """Return a mask of gaps that are one or more whole steps, up to a minute."""
    count = np.rint(gaps / step)
    return np.asarray((count >= 1.0) & (np.abs(gaps - count * step) <= _ROUNDING))


def _between(gaps: NDArray[np.float64], before: float, after: float) -> NDArray[np.float64]:
    """Return the hours of rows between two known intervals, NaN if unknown.

    Between two different intervals, the change is at the row with which the fewest payments are missing, on
    ties at the last one.
    """
    # 1. At an end of the series, or between equal intervals, there is no change.
    if np.isnan(before) or np.isnan(after):
        step = after if np.isnan(before) else before
        return np.where(_is_multiple(gaps, step) | _is_late_or_next(gaps, step), step, np.nan)
    if before == after:
        # A payment may be late: it counts as one interval if it does not overlap the one before by half.
        is_one = (gaps > before / 2) | _follows_late_sum(gaps, before)
        return np.where(_is_multiple(gaps, before) | is_one, before, np.nan)

    # 2. Count the missing payments for a change at each row, and for one after all these rows (last element).
    with_old = _missing(gaps, before)
    with_new = _missing(gaps, after)
    at_change = np.array([_missing_at_change(gap, before, after) for gap in gaps.tolist()])
    before_change = np.append(0.0, np.cumsum(with_old))
    after_change = np.append(np.cumsum(with_new[::-1])[::-1], 0.0)
    costs = np.append(before_change[:-1] + at_change + after_change[1:], before_change[-1])
    # argmin returns the first minimum, so the costs are reversed for the last one.
    change = len(costs) - 1 - int(np.argmin(costs[::-1]))

    # 3. Assign the intervals, except to rows whose gap fits neither.
    has_old = np.arange(len(gaps)) < change
    fits = np.where(has_old, with_old, with_new) < _NO_FIT
    if change < len(gaps):
        fits[change] = at_change[change] < _NO_FIT
    return np.where(fits, np.where(has_old, before, after), np.nan)


def _is_late_or_next(gaps: NDArray[np.float64], step: float) -> NDArray[np.bool_]:
    """Return a mask of gaps that end with a late payment, or follow one and make up for it."""
    is_late = (gaps > step) & (gaps < _LATE * step)
    makes_up = np.abs(gaps[:-1] + gaps[1:] - 2.0 * step) <= _ROUNDING
    is_pair = is_late[:-1] & makes_up
    return np.asarray(np.append(is_pair, False) | np.append(False, is_pair))


def _follows_late_sum(gaps: NDArray[np.float64], step: float) -> NDArray[np.bool_]:
    """Return a mask of punctual payments after the combined payment of a halt, which may be an hour late."""
    before = np.append(np.nan, gaps[:-1])
    is_in_time = ~_is_multiple(before, step) & _is_multiple(before + gaps, step)
    return np.asarray(is_in_time & (gaps >= step - LATEST_SUM_HOURS) & (gaps >= step / 2))


def _missing(gaps: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return the number of missing payments in each gap; `_NO_FIT` if the gap is no multiple of the step."""
    return np.where(_is_multiple(gaps, step), np.rint(gaps / step) - 1.0, _NO_FIT)


def _missing_at_change(gap: float, before: float, after: float) -> float:
    """Return the minimum number of missing payments before the first payment of a new interval."""
    fewest = _NO_FIT
    if after / 2 < gap < after:  # the new schedule counts from midnight, so its first payment may come sooner
        fewest = _EARLY_CHANGE
    for missing_before in range(int(min(gap, 24 * 30) // before) + 1):
        rest = gap - missing_before * before
        count = round(rest / after)
        if count >= 1 and abs(rest - count * after) <= _ROUNDING:
            fewest = min(fewest, float(missing_before + count - 1))
    return fewest


SOURCES = ("row", "list", "spacing")
"""Sources of an interval: the payment's own row, the venue's list, the spacing of the series."""

_SAME_RATE = 5.1e-9  # venues round rates to 8 decimals
_SAME_SHARE = 1e-6
_APART_US = HOUR_US // 2  # no venue pays more than once an hour
_SECOND_US = 1_000_000
_MIN_HALT = 2  # intervals without a payment before several payments count as a catch-up

Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


class Payments(NamedTuple):
    """Payments of many series, sorted by series and time, one row each."""

    rows: _Integers
    """Position of each payment in the input arrays; of summed payments, the first."""
    times: _Integers
    """Microseconds since 1970."""
    native: _Floats
    """Payment as a fraction of notional; the sum if the row has several payments."""
    counts: _Integers
    """Number of payments in the row."""


def is_same_rate(first: Any, second: Any) -> NDArray[np.bool_]:
    """Return a mask of equal rates, as fractions, up to rounding at the eighth decimal."""
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
    """Return one row per payment, without duplicates and with catch-up payments summed.

    Timestamps within 60 s of a whole hour are rounded to it. Duplicate payments become one row. Several
    payments shortly after a halt become one row at the next whole hour with their sum and count, which
    includes a payment at that hour.

    Parameters
    ----------
    series, times
        Number of each row's series, and its stamp [µs], in any order.
    native
        Payment as a fraction of notional; NaN if unknown.
    count
        Number of payments that each row already sums, usually 1.
    names
        Names of the series, for errors.
    conflicts
        List to which a text is added for each omitted row that contradicts an earlier row of the same
        payment. With None, such a row raises an error.
    keep_conflicts
        Whether to return contradictory rows too, without an error.

    Raises
    ------
    SchemaError
        Two rows are one payment with two rates; the message names both.
    """
    # 1. Sort, and find rows less than half an hour after the previous row of their series.
    order = np.lexsort((times, series)).astype(np.int64)
    series = series[order]
    stamps = times[order]
    native = native[order]
    count = count[order]
    hours = payment_time(stamps)
    bins = -(-hours // HOUR_US)  # whole hours, rounded up
    is_again: Bools = np.zeros(len(order), dtype=np.bool_)
    is_again[1:] = (series[1:] == series[:-1]) & (stamps[1:] - stamps[:-1] < _APART_US)
    if not is_again.any():
        return Payments(order, hours, native, count)

    # 2. Sum catch-up payments of each group of such rows, and keep one row per payment in other groups.
    groups = _Groups(series, stamps, bins, native, np.flatnonzero(~is_again))
    catch_ups = groups.catch_ups()
    is_kept = ~groups.is_copy
    hours = hours.copy()
    native = native.copy()
    count = count.copy()
    contradictions: list[str] = []
    for place in groups.several:
        first, end = groups.bounds(place)
        is_kept[first:end] = False
        rows = catch_ups.get(place)
        if rows is None:
            separate = groups.separate_payments(place, names, contradictions, keep_conflicts=keep_conflicts)
            is_kept[separate] = True
            continue
        # The first row of the catch-up gets the sum, at the hour of the last one.
        is_kept[rows[0]] = True
        hours[rows[0]] = bins[end - 1] * HOUR_US
        native[rows[0]] = native[rows].sum()
        count[rows[0]] = count[rows].sum()

    # 3. Add the regular payment of the same hour to each catch-up payment.
    firsts = np.array([rows[0] for rows in catch_ups.values()], dtype=np.int64)
    followers = _payments_of_the_hour(firsts, series, hours, is_kept)
    has_follower = followers >= 0
    firsts = firsts[has_follower]
    followers = followers[has_follower]
    native[firsts] += native[followers]
    count[firsts] += count[followers]
    is_kept[followers] = False
    if conflicts is not None:
        conflicts += contradictions
    elif contradictions and not keep_conflicts:
        raise SchemaError(contradictions[0])
    return Payments(order[is_kept], hours[is_kept], native[is_kept], count[is_kept])


def _payments_of_the_hour(
    rows: _Integers, series: _Integers, hours: _Integers, is_kept: Bools
) -> NDArray[np.intp]:
    """Return for each catch-up row the payment that follows at the same hour; −1 without one."""
    places = np.append(np.flatnonzero(is_kept), -1)
    following = places[np.searchsorted(places[:-1], rows, side="right")]
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

    def separate_payments(
        self, place: int, names: Any, conflicts: list[str], *, keep_conflicts: bool
    ) -> list[int]:
        """Return the rows of a group that are separate payments, and add texts about contradictions."""
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
                conflicts.append(conflict_text(name, stamps[last], native[last], stamps[row], native[row]))
                rows += [row] * keep_conflicts
        return rows

    def catch_ups(self) -> dict[int, list[int]]:
        """Return the rows of groups that are payments held back by a halt, by group.

        A group after a gap of `_MIN_HALT` steps or more counts if it has no more payments than the gap lacks.
        If other groups of the series do not count, the series repeats payments. Then a group after a gap
        counts only if its rates differ. The first group of a series counts if it can follow a halt that
        began before the first row, and the series does not repeat payments. Payments after a halt have
        different timestamps, so rows with the same timestamp and rate count once.
        """
        after_gap: dict[int, list[int]] = {}
        at_start: dict[int, list[int]] = {}
        with_duplicates = set[int]()
        for place in self.several:
            rows = self._distinct(place)
            gap, step = self._gap_and_step(place)
            if len(rows) > 1 and gap >= _MIN_HALT * step and len(rows) <= round(gap / step):
                after_gap[place] = rows
            elif gap == 0.0 and self._is_cut_halt(rows):
                at_start[place] = rows
            else:
                with_duplicates.add(int(self._series[self._starts[place]]))
        result: dict[int, list[int]] = {}
        for place, rows in after_gap.items():
            rates = self._native[rows]
            has_different_rates = not is_same_rate(rates, rates[0]).all()
            if has_different_rates or self._series[rows[0]] not in with_duplicates:
                result[place] = rows
        return result | {
            place: rows for place, rows in at_start.items() if self._series[rows[0]] not in with_duplicates
        }

    def _is_cut_halt(self, rows: list[int]) -> bool:
        """Return whether the first rows of a series can be payments after a halt that began before them.

        They are at least a second apart. Within a minute of the hour, equal rates may be one payment.
        """
        stamps = self._stamps[rows]
        is_at_hour = payment_time(stamps) % HOUR_US == 0
        is_equal = is_same_rate(self._native[rows], self._native[rows[0]])
        is_apart = bool((np.diff(stamps) >= _SECOND_US).all())
        return len(rows) > 1 and is_apart and not (is_at_hour & is_equal).all()

    def _distinct(self, place: int) -> list[int]:
        """Return the rows of a group without copies of an earlier row.

        Pages overlap, so rows with the same timestamp and rate may come several times.
        """
        stamps = self._stamps
        native = self._native
        rows: list[int] = []
        for row in range(*self.bounds(place)):
            same_time = [other for other in rows if stamps[row] == stamps[other]]
            if not any(_is_same(native[row], native[other]) for other in same_time):
                rows.append(row)
        return rows

    def _gap_and_step(self, place: int) -> tuple[float, float]:
        """Return the hours before a group, and the shortest gap next to it (infinite without one)."""
        # The gap before the group itself does not count for the shortest one: look at two groups each side.
        near = range(max(place - 2, 0), min(place + 3, len(self._starts)))
        series = self._series[self._starts]
        hours = sorted({int(self._bins[self._ends[i] - 1]) for i in near if series[i] == series[place]})
        hour_of_group = int(self._bins[self._ends[place] - 1])
        before = [hour for hour in hours if hour < hour_of_group]
        gap = hour_of_group - before[-1] if before else 0
        other_gaps = [later - earlier for earlier, later in pairwise(hours) if later != hour_of_group]
        return float(gap), float(min(other_gaps, default=np.inf))


def _is_same(first: float, second: float) -> bool:
    """Return whether two rates are equal up to rounding, or both unknown."""
    return bool((np.isnan(first) and np.isnan(second)) or is_same_rate(first, second))


def conflict_text(name: str, first_us: int, first: float, second_us: int, second: float) -> str:
    """Return the error message for a payment with two rates, with the time and rate of both rows."""
    shown = [
        f"{np.datetime_as_string(np.datetime64(int(stamp), 'us'), unit='ms')}Z with rate {rate:.10g}"
        for stamp, rate in ((first_us, first), (second_us, second))
    ]
    return f"the payment of {name} has two rates: {shown[0]} and {shown[1]}; check which is right"


def rates_of(native: _Floats, hours: _Floats) -> _Floats:
    """Return the rates [bps/8h] of payments `native` over `hours`; NaN where either is unknown."""
    bps: _Floats = units.convert(native, "native", "bps_8h", hours=hours)
    return bps
