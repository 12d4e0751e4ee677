"""Every symbol of one venue over time, made day by day and kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.service import buckets
from derivdata.sources.service.day_steps import DayAtStep, at_one_step, step_of
from derivdata.sources.service.kept_days import DAY, cut, kept_days
from derivdata.sources.service.view import View
from derivdata.sources.service.window import Window, adaptive

__all__ = ["Points", "symbols_of"]

_Array = np.ndarray[Any, Any]


class Points(NamedTuple):
    """Values of symbols at instants [µs], in any order."""

    time: _Array
    symbol: _Array
    value: _Array


def symbols_of(
    view: View, table: str, value: str, window: Window, exchange: str, *, added: bool
) -> tuple[Points, str, list[str]]:
    """Return what `View.series` does for all symbols of a venue; the resolution, and notices."""
    requested, days = adaptive(window.requested), cut(window, DAY)

    def read(span: Window) -> pd.DataFrame:
        return view.around(table, span, requested, venues=[exchange])[0]

    def divide(frame: pd.DataFrame, some: list[Window], used: str | None) -> Iterator[DayAtStep[Points]]:
        whole = some[0]._replace(end=some[-1].end)
        step = step_of(frame, requested, used, whole.start, added=added)
        frame = frame[~frame["resolution"].isin(step.left_out)] if step.left_out else frame
        frame = view.combined(frame, value, whole, step.used, added=added).sort_values("time")
        symbol = pd.Categorical(frame["symbol"])
        names = np.asarray(symbol.categories, dtype=object)[symbol.codes]
        points = Points(frame["time"].array.asi8, names, frame[value].to_numpy())
        edges = [*(buckets.micros(day.start) for day in some), buckets.micros(whole.end)]
        cuts = np.searchsorted(points.time, edges).tolist()
        for first, last in pairwise(cuts):
            yield DayAtStep(Points(*(column[first:last] for column in points)), last - first, step)

    def make(used: str | None) -> list[DayAtStep[Points]]:
        return kept_days(
            view,
            ("symbols", table, exchange, requested, used),
            days,
            read,
            lambda frame, some: divide(frame, some, used),
            lambda day: 24 * day.rows + 1024,
            apart=lambda frame: len(buckets.steps(frame)) > 1,
        )

    parts, used, notices = at_one_step(requested, make)
    if not parts:
        return Points(np.zeros(0, np.int64), np.zeros(0, object), np.zeros(0)), used, notices
    return Points(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), used, notices
