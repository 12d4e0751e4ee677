"""Checks of rows that use only the data of one venue.

`row_faults` finds rows that contradict adjacent rows. `series_doubts` finds unlikely rows: constant values,
and rates above the venue's cap or above all recorded rates. `size_doubts` finds implausible sizes of options
and liquidations. A collector rejects rows with faults and reports doubts. `derivdata.venues.read` reports
both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata import tables, units
from derivdata.sources.venues.endpoint import Paging
from derivdata.sources.venues.record_types import OiPoint
from derivdata.support import times
from derivdata.tables.contracts import QUOTES
from derivdata.tables.history_rows import (
    grid_runs,
    is_off_grid,
    level_changes,
    rate_changes,
    shown_time,
    step_text,
)
from derivdata.tables.payments import HOUR_US, contradicted, payment_time
from derivdata.tables.series_faults import (
    is_interest,
    lone_rates,
    mirrored_rates,
    repeated_pair,
    scattered_levels,
)
from derivdata.tables.series_patterns import (
    OF_EIGHT_HOURS,
    UNITS,
    WITH_INTEREST,
    limited_series,
    other_interest,
    repeated_blocks,
    tiny_rates,
)
from derivdata.tables.venue_facts import FACTS, fact_value

PAYMENTS = "funding_settlements"
LEVELS = {
    "oi_history": "oi_usd",
    "prices_history": "price_usd",
    "prices_spot": "price",
    "positioning_history": "long_short_ratio",
    "volume_taker": "buy_usd",
}
"""Tables of levels, and the column of the level."""
STEADY = ("oi_history", "prices_history")
"""Tables of levels that change little from row to row; volumes do not."""
FACTOR = 20.0
"""Maximum ratio of a value to the values before and after it."""

_RATE = "rate_bps_8h"
_MIN_ROWS_OF_GROUP = 3
_MIN_GROUP_RATIO = 4.0
"""Minimum ratio of two groups of levels with no values between them, for a message about mixed units."""
_UNIT_FACTORS = np.array([8.0, 10.0, 100.0, 1e3, 1e4, 1e6])
_LOG_TOLERANCE = np.log(1.25)
"""Maximum difference of a logarithmic change from the factor of a unit."""
_IMPOSSIBLE_LOG_MOVE = np.log(1000.0)
"""Logarithm of an impossible move from row to row."""
_MIN_ROWS = 6
_MIN_DISTINCT = 6
_MIN_EQUAL_ROWS = 12
"""Minimum number of consecutive equal rows, or of zeros among rates of BTC or ETH, for a message."""
_MIN_ZERO_ROWS = 6
"""Minimum number of consecutive zeros for a message."""
_MIN_ZERO_SHARE = 0.2
"""Minimum share of zeros among rates of BTC or ETH for a message. On seven venues from 2020 to 2023,
42 consecutive payments never had 12 zeros."""
_MIN_EQUAL_SPAN = pd.Timedelta(1, "D")
_VENUES_WITH_ZERO_RATES = ("deribit",)
"""Venues whose formula gives a rate of 0 as long as the premium is small."""
_LARGE_COINS = ("BTC", "ETH")
_INTERVALS = (2.0, 4.0, 8.0)
_MIN_PRICES = {"BTC": 3000.0, "ETH": 80.0}
"""Prices [USD] that the coins always exceeded in the years with open interest."""
_MAX_OI_USD = 1e11
_MEDIAN_ROWS = 12
_MIN_SORTED_ROWS = 48
_UNSORTED_TABLES = ("prices_history", "prices_spot", "volume_taker")
"""Tables whose values for BTC and ETH rise and fall; open interest, ratios and rates may rise for days."""
_MIN_COINS = 0.01
_MAX_MEDIAN_BPS = 45.0
"""Median [bps/8h] of twelve payments of BTC or ETH that no venue has reached: on seven venues from 2020 to
2023 it was 40 at most, on the day of Ethereum's merge."""
_EDGE_STEPS = 2.0
"""Maximum distance of the first and last row from the edges of a requested window [steps]."""
_CAP_SLACK = 1.05
"""Factor by which a payment may exceed a cap, within `_CAP_DAYS` of the day on which it was published."""
_CAP_DAYS = pd.Timedelta(365, "D")
_OTHER_CAP_FACTOR = 2.0
"""The same factor at other times, because caps change."""


def implied_price_doubts(points: Sequence[OiPoint]) -> Iterator[str]:
    """Yield sentences about open interest whose values in USD and in coins imply an impossible price."""
    # 1. Zero in USD, of large coins only: tiny positions in other coins may be worth less than a cent.
    large = [point for point in points if point.instrument.symbol in _LARGE_COINS]
    zeros = [point for point in large if point.oi_usd == 0.0 and (point.oi_coins or 0.0) >= _MIN_COINS]
    if len(zeros) >= _MIN_ROWS:
        name = zeros[0].instrument.name
        yield f"open interest of {name} is 0 USD but not 0 coins in {len(zeros)} rows: values may be missing"
    # 2. The implied price of each contract: too low, or with a change of its unit.
    series: dict[str, list[OiPoint]] = {}
    for point in points:
        if point.oi_usd and point.oi_coins:
            series.setdefault(point.instrument.name, []).append(point)
    for name, rows in series.items():
        if len(rows) < _MIN_ROWS:
            continue
        ordered = sorted(rows, key=lambda point: point.time)
        prices = np.array([(point.oi_usd or 0.0) / (point.oi_coins or 1.0) for point in ordered])
        item = ordered[0].instrument
        minimum = _MIN_PRICES.get(item.symbol, 0.0) if item.quote in QUOTES else 0.0
        middle = float(np.median(prices))
        if middle < minimum:
            yield (
                f"open interest of {name} in USD is {middle:.4g} times that in coins (median), but "
                f"{item.symbol} was never below {minimum:g} USD: one of them is in another unit"
            )
            continue
        for change in level_changes(np.zeros(len(prices), dtype=np.int64), prices)[:1]:
            yield (
                f"open interest of {name} in USD is {prices[change.row]:.4g} times that in coins from "
                f"{shown_time(ordered[change.row].time)} on, but {prices[change.row - 1]:.4g} times "
                "before: one of them is in another unit"
            )


def row_faults(table: str, rows: pd.DataFrame) -> Iterator[str]:
    """Yield sentences about rows that contradict the rows around them, each with the first such row."""
    if table == PAYMENTS:
        yield from _payments_off_whole_hours(rows)
        return
    name = LEVELS.get(table)
    if name is None:
        return
    for series in _series(table, rows):
        values = _numbers(series, name)
        label = f"{name} of {series['symbol'].iloc[0]}"
        if table in STEADY:
            yield from _zeros_between_rows(label, series, values)
            yield from _outliers(label, values)
        yield from _mixed_sizes(label, series, values)


def series_doubts(
    exchange: str, table: str, rows: pd.DataFrame, usual_hours: float | None = None
) -> Iterator[str]:
    """Yield sentences about implausible series, each with the first row in doubt.

    `usual_hours` is the interval of all contracts of a venue, None where contracts differ.
    """
    name = _RATE if table == PAYMENTS else LEVELS.get(table)
    if name is None:
        return
    for series in _series(table, rows):
        label = f"{name} of {series['symbol'].iloc[0]}"
        values = _numbers(series, name)
        yield from _constant_values(label, exchange, table, series, values)
        yield from _unlikely_order(label, exchange, table, series, values)
        yield from _repeated_limits(label, table, series, values)
        if table == "oi_history" and (middle := float(series[name].median())) > _MAX_OI_USD:
            yield f"the median {label} is {middle:.4g}: no venue has ever had as much"
        if table == PAYMENTS:
            yield from _large_rates(label, exchange, series, values)
            yield from _repeated_rates(label, series, values)
            yield from _unknown_last_interval(series)
            yield from _payments_at_other_hours(series)
            yield from _longer_intervals(exchange, series, usual_hours)


class PageWindow(NamedTuple):
    """The window [µs] that a request states, None where it does not, and whether the page may be cut."""

    first: int | None
    last: int | None
    limit: int | None  # maximum number of rows of the page, None if unknown
    is_newest_first: bool

    @classmethod
    def of(cls, paging: Paging | None, params: Mapping[str, str]) -> PageWindow | None:
        """Return the window of a request; None where it states none."""
        if paging is None:
            return None
        first = _parameter(params.get(paging.start, ""), paging.unit)
        last = _parameter(params.get(paging.end, ""), paging.unit)
        if first is None and last is None:
            return None
        limit = None
        text = params.get(paging.limit_name, "")
        if not paging.limit_name:  # the venue's pages have a fixed size
            limit = paging.limit
        elif text.isascii() and text.isdigit():
            limit = int(text)
        return cls(first, last, limit, paging.descending)


def _parameter(text: str, unit: str) -> int | None:
    """Return the time [µs] of a parameter, or None if the text is not a time."""
    if unit == "iso":
        try:
            return times.us(times.timestamp(text))
        except ValueError:
            return None
    # A single digit, such as 0, is a placeholder and not a time.
    if not text.isascii() or not text.isdigit() or len(text) == 1:
        return None
    us_per_unit = {"s": 1_000_000.0, "ms": 1000.0, "ns": 0.001}[unit]
    return int(int(text) * us_per_unit)


def body_doubts(
    exchange: str,
    table: str,
    rows: pd.DataFrame,
    window: PageWindow | None = None,
    usual_hours: float | None = None,
) -> Iterator[str]:
    """Yield sentences about the rows of one response: faults, doubts, other units and missing rows.

    A collector compares the same with the rows that it has stored.
    """
    if table != PAYMENTS and table not in LEVELS:
        return
    keys = [key for key in tables.TABLES[table].key if key != "time"]
    rows = rows[rows.groupby(keys, observed=True)["time"].transform("size") >= _MIN_ROWS]
    yield from row_faults(table, rows)
    yield from series_doubts(exchange, table, rows, usual_hours)
    name = LEVELS.get(table, _RATE)
    find_changes = rate_changes if table == PAYMENTS else level_changes
    for series in _series(table, rows):
        symbol = series["symbol"].iloc[0]
        values = np.zeros(0)  # volumes and ratios may change by any factor
        if table == PAYMENTS or table in STEADY:
            values = _numbers(series, name)
        for change in find_changes(np.zeros(values.size, dtype=np.int64), values)[:1]:
            yield (
                f"{name} of {symbol} is {change.factor:.3g} times as large from "
                f"{_shown(series, change.row)} on ({change.rows} rows): probably another unit"
            )
        yield from _spacing(table, series)
        if window is not None:
            yield from _rows_outside_window(series, window)


class StatedCap(NamedTuple):
    """The cap [bps] that a venue stated for the rate of an interval of `hours`, and the day of the text."""

    bps: float
    hours: float | None
    day: str

    def limit(self, time: pd.Timestamp) -> float:
        """Return the rate [bps of an interval] above which a payment contradicts the cap."""
        is_near = abs(time - pd.Timestamp(self.day, tz="UTC")) <= _CAP_DAYS
        return self.bps * (_CAP_SLACK if is_near else _OTHER_CAP_FACTOR)

    def is_broken_by(self, rate: float | None, hours: float | None, time: pd.Timestamp) -> bool:
        """Return whether a rate [fraction of an interval] is above the cap; False for other intervals."""
        if rate is None or hours is None or (self.hours is not None and hours != self.hours):
            return False
        return abs(rate) * units.BPS > self.limit(time)


@cache
def stated_cap(exchange: str, symbol: str) -> StatedCap | None:
    """Return the newest cap that a venue stated for a symbol, else for all of its contracts."""
    cap = fact_value(exchange, "funding_cap_bps", symbol)
    if cap is None:
        return None
    days = []
    for row in FACTS:
        is_cap = (row.exchange, row.fact, row.value) == (exchange, "funding_cap_bps", cap)
        if is_cap and row.symbol in ("", symbol):
            days.append(row.as_of)
    return StatedCap(cap, fact_value(exchange, "interval_hours", symbol), max(days))


def _series(table: str, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of each series in time order."""
    keys = [key for key in tables.TABLES[table].key if key not in ("time", "exchange")]
    for _, series in rows.groupby(keys, observed=True):
        yield series.sort_values("time")


def _numbers(rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """Return a column as floats; NaN if the rows do not have it."""
    if name not in rows:
        return np.full(len(rows), np.nan)
    return np.asarray(rows[name].to_numpy(dtype=np.float64, na_value=np.nan))


def _stamps(rows: pd.DataFrame) -> NDArray[np.int64]:
    return np.asarray(rows["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy())


def _shown(rows: pd.DataFrame, place: int) -> str:
    return times.iso(rows["time"].iloc[place])


def _payments_off_whole_hours(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a text about three payments in a row that are not at a whole hour; a single one may be late."""
    for series in _series(PAYMENTS, rows):
        stamps = _stamps(series)
        is_off = payment_time(stamps) % HOUR_US != 0
        run = is_off[:-2] & is_off[1:-1] & is_off[2:]
        if run.any():
            yield (
                f"{int(is_off.sum())} of {len(stamps)} payments of {series['symbol'].iloc[0]} are not at a "
                f"whole hour, first {_shown(series, int(np.argmax(run)))}: expected payments at whole hours "
                "UTC"
            )


def _payments_at_other_hours(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a text about three payments in a row at other hours than most of the same interval.

    A venue may move its payments once, so all first or all last ones may be at other hours. It may also pay
    one of them late, as HTX did by one to three hours on seven days from 2021 to 2023.
    """
    hours = _numbers(rows, "interval_hours")
    hour = payment_time(_stamps(rows)) // HOUR_US
    for interval in np.intersect1d(hours, _INTERVALS).tolist():
        places = np.flatnonzero(hours == interval)
        phases = hour[places] % int(interval)
        usual = int(np.argmax(np.bincount(phases)))
        is_off = phases != usual
        has_moved = np.count_nonzero(np.diff(phases)) < 2
        is_run = is_off[:-2] & is_off[1:-1] & is_off[2:]
        if is_run.any() and places.size >= 2 * _MIN_ROWS and not has_moved:
            first = int(places[np.argmax(is_off)])
            yield (
                f"{int(is_off.sum())} of {places.size} payments of {rows['symbol'].iloc[0]} every "
                f"{interval:g} h are at other hours than the rest, first {_shown(rows, first)}: times "
                "may be in another time zone"
            )
            return


def _zeros_between_rows(label: str, rows: pd.DataFrame, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield a text about zeros between rows above 0."""
    positive = np.flatnonzero(values > 0)
    if not positive.size:
        return
    between = values[positive[0] : positive[-1]] == 0
    if between.any():
        first = int(positive[0] + np.argmax(between))
        yield f"{label} is 0 in {int(between.sum())} rows between other values, first {_shown(rows, first)}"


def _outliers(label: str, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield a text about a row that differs by a factor of 20 from the rows before and after it."""
    before = values[:-2]
    value = values[1:-1]
    after = values[2:]
    is_far = (value > FACTOR * np.fmax(before, after)) | (value * FACTOR < np.fmin(before, after))
    if is_far.any():
        place = int(np.argmax(is_far))
        yield (
            f"{label} is {value[place]:g} between {before[place]:g} and {after[place]:g}: one of these "
            "values is wrong"
        )


def _mixed_sizes(label: str, rows: pd.DataFrame, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield a text about levels of two sizes with none between them: mixed contracts or units.

    The levels are divided at the largest gap of their logarithms. A market may move as far once. So one move
    counts only if it is the factor of a unit or above 1,000. Two or more moves between the groups count
    always.
    """
    # 1. Divide the levels into two groups.
    places = np.flatnonzero(values > 0)
    logs = np.log(values[places])
    if logs.size < 2 * _MIN_ROWS_OF_GROUP:
        return
    ranked = np.sort(logs)
    gaps = np.diff(ranked)
    split = int(np.argmax(gaps)) + 1
    low = ranked[:split]
    high = ranked[split:]
    spread = max(low[-1] - low[0], high[-1] - high[0])
    if min(low.size, high.size) < _MIN_ROWS_OF_GROUP or gaps[split - 1] < max(
        np.log(_MIN_GROUP_RATIO), spread
    ):
        return
    # 2. Find the moves between the groups.
    is_high = logs >= high[0]
    moves = np.flatnonzero(is_high[1:] != is_high[:-1]) + 1
    change = float(np.median(high) - np.median(low))
    is_unit_factor = bool((np.abs(change - np.log(_UNIT_FACTORS)) < _LOG_TOLERANCE).any())
    if moves.size > 1 or is_unit_factor or change > _IMPOSSIBLE_LOG_MOVE:
        first = int(places[moves[0]])
        yield (
            f"{label} has values of two sizes, a factor of {np.exp(change):.4g} apart: the first change "
            f"is on {_shown(rows, first)}, to {values[first]:g}; expected one unit"
        )


def _unlikely_order(
    label: str, exchange: str, table: str, rows: pd.DataFrame, values: NDArray[np.float64]
) -> Iterator[str]:
    """Yield texts about levels in random order, repeated pages, sorted values, and single large rates."""
    one_series = np.zeros(values.size, dtype=np.int64)  # number of each row's series
    is_large_coin = str(rows["symbol"].iloc[0]) in _LARGE_COINS
    if table in STEADY and scattered_levels(one_series, values):
        yield f"{label} jumps from row to row in {values.size} rows: the rows may be out of order"
    for first, second in repeated_blocks(one_series, values)[:1]:
        yield (
            f"{label} has the values of {_shown(rows, first)} and the rows after it again on "
            f"{_shown(rows, second)}: a page may be repeated"
        )
    steps = np.diff(values)
    is_sorted = bool((steps >= 0.0).all() or (steps <= 0.0).all())
    has_many_values = values.size >= _MIN_SORTED_ROWS and np.unique(values).size >= _MIN_SORTED_ROWS // 2
    if is_sorted and has_many_values and is_large_coin and table in _UNSORTED_TABLES:
        yield (
            f"{label} never changes its direction in {values.size} rows: the rows may be sorted or cumulative"
        )
    if table != PAYMENTS:
        return
    if is_large_coin and exchange in WITH_INTEREST:
        yield from _rates_unlike_interest(label, rows, values)
    for fault in lone_rates(one_series, values):
        yield (
            f"{label} is {values[fault.row]:g} between small rates on {_shown(rows, fault.row)}; so are "
            f"{fault.rows - 1} other rows"
        )
    if mirrored_rates(one_series, values):
        yield (
            f"{label} repeats -1 bps, but the interest in the venues' formula is +1 bps: the sign may "
            "be inverted"
        )


def _repeated_limits(
    label: str, table: str, rows: pd.DataFrame, values: NDArray[np.float64]
) -> Iterator[str]:
    """Yield a text about a maximum or minimum that is repeated in many rows."""
    one_series = np.zeros(values.size, dtype=np.int64)
    for fault in limited_series(one_series, values, is_rate=table == PAYMENTS)[:1]:
        direction = "above" if fault.factor > 0.0 else "below"
        yield (
            f"{label} is {values[fault.row]:g} in {fault.rows} rows and never {direction}, first "
            f"{_shown(rows, fault.row)}: values may be capped"
        )


def _rates_unlike_interest(label: str, rows: pd.DataFrame, values: NDArray[np.float64]) -> Iterator[str]:
    """Find rates that are tiny, in another unit or 0, for venues with an interest of 1 bps per 8 hours."""
    size = tiny_rates(values)
    if size is not None:
        yield f"{label} is at most {size:.2g} bps in 95 % of {values.size} rows: rates may be in another unit"
        return
    factors = UNITS
    if (_numbers(rows, "interval_hours") == 8.0).all():
        factors = np.concatenate([UNITS, OF_EIGHT_HOURS])
    factor = other_interest(values, factors)
    if factor is not None:
        yield (
            f"{label} repeats {factor:g} bps: expected 1 bps per 8 hours, the interest in the venue's "
            "formula; rates may be in another unit"
        )
    zeros = int((values == 0.0).sum())
    if max(_MIN_EQUAL_ROWS, _MIN_ZERO_SHARE * values.size) <= zeros < values.size:
        yield f"{label} is 0 in {zeros} of {values.size} rows: values may be missing"


def _constant_values(
    label: str, exchange: str, table: str, rows: pd.DataFrame, values: NDArray[np.float64]
) -> Iterator[str]:
    """Yield a text about the first run of zeros, or of another repeated value.

    A run counts if the other rows have at least six different values, or if it is all rows, at least twelve
    over a day.
    """
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    counts = np.diff(np.append(starts, values.size))
    for first, count in zip(starts.tolist(), counts.tolist(), strict=True):
        value = values[first]
        if count < _MIN_ZERO_ROWS or not np.isfinite(value):
            continue
        others = np.delete(values, np.s_[first : first + count])
        if count == values.size:
            is_long = (
                count >= _MIN_EQUAL_ROWS and rows["time"].iloc[-1] - rows["time"].iloc[0] >= _MIN_EQUAL_SPAN
            )
        else:
            is_long = np.unique(others[np.isfinite(others)]).size >= _MIN_DISTINCT
        is_usual_rate = table == PAYMENTS and is_interest(value)
        is_unusual_zero = value == 0 and exchange not in _VENUES_WITH_ZERO_RATES
        if is_long and (is_unusual_zero or (count >= _MIN_EQUAL_ROWS and not is_usual_rate)):
            shown = 0.0 if value == 0 else value  # avoids -0
            yield f"{label} is {shown:g} in {count} consecutive rows, first {_shown(rows, first)}"
            return


def _large_rates(label: str, exchange: str, rows: pd.DataFrame, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield rates above the venue's own cap, and rates of large coins that stay above all recorded ones."""
    symbol = str(rows["symbol"].iloc[0])
    native = _numbers(rows, "rate_native")
    cap = stated_cap(exchange, symbol)
    above: list[int] = []
    if cap is not None:
        hours = _numbers(rows, "interval_hours")
        payments = zip(native.tolist(), hours.tolist(), rows["time"], strict=True)
        above = [row for row, payment in enumerate(payments) if cap.is_broken_by(*payment)]
    if cap is not None and above:
        first = above[0]
        yield (
            f"{len(above)} rates of {symbol} are above the cap of {cap.bps:g} bps per interval that the "
            f"venue stated on {cap.day}, first {native[first] * units.BPS:g} bps on {_shown(rows, first)}"
        )
    elif symbol in _LARGE_COINS and len(values) >= _MEDIAN_ROWS:
        medians = pd.Series(np.abs(values)).rolling(_MEDIAN_ROWS).median().to_numpy()
        is_large = medians > _MAX_MEDIAN_BPS
        if is_large.any():
            last = int(np.argmax(is_large))  # the last row of the first such median
            first = last - _MEDIAN_ROWS + 1
            yield (
                f"{label} has a median of {medians[last]:.3g} bps in {_MEDIAN_ROWS} payments from "
                f"{_shown(rows, first)} on: rates may be in another unit"
            )


def _repeated_rates(label: str, rows: pd.DataFrame, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield a text about two repeated rates that differ by the factor of a unit or by their sign."""
    hours = _numbers(rows, "interval_hours")
    for interval in np.unique(hours[np.isfinite(hours)]).tolist():
        places = np.flatnonzero(hours == interval)
        pair = repeated_pair(values[places])
        if pair is not None:
            usual, other = pair
            first = int(places[np.argmin(np.abs(values[places] - other))])
            yield (
                f"{label} repeats two values, {usual:g} and {other:g} bps, the second first on "
                f"{_shown(rows, first)}: expected one unit and sign"
            )
            return


def _spacing(table: str, rows: pd.DataFrame) -> Iterator[str]:
    """Yield rows off the grid of their step, missing rows, and payments that contradict their intervals."""
    stamps = _stamps(rows)
    symbol = rows["symbol"].iloc[0]
    if table == PAYMENTS:
        yield from _contradicted_intervals(rows, payment_time(stamps), symbol)
        return
    resolutions = rows["resolution"].unique() if "resolution" in rows else []
    if len(resolutions) != 1:
        return
    step = times.RESOLUTIONS.get(str(resolutions[0]))
    if step is None:
        return
    length = times.us(step)
    is_off = is_off_grid(stamps, length)
    if is_off.any():
        yield (
            f"{int(is_off.sum())} of {len(stamps)} rows of {symbol} are off the {step_text(length)} grid, "
            f"first {shown_time(int(np.min(stamps[is_off])))}"
        )
        return
    runs = grid_runs(
        np.zeros(len(stamps), dtype=np.int64), stamps, int(np.min(stamps)), int(np.max(stamps)), length
    )
    if runs.rows.size:
        yield (
            f"{int(runs.rows.sum())} of {int(runs.rows.sum()) + len(stamps)} rows of {symbol} are missing on "
            f"the {step_text(length)} grid, first {shown_time(int(runs.start[0]))}"
        )


def _contradicted_intervals(rows: pd.DataFrame, stamps: NDArray[np.int64], symbol: str) -> Iterator[str]:
    """Yield intervals that payments contradict, and missing payments."""
    hours = _numbers(rows, "interval_hours")
    contradiction = contradicted(np.zeros(len(stamps), dtype=np.int64), stamps, hours)
    is_contradicted = contradiction.rows
    if is_contradicted.any():
        first = int(np.argmax(is_contradicted))
        count = int(is_contradicted.sum())
        yield (
            f"interval_hours of {symbol} is {hours[first]:g} h at {_shown(rows, first)}, but the "
            f"previous payment was {contradiction.gaps[first]:g} h earlier ({count} of {len(stamps)} "
            "payments contradict it)"
        )
        return
    gaps = np.append(np.nan, np.diff(stamps) / HOUR_US)
    with np.errstate(invalid="ignore"):
        missing = np.where(gaps > 1.5 * hours, np.rint(gaps / hours) - 1.0, 0.0)
    if (missing > 0).any():
        place = int(np.argmax(missing > 0))
        yield (
            f"{int(missing.sum())} payments of {symbol} are missing, first after {_shown(rows, place - 1)}: "
            f"the next one is {gaps[place]:g} h later, and its interval is {hours[place]:g} h"
        )


def _rows_outside_window(rows: pd.DataFrame, window: PageWindow) -> Iterator[str]:
    """Yield rows outside the requested window, and a window that the rows do not fill."""
    stamps = _stamps(rows)
    symbol = rows["symbol"].iloc[0]
    step = float(np.median(np.diff(stamps)))
    first = -math.inf if window.first is None else window.first
    last = math.inf if window.last is None else window.last
    is_outside = (stamps < first - step) | (stamps > last + step)
    if is_outside.any():
        place = int(np.argmax(is_outside))
        yield (
            f"{int(is_outside.sum())} of {len(stamps)} rows of {symbol} are outside the requested "
            f"window, first {_shown(rows, place)}"
        )
        return
    # A full page may be cut at its older or newer end.
    is_full = window.limit is None or len(stamps) >= window.limit
    edges = {
        "begin": (stamps[0] - first, is_full and window.is_newest_first, window.first, 0),
        "end": (last - stamps[-1], is_full and not window.is_newest_first, window.last, -1),
    }
    for verb, (distance, may_be_cut, bound, place) in edges.items():
        if bound is not None and distance > _EDGE_STEPS * step and not may_be_cut:
            yield (
                f"rows of {symbol} {verb} at {_shown(rows, place)}, but the request at "
                f"{shown_time(bound)}: {int(distance // step)} rows are missing (step {step / HOUR_US:g} "
                "h), or the contract was not listed"
            )


def _longer_intervals(exchange: str, rows: pd.DataFrame, usual_hours: float | None) -> Iterator[str]:
    """Yield a text about payments that are further apart than the interval of all contracts of the venue."""
    if usual_hours is None:
        return
    hours = _numbers(rows, "interval_hours")
    is_longer = hours > usual_hours
    if is_longer.sum() < _MIN_ROWS:
        return
    first = int(np.argmax(is_longer))
    if hours[first] != _stated_hours(exchange, rows["time"].iloc[first]):
        yield (
            f"payments are {hours[first]:g} h apart from {_shown(rows, first)} on, but the venue usually "
            f"pays every {usual_hours:g} h"
        )


def _stated_hours(exchange: str, time: pd.Timestamp) -> float | None:
    """Return the interval of all contracts that a venue published last before a time, else its first one."""
    facts = [row for row in FACTS if (row.exchange, row.symbol, row.fact) == (exchange, "", "interval_hours")]
    facts.sort(key=lambda row: row.as_of)
    earlier = [row for row in facts if row.as_of <= f"{time:%Y-%m-%d}"]
    if earlier:
        return earlier[-1].value
    if facts:
        return facts[0].value
    return None


def _unknown_last_interval(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a text about a last payment of unknown interval, after payments of known intervals."""
    hours = _numbers(rows, "interval_hours")
    if len(hours) < _MIN_ROWS or not np.isnan(hours[-1]) or np.isnan(hours[:-1]).any():
        return
    apart = (rows["time"].iloc[-1] - rows["time"].iloc[-2]) / pd.Timedelta(1, "h")
    yield (
        f"the last payment of {rows['symbol'].iloc[0]}, on {_shown(rows, len(hours) - 1)}, is "
        f"{apart:.3g} h after the previous one, but earlier payments are {hours[-2]:g} h apart: its "
        "interval is unknown"
    )


_SUPPLY = {"BTC": 21e6, "ETH": 2.5e8}
"""Maximum number of coins in existence, for ETH twice the number of 2026."""
_LARGEST_LIQUIDATION_USD = 1e9
"""Maximum value of a liquidation [USD]. The largest published ones were 0.2 to 0.4 billion USD."""
_INDEX_APART = 1.5


def size_doubts(rows: pd.DataFrame) -> Iterator[str]:
    """Yield sentences about implausible sizes, each with the first such row."""
    if not len(rows) or "symbol" not in rows:
        return
    symbols = np.asarray(rows["symbol"], dtype=object)
    if "strike" in rows and "side" in rows:
        yield from _option_sizes(rows, symbols)
    value = _numbers(rows, "value_usd")
    if (value > _LARGEST_LIQUIDATION_USD).any():
        row = int(np.argmax(value > _LARGEST_LIQUIDATION_USD))
        yield f"value_usd of {symbols[row]} is {value[row]:.4g}: no liquidation has ever been as large"


def _option_sizes(rows: pd.DataFrame, symbols: NDArray[Any]) -> Iterator[str]:
    """Compare open interest with the coins that exist, prices with strikes, and forwards with the index."""
    interest = _numbers(rows, "open_interest")
    for symbol, supply in _SUPPLY.items():
        is_beyond = (symbols == symbol) & (interest > supply)
        if is_beyond.any():
            row = int(np.argmax(is_beyond))
            yield f"open_interest of {symbol} is {interest[row]:g}, which is more coins than exist"
    strikes = _numbers(rows, "strike")
    is_put = np.asarray(rows["side"] == "put")
    for name in ("mark_usd", "bid_usd"):
        prices = _numbers(rows, name)
        if (is_put & (prices > strikes)).any():
            row = int(np.argmax(is_put & (prices > strikes)))
            yield f"{name} of a put of {symbols[row]} is {prices[row]:g}, above its strike {strikes[row]:g}"
    forwards = _numbers(rows, "underlying_price")
    index = _numbers(rows, "index_price_usd")
    is_apart = (forwards > _INDEX_APART * index) | (index > _INDEX_APART * forwards)
    is_apart &= (forwards > 0.0) & (index > 0.0)
    if is_apart.any():
        row = int(np.argmax(is_apart))
        yield (
            f"underlying_price of {symbols[row]} is {forwards[row]:g}, but index_price_usd is "
            f"{index[row]:g}: one of them belongs to another coin or unit"
        )
