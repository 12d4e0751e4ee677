"""One line that says what is being asked, where somebody can see it: a terminal, or a notebook."""

from __future__ import annotations

import shutil
import sys
import threading
from typing import TextIO

from derivdata.support.text import escape_controls

__all__ = ["StatusLine"]


class StatusLine:
    """A line at the bottom of a terminal, or under a notebook's cell, that each text replaces.

    Parameters
    ----------
    stream
        Where to; None is standard error. Where that is neither a terminal nor a notebook nothing is written.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._width = 0
        self._lock = threading.Lock()

    def show(self, text: str) -> None:
        """Replace the line; may be called by any thread."""
        stream = self._stream or sys.stderr
        if not _is_seen(stream):
            return
        room = max(shutil.get_terminal_size().columns - 1, 20)
        words = escape_controls(text)[:room]
        words = words.encode(stream.encoding or "utf-8", "backslashreplace").decode(
            stream.encoding or "utf-8"
        )
        with self._lock:
            stream.write(f"\r{words.ljust(self._width)}")
            stream.flush()
            self._width = len(words)

    def end(self, *, keep: bool = False) -> None:
        """Leave the line: empty it, or `keep` what it says and go to the next."""
        stream = self._stream or sys.stderr
        with self._lock:
            if self._width:
                stream.write("\n" if keep else f"\r{' ' * self._width}\r")
                stream.flush()
                self._width = 0


def _is_seen(stream: TextIO | None) -> bool:
    """Whether somebody sees what is written at once: not a file, a pipe, or a journal."""
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel"))
