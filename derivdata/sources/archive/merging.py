"""Merge files: small ones as they come, and all those of a month into one when the month is over.

A month is open until the table has a row of a later one. Rows of an open month lie in files by day, once
there are many; those of a closed month in one file sorted by symbol, venue and time, in which a series is a
few neighbouring pages. A large month is sorted so week by week: a day of all series is in a quarter of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
import pyarrow as pa

from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive import scanning, schemas
from derivdata.sources.archive.commits import Change, Overtaken, commit
from derivdata.sources.archive.manifest import DataFile, Manifest, TableEntry
from derivdata.sources.archive.scanning import EVER, Selection, TimeRange, micros
from derivdata.sources.archive.schemas import frame_of, sorting, to_arrow
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Table

_MERGE_COUNT = 8
SMALL_ROWS = 32_768
SLICE_ROWS = 1_000_000
_CLOSED_LEVEL = 63
_WEEK = 7 * 86_400_000_000
_LATE_SHARE = 8
"""Rows that come late stay in files of their own until they are this part of their month, one eighth."""


def merge_files(
    storage: Storage, table: Table, files: list[DataFile], added: list[DataFile], written: set[str]
) -> list[DataFile]:
    """Return old and new files, with those of the new files' partitions merged.

    Files that are small together are merged at once, others when there are eight of a level; the result is of
    the next level. So a row is rewritten about once per level: the logarithm to base 8 of the number of
    appends. A file of a newer version stays as it is: merged, it would lose columns. All new paths go into
    `written`.
    """
    written |= {file.path for file in added}
    files = [*files, *added]
    for partition in sorted({file.partition for file in added}):
        here = [file for file in files if file.partition == partition]
        if len(here) > 1:
            here = scanning.known_files(storage, table, here)
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

    The rows are written before the lock is taken, as that may take minutes: if another writer changes a file
    of the month meanwhile, its files stay as they are until the next append.
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
    group = scanning.known_files(storage, table, group)
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
        # Whether a commit that failed was done may be unknown: only the manifest can tell, and where a put
        # whose answer got lost may still be done later, not even that: then the file stays.
        unknown = offered and storage.remote and not refused
        if not merged and not unknown and whole not in (manifests.load(storage) or Manifest()).files():
            storage.remove(whole.path)


def week_cuts(month: str) -> list[int]:
    """Return the instants [µs] that divide a large month: its days 8, 15 and 22."""
    return [micros(month) + week * _WEEK for week in (1, 2, 3)]


def _sorted(
    storage: Storage, table: Table, files: list[DataFile], window: TimeRange = EVER
) -> Iterator[pa.Table]:
    """Iterate over the rows of several files in order, some symbols at a time to bound memory."""
    order = sorting(table)
    columns = list(table.columns)
    rows = Selection({}, window)
    group = scanning.plan(files, rows)
    for chosen in list(scanning.slices(storage, table, group, rows, SLICE_ROWS)):
        parts = scanning.read(storage, table, group, chosen, order=order)
        # Files of one version are one query, which sorts; those of several become one table first.
        plain = len(parts) == 1 and parts[0].column_names == columns
        yield parts[0] if plain else to_arrow(table, frame_of(table, parts))
