"""An archive in a folder: a lock for writers, and a manifest that is replaced by renaming."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from derivdata.errors import ArchiveError

MANIFEST = "archive.json"

LEDGER_FILE = re.compile(r"ledger-[0-9a-f]{32}\.json")
"""What the file is called that holds the ledger of requests."""

_OWN_FILE = re.compile(
    r"\w+/-?\d{4,}-\d\d(-\d\d)?/(\.[0-9a-f]{32}\.new|[0-9a-f]{32}\.parquet)|" + LEDGER_FILE.pattern
)
"""The archive's own files beside the manifest: drafts, rows, ledgers."""

_LOCK, _MERGE_LOCK = ".lock", ".merging"
_WRITING, _MERGED = ".writing", ".merged"
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine, or one that is mounted there and has locks.

    While files are written, `notes` names them, and those that the next manifest will no longer name: what a
    writer that is killed leaves is known by it, and nothing else is ever cleared away.
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

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return some bytes of a file, or as many as there are."""
        with open(f"{self.folder}/{path}", "rb") as file:
            file.seek(start)
            return file.read(end - start)

    def unique(self, digest: str) -> str:
        """Return the digest: under the lock no other writer makes the same file."""
        return digest

    def draft(self, partition: str) -> Path:
        """Return a path in the partition's folder, which is made."""
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

    def remove(self, path: str) -> None:
        """Remove a file, if it can be."""
        with suppress(OSError):
            (self.folder / path).unlink()

    @contextmanager
    def writing(self, timeout: float) -> Iterator[bool]:
        """Hold the writer's lock; yield whether a writer before was cut off, by the notes that it left."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / _LOCK, timeout=timeout, poll_interval=_POLL_SECONDS, mode=0o644)
            lock.acquire()
        except Timeout:
            holder = next(iter(self._noted(_WRITING)), "unknown")
            raise ArchiveError(
                f"{self.folder}: process {holder} has held the writer's lock for over "
                f"{timeout:g} s; nothing was written: wait for it or end it, then append again"
            ) from None
        except OSError as problem:
            raise ArchiveError(f"{self.folder}: cannot be written: {problem.strerror}") from None
        holds = os.getpid()
        try:
            left = [self._noted(notes) for notes in (_WRITING, _MERGED)]
            self._begin(_WRITING, left[0][1:])
            yield any(left)
            if os.getpid() == holds:
                (self.folder / _WRITING).unlink(missing_ok=True)
        finally:
            if os.getpid() == holds:  # a child that was forked meanwhile must not release its parent's
                lock.release()

    @contextmanager
    def merging(self) -> Iterator[LocalFolder | None]:
        """Keep others from merging months; yield the folder with notes of its own, beside a writer's."""
        with self._alone() as alone:
            if not alone:
                yield None
                return
            cut_off = bool(self._noted(_MERGED))  # these stay, for the next writer to clear away
            if not cut_off:
                self._begin(_MERGED, [])
            yield replace(self, notes=_MERGED)
            if not cut_off:
                (self.folder / _MERGED).unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        lock = FileLock(self.folder / _MERGE_LOCK, timeout=0, mode=0o644)
        try:
            lock.acquire()
        except (OSError, RuntimeError):  # another has it: a Timeout is an OSError
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def sweep(self, named: Collection[str]) -> None:
        """Remove what was noted and the manifest does not name, but not what lies behind a linked folder."""
        self._sweep(_WRITING, named)
        self._begin(_WRITING, [])
        with self._alone() as alone:
            if alone:
                self._sweep(_MERGED, named)
                (self.folder / _MERGED).unlink(missing_ok=True)

    def _sweep(self, notes: str, named: Collection[str]) -> None:
        for name in set(self._noted(notes)[1:]) - set(named):
            path = self.folder / name
            linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
            if _OWN_FILE.fullmatch(name) and not linked:
                self.remove(name)

    def _begin(self, notes: str, paths: Collection[str]) -> None:
        """Begin notes with this process's id, and paths that were noted before."""
        draft = self.folder / f"{notes}.new"
        try:
            draft.unlink(missing_ok=True)  # a new file: nothing is written through a link
            with draft.open("x") as file:
                file.writelines(f"{line}\n" for line in (os.getpid(), *paths))
            os.replace(draft, self.folder / notes)  # one that is killed here leaves the notes before
        except OSError as problem:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise ArchiveError(f"{self.folder}: cannot be written: {problem.strerror}") from None

    def _note(self, paths: Collection[str]) -> None:
        """Add paths to the notes: a line each, at once, as several threads write."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self.folder / self.notes, flags, 0o644)
        try:
            os.write(handle, "".join(f"{path}\n" for path in paths).encode())
        finally:
            os.close(handle)

    def _noted(self, notes: str) -> list[str]:
        """Return the lines of notes: who wrote them, and paths; none where there are no notes."""
        try:
            return (self.folder / notes).read_text(errors="replace").splitlines()
        except OSError:
            return []


def sync(path: Path) -> None:
    """Wait until a file's or a folder's content is on disk; Windows cannot sync a folder."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
