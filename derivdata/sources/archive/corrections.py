"""Replace, delete or drop rows; every correction is numbered, logged and can be undone, a drop cannot.

A correction rewrites the affected files. Removed and added rows are stored in separate files, which the
correction's manifest entry names; `undo` swaps the two and is a correction itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive import scanning, schemas
from derivdata.sources.archive.append import merge_files, write_new_rows
from derivdata.sources.archive.audit import refuse_other_contracts
from derivdata.sources.archive.ledger import content_of, forget_requests
from derivdata.sources.archive.manifest import Change, Correction, DataFile, Manifest, TableEntry, commit
from derivdata.sources.archive.object_store import Storage
from derivdata.sources.archive.scanning import EVER, EVER_ALL, Selection, TimeRange, stamp
from derivdata.sources.archive.schemas import frame_of, to_arrow
from derivdata.support import times
from derivdata.support.text import escape_controls
from derivdata.tables.schema import Kind, Table

COMPLETED = "complete"
"""Action of a correction that adds values that were not known before; reads give no notice of it."""
_BATCH_ROWS = 1_000_000

Mask: TypeAlias = Callable[[pd.DataFrame], np.ndarray[Any, Any]]


class Dropped(NamedTuple):
    """Rows and files that were removed."""

    rows: int
    files: int


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
    contracts: Mapping[str, str] | None,
    *,
    reason: str,
    timeout: float,
) -> Corrected:
    """Remove some rows, and add the rows of a conformed frame in their place."""
    if frame is not None:
        outside = ~chosen.mask(frame)
        if outside.any():
            first = frame.loc[outside, list(table.key)].iloc[0].to_dict()
            raise ValueError(f"frame: {outside.sum()} rows are outside the replaced selection, first {first}")

    where = {name: sorted(chosen.where[name]) for name in table.key if name in chosen.where}
    action = "delete" if frame is None else "replace"
    draft = Correction(0, table.name, action, where, *chosen.window, reason, contracts=dict(contracts or {}))
    return commit(
        storage, timeout, lambda manifest: _apply(storage, table, manifest, draft, chosen.mask, frame)
    )


def replace_keyed_rows(
    storage: Storage,
    table: Table,
    frame: pd.DataFrame,
    before: pd.DataFrame | None = None,
    *,
    action: str,
    reason: str,
    timeout: float,
) -> Corrected:
    """Replace the stored rows with the keys of a conformed frame, and those of `before`, by its rows."""
    names = list(table.key)
    frames = [frame[names]] if before is None else [frame[names], before[names]]
    every = pd.concat([rows.astype(object) for rows in frames], ignore_index=True)
    keys = pd.MultiIndex.from_frame(every)

    def has_key(rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        return np.asarray(pd.MultiIndex.from_frame(rows[list(table.key)].astype(object)).isin(keys))

    where = {name: sorted(set(frame[name].astype(object))) for name in table.key if name != "time"}
    first, last = (times.us(instant) for instant in (every["time"].min(), every["time"].max()))
    draft = Correction(0, table.name, action, where, first, last + 1, reason)
    return commit(storage, timeout, lambda manifest: _apply(storage, table, manifest, draft, has_key, frame))


def undo(storage: Storage, tables: Callable[[str], Table], number: int, *, timeout: float) -> Corrected:
    """Undo a correction: remove the rows that it added and restore the rows that it removed."""

    def change(manifest: Manifest) -> Change[Corrected]:
        target = find_undoable(manifest, number)
        table = tables(target.table)
        added = _rows_of(storage, table, target.added)
        keys = pd.MultiIndex.from_frame(added[list(table.key)].astype(object))

        def was_added(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
            rows = pd.MultiIndex.from_frame(frame[list(table.key)].astype(object))
            return np.asarray(rows.isin(keys))

        reason = f"undo correction {number}"
        draft = msgspec.structs.replace(target, action="undo", reason=reason, undoes=number)
        restored = _rows_of(storage, table, target.removed)
        return _apply(storage, table, manifest, draft, was_added, restored)

    return commit(storage, timeout, change)


def _apply(
    storage: Storage,
    table: Table,
    manifest: Manifest,
    draft: Correction,
    mask: Mask,
    frame: pd.DataFrame | None,
) -> Change[Corrected]:
    """Apply a correction whose number, files and contracts are not known yet."""
    entry = manifest.tables.get(table.name, TableEntry())
    files, removed = _remove_rows(storage, table, entry.files, selection_of(draft), mask)
    emptied: set[str] = set()
    if entry.contracts:  # series of removed rows that are empty now
        emptied = scanning.series(storage, table, removed) & set(entry.contracts)
        emptied -= scanning.series(storage, table, files)
    left = {series: word for series, word in entry.contracts.items() if series not in emptied}
    refuse_other_contracts(table, left, {series: word for series, word in draft.contracts.items() if word})
    # The rest of a file may be merged into another one below, and no manifest names it then.
    written = {file.path for file in files if file not in entry.files}
    added: list[DataFile] = []
    if frame is not None and len(frame):
        # The log refers to these files after they are merged into others below. Rows whose key existed
        # already are excluded: an undo would otherwise remove the stored rows of those keys.
        added, _ = write_new_rows(storage, table, files, frame)
        files = merge_files(storage, table, files, added, written)
    if not removed and not added and draft.undoes is None:
        raise ArchiveError(f"{storage}: nothing was corrected: {table.name} does not have matching rows")
    # An empty series forgets its contract, so that rows of another one may be stored; the log has it.
    refilled = emptied & scanning.series(storage, table, added) if emptied else emptied
    stated = left | {series: entry.contracts[series] for series in refilled} | draft.contracts
    # An undo may restore no word
    restored = {series: word for series, word in stated.items() if word}
    number = len(manifest.corrections) + 1
    before = {
        series: entry.contracts.get(series, "")
        for series in {**entry.contracts, **restored}
        if restored.get(series) != entry.contracts.get(series)
    }
    correction = msgspec.structs.replace(draft, number=number, removed=removed, added=added, contracts=before)
    tables = dict(manifest.tables)
    tables[table.name] = TableEntry(files, _words(storage, table, entry, files, removed), restored)
    if not files:
        del tables[table.name]
    digests = [table.name, f"correction {number}", *(f.digest for f in [*removed, *added])]
    identity = manifests.chained(manifest.identity, digests)
    after = msgspec.structs.replace(
        manifest,
        identity=identity,
        past=identity,
        tables=tables,
        corrections=[*manifest.corrections, correction],
    )
    counts = Corrected(number, sum(f.rows for f in removed), sum(f.rows for f in added))
    return Change(after, counts, written)


def _words(
    storage: Storage, table: Table, entry: TableEntry, files: list[DataFile], removed: list[DataFile]
) -> dict[str, list[str]]:
    """Return the values of each text column; all files are read only if a value may be gone."""
    names = [name for name, column in table.columns.items() if column.kind is Kind.TEXT]
    touched = {file.partition for file in removed}
    near = [file for file in files if file.partition in touched or file not in entry.files]
    went, there = (scanning.distinct_values(storage, table, some, names) for some in (removed, near))
    if any(set(went[name]) - set(there[name]) for name in names):
        return scanning.distinct_values(storage, table, files, names)
    return {name: sorted({*entry.values.get(name, []), *there[name]}) for name in names}


def _remove_rows(
    storage: Storage, table: Table, files: list[DataFile], chosen: Selection, mask: Mask
) -> tuple[list[DataFile], list[DataFile]]:
    """Return the files without some rows, and new files with the removed rows."""
    after = []
    removed = []
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
            schemas.write(
                storage,
                file.partition,
                table,
                [to_arrow(table, table.conform(frame)) for frame in selected if len(frame)],
            )
        )
        if count < file.rows:
            remaining = (frame[~mask(frame)] for frame in _frames(storage, table, file, EVER_ALL))
            rows = (to_arrow(table, frame) for frame in remaining if len(frame))
            after.append(schemas.write(storage, file.partition, table, rows, level=file.level))
    return after, removed


def _frames(storage: Storage, table: Table, file: DataFile, chosen: Selection) -> Iterator[pd.DataFrame]:
    """Yield the selected rows of a file, some symbols at a time."""
    near = scanning.plan([file], chosen)
    for rows in scanning.slices(storage, table, near, chosen, _BATCH_ROWS) if near else ():
        yield frame_of(table, scanning.read(storage, table, near, rows))


def _rows_of(storage: Storage, table: Table, files: list[DataFile]) -> pd.DataFrame:
    return frame_of(table, scanning.read(storage, table, files))


def undone_numbers(corrections: Sequence[Correction]) -> set[int]:
    """Return the numbers of corrections that were undone by a later one still in force."""
    numbers: set[int] = set()
    for correction in reversed(corrections):
        if correction.undoes is not None and correction.number not in numbers:
            numbers.add(correction.undoes)
    return numbers


def corrections_frame(manifest: Manifest) -> pd.DataFrame:
    """Return the log as a frame: one row per correction, in order."""
    undone = undone_numbers(manifest.corrections)
    rows = [
        (
            c.number,
            c.table,
            c.action,
            escape_controls(", ".join(_named(c))),
            None if c.first == EVER.start else stamp(c.first),
            None if c.end == EVER.end else stamp(c.end),
            sum(file.rows for file in c.removed),
            sum(file.rows for file in c.added),
            escape_controls(c.reason),
            c.number in undone,
        )
        for c in manifest.corrections
    ]
    names = ["number", "table", "action", "where", "start", "end", "removed", "added", "reason", "undone"]
    frame = pd.DataFrame(rows, columns=names)
    for column in ("start", "end"):
        frame[column] = pd.to_datetime(frame[column], utc=True).dt.as_unit("us")
    return frame.set_index("number")


def correction_notices(manifest: Manifest, table: str, read: Selection) -> list[str]:
    """Return one notice for each correction in force that overlaps the rows that were read."""
    undone = undone_numbers(manifest.corrections)
    notices = []
    for c in manifest.corrections:
        if c.table != table or c.number in undone or c.undoes is not None or c.action == COMPLETED:
            continue
        if read.overlaps(selection_of(c)):
            went = sum(f.rows for f in c.removed)
            came = sum(f.rows for f in c.added)
            rows = _named(c)
            rows += [] if c.first == EVER.start else [f"from {times.iso(stamp(c.first))}"]
            rows += [] if c.end == EVER.end else [f"before {times.iso(stamp(c.end))}"]
            done = f"{went} rows replaced by {came}" if c.action == "replace" else f"{went} rows deleted"
            why = f": {c.reason}" if c.reason else ""
            notices.append(escape_controls(f"correction {c.number}: {done} ({', '.join(rows)}){why}"))
    return notices


def _named(correction: Correction) -> list[str]:
    return [f"{name}={'|'.join(values)}" for name, values in correction.where.items()]


def selection_of(correction: Correction) -> Selection:
    """Return the rows that a correction was about."""
    where = {name: frozenset(values) for name, values in correction.where.items()}
    return Selection(where, TimeRange(correction.first, correction.end))


def find_undoable(manifest: Manifest, number: int) -> Correction:
    """Return a correction that can be undone."""
    undone = undone_numbers(manifest.corrections)
    target = next((c for c in manifest.corrections if c.number == number), None)
    if target is None:
        raise ValueError(f"number={number}: correction not found; see archive.corrections()")
    if number in undone:
        raise ValueError(f"number={number}: this correction was already undone")
    own = selection_of(target)
    for later in manifest.corrections:
        counts = later.number > number and later.table == target.table and later.number not in undone
        takes_back = later.undoes is not None and later.undoes > number
        if counts and not takes_back and own.overlaps(selection_of(later)):
            raise ValueError(
                f"number={number}: the later correction {later.number} changed the same rows: undo "
                f"{later.number} first"
            )
    return target


def drop_old_partitions(
    storage: Storage, tables: Callable[[str], Table], before: pd.Timestamp, *, timeout: float
) -> Dropped:
    """Remove the files of months and days that end at or before a time, and their ledger, in one step."""

    def change(manifest: Manifest) -> Change[Dropped]:
        remaining = dict(manifest.tables)
        dropped = []
        cuts = {}
        for name, entry in manifest.tables.items():
            if "time" not in tables(name).key:
                continue
            old = [file for file in entry.files if _end(file) <= before]
            # The ledger of a remaining month stays, unless days within it were removed.
            cuts[name] = max([_month(before), *map(_end, old)])
            if old:
                dropped += [(name, file) for file in old]
                left = [file for file in entry.files if file not in old]
                # Names of symbols and venues stay, because finding the remaining ones would read all rows.
                remaining[name] = msgspec.structs.replace(entry, files=left)
        ledger = forget_requests(storage, manifest.ledger, cuts, _month(before))
        if not dropped and ledger == manifest.ledger:
            return Change(manifest, Dropped(0, 0), set())
        digests = ["dropped", content_of(ledger), *(f.digest for _, f in dropped)]
        identity = manifests.chained(manifest.identity, digests)
        tables_left = {name: entry for name, entry in remaining.items() if entry.files}
        after = msgspec.structs.replace(
            manifest, tables=tables_left, ledger=ledger, identity=identity, past=identity
        )
        return Change(after, Dropped(sum(f.rows for _, f in dropped), len(dropped)), set())

    return commit(storage, timeout, change)


def _end(file: DataFile) -> pd.Timestamp:
    name = file.partition.rpartition("/")[2]
    start = pd.Timestamp(name, tz="UTC")
    return start + (pd.offsets.MonthBegin() if name.count("-") == 1 else pd.Timedelta(1, "D"))


def _month(instant: pd.Timestamp) -> pd.Timestamp:
    return instant.normalize().replace(day=1)
