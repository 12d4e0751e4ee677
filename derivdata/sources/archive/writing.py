"""Append, replace, delete and drop rows; merge files of a day or a month.

A month is open until the table has a row of a later one. Rows of an open month are in files by day, once
there are many. A closed month is one file sorted by symbol, venue and time, in which a series is a few
adjacent pages. A large month is sorted week by week, so all series of a day are in a quarter of it.

A correction is numbered, logged and can be undone; a drop cannot. It rewrites the affected files. Removed and
added rows are stored in separate files, which the correction's manifest entry names; `undo` swaps the two and
is a correction itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.errors import ArchiveError
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive import queries, schemas
from derivdata.sources.archive.audit import refuse_other_contracts
from derivdata.sources.archive.ledger import Asked, content_of, enter_requests, forget_requests
from derivdata.sources.archive.manifest import (
    Change,
    Correction,
    DataFile,
    Manifest,
    Overtaken,
    TableEntry,
    commit,
    past_after,
)
from derivdata.sources.archive.queries import EVER, EVER_ALL, Selection, TimeRange, micros, stamp
from derivdata.sources.archive.schemas import frame_of, sorting, to_arrow
from derivdata.sources.archive.storage import Storage
from derivdata.support import times
from derivdata.support.text import escape_controls, warn_caller
from derivdata.tables.schema import Kind, Table

_MERGE_COUNT = 8
SMALL_ROWS = 32_768
SLICE_ROWS = 1_000_000
_CLOSED_LEVEL = 63
_WEEK = 7 * 86_400_000_000
_LATE_SHARE = 8
"""Late rows stay in separate files until they are this fraction of their month, one eighth."""


def merge_files(
    storage: Storage, table: Table, files: list[DataFile], added: list[DataFile], written: set[str]
) -> list[DataFile]:
    """Return old and new files, with those of the new files' partitions merged.

    Small files are merged immediately, others when there are eight of a level; the result is of the next
    level. A row is therefore rewritten about once per level: the logarithm to base 8 of the number of
    appends. A file of a newer version is not merged, because it would lose columns. All new paths are added
    to `written`.
    """
    written |= {file.path for file in added}
    files = [*files, *added]
    for partition in sorted({file.partition for file in added}):
        here = [file for file in files if file.partition == partition]
        if len(here) > 1:
            here = queries.known_files(storage, table, here)
        merging = set(here)
        others = [file for file in files if file not in merging]
        level = 0
        while any(level <= file.level < _CLOSED_LEVEL for file in here):
            group = [file for file in here if file.level == level]
            small = sum(file.rows for file in group) <= SMALL_ROWS
            if len(group) >= (2 if small else _MERGE_COUNT):
                rows = _sorted(storage, table, group)
                whole = schemas.write(storage, partition, table, rows, level=level + (not small))
                here = [*(file for file in here if file not in group), whole]
                written.add(whole.path)
            level += 1
        files = [*others, *here]
    return files


def closed_months(files: Sequence[DataFile], before: Sequence[DataFile]) -> list[str]:
    """Return the months that are over and should become one file, after an append to the files `before`."""
    newest = max((file.month for file in files), default="")
    just_over = max((file.month for file in before), default="") < newest
    months: dict[str, list[DataFile]] = {}
    for file in files:
        months.setdefault(file.month, []).append(file)
    return sorted(
        month
        for month, group in months.items()
        if month < newest and len(group) > 1 and (just_over or _worth_merging(group))
    )


def _worth_merging(group: Sequence[DataFile]) -> bool:
    largest = max(file.rows for file in group)
    by_day = any(file.by_day for file in group)  # a writer was killed before it merged them
    return by_day or _LATE_SHARE * (sum(file.rows for file in group) - largest) >= largest


def close_months(storage: Storage, table: Table, months: Sequence[str], *, timeout: float) -> None:
    """Merge the files of each of some months into one.

    Rows are written before the lock is acquired, because that may take minutes. If another writer changes a
    file of the month meanwhile, the month is merged at the next append.
    """
    for month in months:
        merging = storage.merging()
        try:
            with merging as place:
                if place is not None:
                    _close(place, table, month, timeout)
        finally:
            merging.release()


def _close(storage: Storage, table: Table, month: str, timeout: float) -> None:
    entry = (manifests.load(storage) or Manifest()).tables.get(table.name, TableEntry())
    group = [file for file in entry.files if file.month == month]
    group = queries.known_files(storage, table, group)
    if len(group) < 2:
        return
    cuts = week_cuts(month) if sum(file.rows for file in group) > SLICE_ROWS else []
    spans = pairwise([EVER.start, *cuts, EVER.end])
    weeks = [_sorted(storage, table, group, TimeRange(*span)) for span in spans]
    whole = schemas.write(storage, f"{table.name}/{month}", table, *weeks, level=_CLOSED_LEVEL)
    offered = False

    def change(manifest: Manifest) -> Change[bool]:
        nonlocal offered
        entry = manifest.tables.get(table.name, TableEntry())
        offered = set(group) <= set(entry.files)
        if not offered:
            return Change(manifest, False, set())
        files = [*(file for file in entry.files if file not in group), whole]
        tables = {**manifest.tables, table.name: msgspec.structs.replace(entry, files=files)}
        return Change(msgspec.structs.replace(manifest, tables=tables), True, set())

    merged = refused = False
    try:
        merged = commit(storage, timeout, change)
    except Overtaken:
        refused = True
        raise
    finally:
        # It may be unknown whether a failed commit was applied. Only the manifest shows it. If a put whose
        # response was lost may still be applied later, not even the manifest does, so the file stays.
        unknown = offered and storage.remote and not refused
        if not merged and not unknown and whole not in (manifests.load(storage) or Manifest()).files():
            storage.remove(whole.path)


def week_cuts(month: str) -> list[int]:
    """Return the times [µs] that divide a large month: its days 8, 15 and 22."""
    return [micros(month) + week * _WEEK for week in (1, 2, 3)]


def _sorted(
    storage: Storage, table: Table, files: list[DataFile], window: TimeRange = EVER
) -> Iterator[pa.Table]:
    """Yield the sorted rows of several files, some symbols at a time to bound memory."""
    order = sorting(table)
    columns = list(table.columns)
    rows = Selection({}, window)
    group = queries.plan(files, rows)
    for chosen in list(queries.slices(storage, table, group, rows, SLICE_ROWS)):
        tables = queries.read(storage, table, group, chosen, order=order)
        # Files of one version are read by one sorting query; files of several versions are first joined to
        # one table.
        plain = len(tables) == 1 and tables[0].column_names == columns
        yield tables[0] if plain else to_arrow(table, frame_of(table, tables))


MONTH_ROWS = 262_144
"""Maximum number of rows of an open month in one file; above it, each day is a file."""
BATCH_ROWS = 1_000_000
_WRITERS = 2
_LONG_RUN = 64

Array = np.ndarray[Any, Any]


class _Counts(NamedTuple):
    written: int
    present: int
    differing: int


class Appended(_Counts):
    """Numbers of rows written, stored already with the same values, and stored with other values."""

    conflicts: tuple[str, ...] = ()
    """Texts about payments that contradict a stored one; each names both rows."""
    notices: tuple[str, ...] = ()
    """Texts about stored payments that new rows have under another stated interval."""


def add_rows(
    storage: Storage,
    table: Table,
    frame: pd.DataFrame,
    requests: Sequence[Asked],
    contracts: Mapping[str, str] | None,
    *,
    synthetic: bool,
    timeout: float,
) -> Appended:
    """Add the rows of a conformed frame whose keys are not stored, and enter requests into the ledger."""
    over: list[str] = []

    def change(manifest: Manifest) -> Change[Appended]:
        entry = manifest.tables.get(table.name, TableEntry())
        stated = contracts or {}
        if stated:
            refuse_other_contracts(table, entry.contracts, stated)
        added, counts = write_new_rows(storage, table, entry.files, frame)
        ledger, answered = enter_requests(storage, manifest.ledger, table.name, requests)
        if not added and ledger == manifest.ledger:
            return Change(manifest, counts, set())
        written: set[str] = set()
        digests = [table.name, *(f.digest for f in added)]
        digests += [content_of(ledger)] if ledger != manifest.ledger else []
        identity = manifests.chained(manifest.identity, digests)
        past = past_after(manifest, identity, [*answered, *(file.first for file in added)])
        after = msgspec.structs.replace(manifest, ledger=ledger, identity=identity, past=past)
        if added:
            files = merge_files(storage, table, entry.files, added, written)
            over[:] = closed_months(files, entry.files)
            text = [name for name, column in table.columns.items() if column.kind is Kind.TEXT]
            values = {n: sorted({*entry.values.get(n, []), *frame[n].cat.categories}) for n in text}
            after = msgspec.structs.replace(
                after,
                synthetic=manifest.synthetic or synthetic,
                tables={
                    **manifest.tables,
                    table.name: TableEntry(files, values, {**entry.contracts, **stated}),
                },
            )
        return Change(after, counts, written)

    counts = commit(storage, timeout, change)
    try:
        close_months(storage, table, over, timeout=timeout)
    except ArchiveError as problem:  # the rows are there: only their files are more than they need be
        warn_caller(
            f"{table.name}: {', '.join(over)} remain in several files until a later append: {problem}"
        )
    return counts


def write_new_rows(
    storage: Storage, table: Table, files: list[DataFile], frame: pd.DataFrame
) -> tuple[list[DataFile], Appended]:
    """Write the rows of a frame whose keys are in no file, as new files by month or day."""
    newest = [f"{frame['time'].max():%Y-%m}"] if len(frame) else []
    open_month = max([*newest, *(file.month for file in files)], default="")
    waiting: list[Future[DataFile]] = []
    differing = 0
    with ThreadPoolExecutor(_WRITERS) as pool:
        for month, rows in _by_calendar(to_arrow(table, frame), "M"):
            fresh, unequal = _unseen(table, rows, _existing(storage, table, files, rows))
            differing += unequal
            size = fresh.num_rows + sum(file.rows for file in files if file.month == month)
            by_day = month == open_month and size > MONTH_ROWS  # an open month that is large
            for name, chunk in _by_calendar(fresh, "D") if by_day else [(month, fresh)]:
                if not chunk.num_rows:
                    continue
                if len(waiting) >= _WRITERS:  # at most so many months wait in memory, in thousands of slices
                    waiting[-_WRITERS].result()
                # A large month is written week by week, like a merged one.
                large = name == month and len(chunk) > SLICE_ROWS
                weeks = _divided(chunk, np.array(week_cuts(month))) if large else [(0, chunk)]
                weekly = [[week] for _, week in weeks]
                folder = f"{table.name}/{name}"
                waiting.append(pool.submit(schemas.write, storage, folder, table, *weekly))
        added = [future.result() for future in waiting]
    written = sum(file.rows for file in added)
    return added, Appended(written, len(frame) - written - differing, differing)


def _by_calendar(rows: pa.Table, unit: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each calendar month or day, in order."""
    if not len(rows):
        return
    ends = [v.cast(pa.int64()).as_py() for v in pc.min_max(rows["time"]).values()]
    first, last = np.array(ends).view("datetime64[us]").astype(f"datetime64[{unit}]")
    calendar = np.arange(first, last + np.timedelta64(1, unit))  # type: ignore[call-overload]
    for code, period in _divided(rows, calendar[1:].astype("datetime64[us]").view(np.int64)):
        yield str(calendar[code]), period


def _divided(rows: pa.Table, edges: Array) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows between consecutive edges, with the number of edges at or before them."""
    # Rows are sorted by symbol first, so that a month is many runs of rows.
    for batch in rows.combine_chunks().to_batches():  # text beyond 2 GB comes in several
        bounds, of_run = _runs(np.asarray(batch["time"].cast(pa.int64())), edges)
        for code in np.unique(of_run):
            chosen = of_run == code
            yield int(code), _picked(batch, bounds[:-1][chosen], bounds[1:][chosen])


def _runs(stamps: Array, edges: Array) -> tuple[Array, Array]:
    """Return the bounds of runs of rows between the same edges, and the number of edges before each run."""
    bounds, codes = [], []  # in batches: a code for every row needs as much memory as the largest column
    for start in range(0, stamps.size, BATCH_ROWS):
        some = np.searchsorted(edges, stamps[start : start + BATCH_ROWS], side="right")
        firsts = np.concatenate([[0], np.flatnonzero(some[1:] != some[:-1]) + 1])
        bounds.append(start + firsts)
        codes.append(some[firsts])
    return np.concatenate([*bounds, [stamps.size]]), np.concatenate(codes)


def _picked(rows: pa.RecordBatch, starts: Array, ends: Array) -> pa.Table:
    """Return the rows of some runs, without a copy if runs are long."""
    lengths = ends - starts
    if lengths.sum() > _LONG_RUN * lengths.size:
        runs = zip(starts.tolist(), lengths.tolist(), strict=True)
        return pa.Table.from_batches([rows.slice(start, length) for start, length in runs])
    # Row numbers of all runs without a loop: the j-th row taken, of run i, is row j + end_i − (rows up to and
    # with run i).
    places = np.repeat(ends - lengths.cumsum(), lengths) + np.arange(lengths.sum())
    return pa.Table.from_batches([rows.take(pa.array(places))])


def _existing(storage: Storage, table: Table, files: list[DataFile], rows: pa.Table) -> list[pa.Table]:
    """Return the stored rows that may share a key with `rows`."""
    first, last = (v.cast(pa.int64()).as_py() for v in pc.min_max(rows["time"]).values())
    window = TimeRange(first, last + 1) if "time" in table.key else EVER
    near = queries.plan(files, Selection({}, window))
    if not near:
        return []
    named = [name for name in table.key if name in ("symbol", "exchange", "order_id")]
    where = {name: frozenset(pc.unique(rows[name]).to_pylist()) for name in named}
    return queries.read(storage, table, near, Selection(where, window))


def _unseen(table: Table, rows: pa.Table, existing: list[pa.Table]) -> tuple[pa.Table, int]:
    """Return the rows with new keys, and the number of other rows whose stored values differ."""
    if not any(table_rows.num_rows for table_rows in existing):
        return rows, 0
    old = frame_of(table, existing)
    new = frame_of(table, [rows])
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
        emptied = queries.series(storage, table, removed) & set(entry.contracts)
        emptied -= queries.series(storage, table, files)
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
    refilled = emptied & queries.series(storage, table, added) if emptied else emptied
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
    went, there = (queries.distinct_values(storage, table, some, names) for some in (removed, near))
    if any(set(went[name]) - set(there[name]) for name in names):
        return queries.distinct_values(storage, table, files, names)
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
        if not queries.known_files(storage, table, [file]):
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
    near = queries.plan([file], chosen)
    for rows in queries.slices(storage, table, near, chosen, _BATCH_ROWS) if near else ():
        yield frame_of(table, queries.read(storage, table, near, rows))


def _rows_of(storage: Storage, table: Table, files: list[DataFile]) -> pd.DataFrame:
    return frame_of(table, queries.read(storage, table, files))


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
