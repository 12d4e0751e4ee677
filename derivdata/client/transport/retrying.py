"""Repeat an attempt while that can help: the one loop of all requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Sent = TypeVar("Sent")


def repeat(
    attempt: Callable[[], Sent],
    pause: Callable[[Sent, int], float | None],
    wait: Callable[[float], None],
    *,
    tries: int,
) -> Sent:
    """Return the last outcome of `attempt`.

    `pause` is called with an outcome and the number of attempts so far. It returns the wait before the next
    one [s]; None ends the loop.
    """
    for number in range(1, tries):
        outcome = attempt()
        seconds = pause(outcome, number)
        if seconds is None:
            return outcome
        wait(seconds)
    return attempt()
