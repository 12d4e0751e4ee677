"""A body read under a deadline and a cap, and checked to be JSON before anything keeps it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import urllib3

from derivdata.client.transport.duplicate_keys import DuplicateKey, check_keys

_CHUNK = 1 << 16
_PLACE = re.compile(r"\(byte (\d+)\)")


class BodyTooLarge(Exception):
    """The body is larger than the cap."""


class TooSlow(Exception):
    """The body was not complete at the deadline."""


class NotJson(Exception):
    """The body is not JSON; `cut` says that it may only have broken off."""

    def __init__(self, why: str, cut: bool = False) -> None:
        super().__init__(why, cut)
        self.cut = cut

    def __str__(self) -> str:
        return str(self.args[0])


def read_body(raw: Any, *, deadline: float, cap: int, monotonic: Callable[[], float]) -> bytes:
    """Return the whole body of a urllib3 response, decompressed."""
    pieces = _received(raw, deadline, cap, monotonic)
    encoded = isinstance(raw, urllib3.HTTPResponse) and raw.headers.get("Content-Encoding", "")
    body = bytearray()
    for piece in _unpacked(pieces) if encoded and "gzip" in encoded.lower() else pieces:
        body += piece
        if len(body) > cap:
            raise BodyTooLarge
    return bytes(body)


def _received(raw: Any, deadline: float, cap: int, monotonic: Callable[[], float]) -> Iterator[bytes]:
    """Yield a body as it comes, up to a chunk at a time."""
    # A cassette's stand-in of a response has no read1, and nothing in it is compressed.
    is_real = isinstance(raw, urllib3.HTTPResponse)
    read = raw.read1 if is_real else raw.read
    size = 0
    while piece := read(_CHUNK, decode_content=not is_real):
        size += len(piece)
        if size > cap:
            raise BodyTooLarge
        if monotonic() > deadline:
            raise TooSlow
        yield piece


def _unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what one gzip member or several hold, up to a chunk at a time."""
    # urllib3's own decoding reads on until something comes of it, however long that takes, and lets a
    # compressed body that broke off pass.
    member: Any = None
    for piece in pieces:
        full = False
        while piece or full:
            if member is None or member.eof:
                member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                unpacked = member.decompress(piece, _CHUNK)
            except zlib.error as error:
                raise urllib3.exceptions.DecodeError(f"the body cannot be decompressed: {error}") from None
            yield unpacked
            piece = member.unconsumed_tail or member.unused_data
            full = len(unpacked) == _CHUNK
    if member is not None and not member.eof:
        raise urllib3.exceptions.DecodeError("the compressed body broke off")


def check_json(body: bytes, headers: Mapping[str, str]) -> None:
    """Refuse a body that is not JSON in UTF-8."""
    try:
        body.decode("utf-8")
        check_keys(body)
    except DuplicateKey as error:
        raise NotJson(str(error), cut=False) from None
    except RecursionError:
        raise NotJson("its JSON is nested too deeply", cut=False) from None
    except UnicodeDecodeError:
        raise NotJson("its text is not UTF-8", cut=False) from None
    except msgspec.DecodeError as error:
        if body.lstrip()[:1] == b"<":
            raise NotJson("it is HTML (a proxy's or a login page?)", cut=False) from None
        raise NotJson(f"it is not JSON: {error}", cut=_may_be_cut(str(error), body, headers)) from None


def _may_be_cut(why: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Return whether the JSON is complete, where HTTP framing cannot show a truncation."""
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return False
    place = _PLACE.search(why)
    return "truncated" in why or (place is not None and int(place[1]) >= len(body))
