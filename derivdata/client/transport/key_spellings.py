"""The ways in which a text can repeat a key: plain, escaped for JSON, URLs or HTML, in base64 or in hex."""

from __future__ import annotations

import base64
import html.entities
import re
from collections.abc import Iterator

_NAMED: dict[str, list[str]] = {}
for _name, _character in html.entities.html5.items():
    _NAMED.setdefault(_character, []).append(_name)


_CODE = re.compile(
    rb"\\+u00([0-9a-f]{2})|\\+u\{0*([0-9a-f]{2})\}|\\+x([0-9a-f]{2})|%([0-9a-f]{2})", re.IGNORECASE
)
_BYTES = {b"%02x" % code: bytes([code]) for code in range(256)}
_DEPTH = 3
"""How often a text may have been escaped: JSON in a URL in HTML."""


class Spellings:
    """Every spelling of one key, in upper or lower case, to search bytes for."""

    __slots__ = ("_bare", "_encoded", "_escaped", "_lower")

    def __init__(self, key: str) -> None:
        self._lower = key.lower().encode()
        self._bare = self._lower.replace(b"\\", b"")
        self._escaped = "".join(map(_escaped, key)).encode()
        self._encoded = frozenset(_encoded(key.encode()))

    def __repr__(self) -> str:
        return "Spellings(***)"

    def within(self, data: bytes) -> bool:
        """Return whether the key is in the data."""
        if self._lower in data.lower() or any(text in data for text in self._encoded):
            return True
        return any(self._bare in decoded.lower() for decoded in _decoded(data))

    def redact(self, data: bytes, mask: bytes) -> bytes:
        """Return the data with each spelling of the key replaced by the mask."""
        if not self.within(data):
            return data
        listed = b"|".join(re.escape(text) for text in sorted(self._encoded, key=len, reverse=True))
        # A character of base64 before and after may hold some bits of the key.
        data = re.sub(rb"[\w+/-]{0,2}(?:%b)[\w+/-]{0,3}={0,2}" % listed, mask, data)
        return re.sub(self._escaped, mask, data, flags=re.IGNORECASE)


def _decoded(data: bytes) -> Iterator[bytes]:
    """Yield the data with its escapes decoded, once and again, and without backslashes."""
    for _ in range(_DEPTH):
        if not any(sign in data for sign in (b"\\", b"%", b"&")):
            return
        before = data
        data = _CODE.sub(lambda code: _BYTES[code[code.lastindex or 1].lower()], data)
        if b"&" in data:
            data = html.unescape(data.decode("latin-1")).encode("utf-8")
        data = data.replace(b"\\", b"")
        if data == before:
            return
        yield data


def _escaped(character: str) -> str:
    """Return the pattern of a character as it is or with an escape, also one that is escaped again."""
    codes = {ord(character.lower()), ord(character.upper())}
    spelled = [rf"\\*{re.escape(character)}"]
    for code in sorted(codes):
        spelled += [
            rf"\\+u00{code:02x}",
            rf"\\+x{code:02x}",
            rf"\\+u\{{0*{code:x}\}}",
            rf"%(?:25)*{code:02x}",
            rf"&(?:amp;)*#0*{code};?",
            rf"&(?:amp;)*#x0*{code:x};?",
        ]
    spelled += [rf"&(?:amp;)*{re.escape(name)}" for name in _NAMED.get(character, ())]
    return f"(?:{'|'.join(spelled)})"


def _encoded(key: bytes) -> Iterator[bytes]:
    """Yield what hex and base64 make of a key, wherever it is in the bytes that are encoded."""
    yield key.hex().encode()
    yield key.hex().upper().encode()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + key)
        # What the first and the last group hold besides the key is not known.
        first = (0, 2, 3)[before]
        last = (before + len(key)) * 8 // 6
        yield text[first:last]
        yield text[first:last].translate(bytes.maketrans(b"+/", b"-_"))
