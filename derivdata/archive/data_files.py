"""Single Parquet files: written sorted in small row groups, read by the groups that can match."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from derivdata.archive import footers
from derivdata.archive.manifest import DataFile
from derivdata.archive.schemas import INSTANT, LABEL, as_now, refuse_lacking, schema_of
from derivdata.errors import ArchiveError
from derivdata.schema import Table

__all__ = [
    "EVER",
    "FILE_NAME",
    "GROUP_ROWS",
    "RowGroups",
    "TimeRange",
    "Where",
    "distinct",
    "frame_of",
    "known",
    "latest_by",
    "load",
    "ranges",
    "row_group_batches",
    "scan",
    "scan_latest",
    "sorting",
    "to_arrow",
    "wanted",
    "write",
]

GROUP_ROWS = 32_768
_BATCH_ROWS = 1_000_000
_NEWEST_FROM_ROWS = 100_000
_CHUNK_GROUPS = 4

FILE_NAME = re.compile(r"\.[0-9a-f]{32}\.new|[0-9a-f]{32}\.(parquet|newest)")
"""What a file of ours is called, while it is written and for good."""

Where: TypeAlias = Mapping[str, Collection[str]]
_NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


class TimeRange(NamedTuple):
    """Half-open window in microseconds."""

    start: int
    end: int

    def touches(self, first: int, last: int) -> bool:
        """Whether a closed range of instants has one in it."""
        return first < self.end and last >= self.start


EVER = TimeRange(-(2**63), 2**63 - 1)


class RowGroups(NamedTuple):
    """Row groups of one file."""

    file: DataFile
    groups: list[int]


def wanted(
    table: Table, symbols: Sequence[str] | None, exchanges: Sequence[str] | None
) -> dict[str, frozenset[str]]:
    """Return what a read asks for, as values by column.

    Raises
    ------
    ValueError
        The table has no such column.
    """
    given = {"symbol": ("symbols", symbols), "exchange": ("exchanges", exchanges)}
    where = {}
    for column, (argument, values) in given.items():
        if values is None:
            continue
        if column not in table.columns:
            raise ValueError(f"{argument}: table {table.name} has no column {column!r}")
        where[column] = frozenset([values] if isinstance(values, str) else values)
    return where


def sorting(table: Table) -> list[str]:
    """Columns that rows are sorted by within a file: what reads ask for, first."""
    leading = [name for name in ("symbol", "exchange", "time") if name in table.columns]
    return leading + [name for name in table.key if name not in leading]


def to_arrow(table: Table, frame: pd.DataFrame) -> pa.Table:
    """Return a conformed frame as Arrow, sorted as files are; without a copy where it is sorted so."""
    by = sorting(table)
    if by != [*table.order, *(name for name in table.key if name not in table.order)]:
        frame = frame.sort_values(by, kind="stable")
    return pa.table({f.name: _array(frame[f.name], f.type) for f in schema_of(table)})


def frame_of(table: Table, found: list[pa.Table]) -> pd.DataFrame:
    """Arrow rows as the table; what older files lack of the optional columns is missing."""
    if not found:
        return table.empty()
    rows = pa.concat_tables(found, promote_options="default").unify_dictionaries()
    return table.conform(rows.to_pandas(types_mapper=_NULLABLE.get))


def write(root: Path, partition: str, table: Table, rows: Iterable[pa.Table], *, level: int = 0) -> DataFile:
    """Write sorted rows as one new file of a partition; where they are many, their last ones beside it."""
    folder = root / partition
    folder.mkdir(parents=True, exist_ok=True)
    newest = _Newest(table)
    written = _write_file(folder, table, rows, newest)
    file = DataFile(
        path=f"{partition}/{written.digest}.parquet",
        rows=written.rows,
        size=written.size,
        first=written.first,
        last=written.last,
        digest=written.digest,
        tail=written.tail,
        level=level,
    )
    written.path.replace(root / file.path)
    if file.rows >= _NEWEST_FROM_ROWS and newest.follows_series:
        beside = _write_file(folder, table, [newest.rows()], None)
        beside.path.replace(root / file.newest_path)
        file = msgspec.structs.replace(file, newest=beside.tail)
    return file


class _Written(NamedTuple):
    path: Path
    rows: int
    size: int
    first: int
    last: int
    digest: str
    tail: str


def _write_file(folder: Path, table: Table, rows: Iterable[pa.Table], newest: _Newest | None) -> _Written:
    """Write a draft, which is removed if that fails."""
    draft = folder / f".{uuid.uuid4().hex}.new"
    try:
        count, first, last = _write_rows(draft, table, rows, newest)
        with draft.open("rb") as handle:
            digest = hashlib.file_digest(handle, footers.digest).hexdigest()
            tail = footers.tail_of(handle)
        return _Written(draft, count, draft.stat().st_size, first, last, digest, tail)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


class _Newest:
    """The rows of the last instant of each symbol and venue, gathered as sorted rows go by."""

    def __init__(self, table: Table) -> None:
        self.follows_series = latest_by(table) == ["symbol", "exchange"]
        self._table = table
        self._found: list[pa.Table] = []

    def take(self, rows: pa.Table) -> None:
        if self.follows_series:
            self._found.append(_last_of_series(rows))

    def rows(self) -> pa.Table:
        # A series that went on in the next chunk was gathered twice: once more over what was gathered.
        return _last_of_series(pa.concat_tables(self._found).unify_dictionaries().combine_chunks())


def latest_by(table: Table) -> list[str]:
    """Return the columns whose values each have a newest row, or a newest chain."""
    return [name for name in table.key if name not in ("time", "instrument_name")]


def _last_of_series(rows: pa.Table) -> pa.Table:
    """Return the rows of the last instant of each run of one symbol and venue, sorted by both and time."""
    if not len(rows):
        return rows
    rows = rows.combine_chunks()
    codes = [np.asarray(rows[name].chunk(0).indices) for name in ("symbol", "exchange")]
    ends = np.flatnonzero(np.append((codes[0][1:] != codes[0][:-1]) | (codes[1][1:] != codes[1][:-1]), True))
    stamps = np.asarray(rows["time"].cast(pa.int64()))
    lengths = np.diff(np.append(-1, ends))
    return rows.filter(pa.array(stamps == np.repeat(stamps[ends], lengths)))


def row_group_batches(
    root: Path, table: Table, held: Iterable[DataFile], window: TimeRange, where: Where
) -> Iterator[RowGroups]:
    """Row groups of some files that can hold a match, in bites that fit into memory.

    Raises
    ------
    ArchiveError
        A file is damaged, or holds another table.
    """
    for file in held:
        if not window.touches(file.first, file.last):
            continue
        footer = _checked(root, file, table)
        chosen = _candidates(footer, window, where)
        step = max(1, _BATCH_ROWS // GROUP_ROWS)
        for first in range(0, len(chosen), step):
            yield RowGroups(file, chosen[first : first + step])


def known(root: Path, table: Table, file: DataFile) -> bool:
    """Whether the table has every column of a file; one of another version may have more.

    Raises
    ------
    ArchiveError
        The file is damaged, or holds another table.
    """
    return _checked(root, file, table).names <= set(table.columns)


def load(
    root: Path,
    table: Table,
    batch: RowGroups,
    window: TimeRange,
    where: Where,
    names: Collection[str] | None = None,
) -> pa.Table:
    """Load rows of a batch within a window whose columns have one of the given values.

    `names` are the columns that are read, with those that choose rows; None reads all.

    Raises
    ------
    ArchiveError
        The file is damaged.
    """
    path = root / batch.file.path
    with footers.reading(path):
        footer = footers.footer(path, batch.file.tail)
        asked = table.columns if names is None else {*names, *where, "time"}
        columns = [name for name in table.columns if name in footer.names and name in asked]
        with pq.ParquetFile(path, metadata=footer.metadata, page_checksum_verification=True) as parquet:
            rows = parquet.read_row_groups(batch.groups, columns=columns)
        rows.validate(full=True)
    rows = as_now(rows, table, path)
    inside = batch.file.first >= window.start and batch.file.last < window.end
    mask = _mask(None if inside else window, where)
    return rows if mask is None else rows.filter(mask)


def scan(
    root: Path, table: Table, held: Iterable[DataFile], window: TimeRange, where: Where
) -> list[pa.Table]:
    """Rows of some files within a span whose columns have one of the given values."""
    return [
        load(root, table, batch, window, where)
        for batch in row_group_batches(root, table, held, window, where)
    ]


def ranges(root: Path, table: Table, held: Iterable[DataFile], rows: int) -> Iterator[Where]:
    """Values of the leading column in order, so many at a time that they stand for about `rows` rows.

    Raises
    ------
    ArchiveError
        A file is damaged.
    """
    lead = sorting(table)[0]
    if lead not in footers.PRUNED:
        yield {}
        return
    counts: Counter[str] = Counter()
    for file in held:
        path = root / file.path
        with footers.reading(path), pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            found = parquet.read(columns=[lead])[lead].value_counts().to_pylist()
        counts.update({each["values"]: each["counts"] for each in found})
    chosen: list[str] = []
    size = 0
    for value in sorted(counts):
        chosen.append(value)
        size += counts[value]
        if size >= rows:
            yield {lead: frozenset(chosen)}
            chosen, size = [], 0
    if chosen:
        yield {lead: frozenset(chosen)}


def scan_latest(
    root: Path, table: Table, held: Iterable[DataFile], window: TimeRange, where: Where
) -> pd.DataFrame:
    """Return the newest rows of each series of a table in a window, or its newest chain.

    Of a file that ends before the window does, the last rows beside it are all that can be among them.
    """
    found = []
    for file in held:
        if not window.touches(file.first, file.last):
            continue
        if file.newest and file.last < window.end:
            beside = msgspec.structs.replace(file, path=file.newest_path, tail=file.newest, newest="")
            found += scan(root, table, [beside], window, where)
        else:
            found += scan(root, table, [file], window, where)
    rows = frame_of(table, found)
    newest = rows.groupby(latest_by(table), observed=True)["time"].transform("max")
    return rows[rows["time"] == newest]


def distinct(
    root: Path, table: Table, held: Iterable[DataFile], names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the values of some text columns, sorted."""
    values: dict[str, set[str]] = {name: set() for name in names}
    for file in held:
        path = root / file.path
        with footers.reading(path), pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            there = [name for name in names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=there):
                for name in there:
                    values[name].update(pc.unique(batch[name]).drop_null().to_pylist())
    return {name: sorted(found) for name, found in values.items()}


def _array(values: pd.Series, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.array(values, type=kind, from_pandas=True)
    codes = values.array.codes
    missing = codes < 0 if len(codes) and codes.min() < 0 else None
    words = pa.array(values.cat.categories, type=pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), words)


def _write_rows(
    path: Path, table: Table, rows: Iterable[pa.Table], newest: _Newest | None
) -> tuple[int, int, int]:
    schema = schema_of(table)
    text = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    count, bounds = 0, []
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=text,
        column_encoding={"time": "DELTA_BINARY_PACKED"},
        write_statistics=[name for name in (*footers.PRUNED, "time") if name in table.columns],
        write_page_checksum=True,
        write_batch_size=GROUP_ROWS,
    ) as writer:
        for batch in _in_chunks(rows):
            whole = batch.combine_chunks().cast(schema)
            writer.write_table(whole, row_group_size=GROUP_ROWS)
            if newest is not None:
                newest.take(whole)
            count += len(batch)
            bounds += [v.cast(pa.int64()).as_py() for v in pc.min_max(batch["time"]).values()]
    return count, min(bounds), max(bounds)


def _in_chunks(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield some row groups at a time, so that writers hold copies of those only."""
    for batch in rows:
        for start in range(0, len(batch), _CHUNK_GROUPS * GROUP_ROWS):
            yield batch.slice(start, _CHUNK_GROUPS * GROUP_ROWS)


def _checked(root: Path, file: DataFile, table: Table) -> footers.Footer:
    path = root / file.path
    with footers.reading(path):
        footer = footers.footer(path, file.tail)
    holds = (footer.metadata.metadata or {}).get(LABEL, b"no table of an archive").decode()
    if holds != table.name:
        raise ArchiveError(f"{path}: the file holds {holds}, not {table.name}")
    refuse_lacking(path, table, footer.names)
    return footer


def _candidates(footer: footers.Footer, window: TimeRange, where: Where) -> list[int]:
    """Row groups whose statistics do not rule a match out."""
    return [
        index
        for index in range(footer.metadata.num_row_groups)
        if window.touches(*footer.bounds["time"][index])
        and all(_may_hold(footer, name, index, values) for name, values in where.items())
    ]


def _may_hold(footer: footers.Footer, name: str, index: int, values: Collection[str]) -> bool:
    low, high = footer.bounds[name][index]
    return low is None or any(low <= value <= high for value in values)


def _mask(window: TimeRange | None, where: Where) -> pc.Expression | None:
    tests = [pc.field(name).isin(pa.array(sorted(values), pa.string())) for name, values in where.items()]
    if window is not None:
        tests.append(pc.field("time") >= pa.scalar(window.start, INSTANT))
        tests.append(pc.field("time") < pa.scalar(window.end, INSTANT))
    return reduce(and_, tests) if tests else None
