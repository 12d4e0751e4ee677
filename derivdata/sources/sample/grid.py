"""Instants of the sample as whole numbers: microseconds, days, and steps within a day."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.support import times

START = pd.Timestamp("2025-09-01", tz="UTC").as_unit("us")
NOW = pd.Timestamp("2026-06-30 12:00", tz="UTC").as_unit("us")
STEP_US = 300_000_000
HOUR_US = 3_600_000_000
DAY_US = 86_400_000_000
STEPS = DAY_US // STEP_US


def day(stamp: pd.Timestamp | str) -> int:
    """Return days since 1970 of a date or of the day that an instant lies in."""
    if isinstance(stamp, str):
        stamp = pd.Timestamp(stamp, tz="UTC")
    return times.us(stamp) // DAY_US


def instants(microseconds: Any) -> pd.DatetimeIndex:
    """Return UTC instants from microseconds since 1970."""
    values = np.ascontiguousarray(microseconds, dtype=np.int64).view("datetime64[us]")
    return pd.DatetimeIndex(values).tz_localize("UTC")


START_DAY = day(START)
ANCHOR_DAY = START_DAY - 32


def years(microseconds: Any) -> Any:
    """Return years of 365 days since the sample's start."""
    return (np.asarray(microseconds) - START_DAY * DAY_US) / (365.0 * DAY_US)
