"""Define a table: names of columns, wire names that differ, one line of meaning."""

from __future__ import annotations

from dataclasses import replace

from derivdata.tables.columns import COLUMNS
from derivdata.tables.schema import Table


def define(
    name: str,
    *,
    key: str,
    rest: str,
    doc: str,
    wire: dict[str, str] | None = None,
    optional: str = "",
    order: str = "",
    side: str = "",
) -> Table:
    """Define a table of the library's columns; `key`, `rest`, `optional` and `order` are spaced names.

    `side` are the sides that its rows have, where they are not those of a liquidation.
    """
    columns = {n: COLUMNS[n] for n in [*key.split(), *rest.split()]}
    if side:
        columns["side"] = replace(columns["side"], allowed=tuple(side.split()))
    return Table(
        name=name,
        key=tuple(key.split()),
        columns=columns,
        doc=doc,
        wire=wire or {},
        optional=frozenset(optional.split()),
        order=tuple(order.split()),
    )
