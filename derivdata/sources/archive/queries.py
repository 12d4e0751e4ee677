"""Query the files of an archive with DuckDB: choose rows by time and text, plan the files, and read them.

Everything that reads rows uses `plan` and `read`: windows, the newest rows, dask tasks, appends that look for
stored keys, merges and corrections. `sums` adds up in the same files.

DuckDB reads the files of a query through our file system, and nothing else. The file system is written in
Python. It serves only the files of the current queries, and compares every block with the checksums in the
manifest before DuckDB reads it. It works for a folder and for an object store. DuckDB's own file systems are
off, so no statement can read, write, attach or install anything else.
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
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

from derivdata.errors import ArchiveError
from derivdata.sources.archive import schemas
from derivdata.sources.archive.manifest import BLOCK_BYTES, DataFile, row_count
from derivdata.sources.archive.storage import Storage
from derivdata.support import times
from derivdata.tables.schema import Kind, Table

_SCHEME = "derivdata"
_MEMORY = "4GB"
_KEPT_BLOCKS = 64
_INTERRUPT = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
"""Last line of the traceback in the text of DuckDB's error, if Ctrl-C came in our file system."""
_WRITTEN = datetime(2000, 1, 1, tzinfo=UTC)


def quoted(text: str) -> str:
    """Return text as a literal of SQL, which has no other escape than a doubled quote."""
    return "'" + text.replace("'", "''") + "'"


def checked_bytes(
    storage: Storage, file: DataFile, start: int, end: int, checked: dict[int, bytes] | None = None
) -> bytes:
    """Return bytes of a file after its blocks were checked.

    `checked` has blocks that were checked before, by number; new blocks are added to it.
    """
    first = start // BLOCK_BYTES
    last = -(-end // BLOCK_BYTES)
    first_byte = first * BLOCK_BYTES
    last_byte = min(last * BLOCK_BYTES, file.size)
    numbers = range(first, last)
    if checked is not None and checked.keys() >= set(numbers):
        data = b"".join(checked[number] for number in numbers)
        return data[start - first_byte : end - first_byte]
    before, requested, after = storage.read_pieces(file.path, (first_byte, start, end, last_byte))
    pieces = [before, requested, after]
    if sum(map(len, pieces)) != last_byte - first_byte:
        raise OSError("the file is truncated")
    _require_checksums(file, first, pieces)
    if checked is not None:
        whole = b"".join(pieces)
        for number in numbers:
            if len(checked) < _KEPT_BLOCKS:
                offset = number * BLOCK_BYTES - first_byte
                checked[number] = whole[offset : offset + BLOCK_BYTES]
    return requested


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
    """A served file and its checked blocks, None for a large file in a folder: its blocks are read again."""

    storage: Storage
    file: DataFile
    checked: dict[int, bytes] | None


class _OpenFile:
    """One file as DuckDB reads it. Several of its threads share a handle, so each has its own position."""

    def __init__(self, path: str, served: _Served, failures: dict[str, OSError]) -> None:
        self._path = path
        self._failures = failures
        self._storage, self._file, self._checked = served
        self._place = threading.local()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move this thread's position, and return it."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._file.size}
        self._place.at = offset + bases[whence]
        return int(self._place.at)

    def tell(self) -> int:
        """Return this thread's position."""
        return int(getattr(self._place, "at", 0))

    def read(self, size: int = -1) -> bytes:
        """Return checked bytes from this thread's position on; a negative size is all remaining bytes."""
        start = self.tell()
        end = self._file.size
        if size >= 0:
            end = min(start + size, end)
        try:
            data = b""
            if end > start:
                data = checked_bytes(self._storage, self._file, start, end, self._checked)
        except OSError as problem:
            self._failures[self._path] = problem
            raise
        self._place.at = start + len(data)
        return data

    def flush(self) -> None:
        """Do nothing: it is read only."""

    def close(self) -> None:
        """Do nothing: every read opens and closes the file itself."""


class _ServedFiles(AbstractFileSystem):  # type: ignore[misc]
    """DuckDB's file system; a path is the scheme, the number of a storage and the path of a file in it."""

    protocol = _SCHEME
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._served: dict[str, _Served] = {}
        self._users: dict[str, int] = {}  # number of queries that use each path
        # By path and not by name, because an archive and its copy have files of the same name.
        self.failures: dict[str, OSError] = {}

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
                        checked: dict[int, bytes] | None = None
                        if storage.remote or file.size <= BLOCK_BYTES:
                            checked = {}
                        self._served[path] = _Served(storage, file, checked)
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
                errno.EROFS, "read-only in queries; write with Archive.append or Archive.replace", path
            )
        return _OpenFile(path, self._file(path), self.failures)

    def glob(self, path: str, **_: Any) -> list[str]:
        if path not in self._served:
            return []
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        return path in self._served

    isfile = exists

    def size(self, path: str) -> int:
        return self._file(path).file.size

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self.size(path), "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return the same time for all files: they never change, and their digests are in their names."""
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
    """A DuckDB database in memory that contains only views of archive files."""

    def __init__(self, threads: int, memory: str = _MEMORY) -> None:
        self.files = _ServedFiles()
        self._connection = duckdb.connect(config={"threads": threads, "async_threads": 1})
        self._connection.register_filesystem(self.files)
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
        """Keep the connection alive: a forked child cannot close it, because its threads are the parent's."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def select(self, sql: str, storage: Storage, files: Sequence[DataFile]) -> pa.Table:
        """Return the result of a query over some files, whose list replaces ``{files}``."""
        with self._query(storage, files, f"{storage}: DuckDB cannot read", ArchiveError) as (cursor, paths):
            return cursor.sql(_over(sql, paths)).to_arrow_table()

    def statement(
        self, sql: str, views: Mapping[str, tuple[str, Sequence[DataFile]]], storage: Storage
    ) -> pa.Table:
        """Run one statement of a user, over views whose definitions have ``{files}`` for their files."""
        files: list[DataFile] = []
        for _, files_of_view in views.values():
            files += files_of_view
        with self._query(storage, files, "query", ValueError) as (cursor, paths):
            first = 0
            for name, (definition, files_of_view) in views.items():
                end = first + len(files_of_view)
                cursor.execute(f'CREATE TEMP VIEW "{name}" AS {_over(definition, paths[first:end])}')
                first = end
            statements = cursor.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise ValueError("query must be one SELECT; use append or replace to write to an archive")
            return cursor.sql(sql).to_arrow_table()

    @contextmanager
    def _query(
        self, storage: Storage, files: Sequence[DataFile], what: str, kind: type[Exception]
    ) -> Iterator[tuple[Any, list[str]]]:
        """Serve some files, yield a cursor and their paths, and translate errors of both sides."""
        cursor = self._connection.cursor()
        with self.files.serving(storage, files) as paths:
            try:
                with _interruptible():
                    yield cursor, paths
            except duckdb.Error as problem:
                for path, file in zip(paths, files, strict=True):
                    failure = self.files.failures.get(path)
                    if failure is not None:
                        raise damaged(storage, file, failure) from None
                message = str(problem)
                if kind is not ValueError:  # a user's statement gets all lines, which show its place
                    message = message.splitlines()[0]
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
        """Close an unused engine before a fork: a child lacks DuckDB's threads, and would wait for them."""
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


Where: TypeAlias = Mapping[str, Collection[str]]


class TimeRange(NamedTuple):
    """Half-open window in microseconds since 1970."""

    start: int
    end: int

    def touches(self, first: int, last: int) -> bool:
        """Return whether the window overlaps the closed range ``[first, last]``."""
        return first < self.end and last >= self.start


EVER = TimeRange(-(2**63), 2**63 - 1)


def read_filter(
    table: Table, symbols: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, frozenset[str]]:
    """Return the requested symbols and venues by column, without columns that keep all values."""
    arguments = {"symbol": ("symbols", symbols), "exchange": ("venues", venues)}
    where = {}
    for column, (argument, values) in arguments.items():
        if values is None:
            continue
        if column not in table.columns:
            raise ValueError(f"{argument}: table {table.name} does not have the column {column!r}")
        where[column] = _as_set(values)
    return where


def _as_set(values: str | Sequence[str]) -> frozenset[str]:
    if isinstance(values, str):
        return frozenset([values])
    return frozenset(values)


class Selection(NamedTuple):
    """Rows of a table within a window that have one of the given values in some columns."""

    where: Where
    window: TimeRange

    def mask(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return a mask of the selected rows of a frame."""
        stamps = np.asarray(frame["time"].array.asi8)
        chosen = (stamps >= self.window.start) & (stamps < self.window.end)
        for name, values in self.where.items():
            chosen &= frame[name].isin(list(values)).to_numpy()
        return np.asarray(chosen)

    def narrowed(self, column: str, values: Collection[str]) -> Selection:
        """Return the part of the selection with one of some values in a column."""
        allowed = frozenset(values) & frozenset(self.where.get(column, values))
        return Selection({**self.where, column: allowed}, self.window)

    def overlaps(self, other: Selection) -> bool:
        """Return whether a row could be in both selections."""
        if not self.window.touches(other.window.start, other.window.end - 1):
            return False
        for name in self.where.keys() & other.where.keys():
            if set(self.where[name]).isdisjoint(other.where[name]):
                return False
        return True


EVER_ALL = Selection({}, EVER)
"""Every row."""


def correction_selection(
    table: Table, where: Mapping[str, str | Sequence[str]] | None, window: TimeRange
) -> Selection:
    """Return the selection of a correction; raise if it has no condition."""
    columns = [name for name in table.key if table.columns[name].kind in (Kind.TEXT, Kind.LABEL)]
    chosen = {}
    for name, values in (where or {}).items():
        if name not in columns:
            raise ValueError(
                f"where: {name!r} cannot select rows of {table.name}; use {', '.join(columns)}, "
                "or start= and end= for times"
            )
        chosen[name] = _as_set(values)
    if not chosen and window == EVER:
        raise ValueError("where, start or end is missing: select rows by columns or by time")
    return Selection(chosen, window)


def time_range(start: times.TimeLike | None, end: times.TimeLike | None) -> TimeRange:
    """Return the window in microseconds; None leaves an end open."""
    window = EVER
    if start is not None:
        window = window._replace(start=micros(start))
    if end is not None:
        window = window._replace(end=micros(end))
    return window


def micros(value: times.TimeLike) -> int:
    """Return a time as microseconds since 1970."""
    return times.us(times.timestamp(value))


def stamp(value: int) -> pd.Timestamp:
    """Return the timestamp of microseconds since 1970."""
    return pd.Timestamp(value, unit="us", tz="UTC").as_unit("us")


_SCALE = 1 << 20
"""Values are added up as integers of 2⁻²⁰ USD. These sums are exact, so the order of rows does not matter."""


_TEXT = pa.dictionary(pa.int32(), pa.string())
_SUMS = pa.schema(
    [
        ("exchange", _TEXT),
        ("resolution", _TEXT),
        ("time", schemas.TICK),
        ("value", pa.float64()),
        ("symbols", pa.int64()),
        ("symbol_hash", pa.uint64()),
    ]
)


def plan(files: Sequence[DataFile], selection: Selection) -> list[DataFile]:
    """Return the files of a table that may have selected rows, according to the manifest."""
    return [file for file in files if selection.window.touches(file.first, file.last)]


def read(
    storage: Storage,
    table: Table,
    files: Sequence[DataFile],
    selection: Selection = EVER_ALL,
    columns: Sequence[str] | None = None,
    *,
    newest: bool = False,
    hold_us: int = 0,
    order: Sequence[str] = (),
) -> list[pa.Table]:
    """Read rows of planned files by groups of equal columns, in a file's order or by `order`.

    With `newest` only rows of the last timestamp of each series or chain, and of `hold_us` [µs] before
    it, are read. A missing value stays missing; text comes as dictionaries.
    """
    tables = []
    for names, group in _by_columns(storage, table, files):
        chosen = [name for name in table.columns if name in names and (columns is None or name in columns)]
        rows = f"SELECT {_listed(chosen)} FROM read_parquet({{files}}) {_where(group, selection)}"
        if newest:
            # The rows are read twice, the second time only for the few newest times. In this form DuckDB
            # builds its hash table from these times instead of all rows.
            series = _listed([name for name in schemas.latest_by(table) if name in names])
            last = f"SELECT {series}, max(time) AS newest FROM rows GROUP BY ALL"
            rows = (
                f"WITH rows AS NOT MATERIALIZED ({rows}), last AS MATERIALIZED ({last}) "
                f"SELECT rows.* FROM rows JOIN last USING ({series}) "
                f"WHERE rows.time >= newest - to_microseconds({hold_us})"
            )
        if order:
            rows += f" ORDER BY {_listed([name for name in order if name in names])}"
        rows_of_group = _select(rows, storage, group)
        if len(rows_of_group):
            try:
                tables.append(schemas.as_now(rows_of_group, table))
            except pa.ArrowException as problem:
                raise schemas.of_another_version(storage.place(group[0].path), str(problem)) from None
    return tables


def sums(
    storage: Storage, table: Table, files: Sequence[DataFile], selection: Selection, value: str
) -> pa.Table:
    """Add up a column of planned files; see `Archive.sums`."""
    if not files:
        return _SUMS.empty_table()
    _by_columns(storage, table, files)  # raises for files that are not of this table, or lack its columns
    # One pass over all files, including earlier versions: all of them have the columns of a sum.
    sql = (
        f"SELECT exchange, resolution, time, sum(CAST(round({value} * {_SCALE}) AS {{whole}}))::DOUBLE "
        f"/ {_SCALE} AS value, count({value}) AS symbols, "
        f"coalesce(bit_xor(hash(symbol)) FILTER ({value} IS NOT NULL), 0) AS symbol_hash "
        f"FROM read_parquet({{files}}) {_where(files, selection)} GROUP BY ALL ORDER BY ALL"
    )
    try:
        sums_by_series = _select(sql.replace("{whole}", "BIGINT", 1), storage, files)
    except ArchiveError:  # values above 8.8e12 need 128 bits, which takes 50 % longer
        sums_by_series = _select(sql.replace("{whole}", "HUGEINT", 1), storage, files)
    for position, name in enumerate(("exchange", "resolution")):
        sums_by_series = sums_by_series.set_column(position, name, sums_by_series[name].dictionary_encode())
    return sums_by_series.cast(_SUMS)


def view(storage: Storage, table: Table, files: Sequence[DataFile]) -> str:
    """Return the definition of a view of a table's files; `Engine.statement` replaces ``{files}`` by them."""
    groups = _by_columns(storage, table, files)
    names: frozenset[str] = frozenset().union(*(stored for stored, _ in groups))
    arguments = "{files}"
    if len(groups) > 1:
        arguments += ", union_by_name = true"
    return f"SELECT {schemas.sql_columns(table, names)} FROM read_parquet({arguments})"


def slices(
    storage: Storage, table: Table, files: Sequence[DataFile], selection: Selection, rows: int
) -> Iterator[Selection]:
    """Divide a selection by values of the leading column, in order, into slices of about `rows` rows."""
    if row_count(files) <= rows:
        yield selection
        return
    lead = schemas.sorting(table)[0]
    if table.columns[lead].kind is not Kind.TEXT:
        yield selection  # a slice for each time would be too small
        return
    counts: dict[str, int] = {}
    for _, group in _by_columns(storage, table, files):
        chosen_rows = f"read_parquet({{files}}) {_where(group, selection)}"
        counted = _select(f"SELECT {lead}, count(*) FROM {chosen_rows} GROUP BY {lead}", storage, group)
        names, sizes = counted.columns
        for name, size in zip(names.to_pylist(), sizes.to_pylist(), strict=True):
            counts[name] = counts.get(name, 0) + size
    chosen: list[str] = []
    chosen_count = 0
    for name in sorted(counts):
        chosen.append(name)
        chosen_count += counts[name]
        if chosen_count >= rows:
            yield selection.narrowed(lead, chosen)
            chosen = []
            chosen_count = 0
    if chosen:
        yield selection.narrowed(lead, chosen)


def distinct_values(
    storage: Storage, table: Table, files: Sequence[DataFile], names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the values of some text columns, sorted."""
    groups = _by_columns(storage, table, files)
    values = {}
    for name in names:
        with_column = [group for stored, group in groups if name in stored]
        values[name] = sorted(_distinct(storage, with_column, name))
    return values


def series(storage: Storage, table: Table, files: Sequence[DataFile]) -> set[str]:
    """Return the series of rows, as a venue and a symbol with a space between them."""
    groups = [group for _, group in _by_columns(storage, table, files)]
    return _distinct(storage, groups, "exchange || ' ' || symbol")  # || joins text in SQL


def _distinct(storage: Storage, groups: Sequence[Sequence[DataFile]], expression: str) -> set[str]:
    """Return the distinct texts of an SQL expression over the rows of some files."""
    sql = f"SELECT DISTINCT {expression} AS word FROM read_parquet({{files}}) WHERE word IS NOT NULL"
    words: set[str] = set()
    for group in groups:
        words.update(_select(sql, storage, group)["word"].to_pylist())
    return words


def known_files(storage: Storage, table: Table, files: Sequence[DataFile]) -> list[DataFile]:
    """Return the files with every column of the table; files of a newer version may have more."""
    readable: list[DataFile] = []
    for names, group in _by_columns(storage, table, files):
        if names <= set(table.columns):
            readable += group
    return readable


def _select(sql: str, storage: Storage, files: Sequence[DataFile]) -> pa.Table:
    with engine() as connection:
        return connection.select(sql, storage, files)


def _by_columns(
    storage: Storage, table: Table, files: Sequence[DataFile]
) -> list[tuple[frozenset[str], list[DataFile]]]:
    """Group files by their columns, because files of other versions are read separately."""
    current = schemas.schema_digest(table)
    columns_of_group = {current: frozenset(table.columns)}
    groups: dict[str, list[DataFile]] = {}
    for file in files:
        if not file.path.startswith(f"{table.name}/"):
            stored = file.path.partition("/")[0]
            raise damaged(storage, file, ValueError(f"expected rows of {table.name}, got {stored}"))
        if file.schema == current:
            groups.setdefault(current, []).append(file)
            continue
        try:
            schema = _stored_schema(storage, file)
        except (OSError, pa.ArrowException) as problem:
            raise damaged(storage, file, problem) from None
        missing = sorted(set(table.columns) - {*schema.names, *table.optional})
        if missing:
            why = f"columns are missing: {', '.join(missing)}"
            raise schemas.of_another_version(storage.place(file.path), why)
        columns_of_group[str(schema)] = frozenset(schema.names)
        groups.setdefault(str(schema), []).append(file)
    return [(columns_of_group[key], group) for key, group in groups.items()]


@lru_cache(maxsize=4096)
def _stored_schema(storage: Storage, file: DataFile) -> pa.Schema:
    schema: pa.Schema = pq.read_schema(pa.BufferReader(checked_bytes(storage, file, 0, file.size)))
    return schema


def _where(files: Sequence[DataFile], selection: Selection) -> str:
    """Return the condition for rows, without conditions that all rows of the files satisfy."""
    window = selection.window
    terms = []
    if window.start > min(file.first for file in files):
        terms.append(f"time >= TIMESTAMPTZ {quoted(stamp(window.start).isoformat())}")
    if window.end <= max(file.last for file in files):
        terms.append(f"time < TIMESTAMPTZ {quoted(stamp(window.end).isoformat())}")
    for name, values in selection.where.items():
        listed = sorted(values)
        if not listed:
            terms.append("false")
            continue
        if len(listed) > 1:  # the range lets DuckDB skip row groups by their statistics
            terms.append(f"{name} BETWEEN {quoted(listed[0])} AND {quoted(listed[-1])}")
        terms.append(f"{name} IN ({', '.join(map(quoted, listed))})")
    if not terms:
        return ""
    return f"WHERE {' AND '.join(terms)}"


def _listed(names: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
