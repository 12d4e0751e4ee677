"""What each row of a funding panel adds to a position, and what the rows leave out, in plain numpy.

A sampled rate holds from its row to the next, and past rows without a value up to a limit. A settlement
pays for the interval that ends at its row. Both become the same three figures per row: the amount [bps of
notional], the hours it covers, and the hours before it that nothing covers. Time is on the last axis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.panels import Floats
from derivdata.units import bps_from_bps_8h

__all__ = ["LATE", "Ledger", "earned_between", "last_known", "of_sampled", "of_settled"]

LATE = 1.5
"""Intervals without a settlement after which one is missing: halfway to the second."""
_ROUNDING = 1e-6  # hours
_PUNCTUAL = 1 / 60  # hours that a settlement's stamp may be early


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
    begun: NDArray[np.bool_]
    """Whether the series has had a value by this row."""


def last_known(known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Index of the last known row at or before each row, −1 where there is none."""
    rows = np.where(known, np.arange(known.shape[-1]), -1)
    return np.maximum.accumulate(rows, axis=-1)


def of_sampled(rates: Floats, since: Floats, *, step: float, limit: float) -> Ledger:
    """Ledger of rates that hold until the next: row i covers ``[since[i], since[i + 1])``.

    Parameters
    ----------
    rates
        [bps/8h], NaN where there is no sample.
    since
        Hours of the rows.
    step
        Hours that the last row holds.
    limit
        Hours that a rate holds at most, over rows without a value too.
    """
    last = last_known(np.isfinite(rates))
    begun = last >= 0
    at = np.maximum(last, 0)
    ends = np.append(since[1:], since[-1] + step)
    until = np.minimum(ends, since[at] + limit)
    covered = np.where(begun, np.maximum(until - since, 0.0), 0.0)
    held = np.where(covered > 0.0, np.take_along_axis(rates, at, axis=-1), 0.0)
    missing = np.where(begun, ends - since - covered, 0.0)
    filled = np.where(last == np.arange(since.size), 0.0, covered)
    return Ledger(bps_from_bps_8h(held, covered), covered, missing, filled, begun)


def of_settled(rates: Floats, interval: Floats, since: Floats) -> Ledger:
    """Ledger of settlements: row i pays for the `interval` hours up to it.

    A settlement whose interval is not known is missing, and so is what lies between two that are further
    apart than 1.5 intervals.
    """
    there = np.isfinite(rates)
    known = there & (interval > 0.0) & np.isfinite(interval)
    covered = np.where(known, interval, 0.0)
    earlier = _shifted(last_known(there))
    gap = np.where(earlier >= 0, since - since[np.maximum(earlier, 0)], 0.0)
    late = known & (gap > LATE * covered)
    begun = last_known(known) >= 0
    missing = np.where(late, gap - covered, np.where(there & ~known, gap, 0.0))
    amount = bps_from_bps_8h(np.where(known, rates, 0.0), covered)
    return Ledger(amount, covered, np.where(_was(begun), missing, 0.0), np.zeros_like(covered), begun)


def earned_between(
    ledger: Ledger, since: Floats, starts: Floats, ends: Floats, *, settled: bool
) -> tuple[Floats, Floats]:
    """Bps earned over spans common to all series, and the filled hours in them.

    Parameters
    ----------
    starts, ends
        Hours. A settlement counts in ``(start, end]``, a sampled rate is integrated over the span.

    Returns
    -------
    amount, filled
        The spans take the place of the rows. NaN amount where something in the span is missing.
    """
    if settled:
        first, last = (_at_row(ledger, since, instants) for instants in (starts, ends))
        whole = _settled_whole(ledger, since, starts, ends)
    else:
        first, last = (_within_row(ledger, since, instants) for instants in (starts, ends))
        whole = last.covered - first.covered >= ends - starts - _ROUNDING
    amount = np.where(whole, last.amount - first.amount, np.nan)
    return amount, last.filled - first.filled


class _Totals(NamedTuple):
    amount: Floats
    covered: Floats
    filled: Floats


def _totals(ledger: Ledger) -> tuple[Floats, Floats, Floats]:
    return ledger.amount, ledger.covered, ledger.filled


def _at_row(ledger: Ledger, since: Floats, instants: Floats) -> _Totals:
    rows = np.searchsorted(since, instants, side="right")
    return _Totals(*(_running(part)[..., rows] for part in _totals(ledger)))


def _within_row(ledger: Ledger, since: Floats, instants: Floats) -> _Totals:
    rows = np.maximum(np.searchsorted(since, instants, side="right") - 1, 0)
    into = np.maximum(instants - since[rows], 0.0)
    covered = ledger.covered[..., rows]
    share = np.minimum(into, covered) / np.where(covered > 0.0, covered, 1.0)
    return _Totals(*(_running(part)[..., rows] + share * part[..., rows] for part in _totals(ledger)))


def _settled_whole(ledger: Ledger, since: Floats, starts: Floats, ends: Floats) -> NDArray[np.bool_]:
    first, last = (np.searchsorted(since, instants, side="right") for instants in (starts, ends))
    missing = _running(ledger.missing)
    paid = ledger.covered > 0.0
    opening = np.argmax(paid, axis=-1)[..., None]
    begins = since[opening] - np.take_along_axis(ledger.covered, opening, axis=-1)
    inside = (starts >= begins - _ROUNDING) & (missing[..., first] == missing[..., last])
    return np.asarray(inside & _nothing_due(ledger, since, ends, last, missing))


def _nothing_due(
    ledger: Ledger, since: Floats, ends: Floats, last: NDArray[np.intp], missing: Floats
) -> NDArray[np.bool_]:
    """Whether no settlement is due between the last one before each end and that end."""
    paid = ledger.covered > 0.0
    row = np.where(last > 0, last_known(paid)[..., np.maximum(last - 1, 0)], -1)
    at = np.maximum(row, 0)
    due = since[at] + np.take_along_axis(ledger.covered, at, axis=-1)
    later = np.where(paid, np.arange(since.size), since.size)
    following = np.minimum.accumulate(later[..., ::-1], axis=-1)[..., ::-1]
    end = np.full((*following.shape[:-1], 1), since.size)
    after = np.concatenate([following, end], axis=-1)[..., last]
    reached = np.take_along_axis(missing, np.minimum(after + 1, since.size), axis=-1)
    unbroken = (after < since.size) & (reached == missing[..., last])
    return np.asarray((row >= 0) & (unbroken | (ends < due - _PUNCTUAL)))


def _running(part: NDArray[Any]) -> Floats:
    start = np.zeros((*part.shape[:-1], 1))
    return np.concatenate([start, np.cumsum(part, axis=-1, dtype=np.float64)], axis=-1)


def _shifted(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    before = np.full((*rows.shape[:-1], 1), -1, dtype=rows.dtype)
    return np.concatenate([before, rows[..., :-1]], axis=-1)


def _was(begun: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(_shifted(begun.astype(np.intp)) > 0)
