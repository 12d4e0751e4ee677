"""Work in a thread of its own, and one flight per thing that is asked for.

An interrupt in a notebook strikes the thread that waits here, on a queue, and never one that holds a
connection pool's lock; the work itself goes on and its answer is in the cache when the cell runs again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class TookTooLong(Exception):
    """The work was not done in time; it is left to itself."""


def started(work: Callable[[], T]) -> Callable[[float], T]:
    """Begin `work` in a daemon thread, and return a function that waits for its result, so many seconds.

    That function raises `TookTooLong` where the work is not done by then, and else whatever `work` raises.
    """
    box: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((work(), None))
        except BaseException as error:  # hand over any error: else the caller would wait forever
            error.__context__ = error.__cause__ = None
            # Without the frames that saw the request as it went out, key and all.
            box.put((None, error.with_traceback(None)))

    def result(seconds: float) -> T:
        try:
            result, error = box.get(timeout=seconds)
        except queue.Empty:
            raise TookTooLong from None
        if error is not None:
            raise error from None
        return result  # type: ignore[return-value]

    thread = threading.Thread(target=run, name="derivdata-request", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        # start() waits on a Condition; where an interrupt strikes as that has released its lock, the lock
        # is released twice, and CPython raises this error about it instead of the interrupt.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    return result


class SharedRequests(Generic[T]):
    """Wait for an equal request that is already running. Call it in workers only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[T]] = {}

    def run(self, key: str, work: Callable[[], T]) -> T:
        """Return the result of `work`, or of the same key's work that is under way."""
        mine = Future[T]()
        with self._lock:
            flight = self._under_way.setdefault(key, mine)
        if flight is not mine:
            return flight.result()
        try:
            result = work()
            mine.set_result(result)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._under_way[key]
        return result
