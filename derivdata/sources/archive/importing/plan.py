"""The plan of an import: the column of each field, constants for all rows, unit and time zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.audit import AUDITS
from derivdata.sources.archive.importing.instants import zone
from derivdata.sources.archive.importing.readers import Chunk, Header
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.schema import Kind, Table

RATE_UNITS = ("bps_8h", "native", "percent", "bps")
"""Units of a funding rate: the library's own, and fraction, percent and bps per the venue's own interval."""

_WORDS = (Kind.TEXT, Kind.LABEL)
_IV_UNITS = ("decimal", "percent")
_OI_UNITS = ("usd", "coins")
_MADE = ("order_id", "fill_id")
_DEFAULTS = {
    "funding_history": {"kind": "sampled", "resolution": "raw"},
    "funding_snapshot": {"kind": "sampled"},
    "funding_settlements": {"kind": "settled"},
    "oi_history": {"resolution": "raw"},
    "positioning_history": {"resolution": "raw"},
    "prices_history": {"resolution": "raw"},
    "volume_history": {"resolution": "raw"},
    "volume_taker": {"resolution": "raw"},
    "orderbook_depth_history": {"resolution": "raw"},
}
_MAY_LACK = {
    "liquidations_events": "order_price_usd fill_price_usd quantity filled_quantity status fill_count",
    "liquidations_fills": "order_price_usd fill_price_usd quantity filled_quantity status",
    "options_snapshot": "iv open_interest underlying_price",
    "positioning_history": "long_short_ratio",  # shares tell it as well
}


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
    adjust: Callable[[pd.DataFrame], pd.DataFrame] | None = None

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
    table: str,
    sources: Mapping[str, str],
    constants: Mapping[str, str],
    tz: str | None,
    unit: str | None,
    *,
    values: Mapping[str, Mapping[str, str]] | None = None,
    accept: Collection[str] = (),
    header: Header | None = None,
    adjust: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> ImportPlan:
    """Make a plan, and refuse one that makes no sense."""
    keyed = archive_table(table)
    names = {*keyed.columns, "interval_hours"} if "rate_bps_8h" in keyed.columns else {*keyed.columns}
    names |= {"price_usd"} if unit == "coins" else set()
    given_values = values or {}
    for argument, given in (("map", sources), ("set", constants), ("map_values", given_values)):
        unknown = sorted(set(given) - names)
        if unknown:
            raise ValueError(
                f"{argument}: table {table} has no column {unknown[0]!r}; it has {', '.join(sorted(names))}"
            )
    both = sorted(set(sources) & set(constants))
    if both:
        raise ValueError(f"column {both[0]!r} is in both map and set: leave one")
    _check_unit(keyed, unit)
    words = {name for name, column in keyed.columns.items() if column.kind in _WORDS}
    wrong = sorted(set(given_values) - words)
    if wrong:
        raise ValueError(f"map_values: {wrong[0]!r} holds no words to replace")
    unknown = sorted(set(accept) - set(AUDITS))
    if unknown:
        raise ValueError(f"accept={unknown[0]!r} is not one of {', '.join(AUDITS)}")
    replaced = {
        name: {old.strip().lower(): new for old, new in words.items()} for name, words in given_values.items()
    }
    fixed = {**_DEFAULTS.get(table, {}), **constants}
    left = {name: value for name, value in fixed.items() if name not in sources}
    kept = None if tz is None else zone(tz)
    return ImportPlan(keyed, dict(sources), left, kept, unit, replaced, frozenset(accept), header, adjust)


def _check_unit(table: Table, unit: str | None) -> None:
    if unit is None:
        return
    units = _units(table)
    if not units:
        raise ValueError(f"unit={unit!r}: table {table.name} has nothing to convert")
    if unit not in units:
        raise ValueError(f"unit={unit!r} is not one of {', '.join(units)}")


def _units(table: Table) -> tuple[str, ...]:
    if "rate_bps_8h" in table.columns:
        return RATE_UNITS
    if table.name == "oi_history":
        return _OI_UNITS
    return _IV_UNITS if "iv" in table.columns else ()
