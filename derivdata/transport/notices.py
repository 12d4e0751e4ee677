"""What a service says about its answers, and warnings that point at who called the library."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec

from derivdata.api import Request
from derivdata.errors import DataNotice

__all__ = ["notices_in", "notify"]

_PACKAGE = str(Path(__file__).resolve().parents[1])


class _Noticed(msgspec.Struct):
    notices: Any = None


def notices_in(body: bytes) -> Any:
    """The ``notices`` of an answer as they stand on the wire; None where there are none.

    Raises
    ------
    msgspec.MsgspecError
        The body is not JSON.
    """
    if b'"notices"' not in body:
        return None
    found = msgspec.json.decode(body, type=_Noticed | list[msgspec.Raw] | str)
    return found.notices if isinstance(found, _Noticed) else None


def notify(about: Request | str, notice: str, category: type[Warning] = DataNotice) -> None:
    """Warn the caller of the library of something about a request or a path."""
    warnings.warn(f"{about}: {notice}", category, stacklevel=_outside())


def _outside() -> int:
    """Stack level of the first caller outside the library, as seen from who calls this."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
