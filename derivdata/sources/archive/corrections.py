"""Replace or delete rows; every correction is numbered, logged and can be undone.

A correction rewrites the files that contain such rows without them. The rows that were removed and those
that were added are stored in files of their own, which the correction's entry in the manifest names; `undo`
swaps the two and is a correction itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive import parquet_writer, scanning
from derivdata.sources.archive.append import write_new_rows
from derivdata.sources.archive.commits import Change, commit
from derivdata.sources.archive.correction_log import find_undoable, selection_of
from derivdata.sources.archive.manifest import Correction, DataFile, Manifest, TableEntry
from derivdata.sources.archive.merging import merge_files
from derivdata.sources.archive.schemas import frame_of, to_arrow
from derivdata.sources.archive.selections import EVER_ALL, Selection
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Kind, Table

__all__ = ["Corrected", "replace_rows", "undo"]


_BATCH_ROWS = 1_000_000

Mask: TypeAlias = Callable[[pd.DataFrame], np.ndarray[Any, Any]]


class Corrected(NamedTuple):
    """Number of a correction, and how many rows it removed and added."""

    number: int
    removed: int
    added: int


def replace_rows(
    storage: Storage,
    table: Table,
    frame: pd.DataFrame | None,
    chosen: Selection,
    *,
    reason: str,
    timeout: float,
) -> Corrected:
    """Remove some rows, and add those of a conformed frame in their place.

    Raises
    ------
    ValueError
        A row of the frame is not among those that are replaced.
    ArchiveError
        There is nothing to correct, or a file of a newer version would lose columns.
    """
    if frame is not None:
        outside = ~chosen.mask(frame)
        if outside.any():
            first = frame.loc[outside, list(table.key)].iloc[0].to_dict()
            raise ValueError(
                f"frame: {outside.sum()} rows are not among those that are replaced; the first is {first}"
            )

    def change(manifest: Manifest) -> Change[Corrected]:
        action = "delete" if frame is None else "replace"
        return _apply(storage, table, manifest, chosen, chosen.mask, frame, action=action, reason=reason)

    return commit(storage, timeout, change)


def undo(storage: Storage, tables: Callable[[str], Table], number: int, *, timeout: float) -> Corrected:
    """Undo a correction: remove the rows that it added and restore those that it removed.

    Rows that were appended since stay, also where they have the key of a row to restore.

    Raises
    ------
    ValueError
        There is no such correction, it was undone already, or a later one touches the same rows.
    """

    def change(manifest: Manifest) -> Change[Corrected]:
        target = find_undoable(manifest, number)
        table = tables(target.table)
        added = _rows_of(storage, table, target.added)
        keys = pd.MultiIndex.from_frame(added[list(table.key)].astype(object))

        def was_added(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
            rows = pd.MultiIndex.from_frame(frame[list(table.key)].astype(object))
            return np.asarray(rows.isin(keys))

        return _apply(
            storage,
            table,
            manifest,
            selection_of(target),
            was_added,
            _rows_of(storage, table, target.removed),
            action="undo",
            reason=f"undo correction {number}",
            undoes=number,
        )

    return commit(storage, timeout, change)


def _apply(
    storage: Storage,
    table: Table,
    manifest: Manifest,
    chosen: Selection,
    mask: Mask,
    frame: pd.DataFrame | None,
    *,
    action: str,
    reason: str,
    undoes: int | None = None,
) -> Change[Corrected]:
    entry = manifest.tables.get(table.name, TableEntry())
    files, removed = _remove_rows(storage, table, entry.files, chosen, mask)
    # What is left of a file may be merged into another one below, and is named by no manifest then.
    written = {file.path for file in files if file not in entry.files}
    added: list[DataFile] = []
    if frame is not None and len(frame):
        # The log keeps naming these files when they are merged into others below. Rows whose key was there
        # already are not in them: an undo would otherwise remove the stored rows of those keys.
        added, _ = write_new_rows(storage, table, files, frame)
        files = merge_files(storage, table, files, added, written)
    if not removed and not added and undoes is None:
        raise ArchiveError(f"{storage}: nothing was corrected: {table.name} has no such rows")
    number = len(manifest.corrections) + 1
    correction = Correction(
        number=number,
        table=table.name,
        action=action,
        where={name: sorted(chosen.where[name]) for name in table.key if name in chosen.where},
        first=chosen.window.start,
        end=chosen.window.end,
        reason=reason,
        removed=removed,
        added=added,
        undoes=undoes,
    )
    text = [name for name, column in table.columns.items() if column.kind is Kind.TEXT]
    tables = dict(manifest.tables)
    values = scanning.distinct_values(storage, table, files, text)
    tables[table.name] = msgspec.structs.replace(entry, files=files, values=values)
    if not files:
        del tables[table.name]
    after = msgspec.structs.replace(
        manifest,
        identity=manifests.chained(
            manifest.identity, [table.name, f"correction {number}", *(f.digest for f in [*removed, *added])]
        ),
        tables=tables,
        corrections=[*manifest.corrections, correction],
        epoch=manifest.epoch + 1,
    )
    counts = Corrected(number, sum(f.rows for f in removed), sum(f.rows for f in added))
    return Change(after, counts, written)


def _remove_rows(
    storage: Storage, table: Table, files: list[DataFile], chosen: Selection, mask: Mask
) -> tuple[list[DataFile], list[DataFile]]:
    """Return the files without some rows, and new files that contain the removed rows."""
    after, removed = [], []
    for file in files:
        selected = [frame[mask(frame)] for frame in _frames(storage, table, file, chosen)]
        count = sum(map(len, selected))
        if not count:
            after.append(file)
            continue
        if not scanning.known_files(storage, table, [file]):
            raise ArchiveError(
                f"{storage.place(file.path)}: a newer version of derivdata wrote columns that this one does "
                "not know, and a correction would lose them: correct it with that version"
            )
        removed.append(
            parquet_writer.write(
                storage,
                file.partition,
                table,
                [to_arrow(table, table.conform(frame)) for frame in selected if len(frame)],
            )
        )
        if count < file.rows:
            remaining = (frame[~mask(frame)] for frame in _frames(storage, table, file, EVER_ALL))
            rows = (to_arrow(table, frame) for frame in remaining if len(frame))
            after.append(parquet_writer.write(storage, file.partition, table, rows, level=file.level))
    return after, removed


def _frames(storage: Storage, table: Table, file: DataFile, chosen: Selection) -> Iterator[pd.DataFrame]:
    """Iterate over the rows of a file that a selection chooses, some symbols at a time."""
    for part in scanning.slices(storage, table, scanning.plan([file], chosen), chosen, _BATCH_ROWS):
        yield frame_of(table, scanning.read(storage, table, [file], part))


def _rows_of(storage: Storage, table: Table, files: list[DataFile]) -> pd.DataFrame:
    return frame_of(table, scanning.read(storage, table, files))
