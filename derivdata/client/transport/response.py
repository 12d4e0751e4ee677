"""An HTTP response as the rest of the library sees it, and what its headers and notices say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import msgspec
import pandas as pd

from derivdata.support.text import escape_controls
from derivdata.tables.endpoints import Request

__all__ = ["DIGEST_HEADER", "Response", "http_date", "notices_in", "plain_text", "retry_after"]

DIGEST_HEADER = "X-Body-Sha256"
"""Header under which the hash of a whole body is passed on and cached, so that it is computed once."""


@dataclass(frozen=True)
class Response:
    """One HTTP response, of any status.

    Attributes
    ----------
    headers
        Those that matter, by their usual spelling; never one of the request.
    as_of
        The server's ``Date``; NaT where an error came without.
    source, synthetic
        The source, and whether its data is synthetic.
    attribution
        The text that the API's terms ask for where the data is shown, or empty.
    sha256
        Hash of the body, in hexadecimal.
    """

    request: Request
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    as_of: pd.Timestamp
    source: str
    synthetic: bool
    attribution: str = ""
    sha256: str = field(kw_only=True, compare=False, repr=False)


@lru_cache(maxsize=256)
def http_date(text: str | None) -> pd.Timestamp | None:
    """Return the instant of a ``Date`` header; None where it cannot be read."""
    try:
        return pd.Timestamp(parsedate_to_datetime(text or "")).tz_convert("UTC").as_unit("us")
    except (ValueError, TypeError, OverflowError):
        return None


def retry_after(value: str | None, date: str | None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for; None where it says nothing usable.

    A date counts from the answer's own ``Date``, so that the machine's clock plays no part.
    """
    try:
        seconds = float(value or "")
    except ValueError:
        then, now = http_date(value), http_date(date)
        if then is None or now is None:
            return None
        seconds = max((then - now).total_seconds(), 0.0)
    return seconds if 0 <= seconds < float("inf") else None


def plain_text(text: str, limit: int) -> str:
    """Return what a server wrote as text for people: one line of at most `limit` characters.

    Blanks are single; a character that a terminal would obey instead of showing (an escape sequence, a
    change of direction) is written as its code.
    """
    shown = escape_controls(" ".join(text[: 4 * limit].split()))
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


class _Noticed(msgspec.Struct):
    notices: Any = None


def notices_in(body: bytes) -> Any:
    """Return the ``notices`` of an answer as they stand on the wire; None where there are none.

    Raises
    ------
    msgspec.MsgspecError
        The body is not JSON.
    """
    if b'"notices"' not in body:
        return None
    decoded = msgspec.json.decode(body, type=_Noticed | list[msgspec.Raw] | str)
    return decoded.notices if isinstance(decoded, _Noticed) else None
