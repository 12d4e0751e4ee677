"""Tables of pages that follow from the library and its tests; ``python docs/generate.py`` writes them.

Each page of ``docs/`` that includes one has the prose; the build writes the tables into ``docs/generated``,
so that the repository has no copy of them that could be out of date.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import api_conformance
import carry_page
import numpy as np
import pandas as pd
from evidence_page import evidence
from formats_page import losses

from derivdata import tables, venues
from derivdata.matrix import FETCHERS
from derivdata.sources.venues.registry import VENUES, coverage_of
from derivdata.tables.definitions import OPEN_TABLES
from derivdata.tables.endpoints import ENDPOINTS, Endpoint, Param
from derivdata.tables.schema import Column, OpenTable, Table

__all__ = [
    "CONFORMANCE",
    "FAMILIES",
    "conformance",
    "endpoints",
    "formats",
    "grid",
    "main",
    "tables_page",
    "venue_sections",
]

FAMILIES = {
    "funding": "Funding",
    "markets": "Markets",
    "oi": "Open interest",
    "positioning": "Positioning",
    "volume": "Volume",
    "liquidations": "Liquidations",
    "options": "Options",
    "delivery": "Delivery prices",
    "volatility": "Volatility indices",
    "orderbook": "Order book",
    "prices": "Prices",
    "futures": "Dated futures",
    "margin": "Margin",
    "borrow": "Spot borrow rates",
    "rwa": "Market hours of real-world assets",
    "hip3": "HIP-3",
    "hip4": "HIP-4",
    "builders": "Builders",
    "catalog": "Contents of the source",
    "instruments": "Contracts",
}
_OURS = " Not in the API document: only the local service has it."
CONFORMANCE = Path(__file__).with_name("api_conformance.csv")
_COMMON_HEAD = (
    "These columns have the same meaning in most tables. Below, the meaning is stated if it differs.\n"
)
_COMMON = 4  # tables with a column of the same meaning, from which on the column is listed once


def endpoints() -> str:
    """The sections of every endpoint with its tier, limits, parameters, function and table."""
    sections = []
    for family, title in FAMILIES.items():
        found = [_endpoint(e) for e in ENDPOINTS if e.table.split("_", 1)[0] == family]
        sections += [f"## {title}\n", *found]
    return "\n".join(sections)


def conformance() -> str:
    """The table of sentences of the API document with the responses that the repository has on file."""
    with CONFORMANCE.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    return grid(tuple(head), [tuple(map(_escaped, row)) for row in rows])


def tables_page() -> str:
    """The sections of every table with its key, and every column with its unit, storage and meaning."""
    rows = [
        (f"`{name}`", _escaped(unit), dtype, _escaped(doc)) for name, unit, dtype, doc in sorted(_common())
    ]
    parts = ["## Common columns\n", _COMMON_HEAD, grid(("column", "unit", "dtype", "meaning"), rows)]
    for family, title in FAMILIES.items():
        fixed = [t for t in tables.TABLES.values() if t.name.split("_", 1)[0] == family]
        opened = [_open_table(t) for t in OPEN_TABLES.values() if t.name.split("_", 1)[0] == family]
        fetched = [_table(t) for t in fixed if not _is_base(t)]
        parts += [f"## {title}\n", *fetched, *opened, *(_table(t) for t in fixed if _is_base(t))]
    return "\n".join(parts)


def venue_sections() -> str:
    """One section a venue: its tables, its requests and channels, and the facts with their sources."""
    names = list(VENUES)
    coverage = coverage_of(names, {}, unconfirmed=True)
    requests = venues.endpoints()
    facts = venues.facts()
    sections = []
    for name in names:
        sections += [f"### {name}\n", f"Terms: {_escaped(VENUES[name].terms)}\n"]
        columns = ["table", "unit", "cadence", "history", "limit", "completeness"]
        sections.append(_frame(coverage.loc[coverage["exchange"] == name, columns]))
        columns = ["what", "method", "path_or_channel", "tables", "confirmed", "note"]
        sections.append(_frame(requests.loc[requests["exchange"] == name, columns]))
        columns = ["symbol", "fact", "value", "unit", "as_of", "nature", "source", "confirmed"]
        stated = facts.loc[facts["exchange"] == name, columns]
        if len(stated):
            sections.append(_frame(stated.assign(as_of=stated["as_of"].dt.strftime("%Y-%m-%d"))))
    return "\n".join(sections)


def grid(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def main() -> None:
    """Write the tables that pages include, and the file of responses of the local service."""
    with CONFORMANCE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([api_conformance.COLUMNS, *api_conformance.rows()])
    folder = Path(__file__).with_name("generated")
    folder.mkdir(exist_ok=True)
    texts = {
        "carry": carry_page.tables(),
        "conformance": conformance(),
        "endpoints": endpoints(),
        "evidence": evidence(),
        "formats": formats(),
        "tables": tables_page(),
        "venues": venue_sections(),
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def formats() -> str:
    """Return the losses of each kind of object in each format, from runs."""
    by_format = losses()
    names = map(str, by_format.index)
    rows = [(name, *row) for name, row in zip(names, by_format.to_numpy().tolist(), strict=True)]
    return grid(("format", *by_format.columns), rows)


def _frame(frame: pd.DataFrame) -> str:
    """A frame as a table in Markdown; paths and names of columns as code."""
    head = tuple(str(name).replace("_", " ") for name in frame.columns)
    is_code = [name in ("table", "tables", "fact", "path_or_channel") for name in frame.columns]
    rows = []
    for values in frame.itertuples(index=False):
        cells = [_cell(value) for value in values]
        rows.append(
            tuple(f"`{c}`" if code and c else _escaped(c) for c, code in zip(cells, is_code, strict=True))
        )
    return grid(head, rows)


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _endpoint(endpoint: Endpoint) -> str:
    facts = [f"Tier {endpoint.tier.capitalize()}", f"cached {endpoint.fresh_seconds:g} s"]
    if endpoint.per_second:
        facts.append(f"{endpoint.per_second:g} requests a second")
    anchor = _anchor(endpoint.table)
    lines = [
        f"### `GET {endpoint.path}`\n",
        f"{endpoint.doc}{_OURS if endpoint.local else ''} {'; '.join(facts)}.\n",
        f"{_function(endpoint.table)} → [{endpoint.table}](tables.md#{anchor})\n",
    ]
    if endpoint.params:
        lines.append(grid(("parameter", "kind", "", "meaning"), map(_parameter, endpoint.params)))
    lines += [f"`{one}` and `{other}` cannot be combined.\n" for one, other in endpoint.exclusive]
    return "\n".join(lines)


def _parameter(param: Param) -> tuple[str, str, str, str]:
    notes = ["required"] if param.required else []
    if param.in_path:
        notes.append("in the path")
    if param.default is not None:
        shown = param.default if isinstance(param.default, str) else f"{param.default:,.15g}"
        notes.append(f"default {shown}")
    choices = f" One of {', '.join(f'`{c}`' for c in param.choices)}." if param.choices else ""
    return f"`{param.name}`", str(param.kind), ", ".join(notes), _escaped(param.doc) + choices


@cache
def _common() -> frozenset[tuple[str, str, str, str]]:
    """Name, unit, dtype and meaning of the columns that are the same in many tables."""
    counts = Counter(
        (name, column.unit, column.kind.dtype, column.doc)
        for table in tables.TABLES.values()
        for name, column in table.columns.items()
    )
    return frozenset(column for column, count in counts.items() if count >= _COMMON)


def _meaning(name: str, column: Column) -> str:
    """The meaning of a column; empty if the section of common columns has it."""
    if (name, column.unit, column.kind.dtype, column.doc) in _common():
        return ""
    return _escaped(column.doc)


def _table(table: Table) -> str:
    order = f"; sorted by {', '.join(f'`{n}`' for n in table.order)}" if table.order else ""
    rows = (
        (f"`{name}`", _escaped(column.unit), column.kind.dtype, _note(table, name), _meaning(name, column))
        for name, column in table.columns.items()
    )
    return "\n".join(
        [
            f"({_anchor(table.name)})=" if not _is_base(table) else "",
            f"### {table.name}\n",
            f"{_escaped(table.doc)} {'Base table.' if _is_base(table) else _origin(table.name)}\n",
            f"Key: {', '.join(f'`{n}`' for n in table.key)}{order}.\n",
            grid(("column", "unit", "dtype", "", "meaning"), rows),
        ]
    )


def _open_table(table: OpenTable) -> str:
    head = f"({_anchor(table.name)})=\n### {table.name}\n"
    return f"{head}\n{_escaped(table.doc)} Open table. {_origin(table.name)}\n"


def _note(table: Table, name: str) -> str:
    notes = ["key"] if name in table.key else []
    if name in table.optional:
        notes.append("optional")
    if name in table.wire:
        notes.append(f"wire `{table.wire[name]}`")
    return ", ".join(notes)


def _is_base(table: Table) -> bool:
    """Whether no function returns it: it has none of its name, or that one returns an open table."""
    return table.name in OPEN_TABLES or table.name not in FETCHERS


def _function(table: str) -> str:
    name = table.replace("_", ".", 1)
    return f"[`dd.{name}`](#derivdata.{name})"


def _origin(table: str) -> str:
    paths = [f", `GET {e.path}`" for e in ENDPOINTS if e.table == table]
    return f"{_function(table)}{''.join(paths)}."


def _anchor(table: str) -> str:
    return f"table-{table.replace('_', '-')}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    main()
