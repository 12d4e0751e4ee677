"""Requests to public APIs without a key: sessions, rate limits, retries and rejections. Nothing is cached.

The caller sets how long to wait; see `derivdata.sources.collect`.
"""

from __future__ import annotations

import http.cookiejar
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import pandas as pd
import requests
import urllib3

from derivdata.client.transport.body import BodyTooLarge, TooSlow, send_whole
from derivdata.client.transport.response import http_date, retry_after
from derivdata.errors import NetworkError, VenueError
from derivdata.support.forking import renew_in_child
from derivdata.support.times import machine_now

Sent = TypeVar("Sent")


def repeat(
    attempt: Callable[[], Sent],
    pause: Callable[[Sent, int], float | None],
    wait: Callable[[float], None],
    *,
    tries: int,
) -> Sent:
    """Call `attempt` at most `tries` times and return the last outcome.

    `pause` gets an outcome and the number of attempts so far. It returns the wait before the next attempt
    [s]; None ends the loop.
    """
    for number in range(1, tries):
        outcome = attempt()
        seconds = pause(outcome, number)
        if seconds is None:
            return outcome
        wait(seconds)
    return attempt()


_CONNECT_SECONDS = 5.0
_SECONDS = 10.0
"""Longest wait for a connection, and longest time without a byte."""

WHOLE_SECONDS = 120.0
"""Longest time for a complete response: a venue that sends a byte now and then must not block its polls."""

LARGEST = 64 * 2**20

LONGEST_WAIT = 60.0
"""Longest wait before another try [s]."""

LONGEST_BAN = 3600.0
"""Longest wait for the end of a ban [s], for callers without a deadline."""

_LIMITS = {403: 600.0, 418: 120.0, 429: None}
"""Statuses of rate limits, and how long to wait if the response does not state it [s]."""
_REJECTION_BYTES = 2**14
_TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_REGION = re.compile(r"\b(countr(y|ies)|regions?|jurisdictions?|territor(y|ies)|locations?)\b", re.IGNORECASE)

T = TypeVar("T")


class Unreachable(NetworkError):
    """No response: the name, the proxy, the address or the port cannot be reached, or does not respond."""


class KeylessReply(NamedTuple):
    """A venue's response: the status, the headers, and the decompressed body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Turns:
    """Schedule of the rate limits of one host, shared by venues at the same address."""

    def __init__(self) -> None:
        self._free_at: dict[str, pd.Timestamp] = {}
        self._lock = threading.Lock()

    def take(self, now: pd.Timestamp, seconds: float, pool: str = "") -> float:
        """Reserve the next slot of a limit, `seconds` long, and return how long to wait for it [s]."""
        with self._lock:
            start = max(now, self._free_at.get(pool, now))
            self._free_at[pool] = start + pd.Timedelta(seconds, "s")
        return float((start - now).total_seconds())


class KeylessSession:
    """A session with one venue. It uses proxies from the environment, but never cookies or keys.

    `headers` are sent with each request.
    """

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = dict(headers or {})
        self._session = _new_session(self._headers)
        self._fork_lock = threading.Lock()
        renew_in_child(self)

    def send(
        self,
        method: str,
        url: str,
        params: Mapping[str, str | list[str]],
        *,
        post: Mapping[str, Any] | None = None,
    ) -> KeylessReply:
        """Send one request and return the complete response."""
        path = url.partition("://")[2].partition("/")[2]
        request = requests.Request(method, url, params=dict(params), json=post)
        return self._exchange(f"/{path}", request, WHOLE_SECONDS)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> KeylessReply:
        """Post bytes with headers. Errors do not show the address, which may be secret."""
        return self._exchange("alerts", requests.Request("POST", url, dict(headers), data=body), _SECONDS)

    def _exchange(self, where: str, request: requests.Request, seconds: float) -> KeylessReply:
        """Send a request and read the complete body; errors name it `where`."""
        session = self._session
        try:
            prepared = session.prepare_request(request)
            options = session.merge_environment_settings(prepared.url, {}, True, None, None)
            response = send_whole(
                partial(session.send, allow_redirects=False),
                prepared,
                {**options, "timeout": (_CONNECT_SECONDS, _SECONDS)},
                deadline=time.monotonic() + seconds,
                cap=LARGEST,
                monotonic=time.monotonic,
            )
            return KeylessReply(response.status_code, response.headers, response.content)
        except BodyTooLarge:
            raise NetworkError(where, f"the response is larger than {LARGEST >> 20} MiB") from None
        except TooSlow:
            raise NetworkError(where, f"the response was not complete within {seconds:g} s") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            host = request.url.partition("://")[2].partition("/")[0]
            if reason := _unreachable(problem, host):
                raise Unreachable(where, reason) from None
            raise NetworkError(where, f"no complete response: {type(problem).__name__}") from None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _after_fork(self) -> None:
        """Open new sockets in a forked child: the parent's would receive the parent's responses."""
        self._fork_lock = threading.Lock()
        self._session = _new_session(self._headers)


def persist(
    send: Callable[[], T],
    pause: Callable[[VenueError | NetworkError, float], float | None],
    wait: Callable[[float], None],
    *,
    tries: int,
) -> T:
    """Send until there is a response, and return it; raise the last error after `tries` tries.

    `pause` gets an error and the usual wait, which doubles from a second up to a minute. It returns the wait
    before the next try [s], or None to stop.
    """

    def attempt() -> T | VenueError | NetworkError:
        try:
            return send()
        except (VenueError, NetworkError) as problem:
            return problem

    def pause_after(outcome: T | VenueError | NetworkError, tried: int) -> float | None:
        if not isinstance(outcome, VenueError | NetworkError):
            return None
        return pause(outcome, min(2.0 ** (tried - 1), LONGEST_WAIT))

    outcome = repeat(attempt, pause_after, wait, tries=tries)
    if isinstance(outcome, VenueError | NetworkError):
        raise outcome
    return outcome


_RESETS = ("X-Bapi-Limit-Reset-Timestamp", "X-Gate-RateLimit-Reset-Timestamp")
"""Headers with the time at which a limit ends: in ms (Bybit's v5 pages), in s (Gate's v4 pages)."""
_LEFT = "gw-ratelimit-reset"  # remaining time in ms (KuCoin, as clients read it)
_UNTIL = re.compile(r"(?:until|after)\D{0,20}(\d{13})\b")
"""End of a ban in ms, in the texts of Binance ("IP banned until") and of BingX ("will be unblocked after",
code 100410, 2024-09)."""


def stated_wait(reply: KeylessReply) -> float | None:
    """Return the wait that a response states in its headers or its text [s]; None if it states none."""
    # 1. Retry-After.
    headers = reply.headers
    wait = retry_after(headers.get("Retry-After"), headers.get("Date"))
    if wait is not None:
        return wait
    # 2. A remaining time.
    left = headers.get(_LEFT, "")
    if left.isdecimal():
        return int(left) / 1000
    # 3. The end of a limit or a ban, in s or ms, by the server's clock.
    date = http_date(headers.get("Date"))
    now = (machine_now() if date is None else date).timestamp()
    text = reply.body[:_REJECTION_BYTES].decode(errors="replace")
    stamps = [headers.get(name, "") for name in _RESETS] + _UNTIL.findall(text)
    waits = []
    for stamp in stamps:
        if stamp.isdecimal():
            end = int(stamp) / 1000 if len(stamp) > 10 else int(stamp)
            waits.append(end - now)
    return max((wait for wait in waits if wait > 0), default=None)


def refusal(where: str, reply: KeylessReply) -> VenueError:
    """Return the error of a rejected request, with its reason by status: limit, busy, region or refused."""
    wait = stated_wait(reply)
    reason = "busy" if reply.status >= 500 else "refused"
    # A 403 because of the region mentions the region in its text; a firewall's 403, a rate limit, does not.
    text = _TAG.sub(" ", reply.body[:_REJECTION_BYTES].decode(errors="replace"))
    if reply.status == 451 or (reply.status == 403 and _REGION.search(text)):
        reason = "region"
    elif reply.status in _LIMITS:
        reason = "limit"
        wait = wait or _LIMITS[reply.status]
    message = f"HTTP {reply.status}: {reply.body[:300].decode(errors='replace')}"
    return VenueError(where, message, code=reply.status, reason=reason, status=reply.status, retry_after=wait)


def _unreachable(problem: BaseException, host: str) -> str:
    """Return why a host sent nothing; empty text if it sent something."""
    if isinstance(problem, requests.exceptions.ProxyError):
        return f"the proxy between this machine and {host} does not respond, or rejects the connection"
    if isinstance(problem, requests.exceptions.SSLError):
        return (
            f"no encrypted connection to {host}: this machine rejects its certificate, or a proxy replaces it"
        )
    if isinstance(problem, requests.exceptions.ConnectTimeout):
        return f"no connection to {host} within {_CONNECT_SECONDS:g} s"
    if isinstance(problem, requests.exceptions.ReadTimeout):
        return f"{host} sent nothing for {_SECONDS:g} s"
    causes = set(map(type, _causes(problem)))
    if urllib3.exceptions.NameResolutionError in causes:
        return f"the name {host} was not found (DNS)"
    if urllib3.exceptions.NewConnectionError in causes:
        return f"{host} does not accept connections"
    return ""


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, which requests stores in `args` and `reason`."""
    yield problem
    for inner in (*problem.args, getattr(problem, "reason", None)):
        if isinstance(inner, BaseException):
            yield from _causes(inner)


def _new_session(headers: Mapping[str, str]) -> requests.Session:
    session = requests.Session()
    session.headers.update(headers)
    session.headers["User-Agent"] = f"derivdata/{version('derivdata')}"
    session.headers["Accept-Encoding"] = "gzip"  # `read_body` detects a truncated gzip body
    keep_anonymous(session)
    return session


def keep_anonymous(session: requests.Session) -> None:
    """Make a session reject cookies and ignore credentials in ~/.netrc."""
    session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    session.auth = lambda request: request
