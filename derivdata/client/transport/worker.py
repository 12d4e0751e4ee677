"""Run work in a daemon thread, and wait for it.

Requests run in a worker thread because an interrupt in a notebook reaches the thread that waits here on a
queue, and never a thread that has locked a connection pool. The request continues, and its response is in the
cache when the cell runs again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TookTooLong(Exception):
    """The work was not done in time. It continues in its thread."""


def started(work: Callable[[], T]) -> Callable[[float], T]:
    """Start `work` in a daemon thread. Return a function that waits at most so many seconds for its result.

    That function raises `TookTooLong` at the timeout, and any exception of `work`.
    """
    outcomes: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((work(), None))
        except BaseException as error:  # pass on any error: else the caller would wait until its timeout
            # Drop context and traceback: their frames contain the request with the key.
            error.__context__ = error.__cause__ = None
            outcomes.put((None, error.with_traceback(None)))

    def result(seconds: float) -> T:
        try:
            result, error = outcomes.get(timeout=seconds)
        except queue.Empty:
            raise TookTooLong from None
        if error is not None:
            raise error from None
        return result  # type: ignore[return-value]

    thread = threading.Thread(target=run, name="derivdata-request", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        # start() waits on a Condition. An interrupt that arrives just after the Condition released its lock
        # makes CPython release the lock twice and raise this error instead of the interrupt.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    return result
