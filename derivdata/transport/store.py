"""The folder of cached answers: atomic files, no locks, safe for any number of threads and processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from requests_cache.backends.base import BaseCache, BaseStorage
from requests_cache.models.response import CachedResponse

from derivdata.transport.folders import TEMPORARY, folder_now, private_folder
from derivdata.transport.records import Head, Record, dump, load, load_head, read
from derivdata.transport.timing import http_date

__all__ = ["LIMIT_BYTES", "AnswerCache", "AnswerFiles", "evict", "records"]

LIMIT_BYTES = 2**30
"""Most bytes that all answers together keep; the oldest go first."""

_SUFFIX = ".answer"
_STRAY_SECONDS = 3600.0
_EVICT_EVERY_BYTES = 64 * 2**20
_HEAD_BYTES = 1 << 14


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
    now = folder_now(folder)
    for path in folder.rglob(f"{TEMPORARY}*"):
        with suppress(OSError):
            if now - path.stat().st_mtime > _STRAY_SECONDS:
                path.unlink()


class AnswerFiles(BaseStorage):  # type: ignore[type-arg]
    """One source's answers as a mapping from cache key to response.

    Attributes
    ----------
    trouble
        Why the last answer could not be kept, until somebody clears it.
    """

    def __init__(self, root: Path, scope: str) -> None:
        super().__init__()
        self.serializer = None
        self.trouble: str | None = None
        self._root = root
        self._folder = root / scope
        self._unchecked = _EVICT_EVERY_BYTES

    def __getitem__(self, key: str) -> CachedResponse:
        data = self._data(key)
        response = None if data is None else load(data, key)
        if response is None:
            raise KeyError(key)
        return response

    def record(self, key: str) -> Record | None:
        """What is kept under a key, without a response made of it; None where there is nothing whole."""
        data = self._data(key)
        return None if data is None else read(data, key)

    def __setitem__(self, key: str, response: Any) -> None:
        try:
            self._write(key, dump(key, response.request.path_url, response))
        except OSError as error:
            self.trouble = f"{self._folder}: {error.strerror or error}"

    def __delitem__(self, key: str) -> None:
        try:
            self._path(key).unlink()
        except OSError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return (path.name.removesuffix(_SUFFIX) for path, _ in records(self._folder))

    def __len__(self) -> int:
        return sum(1 for _ in records(self._folder))

    def clear(self) -> None:
        """Remove every answer of this source."""
        self.bulk_delete(list(self))

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

    def _data(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except OSError:
            return None

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_SUFFIX}"

    def _write(self, key: str, data: bytes) -> None:
        private_folder(self._folder)
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(self._path(key))
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        self._unchecked += len(data)
        if self._unchecked > _EVICT_EVERY_BYTES:
            self._unchecked = 0
            evict(self._root, LIMIT_BYTES)


class AnswerCache(BaseCache):
    """requests-cache's view of one source's answers; redirects are remembered in memory only."""

    def __init__(self, files: AnswerFiles) -> None:
        super().__init__()
        self.responses = files
