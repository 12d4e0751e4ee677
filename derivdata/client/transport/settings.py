"""Settings of a connection: its origin, API key, limits and rate limiter; without an import of requests.

A response from the cache must not wait for the import of requests, so this is not part of `adapter`.
"""

from __future__ import annotations

import base64
import hashlib
import html.entities
import ipaddress
import os
import random
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import SplitResult, urlsplit

import pandas as pd
from filelock import FileLock

from derivdata.support.files import private_folder
from derivdata.support.text import credentials_in
from derivdata.support.times import machine_now
from derivdata.tables.endpoints import Endpoint


@dataclass(frozen=True)
class Limits:
    """Bounds of one request, most of them in seconds."""

    connect: float = 5.0
    read: float = 20.0  # between two chunks of a response
    answer: float = 60.0  # one attempt, from its start to the last byte
    budget: float = 120.0  # all attempts and pauses, without the wait for the rate limit
    patience: float = 300.0  # total wait of the caller
    retry_after: float = 30.0  # maximum Retry-After; a longer one ends the attempts
    tries: int = 5
    body_bytes: int = 48 * 2**20  # maximum size of the decompressed body


IN_PROCESS = Limits(read=240.0, answer=240.0, budget=240.0)
"""For a service in this process, which is silent while it computes a long response."""


@dataclass(frozen=True)
class Timing:
    """Clock for durations, sleep function, random number in [0, 1), and the machine's time of day."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    machine: Callable[[], datetime] = machine_now


@dataclass(frozen=True)
class ConnectionSettings:
    """Settings of a connection."""

    scope: str  # names the source in the cache: its address, or a local source's identity
    folder: Path
    cache: str = "on"  # or "refresh" (request again and store), or "off"
    offline: bool = False  # read only from the cache, regardless of the age of a record
    paced: bool = True  # whether requests wait for the rate limits
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    rules: Mapping[str, Any] = field(default_factory=dict)  # settings of requests-cache, by its names
    session: Any = None  # a user's own requests.Session or CachedSession

    @property
    def has_own_cache(self) -> bool:
        """Whether the user's session has its own cache, which then replaces the library's cache."""
        return hasattr(self.session, "cache") and hasattr(self.session, "settings")

    @property
    def reads_records(self) -> bool:
        """Whether a fresh record is used without opening a session."""
        if self.has_own_cache:
            return False
        return self.offline or (self.cache == "on" and not self.rules.get("always_revalidate"))


_SHARE = 0.9
"""Fraction of the allowed rate that is used. At the full rate, a sliding window rejects a fifth of the
calls."""
_LOCK_SECONDS = 0.5
_POLL_SECONDS = 0.005
_HORIZON_SECONDS = 60.0
_LATE_SECONDS = 0.03
_TURNS = 5
"""Maximum number of new slots after the process was descheduled and missed its slot."""


def spacing_seconds(endpoint: Endpoint) -> float:
    """Return the minimum seconds between two requests to an endpoint; 0 without a rate limit."""
    return 0.0 if endpoint.per_second is None else 1.0 / (_SHARE * endpoint.per_second)


class Pace:
    """Rate limiter: waits until this key may send the next request to an endpoint."""

    def __init__(self, folder: Path, scope: str, timing: Timing) -> None:
        self._folder = folder
        self._scope = scope
        self._timing = timing
        self._own: dict[str, float] = {}
        self._lock = threading.Lock()

    def wait(self, endpoint: Endpoint | None) -> None:
        """Sleep until this request may be sent."""
        if endpoint is None or endpoint.per_second is None:
            return
        spacing = spacing_seconds(endpoint)
        name = hashlib.sha256(f"{self._scope}\n{endpoint.path}".encode()).hexdigest()[:32]
        for _ in range(_TURNS):
            delay = self._shared_delay(name, spacing)
            if delay is None:
                with self._lock:
                    now, slot = self._next(self._own.get(name), spacing)
                    self._own[name] = slot
                delay = slot - now
            if not self._overslept(delay):
                return

    def _overslept(self, delay: float) -> bool:
        """Sleep until the slot. Return whether sleep ended late, when the next slot may be too close."""
        if delay <= 0:
            return False
        due = self._timing.monotonic() + delay
        self._timing.sleep(delay)
        return self._timing.monotonic() > due + _LATE_SECONDS

    def _shared_delay(self, name: str, spacing: float) -> float | None:
        """Reserve the next slot in the file shared by processes; None if the file cannot be locked."""
        try:
            private_folder(self._folder)
            with FileLock(
                self._folder / f"{name}.lock",
                timeout=_LOCK_SECONDS,
                poll_interval=_POLL_SECONDS,
                mode=0o600,
                fallback_to_soft=False,  # a soft lock left by a terminated process would delay every request
            ):
                return self._reserve_slot(self._folder / name, spacing)
        # The folder is missing, cannot lock files, or another process has the lock (Timeout is an OSError).
        except (OSError, RuntimeError):
            return None

    def _reserve_slot(self, path: Path, spacing: float) -> float:
        """Write the next slot into the shared file and return the seconds until it."""
        # O_NOFOLLOW: in a folder that others may write, a link could point to any file of this user.
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            now, slot = self._next(_number(os.read(file, 64)), spacing)
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, repr(slot).encode())
        finally:
            os.close(file)
        return slot - now

    def _next(self, last: float | None, spacing: float) -> tuple[float, float]:
        """Return the current time and the next free slot on the monotonic clock, which processes share."""
        now = self._timing.monotonic()
        if last is None or last > now + _HORIZON_SECONDS:
            return now, now
        return now, max(now, last + spacing)


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_NAMED: dict[str, list[str]] = {}
for _name, _character in html.entities.html5.items():
    _NAMED.setdefault(_character, []).append(_name)


_CODE = re.compile(
    rb"\\+u00([0-9a-f]{2})|\\+u\{0*([0-9a-f]{2})\}|\\+x([0-9a-f]{2})|%([0-9a-f]{2})", re.IGNORECASE
)
_CSS = re.compile(rb"\\+(?:0000([0-9a-f]{2})|0{0,3}([0-9a-f]{2})[ \t\n\f\r]?)", re.IGNORECASE)
"""Escape of CSS, which a space may end: ``\\41`` or ``\\000041``."""
_BYTES = {b"%02x" % code: bytes([code]) for code in range(256)}
_DEPTH = 3
"""Maximum number of nested escapes, such as JSON in a URL in HTML."""


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
        return self._is_in(data) or any(map(self._is_in, _decoded(data)))

    def _is_in(self, text: bytes) -> bool:
        lower = text.lower()
        if self._lower in lower or self._bare in lower:
            return True
        return any(encoded in text for encoded in self._encoded)

    def redact(self, data: bytes, mask: bytes) -> bytes:
        """Return the data with each spelling of the key replaced by the mask.

        The mask replaces all of the data if the key is in it in a spelling that cannot be replaced alone,
        such as JSON in a URL.
        """
        if not self.within(data):
            return data
        listed = b"|".join(re.escape(text) for text in sorted(self._encoded, key=len, reverse=True))
        # A base64 character before and after the match may contain some bits of the key.
        data = re.sub(rb"[\w+/-]{0,2}(?:%b)[\w+/-]{0,3}={0,2}" % listed, mask, data)
        data = re.sub(self._escaped, mask, data, flags=re.IGNORECASE)
        if self.within(data):
            return mask
        return data


def _decoded(data: bytes) -> Iterator[bytes]:
    """Yield the data with its escapes decoded once, twice, …, and without backslashes."""
    for _ in range(_DEPTH):
        if not any(sign in data for sign in (b"\\", b"%", b"&")):
            return
        before = data
        data = _CODE.sub(_of_code, data)
        if b"&" in data:
            data = html.unescape(data.decode("latin-1")).encode("utf-8")
        if b"\\" in data:
            yield _CSS.sub(_of_code, data).replace(b"\\", b"")
        yield data.replace(b"\\", b"")
        if data == before:
            return


def _of_code(escape: re.Match[bytes]) -> bytes:
    """Return the byte of an escape in hexadecimal digits."""
    return _BYTES[escape[escape.lastindex or 1].lower()]


def _escaped(character: str) -> str:
    """Return a regular expression for a character, plain or escaped, also if the escape is escaped again."""
    codes = {ord(character.lower()), ord(character.upper())}
    spellings = [rf"\\*{re.escape(character)}"]
    for code in sorted(codes):
        spellings += [
            rf"\\+0000{code:02x}",
            rf"\\+0{{0,3}}{code:02x}[ \t\n\f\r]?",
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
    """Yield a key in hex and in base64, at each of its three possible offsets in the encoded bytes.

    The hex is of UTF-8, and of UTF-16 in both orders of bytes.
    """
    wide = [key.decode().encode(name) for name in ("utf-16-le", "utf-16-be")]
    for encoded in (key, *wide):
        yield encoded.hex().encode()
        yield encoded.hex().upper().encode()
    yield from wide
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
        """Return every spelling of the origin with a closing slash."""
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
        """Stop the service."""


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
        raise ValueError(f"{url!r} must be an address such as 'https://api.example.com'{reason}") from None
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
