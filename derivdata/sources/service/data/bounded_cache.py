"""A cache with a limit in bytes that drops the least recently used entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """What was used last, as much as fits into `limit` bytes by `size_of` key and value; not locked."""

    def __init__(self, limit: int, size_of: Callable[[Hashable, T], int]) -> None:
        self._limit = limit
        self._size_of = size_of
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key, or None."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: Hashable, value: T) -> None:
        """Keep a value, as large as it is now, and drop the oldest that no longer fit."""
        if key in self._entries:
            self.size -= self._entries.pop(key)[1]
        if (size := self._size_of(key, value)) > self._limit:
            return
        self._entries[key] = value, size
        self.size += size
        while self.size > self._limit:
            self.size -= self._entries.popitem(last=False)[1][1]
