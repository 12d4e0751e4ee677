"""The adapter below the cache: key, pace, deadlines, retries and checks; and the settings of a connection."""

from __future__ import annotations

import copy
import hashlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import requests
import urllib3
from filelock import FileLock
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.structures import CaseInsensitiveDict

from derivdata.client.transport.body import BodyTooLarge, NotJson, TooSlow, check_json, send_whole
from derivdata.client.transport.keyless import repeat
from derivdata.client.transport.origin import Secret, WireKey, origin_of
from derivdata.client.transport.response import (
    DIGEST_HEADER,
    http_date,
    network_error,
    permanent,
    retry_after,
)
from derivdata.errors import FetchError, NetworkError, SchemaError
from derivdata.support.files import private_folder
from derivdata.support.times import machine_now
from derivdata.tables.endpoints import Endpoint


@dataclass(frozen=True)
class Limits:
    """Bounds of one request, most of them in seconds."""

    connect: float = 5.0
    read: float = 20.0  # between two pieces of an answer
    answer: float = 60.0  # one try, from its start to the last byte
    budget: float = 120.0  # all tries and the pauses between them, without waiting for a turn
    patience: float = 300.0  # the caller's, everything included
    retry_after: float = 30.0  # longest pause that a service may ask for
    tries: int = 5
    body_bytes: int = 48 * 2**20  # decompressed


IN_PROCESS = Limits(read=240.0, answer=240.0, budget=240.0)
"""Of a service in this process: while it makes a long answer its silence says nothing."""


@dataclass(frozen=True)
class Timing:
    """A clock for durations, a way to sleep, chance in [0, 1), and the machine's time of day."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    machine: Callable[[], datetime] = machine_now


@dataclass(frozen=True)
class ConnectionSettings:
    """Settings of a connection."""

    scope: str  # names the source in the cache: its address, or a local source's identity
    folder: Path
    cache: str = "on"  # or "refresh" (request again, then keep), or "off"
    offline: bool = False  # only the cache answers, with answers of any age
    paced: bool = True  # rate limits are kept
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    rules: Mapping[str, Any] = field(default_factory=dict)  # settings of requests-cache, by its names
    session: Any = None  # a user's own requests.Session or CachedSession

    @property
    def has_own_cache(self) -> bool:
        """Whether the user's session has a cache of its own: the one of this library is then not used."""
        return hasattr(self.session, "cache") and hasattr(self.session, "settings")

    @property
    def reads_records(self) -> bool:
        """Whether a record that is fresh answers without a session."""
        if self.has_own_cache:
            return False
        return self.offline or (self.cache == "on" and not self.rules.get("always_revalidate"))


_SHARE = 0.9
"""Part of the allowed rate that is used: at all of it, a sliding window refuses a fifth of the calls."""
_LOCK_SECONDS = 0.5
_POLL_SECONDS = 0.005
_HORIZON_SECONDS = 60.0
_LATE_SECONDS = 0.03
_TURNS = 5
"""Retries for a slot that was missed while the process was descheduled."""


def spacing_seconds(endpoint: Endpoint) -> float:
    """Seconds that are kept between two requests to an endpoint; 0 where it has no limit."""
    return 0.0 if endpoint.per_second is None else 1.0 / (_SHARE * endpoint.per_second)


class Pace:
    """Waits for this key's next turn at an endpoint."""

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
        """Sleep until the turn; whether it was slept through, so that the one after it comes too soon."""
        if delay <= 0:
            return False
        due = self._timing.monotonic() + delay
        self._timing.sleep(delay)
        return self._timing.monotonic() > due + _LATE_SECONDS

    def _shared_delay(self, name: str, spacing: float) -> float | None:
        """Take the next slot in the file that processes share; None where none is free in time."""
        try:
            private_folder(self._folder)
            with FileLock(
                self._folder / f"{name}.lock",
                timeout=_LOCK_SECONDS,
                poll_interval=_POLL_SECONDS,
                mode=0o600,
                fallback_to_soft=False,  # a lock that outlives a killed process would delay every request
            ):
                return self._taken(self._folder / name, spacing)
        except (
            OSError,
            RuntimeError,
        ):  # no folder, no locks in it, or another holds it: Timeout is an OSError
            return None

    def _taken(self, path: Path, spacing: float) -> float:
        # Never through a link: in a folder that others may write it could name any file of this user.
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
        """Now, and the next free slot; the clock is the machine's monotonic one, which processes share."""
        now = self._timing.monotonic()
        if last is None or last > now + _HORIZON_SECONDS:
            return now, now
        return now, max(now, last + spacing)


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


KEPT_HEADERS = (
    "Age",
    "Content-Type",
    "Date",
    "Deprecation",
    "ETag",
    "Last-Modified",
    "Link",
    "Location",
    "Retry-After",
    "Sunset",
    "Warning",
    "X-Derivdata-Corrections",
    "X-Derivdata-Data-Version",
    "X-Derivdata-Source",
    "X-Derivdata-Source-Id",
    "X-Derivdata-Synthetic",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
)
"""Response headers that matter; the rest (cookies, Vary, Cache-Control) ends here."""

ACCOUNT_HEADER = "X-Derivdata-Account"
"""Request header that tells the keys of a user's own cache apart; it is not sent."""
_UNSENT_HEADERS = (ACCOUNT_HEADER, "Cache-Control", "X-ACTUAL-NO-CACHE")
"""What requests-cache and this package write into a request for the cache above."""

_BASE_SECONDS = 0.5
_CAP_SECONDS = 20.0
_RETRIED = frozenset({429, 500, 502, 503, 504})


class Adapter(BaseAdapter):
    """Sends requests for the session above it, by the adapter that the session had."""

    def __init__(
        self,
        *,
        origin: str | None,
        secret: Secret | None,
        turn: Callable[[str], None],
        limits: Limits,
        timing: Timing,
        inner: BaseAdapter | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.inner = inner or HTTPAdapter(pool_maxsize=16, max_retries=0)
        self._proxies = proxies or {}
        self._origin = origin
        self._secret = secret
        self._turn = turn
        self._limits = limits
        self._timing = timing
        self._closed = False

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Return the whole answer to a request, tried again while that can help and the limits allow."""
        left = self._limits.budget
        spent = 0.0

        def attempt() -> requests.Response | Exception:
            nonlocal left, spent
            self._turn(str(request.url))
            started = self._timing.monotonic()
            outcome = self._try(request, options, min(left, self._limits.answer))
            spent = self._timing.monotonic() - started
            return outcome

        def pause(outcome: requests.Response | Exception, tried: int) -> float | None:
            nonlocal left
            seconds = self._pause(request, outcome, tried)
            left -= spent + (seconds or 0.0)
            return None if left <= 0 or self._closed else seconds

        outcome = repeat(attempt, pause, self._timing.sleep, tries=self._limits.tries)
        if isinstance(outcome, requests.Response):
            return outcome
        raise outcome

    def close(self) -> None:
        """Close the connections; what is under way is not tried again."""
        self._closed = True
        self.inner.close()

    def detach(self) -> BaseAdapter:
        """Return the adapter below, which goes on without this one."""
        self._closed = True
        return self.inner

    def _pause(
        self, request: requests.PreparedRequest, outcome: requests.Response | Exception, tried: int
    ) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        if not isinstance(outcome, requests.Response):
            return _backoff(tried, self._timing) if getattr(outcome, "retryable", False) else None
        if request.method != "GET" or outcome.status_code not in _RETRIED:
            return None
        requested_pause = retry_after(outcome.headers.get("Retry-After"), outcome.headers.get("Date"))
        if requested_pause is not None and requested_pause > self._limits.retry_after:
            return None
        return requested_pause or _backoff(tried, self._timing)

    def _try(
        self, request: requests.PreparedRequest, options: dict[str, Any], seconds: float
    ) -> requests.Response | FetchError | SchemaError:
        path = str(request.path_url)
        deadline = self._timing.monotonic() + seconds
        try:
            response = send_whole(
                self.inner.send,
                self._wire(request),
                self._options(request, options, seconds),
                deadline=deadline,
                cap=self._limits.body_bytes,
                monotonic=self._timing.monotonic,
            )
            return _checked(request, response)
        except BodyTooLarge:
            limit = f"the answer is larger than {self._limits.body_bytes >> 20} MiB"
            return permanent(NetworkError(path, f"{limit}: ask for a shorter window or fewer venues"))
        except TooSlow:
            return NetworkError(path, f"the answer was not complete after {seconds:.0f} s")
        except NotJson as error:
            if error.cut:
                return NetworkError(path, f"the answer broke off: {error}")
            return SchemaError(f"{path}: the answer cannot be read: {error}")
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            return network_error(path, error)

    def _wire(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request as it goes out: with the key, if this is the origin that it is for."""
        wire = request.copy()
        for name in _UNSENT_HEADERS:
            wire.headers.pop(name, None)
        wire.headers["Accept-Encoding"] = "gzip"  # the encoding that `read_body` can tell a cut body by
        if self._secret is not None and origin_of(str(wire.url)) == self._origin:
            wire.headers["X-Api-Key"] = self._secret.reveal()
            _let_recorders_write_masks()
        return wire

    def _options(
        self, request: requests.PreparedRequest, options: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        timeout = (min(self._limits.connect, seconds), min(self._limits.read, seconds))
        # By plain http only a proxy of the session itself is used, never one of the environment.
        proxies = options.get("proxies") if str(request.url).startswith("https:") else self._proxies
        return {**options, "timeout": timeout, "proxies": proxies}


def _backoff(tried: int, timing: Timing) -> float:
    """Return the seconds before the next try after `tried` of them: full jitter, doubling, capped."""
    return timing.chance() * min(_CAP_SECONDS, _BASE_SECONDS * 2.0 ** (tried - 1))


def _checked(
    request: requests.PreparedRequest, response: requests.Response
) -> requests.Response | SchemaError:
    body = response.content
    if response.status_code in (200, 304) and request.method == "GET":
        if response.status_code == 200:
            check_json(body, response.headers)
        if http_date(response.headers.get("Date")) is None:
            return SchemaError(
                f"{request.path_url}: the answer carries no readable Date header, so nothing says when it "
                "was made; is a proxy in the way?"
            )
    headers = CaseInsensitiveDict(
        {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    )
    if response.status_code != 304:  # whose body is the one that was kept
        headers[DIGEST_HEADER] = hashlib.sha256(body).hexdigest()
    if ACCOUNT_HEADER in request.headers:
        headers["Vary"] = ACCOUNT_HEADER
    response.headers = headers
    response.request = request  # the one without the key
    return response


def _let_recorders_write_masks() -> None:
    """Have PyYAML, where vcrpy writes cassettes with it, write a mask in place of a key."""
    # Cassettes are written with the subclasses of this dumper, which refuse types that they do not know.
    dumper = getattr(sys.modules.get("yaml"), "CDumper", None) if "vcr" in sys.modules else None
    if dumper is not None and WireKey not in dumper.yaml_representers:
        dumper.add_representer(WireKey, lambda dump, key: dump.represent_str(str(key)))


def renewed(adapter: BaseAdapter) -> BaseAdapter:
    """Return an adapter with the same settings and connections of its own, for a forked child."""
    return copy.copy(adapter)
