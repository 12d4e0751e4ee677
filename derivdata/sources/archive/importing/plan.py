"""The plan of an import: the column of each field, constants for all rows, unit and time zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.audit import AUDITS
from derivdata.sources.archive.importing.readers import Chunk, Header
from derivdata.sources.archive.importing.values import zone
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.schema import Kind, Table

Adjust = Callable[[pd.DataFrame], pd.DataFrame]
"""What is done to the rows of a file after they have the table's names and units."""

_UNITS = {
    "rate_bps_8h": ("bps_8h", "native", "percent", "bps"),  # all but the first per the venue's own interval
    "iv": ("decimal", "percent"),
    "oi_usd": ("usd", "coins"),
}

_WORDS = (Kind.TEXT, Kind.LABEL)
_MADE = ("order_id", "fill_id")
_DEFAULTS = {"resolution": "raw"}
_KINDS = {"funding_history": "sampled", "funding_snapshot": "sampled", "funding_settlements": "settled"}
_MAY_LACK = {
    "liquidations_events": "order_price_usd fill_price_usd quantity filled_quantity status fill_count",
    "liquidations_fills": "order_price_usd fill_price_usd quantity filled_quantity status",
    "options_snapshot": "iv open_interest underlying_price",
    "positioning_history": "long_short_ratio",  # shares tell it as well
}


class Given(NamedTuple):
    """What the caller says of the files: the arguments of `import_files`."""

    map: Mapping[str, str] = {}
    set: Mapping[str, str] = {}
    tz: str | None = None
    unit: str | None = None
    values: Mapping[str, Mapping[str, str]] = {}
    accept: Collection[str] = ()


class ImportPlan(NamedTuple):
    """Plan of an import: each column's source or constant, zone, unit, replaced words, what a form adds."""

    table: Table
    sources: Mapping[str, str]
    constants: Mapping[str, str]
    tz: dt.tzinfo | None
    unit: str | None
    values: Mapping[str, Mapping[str, str]]
    accept: frozenset[str]
    header: Header | None = None
    adjust: Adjust | None = None

    @property
    def made(self) -> tuple[str, ...]:
        """Key columns that are made from the row, as neither the file nor the caller gives them."""
        given = {*self.sources, *self.constants}
        return tuple(name for name in _MADE if name in self.table.key and name not in given)

    @property
    def wanted(self) -> frozenset[str]:
        """Columns of a file that may be read."""
        more = ("interval_hours", *(("price_usd",) if self.unit == "coins" else ()))
        return frozenset({*self.sources.values(), *self.table.columns, *more})

    def required(self, name: str) -> bool:
        """Return whether a row without this value is rejected."""
        may_lack = {*self.table.optional, *_MAY_LACK.get(self.table.name, "").split()}
        return name not in may_lack

    def raw(self, name: str, chunk: Chunk) -> Any:
        """Return the file's values for a column, or the constant given for all rows; None without either."""
        constant = self.constants.get(name)
        source = self.sources.get(name, name)
        if constant is not None:
            return [constant] * len(chunk.lines)
        if source in chunk.columns:
            return chunk.columns[source]
        has = ", ".join(map(str, chunk.columns))
        if name in self.sources:
            raise ArchiveError(f"there is no column {source!r} for {name}; the file has {has}")
        if name in self.table.columns and self.required(name) and name not in self.made:
            raise ArchiveError(
                f"{self.table.name}.{name} is not in the file: say which column it is with "
                f"--map {name}=COLUMN or what it is with --set {name}=VALUE; the file has {has}"
            )
        return None


def is_of_contracts(table: Table) -> bool:
    """Return whether a table has one row per symbol, venue and instant, so that one contract is chosen."""
    return {*table.key} - {"kind"} == {"symbol", "exchange", "time"}


def make_plan(
    table: str, given: Given, header: Header | None = None, adjust: Adjust | None = None
) -> ImportPlan:
    """Make a plan; a table, column, zone or unit that there is not is a ValueError."""
    keyed = archive_table(table)
    names = {*keyed.columns, "interval_hours"} if "rate_bps_8h" in keyed.columns else {*keyed.columns}
    names |= {"price_usd"} if given.unit == "coins" else set()
    for argument, said in (("map", given.map), ("set", given.set), ("map_values", given.values)):
        unknown = sorted({*said} - names)
        if unknown:
            raise ValueError(
                f"{argument}: table {table} has no column {unknown[0]!r}; it has {', '.join(sorted(names))}"
            )
    both = sorted({*given.map} & {*given.set})
    if both:
        raise ValueError(f"column {both[0]!r} is in both map and set: leave one")
    _check_unit(keyed, given.unit)
    wrong = sorted(name for name in given.values if keyed.columns[name].kind not in _WORDS)
    if wrong:
        raise ValueError(f"map_values: {wrong[0]!r} holds no words to replace")
    unknown = sorted({*given.accept} - {*AUDITS})
    if unknown:
        raise ValueError(f"accept={unknown[0]!r} is not one of {', '.join(AUDITS)}")
    replaced = {
        name: {old.strip().lower(): new for old, new in words.items()} for name, words in given.values.items()
    }
    known = {**_DEFAULTS, "kind": _KINDS.get(table)}
    fixed = {name: word for name, word in known.items() if word and name in keyed.columns} | {**given.set}
    left = {name: value for name, value in fixed.items() if name not in given.map}
    kept = None if given.tz is None else zone(given.tz)
    accept = frozenset(given.accept)
    return ImportPlan(keyed, dict(given.map), left, kept, given.unit, replaced, accept, header, adjust)


def _check_unit(table: Table, unit: str | None) -> None:
    units = _UNITS["oi_usd"] if table.name == "oi_history" else ()
    units = next((_UNITS[name] for name in ("rate_bps_8h", "iv") if name in table.columns), units)
    if unit is not None and not units:
        raise ValueError(f"unit={unit!r}: table {table.name} has nothing to convert")
    if unit not in {None, *units}:
        raise ValueError(f"unit={unit!r} is not one of {', '.join(units)}")
