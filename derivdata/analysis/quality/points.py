"""Points of series, read in blocks of whole series, with vectorised statistics of many series.

Series of similar length are the rows of one matrix: strictly ascending times and their values, padded at the
end. Every statistic is computed along the rows.

For missing points, an archive's ledger shows which times were never requested and are therefore unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.analysis.panels import last_valid, row_quantiles
from derivdata.support import times
from derivdata.support.arrays import Array, Bools, Floats, Indices
from derivdata.tables.frames import require_columns
from derivdata.tables.payments import CONFIRMING_GAPS, confirmed_runs

_MINUTE = 60e6
_MAD_TO_STD = 1.4826
_MAX_THINNED = 60  # maximum number of gaps in a stretch whose every second row counts as missing
_DAY = 86_400_000_000  # µs
_CLOSES = 20 * 3_600_000_000  # close in New York in summer, after 00:00 UTC [µs]
_OPENS = 15 * 3_600_000_000  # after the opening there in winter (14:30), after 00:00 UTC [µs]
_CONSTANT = 1e-9  # relative difference below which values count as equal
_STALE = 12  # minimum run of a value that is otherwise rare in the series
_STALE_SHARE = 0.01  # maximum share of the other rows with a value for it to be rare


class Batch(NamedTuple):
    """Series side by side."""

    stamps: Array
    """Microseconds since 1970, int64."""
    value: Floats
    there: Bools
    """False in the padding."""


def row_quantile(values: Floats, share: float) -> Floats:
    """Return the linear quantile of each row without its NaN; NaN if the whole row is NaN."""
    return row_quantiles(values, share)[0]


def run_lengths(same: Bools) -> Array:
    """Return the length of the surrounding run of True at each position, 0 for False."""
    size = same.shape[-1]
    places = np.broadcast_to(np.arange(size), same.shape)
    before = np.maximum.accumulate(np.where(same, -1, places), axis=-1)  # position of the last False
    after = np.minimum.accumulate(np.where(same, size, places)[..., ::-1], axis=-1)[..., ::-1]
    return np.where(same, after - before - 1, 0)


def steps_in_force(batch: Batch, stated: Floats | None) -> tuple[Floats, Floats]:
    """Return the gaps between rows [µs], NaN in the padding, and the applicable step at each gap.

    A new step is accepted after three consecutive gaps of its length, from the first of them on. A single
    longer gap is missing data. If the table has a step of which the rows' own is a multiple (`stated` [h] for
    each gap, NaN for none), the table's step applies: every second row is missing. The same applies in a
    stretch of doubled gaps between two of the same single ones.
    """
    # 1. Round gaps to minutes, because timestamps are late by seconds, or to steps below a minute.
    gaps = np.where(batch.there[:, 1:], np.diff(batch.stamps, axis=1), np.nan)
    if not gaps.shape[1]:
        return gaps, gaps
    usual = row_quantile(gaps, 0.5)[:, None]
    unit = np.where(usual >= _MINUTE, _MINUTE, np.maximum(usual, 1.0))
    rounded = np.maximum(np.round(gaps / unit), 1.0) * unit

    # 2. Find the last gap that equal gaps confirm.
    equal = np.zeros(gaps.shape, dtype=bool)
    equal[:, 1:] = rounded[:, 1:] == rounded[:, :-1]
    last = last_valid(confirmed_runs(equal) & np.isfinite(rounded))

    # 3. Before the first confirmed gap, use the most frequent of the first twelve, on ties the shortest.
    lead = np.sort(rounded[:, : 4 * CONFIRMING_GAPS], axis=1)
    number = (lead[:, :, None] == lead[:, None, :]).sum(axis=2)
    first = np.take_along_axis(lead, number.argmax(axis=1)[:, None], axis=1)
    steps = np.where(last >= 0, np.take_along_axis(rounded, np.maximum(last, 0), axis=1), first)

    # 4. Find series whose step is a multiple of the step that the table states.
    if stated is not None:
        multiple = steps / (stated * 3_600e6)
        thinned = (np.round(multiple) >= 2.0) & (np.abs(multiple - np.round(multiple)) <= 0.05)
        steps = np.where(thinned, stated * 3_600e6, steps)
    _fill_thinned(steps, gaps)
    return gaps, np.where(np.isfinite(gaps), steps, np.nan)


def _fill_thinned(steps: Floats, gaps: Floats) -> None:
    """Replace, in place, a short run of doubled steps between equal single ones by the single step."""
    changes = (steps[:, 1:] != steps[:, :-1]) & np.isfinite(gaps[:, 1:])
    for row in np.flatnonzero(changes.sum(axis=1) >= 2):
        row_steps = steps[row, np.isfinite(gaps[row])]
        starts = np.append(0, np.flatnonzero(np.diff(row_steps) != 0) + 1)
        ends = np.append(starts[1:], row_steps.size)
        for run in range(1, starts.size - 1):
            before = row_steps[starts[run - 1]]
            after = row_steps[starts[run + 1]]
            is_doubled = row_steps[starts[run]] == 2.0 * before and after == before
            if is_doubled and ends[run] - starts[run] <= _MAX_THINNED:
                steps[row, starts[run] : ends[run]] = before
                row_steps[starts[run] : ends[run]] = before


def missing_in_gaps(gaps: Floats, steps: Floats) -> Array:
    """Return the number of missing rows in each gap by the applicable step, 0 in the padding."""
    with np.errstate(invalid="ignore"):
        missing = np.maximum(np.round(gaps / steps) - 1.0, 0.0)
    return np.where(np.isfinite(gaps), missing, 0.0).astype(np.int64)


def completeness(gaps: Floats, steps: Floats, count: Array) -> dict[str, Any]:
    """Count missing rows by the applicable steps."""
    missing_rows = missing_in_gaps(gaps, steps)
    has_missing = missing_rows > 0
    missing = missing_rows.sum(axis=1)
    return {
        "step_hours": row_quantile(steps, 0.5) / 3_600e6,
        "expected": count + missing,
        "missing": missing,
        "gaps": has_missing.sum(axis=1),
        "longest_gap_hours": np.where(has_missing, gaps, 0.0).max(axis=1, initial=0.0) / 3_600e6,
        "interval_changes": ((np.diff(steps, axis=1) != 0) & np.isfinite(steps[:, 1:])).sum(axis=1),
    }


def value_figures(value: Floats, stamps: Array, outlier: float) -> dict[str, Any]:
    """Describe the values of each row without its NaN: frozen, capped, stale and outlying ones."""
    # 1. Move NaN to the end, so that runs continue across missing values.
    order = np.argsort(np.isnan(value), axis=1, kind="stable")
    value = np.take_along_axis(value, order, axis=1)
    stamps = np.take_along_axis(stamps, order, axis=1)
    finite = np.isfinite(value)
    number = finite.sum(axis=1)
    some = number > 0

    # 2. Find runs of one value, and the share of points at the minimum and the maximum.
    repeats = np.zeros(value.shape, dtype=bool)
    repeats[:, 1:] = finite[:, 1:] & (value[:, 1:] == value[:, :-1])
    lowest = np.where(finite, value, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(finite, value, -np.inf).max(axis=1, initial=-np.inf)
    share = {
        name: np.where(some, (value == end[:, None]).sum(axis=1) / np.maximum(number, 1), np.nan)
        for name, end in (("at_low_share", lowest), ("at_high_share", highest))
    }
    runs = run_lengths(repeats)

    # 3. Count points that are far from the median.
    middle = row_quantile(value, 0.5)
    apart = np.abs(value - middle[:, None])
    scale = _spread(apart, middle)
    far = (apart > outlier * scale[:, None]) & (scale > 0)[:, None]
    stale, closed, padded = _long_runs(value, stamps, runs)
    return {
        "frozen": np.where(some, runs.max(axis=1, initial=0) + 1, 0),
        "stale": stale,
        "session_closed": closed,
        "padded": padded,
        **share,
        "outliers": (far | _lone_spikes(apart, middle)).sum(axis=1),
    }


def _lone_spikes(apart: Floats, middle: Floats) -> Bools:
    """Return a mask of deviating points in an otherwise constant series.

    These are single points, at most one in a hundred, that differ from the constant by more than half of its
    size.
    """
    finite = np.isfinite(apart)
    off = finite & (apart > _CONSTANT * np.abs(middle)[:, None] + 1e-300)
    alone = off.copy()
    alone[:, 1:] &= ~off[:, :-1]
    alone[:, :-1] &= ~off[:, 1:]
    number = finite.sum(axis=1)
    count = off.sum(axis=1)
    constant = (count > 0) & (count <= np.maximum(1, number // 100)) & (number >= _STALE)
    constant &= count == alone.sum(axis=1)
    far = apart > 0.5 * np.abs(middle)[:, None]
    return np.asarray(off & far & constant[:, None])


def _spread(apart: Floats, middle: Floats) -> Floats:
    """Return a robust standard deviation that is positive even if most values are at one level.

    It is the largest of three estimates: from the median, the third quartile and the 97th percentile of the
    distances from the median, scaled for normal values. A rate at its floor at least half of the time has a
    median distance of 0, or of the rounding of a unit conversion. Then the other two describe the remaining
    values. If they are 0 as well, the median distance of the values off the floor is used. Percentiles use
    the lower value, so that one outlier among few values does not hide itself.
    """
    level = _CONSTANT * np.abs(middle) + 1e-300
    ordered = np.sort(apart, axis=1)
    last = np.maximum(np.isfinite(ordered).sum(axis=1) - 1, 0)
    estimates = [row_quantile(apart, 0.5) * _MAD_TO_STD]
    for share, scale in ((0.75, 0.8693), (0.97, 0.4608)):  # 1 / Φ⁻¹((1 + share) / 2)
        place = np.floor(last * share).astype(np.intp)[:, None]
        quantile = np.take_along_axis(ordered, place, axis=1)[:, 0] if ordered.shape[1] else middle
        estimates.append(quantile * scale)
    spread = np.max(estimates, axis=0)
    off = row_quantile(np.where(apart > level[:, None], apart, np.nan), 0.5) * _MAD_TO_STD
    return np.asarray(np.where(spread > level, spread, np.where(np.isfinite(off), off, 0.0)))


def _long_runs(value: Floats, stamps: Array, runs: Array) -> tuple[Array, Array, Array]:
    """Count the rows of long runs of one value: stale ones, closed sessions, and padding at the end.

    A stale run has a value that is otherwise rare in the series. Or its value is frequent, like a floor, but
    its other runs are at most a third as long; then the run needs three times the usual minimum of rows.
    Closed sessions are runs over a weekend, or over at least two nights. Padding is a long run at the end of
    a series that moved before, of a value that is otherwise rare, as in rows that are still written after a
    delisting.
    """
    stale = np.zeros(len(value), dtype=np.int64)
    closed = np.zeros(len(value), dtype=np.int64)
    padded = np.zeros(len(value), dtype=np.int64)
    for row in np.flatnonzero(runs.max(axis=1, initial=0) >= _STALE - 1):
        ends = np.flatnonzero((runs[row] >= _STALE - 1) & (np.append(runs[row][1:], 0) == 0))
        finite_count = int(np.isfinite(value[row]).sum())
        starts = ends - runs[row, ends]
        lengths = runs[row, ends] + 1
        occurrences = np.array([int((value[row] == value[row, end]).sum()) for end in ends])
        # A rate at its floor is also constant at night. The price of a closed market differs each time.
        is_rare = occurrences - lengths <= _STALE_SHARE * finite_count
        sessions = is_rare & _closed_sessions(stamps[row, starts], stamps[row, ends], starts == 0)
        closed[row] = int((runs[row, ends[sessions]] + 1).sum())
        for end in ends[~sessions]:
            length = int(runs[row, end]) + 1
            is_elsewhere = value[row] == value[row, end]
            rare = int(is_elsewhere.sum()) - length <= _STALE_SHARE * finite_count
            is_elsewhere[end - length + 1 : end + 1] = False
            longest = int(runs[row][is_elsewhere].max(initial=0)) + 1
            rows_before = finite_count - length
            changes_before = int((runs[row, :rows_before] == 0).sum())
            moved_before = rows_before >= _STALE and 2 * changes_before > rows_before
            if end == finite_count - 1 and length >= 2 * _STALE and rare and moved_before:
                padded[row] = length
            elif length <= finite_count // 2 and (rare or length >= max(3 * longest, 3 * _STALE)):
                stale[row] += length
    return stale, closed, padded


def _closed_sessions(first: Array, last: Array, is_first: Bools) -> Bools:
    """Return a mask of runs [µs] between the close of a stock exchange and its next opening.

    The session is closed from 20:00 UTC on a weekday (16:00 in New York in summer) to 15:00 on the next one.
    A single night may be an inactive market, so sessions need at least two nights or a weekend.
    """
    day = first // _DAY
    weekday = (day + 3) % 7  # 0 is Monday; 1970-01-01 was a Thursday
    until = (day + np.where(weekday == 4, 3, 1)) * _DAY + _OPENS
    at_night = (weekday < 5) & (first - day * _DAY >= _CLOSES) & (last <= until)
    # a series may begin while the exchange is closed
    at_night |= is_first & (weekday < 5) & (last <= day * _DAY + _OPENS)
    at_night |= is_first & (weekday >= 5) & (last <= (day + 7 - weekday) * _DAY + _OPENS)
    over_weekend = at_night & (weekday == 4) & (last >= (day + 2) * _DAY)
    return np.asarray(over_weekend | (at_night & (at_night.sum() >= 2)))


Numbers: TypeAlias = NDArray[np.int16] | NDArray[np.int32]
"""Series of each row: two bytes are enough for most tables."""

_BLOCK_ROWS = 150_000
_MAX_BLOCKS = 64  # maximum number of blocks, each of which is a pass over the series numbers
_CHUNK = 1_000_000
_MAX_COMBINATIONS = 1 << 22


class Columns(NamedTuple):
    """Examined columns of a table, in the order of its rows."""

    series: Numbers
    """Number of each row's series, −1 where a key is missing."""
    stamps: Array
    """Microseconds since 1970."""
    value: Floats
    stated: Floats | None
    """Stated hours of the step up to each row; None if the table does not state steps."""
    settled: Bools | None
    """Mask of settlements; None if the table does not distinguish them."""
    expiry: Array | None
    """Expiry of each series [µs since 1970], after which it has no rows; NaT for none."""


class Block(NamedTuple):
    """Rows of consecutive series: all series of some symbols."""

    rows: Indices
    """In the order of the table."""
    first: int
    """Number of the first series."""
    number: int
    """Number of series."""


def columns_of(table: pd.DataFrame, column: str, series: Numbers) -> Columns:
    """Return the examined columns of a table; columns of the right type are not copied."""
    stated = settled = expiry = None
    if "interval_hours" in table.columns:
        stated = table["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
        if "kind" in table.columns:  # sampled rates also have an interval, but may be polled every second
            settled = (table["kind"] == "settled").to_numpy(dtype=bool, na_value=False)
    if "expiry" in table.columns:
        expiry = times.stamps_of(table["expiry"])
    stamps = times.stamps_of(table["time"])
    value = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
    return Columns(series, stamps, value, stated, settled, expiry)


def numbered_series(table: pd.DataFrame, keys: Sequence[str]) -> tuple[Numbers, Indices]:
    """Return the number of each row's series in the order of the keys, and the first row of each series.

    A row without a key has the number −1. Without keys all rows are one series.
    """
    series: Any = np.zeros(len(table), dtype=np.int32)
    number = min(len(table), 1)
    for key in keys:
        places, labels = _places(table[key])
        combinations = number * max(labels, 1)
        series = series.astype(np.int64 if combinations > np.iinfo(np.int32).max else np.int32, copy=False)
        # negative numbers stay negative: the position of a label is below their number
        series *= max(labels, 1)
        np.add(series, places, out=series, casting="same_kind")
        series[places < 0] = -1
        series, number = _renumbered(series, combinations)
    first = np.full(number, -1, dtype=np.intp)
    starts = range(0, len(table), _CHUNK)
    for start in reversed(starts):  # the last assignment counts, so rows are assigned backwards
        chunk = series[start : start + _CHUNK][::-1]
        rows = np.arange(start + chunk.size - 1, start - 1, -1)
        is_numbered = chunk >= 0
        first[chunk[is_numbered]] = rows[is_numbered]
    few = number <= np.iinfo(np.int16).max
    return series.astype(np.int16, copy=False) if few else series, first


def _places(values: pd.Series) -> tuple[Any, int]:
    """Return the position of each value among the labels, −1 for a missing one, and the number of labels."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), len(values.cat.categories)
    places, labels = pd.factorize(values, sort=True)
    return places, len(labels)


def _renumbered(series: Any, combinations: int) -> tuple[Numbers, int]:
    """Replace each combination by its position among the existing ones, and negative ones by −1."""
    if combinations > _MAX_COMBINATIONS:
        places, labels = pd.factorize(np.where(series < 0, -1, series), sort=True)
        lacking = bool(labels.size) and labels[0] == -1
        return (places - lacking).astype(np.int32), labels.size - lacking
    occurs = np.zeros(combinations + 1, dtype=bool)
    for start in range(0, series.size, _CHUNK):
        occurs[np.maximum(series[start : start + _CHUNK], -1)] = True  # −1 is the last place
    occurs[-1] = False
    place = np.cumsum(occurs, dtype=np.int32) - 1
    place[-1] = -1
    for start in range(0, series.size, _CHUNK):
        chunk = series[start : start + _CHUNK]
        chunk[:] = place[np.maximum(chunk, -1)]
    return series.astype(np.int32, copy=False), int(occurs.sum())


def blocks(series: Numbers, groups: Indices) -> Iterator[Block]:
    """Iterate over blocks of series that belong together.

    Parameters
    ----------
    series
        Number of each row's series.
    groups
        Number of each series' group, ascending: series of one group are in one block.
    """
    # 1. Count the rows of each series.
    row_counts = np.zeros(groups.size, dtype=np.int64)
    for start in range(0, series.size, _CHUNK):
        chunk = series[start : start + _CHUNK]
        row_counts += np.bincount(chunk[chunk >= 0], minlength=groups.size)
    max_rows = max(_BLOCK_ROWS, series.size // _MAX_BLOCKS)

    # 2. End each block at the last end of a group within `max_rows`. A larger group is one block.
    group_ends = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size)[1:]
    first = 0
    while first < groups.size:
        rows_up_to = np.cumsum(row_counts[first:])
        ends = group_ends[group_ends > first]
        fitting = ends[rows_up_to[ends - first - 1] <= max_rows]
        stop = int(fitting[-1] if fitting.size else ends[0])
        rows = np.flatnonzero((series >= first) & (series < stop))
        yield Block(rows, first, stop - first)
        first = stop


_BATCH = 300_000  # points per batch, padding included
_MAX_CELLS = 50_000_000  # maximum number of cells of one symbol's venues over their common steps
_LATE = 60e6  # maximum distance of two timestamps of one settlement [µs]
_PAGE = 5  # minimum number of consecutive repeated rows that count as a duplicate page


class Points(NamedTuple):
    """Points of some series, one series after the other, sorted by time without duplicates."""

    stamps: Array
    value: Floats
    stated: Floats | None
    """Stated hours of the step up to each row, NaN if missing; None if the table does not state steps."""
    bounds: Indices
    """Start of each series, and the end of the last one."""

    def batches(self) -> Iterator[tuple[Indices, Batch, Floats | None]]:
        """Iterate over series of similar length: their numbers, a `Batch` of them and the stated hours."""
        length = np.diff(self.bounds)
        order = np.argsort(length, kind="stable")
        first = 0
        while first < order.size:
            # Lengths ascend: take series until one is over twice as long as the first, so that padding at
            # most doubles a series, or until the batch is full.
            last = first + 1
            while (
                last < order.size
                and length[order[last]] <= 2 * length[order[first]]
                and length[order[last]] * (last + 1 - first) <= _BATCH
            ):
                last += 1
            rows = order[first:last]
            places = np.arange(length[rows[-1]])
            there = places < length[rows][:, None]
            at = np.where(there, self.bounds[rows][:, None] + places, self.bounds[rows + 1][:, None] - 1)
            value = np.where(there, self.value[at], np.nan)
            stated = None if self.stated is None else self.stated[at][:, 1:]
            yield rows, Batch(self.stamps[at], value, there), stated
            first = last

    def side_by_side(self, rows: Indices, bucket: int) -> tuple[int, Floats]:
        """Return the number of the first common step since 1970, and the last value per series and step."""
        bounds = [(self.bounds[row], self.bounds[row + 1]) for row in rows]
        points = np.concatenate([np.arange(*bound) for bound in bounds])
        points = points[np.isfinite(self.value[points])]
        if not points.size:
            return 0, np.full((len(rows), 0), np.nan)
        steps = self.stamps[points] // bucket
        first = int(steps.min())
        width = int(np.ptp(steps)) + 1
        if width * len(rows) > _MAX_CELLS:
            return 0, np.full((len(rows), 0), np.nan)
        values = np.full((len(rows), width), np.nan)
        venue = np.searchsorted([begin for begin, _ in bounds], points, side="right") - 1
        values[venue, steps - first] = self.value[points]  # the last assignment of a step counts
        return first, values


def collect_points(columns: Columns, block: Block) -> tuple[Points, Indices, dict[str, Any]]:
    """Return the points of each series of a block, the first at each time.

    Also returns the row of each point in the table, and by series the number of duplicates, of conflicts, and
    of repeated pages. Settlements within a minute of each other count as one time.
    """
    # 1. Sort rows by series and time. The sort is stable: rows at one time keep the order of the table.
    number = block.number
    code = columns.series[block.rows] - block.first
    if number <= np.iinfo(np.int16).max:
        code = code.astype(np.int16)  # numpy sorts two bytes by radix
    stamps = columns.stamps[block.rows]
    in_order = bool((stamps[1:] >= stamps[:-1]).all())
    order = np.argsort(code, kind="stable") if in_order else np.lexsort([stamps, code])
    code = code[order]
    stamps = stamps[order]
    rows = block.rows[order]
    value = columns.value[rows]
    stated = _stated_hours(columns, rows)

    # 2. Mark rows that repeat a time. A payment may have two timestamps some seconds apart, which is far less
    # than its interval.
    repeated = np.zeros(rows.size, dtype=bool)
    late: Any = 0.0
    if stated is not None:
        late = np.where(stated > 0.0, np.minimum(_LATE, 0.05 * stated * 3_600e6), 0.0)[1:]
    repeated[1:] = (code[1:] == code[:-1]) & (np.diff(stamps) <= late)
    counts = dict.fromkeys(("duplicates", "conflicts", "repeated_pages"), np.zeros(number, dtype=np.int64))
    if repeated.any():
        counts = _count_repeated(code, value, repeated, order, number)
        distinct = ~repeated
        code = code[distinct]
        stamps = stamps[distinct]
        value = value[distinct]
        rows = rows[distinct]
        if stated is not None:
            stated = stated[distinct]
    if stated is not None:
        stated = np.where(stated > 0.0, stated, np.nan)
    bounds = np.searchsorted(code, np.arange(number + 1))
    return Points(stamps, value, stated, bounds), rows, counts


def _stated_hours(columns: Columns, rows: Indices) -> Floats | None:
    """Return the stated intervals [h] of payments; NaN for other rows, None without a column of intervals."""
    if columns.stated is None:
        return None
    stated = columns.stated[rows]
    if columns.settled is None:
        return stated
    return np.where(columns.settled[rows], stated, np.nan)


def _count_repeated(
    code: Array, value: Floats, repeated: Bools, order: Indices, number: int
) -> dict[str, Array]:
    """Count duplicates, conflicts and repeated pages by series, of rows sorted by series and time.

    A repeated page is a run of rows, in the order of the table, that repeat earlier rows with the same value.
    """
    # 1. Find rows that repeat the value of the first row of their series and time.
    original = value[~repeated][np.cumsum(~repeated) - 1]
    same = repeated & ((value == original) | (np.isnan(value) & np.isnan(original)))

    # 2. Find runs of such rows in the order of the table, which are repeated pages.
    by_series = np.lexsort([order, code])
    flags = same[by_series]
    owner = code[by_series]
    begins = flags & np.append(True, ~flags[:-1] | (owner[1:] != owner[:-1]))
    lengths = np.bincount((np.cumsum(begins) - 1)[flags], minlength=int(begins.sum()))
    pages = owner[begins][lengths >= _PAGE]
    counted = {"duplicates": code[repeated], "conflicts": code[repeated & ~same], "repeated_pages": pages}
    return {name: np.bincount(rows, minlength=number) for name, rows in counted.items()}


def answered_windows(requests: pd.DataFrame, series: pd.DataFrame) -> list[Array]:
    """Return for each series the successful windows [µs], one per row, sorted, with touching ones joined.

    `requests` is the ledger (a missing symbol represents all), `series` has the ``symbol`` and ``exchange``
    of each series, as far as the table has them.
    """
    others = ("exchange", "start", "end", "answered")
    require_columns(requests, "requests", others=others, any_kind=("symbol",))
    if "table" in requests and requests["table"].nunique() > 1:
        names = ", ".join(sorted(requests["table"].unique()))
        raise ValueError(f"requests must belong to one table, got {names}: pass the rows of this table")
    answered = requests[requests["answered"].astype(bool)]
    start, end = (answered[name].dt.as_unit("us").array.asi8 for name in ("start", "end"))
    result = []
    for row in range(len(series)):
        chosen = np.ones(len(answered), dtype=bool)
        if "exchange" in series:
            chosen &= (answered["exchange"] == series["exchange"].iloc[row]).to_numpy(dtype=bool)
        if "symbol" in series:
            about = answered["symbol"].isna() | (answered["symbol"] == series["symbol"].iloc[row])
            chosen &= about.to_numpy(dtype=bool)
        result.append(_union(start[chosen], end[chosen]))
    return result


def count_not_requested(stamps: Array, gaps: Floats, steps: Floats, windows: Sequence[Array]) -> Array:
    """Count the missing rows of each series outside its windows."""
    counts = np.zeros(len(stamps))
    missing = missing_in_gaps(gaps, steps)
    for row, answered in enumerate(windows):
        # 1. Compute the time of each missing row: 1, 2, … steps after the last row before its gap.
        gap_places = np.flatnonzero(missing[row])
        gap_sizes = missing[row, gap_places]
        step_numbers = np.concatenate([np.zeros(0), *(np.arange(1, size + 1) for size in gap_sizes)])
        gap = np.repeat(gap_places, gap_sizes)
        timestamps = stamps[row, gap] + steps[row, gap] * step_numbers

        # 2. Count those that the last window that starts before them does not include.
        before = np.searchsorted(answered[:, 0], timestamps, side="right") - 1
        inside = before >= 0
        inside[inside] = timestamps[inside] < answered[before[inside], 1]
        counts[row] = (~inside).sum()
    return counts


def _union(start: Array, end: Array) -> Array:
    """Return sorted windows as rows, with touching and overlapping ones joined."""
    order = np.argsort(start, kind="stable")
    start = start[order]
    end = np.maximum.accumulate(end[order]) if end.size else end
    begins = np.append(True, start[1:] > end[:-1])[: start.size]
    last = np.append(begins[1:], True)[: start.size]
    return np.stack([start[begins], end[last]], axis=1)
