"""An archive in a folder: a lock for writers, and a manifest that is replaced by renaming.

The lock is released wherever an interrupt hits the code that holds it. Ctrl-C may come after the lock is
acquired and before a ``try`` begins, or at the start of a ``finally``. A lock left acquired then lives as
long as the traceback: in a notebook, until the next error. So the object is created first without acquiring
anything, and its user releases it in a ``finally`` that begins before the lock is acquired. Releasing it
twice is harmless.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from derivdata.errors import ArchiveError

_POLL_SECONDS = 0.02


class FolderLock:
    """The lock of one file."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._lock = FileLock(path, timeout=timeout, poll_interval=_POLL_SECONDS, mode=0o644)
        self._process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process made the lock: a child that was forked meanwhile has a copy."""
        return os.getpid() == self._process

    def acquire(self) -> None:
        """Acquire the lock; raise `filelock.Timeout`, an OSError, if another process has it for too long."""
        self._lock.acquire()

    def release(self) -> None:
        """Release the lock if it is acquired; a forked child does not release its parent's lock."""
        if self.is_ours and self._lock.is_locked:
            self._lock.release(force=True)


MANIFEST = "archive.json"

LEDGER_FILE = re.compile(r"ledger-[0-9a-f]{32}\.json")
"""Prefix of the file names of the ledger."""

_OWN_FILE = re.compile(
    r"\w+/-?\d{4,}-\d\d(-\d\d)?/(\.[0-9a-f]{32}\.new|[0-9a-f]{32}\.parquet)|" + LEDGER_FILE.pattern
)
"""The archive's own files next to the manifest: drafts, rows, ledgers."""

_LOCK = ".lock"
_MERGE_LOCK = ".merging"
_WRITING = ".writing"
_MERGED = ".merged"


@dataclass(frozen=True)
class LocalFolder:
    """A local or mounted folder that supports locks.

    While files are written, `notes` lists them, and the files that the next manifest will no longer name. The
    leftovers of a killed writer are recognised by these notes, and nothing else is ever removed.
    """

    folder: Path
    notes: str = field(default=_WRITING, compare=False)

    remote = False

    def __str__(self) -> str:
        return str(self.folder)

    @property
    def label(self) -> str:
        """The folder's name."""
        return self.folder.name

    def place(self, path: str) -> str:
        """Return the full path of a file."""
        return os.path.join(self.folder, path)

    def names(self) -> list[str]:
        """Return the names in the folder."""
        return sorted(path.name for path in self.folder.iterdir())

    def manifest_mark(self, *, fresh: bool = False) -> Hashable:
        """Return inode, time and size of the manifest: `fresh` makes no difference."""
        try:
            status = os.stat(f"{self.folder}/{MANIFEST}")
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def read_manifest(self) -> tuple[bytes, Any]:
        """Return the manifest; the lock makes a version needless."""
        return (self.folder / MANIFEST).read_bytes(), None

    def replace_manifest(self, data: bytes, version: Any) -> None:
        """Write the manifest and replace the one before; it is on disk when this returns."""
        draft = self.folder / f".{MANIFEST}.new"
        try:
            draft.unlink(missing_ok=True)
            with draft.open("xb") as file:
                file.write(data)
            sync(draft)
            os.replace(draft, self.folder / MANIFEST)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        sync(self.folder)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return (self.folder / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a file and wait until it is on disk."""
        self._note([path])
        (self.folder / path).write_bytes(data)
        sync(self.folder / path)

    def read_pieces(self, path: str, bounds: Sequence[int]) -> list[bytes]:
        """Return the bytes of a file between neighbouring bounds, or as many as there are."""
        with open(f"{self.folder}/{path}", "rb", buffering=0) as file:
            file.seek(bounds[0])
            return [_read_whole(file, end - start) for start, end in pairwise(bounds)]

    def unique(self, digest: str) -> str:
        """Return the digest: under the lock no other writer makes the same file."""
        return digest

    def draft(self, partition: str) -> Path:
        """Return a path in the partition's folder, which is created."""
        folder = self.folder / partition
        folder.mkdir(parents=True, exist_ok=True)
        name = f".{uuid.uuid4().hex}.new"
        self._note([f"{partition}/{name}"])
        return folder / name

    def publish(self, draft: Path, path: str) -> None:
        """Rename the draft."""
        self._note([path])
        draft.replace(self.folder / path)

    def settle(self, new: Collection[str], gone: Collection[str]) -> None:
        """Wait until new files and the folders that name them are on disk."""
        self._note(gone)
        for path in new:
            sync(self.folder / path)
        for partition in {(self.folder / path).parent for path in new}:
            sync(partition)
        sync(self.folder)

    def remove(self, path: str) -> bool:
        """Remove a file, if it can be; return whether it is gone."""
        try:
            (self.folder / path).unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def clean(self, named: Callable[[], Collection[str]]) -> None:
        """Remove leftovers of an interrupted writer, unless one is active or the folder is read-only.

        `named` returns the files of the manifest, once the lock is acquired.
        """
        if not (self._noted(_WRITING) or self._noted(_MERGED)):
            return
        lock = FolderLock(self.folder / _LOCK, timeout=0)
        try:
            if _acquired(lock):
                with suppress(OSError, ArchiveError):
                    if self.sweep(named()):
                        (self.folder / _WRITING).unlink(missing_ok=True)
        finally:
            lock.release()

    def writing(self, timeout: float) -> Writing:
        """Return the writer's lock, to be taken by a ``with`` statement; see `Writing`."""
        return Writing(self, FolderLock(self.folder / _LOCK, timeout=timeout), timeout)

    def merging(self) -> Merging:
        """Return the context manager for merging months; see `Merging`."""
        return Merging(self, FolderLock(self.folder / _MERGE_LOCK, timeout=0))

    def sweep(self, named: Collection[str]) -> bool:
        """Remove noted files that the manifest does not name, except behind a linked folder.

        Return whether all of it is gone; the rest stays noted.
        """
        left = self._sweep(_WRITING, named)
        self._begin(_WRITING, left)
        lock = FolderLock(self.folder / _MERGE_LOCK, timeout=0)
        try:
            if _acquired(lock) and not self._sweep(_MERGED, named):
                with suppress(OSError):
                    (self.folder / _MERGED).unlink(missing_ok=True)
        finally:
            lock.release()
        return not left

    def _sweep(self, notes: str, named: Collection[str]) -> list[str]:
        """Remove noted files that the manifest does not name; return those that could not be removed."""
        left = []
        for name in sorted(set(self._noted(notes)[1:]) - set(named)):
            path = self.folder / name
            linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
            if _OWN_FILE.fullmatch(name) and not linked and not self.remove(name):
                left.append(name)
        return left

    def _begin(self, notes: str, paths: Collection[str]) -> None:
        """Start notes with this process's id, and the paths noted before."""
        draft = self.folder / f"{notes}.new"
        try:
            draft.unlink(missing_ok=True)  # a new file: nothing is written through a link
            with draft.open("x") as file:
                file.writelines(f"{line}\n" for line in (os.getpid(), *paths))
            os.replace(draft, self.folder / notes)  # a writer that is killed here leaves the previous notes
        except OSError as problem:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise ArchiveError(f"{self.folder}: cannot be written: {problem.strerror}") from None

    def _note(self, paths: Collection[str]) -> None:
        """Append paths to the notes in one write, a line each, because several threads write."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self.folder / self.notes, flags, 0o644)
        try:
            os.write(handle, "".join(f"{path}\n" for path in paths).encode())
        finally:
            os.close(handle)

    def _noted(self, notes: str) -> list[str]:
        """Return the lines of the notes: the writer's process and paths; empty without notes."""
        try:
            return (self.folder / notes).read_text(errors="replace").splitlines()
        except OSError:
            return []


class Writing:
    """The writer's lock: ``with`` gives whether a writer before was cut off, by the notes that it left.

    Whoever enters it calls `release` in a ``finally`` outside the ``with`` too, see `FolderLock`.
    """

    def __init__(self, place: LocalFolder, lock: FolderLock, timeout: float) -> None:
        self._place = place
        self._lock = lock
        self._timeout = timeout
        self._keeps_notes = False

    def keep_notes(self) -> None:
        """Leave the notes, so that the next writer or reader removes the remaining files."""
        self._keeps_notes = True

    def __enter__(self) -> bool:
        place = self._place
        try:
            place.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            holder = next(iter(place._noted(_WRITING)), "unknown")
            raise ArchiveError(
                f"{place.folder}: process {holder} has held the writer's lock for over "
                f"{self._timeout:g} s; nothing was written: wait for it or end it, then append again"
            ) from None
        except OSError as problem:
            raise ArchiveError(f"{place.folder}: cannot be written: {problem.strerror}") from None
        left = [place._noted(notes) for notes in (_WRITING, _MERGED)]
        place._begin(_WRITING, left[0][1:])
        return any(left)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._lock.is_ours and not self._keeps_notes:
                # Remaining notes are harmless: the next writer reads them and removes the files in them.
                with suppress(OSError):
                    (self._place.folder / _WRITING).unlink(missing_ok=True)
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock if it is acquired."""
        self._lock.release()


class Merging:
    """Lock for merging months: ``with`` returns the folder with separate notes, or None.

    It returns None while another process merges. Its user calls `release` as with `Writing`.
    """

    def __init__(self, place: LocalFolder, lock: FolderLock) -> None:
        self._place = place
        self._lock = lock
        self._clears_notes = False

    def __enter__(self) -> LocalFolder | None:
        if not _acquired(self._lock):
            return None
        # Notes of an interrupted writer stay; the next one removes the files in them.
        self._clears_notes = not self._place._noted(_MERGED)
        if self._clears_notes:
            self._place._begin(_MERGED, [])
        return replace(self._place, notes=_MERGED)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._clears_notes:
                with suppress(OSError):
                    (self._place.folder / _MERGED).unlink(missing_ok=True)
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock if it is acquired."""
        self._lock.release()


def _read_whole(file: FileIO, size: int) -> bytes:
    """Return the next bytes of a file, fewer only at its end; a single read may return fewer."""
    data = file.read(size)
    while len(data) < size:
        more = file.read(size - len(data))
        if not more:
            break
        data += more
    return data


def _acquired(lock: FolderLock) -> bool:
    try:
        lock.acquire()
    except (OSError, RuntimeError):  # another has it: a Timeout is an OSError
        return False
    return True


def sync(path: Path) -> None:
    """Wait until a file's or a folder's content is on disk; Windows cannot sync a folder."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
