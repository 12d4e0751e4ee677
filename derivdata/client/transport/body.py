"""Read a complete response body within a deadline and a size limit, and reject JSON with repeated keys.

Fast decoders silently use the last value of a repeated key. Only the Python parser returns all pairs, but on
a large body it takes longer than all other work. Three shortcuts avoid it:

- The decoded members of a large object must add up to the length of its text. A repeated key makes it longer.
- The keys of a list of rows are compared with the keys of its first row, byte by byte.
- In a response with rows by venue, the parser in Python reads only the text outside the lists of rows.

Where keys differ, or where a shortcut could be wrong (an escape, a space before a colon), the text is parsed
in Python.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

import msgspec
import numpy as np
import requests
import urllib3
from numpy.typing import NDArray

_SMALL_BYTES = 1 << 14
_SPACES = (b" ", b"\t", b"\n", b"\r")
_Text = bytes | memoryview
_Scalar = str | int | float | bool | None
_json = msgspec.json.Decoder(msgspec.Raw)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_scalars = msgspec.json.Decoder(dict[str, _Scalar])


class _Venues(msgspec.Struct):
    series: dict[str, msgspec.Raw]


_venues = msgspec.json.Decoder(_Venues)
_SERIES = b'"series":{'
_HEAD_BYTES = 1 << 10


class DuplicateKey(Exception):
    """A JSON object has a repeated key."""


def check_keys(text: bytes) -> None:
    """Raise `DuplicateKey` if an object in a JSON text has a repeated key.

    A text that is not JSON raises `msgspec.DecodeError`.
    """
    is_unclear = b"\\" in text or any(space in text and b'"' + space in text for space in _SPACES)
    if not is_unclear and len(text) >= _SMALL_BYTES and text[:1] == b"{":
        try:
            if _SERIES in text[:_HEAD_BYTES]:
                return _check_venues(text)
            return _check_object(text)  # decodes the full text, as `_json` does
        except msgspec.ValidationError:  # rows that are not grouped by venue
            return _check_object(text)
        except msgspec.DecodeError:
            _json.decode(text)  # raises with the position of the first error
            raise
    _json.decode(text)
    return _parse(text) if is_unclear else _check(text)


def _check_venues(text: bytes) -> None:
    """Check each venue's rows, and the text outside these rows."""
    base = _address(text)
    outline: list[bytes] = []
    done = 0
    for rows in sorted(_venues.decode(text).series.values(), key=_address):
        begin = _address(rows) - base
        outline += [text[done:begin], b"0"]
        done = begin + len(rows)
        _check(memoryview(rows))
    outline.append(text[done:])
    _parse(b"".join(outline))


def _address(text: bytes) -> int:
    """Return the memory address of a text. A `msgspec.Raw` is a view into the text it was decoded from."""
    address: int = np.frombuffer(text, np.uint8).__array_interface__["data"][0]
    return address


def _check(text: _Text) -> None:
    """Check a JSON text without escapes and without space between a key and its colon."""
    if len(text) >= _SMALL_BYTES:
        if text[:1] == b"{":
            return _check_object(text)
        if text[:1] == b"[" and _is_list_of_equal_rows(text):
            return None
    return _parse(text)


def _check_object(text: _Text) -> None:
    """Check an object by the total length of its decoded members; parse it in Python if that differs."""
    members = {key: memoryview(raw) for key, raw in _object.decode(text).items()}
    # Each member is `"key":value,`: 4 characters more than key and value. The last one has no comma, and the
    # two braces add 2, so add 1.
    length = sum(len(key.encode()) + len(value) + 4 for key, value in members.items()) + 1
    if length != len(text):  # a member was dropped, or there is space between members
        return _parse(text)
    for value in members.values():
        if bytes(value[:1]) in (b"{", b"["):
            _check(value)
    return None


def _is_list_of_equal_rows(text: _Text) -> bool:
    """Return whether a text is a list of flat objects with the same keys in the same order.

    Every opening brace must start the next object of the list. Between two braces there must be as many keys
    as in the first object, and each key must end like the corresponding key of the first object. The compared
    endings are long enough to tell the keys of the first object apart.
    """
    # 1. Read the keys of the first row.
    try:
        first_row = text[1 : bytes(text[:_SMALL_BYTES]).find(b"}") + 1]
        names = [f'"{name}'.encode() for name in _scalars.decode(first_row)]
    except msgspec.DecodeError:
        return False
    # 2. Count braces and ends of keys. A string value that begins with a colon counts as a key end too: the
    # counts then differ, and the caller parses the list in Python.
    codes = np.frombuffer(text, np.uint8)
    opens = np.flatnonzero(codes == ord("{"))
    key_ends = np.flatnonzero((codes[:-1] == ord('"')) & (codes[1:] == ord(":")))
    if not names or key_ends.size != opens.size * len(names) or not _are_in_a_row(codes, opens):
        return False
    # 3. Each row has its keys between its own brace and the next one.
    keys = key_ends.reshape(opens.size, len(names))
    if (keys[:, 0] < opens).any() or (keys[:-1, -1] > opens[1:]).any():
        return False
    # 4. Each key ends like the key at the same place in the first row.
    endings = _distinct_endings(names)
    return all(
        (codes[keys[:, place] - back] == ending[-back]).all()
        for place, ending in enumerate(endings)
        for back in range(1, len(ending) + 1)
    )


def _are_in_a_row(codes: NDArray[np.uint8], opens: NDArray[np.int64]) -> bool:
    """Return whether each opening brace starts an object, at the start of the list or right after ``},``.

    A brace inside a string value fails the test: the closing quotation mark of the string is followed by one
    of ``,:]}``.
    """
    lead = codes[opens[0] + 2]
    return bool(
        opens[0] == 1
        and lead not in b",:]}"
        and (codes[opens + 1] == ord('"')).all()
        and (codes[opens + 2] == lead).all()
        and (codes[opens[1:] - 1] == ord(",")).all()
        and (codes[opens[1:] - 2] == ord("}")).all()
    )


def _distinct_endings(names: Sequence[bytes]) -> list[bytes]:
    """Return the endings of distinct names, all cut to the shortest length at which they still differ."""
    length = 1
    while len({name[-length:] for name in names}) < len(names):
        length += 1
    return [name[-length:] for name in names]


def _parse(text: _Text) -> None:
    """Parse a text with the parser in Python, which raises on a repeated key."""
    _pairs.decode(bytes(text).decode())


def _reject_repeated_key(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise DuplicateKey("an object in it has the same key twice")


_pairs = json.JSONDecoder(object_pairs_hook=_reject_repeated_key, parse_int=len, parse_float=len)


_CHUNK = 1 << 18
_PLACE = re.compile(r"\(byte (\d+)\)")


class BodyTooLarge(Exception):
    """The body exceeds the size limit."""


class TooSlow(Exception):
    """The body was not complete at the deadline."""


class NotJson(Exception):
    """The body is not JSON. `cut` means that it may be valid JSON that was truncated."""

    def __init__(self, why: str, cut: bool = False) -> None:
        super().__init__(why, cut)
        self.cut = cut

    def __str__(self) -> str:
        return str(self.args[0])


def read_body(raw: Any, *, deadline: float, cap: int, monotonic: Callable[[], float]) -> bytes:
    """Return the complete body of a urllib3 response, decompressed."""
    pieces = _received(raw, deadline, cap, monotonic)
    if isinstance(raw, urllib3.HTTPResponse) and "gzip" in raw.headers.get("Content-Encoding", "").lower():
        pieces = _unpacked(pieces)
    body = BytesIO()  # unlike a bytearray it returns its bytes without a copy
    for piece in pieces:
        body.write(piece)
        if body.tell() > cap:
            raise BodyTooLarge
    return body.getvalue()


def _received(raw: Any, deadline: float, cap: int, monotonic: Callable[[], float]) -> Iterator[bytes]:
    """Yield a body as it arrives, in chunks."""
    # A response replayed from a cassette has no read1, and its body is not compressed.
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
    """Yield the decompressed data of one or more gzip members, in chunks."""
    # urllib3's own decoding blocks until it has output, ignoring the deadline, and accepts a truncated body.
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
        raise urllib3.exceptions.DecodeError("the compressed body is truncated")


def check_json(body: bytes, headers: Mapping[str, str]) -> None:
    """Raise `NotJson` for a body that is not JSON in UTF-8."""
    try:
        if not body.isascii():
            body.decode("utf-8")
        check_keys(body)
    except DuplicateKey as error:
        raise NotJson(str(error), cut=False) from None
    except RecursionError:
        raise NotJson("the JSON is nested too deeply", cut=False) from None
    except UnicodeDecodeError:
        raise NotJson("the text is not UTF-8", cut=False) from None
    except msgspec.DecodeError as error:
        if body.lstrip()[:1] == b"<":
            raise NotJson("it is HTML (a proxy's or a login page?)", cut=False) from None
        raise NotJson(f"it is not JSON: {error}", cut=_may_be_cut(str(error), body, headers)) from None


def _may_be_cut(why: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Return whether invalid JSON may be a truncated body, which HTTP framing cannot exclude here."""
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return False
    place = _PLACE.search(why)
    return "truncated" in why or (place is not None and int(place[1]) >= len(body))


def send_whole(
    send: Callable[..., requests.Response],
    request: requests.PreparedRequest,
    options: dict[str, Any],
    *,
    deadline: float,
    cap: int,
    monotonic: Callable[[], float],
) -> requests.Response:
    """Return the response to a request with its body read and decompressed.

    Raises
    ------
    BodyTooLarge, TooSlow, requests.RequestException, urllib3.exceptions.HTTPError
        The body exceeds `cap` bytes; it is not complete at the deadline; no complete response arrived.
    """
    response = send(request, **{**options, "stream": True})
    raw = response.raw
    try:
        body = read_body(raw, deadline=deadline, cap=cap, monotonic=monotonic)
    finally:  # unread bytes prevent reuse of the connection
        if getattr(raw, "length_remaining", None) not in (0, None):
            raw.close()
        raw.release_conn()
    response._content = body
    response._content_consumed = True  # type: ignore[attr-defined]
    # Rebuilt from the body: requests would take cookies from the original, requests-cache reads it a second
    # time, and vcrpy's response lacks an attribute that requests-cache needs (kevin1024/vcrpy#881).
    response.raw = urllib3.HTTPResponse(
        BytesIO(body), status=response.status_code, preload_content=False, request_url=request.path_url
    )
    return response
