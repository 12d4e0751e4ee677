"""Old rows out of an archive: whole months or days, and what the ledger says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pandas as pd

from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive.commits import Change, commit
from derivdata.sources.archive.ledger import content_of, forget_requests
from derivdata.sources.archive.manifest import DataFile, Manifest
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Table


class Dropped(NamedTuple):
    """Rows and files that were removed."""

    rows: int
    files: int


def drop_old_partitions(
    storage: Storage, tables: Callable[[str], Table], before: pd.Timestamp, *, timeout: float
) -> Dropped:
    """Remove the files of months and days that end at or before an instant, and their ledger, in one step."""

    def change(manifest: Manifest) -> Change[Dropped]:
        kept, dropped, cuts = dict(manifest.tables), [], {}
        for name, entry in manifest.tables.items():
            if "time" not in tables(name).key:
                continue
            old = [file for file in entry.files if _end(file) <= before]
            # Of a month that is kept the ledger stays, unless days within it were removed.
            cuts[name] = max([_month(before), *map(_end, old)])
            if old:
                dropped += [(name, file) for file in old]
                left = [file for file in entry.files if file not in old]
                kept[name] = msgspec.structs.replace(
                    entry, files=left
                )  # to look for what is left would read all rows
        ledger = forget_requests(storage, manifest.ledger, cuts, _month(before))
        if not dropped and ledger == manifest.ledger:
            return Change(manifest, Dropped(0, 0), set())
        digests = ["dropped", content_of(ledger), *(f.digest for _, f in dropped)]
        identity = manifests.chained(manifest.identity, digests)
        tables_left = {name: entry for name, entry in kept.items() if entry.files}
        after = msgspec.structs.replace(
            manifest, tables=tables_left, ledger=ledger, identity=identity, past=identity
        )
        return Change(after, Dropped(sum(f.rows for _, f in dropped), len(dropped)), set())

    return commit(storage, timeout, change)


def _end(file: DataFile) -> pd.Timestamp:
    """Return the end of a file's month or day."""
    name = file.partition.rpartition("/")[2]
    start = pd.Timestamp(name, tz="UTC")
    return start + (pd.offsets.MonthBegin() if name.count("-") == 1 else pd.Timedelta(1, "D"))


def _month(instant: pd.Timestamp) -> pd.Timestamp:
    return instant.normalize().replace(day=1)
