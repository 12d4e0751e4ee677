"""Where the files of an archive are stored: what an archive needs of a folder, or of a store of objects.

Data files are written once and never change. Only the manifest is replaced, and only while it is still the
one that the writer has read. In a folder a lock and an atomic rename see to that (`LocalFolder`), in a store
of objects a conditional put (`derivdata.archive.object_store.ObjectStore`).
"""

from __future__ import annotations

import importlib
import os
import re
import uuid
from collections.abc import Callable, Collection, Hashable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from derivdata.archive.locking import writing
from derivdata.archive.systems import sync
from derivdata.errors import ArchiveError

__all__ = [
    "DATA_FILE",
    "LEDGER_FILE",
    "MANIFEST",
    "LocalFolder",
    "ManifestChanged",
    "Storage",
    "end_of",
    "open_storage",
]

MANIFEST = "archive.json"

LEDGER_FILE = re.compile(r"ledger-[0-9a-f]{32}\.json")
"""What the file is called that holds the ledger of requests."""

DATA_FILE = re.compile(r"\.[0-9a-f]{32}\.new|[0-9a-f]{32}\.(parquet|newest|sums)")
"""Names of the archive's own files: drafts, rows, newest rows, and sums."""

_TAIL_BYTES = 65_536
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


class ManifestChanged(Exception):
    """Another writer has replaced the manifest since it was read: read it again, and repeat the change."""


class Storage(Protocol):
    """Files of an archive by their path within it, ``table/month/digest.parquet``; pickles, for workers.

    An absent file is a FileNotFoundError, whatever else fails another OSError. ``str()`` is the address.
    """

    def __hash__(self) -> int:
        """Return a hash of the address: footers are kept by storage and file."""
        ...

    @property
    def label(self) -> str:
        """Last part of the address: what people call the archive."""
        ...

    @property
    def remote(self) -> bool:
        """Return whether every read is a request: reads are then made in few, large pieces."""
        ...

    @property
    def folder(self) -> Path:
        """The folder on this machine; an ArchiveError where there is none."""
        ...

    def place(self, path: str) -> str:
        """Return the full address of a file, for messages."""
        ...

    def names(self) -> list[str]:
        """Return the names at the top of the archive, files and folders."""
        ...

    def manifest_mark(self, *, fresh: bool = False) -> Hashable:
        """Return what changes with every replacement of the manifest, None without one; it is cheap.

        Unless `fresh`, a look of a moment ago may be repeated.
        """
        ...

    def read_manifest(self) -> tuple[bytes, Any]:
        """Return the manifest, and the version of it that `replace_manifest` takes."""
        ...

    def replace_manifest(self, data: bytes, version: Any) -> None:
        """Replace the manifest; `version` is that of the one that was read, None where there was none.

        Raises
        ------
        ManifestChanged
            It is not the one that was read any more; nothing was written.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a small file."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; it is stored for good when this returns."""
        ...

    def source(self, path: str, size: int) -> Any:
        """Return what pyarrow reads a file from: its path, or a file object; `size` 0 is unknown."""
        ...

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return some bytes of a file."""
        ...

    def tail(self, path: str, size: int, before: int = 0) -> bytes:
        """Return the end of a Parquet file, at least its footer and `before` bytes; `size` 0 is unknown."""
        ...

    def state(self, path: str) -> Hashable:
        """Return what would change if a file were replaced by another."""
        ...

    def unique(self, digest: str) -> str:
        """Return 32 hexadecimal digits for the name of a file of this digest."""
        ...

    def draft(self, partition: str) -> Path:
        """Return the path of a file on this machine to write a file of a partition to."""
        ...

    def publish(self, draft: Path, path: str) -> None:
        """Move a draft to its place."""
        ...

    def settle(self, paths: Collection[str]) -> None:
        """Wait until new files are stored for good."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file that no manifest names; one that cannot be removed does no harm."""
        ...

    def writing(self, timeout: float) -> AbstractContextManager[bool]:
        """Write, while others wait if the storage has locks; yield whether a writer before was cut off."""
        ...

    def sweep(self, named: Collection[str]) -> None:
        """Remove the files that the manifest does not name and that no other writer can be writing."""
        ...


def end_of(read_range: Callable[[int, int], bytes], size: int, before: int) -> bytes:
    """Return the end of a Parquet file: the last 64 KiB, or more if the footer and `before` do not fit.

    The last eight bytes are the length of what the footer says, and four letters.
    """
    end = read_range(max(0, size - _TAIL_BYTES), size)
    length = int.from_bytes(end[-8:-4], "little") + 8 + before
    if length <= len(end) or len(end) == size:
        return end
    return read_range(max(0, size - length - _TAIL_BYTES), size)


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or address.

    Raises
    ------
    ValueError
        It cannot name a folder.
    ArchiveError
        The address is of a kind that archives cannot be on.
    ImportError
        An extra is not installed.
    """
    text = os.fspath(path)
    address = _ADDRESS.match(text)
    if address is None:
        try:
            return LocalFolder(Path(path).expanduser().resolve())
        except (ValueError, RuntimeError) as fault:
            raise ValueError(f"path={text!r} cannot name a folder: {fault}") from None
    if address[1].lower() != "s3":
        raise ArchiveError(
            f"{text}: archives on {address[1]} cannot be opened, only folders and s3://bucket/path: "
            "copy it to one of these first"
        )
    # Only when it is used: most installations lack s3fs.
    objects: Any = importlib.import_module("derivdata.archive.object_store")
    storage: Storage = objects.ObjectStore(text)
    return storage


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

    def source(self, path: str, size: int) -> Any:
        """Return the path: pyarrow reads files itself."""
        return self.folder / path

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return some bytes of a file, or as many as there are."""
        with open(f"{self.folder}/{path}", "rb") as file:
            file.seek(start)
            return file.read(end - start)

    def tail(self, path: str, size: int, before: int = 0) -> bytes:
        """Return the last 64 KiB, or more if footer and `before` do not fit."""
        size = size or os.stat(f"{self.folder}/{path}").st_size
        return end_of(partial(self.read_range, path), size, before)

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

    def writing(self, timeout: float) -> AbstractContextManager[bool]:
        """Hold the writer's lock; see `derivdata.archive.locking.writing`."""
        return writing(self.folder, timeout)

    def sweep(self, named: Collection[str]) -> None:
        """Remove the files of an interrupted writer, which the manifest does not name.

        Files behind a linked folder may belong to another archive: they stay.
        """
        kept = {self.folder / path for path in named}
        for path in self.folder.glob("*/*/*"):
            linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
            if path not in kept and not linked and DATA_FILE.fullmatch(path.name):
                self.remove(str(path.relative_to(self.folder)))
        for path in self.folder.glob("ledger-*.json"):
            if path not in kept and LEDGER_FILE.fullmatch(path.name):
                self.remove(path.name)
