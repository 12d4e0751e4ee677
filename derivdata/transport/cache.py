"""The folder of cached answers, one file each, that any number of threads and processes may share.

A file is a line of seal, a line of JSON (the head), and the body compressed. The seal is the sha256 of all
that follows it, so that a damaged file is a miss and never an answer. There is nothing of the request but its
path and query, and nothing that runs when it is read. A file is replaced
atomically and there are no locks: whoever writes last wins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pandas as pd
import pyarrow as pa

from derivdata.files import TEMPORARY, file_system_time, private_folder, replace_file
from derivdata.transport.response import http_date

__all__ = ["LIMIT_BYTES", "AnswerFiles", "Head", "Record", "dump", "evict", "load_head", "read", "records"]

LIMIT_BYTES = 2**30
"""Most bytes that all answers together keep; the oldest go first."""

_SUFFIX = ".answer"
_STRAY_SECONDS = 3600.0
_EVICT_EVERY_BYTES = 64 * 2**20
_HEAD_BYTES = 1 << 14
_MAGIC = b"derivdata-answer-2 "
_BODY_BYTES = 1 << 30
_CODEC = pa.Codec("zstd", compression_level=1)


class Head(msgspec.Struct):
    """What a record says beside the body."""

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
    """The record of a response; `url` is its path and query."""
    head = Head(
        key=key,
        url=url,
        headers=dict(response.headers),
        created=response.created_at,
        expires=response.expires,
        body_bytes=len(response.content),
    )
    packed: bytes = _CODEC.compress(response.content, asbytes=True)
    rest = msgspec.json.encode(head) + b"\n" + packed
    return _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def read(data: bytes, key: str) -> Record | None:
    """What a record holds; None if it is damaged or another key's."""
    seal, _, rest = data.partition(b"\n")
    if seal != _MAGIC + hashlib.sha256(rest).hexdigest().encode():
        return None
    line, _, packed = rest.partition(b"\n")
    head = _head(line)
    if head is None or head.key != key or head.body_bytes > _BODY_BYTES:
        return None
    body = _unpacked(packed, head.body_bytes)
    return None if body is None else Record(head, body)


def load_head(data: bytes) -> Head | None:
    """What the first bytes of a record say, unchecked by the seal; None if they cannot be read."""
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
    """Every answer's file below a folder; those that go meanwhile are left out."""
    for path in folder.rglob(f"*{_SUFFIX}"):
        with suppress(OSError):
            yield path, path.stat()


def evict(folder: Path, limit: int) -> None:
    """Remove the oldest answers until the rest fits, and strays of writers that were killed."""
    found = sorted(records(folder), key=lambda item: item[1].st_mtime)
    excess = sum(stat.st_size for _, stat in found) - limit
    for path, stat in found:
        if excess <= 0:
            break
        with suppress(OSError):
            path.unlink()
        excess -= stat.st_size
    _sweep(folder)


def _sweep(folder: Path) -> None:
    now = file_system_time(folder)
    for path in folder.rglob(f"{TEMPORARY}*"):
        with suppress(OSError):
            if now - path.stat().st_mtime > _STRAY_SECONDS:
                path.unlink()


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
        """What is kept under a key; None where there is nothing whole."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        return read(data, key)

    def keep(self, key: str, url: str, response: Any) -> None:
        """Keep a response under a key; `url` is its path and query. A failure is `trouble`."""
        try:
            self._write(key, dump(key, url, response))
        except OSError as error:
            self.trouble = f"{self._folder}: {error.strerror or error}"

    def forget(self, key: str) -> bool:
        """Let go of what is kept under a key; return whether there was something."""
        try:
            self._path(key).unlink()
        except OSError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return (path.name.removesuffix(_SUFFIX) for path, _ in records(self._folder))

    def newest(self) -> pd.Timestamp | None:
        """The latest ``Date`` among this source's answers; None where there are none."""
        dates = [http_date(head.headers.get("Date")) for head in self._heads()]
        return max((d for d in dates if d is not None), default=None)

    def _heads(self) -> Iterator[Head]:
        for path, _ in records(self._folder):
            with suppress(OSError), path.open("rb") as file:
                head = load_head(file.read(_HEAD_BYTES))
                if head is not None:
                    yield head

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_SUFFIX}"

    def _write(self, key: str, data: bytes) -> None:
        private_folder(self._folder)
        replace_file(self._path(key), data)
        self._unchecked += len(data)
        if self._unchecked > _EVICT_EVERY_BYTES:
            self._unchecked = 0
            evict(self._root, LIMIT_BYTES)
