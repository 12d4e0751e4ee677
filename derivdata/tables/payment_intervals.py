"""Funding intervals that venues use, the hour that a payment is of, and the interval of each payment.

A payment has the interval that its own row states, else the one that the venue's list of contracts states
for that time, else the spacing of the series. Spacing counts only where three gaps are equal, because a
single gap may be a missing payment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CONFIRMING_GAPS",
    "VALID_HOURS",
    "AssignedIntervals",
    "assign_intervals",
    "confirmed_runs",
    "contradicted",
    "is_valid",
    "payment_time",
]

VALID_HOURS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 24.0)
"""Hours between payments that venues use: OKX documents 6 h, and Paradex lists markets of 24 h."""
CONFIRMING_GAPS = 3
"""Equal gaps in a row that confirm an interval."""

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000

_ROUNDING = 1 / 60  # hours: payments that are not stamped at a whole hour
_NO_FIT = 100.0  # missing payments that count as an impossible interval
_EARLY_CHANGE = 1.5  # missing payments as unlikely as a first payment before a whole new interval

_OVERLAP = 0.75  # of an interval: a payment may come some minutes late, and the next one in time

_Array = NDArray[Any]


class AssignedIntervals(NamedTuple):
    """Hours of each payment, and whether they are stated or the payment's own gap confirms them."""

    hours: NDArray[np.float64]
    """NaN where the interval is not known."""
    is_confirmed: NDArray[np.bool_]


def is_valid(hours: _Array) -> NDArray[np.bool_]:
    """Return where hours are an interval that venues use."""
    return np.isin(hours, VALID_HOURS)


def payment_time(times: _Array) -> NDArray[np.int64]:
    """Round stamps [µs] that are at most 60 s from a whole hour to that hour; others stay."""
    stamps = np.asarray(times, dtype=np.int64)
    after = stamps % HOUR_US
    hour = np.where(after <= MINUTE_US, stamps - after, stamps + (HOUR_US - after))
    return np.where((after <= MINUTE_US) | (after >= HOUR_US - MINUTE_US), hour, stamps)


def confirmed_runs(is_equal: _Array) -> NDArray[np.bool_]:
    """Return which gaps lie in a run of at least three equal ones.

    `is_equal` states of each gap whether it equals the gap before; gaps are along the last axis.
    """
    equal = np.asarray(is_equal, dtype=bool)
    size = equal.shape[-1]
    places = np.broadcast_to(np.arange(size), equal.shape)
    first = np.maximum.accumulate(np.where(equal, -1, places), axis=-1)
    starts_next = np.where(equal, size, places)
    following = np.minimum.accumulate(starts_next[..., ::-1], axis=-1)[..., ::-1]
    end = np.full(equal.shape, size)
    end[..., :-1] = following[..., 1:]
    return np.asarray(end - np.maximum(first, 0) >= CONFIRMING_GAPS)


def assign_intervals(
    series: _Array,
    times: _Array,
    stated: _Array | None = None,
    listed: _Array | None = None,
) -> AssignedIntervals:
    """Return the interval of each payment of many series.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other.
    times
        Stamps [µs] from `payment_time`, ascending within a series, without duplicates.
    stated
        Hours that the row, or a list for that time, states; NaN for none. Confirmed shorter gaps overrule it.
    listed
        Hours that the venue's list states for the series now; NaN for none. They hold from the last payments
        of which the spacing does not confirm another interval.

    Returns
    -------
    AssignedIntervals
        A missing payment does not change the intervals of its neighbours. The interval changes at the first
        of three equal gaps. Where neither statement nor spacing tells the interval, it is NaN.

    Notes
    -----
    Between two confirmed intervals, rows go to the earlier or the later one so that the fewest payments are
    missing.
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
    # An interval that is longer than the time since the payment before cannot be right: a venue may state
    # the present one in rows of the past.
    has_statement = np.isfinite(stated) & ~(confirmed & (gaps < stated))
    anchors = np.where(has_statement, stated, np.where(confirmed, gaps, np.nan))
    hours = anchors.copy()
    bounds = np.append(np.flatnonzero(starts), size)
    leads = bounds[:-1][np.diff(bounds) > 1]
    hours[leads] = np.where(np.isnan(hours[leads]), hours[leads + 1], hours[leads])
    is_open = np.add.reduceat(np.isnan(hours), bounds[:-1]) > 0
    for first, end in zip(bounds[:-1][is_open].tolist(), bounds[1:][is_open].tolist(), strict=True):
        part = slice(first, end)
        hours[part] = _filled(gaps[part], anchors[part], float(listed[end - 1]))
    return AssignedIntervals(hours, has_statement | confirmed)


class Contradiction(NamedTuple):
    """Payments whose stated interval other payments contradict."""

    rows: NDArray[np.bool_]
    gaps: NDArray[np.float64]
    """Hours since the payment before; NaN for the first of a series."""
    hours: NDArray[np.float64]
    """The stated hours, of contradicted rows in a confirmed run the gap."""


def contradicted(series: _Array, times: _Array, stated: _Array) -> Contradiction:
    """Return which stated intervals the spacing of payments contradicts.

    Equal gaps that are an interval of venues contradict another statement: three in a row, or all of a short
    series. Three
    payments in a row well before the end of their interval contradict it, except the first after a change: a
    new schedule counts from midnight.

    Parameters
    ----------
    series, times
        As in `assign_intervals`.
    stated
        Hours that each row states; NaN for none.
    """
    if not len(times):
        return Contradiction(np.zeros(0, dtype=np.bool_), np.zeros(0), np.zeros(0))
    starts = np.append(True, series[1:] != series[:-1])
    gaps = _gaps(np.asarray(times, dtype=np.int64), starts)
    equal = np.append(False, gaps[1:] == gaps[:-1])
    has_run = (confirmed_runs(equal) | _is_even(gaps, starts)) & is_valid(gaps) & np.isfinite(stated)
    is_other = has_run & (np.abs(gaps - stated) > _ROUNDING)
    before = np.append(np.nan, stated[:-1])
    is_change = (stated != before) & (gaps > stated / 2 - _ROUNDING)
    is_early = (gaps < _OVERLAP * stated) & ~is_change
    # A single payment between two others makes two of them early.
    is_early &= confirmed_runs(np.append(False, is_early[1:] & is_early[:-1] & ~starts[1:]))
    return Contradiction(is_other | is_early, gaps, np.where(is_other, gaps, stated))


def _is_even(gaps: NDArray[np.float64], starts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the rows of series whose gaps are all equal, two of them at least."""
    leads = np.flatnonzero(starts)
    lengths = np.diff(np.append(leads, len(gaps)))
    lowest = np.minimum.reduceat(np.where(starts, np.inf, gaps), leads)
    highest = np.maximum.reduceat(np.where(starts, -np.inf, gaps), leads)
    is_even = (lowest == highest) & (lengths > CONFIRMING_GAPS - 1)
    return np.repeat(is_even, lengths)


def _gaps(times: NDArray[np.int64], starts: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the hours before each payment, NaN before the first of a series; whole ones are exact."""
    gaps = np.full(len(times), np.nan)
    gaps[1:] = np.diff(times) / HOUR_US
    gaps[starts] = np.nan
    whole = np.rint(gaps)
    return np.where(np.abs(gaps - whole) <= _ROUNDING, whole, gaps)


def _filled(gaps: NDArray[np.float64], anchors: NDArray[np.float64], listed: float) -> NDArray[np.float64]:
    """Return the hours of one series' rows, given those that are stated or confirmed."""
    hours = anchors.copy()
    places = np.flatnonzero(np.isfinite(anchors))
    if not places.size:
        return _without_anchor(gaps, listed)
    known = np.concatenate([[-1], places, [len(gaps)]])
    for place in np.flatnonzero(np.diff(known) > 1).tolist():
        first = int(known[place])
        last = int(known[place + 1])
        before = anchors[first] if first >= 0 else np.nan
        after = anchors[last] if last < len(gaps) else listed
        hours[first + 1 : last] = _between(gaps[first + 1 : last], float(before), float(after))
    if np.isnan(anchors[0]) and len(hours) > 1:
        hours[0] = hours[1]  # no gap before the first payment
    return hours


def _without_anchor(gaps: NDArray[np.float64], listed: float) -> NDArray[np.float64]:
    """Return the hours of a short series: those of the list, or of three equal gaps among multiples."""
    known = gaps[1:]
    if np.isfinite(listed):
        # A longer gap has missing or late payments; only a shorter one contradicts the list.
        hours = np.where(_is_multiple(gaps, listed) | (gaps > listed), listed, np.nan)
        hours[0] = listed if len(gaps) == 1 else hours[1]
        return hours
    step = float(np.min(known, initial=np.inf))
    is_step = bool(is_valid(np.array([step]))[0]) and np.count_nonzero(known == step) >= CONFIRMING_GAPS
    if is_step and _is_multiple(known, step).all():
        return np.full(len(gaps), step)
    return np.full(len(gaps), np.nan)


def _is_multiple(gaps: NDArray[np.float64], step: float) -> NDArray[np.bool_]:
    count = np.rint(gaps / step)
    return np.asarray((count >= 1.0) & (np.abs(gaps - count * step) <= _ROUNDING))


def _between(gaps: NDArray[np.float64], before: float, after: float) -> NDArray[np.float64]:
    """Return the hours of rows between two known intervals, NaN for one that is not known."""
    if np.isnan(before) or np.isnan(after):
        step = after if np.isnan(before) else before
        return np.where(_is_multiple(gaps, step), step, np.nan)
    if before == after:
        # A payment may be late: it counts as one interval if it does not overlap the one before by half.
        return np.where(_is_multiple(gaps, before) | (gaps > before / 2), before, np.nan)
    of_first = _missing(gaps, before)
    of_second = _missing(gaps, after)
    changes = np.array([_missing_at_change(gap, before, after) for gap in gaps.tolist()])
    # The cost of a change at each row, and of one at the row after all of these.
    until = np.append(0.0, np.cumsum(of_first))
    beyond = np.append(np.cumsum(of_second[::-1])[::-1], 0.0)
    costs = np.append(until[:-1] + changes + beyond[1:], until[-1])
    change = len(costs) - 1 - int(np.argmin(costs[::-1]))  # the last of equal ones
    hours = np.where(np.arange(len(gaps)) < change, before, after)
    fits = np.where(np.arange(len(gaps)) < change, of_first, of_second) < _NO_FIT
    if change < len(gaps):
        fits[change] = changes[change] < _NO_FIT
    return np.where(fits, hours, np.nan)


def _missing(gaps: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return how many payments are missing in each gap, `_NO_FIT` where it is not a multiple of the step."""
    return np.where(_is_multiple(gaps, step), np.rint(gaps / step) - 1.0, _NO_FIT)


def _missing_at_change(gap: float, before: float, after: float) -> float:
    """Return the fewest missing payments in the gap before the first payment of a new interval."""
    fewest = _NO_FIT
    if after / 2 < gap < after:  # the new schedule counts from midnight, so its first payment may come sooner
        fewest = _EARLY_CHANGE
    for missing_before in range(int(min(gap, 24 * 30) // before) + 1):
        rest = gap - missing_before * before
        count = round(rest / after)
        if count >= 1 and abs(rest - count * after) <= _ROUNDING:
            fewest = min(fewest, float(missing_before + count - 1))
    return fewest
