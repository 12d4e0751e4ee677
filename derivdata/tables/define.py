"""How a table is written down: names of columns, wire names that differ, one line of meaning."""

from __future__ import annotations

from derivdata.schema import Table
from derivdata.tables.columns import COLUMNS


def define(
    name: str,
    *,
    key: str,
    rest: str,
    doc: str,
    wire: dict[str, str] | None = None,
    optional: str = "",
    order: str = "",
) -> Table:
    """A table of the library's columns; `key`, `rest`, `optional` and `order` are names parted by spaces."""
    names = [*key.split(), *rest.split()]
    return Table(
        name=name,
        key=tuple(key.split()),
        columns={n: COLUMNS[n] for n in names},
        doc=doc,
        wire=wire or {},
        optional=frozenset(optional.split()),
        order=tuple(order.split()),
    )
