"""How an archive keys the library's tables."""

from __future__ import annotations

from dataclasses import replace

from derivdata import tables
from derivdata.schema import Table

__all__ = ["stored"]


def stored(name: str) -> Table:
    """The table of a name, keyed for many instants: `time` is part of the key, but an order is one for good.

    Raises
    ------
    ValueError
        There is no such table, or its rows have no time.
    """
    table = tables.TABLES.get(name)
    if table is None or "time" not in table.columns:
        known = ", ".join(sorted(n for n, t in tables.TABLES.items() if "time" in t.columns))
        raise ValueError(f"table={name!r} is not one that an archive holds: {known}")
    if "order_id" in table.key or "time" in table.key:
        return table
    return replace(table, key=(*table.key, "time"))
