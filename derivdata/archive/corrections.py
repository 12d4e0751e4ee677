"""Rows replaced or deleted by hand: every correction is numbered, logged and can be undone.

A correction writes the files that hold such rows again without them. What was taken out and what was put
in is kept beside the tables, in files that the correction's entry in the manifest names; `undo` swaps the
two and is a correction itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata import times
from derivdata.archive import data_files
from derivdata.archive import manifest as manifests
from derivdata.archive.append import merge_files, write_new_rows
from derivdata.archive.commits import Change, commit
from derivdata.archive.data_files import EVER, TimeRange, Where
from derivdata.archive.manifest import Correction, DataFile, Manifest, TableEntry
from derivdata.errors import ArchiveError
from derivdata.schema import Kind, Table

__all__ = [
    "Corrected",
    "Selection",
    "correction_notices",
    "corrections_frame",
    "replace_rows",
    "selection",
    "undo",
    "undone",
]

Chosen = Callable[[pd.DataFrame], "np.ndarray[Any, Any]"]


class Corrected(NamedTuple):
    """Number of a correction, and how many rows it took out and put in."""

    number: int
    removed: int
    added: int


class Selection(NamedTuple):
    """Rows of a table: those of a window that have one of the given values in some columns."""

    where: Where
    window: TimeRange

    def mask(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Say of each row whether it is one of them."""
        stamps = np.asarray(frame["time"].array.asi8)
        chosen = (stamps >= self.window.start) & (stamps < self.window.end)
        for name, values in self.where.items():
            chosen &= frame[name].isin(list(values)).to_numpy()
        return np.asarray(chosen)

    def overlaps(self, other: Selection) -> bool:
        """Whether a row could be in both."""
        shared = set(self.where) & set(other.where)
        return self.window.touches(other.window.start, other.window.end - 1) and all(
            set(self.where[name]) & set(other.where[name]) for name in shared
        )


def selection(table: Table, where: Mapping[str, str | Sequence[str]] | None, window: TimeRange) -> Selection:
    """Return the rows that a caller means.

    Raises
    ------
    ValueError
        A column cannot be chosen by, or no condition was given.
    """
    columns = [name for name in table.key if table.columns[name].kind in (Kind.TEXT, Kind.LABEL)]
    chosen = {}
    for name, values in (where or {}).items():
        if name not in columns:
            raise ValueError(f"where: {name!r} is no column to choose by; {table.name} has {columns}")
        chosen[name] = frozenset([values] if isinstance(values, str) else values)
    if not chosen and window == EVER:
        raise ValueError("where: say which rows, by columns or by start= and end=")
    return Selection(chosen, window)


def replace_rows(
    folder: Path, table: Table, frame: pd.DataFrame | None, chosen: Selection, *, reason: str, timeout: float
) -> Corrected:
    """Take some rows out, and put those of a conformed frame in their place.

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
        return _corrected(folder, table, manifest, chosen, chosen.mask, frame, action=action, reason=reason)

    return commit(folder, timeout, change)


def undo(folder: Path, tables: Callable[[str], Table], number: int, *, timeout: float) -> Corrected:
    """Take back a correction: what it put in goes, and what it took out returns.

    Rows that were appended since stay, also where they have the key of one that returns.

    Raises
    ------
    ValueError
        There is no such correction, it was undone already, or a later one touches the same rows.
    """

    def change(manifest: Manifest) -> Change[Corrected]:
        target = _undoable(manifest, number)
        table = tables(target.table)
        added = _rows_of(folder, table, target.added)
        keys = pd.MultiIndex.from_frame(added[list(table.key)].astype(object))

        def was_added(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
            rows = pd.MultiIndex.from_frame(frame[list(table.key)].astype(object))
            return np.asarray(rows.isin(keys))

        return _corrected(
            folder,
            table,
            manifest,
            _selection_of(target),
            was_added,
            _rows_of(folder, table, target.removed),
            action="undo",
            reason=f"undo correction {number}",
            undoes=number,
        )

    return commit(folder, timeout, change)


def undone(corrections: Sequence[Correction]) -> set[int]:
    """Return the numbers of corrections that a later one took back, which was not taken back itself."""
    numbers: set[int] = set()
    for correction in reversed(corrections):
        if correction.undoes is not None and correction.number not in numbers:
            numbers.add(correction.undoes)
    return numbers


def corrections_frame(manifest: Manifest) -> pd.DataFrame:
    """Return the log: one row per correction, in order."""
    back = undone(manifest.corrections)
    rows = [
        (
            c.number,
            c.table,
            c.action,
            ", ".join(f"{name}={'|'.join(values)}" for name, values in c.where.items()),
            None if c.first == EVER.start else pd.Timestamp(c.first, unit="us", tz="UTC"),
            None if c.end == EVER.end else pd.Timestamp(c.end, unit="us", tz="UTC"),
            sum(file.rows for file in c.removed),
            sum(file.rows for file in c.added),
            c.reason,
            c.number in back,
        )
        for c in manifest.corrections
    ]
    names = ["number", "table", "action", "where", "start", "end", "removed", "added", "reason", "undone"]
    frame = pd.DataFrame(rows, columns=names)
    for column in ("start", "end"):
        frame[column] = pd.to_datetime(frame[column], utc=True).dt.as_unit("us")
    return frame.set_index("number")


def correction_notices(manifest: Manifest, table: str, read: Selection) -> list[str]:
    """Return what to say of rows that were read: each correction that touched them and stands."""
    back = undone(manifest.corrections)
    told = []
    for c in manifest.corrections:
        if c.table != table or c.number in back or c.undoes is not None:
            continue
        if read.overlaps(_selection_of(c)):
            went, came = sum(f.rows for f in c.removed), sum(f.rows for f in c.added)
            rows = [f"{name}={'|'.join(values)}" for name, values in c.where.items()]
            rows += [] if c.first == EVER.start else [f"from {_iso(c.first)}"]
            rows += [] if c.end == EVER.end else [f"before {_iso(c.end)}"]
            done = f"{went} rows replaced by {came}" if c.action == "replace" else f"{went} rows deleted"
            why = f": {c.reason}" if c.reason else ""
            told.append(f"correction {c.number}: {done} ({', '.join(rows)}){why}")
    return told


def _iso(micros: int) -> str:
    return times.iso(pd.Timestamp(micros, unit="us", tz="UTC"))


def _corrected(
    folder: Path,
    table: Table,
    manifest: Manifest,
    chosen: Selection,
    mask: Chosen,
    frame: pd.DataFrame | None,
    *,
    action: str,
    reason: str,
    undoes: int | None = None,
) -> Change[Corrected]:
    entry = manifest.tables.get(table.name, TableEntry())
    files, removed = _taken_out(folder, table, entry.files, chosen, mask)
    written: set[str] = set()
    added: list[DataFile] = []
    if frame is not None and len(frame):
        # The log names these files also when they were merged into others. It has no rows that were skipped,
        # as their key was there: an undo would remove what was appended in their place.
        added, _ = write_new_rows(folder, table, files, frame)
        files = merge_files(folder, table, files, added, written)
    if not removed and not added and undoes is None:
        raise ArchiveError(f"{folder}: nothing was corrected: {table.name} has no such rows")
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
    tables[table.name] = TableEntry(files, data_files.distinct(folder, table, files, text))
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


def _taken_out(
    folder: Path, table: Table, files: list[DataFile], chosen: Selection, mask: Chosen
) -> tuple[list[DataFile], list[DataFile]]:
    """Return the files without some rows, and new ones that hold these rows."""
    after, removed = [], []
    for file in files:
        near = list(data_files.row_group_batches(folder, table, [file], chosen.window, chosen.where))
        gone = [frame[mask(frame)] for frame in _frames(folder, table, near)]
        count = sum(map(len, gone))
        if not count:
            after.append(file)
            continue
        if not data_files.known(folder, table, file):
            raise ArchiveError(
                f"{folder / file.path}: a newer version of derivdata wrote columns that this one does not "
                "know, and a correction would lose them: correct it with that version"
            )
        removed.append(data_files.write(folder, file.partition, table, _arrow(table, gone)))
        if count < file.rows:
            every = data_files.row_group_batches(folder, table, [file], EVER, {})
            kept = (frame[~mask(frame)] for frame in _frames(folder, table, every))
            rows = (data_files.to_arrow(table, frame) for frame in kept if len(frame))
            after.append(data_files.write(folder, file.partition, table, rows, level=file.level))
    return after, removed


def _frames(folder: Path, table: Table, batches: Any) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield data_files.frame_of(table, [data_files.load(folder, table, batch, EVER, {})])


def _arrow(table: Table, frames: list[pd.DataFrame]) -> list[pa.Table]:
    return [data_files.to_arrow(table, table.conform(frame)) for frame in frames if len(frame)]


def _rows_of(folder: Path, table: Table, files: list[DataFile]) -> pd.DataFrame:
    return data_files.frame_of(table, data_files.scan(folder, table, files, EVER, {}))


def _selection_of(correction: Correction) -> Selection:
    where = {name: frozenset(values) for name, values in correction.where.items()}
    return Selection(where, TimeRange(correction.first, correction.end))


def _undoable(manifest: Manifest, number: int) -> Correction:
    back = undone(manifest.corrections)
    target = next((c for c in manifest.corrections if c.number == number), None)
    if target is None:
        raise ValueError(f"number={number}: there is no such correction; see archive.corrections()")
    if number in back:
        raise ValueError(f"number={number}: this correction was undone already")
    own = _selection_of(target)
    for later in manifest.corrections:
        counts = later.number > number and later.table == target.table and later.number not in back
        takes_back = later.undoes is not None and later.undoes > number
        if counts and not takes_back and own.overlaps(_selection_of(later)):
            raise ValueError(
                f"number={number}: correction {later.number} came later and touches the same rows: "
                f"undo {later.number} first"
            )
    return target
