"""A lock on a file that is released wherever an interrupt strikes the code that holds it.

Ctrl-C may come after the lock is taken and before a ``try`` begins, or at the start of a ``finally``.
A lock that is left then is held as long as the traceback lives: in a notebook, until the next error. So the
object is made first and holds nothing, and its user releases it in a ``finally`` that begins before the lock
is taken. Releasing it twice does nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock

_POLL_SECONDS = 0.02


class FolderLock:
    """The lock of one file."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._lock = FileLock(path, timeout=timeout, poll_interval=_POLL_SECONDS, mode=0o644)
        self._process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process made the lock: a child that was forked meanwhile has a copy."""
        return os.getpid() == self._process

    def acquire(self) -> None:
        """Wait for the lock; raise `filelock.Timeout`, an OSError, where another holds it for too long."""
        self._lock.acquire()

    def release(self) -> None:
        """Release the lock if it is held; a forked child does not release that of its parent."""
        if self.is_ours and self._lock.is_locked:
            self._lock.release(force=True)
