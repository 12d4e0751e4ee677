"""What is wrong with a table: gaps, doubles, repeated pages, frozen values, clamps, changes, outliers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.analysis._typing import Array
from derivdata.arguments import typed
from derivdata.tables.required import require_columns

__all__ = ["quality"]


def __dir__() -> list[str]:
    return __all__


_VALUES = ("rate_bps_8h", "oi_usd", "volume_usd", "value_usd", "iv", "price_usd")
_PAGE = 5
_CHANGE_AFTER = 3
_MAD = 1.4826


@typed
def quality(
    table: pd.DataFrame,
    *,
    column: str | None = None,
    start: times.Instant | None = None,
    end: times.Instant | None = None,
    outlier: float = 12.0,
) -> pd.DataFrame:
    """What each symbol and venue of a table has, lacks and has twice.

    Parameters
    ----------
    table
        A table over ``time``, or a raw frame that no table would accept, doubles and all, in the order in
        which it came. ``symbol`` and ``exchange`` are used where they are there.
    column
        The value looked at; without it the first known one of the table.
    start, end
        The window that was asked for; without it the one that the provenance names, if any.
    outlier
        How many robust standard deviations from the median make an outlier.

    Returns
    -------
    DataFrame
        One row per symbol and venue:

        ``start``, ``end`` first and last instant; ``step_hours`` usual step [h]; ``expected`` points between
        them at the steps in force; ``present``; ``missing``; ``gaps`` and ``longest_gap_hours`` [h];
        ``duplicates`` (rows beyond the first at an instant) and ``conflicts`` (of those, with another
        value); ``repeated_pages`` (runs of five and more rows that came before in the same order);
        ``frozen`` longest run of one value; ``at_low_share`` and ``at_high_share``, the part of the points
        at the least and at the greatest value, high where a rate is capped; ``clamped``: the window that
        came is shorter at its start than the one asked for by more than two steps; ``interval_changes``;
        ``open_last_bucket``: the last bucket had not ended when the answer was given; ``nulls``;
        ``outliers``.

        ``attrs["summary"]`` says it in a line.

    Raises
    ------
    ValueError
        There is no ``time`` column, times have no zone, or no value column can be told.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "7d", exchanges=["bybit", "okx"])
    >>> report = dd.quality(rates)
    >>> report[["exchange", "expected", "present", "missing"]]
      exchange  expected  present  missing
    0    bybit       168      168        0
    1      okx       168      168        0
    """
    column = column or _value_column(table)
    _check(table, column)
    asked, as_of = _asked(table, start, end)
    keys = [name for name in ("symbol", "exchange") if name in table.columns]
    groups = table.groupby(keys, observed=True, sort=True) if keys else [((), table)]
    rows = [
        dict(zip(keys, key, strict=True)) | _examined(part, column, asked, as_of, outlier)
        for key, part in groups
    ]
    report = pd.DataFrame(rows, columns=[*keys, *_COLUMNS])
    report.attrs["summary"] = _summary(report)
    return report


_COLUMNS = (
    "start",
    "end",
    "step_hours",
    "expected",
    "present",
    "missing",
    "gaps",
    "longest_gap_hours",
    "duplicates",
    "conflicts",
    "repeated_pages",
    "frozen",
    "at_low_share",
    "at_high_share",
    "clamped",
    "interval_changes",
    "open_last_bucket",
    "nulls",
    "outliers",
)


def _value_column(table: pd.DataFrame) -> str:
    known = [name for name in _VALUES if name in table.columns]
    numbers = [n for n in table.columns if pd.api.types.is_float_dtype(table[n].dtype)]
    if not known and len(numbers) != 1:
        raise ValueError(
            f"which column is the value? give column=; numbers are {', '.join(numbers) or 'none'}"
        )
    return (known or numbers)[0]


def _check(table: pd.DataFrame, column: str) -> None:
    keys = [name for name in ("symbol", "exchange") if name in table.columns]
    require_columns(table, "table", [column], others=["time", *keys])
    if not isinstance(table["time"].dtype, pd.DatetimeTZDtype):
        raise ValueError("the table's times have no zone: .dt.tz_localize('UTC') says which")


def _asked(
    table: pd.DataFrame, start: times.Instant | None, end: times.Instant | None
) -> tuple[pd.Timestamp | None, pd.Timestamp | None]:
    """Start of the window asked for, and the instant at which the answer was given."""
    said = table.attrs.get("provenance", {})
    starts = [r["query"]["start"] for r in said.get("requests", []) if "start" in r.get("query", {})]
    asked = (
        times.instant(start, "start") if start is not None else min(map(times.instant, starts), default=None)
    )
    given = end if end is not None else said.get("as_of")
    return asked, None if given is None else times.instant(given, "end")


def _examined(
    part: pd.DataFrame, column: str, asked: pd.Timestamp | None, as_of: pd.Timestamp | None, outlier: float
) -> dict[str, Any]:
    arrived = np.asarray(part["time"].dt.as_unit("us").array.asi8)
    value = part[column].to_numpy(dtype=np.float64)
    stamps, first = np.unique(arrived, return_index=True)
    kept = value[first]
    steps = _steps(stamps)
    return {
        "start": part["time"].min(),
        "end": part["time"].max(),
        "present": stamps.size,
        "nulls": int(np.isnan(kept).sum()),
        **_completeness(stamps, steps),
        **_doubles(arrived, value, stamps, kept),
        **_values(kept[~np.isnan(kept)], outlier),
        "clamped": bool(asked is not None and steps.size and _us(asked) + 2 * steps[0] < stamps[0]),
        "interval_changes": int((np.diff(steps) != 0).sum()),
        "open_last_bucket": _open(part, stamps, steps, as_of),
    }


def _us(stamp: pd.Timestamp) -> int:
    return int(np.datetime64(stamp.tz_convert("UTC").tz_localize(None), "us").astype(np.int64))


def _steps(stamps: Array) -> Array:
    """The step in force at each gap: it changes after three gaps in a row of another length.

    A single longer gap is missing data; the change is dated back to the first of the run.
    """
    gaps = np.diff(stamps)
    if not gaps.size:
        return gaps
    rounded = np.round(gaps / 60e6) * 60e6
    steps = np.empty_like(rounded)
    lengths, counts = np.unique(rounded[: 4 * _CHANGE_AFTER], return_counts=True)
    current = lengths[np.argmax(counts)]
    run = 0
    for i, gap in enumerate(rounded):
        run = run + 1 if i and gap == rounded[i - 1] else 1
        if gap != current and run == _CHANGE_AFTER:
            current = gap
            steps[i - run + 1 : i] = current
        steps[i] = current
    return steps


def _completeness(stamps: Array, steps: Array) -> dict[str, Any]:
    gaps = np.diff(stamps)
    lacking = np.maximum(np.round(gaps / steps) - 1, 0).astype(int) if gaps.size else np.array([], dtype=int)
    holes = lacking > 0
    hours = 3_600e6
    return {
        "step_hours": float(np.median(steps) / hours) if gaps.size else np.nan,
        "expected": int(stamps.size + lacking.sum()),
        "missing": int(lacking.sum()),
        "gaps": int(holes.sum()),
        "longest_gap_hours": float(gaps[holes].max() / hours) if holes.any() else 0.0,
    }


def _doubles(arrived: Array, value: Array, stamps: Array, kept: Array) -> dict[str, Any]:
    again = pd.Series(arrived).duplicated().to_numpy()
    original = kept[np.searchsorted(stamps, arrived)]
    same = (value == original) | (np.isnan(value) & np.isnan(original))
    return {
        "duplicates": int(again.sum()),
        "conflicts": int((again & ~same).sum()),
        "repeated_pages": sum(length >= _PAGE for length in _runs(again & same)),
    }


def _runs(flags: Array) -> Array:
    """Lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.r_[False, flags, False].astype(np.int8)))
    return np.asarray(edges[1::2] - edges[::2])


def _values(value: Array, outlier: float) -> dict[str, Any]:
    if not value.size:
        return {"frozen": 0, "at_low_share": np.nan, "at_high_share": np.nan, "outliers": 0}
    repeats = _runs(np.diff(value) == 0)
    middle = np.median(value)
    scale = _MAD * np.median(np.abs(value - middle))
    return {
        "frozen": int(repeats.max(initial=0)) + 1,
        "at_low_share": float((value == value.min()).mean()),
        "at_high_share": float((value == value.max()).mean()),
        "outliers": int((np.abs(value - middle) > outlier * scale).sum()) if scale > 0 else 0,
    }


def _open(part: pd.DataFrame, stamps: Array, steps: Array, as_of: pd.Timestamp | None) -> bool:
    bucketed = "resolution" in part.columns and str(part["resolution"].iloc[-1]) not in ("raw", "unstated")
    return bool(bucketed and as_of is not None and steps.size and stamps[-1] + steps[-1] > _us(as_of))


def _summary(report: pd.DataFrame) -> str:
    if report.empty:
        return "no rows"
    lacking, doubled = int(report["missing"].sum()), int(report["duplicates"].sum())
    whole = report["present"].sum() / max(report["expected"].sum(), 1)
    words = [f"{len(report)} series, {report['present'].sum():,} points, {whole:.2%} of those expected"]
    for count, what in (
        (lacking, f"missing in {int(report['gaps'].sum()):,} gaps"),
        (doubled, "duplicates"),
        (int(report["repeated_pages"].sum()), "repeated pages"),
        (int(report["clamped"].sum()), "series clamped at their start"),
        (int(report["interval_changes"].sum()), "interval changes"),
        (int(report["open_last_bucket"].sum()), "open last buckets"),
        (int(report["nulls"].sum()), "nulls"),
        (int(report["outliers"].sum()), "outliers"),
    ):
        if count:
            words.append(f"{count:,} {what}")
    return "; ".join(words)
