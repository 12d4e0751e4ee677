"""The network: a requests-cache session over the cached records, run in a worker thread.

This module is imported only if no fresh record exists. requests-cache decides which record may be used, when
it is requested again, and how (RFC 9111). Its storage is the files of `cache`. The adapter below it sends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from importlib.metadata import version
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import pandas as pd
import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from requests_cache import CachedSession, CacheMixin
from requests_cache.backends.base import BaseCache, BaseStorage
from requests_cache.models.request import CachedRequest
from requests_cache.models.response import CachedResponse
from requests_cache.policy import NEVER_EXPIRE, get_url_expiration

from derivdata.client.transport.adapter import ACCOUNT_HEADER, Adapter, keep_anonymous, renewed
from derivdata.client.transport.cache import Head, ResponseFiles
from derivdata.client.transport.response import http_date, network_error, notices_in
from derivdata.client.transport.settings import ConnectionSettings, Secret, Site
from derivdata.tables.endpoints import Endpoint

T = TypeVar("T")


class SharedRequests(Generic[T]):
    """Shares the result of equal requests that run at the same time. Call it in worker threads only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[T]] = {}

    def run(self, key: str, work: Callable[[], T]) -> T:
        """Return the result of `work`, or of work with the same key that is already running."""
        new = Future[T]()
        with self._lock:
            running = self._under_way.setdefault(key, new)
        if running is not new:
            return running.result()
        try:
            result = work()
            new.set_result(result)
        except BaseException as error:
            new.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._under_way[key]
        return result


_CLOSED = pd.Timedelta(1, "h")


class SealedStorage(BaseStorage[str, CachedResponse]):
    """Responses of one source by cache key. `is_secret` returns whether bytes contain the API key."""

    def __init__(self, files: ResponseFiles, base: str, is_secret: Callable[[bytes], bool]) -> None:
        super().__init__()
        self._files = files
        self._base = base
        self._is_secret = is_secret
        self.unconfirmed: set[str] = set()
        """Keys whose records count as expired, because the source's data may have changed."""

    def __getitem__(self, key: str) -> CachedResponse:
        record = self._files.record(key)
        if record is None:
            raise KeyError(key)
        head = record.head
        url = f"{self._base}{record.head.url}"
        response = CachedResponse(
            content=record.body,
            headers=CaseInsensitiveDict(head.headers),
            status_code=200,
            url=url,
            request=CachedRequest(method="GET", url=url),
            created_at=head.created,
            expires=head.created if key in self.unconfirmed else head.expires,
        )
        response.cache_key = key
        return response

    def __setitem__(self, key: str, response: CachedResponse) -> None:
        received = response.content, repr(response.headers).encode()
        if response.status_code != 200 or any(map(self._is_secret, received)):
            return
        url = str(response.history[0].url if response.history else response.url)
        head = Head(
            key=key, url=url.removeprefix(self._base), headers=dict(response.headers),
            created=response.created_at, expires=response.expires, body_bytes=len(response.content),
        )  # fmt: skip
        self._files.keep(head, response.content)

    def __delitem__(self, key: str) -> None:
        self._files.forget(key)

    def __iter__(self) -> Iterator[str]:
        return self._files.keys()

    def __len__(self) -> int:
        return sum(1 for _ in self)


class SealedBackend(BaseCache):
    """Backend of requests-cache over the files of cached responses."""

    def __init__(self, storage: SealedStorage) -> None:
        super().__init__()
        self.responses = storage


def state_expiry(until: pd.Timestamp | None, latest: Callable[[], pd.Timestamp]) -> Callable[..., None]:
    """Return a hook that marks the response to a closed window as ``immutable``.

    A window is closed one hour after its end by the server's clock, if that clock is not later than `latest`.
    Otherwise a server whose clock is ahead would have windows cached indefinitely without their last rows. A
    response with notices is never marked. Its validators are dropped: a 304 would not repeat the notices.
    """
    is_stated = False

    def state(response: requests.Response, **_: Any) -> None:
        nonlocal is_stated
        # requests-cache calls the hooks of a response twice: on arrival, and after it was stored.
        if is_stated or response.status_code not in (200, 304):
            return
        is_stated = True
        date = http_date(response.headers.get("Date"))
        if _has_notices(response.content):
            response.headers.pop("ETag", None)
            response.headers.pop("Last-Modified", None)
        elif until is not None and date is not None and until <= date - _CLOSED and date <= latest():
            response.headers["Cache-Control"] = "immutable"

    return state


def _has_notices(body: bytes) -> bool:
    try:
        return bool(notices_in(body))
    except msgspec.MsgspecError:
        return True


_DEFAULT_FRESH_SECONDS = 60.0
_MAX_REDIRECTS = 5
_ANSWERS = frozenset({200, *range(400, 500)} - {408, 429})
"""Statuses that `stale_if_error` does not hide: a rejected request is a response. Only 200 is cached."""
_ANY_AGE = "only-if-cached,stale-if-error=3153600000"


class Reply(NamedTuple):
    """Reply of the network or the cache to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_stale: bool = False  # an expired record in place of a response that did not arrive


class Network:
    """Sends requests to one site and caches the responses. `latest` is the latest ``Date`` accepted."""

    def __init__(
        self,
        site: Site,
        secret: Secret | None,
        settings: ConnectionSettings,
        files: ResponseFiles,
        *,
        key: Callable[[str], str],
        turn: Callable[[str], None],
        latest: Callable[[], pd.Timestamp],
        is_permanent: bool = False,
        is_inherited: bool = False,
    ) -> None:
        self._base = site.base
        self._settings = settings
        self._latest = latest
        self._secret = secret
        self._key = key
        self._is_permanent = is_permanent
        self._is_inherited = is_inherited
        self._shared: SharedRequests[Reply] = SharedRequests()
        self._storage = SealedStorage(files, site.base, self._is_secret)
        self._own = settings.session is None
        self._session = self._cached_session()
        self._mounted = self._mount(site, turn)
        self._cache_keys: dict[str, str | None] = {}

    def get(
        self,
        path: str,
        url: str,
        endpoint: Endpoint | None,
        until: pd.Timestamp | None,
        *,
        unconfirmed: bool = False,
    ) -> Reply:
        """Return the response to a request. Equal requests at the same time share one response.

        An `unconfirmed` record is used only after the server has confirmed it.
        """

        def send() -> Reply:
            if not unconfirmed:
                return self._send(path, url, endpoint, until)
            key = self._key(url)
            self._storage.unconfirmed.add(key)
            try:
                return self._send(path, url, endpoint, until)
            finally:
                self._storage.unconfirmed.discard(key)

        return self._shared.run(url, send)

    def head(self) -> Mapping[str, str]:
        """Request the server's current headers: a response of any status has a ``Date``."""
        response = _translated("/", lambda: self._session.head(f"{self._base}/", allow_redirects=False))
        return dict(response.headers)

    def forget(self, url: str) -> None:
        """Remove a response from the cache of a user's own session."""
        cache_key = self._cache_keys.pop(url, None)
        if cache_key is not None:
            self._session.cache.delete(cache_key)

    def newest(self) -> pd.Timestamp | None:
        """Return the latest ``Date`` of this site's responses in the cache of a user's own session."""
        responses = (r for r in self._session.cache.filter() if str(r.url).startswith(f"{self._base}/"))
        dates = (http_date(response.headers.get("Date")) for response in responses)
        return max((date for date in dates if date is not None), default=None)

    def close(self) -> None:
        """Close the connections. A user's own session gets its previous adapters back."""
        if self._own:
            self._session.close()
            return
        for prefix, (adapter, before) in self._mounted.items():
            if self._session.adapters.get(prefix) is adapter:
                del self._session.adapters[prefix]
                if before is not None:
                    self._session.mount(prefix, before)
            adapter.detach()

    def _send(self, path: str, url: str, endpoint: Endpoint | None, until: pd.Timestamp | None) -> Reply:
        """Send a request through the session and its cache."""
        session = self._session
        settings = self._settings
        headers = {}
        if settings.has_own_cache:
            if self._secret is not None:
                headers[ACCOUNT_HEADER] = self._secret.fingerprint()
            if settings.offline or settings.cache == "off":
                headers["Cache-Control"] = _ANY_AGE if settings.offline else "no-store"
        hooks = list(session.hooks.get("response", []))
        if settings.cache != "off":
            hooks.insert(0, state_expiry(until, self._latest))
        response = _translated(
            path,
            lambda: session.get(
                url,
                headers=headers,
                hooks={"response": hooks},
                expire_after=self._expire_after(url, endpoint),
                force_refresh=settings.cache == "refresh",
            ),
        )
        if settings.has_own_cache:
            self._cache_keys[url] = response.cache_key
        is_stale = (
            response.from_cache and response.is_expired and not response.revalidated and not settings.offline
        )
        return Reply(response.status_code, response.headers, response.content, is_stale)

    def _expire_after(self, url: str, endpoint: Endpoint | None) -> float | None:
        """Return the time for which a response is fresh [s]; None if the user's settings define it."""
        rules = self._session.settings
        has_default = rules.expire_after not in (None, NEVER_EXPIRE) or "expire_after" in self._settings.rules
        if has_default or get_url_expiration(url, rules.urls_expire_after) is not None:
            return None
        if self._is_permanent:
            return NEVER_EXPIRE
        return endpoint.fresh_seconds if endpoint is not None else _DEFAULT_FRESH_SECONDS

    def _cached_session(self) -> Any:
        """Return the user's `CachedSession`, else a cached session over the library's own records."""
        session = self._settings.session
        if isinstance(session, CacheMixin):
            return session
        rules: dict[str, Any] = {
            "cache_control": True,
            "allowable_codes": _ANSWERS,
            "allowable_methods": ("GET",),
            "ignored_parameters": (),
            "key_fn": lambda request, **_: self._key(str(request.url)),
            **self._settings.rules,
        }
        cached = CachedSession.wrap(session or _session(), backend=SealedBackend(self._storage), **rules)
        cached.settings.disabled = self._settings.cache == "off"
        return cached

    def _mount(
        self, site: Site, turn: Callable[[str], None]
    ) -> dict[str, tuple[Adapter, BaseAdapter | None]]:
        """Mount the adapter that adds the key, for the site's origin.

        Return by prefix the new adapter and the adapter that it replaced.
        """
        session = self._session
        mounted: dict[str, tuple[Adapter, BaseAdapter | None]] = {}
        if self._own:
            session.adapters.clear()
            session.mount("https://", self._adapter(site, None, turn))
        for prefix in dict.fromkeys(site.prefixes):
            inner = None
            if not self._own:
                inner = session.get_adapter(f"{prefix}x")  # any address below the prefix
                if isinstance(inner, Adapter):
                    inner = inner.inner
                if self._is_inherited:
                    inner = renewed(inner)
            adapter = self._adapter(site, self._secret, turn, inner)
            mounted[prefix] = adapter, session.adapters.get(prefix)
            session.mount(prefix, adapter)
        return mounted

    def _adapter(
        self, site: Site, secret: Secret | None, turn: Callable[[str], None], inner: BaseAdapter | None = None
    ) -> Adapter:
        return Adapter(
            origin=site.origin,
            secret=secret,
            turn=turn if self._settings.paced else lambda _: None,
            limits=self._settings.limits,
            timing=self._settings.timing,
            inner=inner,
            proxies=None if self._own else self._session.proxies,
        )

    def _is_secret(self, data: bytes) -> bool:
        return self._secret is not None and self._secret.within(data)


def _translated(path: str, send: Callable[[], Any]) -> Any:
    """Return the response; raise an exception of requests as an error of this package."""
    try:
        return send()
    except requests.RequestException as error:
        failure = network_error(path, error)
    # Outside the except block: the original, whose request contains the key, must not become its context.
    raise failure


def _session() -> requests.Session:
    session = requests.Session()
    session.headers.clear()
    session.headers.update(
        {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"derivdata/{version('derivdata')}",
        }
    )
    keep_anonymous(session)
    session.max_redirects = _MAX_REDIRECTS
    return session
