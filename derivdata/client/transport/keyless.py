"""Requests to public APIs that want no key: sessions, turns at limits, tries, refusals; nothing is kept.

Who asks decides how patient to be; see `derivdata.sources.collect`.
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
    """Return the last outcome of `attempt`.

    `pause` is called with an outcome and the number of attempts so far. It returns the wait before the next
    one [s]; None ends the loop.
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
"""Longest wait for a connection, and longest silence."""

WHOLE_SECONDS = 120.0
"""Longest time for a whole answer: a venue that sends a byte now and then must not hold up its own polls."""

LARGEST = 64 * 2**20

LONGEST_WAIT = 60.0
"""Longest wait before another try [s]."""

LONGEST_BAN = 3600.0
"""Longest wait for the end of a ban [s], of one who waits as long as it takes."""

_LIMITS = {403: 600.0, 418: 120.0, 429: None}
"""Statuses of rate limits, and how long to wait where the answer does not say so [s]."""
_REFUSAL_BYTES = 2**14
_TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_REGION = re.compile(r"\b(countr(y|ies)|regions?|jurisdictions?|territor(y|ies)|locations?)\b", re.IGNORECASE)

T = TypeVar("T")


class Unreachable(NetworkError):
    """Nothing came back at all: the name, the proxy, the address or the port leads nowhere, or is silent."""


class KeylessReply(NamedTuple):
    """A venue's answer: the status, the headers, and the decoded body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Turns:
    """Turns at the limits of one host, which venues at the same address share."""

    def __init__(self) -> None:
        self._free_at: dict[str, pd.Timestamp] = {}
        self._lock = threading.Lock()

    def take(self, now: pd.Timestamp, seconds: float, pool: str = "") -> float:
        """Take the next turn of a limit, of so many seconds, and return how long to wait for it [s]."""
        with self._lock:
            start = max(now, self._free_at.get(pool, now))
            self._free_at[pool] = start + pd.Timedelta(seconds, "s")
        return float((start - now).total_seconds())


class KeylessSession:
    """A session with one venue: proxies of the environment are used, cookies and keys never.

    `headers` are those that the venue wants with each request.
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
        """Send one request and return the whole answer."""
        path = url.partition("://")[2].partition("/")[2]
        request = requests.Request(method, url, params=dict(params), json=post)
        return self._exchange(f"/{path}", request, WHOLE_SECONDS)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> KeylessReply:
        """Post bytes with headers and return the status; the address, which may be secret, is in no error."""
        return self._exchange("alerts", requests.Request("POST", url, dict(headers), data=body), _SECONDS)

    def _exchange(self, where: str, request: requests.Request, seconds: float) -> KeylessReply:
        """Send a request and read the whole body; `where` names it in errors."""
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
            if why := _unreachable(problem, request.url.partition("://")[2].partition("/")[0]):
                raise Unreachable(where, why) from None
            raise NetworkError(where, f"no whole answer came: {type(problem).__name__}") from None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _after_fork(self) -> None:
        """Open sockets of its own in a forked child, where the parent's would bring the parent's answers."""
        self._fork_lock = threading.Lock()
        self._session = _new_session(self._headers)


def persist(
    ask: Callable[[], T],
    pause: Callable[[VenueError | NetworkError, float], float | None],
    wait: Callable[[float], None],
    *,
    tries: int,
) -> T:
    """Ask until there is an answer; `pause` says how long to wait after an error [s], None for no more.

    It is given the usual time, which doubles from a second up to a minute.
    """

    def attempt() -> T | VenueError | NetworkError:
        try:
            return ask()
        except (VenueError, NetworkError) as problem:
            return problem

    def pause_after(outcome: T | VenueError | NetworkError, tried: int) -> float | None:
        usual = min(2.0 ** (tried - 1), LONGEST_WAIT)
        return pause(outcome, usual) if isinstance(outcome, VenueError | NetworkError) else None

    outcome = repeat(attempt, pause_after, wait, tries=tries)
    if isinstance(outcome, VenueError | NetworkError):
        raise outcome
    return outcome


_RESETS = ("X-Bapi-Limit-Reset-Timestamp", "X-Gate-RateLimit-Reset-Timestamp")
"""Headers with the instant at which a limit ends: in ms (Bybit's v5 pages), in s (Gate's v4 pages)."""
_LEFT = "gw-ratelimit-reset"  # the time that is left, in ms (KuCoin, as clients read it)
_UNTIL = re.compile(r"(?:until|after)\D{0,20}(\d{13})\b")
"""How Binance ("IP banned until") and BingX ("will be unblocked after", code 100410, 2024-09) write the end
of a ban, in ms."""


def stated_wait(reply: KeylessReply) -> float | None:
    """Return how long a response says to wait [s], by its headers or its text; None where it does not."""
    headers = reply.headers
    wait = retry_after(headers.get("Retry-After"), headers.get("Date"))
    if wait is not None:
        return wait
    date = http_date(headers.get("Date"))
    now = (machine_now() if date is None else date).timestamp()
    left = headers.get(_LEFT, "")
    if left.isdecimal():
        return int(left) / 1000
    text = reply.body[:_REFUSAL_BYTES].decode(errors="replace")
    stamps = [headers.get(name, "") for name in _RESETS] + _UNTIL.findall(text)
    ends = [int(stamp) / (1000 if len(stamp) > 10 else 1) for stamp in stamps if stamp.isdecimal()]
    return max((end - now for end in ends if end > now), default=None)


def refusal(where: str, reply: KeylessReply) -> VenueError:
    """Return the error of an answer that is none, by its status: a limit, busy, a region, or refused."""
    wait = stated_wait(reply)
    reason = "busy" if reply.status >= 500 else "refused"
    # A refusal speaks of where the address is; a firewall's page, whose limit 403 is, of other things.
    text = _TAG.sub(" ", reply.body[:_REFUSAL_BYTES].decode(errors="replace"))
    if reply.status == 451 or (reply.status == 403 and _REGION.search(text)):
        reason = "region"
    elif reply.status in _LIMITS:
        reason = "limit"
        wait = wait or _LIMITS[reply.status]
    message = f"HTTP {reply.status}: {reply.body[:300].decode(errors='replace')}"
    return VenueError(where, message, code=reply.status, reason=reason, status=reply.status, retry_after=wait)


def _unreachable(problem: BaseException, host: str) -> str:
    """Return why nothing came back from a host; empty text where something did."""
    if isinstance(problem, requests.exceptions.ProxyError):
        return f"the proxy between this machine and {host} does not answer, or refuses"
    if isinstance(problem, requests.exceptions.SSLError):
        return (
            f"no encrypted connection to {host}: its certificate is refused here, or something stands between"
        )
    if isinstance(problem, requests.exceptions.ConnectTimeout):
        return f"no connection to {host} within {_CONNECT_SECONDS:g} s"
    if isinstance(problem, requests.exceptions.ReadTimeout):
        return f"{host} said nothing for {_SECONDS:g} s"
    causes = set(map(type, _causes(problem)))
    if urllib3.exceptions.NameResolutionError in causes:
        return f"the name {host} is not found (DNS)"
    return f"{host} takes no connection" if urllib3.exceptions.NewConnectionError in causes else ""


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it was made from: requests keeps them as arguments and reasons."""
    yield problem
    for inner in (*problem.args, getattr(problem, "reason", None)):
        if isinstance(inner, BaseException):
            yield from _causes(inner)


def _new_session(headers: Mapping[str, str]) -> requests.Session:
    session = requests.Session()
    session.headers.update(headers)
    session.headers["User-Agent"] = f"derivdata/{version('derivdata')}"
    session.headers["Accept-Encoding"] = "gzip"  # the encoding that `read_body` can tell a cut body by
    keep_anonymous(session)
    return session


def keep_anonymous(session: requests.Session) -> None:
    """Let a session take no cookie, and no name and password from ~/.netrc."""
    session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    session.auth = lambda request: request
