"""Send requests, with the API key below the cache or keyless to public APIs: limits, retries, checks.

The caller sets how long to wait; see `derivdata.sources.collect`.
"""

from __future__ import annotations

import copy
import hashlib
import http.cookiejar
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import pandas as pd
import requests
import urllib3
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.structures import CaseInsensitiveDict

from derivdata.client.transport.body import BodyTooLarge, NotJson, TooSlow, check_json, send_whole
from derivdata.client.transport.response import (
    DIGEST_HEADER,
    http_date,
    network_error,
    permanent,
    retry_after,
)
from derivdata.client.transport.settings import Limits, Secret, Timing, WireKey, origin_of
from derivdata.errors import FetchError, NetworkError, SchemaError, VenueError
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
"""Maximum wait for a connection, and maximum time without a byte [s]."""

WHOLE_SECONDS = 120.0
"""Maximum time for a complete response [s], so that a slow venue does not block its polls."""

LARGEST = 64 * 2**20

LONGEST_WAIT = 60.0
"""Maximum wait before the next attempt [s]."""

LONGEST_BAN = 3600.0
"""Longest wait for the end of a ban [s], for callers without a deadline."""

_LIMITS = {403: 600.0, 418: 120.0, 429: None}
"""Statuses of rate limits, and how long to wait if the response does not state it [s]."""
_REJECTION_BYTES = 2**14
_TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_REGION = re.compile(
    r"\b(countr(y|ies)|regions?|jurisdictions?|territor(y|ies)|locations?|sanction(s|ed)|geo-?block(s|ed|ing)?"
    r"|United States|U\.S\.A?\.?|US (persons|users|residents|IP)"
    r"|(un|not )available (in|to (users|residents|persons) (in|of)) (the )?(?-i:[A-Z])\w+)",
    re.IGNORECASE,
)
"""Words in responses that reject a region, from venues' error texts and terms."""

T = TypeVar("T")


class Unreachable(NetworkError):
    """No response: the host name, proxy, address or port cannot be reached or does not respond."""


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
        """Open new sockets in a forked child: the parent's sockets would receive the parent's responses."""
        self._fork_lock = threading.Lock()
        self._session = _new_session(self._headers)


def persist(
    send: Callable[[], T],
    pause: Callable[[VenueError | NetworkError, float], float | None],
    wait: Callable[[float], None],
    *,
    tries: int,
) -> T:
    """Send until there is a response, and return it; raise the last error after `tries` attempts.

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
_LEFT_OF_POLICY = re.compile(r";\s*r=(\d{1,9})\b")
_RESET_OF_POLICY = re.compile(r";\s*t=(\d{1,6})\b")
"""Remaining requests and seconds to the reset of each policy of a ``RateLimit`` header
(draft-ietf-httpapi-ratelimit-headers). Pacifica sends ``"credits";r=150;t=20`` (a client's test, 2026-09)."""
_UNTIL = re.compile(r"(?:until|after)\D{0,20}(\d{13})\b")
"""End of a ban in ms, in the texts of Binance ("IP banned until") and of BingX ("will be unblocked after",
code 100410, 2024-09)."""


def stated_wait(reply: KeylessReply) -> float | None:
    """Return the wait in a response's headers or text [s]; None without one."""
    # 1. Read Retry-After.
    headers = reply.headers
    wait = retry_after(headers.get("Retry-After"), headers.get("Date"))
    if wait is not None:
        return wait
    # 2. Read a remaining time.
    left = headers.get(_LEFT, "")
    if left.isdecimal():
        return int(left) / 1000
    seconds = _seconds_to_reset(headers.get("RateLimit", ""))
    if seconds is not None:
        return seconds
    # 3. Read the end of a limit or ban, in s or ms, by the server's clock.
    date = http_date(headers.get("Date"))
    now = (machine_now() if date is None else date).timestamp()
    text = reply.body[:_REJECTION_BYTES].decode(errors="replace")
    # A Retry-After that is neither seconds nor a date may be the end of the pause, in s or ms
    stamps = [headers.get(name, "") for name in ("Retry-After", *_RESETS)] + _UNTIL.findall(text)
    waits = []
    for stamp in stamps:
        if stamp.isdecimal():
            end = int(stamp) / 1000 if len(stamp) > 10 else int(stamp)
            waits.append(end - now)
    return max((wait for wait in waits if wait > 0), default=None)


def _seconds_to_reset(header: str) -> float | None:
    """Return the time until the policy with the fewest remaining requests resets, on ties the longest."""
    policies = []
    for policy in header.split(","):
        reset = _RESET_OF_POLICY.search(policy)
        remaining = _LEFT_OF_POLICY.search(policy)
        if reset is not None:
            count = 0 if remaining is None else int(remaining[1])
            policies.append((-count, float(reset[1])))
    if not policies:
        return None
    _, seconds = max(policies)
    return seconds


def refusal(where: str, reply: KeylessReply) -> VenueError:
    """Return the error of a rejected request, with its reason by status: limit, busy, region or refused."""
    wait = stated_wait(reply)
    reason = "busy" if reply.status >= 500 else "refused"
    refused = ""
    # A 403 because of the region mentions it in its text; a firewall's 403, a rate limit, does not.
    text = _TAG.sub(" ", reply.body[:_REJECTION_BYTES].decode(errors="replace"))
    if reply.status == 451 or (reply.status == 403 and _REGION.search(text)):
        reason = "region"
        refused = "access refused from the country of this machine's address: "
    elif reply.status in _LIMITS:
        reason = "limit"
        wait = wait or _LIMITS[reply.status]
    message = f"{refused}HTTP {reply.status}: {reply.body[:300].decode(errors='replace')}"
    return VenueError(where, message, code=reply.status, reason=reason, status=reply.status, retry_after=wait)


def _unreachable(problem: BaseException, host: str) -> str:
    """Return the reason why a host did not respond; empty if it responded."""
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
"""Response headers that are passed on. All others (cookies, Vary, Cache-Control) are dropped."""

ACCOUNT_HEADER = "X-Derivdata-Account"
"""Request header that separates API keys in a user's own cache. It is not sent."""
_UNSENT_HEADERS = (ACCOUNT_HEADER, "Cache-Control", "X-ACTUAL-NO-CACHE")
"""Headers that requests-cache and this package add to a request for the cache above."""

_BASE_SECONDS = 0.5
_CAP_SECONDS = 20.0
_RETRIED = frozenset({429, 500, 502, 503, 504})


class Adapter(BaseAdapter):
    """Transport adapter that wraps the session's previous adapter, `inner`."""

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
        """Return the complete response to a request; retry transient failures within the limits."""
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
        """Close the connections. Requests under way are not retried."""
        self._closed = True
        self.inner.close()

    def detach(self) -> BaseAdapter:
        """Return the inner adapter, which stays open, and stop retrying in this one."""
        self._closed = True
        return self.inner

    def _pause(
        self, request: requests.PreparedRequest, outcome: requests.Response | Exception, tried: int
    ) -> float | None:
        """Return the seconds until the next attempt; None if the request is not retried."""
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
        """Send a request once.

        Errors are returned, not raised, so that `repeat` can decide about another attempt.
        """
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
            limit = f"the response is larger than {self._limits.body_bytes >> 20} MiB"
            return permanent(NetworkError(path, f"{limit}: request a shorter window or fewer venues"))
        except TooSlow:
            return NetworkError(path, f"the response was not complete after {seconds:.0f} s")
        except NotJson as error:
            if error.cut:
                return NetworkError(path, f"the response was interrupted: {error}")
            return SchemaError(f"{path}: the response cannot be read: {error}")
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            return network_error(path, error)

    def _wire(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request to send, with the API key only if it goes to the key's origin."""
        wire = request.copy()
        for name in _UNSENT_HEADERS:
            wire.headers.pop(name, None)
        wire.headers["Accept-Encoding"] = "gzip"  # `read_body` detects a truncated gzip body
        if self._secret is not None and origin_of(str(wire.url)) == self._origin:
            wire.headers["X-Api-Key"] = self._secret.reveal()
            _let_recorders_write_masks()
        return wire

    def _options(
        self, request: requests.PreparedRequest, options: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        """Return the options of the inner adapter: the timeouts and the proxies of this request."""
        timeout = (min(self._limits.connect, seconds), min(self._limits.read, seconds))
        # Over plain http only the session's own proxy is used, never a proxy from the environment.
        proxies = options.get("proxies") if str(request.url).startswith("https:") else self._proxies
        return {**options, "timeout": timeout, "proxies": proxies}


def _backoff(tried: int, timing: Timing) -> float:
    """Return the seconds before the next try after `tried` tries: full jitter, doubling, capped."""
    return timing.chance() * min(_CAP_SECONDS, _BASE_SECONDS * 2.0 ** (tried - 1))


def _checked(
    request: requests.PreparedRequest, response: requests.Response
) -> requests.Response | SchemaError:
    """Check a response, drop unused headers, add the body's digest, and remove the request with the key."""
    body = response.content
    if response.status_code in (200, 304) and request.method == "GET":
        if response.status_code == 200:
            check_json(body, response.headers)
        if http_date(response.headers.get("Date")) is None:
            return SchemaError(
                f"{request.path_url}: the response does not have a valid Date header, so its time is "
                "unknown; check whether a proxy changes the response"
            )
    headers = CaseInsensitiveDict(
        {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    )
    if response.status_code != 304:  # the body of a 304 is the cached body, which has a digest already
        headers[DIGEST_HEADER] = hashlib.sha256(body).hexdigest()
    if ACCOUNT_HEADER in request.headers:
        headers["Vary"] = ACCOUNT_HEADER
    response.headers = headers
    response.request = request  # without the key
    return response


def _let_recorders_write_masks() -> None:
    """Register a representer so that PyYAML writes a mask in place of a key into vcrpy's cassettes."""
    # vcrpy writes cassettes with subclasses of this dumper, which reject types without a representer.
    dumper = getattr(sys.modules.get("yaml"), "CDumper", None) if "vcr" in sys.modules else None
    if dumper is not None and WireKey not in dumper.yaml_representers:
        dumper.add_representer(WireKey, lambda dump, key: dump.represent_str(str(key)))


def renewed(adapter: BaseAdapter) -> BaseAdapter:
    """Return a copy of an adapter with new connections, for a forked child."""
    return copy.copy(adapter)
