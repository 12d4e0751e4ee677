"""Write single Parquet files of sorted rows, with what says later that they are sound."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from derivdata.sources.archive.manifest import BLOCK_BYTES, DataFile
from derivdata.sources.archive.schemas import schema_digest, schema_of
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Kind, Table

GROUP_ROWS = 122_880
"""Rows that are read together: DuckDB's own size, of which a file of a month has a hundred.

Smaller groups make one series cheaper to decode and footers dearer to read; 122,880 is the least of both.
"""


def write(
    storage: Storage, partition: str, table: Table, *parts: Iterable[pa.Table], level: int = 0
) -> DataFile:
    """Write sorted rows as one new file of a partition; each of its parts has row groups of its own."""
    draft = storage.draft(partition)
    try:
        count, first, last = _write_rows(draft, table, parts)
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


def _write_rows(path: Path, table: Table, parts: Sequence[Iterable[pa.Table]]) -> tuple[int, int, int]:
    """Write rows; return their number, and the first and the last instant."""
    schema = schema_of(table)
    texts = [name for name, column in table.columns.items() if column.kind is Kind.TEXT]
    numbers = [field.name for field in schema if field.type in (pa.float64(), pa.int64())]
    count, bounds = 0, []
    with pq.ParquetWriter(
        path,
        schema,
        # LZ4 unpacks numbers three times as fast as zstd, for a fifth more bytes; whatever reads all series
        # of a day or a quarter waits for that. Text and instants are a few bytes a run either way.
        compression={name: "lz4" if name in numbers else "zstd" for name in schema.names},
        # The instants of a table's series repeat: a dictionary lets DuckDB compare each of them once.
        use_dictionary=[*texts, "time"],
        write_statistics=[name for name in _PRUNED if name in schema.names],
        write_page_checksum=True,
        # Words that occur are counted again in each batch, of 1,024 rows by default.
        write_batch_size=GROUP_ROWS,
    ) as writer:
        for batch in chain.from_iterable(map(_in_groups, parts)):
            # In one piece: Parquet's writer takes six times as long for thousands of runs of rows.
            writer.write_table(batch.combine_chunks().cast(schema), row_group_size=GROUP_ROWS)
            count += len(batch)
            bounds += [v.cast(pa.int64()).as_py() for v in pc.min_max(batch["time"]).values()]
    return count, min(bounds), max(bounds)


_PRUNED = ("symbol", "exchange", "order_id", "time")
"""Columns that reads choose by, whose ranges in a row group rule out most of them."""


def _in_groups(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of whole row groups, however they come, so that no group is smaller than it need be."""
    waiting: list[pa.Table] = []
    for batch in rows:
        waiting.append(batch)
        while (size := sum(map(len, waiting))) >= GROUP_ROWS:
            whole = pa.concat_tables(waiting)
            cut = size - size % GROUP_ROWS
            yield from (whole.slice(at, GROUP_ROWS) for at in range(0, cut, GROUP_ROWS))
            waiting = [whole.slice(cut)]
    if any(map(len, waiting)):
        yield pa.concat_tables(waiting)


def _digests(path: Path) -> tuple[str, str]:
    """Return the digest of a file, and the checksums of its blocks."""
    digest, blocks = hashlib.blake2b(digest_size=16), []
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            blocks.append(f"{zlib.crc32(block):08x}")
    return digest.hexdigest(), "".join(blocks)
