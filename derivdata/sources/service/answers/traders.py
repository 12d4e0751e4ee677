"""Sums over single traders, which the HIP and builder answers are all made of: so they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers.context import RequestContext
from derivdata.sources.service.view import View
from derivdata.sources.service.window import INSTANT, Window

__all__ = [
    "QUARTER",
    "by_key",
    "envelope",
    "newest_per_day",
    "ranked",
    "read_past",
    "steps",
    "summary",
    "sums",
]

QUARTER = pd.Timedelta(15, "min")
"""Step of the base tables; a step is known when it is over."""

_DEFAULT = "7d"
_WEEK = pd.Timedelta(7, "D")


def envelope(context: RequestContext, chosen: Window, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer's own fields between those that every answer of these families has."""
    name = context.params.get("range") or _DEFAULT
    return {"success": True, "period": name, "range": name, **body, "notices": chosen.notices}


def read_past(view: View, table: str, chosen: Window) -> pd.DataFrame:
    """Read the rows of a base table whose quarter of an hour lies in the window and is over."""
    view.need(table)
    return view.read(table, chosen.start, min(chosen.end, view.now - QUARTER + INSTANT))


def sums(frame: pd.DataFrame, by: Sequence[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """Add columns up by group, under their names on the wire; `by` stays in front."""
    grouped = frame.groupby(list(by), observed=True, sort=True)[list(columns)].sum()
    return grouped.rename(columns=dict(columns)).round(4).reset_index()


def summary(frame: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, Any]:
    """Add columns up over all rows, under their names on the wire."""
    return {name: round(frame[column].sum().item(), 4) for column, name in columns.items()}


def ranked(frame: pd.DataFrame, column: str, limit: int | None = None) -> pd.DataFrame:
    """Sort rows by a column, the largest first, ties by the first column."""
    ordered = frame.sort_values([column, frame.columns[0]], ascending=[False, True])
    return ordered if limit is None else ordered.head(limit)


def steps(context: RequestContext, frame: pd.DataFrame, chosen: Window) -> pd.DataFrame:
    """Floor times to the hour for windows up to a week, else to the day."""
    hourly = chosen.requested <= _WEEK and context.params.get("range") != "all"
    return frame.assign(timestamp=frame["time"].dt.floor("1h" if hourly else "1D"))


def newest_per_day(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the last row of every key and day, with its ``day``."""
    days = frame.assign(day=frame["time"].dt.floor("1D")).sort_values("time", kind="stable")
    return days.drop_duplicates([*keys, "day"], keep="last")


def by_key(frame: pd.DataFrame, key: str) -> dict[str, Any]:
    """Return the rows of each value of a column as a JSON array, without that column."""
    ordered = frame.sort_values([key, "day"])
    return json_rows.split(json_rows.objects(ordered.drop(columns=key)), ordered[key].astype(object))
