"""How an archive stores the library's tables: their keys, and their columns as Arrow types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.schema import Kind, Table

__all__ = ["INSTANT", "LABEL", "archive_table", "as_now", "refuse_lacking", "schema_of"]

LABEL = b"derivdata.table"
"""Where a file says which table it holds."""

INSTANT = pa.timestamp("us", "UTC")
_TYPES = {
    Kind.TEXT: pa.dictionary(pa.int32(), pa.string()),
    Kind.LABEL: pa.string(),
    Kind.NUMBER: pa.float64(),
    Kind.COUNT: pa.int64(),
    Kind.RANK: pa.int64(),
    Kind.FLAG: pa.bool_(),
    Kind.TIME: INSTANT,
}


def archive_table(name: str) -> Table:
    """Return a table keyed for many instants: `time` joins the key, except where an order id is in it.

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


def schema_of(table: Table) -> pa.Schema:
    """Return the table's columns as Arrow stores them."""
    fields = [
        pa.field(name, _TYPES[column.kind], nullable=name not in table.key)
        for name, column in table.columns.items()
    ]
    return pa.schema(fields, metadata={LABEL: table.name.encode()})


def refuse_lacking(path: Path, table: Table, names: frozenset[str]) -> None:
    """Refuse a file without a column that every row of the table has.

    Raises
    ------
    ArchiveError
        It lacks one.
    """
    lacking = sorted(set(table.columns) - names - set(table.optional))
    if lacking:
        raise _of_another_version(path, f"it has no column {', '.join(lacking)}")


def as_now(rows: pa.Table, table: Table, path: Path) -> pa.Table:
    """Rows of a file, every column of the kind that it has now.

    Raises
    ------
    ArchiveError
        A column is of a kind that does not become that of now without loss.
    """
    kinds = pa.schema([(name, _TYPES[table.columns[name].kind]) for name in rows.column_names])
    if rows.schema.types == kinds.types:
        return rows
    try:
        return rows.cast(kinds)
    except pa.ArrowException as problem:
        raise _of_another_version(path, str(problem)) from None


def _of_another_version(path: Path, why: str) -> ArchiveError:
    return ArchiveError(
        f"{path}: the file was written by another version of derivdata: {why}: read it with that version, "
        "or import its rows into a new archive"
    )
