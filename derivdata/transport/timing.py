"""How long, how often, how large: the limits of one request, and the clock that measures them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache

import pandas as pd

__all__ = ["IN_PROCESS", "Limits", "Timing", "backoff", "http_date", "retry_after"]

_BASE_SECONDS = 0.5
_CAP_SECONDS = 20.0


@dataclass(frozen=True)
class Limits:
    """Bounds of one request; seconds unless said otherwise.

    Attributes
    ----------
    connect, read
        To open a connection; between two pieces of an answer.
    answer
        One try, from its start to the last byte.
    budget
        All tries and the pauses between them; waiting for a turn is not counted.
    patience
        The caller's, everything included.
    retry_after
        Longest pause that a service may ask for.
    tries
        Most tries.
    body_bytes
        Largest body, decompressed.
    """

    connect: float = 5.0
    read: float = 20.0
    answer: float = 60.0
    budget: float = 120.0
    patience: float = 300.0
    retry_after: float = 30.0
    tries: int = 5
    body_bytes: int = 48 * 2**20


IN_PROCESS = Limits(read=240.0, answer=240.0, budget=240.0)
"""Of a service in this process: while it makes a long answer its silence says nothing."""


@dataclass(frozen=True)
class Timing:
    """A clock for durations, a way to sleep, and chance in [0, 1)."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


def backoff(tried: int, timing: Timing) -> float:
    """Seconds before the next try after `tried` of them: full jitter, doubling, capped."""
    return timing.chance() * min(_CAP_SECONDS, _BASE_SECONDS * 2.0 ** (tried - 1))


@lru_cache(maxsize=256)
def http_date(text: str | None) -> pd.Timestamp | None:
    """The instant of a ``Date`` header; None where it cannot be read."""
    try:
        return pd.Timestamp(parsedate_to_datetime(text or "")).tz_convert("UTC").as_unit("us")
    except (ValueError, TypeError, OverflowError):
        return None


def retry_after(value: str | None, date: str | None) -> float | None:
    """Seconds that a ``Retry-After`` header asks for; None where it says nothing usable.

    A date counts from the answer's own ``Date``, so that the machine's clock plays no part.
    """
    try:
        seconds = float(value or "")
    except ValueError:
        then, now = http_date(value), http_date(date)
        if then is None or now is None:
            return None
        seconds = max((then - now).total_seconds(), 0.0)
    return seconds if 0 <= seconds < float("inf") else None
