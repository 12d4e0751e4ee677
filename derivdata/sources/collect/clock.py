"""The one place of collecting that reads the machine's clock, and that waits."""

from __future__ import annotations

import _thread
import queue
import signal
import threading
import time
from collections.abc import Sequence
from typing import Protocol, TypeVar

import pandas as pd

from derivdata.support import times

_LOOK_SECONDS = 0.2  # how soon waiting for another thread notices that collecting was stopped

T = TypeVar("T")


class Clock(Protocol):
    """Interface of the clock that collecting uses."""

    def utc(self) -> pd.Timestamp:
        """Return the instant now, UTC."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; return whether collecting should stop instead."""
        ...

    def receive(self, source: queue.Queue[T], seconds: float | None) -> T | None:
        """Wait for what another thread has for us; None: nothing came in time, or collecting should stop."""
        ...

    def stop(self) -> None:
        """End every wait, now and from now on."""
        ...


class MachineClock:
    """The machine's clock; `stop` ends every wait at once."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def utc(self) -> pd.Timestamp:
        """Return the instant now, UTC."""
        return pd.Timestamp(times.machine_now()).as_unit("us")

    def wait(self, seconds: float) -> bool:
        """Wait; return whether collecting should stop instead."""
        return self._stopped.wait(max(seconds, 0.0))

    def receive(self, source: queue.Queue[T], seconds: float | None) -> T | None:
        """Wait for what another thread has for us; None: nothing came in time, or collecting should stop."""
        ends = None if seconds is None else time.monotonic() + seconds
        while not self._stopped.is_set():
            left = _LOOK_SECONDS if ends is None else min(_LOOK_SECONDS, ends - time.monotonic())
            try:
                return source.get(timeout=max(left, 0.0))
            except queue.Empty:
                if ends is not None and time.monotonic() >= ends:
                    return None
        return None

    def stop(self) -> None:
        """End every wait, now and from now on."""
        self._stopped.set()

    def stop_on(self, signals: Sequence[signal.Signals]) -> None:
        """Stop when the process gets one of some signals; call it in the main thread."""
        for number in signals:
            # A handler runs between any two steps of the main thread, which may hold the very lock that
            # `stop` needs: another thread takes it, started without any lock of `threading`.
            signal.signal(number, lambda *_: _thread.start_new_thread(self.stop, ()))
