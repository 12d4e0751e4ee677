"""Jobs by caller: whose turn it is, and what happens when clients leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from derivdata.service import cancellation
from derivdata.service.refusal import Refusal
from derivdata.service.response_cache import EncodedBody
from derivdata.service.work_queue import Job, WorkQueue
from tests.service.conftest import PATIENCE


class Work:
    """Notes who begins, and makes each answer once it may."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.change, self.may = threading.Condition(), threading.Semaphore(0)

    def __call__(self, name: str) -> Callable[[], EncodedBody]:
        def make() -> EncodedBody:
            with self.change:
                self.begun.append(name)
                self.change.notify_all()
            while not self.may.acquire(timeout=0.01):
                cancellation.check()
            return EncodedBody(name.encode())

        return make

    async def began(self, number: int) -> list[str]:
        """Wait until so many have begun."""

        def wait() -> None:
            with self.change:
                assert self.change.wait_for(lambda: len(self.begun) >= number, PATIENCE)

        await asyncio.to_thread(wait)
        return list(self.begun)


def joined(queue: WorkQueue, work: Work, *names: str) -> list[Job]:
    """Jobs named after their callers: ``a1`` is the first of a."""
    return [queue.join(name, name[0], work(name)) for name in names]


def test_callers_take_turns() -> None:
    """One slot: of what waits after a1, each caller has one job made before any has a second."""

    async def run() -> None:
        queue, work = WorkQueue(at_once=1), Work()
        jobs = joined(queue, work, "a1", "a2", "a3", "b1", "c1", "b2")
        for _ in jobs:
            work.may.release()
        await asyncio.wait([job.result for job in jobs])
        assert work.begun == ["a1", "a2", "b1", "c1", "a3", "b2"]

    asyncio.run(run())


def test_one_caller_leaves_one_slot_free() -> None:
    async def run() -> None:
        queue, work = WorkQueue(at_once=4), Work()
        jobs = joined(queue, work, "a1", "a2", "a3", "a4", "a5")
        assert sorted(await work.began(3)) == ["a1", "a2", "a3"]
        jobs += joined(queue, work, "b1", "b2")
        assert (await work.began(4))[3] == "b1"
        for _ in jobs:
            work.may.release()
        await asyncio.wait([job.result for job in jobs])
        assert sorted(work.begun) == ["a1", "a2", "a3", "a4", "a5", "b1", "b2"]

    asyncio.run(run())


def test_a_job_ends_when_its_last_client_leaves() -> None:
    async def run() -> None:
        queue, work = WorkQueue(), Work()
        (job,) = joined(queue, work, "a1")
        assert queue.join("a1", "b", work("a1")) is job
        await work.began(1)
        queue.leave(job)
        assert not job.cancelled.is_set()
        queue.leave(job)
        await asyncio.wait([job.result])
        assert job.result.cancelled()
        (again,) = joined(queue, work, "a1")
        assert again is not job
        work.may.release()
        assert (await again.result).body == b"a1"

    asyncio.run(run())


def test_a_job_that_nobody_waits_for_never_begins() -> None:
    async def run() -> None:
        queue, work = WorkQueue(at_once=1), Work()
        first, second, third = joined(queue, work, "a1", "a2", "a3")
        await work.began(1)
        queue.leave(second)
        work.may.release(2)
        await asyncio.wait([first.result, third.result])
        assert work.begun == ["a1", "a3"]

    asyncio.run(run())


def test_an_error_goes_to_every_client_and_frees_the_slot() -> None:
    async def run() -> None:
        queue = WorkQueue(at_once=1)

        def fail() -> EncodedBody:
            raise OSError("disk")

        job = queue.join("bad", "a", fail)
        assert queue.join("bad", "a", fail) is job
        with pytest.raises(OSError, match="disk"):
            await job.result
        good = queue.join("good", "a", lambda: EncodedBody(b"x"))
        assert (await good.result).body == b"x"

    asyncio.run(run())


def test_only_so_many_of_one_caller_may_wait() -> None:
    async def run() -> None:
        queue, work = WorkQueue(at_once=1, most_waiting=2), Work()
        jobs = joined(queue, work, "a1", "a2", "a3")
        with pytest.raises(Refusal, match="too many requests at once"):
            joined(queue, work, "a4")
        jobs += joined(queue, work, "a3", "b1")
        work.may.release(4)
        await asyncio.wait([job.result for job in jobs])

    asyncio.run(run())
