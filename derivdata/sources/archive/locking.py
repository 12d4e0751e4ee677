"""One writer at a time, between processes and threads; the lock is released when its holder exits."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from derivdata.errors import ArchiveError
from derivdata.sources.archive import systems

__all__ = ["writing"]

_NAME = ".lock"
_POLL_SECONDS = 0.02
_SIGN_BYTES = 20


@contextmanager
def writing(folder: Path, timeout: float) -> Iterator[bool]:
    """Hold the writer's lock; yield whether the writer before was cut off and may have left files.

    The lock file holds the writer's process id while it writes and is emptied at the end: an id that is
    found there belongs to a writer that was killed.

    Raises
    ------
    ArchiveError
        Another writer held it for `timeout` seconds, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # What is written goes to a file of this folder: a link leads elsewhere.
        handle = systems.open_lock_file(folder / _NAME)
    except OSError as problem:
        raise ArchiveError(f"{folder}: cannot be written: {problem.strerror}") from None
    try:
        _acquire(handle, folder, timeout)
        holder = os.getpid()
        try:
            yield _signed(handle, folder)
            if os.getpid() == holder:
                os.ftruncate(handle, 0)
        finally:
            # A child forked while the lock is taken shares it: it must neither keep it nor release it.
            if os.getpid() == holder:
                systems.unlock(handle)
    finally:
        os.close(handle)


def _signed(handle: int, folder: Path) -> bool:
    """Write this process's id into the lock file; return whether another's was left there."""
    try:
        cut_off = bool(systems.read_at(handle, _SIGN_BYTES, 0))
        systems.write_at(handle, str(os.getpid()).encode().ljust(_SIGN_BYTES), 0)
    except OSError as problem:
        raise ArchiveError(f"{folder}: cannot be written: {problem.strerror}") from None
    return cut_off


def _acquire(handle: int, folder: Path, timeout: float) -> None:
    until = time.monotonic() + timeout
    while True:
        try:
            if systems.try_lock(handle):
                return
        except OSError as problem:
            raise ArchiveError(f"{folder}: cannot be locked: {problem.strerror}") from None
        if time.monotonic() >= until:
            holder = systems.read_at(handle, _SIGN_BYTES, 0).decode().strip() or "unknown"
            raise ArchiveError(
                f"{folder}: process {holder} has held the writer's lock for over {timeout:g} s; "
                "nothing was written: wait for it or end it, then append again"
            )
        time.sleep(_POLL_SECONDS)
