"""Declared layouts: the file formats of each source, and the mapping of their columns to tables.

Each file of the folder ``layouts`` is a source. A layout has the columns (and if necessary the file name) by
which it is recognised, and for each table that it fills: its columns, constants, unit, and the words of its
sides. ``docs/real-data.md`` explains how to add one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.archive.importing.adjustments import ADJUST
from derivdata.sources.archive.importing.plan import Adjust, Given, ImportPlan, make_plan
from derivdata.sources.archive.importing.readers import Chunk, Header
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.contracts import venue_slug
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
        """Return whether a path has the layout's words; `is_stated`: the caller names the table."""
        has_hint = not self.hint or re.search(self.hint, path, re.IGNORECASE) is not None
        is_other = bool(self.unless) and re.search(self.unless, path) is not None
        return (has_hint or is_stated) and not is_other

    def fits(self, chunk: Chunk, source: Source) -> dict[str, str] | None:
        """Return the constants in the file name if the first rows have this layout, otherwise None."""
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
    """Return whether columns are named by position, as for lists and CSV files without a header."""
    return [*columns] == [str(place) for place in range(len(columns))]


def plan_of(layout: Layout, reads: Reads, said: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the import plan for a layout's file; `given` takes precedence over layout and path."""
    if given.unit is not None and "filled_quantity" in archive_table(reads.table).columns:
        raise ValueError(
            f"unit={given.unit!r}: the layout {layout.label} already defines the unit of amounts: omit it"
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
        words = declared.get("values", {})
        listed += [_layout({"values": words, **layout}) for layout in declared["layout"]]
    return tuple(listed)


def sources() -> list[str]:
    """Return the names of sources whose layouts are declared."""
    return list(dict.fromkeys(layout.source for layout in layouts()))


def _pairs(text: str) -> dict[str, str]:
    """Parse a text of ``name=word`` pairs into a mapping; ``_`` in a word is literal."""
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
    """Return all layouts as a table: source, name, tables, identifying columns, and where it was seen."""
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
