"""A JSON text whose objects have each key once: json's own parser on small parts, counts on large ones.

Decoders keep the last value of a repeated key. Only a parser in Python sees all pairs, and it takes
longer than the rest of the work on a large body. A large part is therefore first compared with what a fast
decoder keeps of it: the length of an object with that of its members, the keys of a list of equal rows with
their number in the text. Where the two differ, or where the comparison could be wrong (an escape, a space
before a colon), the part is parsed in Python.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

_SMALL_BYTES = 1 << 14
_SPACES = (b" ", b"\t", b"\n", b"\r")
_Scalar = str | int | float | bool | None
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_scalars = msgspec.json.Decoder(dict[str, _Scalar])


class DuplicateKey(Exception):
    """An object has the same key twice."""


def check_keys(text: bytes) -> None:
    """Raise `DuplicateKey` where an object of a valid JSON text has a key twice."""
    if b"\\" in text or any(space in text and b'"' + space in text for space in _SPACES):
        _parse(text)
    else:
        _check(text)


def _check(part: bytes) -> None:
    """Check a part that has neither escapes nor space between a key and its colon."""
    if len(part) >= _SMALL_BYTES:
        if part[:1] == b"{":
            return _check_object(part)
        if part[:1] == b"[" and _is_list_of_equal_rows(part):
            return None
    return _parse(part)


def _check_object(part: bytes) -> None:
    members = {key: bytes(raw) for key, raw in _object.decode(part).items()}
    # A member is `"key":value,`; the last one has no comma, and two braces are around all.
    length = sum(len(key.encode()) + len(value) + 4 for key, value in members.items()) + 1
    if length != len(part):  # a member was dropped, or there is space between members
        return _parse(part)
    for value in members.values():
        if value[:1] in (b"{", b"["):
            _check(value)
    return None


def _is_list_of_equal_rows(part: bytes) -> bool:
    """Return whether a list is of objects that all have the keys of the first one, each once."""
    try:
        first = _scalars.decode(part[1 : part.find(b"}") + 1])
        rows = _rows_of(tuple(first)).decode(part)
    except msgspec.DecodeError:
        return False
    codes = np.frombuffer(part, np.uint8)
    ends_of_keys = np.count_nonzero((codes[:-1] == ord('"')) & (codes[1:] == ord(":")))
    # A text that begins with a colon is counted too: the list is then parsed.
    return int(ends_of_keys) == len(first) * len(rows)


@lru_cache(maxsize=64)
def _rows_of(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of a list whose objects have exactly these keys, with scalars as values."""
    fields = [(f"field_{n}", _Scalar, msgspec.field(name=name)) for n, name in enumerate(names)]
    row = msgspec.defstruct("Row", fields, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]


def _parse(part: bytes) -> None:
    _pairs.decode(part.decode())


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise DuplicateKey("an object in it has the same key twice")


_pairs = json.JSONDecoder(object_pairs_hook=_refuse_twice, parse_int=len, parse_float=len)
