"""The cache folder: where it is, how it is made, what time it is there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

__all__ = ["TEMPORARY", "cache_folder", "folder_now", "private_folder"]

TEMPORARY = ".tmp-"
"""How the names of files that are being written begin."""


def cache_folder() -> Path:
    """``DERIVDATA_CACHE_DIR``, else the platform's folder for a user's caches."""
    given = os.environ.get("DERIVDATA_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    return Path(platformdirs.user_cache_dir("derivdata", appauthor=False))


def private_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, for this user alone."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)


def folder_now(folder: Path) -> float:
    """The file system's own time, so that ages never depend on the machine's clock."""
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
    os.close(handle)
    try:
        return Path(name).stat().st_mtime
    finally:
        Path(name).unlink()
