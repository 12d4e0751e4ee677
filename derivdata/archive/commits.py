"""Transactions: write new files, replace the manifest atomically, then remove old files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

from derivdata.archive import manifest as manifests
from derivdata.archive import parquet_writer
from derivdata.archive.locking import writing
from derivdata.archive.manifest import Manifest
from derivdata.errors import ArchiveError

__all__ = ["Change", "commit", "epoch_after"]

_CLOSED_MICROS = 3_600_000_000

T = TypeVar("T")


class Change(NamedTuple, Generic[T]):
    """Outcome of a change: the new manifest (the same object where nothing changes), and a result.

    `written` are paths of files that it wrote; those that the manifest does not name, because they were
    merged at once, are removed.
    """

    manifest: Manifest
    result: T
    written: set[str]


def commit(folder: Path, timeout: float, change: Callable[[Manifest], Change[T]]) -> T:
    """Apply a change under the writer's lock, completely or not at all.

    `change` gets the manifest and writes new files. A writer that dies before the manifest is replaced leaves
    the old state, and files that no manifest names: the next writer removes them. On return the data is on
    disk (fsync).

    Raises
    ------
    ArchiveError
        The lock was not released in time, or the disk refused; the archive is then as it was.
    """
    manifests.load(folder)
    with writing(folder, timeout) as cut_off:
        before = manifests.load(folder)
        try:
            if before is None:
                manifests.save(folder, manifests.new())
            if cut_off:
                _sweep(folder)
            manifest = manifests.load(folder) or manifests.new()
            after, result, written = change(manifest)
            if after is not manifest:
                old, new = _paths(manifest), _paths(after)
                _settle(folder, new - old)
                manifests.save(folder, msgspec.structs.replace(after, commits=manifest.commits + 1))
                for path in (old | written) - new:
                    _remove(folder / path)
                if manifest.ledger not in ("", after.ledger):
                    _remove(folder / manifest.ledger)
            return result
        except BaseException as problem:
            _sweep(folder)
            if isinstance(problem, OSError):
                raise _refused(folder, before or Manifest(), problem) from None
            raise


def epoch_after(manifest: Manifest, first: int) -> int:
    """Return the epoch after an append of rows from `first` [µs] on: one more if past answers change.

    A client regards a window as closed an hour after its end, and caches its answer for as long as the epoch
    stays the same.
    """
    last = max((file.last for entry in manifest.tables.values() for file in entry.files), default=first)
    return manifest.epoch + (first < last - _CLOSED_MICROS)


def _paths(manifest: Manifest) -> set[str]:
    return {path for file in manifest.files() for path in file.paths}


def _settle(folder: Path, new: set[str]) -> None:
    """Wait until new files and the folders that name them are on disk."""
    for path in new:
        manifests.sync(folder / path)
    for partition in {(folder / path).parent for path in new}:
        manifests.sync(partition)
    manifests.sync(folder)


def _refused(folder: Path, before: Manifest, problem: OSError) -> ArchiveError:
    why = problem.strerror or problem
    if (manifests.load(folder) or Manifest()).commits == before.commits:
        return ArchiveError(f"{folder}: nothing was appended, all is as it was: {why}")
    return ArchiveError(
        f"{folder}: the rows are there, but the disk did not confirm that a power cut leaves them: {why}"
    )


def _sweep(folder: Path) -> None:
    """Remove the files of an interrupted writer, which the manifest does not name.

    Files behind a linked folder may belong to another archive: they stay.
    """
    manifest = manifests.load(folder) or Manifest()
    named = {folder / path for path in _paths(manifest)}
    for path in folder.glob("*/*/*"):
        linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
        if path not in named and not linked and parquet_writer.FILE_NAME.fullmatch(path.name):
            _remove(path)
    for path in folder.glob("ledger-*.json"):
        if path.name != manifest.ledger and manifests.LEDGER_FILE.fullmatch(path.name):
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a file that no manifest names; one that cannot be removed does no harm."""
    with suppress(OSError):
        path.unlink()
