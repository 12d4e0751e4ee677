"""Settings of a connection: its cache, the bounds of a request, and the clock for durations."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from derivdata.support.times import machine_now

__all__ = ["IN_PROCESS", "Limits", "Settings", "Timing"]


@dataclass(frozen=True)
class Limits:
    """Bounds of one request, in seconds by default.

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
    """A clock for durations, a way to sleep, chance in [0, 1), and the machine's time of day."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    machine: Callable[[], datetime] = machine_now


@dataclass(frozen=True)
class Settings:
    """Settings of a connection.

    Attributes
    ----------
    scope
        Text that names the source in the cache: its address, or a local source's identity.
    folder
        The cache folder.
    cache
        ``"on"``, ``"refresh"`` (request again, then keep) or ``"off"``.
    offline
        Whether only the cache may answer, with answers of any age.
    paced
        Whether rate limits are kept.
    """

    scope: str
    folder: Path
    cache: str = "on"
    offline: bool = False
    paced: bool = True
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
