"""The plan of an import: column of each field, constants, unit, time zone, and the order of rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.audit import AUDITS
from derivdata.sources.archive.importing.readers import UNNAMED, Chunk, Header, Sparse
from derivdata.sources.archive.importing.timestamps import zone
from derivdata.sources.archive.schemas import archive_table
from derivdata.support.arrays import Array
from derivdata.support.text import did_you_mean
from derivdata.tables.schema import Kind, Table, arrangement

Adjust = Callable[[pd.DataFrame], pd.DataFrame]
"""Function applied to the rows of a file with the table's names and units."""

_YEAR_HOURS = 8_760.0
RATE_UNITS: dict[str, tuple[float, float | None]] = {
    "bps_8h": (10_000.0, 8.0),
    "native": (1.0, None),
    "percent": (100.0, None),
    "bps": (10_000.0, None),
    "per_hour": (1.0, 1.0),
    "per_8h": (1.0, 8.0),
    "per_day": (1.0, 24.0),
    "per_year": (1.0, _YEAR_HOURS),
    "percent_hour": (100.0, 1.0),
    "percent_8h": (100.0, 8.0),
    "percent_day": (100.0, 24.0),
    "percent_year": (100.0, _YEAR_HOURS),
}
"""Units of funding rates: the number that equals a rate of 1, and the hours; None is the venue's interval."""

_UNITS = {
    "rate_bps_8h": tuple(RATE_UNITS),
    "iv": ("decimal", "percent"),
    "oi_usd": ("usd", "usd_millions", "coins", "contracts"),
    "filled_quantity": ("coins", "contracts", "usd"),
    "buy_usd": ("usd",),
}
IN_COINS = ("coins", "contracts")
IN_DOLLARS = {"usd": 1.0, "usd_millions": 1e6}
"""Units of open interest in USD, and how many USD 1 is."""

_WORDS = (Kind.TEXT, Kind.LABEL)
_MADE = ("order_id", "fill_id")
_DEFAULTS = {"resolution": "raw", "status": "filled"}
_KINDS = {"funding_history": "sampled", "funding_snapshot": "sampled", "funding_settlements": "settled"}
_MAY_LACK = {
    "liquidations_events": "order_price_usd fill_price_usd quantity filled_quantity status fill_count",
    "liquidations_fills": "order_price_usd fill_price_usd quantity filled_quantity status",
    "options_snapshot": "iv open_interest underlying_price",
    "positioning_history": "long_short_ratio",  # shares imply it as well
}


class Given(NamedTuple):
    """Options of the caller: the arguments of `import_files`."""

    map: Mapping[str, str] = {}
    set: Mapping[str, str] = {}
    tz: str | None = None
    unit: str | None = None
    values: Mapping[str, Mapping[str, str]] = {}
    accept: Collection[str] = ()
    defaults: Mapping[str, str] = {}
    extra: Mapping[str, Kind] = {}  # columns that a layout works with and the table lacks


class Unclear(ArchiveError):
    """A file can be read in several ways; `option` selects one of the `choices`."""

    def __init__(self, message: str, option: str, choices: Sequence[str]) -> None:
        super().__init__(message)
        self.option = option
        self.choices = [*choices]


class ImportPlan(NamedTuple):
    """Plan of an import: each column's source or constant, zone, unit, replaced words, and function."""

    table: Table
    sources: Mapping[str, str]
    constants: Mapping[str, str]
    defaults: Mapping[str, str]
    tz: dt.tzinfo | None
    unit: str | None
    values: Mapping[str, Mapping[str, str]]
    accept: frozenset[str]
    header: Header | None = None
    adjust: Adjust | None = None
    is_spaced: bool = False
    extra: Mapping[str, Kind] = {}
    optional: frozenset[str] = frozenset()
    makes: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    is_zone_assumed: bool = False  # the file has no zone, and UTC was assumed
    sparse: Sparse | None = None  # a row without values of its own belongs to another table
    scales: Mapping[str, float] = {}  # multiplier of columns whose names state one, such as "in millions"

    @property
    def kinds(self) -> dict[str, Kind]:
        """Return kinds of the table's columns, and of a layout's additional columns."""
        kinds = {name: column.kind for name, column in self.table.columns.items()}
        return {**kinds, **self.extra}

    @property
    def made(self) -> tuple[str, ...]:
        """Return key columns that are derived from the row if neither the file nor the caller has them."""
        return tuple(name for name in _MADE if name in self.table.key and name not in self.constants)

    def required(self, name: str) -> bool:
        """Return whether a row without this value is rejected."""
        if name in self.makes or (name == "interval_hours" and self.is_spaced):
            return False
        if name in self.table.columns and self.table.columns[name].kind is Kind.RANK:
            return False
        may_lack = {*self.table.optional, *_MAY_LACK.get(self.table.name, "").split()}
        return name not in may_lack and name not in self.made

    def source_of(self, name: str, columns: Collection[str]) -> str | None:
        """Return the file's column for a column of the table, ignoring case."""
        wanted = self.sources.get(name, name)
        if wanted in columns:
            return wanted
        if wanted == "__index_level_0__" and UNNAMED in columns:
            return UNNAMED
        other_case = [column for column in columns if column.lower() == wanted.lower()]
        if len(other_case) != 1:
            return None
        return other_case[0]

    def raw(self, name: str, chunk: Chunk) -> pa.ChunkedArray | str | None:
        """Return the file's values for a column, or the constant for all rows; None without either.

        A default counts only where the file lacks the column.
        """
        if name in self.constants:
            return self.constants[name]
        if name in self.ignored and name not in self.sources:
            return None
        source = self.source_of(name, chunk.columns)
        if source is not None:
            again = chunk.columns.get(f"{source} (2)")
            if again is not None and not again.equals(chunk.columns[source]):
                raise ArchiveError(f"two columns have the name {source!r}: rename one of them")
            return chunk.columns[source]
        if name in self.sources and name not in self.optional:
            wanted = self.sources[name]
            raise ArchiveError(
                f"no column {wanted!r} for {name}{did_you_mean(wanted, chunk.columns)}; "
                f"the file has {_listed(chunk)}"
            )
        return self.defaults.get(name)

    def refuse_missing(self, lacking: Sequence[str], chunk: Chunk) -> None:
        """Raise for a file without some required columns; the message lists the file's columns."""
        name = lacking[0]
        if {"symbol", "exchange"} <= {*lacking} and name in ("symbol", "exchange"):
            raise ArchiveError(
                f"{self.table.name}.symbol and exchange are not in the file: pass both with --market "
                "VENUE:SYMBOL, such as --market binance:BTC, or name their columns with --map "
                f"symbol=COLUMN and --map exchange=COLUMN; the file has {_listed(chunk)}"
            )
        advice = f"name the column with --map {name}=COLUMN"
        if name in _ADVICE:
            advice += _ADVICE[name]
        elif name not in _OF_A_ROW:
            advice += f", or pass one value for all rows with --set {name}=VALUE"
            words = self.table.columns[name].allowed
            if words:
                advice += f" ({', '.join(words)})"
        raise ArchiveError(
            f"{self.table.name}.{name} is not in the file: {advice}{did_you_mean(name, chunk.columns)}; "
            f"the file has {_listed(chunk)}"
        )


_OF_A_ROW = frozenset(
    "time instrument_name strike expiry trade_id outcome_id address order_id fill_id rank level price_usd "
    "rate_bps_8h oi_usd iv value_usd quantity size".split()
)
"""Columns that differ from row to row and therefore cannot have one value for all rows."""
_ADVICE = {
    "side": ", and the meaning of its words with --map-value side:WORD=WORD",
    "instrument_name": ", or name the columns of expiry, strike and side, from which names are made",
    "trade_id": ", because trades without ids cannot be told from repeated rows: export them with their ids",
    "value_usd": ", or name the columns of price and quantity with --map fill_price_usd=COLUMN and "
    "--map quantity=COLUMN",
}


def _listed(chunk: Chunk) -> str:
    """Return the columns of a file for a message."""
    return ", ".join(map(str, chunk.columns))


def is_of_contracts(table: Table) -> bool:
    """Return whether a table has one row per symbol, venue and time, so that one contract is selected."""
    return {*table.key} - {"kind"} == {"symbol", "exchange", "time"}


def make_plan(
    table: str,
    given: Given,
    header: Header | None = None,
    adjust: Adjust | None = None,
    *,
    is_spaced: bool = False,
) -> ImportPlan:
    """Make a plan; an unknown table, column, zone or unit is a ValueError."""
    keyed = archive_table(table)
    names = _column_names(keyed, given)
    _check_options(keyed, given, names)
    replaced: dict[str, dict[str, str]] = {}
    for name, words in given.values.items():
        replaced[name] = {word.strip().lower(): meaning for word, meaning in words.items()}
    if "side" in replaced:
        _complete_sides(replaced["side"], keyed.columns["side"].allowed)
    scale = IN_DOLLARS.get(given.unit or "", 1.0)
    constants = {**_DEFAULTS, "kind": _KINDS.get(table), **given.defaults}
    defaults = {name: word for name, word in constants.items() if word and name in names}
    return ImportPlan(
        table=keyed,
        sources=dict(given.map),
        constants=dict(given.set),
        defaults=defaults,
        tz=None if given.tz is None else zone(given.tz),
        unit=given.unit,
        values=replaced,
        accept=frozenset(given.accept),
        header=header,
        adjust=adjust,
        is_spaced=is_spaced,
        extra=dict(given.extra),
        scales={"oi_usd": scale} if scale != 1.0 else {},
    )


def _column_names(table: Table, given: Given) -> set[str]:
    """Return the columns that options may name: those of the table, and those that conversions use."""
    names = {*table.columns, *given.extra}
    if "rate_bps_8h" in table.columns:
        names.add("interval_hours")
    if given.unit in IN_COINS:
        names.add("price_usd")
    if takes_contract_size(table):
        names.add("contract_size")
    return names


def _check_options(table: Table, given: Given, names: Set[str]) -> None:
    """Raise for an option with an unknown column, unit or suspicion, and for contradictory options."""
    for argument, option in (("map", given.map), ("set", given.set), ("map_values", given.values)):
        unknown = sorted(option.keys() - names)
        if unknown:
            listed = ", ".join(sorted(names))
            raise ValueError(f"{argument}: table {table.name} has no column {unknown[0]!r}; it has {listed}")
    both = sorted(given.map.keys() & given.set.keys())
    if both:
        raise ValueError(f"column {both[0]!r} is in both map and set: remove one")
    _check_unit(table, given.unit)
    wrong = sorted(name for name in given.values if table.columns[name].kind not in _WORDS)
    if wrong:
        raise ValueError(f"map_values: column {wrong[0]!r} has no words to replace")
    unknown = sorted({*given.accept}.difference(AUDITS))
    if unknown:
        raise ValueError(f"accept={unknown[0]!r} is not one of {', '.join(AUDITS)}")


_OPPOSITES = {"buy": "sell", "b": "s", "bid": "ask", "long": "short", "l": "s", "open_long": "open_short"}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items() if first not in ("b", "l")}


def _complete_sides(words: dict[str, str], allowed: Collection[str]) -> None:
    """Add the opposite word of a pair such as buy and sell, if only one is given."""
    if len(words) != 1 or len(allowed) != 2:
        return
    [(word, meaning)] = words.items()
    other = _OPPOSITES.get(word)
    rest = [side for side in allowed if side != meaning]
    if other is not None and len(rest) == 1:
        words[other] = rest[0]


def takes_contract_size(table: Table) -> bool:
    """Return whether amounts of a table may be in contracts, whose size can be stated."""
    return table.name == "oi_history" or "filled_quantity" in table.columns


def units_of(table: Table) -> tuple[str, ...]:
    """Return the allowed units of a table's values in a file; empty if nothing is converted."""
    if table.name == "oi_history":
        return _UNITS["oi_usd"]
    for name in ("rate_bps_8h", "iv", "filled_quantity", "buy_usd"):
        if name in table.columns:
            return _UNITS[name]
    return ()


def _check_unit(table: Table, unit: str | None) -> None:
    """Raise for a unit that no column of the table has."""
    units = units_of(table)
    if unit is not None and not units:
        raise ValueError(f"unit={unit!r}: table {table.name} has no column to convert")
    if unit not in {None, *units}:
        advice = ""
        if unit in ("fraction", "decimal") and "native" in units:
            advice = "; a fraction per interval is 'native'"
        raise ValueError(f"unit must be one of {', '.join(units)}, got {unit!r}{advice}")


def in_order(table: Table, frame: pd.DataFrame) -> tuple[pd.DataFrame, Array]:
    """Return rows in the order of a table, and a mask of rows that repeat an earlier key.

    One sort serves the search for duplicates here and the table's own order later.
    """
    frame = frame.reset_index(drop=True)
    columns = {name: _with_sorted_words(frame[name]) for name in frame.columns}
    keys: list[Any] = []
    for name in dict.fromkeys([*table.order, *table.key]):
        if name in columns:
            values = columns[name]
            keys.append(values.to_numpy() if values.dtype == object else values)
    rank, is_tied = arrangement(keys)
    if rank is not None:  # None: the rows have this order already
        columns = {name: values.array.take(rank) for name, values in columns.items()}
    frame = pd.DataFrame(columns, copy=False)
    if {*table.order} <= {*table.key}:
        # The rows are sorted by the key alone, so that a row with the key of an earlier one follows it.
        return frame, np.append(np.zeros(min(len(frame), 1), dtype=bool), is_tied)
    key = [name for name in table.key if name in columns]
    return frame, frame.duplicated(key).to_numpy()


def _with_sorted_words(values: pd.Series) -> Any:
    """Return a column of words with its categories in alphabetical order."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return values
    categories = values.cat.categories
    if categories.is_monotonic_increasing:
        return values
    return values.cat.reorder_categories(categories.sort_values())
