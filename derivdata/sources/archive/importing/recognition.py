"""Recognise a file: a declared layout, the response of a venue, or the names of its columns.

Each file of the folder ``layouts`` is a source. A layout has the columns (and if necessary the file name) by
which it is recognised, and for each table that it fills: its columns, constants, unit, and the words of its
sides. ``docs/real-data.md`` explains how to add one.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.adjustments import ADJUST
from derivdata.sources.archive.importing.cells import encoded
from derivdata.sources.archive.importing.column_meanings import quantity_of
from derivdata.sources.archive.importing.guessed_units import unit_of_interest, unit_of_rates
from derivdata.sources.archive.importing.guessing import guessed_plans
from derivdata.sources.archive.importing.market_names import (
    KNOWN_VENUES,
    meaning_of,
    names_in_path,
    plain_name,
    venues_of,
)
from derivdata.sources.archive.importing.plan import Adjust, Given, ImportPlan, Unclear, make_plan
from derivdata.sources.archive.importing.readers import Chunk, Header, head_of
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import has_floating_times, zone, zone_in_name
from derivdata.sources.archive.importing.unread_columns import unread_columns
from derivdata.sources.archive.importing.venue_responses import read_response, refuse_size_of_several
from derivdata.sources.archive.schemas import archive_table
from derivdata.sources.venues.registry import VENUES as ADAPTERS
from derivdata.support.text import did_you_mean
from derivdata.tables.contracts import VENUES, venue_slug
from derivdata.tables.schema import Kind

BY_SIZE = "by_size"
"""Unit of a layout with an unknown unit: it follows from the size of rates or the file name, or raises a
question.
"""


class Reads(NamedTuple):
    """Content of a file for one table: arguments of an import, and the final function."""

    table: str
    map: Mapping[str, str]
    set: Mapping[str, str]
    unit: str | None = None
    adjust: Adjust | None = None
    spaced: bool = False
    extra: Mapping[str, Kind] = {}
    optional: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()  # columns that `adjust` makes
    ignores: tuple[str, ...] = ()  # columns of the table that are not those of this name in the file
    venues: Mapping[str, Mapping[str, Any]] = {}  # by venue: its unit, and its words of sides
    instead: bool = False  # read only where an earlier table of the layout of this name is not


class Layout(NamedTuple):
    """One form of files.

    `columns` are all columns of its files in order, `signature` those by which it is recognised, `match`
    patterns of their values. `file` is a pattern of the path's end; its groups are values of columns. With
    `by_position`, names in the first line are unreliable and columns are found by position. `set` and
    `values` apply to every table. `about` is the place where the layout was seen, with version and date.
    """

    source: str
    name: str
    columns: tuple[str, ...]
    reads: tuple[Reads, ...]
    signature: tuple[str, ...]
    file: str = ""
    by_position: bool = False
    set: Mapping[str, str] = {}
    values: Mapping[str, Mapping[str, str]] = {}
    match: Mapping[str, str] = {}
    exact: bool = False  # a file with other columns is of another layout
    named_only: bool = False  # its columns occur in many files: it is used only with `--from`
    shared: bool = False  # other venues' files have its columns: a path that names another venue counts
    is_local: bool = False  # its times are of the clock of whoever saved the file
    hint: str = ""  # required text of the path, unless the table is given
    unless: str = ""  # text in the path of another layout with these columns
    about: str = ""
    sample: str = ""
    sample_name: str = ""

    @property
    def label(self) -> str:
        """Source and name, for messages."""
        return f"{self.source} {self.name}"

    @property
    def table_names(self) -> list[str]:
        """The tables that its files fill."""
        return list(dict.fromkeys(reads.table for reads in self.reads))

    @property
    def mapped_names(self) -> frozenset[str]:
        """The columns of tables that its files have."""
        return frozenset().union(*(reads.map for reads in self.reads))

    @property
    def header(self) -> Header:
        """The columns, for a reader of CSV."""
        return Header(self.columns, self.by_position)

    def constants(self, source: Source) -> dict[str, str] | None:
        """Return the constants in a file's name; None: the file has another layout."""
        if not self.file:
            return {}
        for name in (source.path.as_posix(), source.name):
            match = re.search(rf"(?:^|[/_]){self.file}$", name)
            if match is not None:
                return {key: word for key, word in match.groupdict().items() if word}
        return None

    def may_be_at(self, path: str, *, is_stated: bool) -> bool:
        """Return whether a path has the words that the layout's files have; `is_stated`: its table is."""
        has_hint = not self.hint or re.search(self.hint, path, re.IGNORECASE) is not None
        is_other = bool(self.unless) and re.search(self.unless, path) is not None
        return (has_hint or is_stated) and not is_other

    def fits(self, chunk: Chunk, source: Source) -> dict[str, str] | None:
        """Return the constants in a file's name if its first rows have this layout, else None."""
        constants = self.constants(source)
        if constants is None:
            return None
        if is_headless(chunk.columns):
            # Numbers alone identify a layout only together with a file name or patterns of values.
            fits = bool(self.file or self.match) and self._fits_by_position(chunk)
        elif self.by_position:
            fits = self._fits_by_position(chunk)
        else:
            fits = self._fits_by_name(chunk)
        return constants if fits else None

    def _fits_by_position(self, chunk: Chunk) -> bool:
        if len(chunk.columns) != len(self.columns):
            return False
        return self._matches(dict(zip(self.columns, chunk.columns.values(), strict=True)))

    def _fits_by_name(self, chunk: Chunk) -> bool:
        lower = set(map(str.lower, chunk.columns))
        if not lower.issuperset(map(str.lower, self.signature)):
            return False
        if self.exact and len(lower) > len(self.columns):
            return False
        return self._matches(chunk.columns) and bool(self.tables(chunk.columns))

    def tables(self, columns: Collection[str]) -> list[Reads]:
        """Return the tables that a file with these columns fills."""
        if is_headless(columns) or self.by_position:
            return [*self.reads]
        lower = set(map(str.lower, columns))
        fitting: list[Reads] = []
        for reads in self.reads:
            needed = {c.lower() for n, c in reads.map.items() if n not in reads.optional}
            is_read = reads.instead and any(other.table == reads.table for other in fitting)
            if needed <= lower and not is_read:
                fitting.append(reads)
        return fitting

    def _matches(self, columns: Mapping[str, Any]) -> bool:
        spelt = {column.lower(): column for column in columns}
        for name, pattern in self.match.items():
            values = columns[spelt[name.lower()]].drop_null()
            if not len(values) or re.fullmatch(pattern, str(values[0].as_py())) is None:
                return False
        return True

    @property
    def weight(self) -> int:
        """Strength of a fit: number of columns, patterns, and a name."""
        names = self.columns if self.by_position else self.signature
        weight = len(names) + 2 * len(self.match)
        return weight + 20 if self.file else weight


def is_headless(columns: Collection[str]) -> bool:
    """Return whether columns are named by their places, as of lists and of CSV without a header."""
    return [*columns] == [str(place) for place in range(len(columns))]


def plan_of(layout: Layout, reads: Reads, said: Mapping[str, str], given: Given) -> ImportPlan:
    """Return how a file of a layout is read: `given` values come before the layout and the path."""
    if given.unit is not None and "filled_quantity" in archive_table(reads.table).columns:
        raise ValueError(
            f"unit={given.unit!r}: the layout {layout.label} states the unit of its amounts: omit it"
        )
    columns = {*archive_table(reads.table).columns, "interval_hours", *reads.extra}
    mapped = {**reads.map, **given.map}
    fixed: dict[str, str] = {}
    for name, word in {**layout.set, **reads.set, **said}.items():
        if name in columns and name not in given.map:
            words = layout.values.get(name, {})
            fixed[name] = words.get(word, word)
    fixed |= given.set
    for name in given.set:
        mapped.pop(name, None)
    own = reads.venues.get(venue_slug(fixed.get("exchange", "")), {})
    values = {**layout.values}
    if "side" in own:
        values["side"] = _pairs(own["side"])
    values |= given.values
    unit = None if reads.unit == BY_SIZE else reads.unit
    whole = given._replace(
        map=mapped,
        set={name: word for name, word in fixed.items() if name not in mapped},
        unit=given.unit or own.get("unit") or unit,
        values={name: words for name, words in values.items() if name in columns},
        extra=reads.extra,
    )
    has_interval = "interval_hours" in {*given.map, *given.set}
    plan = make_plan(
        reads.table, whole, layout.header, reads.adjust, is_spaced=reads.spaced and not has_interval
    )
    return plan._replace(
        optional=frozenset(reads.optional), makes=frozenset(reads.makes), ignored=frozenset(reads.ignores)
    )


@cache
def layouts() -> tuple[Layout, ...]:
    """Return every layout, in the order of sources and of their declaration."""
    listed: list[Layout] = []
    folder = Path(__file__).with_name("layouts")
    for file in sorted(folder.glob("*.toml")):
        declared = tomllib.loads(file.read_text(encoding="utf-8"))
        listed += map(_layout, declared["layout"])
    return tuple(listed)


def sources() -> list[str]:
    """Return the names of sources whose layouts are declared."""
    return list(dict.fromkeys(layout.source for layout in layouts()))


def _pairs(text: str) -> dict[str, str]:
    """Return the mapping of a text of ``name=word``; ``_`` in a word is literal."""
    return dict(pair.split("=", 1) for pair in text.split())


def _layout(declared: dict[str, Any]) -> Layout:
    columns = tuple(_names(declared["columns"]))
    return Layout(
        source=declared["source"],
        name=declared["name"],
        columns=columns,
        reads=tuple(_reads(reads) for reads in declared["reads"]),
        signature=tuple(_names(declared.get("signature", declared["columns"]))),
        file=declared.get("file", ""),
        by_position=declared.get("by_position", False),
        set=_pairs(declared.get("set", "")),
        values=declared.get("values", {}),
        match=declared.get("match", {}),
        exact=declared.get("exact", False),
        named_only=declared.get("named_only", False),
        shared=declared.get("shared", False),
        is_local=declared.get("is_local", False),
        hint=declared.get("hint", ""),
        unless=declared.get("unless", ""),
        about=declared.get("about", ""),
        sample=declared.get("sample", ""),
        sample_name=declared.get("sample_name", ""),
    )


def _names(declared: str | list[str]) -> list[str]:
    """Return names, declared in one text or, if some contain blanks, as a list."""
    if isinstance(declared, str):
        return declared.split()
    return declared


def _reads(declared: dict[str, Any]) -> Reads:
    mapped = declared["map"]
    return Reads(
        table=declared["table"],
        map=_pairs(mapped) if isinstance(mapped, str) else mapped,
        set=_pairs(declared.get("set", "")),
        unit=declared.get("unit"),
        adjust=ADJUST[declared["adjust"]] if "adjust" in declared else None,
        spaced=declared.get("spaced", False),
        extra={name: Kind[kind.upper()] for name, kind in _pairs(declared.get("extra", "")).items()},
        optional=tuple(declared.get("optional", "").split()),
        makes=tuple(declared.get("makes", "").split()),
        ignores=tuple(declared.get("ignores", "").split()),
        venues=declared.get("venues", {}),
        instead=declared.get("instead", False),
    )


def listing() -> pd.DataFrame:
    """Return every layout: source, name, tables, the columns by which it is recognised, where it was seen."""
    rows = []
    for layout in layouts():
        signature = " ".join(layout.signature)
        if layout.file:
            signature += f" · file name {layout.file}"
        rows.append(
            {
                "source": layout.source,
                "layout": layout.name,
                "tables": " ".join(layout.table_names),
                "signature": signature,
                "seen": layout.about,
            }
        )
    return pd.DataFrame(rows)


class Task(NamedTuple):
    """One table of one file: the layout that was recognised, and how its rows are read."""

    source: Source
    plan: ImportPlan
    layout: str
    frame: pd.DataFrame | None = None  # rows that are read already, by an adapter
    notices: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()  # columns with numbers that no table of the file stores


def recognise(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    """Return the tables of a file and how each is read.

    `table` and `writer` (who wrote the file) come from the caller; without them the file must identify them.
    """
    tasks = _recognised(source, table, writer, given)
    if not tasks:
        raise ArchiveError(f"{source}: it lacks columns of {table}: name them with --map NAME=COLUMN")
    heads: dict[Header | None, Chunk] = {}
    for task in tasks:
        if task.frame is None and task.plan.header not in heads:
            heads[task.plan.header] = head_of(source, task.plan.header)
    first, *others = [with_zone(task, heads) for task in tasks]
    unread = [unread_columns(head, [task.plan for task in tasks]) for head in heads.values()]
    return [first._replace(unread=unread[0] if unread else ()), *others]


def with_zone(task: Task, heads: Mapping[Header | None, Chunk]) -> Task:
    """Return a task with UTC times if neither the file nor the caller has a zone.

    Tools that write times without a zone write UTC: pandas (`to_datetime` with a `unit`, 3.0), freqtrade's
    and QuantConnect's data files, CryptoDataDownload, and the bulk files of Binance, all seen in 2026.
    `row_checks.refuse_local_times` raises a question if the times contradict it.
    """
    plan = task.plan
    if task.frame is not None or plan.tz is not None:
        return task
    head = heads[plan.header]
    time = plan.raw("time", head) if "time" in plan.table.columns and len(head) else None
    if time is None or isinstance(time, str) or not has_floating_times(time):
        return task
    stated = _stated_zone(task.source, plan.source_of("time", head.columns) or "") or _zone_of_rows(
        task.source, head
    )
    if stated is not None:
        return task._replace(plan=plan._replace(tz=zone(stated)))
    return task._replace(plan=plan._replace(tz=dt.UTC, is_zone_assumed=True))


_ZONES = "such as --tz UTC+8 or --tz America/New_York (or --tz UTC if they are UTC)"
_SOME_ZONES = ["UTC", "UTC+8", "America/New_York", "Europe/London"]


_NAMES_OF_ZONES = frozenset({"tz", "timezone", "timezonename", "tzname", "zone"})


def _zone_of_rows(source: Source, head: Chunk) -> str | None:
    """Return the zone that a column states for all rows; raise for several zones or an unknown one."""
    for column, values in head.columns.items():
        if plain_name(column) not in _NAMES_OF_ZONES:
            continue
        words = encoded(values).texts
        if not words:
            return None
        try:
            zones = {str(zone(word)) for word in words}
        except ValueError:
            zones = set()
        if len(zones) != 1:
            raise Unclear(
                f"{source}: its column {column} has the zones of its times ({', '.join(words[:3])}), of "
                f"which one for all rows can be read: state it with --tz, {_ZONES}, or write the times in "
                "UTC",
                "--tz",
                _SOME_ZONES,
            )
        return words[0]
    return None


def _stated_zone(source: Source, column: str) -> str | None:
    """Return the zone in the name of the column of times; raise a question for an unspecified local time."""
    try:
        return zone_in_name(column)
    except ValueError as word:
        raise Unclear(
            f"{source}: its column {column!r} has local times ({word}) of a zone that is not known: state it "
            f"with --tz, {_ZONES}",
            "--tz",
            _SOME_ZONES,
        ) from None


def _recognised(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    if writer is not None and writer not in sources() and writer not in VENUES and writer not in ADAPTERS:
        names = sources()
        raise ValueError(f"from={writer!r} is not one of {', '.join(names)}{did_you_mean(writer, names)}")
    head = head_of(source)
    if table is not None and writer is None and given.map:
        return _guessed(source, head, table, given, "columns as named")
    fitting = _fitting(source, head, table, writer)
    if fitting:
        return _tasks_of_layout(source, head, fitting, table, writer, given)
    if not given.map and (table is None or writer is not None or not _has_own_names(head, table)):
        tasks = _of_answer(source, table, writer, given)
        if tasks:
            return tasks
    if writer is not None and writer in sources():
        raise _no_layout(source, head, table, writer)
    if writer in VENUES and "exchange" not in {*given.set, *given.map}:
        given = given._replace(set={**given.set, "exchange": writer})
    return _guessed(source, head, table, given, "names of the columns")


def _tasks_of_layout(
    source: Source,
    head: Chunk,
    fitting: list[tuple[Layout, dict[str, str]]],
    table: str | None,
    writer: str | None,
    given: Given,
) -> list[Task]:
    """Return the tables of a file by the layout that fits it best."""
    layout, constants = _one_of(source, fitting, table)
    _refuse_unknown_zone(source, layout, given)
    _refuse_other_venue(source, head, layout, given)
    given = _with_own_venue(head, layout, constants, given)
    constants = {**_from_path(source, layout, constants, writer, given), **constants}
    tasks = []
    for reads in layout.tables(head.columns):
        if table in (None, reads.table):
            plan = plan_of(layout, reads, constants, _with_unit(source, head, reads, given))
            tasks.append(Task(source, plan, layout.label))
    return tasks


def _guessed(source: Source, head: Chunk, table: str | None, given: Given, label: str) -> list[Task]:
    """Return the tables of a file without a declared layout; the first has the notices."""
    plans, notices = guessed_plans(source, head, table, given)
    first, *others = [Task(source, plan, label) for plan in plans]
    return [first._replace(notices=notices), *others]


def _refuse_unknown_zone(source: Source, layout: Layout, given: Given) -> None:
    """Ask for the zone of a layout whose files have the times of whoever saved them."""
    if layout.is_local and given.tz is None:
        raise Unclear(
            f"{source}: a {layout.label} has the times of the computer that saved it: state their zone "
            f"with --tz, {_ZONES}",
            "--tz",
            _SOME_ZONES,
        )


def _with_unit(source: Source, head: Chunk, reads: Reads, given: Given) -> Given:
    """Set the unit of rates by their size, and of open interest by the file name, or raise a question."""
    if reads.unit != BY_SIZE or given.unit is not None:
        return given
    if reads.table == "oi_history":
        return given._replace(unit=unit_of_interest(source, reads.map["oi_usd"]))
    return given._replace(unit=unit_of_rates(source, head, reads.map["rate_bps_8h"]))


def _has_own_names(head: Chunk, table: str) -> bool:
    """Return whether a file has the names of a table's columns, so that it is not a venue's response."""
    return len({*archive_table(table).columns} & {*head.columns}) > 2


def _of_answer(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    """Return the tables of a venue's response."""
    answer = read_response(source, writer, given)
    if answer is None:
        return []
    refuse_size_of_several(source, answer, given)
    label = f"response of {answer.venue} {answer.path}"
    if not answer.tables:
        raise ArchiveError(f"{source}: it is a {label}: {'; '.join(answer.notices)}")
    return [
        Task(source, make_plan(name, Given(accept=given.accept)), label, frame, answer.notices)
        for name, frame in answer.tables.items()
        if table in (None, name)
    ]


def _fitting(
    source: Source, head: Chunk, table: str | None, writer: str | None
) -> list[tuple[Layout, dict[str, str]]]:
    """Return the layouts that may match a file, with the constants of its name, the most specific first."""
    fitting = []
    for layout in layouts():
        if writer not in (None, layout.source):
            continue
        if table is not None and table not in layout.table_names:
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
    """Return whether the path names one venue that is not the layout's."""
    named = names_in_path(source.name).get("exchange")
    return named is not None and layout.set.get("exchange", named) != named


_SHOWN_VENUES = 3


def _refuse_other_venue(source: Source, head: Chunk, layout: Layout, given: Given) -> None:
    """Raise a question about the venue if rows have another one than the layout, known or not."""
    own = layout.set.get("exchange")
    if own is None or "exchange" in {*given.set, *given.map}:
        return
    column = _venue_column(head, layout)
    if column is None:
        return
    stated = venues_of(encoded(head.columns[column]).texts)
    other = sorted(stated - {own})[:_SHOWN_VENUES]
    if other:
        raise Unclear(
            f"{source}: its columns are those of {layout.label}, and its column {column} states "
            f"{', '.join(other)}: state the venue with --set exchange={other[0]} or --set exchange={own}",
            "--set",
            [f"exchange={venue}" for venue in (*other, own)],
        )


def _venue_column(head: Chunk, layout: Layout) -> str | None:
    """Return the column of venues of a file that the layout does not use.

    A column ``source`` has venues only if one of its words is known.
    """
    used = {column.lower() for reads in layout.reads for column in reads.map.values()}
    for column, values in head.columns.items():
        if meaning_of(column) != "exchange" or column.lower() in used:
            continue
        venues = venues_of(encoded(values).texts)
        if venues and (plain_name(column) != "source" or venues & KNOWN_VENUES):
            return column
    return None


def _with_own_venue(head: Chunk, layout: Layout, said: Mapping[str, str], given: Given) -> Given:
    """Map the column of venues of a file whose layout has none; it comes before the names of folders."""
    if "exchange" in {*layout.set, *said, *layout.mapped_names, *given.set, *given.map}:
        return given
    column = _venue_column(head, layout)
    if column is None:
        return given
    return given._replace(map={**given.map, "exchange": column})


def _one_of(
    source: Source, fitting: list[tuple[Layout, dict[str, str]]], table: str | None
) -> tuple[Layout, dict[str, str]]:
    """Return the most specific layout; raise a question for equally specific ones."""
    best = [pair for pair in fitting if pair[0].weight == fitting[0][0].weight]
    writers = list(dict.fromkeys(layout.source for layout, _ in best))
    labels = " and of ".join(layout.label for layout, _ in best)
    if len(writers) > 1:
        raise Unclear(
            f"{source}: its columns are those of {labels}: select one with "
            f"{' or '.join(f'--from {name}' for name in writers)}",
            "--from",
            writers,
        )
    if table is None and best[0][0].named_only:
        best = _of_quantity(source, best)
        labels = " and of ".join(layout.label for layout, _ in best)
    tables = list(dict.fromkeys(" and ".join(layout.table_names) for layout, _ in best))
    if table is None and len(tables) > 1:
        raise Unclear(
            f"{source}: its columns are those of {labels}: select one with "
            f"{' or '.join(f'--table {name}' for name in tables)}",
            "--table",
            tables,
        )
    return best[0]


_TABLES_OF = {"rate": "funding", "oi_usd": "oi", "oi_coins": "oi", "last": "prices"}


def _of_quantity(
    source: Source, fitting: list[tuple[Layout, dict[str, str]]]
) -> list[tuple[Layout, dict[str, str]]]:
    """Return the layouts of the quantity in the file name, or all."""
    family = _TABLES_OF.get(quantity_of(source, None) or "")
    if family is None:
        return fitting
    own = [pair for pair in fitting if pair[0].reads[0].table.startswith(family)]
    return own or fitting


def _no_layout(source: Source, head: Chunk, table: str | None, writer: str) -> Exception:
    """Return the error that no layout of a source matches a file, with the nearest one."""
    own = [layout for layout in layouts() if layout.source == writer]
    telling = [layout for layout in own if table is None or table in layout.table_names]
    if not telling:
        tables = sorted(set().union(*(layout.table_names for layout in own)))
        return ValueError(
            f"no file of {writer} is read as {table}; they are read as {', '.join(tables)}: omit --from to "
            "read the columns by their names"
        )
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
        f"{source}: no layout of {writer}{f' for {table}' if table else ''} has this header{file}: it has "
        f"{', '.join(head.columns)[:200]}, and the nearest form {', '.join(nearest.columns)}; omit --from to "
        "read the columns by their names"
    )


def _from_path(
    source: Source, layout: Layout, said: Mapping[str, str], writer: str | None, given: Given
) -> dict[str, str]:
    """Return venue and symbol from the path or the given writer, if nothing else has them."""
    words = names_in_path(source.name)
    if writer in VENUES:
        words["exchange"] = writer
    stated = {*layout.set, *said, *given.set, *given.map, *layout.mapped_names}
    return {name: word for name, word in words.items() if name not in stated}
