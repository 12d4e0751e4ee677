"""An archive in a folder: a lock for writers, and a manifest that is replaced by renaming."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from derivdata.errors import ArchiveError
from derivdata.sources.archive.storage import DATA_FILE, LEDGER_FILE, MANIFEST

__all__ = ["LocalFolder"]

_LOCK, _SIGN, _MERGE_LOCK = ".lock", ".writing", ".merging"
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine, or one that is mounted there and has locks."""

    folder: Path

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
            return self.state(MANIFEST)
        except OSError:
            return None

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
        (self.folder / path).write_bytes(data)
        sync(self.folder / path)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return some bytes of a file, or as many as there are."""
        with open(f"{self.folder}/{path}", "rb") as file:
            file.seek(start)
            return file.read(end - start)

    def state(self, path: str) -> Hashable:
        """Return inode, time and size."""
        status = os.stat(f"{self.folder}/{path}")
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def unique(self, digest: str) -> str:
        """Return the digest: under the lock no other writer makes the same file."""
        return digest

    def draft(self, partition: str) -> Path:
        """Return a path in the partition's folder, which is made."""
        folder = self.folder / partition
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f".{uuid.uuid4().hex}.new"

    def publish(self, draft: Path, path: str) -> None:
        """Rename the draft."""
        draft.replace(self.folder / path)

    def settle(self, paths: Collection[str]) -> None:
        """Wait until new files and the folders that name them are on disk."""
        for path in paths:
            sync(self.folder / path)
        for partition in {(self.folder / path).parent for path in paths}:
            sync(partition)
        sync(self.folder)

    def remove(self, path: str) -> None:
        """Remove a file, if it can be."""
        with suppress(OSError):
            (self.folder / path).unlink()

    @contextmanager
    def writing(self, timeout: float) -> Iterator[bool]:
        """Hold the writer's lock; yield whether the writer before was cut off and may have left files.

        While one writes, a file beside the lock holds its process id: one that is found there belongs to a
        writer that was killed.

        Raises
        ------
        ArchiveError
            Another writer held it for `timeout` seconds, or the folder cannot be written.
        """
        sign = self.folder / _SIGN
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / _LOCK, timeout=timeout, poll_interval=_POLL_SECONDS, mode=0o644)
            lock.acquire()
        except Timeout:
            holder = (sign.read_text() if sign.is_file() else "") or "unknown"
            raise ArchiveError(
                f"{self.folder}: process {holder} has held the writer's lock for over {timeout:g} s; "
                "nothing was written: wait for it or end it, then append again"
            ) from None
        except OSError as problem:
            raise ArchiveError(f"{self.folder}: cannot be written: {problem.strerror}") from None
        holds = os.getpid()
        try:
            yield self._signed(sign)
            if os.getpid() == holds:
                sign.unlink(missing_ok=True)
        finally:
            if os.getpid() == holds:  # a child that was forked meanwhile must not release its parent's
                lock.release()

    def _signed(self, sign: Path) -> bool:
        """Write this process's id; return whether another's was left there."""
        try:
            cut_off = sign.is_symlink() or sign.exists()
            sign.unlink(missing_ok=True)  # a new file: what is written must not go through a link
            with sign.open("x") as file:
                file.write(str(os.getpid()))
        except OSError as problem:
            raise ArchiveError(f"{self.folder}: cannot be written: {problem.strerror}") from None
        return cut_off

    @contextmanager
    def merging(self) -> Iterator[bool]:
        """Keep others from merging months, and from sweeping files that no manifest names yet."""
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
        """Remove the files of an interrupted writer, which the manifest does not name.

        Files behind a linked folder may belong to another archive: they stay. So do all while months are
        being merged, until the next writer that was cut off: a month's file is named when it is whole.
        """
        with self.merging() as alone:
            if alone:
                self._sweep(named)

    def _sweep(self, named: Collection[str]) -> None:
        kept = {self.folder / path for path in named}
        for path in self.folder.glob("*/*/*"):
            linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
            if path not in kept and not linked and DATA_FILE.fullmatch(path.name):
                self.remove(str(path.relative_to(self.folder)))
        for path in self.folder.glob("ledger-*.json"):
            if path not in kept and LEDGER_FILE.fullmatch(path.name):
                self.remove(path.name)


def sync(path: Path) -> None:
    """Wait until a file's or a folder's content is on disk; Windows cannot sync a folder."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
