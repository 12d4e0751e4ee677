"""Append, replace, delete and drop rows; merge files of a day or a month.

A month is open until the table has a row of a later one. Rows of an open month are in files by day, once
there are many. A closed month is one file sorted by symbol, venue and time, in which a series is a few
adjacent pages. A large month is sorted week by week, so all series of a day are in a quarter of it; one of
fewer rows by halves, so that a series is in fewer row groups.

A correction is numbered, logged and can be undone; a drop cannot. It rewrites the affected files. Removed and
added rows are stored in separate files, which the correction's manifest entry names; `undo` swaps the two and
is a correction itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from derivdata.sources.archive.ledger import RequestEntry, content_of, enter_requests, forget_requests
from derivdata.sources.archive.manifest import (
    Change,
    Correction,
    DataFile,
    Manifest,
    Overtaken,
    TableEntry,
    commit,
    past_after,
    row_count,
)
from derivdata.sources.archive.queries import EVER, EVER_ALL, Selection, TimeRange, micros, stamp
from derivdata.sources.archive.schemas import frame_of, sorting, text_columns, time_bounds, to_arrow
from derivdata.sources.archive.storage import Storage
from derivdata.support import times
from derivdata.support.text import escape_controls, warn_caller
from derivdata.tables.schema import Table

_MERGE_COUNT = 8
"""Number of files of one level that are merged into a file of the next level."""
SMALL_ROWS = 32_768
"""Files of a level with at most this many rows together are merged at every append."""
SLICE_ROWS = 1_000_000
"""Number of rows in memory while files are rewritten."""
_CLOSED_LEVEL = 63
"""Level of the file of a closed month, which `merge_files` does not merge again."""
_WEEK_US = 7 * 86_400_000_000
_LATE_ROWS_DIVISOR = 8
"""Late rows stay in separate files until they are one eighth of the rows of the month's largest file."""


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
        in_partition = [file for file in files if file.partition == partition]
        if len(in_partition) > 1:
            in_partition = queries.known_files(storage, table, in_partition)
        others = _files_without(files, in_partition)
        level = 0  # a merged file may complete a group of the next level
        while any(level <= file.level < _CLOSED_LEVEL for file in in_partition):
            group = [file for file in in_partition if file.level == level]
            minimum = _MERGE_COUNT
            merged_level = level + 1
            if row_count(group) <= SMALL_ROWS:
                minimum = 2
                merged_level = level
            if len(group) >= minimum:
                rows = _sorted(storage, table, group)
                whole = schemas.write(storage, partition, table, rows, level=merged_level)
                in_partition = [*_files_without(in_partition, group), whole]
                written.add(whole.path)
            level += 1
        files = [*others, *in_partition]
    return files


def _files_without(files: Sequence[DataFile], removed: Sequence[DataFile]) -> list[DataFile]:
    removed_files = set(removed)
    return [file for file in files if file not in removed_files]


def closed_months(files: Sequence[DataFile], before: Sequence[DataFile]) -> list[str]:
    """Return the months before the newest one whose files should be merged into one, sorted.

    `files` are the files of a table after an append, `before` the files before it. When the append starts a
    new month, all earlier months are merged. Otherwise a month is merged if it has enough late rows.
    """
    newest = max((file.month for file in files), default="")
    newest_before = max((file.month for file in before), default="")
    files_by_month: dict[str, list[DataFile]] = {}
    for file in files:
        files_by_month.setdefault(file.month, []).append(file)
    closed = []
    for month, group in sorted(files_by_month.items()):
        if month == newest or len(group) == 1:
            continue
        if newest_before < newest or _is_merge_due(group):
            closed.append(month)
    return closed


def _is_merge_due(group: Sequence[DataFile]) -> bool:
    """Return whether the files of a closed month include files of days, or many late rows."""
    if any(file.by_day for file in group):  # a writer stopped before it merged them
        return True
    largest = max(file.rows for file in group)
    late_rows = row_count(group) - largest
    return _LATE_ROWS_DIVISOR * late_rows >= largest


def close_months(storage: Storage, table: Table, months: Sequence[str], *, timeout: float) -> None:
    """Merge the files of each month into one.

    Rows are written before the lock is acquired, because that may take minutes. If another writer changes a
    file of the month meanwhile, the month is merged at the next append.
    """
    for month in months:
        merging = storage.merging()
        try:
            with merging as place:
                if place is not None:
                    _close_month(place, table, month, timeout)
        finally:
            merging.release()


def _close_month(storage: Storage, table: Table, month: str, timeout: float) -> None:
    """Write the rows of a month to one new file, and replace its files by this one in the manifest.

    The new file is removed if the manifest does not name it in the end.
    """
    # 1. Write the file, without a lock.
    entry = (manifests.load(storage) or Manifest()).tables.get(table.name, TableEntry())
    group = [file for file in entry.files if file.month == month]
    group = queries.known_files(storage, table, group)
    if len(group) < 2:
        return
    cuts = [EVER.start, *month_cuts(month, row_count(group)), EVER.end]
    periods = [_sorted(storage, table, group, TimeRange(*span)) for span in pairwise(cuts)]
    merged_file = schemas.write(storage, f"{table.name}/{month}", table, *periods, level=_CLOSED_LEVEL)

    # 2. Replace the files in the manifest, unless another writer has changed them meanwhile.
    is_submitted = False

    def change(manifest: Manifest) -> Change[bool]:
        nonlocal is_submitted
        entry = manifest.tables.get(table.name, TableEntry())
        is_submitted = set(group) <= set(entry.files)
        if not is_submitted:
            return Change(manifest, False, set())
        files = [*_files_without(entry.files, group), merged_file]
        tables = {**manifest.tables, table.name: msgspec.structs.replace(entry, files=files)}
        return Change(msgspec.structs.replace(manifest, tables=tables), True, set())

    is_committed = is_rejected = False
    try:
        is_committed = commit(storage, timeout, change)
    except Overtaken:
        is_rejected = True
        raise
    finally:
        # A request to an object store may be applied after its response was lost. The file then stays,
        # because a later manifest may name it.
        may_be_applied_later = is_submitted and storage.remote and not is_rejected
        if not is_committed and not may_be_applied_later:
            current = manifests.load(storage) or Manifest()
            if merged_file not in current.files():
                storage.remove(merged_file.path)


def month_cuts(month: str, rows: int) -> list[int]:
    """Return the times [µs] that divide a month of `rows` rows into periods, each sorted by itself.

    Months above 4 million rows are divided at days 8, 15 and 22, months above 1 million rows at day 15.
    Smaller months are not divided.
    """
    weeks: tuple[int, ...] = ()
    if rows > 4 * SLICE_ROWS:
        weeks = (1, 2, 3)
    elif rows > SLICE_ROWS:
        weeks = (2,)
    return [micros(month) + week * _WEEK_US for week in weeks]


def _sorted(
    storage: Storage, table: Table, files: list[DataFile], window: TimeRange = EVER
) -> Iterator[pa.Table]:
    """Yield the sorted rows of several files in a window; each result has the rows of some symbols.

    Symbols are grouped so that a result has about `SLICE_ROWS` rows, which bounds the memory.
    """
    order = sorting(table)
    columns = list(table.columns)
    in_window = Selection({}, window)
    group = queries.plan(files, in_window)
    for rows_of_symbols in list(queries.slices(storage, table, group, in_window, SLICE_ROWS)):
        tables = queries.read(storage, table, group, rows_of_symbols, order=order)
        # Files of one version are read by one sorting query; files of several versions are first joined to
        # one table.
        if len(tables) == 1 and tables[0].column_names == columns:
            yield tables[0]
        else:
            yield to_arrow(table, frame_of(table, tables))


MONTH_ROWS = 262_144
"""Maximum number of rows of an open month in one file; above it, each day is a file."""
BATCH_ROWS = 1_000_000
"""Number of rows that `_runs` codes at a time."""
_WRITERS = 2
"""Number of threads that write files."""
_LONG_RUN = 64
"""Mean length of runs [rows] above which slices of a batch are faster than a copy of its rows."""

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
    requests: Sequence[RequestEntry],
    contracts: Mapping[str, str] | None,
    *,
    synthetic: bool,
    timeout: float,
) -> Appended:
    """Add the rows of a conformed frame whose keys are not stored, and enter requests into the ledger."""
    months_to_close: list[str] = []  # as of the last call of `change`, which a commit may repeat

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
        digests = [table.name, *(file.digest for file in added)]
        if ledger != manifest.ledger:
            digests.append(content_of(ledger))
        identity = manifests.chained(manifest.identity, digests)
        past = past_after(manifest, identity, [*answered, *(file.first for file in added)])
        after = msgspec.structs.replace(manifest, ledger=ledger, identity=identity, past=past)
        if added:
            files = merge_files(storage, table, entry.files, added, written)
            months_to_close[:] = closed_months(files, entry.files)
            values = {}
            for name in text_columns(table):
                values[name] = sorted({*entry.values.get(name, []), *frame[name].cat.categories})
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
        close_months(storage, table, months_to_close, timeout=timeout)
    except ArchiveError as problem:  # the rows are stored, only in more files than necessary
        months = ", ".join(months_to_close)
        warn_caller(f"{table.name}: files of {months} stay unmerged until a later append: {problem}")
    return counts


def write_new_rows(
    storage: Storage, table: Table, files: list[DataFile], frame: pd.DataFrame
) -> tuple[list[DataFile], Appended]:
    """Write the rows of a frame whose keys are in none of `files` to new files; return these and counts.

    Each month is one file. The days of the open month are separate files once it has many rows.
    """
    open_month = max((file.month for file in files), default="")
    if len(frame):
        open_month = max(open_month, f"{frame['time'].max():%Y-%m}")
    waiting: list[Future[DataFile]] = []
    differing = 0
    with ThreadPoolExecutor(_WRITERS) as pool:
        for month, rows in _by_calendar(to_arrow(table, frame), "M"):
            fresh, unequal = _unseen(table, rows, _existing(storage, table, files, rows))
            differing += unequal
            if not fresh.num_rows:
                continue
            size = fresh.num_rows + row_count(file for file in files if file.month == month)
            periods: Iterable[tuple[str, pa.Table]] = [(month, fresh)]
            if month == open_month and size > MONTH_ROWS:
                periods = _by_calendar(fresh, "D")
            for name, chunk in periods:
                if len(waiting) >= _WRITERS:  # bounds the number of months in memory
                    waiting[-_WRITERS].result()
                periods_of_file = [[chunk]]
                cuts = month_cuts(month, len(chunk))
                if name == month and cuts:  # sorted by period, as in the file of a closed month
                    periods_of_file = [[rows] for _, rows in _divided(chunk, np.array(cuts))]
                folder = f"{table.name}/{name}"
                waiting.append(pool.submit(schemas.write, storage, folder, table, *periods_of_file))
        added = [future.result() for future in waiting]
    written = row_count(added)
    return added, Appended(written, len(frame) - written - differing, differing)


def _by_calendar(rows: pa.Table, unit: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield the name and the rows of each calendar month (`unit` "M") or day ("D") that has rows."""
    if not len(rows):
        return
    bounds = np.array(time_bounds(rows)).view("datetime64[us]")
    first, last = bounds.astype(f"datetime64[{unit}]")
    calendar = np.arange(first, last + np.timedelta64(1, unit))  # type: ignore[call-overload]
    edges = calendar[1:].astype("datetime64[us]").view(np.int64)
    for code, period in _divided(rows, edges):
        yield str(calendar[code]), period


def _divided(rows: pa.Table, edges: Array) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each period between two edges [µs], with the period's code.

    The code is the number of edges at or before the period, so rows before the first edge have code 0.
    """
    # Rows are sorted by symbol first, so the rows of a period are many runs of consecutive rows.
    for batch in rows.combine_chunks().to_batches():  # text above 2 GB stays in several batches
        stamps = np.asarray(batch["time"].cast(pa.int64()))
        bounds, codes = _runs(stamps, edges)
        for code in np.unique(codes):
            in_period = codes == code
            yield int(code), _rows_of_runs(batch, bounds[:-1][in_period], bounds[1:][in_period])


def _runs(stamps: Array, edges: Array) -> tuple[Array, Array]:
    """Return the bounds of runs of consecutive rows in the same period, and the period's code of each run.

    The run i has the rows from ``bounds[i]`` to before ``bounds[i + 1]``.
    """
    bounds = []
    codes = []
    # In batches, because a code for every row needs as much memory as the largest column.
    for start in range(0, stamps.size, BATCH_ROWS):
        codes_of_rows = np.searchsorted(edges, stamps[start : start + BATCH_ROWS], side="right")
        is_changed = codes_of_rows[1:] != codes_of_rows[:-1]
        firsts = np.concatenate([[0], np.flatnonzero(is_changed) + 1])
        bounds.append(start + firsts)
        codes.append(codes_of_rows[firsts])
    return np.concatenate([*bounds, [stamps.size]]), np.concatenate(codes)


def _rows_of_runs(rows: pa.RecordBatch, starts: Array, ends: Array) -> pa.Table:
    """Return the rows from each start to before its end, without a copy if the runs are long."""
    lengths = ends - starts
    if lengths.sum() > _LONG_RUN * lengths.size:
        runs = zip(starts.tolist(), lengths.tolist(), strict=True)
        return pa.Table.from_batches([rows.slice(start, length) for start, length in runs])
    # Row numbers of all runs without a loop. If the j-th row of the result is of run i, it is row
    # j + end_i − (number of rows of the runs up to and including i).
    places = np.repeat(ends - lengths.cumsum(), lengths) + np.arange(lengths.sum())
    return pa.Table.from_batches([rows.take(pa.array(places))])


def _existing(storage: Storage, table: Table, files: list[DataFile], rows: pa.Table) -> list[pa.Table]:
    """Return the stored rows that may share a key with `rows`."""
    window = EVER
    if "time" in table.key:
        first, last = time_bounds(rows)
        window = TimeRange(first, last + 1)
    near = queries.plan(files, Selection({}, window))
    if not near:
        return []
    where: dict[str, frozenset[str]] = {}
    for name in ("symbol", "exchange", "order_id"):
        if name in table.key:
            where[name] = frozenset(pc.unique(rows[name]).to_pylist())
    return queries.read(storage, table, near, Selection(where, window))


def _unseen(table: Table, rows: pa.Table, existing: list[pa.Table]) -> tuple[pa.Table, int]:
    """Return the rows whose keys are not stored, and the number of the others that differ in a value."""
    if not any(map(len, existing)):
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
    """Return the values of two columns one below the other; categories are united."""
    if isinstance(upper.dtype, pd.CategoricalDtype):
        return pd.Series(pd.api.types.union_categoricals([upper.array, lower.array]))
    return pd.concat([upper, lower], ignore_index=True)


COMPLETED = "complete"
"""Action of a correction that fills in missing values; reads do not mention it in a notice."""

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
    """Remove the selected rows, and add the rows of a conformed frame in their place.

    `frame` None only removes. Raises `ValueError` if a row of the frame is outside the selection.
    """
    if frame is not None:
        outside = ~chosen.mask(frame)
        if outside.any():
            first = frame.loc[outside, list(table.key)].iloc[0].to_dict()
            raise ValueError(
                f"frame: {outside.sum()} rows are outside the selection to replace, first {first}"
            )

    where = {name: sorted(chosen.where[name]) for name in table.key if name in chosen.where}
    action = "replace"
    if frame is None:
        action = "delete"
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
    """Replace stored rows by the rows of a conformed frame.

    Stored rows with the keys of the frame are removed, and also those with the keys of `before`. Keys that
    changed, such as times, are thus removed under their old value.
    """
    rows_with_key = frame[list(table.key)].astype(object)
    if before is not None:
        rows_with_key = pd.concat([rows_with_key, before[list(table.key)].astype(object)], ignore_index=True)
    keys = _keys_of(table, rows_with_key)

    def has_key(rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        return np.asarray(_keys_of(table, rows).isin(keys))

    # Without the instruments: a notice lists all values, and a chain has hundreds of them.
    where = {name: sorted(set(frame[name].astype(object))) for name in ("symbol", "exchange")}
    first = times.us(rows_with_key["time"].min())
    last = times.us(rows_with_key["time"].max())
    draft = Correction(0, table.name, action, where, first, last + 1, reason)
    return commit(storage, timeout, lambda manifest: _apply(storage, table, manifest, draft, has_key, frame))


def _keys_of(table: Table, frame: pd.DataFrame) -> pd.MultiIndex:
    # As objects, because categories of two frames differ.
    return pd.MultiIndex.from_frame(frame[list(table.key)].astype(object))


def undo(storage: Storage, tables: Callable[[str], Table], number: int, *, timeout: float) -> Corrected:
    """Undo a correction: remove the rows that it added and restore the rows that it removed."""

    def change(manifest: Manifest) -> Change[Corrected]:
        target = find_undoable(manifest, number)
        table = tables(target.table)
        added = _rows_of(storage, table, target.added)
        keys = _keys_of(table, added)

        def was_added(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
            return np.asarray(_keys_of(table, frame).isin(keys))

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
    """Apply a correction; `draft` lacks its number, files and contracts."""
    entry = manifest.tables.get(table.name, TableEntry())
    # 1. Rewrite the files without the rows. The contract of a series that becomes empty is deleted, so that
    # rows of another contract may be stored; the log has the old one.
    files, removed = _remove_rows(storage, table, entry.files, selection_of(draft), mask)
    emptied: set[str] = set()  # series without rows after the removal
    if entry.contracts:
        emptied = queries.series(storage, table, removed) & set(entry.contracts)
        emptied -= queries.series(storage, table, files)
    remaining = {series: name for series, name in entry.contracts.items() if series not in emptied}
    refuse_other_contracts(table, remaining, _without_empty(draft.contracts))
    # 2. Add the new rows. A rewritten file may be merged into another one, and no manifest names it then.
    written = {file.path for file in files if file not in entry.files}
    added: list[DataFile] = []
    if frame is not None and len(frame):
        # The log refers to these files even after they are merged. Rows whose key exists already are
        # excluded: an undo would otherwise remove the stored rows of those keys.
        added, _ = write_new_rows(storage, table, files, frame)
        files = merge_files(storage, table, files, added, written)
    if not removed and not added and draft.undoes is None:
        raise ArchiveError(f"{storage}: nothing was corrected: no row of {table.name} matches")
    # 3. Contracts of the series, and for the log the previous contract of each series that changed.
    if emptied:
        for series in emptied & queries.series(storage, table, added):
            remaining[series] = entry.contracts[series]
    restored = _without_empty(remaining | draft.contracts)  # an undo may restore a series without a contract
    before = _previous_contracts(entry.contracts, restored)
    # 4. The new manifest.
    number = len(manifest.corrections) + 1
    correction = msgspec.structs.replace(draft, number=number, removed=removed, added=added, contracts=before)
    tables = dict(manifest.tables)
    values = _values_of_text_columns(storage, table, entry, files, removed)
    tables[table.name] = TableEntry(files, values, restored)
    if not files:
        del tables[table.name]
    digests = [table.name, f"correction {number}"]
    digests += [file.digest for file in [*removed, *added]]
    identity = manifests.chained(manifest.identity, digests)
    after = msgspec.structs.replace(
        manifest,
        identity=identity,
        past=identity,
        tables=tables,
        corrections=[*manifest.corrections, correction],
    )
    return Change(after, Corrected(number, row_count(removed), row_count(added)), written)


def _previous_contracts(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the previous contract of each series whose contract changes, empty if it had none."""
    return {series: old.get(series, "") for series in {**old, **new} if new.get(series) != old.get(series)}


def _without_empty(contracts: Mapping[str, str]) -> dict[str, str]:
    return {series: name for series, name in contracts.items() if name}


def _values_of_text_columns(
    storage: Storage, table: Table, entry: TableEntry, files: list[DataFile], removed: list[DataFile]
) -> dict[str, list[str]]:
    """Return the sorted values of each text column after a correction.

    `files` are the table's files after the correction, `removed` the removed rows. Only the partitions that
    changed are read. If one of them lost a value, all files are read, because another may still have it.
    """
    names = text_columns(table)
    changed_partitions = {file.partition for file in removed}
    changed = [file for file in files if file.partition in changed_partitions or file not in entry.files]
    removed_values = queries.distinct_values(storage, table, removed, names)
    changed_values = queries.distinct_values(storage, table, changed, names)
    values = {}
    for name in names:
        if not set(removed_values[name]) <= set(changed_values[name]):
            return queries.distinct_values(storage, table, files, names)
        values[name] = sorted({*entry.values.get(name, []), *changed_values[name]})
    return values


def _remove_rows(
    storage: Storage, table: Table, files: list[DataFile], chosen: Selection, mask: Mask
) -> tuple[list[DataFile], list[DataFile]]:
    """Return the files after a removal, and new files with the removed rows.

    A row is removed if it is in the selection and `mask` is true. Files with such rows are rewritten.
    """
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
                f"{storage.place(file.path)}: a newer version of derivdata wrote more columns to this file, "
                "which a correction would lose: correct it with that version"
            )
        rows_removed = [to_arrow(table, table.conform(frame)) for frame in selected if len(frame)]
        removed.append(schemas.write(storage, file.partition, table, rows_removed))
        if count < file.rows:
            remaining = (frame[~mask(frame)] for frame in _frames(storage, table, file, EVER_ALL))
            rows = (to_arrow(table, frame) for frame in remaining if len(frame))
            after.append(schemas.write(storage, file.partition, table, rows, level=file.level))
    return after, removed


def _frames(storage: Storage, table: Table, file: DataFile, chosen: Selection) -> Iterator[pd.DataFrame]:
    """Yield the selected rows of a file, some symbols at a time."""
    near = queries.plan([file], chosen)
    if not near:
        return
    for rows in queries.slices(storage, table, near, chosen, SLICE_ROWS):
        yield frame_of(table, queries.read(storage, table, near, rows))


def _rows_of(storage: Storage, table: Table, files: list[DataFile]) -> pd.DataFrame:
    return frame_of(table, queries.read(storage, table, files))


def undone_numbers(corrections: Sequence[Correction]) -> set[int]:
    """Return the numbers of undone corrections, without those whose undo was itself undone."""
    numbers: set[int] = set()
    for correction in reversed(corrections):
        if correction.undoes is not None and correction.number not in numbers:
            numbers.add(correction.undoes)
    return numbers


def corrections_frame(manifest: Manifest) -> pd.DataFrame:
    """Return the log as a frame: one row per correction, in order."""
    undone = undone_numbers(manifest.corrections)
    names = ["number", "table", "action", "where", "start", "end", "removed", "added", "reason", "undone"]
    rows = []
    for correction in manifest.corrections:
        start, end = _limits(correction)
        row = {
            "number": correction.number,
            "table": correction.table,
            "action": correction.action,
            "where": escape_controls(", ".join(_equalities(correction))),
            "start": start,
            "end": end,
            "removed": row_count(correction.removed),
            "added": row_count(correction.added),
            "reason": escape_controls(correction.reason),
            "undone": correction.number in undone,
        }
        rows.append(row)
    frame = pd.DataFrame(rows, columns=names)
    for column in ("start", "end"):
        frame[column] = pd.to_datetime(frame[column], utc=True).dt.as_unit("us")
    return frame.set_index("number")


def _limits(correction: Correction) -> tuple[pd.Timestamp | None, pd.Timestamp | None]:
    """Return start and end of the corrected window, None where it is open."""
    start = end = None
    if correction.first != EVER.start:
        start = stamp(correction.first)
    if correction.end != EVER.end:
        end = stamp(correction.end)
    return start, end


def correction_notices(manifest: Manifest, table: str, read: Selection) -> list[str]:
    """Return one notice for each correction in force that overlaps the rows that were read."""
    undone = undone_numbers(manifest.corrections)
    notices = []
    for c in manifest.corrections:
        if c.table != table or c.number in undone or c.undoes is not None or c.action == COMPLETED:
            continue
        if read.overlaps(selection_of(c)):
            notices.append(_notice(c))
    return notices


def _notice(correction: Correction) -> str:
    """Return the text about a correction of rows that were read."""
    start, end = _limits(correction)
    selected = _equalities(correction)
    if start is not None:
        selected.append(f"from {times.iso(start)}")
    if end is not None:
        selected.append(f"before {times.iso(end)}")
    done = f"{row_count(correction.removed)} rows deleted"
    if correction.action == "replace":
        done = f"{row_count(correction.removed)} rows replaced by {row_count(correction.added)}"
    text = f"correction {correction.number}: {done} ({', '.join(selected)})"
    if correction.reason:
        text = f"{text}: {correction.reason}"
    return escape_controls(text)


def _equalities(correction: Correction) -> list[str]:
    """Return the selected values of each column, such as ``symbol=BTC|ETH``."""
    return [f"{name}={'|'.join(values)}" for name, values in correction.where.items()]


def selection_of(correction: Correction) -> Selection:
    """Return the rows that a correction was about."""
    where = {name: frozenset(values) for name, values in correction.where.items()}
    return Selection(where, TimeRange(correction.first, correction.end))


def find_undoable(manifest: Manifest, number: int) -> Correction:
    """Return the correction with a number.

    Raises `ValueError` if it does not exist, is already undone, or a later correction changed its rows.
    """
    undone = undone_numbers(manifest.corrections)
    target = next((c for c in manifest.corrections if c.number == number), None)
    if target is None:
        raise ValueError(f"number={number}: correction not found; see archive.corrections()")
    if number in undone:
        raise ValueError(f"number={number}: this correction was already undone")
    changed = selection_of(target)
    for later in manifest.corrections:
        if later.number <= number or later.table != target.table or later.number in undone:
            continue
        # The undo of another later correction restored the state after the target.
        is_undo_of_later = later.undoes is not None and later.undoes > number
        if not is_undo_of_later and changed.overlaps(selection_of(later)):
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
        dropped: list[DataFile] = []
        ledger_starts = {}
        for name, entry in manifest.tables.items():
            if "time" not in tables(name).key:
                continue
            old = [file for file in entry.files if _end(file) <= before]
            # The ledger of a remaining month stays, unless days within it were removed.
            ledger_starts[name] = max([_month_start(before), *map(_end, old)])
            dropped += old
            later_files = _files_without(entry.files, old)
            # Names of symbols and venues stay, because finding the remaining ones would read all rows.
            if later_files:
                remaining[name] = msgspec.structs.replace(entry, files=later_files)
            else:
                del remaining[name]
        ledger = forget_requests(storage, manifest.ledger, ledger_starts, _month_start(before))
        if not dropped and ledger == manifest.ledger:
            return Change(manifest, Dropped(0, 0), set())
        digests = ["dropped", content_of(ledger)]
        digests += [file.digest for file in dropped]
        identity = manifests.chained(manifest.identity, digests)
        after = msgspec.structs.replace(
            manifest, tables=remaining, ledger=ledger, identity=identity, past=identity
        )
        return Change(after, Dropped(row_count(dropped), len(dropped)), set())

    return commit(storage, timeout, change)


def _end(file: DataFile) -> pd.Timestamp:
    """Return the end of the day or month of a file's folder."""
    name = file.partition.rpartition("/")[2]
    start = pd.Timestamp(name, tz="UTC")
    if file.by_day:
        return start + pd.Timedelta(1, "D")
    return start + pd.offsets.MonthBegin()


def _month_start(timestamp: pd.Timestamp) -> pd.Timestamp:
    return timestamp.normalize().replace(day=1)
