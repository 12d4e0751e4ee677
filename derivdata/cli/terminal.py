"""Print results on a terminal."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from derivdata.support.text import escape_controls

__all__ = ["notify", "say"]


def say(result: Any) -> None:
    """Print a result; characters that the terminal's encoding lacks are printed as escapes."""
    _print(escape_controls(str(result), keep="\n"), sys.stdout)


def notify(message: str) -> None:
    """Print a notice about a result on stderr, in one line."""
    _print(f"derivdata: {escape_controls(message)}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
