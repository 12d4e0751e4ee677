"""Faults of a series that other venues of a response show: another unit, or a value that does not change.

Figures of one symbol move together on all venues. A section of one series is a fault if it is a unit's factor
larger than its peers, or repeats one value while they move. The series itself may be smooth.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "SeriesFault",
    "SeriesSizes",
    "apart_from_peers",
    "copied_series",
    "exchanged_levels",
    "frozen_runs",
    "is_interest",
    "lone_rates",
    "lone_spikes",
    "mirrored_rates",
    "peer_changes",
    "repeated_pair",
    "row_medians",
    "scaled_series",
    "scattered_levels",
    "series_sizes",
    "still_levels",
    "unchanged_series",
]

_Array = NDArray[Any]

_FACTORS = np.log([8.0, 100.0, 1e3, 1e4, 1e6])
_RATE_FACTORS = _FACTORS[1:]
"""Rates of one venue may be eight times those of others for weeks: those of ETH on MEXC were 7.3 times as
large from 2021-02-23 on, 45 payments."""
_NEAR = np.log(1.35)  # maximum distance of a log ratio from the factor of a unit
_PEERS = 2  # minimum number of other series
_MANY = 8
"""Number of venues from which one venue hardly changes the median, so the median of all is used."""
_BLOCKS = 12
_ROWS_IN_BLOCK = 3
_MIN_BLOCKS = 2  # minimum number of blocks of a section and of the rest
_SURE = 6.0
"""Standard errors by which a section must differ from the rest of its series."""
_MIN_NOISE = 0.1  # added to the standard deviation of log means, which may be 0 by chance
_LOW = 0.2
_FLOOR = 0.1
"""Share of the `_LOW` quantile that is added to sizes, so that a rate near zero is not a small size."""
_MIN_RUN = 6  # minimum rows of a run of one value
_MIN_SPAN_US = 23 * 3_600_000_000  # a day of hourly rows, from the first to the last
_RUN_SHARE = 0.2  # minimum share of such a run in its series
_OUTSIDE_SHARE = 0.01  # maximum share of rows with this value outside the run
_MIN_JUMP = np.log(1.2)
_MAX_JUMPS = 200  # more jumps are not compared, because each is compared with all others
_USUAL_STEPS = 10.0  # minimum jump in usual steps of the series
_MOVING_SHARE = 0.2  # share of rows with a new value from which a series changes
_STILL_ROWS = 12
_MIN_DISTINCT = 6
_DIGITS_OF_FLOOR = 3
"""Significant digits of a rate that may repeat: the interest of a venue's formula, such as 0.125 bps."""
_STEP_OF_YEAR = 0.005
"""Step of an interest per year, of which a rate that repeats may be a part."""
_ROUNDED_BPS = 6e-5  # half a step of the fourth decimal, in which rates are written
_MAX_PRICE_RATIO = 2.0  # maximum ratio of the peers' prices to each other
_PRICE_APART = np.log(1.06)  # minimum log ratio of another price
_PRICE_SPREADS = 10.0
"""Spreads of the other venues by which a price is another one, if they agree."""
_PEER_SPREAD = 3.0  # maximum ratio of the peers' rates to each other
_RATE_DECIMALS = 7  # rates that are equal up to these decimals [bps/8h] repeat
_MIN_REPEATED = 4  # minimum rows of a repeated rate
_REPEATED_SHARE = 0.1  # minimum share of these rows
_SAME_RATE = 1e-4  # relative difference below which two rates are equal
_MIN_STEPS = 20.0  # multiple of a venue's rounding step from which a repeated rate is not due to rounding
_SPIKE = 100.0
_MIN_SPIKES = 2
_LARGE_FACTOR = 100.0
"""Factor from which half of the usual share of repeated rates is enough."""
_MIN_APART = 1.5e-3  # minimum median log distance of a price from the market
_USUAL_APART = 5.0  # and minimum multiple of the median distance of all series
_MIN_SCATTERED = 48  # minimum rows
_SCATTERED = 1.2
"""Squared steps of ranks over their variance: 2 for rows in random order, far below 1 for levels."""
_SCATTERED_SIZE = 0.066
"""Minimum log range of the central 90 % of the rows."""
_LONE_RATE = 30.0
"""How many times a lone rate is its neighbours and the median. Gate paid 1.2, 27.25 and 1 bps for BTC on
2020-02-12, and KuCoin had such rates for ETH. No window of recorded rates has two of 30 times."""
_MIN_LONE_BPS = 3.0
_INTEREST_BPS = 1.0
"""Interest per 8 hours in the formula of most venues, which their rates repeat."""
_REPEATED_FACTORS = np.array([8.0, 10.0, 100.0, 1e3, 1e4, 1e6])
_ROUND_DECIMALS = 2  # interest rates and floors [bps/8h] have no more


class SeriesSizes(NamedTuple):
    """Absolute values of each series in ascending order; missing values are last."""

    ordered: NDArray[np.float64]
    starts: NDArray[np.int64]
    """Place of the first value of each series."""
    rows: NDArray[np.int64]
    """Number of values of each series, including missing ones."""
    finite: NDArray[np.int64]
    """Number of finite values of each series."""
    zeros: NDArray[np.int64]
    """Number of zeros of each series."""

    def medians(self) -> NDArray[np.float64]:
        """Return the median size of each series; NaN for a series without finite values."""
        upper = self.starts + self.finite // 2
        lower = self.starts + np.maximum(self.finite - 1, 0) // 2
        medians = 0.5 * (self.ordered[lower] + self.ordered[upper])
        return np.where(self.finite > 0, medians, np.nan)


def series_sizes(series: _Array, values: _Array) -> SeriesSizes:
    """Sort the absolute values of each series.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other.
    values
        Value of each row; infinite ones count as missing.
    """
    sizes = np.abs(values, dtype=np.float64)
    sizes[~np.isfinite(sizes)] = np.inf
    if not values.size:
        none = np.zeros(0, dtype=np.int64)
        return SeriesSizes(ordered=sizes, starts=none, rows=none, finite=none, zeros=none)
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    rows = np.diff(np.append(starts, values.size))
    # In place, series by series: new arrays of this size take as long as the sort.
    for first, end in zip(starts.tolist(), (starts + rows).tolist(), strict=True):
        sizes[first:end].sort()
    finite = np.add.reduceat(np.isfinite(sizes), starts, dtype=np.int64)
    zeros = np.add.reduceat(sizes == 0.0, starts, dtype=np.int64)
    return SeriesSizes(ordered=sizes, starts=starts, rows=rows, finite=finite, zeros=zeros)


class SeriesFault(NamedTuple):
    """Faulty section of a series: its first row, its number of rows, and the factor of its values."""

    row: int
    rows: int
    factor: float


def peer_changes(
    series: _Array,
    market: _Array,
    times: _Array,
    values: _Array,
    *,
    is_rate: bool = False,
    by_size: SeriesSizes | None = None,
) -> list[SeriesFault]:
    """Return sections in which a series changes by 8, 100, 10³, 10⁴ or 10⁶, up or down, and its peers do not.

    Mean logarithms in twelve blocks of time are compared, so single rows do not matter. Funding rates of two
    venues may differ by any factor for hours, so a section of rates lasts at least a day.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other, in time order.
    market
        Number of each row's market; series of one market are peers.
    times, values
        Time [µs] and value of each row; NaN is not compared.
    is_rate
        Whether the values are funding rates.
    by_size
        The sorted sizes of `values`, if the caller has them.
    """
    # 1. Logarithms of sizes.
    sizes = np.abs(values)
    is_compared = np.isfinite(sizes)
    if is_compared.sum() < 2 * _MIN_BLOCKS * _ROWS_IN_BLOCK:
        return []
    count = int(series.max()) + 1
    markets = np.full(count, -1)
    markets[series] = market
    if (values <= 0.0).any():
        by_size = by_size or series_sizes(series, values)
        sizes += np.repeat(_FLOOR * _low_sizes(by_size, values), by_size.rows)
    with np.errstate(divide="ignore"):
        logs = np.log(sizes)
    is_compared &= np.isfinite(logs)
    if is_rate:
        is_compared &= values != 0.0  # a rate of 0 is 0 in every unit
    # 2. Their means by series and block of time, relative to the median of the series.
    begin = int(times.min())
    span = max(int(times.max() - times.min()), 1)
    block = np.minimum((times - begin) * _BLOCKS // span, _BLOCKS - 1)
    cells = count * _BLOCKS
    # Rows that are not compared are in one more cell.
    cell = np.where(is_compared, series * _BLOCKS + block, cells)
    number = np.bincount(cell, minlength=cells + 1)[:cells].reshape(count, _BLOCKS)
    with np.errstate(invalid="ignore"):
        means = np.bincount(cell, logs, cells + 1)[:cells].reshape(count, _BLOCKS) / number
    means = np.where(number > 0, means, np.nan)
    means -= row_medians(means)[:, None]  # sizes differ between venues
    # 3. Sections at another level than the peers.
    faults = []
    for name in np.unique(markets[markets >= 0]).tolist():
        of_market = np.flatnonzero(markets == name)
        if of_market.size > _PEERS:
            for code, section, change in _changes_in(of_market, means[of_market], is_rate=is_rate):
                rows = np.flatnonzero(series == code)
                start = int(rows[np.searchsorted(block[rows], section[0])])
                end = int(rows[0] + np.searchsorted(block[rows], section[1]))
                if not is_rate or _is_change_of_rates(times, values, range(start, end), rows):
                    faults.append(SeriesFault(start, end - start, float(np.exp(change))))
    return faults


def _is_change_of_rates(times: _Array, values: _Array, section: range, rows: _Array) -> bool:
    """Return whether a section and the rest of its series each last a day and have medians of one sign."""
    rest = np.concatenate([values[rows[0] : section.start], values[section.stop : rows[-1] + 1]])
    inside = values[section.start : section.stop]
    last = section.stop - 1
    span = times[last] - times[section.start]
    if min(span, times[rows[-1]] - times[rows[0]] - span) < _MIN_SPAN_US:
        return False
    return float(np.nanmedian(inside)) * float(np.nanmedian(rest)) >= 0.0


def _low_sizes(by_size: SeriesSizes, values: _Array) -> _Array:
    """Return the lower quantile of positive sizes for series with a value of 0 or below, else 0."""
    is_crossing = np.fmin.reduceat(values, by_size.starts) <= 0.0
    positive = by_size.finite - by_size.zeros
    present = np.flatnonzero(is_crossing & (positive > 0))
    # Linear between two ranks, as np.quantile is.
    rank = _LOW * (positive[present] - 1)
    below = np.floor(rank).astype(np.int64)
    above = np.minimum(below + 1, positive[present] - 1)
    first = by_size.starts[present] + by_size.zeros[present]
    low = by_size.ordered[first + below]
    lows = np.zeros(positive.size)
    lows[present] = low + (rank - below) * (by_size.ordered[first + above] - low)
    return lows


def row_medians(table: _Array) -> _Array:
    """Return the median of each row, ignoring NaN; NaN for a row without values."""
    ordered = np.sort(table, axis=1)
    last = np.maximum(np.isfinite(ordered).sum(axis=1) - 1, 0)
    row = np.arange(len(table))
    return np.asarray(0.5 * (ordered[row, last // 2] + ordered[row, (last + 1) // 2]))


def _changes_in(codes: _Array, means: _Array, *, is_rate: bool) -> list[tuple[int, tuple[int, int], float]]:
    """Return the series of a market that change level, the blocks of the change, and its logarithm."""
    ordered = np.sort(means, axis=0)
    if codes.size < _MANY:
        peers = np.array([_median_without(ordered, own) for own in means])
    else:
        peers = np.where(np.isfinite(means).sum(axis=0) > _PEERS, _middle(ordered), np.nan)
    ratios = means - peers
    is_compared = np.isfinite(ratios)
    sizes = is_compared.sum(axis=1)
    largest = np.where(is_compared, ratios, -np.inf).max(axis=1)
    smallest = np.where(is_compared, ratios, np.inf).min(axis=1)
    # Two sections of a series differ by at most the difference of its largest and smallest block.
    may_change = (sizes >= 2 * _MIN_BLOCKS) & (largest - smallest >= _FACTORS[0] - _NEAR)
    changes = []
    for size in np.unique(sizes[may_change]).tolist():  # series with equally many blocks in one array
        places = np.flatnonzero(may_change & (sizes == size))
        levels = ratios[places][is_compared[places]].reshape(places.size, size)
        for place, level in zip(places.tolist(), _other_levels(levels, is_rate=is_rate), strict=True):
            if level is not None:
                first, stop, change = level
                blocks = np.flatnonzero(is_compared[place])
                after = int(blocks[stop]) if stop < size else _BLOCKS
                changes.append((int(codes[place]), (int(blocks[first]), after), change))
    return sorted(changes)


def _middle(ordered: _Array) -> _Array:
    """Return the lower median of sorted columns, in which NaN are last."""
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)
    return np.asarray(np.take_along_axis(ordered, last[None] // 2, axis=0)[0])


def _median_without(ordered: _Array, own: _Array) -> _Array:
    """Return the median of each sorted column without the value of one row, `own`."""
    result = np.full(own.size, np.nan)
    for column in np.flatnonzero(np.isfinite(own)).tolist():
        values = ordered[np.isfinite(ordered[:, column]), column]
        if values.size > _PEERS:
            result[column] = np.median(np.delete(values, np.searchsorted(values, own[column])))
    return result


class _Sections(NamedTuple):
    """Candidate sections of a series of blocks, and a mask of the blocks in each."""

    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    size: NDArray[np.int64]
    inside: NDArray[np.bool_]  # (section, block)


@lru_cache(maxsize=_BLOCKS)
def _sections_of(number: int) -> _Sections:
    """Return the sections of at least two blocks, with at least two blocks outside.

    A section and its complement differ by the same factor. The smaller one is the section, of equally large
    ones the later.
    """
    first, stop = np.triu_indices(number + 1, k=_MIN_BLOCKS)
    size = stop - first
    rest = number - size
    is_larger = np.where(first == 0, size >= rest, (size > rest) & (stop < number))
    is_section = (rest >= _MIN_BLOCKS) & ~is_larger
    first = first[is_section]
    stop = stop[is_section]
    block = np.arange(number)
    inside = (block >= first[:, None]) & (block < stop[:, None])
    return _Sections(first, stop, stop - first, inside)


def _other_levels(ratios: _Array, *, is_rate: bool) -> list[tuple[int, int, float] | None]:
    """Return for each series the blocks that are a unit's factor away from the rest, and its logarithm.

    `ratios` are logarithms, one row per series. The result is None for a series without such blocks.
    """
    number = ratios.shape[1]
    sections = _sections_of(number)
    rest = number - sections.size
    # 1. Difference of medians between each section and the rest, near a unit's factor.
    inner = _masked_median(ratios, sections.inside, sections.size)
    change = inner - _masked_median(ratios, ~sections.inside, rest)
    factors = _RATE_FACTORS if is_rate else _FACTORS
    distance = np.abs(np.abs(change)[:, :, None] - factors)
    is_unit = distance.min(axis=2) <= _NEAR
    results: list[tuple[int, int, float] | None] = [None] * len(ratios)
    for place in np.flatnonzero(is_unit.any(axis=1)).tolist():
        # 2. The section with the most standard errors.
        near = np.flatnonzero(is_unit[place])
        inside = sections.inside[near]
        squares = _squares(ratios[place], inside) + _squares(ratios[place], ~inside)
        noise = np.sqrt(squares / (number - 2)) + _MIN_NOISE
        sure = np.abs(change[place, near]) / (noise * np.sqrt(1.0 / sections.size[near] + 1.0 / rest[near]))
        sure = np.where(sure > _SURE, sure, 0.0)
        surest = int(np.argmax(sure))
        if sure[surest] > 0.0:
            best = near[surest]
            first = int(sections.first[best])
            results[place] = (first, int(sections.stop[best]), float(change[place, best]))
    return results


def _masked_median(ratios: _Array, masks: _Array, sizes: _Array) -> _Array:
    """Return the median of each row's values under each mask, shape (row, mask).

    `sizes` are the numbers of values of each mask. Other values are infinite, so they are sorted to the end.
    """
    ordered = np.sort(np.where(masks, ratios[:, None, :], np.inf), axis=2)
    mask = np.arange(sizes.size)
    return np.asarray(0.5 * (ordered[:, mask, (sizes - 1) // 2] + ordered[:, mask, sizes // 2]))


def _squares(values: _Array, masks: _Array) -> _Array:
    """Return the sum of squared differences from the mean of the values under each mask."""
    means = np.where(masks, values, 0.0).sum(axis=1) / masks.sum(axis=1)
    return np.asarray((np.where(masks, values - means[:, None], 0.0) ** 2).sum(axis=1))


def exchanged_levels(series: _Array, market: _Array, times: _Array, values: _Array) -> list[tuple[int, int]]:
    """Return pairs of rows from which on two series of a market are swapped.

    At the same time each series jumps to the level of the other, by a fifth or more and by ten times the
    usual step of both. The arguments are as in `peer_changes`.
    """
    if values.size < 2 * _MIN_RUN:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.where(values > 0.0, values, np.nan))
    steps = np.append(np.nan, np.where(series[1:] == series[:-1], np.diff(logs), np.nan))
    jumps = np.flatnonzero(np.abs(steps) > _MIN_JUMP)
    if not 2 <= jumps.size <= _MAX_JUMPS:
        return []
    exchanges = []
    for place, row in enumerate(jumps.tolist()):
        for other in jumps[place + 1 :].tolist():
            if series[row] == series[other] or market[row] != market[other] or times[row] != times[other]:
                continue
            # How far each series ends from the level that the other one had.
            crossed = max(abs(logs[row] - logs[other - 1]), abs(logs[other] - logs[row - 1]))
            usual = max(
                float(np.nanmedian(np.abs(steps[series == code]))) for code in (series[row], series[other])
            )
            is_large = min(abs(steps[row]), abs(steps[other])) > _USUAL_STEPS * usual
            if is_large and crossed < 0.25 * min(abs(steps[row]), abs(steps[other])):
                exchanges.append((row, other))
    return exchanges


def is_interest(rate: float, decimals: int | None = None) -> bool:
    """Return whether a rate [bps/8h] may be the interest rate of a venue's formula, which many rows repeat.

    Such a rate has at most three significant digits, or with `decimals` at most so many decimal places, or it
    is a round interest rate per year: 0.9132 bps are 10 % per year, as on Ethereal from 2026-08-10 on.
    """
    digits = float(f"{rate:.{_DIGITS_OF_FLOOR}g}") if decimals is None else round(rate, decimals)
    if digits == float(f"{rate:.9g}") or (decimals is not None and digits == round(rate, 9)):
        return True
    bps_of_step = 1e4 * _STEP_OF_YEAR / (3.0 * 365.0)
    steps = round(rate / bps_of_step)
    return steps != 0 and abs(rate - steps * bps_of_step) <= _ROUNDED_BPS


def frozen_runs(
    series: _Array, market: _Array, times: _Array, values: _Array, *, is_rate: bool
) -> list[SeriesFault]:
    """Return runs of one value in a series that otherwise changes, while other series of the market change.

    A run has at least six rows, lasts at least a day and is at least a fifth of its series. A value that the
    series also has at other times, such as the floor of a rate, is not a fault. Neither is a round rate. The
    arguments are as in `peer_changes`.
    """
    if values.size < 2 * _MIN_RUN:
        return []
    is_new = np.append(True, (values[1:] != values[:-1]) | (series[1:] != series[:-1]))
    starts = np.flatnonzero(is_new)
    lengths = np.diff(np.append(starts, values.size))
    faults = []
    for place in np.flatnonzero(lengths >= _MIN_RUN).tolist():
        first = int(starts[place])
        steps = int(lengths[place])
        value = float(values[first])
        rows = np.flatnonzero(series == series[first])
        rest = np.append(values[rows[0] : first], values[first + steps : rows[-1] + 1])
        if not np.isfinite(value) or steps < _RUN_SHARE * rows.size:
            continue
        if times[first + steps - 1] - times[first] < _MIN_SPAN_US:
            continue
        if is_rate and is_interest(value, _ROUND_DECIMALS):
            continue
        if rest.size < _MIN_RUN or (rest == value).sum() > _OUTSIDE_SHARE * rows.size:
            continue
        inside = (times >= times[first]) & (times <= times[first + steps - 1]) & (market == market[first])
        others = np.flatnonzero(inside & (series != series[first]))
        is_alone = not others.size or float(is_new[others].mean()) >= _MOVING_SHARE
        if is_alone and float((rest[1:] != rest[:-1]).mean()) >= _MOVING_SHARE:
            faults.append(SeriesFault(first, steps, 1.0))
    return faults


def unchanged_series(series: _Array, times: _Array, values: _Array, *, is_rate: bool) -> list[SeriesFault]:
    """Return series with one value in at least twelve rows over at least a day.

    A rate for which `is_interest` is true, such as 0, is not a fault. The arguments are as in `peer_changes`.
    """
    if not values.size:
        return []
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    lengths = np.diff(np.append(starts, values.size))
    lowest = np.minimum.reduceat(values, starts)
    highest = np.maximum.reduceat(values, starts)
    spans = times[starts + lengths - 1] - times[starts]
    is_still = (lowest == highest) & (lengths >= _STILL_ROWS) & (spans >= _MIN_SPAN_US)
    faults = []
    for place in np.flatnonzero(is_still).tolist():
        value = float(lowest[place])
        if not is_rate or not is_interest(value):
            faults.append(SeriesFault(int(starts[place]), int(lengths[place]), 1.0))
    return faults


def still_levels(series: _Array, times: _Array, values: _Array) -> list[SeriesFault]:
    """Return runs of one value, including 0, over at least six rows and a day; constant series are excluded.

    Use it only for markets that trade at all hours. The arguments are as in `peer_changes`.
    """
    if values.size < _MIN_RUN:
        return []
    is_new = np.append(True, (values[1:] != values[:-1]) | (series[1:] != series[:-1]))
    starts = np.flatnonzero(is_new)
    lengths = np.diff(np.append(starts, values.size))
    sizes = np.bincount(series)
    is_long = (lengths >= _MIN_RUN) & (times[starts + lengths - 1] - times[starts] >= _MIN_SPAN_US)
    is_partial = lengths < sizes[series[starts]]
    return [
        SeriesFault(int(starts[place]), int(lengths[place]), 1.0)
        for place in np.flatnonzero(is_long & is_partial & np.isfinite(values[starts])).tolist()
    ]


def lone_spikes(series: _Array, values: _Array) -> list[SeriesFault]:
    """Return series with at least two values that are over 100 times both of their neighbours."""
    if values.size < _MIN_RUN:
        return []
    inner = values[1:-1]
    before = values[:-2]
    after = values[2:]
    is_inside = (series[1:-1] == series[:-2]) & (series[1:-1] == series[2:]) & (before > 0.0) & (after > 0.0)
    places = np.flatnonzero(is_inside & (inner > _SPIKE * np.fmax(before, after))) + 1
    faults = []
    for code in np.unique(series[places]).tolist():
        spikes = places[series[places] == code]
        if spikes.size >= _MIN_SPIKES:
            factor = float(values[spikes[0]] / max(values[spikes[0] - 1], values[spikes[0] + 1]))
            faults.append(SeriesFault(int(spikes[0]), int(spikes.size), factor))
    return faults


def lone_rates(series: _Array, rates: _Array, by_size: SeriesSizes | None = None) -> list[SeriesFault]:
    """Return series with at least two rates far larger than their neighbours and than the median size.

    The arguments are as in `peer_changes`, with rates in bps per 8 hours.
    """
    if rates.size < _MIN_RUN:
        return []
    sizes = np.abs(rates)
    inner = sizes[1:-1]
    neighbours = np.maximum(sizes[:-2], sizes[2:])  # NaN next to a missing rate, which shows nothing
    is_inside = (series[1:-1] == series[:-2]) & (series[1:-1] == series[2:])
    places = np.flatnonzero(is_inside & (inner > np.maximum(_LONE_RATE * neighbours, _MIN_LONE_BPS))) + 1
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    ends = np.append(starts[1:], rates.size)
    firsts = np.searchsorted(places, starts)
    lasts = np.searchsorted(places, ends)
    has_several = lasts - firsts >= _MIN_SPIKES
    if not has_several.any():
        return []
    medians = (by_size or series_sizes(series, rates)).medians()
    faults = []
    for series_place in np.flatnonzero(has_several).tolist():
        usual = float(medians[series_place])
        high = places[firsts[series_place] : lasts[series_place]]
        high = high[sizes[high] > _LONE_RATE * usual]
        if high.size >= _MIN_SPIKES:
            faults.append(SeriesFault(int(high[0]), int(high.size), float(sizes[high[0]] / max(usual, 1e-9))))
    return faults


def copied_series(series: _Array, market: _Array, times: _Array, values: _Array) -> list[tuple[int, int]]:
    """Return the first rows of each two series of a market that have the same values at the same times.

    Series with fewer than twelve rows or six distinct values are not compared. The arguments are as in
    `peer_changes`.
    """
    if not values.size:
        return []
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    ends = np.append(starts[1:], values.size)
    first_rows: dict[tuple[int, bytes, bytes], int] = {}
    pairs = []
    for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end - first < _STILL_ROWS:
            continue
        of_series = values[first:end]
        key = int(market[first]), of_series.tobytes(), times[first:end].tobytes()
        other = first_rows.setdefault(key, first)
        if other != first and np.unique(of_series[np.isfinite(of_series)]).size >= _MIN_DISTINCT:
            pairs.append((other, first))
    return pairs


def scaled_series(
    series: _Array,
    market: _Array,
    values: _Array,
    *,
    kind: str,
    times: _Array | None = None,
    by_size: SeriesSizes | None = None,
) -> list[SeriesFault]:
    """Return series whose size differs from that of at least two other series of the market, which agree.

    `kind` is ``"price"`` or ``"rate"``; other values are not compared, since their sizes differ between
    venues. The size of a series is its median absolute value. A series of rates is returned if it differs by
    a factor of about 100, 10³, 10⁴ or 10⁶. With `times`, prices must also differ at common times, because a
    venue may have fewer rows, and rates need twelve rows over a day, because a rate may be near 0 for hours.
    The other arguments are as in `peer_changes`.
    """
    if not values.size:
        return []
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    ends = np.append(starts[1:], values.size)
    if len(starts) <= _PEERS:
        return []
    sizes = (by_size or series_sizes(series, values)).medians()
    faults = []
    for name in np.unique(market[starts]).tolist():
        group = np.flatnonzero((market[starts] == name) & np.isfinite(sizes) & (sizes > 0.0))
        # Only the lowest and the highest can be apart from all others: between them the spread is larger.
        max_spread = np.log(_PEER_SPREAD if kind == "rate" else _MAX_PRICE_RATIO)
        ends_of_group = [np.argmin(sizes[group]), np.argmax(sizes[group])] if group.size > _PEERS else []
        for place in np.unique(group[ends_of_group]).tolist():
            peers = group[group != place]
            others = np.log(sizes[peers])
            spread = float(np.max(others) - np.min(others))
            if spread > max_spread:
                continue
            change = float(np.log(sizes[place]) - np.median(others))
            rows = int(ends[place] - starts[place])
            if kind == "rate":
                is_apart = _is_unit_of_rates(change, times, int(starts[place]), rows)
            else:
                sections = np.column_stack([starts, ends])[[place, *peers]]
                is_apart = _is_other_price(change, spread, times, values, sections)
            if is_apart:
                faults.append(SeriesFault(int(starts[place]), rows, float(np.exp(change))))
    return faults


def _is_unit_of_rates(change: float, times: _Array | None, first: int, rows: int) -> bool:
    """Return whether rates over at least a day differ by the factor of a unit; `change` is its logarithm."""
    if not (np.abs(np.abs(change) - _RATE_FACTORS) <= _NEAR).any():
        return False
    if times is None:
        return True
    return rows >= _STILL_ROWS and bool(times[first + rows - 1] - times[first] >= _MIN_SPAN_US)


def _is_other_price(
    change: float, spread: float, times: _Array | None, values: _Array, sections: _Array
) -> bool:
    """Return whether the first series differs from the others, also at times shared with two of them."""
    minimum = max(_PRICE_APART, _PRICE_SPREADS * spread)
    if abs(change) <= minimum:
        return False
    if times is None:
        return True
    own, *others = (slice(first, end) for first, end in sections.tolist())
    ratios = []
    for other in others:
        _, mine, theirs = np.intersect1d(times[own], times[other], return_indices=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            changes = np.log(values[own][mine] / values[other][theirs])
        changes = changes[np.isfinite(changes)]
        if changes.size:
            ratios.append(float(np.median(changes)))
    return len(ratios) >= _PEERS and abs(float(np.median(ratios))) > minimum


def repeated_pair(rates: _Array) -> tuple[float, float] | None:
    """Return two frequent rates of a series that differ by the factor of a unit or by the sign, or None.

    A rate that repeats often is the interest rate of the venue's formula, of which a series has only one. All
    rates must be of one series with one interval.
    """
    values = np.round(rates[np.isfinite(rates)], _RATE_DECIMALS)
    distinct, counts = np.unique(values, return_counts=True)
    minimum = max(_MIN_REPEATED, 0.5 * _REPEATED_SHARE * values.size)
    is_repeated = (counts >= minimum) & (distinct != 0.0)
    if not is_repeated.any():
        return None
    # A venue that rounds coarsely repeats small multiples of its step, of both signs
    multiples = _multiples_of_step(distinct)
    if multiples is not None:
        is_repeated &= np.abs(multiples) >= _MIN_STEPS
    shares = dict(zip(distinct[is_repeated].tolist(), counts[is_repeated] / values.size, strict=True))
    for usual, other in itertools.permutations(shares, 2):
        factor = other / usual
        near = np.abs(factor / _REPEATED_FACTORS - 1.0) < _SAME_RATE
        share = min(shares[usual], shares[other])
        if share < _REPEATED_SHARE:
            near &= _REPEATED_FACTORS >= _LARGE_FACTOR
        is_opposite = usual > 0.0 and abs(factor + 1.0) < _SAME_RATE
        if near.any() or is_opposite:
            return usual, other
    return None


def _multiples_of_step(distinct: _Array) -> _Array | None:
    """Return distinct rates as multiples of the smallest one, or None if a multiple is not a whole number."""
    step = float(np.min(np.abs(distinct[distinct != 0.0])))
    multiples = distinct / step
    is_whole = np.abs(multiples - np.rint(multiples)) < _SAME_RATE * np.fmax(np.abs(multiples), 1.0)
    return np.asarray(multiples) if is_whole.all() else None


def apart_from_peers(series: _Array, market: _Array, times: _Array, values: _Array) -> list[SeriesFault]:
    """Return series of prices that do not move with at least two others of their market.

    Each series is compared by its log distance from the market's median, minus the median of that distance,
    so a constant premium is not a fault. Late rows, rows in another order and a drift are faults. The
    arguments are as in `peer_changes`; the factor is the median size of the distance.
    """
    faults = []
    for name in np.unique(market).tolist():
        # 1. Put the series of the market side by side (series, time).
        rows = np.flatnonzero((market == name) & (values > 0.0))
        codes, row = np.unique(series[rows], return_inverse=True)
        stamps, column = np.unique(times[rows], return_inverse=True)
        if codes.size <= _PEERS or stamps.size < _STILL_ROWS:
            continue
        logs = np.full((codes.size, stamps.size), np.nan)
        logs[row, column] = np.log(values[rows])
        # 2. Compute each series' log distance from the median of the market, without its usual premium.
        is_compared = np.isfinite(logs).sum(axis=0) > _PEERS
        if is_compared.sum() < _STILL_ROWS:
            continue
        logs = logs[:, is_compared]
        apart = logs - np.nanmedian(logs, axis=0)
        has_rows = np.isfinite(apart).sum(axis=1) >= _STILL_ROWS
        apart = apart[has_rows]
        apart -= np.nanmedian(apart, axis=1)[:, None]
        distances = np.nanmedian(np.abs(apart), axis=1)
        usual = float(np.median(distances)) if distances.size else 0.0
        for place in np.flatnonzero(distances > max(_MIN_APART, _USUAL_APART * usual)).tolist():
            of_series = rows[row == np.flatnonzero(has_rows)[place]]
            faults.append(SeriesFault(int(of_series[0]), int(of_series.size), float(distances[place])))
    return faults


def scattered_levels(series: _Array, values: _Array) -> list[SeriesFault]:
    """Return series of levels that vary as if their rows were in random order.

    The arguments are as in `peer_changes`; the factor is the mean squared step between the ranks of adjacent
    rows, divided by the variance of the ranks.
    """
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    ends = np.append(starts[1:], values.size)
    faults = []
    for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
        levels = values[first:end]
        levels = levels[levels > 0.0]
        if levels.size < _MIN_SCATTERED:
            continue
        # Use ranks and the central 90 % of the rows, so that a single outlier does not count.
        ranks = np.argsort(np.argsort(levels, kind="stable"))
        roughness = float(np.mean(np.diff(ranks) ** 2) / ranks.var())
        low, high = np.log(np.quantile(levels, [0.05, 0.95]))
        if high - low > _SCATTERED_SIZE and roughness > _SCATTERED:
            faults.append(SeriesFault(first, end - first, roughness))
    return faults


def mirrored_rates(series: _Array, rates: _Array) -> list[SeriesFault]:
    """Return series that repeat the interest rate of the venues' formula with a negative sign.

    A venue that rounds its rates to steps of about the size of this interest rate may repeat both signs, so
    such venues are excluded. The arguments are as in `peer_changes`, with rates in bps per 8 hours.
    """
    has_interest_size = np.abs(np.abs(rates) - _INTEREST_BPS) < 1e-6
    faults = []
    for code in np.unique(series[has_interest_size & (rates < 0.0)]).tolist():
        rows = np.flatnonzero(series == code)
        of_series = rates[rows]
        negative = int((has_interest_size[rows] & (of_series < 0.0)).sum())
        positive = int((has_interest_size[rows] & (of_series > 0.0)).sum())
        if negative < max(_MIN_REPEATED, _REPEATED_SHARE * rows.size) or negative <= positive:
            continue
        distinct = np.unique(np.round(of_series[np.isfinite(of_series)], _RATE_DECIMALS))
        multiples = _multiples_of_step(distinct)
        is_near = np.abs(np.abs(distinct) - _INTEREST_BPS) < 2e-6
        interest_in_steps = np.inf  # the rates have no common step
        if multiples is not None:
            interest_in_steps = float(np.max(np.abs(multiples[is_near])))
        is_single_size = is_near.all()
        if interest_in_steps >= _MIN_STEPS or is_single_size:
            faults.append(SeriesFault(int(rows[0]), int(rows.size), -1.0))
    return faults
