"""Figures of single series, for many of them at once.

Series of similar length lie in one matrix, a row each: instants ascending without repeats, values next to
them, padded at the end. Every figure is taken along the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from derivdata.analysis.panels import last_valid, row_quantiles
from derivdata.support.arrays import Array, Bools, Floats
from derivdata.tables.payments import CONFIRMING_GAPS, confirmed_runs

_MINUTE = 60e6
_MAD_TO_STD = 1.4826
_THINNED_AT_MOST = 60  # gaps of a stretch in which every second row is taken for missing
_DAY = 86_400_000_000  # µs
_CLOSES = 20 * 3_600_000_000
_OPENS = 15 * 3_600_000_000
_CONSTANT = 1e-9  # of the value: below, it is rounding
_STALE = 12  # equal values in a row, of a value that the series hardly has otherwise
_STALE_SHARE = 0.01


class Batch(NamedTuple):
    """Series side by side."""

    stamps: Array
    """Microseconds since 1970, int64."""
    value: Floats
    there: Bools
    """False in the padding."""


def row_quantile(values: Floats, share: float) -> Floats:
    """Return the quantile (linear) of each row, NaN left out; NaN where a row has nothing else."""
    return row_quantiles(values, share)[0]


def run_lengths(same: Bools) -> Array:
    """Return at each place the length of the run of True that it lies in, 0 where it is False."""
    size = same.shape[-1]
    places = np.broadcast_to(np.arange(size), same.shape)
    before = np.maximum.accumulate(np.where(same, -1, places), axis=-1)  # the last False up to here
    after = np.minimum.accumulate(np.where(same, size, places)[..., ::-1], axis=-1)[..., ::-1]
    return np.where(same, after - before - 1, 0)


def steps_in_force(batch: Batch, stated: Floats | None) -> tuple[Floats, Floats]:
    """Return the gaps between rows [µs], NaN in the padding, and the step in force at each.

    Another step is accepted after three gaps in a row of that length, and dated back to the first of them; a
    single longer gap is missing data. Where the table states a step of which the rows' own is a multiple
    (`stated` [h] for each gap, NaN for none), the stated one holds: every second row is missing. So it does
    in a stretch of doubled gaps between two of the same single ones.
    """
    gaps = np.where(batch.there[:, 1:], np.diff(batch.stamps, axis=1), np.nan)
    if not gaps.shape[1]:
        return gaps, gaps
    usual = row_quantile(gaps, 0.5)[:, None]
    # Stamps are late by some seconds: gaps count in whole minutes, or in whole steps where these are shorter.
    unit = np.where(usual >= _MINUTE, _MINUTE, np.maximum(usual, 1.0))
    rounded = np.maximum(np.round(gaps / unit), 1.0) * unit
    equal = np.zeros(gaps.shape, dtype=bool)
    equal[:, 1:] = rounded[:, 1:] == rounded[:, :-1]
    last = last_valid(confirmed_runs(equal) & np.isfinite(rounded))
    # Before the first: the commonest of the first twelve gaps, the shortest of equally common ones.
    lead = np.sort(rounded[:, : 4 * CONFIRMING_GAPS], axis=1)
    number = (lead[:, :, None] == lead[:, None, :]).sum(axis=2)
    first = np.take_along_axis(lead, number.argmax(axis=1)[:, None], axis=1)
    steps = np.where(last >= 0, np.take_along_axis(rounded, np.maximum(last, 0), axis=1), first)
    if stated is not None:
        multiple = steps / (stated * 3_600e6)
        thinned = (np.round(multiple) >= 2.0) & (np.abs(multiple - np.round(multiple)) <= 0.05)
        steps = np.where(thinned, stated * 3_600e6, steps)
    _fill_thinned(steps, gaps)
    return gaps, np.where(np.isfinite(gaps), steps, np.nan)


def _fill_thinned(steps: Floats, gaps: Floats) -> None:
    for row in np.flatnonzero(((steps[:, 1:] != steps[:, :-1]) & np.isfinite(gaps[:, 1:])).sum(axis=1) >= 2):
        own = steps[row, np.isfinite(gaps[row])]
        edges = np.append(0, np.flatnonzero(np.diff(own) != 0) + 1)
        ends = np.append(edges[1:], own.size)
        for i in range(1, edges.size - 1):
            single = own[edges[i - 1]]
            doubled = own[edges[i]]
            short = ends[i] - edges[i] <= _THINNED_AT_MOST
            if doubled == 2.0 * single and own[edges[i + 1]] == single and short:
                steps[row, edges[i] : ends[i]] = single
                own[edges[i] : ends[i]] = single


def completeness(gaps: Floats, steps: Floats, count: Array) -> dict[str, Any]:
    """Count what is missing at the steps in force."""
    with np.errstate(invalid="ignore"):
        lacking = np.where(np.isfinite(gaps), np.maximum(np.round(gaps / steps) - 1.0, 0.0), 0.0)
    holes = lacking > 0
    missing = lacking.sum(axis=1).astype(np.int64)
    return {
        "step_hours": row_quantile(steps, 0.5) / 3_600e6,
        "expected": count + missing,
        "missing": missing,
        "gaps": holes.sum(axis=1),
        "longest_gap_hours": np.where(holes, gaps, 0.0).max(axis=1, initial=0.0) / 3_600e6,
        "interval_changes": ((np.diff(steps, axis=1) != 0) & np.isfinite(steps[:, 1:])).sum(axis=1),
    }


def value_figures(value: Floats, stamps: Array, outlier: float) -> dict[str, Any]:
    """Describe the values of each row, NaN left out: frozen, capped, stale and outlying ones."""
    order = np.argsort(np.isnan(value), axis=1, kind="stable")
    value = np.take_along_axis(value, order, axis=1)
    stamps = np.take_along_axis(stamps, order, axis=1)
    finite = np.isfinite(value)
    number = finite.sum(axis=1)
    some = number > 0
    repeats = np.zeros(value.shape, dtype=bool)
    repeats[:, 1:] = finite[:, 1:] & (value[:, 1:] == value[:, :-1])
    lowest = np.where(finite, value, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(finite, value, -np.inf).max(axis=1, initial=-np.inf)
    share = {
        name: np.where(some, (value == end[:, None]).sum(axis=1) / np.maximum(number, 1), np.nan)
        for name, end in (("at_low_share", lowest), ("at_high_share", highest))
    }
    runs = run_lengths(repeats)
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
    """Tell which points leave a series that is constant otherwise: they have no spread to be compared with.

    Single points, at most one in a hundred, that are further from the constant than half of its size.
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
    """Return a robust standard deviation that does not collapse where most values sit at one level.

    The largest of what the median, the third quartile and the 97th percentile of the distances from the
    median would give of normal values. A rate at its floor for half of the time and more has a median
    distance of 0, or of the rounding of a unit conversion; the other two then speak for the rest, and where
    even they are at the floor, the median of the values off it. Percentiles are taken at the value below,
    so that one outlier among few values does not hide itself.
    """
    level = 1e-9 * np.abs(middle) + 1e-300
    ordered = np.sort(apart, axis=1)
    last = np.maximum(np.isfinite(ordered).sum(axis=1) - 1, 0)
    wide = [row_quantile(apart, 0.5) * _MAD_TO_STD]
    for share, scale in ((0.75, 0.8693), (0.97, 0.4608)):  # 1 / Φ⁻¹((1 + share) / 2)
        place = np.floor(last * share).astype(np.intp)[:, None]
        wide.append(np.take_along_axis(ordered, place, axis=1)[:, 0] * scale if ordered.shape[1] else middle)
    spread = np.max(wide, axis=0)
    off = row_quantile(np.where(apart > level[:, None], apart, np.nan), 0.5) * _MAD_TO_STD
    return np.asarray(np.where(spread > level, spread, np.where(np.isfinite(off), off, 0.0)))


def _long_runs(value: Floats, stamps: Array, runs: Array) -> tuple[Array, Array, Array]:
    """Count the rows of long runs of one value: stale ones, those of closed sessions, and padding at the end.

    Stale are runs of a value that the series hardly has otherwise, or has, as its floor, in runs a third as
    long at most: then from three times as many rows on. Rows while an exchange is closed are those of runs
    over a weekend, or of two nights and more. Padding is a run up to the end of a value that came with it,
    after a series that moved: rows that are still written after a delisting.
    """
    stale = np.zeros(len(value), dtype=np.int64)
    closed = np.zeros(len(value), dtype=np.int64)
    padded = np.zeros(len(value), dtype=np.int64)
    for row in np.flatnonzero(runs.max(axis=1, initial=0) >= _STALE - 1):
        ends = np.flatnonzero((runs[row] >= _STALE - 1) & (np.append(runs[row][1:], 0) == 0))
        finite_count = int(np.isfinite(value[row]).sum())
        starts = ends - runs[row, ends]
        lengths = runs[row, ends] + 1
        times = np.array([int((value[row] == value[row, end]).sum()) for end in ends])
        # A rate at its floor stands still at night too; the price of a closed market differs each time.
        is_rare = times - lengths <= _STALE_SHARE * finite_count
        sessions = is_rare & _closed_sessions(stamps[row, starts], stamps[row, ends], starts == 0)
        closed[row] = int((runs[row, ends[sessions]] + 1).sum())
        for end in ends[~sessions]:
            length = int(runs[row, end]) + 1
            same = value[row] == value[row, end]
            rare = int(same.sum()) - length <= _STALE_SHARE * finite_count
            same[end - length + 1 : end + 1] = False
            longest = int(runs[row][same].max(initial=0)) + 1
            before = finite_count - length
            moved = before >= _STALE and 2 * int((runs[row, :before] == 0).sum()) > before
            if end == finite_count - 1 and length >= 2 * _STALE and rare and moved:
                padded[row] = length
            elif length <= finite_count // 2 and (rare or length >= max(3 * longest, 3 * _STALE)):
                stale[row] += length
    return stale, closed, padded


def _closed_sessions(first: Array, last: Array, is_first: Bools) -> Bools:
    """Tell which runs [µs] lie between the close of a stock exchange and its next opening.

    From 20:00 UTC on a weekday (16:00 in New York in summer) to 15:00 on the next. One night alone may be
    any market that stands still: two nights and more, or a weekend, are sessions.
    """
    day = first // _DAY
    weekday = (day + 3) % 7  # 0 is Monday; 1970-01-01 was a Thursday
    until = (day + np.where(weekday == 4, 3, 1)) * _DAY + _OPENS
    at_night = (weekday < 5) & (first - day * _DAY >= _CLOSES) & (last <= until)
    # A series may begin while the exchange is closed.
    at_night |= is_first & (weekday < 5) & (last <= day * _DAY + _OPENS)
    at_night |= is_first & (weekday >= 5) & (last <= (day + 7 - weekday) * _DAY + _OPENS)
    over_weekend = at_night & (weekday == 4) & (last >= (day + 2) * _DAY)
    return np.asarray(over_weekend | (at_night & (at_night.sum() >= 2)))
