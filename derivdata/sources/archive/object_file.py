"""An object of a store as a file that pyarrow reads from."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

__all__ = ["ObjectFile"]


def __dir__() -> list[str]:
    return __all__


class ObjectFile(io.RawIOBase):
    """An object as a file: every read is a request of its range."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._read_range, self._size, self._at = read_range, size, 0

    def readable(self) -> bool:
        """Return True: objects are read."""
        return True

    def seekable(self) -> bool:
        """Return True: a read may begin anywhere."""
        return True

    def tell(self) -> int:
        """Return the place of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the place of the next read, and return it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes from the place on; None or a negative size is all that remains."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        data = self._read_range(self._at, end) if end > self._at else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the object reaches, and return the number of bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
