"""Layouts of files that venues, clients and sellers of data write: declared as data, found by their columns.

Each file of the folder ``layouts`` is a source. A layout says by which columns (and where needed by which
file name) it is recognised, and of each table that it fills: its columns, constants, unit, and the words of
its sides. ``docs/real-data.md`` says how to add one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.archive.importing.finishing import ADJUST
from derivdata.sources.archive.importing.opening import Source
from derivdata.sources.archive.importing.plan import Adjust, Given, ImportPlan, make_plan
from derivdata.sources.archive.importing.readers import Chunk, Header
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.contracts import venue_slug
from derivdata.tables.schema import Kind

BY_SIZE = "by_size"
"""Unit of a layout that does not know it: the size of rates or the file's name says it, or it is asked."""


class Reads(NamedTuple):
    """What a file tells of one table: arguments of an import, and what is done to the rows at last."""

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

    `columns` are all that its files have in order, `signature` those by which it is recognised, `match` says
    by pattern what their values look like. `file` is a pattern of the path's end; its groups are values of
    columns. Names in the first line are not to be trusted where columns are found `by_position`. `set` and
    `values` hold for every table. `about` is where the layout was seen, with version and date.
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
    named_only: bool = False  # its columns are those of many files: only `--from` leads here
    shared: bool = False  # other venues' files have its columns: a path that names another venue counts
    hint: str = ""  # what the path must have in it unless the table is stated
    unless: str = ""  # what the path of another layout with these columns has in it
    tz: str = "UTC"
    about: str = ""
    sample: str = ""
    sample_name: str = ""

    @property
    def label(self) -> str:
        """Source and name, for messages."""
        return f"{self.source} {self.name}"

    @property
    def header(self) -> Header:
        """The columns, for a reader of CSV."""
        return Header(self.columns, self.by_position)

    def constants(self, source: Source) -> dict[str, str] | None:
        """Return what a file's name says of all its rows; None: the file has another layout."""
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
        """Return what the name of a file says if its first rows are of this layout, else None."""
        said = self.constants(source)
        if said is None:
            return None
        if is_headless(chunk.columns):
            is_known = bool(self.file or self.match) and len(chunk.columns) == len(self.columns)
            return said if is_known and self._matches(_renamed(chunk, self.columns)) else None
        if self.by_position:
            has_width = len(chunk.columns) == len(self.columns)
            return said if has_width and self._matches(_renamed(chunk, self.columns)) else None
        lower = {column.lower() for column in chunk.columns}
        if not {column.lower() for column in self.signature} <= lower:
            return None
        if self.exact and len(lower) > len(self.columns):
            return None
        return said if self._matches(chunk.columns) and self.tables(chunk.columns) else None

    def tables(self, columns: Collection[str]) -> list[Reads]:
        """Return the tables that a file with these columns fills."""
        if is_headless(columns) or self.by_position:
            return [*self.reads]
        lower = {column.lower() for column in columns}
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
        """How much a fit says: columns, patterns, and a name."""
        named = len(self.columns) if self.by_position else len(self.signature)
        return named + 2 * len(self.match) + (20 if self.file else 0)


def is_headless(columns: Collection[str]) -> bool:
    """Return whether columns are named by their places, as of lists and of CSV without a header."""
    return [*columns] == [str(place) for place in range(len(columns))]


def _renamed(chunk: Chunk, names: tuple[str, ...]) -> dict[str, Any]:
    return dict(zip(names, chunk.columns.values(), strict=True))


def plan_of(layout: Layout, reads: Reads, said: Mapping[str, str], given: Given) -> ImportPlan:
    """Return how a file of a layout is read: `given` values come before the layout and the path."""
    constants = {**layout.set, **reads.set, **said}
    constants = {name: layout.values.get(name, {}).get(word, word) for name, word in constants.items()}
    known = {*archive_table(reads.table).columns, "interval_hours", *reads.extra}
    mapped = {n: c for n, c in {**reads.map, **given.map}.items() if n not in given.set}
    fixed = {n: w for n, w in constants.items() if n not in given.map and n in known} | {**given.set}
    own = reads.venues.get(venue_slug(fixed.get("exchange", "")), {})
    sides = {"side": _pairs(own["side"])} if "side" in own else {}
    whole = given._replace(
        map=mapped,
        set={n: w for n, w in fixed.items() if n not in mapped},
        tz=given.tz or layout.tz,
        unit=given.unit or own.get("unit") or (None if reads.unit == BY_SIZE else reads.unit),
        values={**layout.values, **sides, **given.values},
        extra=reads.extra,
    )
    whole = whole._replace(values={n: w for n, w in whole.values.items() if n in known})
    stated = "interval_hours" in {*given.map, *given.set}
    plan = make_plan(reads.table, whole, layout.header, reads.adjust, is_spaced=reads.spaced and not stated)
    return plan._replace(
        optional=frozenset(reads.optional), makes=frozenset(reads.makes), ignored=frozenset(reads.ignores)
    )


@cache
def layouts() -> tuple[Layout, ...]:
    """Return every layout, in the order of sources and of their declaration."""
    folder = Path(__file__).with_suffix("")
    files = sorted(folder.glob("*.toml"))
    return tuple(
        _layout(declared)
        for file in files
        for declared in tomllib.loads(file.read_text(encoding="utf-8"))["layout"]
    )


def sources() -> list[str]:
    """Return the names of sources whose layouts are declared."""
    return list(dict.fromkeys(layout.source for layout in layouts()))


def _pairs(text: str) -> dict[str, str]:
    """Return the mapping that a text of ``name=word`` writes down; ``_`` in a word is taken literally."""
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
        hint=declared.get("hint", ""),
        unless=declared.get("unless", ""),
        tz=declared.get("tz", "UTC"),
        about=declared.get("about", ""),
        sample=declared.get("sample", ""),
        sample_name=declared.get("sample_name", ""),
    )


def _names(declared: str | list[str]) -> list[str]:
    """Return names, declared in one text or, where some hold blanks, as a list."""
    return declared.split() if isinstance(declared, str) else declared


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
    rows = [
        {
            "source": layout.source,
            "layout": layout.name,
            "tables": " ".join(dict.fromkeys(reads.table for reads in layout.reads)),
            "signature": " ".join(layout.signature) + (f" · file name {layout.file}" if layout.file else ""),
            "seen": layout.about,
        }
        for layout in layouts()
    ]
    return pd.DataFrame(rows)
