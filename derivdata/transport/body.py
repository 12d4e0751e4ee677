"""A body read under a deadline and a cap, and checked to be JSON before anything keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import urllib3

__all__ = ["BodyTooLarge", "NotJson", "TooSlow", "check_json", "read_body"]

_CHUNK = 1 << 16
_PLACE = re.compile(r"\(byte (\d+)\)")
_json = msgspec.json.Decoder(msgspec.Raw)


class BodyTooLarge(Exception):
    """The body is larger than the cap."""


class TooSlow(Exception):
    """The body was not complete at the deadline."""


class NotJson(Exception):
    """The body is not JSON; `cut` says that it may only have broken off."""

    def __init__(self, why: str, *, cut: bool) -> None:
        super().__init__(why)
        self.cut = cut


def read_body(raw: Any, *, deadline: float, cap: int, monotonic: Callable[[], float]) -> bytes:
    """The whole body of a urllib3 response, decompressed.

    Raises
    ------
    BodyTooLarge, TooSlow, urllib3.exceptions.HTTPError
        It is larger than `cap`, not there at `deadline`, or broke off.
    """
    # A cassette's stand-in of a response has no read1 that decodes.
    read = raw.read1 if isinstance(raw, urllib3.HTTPResponse) else raw.read
    pieces: list[bytes] = []
    size = 0
    while piece := read(_CHUNK, decode_content=True):
        size += len(piece)
        pieces.append(piece)
        if size > cap:
            raise BodyTooLarge
        if monotonic() > deadline:
            raise TooSlow
    return b"".join(pieces)


def check_json(body: bytes, headers: Mapping[str, str]) -> None:
    """Refuse a body that is not JSON in UTF-8.

    Raises
    ------
    NotJson
        It is a page, broken, or nested too deeply.
    """
    try:
        _json.decode(body)
        body.decode("utf-8")
    except RecursionError:
        raise NotJson("its JSON is nested too deeply", cut=False) from None
    except UnicodeDecodeError:
        raise NotJson("its text is not UTF-8", cut=False) from None
    except msgspec.DecodeError as error:
        if body.lstrip()[:1] == b"<":
            raise NotJson("it is HTML (a proxy's or a login page?)", cut=False) from None
        raise NotJson(f"it is not JSON: {error}", cut=_may_be_cut(str(error), body, headers)) from None


def _may_be_cut(why: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether the JSON is good to its last byte, where nothing else could have told that it broke off."""
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return False
    place = _PLACE.search(why)
    return "truncated" in why or (place is not None and int(place[1]) >= len(body))
