"""The folder of cached answers: atomic files, no locks, safe for any number of threads and processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata.transport.folders import TEMPORARY, folder_now, private_folder
from derivdata.transport.records import Head, Record, dump, load_head, read
from derivdata.transport.timing import http_date

__all__ = ["LIMIT_BYTES", "AnswerFiles", "evict", "records"]

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
