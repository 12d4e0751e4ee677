"""Read a response's body whole, under a deadline and a size, and check that it is JSON without repeated keys.

Decoders keep the last value of a repeated key. Only a parser in Python sees all pairs, and it takes longer
than the rest of the work on a large body. A large object is therefore first compared with what a fast decoder
keeps of it, by the length of its members. The keys of a list of equal rows are compared with those of the
first row, byte by byte. Of a response with rows by venue, Python parses the outline: the text without its
lists of rows. Where keys differ, or where the comparison could be wrong (an escape, a space before a colon),
the part is parsed in Python.
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
    """An object has the same key twice."""


def check_keys(text: bytes) -> None:
    """Raise `DuplicateKey` where an object of a JSON text has a key twice.

    A text that is not JSON raises `msgspec.DecodeError`.
    """
    is_unclear = b"\\" in text or any(space in text and b'"' + space in text for space in _SPACES)
    if not is_unclear and len(text) >= _SMALL_BYTES and text[:1] == b"{":
        try:
            if _SERIES in text[:_HEAD_BYTES]:
                return _check_venues(text)
            return _check_object(text)  # reads all of the text, as `_json` does
        except msgspec.ValidationError:  # rows that are not by venue
            return _check_object(text)
        except msgspec.DecodeError:
            _json.decode(text)  # names the first fault as for any other text
            raise
    _json.decode(text)
    return _parse(text) if is_unclear else _check(text)


def _check_venues(text: bytes) -> None:
    """Check each venue's rows, and the outline of the text: all but these rows."""
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


def _address(part: bytes) -> int:
    """Return where a part is in memory: a `msgspec.Raw` is a view of the text that was decoded."""
    address: int = np.frombuffer(part, np.uint8).__array_interface__["data"][0]
    return address


def _check(part: _Text) -> None:
    """Check a part that has neither escapes nor space between a key and its colon."""
    if len(part) >= _SMALL_BYTES:
        if part[:1] == b"{":
            return _check_object(part)
        if part[:1] == b"[" and _is_list_of_equal_rows(part):
            return None
    return _parse(part)


def _check_object(part: _Text) -> None:
    members = {key: memoryview(raw) for key, raw in _object.decode(part).items()}
    # A member is `"key":value,`; the last one has no comma, and two braces are around all.
    length = sum(len(key.encode()) + len(value) + 4 for key, value in members.items()) + 1
    if length != len(part):  # a member was dropped, or there is space between members
        return _parse(part)
    for value in members.values():
        if bytes(value[:1]) in (b"{", b"["):
            _check(value)
    return None


def _is_list_of_equal_rows(part: _Text) -> bool:
    """Return whether a list is of flat objects that all have the keys of the first one, in its order.

    Every brace must open an object that comes after another one in the list, and between two braces there
    must be as many keys as the first object has, each with the end of its key. These ends are so long that
    no two of the first object are alike.
    """
    try:
        first_row = part[1 : bytes(part[:_SMALL_BYTES]).find(b"}") + 1]
        names = [f'"{name}'.encode() for name in _scalars.decode(first_row)]
    except msgspec.DecodeError:
        return False
    codes = np.frombuffer(part, np.uint8)
    opens = np.flatnonzero(codes == ord("{"))
    # A text that begins with a colon is counted too: the list is then parsed.
    key_ends = np.flatnonzero((codes[:-1] == ord('"')) & (codes[1:] == ord(":")))
    if not names or key_ends.size != opens.size * len(names) or not _are_in_a_row(codes, opens):
        return False
    keys = key_ends.reshape(opens.size, len(names))
    if (keys[:, 0] < opens).any() or (keys[:-1, -1] > opens[1:]).any():
        return False
    endings = _distinct_endings(names)
    return all(
        (codes[keys[:, place] - back] == ending[-back]).all()
        for place, ending in enumerate(endings)
        for back in range(1, len(ending) + 1)
    )


def _are_in_a_row(codes: NDArray[np.uint8], opens: NDArray[np.int64]) -> bool:
    """Return whether all braces open an object with a key, the first in the list or right after another one.

    A brace within a text is none of these: after the quotation mark that ends the text there is one of
    ``,:]}``.
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
    """Return the shortest ends of distinct names, of one length where a name is that long, that differ."""
    length = 1
    while len({name[-length:] for name in names}) < len(names):
        length += 1
    return [name[-length:] for name in names]


def _parse(part: _Text) -> None:
    _pairs.decode(bytes(part).decode())


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise DuplicateKey("an object in it has the same key twice")


_pairs = json.JSONDecoder(object_pairs_hook=_refuse_twice, parse_int=len, parse_float=len)


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
        The body exceeds `cap` bytes; it is not complete at the deadline; nothing whole came.
    """
    response = send(request, **{**options, "stream": True})
    raw = response.raw
    try:
        body = read_body(raw, deadline=deadline, cap=cap, monotonic=monotonic)
    finally:  # a connection whose body was not read to its end is closed
        if getattr(raw, "length_remaining", None) not in (0, None):
            raw.close()
        raw.release_conn()
    response._content = body
    response._content_consumed = True  # type: ignore[attr-defined]
    # Made again from the body: requests would take cookies from the one that came, requests-cache reads it a
    # second time, and vcrpy's lacks an attribute that requests-cache wants (kevin1024/vcrpy#881).
    response.raw = urllib3.HTTPResponse(
        BytesIO(body), status=response.status_code, preload_content=False, request_url=request.path_url
    )
    return response
