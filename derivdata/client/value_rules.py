"""Rules for implausible values of series: capped, shifted, repeated, or in another unit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from derivdata.client.market_sizes import LARGE_VENUES, MIN_PRICES, has_only_large
from derivdata.client.reading import DAY_US, HOUR_US, CheckedResponse
from derivdata.client.series_rules import SeriesRows, described, venue_rows
from derivdata.client.transport import SESSION
from derivdata.support.arrays import Array
from derivdata.tables.history_rows import shown_time
from derivdata.tables.series_faults import SeriesFault
from derivdata.tables.series_patterns import WITH_INTEREST, limited_series, other_sections

_RATE = "rate_bps_8h"
_PRICES = ("price_usd", "price")
_LEVELS = (*_PRICES, "oi_usd", "total_oi_usd")
_SUMS = ("volume_usd", "total_volume_usd", "buy_usd", "sell_usd")
_COLUMNS = (_RATE, *_LEVELS, *_SUMS, "bid_depth_usd", "ask_depth_usd", "volume_24h_usd")
_LARGE_RATE_BPS = 45.0
"""Median rate over four days [bps/8h] that BTC and ETH never reached. It was 40 at Ethereum's merge."""
_LARGE_RATE_US = 4 * DAY_US
_MIN_RATES = 12
_ZERO_SHARE = 0.2
_MIN_ZEROS = 12
_MIN_SERIES = 3
_MIN_OF_PAIR = 48
_AT_ONCE = 0.4
_SHIFTED = 0.8
_EQUAL_SHARE = 0.95
_FAR_WICK = 5.0
_MIN_WICKS = 3
_WICK_SHARE = 0.02


def unlikely_values(e: CheckedResponse) -> Iterator[str]:
    """Find implausible values of series by venue, and implausible candles."""
    if e.table is None:
        yield from _candles(e)
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
        if name in (*_LEVELS, *_SUMS):
            yield from _rows_again(e, name, rows)
        if name in _SUMS:
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

    Volumes of small venues may multiply within a day, such as at a launch.
    """
    for fault in other_sections(rows.series, rows.times, rows.values):
        if e.columns["exchange"][rows.order[fault.row]] not in LARGE_VENUES:
            continue
        yield (
            f"{name} of {described(e, rows.order[fault.row])} is {fault.factor:.3g} times the other rows in "
            f"{fault.rows} rows from {shown_time(rows.times[fault.row])}: values may be in another unit"
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
    times, again = np.unique(rows.times[1:][is_again], return_counts=True)
    present = counts[np.searchsorted(stamps, times)]
    whole = np.flatnonzero((again == present) & (again >= _MIN_SERIES))
    if whole.size:
        yield (
            f"{name} of all {again[whole[0]]} venues at {shown_time(times[whole[0]])} repeats the previous "
            f"row (so at {whole.size} times): rows may be stale"
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
        own, other = marks.values[first:end], index.values[first:end]
        if own.size < _MIN_OF_PAIR or not ((own > 0.0) & (other > 0.0)).all():
            continue
        where = described(e, marks.order[first])
        if np.mean(own == other) >= _EQUAL_SHARE:
            yield f"price_usd and index_price_usd of {where} are equal: one of them may be copied"
            return
        moves, others = np.diff(np.log(own)), np.diff(np.log(other))
        at_once = _correlation(moves, others)
        shifted = max(_correlation(moves[1:], others[:-1]), _correlation(moves[:-1], others[1:]))
        if at_once < _AT_ONCE and shifted > _SHIFTED:
            yield (
                f"price_usd and index_price_usd of {where} have a correlation of {at_once:.2f} in the same "
                f"row, and of {shifted:.2f} one row apart: one of the two may be shifted"
            )
            return


def _correlation(first: Array, second: Array) -> float:
    if np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _candles(e: CheckedResponse) -> Iterator[str]:
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
    lower, upper = np.fmin(opened, closed), np.fmax(opened, closed)
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
