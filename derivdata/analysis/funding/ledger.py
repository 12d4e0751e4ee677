"""Payments of a funding panel to a position, and the time that no row covers, in plain numpy.

A sampled rate holds from its row to the next, and past rows without a value up to a limit. A settlement
pays for the interval that ends at its row. Both become the same three figures per row: the amount [bps of
notional], the hours it covers, and the hours before it that nothing covers. Time is on the last axis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.panels import last_valid
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.units import convert

LATE = 1.5
"""Intervals without a settlement after which one is missing: halfway to the second."""
_ROUNDING = 1e-6  # hours
_PUNCTUAL = 1 / 60  # hours before its due time from which a settlement that is not there counts as missing
_INCOMPLETE = float(np.nextafter(1.0, 0.0))  # the most coverage that a span with something missing can have


class Ledger(NamedTuple):
    """Rows of amounts; 0 in a row that pays nothing, never because something is unknown."""

    amount: Floats
    """Bps of notional that the row adds."""
    covered: Floats
    """Hours that it pays for."""
    missing: Floats
    """Hours since the series began that are known to be unpaid for."""
    filled: Floats
    """Hours of `covered` that an earlier row's rate was carried over rows without one."""
    started: Bools
    """Whether the series has had a value by this row."""


def of_sampled(rates: Floats, since: Floats, *, step: float, limit: float) -> Ledger:
    """Return the ledger of rates that hold until the next: row i covers ``[since[i], since[i + 1])``.

    The last row holds for `step` hours, and none for more than `limit`, over rows without a value too.
    """
    last = last_valid(np.isfinite(rates))
    started = last >= 0
    at = np.maximum(last, 0)
    ends = np.append(since[1:], since[-1] + step)
    until = np.minimum(ends, since[at] + limit)
    covered = np.where(started, np.maximum(until - since, 0.0), 0.0)
    covered_rates = np.where(covered > 0.0, np.take_along_axis(rates, at, axis=-1), 0.0)
    missing = np.where(started, ends - since - covered, 0.0)
    filled = np.where(last == np.arange(since.size), 0.0, covered)
    return Ledger(convert(covered_rates, "bps_8h", "bps", hours=covered), covered, missing, filled, started)


def of_settled(rates: Floats, interval: Floats, since: Floats) -> Ledger:
    """Return the ledger of settlements: row i pays for the `interval` hours up to it.

    A settlement whose interval is not known is missing. So is the time before a settlement's own interval if
    it is more than half an interval, of the settlement or of the one before where that is shorter.
    """
    there = np.isfinite(rates)
    has_interval = there & (interval > 0.0) & np.isfinite(interval)
    covered = np.where(has_interval, interval, 0.0)
    earlier = _shifted(last_valid(there))
    gap = np.where(earlier >= 0, since - since[np.maximum(earlier, 0)], 0.0)
    before = np.take_along_axis(covered, np.maximum(earlier, 0), axis=-1)
    step = np.where(before > 0.0, np.minimum(before, covered), covered)
    late = has_interval & (gap - covered > (LATE - 1.0) * step)
    started = last_valid(has_interval) >= 0
    missing = np.where(late, gap - covered, np.where(there & ~has_interval, gap, 0.0))
    amount = convert(np.where(has_interval, rates, 0.0), "bps_8h", "bps", hours=covered)
    started_before = _shifted(started.astype(np.intp)) > 0
    return Ledger(amount, covered, np.where(started_before, missing, 0.0), np.zeros_like(covered), started)


def earned_between(
    ledger: Ledger, since: Floats, starts: Floats, ends: Floats, *, settled: bool
) -> tuple[Floats, Floats, Floats]:
    """Return the bps earned over spans common to all series, the filled hours in them, and the part paid for.

    A settlement counts in ``(start, end]``, a sampled rate is integrated over the span. The amount is that of
    the rows that are there; the part is 1 where nothing is missing, and 0 where nothing is there.
    """
    if settled:
        first, last = (np.searchsorted(since, instants, side="right") for instants in (starts, ends))
        amount, covered = (_added(part, first, last) for part in (ledger.amount, ledger.covered))
        whole, missing = _settled_whole(ledger, since, starts, ends)
        missing += _added(ledger.missing, first, last)
        share = covered / np.where(covered + missing > 0.0, covered + missing, 1.0)
        return amount, np.zeros(whole.shape), np.where(whole, 1.0, np.minimum(share, _INCOMPLETE))
    amount, covered, filled = (
        _integral(part, ledger.covered, since, starts, ends)
        for part in (ledger.amount, ledger.covered, ledger.filled)
    )
    share = covered / (ends - starts)
    return amount, filled, np.where(covered >= ends - starts - _ROUNDING, 1.0, np.minimum(share, _INCOMPLETE))


def _added(part: Floats, first: Indices, last: Indices) -> Floats:
    # Not as a difference of running sums: equal payments must stay equal to the last bit.
    padded = np.concatenate([part, np.zeros((*part.shape[:-1], 1))], axis=-1)
    bounds = np.stack([first, last], axis=-1).ravel()
    return np.where(last > first, np.add.reduceat(padded, bounds, axis=-1)[..., ::2], 0.0)


def _integral(part: Floats, covered: Floats, since: Floats, starts: Floats, ends: Floats) -> Floats:
    first, last = (np.maximum(np.searchsorted(since, at, side="right") - 1, 0) for at in (starts, ends))
    head, tail = (
        part[..., row] * (np.clip(at - since[row], 0.0, hours) / np.where(hours > 0.0, hours, 1.0))
        for row, at, hours in ((first, starts, covered[..., first]), (last, ends, covered[..., last]))
    )
    return _added(part, first, last) - head + tail


class _Place(NamedTuple):
    """Position of an instant among the settlements of every series."""

    before: Indices
    """The last settlement at or before it, −1 for none."""
    after: Indices
    """The first settlement after it, the number of rows for none."""
    missing: Floats
    """Hours missing by then, with those of a hole that ended before the next settlement's interval."""
    reached: Floats
    """Hours missing by the next settlement."""


def _place(ledger: Ledger, since: Floats, instants: Floats) -> _Place:
    index = np.searchsorted(since, instants, side="right")
    size = since.size
    paid = ledger.covered > 0.0
    missing = _running(ledger.missing)
    before = np.where(index > 0, last_valid(paid)[..., np.maximum(index - 1, 0)], -1)
    later = np.where(paid, np.arange(size), size)
    following = np.minimum.accumulate(later[..., ::-1], axis=-1)[..., ::-1]
    none = np.full((*following.shape[:-1], 1), size)
    after = np.concatenate([following, none], axis=-1)[..., index]
    at = np.minimum(after, size - 1)
    opens = since[at] - np.take_along_axis(ledger.covered, at, axis=-1)
    reached = np.take_along_axis(missing, np.minimum(after + 1, size), axis=-1)
    past = (after < size) & (instants >= opens - _ROUNDING)
    return _Place(before, after, np.where(past, reached, missing[..., index]), reached)


def _settled_whole(ledger: Ledger, since: Floats, starts: Floats, ends: Floats) -> tuple[Bools, Floats]:
    """Tell whether a span ``(start, end]`` lacks no settlement; and the hours that it lacks at its ends.

    A span is whole if (a) it does not start before the first settlement's interval, (b) no hole ends in it:
    equally many hours are missing by its start as by its end, where a hole counts from the opening of the
    next settlement's interval on, so that a span that starts right after a hole does not contain it, and
    (c) at its end no settlement is overdue: either the next one is not due yet (`waiting`), or it came and no
    hole lies before it (`unbroken`).
    """
    opening = np.argmax(ledger.covered > 0.0, axis=-1)[..., None]
    begins = since[opening] - np.take_along_axis(ledger.covered, opening, axis=-1)
    start, end = (_place(ledger, since, instants) for instants in (starts, ends))
    at = np.maximum(end.before, 0)
    due = since[at] + np.take_along_axis(ledger.covered, at, axis=-1)
    waiting = (end.before >= 0) & (ends < due - _PUNCTUAL)
    unbroken = (end.after < since.size) & (end.reached == end.missing)
    inside = (starts >= begins - _ROUNDING) & (start.missing == end.missing)
    interval = np.where(end.before >= 0, np.take_along_axis(ledger.covered, at, axis=-1), 0.0)
    overdue = np.floor((ends - since[at] + _PUNCTUAL) / np.where(interval > 0.0, interval, np.inf)) * interval
    tail = np.where(waiting | unbroken, 0.0, overdue)
    head = np.clip(np.minimum(begins, ends) - starts, 0.0, None)
    return np.asarray(inside & (waiting | unbroken)), head + tail


def _running(part: NDArray[Any]) -> Floats:
    start = np.zeros((*part.shape[:-1], 1))
    return np.concatenate([start, np.cumsum(part, axis=-1, dtype=np.float64)], axis=-1)


def _shifted(rows: Indices) -> Indices:
    before = np.full((*rows.shape[:-1], 1), -1, dtype=rows.dtype)
    return np.concatenate([before, rows[..., :-1]], axis=-1)
