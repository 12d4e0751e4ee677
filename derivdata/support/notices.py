"""Warnings that point at who called the library."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from derivdata.errors import DataNotice

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def warn_caller(message: str, category: type[Warning] = DataNotice) -> None:
    """Warn, with the first line outside the library as the place."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
