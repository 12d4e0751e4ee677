"""Patterns of a series that no market makes: copied pages, straight lines, running sums, repeated rows.

The functions take rows sorted by series and time, as `derivdata.tables.series_faults` does. Patterns are
exact or nearly so, and long enough that recorded series do not have them by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.tables.series_faults import SeriesFault, is_interest

__all__ = [
    "OF_EIGHT_HOURS",
    "UNITS",
    "WITH_INTEREST",
    "alternating_rows",
    "late_series",
    "limited_series",
    "opposite_runs",
    "other_interest",
    "other_sections",
    "rank_correlation",
    "repeated_blocks",
    "repeated_steps",
    "rising_series",
    "split_levels",
    "straight_runs",
    "tiny_rates",
    "unrelated_series",
]

_Array = NDArray[Any]

_MAX_ROWS = 50_000
"""Rows above which pages are not searched for copies, which takes a sort of all rows."""
_BLOCK = 8  # rows of a block that is compared
_MIN_DISTINCT = 6  # distinct values of such a block
_SHORT_BLOCK = 5  # rows of a block, all distinct, of a series with `_VERY_FINE` values
_FINE = 0.5  # share of distinct values from which equal values are not chance
_VERY_FINE = 0.9
_SAMPLED = 4  # one of so many blocks is compared above `_MAX_COMPARED_WHOLE` rows
_MAX_COMPARED_WHOLE = 5_000
_STRAIGHT_ROWS = 12
_SAME_STEP = 1e-3  # relative difference of equal steps
_ALTERNATING_ROWS = 36
_MIN_ALTERNATING = 12  # rows of the group at one distance
_DAY_US = 24 * 3_600_000_000
_SEASON_US = 8 * 3_600_000_000
_ALTERNATING = np.log(4.5)
_RISING_ROWS = 30
_RISING_SHARE = 0.9  # share of steps that are not 0
_MIN_RISE = 3.0
"""Minimum ratio of the last third of a running sum to its first third."""
_SPLIT_ROWS = 12  # minimum rows on each side of a change of level
_SPLIT = 50.0
_SECTION = 20.0
"""Minimum ratio of a section of BTC or ETH to the rest. In 2023 and 2024 on Binance, Bybit and OKX, the
median 8-hour volume of four days was at most 8 times that of a month."""
_LIMITED_SHARE = 0.2  # minimum share of rows at a limit
_MIN_LIMITED = 12  # minimum rows at a limit
_MIN_RUNS = 4  # minimum runs of rows at a limit
_STEP_ROWS = 48  # minimum rows of a series that changes only at each n-th row
_MIN_STEP = 3
_ON_PHASE = 0.95  # share of the changes that are at each n-th row
_PEERS = 2  # minimum other venues
_MIN_COMPARED = 48  # minimum changes of a series
_MAX_COMPARED = 1001  # newest rows that are compared
_MAX_SCORE = 3.0  # larger changes, in usual changes, are clipped
_MAX_OUTSIDERS = 2  # series of a market that are compared with the others
_LAGS = range(1, 13)  # rows
_MIN_AGREEMENT = 0.4  # correlation of the others
_LATE = 0.8
_NOT_LATE = 0.4
"""Fractions of the others' correlation with each other. A late series must correlate with them at more than
the first one after it is shifted, and at less than the second one as it is."""
_CHANCE = 4.0
"""Standard errors of a correlation that the largest of 24 lags of unrelated rows rarely reaches."""
_RELATED = 0.8  # minimum correlation of the others
_UNRELATED = 0.1  # maximum correlation of an unrelated series with the others
_OPPOSITE_ROWS = 12
_MANY_PEERS = 4
"""Other venues that show a lost sign: of three, one may be positive for days while the others are negative,
as Woofi was for 99 hours from 2026-08-10 on (ETH), and Paradex for 79."""
_OPPOSITE_BPS = 0.3  # size of a rate from which its sign counts
_SAME_SIZE = 3.0  # factor up to which sizes are similar
_TINY_BPS = 0.05
"""Rate that 1 of 20 rows of a response is above; the interest of the venues' formula is 20 times as large."""
_TINY_ROWS = 48
_TINY_SHARE = 0.95
OF_EIGHT_HOURS = np.array([8.0, 0.125, 3.0, 1.0 / 3.0, 24.0, 1.0 / 24.0])
"""Rates of one hour and of a day for rates of 8 hours, and the inverse."""
UNITS = np.array([100.0, 1e4, 0.01, 1e-4])
"""Factors between basis points, percent and fractions."""
WITH_INTEREST = frozenset(
    "aster binance bingx bitget bitmex bybit gateio huobi hyperliquid kucoin mexc okx phemex".split()
)
"""Venues whose formula has an interest of 1 bps per 8 hours; rates of others may be small for weeks.

Rates of BTC and ETH there were below 0.005 bps in at most 0.7 % of the snapshots of 2026-08-09 to 08-15
(BitMEX is not in them). In payments of Binance, Bybit, Gate, HTX, KuCoin, MEXC and OKX from 2020 to 2024, at
most 21 % of 48 in a row were below 0.05 bps.
"""
_RATE_DECIMALS = 7
_MIN_REPEATED = 4  # minimum rows of a repeated rate
_REPEATED_SHARE = 0.1  # minimum share of these rows
_SAME_MULTIPLE = 1e-4
_MAX_OF_INTEREST = 10.0
"""Maximum ratio of large rates to the interest. If it is larger, a repeated small rate is due to rounding."""


def _starts_and_ends(series: _Array) -> tuple[_Array, _Array]:
    """Return the first row of each series, and the row after its last."""
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    return starts, np.append(starts[1:], series.size)


def _each_series(series: _Array) -> Iterator[tuple[int, int]]:
    """Yield the first row of each series, and the row after its last."""
    starts, ends = _starts_and_ends(series)
    yield from zip(starts.tolist(), ends.tolist(), strict=True)


def _separated(first: _Array, second: _Array, minimum: float) -> float | None:
    """Return the difference of the medians of two groups if they are clearly separated, else None.

    They are if the difference is above `minimum` in size and nine of ten values of the one group are above
    nine of ten of the other.
    """
    change = float(np.median(first) - np.median(second))
    low, high = (second, first) if change > 0.0 else (first, second)
    is_separated = float(np.quantile(low, 0.9)) < float(np.quantile(high, 0.1))
    return change if is_separated and abs(change) > minimum else None


def _distinct_shares(series: _Array, values: _Array) -> _Array:
    """Return the share of distinct values among the nonzero values of each row's series.

    The share is low for a price that moves by few ticks or a rate with few digits, which repeat by chance.
    """
    if not values.size:
        return np.zeros(0)
    order = np.lexsort((values, series))
    is_new = np.append(True, (np.diff(values[order]) != 0.0) | (np.diff(series[order]) != 0))
    codes = series.astype(np.int64)
    is_used = values != 0.0
    counts = np.bincount(codes, is_used)
    distinct = np.bincount(codes[order], is_new & is_used[order], minlength=counts.size)
    return np.asarray((distinct / np.maximum(counts, 1))[codes])


def repeated_blocks(series: _Array, values: _Array) -> list[tuple[int, int]]:
    """Return the first rows of two equal blocks of a series, one pair for each series with a repeated block.

    If at least half of the nonzero values of a series are distinct, a block has eight rows with at least six
    distinct values. If nine of ten are distinct, it has five rows, all distinct. Other series are not
    compared. With more than 5,000 rows only a quarter of the blocks are compared, so a repeated block may be
    missed. With more than 50,000 rows nothing is compared.
    """
    if not 2 * _SHORT_BLOCK <= values.size <= _MAX_ROWS:
        return []
    shares = _distinct_shares(series, values)
    is_short = shares >= _VERY_FINE
    pairs: list[tuple[int, int]] = []
    if is_short.any():
        pairs += _equal_blocks(series, values, is_short, _SHORT_BLOCK, _SHORT_BLOCK)
    is_long = (shares >= _FINE) & ~is_short
    if is_long.any():
        pairs += _equal_blocks(series, values, is_long, _BLOCK, _MIN_DISTINCT)
    return sorted(pairs)


def _equal_blocks(
    series: _Array, values: _Array, is_used: _Array, block: int, min_distinct: int
) -> list[tuple[int, int]]:
    """Return the first pair of equal blocks of each series, among the rows where `is_used`."""
    # 1. Hash the values of each block of one series.
    if values.size < 2 * block:
        return []
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    count = values.size - block + 1
    hashes = series[:count].astype(np.uint64)
    changes = np.zeros(count, dtype=np.int64)
    for place in range(block):
        hashes = hashes * np.uint64(6364136223846793005) + bits[place : place + count]
        hashes ^= hashes >> np.uint64(29)
        if place:
            changes += values[place : place + count] != values[place - 1 : place - 1 + count]
    is_compared = (series[:count] == series[block - 1 :]) & (changes >= min_distinct - 1)
    is_compared &= is_used[:count]
    # Blocks are sampled by their hash, so that equal blocks are sampled together: a copy of 16 rows is found
    # in 9 of 10 cases.
    if values.size > _MAX_COMPARED_WHOLE:
        is_compared &= hashes % np.uint64(_SAMPLED) == 0
    rows = np.flatnonzero(is_compared)
    # 2. Compare blocks of equal hash, which are adjacent in sorted order.
    order = rows[np.argsort(hashes[rows], kind="stable")]
    is_copy = np.append(False, hashes[order[1:]] == hashes[order[:-1]])
    pairs: dict[int, tuple[int, int]] = {}
    for place in np.flatnonzero(is_copy).tolist():
        first = int(order[place - 1])
        second = int(order[place])
        rows_of_block = values[first : first + block]
        is_equal = np.array_equal(rows_of_block, values[second : second + block])
        if second - first < block or not is_equal or np.unique(rows_of_block).size < min_distinct:
            continue
        before = pairs.get(int(series[first]))
        if before is None or second < before[1]:
            pairs[int(series[first])] = first, second
    return [*pairs.values()]


def straight_runs(series: _Array, values: _Array) -> list[SeriesFault]:
    """Return the first run of at least twelve rows with equal nonzero steps in each series that has one."""
    if values.size < _STRAIGHT_ROWS:
        return []
    steps = np.diff(values)
    is_other_series = series[1:] != series[:-1]
    is_coarse = _distinct_shares(series, values)[1:] < _FINE
    steps[is_other_series | is_coarse] = np.nan
    with np.errstate(invalid="ignore"):
        is_straight = np.abs(np.diff(steps)) <= _SAME_STEP * np.abs(steps[:-1])
        is_straight &= np.abs(steps[:-1]) > 1e-9 * np.abs(values[:-2])
    # Runs begin and end at the changes of the mask.
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_straight, [False]]).astype(np.int8)))
    faults: dict[int, SeriesFault] = {}
    for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        rows = end - first + 2
        if rows >= _STRAIGHT_ROWS:
            faults.setdefault(int(series[first]), SeriesFault(first, rows, 1.0))
    return list(faults.values())


def rising_series(series: _Array, values: _Array) -> list[SeriesFault]:
    """Return series of at least 30 rows that rise and never fall, as a running sum does."""
    faults = []
    for first, end in _each_series(series):
        finite = values[first:end]
        finite = finite[np.isfinite(finite)]
        if finite.size < _RISING_ROWS:
            continue
        steps = np.diff(finite)
        third = finite.size // 3
        has_grown = abs(finite[-third:].mean()) > _MIN_RISE * abs(finite[:third].mean())
        if (steps >= 0.0).all() and (steps > 0.0).mean() >= _RISING_SHARE and has_grown:
            faults.append(SeriesFault(first, end - first, float(finite[-1])))
    return faults


def split_levels(series: _Array, values: _Array) -> list[SeriesFault]:
    """Return series that become at least 50 times larger, or smaller, at one row and remain so.

    There are at least twelve rows on each side, and nine of ten rows of one side are above nine of ten rows
    of the other.
    """
    faults = []
    for first, end in _each_series(series):
        if end - first < 2 * _SPLIT_ROWS or not (values[first:end] > 0.0).all():
            continue
        logs = np.log(values[first:end])
        if np.max(logs) - np.min(logs) < np.log(_SPLIT):
            continue
        # The largest step is the candidate, with enough rows on each side.
        steps = np.abs(np.diff(logs))[_SPLIT_ROWS - 1 : 1 - _SPLIT_ROWS]
        place = int(np.argmax(steps)) + _SPLIT_ROWS
        change = _separated(logs[place:], logs[:place], np.log(_SPLIT))
        if change is not None:
            faults.append(SeriesFault(first + place, end - first - place, float(np.exp(change))))
    return faults


def other_sections(series: _Array, times: _Array, values: _Array) -> list[SeriesFault]:
    """Return sections of at least a day and twelve rows that differ from the rest by a factor of 20 or more.

    The section is the run of rows between the two changes of level. The arguments are as in `late_series`.
    """
    faults = []
    for first, end in _each_series(series):
        if end - first < 2 * _SPLIT_ROWS or not (values[first:end] > 0.0).all():
            continue
        logs = np.log(values[first:end])
        if np.max(logs) - np.min(logs) < np.log(_SECTION):
            continue
        # The cumulative sum of deviations has its extremes where the level changes.
        deviations = np.append(0.0, np.cumsum(logs - np.mean(logs)))
        start, stop = sorted((int(np.argmin(deviations)), int(np.argmax(deviations))))
        inside = logs[start:stop]
        outside = np.concatenate([logs[:start], logs[stop:]])
        min_rows = _SPLIT_ROWS
        step_us = int(np.median(np.diff(times[first:end])))
        if step_us > 0:
            min_rows = max(min_rows, _DAY_US // step_us)
        if min(inside.size, outside.size) < min_rows:
            continue
        change = _separated(inside, outside, np.log(_SECTION))
        if change is not None:
            faults.append(SeriesFault(first + start, stop - start, float(np.exp(change))))
    return faults


def limited_series(series: _Array, values: _Array, *, is_rate: bool) -> list[SeriesFault]:
    """Return series that are at their maximum or minimum in a fifth of the rows, in at least four runs.

    At least half of the other values must be distinct. A limit with few digits is not reported, because it
    may be a cap, a floor or the interest rate of a venue. The factor is 1 for a maximum and −1 for a minimum.
    """
    faults: list[SeriesFault] = []
    starts, ends = _starts_and_ends(series)
    if not values.size:
        return faults
    for sign in (1.0, -1.0):
        extremes = np.fmax.reduceat(sign * values, starts)
        is_extreme = sign * values == np.repeat(extremes, ends - starts)
        counts = np.add.reduceat(is_extreme, starts, dtype=np.int64)
        is_many = counts >= np.maximum(_MIN_LIMITED, _LIMITED_SHARE * (ends - starts))
        for place in np.flatnonzero(is_many & (counts < ends - starts)).tolist():
            first = int(starts[place])
            end = int(ends[place])
            at_limit = is_extreme[first:end]
            runs = int(at_limit[0]) + int((np.diff(at_limit.astype(np.int8)) == 1).sum())
            limit = float(sign * extremes[place])
            is_round = is_interest(limit) if is_rate else limit == float(f"{limit:.3g}")
            others = values[first:end][~at_limit]
            is_fine = np.unique(others).size >= _FINE * others.size
            if runs >= _MIN_RUNS and not is_round and is_fine:
                faults.append(SeriesFault(first + int(np.argmax(at_limit)), int(counts[place]), sign))
    return faults


def repeated_steps(
    series: _Array, market: _Array, values: _Array, *, has_peers: bool = True
) -> list[SeriesFault]:
    """Return series that change only at every n-th row, while the others of their market change at most rows.

    The factor is n, at least 3. With `has_peers=False` the other series are ignored.
    """
    faults = []
    is_new = np.append(True, (values[1:] != values[:-1]) | (series[1:] != series[:-1]))
    starts, ends = _starts_and_ends(series)
    rows = ends - starts
    change_shares = np.add.reduceat(is_new, starts) / rows
    changes_rarely = change_shares < 1.0 / (_MIN_STEP - 0.5)
    for place in np.flatnonzero(changes_rarely & (rows >= _STEP_ROWS)).tolist():
        first = int(starts[place])
        changes = np.flatnonzero(is_new[first : ends[place]])
        if changes.size < _MIN_STEP:
            continue
        is_peer = (market[starts] == market[first]) & (np.arange(starts.size) != place)
        if has_peers and (not is_peer.any() or np.median(change_shares[is_peer]) < _ON_PHASE):
            continue
        step = int(np.median(np.diff(changes)))
        phase = int(np.median(changes[1:] % step))
        if step >= _MIN_STEP and np.mean(changes[1:] % step == phase) >= _ON_PHASE:
            faults.append(SeriesFault(first, int(ends[place]) - first, float(step)))
    return faults


def alternating_rows(series: _Array, times: _Array, values: _Array) -> list[SeriesFault]:
    """Return series in which every n-th row is larger, or smaller, than the other rows, for n from 2 to 7.

    Nine of ten values of one group are above nine of ten of the other, and the ratio of the medians is at
    least 4.5. Each group has at least twelve rows, since six of 36 rates may be near 0 by chance. Periods of
    a multiple of 8 hours are ignored: markets in stocks have most of their volume in some hours of the day,
    and rates have intervals of up to 8 hours. `times` are in µs, and the factor is the ratio of the medians.
    """
    faults = []
    for first, end in _each_series(series):
        sizes = np.abs(values[first:end])
        if not _ALTERNATING_ROWS <= sizes.size <= _MAX_ROWS or not (sizes > 0.0).all():
            continue
        logs = np.log(sizes)
        # Such a row has a large step before and after it, so at least two of seven steps are large. This
        # quick test saves the search below for most series.
        if np.quantile(np.abs(np.diff(logs)), 0.75) < 0.5 * _ALTERNATING:
            continue
        fault = _alternating(logs, int(np.median(np.diff(times[first:end]))))
        if fault is not None:
            faults.append(SeriesFault(first + fault.row, fault.rows, fault.factor))
    return faults


def _alternating(logs: _Array, step_us: int) -> SeriesFault | None:
    """Return the fault of a series in which every n-th row differs from the others, or None.

    `logs` are the logarithms of the sizes, and `step_us` is the time between two rows [µs].
    """
    for step in range(2, 8):
        if step_us <= 0 or step * step_us % _SEASON_US == 0:
            continue
        for phase in range(step):
            is_nth = np.zeros(logs.size, dtype=bool)
            is_nth[phase::step] = True
            if is_nth.sum() < _MIN_ALTERNATING:
                continue
            change = _separated(logs[is_nth], logs[~is_nth], _ALTERNATING)
            if change is not None:
                return SeriesFault(phase, int(is_nth.sum()), float(np.exp(change)))
    return None


def _tables(series: _Array, market: _Array, times: _Array, values: _Array) -> Iterator[tuple[_Array, _Array]]:
    """Yield the series of each market with at least three, and their values by time; NaN if missing."""
    starts = _starts_and_ends(series)[0]
    for name in np.unique(market[starts]).tolist():
        codes = series[starts[market[starts] == name]]
        if codes.size <= _PEERS:
            continue
        rows = np.flatnonzero(market == name)
        # If all series have the same times, as most responses do, the table is the values in another shape.
        first = times[rows[: rows.size // codes.size]]
        if rows.size == first.size * codes.size and (times[rows].reshape(codes.size, -1) == first).all():
            yield codes, values[rows].reshape(codes.size, -1)
            continue
        stamps = np.unique(times[rows])
        table = np.full((codes.size, stamps.size), np.nan)
        table[np.searchsorted(codes, series[rows]), np.searchsorted(stamps, times[rows])] = values[rows]
        yield codes, table


def _scores(table: _Array) -> _Array:
    """Return the changes of logarithms over the mean size of the series' changes, clipped at 3.

    The result is 0 where a change is missing, and for series with too few changes.
    """
    table = table[:, -_MAX_COMPARED:]
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.diff(np.log(np.where(table > 0.0, table, np.nan)), axis=1)
    sizes = np.abs(changes)
    is_change = np.isfinite(sizes) & (sizes > 0.0)
    count = is_change.sum(axis=1)
    mean_size = np.where(is_change, sizes, 0.0).sum(axis=1) / np.maximum(count, 1)
    mean_size[(mean_size == 0.0) | (count < _MIN_COMPARED)] = np.inf  # which gives scores of 0
    return np.asarray(np.clip(np.nan_to_num(changes / mean_size[:, None]), -_MAX_SCORE, _MAX_SCORE))


def _correlation(first: _Array, second: _Array) -> float:
    """Return the correlation of two arrays of scores; 0 if one is constant."""
    norm = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / norm if norm > 0.0 else 0.0


def _agreement(scores: _Array) -> float:
    """Return the lowest correlation of any series with the sum of the others; 0 for fewer than two series."""
    used = scores[(scores != 0.0).any(axis=1)]
    if len(used) < _PEERS:
        return 0.0
    total = used.sum(axis=0)
    return min(_correlation(own, total - own) for own in used)


def _outsiders(
    series: _Array, market: _Array, times: _Array, values: _Array, minimum: float
) -> Iterator[tuple[int, _Array, _Array, float, float]]:
    """Yield series that agree less than the others do, if these agree by at least the correlation `minimum`.

    Each is (code, its scores, sum of the others' scores, correlation of these two, agreement of the others).
    """
    for codes, table in _tables(series, market, times, values):
        if table.shape[1] <= _MIN_COMPARED:
            continue
        scores = _scores(table)
        total = scores.sum(axis=0)
        with_others = np.array([_correlation(own, total - own) for own in scores])
        # Only the series that agree least can differ from others that agree.
        for place in np.argsort(with_others, kind="stable")[:_MAX_OUTSIDERS].tolist():
            own = scores[place]
            if not own.any():
                continue
            agreement = _agreement(np.delete(scores, place, axis=0))
            if agreement >= minimum and with_others[place] < _NOT_LATE * agreement:
                yield int(codes[place]), own, total - own, float(with_others[place]), agreement


def late_series(series: _Array, market: _Array, times: _Array, values: _Array) -> list[SeriesFault]:
    """Return series whose changes are some rows later, or earlier, than those of at least two others.

    The others correlate without a delay. At most the last 1,000 rows are compared. The factor is the delay in
    rows, negative if the series is early.
    """
    faults = []
    for code, own, others, _, agreement in _outsiders(series, market, times, values, _MIN_AGREEMENT):
        lags = [lag * sign for lag in _LAGS for sign in (1, -1)]
        by_lag = [_correlation(*_shifted(own, others, lag)) for lag in lags]
        best = int(np.argmax(by_lag))
        chance = _CHANCE / np.sqrt(np.count_nonzero(own))
        if by_lag[best] > max(_LATE * agreement, chance):
            faults.append(_whole_series(series, code, float(lags[best])))
    return faults


def unrelated_series(series: _Array, market: _Array, times: _Array, values: _Array) -> list[SeriesFault]:
    """Return series whose changes do not correlate with those of at least two others, which agree.

    At most the last 1,000 rows are compared. The factor is the correlation with the sum of the others.
    """
    faults = []
    for code, _, _, correlation, _ in _outsiders(series, market, times, values, _RELATED):
        if correlation < _UNRELATED:
            faults.append(_whole_series(series, code, correlation))
    return faults


def _whole_series(series: _Array, code: int, factor: float) -> SeriesFault:
    """Return a fault of all rows of the series with this code."""
    rows = np.flatnonzero(series == code)
    return SeriesFault(int(rows[0]), int(rows.size), factor)


def _shifted(own: _Array, others: _Array, lag: int) -> tuple[_Array, _Array]:
    """Return the overlap of two arrays, of which the first is `lag` rows late (early if negative)."""
    if lag > 0:
        return own[lag:], others[:-lag]
    return own[:lag], others[-lag:]


def opposite_runs(series: _Array, market: _Array, times: _Array, rates: _Array) -> list[SeriesFault]:
    """Return runs of at least twelve rates whose sign is opposite to that of all others of the market.

    Rates near 0 are not compared, and sizes must be similar to those of the others, because the rate of a
    thin market may be opposite for hours. Either all signs are opposite, in both directions, or the series
    has no negative rates and there are at least four others.
    """
    faults = []
    for codes, table in _tables(series, market, times, rates):
        is_finite = np.isfinite(table)
        is_up = table > _OPPOSITE_BPS
        is_down = table < -_OPPOSITE_BPS
        # At each time, compare the number of other series with that of the others above (below) 0.
        others = is_finite.sum(axis=0) - is_finite
        is_market_up = (is_up.sum(axis=0) - is_up == others) & (others >= _PEERS)
        is_market_down = (is_down.sum(axis=0) - is_down == others) & (others >= _PEERS)
        is_opposite = (is_market_up & is_down) | (is_market_down & is_up)
        for place in np.flatnonzero(is_opposite.sum(axis=1) >= _OPPOSITE_ROWS).tolist():
            of_series = table[place]
            is_same = (is_market_up[place] & (of_series > 0.0)) | (is_market_down[place] & (of_series < 0.0))
            peers = np.delete(table, place, axis=0)
            if not _may_lack_sign(of_series, peers, is_opposite[place], is_same):
                continue
            compared = np.flatnonzero(is_opposite[place] | is_same)
            edges = np.flatnonzero(np.diff(np.concatenate([[0], is_opposite[place][compared], [0]])))
            lengths = edges[1::2] - edges[::2]
            longest = int(np.argmax(lengths))
            if lengths[longest] >= _OPPOSITE_ROWS:
                # The series lacks rows at the times of other series.
                first_time = compared[edges[2 * longest]]
                rows_before = int(is_finite[place][:first_time].sum())
                start = int(np.flatnonzero(series == codes[place])[0])
                faults.append(SeriesFault(start + rows_before, int(lengths[longest]), -1.0))
    return faults


def _may_lack_sign(own: _Array, others: _Array, is_opposite: _Array, is_same: _Array) -> bool:
    """Return whether rates of the others' size are never negative, or opposite in both directions."""
    is_lost = len(others) >= _MANY_PEERS and not (own < 0.0).any()
    opposite = own[is_opposite]
    fewer = min(np.count_nonzero(opposite > 0.0), np.count_nonzero(opposite < 0.0))
    is_mirrored = bool(fewer >= _OPPOSITE_ROWS) and not is_same.any()
    ratio = float(np.median(np.abs(opposite)) / np.nanmedian(np.abs(others[:, is_opposite])))
    return (is_lost or is_mirrored) and 1.0 / _SAME_SIZE < ratio < _SAME_SIZE


def rank_correlation(first: _Array, second: _Array) -> float:
    """Return the correlation of ranks, in which equal values share a rank; 0 for a constant."""
    ranks = [pd.Series(array).rank().to_numpy() for array in (first, second)]
    if any(np.ptp(rank) == 0.0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def tiny_rates(rates: _Array) -> float | None:
    """Return the 95 % quantile of absolute rates if it is as small as for fractions or percent; else None."""
    sizes = np.abs(rates[np.isfinite(rates) & (rates != 0.0)])
    if sizes.size < _TINY_ROWS or (sizes < _TINY_BPS).mean() < _TINY_SHARE:
        return None
    return float(np.quantile(sizes, _TINY_SHARE))


def other_interest(rates: _Array, factors: _Array) -> float | None:
    """Return the ratio of a repeated rate to the venues' usual interest rate, 1 bps per 8 hours.

    The result is None if a rate of 1 bps repeats, or if no repeated rate is one of `factors`. A factor of
    which all rates are multiples is ignored: it is the step to which a venue rounds.
    """
    values = rates[np.isfinite(rates)]
    distinct, counts = np.unique(np.round(values, _RATE_DECIMALS), return_counts=True)
    is_repeated = counts >= max(_MIN_REPEATED, _REPEATED_SHARE * values.size)
    usual = np.abs(distinct[is_repeated])
    if not usual.size or np.isclose(usual, 1.0, rtol=1e-6, atol=0.0).any():
        return None
    for factor in factors.tolist():
        is_small = factor < 1.0 and np.quantile(np.abs(values), 0.9) > _MAX_OF_INTEREST * factor
        if not np.isclose(usual, factor, rtol=1e-6, atol=0.0).any() or is_small:
            continue
        multiples = np.abs(distinct) / factor
        is_step = (np.abs(multiples - np.rint(multiples)) < _SAME_MULTIPLE).all()
        if not is_step or multiples.max() <= 1.0 + _SAME_MULTIPLE:
            return float(factor)
    return None
