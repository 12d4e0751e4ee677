"""Times without a zone that are not UTC: rows off the hours of their step, and clocks that are changed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.support.arrays import Array

_HOUR = 3_600_000_000
_LEAST_OFF = 3
"""Rows off the hours of their step from which the zone is asked; late or lost rows are fewer."""
_OTHER_HOURS = {("bitmex", 8): 4}
"""Venues whose rows of so many hours are as many hours off midnight: BitMEX pays at 04:00 UTC."""


def refuse_local_times(frame: pd.DataFrame) -> None:
    """Ask for the zone of times that were taken as UTC where they show another clock.

    Rows each 2 to 12 hours lie at multiples of their step since midnight UTC: payments and candles of all
    venues but BitMEX do. Rows each hour or less jump by an hour where clocks are set forward.
    """
    if not {"symbol", "exchange", "time"} <= {*frame.columns}:
        return
    for (venue, symbol), times in frame.groupby(["exchange", "symbol"], observed=True)["time"]:
        stamps = np.unique(times.astype("datetime64[us, UTC]").astype("int64").to_numpy())
        if len(stamps) < 2:
            continue
        step = int(np.median(np.diff(stamps)))
        evidence = _jump(stamps, step) or _off_schedule(stamps, step, str(venue))
        if evidence:
            raise ArchiveError(
                f"the times of {symbol} on {venue} state no zone, and are not UTC: {evidence}. Say the zone "
                "with --tz, such as --tz UTC+3 or --tz Europe/London (or --tz UTC if they are UTC)"
            )


def _off_schedule(stamps: Array, step: int, venue: str) -> str:
    """Return which rows are whole hours off the multiples of their step; empty where none are."""
    hours = round(step / _HOUR)
    if abs(step - hours * _HOUR) > 60_000_000 or not 2 <= hours <= 12:
        return ""
    shifted = stamps + 60_000_000  # rows are some seconds early or late
    at_hour = shifted % _HOUR <= 120_000_000
    off = (shifted // _HOUR - _OTHER_HOURS.get((venue, hours), 0)) % hours
    wrong = at_hour & (off != 0)
    if wrong.sum() < min(_LEAST_OFF, len(stamps)):
        return ""
    first = pd.Timestamp(int(stamps[np.argmax(wrong)]), unit="us")
    return f"{int(wrong.sum())} rows, first {first:%Y-%m-%d %H:%M}, are not at a multiple of {hours} hours"


def _jump(stamps: Array, step: int) -> str:
    """Return the hour that a file lacks where clocks are set forward; empty where it lacks none."""
    if step > 1.1 * _HOUR:
        return ""
    gaps = np.diff(stamps)
    for place in np.flatnonzero(np.abs(gaps - step - _HOUR) < 60_000_000).tolist():
        after = pd.Timestamp(int(stamps[place + 1]), unit="us")
        is_spring = after.month == 3 and after.weekday() == 6 and after.day >= 8
        if is_spring and 1 <= after.hour <= 4:
            return f"they jump to {after:%Y-%m-%d %H:%M}, when clocks are set forward"
    return ""
