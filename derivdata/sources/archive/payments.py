"""Payments before they are stored: one row each at its hour, with the interval that all known rows tell.

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
from derivdata.tables.payment_intervals import HOUR_US, assign_intervals, payment_time
from derivdata.tables.payments import SOURCES, conflict_text, is_same_rate, merge_payments, rates_of
from derivdata.units import BPS

TABLE = "funding_settlements"

_REACH = pd.Timedelta(30, "D")
"""How far from new rows stored ones are read: 30 payments of a contract that pays once a day."""
_STATED = ("row", "list")
_RATES_PER_HOUR = ("derive", "dydx", "extended", "kraken")
"""Venues that quote each rate per hour: a wrong interval multiplied the payment, and not the rate."""

Read = Callable[[Collection[str], pd.Timestamp, pd.Timestamp], pd.DataFrame]


class CompletedPayments(NamedTuple):
    """New payments ready to be stored, those that are stored already, and stored rows that change."""

    fresh: pd.DataFrame
    present: int
    conflicts: list[str]
    """One text for each row that contradicts another row or a stored one; it is left out."""
    completed: pd.DataFrame
    """Stored rows whose interval was not known and now is."""
    changed: pd.DataFrame
    """Stored rows whose interval, which spacing told, is now another one."""
    added: pd.DataFrame
    """Stored rows of which new ones have more payments: those after a halt, or the one of the same hour."""


class _Amendments(NamedTuple):
    """Stored rows that get more payments: their places, and what they pay with them."""

    rows: Indices
    native: Floats
    rate: Floats
    """Mean rate, for rows without an interval."""
    counts: Indices


class WrongIntervals(NamedTuple):
    """Stored payments with another interval than the spacing of the series, and the right rows."""

    stored: pd.DataFrame
    right: pd.DataFrame


class _Columns:
    """Columns of payments as arrays, and the number of each row's series."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.times = frame["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
        self.rate, self.hours, native = (
            frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
            for name in ("rate_bps_8h", "interval_hours", "rate_native")
        )
        count = frame["payment_count"].to_numpy(dtype=np.float64, na_value=np.nan)
        self.count = np.nan_to_num(count, nan=1.0).astype(np.int64)
        self.native = np.where(np.isnan(native), self.rate * self.hours / 8.0 / BPS, native)
        self.source = frame["interval_source"].astype(object).to_numpy()
        self.is_stated = np.isfinite(self.hours) & (pd.isna(self.source) | np.isin(self.source, _STATED))
        self.interval = self.hours / self.count
        pairs = zip(frame["symbol"].astype(str), frame["exchange"].astype(str), strict=True)
        self.names = np.array([f"{symbol} on {exchange}" for symbol, exchange in pairs], dtype=object)

    @property
    def value(self) -> Floats:
        """What is paid, or a stand-in by which rows without an interval compare: the fraction per hour."""
        return np.asarray(np.where(np.isnan(self.native), self.rate / 8.0 / BPS, self.native))

    def updated(self, rows: Indices, interval: Floats, source: Any) -> pd.DataFrame:
        """Return some rows with intervals and what follows from them."""
        hours = interval * self.count[rows]
        native = self.native[rows]
        rate = self.rate[rows]
        is_same = np.isfinite(rate) & (hours == self.hours[rows])
        derived = rates_of(native, hours)
        rate = np.where(is_same | np.isnan(native), rate, derived)
        native = np.where(np.isnan(native), rate * hours / 8.0 / BPS, native)
        return self.frame.iloc[rows].assign(
            interval_hours=hours,
            rate_bps_8h=rate,
            rate_native=native,
            payment_count=self.count[rows],
            interval_source=pd.Categorical(np.where(np.isnan(hours), None, source), SOURCES),
        )

    def amended(self, more: _Amendments, interval: Floats) -> pd.DataFrame:
        """Return the rows that get more payments."""
        hours = interval[more.rows] * more.counts
        rate = np.where(np.isnan(hours), more.rate, rates_of(more.native, hours))
        native = np.where(np.isnan(more.native), rate * hours / 8.0 / BPS, more.native)
        return self.frame.iloc[more.rows].assign(
            interval_hours=hours,
            rate_bps_8h=np.where(np.isnan(more.native), more.rate, rate),
            rate_native=native,
            payment_count=more.counts,
        )


def complete_payments(rows: pd.DataFrame, read: Read) -> CompletedPayments:
    """Return conformed new rows as they are to be stored, and what they change in stored rows.

    `read` returns the stored rows of some symbols in a window.
    """
    conflicts: list[str] = []
    new = _merged(_Columns(rows.reset_index(drop=True)), conflicts)
    first = rows["time"].min()
    last = rows["time"].max()
    stored = _Columns(read(list(rows["symbol"].astype(object).unique()), first - _REACH, last + _REACH))
    codes, names = pd.factorize(np.concatenate([stored.names, new.names]))
    size = len(stored.names)
    is_known, more = _compared(stored, new, codes[:size], codes[size:], conflicts)
    fresh = np.flatnonzero(~is_known)
    times = np.concatenate([payment_time(stored.times), new.times[fresh]])
    stated = np.concatenate(
        [
            np.where(columns.is_stated, columns.interval, np.nan)[place]
            for columns, place in ((stored, slice(None)), (new, fresh))
        ]
    )
    series = np.concatenate([codes[:size], codes[size:][fresh]])
    hours, is_confirmed = _assigned(series, times, stated, names)
    own = new.interval[fresh]
    keeps_own = new.is_stated[fresh] | (np.isfinite(own) & ~is_confirmed[size:])
    source = np.where(new.is_stated[fresh] & pd.isna(new.source[fresh]), "row", new.source[fresh])
    source = np.where(keeps_own, source, "spacing")
    result = new.updated(fresh, np.where(keeps_own, own, hours[size:]), source)
    is_completed = np.isnan(stored.interval) & np.isfinite(hours[:size])
    is_changed = ~stored.is_stated & is_confirmed[:size] & np.isfinite(stored.interval)
    is_changed &= stored.interval != hours[:size]
    added = stored.amended(more, np.where(is_completed | is_changed, hours[:size], stored.interval))
    is_completed[more.rows] = False
    is_changed[more.rows] = False
    completed, changed = (
        stored.updated(np.flatnonzero(chosen), hours[:size][chosen], "spacing")
        for chosen in (is_completed, is_changed)
    )
    present = len(rows) - len(fresh) - len(conflicts)
    return CompletedPayments(result, present, conflicts, completed, changed, added)


def wrong_intervals(rows: pd.DataFrame) -> WrongIntervals:
    """Return the stored payments of one series whose interval later payments contradict.

    Rows of earlier versions do not say where their interval is from: it does not count as stated.
    """
    stored = _Columns(rows.reset_index(drop=True))
    is_stated = np.isin(stored.source, _STATED) & np.isfinite(stored.hours)
    stated = np.where(is_stated, stored.interval, np.nan)
    series = np.zeros(len(rows), dtype=np.intp)
    hours, is_confirmed = _assigned(series, payment_time(stored.times), stated, stored.names[:1])
    # After the last confirmed payment the spacing may be of a new interval.
    order = np.argsort(stored.times, kind="stable")
    is_followed = np.empty(len(rows), dtype=np.bool_)
    is_followed[order] = np.logical_or.accumulate(is_confirmed[order][::-1])[::-1]
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
    rows = merged.rows
    is_summed = merged.counts != new.count[rows]
    has_native = np.isfinite(new.native[rows])
    hours = np.where(is_summed, new.interval[rows] * merged.counts, new.hours[rows])
    mean = merged.native * 8.0 * BPS / merged.counts  # of rates without an interval
    rate = np.where(is_summed, np.where(has_native, rates_of(merged.native, hours), mean), new.rate[rows])
    frame = new.frame.iloc[rows].assign(
        time=pd.DatetimeIndex(merged.times.view("datetime64[us]"), tz="UTC"),
        rate_native=np.where(has_native, merged.native, np.nan),
        payment_count=merged.counts,
        interval_hours=hours,
        rate_bps_8h=rate,
    )
    return _Columns(frame.reset_index(drop=True))


def _compared(
    stored: _Columns, new: _Columns, old_series: Indices, new_series: Indices, conflicts: list[str]
) -> tuple[Bools, _Amendments]:
    """Return which new payments are stored, and the stored rows that get more payments.

    Adds a text for each new payment that is stored with another rate.

    A catch-up after a halt may be stored before the payment of its hour, or after it, and files may start
    with that payment. Of two rows with other counts the one with more payments has those of the other. But
    a single payment and the others that are due after the payment before are added up. Where neither is
    certain, the new row is a contradiction.
    """
    old_times = payment_time(stored.times)
    keys = pd.DataFrame({"series": old_series, "time": old_times})
    keys["place"] = np.arange(len(keys))
    keys = keys.drop_duplicates(["series", "time"])  # older versions stored stamps as they came
    wanted = pd.DataFrame({"series": new_series, "time": new.times})
    places = wanted.merge(keys, on=["series", "time"], how="left")["place"].to_numpy(dtype=np.float64)
    is_known = np.isfinite(places)
    new_rows = np.flatnonzero(is_known)
    old_rows = places[is_known].astype(np.intp)
    is_same = is_same_rate(new.value[new_rows], stored.value[old_rows])
    is_same |= is_same_rate(new.rate[new_rows] / BPS, stored.rate[old_rows] / BPS)
    # A mean rate, and a sum of zeros, may be equal for other numbers of payments.
    is_same &= new.count[new_rows] == stored.count[old_rows]
    more: list[tuple[int, float, float, int]] = []
    for row, old in zip(new_rows[~is_same].tolist(), old_rows[~is_same].tolist(), strict=True):
        before = int(stored.count[old])
        count = int(new.count[row])
        if before != count:
            interval = new.interval[row] if np.isnan(stored.interval[old]) else stored.interval[old]
            own = np.concatenate(
                [old_times[old_series == new_series[row]], new.times[new_series == new_series[row]]]
            )
            due = _payments_due(own, int(new.times[row]), float(interval))
            if 1 in (before, count) and before + count == due:
                total = before + count
                rate = (stored.rate[old] * before + new.rate[row] * count) / total
                more.append((old, stored.native[old] + new.native[row], rate, total))
                continue
            if 1 not in (before, count) or max(before, count) >= due:
                if count > before:
                    more.append((old, new.native[row], new.rate[row], count))
                continue
        text = conflict_text(
            str(new.names[row]),
            int(stored.times[old]),
            float(stored.value[old]),
            int(new.times[row]),
            float(new.value[row]),
        )
        conflicts.append(f"{text} (the first is stored)")
    columns = np.array(more, dtype=np.float64).reshape(-1, 4).T
    amendments = _Amendments(columns[0].astype(np.intp), columns[1], columns[2], columns[3].astype(np.int64))
    return np.asarray(is_known), amendments


def _payments_due(times: Indices, time: int, interval: float) -> float:
    """Return how many payments are due after the one before a time [µs]; NaN where it is not known."""
    earlier = times[times < time]
    if not earlier.size or np.isnan(interval):
        return np.nan
    return float(np.rint((time - np.max(earlier)) / HOUR_US / interval))


def _assigned(series: Indices, times: Indices, stated: Floats, names: Any) -> tuple[Floats, Bools]:
    """Return the hours of each row, and whether they are stated or confirmed; rows come in any order."""
    order = np.lexsort((times, series))
    series = series[order]
    times = times[order]
    is_first = np.append(True, (series[1:] != series[:-1]) | (times[1:] != times[:-1]))[: len(order)]
    usual = np.array([_usual_hours(str(name).rpartition(" on ")[2]) for name in names], dtype=np.float64)
    rows = order[is_first]
    assigned = assign_intervals(series[is_first], times[is_first], stated[rows], usual[series[is_first]])
    place = np.cumsum(is_first) - 1
    hours = np.empty(len(order))
    is_confirmed = np.empty(len(order), dtype=np.bool_)
    hours[order] = assigned.hours[place]
    is_confirmed[order] = assigned.is_confirmed[place]
    return hours, is_confirmed


def _usual_hours(exchange: str) -> float:
    """Return the interval of all contracts of a venue, NaN where contracts differ."""
    venue = VENUES.get(exchange)
    return 1.0 if venue is not None and venue.hourly and venue.is_inverse_hourly else np.nan
