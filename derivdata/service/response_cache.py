"""EncodedBody answers of a store that does not change, kept up to a number of bytes."""

from __future__ import annotations

import gzip
from collections import OrderedDict
from collections.abc import Hashable

__all__ = ["EncodedBody", "ResponseCache"]

_SMALL = 1024


class EncodedBody:
    """One answer as bytes, compressed at most once.

    Parameters
    ----------
    body
        The answer.
    packed
        Whether to compress it now, in the thread that made it, if it is worth it.
    """

    def __init__(self, body: bytes, *, packed: bool = False) -> None:
        self.body = body
        self._packed = _packed(body) if packed and self.worth_compressing else b""

    @property
    def worth_compressing(self) -> bool:
        """Whether the body is large enough to gain by it."""
        return len(self.body) >= _SMALL

    def compressed(self) -> bytes:
        """The body in gzip form; the same bytes on every run."""
        self._packed = self._packed or _packed(self.body)
        return self._packed


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 1, mtime=0)


class ResponseCache:
    """The answers that were asked for last, as many as fit into `limit` bytes (compressed form included).

    Not locked: it belongs to the one thread that serves.
    """

    def __init__(self, limit: int = 64 << 20) -> None:
        self._limit, self._size = limit, 0
        self._answers: OrderedDict[Hashable, tuple[EncodedBody, int]] = OrderedDict()

    def get(self, ask: Hashable) -> EncodedBody | None:
        """The answer that was kept for `ask`, or None."""
        found = self._answers.get(ask)
        if found is None:
            return None
        self._answers.move_to_end(ask)
        return found[0]

    def put(self, ask: Hashable, answer: EncodedBody) -> None:
        """Keep an answer and let go of the oldest that no longer fit."""
        size = 2 * len(answer.body)
        if size > self._limit or ask in self._answers:
            return
        self._answers[ask] = (answer, size)
        self._size += size
        while self._size > self._limit:
            self._size -= self._answers.popitem(last=False)[1][1]
