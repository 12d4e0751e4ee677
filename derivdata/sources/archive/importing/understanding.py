"""What was understood of files, as text that a user can check before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from derivdata.sources.archive.importing.plan import ImportPlan
from derivdata.sources.archive.importing.recognition import Task
from derivdata.support import times
from derivdata.support.text import escape_controls
from derivdata.tables.schema import Kind

_EXAMPLES = 5


def understood(
    tasks: Sequence[Task], rows: pd.DataFrame | None, counts: Mapping[int, int], missing: str
) -> str:
    """Return the table, where its columns come from, units, zone, symbols, venues, span and one row.

    `missing` says which rows the series of the files lack.
    """
    plan = tasks[0].plan
    layouts = list(dict.fromkeys(task.layout for task in tasks))
    files = f"{len(tasks)} files, " if len(tasks) > 1 else ""
    lines = [
        f"table     {plan.table.name}: {plan.table.doc}",
        f"files     {files}{sum(counts.values()):,} rows; layout: {', '.join(layouts[:_EXAMPLES])}",
        f"columns   {', '.join(_sources(tasks))}",
        f"units     {_units(plan)}",
        f"zone      {_zone(tasks)}",
    ]
    if rows is None or not len(rows):
        return "\n".join([*lines, "rows      none that fits"])
    for label, name in (("symbols", "symbol"), ("venues", "exchange")):
        if name in rows:
            lines.append(f"{label:9} {_some(rows[name])}")
    if "interval_hours" in rows:
        hours = sorted({f"{h:g} h" for h in rows["interval_hours"].dropna().unique()})
        lines.append(f"interval  {', '.join(hours[:_EXAMPLES])}{' (from spacing)' if plan.is_spaced else ''}")
    if "time" in rows:
        first = rows["time"].min()
        last = rows["time"].max()
        lines.append(f"span      {times.iso(first)} to {times.iso(last)}")
    if missing:
        lines.append(f"missing   {missing}")
    lines.append(f"a row     {_row(plan, rows.iloc[0])}")
    return escape_controls("\n".join(lines), keep="\n")


def _zone(tasks: Sequence[Task]) -> str:
    """Return the zone of times that state none."""
    if any(task.plan.is_zone_assumed for task in tasks):
        return "UTC, as the times state no zone (--tz ZONE if they are local times)"
    return str(tasks[0].plan.tz or "as the file states it")


def _sources(tasks: Sequence[Task]) -> list[str]:
    """Return each column's source: a column of the file, or a value."""
    plan = tasks[0].plan
    words = [f"{name} = {source}" for name, source in plan.sources.items()]
    for name in plan.constants:
        values = list(dict.fromkeys(task.plan.constants.get(name, "") for task in tasks))
        shown = ", ".join(values[:_EXAMPLES]) + (", …" if len(values) > _EXAMPLES else "")
        words.append(f"{name}: {shown}")
    return words or ["of the same names"]


def _units(plan: ImportPlan) -> str:
    if plan.unit is not None:
        return f"{plan.unit}; stored as {_stored_units(plan)}"
    return f"as stored: {_stored_units(plan)}"


def _stored_units(plan: ImportPlan) -> str:
    named = [
        f"{name} [{column.unit}]"
        for name, column in plan.table.columns.items()
        if column.kind is Kind.NUMBER and column.unit
    ]
    return ", ".join(named[:8])


def _some(values: pd.Series) -> str:
    words = sorted(map(str, values.dropna().unique()))
    more = f" and {len(words) - _EXAMPLES} more" if len(words) > _EXAMPLES else ""
    return ", ".join(words[:_EXAMPLES]) + more


def _row(plan: ImportPlan, row: Any) -> str:
    cells = []
    for name in plan.table.columns:
        value = row.get(name)
        if value is None or pd.isna(value):
            continue
        shown = (
            times.iso(value)
            if isinstance(value, pd.Timestamp)
            else f"{value:.10g}"
            if isinstance(value, float)
            else value
        )
        cells.append(f"{name}={shown}")
    return ", ".join(map(str, cells))
