"""Clocks for tests: one advances only through waits, the other serves many threads at once."""

from __future__ import annotations

import queue
import threading
from typing import TypeVar

import pandas as pd

T = TypeVar("T")

HANGS_SECONDS = 60.0
_LOOK_SECONDS = 0.003


class SimulatedClock:
    """A clock that advances only through waits, which return at once; waits of all threads add up."""

    def __init__(self, now: str) -> None:
        self._now, self._lock, self._stopped = pd.Timestamp(now, tz="UTC"), threading.Lock(), False

    def utc(self) -> pd.Timestamp:
        with self._lock:
            return self._now

    def wait(self, seconds: float) -> bool:
        with self._lock:
            self._now += pd.Timedelta(max(seconds, 0.0), "s").round("us")
            return self._stopped

    def receive(self, source: queue.SimpleQueue[T], seconds: float | None) -> T | None:
        try:
            return source.get(timeout=HANGS_SECONDS)
        except queue.Empty:
            return None

    def stop(self) -> None:
        self._stopped = True


class EventClock:
    """A clock of many threads: it goes on to the next time that one waits for when all wait.

    Collecting threads are recognised by their names; of a channel, the reading thread counts. The thread that
    made the clock takes part too. Threads that ran before it, such as a service of other tests, do not.
    """

    def __init__(self, now: pd.Timestamp) -> None:
        self._now = now
        self._changed = threading.Condition()
        self._until: dict[int, pd.Timestamp] = {}
        self._sources: dict[int, queue.SimpleQueue[object]] = {}
        self._stopped = False
        self._own = threading.get_ident()
        self._earlier = {*threading.enumerate()} - {threading.current_thread()}

    def utc(self) -> pd.Timestamp:
        with self._changed:
            return self._now

    def wait(self, seconds: float) -> bool:
        me = threading.get_ident()
        with self._changed:
            if seconds > 0 and not self._stopped:
                self._until[me] = self._now + pd.Timedelta(seconds, "s")
                while me in self._until and not self._stopped:
                    if not self._go_on():
                        self._changed.wait(_LOOK_SECONDS)
                self._until.pop(me, None)
            return self._stopped

    def receive(self, source: queue.SimpleQueue[T], seconds: float | None) -> T | None:
        me = threading.get_ident()
        with self._changed:
            far = pd.Timedelta(365, "D") if seconds is None else pd.Timedelta(seconds, "s")
            self._until[me], self._sources[me] = self._now + far, source  # type: ignore[assignment]
            while me in self._until and not self._stopped and source.empty():
                if not self._go_on():
                    self._changed.wait(_LOOK_SECONDS)
            self._until.pop(me, None)
            del self._sources[me]
            return None if source.empty() else source.get()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _go_on(self) -> bool:
        """Go to the next time if every thread waits and none has something to receive."""
        if any(not source.empty() for source in self._sources.values()):
            return False
        names = {t.ident: t.name for t in threading.enumerate() if t not in self._earlier}
        asking = any(name.startswith("derivdata-history-") for name in names.values())
        for ident, name in names.items():
            joins = (name == "derivdata-refill" and asking) or name.endswith("-ws")
            asks = name.startswith("derivdata-") or "(_listen)" in name
            takes_part = ident == self._own or (asks and not joins)
            if takes_part and ident not in self._until:
                return False
        self._now = max(self._now, min(self._until.values()))
        self._until = {ident: until for ident, until in self._until.items() if until > self._now}
        self._changed.notify_all()
        return True
