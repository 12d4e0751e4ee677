"""Recognise what a file is: a declared layout, the answer of a venue, or columns with names that tell."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.answers import read_answer
from derivdata.sources.archive.importing.guessing import (
    guessed_plan,
    quantity_of,
    unit_of_interest,
    unit_of_rates,
)
from derivdata.sources.archive.importing.instants import has_floating_times
from derivdata.sources.archive.importing.layouts import (
    BY_SIZE,
    Layout,
    Reads,
    is_headless,
    layouts,
    plan_of,
    sources,
)
from derivdata.sources.archive.importing.market_names import names_in_path
from derivdata.sources.archive.importing.opening import Source
from derivdata.sources.archive.importing.outcome import Unclear
from derivdata.sources.archive.importing.plan import Given, ImportPlan, make_plan
from derivdata.sources.archive.importing.readers import Chunk, head_of
from derivdata.sources.archive.importing.values import encoded
from derivdata.sources.archive.schemas import archive_table
from derivdata.sources.venues.registry import VENUES as ADAPTERS
from derivdata.support.text import did_you_mean
from derivdata.tables.contracts import VENUES, venue_slug


class Task(NamedTuple):
    """One table of one file: the layout that was recognised, and how its rows are read."""

    source: Source
    plan: ImportPlan
    layout: str
    frame: pd.DataFrame | None = None  # rows that are read already, by an adapter
    notices: tuple[str, ...] = ()


def recognise(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    """Return the tables of a file and how each is read.

    `table` and `writer` (who wrote the file) are what the caller says; without them the file must say it.
    """
    return [with_zone(task) for task in _recognised(source, table, writer, given)]


def with_zone(task: Task) -> Task:
    """Return a task whose times are UTC where neither the file nor the caller states their zone.

    Tools that write times without a zone write UTC: pandas (`to_datetime` with a `unit`, 3.0), freqtrade's
    and QuantConnect's data files, CryptoDataDownload, and the bulk files of Binance, all seen in 2026.
    `local_times.refuse_local_times` asks where the times contradict it.
    """
    plan = task.plan
    if task.frame is not None or plan.tz is not None:
        return task
    head = head_of(task.source, plan.header)
    time = plan.raw("time", head) if "time" in plan.table.columns and len(head) else None
    if time is None or isinstance(time, str) or not has_floating_times(time):
        return task
    return task._replace(plan=plan._replace(tz=dt.UTC, is_zone_assumed=True))


def _recognised(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    if writer is not None and writer not in sources() and writer not in VENUES and writer not in ADAPTERS:
        names = sources()
        raise ValueError(f"from={writer!r} is not one of {', '.join(names)}{did_you_mean(writer, names)}")
    if table is not None and writer is None and given.map:
        is_spaced = table == "funding_settlements" and _lacks_intervals(source, given)
        plan = make_plan(table, given, is_spaced=is_spaced)
        return [Task(source, plan, "columns as named")]  # the caller says all
    head = head_of(source)
    fitting = _fitting(source, head, table, writer)
    if fitting:
        layout, said = _one_of(source, fitting, table)
        _refuse_other_venue(source, head, layout, given)
        from_path = _from_path(source, layout, said, writer, given)
        constants = {**from_path, **said}
        wanted = [reads for reads in layout.tables(head.columns) if table in (None, reads.table)]
        return [
            Task(
                source,
                plan_of(layout, reads, constants, _with_unit(source, head, reads, given)),
                layout.label,
            )
            for reads in wanted
        ]
    if not given.map and (table is None or writer is not None or not _has_own_names(head, table)):
        tasks = _of_answer(source, table, writer, given)
        if tasks:
            return tasks
    if writer is not None and writer in sources():
        raise _no_layout(source, head, table, writer)
    if writer in VENUES and "exchange" not in {*given.set, *given.map}:
        given = given._replace(set={**given.set, "exchange": writer})
    return [Task(source, guessed_plan(source, head, table, given), "names of the columns")]


def _with_unit(source: Source, head: Chunk, reads: Reads, given: Given) -> Given:
    """State the unit of rates by their size, and that of open interest by the file's name, or ask."""
    if reads.unit != BY_SIZE or given.unit is not None:
        return given
    if reads.table == "oi_history":
        return given._replace(unit=unit_of_interest(source, reads.map["oi_usd"]))
    return given._replace(unit=unit_of_rates(source, head, reads.map["rate_bps_8h"]))


def _lacks_intervals(source: Source, given: Given) -> bool:
    """Return whether neither the caller nor a file of payments states their intervals."""
    stated = {*given.map, *given.set, *(name.lower() for name in head_of(source).columns)}
    return "interval_hours" not in stated


def _has_own_names(head: Chunk, table: str) -> bool:
    """Return whether a file has the names of a table's columns, so that it is not a venue's response."""
    return len({*archive_table(table).columns} & {*head.columns}) > 2


def _of_answer(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    """Return the tables of a venue's response."""
    answer = read_answer(source, writer, given)
    if answer is None:
        return []
    label = f"response of {answer.venue} {answer.path}"
    return [
        Task(source, make_plan(name, Given(accept=given.accept)), label, frame, answer.notices)
        for name, frame in answer.tables.items()
        if table in (None, name)
    ]


def _fitting(
    source: Source, head: Chunk, table: str | None, writer: str | None
) -> list[tuple[Layout, dict[str, str]]]:
    """Return the layouts that a file may be of, with what its name says, the most telling first."""
    fitting = []
    for layout in layouts():
        if writer not in (None, layout.source):
            continue
        if table is not None and all(reads.table != table for reads in layout.reads):
            continue
        if layout.named_only and writer is None:
            continue
        if layout.shared and writer is None and _is_of_other_venue(source, layout):
            continue
        if not layout.may_be_at(source.name, is_stated=table is not None):
            continue
        said = layout.fits(head, source)
        if said is not None:
            fitting.append((layout, said))
    return sorted(fitting, key=lambda pair: -pair[0].weight)


def _is_of_other_venue(source: Source, layout: Layout) -> bool:
    """Return whether the path names one venue, and that is not the layout's."""
    named = names_in_path(source).get("exchange")
    return named is not None and layout.set.get("exchange", named) != named


def _refuse_other_venue(source: Source, head: Chunk, layout: Layout, given: Given) -> None:
    """Ask for the venue where rows state another one than the layout."""
    own = layout.set.get("exchange")
    if own is None or "exchange" in {*given.set, *given.map}:
        return
    for column, values in head.columns.items():
        if column.lower() not in ("exchange", "venue"):
            continue
        stated = {venue_slug(word) for word in encoded(values).texts}
        other = sorted((stated & {*VENUES}) - {own})
        if other:
            raise Unclear(
                f"{source}: its columns are those of {layout.label}, and its column {column} says "
                f"{', '.join(other)}: state the venue with --set exchange={other[0]} or --set exchange={own}",
                "--set",
                [f"exchange={venue}" for venue in (*other, own)],
            )


def _one_of(
    source: Source, fitting: list[tuple[Layout, dict[str, str]]], table: str | None
) -> tuple[Layout, dict[str, str]]:
    """Return the layout that tells most; several that tell the same are a question."""
    best = [pair for pair in fitting if pair[0].weight == fitting[0][0].weight]
    writers = list(dict.fromkeys(layout.source for layout, _ in best))
    if len(writers) > 1:
        raise Unclear(
            f"{source}: its columns are those of {' and of '.join(layout.label for layout, _ in best)}: say "
            f"which with {' or '.join(f'--from {name}' for name in writers)}",
            "--from",
            writers,
        )
    if table is None and best[0][0].named_only:
        best = _of_quantity(source, best)
    tables = [" and ".join(dict.fromkeys(reads.table for reads in layout.reads)) for layout, _ in best]
    if table is None and len({*tables}) > 1:
        raise Unclear(
            f"{source}: its columns are those of {' and of '.join(layout.label for layout, _ in best)}: say "
            f"which with {' or '.join(f'--table {name}' for name in dict.fromkeys(tables))}",
            "--table",
            list(dict.fromkeys(tables)),
        )
    return best[0]


_TABLES_OF = {"rate": "funding", "oi_usd": "oi", "oi_coins": "oi", "last": "prices"}


def _of_quantity(
    source: Source, fitting: list[tuple[Layout, dict[str, str]]]
) -> list[tuple[Layout, dict[str, str]]]:
    """Return the layouts of the quantity that the name of a file says, or all."""
    family = _TABLES_OF.get(quantity_of(source, None) or "")
    own = [pair for pair in fitting if family and pair[0].reads[0].table.startswith(family)]
    return own or fitting


def _no_layout(source: Source, head: Chunk, table: str | None, writer: str) -> Exception:
    """Return the error that no layout of a source fits a file, with the nearest one."""
    own = [layout for layout in layouts() if layout.source == writer]
    telling = [
        layout for layout in own if table is None or any(reads.table == table for reads in layout.reads)
    ]
    if not telling:
        tables = sorted({reads.table for layout in own for reads in layout.reads})
        return ValueError(f"no file of {writer} is read as {table}; they are read as {', '.join(tables)}")
    named = [layout for layout in telling if layout.file and layout.constants(source) is not None]
    if named and is_headless(head.columns):
        columns = named[0].columns
        return ArchiveError(
            f"{source}: {len(head.columns)} columns, where files of this kind have {len(columns)}: "
            f"{', '.join(columns)}"
        )
    has = {column.lower() for column in head.columns}
    nearest = max(telling, key=lambda layout: len(has & {column.lower() for column in layout.columns}))
    file = " or its name" if any(layout.file for layout in telling) else ""
    return ArchiveError(
        f"{source}: no file of {writer} that tells of {table or 'a table'} has this header{file}; it has "
        f"{', '.join(head.columns)[:200]}, and the nearest form {', '.join(nearest.columns)}"
    )


def _from_path(
    source: Source, layout: Layout, said: Mapping[str, str], writer: str | None, given: Given
) -> dict[str, str]:
    """Return venue and symbol from the path or the stated writer, where nothing else states them."""
    stated = {*layout.set, *said, *given.set, *given.map, *(n for r in layout.reads for n in r.map)}
    if writer in VENUES and "exchange" not in stated:
        return {n: w for n, w in {**names_in_path(source), "exchange": writer}.items() if n not in stated}
    return {name: word for name, word in names_in_path(source).items() if name not in stated}
