"""The folder of cached answers, one file each, that any number of threads and processes may share.

A file is a line of seal, a line of JSON (the head), and the body compressed. The seal is the sha256 of all
that follows it, so that a damaged file is a miss and never an answer. There is nothing of the request but its
path and query, and nothing that runs when it is read. A file is replaced atomically and there are no locks:
the last writer wins. The file ``journal`` beside them lists for each its date, size and age: for the
offline clock, and for making room.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.client.transport.response import http_date
from derivdata.support.arrays import Indices
from derivdata.support.files import TEMPORARY, file_system_time, private_folder, replace_file

__all__ = ["LIMIT_BYTES", "AnswerFiles", "Head", "Record", "dump", "evict", "load_head", "read", "records"]

LIMIT_BYTES = 2**30
"""Most bytes that all answers together keep; the oldest go first."""

_SUFFIX = ".answer"
_STRAY_SECONDS = 3600.0
_EVICT_EVERY_BYTES = 64 * 2**20
_HEAD_BYTES = 1 << 14
_JOURNAL = "journal"
_JOURNAL_BYTES = 64 * 2**20
_MAGIC = b"derivdata-answer-2 "
_BODY_BYTES = 1 << 30
_CODEC = pa.Codec("zstd", compression_level=1)


class Head(msgspec.Struct):
    """The head of a record: everything but the body."""

    key: str
    url: str
    headers: dict[str, str]
    created: datetime
    expires: Annotated[datetime, msgspec.Meta(tz=True)] | None
    body_bytes: int


class Record(NamedTuple):
    """A record that was found whole."""

    head: Head
    body: bytes


def dump(key: str, url: str, response: Any) -> bytes:
    """Return the record of a response; `url` is its path and query."""
    head = Head(
        key=key,
        url=url,
        headers=dict(response.headers),
        created=response.created_at,
        expires=response.expires,
        body_bytes=len(response.content),
    )
    packed: bytes = _CODEC.compress(response.content, asbytes=True)
    rest = msgspec.json.encode(head) + b"\n" + packed  # JSON has no bare newline: the first one ends the head
    return _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def read(data: bytes, key: str) -> Record | None:
    """Return what a record holds; None if it is damaged or another key's."""
    # The seal comes first: nothing is decoded that is not what was written, and the size to which the body
    # unpacks is that of the head, so that a damaged file cannot ask for much memory. It is a hash without a
    # secret: it shows damage (a torn write, a bad disk), not the malice of who may write into the folder.
    seal, _, rest = data.partition(b"\n")
    if seal != _MAGIC + hashlib.sha256(rest).hexdigest().encode():
        return None
    line, _, packed = rest.partition(b"\n")
    head = _head(line)
    # A file that was copied or renamed is whole and still no answer to this key.
    if head is None or head.key != key or head.body_bytes > _BODY_BYTES:
        return None
    body = _unpacked(packed, head.body_bytes)
    return None if body is None else Record(head, body)


def load_head(data: bytes) -> Head | None:
    """Return what the first bytes of a record say, unchecked by the seal; None if they cannot be read."""
    seal, _, rest = data.partition(b"\n")
    return _head(rest.partition(b"\n")[0]) if seal.startswith(_MAGIC) else None


def _head(line: bytes) -> Head | None:
    try:
        return msgspec.json.decode(line, type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _unpacked(packed: bytes, size: int) -> bytes | None:
    try:
        return bytes(_CODEC.decompress(packed, size, asbytes=True))
    except OSError:
        return None


def records(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield path and state of every answer's file of every source; those that go meanwhile are left out."""
    for source in (folder, *_folders(folder)):
        for key in _keys(_names(source)):
            with suppress(OSError):
                path = source / f"{key}{_SUFFIX}"
                yield path, path.stat()


class _Listing(NamedTuple):
    """The answers of one folder: keys, and of each its date [µs since 1970], size [bytes] and age [s].

    A date of 0 is not stated.
    """

    keys: list[str]
    dates: Indices
    sizes: Indices
    ages: Indices


def evict(folder: Path, limit: int) -> None:
    """Remove the oldest answers until the rest fits, and strays of writers that were killed."""
    strays: list[Path] = []
    sources: dict[Path, _Listing] = {}
    for source in (folder, *_folders(folder)):
        names = _names(source)
        strays += [source / name for name in names if name.startswith(TEMPORARY)]
        sources[source] = _listing(source, _keys(names))
    excess = sum(int(listing.sizes.sum()) for listing in sources.values()) - limit
    if excess > 0:
        _remove_oldest(sources, excess)
    if strays:
        now = file_system_time(folder)
        for path in strays:
            with suppress(OSError):
                if now - path.stat().st_mtime > _STRAY_SECONDS:
                    path.unlink()


def _remove_oldest(sources: Mapping[Path, _Listing], excess: int) -> None:
    listings = list(sources.values())
    places = [(source, key) for source, listing in sources.items() for key in listing.keys]
    sizes = np.concatenate([listing.sizes for listing in listings])
    order = np.lexsort((sizes, np.concatenate([listing.ages for listing in listings])))
    for place in order[: int(np.searchsorted(np.cumsum(sizes[order]), excess)) + 1].tolist():
        source, key = places[place]
        with suppress(OSError):
            (source / f"{key}{_SUFFIX}").unlink()


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _keys(names: Iterable[str]) -> list[str]:
    return [name[: -len(_SUFFIX)] for name in names if name.endswith(_SUFFIX)]


def _listing(folder: Path, keys: list[str]) -> _Listing:
    """Return what the journal says of some answers of a folder; the files are asked where it says nothing."""
    from pyarrow import compute as pc  # here and below: only a look over the whole cache needs them

    noted, numbers = _journal(folder)
    place = np.asarray(pc.index_in(pa.array(keys, pa.string()), noted).fill_null(-1))
    unknown = np.flatnonzero(place < 0)
    figures = np.zeros((3, len(keys)), np.int64)
    if len(noted):
        figures = numbers[:, place]
    lost = set()
    for row in unknown.tolist():
        try:
            state = (folder / f"{keys[row]}{_SUFFIX}").stat()
            figures[:, row] = 0, state.st_size, int(state.st_mtime)
        except OSError:
            lost.add(row)
    if lost:
        stay = [row for row in range(len(keys)) if row not in lost]
        keys, figures = [keys[row] for row in stay], figures[:, stay]
    return _Listing(keys, *figures)


def _journal(folder: Path) -> tuple[pa.Array, Indices]:
    """Return the keys of a folder's journal, the latest line of each first, and their numbers.

    A state of a hundred thousand files takes half a second to ask for, and their journal a twentieth to read.
    """
    try:
        data = (folder / _JOURNAL).read_bytes()
    except OSError:
        data = b""
    columns = _journal_columns(data)
    if columns is None:  # lines that a crash or a full disk cut are left out
        whole = re.findall(rb"^[!-~]+ \d{1,18} \d{1,18} \d{1,18}$", data, re.MULTILINE)
        columns = _journal_columns(b"\n".join(whole))
    if columns is None:
        return pa.array([], pa.string()), np.zeros((3, 0), np.int64)
    numbers = np.array([np.asarray(column) for column in columns[1:]])
    return columns[0].combine_chunks().take(pa.array(np.arange(len(columns[0]))[::-1])), numbers[:, ::-1]


def _journal_columns(data: bytes) -> list[pa.ChunkedArray] | None:
    """Return the columns of the journal; None where a line is not whole."""
    from pyarrow import csv

    kinds = {"key": pa.string(), "date": pa.int64(), "size": pa.int64(), "at": pa.int64()}
    try:
        columns = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=list(kinds)),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=csv.ConvertOptions(column_types=kinds, null_values=[]),
        ).columns
    except pa.ArrowException:
        return None
    # Empty lines alone are a table without rows.
    return None if any(np.asarray(column).min(initial=0) < 0 for column in columns[1:]) else columns


class AnswerFiles:
    """One source's answers, each under its cache key.

    Attributes
    ----------
    trouble
        Why the last answer could not be kept, until somebody clears it.
    """

    def __init__(self, root: Path, scope: str) -> None:
        self.trouble: str | None = None
        self._root = root
        self._folder = root / scope
        self._unchecked = _EVICT_EVERY_BYTES

    def record(self, key: str) -> Record | None:
        """Return what is kept under a key; None where there is nothing whole."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        return read(data, key)

    def keep(self, key: str, url: str, response: Any) -> None:
        """Keep a response under a key; `url` is its path and query. A failure is `trouble`."""
        try:
            self._write(key, dump(key, url, response), response.headers.get("Date"))
        except OSError as error:
            self.trouble = f"{self._folder}: {error.strerror or error}"

    def forget(self, key: str) -> bool:
        """Remove what is kept under a key; return whether there was something."""
        try:
            self._path(key).unlink()
        except OSError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(_keys(_names(self._folder)))

    def newest(self, before: pd.Timestamp) -> pd.Timestamp | None:
        """Return the latest ``Date`` up to `before` among this source's whole answers; None without any.

        The journal says where to look first. It is only a hint: a date counts when the sealed record itself
        has it, and what the journal does not know is read.
        """
        keys, dates = self._dates()
        latest: pd.Timestamp | None = None
        for place in np.argsort(-dates).tolist():
            if not dates[place] or (latest is not None and dates[place] <= _micros(latest)):
                break
            record = self.record(keys[place])
            date = None if record is None else http_date(record.head.headers.get("Date"))
            if date is not None and date <= before and (latest is None or date > latest):
                latest = date
        return latest

    def _dates(self) -> tuple[list[str], Indices]:
        """Return the keys of all answers and their ``Date`` [µs since 1970], as journal and heads state it.

        An answer that states none has 0.
        """
        listing = _listing(self._folder, _keys(_names(self._folder)))
        missing: list[tuple[str, int, int, int]] = []
        for place in np.flatnonzero(listing.dates == 0).tolist():
            key = listing.keys[place]
            with suppress(OSError), self._path(key).open("rb") as file:
                head = load_head(file.read(_HEAD_BYTES))
                date = None if head is None else http_date(head.headers.get("Date"))
                if date is not None:
                    listing.dates[place] = _micros(date)
                    size, at = int(listing.sizes[place]), int(listing.ages[place])
                    missing.append((key, _micros(date), size, at))
        self._note(missing)
        return listing.keys, listing.dates

    def _note(self, lines: Sequence[tuple[str, int, int, int]]) -> None:
        """Append keys, dates, sizes and ages to the journal in one write; begin it again if it is long.

        It is started again and not rewritten: a line that is appended meanwhile would be lost, and an older
        one of its key kept. What is missing is read from the records.
        """
        text = "".join(f"{key} {date} {size} {at}\n" for key, date, size, at in lines).encode()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        if text:
            with suppress(OSError):
                file = os.open(self._folder / _JOURNAL, flags, 0o600)
                try:
                    os.write(file, text)  # O_APPEND: the system puts each write at the end as it is then
                    if os.fstat(file).st_size > _JOURNAL_BYTES:
                        os.unlink(self._folder / _JOURNAL)
                finally:
                    os.close(file)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_SUFFIX}"

    def _write(self, key: str, data: bytes, date: str | None) -> None:
        private_folder(self._folder)
        replace_file(self._path(key), data)
        instant = http_date(date)
        if instant is not None:
            with suppress(OSError):
                state = self._path(key).stat()
                self._note([(key, _micros(instant), state.st_size, int(state.st_mtime))])
        self._unchecked += len(data)
        if self._unchecked > _EVICT_EVERY_BYTES:
            self._unchecked = 0
            evict(self._root, LIMIT_BYTES)


def _micros(instant: pd.Timestamp) -> int:
    return int(instant.as_unit("us").asm8.view("i8"))
