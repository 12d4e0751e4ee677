"""Rows of a history: which ones a window lacks, and where figures change to another unit.

A step of a grid is missing where no row of the series lies in it. A payment is missing where the time since
the payment before is two or more of its intervals; between two different intervals the smaller count holds.
A table with missing rows is still a table.

Levels such as prices and open interest change little from row to row, so that a step by a unit's factor that
lasts shows. Rates cross zero: a change shows in the rate that a venue repeats most (the interest rate of its
formula), or where rates stay far above all that came before.
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
"""Tables without a row where nothing happened: their series are compared with the window together."""
_SAMPLED_OUTAGE_US = {"funding_history": 6 * HOUR_US}
"""Outages of single series that are usual where a rate is sampled: shorter ones alone give no notice."""
_MOST_SHORT_OUTAGES = 0.1  # of a series' rows, from which short outages give a notice
_EDGE_STEPS = 2  # the first and last steps may be of the neighbouring window, or not over yet
_QUIET_STEPS = 24
_NAMED = 3  # series that a notice names
_ROUNDING = 1 / 60  # of an interval
_WIDE_GAP = 1.5  # intervals: a payment between them is missing
_DAY_US = 24 * HOUR_US

_FACTORS = np.array([8.0, 100.0, 1e3, 1e4, 1e6])
_LEVEL_TOLERANCE = 1.2
_LEAST_BEFORE = 6  # rows: a new listing grows fast
_LEAST_AFTER = 3
_COMPARED = 6
_REPEATED_TOLERANCE = 1.001
_LEAST_REPEATED = 4
_REPEATED_SHARE = 0.2
_RATE_BITS = 40
_LARGEST_CODED = 1e5  # bps: in units of 1e-6, below 2 to the power of `_RATE_BITS`
_RATE_ROWS = 50
_RATE_LASTS = 12
_ABOVE_LARGEST = 5.0  # a market moves so for some payments
_RATE_FACTORS = ((60.0, 170.0), (6e3, 1.7e4))
"""Between which a lasting change of the median rate is taken for a factor of 100 or 10,000."""
_LEAST_BPS = 5.0


class RequestedWindow(NamedTuple):
    """The window of one request [µs], the step of its rows, and whether the source may have sparser rows."""

    start: int
    end: int
    step: int
    is_hosted: bool


def missing_row_sentences(
    table: Table, parts: Sequence[Mapping[str, Any]], window: RequestedWindow
) -> list[str]:
    """Return sentences about the rows that a window lacks.

    `parts` are the columns of all responses to one question, so that a window which took several requests is
    one window.
    """
    stamps = np.concatenate([np.asarray(part["time"].asi8, dtype=np.int64) for part in parts])
    if not stamps.size:
        return []  # a response without rows has its own notice
    series, names = _series_of(table, parts)
    inside = (stamps >= window.start) & (stamps < window.end)
    if not inside.all():
        stamps = stamps[inside]
        series = series[inside]
    if not stamps.size:
        return []
    if table.name == PAYMENTS:
        numbers = {
            name: np.concatenate([np.asarray(part[name], dtype=np.float64) for part in parts])[inside]
            for name in ("interval_hours", "payment_count")
        }
        hours = numbers["interval_hours"]
        counts = numbers["payment_count"]
        order = series_order(series, stamps)
        hours[order] = contradicted(series[order], stamps[order], hours[order]).hours
        runs = payment_runs(series, stamps, hours, counts, window.start, window.end)
        return _sentences(runs, names, None, stamps)
    step = window.step
    series, places = _distinct(series, stamps // step)
    edge = _QUIET_STEPS if table.name in SPARSE else _EDGE_STEPS
    first = -(-window.start // step)
    last = -(-window.end // step)
    if places.min() - first <= edge:
        first = int(places.min())
    if last - 1 - places.max() <= edge:
        last = int(places.max()) + 1
    if table.name in SPARSE:
        runs = grid_runs(
            np.zeros(places.size, dtype=np.int64), places * step, first * step, last * step, step
        )
        runs = runs.of(runs.is_head | runs.is_tail)
        return _sentences(runs, ["all series"], step, stamps)
    return _grid_sentences(table, names, series, places, (first * step, last * step), window, stamps)


def _grid_sentences(
    table: Table,
    names: Sequence[str],
    series: _Array,
    places: _Array,
    bounds: tuple[int, int],
    window: RequestedWindow,
    stamps: _Array,
) -> list[str]:
    """Return sentences about single series; those with sparser rows are compared with a coarser grid."""
    sentences = []
    multiples = _multiples(series, places, window.is_hosted)
    present = np.flatnonzero(np.bincount(series, minlength=len(names)))
    for every in np.unique(multiples[present]).tolist():
        codes = present[multiples[present] == every]
        own = series
        own_places = places
        if codes.size < len(names):
            chosen = multiples[series] == every
            own = np.searchsorted(codes, series[chosen])
            own_places = places[chosen]
        coarse = every * window.step
        runs = grid_runs(own, own_places * window.step, *bounds, coarse)
        runs = _without_outages(runs, _SAMPLED_OUTAGE_US.get(table.name, 0))
        some = [names[code] for code in codes.tolist()]
        sentences += _sentences(runs, some, coarse, stamps)
    return sentences


def _series_of(table: Table, parts: Sequence[Mapping[str, Any]]) -> tuple[_Array, list[str]]:
    """Return a number for each row's series, and the names of the series by number."""
    keys = [name for name in table.key if name in _SERIES]
    if not keys:
        return np.zeros(sum(len(part["time"]) for part in parts), dtype=np.int64), [table.name]
    coded = [_coded([part[name] for part in parts]) for name in keys]
    several = [(codes, words) for codes, words in coded if len(words) > 1]
    if len(several) == 1 and all(codes.min() >= 0 for codes, _ in coded):
        places = [len(words) > 1 for _, words in coded].index(True)
        series, many = several[0]
        return series, [
            " ".join(many[n] if k == places else words[0] for k, (_, words) in enumerate(coded))
            for n in range(len(many))
        ]
    number = np.zeros(coded[0][0].size, dtype=np.int64)
    for codes, words in coded:
        number = number * max(len(words), 1) + codes
    series, distinct = pd.factorize(number, sort=True)
    names = []
    for value in distinct.tolist():
        words_of_series: list[str] = []
        rest = value
        for _, words in reversed(coded):
            rest, code = divmod(rest, max(len(words), 1))
            words_of_series.insert(0, str(words[code]))
        names.append(" ".join(words_of_series))
    return series, names


def _coded(columns: Sequence[Any]) -> tuple[_Array, list[str]]:
    """Return a number for each row's word, and the words by number, in the order of their first rows.

    Each part has categories of its own: the numbers are of the words, not of the categories.
    """
    numbers: dict[str, int] = {}
    codes = []
    for column in columns:
        if len(columns) == 1 and isinstance(column, pd.Categorical) and _has_rows_of_all(column):
            return np.asarray(column.codes, dtype=np.int64), column.categories.tolist()
        own, words = pd.factorize(column)
        shared = [numbers.setdefault(word, len(numbers)) for word in words]
        codes.append(np.array([*shared, -1])[own])  # the last place is for −1, a missing word
    return np.concatenate(codes), [*numbers]


def _has_rows_of_all(column: pd.Categorical) -> bool:
    """Return whether the rows are in the order of the categories, and every category has a row."""
    codes = column.codes
    if not codes.size or codes[0] < 0 or (codes[1:] < codes[:-1]).any():
        return False
    return bool(np.bincount(codes, minlength=len(column.categories)).all())


def _distinct(series: _Array, places: _Array) -> tuple[_Array, _Array]:
    """Return the series and steps of rows once each, by series and step."""
    low = int(places.min())
    width = int(places.max()) - low + 1
    joined = series * width + (places - low)
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
    """Return by series how many steps its rows are usually apart: an archive may hold sparser rows."""
    count = int(series.max()) + 1
    multiples = np.ones(count, dtype=np.int64)
    if is_hosted:
        return multiples
    gaps = pd.Series(np.diff(places)[np.diff(series) == 0]).groupby(series[1:][np.diff(series) == 0]).median()
    known = gaps.index.to_numpy(dtype=np.int64)
    multiples[known] = np.fmax(np.floor(gaps.to_numpy()), 1).astype(np.int64)
    if (multiples[known] == 1).sum() > known.size / 2:  # most series have every step: the others lack rows
        multiples[:] = 1
    return multiples


def _without_outages(runs: MissingRuns, usual: int) -> MissingRuns:
    """Return runs without the ones of usual length [µs], where a series lacks few rows in all."""
    if not usual or not runs.rows.size:
        return runs
    is_long = runs.end - runs.start > usual
    missing = np.bincount(runs.series, runs.rows, runs.expected.size)
    length = np.bincount(runs.series, runs.end - runs.start, runs.expected.size)
    is_much = (missing > _MOST_SHORT_OUTAGES * runs.expected) & (length > usual)
    return runs.of(is_long | is_much[runs.series])


def _sentences(runs: MissingRuns, names: Sequence[str], step: int | None, stamps: _Array) -> list[str]:
    """Return sentences about rows that all series lack at an edge, and about those that single ones lack.

    `step` is that of the grid [µs]; None for payments.
    """
    if not runs.rows.size:
        return []
    what = "payments" if step is None else f"rows of the {step_text(step)} grid"
    sentences = []
    count = runs.expected.size
    whole = np.ones(runs.rows.size, dtype=bool)
    for is_edge, verb in ((runs.is_head, "begin"), (runs.is_tail, "end")):
        if np.unique(runs.series[is_edge]).size < count or count == 0:
            continue
        common = int(np.min(runs.rows[is_edge]))
        place = int(np.flatnonzero(is_edge)[np.argmin(runs.rows[is_edge])])
        extreme = int(stamps.min() if verb == "begin" else stamps.max())
        of_all = f"all {count} series" if count > 1 else names[0]
        expected = int(runs.expected[runs.series[place]])
        sentences.append(
            f"{of_all}: rows {verb} at {shown_time(extreme)}; {common} of {expected} {what} are missing, "
            f"first {shown_time(runs.start[place])}"
        )
        whole &= ~is_edge
    rest = runs.of(whole)
    for is_late in (False, True):
        some = rest.of(rest.is_head if is_late else ~rest.is_head)
        if some.rows.size:
            sentences.append(_counted(some, names, what, is_late=is_late))
    return sentences


def _counted(runs: MissingRuns, names: Sequence[str], what: str, *, is_late: bool) -> str:
    """Return the missing rows of the series that lack most, with the first time, and of the others a sum."""
    totals = pd.Series(runs.rows).groupby(runs.series).sum().sort_values(ascending=False, kind="stable")
    shown = []
    for code, rows in totals.head(_NAMED).items():
        place = int(np.flatnonzero(runs.series == code)[0])
        of = f"{rows} of {runs.expected[int(code)]} {what}"
        if is_late:
            shown.append(f"{names[int(code)]}: rows begin at {shown_time(runs.end[place])}, {of} before it")
        else:
            shown.append(f"{names[int(code)]}: {of} are missing, first {shown_time(runs.start[place])}")
    text = "; ".join(shown)
    if totals.size > _NAMED:
        text += f"; {totals.size - _NAMED} more series lack {int(totals.iloc[_NAMED:].sum())}"
    return f"{text} (the contract may be listed later)" if is_late else text


class MissingRuns(NamedTuple):
    """Runs of missing rows, by series and time; and of each series, how many rows its window holds."""

    series: NDArray[np.int64]
    start: NDArray[np.int64]
    """Time of the first missing row [µs]."""
    end: NDArray[np.int64]
    """Time of the next row that is there [µs], or the end of the window."""
    rows: NDArray[np.int64]
    is_head: NDArray[np.bool_]
    """Whether the run is before the first row of its series."""
    is_tail: NDArray[np.bool_]
    """Whether the run is after the last row of its series."""
    expected: NDArray[np.int64]
    """Rows in the window by number of the series, those that are missing included."""

    def of(self, chosen: _Array) -> MissingRuns:
        """Return some of the runs."""
        return MissingRuns(
            self.series[chosen],
            self.start[chosen],
            self.end[chosen],
            self.rows[chosen],
            self.is_head[chosen],
            self.is_tail[chosen],
            self.expected,
        )


def grid_runs(series: _Array, times: _Array, first: int, last: int, step: int) -> MissingRuns:
    """Return the steps of a window ``[first, last)`` [µs] without a row.

    Parameters
    ----------
    series
        Number of each row's series, 0 to n - 1, in any order.
    times
        Times of the rows [µs], in any order, all of them within the window.
    first, last, step
        The window and the step [µs]. Steps are multiples of `step` since 1970.
    """
    low = -(-first // step)
    high = -(-last // step)
    order = series_order(series, times)
    group = np.asarray(series, dtype=np.int64)[order]
    place = np.asarray(times, dtype=np.int64)[order] // step
    leads = np.append(True, group[1:] != group[:-1]) if group.size else np.zeros(0, dtype=bool)
    before = np.where(leads, low - 1, np.append(low - 1, place[:-1])[: place.size])
    inner = _runs(group, before + 1, place, place - before - 1, is_head=leads)
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
    """Return the payments that a window ``[first, last)`` [µs] lacks.

    Parameters
    ----------
    series, times
        As in `grid_runs`.
    hours
        Hours that each row pays for; NaN where the interval is not known, before which nothing is counted.
    counts
        How many payments a row adds up; 1 for most.
    first, last
        The window [µs].
    """
    order = series_order(series, times)
    group = np.asarray(series, dtype=np.int64)[order]
    stamps = np.asarray(times, dtype=np.int64)[order]
    paid = np.asarray(hours, dtype=np.float64)[order]
    single = paid / np.fmax(np.asarray(counts, dtype=np.float64)[order], 1.0)
    if not group.size:
        nothing = np.zeros(0, dtype=np.int64)
        return _joined(
            _runs(nothing, nothing, nothing, nothing), _runs(nothing, nothing, nothing, nothing), nothing
        )
    leads = np.append(True, group[1:] != group[:-1])
    ends = np.append(leads[1:], True)
    own = np.where(np.isnan(single), np.inf, single) * HOUR_US
    gaps = np.diff(stamps, prepend=stamps[:1]) - np.where(paid > single, paid - single, 0.0) * HOUR_US
    inner_rows = np.where(leads, 0, _count_between(gaps, own, np.append(own[:1], own[:-1])))
    starts = np.append(stamps[:1], stamps[:-1]) + np.where(np.isfinite(own), own, 0.0).astype(np.int64)
    inner = _runs(group, starts, stamps, inner_rows)
    early = np.floor((stamps[leads] - first) / own[leads]).astype(np.int64)
    start = stamps[leads] - early * np.where(np.isfinite(own[leads]), own[leads], 0.0).astype(np.int64)
    head = _runs(group[leads], start, stamps[leads], early, is_head=True)
    late = np.floor((last - 1 - stamps[ends]) / own[ends]).astype(np.int64)
    after = stamps[ends] + np.where(np.isfinite(own[ends]), own[ends], 0.0).astype(np.int64)
    tail = _runs(group[ends], after, np.full(late.size, last), late, is_tail=True)
    expected = np.bincount(group)
    for runs in (head, inner, tail):
        np.add.at(expected, runs.series, runs.rows)
    return _joined(_joined(head, inner, expected), tail, expected)


def series_order(series: _Array, times: _Array) -> NDArray[np.int64]:
    """Return the places of rows by series and time; most tables have them so already."""
    same = np.diff(series)
    if ((same > 0) | ((same == 0) & (np.diff(times) >= 0))).all():
        return np.arange(len(series))
    return np.lexsort((times, series))


def is_off_grid(times: _Array, step: int) -> NDArray[np.bool_]:
    """Return which times [µs] are not a multiple of a step since 1970."""
    return np.asarray(np.asarray(times, dtype=np.int64) % step != 0)


def step_text(step: int) -> str:
    """Return the length of a step [µs] with its unit: ``"1 h"``, ``"5 min"``."""
    for length, unit in ((_DAY_US, "d"), (HOUR_US, "h")):
        if step % length == 0:
            return f"{step // length} {unit}"
    return f"{step / MINUTE_US:g} min"


def shown_time(stamp: int) -> str:
    """Return a time [µs] as text, to the minute, in UTC."""
    return str(np.datetime64(int(stamp), "us").astype("datetime64[m]")).replace("T", " ")


def _count_between(gaps: _Array, own: _Array, before: _Array) -> NDArray[np.int64]:
    """Return the fewest payments that are missing in gaps [µs].

    `own` is the interval [µs] of the payment that ends the gap, `before` that of the payment before it.
    """
    has_both = np.isfinite(own) & np.isfinite(before)
    longer = np.where(has_both, np.maximum(own, before), 1.0)
    shorter = np.where(has_both, np.minimum(own, before), 1.0)
    excess = np.where(has_both, gaps - own, 0.0)
    is_wide = excess > (_WIDE_GAP - 1.0) * shorter
    whole = np.floor(excess / longer + _ROUNDING)
    rest = np.rint((excess - whole * longer) / shorter)
    return np.where(is_wide, whole + rest, 0.0).astype(np.int64)


def _runs(
    series: _Array,
    start: _Array,
    end: _Array,
    rows: _Array,
    *,
    is_head: _Array | bool = False,
    is_tail: bool = False,
) -> MissingRuns:
    chosen = rows > 0
    heads = np.broadcast_to(np.asarray(is_head), chosen.shape)
    tails = np.full(chosen.shape, is_tail)
    whole = MissingRuns(series, start, end, rows, heads, tails, np.zeros(0, dtype=np.int64))
    return whole.of(chosen)


def _joined(some: MissingRuns, others: MissingRuns, expected: Sequence[int] | _Array) -> MissingRuns:
    whole = MissingRuns(
        np.concatenate([some.series, others.series]),
        np.concatenate([some.start, others.start]),
        np.concatenate([some.end, others.end]),
        np.concatenate([some.rows, others.rows]),
        np.concatenate([some.is_head, others.is_head]),
        np.concatenate([some.is_tail, others.is_tail]),
        np.asarray(expected, dtype=np.int64),
    )
    return whole.of(np.lexsort((whole.start, whole.series)))


class UnitChange(NamedTuple):
    """A run in another unit: its first row, the factor by which its figures are larger, and its length."""

    row: int
    factor: float
    rows: int


def level_changes(series: _Array, values: _Array) -> list[UnitChange]:
    """Return lasting steps of levels by 8, 100, 10³, 10⁴ or 10⁶, or the inverse, of each series the first.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other, in time order.
    values
        Prices or open interest; NaN and 0 are not compared.
    """
    if len(values) < _LEAST_BEFORE + _LEAST_AFTER:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = values[1:] / values[:-1]
        is_step = np.append(False, _is_near(ratio, _LEVEL_TOLERANCE) & (series[1:] == series[:-1]))
    changes: dict[int, UnitChange] = {}
    for row in np.flatnonzero(is_step).tolist():
        code = int(series[row])
        first, last = _bounds(series, row)
        if code in changes or row - first < _LEAST_BEFORE or last - row < _LEAST_AFTER:
            continue
        before = values[max(first, row - _COMPARED) : row]
        after = values[row : min(last, row + _COMPARED)]
        factor = float(np.nanmedian(after) / np.nanmedian(before))
        # Later rows of the run stay near its first ones, and rows before near each other.
        is_lasting = _spread(before) < 2.0 and _spread(after) < 2.0
        if is_lasting and bool(_is_near(np.array([factor]), _LEVEL_TOLERANCE)[0]):
            changes[code] = UnitChange(row, factor, last - row)
    return [*changes.values()]


def rate_changes(series: _Array, rates: _Array) -> list[UnitChange]:
    """Return lasting changes of funding rates by the factor of a unit, of each series the first.

    Parameters
    ----------
    series
        As in `level_changes`.
    rates
        Rates [bps/8h].
    """
    changes: list[UnitChange] = []
    if not len(rates):
        return changes
    bounds = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    sizes = np.abs(rates)
    ends = np.append(bounds[1:], len(rates))
    may_be_far = _may_be_far(sizes, bounds)
    may_repeat = _may_repeat(sizes, bounds)
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
    """Return where the rate that is repeated most becomes a multiple of it and stays so."""
    common = _common(rates)
    if common.size < 2:
        return None
    for low in common.tolist():
        ratios = common / low
        for high in common[_is_near(ratios, _REPEATED_TOLERANCE) & (ratios > 1)].tolist():
            of_low = np.flatnonzero(np.abs(rates - low) <= 1e-6 * low + 5e-7)
            of_high = np.flatnonzero(np.abs(rates - high) <= 1e-6 * high + 5e-7)
            among_high = rates[of_high[0] : of_high[-1] + 1]
            if _is_tick(low, rates) and not _is_tick(high, among_high):
                continue  # both are multiples of the step to which the venue rounds
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
    """Return whether all rates are multiples of a rate: a venue rounds them to it."""
    multiples = rates[np.isfinite(rates)] / step
    return bool((np.abs(multiples - np.rint(multiples)) < 1e-4).all())


def _may_repeat(rates: _Array, bounds: _Array) -> NDArray[np.bool_]:
    """Return which series have two rates that `_common` counts: all series are sorted at once."""
    lengths = np.diff(np.append(bounds, rates.size))
    series = np.repeat(np.arange(bounds.size), lengths)
    is_uncoded = np.zeros(bounds.size, dtype=bool)
    is_uncoded[series[rates > _LARGEST_CODED]] = True
    coded = rates <= _LARGEST_CODED  # not NaN
    if not coded.all():
        rates = rates[coded]
        series = series[coded]
    # One whole number per row: the series, then the rate in units of its sixth digit.
    codes = np.sort((series << _RATE_BITS) + np.rint(rates * 1e6).astype(np.int64))
    least = np.array([_least_repeated(rows) for rows in lengths.tolist()])
    group = codes >> _RATE_BITS
    ahead = np.arange(codes.size) + least[group] - 1
    inside = np.flatnonzero(ahead < codes.size)
    repeated = np.unique(codes[inside][codes[inside] == codes[ahead[inside]]])
    repeated = repeated[repeated & ((1 << _RATE_BITS) - 1) > 0]
    several = np.bincount(repeated >> _RATE_BITS, minlength=bounds.size) > 1
    return np.asarray(several | is_uncoded)


def _least_repeated(rows: int) -> int:
    """Return how many rows of a series must have a rate that is a usual one."""
    return max(_LEAST_REPEATED, math.ceil(_REPEATED_SHARE / 2 * rows))


def _common(rates: _Array) -> _Array:
    """Return the rates above 0, to six digits, that many rows have: each value once, ascending."""
    least = _least_repeated(rates.size)
    values = np.sort(np.round(rates, 6))
    # In ascending order, a value that `least` rows have is as many places further the same.
    repeated = values[least - 1 :][values[least - 1 :] == values[: max(values.size - least + 1, 0)]]
    return np.unique(repeated[repeated > 0])


def _may_be_far(rates: _Array, bounds: _Array) -> NDArray[np.bool_]:
    """Return which series have a rate that is far above all of their first rows.

    `_far_change` looks at no row before these, and its median of later rows is at most the largest rate.
    """
    finite = np.where(np.isfinite(rates), rates, 0.0)
    largest = np.maximum.reduceat(finite, bounds)
    last = np.append(bounds[1:], rates.size) - 1
    leading = np.minimum(bounds[:, None] + np.arange(_RATE_LASTS), last[:, None])
    return np.asarray(largest >= _ABOVE_LARGEST * finite[leading].max(axis=1))


def _far_change(rates: _Array) -> UnitChange | None:
    """Return where rates become 100 or 10,000 times as large, far above the largest one before."""
    known = np.flatnonzero(np.isfinite(rates))
    values = rates[known]
    if values.size < 2 * _RATE_LASTS:
        return None
    largest = np.maximum.accumulate(values)
    largest_after = np.maximum.accumulate(values[::-1])[::-1]
    is_higher = values[1:] > np.fmax(largest[:-1], _LEAST_BPS)
    is_far = largest_after[1:] >= _ABOVE_LARGEST * largest[:-1]  # the median after is at most the largest
    candidates = np.flatnonzero(is_higher & is_far) + 1
    for row in candidates[candidates >= _RATE_LASTS].tolist():
        after = values[row : row + _RATE_ROWS]
        before = float(np.median(values[max(0, row - _RATE_ROWS) : row]))
        usual = float(np.median(after))
        if after.size < _RATE_LASTS or before == 0 or usual < _ABOVE_LARGEST * largest[row - 1]:
            continue
        if any(low < usual / before < high for low, high in _RATE_FACTORS):
            return UnitChange(int(known[row]), usual / before, int(rates.size - known[row]))
    return None


def _is_near(ratios: _Array, tolerance: float) -> NDArray[np.bool_]:
    """Return which ratios are a unit's factor, or its inverse, within a factor of `tolerance`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.abs(np.log(ratios))[:, None]
    return np.asarray((np.abs(size - np.log(_FACTORS)) <= np.log(tolerance)).any(axis=1))


def _bounds(series: _Array, row: int) -> tuple[int, int]:
    """Return the first row of a row's series, and the row after its last one."""
    same = np.flatnonzero(series == series[row])
    return int(same[0]), int(same[-1]) + 1


def _spread(values: _Array) -> float:
    known = values[np.isfinite(values) & (values > 0)]
    return float(known.max() / known.min()) if known.size else np.inf
