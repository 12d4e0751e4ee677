"""Jobs by caller: whose turn it is, and what happens when clients leave."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from derivdata.sources.service.data import store
from derivdata.sources.service.data.store import Refusal
from derivdata.sources.service.http.responses import EncodedBody, Job, WorkQueue
from tests.service.conftest import PATIENCE


class Work:
    """Notes who begins, and makes each response once it may."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.change, self.may = threading.Condition(), threading.Semaphore(0)
        self.allowed: set[str] = set()
        self.over = False

    def __call__(self, name: str) -> Callable[[], EncodedBody]:
        def make() -> EncodedBody:
            with self.change:
                self.started.append(name)
                self.change.notify_all()
            while name not in self.allowed and not self.over and not self.may.acquire(timeout=0.01):
                store.check()
            return EncodedBody(name.encode())

        return make

    async def began(self, number: int) -> list[str]:

        def wait() -> None:
            with self.change:
                assert self.change.wait_for(lambda: len(self.started) >= number, PATIENCE)

        await asyncio.to_thread(wait)
        return list(self.started)


@pytest.fixture
def work() -> Work:
    return Work()


def played(case: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A case as a test; if it fails, running work ends, so that nothing waits for it."""

    async def run(work: Work, **given: str) -> None:
        try:
            await case(work, **given)
        finally:
            work.over = True

    @functools.wraps(case)
    def test(**given: Any) -> None:
        asyncio.run(run(**given))

    return test


async def ended(work: Work, jobs: dict[str, Job], *names: str) -> None:
    """End these jobs, one after the other; check which job each free slot starts."""
    for name in names:
        work.allowed.add(name)
        await asyncio.wait([jobs[name].result])


def joined(queue: WorkQueue, work: Work, *names: str) -> dict[str, Job]:
    """Jobs named after their callers: ``a1`` is the first of a."""
    return {name: queue.join(name, name[0], work(name)) for name in names}


@pytest.mark.parametrize("first", ["b1", "b2", "c1", "d1"])
@played
async def test_free_slot_goes_to_the_caller_without_a_running_job(work: Work, first: str) -> None:
    """Callers b, c and d hold all slots and have more to do; whichever of their jobs ends, e is next."""
    queue = WorkQueue(at_once=4)
    names = ["b1", "b2", "c1", "d1", "b3", "c2", "d2", "b4", "c3", "d3"]
    jobs = joined(queue, work, *names)
    assert sorted(await work.began(4)) == ["b1", "b2", "c1", "d1"]
    jobs["e1"] = queue.join("e1", "e", work("e1"))
    await ended(work, jobs, first)
    assert (await work.began(5))[4] == "e1"
    work.may.release(20)
    await asyncio.wait([job.result for job in jobs.values()])


@played
async def test_six_callers_take_turns_on_four_slots(work: Work) -> None:
    queue = WorkQueue(at_once=4)
    names = [f"{caller}{n}" for caller in "abcdef" for n in (1, 2, 3, 4)]
    jobs = joined(queue, work, *names)
    # a was alone when it came and has three slots; the fourth is b's.
    assert sorted(await work.began(4)) == ["a1", "a2", "a3", "b1"]
    ends, starts = "a1 a2 a3 b1 c1 d1 e1".split(), "c1 d1 e1 f1 a4 b2 c2".split()
    for place, (over, then) in enumerate(zip(ends, starts, strict=True), 5):
        await ended(work, jobs, over)
        assert (await work.began(place))[place - 1] == then
    work.may.release(40)
    await asyncio.wait([job.result for job in jobs.values()])
    assert sorted(work.started) == sorted(names)


@played
async def test_a_queued_request_of_another_caller_starts_in_whichever_turn_is_first(work: Work) -> None:
    """The fifth request of a waits behind its first four; b makes the same request, and has a slot."""
    queue = WorkQueue(at_once=4)
    jobs = [*joined(queue, work, "a1", "a2", "a3", "a4", "a5").values()]
    await work.began(3)
    assert queue.join("a5", "b", work("a5")) is jobs[4]
    assert (await work.began(4))[3] == "a5"
    queue.leave(jobs[4], "b")
    assert not jobs[4].cancelled.is_set()
    work.may.release(5)
    await asyncio.wait([job.result for job in jobs])
    assert sorted(work.started) == ["a1", "a2", "a3", "a4", "a5"]


@pytest.mark.parametrize("leaves", ["a", "b"])
@played
async def test_a_shared_job_stays_in_the_queue_of_the_caller_that_waits_on(work: Work, leaves: str) -> None:
    queue = WorkQueue(at_once=1)
    first, shared = joined(queue, work, "a1", "a2").values()
    assert queue.join("a2", "b", work("a2")) is shared
    assert queue.join("a2", "b", work("a2")) is shared
    queue.leave(shared, leaves)
    if leaves == "b":
        queue.leave(shared, "b")
    assert not shared.cancelled.is_set()
    work.may.release(2)
    await asyncio.wait([first.result, shared.result])
    assert shared.result.result().body == b"a2"
    assert work.started == ["a1", "a2"]


@played
async def test_job_is_cancelled_when_its_last_client_disconnects(work: Work) -> None:
    queue = WorkQueue()
    (job,) = joined(queue, work, "a1").values()
    assert queue.join("a1", "b", work("a1")) is job
    await work.began(1)
    queue.leave(job, "b")
    assert not job.cancelled.is_set()
    queue.leave(job, "a")
    await asyncio.wait([job.result])
    assert job.result.cancelled()
    (again,) = joined(queue, work, "a1").values()
    assert again is not job
    work.may.release()
    assert (await again.result).body == b"a1"


@played
async def test_queued_job_without_clients_never_starts(work: Work) -> None:
    queue = WorkQueue(at_once=1)
    jobs = joined(queue, work, "a1", "a2", "a3")
    await work.began(1)
    queue.leave(jobs["a2"], "a")
    work.may.release(3)
    await asyncio.wait([jobs["a1"].result, jobs["a3"].result])
    assert work.started == ["a1", "a3"]


@played
async def test_an_error_goes_to_every_client_and_frees_the_slot(work: Work) -> None:
    queue = WorkQueue(at_once=1)

    def fail() -> EncodedBody:
        raise OSError("disk")

    job = queue.join("bad", "a", fail)
    assert queue.join("bad", "a", fail) is job
    with pytest.raises(OSError, match="disk"):
        await job.result
    good = queue.join("good", "a", lambda: EncodedBody(b"x"))
    assert (await good.result).body == b"x"


@played
async def test_queue_length_is_limited_per_caller(work: Work) -> None:
    queue = WorkQueue(at_once=1, most_waiting=2)
    jobs = [*joined(queue, work, "a1", "a2", "a3").values()]
    with pytest.raises(Refusal, match="too many requests at once"):
        joined(queue, work, "a4")
    jobs += [*joined(queue, work, "a3", "b1").values(), queue.join("a2", "b", work("a2"))]
    with pytest.raises(Refusal, match="too many requests at once"):
        queue.join("a3", "b", work("a3"))
    work.may.release(4)
    await asyncio.wait([job.result for job in jobs])
