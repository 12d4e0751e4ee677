"""DuckDB over files of archives: it reads the files of a query through our file system, and nothing else.

The file system is written in Python. It serves only the files of the current queries, compares every block
with the checksums in the manifest before DuckDB reads it, and works for a folder and for an object store.
DuckDB's own file systems are off, so no statement can read, write, attach or install anything else.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import os
import re
import threading
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

from derivdata.errors import ArchiveError
from derivdata.sources.archive.manifest import BLOCK_BYTES, DataFile
from derivdata.sources.archive.object_store import Storage

_SCHEME = "derivdata"
_MEMORY = "4GB"
_KEPT_BLOCKS = 64
_INTERRUPT = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
"""How the traceback ends that DuckDB's error has for a text where Ctrl-C came in our file system."""
_WRITTEN = datetime(2000, 1, 1, tzinfo=UTC)


def quoted(text: str) -> str:
    """Return text as a literal of SQL, which has no other escape than a doubled quote."""
    return "'" + text.replace("'", "''") + "'"


def checked_bytes(
    storage: Storage, file: DataFile, start: int, end: int, checked: dict[int, bytes] | None = None
) -> bytes:
    """Return bytes of a file after its blocks were checked; those `kept`, by number, were checked before."""
    first = start // BLOCK_BYTES
    last = -(-end // BLOCK_BYTES)
    at = first * BLOCK_BYTES
    until = min(last * BLOCK_BYTES, file.size)
    if checked is not None and all(number in checked for number in range(first, last)):
        data = b"".join(checked[number] for number in range(first, last))
        return data[start - at : end - at]
    pieces = storage.read_pieces(file.path, (at, start, end, until))
    if sum(map(len, pieces)) != until - at:
        raise OSError("it was cut off")
    _require_checksums(file, first, pieces)
    if checked is not None:
        whole = b"".join(pieces)
        for number in range(first, last):
            if len(checked) < _KEPT_BLOCKS:
                offset = number * BLOCK_BYTES - at
                checked[number] = whole[offset : offset + BLOCK_BYTES]
    return pieces[1]


def _require_checksums(file: DataFile, first: int, pieces: Sequence[bytes]) -> None:
    """Compare the blocks of a file with their checksums; `pieces` are consecutive from block `first` on.

    A query reads the middle piece. Copying it block by block would take longer than the checksums.
    """
    number = first
    left = BLOCK_BYTES
    checksum = 0
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            block = rest[:left]
            rest = rest[left:]
            checksum = zlib.crc32(block, checksum)
            left -= len(block)
            if left == 0:
                _require_checksum(file, number, checksum)
                number += 1
                left = BLOCK_BYTES
                checksum = 0
    if left < BLOCK_BYTES:  # the last block of a file may be shorter
        _require_checksum(file, number, checksum)


def _require_checksum(file: DataFile, number: int, checksum: int) -> None:
    if f"{checksum:08x}" != file.blocks[8 * number : 8 * number + 8]:
        raise OSError("the checksum of a block does not match")


class _Served(NamedTuple):
    """A file that is served; `kept` are checked blocks, of small files and where a read is a request."""

    storage: Storage
    file: DataFile
    kept: dict[int, bytes] | None


class _OpenFile:
    """One file as DuckDB reads it: several of its threads share a handle, so each has its own place."""

    def __init__(self, path: str, served: _Served, failures: dict[str, OSError]) -> None:
        self._path = path
        self._failures = failures
        self._storage, self._file, self._kept = served
        self._place = threading.local()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move this thread's place, and return it."""
        self._place.at = offset + {0: 0, 1: getattr(self._place, "at", 0), 2: self._file.size}[whence]
        return int(self._place.at)

    def tell(self) -> int:
        """Return this thread's place."""
        return int(getattr(self._place, "at", 0))

    def read(self, size: int = -1) -> bytes:
        """Return checked bytes from this thread's position on; a negative size is all remaining bytes."""
        start = self.tell()
        end = self._file.size if size < 0 else min(start + size, self._file.size)
        try:
            data = checked_bytes(self._storage, self._file, start, end, self._kept) if end > start else b""
        except OSError as problem:
            self._failures[self._path] = problem
            raise
        self._place.at = start + len(data)
        return data

    def flush(self) -> None:
        """Do nothing: it is read only."""

    def close(self) -> None:
        """Do nothing: every read opens and closes the file itself."""


class _Door(AbstractFileSystem):  # type: ignore[misc]
    """DuckDB's file system; a path is the scheme, the number of a storage and a place."""

    protocol = _SCHEME
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._served: dict[str, _Served] = {}
        self._users: dict[str, int] = {}
        self.failures: dict[str, OSError] = {}  # by path: archives that are copies have the same files

    @contextmanager
    def serving(self, storage: Storage, files: Collection[DataFile]) -> Iterator[list[str]]:
        """Serve some files and yield their paths."""
        root = f"{_SCHEME}://{hash(storage) & 0xFFFFFFFFFFFFFFFF:016x}/"  # the same while the process lives
        paths = {root + file.path: file for file in files}
        counted: list[str] = []
        try:
            with self._lock:
                for path, file in paths.items():
                    if path not in self._served:
                        keep = storage.remote or file.size <= BLOCK_BYTES
                        self._served[path] = _Served(storage, file, {} if keep else None)
                    self._users[path] = self._users.get(path, 0) + 1
                    counted.append(path)
            _preload([self._served[path] for path in paths])
            yield list(paths)
        finally:
            try:
                with self._lock:
                    for path in counted:
                        self._users[path] -= 1
                        if not self._users[path]:
                            del self._users[path], self._served[path]
                            self.failures.pop(path, None)
            finally:
                _release(self._lock)

    def _file(self, path: str) -> _Served:
        try:
            return self._served[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def open(self, path: str, mode: str = "rb", **_: Any) -> _OpenFile:
        if mode != "rb":
            raise PermissionError(
                errno.EROFS, ("archives must be written by their methods, such as append and replace"), path
            )
        return _OpenFile(path, self._file(path), self.failures)

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path] if path in self._served else []

    def exists(self, path: str, **_: Any) -> bool:
        return path in self._served

    isfile = exists

    def size(self, path: str) -> int:
        return self._file(path).file.size

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self.size(path), "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return the same for all: files are never changed, and their names are of their digests."""
        return _WRITTEN


def _release(lock: threading.RLock) -> None:
    """Release a lock that an interrupt left acquired on its way out of a ``with`` statement."""
    with suppress(RuntimeError):  # this thread does not have it
        lock.release()


def _preload(served: Collection[_Served]) -> None:
    """Read the small files of a folder, because a writer may merge and remove them during a query."""
    for storage, file, checked in served:
        if storage.remote or checked is None:
            continue
        try:
            checked_bytes(storage, file, 0, file.size, checked)
        except FileNotFoundError as problem:
            raise damaged(storage, file, problem) from None
        except OSError:
            continue  # DuckDB's read raises the same error


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt if DuckDB was interrupted, in place of DuckDB's own errors."""
    try:
        yield
    except (duckdb.Error, RuntimeError) as problem:
        text = str(problem)
        in_our_code = "Traceback (most recent call last)" in text and __file__ in text
        if text == "Query interrupted" or (in_our_code and _INTERRUPT.search(text)):
            raise KeyboardInterrupt from None
        raise


class Engine:
    """A database of DuckDB in memory, that has nothing but views of files of archives."""

    def __init__(self, threads: int, memory: str = _MEMORY) -> None:
        self.door = _Door()
        self._connection = duckdb.connect(config={"threads": threads, "async_threads": 1})
        self._connection.register_filesystem(self.door)
        # The order matters: paths cannot be allowed once access is off, and nothing can be set once it is
        # locked. Footers are cached, because files never change; blocks are not, so memory stays constant.
        for statement in (
            "SET GLOBAL TimeZone = 'UTC'",  # a cursor begins with global settings, not with the connection's
            "SET parquet_metadata_cache = true",
            "SET enable_external_file_cache = false",
            f"SET memory_limit = {quoted(memory)}",
            "SET temp_directory = ''",
            "SET python_enable_replacements = false",
            "SET autoinstall_known_extensions = false",
            "SET autoload_known_extensions = false",
            f"SET allowed_directories = ['{_SCHEME}://']",
            "SET enable_external_access = false",
            "SET disabled_filesystems = 'LocalFileSystem'",
            "SET lock_configuration = true",
        ):
            with _interruptible():
                self._connection.execute(statement)

    def close(self) -> None:
        """End the engine's threads; queries fail afterwards."""
        self._connection.close()

    def leak(self) -> None:
        """Keep it indefinitely: in a forked child it cannot be closed, as its threads are the parent's."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def select(self, sql: str, storage: Storage, files: Sequence[DataFile]) -> pa.Table:
        """Return the result of a query over some files, whose list replaces ``{files}``."""
        with self._asking(storage, files, f"{storage}: DuckDB cannot read", ArchiveError) as (cursor, paths):
            return cursor.sql(_over(sql, paths)).to_arrow_table()

    def statement(
        self, sql: str, views: Mapping[str, tuple[str, Sequence[DataFile]]], storage: Storage
    ) -> pa.Table:
        """Run one statement of a user, over views whose definitions have ``{files}`` for their files."""
        files = [file for _, some in views.values() for file in some]
        with self._asking(storage, files, "query", ValueError) as (cursor, paths):
            at = 0
            for name, (definition, some) in views.items():
                cursor.execute(
                    f'CREATE TEMP VIEW "{name}" AS {_over(definition, paths[at : at + len(some)])}'
                )
                at += len(some)
            statements = cursor.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise ValueError("query must be one SELECT; use append or replace to write to an archive")
            return cursor.sql(sql).to_arrow_table()

    @contextmanager
    def _asking(
        self, storage: Storage, files: Sequence[DataFile], what: str, kind: type[Exception]
    ) -> Iterator[tuple[Any, list[str]]]:
        """Serve some files, yield a cursor and their paths, and translate errors of both sides."""
        cursor = self._connection.cursor()
        with self.door.serving(storage, files) as paths:
            try:
                with _interruptible():
                    yield cursor, paths
            except duckdb.Error as problem:
                for path, file in zip(paths, files, strict=True):
                    if (met := self.door.failures.get(path)) is not None:
                        raise damaged(storage, file, met) from None
                message = problem if kind is ValueError else str(problem).splitlines()[0]
                raise kind(f"{what}: {message}") from None
            finally:
                cursor.close()


def _over(sql: str, paths: Sequence[str]) -> str:
    return sql.replace("{files}", f"[{', '.join(map(quoted, paths))}]", 1)


def damaged(storage: Storage, file: DataFile, problem: Exception) -> Exception:
    """Return the error for a failed read of a file."""
    place = storage.place(file.path)
    if isinstance(problem, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "a file of the archive is missing", place)
    if isinstance(problem, ConnectionError | PermissionError | TimeoutError):
        return ArchiveError(f"{place}: cannot be read: {problem.strerror or problem}")
    why = " ".join(str(problem).split())
    return ArchiveError(f"{place}: the file is damaged ({why}): restore it from a copy")


class _Process:
    """The engine of this process, created on first use and closed before a fork."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._engine: Engine | None = None
        self._users = 0
        self._held = False
        atexit.register(self.close)  # while there is an interpreter to close it in
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child
            )

    @contextmanager
    def __call__(self) -> Iterator[Engine]:
        lock = self._lock
        counted = False
        try:
            with lock:
                if self._engine is None:
                    self._engine = Engine(min(4, os.cpu_count() or 1))
                engine = self._engine
                self._users += 1
                counted = True
            yield engine
        finally:
            try:
                with lock:
                    self._users -= counted
            finally:
                _release(lock)

    def close(self) -> None:
        """Close the engine; the next use creates another one."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _before(self) -> None:
        # A child has none of the threads that DuckDB waits for: an engine at rest is ended, in both.
        self._held = self._lock.acquire(timeout=5.0)
        if self._held and self._engine is not None and not self._users:
            self.close()

    def _in_parent(self) -> None:
        if self._held:
            self._lock.release()

    def _in_child(self) -> None:
        if self._engine is not None:  # a query was under way in another thread
            self._engine.leak()
        self._lock = threading.RLock()
        self._engine = None
        self._users = 0


engine = _Process()
"""Gives this process's engine to a ``with`` statement."""
