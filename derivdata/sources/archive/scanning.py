"""Reads of an archive: one function that plans files, and one query that reads them.

Everything that reads rows goes through `plan` and `read`: windows, the newest rows, tasks of dask, appends
that look for rows that are there, merges and corrections. `sums` adds up in the same files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.errors import ArchiveError
from derivdata.sources.archive import schemas
from derivdata.sources.archive.engine import checked_bytes, damaged, engine, quoted
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.selections import EVER_ALL, Selection, stamp
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Kind, Table

_SCALE = 1 << 20
"""Sums are of whole numbers of 2⁻²⁰ USD: these are exact, so that no order of adding changes a bit."""


_TEXT = pa.dictionary(pa.int32(), pa.string())
_SUMS = pa.schema(
    [
        ("exchange", _TEXT),
        ("resolution", _TEXT),
        ("time", schemas.INSTANT),
        ("value", pa.float64()),
        ("symbols", pa.int64()),
        ("symbol_hash", pa.uint64()),
    ]
)


def plan(files: Sequence[DataFile], selection: Selection) -> list[DataFile]:
    """Return the files of a table that can hold rows of a selection, by what the manifest says of them."""
    return [file for file in files if selection.window.touches(file.first, file.last)]


def read(
    storage: Storage,
    table: Table,
    files: Sequence[DataFile],
    selection: Selection = EVER_ALL,
    columns: Sequence[str] | None = None,
    *,
    newest: bool = False,
    hold_us: int = 0,
    order: Sequence[str] = (),
) -> list[pa.Table]:
    """Read rows of planned files by groups of equal columns, in a file's order or by `order`.

    With `newest` only rows of the last timestamp of each series or chain, and of `hold_us` [µs] before
    it, are read. A missing value stays missing; text comes as dictionaries.
    """
    parts = []
    for names, group in _by_columns(storage, table, files):
        chosen = [name for name in table.columns if name in names and (columns is None or name in columns)]
        rows = f"SELECT {_listed(chosen)} FROM read_parquet({{files}}) {_where(group, selection)}"
        if newest:
            # The rows themselves are read a second time, of the few that the newest instants choose. Said so,
            # DuckDB builds its hash table of these few, and not of the rows.
            series = _listed([name for name in schemas.latest_by(table) if name in names])
            last = f"SELECT {series}, max(time) AS newest FROM rows GROUP BY ALL"
            rows = (
                f"WITH rows AS NOT MATERIALIZED ({rows}), last AS MATERIALIZED ({last}) "
                f"SELECT rows.* FROM rows JOIN last USING ({series}) "
                f"WHERE rows.time >= newest - to_microseconds({hold_us})"
            )
        if order:
            rows += f" ORDER BY {_listed([name for name in order if name in names])}"
        found = _asked(rows, storage, group)
        if len(found):
            try:
                parts.append(schemas.as_now(found, table))
            except pa.ArrowException as problem:
                raise schemas.of_another_version(storage.place(group[0].path), str(problem)) from None
    return parts


def sums(
    storage: Storage, table: Table, files: Sequence[DataFile], selection: Selection, value: str
) -> pa.Table:
    """Add up a column of planned files; see `Archive.sums`."""
    if not files:
        return _SUMS.empty_table()
    _by_columns(storage, table, files)
    # One pass over all files, also those of earlier versions: the columns of a sum are in all of them.
    sql = (
        f"SELECT exchange, resolution, time, sum(CAST(round({value} * {_SCALE}) AS {{whole}}))::DOUBLE "
        f"/ {_SCALE} AS value, count({value}) AS symbols, "
        f"coalesce(bit_xor(hash(symbol)) FILTER ({value} IS NOT NULL), 0) AS symbol_hash "
        f"FROM read_parquet({{files}}) {_where(files, selection)} GROUP BY ALL ORDER BY ALL"
    )
    try:
        found = _asked(sql.replace("{whole}", "BIGINT", 1), storage, files)
    except ArchiveError:  # a value beyond 8.8e12: 128 bits hold it, and cost half as much again
        found = _asked(sql.replace("{whole}", "HUGEINT", 1), storage, files)
    texts = {name: found[name].dictionary_encode() for name in ("exchange", "resolution")}
    return pa.table({name: texts.get(name, found[name]) for name in _SUMS.names}).cast(_SUMS)


def view(storage: Storage, table: Table, files: Sequence[DataFile]) -> str:
    """Return the definition of a view of a table's files; `Engine.statement` puts them for ``{files}``."""
    groups = _by_columns(storage, table, files)
    names: frozenset[str] = frozenset().union(*(stored for stored, _ in groups))
    options = ", union_by_name = true" if len(groups) > 1 else ""
    return f"SELECT {schemas.sql_columns(table, names)} FROM read_parquet({{files}}{options})"


def slices(
    storage: Storage, table: Table, files: Sequence[DataFile], selection: Selection, rows: int
) -> Iterator[Selection]:
    """Divide a selection by values of the leading column, in order, into parts of about so many rows each."""
    if sum(file.rows for file in files) <= rows:
        yield selection
        return
    lead = schemas.sorting(table)[0]
    if table.columns[lead].kind is not Kind.TEXT:
        yield selection  # of instants each would be a part of its own
        return
    counts: dict[str, int] = {}
    for _, group in _by_columns(storage, table, files):
        chosen_rows = f"read_parquet({{files}}) {_where(group, selection)}"
        counted = _asked(f"SELECT {lead}, count(*) FROM {chosen_rows} GROUP BY {lead}", storage, group)
        for name, size in zip(*(column.to_pylist() for column in counted.columns), strict=True):
            counts[name] = counts.get(name, 0) + size
    chosen: list[str] = []
    for name in sorted(counts):
        chosen.append(name)
        if sum(counts[each] for each in chosen) >= rows:
            yield selection.narrowed(lead, chosen)
            chosen = []
    if chosen:
        yield selection.narrowed(lead, chosen)


def distinct_values(
    storage: Storage, table: Table, files: Sequence[DataFile], names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the values of some text columns, sorted."""
    groups = _by_columns(storage, table, files)
    return {
        name: sorted(_distinct(storage, [group for stored, group in groups if name in stored], name))
        for name in names
    }


def series(storage: Storage, table: Table, files: Sequence[DataFile]) -> set[str]:
    """Return the series of rows, as a venue and a symbol with a space between them."""
    groups = [group for _, group in _by_columns(storage, table, files)]
    return _distinct(storage, groups, "exchange || ' ' || symbol")


def _distinct(storage: Storage, groups: Sequence[Sequence[DataFile]], term: str) -> set[str]:
    sql = f"SELECT DISTINCT {term} AS word FROM read_parquet({{files}}) WHERE word IS NOT NULL"
    return {word for group in groups for word in _asked(sql, storage, group)["word"].to_pylist()}


def known_files(storage: Storage, table: Table, files: Sequence[DataFile]) -> list[DataFile]:
    """Return the files of which the table has every column; those of a newer version may have more."""
    groups = _by_columns(storage, table, files)
    return [file for names, group in groups if names <= set(table.columns) for file in group]


def _asked(sql: str, storage: Storage, files: Sequence[DataFile]) -> pa.Table:
    with engine() as one:
        return one.select(sql, storage, files)


def _by_columns(
    storage: Storage, table: Table, files: Sequence[DataFile]
) -> list[tuple[frozenset[str], list[DataFile]]]:
    """Divide files by the columns that they have: those of other versions are read by themselves."""
    now, names = schemas.schema_digest(table), frozenset(table.columns)
    groups: dict[str, tuple[frozenset[str], list[DataFile]]] = {}
    for file in files:
        if not file.path.startswith(f"{table.name}/"):
            stored = file.path.partition("/")[0]
            raise damaged(storage, file, ValueError(f"it holds {stored}, not {table.name}"))
        if file.schema == now:
            groups.setdefault(now, (names, []))[1].append(file)
            continue
        try:
            schema = _stored_schema(storage, file)
        except (OSError, pa.ArrowException) as problem:
            raise damaged(storage, file, problem) from None
        if lacking := sorted(names - {*schema.names, *table.optional}):
            why = f"it has no column {', '.join(lacking)}"
            raise schemas.of_another_version(storage.place(file.path), why)
        groups.setdefault(str(schema), (frozenset(schema.names), []))[1].append(file)
    return list(groups.values())


@lru_cache(maxsize=4096)
def _stored_schema(storage: Storage, file: DataFile) -> pa.Schema:
    schema: pa.Schema = pq.read_schema(pa.BufferReader(checked_bytes(storage, file, 0, file.size)))
    return schema


def _where(files: Sequence[DataFile], selection: Selection) -> str:
    """Return the condition for rows, without what all rows of the files fulfil."""
    window, terms = selection.window, []
    if window.start > min(file.first for file in files):
        terms.append(f"time >= TIMESTAMPTZ {quoted(stamp(window.start).isoformat())}")
    if window.end <= max(file.last for file in files):
        terms.append(f"time < TIMESTAMPTZ {quoted(stamp(window.end).isoformat())}")
    for name, values in selection.where.items():
        listed = sorted(values)
        if len(listed) > 1:  # the range lets DuckDB leave out row groups by their statistics
            terms.append(f"{name} BETWEEN {quoted(listed[0])} AND {quoted(listed[-1])}")
        terms.append(f"{name} IN ({', '.join(map(quoted, listed))})" if listed else "false")
    return f"WHERE {' AND '.join(terms)}" if terms else ""


def _listed(names: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
