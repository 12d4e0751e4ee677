"""Requests to public APIs that want no key: one session a venue, one try, nothing kept.

Who asks decides how often and how long to wait; see `derivdata.sources.collect`.
"""

from __future__ import annotations

import http.cookiejar
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import requests
import urllib3

from derivdata.client.transport.body import BodyTooLarge, TooSlow, read_body
from derivdata.errors import NetworkError
from derivdata.support.forking import renew_in_child

_CONNECT_SECONDS, _SECONDS = 5.0, 10.0
"""Longest wait for a connection, and longest silence."""

WHOLE_SECONDS = 120.0
"""Longest time for a whole answer: a venue that sends a byte now and then must not hold up its own polls."""

LARGEST = 64 * 2**20


class Unreachable(NetworkError):
    """Nothing came back at all: the name, the proxy, the address or the port leads nowhere, or is silent."""


class KeylessReply(NamedTuple):
    """A venue's answer: the status, the headers, and the decoded body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class KeylessSession:
    """A session with one venue: proxies of the environment are used, cookies and keys never."""

    def __init__(self) -> None:
        self._session = _new_session()
        self._fork_lock = threading.Lock()
        renew_in_child(self)

    def send(
        self, method: str, url: str, params: Mapping[str, str], *, post: Mapping[str, Any] | None = None
    ) -> KeylessReply:
        """Send one request and return the whole answer."""
        path = url.partition("://")[2].partition("/")[2]
        until = time.monotonic() + WHOLE_SECONDS
        try:
            with self._session.request(
                method,
                url,
                params=dict(params),
                json=post,
                timeout=(_CONNECT_SECONDS, _SECONDS),
                stream=True,
                allow_redirects=False,
            ) as response:
                body = read_body(response.raw, deadline=until, cap=LARGEST, monotonic=time.monotonic)
                return KeylessReply(response.status_code, response.headers, body)
        except BodyTooLarge:
            raise NetworkError(f"/{path}", "the answer is larger than 64 MiB") from None
        except TooSlow:
            why = f"the answer was not complete in {WHOLE_SECONDS:g} s"
            raise NetworkError(f"/{path}", why) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            if why := _unreachable(problem, url.partition("://")[2].partition("/")[0]):
                raise Unreachable(f"/{path}", why) from None
            raise NetworkError(f"/{path}", f"no whole answer came: {type(problem).__name__}") from None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _after_fork(self) -> None:
        """Open sockets of its own in a forked child, where the parent's would bring the parent's answers."""
        self._fork_lock = threading.Lock()
        self._session = _new_session()

    def __enter__(self) -> KeylessSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def _new_session() -> requests.Session:
    session = requests.Session()
    session.headers["User-Agent"] = f"derivdata/{version('derivdata')}"
    session.headers["Accept-Encoding"] = "gzip"  # the encoding that `read_body` can tell a cut body by
    keep_anonymous(session)
    return session


def keep_anonymous(session: requests.Session) -> None:
    """Let a session take no cookie, and no name and password from ~/.netrc."""
    session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    session.auth = lambda request: request
