"""Find the cache folder, list what it holds, and empty it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pandas as pd
import platformdirs

from derivdata.client.transport.cache import LIMIT_BYTES, records
from derivdata.errors import CacheNotice
from derivdata.support import times
from derivdata.support.files import file_system_time
from derivdata.support.notices import warn_caller


def cache_folder() -> Path:
    """Return ``DERIVDATA_CACHE_DIR``, else the platform's folder for a user's caches.

    A user without a home folder, as in many containers, gets a temporary one with a `CacheNotice`; it is
    removed when the process ends.
    """
    given = os.environ.get("DERIVDATA_CACHE_DIR")
    try:
        return Path(given or platformdirs.user_cache_dir("derivdata", appauthor=False)).expanduser()
    except RuntimeError:
        if given:
            raise ValueError(f"DERIVDATA_CACHE_DIR={given!r}, and this user has no home folder") from None
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
    if os.getpid() == owner:  # a forked child that ends must not take its parent's cache away
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class CacheInfo:
    """Summary of the cache.

    Attributes
    ----------
    folder
        Where it is.
    answers, bytes
        How many answers, and their size on disk.
    limit_bytes
        Size from which the oldest go.
    """

    folder: Path
    answers: int
    bytes: int
    limit_bytes: int = LIMIT_BYTES

    def __repr__(self) -> str:
        used, most = self.bytes / 2**20, self.limit_bytes / 2**20
        return f"CacheInfo({self.answers} answers, {used:.1f} of {most:.0f} MiB, {self.folder})"


def cache_info() -> CacheInfo:
    """Return what the cache holds, of every source."""
    folder = cache_folder()
    sizes = [stat.st_size for _, stat in records(folder / "answers")]
    return CacheInfo(folder=folder, answers=len(sizes), bytes=sum(sizes))


def cache_clear(older_than: str | pd.Timedelta | None = None) -> int:
    """Remove cached answers of every source; return how many.

    Parameters
    ----------
    older_than
        Only those received longer ago than this: ``"30d"``, ``"12h"`` or a Timedelta. None for all.

    Raises
    ------
    ValueError
        `older_than` is not a length of time.
    """
    folder = cache_folder() / "answers"
    if not folder.is_dir():
        return 0
    newest = float("inf") if older_than is None else file_system_time(folder) - _seconds(older_than)
    removed = 0
    for path, stat in records(folder):
        if stat.st_mtime <= newest:
            with suppress(OSError):
                path.unlink()
                removed += 1
    return removed


def _seconds(length: str | pd.Timedelta) -> float:
    age = times.lookback(length) if isinstance(length, str) else length
    if not isinstance(age, pd.Timedelta) or not age >= pd.Timedelta(0):
        raise ValueError(f"older_than={length!r} is not a length of time: write it like '30d' or '12h'")
    return float(age.total_seconds())
