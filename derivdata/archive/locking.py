"""One writer at a time, between processes and threads; whoever dies lets go."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from derivdata.errors import ArchiveError

__all__ = ["writing"]

_NAME = ".lock"
_POLL_SECONDS = 0.02
_SIGN_BYTES = 20


@contextmanager
def writing(folder: Path, timeout: float) -> Iterator[bool]:
    """Hold the writer's lock; gives whether the writer before was cut off and may have left files.

    Raises
    ------
    ArchiveError
        Another writer held it for `timeout` seconds, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # What is written goes to a file of this folder: a link leads elsewhere.
        handle = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as problem:
        raise ArchiveError(f"{folder}: cannot be written: {problem.strerror}") from None
    try:
        _acquire(handle, folder, timeout)
        cut_off = _signed(handle, folder)
        yield cut_off
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _signed(handle: int, folder: Path) -> bool:
    """Write who holds the lock over who held it last; whether that one left it there."""
    try:
        left = bool(os.pread(handle, _SIGN_BYTES, 0))
        os.pwrite(handle, str(os.getpid()).encode().ljust(_SIGN_BYTES), 0)
    except OSError as problem:
        raise ArchiveError(f"{folder}: cannot be written: {problem.strerror}") from None
    return left


def _acquire(handle: int, folder: Path, timeout: float) -> None:
    until = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ArchiveError(f"{folder}: cannot be locked: {problem.strerror}") from None
        else:
            return
        if time.monotonic() >= until:
            holder = os.pread(handle, _SIGN_BYTES, 0).decode().strip() or "unknown"
            raise ArchiveError(
                f"{folder}: process {holder} has held the writer's lock for over {timeout:g} s; "
                "nothing was written: wait for it or end it, then append again"
            )
        time.sleep(_POLL_SECONDS)
