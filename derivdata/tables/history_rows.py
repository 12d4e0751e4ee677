"""Missing rows of a history, and rows from which figures are in another unit.

A step of a grid is missing if the series has no row in it. A payment is missing if the time since the
previous payment is two or more of its intervals; between two different intervals the smaller count is used.
Missing rows give a notice, not an error.

Levels such as prices and open interest change little from row to row, so a lasting step by a unit's factor is
visible. Rates cross zero. Their change of unit is visible in the rate that a venue repeats most (the interest
rate of its formula), or if rates stay far above all earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.tables.payments import HOUR_US, MINUTE_US, contradicted
from derivdata.tables.schema import Table
from derivdata.tables.series_faults import SeriesSizes, series_sizes

__all__ = [
    "PAYMENTS",
    "SPARSE",
    "MissingRuns",
    "RequestedWindow",
    "UnitChange",
    "grid_runs",
    "is_off_grid",
    "level_changes",
    "missing_row_sentences",
    "payment_runs",
    "rate_changes",
    "series_order",
    "shown_time",
    "step_text",
]

_Array = NDArray[Any]

_SERIES = ("symbol", "exchange", "kind", "quote")
PAYMENTS = "funding_settlements"
SPARSE = ("liquidations_history",)
"""Tables without rows for steps without events: all series together are compared with the window."""
_SAMPLED_OUTAGE_US = {"funding_history": 6 * HOUR_US}
"""Usual outages of single series of a sampled rate [µs]; shorter ones alone do not give a notice."""
_MAX_SHORT_OUTAGES = 0.1  # share of a series' rows above which short outages give a notice
_EDGE_STEPS = 2  # the first and last steps may belong to the adjacent window, or not be over yet
_QUIET_STEPS = 24  # the same for events, which may be absent for a day of hourly steps
_NAMED = 3  # number of series named in a notice
_ROUNDING = 1 / 60  # of an interval
_WIDE_GAP = 1.5  # intervals between payments from which a payment is missing
_DAY_US = 24 * HOUR_US

_FACTORS = np.array([8.0, 100.0, 1e3, 1e4, 1e6])
_LEVEL_TOLERANCE = 1.2  # maximum ratio of a step to the factor of a unit
_MIN_BEFORE = 6  # rows before a step: a new listing grows fast
_MIN_AFTER = 3
_COMPARED = 6  # rows on each side of a step whose medians are compared
_REPEATED_TOLERANCE = 1.001  # the same as `_LEVEL_TOLERANCE`, for rates that repeat
_MIN_REPEATED = 4  # rows from which a rate counts as repeated
_REPEATED_SHARE = 0.2  # minimum share of a repeated rate in the rows on its side of a change
_RATE_ROWS = 50  # maximum rows on each side whose median rates are compared
_ROWS_OF_LEVEL = 12  # rows that a new level of rates must last
_ABOVE_LARGEST = 5.0  # a smaller factor occurs in real markets for some payments
_RATE_FACTORS = ((60.0, 170.0), (6e3, 1.7e4))
"""Ranges in which a lasting change of the median rate counts as a factor of 100 or 10,000."""
_MIN_BPS = 5.0  # rates up to this [bps/8h] are not a change to another unit


class RequestedWindow(NamedTuple):
    """Window and step of a request [µs], and whether its source is the hosted service."""

    start: int
    end: int
    step: int
    is_hosted: bool


def missing_row_sentences(
    table: Table, responses: Sequence[Mapping[str, Any]], window: RequestedWindow
) -> list[str]:
    """Return sentences about the rows that responses lack in a window.

    `responses` has the columns of each response, because a window may need several requests.
    """
    stamps = np.concatenate([np.asarray(columns["time"].asi8, dtype=np.int64) for columns in responses])
    if not stamps.size:
        return []  # a response without rows has its own notice
    # 1. Select the rows within the window.
    series, names = _series_of(table, responses)
    inside = (stamps >= window.start) & (stamps < window.end)
    if not inside.all():
        stamps = stamps[inside]
        series = series[inside]
    if not stamps.size:
        return []
    if table.name == PAYMENTS:
        runs = _missing_payments(responses, series, stamps, inside, window)
        return _sentences(runs, names, None, stamps)

    # 2. Number the steps of the window. At its ends, few steps without rows of any series are not missing.
    step = window.step
    series, places = _distinct(series, stamps // step)  # places are numbers of steps
    edge = _QUIET_STEPS if table.name in SPARSE else _EDGE_STEPS
    first = -(-window.start // step)  # rounded up
    last = -(-window.end // step)
    if places.min() - first <= edge:
        first = int(places.min())
    if last - 1 - places.max() <= edge:
        last = int(places.max()) + 1

    # 3. Find the steps without rows.
    if table.name in SPARSE:
        runs = grid_runs(
            np.zeros(places.size, dtype=np.int64), places * step, first * step, last * step, step
        )
        runs = runs.of(runs.is_head | runs.is_tail)
        return _sentences(runs, ["all series"], step, stamps)
    return _grid_sentences(table, names, series, places, (first * step, last * step), window, stamps)


def _missing_payments(
    responses: Sequence[Mapping[str, Any]],
    series: _Array,
    stamps: _Array,
    inside: _Array,
    window: RequestedWindow,
) -> MissingRuns:
    """Return the missing payments in a window; `inside` marks its rows in the responses."""
    columns = []
    for name in ("interval_hours", "payment_count"):
        joined = np.concatenate([np.asarray(response[name], dtype=np.float64) for response in responses])
        columns.append(joined[inside])
    hours, counts = columns
    order = series_order(series, stamps)
    hours[order] = contradicted(series[order], stamps[order], hours[order]).hours
    return payment_runs(series, stamps, hours, counts, window.start, window.end)


def _grid_sentences(
    table: Table,
    names: Sequence[str],
    series: _Array,
    places: _Array,
    bounds: tuple[int, int],
    window: RequestedWindow,
    stamps: _Array,
) -> list[str]:
    """Return sentences about single series; a series with sparser rows is compared with a coarser grid."""
    sentences = []
    multiples = _multiples(series, places, window.is_hosted)
    present = np.flatnonzero(np.bincount(series, minlength=len(names)))
    for multiple in np.unique(multiples[present]).tolist():
        # Select the series with rows at this multiple of the step, and renumber them from 0.
        codes = present[multiples[present] == multiple]
        group_series = series
        group_places = places
        if codes.size < len(names):
            in_group = multiples[series] == multiple
            group_series = np.searchsorted(codes, series[in_group])
            group_places = places[in_group]
        step = multiple * window.step
        runs = grid_runs(group_series, group_places * window.step, *bounds, step)
        runs = _without_outages(runs, _SAMPLED_OUTAGE_US.get(table.name, 0))
        group_names = [names[code] for code in codes.tolist()]
        sentences += _sentences(runs, group_names, step, stamps)
    return sentences


def _series_of(table: Table, responses: Sequence[Mapping[str, Any]]) -> tuple[_Array, list[str]]:
    """Return the number of each row's series, and the names of the series by number."""
    keys = [name for name in table.key if name in _SERIES]
    if not keys:
        row_count = sum(len(columns["time"]) for columns in responses)
        return np.zeros(row_count, dtype=np.int64), [table.name]
    coded = [_coded([columns[name] for columns in responses]) for name in keys]
    varying = [place for place, (_, words) in enumerate(coded) if len(words) > 1]
    if len(varying) == 1 and all(codes.min() >= 0 for codes, _ in coded):
        # Only one key has several words, as in most responses: its codes are the series, without a sort.
        key = varying[0]
        series, several_words = coded[key]
        names = []
        for word in several_words:
            texts = [words[0] for _, words in coded]
            texts[key] = word
            names.append(" ".join(texts))
        return series, names
    # The codes of the keys are the digits of one number per row.
    first_codes, _ = coded[0]
    number = np.zeros(first_codes.size, dtype=np.int64)
    for codes, words in coded:
        number = number * max(len(words), 1) + codes
    series, distinct = pd.factorize(number, sort=True)
    names = []
    for digits in distinct.tolist():
        texts = []
        for _, words in reversed(coded):
            digits, code = divmod(digits, max(len(words), 1))
            texts.insert(0, str(words[code]))
        names.append(" ".join(texts))
    return series, names


def _coded(columns: Sequence[Any]) -> tuple[_Array, list[str]]:
    """Return codes of the rows of several text columns, −1 for a missing text, and the texts by code.

    The codes of categorical columns cannot be joined, because the columns have different categories.
    """
    # A single column whose texts are coded in order of appearance already has the result.
    only = columns[0] if len(columns) == 1 else None
    if isinstance(only, pd.Categorical) and _has_rows_of_all(only):
        return np.asarray(only.codes, dtype=np.int64), only.categories.tolist()
    code_of_text: dict[str, int] = {}
    codes = []
    for column in columns:
        codes_in_column, texts = pd.factorize(column)
        shared_codes = [code_of_text.setdefault(text, len(code_of_text)) for text in texts]
        # factorize gives −1 for a missing text, which selects the last element.
        codes.append(np.array([*shared_codes, -1])[codes_in_column])
    return np.concatenate(codes), [*code_of_text]


def _has_rows_of_all(column: pd.Categorical) -> bool:
    """Return whether the rows are in the order of the categories, and every category has a row."""
    codes = column.codes
    if not codes.size or codes[0] < 0 or (codes[1:] < codes[:-1]).any():
        return False
    return bool(np.bincount(codes, minlength=len(column.categories)).all())


def _distinct(series: _Array, places: _Array) -> tuple[_Array, _Array]:
    """Return the distinct pairs of series and step, sorted."""
    low = int(places.min())
    width = int(places.max()) - low + 1
    joined = series * width + (places - low)  # one number per pair, in the order of the pairs
    ahead = np.diff(joined)
    if (ahead > 0).all():
        return series, places
    if (ahead >= 0).all():
        is_first = np.append(True, ahead > 0)
        return series[is_first], places[is_first]
    joined = np.sort(joined)
    joined = joined[np.append(True, np.diff(joined) > 0)]
    return joined // width, joined % width + low


def _multiples(series: _Array, places: _Array, is_hosted: bool) -> _Array:
    """Return the median number of steps between rows of each series; 1 for a hosted source."""
    count = int(series.max()) + 1
    multiples = np.ones(count, dtype=np.int64)
    if is_hosted:
        return multiples
    in_series = np.diff(series) == 0
    gaps = pd.Series(np.diff(places)[in_series]).groupby(series[1:][in_series]).median()
    codes = gaps.index.to_numpy(dtype=np.int64)
    multiples[codes] = np.fmax(np.floor(gaps.to_numpy()), 1).astype(np.int64)
    if (multiples[codes] == 1).sum() > codes.size / 2:  # most series have every step: the others lack rows
        multiples[:] = 1
    return multiples


def _without_outages(runs: MissingRuns, usual: int) -> MissingRuns:
    """Drop runs up to a usual length [µs] in series with few missing rows."""
    if not usual or not runs.rows.size:
        return runs
    length = runs.end - runs.start
    missing_rows = np.bincount(runs.series, runs.rows, runs.expected.size)  # by series
    missing_us = np.bincount(runs.series, length, runs.expected.size)
    has_many = (missing_rows > _MAX_SHORT_OUTAGES * runs.expected) & (missing_us > usual)
    return runs.of((length > usual) | has_many[runs.series])


def _sentences(runs: MissingRuns, names: Sequence[str], step: int | None, stamps: _Array) -> list[str]:
    """Return sentences about rows missing in all series at an edge, and about rows missing in single series.

    `step` is the step of the grid [µs]; None for payments.
    """
    if not runs.rows.size:
        return []
    noun = "payments" if step is None else f"rows of the {step_text(step)} grid"
    sentences = []
    count = runs.expected.size
    is_single = np.ones(runs.rows.size, dtype=bool)
    for is_edge, verb in ((runs.is_head, "begin"), (runs.is_tail, "end")):
        if np.unique(runs.series[is_edge]).size < count or count == 0:
            continue
        common = int(np.min(runs.rows[is_edge]))
        place = int(np.flatnonzero(is_edge)[np.argmin(runs.rows[is_edge])])
        extreme = int(stamps.min() if verb == "begin" else stamps.max())
        of_all = f"all {count} series" if count > 1 else names[0]
        expected = int(runs.expected[runs.series[place]])
        sentences.append(
            f"{of_all}: rows {verb} at {shown_time(extreme)}; {common} of {expected} {noun} are missing, "
            f"first {shown_time(runs.start[place])}"
        )
        is_single &= ~is_edge
    rest = runs.of(is_single)
    for is_late in (False, True):
        group = rest.of(rest.is_head if is_late else ~rest.is_head)
        if group.rows.size:
            sentences.append(_counted(group, names, noun, is_late=is_late))
    return sentences


def _counted(runs: MissingRuns, names: Sequence[str], noun: str, *, is_late: bool) -> str:
    """Return a sentence with the series that have most missing rows, and the sum of the other series."""
    totals = pd.Series(runs.rows).groupby(runs.series).sum().sort_values(ascending=False, kind="stable")
    shown = []
    for code, rows in totals.head(_NAMED).items():
        place = int(np.flatnonzero(runs.series == code)[0])
        count = f"{rows} of {runs.expected[int(code)]} {noun}"
        if is_late:
            begin = shown_time(runs.end[place])
            shown.append(f"{names[int(code)]}: rows begin at {begin}, {count} before it")
        else:
            shown.append(f"{names[int(code)]}: {count} are missing, first {shown_time(runs.start[place])}")
    text = "; ".join(shown)
    if totals.size > _NAMED:
        others = totals.iloc[_NAMED:]
        expected = int(runs.expected[others.index.to_numpy()].sum())
        text += f"; {others.size} more series lack {int(others.sum())} of {expected} {noun}"
    return f"{text} (the contract may be listed later)" if is_late else text


class MissingRuns(NamedTuple):
    """Runs of missing rows, sorted by series and time, and the number of rows expected in the window."""

    series: NDArray[np.int64]
    start: NDArray[np.int64]
    """Time of the first missing row [µs]."""
    end: NDArray[np.int64]
    """Time of the next present row [µs], or the end of the window."""
    rows: NDArray[np.int64]
    is_head: NDArray[np.bool_]
    """Whether the run is before the first row of its series."""
    is_tail: NDArray[np.bool_]
    """Whether the run is after the last row of its series."""
    expected: NDArray[np.int64]
    """Rows in the window by number of the series, including missing rows."""

    def of(self, chosen: _Array) -> MissingRuns:
        """Return the runs selected by a mask or by positions."""
        return MissingRuns(
            self.series[chosen], self.start[chosen], self.end[chosen], self.rows[chosen],
            self.is_head[chosen], self.is_tail[chosen], self.expected,
        )  # fmt: skip


def grid_runs(series: _Array, times: _Array, first: int, last: int, step: int) -> MissingRuns:
    """Return the runs of steps in a window ``[first, last)`` [µs] that have no row.

    Parameters
    ----------
    series
        Number of each row's series, 0 to n - 1, in any order.
    times
        Times of the rows [µs], in any order, all within the window.
    first, last, step
        The window and the step [µs]. Steps are multiples of `step` since 1970.
    """
    low = -(-first // step)  # −(−a // b) rounds up
    high = -(-last // step)
    order = series_order(series, times)
    group = np.asarray(series, dtype=np.int64)[order]
    place = np.asarray(times, dtype=np.int64)[order] // step
    leads = np.append(True, group[1:] != group[:-1]) if group.size else np.zeros(0, dtype=bool)
    # 1. Steps between each row and the row before it, or the start of the window.
    before = np.where(leads, low - 1, np.append(low - 1, place[:-1])[: place.size])
    inner = _runs(group, before + 1, place, place - before - 1, is_head=leads)
    # 2. Steps between the last row of each series and the end of the window.
    ends = np.append(leads[1:], True) if group.size else leads
    tail_rows = high - 1 - place[ends]
    tail = _runs(group[ends], place[ends] + 1, np.full(tail_rows.size, high), tail_rows, is_tail=True)
    count = int(np.max(group, initial=-1)) + 1
    expected = np.full(count, max(high - low, 0), dtype=np.int64)
    joined = _joined(inner, tail, expected)
    return joined._replace(start=joined.start * step, end=joined.end * step)


def payment_runs(
    series: _Array, times: _Array, hours: _Array, counts: _Array, first: int, last: int
) -> MissingRuns:
    """Return the runs of missing payments in a window ``[first, last)`` [µs].

    Parameters
    ----------
    series, times
        As in `grid_runs`.
    hours
        Hours that each row pays for; NaN if the interval is unknown. The gap before a row with NaN is
        ignored.
    counts
        Number of payments in a row, mostly 1.
    first, last
        The window [µs].
    """
    order = series_order(series, times)
    group = np.asarray(series, dtype=np.int64)[order]
    stamps = np.asarray(times, dtype=np.int64)[order]
    paid = np.asarray(hours, dtype=np.float64)[order]
    hours_of_one = paid / np.fmax(np.asarray(counts, dtype=np.float64)[order], 1.0)
    if not group.size:
        empty = np.zeros(0, dtype=np.int64)
        return _joined(_runs(empty, empty, empty, empty), _runs(empty, empty, empty, empty), empty)
    leads = np.append(True, group[1:] != group[:-1])
    ends = np.append(leads[1:], True)
    # 1. Interval of a single payment [µs], and gaps to the payment before; a row of several payments covers
    # part of its gap itself.
    interval = np.where(np.isnan(hours_of_one), np.inf, hours_of_one) * HOUR_US
    finite_interval = np.where(np.isfinite(interval), interval, 0.0).astype(np.int64)
    covered = np.where(paid > hours_of_one, paid - hours_of_one, 0.0) * HOUR_US
    gaps = np.diff(stamps, prepend=stamps[:1]) - covered
    # 2. Payments missing between two rows of a series.
    previous_interval = np.append(interval[:1], interval[:-1])
    inner_rows = np.where(leads, 0, _count_between(gaps, interval, previous_interval))
    inner_start = np.append(stamps[:1], stamps[:-1]) + finite_interval
    inner = _runs(group, inner_start, stamps, inner_rows)
    # 3. Payments missing before the first row and after the last row of each series.
    early = np.floor((stamps[leads] - first) / interval[leads]).astype(np.int64)
    head_start = stamps[leads] - early * finite_interval[leads]
    head = _runs(group[leads], head_start, stamps[leads], early, is_head=True)
    late = np.floor((last - 1 - stamps[ends]) / interval[ends]).astype(np.int64)
    tail_start = stamps[ends] + finite_interval[ends]
    tail = _runs(group[ends], tail_start, np.full(late.size, last), late, is_tail=True)
    expected = np.bincount(group)
    for runs in (head, inner, tail):
        np.add.at(expected, runs.series, runs.rows)
    return _joined(_joined(head, inner, expected), tail, expected)


def series_order(series: _Array, times: _Array) -> NDArray[np.int64]:
    """Return the positions that sort rows by series and time; fast if they are sorted already."""
    steps = np.diff(series)
    if ((steps > 0) | ((steps == 0) & (np.diff(times) >= 0))).all():
        return np.arange(len(series))
    return np.lexsort((times, series))


def is_off_grid(times: _Array, step: int) -> NDArray[np.bool_]:
    """Return a mask of the times [µs] that are not a multiple of `step` since 1970."""
    return np.asarray(np.asarray(times, dtype=np.int64) % step != 0)


def step_text(step: int) -> str:
    """Return a step [µs] as text with its unit: ``"1 h"``, ``"5 min"``."""
    for length, unit in ((_DAY_US, "d"), (HOUR_US, "h")):
        if step % length == 0:
            return f"{step // length} {unit}"
    return f"{step / MINUTE_US:g} min"


def shown_time(stamp: int) -> str:
    """Return a time [µs] as text, to the minute, in UTC."""
    return str(np.datetime64(int(stamp), "us").astype("datetime64[m]")).replace("T", " ")


def _count_between(gaps: _Array, interval: _Array, previous: _Array) -> NDArray[np.int64]:
    """Return the minimum number of missing payments in gaps [µs].

    `interval` [µs] belongs to the payment after the gap, `previous` [µs] to the payment before it.
    """
    has_both = np.isfinite(interval) & np.isfinite(previous)
    longer = np.where(has_both, np.maximum(interval, previous), 1.0)
    shorter = np.where(has_both, np.minimum(interval, previous), 1.0)
    excess = np.where(has_both, gaps - interval, 0.0)
    is_wide = excess > (_WIDE_GAP - 1.0) * shorter
    # As many long intervals as fit, then short ones.
    long_payments = np.floor(excess / longer + _ROUNDING)
    short_payments = np.rint((excess - long_payments * longer) / shorter)
    return np.where(is_wide, long_payments + short_payments, 0.0).astype(np.int64)


def _runs(
    series: _Array,
    start: _Array,
    end: _Array,
    rows: _Array,
    *,
    is_head: _Array | bool = False,
    is_tail: bool = False,
) -> MissingRuns:
    """Return the runs with at least one missing row."""
    heads = np.broadcast_to(np.asarray(is_head), rows.shape)
    tails = np.full(rows.shape, is_tail)
    runs = MissingRuns(series, start, end, rows, heads, tails, np.zeros(0, dtype=np.int64))
    return runs.of(rows > 0)


def _joined(runs: MissingRuns, others: MissingRuns, expected: Sequence[int] | _Array) -> MissingRuns:
    """Join runs, sorted by series and time."""
    joined = MissingRuns(
        np.concatenate([runs.series, others.series]),
        np.concatenate([runs.start, others.start]),
        np.concatenate([runs.end, others.end]),
        np.concatenate([runs.rows, others.rows]),
        np.concatenate([runs.is_head, others.is_head]),
        np.concatenate([runs.is_tail, others.is_tail]),
        np.asarray(expected, dtype=np.int64),
    )
    return joined.of(np.lexsort((joined.start, joined.series)))


class UnitChange(NamedTuple):
    """Run of rows in another unit: its first row, the factor of its values, and its number of rows."""

    row: int
    factor: float
    rows: int


def level_changes(series: _Array, values: _Array) -> list[UnitChange]:
    """Return the first lasting change by 8, 100, 10³, 10⁴ or 10⁶, up or down, of each series of levels.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other, in time order.
    values
        Prices or open interest; NaN and 0 are not compared.
    """
    if len(values) < _MIN_BEFORE + _MIN_AFTER:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = values[1:] / values[:-1]
        is_step = np.append(False, _is_near(ratio, _LEVEL_TOLERANCE) & (series[1:] == series[:-1]))
    changes: dict[int, UnitChange] = {}
    for row in np.flatnonzero(is_step).tolist():
        code = int(series[row])
        first, last = _bounds(series, row)
        if code in changes or row - first < _MIN_BEFORE or last - row < _MIN_AFTER:
            continue
        before = values[max(first, row - _COMPARED) : row]
        after = values[row : min(last, row + _COMPARED)]
        factor = float(np.nanmedian(after) / np.nanmedian(before))
        # Later rows of the run stay near its first ones, and rows before near each other.
        is_lasting = _spread(before) < 2.0 and _spread(after) < 2.0
        if is_lasting and bool(_is_near(np.array([factor]), _LEVEL_TOLERANCE)[0]):
            changes[code] = UnitChange(row, factor, last - row)
    return [*changes.values()]


def rate_changes(series: _Array, rates: _Array, by_size: SeriesSizes | None = None) -> list[UnitChange]:
    """Return the first lasting change of each series of funding rates by the factor of a unit.

    Parameters
    ----------
    series
        As in `level_changes`.
    rates
        Rates [bps/8h].
    by_size
        The sorted sizes of the rates, if the caller has them.
    """
    changes: list[UnitChange] = []
    if not len(rates):
        return changes
    bounds = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    sizes = np.abs(rates)
    ends = np.append(bounds[1:], len(rates))
    may_be_far = _may_be_far(sizes, bounds)
    may_repeat = _may_repeat(by_size or series_sizes(series, rates))
    for place in np.flatnonzero(may_be_far | may_repeat).tolist():
        first = int(bounds[place])
        is_far = bool(may_be_far[place])
        magnitudes = sizes[first : ends[place]]
        change = _repeated_change(magnitudes)
        if change is None and is_far:
            change = _far_change(magnitudes)
        if change is not None:
            changes.append(change._replace(row=first + change.row))
    return changes


def _repeated_change(rates: _Array) -> UnitChange | None:
    """Return the change of a series from one frequent rate to a multiple of it, or None."""
    common = _common(rates)
    if common.size < 2:
        return None
    for low in common.tolist():
        ratios = common / low
        for high in common[_is_near(ratios, _REPEATED_TOLERANCE) & (ratios > 1)].tolist():
            # `_common` rounds rates to six decimals.
            of_low = np.flatnonzero(np.abs(rates - low) <= 1e-6 * low + 5e-7)
            of_high = np.flatnonzero(np.abs(rates - high) <= 1e-6 * high + 5e-7)
            has_others = of_low.size + of_high.size < np.count_nonzero(np.isfinite(rates))
            among_high = rates[of_high[0] : of_high[-1] + 1]
            if _is_tick(low, rates) and (has_others or not _is_tick(high, among_high)):
                continue  # both are multiples of the venue's rounding step
            # In a change, all rows of one rate are before all rows of the other, and both are frequent.
            for before, after in ((of_low, of_high), (of_high, of_low)):
                if before[-1] >= after[0]:
                    continue
                earlier = rates[: after[0]]
                later = rates[after[0] :]
                is_usual = before.size >= _REPEATED_SHARE * earlier.size
                if is_usual and after.size >= _REPEATED_SHARE * later.size:
                    factor = high / low if after is of_high else low / high
                    return UnitChange(int(before[-1]) + 1, factor, int(rates.size - before[-1] - 1))
    return None


def _is_tick(step: float, rates: _Array) -> bool:
    """Return whether all rates are multiples of `step`, to which the venue rounds."""
    multiples = rates[np.isfinite(rates)] / step
    return bool((np.abs(multiples - np.rint(multiples)) < 1e-4).all())


def _may_repeat(by_size: SeriesSizes) -> NDArray[np.bool_]:
    """Return a mask of series that may have several rates of `_common`; it is False only if they cannot."""
    # 1. Every k-th of the sorted rates of each series, where a repeated rate has at least 2 k rows.
    minimum = np.array([_min_repeated(rows) for rows in by_size.rows.tolist()], dtype=np.int64)
    step = minimum // 2
    count = -(-by_size.finite // step)
    series = np.repeat(np.arange(count.size), count)
    place = np.arange(series.size) - np.repeat(np.cumsum(count) - count, count)
    rates = np.round(by_size.ordered[by_size.starts[series] + place * step[series]], 6)
    # 2. A repeated rate is at two of these places or more, next to each other.
    is_equal = (rates[1:] == rates[:-1]) & (series[1:] == series[:-1]) & (rates[1:] > 0.0)
    is_first = is_equal & ~np.append(False, is_equal[:-1])[: is_equal.size]
    return np.asarray(np.bincount(series[1:][is_first], minlength=count.size) > 1)


def _min_repeated(rows: int) -> int:
    """Return the number of rows from which a rate counts as repeated."""
    return max(_MIN_REPEATED, math.ceil(_REPEATED_SHARE / 2 * rows))


def _common(rates: _Array) -> _Array:
    """Return the distinct repeated rates above 0, to six decimals, ascending."""
    minimum = _min_repeated(rates.size)
    values = np.sort(np.round(rates, 6))
    # Sorted, a value that `minimum` rows have equals the value `minimum` − 1 places later.
    repeated = values[minimum - 1 :][values[minimum - 1 :] == values[: max(values.size - minimum + 1, 0)]]
    return np.unique(repeated[repeated > 0])


def _may_be_far(rates: _Array, bounds: _Array) -> NDArray[np.bool_]:
    """Return a mask of series with a rate far above all of their first rows.

    Only such series can have a `_far_change`: it skips the first rows, and its median of later rows is at
    most the largest rate.
    """
    finite = np.where(np.isfinite(rates), rates, 0.0)
    largest = np.maximum.reduceat(finite, bounds)
    last = np.append(bounds[1:], rates.size) - 1
    leading = np.minimum(bounds[:, None] + np.arange(_ROWS_OF_LEVEL), last[:, None])
    return np.asarray(largest >= _ABOVE_LARGEST * finite[leading].max(axis=1))


def _far_change(rates: _Array) -> UnitChange | None:
    """Return the first row at which the median rate becomes about 100 or 10,000 times as large, else None.

    The medians are of up to 50 rows on each side, and the later one must be at least 5 times the largest
    earlier rate.
    """
    rows = np.flatnonzero(np.isfinite(rates))
    values = rates[rows]
    if values.size < 2 * _ROWS_OF_LEVEL:
        return None
    largest = np.maximum.accumulate(values)
    largest_after = np.maximum.accumulate(values[::-1])[::-1]
    is_higher = values[1:] > np.fmax(largest[:-1], _MIN_BPS)
    is_far = largest_after[1:] >= _ABOVE_LARGEST * largest[:-1]  # the median after is at most the largest
    candidates = np.flatnonzero(is_higher & is_far) + 1
    for row in candidates[candidates >= _ROWS_OF_LEVEL].tolist():
        after = values[row : row + _RATE_ROWS]
        before = float(np.median(values[max(0, row - _RATE_ROWS) : row]))
        usual = float(np.median(after))
        if after.size < _ROWS_OF_LEVEL or before == 0 or usual < _ABOVE_LARGEST * largest[row - 1]:
            continue
        if any(low < usual / before < high for low, high in _RATE_FACTORS):
            return UnitChange(int(rows[row]), usual / before, int(rates.size - rows[row]))
    return None


def _is_near(ratios: _Array, tolerance: float) -> NDArray[np.bool_]:
    """Return a mask of ratios that are a unit's factor, or its inverse, within a factor of `tolerance`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.abs(np.log(ratios))[:, None]
    return np.asarray((np.abs(size - np.log(_FACTORS)) <= np.log(tolerance)).any(axis=1))


def _bounds(series: _Array, row: int) -> tuple[int, int]:
    """Return the first row of the series at `row`, and the row after its last one."""
    rows = np.flatnonzero(series == series[row])
    return int(rows[0]), int(rows[-1]) + 1


def _spread(values: _Array) -> float:
    """Return the largest positive value over the smallest; infinity without positive values."""
    positive = values[np.isfinite(values) & (values > 0)]
    return float(positive.max() / positive.min()) if positive.size else np.inf
