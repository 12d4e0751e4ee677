"""Payments of a funding panel to a position, and settlement intervals read from the settlements.

A sampled rate is valid from its row to the next, and past rows without a value up to a limit. A settlement
covers the interval that ends at its row. Both become the same three values per row: the amount [bps of
notional], the hours it covers, and the uncovered hours before it. Time is on the last axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.panels import Panel, figures_of, hours, hours_of, kind_of, last_valid, require_rate
from derivdata.analysis.settlements import scheduled
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.times import TimeLike, naive_utc, timestamp
from derivdata.tables.frames import require_columns, require_timestamps
from derivdata.tables.payments import intervals_of_gaps, missing_before
from derivdata.tables.venue_facts import fact_value
from derivdata.units import HOUR_UNIT, convert

LATE = 1.5
"""Number of intervals without a settlement after which one counts as missing."""
_ROUNDING = 1e-6  # hours
_PUNCTUAL = 1 / 60  # hours before the due time from which an absent settlement counts as missing
_INCOMPLETE = float(np.nextafter(1.0, 0.0))  # maximum coverage of a span with a missing part


class Ledger(NamedTuple):
    """Rows of amounts. An amount of 0 means that the row does not pay; unknown amounts are never 0."""

    amount: Floats
    """Bps of notional that the row adds."""
    covered: Floats
    """Hours covered."""
    missing: Floats
    """Known uncovered hours since the series began."""
    filled: Floats
    """Hours of `covered` with the rate of an earlier row."""
    started: Bools
    """Whether the series has a value at or before this row."""


def of_sampled(rates: Floats, since: Floats, *, step: float, limit: float) -> Ledger:
    """Return the ledger of rates that are valid until the next: row i covers ``[since[i], since[i + 1])``.

    The last row is valid for `step` hours, and none for more than `limit`, including rows without a value.
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
    """Return the ledger of settlements: row i covers the `interval` hours before it.

    A settlement with an unknown interval counts as missing. The time between two settlements that is not
    covered by the later one is missing if it exceeds half an interval, the shorter one of the two.
    """
    # 1. Compute the hours that each settlement covers, and the gap before it.
    there = np.isfinite(rates)
    has_interval = there & (interval > 0.0) & np.isfinite(interval)
    covered = np.where(has_interval, interval, 0.0)
    earlier = _shifted(last_valid(there))
    gap = np.where(earlier >= 0, since - since[np.maximum(earlier, 0)], 0.0)
    before = np.take_along_axis(covered, np.maximum(earlier, 0), axis=-1)

    # 2. Compute missing hours: the gap beyond the interval, or the whole gap if the interval is unknown.
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
    """Return bps earned over spans common to all series, filled hours, and the covered fraction.

    A settlement counts in ``(start, end]``, a sampled rate is integrated over the span. The amount covers the
    known rows; the fraction is 1 if nothing is missing, and 0 if everything is.
    """
    if settled:
        first = np.searchsorted(since, starts, side="right")
        last = np.searchsorted(since, ends, side="right")
        amount = _added(ledger.amount, first, last)
        covered = _added(ledger.covered, first, last)
        whole, missing = _settled_whole(ledger, since, starts, ends)
        missing += _added(ledger.missing, first, last)
        share = covered / np.where(covered + missing > 0.0, covered + missing, 1.0)
        return amount, np.zeros(whole.shape), np.where(whole, 1.0, np.minimum(share, _INCOMPLETE))
    amount, covered, filled = (
        _integral(values, ledger.covered, since, starts, ends)
        for values in (ledger.amount, ledger.covered, ledger.filled)
    )
    share = covered / (ends - starts)
    return amount, filled, np.where(covered >= ends - starts - _ROUNDING, 1.0, np.minimum(share, _INCOMPLETE))


def _added(values: Floats, first: Indices, last: Indices) -> Floats:
    # Sum directly instead of subtracting running sums, so that equal payments give equal results to the last
    # bit.
    padded = np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
    bounds = np.stack([first, last], axis=-1).ravel()
    return np.where(last > first, np.add.reduceat(padded, bounds, axis=-1)[..., ::2], 0.0)


def _integral(values: Floats, covered: Floats, since: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return integrals over spans: whole rows, minus the head of the first, plus the head of the last."""
    first = np.maximum(np.searchsorted(since, starts, side="right") - 1, 0)
    last = np.maximum(np.searchsorted(since, ends, side="right") - 1, 0)

    def head(row: Indices, at: Floats) -> Floats:
        """Return the part of a row's value from its start until some time."""
        hours = covered[..., row]
        passed = np.clip(at - since[row], 0.0, hours) / np.where(hours > 0.0, hours, 1.0)
        return np.asarray(values[..., row] * passed)

    return _added(values, first, last) - head(first, starts) + head(last, ends)


class _Place(NamedTuple):
    """Position of a time among the settlements of every series."""

    before: Indices
    """The last settlement at or before it, −1 for none."""
    after: Indices
    """The first settlement after it, the number of rows for none."""
    missing: Floats
    """Missing hours up to this time, including a gap that ended before the next settlement's interval."""
    reached: Floats
    """Missing hours up to the next settlement."""


def _place(ledger: Ledger, since: Floats, timestamps: Floats) -> _Place:
    """Locate timestamps among the settlements of a ledger; times are hours as in `since`."""
    # 1. Find the settlements before and after each time.
    index = np.searchsorted(since, timestamps, side="right")
    size = since.size
    paid = ledger.covered > 0.0
    missing = _running(ledger.missing)
    before = np.where(index > 0, last_valid(paid)[..., np.maximum(index - 1, 0)], -1)
    later = np.where(paid, np.arange(size), size)
    following = np.minimum.accumulate(later[..., ::-1], axis=-1)[..., ::-1]
    none = np.full((*following.shape[:-1], 1), size)
    after = np.concatenate([following, none], axis=-1)[..., index]

    # 2. Count the missing hours up to each time; a gap ends where the next settlement's interval starts.
    at = np.minimum(after, size - 1)
    opens = since[at] - np.take_along_axis(ledger.covered, at, axis=-1)
    reached = np.take_along_axis(missing, np.minimum(after + 1, size), axis=-1)
    past = (after < size) & (timestamps >= opens - _ROUNDING)
    return _Place(before, after, np.where(past, reached, missing[..., index]), reached)


def _settled_whole(ledger: Ledger, since: Floats, starts: Floats, ends: Floats) -> tuple[Bools, Floats]:
    """Return a mask of spans ``(start, end]`` without missing settlements, and hours missing at their ends.

    A span is whole if three conditions hold. (a) It does not start before the interval of the first
    settlement. (b) No gap ends in it: as many hours are missing up to its start as up to its end. A gap
    counts from the start of the next settlement's interval, so a span that starts right after a gap does not
    contain it. (c) No settlement is overdue at its end: either the next one is not due yet (`waiting`), or it
    arrived without a gap before it (`unbroken`).
    """
    # 1. Test the conditions (a) to (c).
    opening = np.argmax(ledger.covered > 0.0, axis=-1)[..., None]
    begins = since[opening] - np.take_along_axis(ledger.covered, opening, axis=-1)
    start = _place(ledger, since, starts)
    end = _place(ledger, since, ends)
    at = np.maximum(end.before, 0)
    due = since[at] + np.take_along_axis(ledger.covered, at, axis=-1)
    waiting = (end.before >= 0) & (ends < due - _PUNCTUAL)
    unbroken = (end.after < since.size) & (end.reached == end.missing)
    inside = (starts >= begins - _ROUNDING) & (start.missing == end.missing)

    # 2. Count the missing hours at both ends of the span.
    interval = np.where(end.before >= 0, np.take_along_axis(ledger.covered, at, axis=-1), 0.0)
    overdue = np.floor((ends - since[at] + _PUNCTUAL) / np.where(interval > 0.0, interval, np.inf)) * interval
    tail = np.where(waiting | unbroken, 0.0, overdue)
    head = np.clip(np.minimum(begins, ends) - starts, 0.0, None)
    return np.asarray(inside & (waiting | unbroken)), head + tail


def _running(values: NDArray[Any]) -> Floats:
    start = np.zeros((*values.shape[:-1], 1))
    return np.concatenate([start, np.cumsum(values, axis=-1, dtype=np.float64)], axis=-1)


def _shifted(rows: Indices) -> Indices:
    before = np.full((*rows.shape[:-1], 1), -1, dtype=rows.dtype)
    return np.concatenate([before, rows[..., :-1]], axis=-1)


_TOLERANCE = 0.05  # fraction of an interval, because timestamps are late by milliseconds to minutes
_GRACE = 1 / 60  # hours after the due time until which a payment may be missing in the table


@typed
def infer_interval(
    panel: Panel,
    *,
    candidates: Sequence[str | pd.Timedelta] = ("1h", "2h", "3h", "4h", "6h", "8h", "12h", "24h"),
    confirm: int = 3,
    backdate: bool = True,
) -> xr.Dataset:
    """Infer each venue's settlement interval over time, with its changes, from the gaps between settlements.

    Parameters
    ----------
    panel
        Settled funding rates [bps/8h], dim ``time``, in memory or lazy (time is put into one chunk).
    candidates
        Intervals that venues use: 1, 2, 3, 4, 6, 8, 12 and 24 hours by default. A gap within 5 % of one
        counts as that interval.
    confirm
        Number of equal consecutive gaps that confirm an interval. A single gap of twice the interval is a
        missing settlement, not a change. Any other gap over half an interval is a late or early settlement.
    backdate
        Date a confirmed interval back to the first of its gaps (and the first one to the start of the
        series). False dates it to the gap that confirmed it, as it was known at the time.

    Returns
    -------
    Dataset, the panel's dims
        ``interval_hours`` [h] at each settlement, as an archive assigns it, NaN without a settlement or if
        the gaps do not determine it; ``changed``, true at the first settlement of a new interval;
        ``missing``, number of missing settlements directly before this one.

    Raises
    ------
    TypeError, ValueError
        The panel is not a settled funding panel in bps/8h; `candidates` or `confirm` are invalid.

    Notes
    -----
    If the service reports intervals, use those. Venues change the intervals of symbols, so the current one is
    not valid for the past.
    """
    panel = require_rate(panel, "time").drop_vars("interval_hours", errors="ignore")
    if kind_of(panel) != "settled":
        raise ValueError(
            "panel must have settlements, got sampled rates, which do not determine the interval; "
            "pass dd.funding.settlements"
        )
    ascending = np.sort([hours_of(candidate, "candidates") for candidate in candidates])
    if confirm < 1 or not ascending.size:
        raise ValueError(
            "candidates must have at least one interval and confirm must be at least 1, got "
            f"{candidates=} and {confirm=}"
        )
    return figures_of(
        _infer,
        panel,
        units={"interval_hours": HOUR_UNIT, "changed": np.bool_, "missing": np.int32},
        into={"time": None},
        since=hours(panel),
        candidates=ascending,
        confirm=confirm,
        backdate=backdate,
    )


def _infer(
    rates: Floats, *, since: Floats, candidates: Floats, confirm: int, backdate: bool
) -> tuple[Floats, Bools, NDArray[np.int32]]:
    """Return intervals [h], a mask of their changes, and the number of missing payments before each row."""
    interval = np.full(rates.shape, np.nan)
    changed = np.zeros(rates.shape, dtype=np.bool_)
    missing = np.zeros(rates.shape, dtype=np.int32)
    for series in np.ndindex(rates.shape[:-1]):
        rows = np.flatnonzero(np.isfinite(rates[series]))
        if rows.size <= confirm:
            continue
        gaps = np.diff(since[rows])

        # 1. Without backdating, an interval applies from the gap that confirms it.
        if not backdate:
            current, first = _confirmed(gaps, candidates, confirm)
            multiples = _multiples(gaps, current)
            interval[series][rows[1:]] = np.where(multiples > 0, current, np.nan)
            interval[series][rows[0]] = current[0]
            changed[series][rows[1:]] = first
            missing[series][rows[1:]] = np.maximum(multiples - 1, 0)
            continue

        # 2. With backdating, assign intervals as an archive does.
        before_each = np.append(np.nan, _snapped(gaps, candidates))
        assigned = intervals_of_gaps(before_each, candidates=candidates.tolist(), confirm=confirm)
        interval[series][rows] = assigned
        assigned_rows = np.flatnonzero(np.isfinite(assigned))
        first = assigned_rows[1:][assigned[assigned_rows[1:]] != assigned[assigned_rows[:-1]]]
        changed[series][rows[first]] = True

        # 3. Count missing payments before each row; before the first row of a new interval also those of the
        # old one.
        missing[series][rows[1:]] = np.maximum(_multiples(gaps, assigned[1:]) - 1, 0)
        for place in first[first > 0].tolist():
            before = assigned[place - 1]
            lacking = 0
            if before > 0:
                lacking = missing_before(float(gaps[place - 1]), before, assigned[place])
            missing[series][rows[place]] = lacking
    return interval, changed, missing


def _snapped(gaps: Floats, candidates: Floats) -> Floats:
    """Return gaps within 5 % of a venue's interval as that interval, and the others unchanged."""
    nearest = candidates[np.argmin(np.abs(gaps[:, None] - candidates), axis=1)]
    return np.where(np.abs(gaps - nearest) <= _TOLERANCE * nearest, nearest, gaps)


def _confirmed(gaps: Floats, candidates: Floats, confirm: int) -> tuple[Floats, Bools]:
    """Return the interval that is confirmed up to each gap, and whether it differs from the previous one."""
    snapped = _snapped(gaps, candidates)
    starts = np.flatnonzero(np.append(True, snapped[1:] != snapped[:-1]))
    lengths = np.diff(np.append(starts, gaps.size))
    taken = (lengths >= confirm) & np.isin(snapped[starts], candidates)
    at = starts[taken] + confirm - 1
    value = snapped[starts[taken]]
    run = np.searchsorted(at, np.arange(gaps.size), side="right") - 1
    if not value.size:
        return np.full(gaps.size, np.nan), np.zeros(gaps.size, dtype=np.bool_)
    current = value[np.maximum(run, 0)]
    first = np.zeros(gaps.size, dtype=np.bool_)
    first[at[1:]] = value[1:] != value[:-1]
    return np.where(run >= 0, current, np.nan), first


def _multiples(gaps: Floats, interval: Floats) -> NDArray[np.int64]:
    """Return the number of intervals in each gap, 0 if the gap is not a multiple of the interval.

    If a settlement is late by less than half an interval, its gap and the shorter one after it count as one
    interval each.
    """
    ratio = np.where(np.isfinite(interval), gaps / interval, 0.0)
    count = np.rint(ratio)
    multiple = np.where(np.abs(ratio - count) <= _TOLERANCE, count, 0.0)
    late = (multiple == 0.0) & (ratio > 1.0) & (ratio < LATE)
    catches_up = (multiple == 0.0) & np.append(False, late[:-1])
    catches_up[1:] &= np.abs(ratio[1:] + ratio[:-1] - 2.0) <= _TOLERANCE
    return np.where(late | catches_up, 1.0, multiple).astype(np.int64)


@typed
def next_settlements(
    settlements: pd.DataFrame,
    at: TimeLike,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the time of the next funding payment of each venue and symbol, and the source of this time.

    Parameters
    ----------
    settlements
        Table ``funding_settlements``. Payments after `at` are ignored.
    at
        Reference time: a payment at it counts as made.
    symbols, venues
        Names whose pairs are listed even without payments in the table. By default only pairs in the table
        are listed.

    Returns
    -------
    DataFrame
        One row per symbol and venue, the next payment first: ``symbol``, ``exchange``, ``time`` (UTC),
        ``hours_until``, ``interval_hours``, ``last_time``, ``missed`` and ``basis``:

        - ``payments``: counted on from the last payment by its interval;
        - ``overdue``: the same, but the table lacks ``missed`` payments that were due by `at`, the first of
          them more than a minute before. The table may be incomplete, the interval may have changed, or the
          contract may be delisted;
        - ``facts``: no payment is in the table; the interval comes from ``dd.venues.facts()``, counted from
          00:00 UTC, which is assumed;
        - ``unknown``: neither payments nor an interval; ``time`` is missing.

        Every row assumes that the interval does not change, although venues shorten it under stress.

    Raises
    ------
    ValueError
        A column is missing, or `at` is not a time.

    Examples
    --------
    >>> paid = dd.funding.settlements("BTC", "2d", venues=["binance", "hyperliquid"])
    >>> due = dd.analysis.funding.next_settlements(paid, dd.asof())
    >>> due[["exchange", "hours_until", "basis"]].to_numpy().tolist()
    [['hyperliquid', 1.0, 'payments'], ['binance', 4.0, 'payments']]
    """
    require_columns(settlements, "settlements", ("interval_hours",), others=("symbol", "exchange", "time"))
    require_timestamps(settlements, "settlements", ["time"])

    # 1. Find the last payment of each pair, and compute the next one from its interval.
    now = timestamp(at, "at")
    due = pd.DatetimeIndex(scheduled(naive_utc(settlements["time"]).to_numpy())).tz_localize("UTC")
    rows = settlements.assign(time=due.as_unit("us"), row=np.arange(len(settlements)))
    rows = rows[rows["time"] <= now].sort_values("time", kind="stable")
    last = rows.drop_duplicates(["symbol", "exchange"], keep="last")
    by_pair: dict[tuple[str, str], dict[str, Any]] = {}
    for row in last.itertuples():
        by_pair[str(row.symbol), str(row.exchange)] = _after(row.time, float(row.interval_hours), now)

    # 2. Add pairs without payments in the table, for the requested names or those in the table.
    if symbols is not None or venues is not None:
        named = sorted({symbol for symbol, _ in by_pair}) if symbols is None else symbols
        listed = sorted({exchange for _, exchange in by_pair}) if venues is None else venues
        for pair in itertools.product(named, listed):
            by_pair.setdefault(pair, _assumed(*pair, now))

    # 3. Sort by the time of the next payment.
    rows_of_pairs = [
        {"symbol": symbol, "exchange": exchange, **payment} for (symbol, exchange), payment in by_pair.items()
    ]
    columns = ["symbol", "exchange", "time", "hours_until", "interval_hours", "last_time", "missed", "basis"]
    table = pd.DataFrame(rows_of_pairs, columns=columns)
    for name in ("time", "last_time"):
        table[name] = pd.to_datetime(table[name], utc=True).dt.as_unit("us")
    table["hours_until"] = (table["time"] - now) / pd.Timedelta(1, "h")
    table = table.astype({"interval_hours": "float64", "missed": "Int64"})
    table = table.sort_values(["time", "symbol", "exchange"], ignore_index=True)
    table.attrs = dict(settlements.attrs)
    return table


def _after(last: Any, interval: float, now: Any) -> dict[str, Any]:
    """Return the first payment after `now` according to the last one and its interval."""
    if not 0.0 < interval < np.inf:
        return {"last_time": last, "basis": "unknown"}
    passed = (now - last) / pd.Timedelta(1, "h")
    steps = np.floor(passed / interval + _ROUNDING)
    basis = "overdue" if passed > interval + _GRACE else "payments"
    due = last + pd.Timedelta((steps + 1) * interval, "h")
    missed = int(steps) if basis == "overdue" else 0
    return {"time": due, "interval_hours": interval, "last_time": last, "missed": missed, "basis": basis}


def _assumed(symbol: str, exchange: str, now: Any) -> dict[str, Any]:
    """Return the next settlement by the published interval, counted from 00:00 UTC."""
    interval = fact_value(exchange, "interval_hours", symbol, f"{now:%Y-%m-%d}")
    if interval is None:
        return {"basis": "unknown"}
    midnight = now.normalize()
    passed = (now - midnight) / pd.Timedelta(1, "h")
    steps = np.floor(passed / interval + _ROUNDING) + 1
    due = midnight + pd.Timedelta(steps * interval, "h")
    return {"time": due, "interval_hours": interval, "basis": "facts"}
