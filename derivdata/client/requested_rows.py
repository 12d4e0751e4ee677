"""Rows of histories against the windows that were requested, per series and for all series together.

`notices` compares the rows of all responses to one question, so that a window which took several requests is
one window. Missing rows are counted; a table with missing rows is still a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.client.reading import HOUR_US, SPARSE, CheckedAnswer
from derivdata.client.transport import Answer
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.missing_rows import MissingRuns, grid_runs, payment_runs, shown_time, step_text
from derivdata.tables.payment_intervals import contradicted
from derivdata.tables.schema import Table

_SERIES = ("symbol", "exchange", "kind", "quote")
_PAYMENTS = "funding_settlements"
_HOURLY = ("options_atm_history", "options_surface_history", "options_overview_history")
"""Tables with a row an hour, whose responses state no resolution."""
_SAMPLED_OUTAGE_US = {"funding_history": 6 * HOUR_US}
"""Outages of single series that are usual where a rate is sampled: shorter ones alone give no notice."""
_MOST_SHORT_OUTAGES = 0.1  # of a series' rows, from which short outages give a notice
_EDGE_STEPS = 2  # the first and last steps may be of the neighbouring window, or not over yet
_PAID_LATE_US = HOUR_US
_SPARSE_STEPS = 24
_NAMED = 3  # series that a notice names


class RequestedWindow(NamedTuple):
    """The window of one request [µs], the step of its rows, and whether the source may have sparser rows."""

    start: int
    end: int
    step: int
    is_hosted: bool


def requested_window(e: CheckedAnswer, within: times.Window | None) -> RequestedWindow | None:
    """Return the window that a response is about; None where its table has no regular rows in a window."""
    if e.table is None or e.window_us is None or e.time_us is None:
        return None
    name = e.table.name
    stated = [e.stated.get("resolution"), e.requested.get("resolution")]
    is_stated = any(word in times.RESOLUTIONS for word in stated)
    is_regular = "resolution" in e.table.columns or name in (_PAYMENTS, *_HOURLY, *SPARSE)
    if not is_regular or not (is_stated or name in (_PAYMENTS, *_HOURLY)):
        return None
    start, end = e.window_us
    if within is not None:
        start = max(start, times.us(within.start))
        end = min(end, times.us(within.end))
    if e.answer.as_of is not pd.NaT:
        late = _PAID_LATE_US if name == _PAYMENTS else 0
        end = min(end, times.us(e.answer.as_of) - late)
    step = e.step_us if is_stated else HOUR_US
    is_hosted = e.endpoint is not None and not e.endpoint.local
    return RequestedWindow(start, end, step, is_hosted) if start < end else None


def notices(
    table: Table,
    answers: Sequence[Answer[Any]],
    parts: Sequence[Mapping[str, Any]],
    windows: Sequence[RequestedWindow | None],
) -> list[tuple[int, str]]:
    """Return sentences about missing rows, each with the place of the newest response to its question."""
    questions: dict[tuple[Any, ...], list[int]] = {}
    for place, (answer, window) in enumerate(zip(answers, windows, strict=True)):
        if window is None:
            continue
        query = answer.request.query
        parameters = tuple(pair for pair in query if pair[0] not in ("start", "end"))
        questions.setdefault((answer.request.path, parameters, window.step), []).append(place)
    sentences = []
    for places in questions.values():
        chosen = [parts[place] for place in places]
        spans = [window for place in places if (window := windows[place]) is not None]
        span = spans[0]._replace(start=min(w.start for w in spans), end=max(w.end for w in spans))
        absent = _absent_venues(answers[places[0]], chosen)
        sentences += [(places[0], text) for text in [*absent, *_of_question(table, chosen, span)]]
    return sentences


def _absent_venues(answer: Answer[Any], parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the requested venues without a row, where others have rows."""
    query = dict(answer.request.query)
    requested = query.get("exchanges", "all").split(",")
    columns = [part["exchange"] for part in parts if "exchange" in part]
    present = {
        name for values in columns if len(values) for name in pd.unique(np.asarray(values, dtype=object))
    }
    if "all" in requested or not present:
        return []
    absent = sorted({*requested} - present)
    return (
        [f"{', '.join(absent)}: no rows in the window of {len(requested)} requested venues"] if absent else []
    )


def _of_question(table: Table, parts: Sequence[Mapping[str, Any]], window: RequestedWindow) -> list[str]:
    """Return sentences about the rows of one question."""
    stamps = np.concatenate([np.asarray(part["time"].asi8, dtype=np.int64) for part in parts])
    if not stamps.size:
        return []  # a response without rows has its own notice
    series, names = _series_of(table, parts)
    inside = (stamps >= window.start) & (stamps < window.end)
    stamps, series = stamps[inside], series[inside]
    if not stamps.size:
        return []
    if table.name == _PAYMENTS:
        numbers = {
            name: np.concatenate([np.asarray(part[name], dtype=np.float64) for part in parts])[inside]
            for name in ("interval_hours", "payment_count")
        }
        hours, counts = numbers["interval_hours"], numbers["payment_count"]
        order = np.lexsort((stamps, series))
        hours[order] = contradicted(series[order], stamps[order], hours[order]).hours
        runs = payment_runs(series, stamps, hours, counts, window.start, window.end)
        return _sentences(runs, names, "payments", stamps)
    step = window.step
    pairs = _distinct(series, stamps // step)
    series, places = pairs
    edge = _SPARSE_STEPS if table.name in SPARSE else _EDGE_STEPS
    first, last = -(-window.start // step), -(-window.end // step)
    if places.min() - first <= edge:
        first = int(places.min())
    if last - 1 - places.max() <= edge:
        last = int(places.max()) + 1
    if table.name in SPARSE:
        runs = grid_runs(
            np.zeros(places.size, dtype=np.int64), places * step, first * step, last * step, step
        )
        runs = runs.of(runs.is_head | runs.is_tail)
        return _sentences(runs, ["all series"], f"rows of the {step_text(step)} grid", stamps)
    sentences = []
    for every in np.unique(multiples := _multiples(series, places, window.is_hosted)).tolist():
        chosen = multiples[series] == every
        codes, own = np.unique(series[chosen], return_inverse=True)
        coarse = every * step
        runs = grid_runs(own, places[chosen] * step, first * step, last * step, coarse)
        runs = _without_outages(runs, _SAMPLED_OUTAGE_US.get(table.name, 0))
        some = [names[code] for code in codes.tolist()]
        sentences += _sentences(runs, some, f"rows of the {step_text(coarse)} grid", stamps)
    return sentences


def _series_of(table: Table, parts: Sequence[Mapping[str, Any]]) -> tuple[Array, list[str]]:
    """Return a number for each row's series, and the names of the series by number."""
    keys = [name for name in table.key if name in _SERIES]
    if not keys:
        return np.zeros(sum(len(part["time"]) for part in parts), dtype=np.int64), [table.name]
    frames = [pd.DataFrame({name: _words(part[name]) for name in keys}) for part in parts]
    rows = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    coded = [pd.factorize(rows[name]) for name in keys]
    number = np.zeros(len(rows), dtype=np.int64)
    for codes, words in coded:
        number = number * max(len(words), 1) + codes
    distinct, series = np.unique(number, return_inverse=True)
    names = []
    for value in distinct.tolist():
        words_of_series: list[str] = []
        rest = value
        for _, words in reversed(coded):
            rest, code = divmod(rest, max(len(words), 1))
            words_of_series.insert(0, str(words[code]))
        names.append(" ".join(words_of_series))
    return series, names


def _words(values: Any) -> Any:
    """Return a column's words; categories of parts differ, so that they are joined as text."""
    return values.astype(object) if isinstance(values, pd.Categorical) else values


def _distinct(series: Array, places: Array) -> tuple[Array, Array]:
    """Return the series and steps of rows once each, by series and step."""
    width = int(places.max() - places.min()) + 1
    low = int(places.min())
    joined = np.unique(series * width + (places - low))
    return joined // width, joined % width + low


def _multiples(series: Array, places: Array, is_hosted: bool) -> Array:
    """Return by series how many steps its rows are usually apart: an archive may hold sparser rows."""
    count = int(series.max()) + 1
    multiples = np.ones(count, dtype=np.int64)
    if is_hosted:
        return multiples
    gaps = pd.Series(np.diff(places)[np.diff(series) == 0]).groupby(series[1:][np.diff(series) == 0]).median()
    known = gaps.index.to_numpy(dtype=np.int64)
    multiples[known] = np.fmax(np.floor(gaps.to_numpy()), 1).astype(np.int64)
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


def _sentences(runs: MissingRuns, names: Sequence[str], what: str, stamps: Array) -> list[str]:
    """Return sentences about rows that all series lack at an edge, and about those that single ones lack."""
    if not runs.rows.size:
        return []
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
