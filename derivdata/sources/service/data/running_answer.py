"""Corrections of the rows of the current response, and cancellation when its clients have left.

One thread makes a response from many reads, some of them cached from earlier responses. So each correction is
recorded where it happens. Long loops call `check` between their steps; it raises once all clients have left.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from urllib.parse import quote

import pandas as pd

HEADER = "X-Derivdata-Corrections"
"""Response header: percent-encoded corrections, one per line. Clients add them to the provenance."""

_MOST = 20
_MOST_BYTES = 2000
"""Maximum bytes of the header: proxies reject responses whose headers exceed 4 to 8 kB."""
_MOST_BYTES_OF_ONE = 280
_NEWLINE = "%0A"
_SAFE = " ,;:=()/.-_|"

_event: ContextVar[threading.Event | None] = ContextVar("derivdata_cancelled", default=None)
_notes: ContextVar[list[str] | None] = ContextVar("corrections", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect corrections noted in this block; an enclosing block collects them too."""
    outer = _notes.get()
    own = list[str]()
    token = _notes.set(own)
    try:
        yield own
    finally:
        _notes.reset(token)
        if outer is not None:
            outer.extend(own)


def note(corrections: list[str]) -> None:
    """Note corrections of rows that the current response uses."""
    if (own := _notes.get()) is not None:
        own.extend(corrections)


def note_read(frame: pd.DataFrame) -> pd.DataFrame:
    """Note the notices in the provenance of a store's rows, and return the rows."""
    note(frame.attrs.get("provenance", {}).get("notices", []))
    return frame


class Cancelled(Exception):
    """All clients that waited for the work of this thread have left."""


def cancelled_by(event: threading.Event) -> None:
    """Let `check` raise in this context once the event is set."""
    _event.set(event)


def check() -> None:
    """Raise `Cancelled` if all clients that waited for the work of this context have left."""
    event = _event.get()
    if event is not None and event.is_set():
        raise Cancelled


def header_value(corrections: list[str]) -> str:
    """Return distinct corrections as the header's value, in numeric order, cut to the size of a header."""
    # A correction starts with its number; sorting by the number's length first gives 9 before 10.
    distinct = sorted(set(corrections), key=lambda text: (len(text.partition(":")[0]), text))
    lines = [_encoded(text) for text in distinct]
    ends = accumulate(len(line) + len(_NEWLINE) for line in lines[:_MOST])
    fitting = bisect_right(list(ends), _MOST_BYTES)
    more = [f"and {len(lines) - fitting} more corrections"] if fitting < len(lines) else []
    return _NEWLINE.join([*lines[:fitting], *more])


def _encoded(text: str) -> str:
    """Percent-encode a text, cut after the last complete character that fits."""
    ends = accumulate(len(quote(character, safe=_SAFE)) for character in text)
    fitting = bisect_right(list(ends), _MOST_BYTES_OF_ONE)
    return quote(text[:fitting], safe=_SAFE) + ("..." if fitting < len(text) else "")
