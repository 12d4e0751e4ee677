"""A queue of work: a few answers at a time, keys in turn, equal requests once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable

from starlette.concurrency import run_in_threadpool

from derivdata.service.cancellation import Cancelled, cancelled_by
from derivdata.service.refusal import Refusal
from derivdata.service.response_cache import EncodedBody

__all__ = ["Job", "WorkQueue"]

_AT_ONCE = 4
_MOST_WAITING = 256


class Job:
    """One answer that is being made, or waits for its turn.

    Attributes
    ----------
    result
        The answer, once it is made.
    """

    def __init__(self, request: Hashable, caller: Hashable, make: Callable[[], EncodedBody]) -> None:
        self.request, self.caller, self.make = request, caller, make
        self.result: asyncio.Future[EncodedBody] = asyncio.get_running_loop().create_future()
        self.cancelled = threading.Event()
        self.waiting = 0

    def run(self) -> EncodedBody:
        """Make the answer, in a worker thread."""
        cancelled_by(self.cancelled)
        return self.make()


class WorkQueue:
    """Jobs by caller; used by the serving thread alone.

    Callers take turns, and none has more than all slots but one: whatever one caller asks for, another's
    request finds a slot free as soon as it comes.

    Parameters
    ----------
    at_once
        How many answers are made at one time: it bounds memory, as each may need hundreds of MiB.
    most_waiting
        How many jobs of one caller may wait.
    """

    def __init__(self, *, at_once: int = _AT_ONCE, most_waiting: int = _MOST_WAITING) -> None:
        self._at_once, self._most_waiting = at_once, most_waiting
        self._jobs: dict[Hashable, Job] = {}
        self._waiting: OrderedDict[Hashable, OrderedDict[Hashable, Job]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, request: Hashable, caller: Hashable, make: Callable[[], EncodedBody]) -> Job:
        """Return the job of a request, which is queued unless one of the same request is under way.

        Raises
        ------
        Refusal
            Too many jobs of this caller wait (429).
        """
        job = self._jobs.get(request)
        if job is None:
            queue = self._waiting.get(caller, OrderedDict())
            if len(queue) >= self._most_waiting:
                message = f"{len(queue)} requests of this key are waiting already"
                headers = {"Retry-After": "1"}
                raise Refusal(
                    429, "too many requests at once", headers=headers, message=message, retry_after=1
                )
            job = self._jobs[request] = Job(request, caller, make)
            self._waiting.setdefault(caller, queue)[request] = job
        job.waiting += 1
        self._start()
        return job

    def leave(self, job: Job) -> None:
        """Say that one client waits no more for a job; without clients the work ends."""
        job.waiting -= 1
        if job.waiting or job.result.done():
            return
        job.cancelled.set()
        if self._jobs.get(job.request) is job:  # later requests for the same start a new job
            del self._jobs[job.request]
        queue = self._waiting.get(job.caller, OrderedDict())
        if queue.get(job.request) is job:
            del queue[job.request]
            if not queue:
                del self._waiting[job.caller]

    def _start(self) -> None:
        """Start what may run, one job of each caller after the other."""
        while self._running.total() < self._at_once:
            share = max(self._at_once - 1, 1)
            caller = next((c for c in self._waiting if self._running[c] < share), None)
            if caller is None:
                return
            queue = self._waiting[caller]
            _, job = queue.popitem(last=False)
            self._waiting.move_to_end(caller)
            if not queue:
                del self._waiting[caller]
            self._running[caller] += 1
            task = asyncio.get_running_loop().create_task(self._run(job), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, job: Job) -> None:
        try:
            answer = await run_in_threadpool(job.run)
        except Cancelled:
            job.result.cancel()
        except Exception as problem:
            job.result.set_exception(problem)
            job.result.exception()  # where all clients are gone, nobody else looks at it
        else:
            job.result.set_result(answer)
        finally:
            if self._jobs.get(job.request) is job:
                del self._jobs[job.request]
            self._running[job.caller] -= 1
            if not self._running[job.caller]:
                del self._running[job.caller]
            self._start()
