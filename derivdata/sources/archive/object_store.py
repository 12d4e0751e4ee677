"""Where an archive is: the interface of its storage, and archives on S3 and stores with its protocol.

An object store has no lock and no rename. A writer reads the manifest with its version (ETag), uploads new
files under unique names, and puts the new manifest on condition that the stored one still has that version.
One of two writers succeeds; the other reads the manifest again and repeats its change
(`derivdata.sources.archive.manifest`). So no row is lost, and readers see whole appends only.

Files are named by their path within the archive, are written once and never change. Only the manifest is
replaced, and only while it is still the one that the writer has read: by a lock and an atomic rename in a
folder, by a conditional put in an object store. A missing file raises FileNotFoundError, any other failure
another OSError. Both storages can be pickled, for workers; ``str()`` is the address.
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
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from derivdata.errors import ArchiveError
from derivdata.sources.archive.local_folder import MANIFEST, LocalFolder
from derivdata.support.forking import renew_in_child
from derivdata.support.text import credentials_in, import_extra

_LOOK_SECONDS = 0.25
"""How long one look at the manifest's version serves: a read of a table looks several times."""

_CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404")


_HONEST: set[str] = set()
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
            raise ArchiveError(f"{address}: name a bucket, and a path in it: s3://bucket/path")
        self._root = f"{self._bucket}/{key}".rstrip("/")
        self._prefix = f"{key}/" if key else ""
        self._look: tuple[float, Hashable] | None = None
        self._puts = 0  # of manifests: a look that one of them may have overtaken is not kept
        self._after_fork()
        _ = self._files  # raises with the name of the extra if it is missing
        renew_in_child(self)

    @property
    def _fork_lock(self) -> threading.Lock:
        """Return the lock for caching a read of the manifest, so that a fork does not wait for uploads."""
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
        raise ArchiveError(f"{self}: this needs an archive in a local folder: copy it")

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
        look = self._look  # once: another thread may replace it at any time
        if fresh or look is None or time.monotonic() - look[0] > _LOOK_SECONDS:
            began = time.monotonic()
            puts = self._puts
            try:
                mark = self._head(MANIFEST)["ETag"]
            except OSError:
                mark = None
            look = began, mark
            with self._look_lock:
                if puts == self._puts:
                    self._look = look
        return look[1]

    def read_manifest(self) -> tuple[bytes, Any]:
        """Return the manifest and its ETag."""
        # The version is read first. If the manifest is replaced in between, the pair is an old version with
        # new content, and the put fails. The other order would lose the replacement.
        version = self._head(MANIFEST)["ETag"]
        return self.read(MANIFEST), version

    def replace_manifest(self, data: bytes, version: Any) -> None:
        """Put the manifest, on condition that the stored one has this version, or does not exist."""
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        if self._root not in _HONEST:
            self._check_conditions()
            _HONEST.add(self._root)
        try:
            self._put(MANIFEST, data, **condition)
        except BaseException as problem:
            # A put whose response is lost is repeated: the second one then fails, although the first was
            # applied.
            if not _is_conflict(problem):
                self._published.clear()  # whether it was, or will be, done is unknown: its files must stay
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
        """Remove an object, if that can be done; return whether it is gone."""
        try:
            with _as_os_errors():
                self._files.call_s3("delete_object", Bucket=self._bucket, Key=self._prefix + path)
        except OSError:
            return False
        return True

    def clean(self, named: Callable[[], Collection[str]]) -> None:
        """Do nothing: leftovers of another writer cannot be distinguished from current uploads."""

    def writing(self, timeout: float) -> Writing:
        """Return the lock by which threads that share this object write in turn.

        Other processes are detected at the put.
        """
        # The lock to release: a child that is forked in between has another.
        return Writing(self, self._lock, timeout)

    def merging(self) -> Merging:
        """Allow every process to merge: one of two concurrent puts fails, and uploads of others are safe."""
        return Merging(self, self._merging)

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
                    f"{self}: this store ignores conditions of a put ({header}), so that writers could "
                    "overwrite each other: use a store that has conditional writes"
                )
        finally:
            self.remove(probe)


class Writing:
    """The lock of threads that write; `release` may be called twice, as of `local_folder.Writing`."""

    def __init__(self, store: ObjectStore, lock: threading.RLock, timeout: float) -> None:
        self._store = store
        self._lock = lock
        self._timeout = timeout

    def __enter__(self) -> bool:
        if not self._lock.acquire(timeout=self._timeout):
            raise ArchiveError(
                f"{self._store}: another thread has been writing for over {self._timeout:g} s: append again"
            )
        self._store._published.clear()
        return False

    def __exit__(self, *_: object) -> None:
        self.release()

    def keep_notes(self) -> None:
        """Do nothing: a store of objects has no notes."""

    def release(self) -> None:
        """Release the lock if this thread has it."""
        with suppress(RuntimeError):
            self._lock.release()


class Merging:
    """The threads that merge months: ``with`` gives the store."""

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
    except Exception as problem:  # by package: a class could be named only where s3fs is installed
        if type(problem).__module__.partition(".")[0] not in ("botocore", "aiobotocore", "aiohttp"):
            raise
        raise ConnectionError(errno.EIO, " ".join(str(problem).split())) from None


def _is_conflict(problem: BaseException) -> bool:
    """Return whether a conditional put failed because its condition is false."""
    answer = getattr(problem.__cause__, "response", None) or {}
    return isinstance(problem, FileExistsError) or answer.get("Error", {}).get("Code") in _CONFLICTS


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
            return LocalFolder(Path(path).expanduser().resolve())
        except (ValueError, RuntimeError) as fault:
            raise ValueError(f"path={text!r} must be a valid folder name: {fault}") from None
    if address[1].lower() != "s3":
        raise ArchiveError(
            f"{text}: archives on {address[1]} cannot be opened, only folders and s3://bucket/path: "
            "copy it to one of these first"
        )
    return ObjectStore(text)
