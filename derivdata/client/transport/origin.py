"""Sources: an address, checked once; a service in this process; and the key that may travel to one origin."""

from __future__ import annotations

import base64
import hashlib
import html.entities
import ipaddress
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import SplitResult, urlsplit

import pandas as pd

from derivdata.support.text import credentials_in

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


_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?")
_PATH = re.compile(
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]"
    r"|%(?!2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])[0-9A-F]{2})*"
)  # codes of what needs none are sent plain


@dataclass(frozen=True)
class Site:
    """The base address of a service."""

    base: str  # what request paths are appended to, without a slash at its end
    origin: str  # scheme, host and port, the port always written
    host: str  # with a port that is not the scheme's own: what people know the source by
    private: bool  # no one else can read on the way: https, or this machine

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Every spelling of the origin, each with its closing slash."""
        scheme = self.origin.partition(":")[0]
        return (f"{self.origin}/", f"{scheme}://{self.host}/")


class LocalSource(Protocol):
    """A local service, running in this process."""

    url: str  # the address that it answers at
    api_key: str | None  # that it takes
    store: Any  # its data: `label`, `synthetic`, and an `identity` that changes whenever the data could
    clock: Callable[[], pd.Timestamp]
    code: str  # digest of the code that answers

    def take_notices(self) -> list[str]:
        """Return what the source has to tell the user since the last time."""

    def close(self) -> None:
        """Stop it."""


def is_url(source: str) -> bool:
    """Return whether a source is an address and not a path or a name."""
    return source.lower().startswith(("http://", "https://"))


def site(url: str) -> Site:
    """Return the site at an address."""
    if (problem := credentials_in(url)) is not None:
        raise ValueError(problem)
    try:
        parts = _parts(url)
    except ValueError as error:
        why = f" ({error})" if str(error) else ""
        raise ValueError(f"{url!r} is not an address{why}: write it like 'https://api.example.com'") from None
    private = parts.scheme == "https" or is_loopback(str(parts.hostname))
    base = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    host = parts.netloc.removesuffix(f":{_PORTS[parts.scheme]}")
    return Site(base=base, origin=origin_of(base), host=host, private=private)


def _parts(url: str) -> SplitResult:
    """Return the parts of an address, spelled as requests spells them when it sends."""
    parts = urlsplit(url.strip())
    host = str(parts.hostname or "")
    if ":" in host:
        ipaddress.IPv6Address(host)
        host = f"[{host}]"
    elif not _HOST.fullmatch(host):
        raise ValueError("a host is letters, digits, dots and hyphens; one of other letters has an xn-- form")
    if not _PATH.fullmatch(parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise ValueError("its path has characters or steps that are not sent as they are written")
    return parts._replace(netloc=host if parts.port is None else f"{host}:{parts.port}")


def origin_of(url: str) -> str:
    """Scheme, host and port of an address, the port always written."""
    parts = urlsplit(url)
    host = str(parts.hostname)
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_MASK = "***"
_LEAST_SECRET = 8
"""A shorter key is found in words by chance: masking it would garble them, and hide nothing."""
_REMEDY = "pass api_key=, set DERIVDATA_API_KEY, or put it into ~/.config/derivdata/key (chmod 600)"


class WireKey(str):
    """A header value that is a mask for everything but http.client, which sends what `encode` returns.

    Whatever shows or keeps headers (a traceback, a log, vcrpy's cassettes, a cache) has the mask.
    """

    __slots__ = ("_secret",)

    _secret: Secret

    def __new__(cls, secret: Secret) -> WireKey:
        """Return the mask of a key."""
        value = super().__new__(cls, _MASK)
        value._secret = secret
        return value

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the key."""
        return self._secret._text.encode(encoding, errors)

    def __deepcopy__(self, memo: dict[int, Any]) -> WireKey:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled: connect again where the work is done")


class Secret:
    """An API key that no repr, pickle or message shows.

    Making one never raises, so that no frame with the bare text is left in a traceback; `check` does.
    """

    __slots__ = ("_spellings", "_text")

    def __init__(self, text: str) -> None:
        self._text = text.strip() if isinstance(text, str) else ""
        self._spellings = Spellings(self._text) if len(self._text) >= _LEAST_SECRET else None

    def check(self) -> None:
        """Refuse what cannot be a key."""
        if not self._text or any(not 33 <= ord(c) <= 126 for c in self._text):
            raise ValueError(
                f"the API key is empty, no text, or holds characters that no key has (not shown): {_REMEDY}"
            )

    def reveal(self) -> WireKey:
        """Return the value of the one header that carries the key."""
        return WireKey(self)

    def fingerprint(self) -> str:
        """Fingerprint of a key; it does not reveal it."""
        return hashlib.sha256(b"derivdata key\0" + self._text.encode()).hexdigest()[:32]

    def within(self, data: bytes) -> bool:
        """Return whether the key is in `data` in any spelling; always False for one under 8 characters."""
        return self._spellings is not None and self._spellings.within(data)

    def redact(self, data: bytes) -> bytes:
        """Return `data` with every copy of the key masked, if it has 8 characters or more."""
        return data if self._spellings is None else self._spellings.redact(data, _MASK.encode())

    def __repr__(self) -> str:
        return f"Secret({_MASK})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled: connect again where the work is done")


def find(given: Secret | None) -> Secret | None:
    """Return the key: the argument's, else the environment's, else the key file's; None without any."""
    in_environment = os.environ.get("DERIVDATA_API_KEY")
    secret = given or (Secret(in_environment) if in_environment else _from_file())
    if secret is not None:
        secret.check()
    return secret


def _from_file() -> Secret | None:
    try:
        path = Path.home() / ".config" / "derivdata" / "key"
        mode = path.stat().st_mode
    except (OSError, RuntimeError):  # no file, or a user without a home folder
        return None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"{path} may be read by others: run chmod 600 {path}")
    return Secret(path.read_text(encoding="utf-8"))
