"""The folder of cached responses, one file each, shared by any number of threads and processes.

A file is a seal (one line), a head (one line of JSON) and the compressed body. The seal is the sha256 of
everything after it, so a damaged file is a cache miss. The file stores only path and query of the request,
and reading it runs no code. Files are replaced atomically and without locks: the last writer wins.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import pandas as pd
import platformdirs
import pyarrow as pa

from derivdata.client.transport.response import DIGEST_HEADER, http_date
from derivdata.errors import CacheNotice
from derivdata.support import times
from derivdata.support.files import TEMPORARY, file_system_time, private_folder, replace_file
from derivdata.support.text import warn_caller

LIMIT_BYTES = 2**30
"""Maximum size of all cached responses [bytes]. The oldest are removed first."""

_SUFFIX = ".answer"
_STRAY_SECONDS = 3600.0
EVICT_EVERY_BYTES = 64 * 2**20
_HEAD_BYTES = 1 << 14
_MAGIC = b"derivdata-answer-2 "
_BODY_BYTES = 1 << 30
_CODEC = pa.Codec("zstd", compression_level=1)


class Checks(msgspec.Struct, frozen=True):
    """Checks that a response passed, so that a reading from the cache need not repeat them.

    Attributes
    ----------
    version
        Digest of the code that checked it. Code of another version checks it again.
    rules
        By reader (table and function), the rules that gave a notice or changed rows: these alone run again.
    """

    version: str
    rules: dict[str, list[str]]


class Head(msgspec.Struct):
    """The head of a record, without the body; `url` is path and query."""

    key: str
    url: str
    headers: dict[str, str]
    created: datetime
    expires: Annotated[datetime, msgspec.Meta(tz=True)] | None
    body_bytes: int
    checks: Checks | None = None


_HEADS = msgspec.json.Decoder(Head)


class Record(NamedTuple):
    """An intact record."""

    head: Head
    body: bytes


def dump(head: Head, body: bytes) -> bytes:
    """Return the bytes of a record."""
    packed: bytes = _CODEC.compress(body, asbytes=True)
    return _sealed(head, packed)


def _sealed(head: Head, packed: bytes) -> bytes:
    """Return the bytes of a record from its head and its compressed body."""
    # JSON does not contain bare newlines, so the first one ends the head.
    rest = msgspec.json.encode(head) + b"\n" + packed
    return _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def read(data: bytes, key: str) -> Record | None:
    """Decode a record; return None if it is damaged or stored under another key."""
    head_and_body = _opened(data, key)
    if head_and_body is None:
        return None
    head, packed = head_and_body
    try:
        return Record(head, bytes(_CODEC.decompress(packed, head.body_bytes, asbytes=True)))
    except OSError:
        return None


def _opened(data: bytes, key: str) -> tuple[Head, bytes] | None:
    """Return the head and the compressed body; None if the record is damaged or stored under another key."""
    # The seal is checked first: damaged data is never decoded, and the decompressed size comes from an intact
    # head, so a damaged file cannot allocate much memory. The hash is not keyed: it detects damage (a torn
    # write, a bad disk), not a forged file.
    seal, _, rest = data.partition(b"\n")
    if seal != _MAGIC + hashlib.sha256(rest).hexdigest().encode():
        return None
    line, _, packed = rest.partition(b"\n")
    head = _head(line)
    # A copied or renamed file is intact but has another key.
    if head is None or head.key != key or head.body_bytes > _BODY_BYTES:
        return None
    return head, packed


def _head(line: bytes) -> Head | None:
    try:
        return _HEADS.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def records(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield path and stat result of each record of all sources; skip files that are removed meanwhile."""
    for path in _files(folder):
        with suppress(OSError):
            if path.suffix == _SUFFIX:
                yield path, path.stat()


def evict(folder: Path, limit: int) -> None:
    """Remove the oldest responses until the rest fits, and temporary files of terminated writers."""
    by_age = sorted((state.st_mtime, state.st_size, path) for path, state in records(folder))
    excess = sum(size for _, size, _ in by_age) - limit
    for _, size, path in by_age:
        if excess <= 0:
            break
        excess -= size
        with suppress(OSError):
            path.unlink()
    strays = [path for path in _files(folder) if path.name.startswith(TEMPORARY)]
    if not strays:
        return
    now = file_system_time(folder)
    for path in strays:
        with suppress(OSError):
            if now - path.stat().st_mtime > _STRAY_SECONDS:
                path.unlink()


def _files(folder: Path) -> Iterator[Path]:
    return (Path(place, name) for place, _, names in os.walk(folder) for name in names)


class ResponseFiles:
    """The cached responses of one source, each under its cache key."""

    def __init__(self, root: Path, scope: str) -> None:
        self.trouble: str | None = None  # reason of the last failed write; the reader resets it
        self._root = root
        self._folder = root / scope
        self._unchecked = EVICT_EVERY_BYTES
        self._dated: tuple[int, list[tuple[pd.Timestamp, str]]] = (0, [])

    def record(self, key: str) -> Record | None:
        """Return the record of a key; None if it is missing or damaged."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        return read(data, key)

    def keep(self, head: Head, body: bytes) -> None:
        """Store a response under its key. A failure sets `trouble` and does not raise."""
        try:
            self._write(head.key, dump(head, body))
        except OSError as error:
            self.trouble = f"{self._folder}: {error.strerror or error}"

    def keep_checks(self, key: str, checks: Checks, *, digest: str, date: pd.Timestamp) -> None:
        """Add the checks that a response passed to its record, without changing the record's age.

        Nothing is written if the record was replaced by another response meanwhile: its `digest` or its
        ``Date`` differs.
        """
        path = self._path(key)
        with suppress(OSError):
            state = path.stat()
            head_and_body = _opened(path.read_bytes(), key)
            if head_and_body is None:
                return
            head, packed = head_and_body
            headers = head.headers
            if headers.get(DIGEST_HEADER) != digest or http_date(headers.get("Date")) != date:
                return
            if head.checks is not None and head.checks.version == checks.version:
                checks = Checks(checks.version, head.checks.rules | checks.rules)
            head.checks = checks
            replace_file(path, _sealed(head, packed), times_ns=(state.st_atime_ns, state.st_mtime_ns))

    def forget(self, key: str) -> None:
        """Remove the record of a key."""
        with suppress(OSError):
            self._path(key).unlink()

    def keys(self) -> Iterator[str]:
        """Yield the keys of all records."""
        return (path.stem for path in self._folder.glob(f"*{_SUFFIX}"))

    def newest(self, before: pd.Timestamp) -> pd.Timestamp | None:
        """Return the latest ``Date`` up to `before` of this source's intact records; None without any.

        Candidates are read from the heads alone, and a date is used only if the sealed record confirms it.
        """
        for date, key in sorted(self._dates(), reverse=True):
            if date > before:
                continue
            record = self.record(key)
            if record is not None and http_date(record.head.headers.get("Date")) == date:
                return date
        return None

    def _dates(self) -> list[tuple[pd.Timestamp, str]]:
        """Return ``Date`` and key of each dated record. The list is read again when the folder changes."""
        with suppress(OSError):
            state = self._folder.stat().st_mtime_ns
            if state != self._dated[0]:
                self._dated = state, list(self._read_dates())
        return self._dated[1]

    def _read_dates(self) -> Iterator[tuple[pd.Timestamp, str]]:
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with suppress(OSError), path.open("rb") as file:
                seal, _, rest = file.read(_HEAD_BYTES).partition(b"\n")
                if not seal.startswith(_MAGIC):
                    continue
                head = _head(rest.partition(b"\n")[0])
                if head is None:
                    continue
                date = http_date(head.headers.get("Date"))
                if date is not None:
                    yield date, path.stem

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_SUFFIX}"

    def _write(self, key: str, data: bytes) -> None:
        private_folder(self._folder)
        replace_file(self._path(key), data)
        self._unchecked += len(data)
        if self._unchecked > EVICT_EVERY_BYTES:
            self._unchecked = 0
            evict(self._root, LIMIT_BYTES)


def cache_folder() -> Path:
    """Return ``DERIVDATA_CACHE_DIR``, else the platform's folder for a user's caches.

    A user without a home folder, as in many containers, gets a temporary one with a `CacheNotice`; it is
    removed when the process ends.
    """
    setting = os.environ.get("DERIVDATA_CACHE_DIR")
    try:
        return Path(setting or platformdirs.user_cache_dir("derivdata", appauthor=False)).expanduser()
    except RuntimeError:
        if setting:
            raise ValueError(
                f"DERIVDATA_CACHE_DIR={setting!r} cannot be expanded: this user has no home folder; set an "
                "absolute path"
            ) from None
        return _temporary_folder()


@lru_cache(maxsize=1)
def _temporary_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="derivdata-")
    atexit.register(_remove, folder, os.getpid())
    warn_caller(
        f"this user has no home folder: the cache is in {folder} until this process ends; set "
        "DERIVDATA_CACHE_DIR to keep it",
        CacheNotice,
    )
    return Path(folder)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends must not remove its parent's cache
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class CacheInfo:
    """Summary of the cache.

    Attributes
    ----------
    folder
        Folder of the cache.
    answers, bytes
        Number of cached responses, and their size on disk.
    limit_bytes
        Maximum size. Beyond it the oldest responses are removed.
    """

    folder: Path
    answers: int
    bytes: int
    limit_bytes: int = LIMIT_BYTES

    def __repr__(self) -> str:
        used = self.bytes / 2**20
        limit = self.limit_bytes / 2**20
        return f"CacheInfo({self.answers} responses, {used:.1f} of {limit:.0f} MiB, {self.folder})"


def cache_info() -> CacheInfo:
    """Return the number and the size of the cached responses of all sources.

    Returns
    -------
    CacheInfo
        Folder, number of responses, and size [bytes].

    Raises
    ------
    ValueError
        ``DERIVDATA_CACHE_DIR`` begins with ``~``, and this user has no home folder.
    """
    folder = cache_folder()
    sizes = [stat.st_size for _, stat in records(folder / "answers")]
    return CacheInfo(folder=folder, answers=len(sizes), bytes=sum(sizes))


def cache_clear(older_than: str | pd.Timedelta | None = None) -> int:
    """Remove cached responses of all sources, and return their number.

    Parameters
    ----------
    older_than
        Remove only responses received longer ago than this: ``"30d"``, ``"12h"`` or a Timedelta. None
        removes all.

    Returns
    -------
    int
        Number of responses removed.

    Raises
    ------
    ValueError
        `older_than` is not a length of time.
    """
    age = times.lookback(older_than) if isinstance(older_than, str) else older_than
    if older_than is not None and (not isinstance(age, pd.Timedelta) or not age >= pd.Timedelta(0)):
        raise ValueError(f"older_than must be a length of time such as '30d' or '12h', got {older_than!r}")
    folder = cache_folder() / "answers"
    if not folder.is_dir():
        return 0
    newest = float("inf") if age is None else file_system_time(folder) - age.total_seconds()
    removed = 0
    for path, stat in records(folder):
        if stat.st_mtime <= newest:
            with suppress(OSError):
                path.unlink()
                removed += 1
    return removed
