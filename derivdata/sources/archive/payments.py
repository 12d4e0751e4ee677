"""Payments ready to be stored: one row each at its hour, with the interval from all known rows.

Every path into an archive runs through `complete_payments`, so that the same payments give the same rows. The
intervals of stored rows that rest on spacing change with the rows that arrive later: these changes are
corrections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.venues.registry import VENUES
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.tables.payments import (
    HOUR_US,
    SOURCES,
    Payments,
    assign_intervals,
    conflict_text,
    is_same_rate,
    merge_payments,
    payment_time,
    rates_of,
)
from derivdata.units import BPS

TABLE = "funding_settlements"

_REACH = pd.Timedelta(30, "D")
"""How far from new rows stored ones are read: 30 payments of a contract that pays once a day."""
_EARLIEST = pd.Timestamp("1970-01-01", tz="UTC")
_LATEST = pd.Timestamp("2200-01-01", tz="UTC")
_MICROSECOND = pd.Timedelta(1, "us")
_STATED = ("row", "list")
_RATES_PER_HOUR = ("derive", "dydx", "extended", "kraken")
"""Venues that quote each rate per hour: a wrong interval multiplied the payment, and not the rate."""

Read = Callable[[Collection[str], pd.Timestamp, pd.Timestamp], pd.DataFrame]


class CompletedPayments(NamedTuple):
    """New payments to store, the number already stored, and stored rows that change."""

    fresh: pd.DataFrame
    present: int
    conflicts: list[str]
    """One text for each omitted row that contradicts another row or a stored one."""
    completed: pd.DataFrame
    """Stored rows whose missing interval is now determined."""
    changed: pd.DataFrame
    """Stored rows whose interval, derived from spacing, is now another one."""
    notices: list[str]
    """One text for each stored payment that a new row has under another stated interval."""
    added: pd.DataFrame
    """Stored rows to which new payments are added: after a halt, or in the same hour."""
    replaced: pd.DataFrame
    """Stored payments after a halt that are now in rows of `added` at another time."""


class _Statements(NamedTuple):
    """Stored rows whose interval comes from spacing, and new rows of the same payments with an interval."""

    rows: Indices
    new_rows: Indices


class _Amendment(NamedTuple):
    """A stored row with additional payments: its place, and the new sum, mean rate and number of payments."""

    row: int
    native: float
    rate: float
    """Mean rate, for a row without an interval."""
    payments: int


class _Matches(NamedTuple):
    """New rows with a stored row of the same series and time, and the places of these stored rows."""

    new_rows: Indices
    old_rows: Indices
    is_same: Bools
    """Whether both rows have the same rate and number of payments."""
    has_two_intervals: Bools
    """Whether both rows state an interval, and the two differ."""


class _CutHalts(NamedTuple):
    """Payments of halts that are partly stored and partly new, with one row on either side."""

    new: _Columns
    stored: _Columns
    stored_rows: Indices
    """Place of each stored row (of several, the first) before they were added up."""
    originals: dict[int, pd.DataFrame]
    """Stored row that is a sum of others, or moved to another time, to its rows as they are stored."""


class _Comparison(NamedTuple):
    """New payments compared with stored ones."""

    is_stored: Bools
    """New payments that are stored, or contradict a stored one."""
    amendments: list[_Amendment]
    statements: _Statements
    notices: list[str]


class _Assigned(NamedTuple):
    """Intervals of rows."""

    hours: Floats
    is_anchor: Bools
    """Whether the interval is given, or confirmed by the row's own gap."""


class WrongIntervals(NamedTuple):
    """Stored payments with another interval than the spacing of the series, and the right rows."""

    stored: pd.DataFrame
    right: pd.DataFrame


class _Columns:
    """Columns of payments as arrays, and the number of each row's series."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.times = frame["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
        self.rate = frame["rate_bps_8h"].to_numpy(dtype=np.float64, na_value=np.nan)
        self.hours = frame["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
        native = frame["rate_native"].to_numpy(dtype=np.float64, na_value=np.nan)
        count = frame["payment_count"].to_numpy(dtype=np.float64, na_value=np.nan)
        self.count = np.nan_to_num(count, nan=1.0).astype(np.int64)
        self.source = frame["interval_source"].astype(object).to_numpy()
        self.is_stated = np.isfinite(self.hours) & (pd.isna(self.source) | np.isin(self.source, _STATED))
        self.usual = frame["exchange"].map(_usual_hours).to_numpy(dtype=np.float64)
        per_interval = self.rate * self.hours / 8.0 / BPS
        is_due = np.isnan(native) & (self.is_stated | (self.hours == self.usual * self.count))
        self.native = np.where(is_due, per_interval, native)
        self.paid = np.where(np.isnan(native), per_interval, native)
        self.interval = self.hours / self.count
        self.stated = np.where(self.is_stated, self.interval, np.nan)
        self.names = _names(frame)

    def state(self, rows: Indices, interval: Floats) -> None:
        """Use the intervals that other rows of the same payments state."""
        self.stated[rows] = interval

    @property
    def value(self) -> Floats:
        """Return the payment, or for rows without an interval the fraction per hour, to compare rows."""
        return np.asarray(np.where(np.isnan(self.paid), self.rate / 8.0 / BPS, self.paid))

    def updated(self, rows: Indices, interval: Floats, source: Any) -> pd.DataFrame:
        """Return some rows with intervals and what follows from them.

        The payment of a rate per 8 hours is missing if only spacing gives the interval: other rows may change
        it, and the rate would then follow from a payment that was never stored.
        """
        hours = interval * self.count[rows]
        native = self.native[rows]
        rate = self.rate[rows]
        is_same = np.isfinite(rate) & (hours == self.hours[rows])
        derived = rates_of(native, hours)
        rate = np.where(is_same | np.isnan(native), rate, derived)
        has_payment = (np.asarray(source) != "spacing") | (interval == self.usual[rows])
        native = np.where(np.isnan(native) & has_payment, rate * hours / 8.0 / BPS, native)
        return self.frame.iloc[rows].assign(
            interval_hours=hours,
            rate_bps_8h=rate,
            rate_native=native,
            payment_count=self.count[rows],
            interval_source=pd.Categorical(np.where(np.isnan(hours), None, source), SOURCES),
        )

    def amended(self, amendments: list[_Amendment], interval: Floats) -> pd.DataFrame:
        """Return the rows that get more payments; `interval` [h] is that of each row."""
        more = pd.DataFrame(amendments, columns=[*_Amendment._fields])
        rows = more["row"].to_numpy(dtype=np.intp)
        native = more["native"].to_numpy(dtype=np.float64)
        mean_rate = more["rate"].to_numpy(dtype=np.float64)
        counts = more["payments"].to_numpy(dtype=np.int64)
        hours = interval[rows] * counts
        rate = np.where(np.isnan(hours), mean_rate, rates_of(native, hours))
        return self.frame.iloc[rows].assign(
            interval_hours=hours,
            rate_bps_8h=np.where(np.isnan(native), mean_rate, rate),
            rate_native=native,
            payment_count=counts,
        )


def _names(frame: pd.DataFrame) -> Any:
    """Return the series of each row as text."""
    symbols, symbol_words = pd.factorize(frame["symbol"])
    venues, venue_words = pd.factorize(frame["exchange"])
    words = [f"{symbol} on {venue}" for symbol in symbol_words for venue in venue_words]
    return np.array(words, dtype=object)[symbols * len(venue_words) + venues]


def complete_payments(rows: pd.DataFrame, read: Read, *, keeps_intervals: bool = False) -> CompletedPayments:
    """Return conformed new rows ready to store, and their changes of stored rows.

    An interval from spacing follows from all rows of the series, so the order in which rows arrive does not
    matter. `read` returns the stored rows of some symbols in a window.

    An interval of new rows that was derived from spacing is used only with `keeps_intervals`, for tables made
    from longer series, and if the rows of the archive do not determine it.

    Many rows are completed some symbols at a time, which bounds the memory of the arrays in between.
    """
    symbols, words = pd.factorize(rows["symbol"])
    count = min(-(-len(rows) // _ROWS_AT_ONCE), len(words))
    if count < 2:
        return _completed(rows, read, keeps_intervals=keeps_intervals)
    groups = symbols * count // len(words)  # about equally many symbols in each
    completed = []
    conflicts: list[str] = []
    notices: list[str] = []
    present = 0
    for group in range(count):
        series = _completed(rows[groups == group], read, keeps_intervals=keeps_intervals)
        completed.append(series)
        conflicts += series.conflicts
        notices += series.notices
        present += series.present
    frames = {}
    for name in ("fresh", "completed", "changed", "added", "replaced"):
        frames[name] = pd.concat([getattr(series, name) for series in completed], ignore_index=True)
    return CompletedPayments(**frames, present=present, conflicts=conflicts, notices=notices)


_ROWS_AT_ONCE = 250_000


def _completed(rows: pd.DataFrame, read: Read, *, keeps_intervals: bool) -> CompletedPayments:
    """Complete the payments of some symbols."""
    # 1. Merge new rows to one per payment, and read the stored rows that decide or share its interval.
    conflicts: list[str] = []
    new = _merged(_Columns(rows.reset_index(drop=True)), conflicts)
    stored, is_reached = _stored_context(new, read)
    halts = _cut_halts(new, stored)
    new = halts.new
    stored = halts.stored
    is_reached = is_reached[halts.stored_rows]
    # 2. Find the new payments that are stored already, and those that are added to stored ones.
    codes, names = pd.factorize(np.concatenate([stored.names, new.names]))
    size = len(stored.names)
    comparison = _compared(stored, new, codes[:size], codes[size:], halts.originals, conflicts)
    fresh = np.flatnonzero(~comparison.is_stored)
    amendments = comparison.amendments
    statements = comparison.statements
    stored.state(statements.rows, new.interval[statements.new_rows])
    # 3. Derive the intervals of all rows of the series together.
    series = np.concatenate([codes[:size], codes[size:][fresh]])
    times = np.concatenate([payment_time(stored.times), new.times[fresh]])
    stated = np.concatenate([stored.stated, new.stated[fresh]])
    assigned = _assigned(series, times, stated, names)
    # 4. Make the rows to add.
    is_stated = new.is_stated[fresh]
    source = np.where(is_stated & pd.isna(new.source[fresh]), "row", new.source[fresh])
    source = np.where(is_stated, source, "spacing")
    derived = assigned.hours[size:]
    # Only a longer series determines the intervals before the first and after the last known one.
    is_edge = _is_edge(series, times, assigned.is_anchor)
    if keeps_intervals:
        is_undetermined = np.isnan(derived) | is_edge[size:]
        is_used = is_undetermined & np.isfinite(new.interval[fresh])
        derived = np.where(is_used, new.interval[fresh], derived)
    interval = np.where(is_stated, new.interval[fresh], derived)
    result = new.updated(fresh, interval, source)
    # 5. Make the stored rows that change.
    has_statement = np.zeros(size, dtype=np.bool_)
    has_statement[statements.rows] = True
    hours = np.where(has_statement, stored.stated, assigned.hours[:size])
    source_of_statement = new.source[statements.new_rows]
    stored_source = np.full(size, "spacing", dtype=object)
    stored_source[statements.rows] = np.where(pd.isna(source_of_statement), "row", source_of_statement)
    is_derived = (is_reached & ~stored.is_stated) | has_statement
    is_completed = is_derived & np.isnan(stored.interval) & np.isfinite(hours)
    is_changed = is_derived & np.isfinite(stored.interval) & (stored.interval != hours)
    if keeps_intervals:
        is_changed &= np.isfinite(hours) & ~is_edge[:size]
    added = stored.amended(amendments, np.where(is_completed | is_changed, hours, stored.interval))
    amended_rows = [amendment.row for amendment in amendments]
    unchanged = [*amended_rows, *halts.originals]
    is_completed[unchanged] = False
    is_changed[unchanged] = False
    completed = stored.updated(np.flatnonzero(is_completed), hours[is_completed], stored_source[is_completed])
    changed = stored.updated(np.flatnonzero(is_changed), hours[is_changed], stored_source[is_changed])
    present = len(rows) - len(fresh) - len(conflicts)
    replaced = stored.frame.iloc[:0]
    originals = [halts.originals[row] for row in amended_rows if row in halts.originals]
    if originals:
        replaced = pd.concat(originals)
    return CompletedPayments(
        fresh=result,
        present=present,
        conflicts=conflicts,
        completed=completed,
        changed=changed,
        notices=comparison.notices,
        added=added,
        replaced=replaced,
    )


def _stored_context(new: _Columns, read: Read) -> tuple[_Columns, Bools]:
    """Return the stored rows near new ones, and a mask of the rows whose intervals these determine.

    Intervals between two payments with a given or confirmed interval follow from the rows between them. A
    month of rows on both sides is therefore enough if it has such a payment on both sides of the new ones.
    Otherwise all rows of that side are read.
    """
    symbols = list(new.frame["symbol"].astype(object).unique())
    first = pd.Timestamp(int(new.times.min()), unit="us", tz="UTC") - _REACH
    last = pd.Timestamp(int(new.times.max()), unit="us", tz="UTC") + _REACH
    near = _Columns(read(symbols, first, last))
    series, names = pd.factorize(new.names)
    starts = np.full(len(names), np.iinfo(np.int64).max)
    ends = np.full(len(names), np.iinfo(np.int64).min)
    np.minimum.at(starts, series, new.times)
    np.maximum.at(ends, series, new.times)
    before, from_time = _nearest_anchors(near, names, starts, ends, is_before=True)
    after, to_time = _nearest_anchors(near, names, starts, ends, is_before=False)
    frames = [near.frame]
    if len(before):
        frames.append(_rows_of_series(read, before, _EARLIEST, first - _MICROSECOND))
    if len(after):
        frames.append(_rows_of_series(read, after, last + _MICROSECOND, _LATEST))
    stored = _Columns(pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True))
    places = pd.Index(names).get_indexer(stored.names)
    times = payment_time(stored.times)
    is_reached = (places >= 0) & (times >= from_time[places]) & (times <= to_time[places])
    return stored, is_reached


def _rows_of_series(read: Read, names: Any, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
    """Return the stored rows of some series, which are read by symbol."""
    coins = sorted({str(name).rpartition(" on ")[0] for name in names})
    frame = read(coins, start, end)
    return frame[pd.Index(_names(frame)).isin(names)]


def _nearest_anchors(
    stored: _Columns, names: Any, starts: Indices, ends: Indices, *, is_before: bool
) -> tuple[Any, Indices]:
    """Return series without a known interval on one side of their new rows, and nearest times of others.

    `starts` and `ends` are the first and the last new time of each series.
    """
    places = pd.Index(names).get_indexer(stored.names)
    times = payment_time(stored.times)
    limit = np.iinfo(np.int64)
    if is_before:
        is_side = times < starts[places]
        nearest: np.ufunc = np.minimum
        without = limit.max  # bound of a series without an anchor
        whole_side = limit.min  # all of its rows are read
    else:
        is_side = times > ends[places]
        nearest = np.maximum
        without = limit.min
        whole_side = limit.max
    rows = np.flatnonzero((places >= 0) & is_side)
    bounds = np.full(len(names), without)
    if rows.size:
        assigned = _assigned(places[rows], times[rows], stored.stated[rows], names)
        anchors = rows[assigned.is_anchor]
        nearest.at(bounds, places[anchors], times[anchors])
    is_open = bounds == without
    bounds[is_open] = whole_side
    return np.asarray(names)[is_open], bounds


def wrong_intervals(rows: pd.DataFrame) -> WrongIntervals:
    """Return the stored payments of one series whose interval later payments contradict.

    Rows of earlier versions do not state the origin of their interval: it does not count as stated.
    """
    stored = _Columns(rows.reset_index(drop=True))
    is_stated = np.isin(stored.source, _STATED) & np.isfinite(stored.hours)
    stated = np.where(is_stated, stored.interval, np.nan)
    series = np.zeros(len(rows), dtype=np.intp)
    assigned = _assigned(series, payment_time(stored.times), stated, stored.names[:1])
    hours = assigned.hours
    # After the last confirmed payment the spacing may be of a new interval.
    order = np.argsort(stored.times, kind="stable")
    is_followed = np.empty(len(rows), dtype=np.bool_)
    is_followed[order] = np.logical_or.accumulate(assigned.is_anchor[order][::-1])[::-1]
    is_wrong = ~is_stated & is_followed & np.isfinite(stored.interval) & np.isfinite(hours)
    is_wrong &= stored.interval != hours
    places = np.flatnonzero(is_wrong)
    if places.size and rows["exchange"].iloc[0] in _RATES_PER_HOUR:
        # A catch-up row has the sum of its payments, and its rate is their mean.
        is_old = pd.isna(stored.source)
        per_hour = stored.rate * hours * stored.count / 8.0 / BPS
        stored.native = np.where(is_old, per_hour, stored.native)
    right = stored.updated(places, hours[places], "spacing")
    return WrongIntervals(stored.frame.iloc[places], right)


def _merged(new: _Columns, conflicts: list[str]) -> _Columns:
    """Return new payments with one row each, at its hour."""
    series, names = pd.factorize(new.names)
    merged = merge_payments(series.astype(np.int64), new.times, new.value, new.count, names, conflicts)
    return _summed(new, merged)


def _summed(columns: _Columns, merged: Payments) -> _Columns:
    """Return rows that are sums of other rows."""
    rows = merged.rows
    is_summed = merged.counts != columns.count[rows]
    is_whole = len(rows) == len(columns.times) and not is_summed.any()
    if is_whole and np.array_equal(merged.times, columns.times[rows]):
        return columns
    hours = np.where(is_summed, columns.interval[rows] * merged.counts, columns.hours[rows])
    mean = merged.native * 8.0 * BPS / merged.counts  # of rates without an interval
    of_sum = np.where(np.isfinite(columns.paid[rows]), rates_of(merged.native, hours), mean)
    rate = np.where(is_summed, of_sum, columns.rate[rows])
    frame = columns.frame.iloc[rows].assign(
        time=pd.DatetimeIndex(merged.times.view("datetime64[us]"), tz="UTC"),
        rate_native=np.where(np.isfinite(columns.native[rows]), merged.native, np.nan),
        payment_count=merged.counts,
        interval_hours=hours,
        rate_bps_8h=rate,
    )
    return _Columns(frame.reset_index(drop=True))


def _may_have_halts(columns: _Columns) -> bool:
    """Return whether some payments are late, or some rows are sums of several."""
    return bool((columns.count > 1).any() or (payment_time(columns.times) % HOUR_US != 0).any())


def _cut_halts(new: _Columns, stored: _Columns) -> _CutHalts:
    """Add up payments of a halt that spans stored and new rows, on each side separately.

    Payments after a halt that come minutes after the hour are one row at the next hour. In a file with only
    one of them, it has its own timestamp.
    """
    all_rows = np.arange(len(stored.names))
    if not _may_have_halts(new) and not _may_have_halts(stored):
        return _CutHalts(new, stored, all_rows, {})
    frames = []
    for side, columns in ((0, stored), (1, new)):
        times = payment_time(columns.times)
        places = {"side": side, "row": np.arange(len(times)), "time": times, "hour": -(-times // HOUR_US)}
        frames.append(pd.DataFrame({"name": columns.names, "count": columns.count, **places}))
    union = pd.concat(frames, ignore_index=True)
    union["is_late"] = union["time"] % HOUR_US != 0
    is_moved = _is_of_next_hour(union)
    if not (union["is_late"] | is_moved).any():
        return _CutHalts(new, stored, all_rows, {})
    union["hour"] += is_moved
    keys = [union["name"], union["hour"]]
    # Each mask below is the same for all rows of a series and hour.
    late_times = union["time"].where(union["is_late"]).groupby(keys).transform("nunique")
    has_several = union["count"].groupby(keys).transform("max") > 1
    has_new_row = union["side"].groupby(keys).transform("max") == 1
    has_moved = is_moved.groupby(keys).transform("any")
    is_halt = has_new_row & ((late_times > 1) | ((late_times == 1) & has_several) | has_moved)
    added_up = []
    for side, columns in ((0, stored), (1, new)):
        is_of_side = (union["side"] == side).to_numpy()
        added_up.append(_added_up(columns, union[is_of_side], is_halt.to_numpy()[is_of_side]))
    (stored_sums, rows, originals), (new_sums, _, _) = added_up
    return _CutHalts(new_sums, stored_sums, rows, originals)


def _is_of_next_hour(union: pd.DataFrame) -> pd.Series:
    """Return a mask of rows at a full hour that belong to a halt whose payments are at the next hour.

    The late payments of a halt may begin within a minute of the hour. Then one side (stored or new) has the
    first of them as a row at that hour, and the other side has the rest at the next hour. That row has
    several payments, or it is a single late payment and the row at the hour has several.
    """
    keys = ["name", "hour", "side"]
    rows = pd.MultiIndex.from_frame(union[keys])
    has_several = union["count"] > 1
    next_rows = _of_previous_hour(union[has_several], rows)
    late_rows = _of_previous_hour(union[union["is_late"]], rows)
    is_next = rows.isin(next_rows) | (rows.isin(late_rows) & has_several.to_numpy())
    return pd.Series(is_next & ~union["is_late"].to_numpy(), union.index)


def _of_previous_hour(candidates: pd.DataFrame, rows: pd.MultiIndex) -> pd.MultiIndex:
    """Return the keys (name, previous hour, other side) of candidates without a row at the previous hour.

    `rows` are the keys (name, hour, side) of all rows.
    """
    before = candidates[["name", "hour", "side"]].assign(hour=candidates["hour"] - 1)
    is_alone = ~pd.MultiIndex.from_frame(before).isin(rows)
    return pd.MultiIndex.from_frame(before[is_alone].assign(side=1 - before["side"][is_alone]))


def _added_up(
    columns: _Columns, rows: pd.DataFrame, is_halt: Bools
) -> tuple[_Columns, Indices, dict[int, pd.DataFrame]]:
    """Return rows with the late payments of an hour added up, their first positions, and the originals."""
    halts = rows[is_halt].groupby(["name", "hour"], sort=False)
    place = rows["row"].to_numpy().copy()
    place[is_halt] = halts["row"].transform("min")
    first, of_first = np.unique(place, return_inverse=True)
    native = np.bincount(of_first, columns.value, len(first)).astype(np.float64)
    counts = np.bincount(of_first, columns.count, len(first)).astype(np.int64)
    times = columns.times[first].copy()
    is_made = is_halt[first]
    times[is_made] = rows["hour"].to_numpy()[first][is_made] * HOUR_US
    sizes = np.bincount(of_first, minlength=len(first))
    is_other = is_made & ((sizes > 1) | (payment_time(columns.times[first]) != times))
    originals = {
        int(row): columns.frame.iloc[np.flatnonzero(of_first == row)] for row in np.flatnonzero(is_other)
    }
    return _summed(columns, Payments(first, times, native, counts)), first, originals


def _compared(
    stored: _Columns,
    new: _Columns,
    old_series: Indices,
    new_series: Indices,
    late: Collection[int],
    conflicts: list[str],
) -> _Comparison:
    """Return the new payments that are stored, and the stored rows that get more payments or an interval.

    `late` are stored rows of payments that came minutes after the hour, and `conflicts` gets a text for each
    new payment that is stored with another rate. If both rows have an interval and these differ, the payments
    are compared, because an equal rate would be another payment.

    Files may end and begin in the middle of a halt. Rows that together have all payments due are added up. If
    two rows begin with the halt, and one has all payments due, the row with more payments includes those of
    the other. If neither is certain, the new row is a contradiction.
    """
    old_times = payment_time(stored.times)
    new_rows, old_rows, is_same, has_two_intervals = _matched(
        stored, new, pd.DataFrame({"series": old_series, "time": old_times}), new_series
    )
    amendments: list[_Amendment] = []
    in_doubt = np.flatnonzero(~is_same | (new.count[new_rows] > 1))
    for place in in_doubt.tolist():
        row = int(new_rows[place])
        old = int(old_rows[place])
        old_count = int(stored.count[old])
        new_count = int(new.count[row])
        total = 0
        if old_count > 1 or new_count > 1 or old in late:  # payments after a halt
            is_of_series = (old_series == new_series[row], new_series == new_series[row])
            total = _payments_of_both(stored, new, old, row, is_of_series)
        is_sum = total == old_count + new_count
        if is_same[place] and not is_sum:
            continue
        is_same[place] = False
        if is_sum:
            mean_rate = (stored.rate[old] * old_count + new.rate[row] * new_count) / total
            native = stored.native[old] + new.native[row]
            amendments.append(_Amendment(old, native, mean_rate, total))
        elif total == 0:
            conflicts.append(_conflict(stored, new, old, row))
        elif new_count > old_count:  # the new row includes the payments of the stored one
            amendments.append(_Amendment(old, new.native[row], new.rate[row], new_count))
    notices = []
    for place in np.flatnonzero(is_same & has_two_intervals).tolist():
        hours = float(new.interval[new_rows[place]])
        notices.append(_interval_text(stored, int(old_rows[place]), hours))
    has_statement = is_same & new.is_stated[new_rows] & ~stored.is_stated[old_rows]
    statements = _Statements(old_rows[has_statement], new_rows[has_statement])
    is_stored = np.zeros(len(new.times), dtype=np.bool_)
    is_stored[new_rows] = True
    return _Comparison(is_stored, amendments, statements, notices)


def _matched(stored: _Columns, new: _Columns, old_keys: pd.DataFrame, new_series: Indices) -> _Matches:
    """Return the new rows with a stored row of their series and time, and whether the two rows agree.

    `old_keys` has the columns ``series`` and ``time`` of the stored rows.
    """
    places = old_keys.assign(place=np.arange(len(old_keys)))
    places = places.drop_duplicates(["series", "time"])  # older versions stored timestamps as they came
    keys = pd.DataFrame({"series": new_series, "time": new.times})
    place = keys.merge(places, on=["series", "time"], how="left")["place"].to_numpy(dtype=np.float64)
    new_rows = np.flatnonzero(np.isfinite(place))
    old_rows = place[new_rows].astype(np.intp)
    is_same = is_same_rate(new.value[new_rows], stored.value[old_rows])
    is_same |= is_same_rate(new.rate[new_rows] / BPS, stored.rate[old_rows] / BPS)
    # A mean rate, and a sum of zeros, may be equal for other numbers of payments.
    is_same &= new.count[new_rows] == stored.count[old_rows]
    has_two_intervals = new.is_stated[new_rows] & stored.is_stated[old_rows]
    has_two_intervals &= new.interval[new_rows] != stored.interval[old_rows]
    is_same &= ~has_two_intervals | is_same_rate(new.paid[new_rows], stored.paid[old_rows])
    return _Matches(new_rows, old_rows, is_same, has_two_intervals)


def _interval_text(stored: _Columns, row: int, hours: float) -> str:
    """Return the notice about a stored payment that another row has with another interval."""
    time = np.datetime_as_string(np.datetime64(int(stored.times[row]), "us"), unit="m")
    return (
        f"the payment of {stored.names[row]} at {time}Z is stored with an interval of "
        f"{stored.interval[row]:g} h, but a new row with the same sum states {hours:g} h: the stored row "
        "is kept"
    )


def _interval_at(time: int, times: Indices, intervals: Floats) -> float:
    """Return the interval of the last payment until a time [µs], else of the next one; NaN for none."""
    finite = np.isfinite(intervals)
    is_before = finite & (times <= time)
    if is_before.any():
        return float(intervals[is_before][np.argmax(times[is_before])])
    if finite.any():
        return float(intervals[finite][np.argmin(times[finite])])
    return float("nan")


def _conflict(stored: _Columns, new: _Columns, old: int, row: int) -> str:
    """Return the text about the new payment `row` that contradicts the stored payment `old`."""
    text = conflict_text(
        str(new.names[row]),
        int(stored.times[old]),
        float(stored.value[old]),
        int(new.times[row]),
        float(new.value[row]),
    )
    advice = ""
    if stored.count[old] + new.count[row] > 2:
        advice = "; import the files with payments of this halt in one command"
    return f"{text} (the first is stored){advice}"


def _payments_of_both(
    stored: _Columns, new: _Columns, old: int, row: int, is_of_series: tuple[Bools, Bools]
) -> int:
    """Return the number of payments that the stored row `old` and the new row `row` have together.

    0 if it is uncertain. `is_of_series` are masks of the stored and of the new rows of the series. A side
    with the previous payment has all payments of the halt up to some time; the other one may begin in the
    middle of it.
    """
    is_old, is_new = is_of_series
    time = int(new.times[row])
    old_times = payment_time(stored.times)[is_old]
    new_times = new.times[is_new]
    # 1. The payments due since the previous payment, by the interval of the series.
    interval = _interval_at(
        time,
        np.concatenate([old_times, new_times]),
        np.concatenate([stored.interval[is_old], new.interval[is_new]]),
    )
    old_last = int(np.max(old_times[old_times < time], initial=-1))
    new_last = int(np.max(new_times[new_times < time], initial=-1))
    last = max(old_last, new_last)
    due = np.nan
    if last >= 0:
        due = np.rint((time - last) / HOUR_US / interval)
    # 2. The sides that have the previous payment, and with it the beginning of the halt.
    old_has_start = old_last == last and last >= 0
    new_has_start = new_last == last and last >= 0
    counts = int(stored.count[old]), int(new.count[row])
    if sum(counts) == due and (old_has_start != new_has_start or 1 in counts):
        return sum(counts)
    if counts[0] == counts[1]:
        return 0
    most = max(counts)
    if (old_has_start and new_has_start) or most >= due:
        return most
    return 0


def _assigned(series: Indices, times: Indices, stated: Floats, names: Any) -> _Assigned:
    """Return the intervals of rows in any order; rows of one series and time have the same interval.

    `series` are positions in `names`, `times` are in µs, and `stated` [h] is NaN without a stated interval.
    """
    order = np.lexsort((times, series))
    series = series[order]
    times = times[order]
    is_first = np.ones(len(order), dtype=np.bool_)  # first row of its series and time
    is_first[1:] = (series[1:] != series[:-1]) | (times[1:] != times[:-1])
    usual = np.array([_usual_hours(str(name).rpartition(" on ")[2]) for name in names], dtype=np.float64)
    rows = order[is_first]
    series = series[is_first]
    assigned = assign_intervals(series, times[is_first], stated[rows], usual[series])
    place = np.cumsum(is_first) - 1
    hours = np.empty(len(order))
    hours[order] = assigned.hours[place]
    is_anchor = np.empty(len(order), dtype=np.bool_)
    is_anchor[order] = assigned.is_confirmed[place]
    return _Assigned(hours, is_anchor)


def _is_edge(series: Indices, times: Indices, is_anchor: Bools) -> Bools:
    """Return a mask of rows before the first or after the last row of their series with a known interval."""
    size = int(np.max(series, initial=-1)) + 1
    first = np.full(size, np.iinfo(np.int64).max)
    last = np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(first, series[is_anchor], times[is_anchor])
    np.maximum.at(last, series[is_anchor], times[is_anchor])
    return np.asarray((times < first[series]) | (times > last[series]))


def _usual_hours(exchange: str) -> float:
    """Return the interval of all contracts of a venue, NaN if contracts differ."""
    venue = VENUES.get(exchange)
    if venue is not None and venue.hourly and venue.is_inverse_hourly:
        return 1.0
    return np.nan
