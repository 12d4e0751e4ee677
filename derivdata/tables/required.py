"""Check that a frame has the columns that a function needs; misuse is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.support.text import did_you_mean
from derivdata.support.times import has_zone
from derivdata.units import VOLATILITY_SPELLINGS

_TIMES = ("time", "start", "end", "expiry")
_NAMES = ("symbol", "exchange", "side", "instrument_name")
_LARGEST_MEDIAN_IV = 15.0  # options in their last hours trade at up to 1,500 %; 15 % is rare


def require_columns(
    frame: pd.DataFrame,
    argument: str,
    numbers: Sequence[str] = (),
    *,
    others: Sequence[str] = (),
    any_kind: Sequence[str] = (),
) -> None:
    """Refuse a frame that lacks a column, has one twice, or holds something else where numbers belong.

    Columns of times and names (`_TIMES`, `_NAMES`) must hold these, unless `any_kind` has them.
    """
    for name in (*others, *numbers, *any_kind):
        if name not in frame.columns:
            near = did_you_mean(name, frame.columns)
            raise ValueError(f"{argument} has no column {name!r}{near}")
        if frame.columns.get_loc(name).__class__ is not int:
            raise ValueError(f"{argument} has the column {name!r} more than once")
    for name in numbers:
        if len(frame) and not pd.api.types.is_numeric_dtype(frame[name]):
            raise ValueError(f"{argument} has no numbers in the column {name!r} but {frame[name].dtype}")
    for name in others if len(frame) else ():
        _require_kind(frame, argument, name, is_time=name in _TIMES, is_name=name in _NAMES)


def _require_kind(frame: pd.DataFrame, argument: str, name: str, *, is_time: bool, is_name: bool) -> None:
    held = frame[name].dtype
    if is_time and held.kind != "M":
        raise ValueError(f"{argument} must have times in the column {name!r}, got {held}")
    if is_name and held.kind in "biufcmM":
        raise ValueError(f"{argument} has no text in the column {name!r} but {held}")


def require_zone(frame: pd.DataFrame, argument: str) -> None:
    """Refuse a frame whose ``time`` has no time zone: its wall clock may be of any place."""
    if not has_zone(frame["time"]):
        raise ValueError(
            f"{argument} has times without a zone: localize them with "
            f"{argument}['time'].dt.tz_localize('UTC')"
        )


def require_instants(frame: pd.DataFrame, argument: str, names: Sequence[str]) -> None:
    """Refuse a frame that holds something else than instants in one of its columns."""
    for name in names:
        _require_kind(frame, argument, name, is_time=True, is_name=False)
        if frame[name].isna().any():
            raise ValueError(f"{argument} has a row without {name!r}")


def require_decimal_volatility(iv: Any, remedy: str = "divide it by 100") -> None:
    """Refuse implied volatilities that look like percent: no unit is stated and their median is above 15.

    Lazy arrays are not read.
    """
    if getattr(iv, "attrs", {}).get("units") in VOLATILITY_SPELLINGS:
        return
    if getattr(iv, "chunks", None) is not None:
        return
    values = np.asarray(iv, dtype=np.float64)
    if not (values > _LARGEST_MEDIAN_IV).any():
        return
    finite = values[np.isfinite(values)]
    if finite.size and (median := float(np.median(finite))) > _LARGEST_MEDIAN_IV:
        raise ValueError(
            f"iv looks like percent, its median is {median:.4g}: "
            f"a volatility is decimal, 0.55 for 55 %; {remedy}"
        )
