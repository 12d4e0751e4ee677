"""The one place of collecting that reads the machine's clock, and that waits."""

from __future__ import annotations

import threading
from typing import Protocol

import pandas as pd

from derivdata import times

__all__ = ["Clock", "MachineClock"]


class Clock(Protocol):
    """Interface of the clock that collecting uses."""

    def utc(self) -> pd.Timestamp:
        """Return the instant now, UTC."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; return whether collecting should stop instead."""
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

    def stop(self) -> None:
        """End every wait, now and from now on."""
        self._stopped.set()
