"""Keys and Arrow schemas of the archive's tables; frames to Arrow and back; Parquet files with checksums."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive.manifest import BLOCK_BYTES, DataFile
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Kind, Table

LABEL = b"derivdata.table"
"""Key of a file's metadata that names its table."""

TICK = pa.timestamp("us", "UTC")
_NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
_TYPES = {
    Kind.TEXT: (pa.dictionary(pa.int32(), pa.string()), "VARCHAR"),
    Kind.LABEL: (pa.string(), "VARCHAR"),
    Kind.NUMBER: (pa.float64(), "DOUBLE"),
    Kind.COUNT: (pa.int64(), "BIGINT"),
    Kind.RANK: (pa.int64(), "BIGINT"),
    Kind.FLAG: (pa.bool_(), "BOOLEAN"),
    Kind.TIME: (TICK, "TIMESTAMPTZ"),
}
"""Types of a column in Arrow and in SQL."""


def archive_table(name: str) -> Table:
    """Return a table with `time` in the key, unless the key has an order id."""
    table = tables.TABLES.get(name)
    if table is None or "time" not in table.columns:
        raise ValueError(f"table={name!r} cannot be archived; the tables are {', '.join(archive_tables())}")
    if "order_id" in table.key or "time" in table.key:
        return table
    return replace(table, key=(*table.key, "time"))


def schema_of(table: Table) -> pa.Schema:
    """Return the table's columns as Arrow stores them."""
    fields = [
        pa.field(name, _TYPES[column.kind][0], nullable=name not in table.key)
        for name, column in table.columns.items()
    ]
    return pa.schema(fields, metadata={LABEL: table.name.encode()})


def archive_tables() -> list[str]:
    """Return the names of the tables that can be archived: those whose rows have a time."""
    return sorted(name for name, table in tables.TABLES.items() if "time" in table.columns)


def text_columns(table: Table) -> list[str]:
    """Return the columns whose text is stored as a dictionary."""
    return [name for name, column in table.columns.items() if column.kind is Kind.TEXT]


def time_bounds(rows: pa.Table) -> tuple[int, int]:
    """Return the first and the last time of rows [µs]."""
    bounds = pc.min_max(rows["time"])
    return bounds["min"].cast(pa.int64()).as_py(), bounds["max"].cast(pa.int64()).as_py()


def sql_columns(table: Table, stored: Collection[str]) -> str:
    """Return the table's columns as SQL selects them from files that have some of them."""
    terms = []
    for name, column in table.columns.items():
        value = "NULL"
        if name in stored:
            value = f'"{name}"'
        if column.default:
            value = f"coalesce({value}, '{column.default}')"
        _, sql_type = _TYPES[column.kind]
        terms.append(f'CAST({value} AS {sql_type}) AS "{name}"')
    return ", ".join(terms)


def plain_frame(rows: pa.Table) -> pd.DataFrame:
    """Return the result of a user's query as a frame with UTC times."""
    fields = []
    for field in rows.schema:  # a list, because a query may name two columns alike
        if pa.types.is_timestamp(field.type) and field.type.tz:
            field = pa.field(field.name, TICK)
        fields.append(field)
    frame: pd.DataFrame = rows.cast(pa.schema(fields)).to_pandas(types_mapper=_NULLABLE.get)
    return frame


def schema_digest(table: Table) -> str:
    """Return a digest of the columns and their types, which identifies the version of a table."""
    return hashlib.blake2b(str(schema_of(table)).encode(), digest_size=4).hexdigest()


def as_now(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows of a query with the types of the table's columns; text becomes dictionaries."""
    return pa.table({name: _typed(rows[name], table.columns[name].kind) for name in rows.column_names})


def _typed(column: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    """Return a column with the Arrow type of its kind."""
    if kind is Kind.TEXT:
        return column.dictionary_encode()
    wanted, _ = _TYPES[kind]
    if column.type == wanted:
        return column
    return column.cast(wanted)


def sorting(table: Table) -> list[str]:
    """Return the columns that rows are sorted by within a file, with filter columns first."""
    leading = [name for name in ("symbol", "exchange", "time") if name in table.columns]
    return leading + [name for name in table.key if name not in leading]


def to_arrow(table: Table, frame: pd.DataFrame) -> pa.Table:
    """Return a conformed frame as Arrow in the order of files; without a copy if it is in that order."""
    by = sorting(table)
    if by != list(dict.fromkeys([*table.order, *table.key])):
        frame = frame.sort_values(by, kind="stable")
    return pa.table({f.name: _arrow_array(frame[f.name], f.type) for f in schema_of(table)})


def frame_of(table: Table, tables: list[pa.Table], names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return Arrow rows as the table, or some of its columns; NaN in columns that older files lack."""
    if not any(map(len, tables)):
        empty = table.empty()
        if names is not None:
            empty = empty[list(names)]
        return empty
    rows = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
    if names is None:
        return table.conform(rows.to_pandas(types_mapper=_NULLABLE.get))
    chosen = rows.select([name for name in names if name in rows.column_names])
    return table.some(names, chosen.to_pandas(types_mapper=_NULLABLE.get))


def latest_by(table: Table) -> list[str]:
    """Return the columns of the key that identify a series, or a chain of options."""
    return [name for name in table.key if name not in ("time", "instrument_name")]


def of_another_version(place: str, why: str) -> ArchiveError:
    """Return the error for a file that another version of the library wrote."""
    return ArchiveError(
        f"{place}: another version of derivdata wrote this file ({why}): read it with that version, or "
        "import its rows into a new archive"
    )


def _arrow_array(values: pd.Series, kind: pa.DataType) -> pa.Array:
    """Return a column as Arrow; categories become a dictionary without a copy of the text."""
    if not pa.types.is_dictionary(kind):
        return pa.array(values, type=kind, from_pandas=True)
    codes = values.array.codes
    missing = None
    if len(codes) and codes.min() < 0:
        missing = codes < 0
    words = pa.array(values.cat.categories, type=pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), words)


GROUP_ROWS = 122_880
"""Rows of a row group: DuckDB's own size. A file of a month has about a hundred groups.

With smaller groups one series is faster to decode, and footers take longer to read; 122,880 minimises the
sum.
"""


def write(
    storage: Storage, partition: str, table: Table, *sources: Iterable[pa.Table], level: int = 0
) -> DataFile:
    """Write sorted rows as one new file of a partition; each source has separate row groups."""
    draft = storage.draft(partition)
    try:
        count, first, last = _write_rows(draft, table, sources)
        digest, blocks = _digests(draft)
        file = DataFile(
            path=f"{partition}/{storage.unique(digest)}.parquet",
            rows=count,
            size=draft.stat().st_size,
            first=first,
            last=last,
            digest=digest,
            blocks=blocks,
            schema=schema_digest(table),
            level=level,
        )
        storage.publish(draft, file.path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return file


def _write_rows(path: Path, table: Table, sources: Sequence[Iterable[pa.Table]]) -> tuple[int, int, int]:
    """Write rows; return their number, and the first and the last time."""
    schema = schema_of(table)
    # LZ4 decompresses numbers three times as fast as zstd and needs 20 % more bytes. Decompression dominates
    # reads of all series of a day or a quarter. Runs of text or times need few bytes in both.
    compression = dict.fromkeys(schema.names, "zstd")
    for field in schema:
        if field.type in (pa.float64(), pa.int64()):
            compression[field.name] = "lz4"
    count = 0
    bounds: list[int] = []
    with pq.ParquetWriter(
        path,
        schema,
        compression=compression,
        # All series have the same times: with a dictionary DuckDB compares each time once.
        use_dictionary=[*text_columns(table), "time"],
        write_statistics=[name for name in _PRUNED if name in schema.names],
        write_page_checksum=True,
        # The writer rebuilds its dictionary in each batch, which has 1,024 rows by default.
        write_batch_size=GROUP_ROWS,
    ) as writer:
        for batch in chain.from_iterable(map(_in_groups, sources)):
            # combine_chunks, because the writer takes six times as long for thousands of chunks.
            writer.write_table(batch.combine_chunks().cast(schema), row_group_size=GROUP_ROWS)
            count += len(batch)
            bounds += time_bounds(batch)
    return count, min(bounds), max(bounds)


_PRUNED = ("symbol", "exchange", "order_id", "time")
"""Columns of filters: their ranges let a read skip most row groups."""


def _in_groups(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows in whole row groups, so that no group is smaller than necessary."""
    waiting: list[pa.Table] = []
    for batch in rows:
        waiting.append(batch)
        while (size := sum(map(len, waiting))) >= GROUP_ROWS:
            whole = pa.concat_tables(waiting)
            cut = size - size % GROUP_ROWS
            for at in range(0, cut, GROUP_ROWS):
                yield whole.slice(at, GROUP_ROWS)
            waiting = [whole.slice(cut)]
    if any(map(len, waiting)):
        yield pa.concat_tables(waiting)


def _digests(path: Path) -> tuple[str, str]:
    """Return the digest of a file, and the checksums of its blocks."""
    digest = hashlib.blake2b(digest_size=16)
    blocks = []
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            blocks.append(f"{zlib.crc32(block):08x}")
    return digest.hexdigest(), "".join(blocks)
