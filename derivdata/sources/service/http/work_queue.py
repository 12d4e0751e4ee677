"""A queue of work: a few answers at a time, keys in turn, equal requests once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable

from starlette.concurrency import run_in_threadpool

from derivdata.sources.service.data.running_answer import Cancelled, cancelled_by
from derivdata.sources.service.http.responses import EncodedBody
from derivdata.sources.service.refusal import Refusal

_AT_ONCE = 4
_MOST_WAITING = 256


class Job:
    """One answer that is being made, or waits: its `clients` by caller, and in whose turn it is `charged`."""

    def __init__(self, request: Hashable, make: Callable[[], EncodedBody]) -> None:
        self.request = request
        self.make = make
        self.result: asyncio.Future[EncodedBody] = asyncio.get_running_loop().create_future()
        self.cancelled = threading.Event()
        self.clients: Counter[Hashable] = Counter()
        self.charged: Hashable = None
        self.started = False

    def run(self) -> EncodedBody:
        """Make the answer, in a worker thread."""
        cancelled_by(self.cancelled)
        return self.make()


class WorkQueue:
    """Jobs by caller; used by the serving thread alone.

    A free slot goes to the caller with the fewest running jobs, of several to the one that has waited
    longest, and the last free slot only to a caller without any: whatever some ask for, another's request
    starts at once or as soon as the first running job ends. `at_once` bounds memory, as each answer may need
    hundreds of MiB; of one caller `most_waiting` jobs may wait.
    """

    def __init__(self, *, at_once: int = _AT_ONCE, most_waiting: int = _MOST_WAITING) -> None:
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._jobs: dict[Hashable, Job] = {}
        # Callers in the order in which they wait; a job that several request is in the queue of each.
        self._waiting: OrderedDict[Hashable, OrderedDict[Hashable, Job]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, request: Hashable, caller: Hashable, make: Callable[[], EncodedBody]) -> Job:
        """Return the job of a request, queued unless it is under way; refuse where too many wait (429)."""
        job = self._jobs.get(request) or Job(request, make)
        queue = self._waiting.get(caller, OrderedDict())
        if not job.started and request not in queue:
            if len(queue) >= self._most_waiting:
                message = f"{len(queue)} requests of this key are waiting already"
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
        """Note that a client of this caller waits no more for a job; without clients the work ends."""
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
        queue = self._waiting.get(caller, OrderedDict())
        if queue.get(job.request) is job:
            del queue[job.request]
            if not queue:
                del self._waiting[caller]

    def _start(self) -> None:
        while self._waiting and (free := self._at_once - self._running.total()) > 0:
            caller = min(self._waiting, key=self._running.__getitem__)  # the first of those with the fewest
            if free == 1 < self._at_once and self._running[caller]:
                return
            job = next(iter(self._waiting[caller].values()))
            for other in job.clients:
                self._take(job, other)
            job.charged = caller
            job.started = True
            self._running[caller] += 1
            self._to_the_end(caller)
            task = asyncio.get_running_loop().create_task(self._run(job), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _to_the_end(self, caller: Hashable) -> None:
        """Put a caller behind all that wait now: one that is served again and again must not pass others."""
        if caller in self._waiting:
            self._waiting.move_to_end(caller)

    async def _run(self, job: Job) -> None:
        try:
            answer = await run_in_threadpool(job.run)
        except Cancelled:
            job.result.cancel()
        except Exception as problem:  # raised again in every client that waits for the result
            job.result.set_exception(problem)
            job.result.exception()  # all clients have left, so nothing else reads it
        else:
            job.result.set_result(answer)
        finally:
            if self._jobs.get(job.request) is job:
                del self._jobs[job.request]
            self._running[job.charged] -= 1
            if not self._running[job.charged]:
                del self._running[job.charged]
            self._to_the_end(job.charged)
            self._start()
