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

from derivdata.archive import manifest as manifests
from derivdata.archive import parts
from derivdata.archive.footers import PRUNED
from derivdata.archive.lock import writing
from derivdata.archive.manifest import Holding, Manifest, Part
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
    holding = manifest.tables.get(table.name, Holding())
    added, counts = _added(folder, table, holding.parts, frame)
    if not added:
        return counts
    before = [*holding.parts, *added]
    after = _merged(folder, table, before, {part.partition for part in added})
    grown = Manifest(
        identity=manifests.chained(manifest.identity, [table.name, *(part.digest for part in added)]),
        synthetic=manifest.synthetic or synthetic,
        tables={**manifest.tables, table.name: Holding(after, _values(holding, table, frame))},
    )
    _settle(folder, set(after) - set(holding.parts))
    manifests.save(folder, grown)
    for part in set(before) - set(after):
        _remove(folder / part.file)
    return counts


def _settle(folder: Path, new: set[Part]) -> None:
    """Wait until new files and the folders that name them are on disk."""
    for part in new:
        manifests.sync(folder / part.file)
    for partition in {part.partition for part in new}:
        manifests.sync(folder / partition)
    manifests.sync(folder)


def _added(folder: Path, table: Table, held: list[Part], frame: pd.DataFrame) -> tuple[list[Part], Appended]:
    waiting: list[Future[Part]] = []
    differing = 0
    with ThreadPoolExecutor(_WRITERS) as pool:
        for month, rows in _by_calendar(parts.to_arrow(table, frame), "M"):
            fresh, unequal = _unseen(table, rows, _existing(folder, table, held, rows))
            differing += unequal
            for partition, chunk in _partitions(table, month, fresh, held):
                if len(waiting) >= _WRITERS:  # what waits is a month in thousands of slices
                    waiting[-_WRITERS].result()
                waiting.append(pool.submit(parts.write, folder, partition, table, [chunk]))
        added = [part.result() for part in waiting]
    written = sum(part.rows for part in added)
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
    table: Table, month: str, fresh: pa.Table, held: list[Part]
) -> Iterator[tuple[str, pa.Table]]:
    """Rows of a month by folder: the month's while it is thin, the days' once it is not."""
    prefix = f"{table.name}/{month}"
    size = fresh.num_rows + sum(part.rows for part in held if part.partition.startswith(prefix))
    chunks = [(month, fresh)] if size <= _MONTH_ROWS else _by_calendar(fresh, "D")
    for name, chunk in chunks:
        if chunk.num_rows:
            yield f"{table.name}/{name}", chunk


def _existing(folder: Path, table: Table, held: list[Part], rows: pa.Table) -> list[pa.Table]:
    """What is held where `rows` go: all that could share a key with one of them."""
    first, last = (v.cast(pa.int64()).as_py() for v in pc.min_max(rows["time"]).values())
    span = parts.Span(first, last + 1) if "time" in table.key else parts.EVER
    near = [part for part in held if span.touches(part.first, part.last)]
    if not near:
        return []
    named = [name for name in PRUNED if name in table.key]
    where = {name: frozenset(pc.unique(rows[name]).to_pylist()) for name in named}
    return parts.scan(folder, table, near, span, where)


def _unseen(table: Table, rows: pa.Table, existing: list[pa.Table]) -> tuple[pa.Table, int]:
    """Rows whose key is not among the existing, and how many others have other values there."""
    if not any(found.num_rows for found in existing):
        return rows, 0
    old, new = parts.frame_of(table, existing), parts.frame_of(table, [rows])
    if old.equals(new):
        return rows.slice(0, 0), 0
    both = pd.DataFrame({name: _stacked(old[name], new[name]) for name in table.columns})
    seen = both.duplicated(list(table.key)).to_numpy()[len(old) :]
    if not seen.any():
        return rows, 0
    equal = both.duplicated().to_numpy()[len(old) :]
    return parts.to_arrow(table, new[~seen]), int((seen & ~equal).sum())


def _stacked(upper: pd.Series, lower: pd.Series) -> pd.Series:
    if isinstance(upper.dtype, pd.CategoricalDtype):
        return pd.Series(pd.api.types.union_categoricals([upper.array, lower.array]))
    return pd.concat([upper, lower], ignore_index=True)


def _merged(folder: Path, table: Table, held: list[Part], touched: set[str]) -> list[Part]:
    """The files with those of touched partitions merged: small ones at once, larger ones eight at a time.

    A file with columns that the table does not have (a newer version wrote it) stays as it is: merged, it
    would lose them.
    """
    for partition in sorted(touched):
        here = [part for part in held if part.partition == partition and parts.known(folder, table, part)]
        merging = set(here)
        others = [part for part in held if part not in merging]
        level = 0
        while any(part.level >= level for part in here):
            group = [part for part in here if part.level == level]
            small = sum(part.rows for part in group) <= parts.GROUP_ROWS
            if len(group) >= (2 if small else _MERGE_COUNT):
                rows = _sorted(folder, table, group)
                whole = parts.write(folder, partition, table, rows, level=level + (not small))
                here = [*(part for part in here if part not in group), whole]
            level += 1
        held = [*others, *here]
    return held


def _sorted(folder: Path, table: Table, group: list[Part]) -> Iterator[pa.Table]:
    """Rows of several files in order, a range of symbols at a time so that memory stays bounded."""
    for chosen in parts.ranges(folder, table, group, _BATCH_ROWS):
        rows = parts.frame_of(table, parts.scan(folder, table, group, parts.EVER, chosen))
        yield parts.to_arrow(table, rows)


def _values(holding: Holding, table: Table, frame: pd.DataFrame) -> dict[str, list[str]]:
    """Values of each text column, those of the frame added."""
    text = [name for name, column in table.columns.items() if column.kind is Kind.TEXT]
    return {name: sorted({*holding.values.get(name, []), *frame[name].cat.categories}) for name in text}


def _sweep(folder: Path) -> None:
    """Remove what a writer left that was cut off: files that the manifest does not name.

    Where a folder is a link, what lies there may be another archive's: it stays.
    """
    manifest = manifests.load(folder) or Manifest()
    named = {folder / part.file for holding in manifest.tables.values() for part in holding.parts}
    for path in folder.glob("*/*/*"):
        linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
        if path not in named and not linked and parts.FILE_NAME.fullmatch(path.name):
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a file that no longer counts; where that cannot be done it does no harm."""
    with suppress(OSError):
        path.unlink()
