"""Transactions: write new files, replace the manifest atomically, then remove old files."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from derivdata.errors import ArchiveError
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive.manifest import Manifest
from derivdata.sources.archive.object_store import ManifestChanged
from derivdata.sources.archive.storage import Storage
from derivdata.support.text import warn_caller

_CLOSED_MICROS = 3_600_000_000
_WAIT_SECONDS = 0.2

T = TypeVar("T")


class Overtaken(ArchiveError):
    """Other writers were faster at every attempt: nothing was written, and nothing will be."""


class Change(NamedTuple, Generic[T]):
    """Outcome of a change: the manifest (the same object where nothing changes), and a result.

    Of the files `written` those are removed that the manifest does not name, because they were merged at
    once.
    """

    manifest: Manifest
    result: T
    written: set[str]


def commit(storage: Storage, timeout: float, change: Callable[[Manifest], Change[T]]) -> T:
    """Apply a change, completely or not at all, and after those of other writers.

    `change` gets the manifest and writes new files. Where no one else can be kept from writing, it is called
    again with the new manifest whenever another writer was faster. A writer that dies leaves the old state,
    and files that no manifest names. On return the data is stored for good.
    """
    manifests.load(storage)
    until = time.monotonic() + timeout
    writing = storage.writing(timeout)
    try:
        with writing as cut_off:
            while True:
                try:
                    return _attempt(storage, change, writing, cut_off=cut_off)
                except ManifestChanged:
                    if time.monotonic() >= until:
                        raise Overtaken(
                            f"{storage}: other writers were faster for over {timeout:g} s; nothing was "
                            "written: append again, in smaller pieces or with a longer lock_timeout"
                        ) from None
                time.sleep(random.uniform(0.0, _WAIT_SECONDS))
    finally:
        writing.release()


def _attempt(storage: Storage, change: Callable[[Manifest], Change[T]], writing: Any, *, cut_off: bool) -> T:
    """Apply a change to the manifest as it is now; a ManifestChanged leaves everything as it was."""
    before, version = manifests.load_with_version(storage)
    tried: Manifest | None = None
    saved = False
    try:
        if before is None:
            manifests.save(storage, manifests.new(), version)
            before, version = manifests.load_with_version(storage)
        manifest = before or manifests.new()
        if cut_off:
            _sweep(storage)
        after, result, written = _changed(storage, change, manifest, version)
        if after is not manifest:
            after = msgspec.structs.replace(after, commits=manifest.commits + 1)
            old = manifest.paths()
            new = after.paths()
            gone = ((old | written) - new) | ({manifest.ledger} - {"", after.ledger})
            storage.settle(new - old, gone)
            tried = after
            manifests.save(storage, after, version)
            saved = True
            _remove(storage, gone, writing)
        return result
    except BaseException as problem:
        if saved:  # only an interrupt, or a notice that a filter turns into an error
            problem.add_note(f"{storage}: the rows are stored; the next open removes old files that are left")
            raise
        with suppress(ArchiveError):  # a manifest that cannot be read must not hide the first problem
            _sweep(storage)
        if isinstance(problem, OSError):
            raise _refused(storage, before or Manifest(), tried, problem) from None
        raise


def _remove(storage: Storage, gone: Collection[str], writing: Any) -> None:
    """Remove old files after a commit; a notice says which of them are still there."""
    left = sorted(path for path in gone if not storage.remove(path))
    if not left:
        return
    writing.keep_notes()
    shown = ", ".join(left[:3]) + (" and more" if len(left) > 3 else "")
    todo = "remove them by hand" if storage.remote else "the next open removes them"
    warn_caller(
        f"{storage}: the rows are stored, but {len(left)} old files could not be removed: {todo} ({shown})"
    )


def clean(storage: Storage) -> None:
    """Remove the files of an interrupted writer, unless another one is writing."""
    storage.clean(lambda: _named(storage))


def _named(storage: Storage) -> set[str]:
    """Return the files that the manifest names."""
    manifest = manifests.load(storage) or Manifest()
    return {*manifest.paths(), manifest.ledger}


def _changed(
    storage: Storage, change: Callable[[Manifest], Change[T]], manifest: Manifest, version: Any
) -> Change[T]:
    """Make a change; its failure is a ManifestChanged if another writer may have removed what it read."""
    try:
        return change(manifest)
    except (OSError, ArchiveError):
        if manifests.load_with_version(storage)[1] != version:
            raise ManifestChanged from None
        raise


def past_after(manifest: Manifest, identity: str, changed: Collection[int]) -> str:
    """Return the identity of the past after rows or answers from some instants [µs] on gave `identity`.

    A client regards a window as closed an hour after its end, and caches its answer while the past stays.
    """
    lasts = [file.last for entry in manifest.tables.values() for file in entry.files]
    is_past = lasts and changed and min(changed) < max(lasts) - _CLOSED_MICROS
    return identity if is_past else manifest.past


def _sweep(storage: Storage) -> None:
    """Remove the files of an attempt that failed, or of an interrupted writer."""
    storage.sweep(_named(storage))


def _refused(storage: Storage, before: Manifest, tried: Manifest | None, problem: OSError) -> ArchiveError:
    """Return an error that says whether the rows are there, by the manifest that is stored now."""
    why = problem.strerror or problem
    nothing = ArchiveError(f"{storage}: nothing was appended, all is as it was: {why}")
    if tried is None:  # it failed before the manifest was to be replaced
        return nothing
    again = f"append again, rows that are stored are skipped: {why}"
    try:
        now = manifests.load(storage) or Manifest()
    except ArchiveError:
        return ArchiveError(f"{storage}: whether these rows were appended is not known: {again}")
    if now.commits == before.commits:
        return nothing
    if msgspec.json.encode(now) != msgspec.json.encode(tried):
        return ArchiveError(
            f"{storage}: another writer has committed, and whether these rows were appended is not known: "
            f"{again}"
        )
    return ArchiveError(
        f"{storage}: the rows are there, but the disk did not confirm that a power cut leaves them: {why}"
    )
