"""Reads of an archive: choose rows by time and text, plan the files, and read them in one query.

Everything that reads rows uses `plan` and `read`: windows, the newest rows, dask tasks, appends that look for
stored keys, merges and corrections. `sums` adds up in the same files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.errors import ArchiveError
from derivdata.sources.archive import schemas
from derivdata.sources.archive.engine import checked_bytes, damaged, engine, quoted
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.object_store import Storage
from derivdata.support import times
from derivdata.tables.schema import Kind, Table

Where: TypeAlias = Mapping[str, Collection[str]]


class TimeRange(NamedTuple):
    """Half-open window in microseconds since 1970."""

    start: int
    end: int

    def touches(self, first: int, last: int) -> bool:
        """Return whether the window overlaps the closed range ``[first, last]``."""
        return first < self.end and last >= self.start


EVER = TimeRange(-(2**63), 2**63 - 1)


def read_filter(
    table: Table, symbols: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, frozenset[str]]:
    """Return the requested symbols and venues, as values by column."""
    arguments = {"symbol": ("symbols", symbols), "exchange": ("venues", venues)}
    where = {}
    for column, (argument, values) in arguments.items():
        if values is None:
            continue
        if column not in table.columns:
            raise ValueError(f"{argument}: table {table.name} does not have the column {column!r}")
        where[column] = frozenset([values] if isinstance(values, str) else values)
    return where


class Selection(NamedTuple):
    """Rows of a table within a window that have one of the given values in some columns."""

    where: Where
    window: TimeRange

    def mask(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return for each row of a frame whether it is selected."""
        stamps = np.asarray(frame["time"].array.asi8)
        chosen = (stamps >= self.window.start) & (stamps < self.window.end)
        for name, values in self.where.items():
            chosen &= frame[name].isin(list(values)).to_numpy()
        return np.asarray(chosen)

    def narrowed(self, column: str, values: Collection[str]) -> Selection:
        """Return the rows of it that have one of some values in a column."""
        allowed = frozenset(values) & frozenset(self.where.get(column, values))
        return Selection({**self.where, column: allowed}, self.window)

    def overlaps(self, other: Selection) -> bool:
        """Return whether a row could be in both selections."""
        shared = set(self.where) & set(other.where)
        return self.window.touches(other.window.start, other.window.end - 1) and all(
            set(self.where[name]) & set(other.where[name]) for name in shared
        )


EVER_ALL = Selection({}, EVER)
"""Every row."""


def correction_selection(
    table: Table, where: Mapping[str, str | Sequence[str]] | None, window: TimeRange
) -> Selection:
    """Return the selection of a correction; raise if it has no condition."""
    columns = [name for name in table.key if table.columns[name].kind in (Kind.TEXT, Kind.LABEL)]
    chosen = {}
    for name, values in (where or {}).items():
        if name not in columns:
            raise ValueError(f"where must select by key columns, got {name!r}; {table.name} has {columns}")
        chosen[name] = frozenset([values] if isinstance(values, str) else values)
    if not chosen and window == EVER:
        raise ValueError("where: select rows, by columns or by start= and end=")
    return Selection(chosen, window)


def time_range(start: times.Instant | None, end: times.Instant | None) -> TimeRange:
    """Return the window in microseconds; None leaves an end open."""
    return TimeRange(EVER.start if start is None else micros(start), EVER.end if end is None else micros(end))


def micros(value: times.Instant) -> int:
    """Return a time as microseconds since 1970."""
    return times.us(times.instant(value))


def stamp(value: int) -> pd.Timestamp:
    """Return the timestamp of microseconds since 1970."""
    return pd.Timestamp(value, unit="us", tz="UTC").as_unit("us")


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
    """Return the files of a table that may have selected rows, according to the manifest."""
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
    tables = []
    for names, group in _by_columns(storage, table, files):
        chosen = [name for name in table.columns if name in names and (columns is None or name in columns)]
        rows = f"SELECT {_listed(chosen)} FROM read_parquet({{files}}) {_where(group, selection)}"
        if newest:
            # The rows are read a second time, only for the few newest times. In this form DuckDB builds its
            # hash table of these few, not of the rows.
            series = _listed([name for name in schemas.latest_by(table) if name in names])
            last = f"SELECT {series}, max(time) AS newest FROM rows GROUP BY ALL"
            rows = (
                f"WITH rows AS NOT MATERIALIZED ({rows}), last AS MATERIALIZED ({last}) "
                f"SELECT rows.* FROM rows JOIN last USING ({series}) "
                f"WHERE rows.time >= newest - to_microseconds({hold_us})"
            )
        if order:
            rows += f" ORDER BY {_listed([name for name in order if name in names])}"
        rows_of_group = _asked(rows, storage, group)
        if len(rows_of_group):
            try:
                tables.append(schemas.as_now(rows_of_group, table))
            except pa.ArrowException as problem:
                raise schemas.of_another_version(storage.place(group[0].path), str(problem)) from None
    return tables


def sums(
    storage: Storage, table: Table, files: Sequence[DataFile], selection: Selection, value: str
) -> pa.Table:
    """Add up a column of planned files; see `Archive.sums`."""
    if not files:
        return _SUMS.empty_table()
    _by_columns(storage, table, files)
    # One pass over all files, including earlier versions: all of them have the columns of a sum.
    sql = (
        f"SELECT exchange, resolution, time, sum(CAST(round({value} * {_SCALE}) AS {{whole}}))::DOUBLE "
        f"/ {_SCALE} AS value, count({value}) AS symbols, "
        f"coalesce(bit_xor(hash(symbol)) FILTER ({value} IS NOT NULL), 0) AS symbol_hash "
        f"FROM read_parquet({{files}}) {_where(files, selection)} GROUP BY ALL ORDER BY ALL"
    )
    try:
        sums_by_series = _asked(sql.replace("{whole}", "BIGINT", 1), storage, files)
    except ArchiveError:  # a value beyond 8.8e12 needs 128 bits, at half as much more time
        sums_by_series = _asked(sql.replace("{whole}", "HUGEINT", 1), storage, files)
    texts = {name: sums_by_series[name].dictionary_encode() for name in ("exchange", "resolution")}
    return pa.table({name: texts.get(name, sums_by_series[name]) for name in _SUMS.names}).cast(_SUMS)


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
        yield selection  # otherwise each time would be a separate part
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
        if sum(counts[series] for series in chosen) >= rows:
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
    """Return the files with every column of the table; files of a newer version may have more."""
    groups = _by_columns(storage, table, files)
    return [file for names, group in groups if names <= set(table.columns) for file in group]


def _asked(sql: str, storage: Storage, files: Sequence[DataFile]) -> pa.Table:
    with engine() as connection:
        return connection.select(sql, storage, files)


def _by_columns(
    storage: Storage, table: Table, files: Sequence[DataFile]
) -> list[tuple[frozenset[str], list[DataFile]]]:
    """Group files by their columns, because files of other versions are read separately."""
    now = schemas.schema_digest(table)
    names = frozenset(table.columns)
    groups: dict[str, tuple[frozenset[str], list[DataFile]]] = {}
    for file in files:
        if not file.path.startswith(f"{table.name}/"):
            stored = file.path.partition("/")[0]
            raise damaged(storage, file, ValueError(f"it contains {stored}, expected {table.name}"))
        if file.schema == now:
            groups.setdefault(now, (names, []))[1].append(file)
            continue
        try:
            schema = _stored_schema(storage, file)
        except (OSError, pa.ArrowException) as problem:
            raise damaged(storage, file, problem) from None
        if lacking := sorted(names - {*schema.names, *table.optional}):
            why = f"it lacks the column {', '.join(lacking)}"
            raise schemas.of_another_version(storage.place(file.path), why)
        groups.setdefault(str(schema), (frozenset(schema.names), []))[1].append(file)
    return list(groups.values())


@lru_cache(maxsize=4096)
def _stored_schema(storage: Storage, file: DataFile) -> pa.Schema:
    schema: pa.Schema = pq.read_schema(pa.BufferReader(checked_bytes(storage, file, 0, file.size)))
    return schema


def _where(files: Sequence[DataFile], selection: Selection) -> str:
    """Return the condition for rows, without conditions that all rows of the files satisfy."""
    window = selection.window
    terms = []
    if window.start > min(file.first for file in files):
        terms.append(f"time >= TIMESTAMPTZ {quoted(stamp(window.start).isoformat())}")
    if window.end <= max(file.last for file in files):
        terms.append(f"time < TIMESTAMPTZ {quoted(stamp(window.end).isoformat())}")
    for name, values in selection.where.items():
        listed = sorted(values)
        if len(listed) > 1:  # the range lets DuckDB skip row groups by their statistics
            terms.append(f"{name} BETWEEN {quoted(listed[0])} AND {quoted(listed[-1])}")
        terms.append(f"{name} IN ({', '.join(map(quoted, listed))})" if listed else "false")
    return f"WHERE {' AND '.join(terms)}" if terms else ""


def _listed(names: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
