"""Print results on a terminal."""

from __future__ import annotations

import sys
from typing import Any

from derivdata.text import escape_controls

__all__ = ["say"]


def say(result: Any) -> None:
    """Print a result; characters that the terminal's encoding lacks are printed as escapes."""
    text = escape_controls(str(result), keep="\n")
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
