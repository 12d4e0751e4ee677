"""Threads that start together and are joined."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable


def together(threads: Iterable[threading.Thread]) -> None:
    threads = [*threads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_threads(count: int, work: Callable[[int], object]) -> None:
    together(threading.Thread(target=work, args=(number,)) for number in range(count))
