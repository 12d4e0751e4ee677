"""Funding intervals of files: durations, and numbers whose size says whether they are hours or minutes."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from derivdata.sources.archive.importing.values import Rejections, encoded, numbers, shown
from derivdata.support.arrays import Array
from derivdata.tables.payment_intervals import VALID_HOURS as PAID_HOURS

VALID_HOURS = (0.25, 0.5, *PAID_HOURS)
"""Intervals at which venues pay or quote funding."""
_PER_HOUR = {
    "hours": 1.0,
    "minutes": 60.0,
    "seconds": 3_600.0,
    "ms": 3_600_000.0,
    "µs": 3_600_000_000.0,
    "ns": 3_600_000_000_000.0,
}
_WORDS = {"h": 1.0, "hr": 1.0, "hour": 1.0, "hours": 1.0, "m": 60.0, "min": 60.0, "minutes": 60.0}
_WORDS |= {"s": 3_600.0, "sec": 3_600.0, "seconds": 3_600.0, "ms": 3_600_000.0, "d": 1 / 24, "day": 1 / 24}
_DURATION = re.compile(r"(?:PT)?(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:\d{4}-\d{2}-\d{2}T)?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?Z?")
"""``08:00:00``, and BitMEX's ``2000-01-01T08:00:00.000Z``."""


def interval_hours(column: pa.ChunkedArray, rejections: Rejections) -> Array:
    """Return intervals in hours; a value outside `VALID_HOURS` in every unit is rejected.

    The smallest unit that makes an interval of a number is its unit: 8 is hours, 480 minutes, 28800 seconds.
    No interval of one unit is one of another.
    """
    if pa.types.is_duration(column.type):
        micros = column.cast(pa.duration("us")).cast(pa.int64())
        values = np.asarray(micros.cast(pa.float64()).to_numpy(zero_copy_only=False)) / 3.6e9
    elif pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        values = encoded(column).mapped(_hours_of).astype(np.float64)
    else:
        values = numbers(column, "interval_hours", rejections)
    rejections.reject(np.isinf(values), lambda row: f"interval_hours={shown(column, row)} is not a number")
    with np.errstate(invalid="ignore"):
        hours = np.where(np.isin(values, VALID_HOURS), values, np.nan)
        for per_hour in _PER_HOUR.values():
            stated = np.round(values / per_hour, 9)
            hours = np.where(np.isnan(hours) & np.isin(stated, VALID_HOURS), stated, hours)
    wrong = np.isfinite(values) & np.isnan(hours)
    rejections.reject(
        wrong,
        lambda row: (
            f"interval_hours={values[row]:g} is not an interval"
            + ("" if values[row] <= 0 else f": venues pay every {_listed()} hours")
        ),
    )
    return hours


def _listed() -> str:
    *others, last = (f"{hours:g}" for hours in VALID_HOURS)
    return f"{', '.join(others)} or {last}"


def _hours_of(text: str) -> float:
    """Return the hours of a text, or the number that it is; infinite where it is neither."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        return int(clock[1]) + int(clock[2]) / 60 + int(clock[3] or 0) / 3600
    duration = _DURATION.fullmatch(text)
    if duration is not None and duration[2].lower() in _WORDS:
        return float(duration[1]) / _WORDS[duration[2].lower()]
    try:
        return float(text) if "_" not in text and text.isascii() else np.inf
    except ValueError:
        return np.inf
