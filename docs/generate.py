"""Pages made from the library and its tests; ``python docs/generate.py`` writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import api_conformance
import carry_page
from evidence_page import evidence

from derivdata import tables
from derivdata.fetchers import FETCHERS
from derivdata.tables.definitions import OPEN_TABLES
from derivdata.tables.endpoints import ENDPOINTS, Endpoint, Param
from derivdata.tables.schema import Column, OpenTable, Table

__all__ = ["FAMILIES", "endpoints", "grid", "main", "tables_page"]

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
    "rwa": "Market hours of real-world assets",
    "hip3": "HIP-3",
    "hip4": "HIP-4",
    "builders": "Builders",
    "catalog": "What the source holds",
    "instruments": "Contracts",
}
_MADE = "<!-- Made by docs/generate.py from the library: change the code, then run it. -->\n"
_OURS = " Not in the API document: the local service alone answers it."
_ENDPOINTS_HEAD = """\
# Endpoints

Every endpoint that the library requests, by family. *Tier* is the lowest tier that may request it. *Cached*
is how long a response is reused while its window is open; a response whose window has closed is
[kept indefinitely](fetch.md). Each endpoint is followed by the function that requests it and the
[table](tables.md) that the function returns. `dd.raw(path, ...)` returns any response as decoded JSON.
[The last section](#the-api-document-and-the-local-service) compares the local service with the API document.
"""
_CONFORMANCE_HEAD = """\
## The API document and the local service

Each row has a sentence of the API document, a request that tests it, and the response of
`derivdata serve sample`. The docs build sends the requests again; a test fails when a row has changed.
"""
_TABLES_HEAD = """\
# Tables and columns

This page lists every table with its key, and every column with its unit and dtype. Type in the search box to
keep the tables and columns that match. `dd.tables.TABLES` has the same as data.

- A table has one row per key. Columns are in this order; rows are sorted by the key unless the table says
  otherwise.
- Missing values are NaN, NaT or `<NA>`, never zero. An *optional* column is missing in every row if the
  source does not provide it.
- *Wire* gives the name of the column in the API if it differs.
- An **open table** has no fixed columns: each field of the response becomes a column under its own name.
- A **base table** is what the sample and archives store. No endpoint returns it; the service aggregates it.

## Common columns

These columns have the same meaning in most tables. A table below gives a meaning only where it differs.
"""
_COMMON = 4  # tables with a column of the same meaning, from which on the column is listed once


def endpoints() -> str:
    """The page of every endpoint with its tier, limits, parameters, function and table."""
    parts = [_MADE, _ENDPOINTS_HEAD]
    for family, title in FAMILIES.items():
        found = [_endpoint(e) for e in ENDPOINTS if e.table.split("_", 1)[0] == family]
        parts += [f"## {title}\n", *found]
    head = ("section", "the document", "request", "response of the local service")
    conformance = [tuple(map(_escaped, row)) for row in api_conformance.rows()]
    return "\n".join([*parts, _CONFORMANCE_HEAD, grid(head, conformance)])


def tables_page() -> str:
    """The page of every table with its key, and every column with its unit, storage and meaning."""
    rows = [
        (f"`{name}`", _escaped(unit), dtype, _escaped(doc)) for name, unit, dtype, doc in sorted(_common())
    ]
    parts = [_MADE, _TABLES_HEAD, grid(("column", "unit", "dtype", "meaning"), rows)]
    for family, title in FAMILIES.items():
        fixed = [t for t in tables.TABLES.values() if t.name.split("_", 1)[0] == family]
        opened = [_open_table(t) for t in OPEN_TABLES.values() if t.name.split("_", 1)[0] == family]
        fetched = [_table(t) for t in fixed if not _is_base(t)]
        parts += [f"## {title}\n", *fetched, *opened, *(_table(t) for t in fixed if _is_base(t))]
    return "\n".join(parts)


def grid(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def main() -> None:
    """Write the pages."""
    folder = Path(__file__).parent
    (folder / "methods" / "does-carry-pay.md").write_text(carry_page.page(), encoding="utf-8")
    (folder / "endpoints.md").write_text(endpoints(), encoding="utf-8")
    (folder / "tables.md").write_text(tables_page(), encoding="utf-8")
    (folder / "development" / "evidence.md").write_text(evidence(), encoding="utf-8")


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
    lines += [f"`{one}` and `{other}` exclude each other.\n" for one, other in endpoint.exclusive]
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
    """Name, unit, dtype and meaning of the columns that are alike in many tables."""
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
