"""Encoded responses: the queue that makes them, their cache, sending in pieces, and validators."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import hashlib
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import format_datetime
from typing import NamedTuple

import pandas as pd
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from derivdata.sources.service.data.store import Cancelled, Refusal, cancelled_by
from derivdata.sources.service.data.view import BoundedCache

_SMALL = 1024
"""Bytes below which a body is not compressed: it fits into about one packet."""
_PIECE = 1 << 17
"""Bytes of a piece of a body. A slow client holds about one piece in its connection's buffer."""
_ENTRY = 1024
"""Bytes of an entry in addition to its body and key: objects and the dictionary slot."""


class EncodedBody:
    """A response body as bytes, with the corrections of its rows.

    The body is compressed at most once; `packed` compresses it at construction.

    Attributes
    ----------
    tag
        Weak entity tag, because the compressed form has the same tag.
    """

    def __init__(self, body: bytes, *, packed: bool = False, corrections: str = "") -> None:
        self.body = body
        self.corrections = corrections
        self.tag = _entity_tag(body, corrections)
        self.worth_compressing = len(body) >= _SMALL
        self._packed = b""
        if packed and self.worth_compressing:
            self.compressed()

    @property
    def size(self) -> int:
        """Bytes in memory, including the compressed form if it exists."""
        return len(self.body) + len(self._packed) + len(self.corrections)

    @property
    def is_compressed(self) -> bool:
        """Return whether the compressed form exists."""
        return bool(self._packed)

    def compressed(self) -> bytes:
        """Return the body in gzip form; the same bytes on every run."""
        self._packed = self._packed or gzip.compress(self.body, 1, mtime=0)
        return self._packed


class ResponseCache(BoundedCache[EncodedBody]):
    """The most recently requested responses; not locked, for the serving thread only."""

    def __init__(self, limit: int = 128 << 20) -> None:
        super().__init__(limit, lambda request, body: body.size + _bytes_of(request) + _ENTRY)


class UnsentBodies:
    """Bodies that are being sent, each counted once for all its clients; for the serving thread only."""

    def __init__(self, limit: int = 256 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._clients: Counter[int] = Counter()

    def has_room(self, body: bytes) -> bool:
        """Return whether a body may be sent to one more client."""
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
    """A response that is sent in pieces, as fast as the client reads, without a copy of the whole body."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str], unsent: UnsentBodies) -> None:
        super().__init__(body, status, headers)
        self._unsent = unsent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, then the body in pieces."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        body = bytes(self.body)  # bytes(b) does not copy if b is bytes
        with self._unsent.sending(body):
            for offset in range(0, len(body), _PIECE):
                piece = body[offset : offset + _PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _entity_tag(body: bytes, corrections: str) -> str:
    """Return a weak ETag that changes with the body and with the corrections of its rows."""
    digest = hashlib.sha256(body)
    digest.update(b"\0" + corrections.encode())
    return f'W/"{digest.hexdigest()[:32]}"'


def _bytes_of(key: Hashable) -> int:
    return sum(map(_bytes_of, key)) if isinstance(key, tuple) else sys.getsizeof(key)


_ENTRY_BYTES = 512
"""Approximate bytes of an entry in addition to its key."""


class _Change(NamedTuple):
    tag: str
    at: pd.Timestamp  # the service's clock, in whole seconds
    is_dated: bool  # whether no other response of this resource has the same time


class Changes:
    """Time at which the response to each request changed last, by the service's clock; not locked.

    Times are known from the start of the process. Two responses within one second have the same time, so
    the second one is sent without ``Last-Modified``.
    """

    def __init__(self, limit: int = 16 << 20) -> None:
        self._changes: BoundedCache[_Change] = BoundedCache(
            limit, lambda key, _: _ENTRY_BYTES + len(str(key))
        )

    def headers(self, resource: Hashable, tag: str, now: pd.Timestamp) -> dict[str, str]:
        """Return the headers ``ETag`` and ``Last-Modified`` for a response with this tag."""
        change = self._changes.get(resource)
        if change is None or change.tag != tag:
            second = now.floor("s")
            change = _Change(tag, second, is_dated=change is None or second > change.at)
            self._changes.put(resource, change)
        stated = {"ETag": tag}
        if change.is_dated:
            stated["Last-Modified"] = format_datetime(change.at.to_pydatetime(), usegmt=True)
        return stated


def is_current(request: Mapping[str, str], validators: Mapping[str, str]) -> bool:
    """Return whether the client has this response, by a request's conditional headers (RFC 9110, section 13).

    A time counts only if it equals the ``Last-Modified`` that was sent and the request has no tags.
    """
    tags = request.get("If-None-Match")
    if tags is None:
        since = request.get("If-Modified-Since")
        return since is not None and since == validators.get("Last-Modified")
    if tags.strip() == "*":
        return True
    sent_tags = [tag.strip().removeprefix("W/") for tag in tags.split(",")]
    return validators["ETag"].removeprefix("W/") in sent_tags


_AT_ONCE = 4
_MAX_WAITING = 256


class Job:
    """A response that waits or is being made.

    `clients` counts the waiting clients of each caller; `charged` is the caller whose slot the job uses.
    """

    def __init__(self, request: Hashable, make: Callable[[], EncodedBody]) -> None:
        self.request = request
        self.make = make
        self.result: asyncio.Future[EncodedBody] = asyncio.get_running_loop().create_future()
        self.cancelled = threading.Event()
        self.clients: Counter[Hashable] = Counter()
        self.charged: Hashable = None
        self.started = False

    def run(self) -> EncodedBody:
        """Make the body, in a worker thread."""
        cancelled_by(self.cancelled)
        return self.make()


class WorkQueue:
    """Jobs by caller; for the serving thread only.

    A free slot goes to the caller with the fewest running jobs. Among several such callers, the caller that
    has waited longest comes first. The last free slot is reserved for a caller without a running job, so a
    new caller's request starts at once, or when the first running job ends. `at_once` limits memory, because
    each response may need hundreds of MiB. At most `most_waiting` jobs of one caller may wait.
    """

    def __init__(self, *, at_once: int = _AT_ONCE, most_waiting: int = _MAX_WAITING) -> None:
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._jobs: dict[Hashable, Job] = {}
        # Waiting callers in order. A job of several callers is in the queue of each.
        self._waiting: OrderedDict[Hashable, OrderedDict[Hashable, Job]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, request: Hashable, caller: Hashable, make: Callable[[], EncodedBody]) -> Job:
        """Return the job of a request, queued unless it runs; raise `Refusal` (429) if too many wait."""
        job = self._jobs.get(request) or Job(request, make)
        queue = self._waiting.get(caller, OrderedDict())
        if not job.started and request not in queue:
            if len(queue) >= self._most_waiting:
                message = f"{len(queue)} requests with this key are already waiting"
                headers = {"Retry-After": "1"}
                raise Refusal(
                    429, "too many requests at once", headers=headers, message=message, retry_after=1
                )
            self._jobs[request] = job
            self._waiting.setdefault(caller, queue)[request] = job
        job.clients[caller] += 1
        self._start()
        return job

    def leave(self, job: Job, caller: Hashable) -> None:
        """Remove a client of this caller from a job, and cancel the job after its last client."""
        job.clients[caller] -= 1
        if job.result.done():
            return
        if not job.clients[caller]:
            self._take(job, caller)
        if not job.clients.total():
            job.cancelled.set()
            if self._jobs.get(job.request) is job:  # later requests for the same start a new job
                del self._jobs[job.request]

    def _take(self, job: Job, caller: Hashable) -> None:
        """Remove a job from a caller's queue, and remove the queue if it becomes empty."""
        queue = self._waiting.get(caller, OrderedDict())
        if queue.get(job.request) is job:
            del queue[job.request]
            if not queue:
                del self._waiting[caller]

    def _start(self) -> None:
        """Start waiting jobs in free slots, by the order that the class describes."""
        while self._waiting and self._running.total() < self._at_once:
            # Of equal counts min returns the first caller, which has waited longest.
            caller = min(self._waiting, key=self._running.__getitem__)
            is_last_slot = self._running.total() == self._at_once - 1
            if is_last_slot and self._running[caller] and self._at_once > 1:
                return  # the last slot is reserved for a caller without a running job
            job = next(iter(self._waiting[caller].values()))
            for other in job.clients:
                self._take(job, other)
            job.charged = caller
            job.started = True
            self._running[caller] += 1
            self._to_the_end(caller)
            # An empty context, because a job may serve several requests: `noted` of the first one must not
            # collect the corrections of the job.
            task = asyncio.get_running_loop().create_task(self._run(job), context=contextvars.Context())
            self._tasks.add(task)  # the event loop has only a weak reference
            task.add_done_callback(self._tasks.discard)

    def _to_the_end(self, caller: Hashable) -> None:
        """Move a caller behind all waiting callers, so that frequent requests do not delay the others."""
        if caller in self._waiting:
            self._waiting.move_to_end(caller)

    async def _run(self, job: Job) -> None:
        """Run a job in a thread, set its result, and start the next ones."""
        try:
            encoded = await run_in_threadpool(job.run)
        except Cancelled:
            job.result.cancel()
        except Exception as problem:  # raised again in every client that waits for the result
            job.result.set_exception(problem)
            job.result.exception()  # marks it as read: asyncio logs errors that no client reads
        else:
            job.result.set_result(encoded)
        finally:
            if self._jobs.get(job.request) is job:
                del self._jobs[job.request]
            self._running[job.charged] -= 1
            if not self._running[job.charged]:
                del self._running[job.charged]
            self._to_the_end(job.charged)
            self._start()
