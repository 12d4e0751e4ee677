"""Checks of rows before they are stored: rows that could not be served, and times that are not in UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.importing.market_names import ALWAYS_HOURLY
from derivdata.sources.archive.importing.plan import Unclear
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.support.text import escape_controls
from derivdata.tables.payments import HOUR_US, MINUTE_US
from derivdata.tables.schema import Kind, Table

Reasons: TypeAlias = dict[int, str]
"""Reason of each rejected row by its position."""


def unservable(table: Table, rows: pd.DataFrame, archive: Archive) -> Reasons:
    """Return the rows that could not be served, by position, with the reason. Stored rows stay."""
    reasons = _hidden_words(table, rows)
    reasons |= _outside_range(table, rows)
    if table.name == "funding_settlements":
        reasons |= _paid_twice(rows, archive)
    if table.name == "oi_history":
        reasons |= _lone_zeros(rows)
    if {"level", "side", "price_usd"} <= {*table.columns}:
        reasons |= _unsorted_books(rows)
    if "iv" in rows.columns and len(rows):
        reasons |= _in_percent(table, rows)
    if "strike" in rows.columns and table.name == "options_snapshot":
        reasons |= _scaled_strikes(rows)
    if {"start", "end"} <= {*rows.columns}:
        has_ended = (rows["start"] >= rows["end"]).to_numpy()
        reasons |= _each(has_ended, lambda _: "it ends before it starts")
    return reasons


def _each(is_wrong: Array, reason: Callable[[int], str]) -> Reasons:
    """Return the reason of each wrong row."""
    return {row: reason(row) for row in np.flatnonzero(is_wrong).tolist()}


_LARGE_INTEREST = 1e6
_AT_END = 3
"""Minimum number of zeros at the end of a series that suggests an expired contract."""


def _lone_zeros(rows: pd.DataFrame) -> Reasons:
    """Find zeros among large open interest, which programs write for missing values."""
    is_missing = np.zeros(len(rows), dtype=bool)
    if not (rows["oi_usd"] == 0).any():
        return {}
    places = pd.Series(np.arange(len(rows)), rows.index)
    for _, series in places.groupby([rows["symbol"], rows["exchange"]], observed=True):
        own = rows.iloc[series].assign(place=series).sort_values("time")
        values = own["oi_usd"].to_numpy(dtype=np.float64)
        is_zero = values == 0
        after_last = len(values) - 1 - int(np.max(np.flatnonzero(~is_zero), initial=-1))
        if after_last >= _AT_END:
            is_zero[-after_last:] = False
        if np.median(values) > _LARGE_INTEREST:
            is_missing[own["place"].to_numpy()[is_zero]] = True
    return _each(is_missing, lambda _: "oi_usd=0 between values above one million USD: the value is missing")


_HIDDEN = r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]"
"""Control and formatting characters, private ones, and separators of lines and paragraphs (Unicode)."""


def _hidden_words(table: Table, rows: pd.DataFrame) -> Reasons:
    """Return words with control or invisible characters, by row."""
    reasons: Reasons = {}
    for name, column in table.columns.items():
        if column.kind not in (Kind.TEXT, Kind.LABEL) or name not in rows.columns:
            continue
        words = pd.Categorical(rows[name])
        texts = pa.array(words.categories, pa.string())
        is_hidden = np.asarray(pc.match_substring_regex(texts, _HIDDEN).fill_null(False))
        if not is_hidden.any():
            continue
        is_wrong = np.append(is_hidden, False)[words.codes]  # the code -1 of a missing word is the last item
        for row in np.flatnonzero(is_wrong).tolist():
            shown = escape_controls(str(words[row]))
            reasons[row] = f"{name}='{shown}' has control or invisible characters"
    return reasons


def _outside_range(table: Table, rows: pd.DataFrame) -> Reasons:
    """Return impossible values, including computed ones, by row."""
    reasons: Reasons = {}
    for name, column in table.columns.items():
        if name not in rows.columns or (column.minimum is None and column.maximum is None):
            continue
        values = pd.to_numeric(rows[name]).to_numpy(dtype=np.float64, na_value=np.nan)
        for is_wrong, why in column.outside(values):
            for row in np.flatnonzero(is_wrong).tolist():
                reasons[row] = f"{name}={values[row]:g} {why}"
    return reasons


_SAME_PAYMENT_US = HOUR_US // 2


def _paid_twice(rows: pd.DataFrame, archive: Archive) -> Reasons:
    """Return payments within half an hour of another one of their series, by row.

    A row with several payments after a halt may have another one near it, which is added to it later.
    """
    if not len(rows):
        return {}
    margin = pd.Timedelta(1, "h")
    first = rows["time"].min() - margin
    last = rows["time"].max() + margin
    symbols = sorted(set(rows["symbol"].astype(object)))
    stored = archive.read("funding_settlements", first, last, symbols=symbols)
    symbol_codes = _common_codes(stored["symbol"], rows["symbol"])
    series = _common_codes(stored["exchange"], rows["exchange"]) * (np.max(symbol_codes) + 1) + symbol_codes
    stamps = np.concatenate([_micros(stored), _micros(rows)])
    is_sum = np.concatenate([_payment_counts(stored), _payment_counts(rows)]) > 1
    # Rows of the archive have the place -1. Of equal times they come first.
    places = np.concatenate([np.full(len(stored), -1), np.arange(len(rows))])
    order = np.lexsort((places >= 0, stamps, series))
    places = places[order]
    stamps = stamps[order]
    series = series[order]
    is_sum = is_sum[order]
    apart = np.diff(stamps)
    is_near = (np.diff(series) == 0) & (apart > 0) & (apart < _SAME_PAYMENT_US)
    is_near &= ~(is_sum[1:] | is_sum[:-1])
    reasons: Reasons = {}
    for index in np.flatnonzero(is_near).tolist():
        earlier = int(places[index])
        later = int(places[index + 1])
        if earlier in reasons:
            continue
        # The later row is rejected, unless it is stored.
        if later >= 0:
            reasons[later] = _near_payment(stamps[index])
        elif earlier >= 0:
            reasons[earlier] = _near_payment(stamps[index + 1])
    return reasons


def _near_payment(stamp: int) -> str:
    """Return the reason to reject a payment next to one at a time [µs]."""
    time = times.iso(pd.Timestamp(int(stamp), unit="us", tz="UTC"))
    return f"another payment of the series, at {time}, is less than half an hour away"


def _common_codes(first: pd.Series, second: pd.Series) -> Array:
    """Return the words of two columns as numbers, equal ones for equal words."""
    words = pd.api.types.union_categoricals([_categorical(first), _categorical(second)])
    return np.asarray(words.codes, dtype=np.int64)


def _categorical(words: pd.Series) -> pd.Categorical:
    """Return words as categories of texts, so that two columns have the same type of categories."""
    categorical = pd.Categorical(words)
    texts = [str(word) for word in categorical.categories]
    # Without words pandas chooses another type, and columns of two types cannot be joined.
    return categorical.rename_categories(pd.Index(texts, dtype=object))


def _micros(rows: pd.DataFrame) -> Array:
    """Return the times of rows [µs]."""
    return np.asarray(rows["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy())


def _payment_counts(rows: pd.DataFrame) -> Array:
    """Return the number of payments in each row."""
    if "payment_count" not in rows:
        return np.ones(len(rows))
    return np.asarray(rows["payment_count"].to_numpy(dtype=np.float64, na_value=np.nan))


def _unsorted_books(rows: pd.DataFrame) -> Reasons:
    """Return books whose prices are not sorted from the best one, by row."""
    keys = [name for name in ("symbol", "exchange", "time", "side") if name in rows.columns]
    book = rows.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
    order = np.lexsort((rows["level"].to_numpy(dtype=np.float64), book))
    price = rows["price_usd"].to_numpy()[order]
    is_bid = (rows["side"].astype(object) == "bid").to_numpy()[order]
    book_of_level = book[order]
    step = np.diff(price)
    is_same_book = np.diff(book_of_level) == 0
    is_wrong_level = is_same_book & np.where(is_bid[1:], step > 0, step < 0)
    wrong_books = book_of_level[1:][is_wrong_level]
    return _each(np.isin(book, wrong_books), lambda _: "the book is not sorted by level")


_MAX_MEDIAN_IV = 10.0
_HUNDRED_TIMES = (30.0, 300.0)
"""Ratios of volatilities of one chain of which one is percent; a smile alone has smaller ones."""


def _in_percent(table: Table, rows: pd.DataFrame) -> Reasons:
    """Find chains whose median volatility is above 1,000 %, and rows a hundred times off it."""
    keys = [name for name in ("symbol", "exchange", "time") if name in table.key]
    group = rows.groupby(keys, sort=False, observed=True)["iv"]
    median: Array = group.transform("median").to_numpy()
    values = rows["iv"].to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(np.log(values / median))
    is_mixed = (apart > np.log(_HUNDRED_TIMES[0])) & (apart < np.log(_HUNDRED_TIMES[1]))
    in_percent = _each(
        median > _MAX_MEDIAN_IV,
        lambda row: (
            f"the median volatility of the chain is {median[row]:.4g}, which is percent, not decimal "
            "(--unit percent)"
        ),
    )
    mixed = _each(
        is_mixed,
        lambda row: (
            f"iv={values[row]:.4g}, but the median of the chain is {median[row]:.4g}: one of them is in "
            "percent"
        ),
    )
    return in_percent | mixed


_MAX_FROM_UNDERLYING = 20.0
"""Maximum ratio between the median strike of a chain and the underlying price, in both directions."""
_MIN_STRIKES = {"BTC": 100.0, "ETH": 10.0}
"""Strikes [USD] under which no option of a coin was ever listed."""


def _scaled_strikes(rows: pd.DataFrame) -> Reasons:
    """Find chains whose strikes are far from the underlying price, such as those in thousands."""
    keys = [name for name in ("symbol", "exchange", "time") if name in rows.columns]
    chains = rows.groupby(keys, sort=False, observed=True)
    strike: Array = chains["strike"].transform("median").to_numpy(dtype=np.float64)
    least = rows["symbol"].astype(object).map(_MIN_STRIKES).to_numpy(dtype=np.float64)
    wrong = strike < least
    if "underlying_price" in rows.columns:
        price: Array = chains["underlying_price"].transform("median").to_numpy(dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            is_far = np.abs(np.log(strike / price)) > np.log(_MAX_FROM_UNDERLYING)
        wrong = np.where(price > 0, is_far, wrong)
    return _each(
        wrong,
        lambda row: (
            f"the median strike of the chain is {strike[row]:.4g}, far from the price: strikes may be in "
            "another unit, such as thousands"
        ),
    )


_MIN_OFF = 3
"""Minimum number of rows at other hours that suggest another zone. Late or lost rows are fewer."""
_OTHER_HOURS = {("bitmex", 8): (4,), ("kucoin", 8): (0, 4)}
"""Hours from midnight UTC at which venues have rows of so many hours: BitMEX pays at 04:00, 12:00 and 20:00,
and so did KuCoin."""


_MIN_APART = 1.9
"""Minimum spacing [hours] of rows that are not hourly."""


def refuse_some_of_payments(frame: pd.DataFrame) -> None:
    """Raise for rows that are hours apart on a venue that pays every hour, because they are samples."""
    hourly = frame[frame["exchange"].astype(object).isin(ALWAYS_HOURLY)]
    for (venue, symbol), stamps in hourly.groupby(["exchange", "symbol"], observed=True)["time"]:
        apart = stamps.drop_duplicates().sort_values().diff().median() / pd.Timedelta(1, "h")
        if apart >= _MIN_APART:
            raise Unclear(
                f"rows of {symbol} on {venue} are {apart:g} hours apart, but the venue pays every hour: "
                "pass --table funding_history if they are samples of the hourly rate, or convert them to "
                "hourly rates first",
                "--table",
                ["funding_history"],
            )


def refuse_local_times(frame: pd.DataFrame) -> None:
    """Raise `ArchiveError` for times that were read as UTC if their spacing contradicts UTC.

    Rows every 2 to 12 hours are at multiples of their step since midnight UTC, on all venues except BitMEX
    and KuCoin. In a local zone, hourly or more frequent rows skip an hour when clocks are set forward, and
    repeat an hour when they are set back.
    """
    if not {"symbol", "exchange", "time"} <= {*frame.columns}:
        return
    rows = frame[["exchange", "symbol", "time"]]
    for (venue, symbol), series in rows.groupby(["exchange", "symbol"], observed=True):
        stamps, counts = np.unique(_micros(series), return_counts=True)
        if len(stamps) < 2:
            continue
        step = int(np.median(np.diff(stamps)))
        hours = round(step / HOUR_US)
        offsets = _OTHER_HOURS.get((venue, hours), (0,))
        if "rate_bps_8h" not in frame:
            offsets = (0, *offsets)  # candles begin at midnight
        evidence = (
            _jump(stamps, step) or _repeat(stamps, counts, step) or _off_schedule(stamps, step, offsets)
        )
        if evidence:
            raise ArchiveError(
                f"the times of {symbol} on {venue} have no time zone and are not in UTC: {evidence}. "
                "Pass the zone with --tz, such as --tz UTC+3 or --tz Europe/London (or --tz UTC if they "
                "are UTC)"
            )


def _off_schedule(stamps: Array, step: int, offsets: Sequence[int]) -> str:
    """Return a text about rows that are whole hours off the multiples of their step, else empty text.

    `offsets` are the hours after a multiple at which the venue has rows.
    """
    hours = round(step / HOUR_US)
    if abs(step - hours * HOUR_US) > MINUTE_US or not 2 <= hours <= 12:
        return ""
    shifted = stamps + MINUTE_US  # rows are some seconds early or late
    is_at_hour = shifted % HOUR_US <= 2 * MINUTE_US
    hour = shifted // HOUR_US
    # Intervals of payments may change: only rows one step before or after another row count.
    is_step = np.diff(hour) == hours
    has_step = np.append(False, is_step) | np.append(is_step, False)
    wrong = is_at_hour & has_step & ~np.isin(hour % hours, offsets)
    if wrong.sum() < min(_MIN_OFF, len(stamps)):
        return ""
    first = pd.Timestamp(int(stamps[np.argmax(wrong)]), unit="us")
    return f"{int(wrong.sum())} rows, first {first:%Y-%m-%d %H:%M}, are not at a multiple of {hours} hours"


_SUNDAY = 6


def _repeat(stamps: Array, counts: Array, step: int) -> str:
    """Return the hour that occurs twice when clocks are set back; empty if none does."""
    is_twice = counts == 2
    if step > 1.1 * HOUR_US or not is_twice.any() or is_twice.mean() > 0.5:
        return ""
    hours = np.unique(stamps[is_twice] // HOUR_US)
    # Two pages share midnight, and two contracts of a coin many hours in a row.
    is_lone = ~(np.isin(hours - 1, hours) | np.isin(hours + 1, hours))
    for lone in hours[is_lone].tolist():
        at = pd.Timestamp(lone * HOUR_US, unit="us")
        # Europe sets clocks back in the last week of October, America in the first of November, and
        # Australia in the first of April.
        is_autumn = (at.month == 10 and at.day >= 25) or (at.month in (4, 11) and at.day <= 7)
        is_change = is_autumn and at.weekday() == _SUNDAY and 1 <= at.hour <= 3
        if is_change and is_twice[stamps // HOUR_US == lone].all():
            return f"the hour {at:%Y-%m-%d %H:%M} occurs twice, as when clocks are set back"
    return ""


def _jump(stamps: Array, step: int) -> str:
    """Return the missing hour of a file when clocks are set forward; empty if none is missing."""
    if step > 1.1 * HOUR_US:
        return ""
    gaps = np.diff(stamps)
    for place in np.flatnonzero(np.abs(gaps - step - HOUR_US) < MINUTE_US).tolist():
        after = pd.Timestamp(int(stamps[place + 1]), unit="us")
        # America sets clocks forward from March 8 on, Europe at its end, and Australia early in October.
        is_spring = (after.month == 3 and after.day >= 8) or (after.month == 10 and after.day <= 7)
        if is_spring and after.weekday() == _SUNDAY and 1 <= after.hour <= 4:
            return f"the times jump to {after:%Y-%m-%d %H:%M}, as when clocks are set forward"
    return ""
