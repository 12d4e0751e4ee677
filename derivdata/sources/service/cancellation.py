"""End work that nobody waits for any more: long loops call `check` between their steps."""

from __future__ import annotations

import threading
from contextvars import ContextVar

__all__ = ["Cancelled", "cancelled_by", "check"]

_event: ContextVar[threading.Event | None] = ContextVar("derivdata_cancelled", default=None)


class Cancelled(Exception):
    """The work that this thread does is wanted by nobody."""


def cancelled_by(event: threading.Event) -> None:
    """Let `check` raise in this context once the event is set."""
    _event.set(event)


def check() -> None:
    """Return unless the work of this context was cancelled.

    Raises
    ------
    Cancelled
        All clients that waited for it are gone.
    """
    event = _event.get()
    if event is not None and event.is_set():
        raise Cancelled
