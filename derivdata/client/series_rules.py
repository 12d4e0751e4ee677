"""Rows of a response by series and time, and rules for patterns and values that markets do not make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd

from derivdata.client.market_sizes import LARGE_VENUES, MIN_PRICES, has_only_large
from derivdata.client.reading import DAY_US, HOUR_US, CheckedResponse
from derivdata.client.snapshot_rules import has_interest, interest_text, tiny_text
from derivdata.client.transport import SESSION
from derivdata.support.arrays import Array
from derivdata.tables.history_rows import PAYMENTS, level_changes, shown_time
from derivdata.tables.series_faults import (
    SeriesFault,
    SeriesSizes,
    copied_series,
    exchanged_levels,
    series_sizes,
)
from derivdata.tables.series_patterns import (
    OF_EIGHT_HOURS,
    UNITS,
    WITH_INTEREST,
    alternating_rows,
    late_series,
    limited_series,
    opposite_runs,
    other_interest,
    other_sections,
    repeated_blocks,
    repeated_steps,
    rising_series,
    split_levels,
    straight_runs,
    tiny_rates,
    unrelated_series,
)

_RATE = "rate_bps_8h"
_PRICES = ("price_usd", "price", "close")
_LEVELS = (
    *_PRICES, "oi_usd", "total_oi_usd", "bid_depth_usd", "ask_depth_usd", "notional_oi_usd",
    "notional_volume_24h_usd", "volume_24h_usd",
)  # fmt: skip
_SUMS = ("volume_usd", "total_volume_usd", "buy_usd", "sell_usd", "long_usd", "short_usd")
_RELATED = ("price_usd", "price", "volume_usd", "total_volume_usd", "buy_usd", "sell_usd")
"""Columns whose values move together on all venues from row to row."""
_NAMES = (_RATE, *_LEVELS, *_SUMS, "long_short_ratio", "index_pct")
_ALWAYS_MOVING = ("bid_depth_usd", "ask_depth_usd", "volume_24h_usd")
_MIN_OF_SIZE = 12  # minimum rows of each part of a window
_OTHER_SIZE = 100.0  # minimum ratio of both parts
_MIN_AGAIN = 5  # minimum repeated orders, or prices of one fill
_MIN_FILLS = 20  # minimum orders with one fill price
_SHARE_OF_FILLS = 0.5  # minimum share of these orders
_REVERSE = 0.2  # maximum ratio of the gaps of reversed candles to those of candles
_RANKED = 20.0  # minimum ratio of a symbol to the one ranked before it
_SHARE_AGAIN = 0.3  # minimum share of repeated orders
_MIN_SMOOTH = 48  # minimum changes
_SMOOTH = 0.12
"""Median change of the logarithm from row to row; sums of an hour or of four change by 0.3 and more."""


@dataclass(frozen=True)
class SeriesRows:
    """Rows of a column, sorted by series and time."""

    order: Array
    """Position of each row in the response."""
    series: Array
    """Number of each row's series, from 0."""
    market: Array
    """Number of each row's market: the series without the venue."""
    times: Array
    """Microseconds since 1970."""
    values: Array

    @cached_property
    def by_size(self) -> SeriesSizes:
        """Sizes of the values, sorted within each series."""
        return series_sizes(self.series, self.values)


def series_rows(e: CheckedResponse, name: str, values: Array) -> SeriesRows:
    """Return the `values` of a column by series and time. The response must have times.

    Series are in the order of the response if the rows of each are together and in time order there.
    """
    if name not in e.series_rows:
        times = np.zeros(e.size, dtype=np.int64) if e.time_us is None else e.time_us
        series = e.series("time")
        market = e.series("time", "exchange")
        order = np.arange(e.size)
        is_new = np.append(True, series[1:] != series[:-1])[: e.size]
        is_sorted = np.unique(series[is_new]).size == is_new.sum()
        if not is_sorted or (np.diff(times)[~is_new[1:]] < 0).any():
            order = np.lexsort((times, series))
            is_new = np.append(True, np.diff(series[order]) != 0)
            market = market[order]
            times = times[order]
            values = values[order]
        e.series_rows[name] = SeriesRows(order, np.cumsum(is_new) - 1, market, times, values)
    rows: SeriesRows = e.series_rows[name]
    return rows


def venue_rows(e: CheckedResponse, name: str) -> SeriesRows | None:
    """Return a column's rows by series and time; None if the table does not have them by venue and time."""
    if e.table is None or e.time_us is None or not {"exchange", "time"} <= {*e.table.key}:
        return None
    values = e.numbers(name) if name in e.table.columns else None
    return None if values is None or not values.size else series_rows(e, name, values)


def described(e: CheckedResponse, row: int) -> str:
    """Return the keys of a row except its time."""
    keys = () if e.table is None else e.table.key
    return " ".join(str(e.columns[key][row]) for key in keys if key in e.words)


def impossible_patterns(e: CheckedResponse) -> Iterator[str]:
    """Find copied pages, straight lines, running sums, repeated rows and venues unlike all others."""
    columns = () if e.table is None else e.table.columns
    for name in _NAMES:
        rows = venue_rows(e, name) if name in columns else None
        if rows is None or (rows.values == rows.values[0]).all():
            continue
        yield from _within_series(e, name, rows)
        yield from _against_others(e, name, rows)
        if name == _RATE:
            yield from _units_of_rates(e, rows)


def other_sizes(e: CheckedResponse) -> Iterator[str]:
    """Find totals, candles, symbols and volumes whose size changes permanently at some row."""
    if e.time_us is None or e.size < 2 * _MIN_OF_SIZE:
        return
    name = "" if e.table is None else e.table.name
    find = _BY_TABLE.get(name)
    if find is not None:
        yield from find(e)
    elif e.table is not None and "symbol" in e.table.key and e.step_us < DAY_US:
        # Sums over all symbols of a venue change little from hour to hour.
        for column in ("volume_usd", "total_volume_usd"):
            rows = venue_rows(e, column)
            if rows is not None and rows.values.size >= _MIN_SMOOTH:
                yield from _smooth(e, column, rows)


def _repeated_orders(e: CheckedResponse) -> Iterator[str]:
    """Find orders that are repeated under another id."""
    names = ["exchange", "symbol", "time", "side", "order_price_usd", "fill_price_usd", "quantity"]
    names = [name for name in names if name in e.columns]
    orders = pd.DataFrame({name: np.asarray(e.columns[name]) for name in names})
    again = int(orders.duplicated().sum())
    if again >= max(_MIN_AGAIN, _SHARE_AGAIN * len(orders)):
        yield f"{again} of {len(orders)} orders differ from another order only in their id"
    if not {"fill_price_usd", "order_price_usd", "symbol", "exchange"} <= {*orders}:
        return
    # Cheap coins have few distinct prices, and in a crash one large order fills many others.
    orders = orders[orders["symbol"].isin([*MIN_PRICES])]
    for (exchange, symbol), own in orders.groupby(["exchange", "symbol"], observed=True):
        usual = own["fill_price_usd"].mode()
        fills = own[own["fill_price_usd"] == (usual.iloc[0] if len(usual) else np.nan)]
        if len(fills) < max(_MIN_FILLS, _SHARE_OF_FILLS * len(own)) or "time" not in fills:
            continue
        prices = fills["order_price_usd"].nunique()
        if prices >= _MIN_AGAIN and fills["time"].max() - fills["time"].min() >= pd.Timedelta(1, "h"):
            yield (
                f"fill_price_usd of {symbol} {exchange} is {usual.iloc[0]:g} in {len(fills)} of {len(own)} "
                f"orders at {prices} prices: the value may be a placeholder"
            )
            return


def _candles(e: CheckedResponse) -> Iterator[str]:
    """Find candles of one coin in another unit from some row on."""
    close = e.numbers("close") if "close" in e.columns else None
    if close is None or e.time_us is None or len(e.words.get("coin", [""])) != 1:
        return
    order = np.argsort(e.time_us, kind="stable")
    alone = np.zeros(e.size, dtype=np.int64)
    for name in ("open", "high", "low", "close", "volume"):
        values = e.numbers(name) if name in e.columns else None
        if values is None:
            continue
        for first_row, second_row in repeated_blocks(alone, values[order]):
            yield (
                f"{name} has the values of {shown_time(e.time_us[order[first_row]])} and the rows after it "
                f"again on {shown_time(e.time_us[order[second_row]])}: a page may be repeated"
            )
            return
    yield from _reverse_candles(e, close, order)
    for change in level_changes(alone, close[order])[:1]:
        first = e.time_us[order[change.row]]
        yield (
            f"the close is {change.factor:.3g} times as large from {shown_time(first)} on ({change.rows} "
            "rows): probably another unit"
        )


def _reverse_candles(e: CheckedResponse, close: Array, order: Array) -> Iterator[str]:
    """Find candles with swapped open and close, which continue the next candle, not the previous one."""
    opens = e.numbers("open") if "open" in e.columns else None
    if opens is not None and e.size >= 2 * _MIN_OF_SIZE:
        opened = opens[order]
        closed = close[order]
        usual = float(np.median(np.abs(opened[1:] - closed[:-1])))
        reverse = float(np.median(np.abs(closed[1:] - opened[:-1])))
        if reverse < _REVERSE * usual:
            yield (
                f"the median difference of open and previous close is {usual:.3g}, and that of close and "
                f"previous open {reverse:.3g}: the two columns may be swapped"
            )


def _exchanged_symbols(e: CheckedResponse) -> Iterator[str]:
    """Find two symbols of a venue whose rows are swapped from some time on."""
    rows = venue_rows(e, "oi_usd")
    if rows is None:
        return
    venue = e.series("time", "symbol")[rows.order]
    for first, second in exchanged_levels(rows.series, venue, rows.times, rows.values)[:1]:
        names = " and ".join(described(e, rows.order[row]) for row in (first, second))
        yield f"oi_usd values of {names} are swapped from {shown_time(rows.times[first])} on"
    yield from _unranked_symbols(e, rows)
    for pair in copied_series(rows.series, venue, rows.times, rows.values)[:1]:
        names = " and ".join(described(e, rows.order[row]) for row in pair)
        yield f"oi_usd of {names} is the same in all rows: one of them may be copied"


def _unranked_symbols(e: CheckedResponse, rows: SeriesRows) -> Iterator[str]:
    """Find a symbol in a ranked list that is far smaller than the next one."""
    listed = e.stated.get("symbols")
    if not isinstance(listed, list):
        return
    symbols = np.asarray(e.columns["symbol"])[rows.order]
    ranked = [symbol for symbol in listed if (symbols == symbol).any()]
    values = [rows.values[symbols == symbol] for symbol in ranked]
    for place, (values_of_symbol, following) in enumerate(pairwise(values)):
        # The rank is that of the last row, so a new market may be small before.
        largest = float(np.nanmax(values_of_symbol))
        minimum = float(np.nanmin(following))
        if largest * _RANKED < minimum:
            yield (
                f"oi_usd of {ranked[place]} is at most {largest:.3g} USD, but that of the next symbol in "
                f"the ranked list is at least {minimum:.3g} USD: one of them may be in another unit"
            )
            return


def _totals(e: CheckedResponse) -> Iterator[str]:
    """Find liquidations with almost all sums in one part of the window above those in the other."""
    longs = e.numbers("long_usd")
    shorts = e.numbers("short_usd")
    if longs is None or shorts is None or e.time_us is None:
        return
    stamps, place = np.unique(e.time_us, return_inverse=True)
    totals = np.bincount(place, np.nan_to_num(longs) + np.nan_to_num(shorts))
    half = stamps.size // 2
    if half < _MIN_OF_SIZE:
        return
    with np.errstate(divide="ignore"):
        before = np.log(totals[:half])
        after = np.log(totals[half:])
    change = float(np.median(after) - np.median(before))
    higher = after if change > 0.0 else before
    lower = before if change > 0.0 else after
    if abs(change) > np.log(_OTHER_SIZE) and np.quantile(higher, 0.1) > np.quantile(lower, 0.9):
        yield (
            f"liquidations of all venues are {np.exp(change):.3g} times as large from about "
            f"{shown_time(stamps[half])} on ({stamps.size - half} rows): probably another unit"
        )


def _smooth(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find volumes that change so little from row to row that they may be rolling sums of a day."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.abs(np.diff(np.log(np.where(rows.values > 0.0, rows.values, np.nan))))
    steps = steps[(rows.series[1:] == rows.series[:-1]) & np.isfinite(steps)]
    usual = float(np.median(steps)) if steps.size >= _MIN_SMOOTH else np.inf
    if 0.0 < usual < _SMOOTH:
        yield (
            f"{name} changes by {100 * usual:.2g} % from row to row (median of {steps.size} changes): "
            f"the rows may be daily sums instead of sums over {e.step_us / HOUR_US:g} h"
        )


_BY_TABLE: dict[str, Callable[[CheckedResponse], Iterator[str]]] = {
    "": _candles,  # an open table
    "liquidations_history": _totals,
    "liquidations_events": _repeated_orders,
    "liquidations_fills": _repeated_orders,
    "oi_top_symbols": _exchanged_symbols,
}


def _within_series(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find patterns within a single series."""
    for first, second in repeated_blocks(rows.series, rows.values)[:1]:
        yield (
            f"{name} of {described(e, rows.order[first])} has the values of "
            f"{shown_time(rows.times[first])} and the rows after it again on "
            f"{shown_time(rows.times[second])}: a page may be repeated"
        )
    for run in straight_runs(rows.series, rows.values)[:1]:
        yield (
            f"{name} of {described(e, rows.order[run.row])} is a straight line in {run.rows} rows from "
            f"{shown_time(rows.times[run.row])} on: rows may be interpolated"
        )
    for alternate in alternating_rows(rows.series, rows.times, rows.values)[:1]:
        yield (
            f"{name} of {described(e, rows.order[alternate.row])} is {alternate.factor:.3g} times as "
            f"large in {alternate.rows} equally spaced rows, first "
            f"{shown_time(rows.times[alternate.row])}: the rows are in two units"
        )
    for split in split_levels(rows.series, rows.values)[:1]:
        yield (
            f"{name} of {described(e, rows.order[split.row])} is {split.factor:.3g} times as large from "
            f"{shown_time(rows.times[split.row])} on in all {split.rows} rows: probably another unit"
        )
    if name not in _LEVELS:
        for sums in rising_series(rows.series, rows.values)[:1]:
            yield (
                f"{name} of {described(e, rows.order[sums.row])} never falls in {sums.rows} rows: it "
                "may be a running sum"
            )


def _against_others(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find series that do not follow the other venues of their market."""
    if name != _RATE:  # a venue may publish one rate for all hours of an interval
        # Prices of BTC or ETH, and hourly volumes, change every hour.
        is_large = name in _PRICES and {*e.words.get("symbol", ("",))} <= MIN_PRICES.keys()
        is_moving = is_large or name in _SUMS or name in _ALWAYS_MOVING
        has_peers = e.step_us < HOUR_US or not is_moving
        for run in repeated_steps(rows.series, rows.market, rows.values, has_peers=has_peers)[:1]:
            yield (
                f"{name} of {described(e, rows.order[run.row])} changes only every {run.factor:g} rows: rows "
                "may be repeated"
            )
    sorted_rows = rows.series, rows.market, rows.times, rows.values
    if name == _RATE:
        for run in opposite_runs(*sorted_rows)[:1]:
            yield (
                f"{name} of {described(e, rows.order[run.row])} has the opposite sign of all other venues in "
                f"{run.rows} rows, first about {shown_time(rows.times[run.row])}: the sign may be lost"
            )
    if name not in _RELATED:
        return
    shifted = late_series(*sorted_rows)
    for late in shifted[:1]:
        side = "late" if late.factor > 0 else "early"
        yield (
            f"{name} of {described(e, rows.order[late.row])} is {abs(late.factor):g} rows {side} "
            "compared with the other venues: its timestamps may be shifted"
        )
    unrelated = [] if shifted else unrelated_series(*sorted_rows)
    for alone in unrelated[:1]:
        yield (
            f"{name} of {described(e, rows.order[alone.row])} does not move with the other venues "
            f"(correlation {alone.factor:.2f}): rows may belong to another market or be out of order"
        )


def _units_of_rates(e: CheckedResponse, rows: SeriesRows) -> Iterator[str]:
    """Find rates in another unit by the interest of the venues' formula, which is 1 bps per 8 hours."""
    is_of_formula = has_interest(e)[rows.order]
    values = rows.values[is_of_formula]
    size = tiny_rates(values)
    if size is not None:
        yield tiny_text(_RATE, size, values.size)
        return
    hours = e.numbers("interval_hours")
    starts = np.flatnonzero(np.append(True, rows.series[1:] != rows.series[:-1]))
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), rows.values.size], strict=True):
        of_series = slice(first, end)
        if not is_of_formula[first]:
            continue
        factor = other_interest(rows.values[of_series], _factors(e, rows, hours, of_series))
        if factor is not None:
            yield interest_text(_RATE, described(e, rows.order[first]), factor)
            return


def _factors(e: CheckedResponse, rows: SeriesRows, hours: Array | None, section: slice) -> Array:
    """Return the factors of units; the factors of hours only for rates that are known to be per 8 hours.

    Some venues have an interest of 1 bps per interval, which is 8 bps per 8 hours in hourly contracts.
    """
    if e.table is not None and e.table.name == PAYMENTS:
        is_known = hours is not None and bool((hours[rows.order[section]] == 8.0).all())
    else:
        is_known = "symbol" in e.columns and e.columns["symbol"][rows.order[section.start]] in MIN_PRICES
    return np.concatenate([UNITS, OF_EIGHT_HOURS]) if is_known else UNITS


_PRICES_OF_CONTRACTS = ("price_usd", "price")
_PRICES_AND_INTEREST = (*_PRICES_OF_CONTRACTS, "oi_usd", "total_oi_usd")
_VOLUMES = ("volume_usd", "total_volume_usd", "buy_usd", "sell_usd")
_COLUMNS = (_RATE, *_PRICES_AND_INTEREST, *_VOLUMES, "bid_depth_usd", "ask_depth_usd", "volume_24h_usd")
_LARGE_RATE_BPS = 45.0
"""Median rate over four days [bps/8h] that BTC and ETH never reached. It was 40 at Ethereum's merge."""
_LARGE_RATE_US = 4 * DAY_US
_MIN_RATES = 12  # minimum rows
_ZERO_SHARE = 0.2  # minimum share of zeros
_MIN_ZEROS = 12
_MIN_SERIES = 3  # minimum series that repeat a row at once
_MIN_OF_PAIR = 48  # minimum rows of a contract
_AT_ONCE = 0.4  # maximum correlation in the same row, if one column is shifted
_SHIFTED = 0.8  # minimum correlation one row apart
_EQUAL_SHARE = 0.95  # minimum share of equal rows
_FAR_WICK = 5.0  # minimum ratio of a low or high to open and close
_MIN_WICKS = 3
_WICK_SHARE = 0.02  # minimum share of such candles


def unlikely_values(e: CheckedResponse) -> Iterator[str]:
    """Find implausible values of series by venue, and implausible candles."""
    if e.table is None:
        yield from _unlikely_candles(e)
        return
    for name in _COLUMNS:
        rows = venue_rows(e, name) if name in e.table.columns else None
        if rows is not None:
            yield from _limits(e, name, rows)
            yield from _large_markets(e, name, rows)
    if e.table.name == "futures_history":
        yield from _marks_and_index(e)


def _limits(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find series whose maximum or minimum is repeated in many rows."""
    for fault in limited_series(rows.series, rows.values, is_rate=name == _RATE)[:1]:
        word = "above" if fault.factor > 0.0 else "below"
        yield (
            f"{name} of {described(e, rows.order[fault.row])} is {rows.values[fault.row]:g} in "
            f"{fault.rows} rows and never {word}: values may be capped"
        )


def _large_markets(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find rows that are implausible for large markets: BTC, ETH, or all contracts of a venue."""
    if name == _RATE:
        yield from _rates_of_large(e, rows)
    elif has_only_large(e):
        if name in (*_PRICES_AND_INTEREST, *_VOLUMES):
            yield from _rows_again(e, name, rows)
        if name in _VOLUMES:
            yield from _sections(e, name, rows)


def _rates_of_large(e: CheckedResponse, rows: SeriesRows) -> Iterator[str]:
    """Find rates of BTC or ETH that are high for days or often exactly 0.

    Only venues whose formula has an interest rate count: their rates are rarely 0.
    """
    symbols = np.asarray(e.columns["symbol"])[rows.order]
    venues = np.asarray(e.columns["exchange"])[rows.order]
    starts = np.flatnonzero(np.append(True, rows.series[1:] != rows.series[:-1]))
    medians = rows.by_size.medians()
    for place, (first, count) in enumerate(zip(starts.tolist(), rows.by_size.rows.tolist(), strict=True)):
        if symbols[first] not in MIN_PRICES or venues[first] not in WITH_INTEREST:
            continue
        where = described(e, rows.order[first])
        last = first + count - 1
        is_long = count >= _MIN_RATES and rows.times[last] - rows.times[first] >= _LARGE_RATE_US
        if is_long and medians[place] > _LARGE_RATE_BPS:
            yield (
                f"{_RATE} of {where} has a median of {medians[place]:.3g} in {count} rows: expected at most "
                f"{_LARGE_RATE_BPS:g} bps per 8 hours over days; values may be in another unit"
            )
            return
        zeros = int(rows.by_size.zeros[place])
        if zeros >= max(_MIN_ZEROS, _ZERO_SHARE * count) and zeros < count:
            yield f"{_RATE} of {where} is 0 in {zeros} of {count} rows: values may be missing"
            return


def _sections(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find sections of large venues that are far larger or smaller than the rows before and after them.

    Volumes of small venues may multiply within a day, such as at a launch. Series that change once and by far
    have a notice of their own.
    """
    faults = other_sections(rows.series, rows.times, rows.values)
    if not faults:
        return
    split = {rows.series[fault.row] for fault in split_levels(rows.series, rows.values)[:1]}
    for fault in faults:
        is_large = e.columns["exchange"][rows.order[fault.row]] in LARGE_VENUES
        if not is_large or rows.series[fault.row] in split:
            continue
        yield (
            f"{name} of {described(e, rows.order[fault.row])} is {fault.factor:.3g} times as large in "
            f"{fault.rows} rows from {shown_time(rows.times[fault.row])} on as in the other rows: values "
            "may be in another unit"
        )
        return


def _rows_again(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find times at which all series of large markets repeat the previous row."""
    # An archive is not checked, because it may carry values forward.
    is_short = rows.series[-1] + 1 < _MIN_SERIES
    if e.step_us < HOUR_US or is_short or SESSION.origin() is None:
        return
    is_again = (rows.values[1:] == rows.values[:-1]) & (rows.series[1:] == rows.series[:-1])
    is_again &= rows.values[1:] != 0.0
    if is_again.sum() < _MIN_SERIES:
        return
    stamps, counts = np.unique(rows.times, return_counts=True)
    times, repeats = np.unique(rows.times[1:][is_again], return_counts=True)
    present = counts[np.searchsorted(stamps, times)]
    repeated = np.flatnonzero((repeats == present) & (repeats >= _MIN_SERIES))
    if repeated.size:
        yield (
            f"{name} of all {repeats[repeated[0]]} venues at {shown_time(times[repeated[0]])} repeats the "
            f"previous row (at {repeated.size} timestamps in all): rows may be stale"
        )


def _marks_and_index(e: CheckedResponse) -> Iterator[str]:
    """Find prices of dated futures that equal the index, or are one row before or after it."""
    marks = venue_rows(e, "price_usd")
    index = venue_rows(e, "index_price_usd")
    if marks is None or index is None:
        return
    starts = np.flatnonzero(np.append(True, marks.series[1:] != marks.series[:-1]))
    ends = np.append(starts[1:], marks.series.size)
    for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
        mark = marks.values[first:end]
        level = index.values[first:end]
        if mark.size < _MIN_OF_PAIR or not ((mark > 0.0) & (level > 0.0)).all():
            continue
        where = described(e, marks.order[first])
        if np.mean(mark == level) >= _EQUAL_SHARE:
            yield f"price_usd and index_price_usd of {where} are equal: one of them may be copied"
            return
        moves = np.diff(np.log(mark))
        index_moves = np.diff(np.log(level))
        at_once = _correlation(moves, index_moves)
        late = _correlation(moves[1:], index_moves[:-1])
        early = _correlation(moves[:-1], index_moves[1:])
        shifted = max(late, early)
        if at_once < _AT_ONCE and shifted > _SHIFTED:
            yield (
                f"price_usd and index_price_usd of {where} have a correlation of {at_once:.2f} in the "
                f"same row but of {shifted:.2f} one row apart: one of them may be shifted"
            )
            return


def _correlation(first: Array, second: Array) -> float:
    """Return the correlation of two arrays; 0 if one is constant."""
    if np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _unlikely_candles(e: CheckedResponse) -> Iterator[str]:
    """Find candles with many lows or highs far from open and close, and capped prices."""
    names = ("open", "high", "low", "close")
    if not {*names} <= e.columns.keys() or e.time_us is None or len(e.words.get("coin", [""])) != 1:
        return
    order = np.argsort(e.time_us, kind="stable")
    columns = []
    for name in names:
        values = e.numbers(name)
        if values is None:
            return
        columns.append(values[order])
    opened, high, low, closed = columns
    lower = np.fmin(opened, closed)
    upper = np.fmax(opened, closed)
    for name, is_far in (("low", low * _FAR_WICK < lower), ("high", high > _FAR_WICK * upper)):
        if is_far.sum() >= max(_MIN_WICKS, _WICK_SHARE * is_far.size):
            yield (
                f"{name} differs from open and close by over {_FAR_WICK:g} times in {int(is_far.sum())} "
                "rows: values may be in another unit"
            )
            return
    alone = np.zeros(e.size, dtype=np.int64)
    faults: list[tuple[str, SeriesFault, Array]] = []
    for name, values in zip(names, columns, strict=True):
        faults += [(name, fault, values) for fault in limited_series(alone, values, is_rate=False)]
    for name, fault, values in faults[:1]:
        word = "above" if fault.factor > 0.0 else "below"
        yield f"{name} is {values[fault.row]:g} in {fault.rows} rows and never {word}: values may be capped"
