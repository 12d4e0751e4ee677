"""Settings of a connection, and the rate limiter. This module does not import requests.

A response from the cache must not wait for the import of requests, so this is not part of `adapter`.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from derivdata.support.files import private_folder
from derivdata.support.times import machine_now
from derivdata.tables.endpoints import Endpoint


@dataclass(frozen=True)
class Limits:
    """Bounds of one request, most of them in seconds."""

    connect: float = 5.0
    read: float = 20.0  # between two chunks of a response
    answer: float = 60.0  # one try, from its start to the last byte
    budget: float = 120.0  # all tries and the pauses between them, without the wait for the rate limit
    patience: float = 300.0  # total wait of the caller
    retry_after: float = 30.0  # longest Retry-After that is waited for; a longer one ends the tries
    tries: int = 5
    body_bytes: int = 48 * 2**20  # decompressed


IN_PROCESS = Limits(read=240.0, answer=240.0, budget=240.0)
"""For a service in this process, which sends nothing while it computes a long response."""


@dataclass(frozen=True)
class Timing:
    """Clock for durations, sleep function, random number in [0, 1), and the machine's time of day."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    machine: Callable[[], datetime] = machine_now


@dataclass(frozen=True)
class ConnectionSettings:
    """Settings of a connection."""

    scope: str  # names the source in the cache: its address, or a local source's identity
    folder: Path
    cache: str = "on"  # or "refresh" (request again and store), or "off"
    offline: bool = False  # read from the cache only, whatever the age of the record
    paced: bool = True  # whether requests wait for the rate limits
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    rules: Mapping[str, Any] = field(default_factory=dict)  # settings of requests-cache, by its names
    session: Any = None  # a user's own requests.Session or CachedSession

    @property
    def has_own_cache(self) -> bool:
        """Whether the user's session has its own cache, which then replaces the library's cache."""
        return hasattr(self.session, "cache") and hasattr(self.session, "settings")

    @property
    def reads_records(self) -> bool:
        """Whether a fresh record is used without opening a session."""
        if self.has_own_cache:
            return False
        return self.offline or (self.cache == "on" and not self.rules.get("always_revalidate"))


_SHARE = 0.9
"""Fraction of the allowed rate that is used: at all of it, a sliding window rejects a fifth of the calls."""
_LOCK_SECONDS = 0.5
_POLL_SECONDS = 0.005
_HORIZON_SECONDS = 60.0
_LATE_SECONDS = 0.03
_TURNS = 5
"""Retries for a slot that was missed while the process was descheduled (paused by the system)."""


def spacing_seconds(endpoint: Endpoint) -> float:
    """Return the minimum seconds between two requests to an endpoint; 0 without a rate limit."""
    return 0.0 if endpoint.per_second is None else 1.0 / (_SHARE * endpoint.per_second)


class Pace:
    """Rate limiter: waits until this key may send the next request to an endpoint."""

    def __init__(self, folder: Path, scope: str, timing: Timing) -> None:
        self._folder = folder
        self._scope = scope
        self._timing = timing
        self._own: dict[str, float] = {}
        self._lock = threading.Lock()

    def wait(self, endpoint: Endpoint | None) -> None:
        """Sleep until this request may be sent."""
        if endpoint is None or endpoint.per_second is None:
            return
        spacing = spacing_seconds(endpoint)
        name = hashlib.sha256(f"{self._scope}\n{endpoint.path}".encode()).hexdigest()[:32]
        for _ in range(_TURNS):
            delay = self._shared_delay(name, spacing)
            if delay is None:
                with self._lock:
                    now, slot = self._next(self._own.get(name), spacing)
                    self._own[name] = slot
                delay = slot - now
            if not self._overslept(delay):
                return

    def _overslept(self, delay: float) -> bool:
        """Sleep until the slot. Return whether sleep ended late, when the next slot may be too close."""
        if delay <= 0:
            return False
        due = self._timing.monotonic() + delay
        self._timing.sleep(delay)
        return self._timing.monotonic() > due + _LATE_SECONDS

    def _shared_delay(self, name: str, spacing: float) -> float | None:
        """Reserve the next slot in the file shared by processes; None if the file cannot be locked."""
        try:
            private_folder(self._folder)
            with FileLock(
                self._folder / f"{name}.lock",
                timeout=_LOCK_SECONDS,
                poll_interval=_POLL_SECONDS,
                mode=0o600,
                fallback_to_soft=False,  # a soft lock left by a terminated process would delay every request
            ):
                return self._reserve_slot(self._folder / name, spacing)
        # The folder is missing, cannot lock files, or another process has the lock (Timeout is an OSError).
        except (OSError, RuntimeError):
            return None

    def _reserve_slot(self, path: Path, spacing: float) -> float:
        """Write the next slot into the shared file and return the seconds until it."""
        # O_NOFOLLOW: in a folder that others may write, a link could point to any file of this user.
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            now, slot = self._next(_number(os.read(file, 64)), spacing)
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, repr(slot).encode())
        finally:
            os.close(file)
        return slot - now

    def _next(self, last: float | None, spacing: float) -> tuple[float, float]:
        """Return the current time and the next free slot on the monotonic clock, which processes share."""
        now = self._timing.monotonic()
        if last is None or last > now + _HORIZON_SECONDS:
            return now, now
        return now, max(now, last + spacing)


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
