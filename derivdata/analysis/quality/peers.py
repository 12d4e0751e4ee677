"""Compare each series with other venues of its symbol and other symbols of its venue.

A rate in percent, or per hour instead of per eight hours, has the gaps, runs and shape of a correct one.
Compared with the median of its peers, it is too large or too small, throughout or from some time on.

Two rows are the same if venue, time and value are. The table is searched in blocks of time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.analysis.panels import row_quantiles
from derivdata.analysis.quality.points import Columns, row_quantile
from derivdata.support.arrays import Array, Bools, Floats, Indices

_MIN_SHARED_ROWS = 20
"""Minimum number of common steps on each side of a change."""
_PEERS = 2
_SIZE = np.log(5.0)
_CHANGES = {300.0: np.log(1.6), 60.0: np.log(3.5)}
"""Minimum change of a rate's size (log ratio) by number of days."""
_PRICE = np.log(1.05)
_BLOCKS = 16
_MIN_NOISE = 1e-3
_IN_BLOCK = 3  # minimum number of known steps for the median of a block
# Minimum correlation of moves, and minimum number of steps, to find the lag of two venues.
_TWINS, _TOGETHER = 0.6, 100
# Maximum number of multiplications that OpenBLAS computes on one thread (262,144 in 0.3).
_ON_ONE_THREAD = 200_000
_SURE = 6.0  # minimum size of a lasting change, in standard errors of block medians
_APART = 2.0  # minimum deviation of the median ratio from another size, in standard deviations
_EXACT = 1e-6
_OCTAVES = 3
_MAX_OCTAVES = 4096.0  # more octaves than a double has
# Minimum number of steps on each side of a change at which both venues are at their interest rate.
_PINNED = 6
_KINDS = np.arange(-_OCTAVES, _OCTAVES + 1)[:, None]
_FOLLOWS = 0.35
_SPIKE = 12.0  # minimum difference of a single point from both neighbours, in usual moves
# share of steps with equal signs minus share with different ones: below minus this, the sign is wrong
_SIGNS = 0.3
_DAYS = 5.0  # minimum length of each side of a change of sign, in days
_SURE_OF_SIGN = 6.0
"""Minimum difference of both sides of a change of sign in standard errors, for the best of many times."""


class Comparison(NamedTuple):
    """Findings by series; NaN where there are too few peers or common steps."""

    spikes: Array
    scale_change: Floats
    at: Array
    """Index of the change; −1 without a change."""
    sign_change: Bools
    peer_scale: Floats
    peer_sign: Floats


def compare(
    values: Floats, peers: Floats, octaves: Any = np.nan, *, kind: str = "rate", days: Any = np.inf
) -> Comparison:
    """Compare series (series, steps) over some days with `median_of_others` and `octaves_to_others` of each.

    Prices of one coin are within 5 % of each other; rates and amounts may differ by factors. The threshold of
    a fault follows from the pair's noise. For rates it also follows from the steps at which the venue and its
    peers are both pinned to their interest rate: these have an exact ratio, 2 if a 4-hour rate is read as an
    eight-hour rate.
    """
    # 1. Set thresholds by kind, and find the steps that a series shares with its peers.
    prices = kind == "price"
    changes = _PRICE if prices else _SIZE
    if kind == "rate":  # within a few days, rates may differ for long enough to look like another unit
        changes = np.select(
            [np.asarray(days) >= minimum for minimum in _CHANGES], list(_CHANGES.values()), _SIZE
        )
    both_known = np.isfinite(values) & np.isfinite(peers)
    values = np.where(both_known, values, np.nan)
    peers = np.where(both_known, peers, np.nan)
    enough = both_known.sum(axis=1) >= 2 * _MIN_SHARED_ROWS

    # 2. Take logarithms of sizes, with a floor, so that a rate that crosses zero is not a change of size.
    share = 0.0 if prices else 0.02
    floor = share * row_quantile(np.abs(peers), 0.5)[:, None] + 1e-300
    ratio = np.log(np.abs(values) + floor) - np.log(np.abs(peers) + floor)
    agreement = np.where(both_known, np.sign(values) * np.sign(peers), np.nan)

    # 3. Find a lasting change of size, and a size that is wrong throughout.
    change, at = _change(ratio)
    change = np.where(np.abs(change) >= changes, change, 0.0)
    low, middle, high = row_quantiles(ratio, 0.25, 0.5, 0.75)
    minimum = _PRICE if prices else np.maximum(_APART * (high - low) / 1.349, _SIZE)
    size = np.where(np.abs(middle) >= minimum, middle, 0.0)

    # 4. Rates that are pinned to their interest rate have an exact ratio, which noise does not hide.
    if kind == "rate":
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(values / peers)
        octaves = np.where(both_known, octaves, np.nan)
        some = np.isfinite(octaves).sum(axis=1) >= _PINNED
        pinned = np.where(some, np.log(2.0) * row_quantile(octaves, 0.5), 0.0)
        # Another interest rate is not another unit. It shifts all rates equally; a third counts, because
        # medians are noisy.
        as_much = (middle * pinned >= _FOLLOWS * pinned**2) & (pinned != 0.0)
        size = np.where((size == 0.0) & as_much, pinned, size)
        moved, place = _change_of_octave(octaves)
        as_much = (_step(ratio, place) * moved >= _FOLLOWS * moved**2) & (moved != 0.0)
        better = (change == 0.0) & as_much
        change = np.where(better, moved, change)
        at = np.where(better, place, at)
    changed = enough & (change != 0.0)
    mean = np.nansum(agreement, axis=1) / np.maximum(both_known.sum(axis=1), 1)
    return Comparison(
        _spikes(values, values - peers),
        np.where(enough, np.where(changed, np.exp(change), 1.0), np.nan),
        np.where(changed, at, -1),
        enough & _changes_sign(agreement, values, peers, np.asarray(days)),
        np.where(enough, np.exp(size), np.nan),
        np.where(enough, np.where(mean < -_SIGNS, -1.0, 1.0), np.nan),
    )


def lag_to_twin(values: Floats) -> Floats:
    """Return the number of steps by which each series follows the most similar one, 0 without one.

    The lag has the highest correlation of moves (clipped at three usual moves) among −1, 0 and 1 steps.
    Venues may pay the rate of the previous interval, so a shift is visible only in a series that moves like
    another one.
    """
    if values.shape[1] < _TOGETHER:
        return np.zeros(len(values))
    # 1. Divide moves by the usual move and clip them, so that a few large ones do not decide.
    moves = np.diff(values, axis=1)
    size = row_quantile(np.where(moves == 0.0, np.nan, np.abs(moves)), 0.5)[:, None]
    moves = np.clip(moves / size, -3.0, 3.0)
    is_finite = np.isfinite(moves)
    moves = np.where(is_finite, moves, 0.0)
    weights = is_finite.astype(np.float64)
    squares = moves**2

    # 2. Find the highest correlation with another series one step before, at the same step, and one step
    # after.
    best = np.zeros((3, len(values)))
    own = slice(1, -1)
    for place, other in enumerate((slice(2, None), slice(1, -1), slice(0, -2))):
        products = _products(moves[:, own], moves[:, other])
        sizes = _products(squares[:, own], weights[:, other]) * _products(weights[:, own], squares[:, other])
        with np.errstate(divide="ignore", invalid="ignore"):
            together = products / np.sqrt(sizes)
        few = _products(weights[:, own], weights[:, other]) < _TOGETHER
        few |= np.eye(len(values), dtype=bool)
        best[place] = np.where(few, 0.0, np.nan_to_num(together)).max(axis=1, initial=0.0)
    return np.where(best.max(axis=0) >= _TWINS, best.argmax(axis=0) - 1.0, 0.0)


def _products(first: Floats, second: Floats) -> Floats:
    """Return the sums over steps of the products of each pair of series.

    The sums are computed in blocks that BLAS multiplies on one thread. For such small matrices several
    threads are slower, and they spin between the calls.
    """
    piece = max(_ON_ONE_THREAD // len(first) ** 2, 16)
    starts = range(0, first.shape[1], piece)
    total = np.zeros((len(first), len(second)))
    for start in starts:
        total += first[:, start : start + piece] @ second[:, start : start + piece].T
    return total


def median_of_others(values: Floats) -> Floats:
    """Return the median of the other series at each step; NaN if fewer than two have a value.

    Each step is sorted once. Without the value of rank r, the k-th value of the rest is the k-th of all for k
    < r, otherwise the next one.
    """
    order = np.argsort(values, axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(len(values))[:, None], order.shape), axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    here = np.isfinite(values)
    others = here.sum(axis=0) - here
    rank = np.where(here, rank, len(values))
    middle = [np.maximum(others - 1, 0) // 2, others // 2]
    lower, upper = (
        np.take_along_axis(ordered, np.minimum(place + (place >= rank), len(values) - 1), axis=0)
        for place in middle
    )
    return np.where(others >= _PEERS, 0.5 * (lower + upper), np.nan)


def octaves_to_others(values: Floats) -> Floats:
    """Return the base-2 logarithm of the ratio to other venues, where this ratio is exactly a power of two.

    It is computed at each step from the median exponent of at least two others with the same leading binary
    digits, which are venues pinned to one interest rate. NaN without such venues.
    """
    with np.errstate(divide="ignore"):
        size: Any = np.log2(np.abs(values))
    size = np.where(np.isfinite(size), size, np.nan)
    whole = np.round(size)
    digits = np.round((size - whole) / _EXACT) + np.sign(values) / _EXACT
    # Sort by digits, then by octave.
    order = np.argsort(digits * _MAX_OCTAVES + whole, axis=0, kind="stable")
    exponent = np.take_along_axis(whole, order, axis=0)
    ordered = np.take_along_axis(digits, order, axis=0)
    same = np.zeros(values.shape, dtype=np.bool_)
    same[1:] = ordered[1:] == ordered[:-1]
    place = np.arange(len(values))[:, None]
    begin: Any = np.maximum.accumulate(np.where(same, 0, place), axis=0)
    ends = np.where(np.roll(same, -1, axis=0), len(values), place + 1)
    number = np.minimum.accumulate(ends[::-1], axis=0)[::-1] - begin
    middle = begin + (number - 2) // 2
    other = np.minimum(middle + (middle >= place), len(values) - 1)
    apart = exponent - np.take_along_axis(exponent, other, axis=0)
    octaves = np.empty(values.shape)
    has_peers = (number > _PEERS) & (np.abs(apart) <= _OCTAVES)
    np.put_along_axis(octaves, order, np.where(has_peers, apart, np.nan), axis=0)
    return octaves


def _step(ratio: Floats, at: Array) -> Floats:
    """Return the increase of each row's median at a position."""
    places = np.arange(ratio.shape[1])
    is_before = places < at[:, None]
    before = row_quantile(np.where(is_before, ratio, np.nan), 0.5)
    after = row_quantile(np.where(is_before, np.nan, ratio), 0.5)
    return np.asarray(after - before)


def _change(ratio: Floats) -> tuple[Floats, Array]:
    """Return the most significant lasting change of each row and its position; 0 and −1 for none.

    The row is divided into blocks, and the mean block medians before and after each position are compared. A
    change is a difference of more than six standard errors, estimated from the spread of medians on one side.
    """
    rows, width = ratio.shape
    number = int(np.clip(width // 5, 4, _BLOCKS))
    edges = np.linspace(0, width, number + 1).astype(np.intp)
    medians = np.full((rows, number), np.nan)
    for place, (first, stop) in enumerate(itertools.pairwise(edges)):
        block = ratio[:, first:stop]
        some = np.isfinite(block).sum(axis=1) >= _IN_BLOCK
        medians[:, place] = np.where(some, row_quantile(block, 0.5), np.nan)
    is_finite = np.isfinite(medians)
    level = np.where(is_finite, medians, 0.0)
    best = np.zeros(rows)
    sure = np.full(rows, _SURE)
    at = np.full(rows, -1)
    for split in range(2, number - 1):
        sides = slice(None, split), slice(split, None)
        counts = [is_finite[:, side].sum(axis=1) for side in sides]
        means = [level[:, side].sum(axis=1) / np.maximum(n, 1) for side, n in zip(sides, counts, strict=True)]
        squares = sum(
            (is_finite[:, side] * (level[:, side] - mean[:, None]) ** 2).sum(axis=1)
            for side, mean in zip(sides, means, strict=True)
        )
        spread = np.sqrt(squares / np.maximum(counts[0] + counts[1] - 2, 1)) + _MIN_NOISE
        error = spread * np.sqrt(1.0 / np.maximum(counts[0], 1) + 1.0 / np.maximum(counts[1], 1))
        change = means[1] - means[0]
        better = (np.minimum(*counts) >= 2) & (np.abs(change) > sure * error)
        best = np.where(better, change, best)
        at = np.where(better, edges[split], at)
        sure = np.where(better, np.abs(change) / error, sure)
    return best, _refined(ratio, best, at)


def _change_of_octave(octaves: Floats) -> tuple[Floats, Array]:
    """Return the change of each row between two octaves that most steps support, and its position.

    The change is a logarithm. On each side, at least `_PINNED` steps must have an octave, and four fifths of
    them the same one.
    """
    change = np.zeros(len(octaves))
    at = np.full(len(octaves), -1)
    for row in np.flatnonzero(np.isfinite(octaves).sum(axis=1) >= 2 * _PINNED):
        before = np.cumsum(octaves[row] == _KINDS, axis=1)
        sides = before, before[:, -1:] - before
        count = np.array([side.sum(axis=0) for side in sides])
        most = np.array([np.max(side, axis=0) for side in sides])
        first = sides[0].argmax(axis=0)
        then = sides[1].argmax(axis=0)
        sure = ((count >= _PINNED) & (most >= 0.8 * count)).all(axis=0) & (first != then)
        if sure.any():
            best = int(np.argmax(np.where(sure, most.sum(axis=0), 0)))
            change[row] = np.log(2.0) * (then[best] - first[best])
            at[row] = best + 1
    return change, at


def _refined(ratio: Floats, change: Floats, at: Array) -> Array:
    """Move each change to the time that best separates the values below its middle from those above it."""
    refined = at.copy()
    for row in np.flatnonzero(at >= 0):
        middle = 0.5 * (np.nanmedian(ratio[row, : at[row]]) + np.nanmedian(ratio[row, at[row] :]))
        side = np.nan_to_num(np.sign(ratio[row] - middle)) * np.sign(change[row])
        refined[row] = int(np.argmin(np.cumsum(side))) + 1
    return refined


def _changes_sign(agreement: Floats, values: Floats, peers: Floats, days: Any) -> Bools:
    """Return whether the sign agrees with the peers on one side of some time and disagrees on the other.

    Both sides last five days, because a rate may well be below zero for a shorter time while others are
    above. If the signs differ, the series moves against its peers: a low rate of the right sign moves with
    them.

    At the time with the largest difference of the sides, if it exceeds the series' own noise: their
    difference over its standard error, which accounts for autocorrelation.
    """
    if agreement.shape[1] < 2 * _MIN_SHARED_ROWS:  # too few steps; 0 if all series lack values
        return np.zeros(len(agreement), dtype=np.bool_)
    is_finite = np.isfinite(agreement)
    total = np.nancumsum(agreement, axis=1)
    number = np.cumsum(is_finite, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        before = total / number
        after = (total[:, -1:] - total) / (number[:, -1:] - number)
        share = np.sqrt(1.0 / number + 1.0 / (number[:, -1:] - number))
        minimum = np.maximum(_MIN_SHARED_ROWS, _DAYS * number[:, -1] / days)[:, None]
    enough = (number >= minimum) & (number[:, -1:] - number >= minimum)
    opposite = ((before > _SIGNS) & (after < -_SIGNS)) | ((before < -_SIGNS) & (after > _SIGNS))
    apart = np.where(enough & opposite, np.abs(before - after) / share, 0.0)
    at = apart.argmax(axis=1)
    rows = np.arange(len(at))
    sides = np.where(
        np.arange(agreement.shape[1]) <= at[:, None], before[rows, at][:, None], after[rows, at][:, None]
    )
    noise = np.where(is_finite, agreement - sides, 0.0)
    variance = (noise**2).sum(axis=1) / np.maximum(number[:, -1], 1)
    together = (noise[:, 1:] * noise[:, :-1]).sum(axis=1) / np.maximum(number[:, -1], 1)
    slope = np.clip(together / np.maximum(variance, 1e-12), 0.0, 0.99)
    error = np.sqrt(variance * (1.0 + slope) / (1.0 - slope)) + 1e-12
    opposed = np.where(sides < 0.0, 1.0, np.nan)  # selects the side with differing signs
    against = np.nansum(_side(values * opposed) * _side(peers * opposed), axis=1) < 0.0
    return np.asarray((apart[rows, at] / error > _SURE_OF_SIGN) & against)


def _side(values: Floats) -> Floats:
    """Return 1 for a value above the median of its row, −1 below, 0 at it."""
    return np.asarray(np.sign(values - row_quantile(values, 0.5)[:, None]))


def _spikes(values: Floats, apart: Floats) -> Array:
    """Count single points that differ from both neighbours, in the series and relative to the peers."""
    if values.shape[1] < 3:
        return np.zeros(len(values), dtype=np.int64)
    lonely = np.ones((len(values), values.shape[1] - 2), dtype=bool)
    for series in (values, apart):
        up = series[:, 1:-1] - series[:, :-2]
        down = series[:, 1:-1] - series[:, 2:]
        minimum = np.where(np.sign(up) == np.sign(down), np.minimum(np.abs(up), np.abs(down)), 0.0)
        moves = np.abs(np.diff(series, axis=1))
        half, most = row_quantiles(moves, 0.5, 0.9)
        usual = np.maximum(half, most / 2.0)[:, None]
        lonely &= np.nan_to_num(minimum) > _SPIKE * usual
    return np.asarray(lonely.sum(axis=1))


_RUN = 6  # minimum length of a run of another symbol's rows
_OFTEN = 0.01  # maximum share of a series with one value for it to be informative
_ALIKE = 8  # number of symbols with a common value from which it belongs to the whole venue
_BLOCK_ROWS = 100_000
_MAX_BLOCKS = 100
_MAX_COUNTED = 300_000
_SAMPLE = 10_000
_SLOTS = 1 << 20
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def rows_of_other_symbols(
    columns: Columns, place: NDArray[np.int32], length: Array, report: pd.DataFrame
) -> Array:
    """Count the rows of each series that belong to another symbol of its venue, in runs of at least `_RUN`.

    Values that are frequent in a series, such as its floor, are uninformative and are skipped.

    Parameters
    ----------
    columns
        Columns of the table to compare.
    place
        Place of each row among the points of all series, one series after the other; −1 of duplicates.
    length
        Number of points of each series.
    report
        The keys of each series.
    """
    counts = np.zeros(len(report), dtype=np.int64)
    if not {"symbol", "exchange"} <= set(report.columns):
        return counts
    venue = report.groupby([name for name in ("exchange", "kind") if name in report]).ngroup().to_numpy()
    same, values, is_alike = _same_rows(columns, place, venue)
    if same.empty:
        return counts
    number = same[["owner", "value"]].merge(values, how="left")["rows"].to_numpy()
    often = number > np.maximum(_OFTEN * length[same["owner"]], 2)
    passed_over = is_alike
    passed_over[same["place"].to_numpy()[often]] = True
    same = same[~often]
    places = same["place"].to_numpy()
    same = same.assign(row=places - np.cumsum(passed_over, dtype=np.int32)[places])
    pairs = same.merge(same, on="match")
    pairs = pairs[pairs["owner_x"] != pairs["owner_y"]].sort_values(["owner_x", "owner_y", "row_x"])
    steps = pairs[["owner_x", "owner_y", "row_x", "row_y"]].diff()
    run = (~(steps == [0, 0, 1, 1]).all(axis=1)).cumsum()
    shared = pairs[run.map(run.value_counts()) >= _RUN].drop_duplicates("row_x")
    return counts + np.bincount(shared["owner_x"], minlength=len(report))


def _same_rows(
    columns: Columns, place: NDArray[np.int32], venue: Indices
) -> tuple[pd.DataFrame, pd.DataFrame, Bools]:
    """Return rows shared by few symbols, the frequency of their values, and rows shared by many.

    The first result has the columns ``match`` (equal for identical rows), ``owner``, ``value`` and ``place``.
    The last one is a mask over points.
    """
    shared: list[pd.DataFrame] = []
    values: list[pd.DataFrame] = []
    is_alike = np.zeros(place.size, dtype=bool)
    matches = 0
    for rows in _blocks_of_time(columns.stamps):
        rows = rows[place[rows] >= 0]
        value = columns.value[rows] + 0.0  # turns −0 into 0
        owner = columns.series[rows]
        stamps = columns.stamps[rows]
        likely = _likely_same(venue[owner], stamps, value) & ~np.isnan(value)
        rows = rows[likely]
        value = value[likely]
        owner = owner[likely]
        stamps = stamps[likely]
        order = np.lexsort([value, stamps, venue[owner]])
        owner = owner[order]
        value = value[order]
        stamps = stamps[order]
        rows = rows[order]
        of_venue = venue[owner]
        differs = (value[1:] != value[:-1]) | (stamps[1:] != stamps[:-1]) | (of_venue[1:] != of_venue[:-1])
        match = np.cumsum(np.append(0, differs))[: rows.size]
        size = np.bincount(match)[match] if rows.size else match
        frame = pd.DataFrame({"match": match + matches, "owner": owner, "value": value, "place": place[rows]})
        matches += rows.size
        frame = frame[size > 1]
        size = size[size > 1]
        values.append(frame[["owner", "value"]].assign(rows=1))
        if sum(len(counted) for counted in values) > _MAX_COUNTED:
            values = [_counted(values)]
        is_alike[frame["place"].to_numpy()[size > _ALIKE]] = True
        shared.append(frame[size <= _ALIKE])
    return pd.concat(shared, ignore_index=True), _counted(values), is_alike


def _counted(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the number of rows of each series and value."""
    rows = pd.concat(frames, ignore_index=True)
    return rows.groupby(["owner", "value"], as_index=False)["rows"].sum()


def _likely_same(venue: Array, stamps: Array, value: Array) -> Bools:
    """Return a mask of rows that may equal another row in venue, time and value, with few false positives.

    Rows are numbered in the slots of their hashes. A row may have a duplicate if its slot contains another
    number.
    """
    mixed: Any = (stamps.view(np.uint64) + venue.astype(np.uint64)) * _MIX[0]
    mixed = (mixed ^ value.view(np.uint64)) * _MIX[1]
    mixed ^= mixed >> np.uint64(32)
    slot = ((mixed * _MIX[0]) >> np.uint64(44)).astype(np.int32)
    number = np.arange(slot.size, dtype=np.int32)
    last = np.empty(_SLOTS, dtype=np.int32)
    last[slot] = number
    alone = last[slot] == number
    last[slot[~alone]] = -1
    return np.asarray(last[slot] < 0)


def _blocks_of_time(stamps: Array) -> Iterator[Indices]:
    """Yield the rows of blocks of time; rows of one time are in one block."""
    most = max(_BLOCK_ROWS, stamps.size // _MAX_BLOCKS)
    if (stamps[1:] >= stamps[:-1]).all():
        ends = np.append(np.searchsorted(stamps, stamps[most::most]), stamps.size)
        for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            yield np.arange(begin, end)
        return
    sample = np.sort(stamps[:: max(stamps.size // _SAMPLE, 1)])
    edges = np.unique(sample[:: max(sample.size * most // stamps.size, 1)])
    number = np.searchsorted(edges[1:], stamps, side="right").astype(np.int16)
    for block in range(edges.size):
        yield np.flatnonzero(number == block)
