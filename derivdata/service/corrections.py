"""Corrections of the rows that an answer was made of, from the reads to a header of the answer.

A store that keeps a log of corrections states them in the provenance of what is read. An answer is made by
one thread from many reads, some of them remembered from earlier answers, so each is noted where it happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote

import pandas as pd

__all__ = ["HEADER", "header_value", "note", "note_read", "noted"]

HEADER = "X-Derivdata-Corrections"
"""Header of an answer: percent-encoded corrections, one a line. Clients add them to the provenance."""

_MOST = 20
_LENGTH = 300

_notes: ContextVar[list[str] | None] = ContextVar("corrections", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect what is noted in this block, also for a block around it."""
    outer, own = _notes.get(), list[str]()
    token = _notes.set(own)
    try:
        yield own
    finally:
        _notes.reset(token)
        if outer is not None:
            outer.extend(own)


def note(corrections: list[str]) -> None:
    """Note corrections of rows that the answer under way is made of."""
    if (own := _notes.get()) is not None:
        own.extend(corrections)


def note_read(frame: pd.DataFrame) -> pd.DataFrame:
    """Note what the provenance of a store's rows says, and return the rows."""
    note(frame.attrs.get("provenance", {}).get("notices", []))
    return frame


def header_value(corrections: list[str]) -> str:
    """Return the corrections as the value of the header: each once, and no more than a header can hold."""
    once = list(dict.fromkeys(text[:_LENGTH] for text in corrections))
    more = [f"and {len(once) - _MOST} more corrections"] if len(once) > _MOST else []
    return quote("\n".join([*once[:_MOST], *more]), safe=" ,;:=()/.-_|")
