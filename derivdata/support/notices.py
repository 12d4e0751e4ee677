"""Warnings that point at who called the library."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from derivdata.errors import DataNotice

__all__ = ["warn_caller"]


_PACKAGE = str(Path(__file__).resolve().parent.parent)


def warn_caller(message: str, category: type[Warning] = DataNotice) -> None:
    """Warn, with the first line outside the library as the place."""
    warnings.warn(message, category, stacklevel=_outside())


def _outside() -> int:
    """Return the stack level of the first caller outside the library, as seen from who calls this."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
