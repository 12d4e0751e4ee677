"""Rows into an archive: what is there already stays, what is new becomes new files, in one step."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.archive import data_files
from derivdata.archive import manifest as manifests
from derivdata.archive.footers import PRUNED
from derivdata.archive.locking import writing
from derivdata.archive.manifest import DataFile, Manifest, TableEntry
from derivdata.errors import ArchiveError
from derivdata.schema import Kind, Table

__all__ = ["Appended", "add_rows"]

_MONTH_ROWS = 4_000_000
_MERGE_COUNT = 8
_BATCH_ROWS = 1_000_000
_WRITERS = 4
_LONG_RUN = 64

Array = np.ndarray[Any, Any]


class Appended(NamedTuple):
    """Rows that were written, that were there with the same values, and that were there with others."""

    written: int
    present: int
    differing: int


def add_rows(folder: Path, table: Table, frame: pd.DataFrame, *, synthetic: bool, timeout: float) -> Appended:
    """Add the rows of a conformed frame whose keys are not there yet.

    Raises
    ------
    ArchiveError
        The lock was not given up in time, or the disk refused; the archive is then as it was.
    """
    manifests.load(folder)
    with writing(folder, timeout) as cut_off:
        before = manifests.load(folder)
        try:
            if before is None:
                manifests.save(folder, Manifest())
            if cut_off:
                _sweep(folder)
            return _commit(folder, table, frame, synthetic)
        except BaseException as problem:
            _sweep(folder)
            if isinstance(problem, OSError):
                raise _refused(folder, before or Manifest(), problem) from None
            raise


def _refused(folder: Path, before: Manifest, problem: OSError) -> ArchiveError:
    why = problem.strerror or problem
    if (manifests.load(folder) or Manifest()) == before:
        return ArchiveError(f"{folder}: nothing was appended, all is as it was: {why}")
    return ArchiveError(
        f"{folder}: the rows are there, but the disk did not confirm that a power cut leaves them: {why}"
    )


def _commit(folder: Path, table: Table, frame: pd.DataFrame, synthetic: bool) -> Appended:
    manifest = manifests.load(folder) or Manifest()
    entry = manifest.tables.get(table.name, TableEntry())
    added, counts = _added(folder, table, entry.files, frame)
    if not added:
        return counts
    before = [*entry.files, *added]
    after = _merged(folder, table, before, {file.partition for file in added})
    grown = Manifest(
        identity=manifests.chained(manifest.identity, [table.name, *(file.digest for file in added)]),
        synthetic=manifest.synthetic or synthetic,
        tables={**manifest.tables, table.name: TableEntry(after, _values(entry, table, frame))},
    )
    _settle(folder, set(after) - set(entry.files))
    manifests.save(folder, grown)
    for file in set(before) - set(after):
        _remove(folder / file.path)
    return counts


def _settle(folder: Path, new: set[DataFile]) -> None:
    """Wait until new files and the folders that name them are on disk."""
    for file in new:
        manifests.sync(folder / file.path)
    for partition in {file.partition for file in new}:
        manifests.sync(folder / partition)
    manifests.sync(folder)


def _added(
    folder: Path, table: Table, held: list[DataFile], frame: pd.DataFrame
) -> tuple[list[DataFile], Appended]:
    waiting: list[Future[DataFile]] = []
    differing = 0
    with ThreadPoolExecutor(_WRITERS) as pool:
        for month, rows in _by_calendar(data_files.to_arrow(table, frame), "M"):
            fresh, unequal = _unseen(table, rows, _existing(folder, table, held, rows))
            differing += unequal
            for partition, chunk in _partitions(table, month, fresh, held):
                if len(waiting) >= _WRITERS:  # what waits is a month in thousands of slices
                    waiting[-_WRITERS].result()
                waiting.append(pool.submit(data_files.write, folder, partition, table, [chunk]))
        added = [future.result() for future in waiting]
    written = sum(file.rows for file in added)
    return added, Appended(written, len(frame) - written - differing, differing)


def _by_calendar(rows: pa.Table, unit: str) -> Iterator[tuple[str, pa.Table]]:
    """Rows by calendar month or day, in order; text beyond 2 GB comes in several batches, one by one."""
    for batch in rows.combine_chunks().to_batches():
        yield from _batch_by_calendar(batch, unit)


def _batch_by_calendar(rows: pa.RecordBatch, unit: str) -> Iterator[tuple[str, pa.Table]]:
    stamps = np.asarray(rows["time"].cast(pa.int64()))
    ends = np.array([stamps.min(), stamps.max()]).view("datetime64[us]").astype(f"datetime64[{unit}]")
    calendar = np.arange(ends[0], ends[1] + 1)
    bounds, of_run = _runs(stamps, calendar[1:].astype("datetime64[us]").view(np.int64))
    for code in np.unique(of_run):
        chosen = of_run == code
        yield str(calendar[code]), _picked(rows, bounds[:-1][chosen], bounds[1:][chosen])


def _runs(stamps: Array, edges: Array) -> tuple[Array, Array]:
    """Bounds of the runs of rows between the same edges, and how many edges lie before each.

    Found a batch of rows at a time: a code for every row would be as large as the largest column.
    """
    bounds, codes = [], []
    for start in range(0, stamps.size, _BATCH_ROWS):
        some = np.searchsorted(edges, stamps[start : start + _BATCH_ROWS], side="right")
        firsts = np.concatenate([[0], np.flatnonzero(some[1:] != some[:-1]) + 1])
        bounds.append(start + firsts)
        codes.append(some[firsts])
    return np.concatenate([*bounds, [stamps.size]]), np.concatenate(codes)


def _picked(rows: pa.RecordBatch, starts: Array, ends: Array) -> pa.Table:
    """The rows of some runs: as they lie in memory where runs are long, else a copy."""
    lengths = ends - starts
    if lengths.sum() > _LONG_RUN * lengths.size:
        runs = zip(starts.tolist(), lengths.tolist(), strict=True)
        return pa.Table.from_batches([rows.slice(start, length) for start, length in runs])
    places = np.repeat(ends - lengths.cumsum(), lengths) + np.arange(lengths.sum())
    return pa.Table.from_batches([rows.take(pa.array(places))])


def _partitions(
    table: Table, month: str, fresh: pa.Table, held: list[DataFile]
) -> Iterator[tuple[str, pa.Table]]:
    """Rows of a month by folder: the month's while it is thin, the days' once it is not."""
    prefix = f"{table.name}/{month}"
    size = fresh.num_rows + sum(file.rows for file in held if file.partition.startswith(prefix))
    chunks = [(month, fresh)] if size <= _MONTH_ROWS else _by_calendar(fresh, "D")
    for name, chunk in chunks:
        if chunk.num_rows:
            yield f"{table.name}/{name}", chunk


def _existing(folder: Path, table: Table, held: list[DataFile], rows: pa.Table) -> list[pa.Table]:
    """What is held where `rows` go: all that could share a key with one of them."""
    first, last = (v.cast(pa.int64()).as_py() for v in pc.min_max(rows["time"]).values())
    window = data_files.TimeRange(first, last + 1) if "time" in table.key else data_files.EVER
    near = [file for file in held if window.touches(file.first, file.last)]
    if not near:
        return []
    named = [name for name in PRUNED if name in table.key]
    where = {name: frozenset(pc.unique(rows[name]).to_pylist()) for name in named}
    return data_files.scan(folder, table, near, window, where)


def _unseen(table: Table, rows: pa.Table, existing: list[pa.Table]) -> tuple[pa.Table, int]:
    """Rows whose key is not among the existing, and how many others have other values there."""
    if not any(found.num_rows for found in existing):
        return rows, 0
    old, new = data_files.frame_of(table, existing), data_files.frame_of(table, [rows])
    if old.equals(new):
        return rows.slice(0, 0), 0
    both = pd.DataFrame({name: _stacked(old[name], new[name]) for name in table.columns})
    seen = both.duplicated(list(table.key)).to_numpy()[len(old) :]
    if not seen.any():
        return rows, 0
    equal = both.duplicated().to_numpy()[len(old) :]
    return data_files.to_arrow(table, new[~seen]), int((seen & ~equal).sum())


def _stacked(upper: pd.Series, lower: pd.Series) -> pd.Series:
    if isinstance(upper.dtype, pd.CategoricalDtype):
        return pd.Series(pd.api.types.union_categoricals([upper.array, lower.array]))
    return pd.concat([upper, lower], ignore_index=True)


def _merged(folder: Path, table: Table, held: list[DataFile], touched: set[str]) -> list[DataFile]:
    """The files with those of touched partitions merged: small ones at once, larger ones eight at a time.

    A file with columns that the table does not have (a newer version wrote it) stays as it is: merged, it
    would lose them.
    """
    for partition in sorted(touched):
        here = [
            file for file in held if file.partition == partition and data_files.known(folder, table, file)
        ]
        merging = set(here)
        others = [file for file in held if file not in merging]
        level = 0
        while any(file.level >= level for file in here):
            group = [file for file in here if file.level == level]
            small = sum(file.rows for file in group) <= data_files.GROUP_ROWS
            if len(group) >= (2 if small else _MERGE_COUNT):
                rows = _sorted(folder, table, group)
                whole = data_files.write(folder, partition, table, rows, level=level + (not small))
                here = [*(file for file in here if file not in group), whole]
            level += 1
        held = [*others, *here]
    return held


def _sorted(folder: Path, table: Table, group: list[DataFile]) -> Iterator[pa.Table]:
    """Rows of several files in order, a range of symbols at a time so that memory stays bounded."""
    for chosen in data_files.ranges(folder, table, group, _BATCH_ROWS):
        rows = data_files.frame_of(table, data_files.scan(folder, table, group, data_files.EVER, chosen))
        yield data_files.to_arrow(table, rows)


def _values(entry: TableEntry, table: Table, frame: pd.DataFrame) -> dict[str, list[str]]:
    """Values of each text column, those of the frame added."""
    text = [name for name, column in table.columns.items() if column.kind is Kind.TEXT]
    return {name: sorted({*entry.values.get(name, []), *frame[name].cat.categories}) for name in text}


def _sweep(folder: Path) -> None:
    """Remove what a writer left that was cut off: files that the manifest does not name.

    Where a folder is a link, what lies there may be another archive's: it stays.
    """
    manifest = manifests.load(folder) or Manifest()
    named = {folder / file.path for entry in manifest.tables.values() for file in entry.files}
    for path in folder.glob("*/*/*"):
        linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
        if path not in named and not linked and data_files.FILE_NAME.fullmatch(path.name):
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a file that no longer counts; where that cannot be done it does no harm."""
    with suppress(OSError):
        path.unlink()
