"""Sums over the symbols of each venue as they were first written: every day apart, by way of frames."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from derivdata.sources.service import buckets
from derivdata.sources.service.buckets import length
from derivdata.sources.service.venue_totals import cut
from derivdata.sources.service.view import Series, StoredColumn, View
from derivdata.sources.service.window import AnswerWindow, adaptive
from derivdata.support import times

_COLUMNS = ["exchange", "time", "value", "symbol_count"]


def totals(
    view: View,
    column: StoredColumn,
    window: AnswerWindow,
    resolution: str | None,
    *,
    venues: Sequence[str] | None = None,
) -> Series:
    def made(day: AnswerWindow, used: str | None = None) -> Series:
        found = _series(view, column, day, resolution, venues, used)
        grouped = found.frame.astype({"exchange": str}).groupby(["time", "exchange"])[column.value]
        summed = pd.DataFrame({"value": grouped.sum(), "symbol_count": grouped.size()}).reset_index()
        return found._replace(frame=summed[_COLUMNS])

    days = cut(window)
    parts = [made(day) for day in days]
    steps = {part.used for part in parts if len(part.frame) or part.notices}
    finest = min(steps, key=length, default=resolution or adaptive(window.requested))
    parts = [p if p.used == finest else made(day, finest) for day, p in zip(days, parts, strict=True)]
    found = [part.frame for part in parts if len(part.frame)]
    whole = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=_COLUMNS)
    return Series(whole, finest, list(dict.fromkeys(n for part in parts for n in part.notices)))


def _series(
    view: View,
    column: StoredColumn,
    day: AnswerWindow,
    resolution: str | None,
    venues: Sequence[str] | None,
    used: str | None,
) -> Series:
    """What `View.series` returns of a day, but for its rounding."""
    frame, step = view.around(column, day, resolution, venues=venues)
    step = used or step
    long = buckets.longer(frame[buckets.ends(frame) > day.start], step) if column.added else []
    notices = [f"rows by {name} are left out: they are longer than buckets of {step}" for name in long]
    frame = frame[~frame["resolution"].isin(long)] if long else frame
    width = times.resolution(step)
    if width is not None and (frame["resolution"] != step).any():
        frame = (buckets.sums if column.added else buckets.means)(frame, column.value, width, view.horizon)
    inside = (frame["time"] >= day.start) & (frame["time"] < day.end) & frame[column.value].notna()
    return Series(frame[inside], step, notices)
