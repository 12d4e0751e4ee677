"""The way to one source: requests-cache for policy, our files below it, our adapter below those."""

from __future__ import annotations

import hashlib
import http.cookiejar
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import pandas as pd
import requests
import requests_cache

from derivdata.api import Endpoint, Request, endpoint_of
from derivdata.errors import NetworkError, NotCached
from derivdata.transport.adapter import Adapter
from derivdata.transport.failures import network_error
from derivdata.transport.keys import Secret
from derivdata.transport.notices import notices_in
from derivdata.transport.origin import Site
from derivdata.transport.pace import Pace
from derivdata.transport.records import Record
from derivdata.transport.store import AnswerCache, AnswerFiles
from derivdata.transport.timing import Limits, Timing, http_date
from derivdata.transport.worker import Flights, TookTooLong, in_worker

__all__ = ["Channel", "Reply", "Settings"]

_CLOSED = pd.Timedelta(1, "h")
_DEFAULT_FRESH_SECONDS = 60.0
_MAX_REDIRECTS = 5


@dataclass(frozen=True)
class Settings:
    """How a channel works.

    Attributes
    ----------
    scope
        Text that names the source in the cache: its address, or a local source's identity.
    folder
        The cache folder.
    cache
        ``"on"``, ``"refresh"`` (ask anew, then keep) or ``"off"``.
    offline
        Whether only the cache may answer; then whatever the answer's age.
    paced
        Whether rate limits are kept.
    """

    scope: str
    folder: Path
    cache: str = "on"
    offline: bool = False
    paced: bool = True
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)


class Reply(NamedTuple):
    """What came for a request, from the cache or the network."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    from_cache: bool


class Channel:
    """Sends canonical requests to one site, through the cache."""

    def __init__(self, site: Site, secret: Secret | None, settings: Settings) -> None:
        self._site = site
        self._secret = secret
        self._settings = settings
        fingerprint = secret.fingerprint() if secret is not None else ""
        self._scope = f"{settings.scope}\n{fingerprint}"
        self._pace = Pace(settings.folder / "turns", self._scope, settings.timing)
        self._files = AnswerFiles(settings.folder / "answers", _digest(self._scope)[:32])
        self._flights: Flights[requests.Response] = Flights()
        self._session = self._open(secret)

    def exchange(self, request: Request, endpoint: Endpoint | None, until: pd.Timestamp | None) -> Reply:
        """The answer to a request, from the cache or the network.

        Raises
        ------
        NotCached, NetworkError, SchemaError
            Offline and not there; nothing whole came; what came is not JSON.
        """
        url = self._url(request)
        kept = self._kept(url)
        if kept is not None:
            return Reply(200, kept.head.headers, kept.body, from_cache=True)

        def send() -> requests.Response:
            return self._session.get(
                url,
                force_refresh=self._settings.cache == "refresh" and not self._settings.offline,
                hooks={"response": _keeper(endpoint, until, self._secret)},
            )

        response = self._in_worker(request.path, lambda: self._flights.run(url, send))
        if self._settings.offline and response.status_code == 504:
            raise NotCached(str(request), "not in the cache, and this connection is offline")
        cached = bool(getattr(response, "from_cache", False))
        return Reply(response.status_code, response.headers, response.content, from_cache=cached)

    def date(self) -> pd.Timestamp:
        """The server's ``Date`` now; an answer of any status carries one.

        Raises
        ------
        NetworkError
            Nothing came, or nothing with a date.
        """
        url = f"{self._site.base}/"
        response = self._in_worker("/", lambda: self._session.head(url, allow_redirects=False))
        found = http_date(response.headers.get("Date"))
        if found is None:
            raise NetworkError("/", "the server's answer carries no Date header, which is the clock here")
        return found

    def newest(self) -> pd.Timestamp | None:
        """The latest ``Date`` among this source's cached answers."""
        return self._files.newest()

    def forget(self, request: Request) -> None:
        """Let go of a cached answer."""
        self._files.pop(self._key("GET", self._url(request)), None)

    def trouble(self) -> str | None:
        """Why an answer could not be kept, told once."""
        found, self._files.trouble = self._files.trouble, None
        return found

    def close(self) -> None:
        """Close the connections."""
        self._session.close()  # type: ignore[no-untyped-call]

    def _kept(self, url: str) -> Record | None:
        """A cached answer that may be used as it is: one that has not expired, offline any.

        The session would find the same, ten times slower and in a thread, which only the network needs.
        """
        if self._settings.cache != "on" and not self._settings.offline:
            return None
        found = self._files.record(self._key("GET", url))
        usable = found is not None and (self._settings.offline or not found.head.expired)
        return found if usable else None

    def _in_worker(self, path: str, work: Callable[[], requests.Response]) -> requests.Response:
        try:
            return in_worker(work, seconds=self._settings.limits.patience)
        except TookTooLong:
            seconds = self._settings.limits.patience
            raise NetworkError(path, f"no answer within {seconds:.0f} s") from None
        except requests.RequestException as error:
            failure = network_error(path, error)
        raise failure

    def _url(self, request: Request) -> str:
        return f"{self._site.base}{_path_and_query(request)}"

    def _key(self, method: str, url: str) -> str:
        """Cache key: method, source, path, sorted query, fingerprint of the key; the port plays no part."""
        return _digest(f"{method}\n{self._scope}\n{url.removeprefix(self._site.base)}")

    def _turn(self, url: str) -> None:
        path = url.removeprefix(self._site.base).partition("?")[0]
        self._pace.wait(endpoint_of(path))

    def _open(self, secret: Secret | None) -> requests_cache.CachedSession:
        settings = self._settings
        session = requests_cache.CachedSession(
            backend=AnswerCache(self._files),
            expire_after=requests_cache.EXPIRE_IMMEDIATELY,
            cache_control=True,
            allowable_codes=(200,),
            allowable_methods=("GET",),
            key_fn=lambda request, **_: self._key(str(request.method), str(request.url)),
            only_if_cached=settings.offline,
            stale_if_error=settings.offline,
            read_only=settings.offline,
        )
        session.settings.disabled = settings.cache == "off" and not settings.offline
        session.headers.clear()
        session.headers.update(_headers())
        session.auth = _no_netrc
        session.max_redirects = _MAX_REDIRECTS
        session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        session.adapters.clear()
        session.mount("https://", self._adapter(None))
        for prefix in self._site.prefixes:
            session.mount(prefix, self._adapter(secret))
        return session

    def _adapter(self, secret: Secret | None) -> Adapter:
        settings = self._settings
        return Adapter(
            origin=self._site.origin,
            secret=secret,
            turn=self._turn if settings.paced else lambda _: None,
            limits=settings.limits,
            timing=settings.timing,
        )


def _keeper(
    endpoint: Endpoint | None, until: pd.Timestamp | None, secret: Secret | None
) -> Callable[..., requests.Response]:
    """A hook that writes our policy onto an answer, before requests-cache reads it there.

    An answer that repeats the key is not kept.
    """
    fresh = endpoint.fresh_seconds if endpoint is not None else _DEFAULT_FRESH_SECONDS

    def keep(response: requests.Response, **_: Any) -> requests.Response:
        closed = response.status_code == 200 and _is_closed(response, until)
        said = response.content or b"", repr(response.headers).encode()
        told = secret is not None and any(map(secret.within, said))
        kept = "immutable" if closed else f"max-age={math.ceil(fresh)}"
        response.headers["Cache-Control"] = "no-store" if told else kept
        return response

    return keep


def _is_closed(response: requests.Response, until: pd.Timestamp | None) -> bool:
    """Whether the window ended an hour before the server's clock, and the answer has no notices."""
    date = http_date(response.headers.get("Date"))
    if until is None or date is None or until > date - _CLOSED:
        return False
    try:
        return not notices_in(response.content)
    except msgspec.MsgspecError:
        return False


@lru_cache(maxsize=1024)
def _path_and_query(request: Request) -> str:
    query = urlencode(request.query, safe=",:")
    return f"{request.path}{'?' if query else ''}{query}"


def _headers() -> dict[str, str]:
    return {
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
        "User-Agent": f"derivdata/{version('derivdata')}",
    }


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No credentials but the key; without this, requests would look into ~/.netrc."""
    return request


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
