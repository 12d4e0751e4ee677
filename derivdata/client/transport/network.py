"""The network: requests-cache for policy, our files below it, our adapter below those.

It is imported when the cache alone does not answer: it takes a third of the time that pandas takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import msgspec
import pandas as pd
import requests
import requests_cache
from requests.structures import CaseInsensitiveDict
from requests_cache.backends.base import BaseCache, BaseStorage
from requests_cache.models.request import CachedRequest
from requests_cache.models.response import CachedResponse

from derivdata.client.transport.adapter import Adapter
from derivdata.client.transport.cache import AnswerFiles, Record
from derivdata.client.transport.keyless import keep_anonymous
from derivdata.client.transport.origin import Secret, Site
from derivdata.client.transport.response import http_date, network_error, notices_in
from derivdata.client.transport.settings import ConnectionSettings
from derivdata.client.transport.worker import SharedRequests
from derivdata.tables.endpoints import Endpoint

_CLOSED = pd.Timedelta(1, "h")
_DEFAULT_FRESH_SECONDS = 60.0
_MAX_REDIRECTS = 5


class Reply(NamedTuple):
    """Reply to a request, from the cache or the network."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    from_cache: bool


class Responses(BaseStorage):  # type: ignore[type-arg]
    """One source's answers as requests-cache wants them: a mapping from cache key to response."""

    def __init__(self, files: AnswerFiles) -> None:
        super().__init__()
        self.serializer = None
        self._files = files

    def __getitem__(self, key: str) -> CachedResponse:
        record = self._files.record(key)
        if record is None:
            raise KeyError(key)
        return _response(record)

    def __setitem__(self, key: str, response: Any) -> None:
        self._files.keep(key, response.request.path_url, response)

    def __delitem__(self, key: str) -> None:
        if not self._files.forget(key):
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return sum(1 for _ in self._files)

    def clear(self) -> None:
        """Remove every answer of this source."""
        self.bulk_delete(list(self))


class _Cache(BaseCache):
    """requests-cache's view of one source's answers; redirects are remembered in memory only."""

    def __init__(self, files: AnswerFiles) -> None:
        super().__init__()
        self.responses = Responses(files)


class Network:
    """Sends requests to one site, and keeps what comes.

    Parameters
    ----------
    key
        The cache key of a method and an address.
    turn
        Called with the address before every try; returns when it may be sent.
    latest
        The last instant that a ``Date`` is believed of.
    """

    def __init__(
        self,
        site: Site,
        secret: Secret | None,
        settings: ConnectionSettings,
        files: AnswerFiles,
        *,
        key: Callable[[str, str], str],
        turn: Callable[[str], None],
        latest: Callable[[], pd.Timestamp],
    ) -> None:
        self._latest = latest
        self._base = f"{site.base}/"
        self._secret = secret
        self._again = settings.cache == "refresh" and not settings.offline
        self._shared: SharedRequests[requests.Response] = SharedRequests()
        self._session = _session(settings, _Cache(files), key)
        self._session.mount("https://", _adapter(site, None, settings, turn))
        for prefix in site.prefixes:
            self._session.mount(prefix, _adapter(site, secret, settings, turn))

    def get(
        self, path: str, url: str, endpoint: Endpoint | None, until: pd.Timestamp | None, *, again: bool
    ) -> Reply:
        """Return the answer to a request; callers that request the same at once share one.

        Parameters
        ----------
        again
            Whether a cached answer is passed over: it is of another source, or of data that has changed.

        Raises
        ------
        NetworkError, SchemaError
            Nothing whole came; what came is not JSON.
        """

        def send() -> requests.Response:
            hooks = {"response": _keeper(endpoint, until, self._secret, self._latest)}
            return self._session.get(url, force_refresh=again or self._again, hooks=hooks)

        response = _ours(path, lambda: self._shared.run(url, send))
        cached = bool(getattr(response, "from_cache", False))
        return Reply(response.status_code, response.headers, response.content, from_cache=cached)

    def head(self) -> Mapping[str, str]:
        """Return what the server's headers say now: an answer of any status carries its ``Date``."""
        return _ours("/", lambda: self._session.head(self._base, allow_redirects=False)).headers

    def close(self) -> None:
        """Close the connections."""
        self._session.close()  # type: ignore[no-untyped-call]


def _ours(path: str, ask: Callable[[], requests.Response]) -> requests.Response:
    """Return the response, or what requests raised as an error of ours."""
    try:
        return ask()
    except requests.RequestException as error:
        failure = network_error(path, error)
    raise failure


def _session(
    settings: ConnectionSettings, cache: BaseCache, key: Callable[[str, str], str]
) -> requests_cache.CachedSession:
    session = requests_cache.CachedSession(
        backend=cache,
        expire_after=requests_cache.EXPIRE_IMMEDIATELY,
        cache_control=True,
        allowable_codes=(200,),
        allowable_methods=("GET",),
        key_fn=lambda request, **_: key(str(request.method), str(request.url)),
        only_if_cached=settings.offline,
        stale_if_error=settings.offline,
        read_only=settings.offline,
    )
    session.settings.disabled = settings.cache == "off" and not settings.offline
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
    session.adapters.clear()
    return session


def _adapter(
    site: Site, secret: Secret | None, settings: ConnectionSettings, turn: Callable[[str], None]
) -> Adapter:
    return Adapter(
        origin=site.origin,
        secret=secret,
        turn=turn if settings.paced else lambda _: None,
        limits=settings.limits,
        timing=settings.timing,
    )


def _keeper(
    endpoint: Endpoint | None,
    until: pd.Timestamp | None,
    secret: Secret | None,
    latest: Callable[[], pd.Timestamp],
) -> Callable[..., requests.Response]:
    """Return a hook that writes our policy onto an answer, before requests-cache reads it there.

    An answer that repeats the key is not kept.
    """
    fresh = endpoint.fresh_seconds if endpoint is not None else _DEFAULT_FRESH_SECONDS

    def keep(response: requests.Response, **_: Any) -> requests.Response:
        # requests and requests-cache both call the hook; the adapter lets no server's Cache-Control through.
        if "Cache-Control" in response.headers:
            return response
        closed = response.status_code == 200 and _is_closed(response, until, latest())
        received = response.content or b"", repr(response.headers).encode()
        repeats_key = secret is not None and any(map(secret.within, received))
        lifetime = "immutable" if closed else f"max-age={math.ceil(fresh)}"
        response.headers["Cache-Control"] = "no-store" if repeats_key else lifetime
        return response

    return keep


def _is_closed(response: requests.Response, until: pd.Timestamp | None, latest: pd.Timestamp) -> bool:
    """Return whether the window ended an hour before the server's clock, and the answer has no notices.

    A server whose clock is ahead would have windows closed that are not: what it answers before their last
    rows are there would be kept for good.
    """
    date = http_date(response.headers.get("Date"))
    if until is None or date is None or date > latest or until > date - _CLOSED:
        return False
    try:
        return not notices_in(response.content)
    except msgspec.MsgspecError:
        return False


def _response(record: Record) -> CachedResponse:
    head = record.head
    response = CachedResponse(
        content=record.body,
        created_at=head.created,
        expires=head.expires,
        headers=CaseInsensitiveDict(head.headers),
        request=CachedRequest(method="GET", url=head.url),
        status_code=200,
        url=head.url,
        reason="OK",
        encoding="utf-8",
    )
    response.cache_key = head.key
    return response
