"""Append rows: those whose key is stored stay as they are, new ones become new files, in one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive import parquet_writer, scanning
from derivdata.sources.archive.commits import Change, commit, epoch_after
from derivdata.sources.archive.ledger import Request, enter_requests
from derivdata.sources.archive.manifest import DataFile, Manifest, TableEntry
from derivdata.sources.archive.schemas import frame_of, to_arrow
from derivdata.sources.archive.selections import EVER, EVER_ALL, Selection, TimeRange
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Kind, Table

__all__ = ["Appended", "add_rows", "merge_files", "write_new_rows"]

_MONTH_ROWS = 4_000_000
_MERGE_COUNT = 8
_BATCH_ROWS = 1_000_000
_WRITERS = 4
_LONG_RUN = 64
_SMALL_ROWS = 32_768

Array = np.ndarray[Any, Any]


class Appended(NamedTuple):
    """Numbers of rows written, stored already with the same values, and stored with other values."""

    written: int
    present: int
    differing: int


def add_rows(
    storage: Storage,
    table: Table,
    frame: pd.DataFrame,
    *,
    synthetic: bool,
    timeout: float,
    requests: Sequence[Request] = (),
) -> Appended:
    """Add the rows of a conformed frame whose keys are not stored, and enter requests into the ledger.

    Raises
    ------
    ArchiveError
        The lock was not released in time, or the disk refused; the archive is then as it was.
    """

    def change(manifest: Manifest) -> Change[Appended]:
        entry = manifest.tables.get(table.name, TableEntry())
        added, counts = write_new_rows(storage, table, entry.files, frame)
        ledger = enter_requests(storage, manifest.ledger, table.name, requests)
        if not added and ledger == manifest.ledger:
            return Change(manifest, counts, set())
        written: set[str] = set()
        after = msgspec.structs.replace(manifest, ledger=ledger)
        if added:
            files = merge_files(storage, table, entry.files, added, written)
            text = [name for name, column in table.columns.items() if column.kind is Kind.TEXT]
            values = {n: sorted({*entry.values.get(n, []), *frame[n].cat.categories}) for n in text}
            after = msgspec.structs.replace(
                after,
                identity=manifests.chained(manifest.identity, [table.name, *(f.digest for f in added)]),
                synthetic=manifest.synthetic or synthetic,
                tables={**manifest.tables, table.name: TableEntry(files, values)},
                epoch=epoch_after(manifest, min(file.first for file in added)),
            )
        return Change(after, counts, written)

    return commit(storage, timeout, change)


def write_new_rows(
    storage: Storage, table: Table, files: list[DataFile], frame: pd.DataFrame
) -> tuple[list[DataFile], Appended]:
    """Write the rows of a frame whose keys are in no file, as new files by month or day."""
    waiting: list[Future[DataFile]] = []
    differing = 0
    with ThreadPoolExecutor(_WRITERS) as pool:
        for month, rows in _by_calendar(to_arrow(table, frame), "M"):
            fresh, unequal = _unseen(table, rows, _existing(storage, table, files, rows))
            differing += unequal
            for partition, chunk in _partitions(table, month, fresh, files):
                if len(waiting) >= _WRITERS:  # at most so many months wait in memory, in thousands of slices
                    waiting[-_WRITERS].result()
                waiting.append(pool.submit(parquet_writer.write, storage, partition, table, [chunk]))
        added = [future.result() for future in waiting]
    written = sum(file.rows for file in added)
    return added, Appended(written, len(frame) - written - differing, differing)


def _by_calendar(rows: pa.Table, unit: str) -> Iterator[tuple[str, pa.Table]]:
    """Iterate over rows by calendar month or day, in order; text beyond 2 GB comes in several batches."""
    for batch in rows.combine_chunks().to_batches():
        yield from _batch_by_calendar(batch, unit)


def _batch_by_calendar(rows: pa.RecordBatch, unit: str) -> Iterator[tuple[str, pa.Table]]:
    # Rows are sorted by symbol first, so a month is many runs of rows. `calendar` are the months (or days)
    # that occur; a row belongs to the one with as many of the following starts at or before its time.
    stamps = np.asarray(rows["time"].cast(pa.int64()))
    ends = np.array([stamps.min(), stamps.max()]).view("datetime64[us]").astype(f"datetime64[{unit}]")
    calendar = np.arange(ends[0], ends[1] + np.timedelta64(1, unit))  # type: ignore[call-overload]
    bounds, of_run = _runs(stamps, calendar[1:].astype("datetime64[us]").view(np.int64))
    for code in np.unique(of_run):
        chosen = of_run == code
        yield str(calendar[code]), _picked(rows, bounds[:-1][chosen], bounds[1:][chosen])


def _runs(stamps: Array, edges: Array) -> tuple[Array, Array]:
    """Return the bounds of the runs of rows between the same edges, and how many edges lie before each.

    Rows are taken in batches: a code for every row at once would need as much memory as the largest column.
    """
    bounds, codes = [], []
    for start in range(0, stamps.size, _BATCH_ROWS):
        some = np.searchsorted(edges, stamps[start : start + _BATCH_ROWS], side="right")
        firsts = np.concatenate([[0], np.flatnonzero(some[1:] != some[:-1]) + 1])
        bounds.append(start + firsts)
        codes.append(some[firsts])
    return np.concatenate([*bounds, [stamps.size]]), np.concatenate(codes)


def _picked(rows: pa.RecordBatch, starts: Array, ends: Array) -> pa.Table:
    """Take the rows of some runs: without a copy where runs are long, else as one copy."""
    lengths = ends - starts
    if lengths.sum() > _LONG_RUN * lengths.size:
        runs = zip(starts.tolist(), lengths.tolist(), strict=True)
        return pa.Table.from_batches([rows.slice(start, length) for start, length in runs])
    # Row numbers of all runs without a loop: the j-th row taken, of run i, is row j + end_i − (rows up to and
    # with run i).
    places = np.repeat(ends - lengths.cumsum(), lengths) + np.arange(lengths.sum())
    return pa.Table.from_batches([rows.take(pa.array(places))])


def _partitions(
    table: Table, month: str, fresh: pa.Table, files: list[DataFile]
) -> Iterator[tuple[str, pa.Table]]:
    """Divide the rows of a month by folder: one for the month while it is small, then one per day."""
    prefix = f"{table.name}/{month}"
    size = fresh.num_rows + sum(file.rows for file in files if file.partition.startswith(prefix))
    chunks = [(month, fresh)] if size <= _MONTH_ROWS else _by_calendar(fresh, "D")
    for name, chunk in chunks:
        if chunk.num_rows:
            yield f"{table.name}/{name}", chunk


def _existing(storage: Storage, table: Table, files: list[DataFile], rows: pa.Table) -> list[pa.Table]:
    """Read the stored rows that could share a key with one of `rows`."""
    first, last = (v.cast(pa.int64()).as_py() for v in pc.min_max(rows["time"]).values())
    window = TimeRange(first, last + 1) if "time" in table.key else EVER
    near = scanning.plan(files, Selection({}, window))
    if not near:
        return []
    named = [name for name in table.key if name in ("symbol", "exchange", "order_id")]
    where = {name: frozenset(pc.unique(rows[name]).to_pylist()) for name in named}
    return scanning.read(storage, table, near, Selection(where, window))


def _unseen(table: Table, rows: pa.Table, existing: list[pa.Table]) -> tuple[pa.Table, int]:
    """Return the rows whose key is not stored, and the number of the others whose stored values differ."""
    if not any(part.num_rows for part in existing):
        return rows, 0
    old, new = frame_of(table, existing), frame_of(table, [rows])
    if old.equals(new):
        return rows.slice(0, 0), 0
    both = pd.DataFrame({name: _stacked(old[name], new[name]) for name in table.columns})
    seen = both.duplicated(list(table.key)).to_numpy()[len(old) :]
    if not seen.any():
        return rows, 0
    equal = both.duplicated().to_numpy()[len(old) :]
    return to_arrow(table, new[~seen]), int((seen & ~equal).sum())


def _stacked(upper: pd.Series, lower: pd.Series) -> pd.Series:
    if isinstance(upper.dtype, pd.CategoricalDtype):
        return pd.Series(pd.api.types.union_categoricals([upper.array, lower.array]))
    return pd.concat([upper, lower], ignore_index=True)


def merge_files(
    storage: Storage, table: Table, files: list[DataFile], added: list[DataFile], written: set[str]
) -> list[DataFile]:
    """Return old and new files, with those of the new files' partitions merged.

    Files of a partition that are small together are merged at once, others when there are
    eight of a level; the result is of the next level. So a row is rewritten about once per level: as often as
    the logarithm to base 8 of the number of appends.

    A file with columns that the table does not have (a newer version wrote it) stays as it is: merged, it
    would lose them. The paths of new files, also of those that are merged away again, go into `written`.
    """
    written |= {file.path for file in added}
    files = [*files, *added]
    for partition in sorted({file.partition for file in added}):
        here = [
            file
            for file in files
            if file.partition == partition and scanning.all_columns_known(storage, table, file)
        ]
        merging = set(here)
        others = [file for file in files if file not in merging]
        level = 0
        while any(file.level >= level for file in here):
            group = [file for file in here if file.level == level]
            small = sum(file.rows for file in group) <= _SMALL_ROWS
            if len(group) >= (2 if small else _MERGE_COUNT):
                rows = _sorted(storage, table, group)
                whole = parquet_writer.write(storage, partition, table, rows, level=level + (not small))
                here = [*(file for file in here if file not in group), whole]
                written.add(whole.path)
            level += 1
        files = [*others, *here]
    return files


def _sorted(storage: Storage, table: Table, group: list[DataFile]) -> Iterator[pa.Table]:
    """Iterate over the rows of several files in order, some symbols at a time to bound memory."""
    for chosen in scanning.slices(storage, table, group, EVER_ALL, _BATCH_ROWS):
        yield to_arrow(table, frame_of(table, scanning.read(storage, table, group, chosen)))
