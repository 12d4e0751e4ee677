"""Differences between operating systems: exclusive locks, links, syncing of folders.

POSIX has ``flock``, ``O_NOFOLLOW``, ``pread`` and folders that can be synced; Windows has ``msvcrt.locking``
and none of the others. Everything else in the package is the same on both.
"""

from __future__ import annotations

import errno
import importlib
import os
from pathlib import Path
from typing import Any

__all__ = ["open_lock_file", "read_at", "sync", "try_lock", "unlock", "write_at"]

_LOCKED_BYTE = 1 << 30
"""Where Windows locks one byte: its locks are mandatory, so what others read must lie elsewhere."""


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = _module("fcntl"), _module("msvcrt")


def open_lock_file(path: Path) -> int:
    """Open a file for locking; refuse a link where the system supports it."""
    flags = os.O_RDWR | os.O_CREAT
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NOINHERIT", "O_BINARY"):
        flags |= getattr(os, name, 0)
    if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags, 0o644)


def try_lock(handle: int) -> bool:
    """Lock an open file for this process alone, without waiting.

    Raises
    ------
    OSError
        The file system or the system has no locks.
    """
    try:
        if _fcntl is not None:
            _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        elif _msvcrt is not None:
            os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
            _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
        else:
            raise OSError(errno.ENOSYS, "this system has no file locks")
    except OSError as problem:
        if problem.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def unlock(handle: int) -> None:
    """Release the lock of an open file.

    Closing the file is not enough on POSIX: a process forked in between has it open, too.
    """
    if _fcntl is not None:
        _fcntl.flock(handle, _fcntl.LOCK_UN)
    else:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        _msvcrt.locking(handle, _msvcrt.LK_UNLCK, 1)


def read_at(handle: int, size: int, offset: int) -> bytes:
    """Read some bytes of an open file."""
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, size)


def write_at(handle: int, data: bytes, offset: int) -> None:
    """Write some bytes into an open file."""
    os.lseek(handle, offset, os.SEEK_SET)
    os.write(handle, data)


def sync(path: Path) -> None:
    """Wait until a file's or a folder's content is on disk; Windows cannot sync a folder."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
