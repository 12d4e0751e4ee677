"""Bodies that were not as expected, kept for somebody to look at: few, small, and written whole."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec
import pandas as pd

from derivdata.support.files import TEMPORARY, private_folder, replace_file

__all__ = ["QUARANTINE", "Quarantine"]

QUARANTINE = "quarantine"
"""The folder's name within an archive."""
_FILES = 100
_LARGEST = 256 * 2**10  # bytes of a body; what is longer is cut, and the file says so


class Quarantine:
    """A folder of bodies that could not be read, each with what was asked, when, and what is wrong with it.

    The same trouble with the same request is kept once, the newest body of it; beyond 100 files the oldest
    goes. Requests carry no key, so there is none to keep.

    Parameters
    ----------
    folder
        Where; made when there is something to keep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, exchange: str, request: str, body: bytes, error: str, at: pd.Timestamp) -> str:
        """Keep a body and return where, or why not: a disk that refuses must not stop the collecting."""
        place = request.partition("?")[0]
        kind = hashlib.blake2b(f"{exchange} {place} {error}".encode(), digest_size=6).hexdigest()
        description = {
            "exchange": exchange,
            "request": request,
            "at": at.isoformat(),
            "error": error,
            "bytes": len(body),
            "is_cut": len(body) > _LARGEST,
            "body": body[:_LARGEST].decode(errors="backslashreplace"),
        }
        path = self.folder / f"{exchange}-{kind}.json"
        try:
            private_folder(self.folder)
            replace_file(path, msgspec.json.format(msgspec.json.encode(description)))
            self._thin_out(path)
        except OSError as problem:
            return f"not kept: {problem}"
        return f"kept as {path.name}"

    def _thin_out(self, newest: Path) -> None:
        """Remove the oldest files beyond those that may be kept."""
        files = [p for p in self.folder.glob("*.json") if p != newest and not p.name.startswith(TEMPORARY)]
        if len(files) < _FILES:
            return
        for path in sorted(files, key=_changed)[: len(files) + 1 - _FILES]:
            with contextlib.suppress(OSError):
                path.unlink()


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another collector has removed it
        return 0.0
