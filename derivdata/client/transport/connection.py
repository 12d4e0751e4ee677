"""A connection to one source: responses from cache or network, and the source's clock."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar
from urllib.parse import unquote, urlencode

import pandas as pd

from derivdata.client.transport.cache import Checks, Record, ResponseFiles
from derivdata.client.transport.response import DIGEST_HEADER, Response, http_date, notify, plain_text
from derivdata.client.transport.settings import ConnectionSettings, LocalSource, Pace, Secret, Site
from derivdata.errors import CacheNotice, FetchError, NetworkError, NotCached
from derivdata.support import times
from derivdata.support.files import package_digest
from derivdata.support.forking import TookTooLong, renew_in_child, started
from derivdata.support.text import warn_caller
from derivdata.tables.endpoints import Endpoint, Request, endpoint_of

if TYPE_CHECKING:
    from derivdata.client.transport.network import Network, Reply

T = TypeVar("T")

_AT_ONCE = 8
_CLOCK_SECONDS = 15.0
"""Time for which the server's last ``Date`` is used as its clock [s]."""
_MARKS_SECONDS = 2.0
"""Time for which the last source and data version of a server count as current [s]."""
_LABEL = 200
_NOT_CACHED = 504
"""Status that requests-cache returns if ``only-if-cached`` finds no record."""
_CACHING_HEADERS = ("Cache-Control", "ETag", "Last-Modified", "Vary")
"""Headers of a record that only caching needs. They are not passed on."""
_AHEAD = pd.Timedelta(5, "min")
"""Maximum lead of a server's clock over this machine's clock. A later ``Date`` is ignored."""


CHECKING_CODE = (
    "client",
    "tables",
    "support",
    *(path.stem for path in sorted(Path(__file__).parents[2].glob("*.py"))),
)
"""Modules and folders that read and check responses. Their digest is stored in the cached records."""


class _Marks(NamedTuple):
    """Source of a response and version of its data; None if the response does not state them.

    The version changes when past rows change, not when rows are appended.
    """

    source_id: str | None
    data_version: str | None


class Connection:
    """Connection to a data source: hosted service, archive, venues or sample.

    Attributes
    ----------
    source
        Name of the source: the host, the archive's name, ``sample``.
    synthetic
        Whether the data is synthetic.
    """

    def __init__(
        self,
        site: Site,
        secret: Secret | None,
        settings: ConnectionSettings,
        *,
        local: LocalSource | None = None,
        attribution_url: str | None = None,
    ) -> None:
        self.source = site.host if local is None else local.store.label
        self.synthetic = local is not None and local.store.synthetic
        self._site = site
        self._attribution_url = attribution_url
        self._secret = secret
        self._settings = settings
        self._local = local
        # The key of a service in this process is random in each process. Its responses do not depend on it.
        self._fingerprint = "" if secret is None or local is not None else secret.fingerprint()
        self._scope = f"{settings.scope}\n{self._fingerprint}"
        self._pace = Pace(settings.folder / "turns", self._scope, settings.timing)
        # All states of a local source share a folder: their records differ by key, which contains the scope.
        folder_scope = self._scope if local is None else f"local {self.source}"
        self._files = ResponseFiles(settings.folder / "answers", _digest(folder_scope)[:32])
        self._network: Network | None = None
        self._last_date: tuple[float, pd.Timestamp] | None = None
        self._last_marks: tuple[float, _Marks] | None = None
        self._warned_of_trouble = False
        self._inherited = False
        self._reads_records = settings.reads_records
        self._fork_lock = threading.Lock()
        renew_in_child(self)

    def _serve(
        self, request: Request, endpoint: Endpoint | None = None, until: pd.Timestamp | None = None
    ) -> Response:
        """Return the response to a request, of any HTTP status, from the cache or the network."""
        return self._begin(request, endpoint, until)()

    def _serve_each(
        self, requests: Sequence[tuple[Request, pd.Timestamp | None]], endpoint: Endpoint
    ) -> Iterator[Response]:
        """Return the responses to requests at one endpoint, in order; each comes with the end of its window.

        Without a rate limit, up to eight requests run at a time once the first has succeeded. After an error
        at most seven more requests complete, and their responses are cached. Requests to a service in this
        process run in sequence, as concurrency gains nothing. So do requests under vcrpy, which would lose
        some of them.
        """
        paced = endpoint.per_second is not None and self._settings.paced
        if self._local is not None or paced or _is_in_cassette():
            return (self._begin(request, endpoint, until)() for request, until in requests)
        return self._serve_at_once(requests, endpoint)

    def _serve_at_once(
        self, requests: Sequence[tuple[Request, pd.Timestamp | None]], endpoint: Endpoint
    ) -> Iterator[Response]:
        waiting: deque[Callable[[], Response]] = deque()
        for number, (request, until) in enumerate(requests):
            waiting.append(self._begin(request, endpoint, until))
            # Wait for the first response: if it is an error, no other request is sent.
            if number == 0 or len(waiting) == _AT_ONCE:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()

    def _begin(
        self, request: Request, endpoint: Endpoint | None, until: pd.Timestamp | None
    ) -> Callable[[], Response]:
        """Look in the cache, otherwise start the request. Return a function that waits for the response."""
        self._follow_local()
        url = f"{self._site.base}{_path_and_query(request)}"
        cached = self._cached(url)
        if cached is not None and self._is_current(cached.head.headers):
            response = self._response(request, 200, cached.head.headers, cached.body, cached.head.checks)
            return lambda: response
        if self._settings.offline and self._reads_records:
            return lambda: _not_cached(request)
        # The data of the source may have changed since this record: only the server can confirm it.
        unconfirmed = cached is not None
        wait = started(
            lambda: self._opened().get(request.path, url, endpoint, until, unconfirmed=unconfirmed)
        )
        return lambda: self._received(request, wait)

    def _received(self, request: Request, wait: Callable[[float], Reply]) -> Response:
        """Wait for the network's reply and return it as a response."""
        try:
            reply = self._patiently(request.path, wait)
        except NetworkError as error:
            raise self._orphaned(request.path, error) from None
        if self._files.trouble is not None and not self._warned_of_trouble:
            self._warned_of_trouble = True
            warn_caller(f"responses are not stored in the cache: {self._files.trouble}", CacheNotice)
        self._files.trouble = None
        if self._settings.offline and reply.status == _NOT_CACHED:
            _not_cached(request)
        if reply.is_stale:
            date = reply.headers.get("Date", "an unknown time")
            notice = f"the source did not respond; an expired response of {date} is used (stale_if_error)"
            notify(request, notice, CacheNotice)
        else:
            self._learn(reply.headers)
        if self._local is not None:
            for text in self._local.take_notices():
                warn_caller(text)
        return self._response(request, reply.status, reply.headers, reply.body)

    def clock(self) -> pd.Timestamp:
        """Return the source's time, floored to the minute.

        The time of a local source is the clock of its service. The time of the hosted service is its ``Date``
        header, requested at most every 15 seconds. A forked child does the same for its parent's service.
        Offline, it is the newest ``Date`` in the cache.

        Returns
        -------
        pandas.Timestamp
            Time in UTC.

        Raises
        ------
        NotCached, NetworkError
            Offline, and the cache has no response of this source; the server cannot be reached or sends no
            ``Date``.
        """
        if self._local is not None and not self._inherited:
            return self._local.clock().floor("min")
        if self._settings.offline:
            return self._newest_date().floor("min")
        now = self._settings.timing.monotonic()
        if self._last_date is None or now - self._last_date[0] > _CLOCK_SECONDS:
            self._last_date = None
            self._learn(self._head())
            if self._last_date is None:
                raise NetworkError(
                    "/", "the server's response has no Date header, which is needed as the clock"
                )
        return self._last_date[1].floor("min")

    def _newest_date(self) -> pd.Timestamp:
        """Return the newest ``Date`` of this source's responses in the cache."""
        if self._settings.has_own_cache:
            newest = self._opened().newest()
        else:
            newest = self._files.newest(self._latest_date())
        if newest is None:
            raise NotCached(
                "/",
                "offline=True, but the cache has no response of this source to read the time from; fetch "
                "once without offline=True",
            )
        return newest

    def _forget(self, request: Request) -> None:
        """Remove the response to a request from the cache."""
        url = f"{self._site.base}{_path_and_query(request)}"
        if self._settings.has_own_cache:
            self._opened().forget(url)
        self._files.forget(self._key(url))

    def _keep_passed(
        self, request: Request, digest: str, date: pd.Timestamp, rules: dict[str, list[str]]
    ) -> None:
        """Store in the cached record which rules run again, if the library's own cache is written."""
        settings = self._settings
        is_read_only = settings.offline or settings.cache == "off" or settings.rules.get("read_only", False)
        if is_read_only or settings.has_own_cache:
            return
        key = self._key(f"{self._site.base}{_path_and_query(request)}")
        self._files.keep_checks(key, Checks(_checks_version(), rules), digest=digest, date=date)

    def _holds_key(self, data: bytes) -> bool:
        return self._secret is not None and self._secret.within(data)

    def close(self) -> None:
        """Close the connections, and stop the local service if this process started it."""
        if self._network is not None:
            self._network.close()
        if self._local is not None and not self._inherited:
            self._local.close()

    def _after_fork(self) -> None:
        """Drop the parent's sockets in a forked child: they would receive the parent's responses."""
        self._fork_lock = threading.Lock()
        self._network = None
        self._last_date = self._last_marks = None
        self._pace = Pace(self._settings.folder / "turns", self._scope, self._settings.timing)
        self._inherited = True

    def _cached(self, url: str) -> Record | None:
        """Return a record that can be used without a request: not expired, or any record offline.

        requests-cache set the expiry when the response arrived, so reading it does not import requests-cache.
        """
        if not self._reads_records:
            return None
        record = self._files.record(self._key(url))
        if record is None or self._settings.offline or record.head.expires is None:
            return record
        now = self._settings.timing.machine()
        # A record stored while the clock was ahead would stay fresh for too long.
        if record.head.created > now:
            self._files.forget(record.head.key)
            return None
        if now >= record.head.expires:
            return None
        return record

    def _is_current(self, cached: Mapping[str, str]) -> bool:
        """Return whether a cached response is of the current source and of the current version of its data.

        A hosted service is identified by its address. A served archive sends its identity and data version,
        because another archive, or changed data, may be served at the same address later.
        """
        if self._settings.offline or self._local is not None:
            return True
        marks = _marks_in(cached)
        now = self._settings.timing.monotonic()
        served = "X-Derivdata-Source" in cached or marks.source_id is not None
        if self._last_marks is None or now - self._last_marks[0] > _MARKS_SECONDS:
            if not served:
                return True
            try:
                self._learn(self._head())
            except FetchError:  # the request itself raises the error after its attempts
                return False
        return self._last_marks is not None and self._last_marks[1] == marks

    def _learn(self, headers: Mapping[str, str]) -> None:
        """Store clock, source and data version from a server's headers."""
        now = self._settings.timing.monotonic()
        date = http_date(headers.get("Date"))
        self._last_marks = now, _marks_in(headers)
        if date is not None:
            self._last_date = now, date

    def _follow_local(self) -> None:
        """Change the cache scope if a local source's data has changed since the last request."""
        if self._local is None:
            return
        scope = f"{local_scope(self._local)}\n{self._fingerprint}"
        if scope != self._scope:
            self._scope = scope
            with self._fork_lock:
                network = self._network
                self._network = None
            if network is not None:
                network.close()

    def _latest_date(self) -> pd.Timestamp:
        """Return the latest plausible ``Date`` of a server. A local service's ``Date`` is always accepted."""
        if self._local is not None:
            return pd.Timestamp.max.tz_localize("UTC")
        return pd.Timestamp(self._settings.timing.machine()) + _AHEAD

    def _opened(self) -> Network:
        """Return the network, which is imported and opened on first use."""
        with self._fork_lock:
            if self._network is None:
                from derivdata.client.transport.network import Network

                self._network = Network(
                    self._site,
                    self._secret,
                    self._settings,
                    self._files,
                    key=self._key,
                    turn=self._turn,
                    latest=self._latest_date,
                    # The keys of the sample's records contain its clock, market and code.
                    is_permanent=self._local is not None and self.synthetic,
                    is_inherited=self._inherited,
                )
            return self._network

    def _orphaned(self, path: str, error: NetworkError) -> NetworkError:
        """Return a clearer error in a forked child whose parent's service is gone, else `error` itself."""
        if self._local is None or not self._inherited:
            return error
        return NetworkError(
            path,
            f"the service of {self.source!r} ran in the process that this one was forked from, and does "
            f"not respond ({error}); call dd.connect in this process",
        )

    def _patiently(self, path: str, wait: Callable[[float], T]) -> T:
        """Wait for a result until the caller's deadline."""
        seconds = self._settings.limits.patience
        try:
            return wait(seconds)
        except TookTooLong:
            raise NetworkError(path, f"no response within {seconds:.0f} s") from None

    def _head(self) -> Mapping[str, str]:
        """Request the server's current headers."""
        try:
            return self._patiently("/", started(lambda: self._opened().head()))
        except NetworkError as error:
            raise self._orphaned("/", error) from None

    def _key(self, url: str) -> str:
        """Return the cache key: digest of source, API key's fingerprint, path and sorted query."""
        return _digest(f"{self._scope}\n{url.removeprefix(self._site.base)}")

    def _turn(self, url: str) -> None:
        """Wait for the rate limit of the endpoint at an address."""
        path = url.removeprefix(self._site.base).partition("?")[0]
        self._pace.wait(endpoint_of(path))

    def _response(
        self,
        request: Request,
        status: int,
        sent: Mapping[str, str],
        body: bytes,
        checks: Checks | None = None,
    ) -> Response:
        """Return a reply as a `Response`, without caching headers, and without the key in an error's text."""
        headers = dict(sorted(sent.items()))
        digest = headers.pop(DIGEST_HEADER, "")
        for name in _CACHING_HEADERS:
            headers.pop(name, None)
        if status != 200 and self._secret is not None:
            redact = self._secret.redact
            body = redact(body)
            digest = ""
            headers = {name: redact(v.encode()).decode() for name, v in headers.items()}
        date = http_date(headers.get("Date"))
        is_own_data = "X-Derivdata-Source" in headers or self._local is not None
        url = self._attribution_url or ("" if is_own_data else self._site.base)
        passed: Mapping[str, Sequence[str]] = {}
        if checks is not None and checks.version == _checks_version():
            passed = checks.rules
        return Response(
            request=request,
            status=status,
            headers=headers,
            body=body,
            as_of=pd.NaT if date is None else date,
            source=_source_name(headers.get("X-Derivdata-Source", "")) or self.source,
            synthetic=self.synthetic or headers.get("X-Derivdata-Synthetic") == "1",
            attribution=f"Funding rate data provided by {url}" if url else "",
            sha256=digest or hashlib.sha256(body).hexdigest(),
            passed=passed,
        )

    def _facts(self) -> dict[str, str]:
        settings = self._settings
        mode = ", ".join(["offline" if settings.offline else settings.cache, *settings.rules])
        place = "of the session" if settings.has_own_cache else str(settings.folder)
        key = "given, tier unknown"
        if self._local is not None:
            key = "not needed"
        elif self._secret is None:
            key = "none"
        source = f"{self.source} (synthetic)" if self.synthetic else self.source
        return {"source": source, "key": key, "cache": f"{mode}, {place}"}

    def __repr__(self) -> str:
        return f"Connection({', '.join(f'{name}: {value}' for name, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{n}</th><td>{escape(v)}</td></tr>" for n, v in self._facts().items())
        return f"<table><caption>derivdata connection</caption>{''.join(rows)}</table>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a connection contains a key and cannot be pickled; call dd.connect in the process that uses it"
        )


def local_scope(local: LocalSource) -> str:
    """Return a text that changes whenever responses of a local source may: its data, clock and code."""
    now = times.iso(local.clock())  # first: the source "venues" fetches new data here, which changes identity
    return f"local {local.store.identity}@{now} {local.code}"


@lru_cache(maxsize=1)
def _checks_version() -> str:
    return package_digest(*CHECKING_CODE)


def _is_in_cassette() -> bool:
    """Return whether vcrpy is active, which loses requests of concurrent threads (kevin1024/vcrpy#849)."""
    pools = sys.modules.get("urllib3.connectionpool")
    return pools is not None and pools.HTTPConnectionPool.ConnectionCls.__module__.startswith("vcr.")


def _not_cached(request: Request) -> NoReturn:
    raise NotCached(str(request), "not in the cache: fetch it once without offline=True")


@lru_cache(maxsize=1024)
def _path_and_query(request: Request) -> str:
    if not request.query:
        return request.path
    return f"{request.path}?{urlencode(request.query, safe=',:')}"


@lru_cache(maxsize=64)
def _source_name(header: str) -> str:
    """Return the name of a source from the header that it sends, as printable text."""
    return plain_text(unquote(header), _LABEL)


def _marks_in(headers: Mapping[str, str]) -> _Marks:
    return _Marks(headers.get("X-Derivdata-Source-Id"), headers.get("X-Derivdata-Data-Version"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
