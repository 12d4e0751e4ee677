"""One cached answer as one file: a line of seal, a line of JSON, the body compressed.

The seal is the sha256 of all that follows it, so that a damaged file is a miss and never an answer. There is
nothing of the request but its path and query, and nothing that runs when it is read.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa

__all__ = ["Head", "Record", "dump", "load_head", "read"]

_MAGIC = b"derivdata-answer-2 "
_BODY_BYTES = 1 << 30
_CODEC = pa.Codec("zstd", compression_level=1)


class Head(msgspec.Struct):
    """What a record says beside the body."""

    key: str
    url: str
    headers: dict[str, str]
    created: datetime
    expires: Annotated[datetime, msgspec.Meta(tz=True)] | None
    body_bytes: int


class Record(NamedTuple):
    """A record that was found whole."""

    head: Head
    body: bytes


def dump(key: str, url: str, response: Any) -> bytes:
    """The record of a response; `url` is its path and query."""
    head = Head(
        key=key,
        url=url,
        headers=dict(response.headers),
        created=response.created_at,
        expires=response.expires,
        body_bytes=len(response.content),
    )
    packed: bytes = _CODEC.compress(response.content, asbytes=True)
    rest = msgspec.json.encode(head) + b"\n" + packed
    return _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def read(data: bytes, key: str) -> Record | None:
    """What a record holds; None if it is damaged or another key's."""
    seal, _, rest = data.partition(b"\n")
    if seal != _MAGIC + hashlib.sha256(rest).hexdigest().encode():
        return None
    line, _, packed = rest.partition(b"\n")
    head = _head(line)
    if head is None or head.key != key or head.body_bytes > _BODY_BYTES:
        return None
    body = _unpacked(packed, head.body_bytes)
    return None if body is None else Record(head, body)


def load_head(data: bytes) -> Head | None:
    """What the first bytes of a record say, unchecked by the seal; None if they cannot be read."""
    seal, _, rest = data.partition(b"\n")
    return _head(rest.partition(b"\n")[0]) if seal.startswith(_MAGIC) else None


def _head(line: bytes) -> Head | None:
    try:
        return msgspec.json.decode(line, type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _unpacked(packed: bytes, size: int) -> bytes | None:
    try:
        return bytes(_CODEC.decompress(packed, size, asbytes=True))
    except OSError:
        return None
