"""Storage of an archive: a local folder, or an object store with the protocol of S3.

Files are named by their path within the archive, are written once and never change. Only the manifest is
replaced, and only while it is still the one that the writer has read. A folder does this by a lock and an
atomic rename. An object store has neither: a writer reads the manifest with its version (ETag), uploads new
files under unique names, and puts the new manifest on condition that the stored one still has that version.
One of two writers succeeds; the other reads the manifest again and repeats its change
(`derivdata.sources.archive.manifest`). So no row is lost, and readers see whole appends only.

A missing file raises FileNotFoundError, any other failure another OSError. Both storages can be pickled, for
workers; ``str()`` is the address.

The lock of a folder is released wherever an interrupt hits the code that holds it. Ctrl-C may come after the
lock is acquired and before a ``try`` begins, or at the start of a ``finally``. A lock left acquired then
stays so until the traceback is deleted: in a notebook, at the next error. So the lock object is created
first, without acquiring anything, and its user releases it in a ``finally`` that begins before the lock is
acquired. Releasing it twice is harmless.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock, Timeout

from derivdata.errors import ArchiveError
from derivdata.support.forking import renew_in_child
from derivdata.support.text import credentials_in, import_extra

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
        """Acquire the lock; raise `filelock.Timeout`, an OSError, if another process holds it too long."""
        self._lock.acquire()

    def release(self) -> None:
        """Release the lock if it is acquired; a forked child does not release its parent's lock."""
        if self.is_ours and self._lock.is_locked:
            self._lock.release(force=True)


MANIFEST = "archive.json"

LEDGER_FILE = re.compile(r"ledger-[0-9a-f]{32}\.json")
"""Pattern of the file names of the ledger."""

_ARCHIVE_FILE = re.compile(
    r"\w+/-?\d{4,}-\d\d(-\d\d)?/(\.[0-9a-f]{32}\.new|[0-9a-f]{32}\.parquet)|" + LEDGER_FILE.pattern
)
"""The archive's own files next to the manifest: drafts, rows, ledgers."""

_LOCK = ".lock"
_MERGE_LOCK = ".merging"
_WRITING = ".writing"
_MERGED = ".merged"
_DRAFTS = (f".{MANIFEST}.new", f"{_WRITING}.new")
"""Files that a writer renames at once; it leaves them if it is killed or the disk fails."""


@dataclass(frozen=True)
class LocalFolder:
    """A local or mounted folder that supports locks.

    While files are written, `notes` lists them, and the files that the next manifest will no longer name.
    These notes identify the files of an interrupted writer; no other file is ever removed.
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
        """Return inode, time and size of the manifest, always current: `fresh` has no effect."""
        try:
            status = os.stat(f"{self.folder}/{MANIFEST}")
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def read_manifest(self) -> tuple[bytes, Any]:
        """Return the manifest; a version is not necessary under the lock."""
        return (self.folder / MANIFEST).read_bytes(), None

    def replace_manifest(self, data: bytes, version: Any) -> None:
        """Write the manifest in place of the previous one; it is on disk when this returns."""
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
        """Return the bytes of a file between consecutive bounds; fewer at the end of the file."""
        with open(f"{self.folder}/{path}", "rb", buffering=0) as file:
            file.seek(bounds[0])
            return [_read_whole(file, end - start) for start, end in pairwise(bounds)]

    def unique(self, digest: str) -> str:
        """Return the digest: under the lock no other writer creates the same file."""
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
        """Add the files that the next manifest omits to the notes, and wait until new files are on disk."""
        self._note(gone)
        for path in new:
            sync(self.folder / path)
        for partition in {(self.folder / path).parent for path in new}:
            sync(partition)  # the folder's entry of the file
        sync(self.folder)

    def remove(self, path: str) -> bool:
        """Remove a file if possible; return whether it is gone."""
        try:
            (self.folder / path).unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def clean(self, named: Callable[[], Collection[str]]) -> None:
        """Remove leftovers of an interrupted writer, unless one is active or the folder is read-only.

        `named` returns the files of the manifest, once the lock is acquired.
        """
        drafts = [self.folder / name for name in _DRAFTS if (self.folder / name).exists()]
        if not (drafts or self._noted(_WRITING) or self._noted(_MERGED)):
            return
        lock = FolderLock(self.folder / _LOCK, timeout=0)
        try:
            if _try_to_acquire(lock):
                with suppress(OSError, ArchiveError):
                    for draft in drafts:
                        draft.unlink(missing_ok=True)
                    if self.sweep(named()):
                        (self.folder / _WRITING).unlink(missing_ok=True)
        finally:
            lock.release()

    def writing(self, timeout: float) -> FolderWriting:
        """Return the writer's lock, for a ``with`` statement; see `FolderWriting`."""
        return FolderWriting(self, FolderLock(self.folder / _LOCK, timeout=timeout), timeout)

    def merging(self) -> FolderMerging:
        """Return the context manager for merging months; see `FolderMerging`."""
        return FolderMerging(self, FolderLock(self.folder / _MERGE_LOCK, timeout=0))

    def sweep(self, named: Collection[str]) -> bool:
        """Remove noted files that the manifest does not name, except in linked folders.

        Return whether all are gone; the others stay noted.
        """
        remaining = self._remove_noted(_WRITING, named)
        self._start_notes(_WRITING, remaining)
        lock = FolderLock(self.folder / _MERGE_LOCK, timeout=0)
        try:
            if _try_to_acquire(lock) and not self._remove_noted(_MERGED, named):
                with suppress(OSError):
                    (self.folder / _MERGED).unlink(missing_ok=True)
        finally:
            lock.release()
        return not remaining

    def _remove_noted(self, notes: str, named: Collection[str]) -> list[str]:
        """Remove noted files that the manifest does not name; return those that could not be removed."""
        remaining = []
        for name in sorted(set(self._noted(notes)[1:]) - set(named)):
            path = self.folder / name
            is_linked = path.parent.is_symlink() or path.parent.parent.is_symlink()
            if _ARCHIVE_FILE.fullmatch(name) and not is_linked and not self.remove(name):
                remaining.append(name)
        return remaining

    def _start_notes(self, notes: str, paths: Collection[str]) -> None:
        """Start notes with this process's id, and the paths noted before."""
        draft = self.folder / f"{notes}.new"
        try:
            draft.unlink(missing_ok=True)  # so that nothing is written through a link
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


class FolderWriting:
    """The writer's lock: ``with`` returns whether an earlier writer was interrupted, by its notes.

    The caller also calls `release` in a ``finally`` outside the ``with``: see the module's docstring.
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
                f"{self._timeout:g} s. Nothing was written; wait for it or end it, then append again"
            ) from None
        except OSError as problem:
            raise ArchiveError(f"{place.folder}: cannot be written: {problem.strerror}") from None
        noted = place._noted(_WRITING)
        was_interrupted = bool(noted or place._noted(_MERGED))
        # The first line is the process of the interrupted writer. Its files stay noted until removed.
        place._start_notes(_WRITING, noted[1:])
        return was_interrupted

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


class FolderMerging:
    """Lock for merging months: ``with`` returns the folder with separate notes, or None.

    It returns None while another process merges. Its user calls `release` as with `FolderWriting`.
    """

    def __init__(self, place: LocalFolder, lock: FolderLock) -> None:
        self._place = place
        self._lock = lock
        self._clears_notes = False

    def __enter__(self) -> LocalFolder | None:
        if not _try_to_acquire(self._lock):
            return None
        # Notes of an interrupted writer stay; the next one removes the files in them.
        self._clears_notes = not self._place._noted(_MERGED)
        if self._clears_notes:
            self._place._start_notes(_MERGED, [])
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


def _try_to_acquire(lock: FolderLock) -> bool:
    """Acquire a lock and return True, or return False if that is not possible."""
    try:
        lock.acquire()
    except (OSError, RuntimeError):  # another process holds it: a Timeout is an OSError
        return False
    return True


def sync(path: Path) -> None:
    """Wait until a file's or a folder's content is on disk; Windows cannot sync a folder."""
    if os.name == "nt" and path.is_dir():
        return
    flags = os.O_RDONLY
    if os.name == "nt":  # it syncs only files that are open for writing
        flags = os.O_RDWR | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_LOOK_SECONDS = 0.25
"""Seconds for which the manifest's version is cached: a read of a table needs it several times."""

_CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404")


_CHECKED_STORES: set[str] = set()
"""Places whose store rejected a put with a false condition, in this process."""


class ManifestChanged(Exception):
    """Another writer has replaced the manifest since it was read: read it again, and repeat the change."""


class ObjectStore:
    """The files of an archive at ``s3://bucket/path``, found by the environment.

    Instances have no connection and no credentials, so they can be pickled, and a forked child creates its
    own.
    """

    remote = True

    def __init__(self, address: str) -> None:
        self._bucket, _, key = address.partition("://")[2].strip("/").partition("/")
        if not self._bucket:
            raise ArchiveError(f"{address}: expected s3://bucket/path, got no bucket")
        self._root = f"{self._bucket}/{key}".rstrip("/")
        self._prefix = f"{key}/" if key else ""
        self._look: tuple[float, Hashable] | None = None
        self._puts = 0  # of manifests: a version read before a put is not cached after it
        self._after_fork()
        _ = self._files  # raises with the name of the extra if it is missing
        renew_in_child(self)

    @property
    def _fork_lock(self) -> threading.Lock:
        """The lock that a fork waits for: that of the cached manifest, because uploads hold the other one."""
        return self._look_lock

    def _after_fork(self) -> None:
        """Create the locks, and forget uploads, which in a child belong to a writer in the parent."""
        self._look_lock = threading.Lock()
        self._lock = threading.RLock()
        self._published: list[str] = []  # by the current attempt, which has the lock
        self._merging: set[int] = set()  # threads that upload months next to it

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStore, (str(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and other._root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    def __str__(self) -> str:
        return f"s3://{self._root}"

    @property
    def _files(self) -> Any:
        # fsspec keeps one instance per process and options, so that this costs microseconds.
        s3fs = import_extra("s3fs", "s3", "an archive on s3://")
        return s3fs.S3FileSystem(use_listings_cache=False)

    @property
    def label(self) -> str:
        """Last part of the address."""
        return self._root.rpartition("/")[2]

    @property
    def folder(self) -> Path:
        """Raise, because an object store has no folder."""
        raise ArchiveError(
            f"{self}: this operation requires an archive in a local folder: copy the archive to one"
        )

    def place(self, path: str) -> str:
        """Return the address of an object."""
        return f"s3://{self._root}/{path}"

    def names(self) -> list[str]:
        """Return the names below the path."""
        with _as_os_errors():
            listing = self._files.ls(self._root, detail=False)
        return sorted(name.rpartition("/")[2] for name in listing if name.strip("/") != self._root)

    def manifest_mark(self, *, fresh: bool = False) -> Hashable:
        """Return the ETag of the manifest."""
        cached = self._look  # read once, because another thread may replace it at any time
        if cached is not None and not fresh:
            read_at, mark = cached
            if time.monotonic() - read_at <= _LOOK_SECONDS:
                return mark
        began = time.monotonic()
        puts = self._puts
        try:
            mark = self._head(MANIFEST)["ETag"]
        except OSError:
            mark = None
        with self._look_lock:
            if puts == self._puts:
                self._look = began, mark
        return mark

    def read_manifest(self) -> tuple[bytes, Any]:
        """Return the manifest and its ETag."""
        # The version is read first. If the manifest is replaced in between, the pair is an old version with
        # new content, and the put fails. The other order would lose the replacement.
        version = self._head(MANIFEST)["ETag"]
        return self.read(MANIFEST), version

    def replace_manifest(self, data: bytes, version: Any) -> None:
        """Put the manifest, on condition that the stored one has this version, or does not exist."""
        condition = {"IfMatch": version}
        if version is None:
            condition = {"IfNoneMatch": "*"}
        if self._root not in _CHECKED_STORES:
            self._check_conditions()
            _CHECKED_STORES.add(self._root)
        try:
            self._put(MANIFEST, data, **condition)
        except BaseException as problem:
            # A put whose response is lost is repeated: the second one then fails, although the first was
            # applied.
            if not _is_conflict(problem):
                self._published.clear()  # the put may still be applied, so its files must stay
                raise
            if self.read(MANIFEST) != data:
                raise ManifestChanged from None
        finally:
            with self._look_lock:
                self._puts += 1
                self._look = None

    def read(self, path: str) -> bytes:
        """Return an object."""
        with _as_os_errors():
            return bytes(self._files.cat_file(f"{self._root}/{path}"))

    def write(self, path: str, data: bytes) -> None:
        """Put an object."""
        self._published.append(path)
        self._put(path, data)

    def read_pieces(self, path: str, bounds: Sequence[int]) -> list[bytes]:
        """Return the bytes of an object between neighbouring bounds, by one request."""
        first = bounds[0]
        with _as_os_errors():
            data = bytes(self._files.cat_file(f"{self._root}/{path}", start=first, end=bounds[-1]))
        return [data[start - first : end - first] for start, end in pairwise(bounds)]

    def unique(self, digest: str) -> str:
        """Return digits, half of them random, so that of two equal files a writer can remove its own."""
        return digest[:16] + uuid.uuid4().hex[:16]

    def draft(self, partition: str) -> Path:
        """Return a path in the folder for temporary files."""
        return Path(tempfile.gettempdir()) / f".{uuid.uuid4().hex}.new"

    def publish(self, draft: Path, path: str) -> None:
        """Upload a draft, and remove it here."""
        if threading.get_ident() not in self._merging:
            self._published.append(path)
        try:
            with _as_os_errors():
                self._files.put_file(str(draft), f"{self._root}/{path}")
        finally:
            draft.unlink(missing_ok=True)

    def settle(self, new: Collection[str], gone: Collection[str]) -> None:
        """Do nothing: an object is durable once its upload succeeded."""

    def remove(self, path: str) -> bool:
        """Remove an object if possible; return whether it is gone."""
        try:
            with _as_os_errors():
                self._files.call_s3("delete_object", Bucket=self._bucket, Key=self._prefix + path)
        except OSError:
            return False
        return True

    def clean(self, named: Callable[[], Collection[str]]) -> None:
        """Do nothing: leftovers of another writer cannot be distinguished from current uploads."""

    def writing(self, timeout: float) -> StoreWriting:
        """Return the lock by which threads that share this object write in turn.

        Other processes are detected at the put.
        """
        # The lock is passed, because a child that is forked meanwhile has a new one.
        return StoreWriting(self, self._lock, timeout)

    def merging(self) -> StoreMerging:
        """Allow every process to merge: one of two concurrent puts fails, and uploads of others are safe."""
        return StoreMerging(self, self._merging)

    def sweep(self, named: Collection[str]) -> None:
        """Remove the uploads of this attempt that no manifest names; other uploads are unknown."""
        for path in self._published:
            if path not in named:
                self.remove(path)
        self._published.clear()

    def _head(self, path: str) -> Any:
        with _as_os_errors():
            return self._files.call_s3("head_object", Bucket=self._bucket, Key=self._prefix + path)

    def _put(self, path: str, data: bytes, **condition: str) -> None:
        with _as_os_errors():
            key = self._prefix + path
            self._files.call_s3("put_object", Bucket=self._bucket, Key=key, Body=data, **condition)

    def _check_conditions(self) -> None:
        """Check that the store rejects puts with a false condition, on a unique key."""
        probe = f".{uuid.uuid4().hex}.probe"
        try:
            self._put(probe, b"")
            for header, condition in (
                ("If-None-Match", {"IfNoneMatch": "*"}),
                ("If-Match", {"IfMatch": '"0"'}),
            ):
                try:
                    self._put(probe, b"", **condition)
                except OSError as problem:
                    if _is_conflict(problem):
                        continue
                    raise
                raise ArchiveError(
                    f"{self}: this store ignores the header {header} of put requests, so writers could "
                    "overwrite each other: use a store with conditional writes"
                )
        finally:
            self.remove(probe)


class StoreWriting:
    """The lock of threads that write; `release` may be called twice, as in `FolderWriting`."""

    def __init__(self, store: ObjectStore, lock: threading.RLock, timeout: float) -> None:
        self._store = store
        self._lock = lock
        self._timeout = timeout

    def __enter__(self) -> bool:
        if not self._lock.acquire(timeout=self._timeout):
            raise ArchiveError(
                f"{self._store}: another thread has been writing for over {self._timeout:g} s. Nothing was "
                "written; append again"
            )
        self._store._published.clear()
        return False

    def __exit__(self, *_: object) -> None:
        self.release()

    def keep_notes(self) -> None:
        """Do nothing: an object store has no notes."""

    def release(self) -> None:
        """Release the lock if this thread has it."""
        with suppress(RuntimeError):
            self._lock.release()


class StoreMerging:
    """The threads that merge months: ``with`` returns the store."""

    def __init__(self, store: ObjectStore, threads: set[int]) -> None:
        self._store = store
        self._threads = threads

    def __enter__(self) -> ObjectStore:
        self._threads.add(threading.get_ident())
        return self._store

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Remove this thread from the merging ones."""
        self._threads.discard(threading.get_ident())


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Convert botocore's errors (no credentials, no such host) to a ConnectionError."""
    try:
        yield
    except OSError:
        raise
    except Exception as problem:  # checked by package, because the classes exist only with s3fs
        if type(problem).__module__.partition(".")[0] not in ("botocore", "aiobotocore", "aiohttp"):
            raise
        raise ConnectionError(errno.EIO, " ".join(str(problem).split())) from None


def _is_conflict(problem: BaseException) -> bool:
    """Return whether a conditional put failed because its condition is false."""
    response = getattr(problem.__cause__, "response", None) or {}
    return isinstance(problem, FileExistsError) or response.get("Error", {}).get("Code") in _CONFLICTS


Storage: TypeAlias = LocalFolder | ObjectStore

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or address."""
    text = os.fspath(path)
    if isinstance(text, str) and credentials_in(text) is not None:
        raise ArchiveError(
            "the address of the archive contains a user, a password or a query (it is not shown): use "
            "s3://bucket/path; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    address = _ADDRESS.match(text)
    if address is None:
        try:
            folder = Path(path).expanduser().resolve()
            folder.exists()
        except (ValueError, RuntimeError) as fault:
            raise ValueError(f"path={text!r} must be a valid folder name: {fault}") from None
        except OSError as fault:
            raise ArchiveError(f"{text[:200]}: the archive cannot be opened: {fault.strerror}") from None
        return LocalFolder(folder)
    if address[1].lower() != "s3":
        raise ArchiveError(
            f"{text}: expected a folder or s3://bucket/path, got {address[1]}: copy the archive to one of "
            "these"
        )
    return ObjectStore(text)
