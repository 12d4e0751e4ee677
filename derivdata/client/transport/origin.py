"""Addresses of services, services in this process, and the API key that is sent to one origin only."""

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
"""How many times a text may have been escaped: JSON in a URL in HTML."""


class Spellings:
    """Searches bytes for all spellings of one key: upper or lower case, escaped, in hex or base64."""

    __slots__ = ("_bare", "_encoded", "_escaped", "_lower")

    def __init__(self, key: str) -> None:
        self._lower = key.lower().encode()
        self._bare = self._lower.replace(b"\\", b"")
        self._escaped = "".join(map(_escaped, key)).encode()
        self._encoded = frozenset(_encoded(key.encode()))

    def __repr__(self) -> str:
        return "Spellings(***)"

    def within(self, data: bytes) -> bool:
        """Return whether the data contains the key in any spelling."""
        if self._lower in data.lower() or any(text in data for text in self._encoded):
            return True
        return any(self._bare in decoded.lower() for decoded in _decoded(data))

    def redact(self, data: bytes, mask: bytes) -> bytes:
        """Return the data with each spelling of the key replaced by the mask."""
        if not self.within(data):
            return data
        listed = b"|".join(re.escape(text) for text in sorted(self._encoded, key=len, reverse=True))
        # A base64 character before and after the match may contain some bits of the key.
        data = re.sub(rb"[\w+/-]{0,2}(?:%b)[\w+/-]{0,3}={0,2}" % listed, mask, data)
        return re.sub(self._escaped, mask, data, flags=re.IGNORECASE)


def _decoded(data: bytes) -> Iterator[bytes]:
    """Yield the data with its escapes decoded once, twice, …, and without backslashes."""
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
    """Return a regular expression for a character, plain or escaped, also if the escape is escaped again."""
    codes = {ord(character.lower()), ord(character.upper())}
    spellings = [rf"\\*{re.escape(character)}"]
    for code in sorted(codes):
        spellings += [
            rf"\\+u00{code:02x}",
            rf"\\+x{code:02x}",
            rf"\\+u\{{0*{code:x}\}}",
            rf"%(?:25)*{code:02x}",
            rf"&(?:amp;)*#0*{code};?",
            rf"&(?:amp;)*#x0*{code:x};?",
        ]
    spellings += [rf"&(?:amp;)*{re.escape(name)}" for name in _NAMED.get(character, ())]
    return f"(?:{'|'.join(spellings)})"


def _encoded(key: bytes) -> Iterator[bytes]:
    """Yield a key in hex and in base64, at each of its three possible offsets in the encoded bytes."""
    yield key.hex().encode()
    yield key.hex().upper().encode()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + key)
        # The first and the last group also encode unknown neighbouring bytes: drop their characters.
        first = (0, 2, 3)[before]
        last = (before + len(key)) * 8 // 6
        yield text[first:last]
        yield text[first:last].translate(bytes.maketrans(b"+/", b"-_"))


_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?")
_PATH = re.compile(
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]"
    r"|%(?!2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])[0-9A-F]{2})*"
)  # percent codes of unreserved characters are not allowed: requests sends these characters plain


@dataclass(frozen=True)
class Site:
    """The base address of a service."""

    base: str  # request paths are appended to it; no slash at its end
    origin: str  # scheme, host and port, always with the port
    host: str  # display name: the host, with the port if it is not the scheme's default
    private: bool  # https, or this machine: the key may be sent

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Every spelling of the origin, each with its closing slash."""
        scheme = self.origin.partition(":")[0]
        return (f"{self.origin}/", f"{scheme}://{self.host}/")


class LocalSource(Protocol):
    """A local service, running in this process."""

    url: str  # its address
    api_key: str | None  # the key that it accepts
    store: Any  # its data: `label`, `synthetic`, and an `identity` that changes whenever the data may change
    clock: Callable[[], pd.Timestamp]
    code: str  # digest of the service's code

    def take_notices(self) -> list[str]:
        """Return the notices for the user since the last call."""

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
        address = _split(url)
    except ValueError as error:
        reason = f" ({error})" if str(error) else ""
        raise ValueError(
            f"{url!r} is not an address{reason}: write it like 'https://api.example.com'"
        ) from None
    private = address.scheme == "https" or is_loopback(str(address.hostname))
    base = f"{address.scheme}://{address.netloc}{address.path}".rstrip("/")
    host = address.netloc.removesuffix(f":{_PORTS[address.scheme]}")
    return Site(base=base, origin=origin_of(base), host=host, private=private)


def _split(url: str) -> SplitResult:
    """Split an address, and write its host as requests sends it."""
    address = urlsplit(url.strip())
    host = str(address.hostname or "")
    if ":" in host:
        ipaddress.IPv6Address(host)
        host = f"[{host}]"
    elif not _HOST.fullmatch(host):
        raise ValueError(
            "the host must be letters, digits, dots and hyphens; write other letters in the xn-- form"
        )
    if not _PATH.fullmatch(address.path) or {".", ".."} & set(address.path.split("/")):
        raise ValueError("its path has '.', '..' or characters that must be percent-encoded")
    return address._replace(netloc=host if address.port is None else f"{host}:{address.port}")


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, always with the port."""
    address = urlsplit(url)
    host = str(address.hostname)
    host = f"[{host}]" if ":" in host else host
    return f"{address.scheme}://{host}:{address.port or _PORTS[address.scheme]}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_MASK = "***"
_MIN_SECRET = 8
"""Minimum length of a key to mask. A shorter key occurs in ordinary text by chance."""
_REMEDY = "pass api_key=, set DERIVDATA_API_KEY, or put it into ~/.config/derivdata/key (chmod 600)"


class WireKey(str):
    """A header value that prints as a mask. Only http.client, which calls `encode`, gets the key.

    Tracebacks, logs, vcrpy's cassettes and caches contain the mask.
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
        raise TypeError("an API key cannot be pickled; call dd.connect in the process that uses it")


class Secret:
    """An API key that is not shown by repr, pickle or messages.

    Creating one never raises: a traceback would have a frame with the plain text. `check` raises.
    """

    __slots__ = ("_spellings", "_text")

    def __init__(self, text: str) -> None:
        self._text = text.strip() if isinstance(text, str) else ""
        self._spellings = Spellings(self._text) if len(self._text) >= _MIN_SECRET else None

    def check(self) -> None:
        """Raise `ValueError` if the text cannot be a key."""
        if not self._text or any(not 33 <= ord(c) <= 126 for c in self._text):
            raise ValueError(
                "the API key must be non-empty printable ASCII text without spaces (the value is not shown); "
                f"{_REMEDY}"
            )

    def reveal(self) -> WireKey:
        """Return the header value that sends the key."""
        return WireKey(self)

    def fingerprint(self) -> str:
        """Return a digest that identifies the key without revealing it."""
        return hashlib.sha256(b"derivdata key\0" + self._text.encode()).hexdigest()[:32]

    def within(self, data: bytes) -> bool:
        """Return whether `data` contains the key in any spelling; always False under 8 characters."""
        return self._spellings is not None and self._spellings.within(data)

    def redact(self, data: bytes) -> bytes:
        """Return `data` with every copy of the key masked, if it has 8 characters or more."""
        return data if self._spellings is None else self._spellings.redact(data, _MASK.encode())

    def __repr__(self) -> str:
        return f"Secret({_MASK})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled; call dd.connect in the process that uses it")


def find(argument: Secret | None) -> Secret | None:
    """Return the key from the argument, else the environment, else the key file; None without any."""
    in_environment = os.environ.get("DERIVDATA_API_KEY")
    if argument is not None:
        secret: Secret | None = argument
    elif in_environment:
        secret = Secret(in_environment)
    else:
        secret = _from_file()
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
        raise ValueError(f"{path} can be read by other users; run chmod 600 {path}")
    return Secret(path.read_text(encoding="utf-8"))
