"""Checks of converted rows before they are stored: times that are not UTC, and rows that cannot be served."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.support.text import escape_controls
from derivdata.tables.schema import Kind, Table

_HOUR_US = 3_600_000_000
_SAME_PAYMENT_US = _HOUR_US // 2
_MOST_MEDIAN_IV = 10.0
_HIDDEN = r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]"


def unservable(table: Table, rows: pd.DataFrame, archive: Archive) -> dict[int, str]:
    """Return the rows that could not be served, by place, with the reason. Stored rows stay."""
    reasons = _hidden_words(table, rows)
    reasons |= _outside_range(table, rows)
    if table.name == "funding_settlements":
        reasons |= _paid_twice(rows, archive)
    if {"level", "side", "price_usd"} <= {*table.columns}:
        reasons |= _unsorted_books(rows)
    if "iv" in rows.columns and len(rows):
        reasons |= _in_percent(table, rows)
    if {"start", "end"} <= {*rows.columns}:
        ended = np.flatnonzero((rows["start"] >= rows["end"]).to_numpy())
        reasons |= dict.fromkeys(ended.tolist(), "it ends before it starts")
    return reasons


def _hidden_words(table: Table, rows: pd.DataFrame) -> dict[int, str]:
    """Find words with characters that a terminal obeys or does not show."""
    reasons: dict[int, str] = {}
    for name, column in table.columns.items():
        if column.kind not in (Kind.TEXT, Kind.LABEL) or name not in rows.columns:
            continue
        values = rows[name]
        is_coded = isinstance(values.dtype, pd.CategoricalDtype)
        words = pa.array(values.cat.categories if is_coded else values, pa.string())
        hidden = np.asarray(pc.match_substring_regex(words, _HIDDEN).fill_null(False))
        if not hidden.any():
            continue
        wrong = np.append(hidden, False)[values.cat.codes] if is_coded else hidden
        for row in np.flatnonzero(wrong).tolist():
            shown = escape_controls(str(values.iloc[row]))
            reasons[row] = f"{name}='{shown}' has characters that are not shown"
    return reasons


def _outside_range(table: Table, rows: pd.DataFrame) -> dict[int, str]:
    """Find figures that are impossible, also those that were made of others."""
    reasons: dict[int, str] = {}
    for name, column in table.columns.items():
        if name not in rows.columns or (column.least is None and column.most is None):
            continue
        values = pd.to_numeric(rows[name]).to_numpy(dtype=np.float64, na_value=np.nan)
        for wrong, why in column.outside(values):
            reasons |= {row: f"{name}={values[row]:g} {why}" for row in np.flatnonzero(wrong).tolist()}
    return reasons


def _paid_twice(rows: pd.DataFrame, archive: Archive) -> dict[int, str]:
    """Find payments within half an hour of another one of their series: one payment with two timestamps."""
    if not len(rows):
        return {}
    near = pd.Timedelta(1, "h")
    first = rows["time"].min() - near
    last = rows["time"].max() + near
    symbols = sorted(set(rows["symbol"].astype(object)))
    stored = archive.read("funding_settlements", first, last, symbols=symbols)
    both = pd.concat([_series_and_time(stored, -1), _series_and_time(rows, 0)], ignore_index=True)
    series = pd.factorize(both["series"])[0]
    stamps = both["time"].to_numpy()
    order = np.lexsort((both["place"].to_numpy() >= 0, stamps, series))
    places = both["place"].to_numpy()[order]
    stamps = stamps[order]
    series = series[order]
    apart = np.diff(stamps)
    is_near = (np.diff(series) == 0) & (apart > 0) & (apart < _SAME_PAYMENT_US)
    reasons: dict[int, str] = {}
    for at in np.flatnonzero(is_near).tolist():
        earlier = int(places[at])
        later = int(places[at + 1])
        wrong, other = (later, at) if later >= 0 else (earlier, at + 1)
        if wrong < 0 or earlier in reasons:
            continue
        stamp = times.iso(pd.Timestamp(int(stamps[other]), unit="us", tz="UTC"))
        reasons[wrong] = f"a payment of its series at {stamp} is less than half an hour away"
    return reasons


def _series_and_time(rows: pd.DataFrame, first: int) -> pd.DataFrame:
    """Return series and instant [µs] of rows, and their places from `first` on, -1 for stored ones."""
    names = rows["exchange"].astype(str) + " " + rows["symbol"].astype(str)
    stamps = rows["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
    places = np.full(len(rows), -1) if first < 0 else np.arange(len(rows))
    return pd.DataFrame({"series": names.to_numpy(dtype=object), "time": stamps, "place": places})


def _unsorted_books(rows: pd.DataFrame) -> dict[int, str]:
    """Find books whose prices do not go away from the best one, level by level."""
    keys = [name for name in ("symbol", "exchange", "time", "side") if name in rows.columns]
    book = rows.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
    order = np.lexsort((rows["level"].to_numpy(dtype=np.float64), book))
    price = rows["price_usd"].to_numpy()[order]
    is_bid = (rows["side"].astype(object) == "bid").to_numpy()[order]
    step = np.diff(price)
    wrong = (np.diff(book[order]) == 0) & np.where(is_bid[1:], step > 0, step < 0)
    bad = np.isin(book, book[order][1:][wrong])
    why = "its book is not sorted by level"
    return dict.fromkeys(np.flatnonzero(bad).tolist(), why)


def _in_percent(table: Table, rows: pd.DataFrame) -> dict[int, str]:
    """Find chains whose median volatility is above 1,000 %."""
    keys = [name for name in ("symbol", "exchange", "time") if name in table.key]
    group = rows.groupby(keys, sort=False, observed=True)["iv"]
    median: Array = group.transform("median").to_numpy()
    wrong = np.flatnonzero(median > _MOST_MEDIAN_IV)
    return {
        row: f"the median volatility of its chain is {median[row]:.4g}: percent, not decimal (--unit percent)"
        for row in wrong.tolist()
    }


_HOUR = 3_600_000_000
_LEAST_OFF = 3
"""Rows off the hours of their step from which the zone is asked; late or lost rows are fewer."""
_OTHER_HOURS = {("bitmex", 8): 4}
"""Venues whose rows of so many hours are as many hours off midnight: BitMEX pays at 04:00 UTC."""


def refuse_local_times(frame: pd.DataFrame) -> None:
    """Ask for the zone of times that were taken as UTC where they show another clock.

    Rows each 2 to 12 hours lie at multiples of their step since midnight UTC: payments and candles of all
    venues but BitMEX do. Rows each hour or less jump by an hour where clocks are set forward.
    """
    if not {"symbol", "exchange", "time"} <= {*frame.columns}:
        return
    for (venue, symbol), stamps in frame.groupby(["exchange", "symbol"], observed=True)["time"]:
        stamps = np.unique(stamps.astype("datetime64[us, UTC]").astype("int64").to_numpy())
        if len(stamps) < 2:
            continue
        step = int(np.median(np.diff(stamps)))
        evidence = _jump(stamps, step) or _off_schedule(stamps, step, str(venue))
        if evidence:
            raise ArchiveError(
                f"the times of {symbol} on {venue} state no zone, and are not UTC: {evidence}. Say the zone "
                "with --tz, such as --tz UTC+3 or --tz Europe/London (or --tz UTC if they are UTC)"
            )


def _off_schedule(stamps: Array, step: int, venue: str) -> str:
    """Return which rows are whole hours off the multiples of their step; empty where none are."""
    hours = round(step / _HOUR)
    if abs(step - hours * _HOUR) > 60_000_000 or not 2 <= hours <= 12:
        return ""
    shifted = stamps + 60_000_000  # rows are some seconds early or late
    at_hour = shifted % _HOUR <= 120_000_000
    off = (shifted // _HOUR - _OTHER_HOURS.get((venue, hours), 0)) % hours
    wrong = at_hour & (off != 0)
    if wrong.sum() < min(_LEAST_OFF, len(stamps)):
        return ""
    first = pd.Timestamp(int(stamps[np.argmax(wrong)]), unit="us")
    return f"{int(wrong.sum())} rows, first {first:%Y-%m-%d %H:%M}, are not at a multiple of {hours} hours"


def _jump(stamps: Array, step: int) -> str:
    """Return the hour that a file lacks where clocks are set forward; empty where it lacks none."""
    if step > 1.1 * _HOUR:
        return ""
    gaps = np.diff(stamps)
    for place in np.flatnonzero(np.abs(gaps - step - _HOUR) < 60_000_000).tolist():
        after = pd.Timestamp(int(stamps[place + 1]), unit="us")
        is_spring = after.month == 3 and after.weekday() == 6 and after.day >= 8
        if is_spring and 1 <= after.hour <= 4:
            return f"they jump to {after:%Y-%m-%d %H:%M}, when clocks are set forward"
    return ""
