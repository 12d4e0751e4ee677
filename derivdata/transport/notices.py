"""What a service says about its answers."""

from __future__ import annotations

from typing import Any

import msgspec

from derivdata.api import Request
from derivdata.errors import DataNotice
from derivdata.notices import warn_caller

__all__ = ["notices_in", "notify"]


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
    warn_caller(f"{about}: {notice}", category)
