"""Encoded answers: kept in memory up to a number of bytes, and sent piece by piece."""

from __future__ import annotations

import gzip
import sys
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_SMALL = 1024
_PIECE = 1 << 17
_ENTRY = 1024
"""Bytes of an entry beside its body and its key: objects, the place in the dictionary."""


class EncodedBody:
    """One answer as bytes, compressed at most once.

    With `packed` it is compressed now, in the thread that made it, if it is worth it. `corrections` is the
    value of the header that states corrections of what it was made of; empty where there are none.
    """

    def __init__(self, body: bytes, *, packed: bool = False, corrections: str = "") -> None:
        self.body, self.corrections = body, corrections
        self._packed = _packed(body) if packed and self.worth_compressing else b""

    @property
    def worth_compressing(self) -> bool:
        """Return whether the body is large enough for compression to pay."""
        return len(self.body) >= _SMALL

    @property
    def size(self) -> int:
        """Bytes that it takes, with its compressed form where there is one."""
        return len(self.body) + len(self._packed) + len(self.corrections)

    @property
    def is_compressed(self) -> bool:
        """Return whether the compressed form exists."""
        return bool(self._packed)

    def compressed(self) -> bytes:
        """Return the body in gzip form; the same bytes on every run."""
        self._packed = self._packed or _packed(self.body)
        return self._packed


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 1, mtime=0)


class ResponseCache:
    """The answers that were requested last, as many as fit into `limit` bytes with their keys.

    Not locked: it belongs to the one thread that serves.
    """

    def __init__(self, limit: int = 128 << 20) -> None:
        self._limit, self._size = limit, 0
        self._answers: OrderedDict[Hashable, tuple[EncodedBody, int]] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes that are counted now."""
        return self._size

    def get(self, request: tuple[Hashable, ...]) -> EncodedBody | None:
        """Return the answer that is kept for a request, or None."""
        entry = self._answers.get(request)
        if entry is None:
            return None
        self._answers.move_to_end(request)
        return entry[0]

    def put(self, request: tuple[Hashable, ...], answer: EncodedBody) -> None:
        """Keep an answer, as large as it is now, and drop the oldest that no longer fit."""
        if request in self._answers:
            self._size -= self._answers.pop(request)[1]
        size = answer.size + _bytes_of(request) + _ENTRY
        if size > self._limit:
            return
        self._answers[request] = (answer, size)
        self._size += size
        while self._size > self._limit:
            self._size -= self._answers.popitem(last=False)[1][1]


class UnsentBodies:
    """Bodies on their way, each counted once however many clients take it; used by the serving thread."""

    def __init__(self, limit: int = 512 << 20) -> None:
        self._limit, self._size = limit, 0
        self._clients: Counter[int] = Counter()

    def has_room(self, body: bytes) -> bool:
        """Return whether one more client may be sent a body."""
        return id(body) in self._clients or not self._size or self._size + len(body) <= self._limit

    @contextmanager
    def sending(self, body: bytes) -> Iterator[None]:
        """Count a body while it is sent to a client."""
        if not self._clients[id(body)]:
            self._size += len(body)
        self._clients[id(body)] += 1
        try:
            yield
        finally:
            self._clients[id(body)] -= 1
            if not self._clients[id(body)]:
                del self._clients[id(body)]
                self._size -= len(body)


class StreamedResponse(Response):
    """A response whose body is never copied whole: it is sent as fast as the client reads."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str], unsent: UnsentBodies) -> None:
        super().__init__(body, status, headers)
        self._unsent = unsent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        body = bytes(self.body)  # itself where it is bytes
        with self._unsent.sending(body):
            for place in range(0, len(body), _PIECE):
                piece = body[place : place + _PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _bytes_of(key: Hashable) -> int:
    """Bytes of the texts in a key."""
    return sum(map(_bytes_of, key)) if isinstance(key, tuple) else sys.getsizeof(key)
