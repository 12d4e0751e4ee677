"""A body read under a deadline and a cap, and checked to be JSON before anything keeps it."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
import urllib3

_CHUNK = 1 << 16
_PLACE = re.compile(r"\(byte (\d+)\)")
_json = msgspec.json.Decoder(msgspec.Raw)

_COLON, _QUOTE, _BLANK = ord(":"), ord('"'), ord(" ")
_BRACE = ord("{")
PIECE_BYTES = 1 << 16
_Scalar: TypeAlias = str | int | float | bool | None
_List: TypeAlias = list[dict[str, _Scalar] | _Scalar]
_TOGETHER = 1000
_members: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw])
_flat: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    dict[str, dict[str, dict[str, _Scalar] | _List | _Scalar] | _List | _Scalar] | _List | _Scalar
)
"""What answers look like: objects three deep, lists of flat objects in them. Others get the exact test."""
_KEY_BEGINS = re.compile(rb'[{,]"[A-Za-z0-9_]+":')


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
    if _has_single_keys(body):
        return
    try:
        _json.decode(body)
        _once_each.decode(body.decode("utf-8"))
    except _Repeated:
        raise NotJson("an object in it has the same key twice", cut=False) from None
    except RecursionError:
        raise NotJson("its JSON is nested too deeply", cut=False) from None
    except UnicodeDecodeError:
        raise NotJson("its text is not UTF-8", cut=False) from None
    except msgspec.DecodeError as error:
        if body.lstrip()[:1] == b"<":
            raise NotJson("it is HTML (a proxy's or a login page?)", cut=False) from None
        raise NotJson(f"it is not JSON: {error}", cut=_may_be_cut(str(error), body, headers)) from None


def _has_single_keys(body: bytes) -> bool:
    """Return True if the body is JSON and no object in it has a key twice; False where that is not certain.

    It takes a fifth of the time of the exact test, which looks at the keys of each object.
    """
    # Let P be the quotes that a colon follows, K the keys as written, F the fields of the decoded objects.
    # P >= K: each key ends in a quote and a colon, where no blank stands between them (tested first); a text
    # with an escaped quote before a colon adds to P. K >= F: a decoder keeps the last of equal keys.
    # So P = F gives K = F, and no key came twice. P > F for another reason costs the exact test, and no more.
    # Bytes will do for characters: in UTF-8 no byte of a longer character is a quote, a colon or a blank.
    codes = np.frombuffer(body, dtype=np.uint8)
    before = codes[np.flatnonzero(codes[1:] == _COLON)]
    if (before <= _BLANK).any():
        return False
    try:
        return int(np.count_nonzero(before == _QUOTE)) == _fields(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _fields(part: bytes | msgspec.Raw) -> int:
    """Return how many fields the objects of a part have, once each of those that stand twice in one.

    Objects are decoded a piece at a time, since dicts take much memory. No blank stands before a colon.
    """
    if len(memoryview(part)) > PIECE_BYTES:
        # A part that was cut out of a larger one is known to be JSON.
        alike = _fields_of_alike(bytes(part)) if isinstance(part, msgspec.Raw) else None
        if alike is not None:
            return alike
        members = _members.decode(part)
        if isinstance(members, dict):
            return len(members) + sum(map(_fields, members.values()))
        groups = (members[first : first + _TOGETHER] for first in range(0, len(members), _TOGETHER))
        return sum(_fields_of(_flat.decode(b"[%b]" % b",".join(group))) for group in groups)
    return _fields_of(_flat.decode(part))


def _fields_of_alike(part: bytes) -> int | None:
    """Return how many fields a JSON list of flat objects has whose keys are all those of the first, in order.

    None where it is another list: it may hold other objects, and one of them a key twice.
    """
    # A mark is a quote with a colon after it. After a letter it ends a key: no value ends before a colon, a
    # text that begins with one has no letter before its quote, and a quote within a text has a backslash.
    # So if the marks repeat the first object's distinct keys, the first of them always after a brace and the
    # others after a comma, then every mark is a key; and if no value is a list or an object, an object ends
    # before the next one begins, so that none has a key of two rounds.
    begins = _KEY_BEGINS.findall(part, 0, part.find(b"}"))
    if not part.isascii() or len({begin[1:] for begin in begins}) < max(len(begins), 1):
        return None
    if [begin[:1] for begin in begins] != [b"{", *[b","] * (len(begins) - 1)]:
        return None
    # Blanks in front, so that no comparison below reaches before the first byte.
    text = b" " * max(8, *map(len, begins)) + part
    codes = np.frombuffer(text, dtype=np.uint8)
    colons = np.flatnonzero(codes == _COLON)
    marks = colons[codes[colons - 1] == _QUOTE]
    values = codes[marks + 1]
    if marks.size % len(begins) or (values <= _BLANK).any() or ((values | _BLANK) == _BRACE).any():
        return None
    # Eight bytes are compared at once: `eights[n]` is the number that those from n on make.
    eights = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))
    for place, begin in enumerate(begins):
        ends = marks[place :: len(begins)] + 1
        for stop in range(len(begin), 0, -8):
            piece = begin[max(stop - 8, 0) : stop]
            before = eights[ends - (len(begin) - stop + 8)] >> np.uint64(64 - 8 * len(piece))
            if (before != int.from_bytes(piece, "little")).any():
                return None
    return int(marks.size)


def _fields_of(decoded: Any) -> int:
    """Return how many fields the objects of a decoded part have."""
    count = 0
    pending = [decoded]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            count += len(one)
            pending += [value for value in one.values() if isinstance(value, dict | list)]
        elif isinstance(one, list) and set(map(type, one)) == {dict}:
            count += sum(map(len, one))  # by their type they hold numbers and texts only
        elif isinstance(one, list):
            count += sum(len(item) for item in one if isinstance(item, dict))
    return count


class _Repeated(Exception):
    pass


def _keys_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _Repeated


_once_each = json.JSONDecoder(object_pairs_hook=_keys_once, parse_int=len, parse_float=len)


def _may_be_cut(why: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Return whether the JSON is complete, where HTTP framing cannot show a truncation."""
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return False
    place = _PLACE.search(why)
    return "truncated" in why or (place is not None and int(place[1]) >= len(body))
