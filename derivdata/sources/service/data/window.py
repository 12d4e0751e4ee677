"""Window of an answer: defaults, the clock, and the history that a tier may read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.service.refusal import DOCS, Refusal, bad_request
from derivdata.support import times

DEV_DAYS = 30
INSTANT = pd.Timedelta(1, "us")
"""Length of an instant: what is stamped with the clock's own time belongs to the past."""

_WEEK = pd.Timedelta(7, "D")
_DAY = pd.Timedelta(1, "D")
_DEV = pd.Timedelta(DEV_DAYS, "D")


class AnswerWindow(NamedTuple):
    """A half-open window, how long the asked one was, and what was changed about it."""

    start: pd.Timestamp
    end: pd.Timestamp
    requested: pd.Timedelta
    notices: list[str]


def resolve(params: Mapping[str, Any], *, now: pd.Timestamp, tier: str) -> AnswerWindow:
    """Return the window of `range`, or of `start` and `end` (default 7 days); refuse what a tier may not."""
    length = times.lookback(params["range"]) if params.get("range") else _WEEK
    end = params.get("end")
    start = params.get("start")
    last = now if end is None else end
    first = min(last, now) - length if start is None else start
    if tier == "dev":
        require_dev_range(last, now)
        if first >= now and (end is None or first < last):
            raise _outside(now)
    if first >= (now + INSTANT if end is None else last):
        raise bad_request(f"start {times.iso(first)} is not before end {times.iso(last)}")
    requested = last - first
    notices: list[str] = []
    if tier == "dev":
        first, last, notices = _clamped(first, last, now)
    reach = last if end is not None and end <= now else now + INSTANT
    return AnswerWindow(first, reach, requested, notices)


def adaptive(length: pd.Timedelta) -> str:
    """Choose the resolution for a window of that length: raw under a day, 1h under a week, else 4h."""
    if length < _DAY:
        return "raw"
    return "1h" if length < _WEEK else "4h"


def _clamped(
    first: pd.Timestamp, last: pd.Timestamp, now: pd.Timestamp
) -> tuple[pd.Timestamp, pd.Timestamp, list[str]]:
    floor = now - _DEV
    notices = []
    if first < floor:
        notices.append(
            f"start was raised from {times.iso(first)} to {times.iso(floor)}: "
            f"Dev covers the rolling {DEV_DAYS} days that end now"
        )
    if last > now:
        notices.append(f"end was set from {times.iso(last)} to now, {times.iso(now)}")
    return max(first, floor), min(last, now), notices


def require_dev_range(end: pd.Timestamp, now: pd.Timestamp) -> None:
    """Refuse a range of a Dev key that ends before the rolling days that it may read (403)."""
    if end <= now - _DEV:
        raise _outside(now)


def _outside(now: pd.Timestamp) -> Refusal:
    """Refuse a range that has no part in the days that Dev covers (403)."""
    return Refusal(
        403,
        f"the range lies outside the rolling {DEV_DAYS} days that Dev covers, "
        f"{times.iso(now - _DEV)} to {times.iso(now)}",
        required_tier="pro",
        docs=DOCS,
    )
