"""The service as a Starlette application: routes, keys, limits, headers, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

import pandas as pd
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import derivdata
from derivdata.errors import DerivdataError
from derivdata.sources.service.answers import ANSWERS, RequestContext, encoding
from derivdata.sources.service.data.store import (
    DOCS,
    HEADER,
    LiveStore,
    Refusal,
    Store,
    bad_request,
    header_value,
    noted,
)
from derivdata.sources.service.data.view import View
from derivdata.sources.service.http import access
from derivdata.sources.service.http.access import Caller, Guard, Keys, RateLimit
from derivdata.sources.service.http.pages import PLAIN, document, page, status_page
from derivdata.sources.service.http.responses import (
    Changes,
    EncodedBody,
    ResponseCache,
    StreamedResponse,
    UnsentBodies,
    WorkQueue,
    is_current,
)
from derivdata.support.text import HiddenKeys
from derivdata.tables import endpoints

_UNQUOTED = " !#$&'()*+,/:;=?@[]~"
"""Characters of a source's label that are not percent-encoded in headers, which must be one line of ASCII."""


def app(
    store: Store,
    *,
    now: pd.Timestamp | None = None,
    clock: Callable[[], pd.Timestamp] | None = None,
    keys: Mapping[str, str] | None = None,
    keyless: bool = False,
    limits: bool = True,
    hosts: Collection[str] = (),
    page: bool = False,
) -> Starlette:
    """Return the documented API over a store, as an ASGI application.

    Parameters
    ----------
    now, clock
        The service's clock: `now` is a fixed time (default: the store's), `clock` returns a moving one.
    keys, keyless
        Key to tier, and whether a request without a known key counts as Team.
    limits
        Whether the documented request rates hold.
    hosts
        Host names other than ``localhost`` that are accepted; numeric IP addresses always are.
    page
        Whether ``/status`` shows the state of the service, to any client and without a key.

    Raises
    ------
    ValueError
        A tier is unknown, or a key is empty.
    """
    keys = HiddenKeys(keys or {})
    if clock is not None:
        now = clock()
    elif now is None:
        now = store.now
    view = View(store, now)
    service = _Service(view, Keys(keys, keyless=keyless), limits, clock)
    routes = [
        Route("/", service.hello),
        Route("/openapi.json", service.openapi),
        Route("/docs", service.docs),
    ]
    if page:
        routes.append(Route("/status", service.status))
    routes += [Route(endpoint.path, service.endpoint(endpoint)) for endpoint in endpoints.ENDPOINTS]
    for path, successor in access.LEGACY_PATHS.items():
        routes.append(Route(path, service.legacy(path, successor)))
    application = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, refuse=service.refusal, hosts=hosts)],
        exception_handlers={
            Refusal: service.refused,
            HTTPException: service.refused,
            DerivdataError: service.down,
            OSError: service.down,
            Exception: service.failed,
        },
    )
    # Starlette would redirect a path with a trailing slash, to an address made of the Host header.
    application.router.redirect_slashes = False
    return application


class _Service:
    """State shared by all routes: the view, the keys, the response cache, the headers."""

    def __init__(
        self, view: View, keys: Keys, limits: bool, clock: Callable[[], pd.Timestamp] | None
    ) -> None:
        self._newest = view
        self._clock = clock
        self._live: LiveStore | None = None
        if isinstance(view.store, LiveStore):
            self._live = view.store
        self._keys = keys
        self._cache = ResponseCache()
        self._queue = WorkQueue()
        self._unsent = UnsentBodies()
        self._changes = Changes()
        self._rates: dict[str, RateLimit] = {}
        for endpoint in endpoints.ENDPOINTS:
            if limits and endpoint.per_second:
                self._rates[endpoint.path] = RateLimit(int(endpoint.per_second))
        self._constant_headers = {
            "X-Derivdata-Source": quote(view.store.label, safe=_UNQUOTED),
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private",
            "Vary": "Accept-Encoding, X-Api-Key",
        }
        if view.store.synthetic:
            self._constant_headers["X-Derivdata-Synthetic"] = "1"

    @property
    def _view(self) -> View:
        """The store at the present time: a new view whenever a moving clock has moved on."""
        if self._clock is not None:
            now = self._clock()
            if now != self._newest.now:
                self._newest = View(self._newest.store, now)
        return self._newest

    @property
    def _headers(self) -> dict[str, str]:
        """Headers of every response, read each time because an archive gets its id with its first row."""
        view = self._view
        return {
            "Date": format_datetime(view.now.to_pydatetime(), usegmt=True),
            "X-Derivdata-Source-Id": quote(view.store.id, safe=_UNQUOTED),
            **self._constant_headers,
        }

    def endpoint(self, endpoint: endpoints.Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of one endpoint."""

        async def response(request: Request) -> Response:
            headers, caller = self._admit(request, endpoint)
            await self._refresh_if_stale(request, caller)
            pairs = request.query_params.multi_items()
            requested = access.given(endpoint, pairs, self._view.now)
            headers |= access.legacy_headers(requested.legacy)
            texts = requested.texts | request.path_params
            return await self._endpoint_response(request, endpoint, caller, texts, headers)

        return response

    def legacy(self, path: str, endpoint: endpoints.Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a legacy path: its successor's response, or 410 after its retirement."""

        async def response(request: Request) -> Response:
            if self._view.now >= access.LEGACY_UNTIL:
                raise Refusal(410, f"{path} was retired: use {endpoint.path}")
            headers, caller = self._admit(request, endpoint)
            await self._refresh_if_stale(request, caller)
            pairs = request.query_params.multi_items()
            symbols = [value for name, value in pairs if name == "coin"]
            if len(symbols) != 1 or not symbols[0].strip():
                raise bad_request(f"coin must be passed once: {path}?coin=BTC")
            requested = access.given(endpoint, pairs, self._view.now)
            successor = quote(endpoint.path.replace("{symbol}", symbols[0]), safe="/")
            headers |= access.legacy_headers(requested.legacy) | access.legacy_path_headers(successor)
            texts = requested.texts | {"symbol": symbols[0]}
            return await self._endpoint_response(request, endpoint, caller, texts, headers)

        return response

    async def _endpoint_response(
        self,
        request: Request,
        endpoint: endpoints.Endpoint,
        caller: Caller,
        texts: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> Response:
        """Return an endpoint's response, keyed by everything that its body depends on."""
        view = self._view
        is_gzip_accepted = _accepts_gzip(request)
        # Read before the identity, so that rows that arrive in between make it outdated.
        version = self._version()
        key = (endpoint.path, caller.tier, view.store.identity, view.now, *sorted(texts.items()))

        def make() -> EncodedBody:
            return self._encode_response(endpoint, caller.tier, texts, is_gzip_accepted)

        return await self._respond(request, key, caller, make, version | dict(headers))

    def _admit(self, request: Request, endpoint: endpoints.Endpoint) -> tuple[dict[str, str], Caller]:
        """Check key, tier and rate; return headers with the remaining rate, and the caller."""
        address = request.client.host if request.client else ""
        caller = self._keys.caller(request.headers.get("X-Api-Key"), address)
        self._keys.admit(caller.tier, endpoint.tier)
        headers: dict[str, str] = {}
        # The last check, so that requests with a wrong key or tier do not use up the rate.
        if endpoint.path in self._rates:
            headers = self._rates[endpoint.path].admit(caller.name)
        return headers, caller

    async def _refresh_if_stale(self, request: Request, caller: Caller) -> None:
        """Refresh a stale live store before it is read, once for all requests that wait for it."""
        live = self._live
        if live is not None and live.is_stale():
            await self._wait_for_body(request, ("refresh",), caller, lambda: _refresh(live))

    async def _respond(
        self,
        request: Request,
        key: tuple[Hashable, ...],
        caller: Caller,
        make: Callable[[], EncodedBody],
        headers: Mapping[str, str],
    ) -> Response:
        """Return a response from the cache, or from a job of the queue while the client stays connected."""
        encoded = self._cache.get(key) or await self._wait_for_body(request, key, caller, make)
        if encoded is None:
            return Response(status_code=499)  # the client has disconnected
        if _accepts_gzip(request) and encoded.worth_compressing and not encoded.is_compressed:
            await run_in_threadpool(encoded.compressed)  # in this thread it would delay all other responses
        # After compression, because the cache measures an entry only when it is stored.
        self._cache.put(key, encoded)
        all_headers = dict(headers)
        if encoded.corrections:
            all_headers[HEADER] = encoded.corrections
        return self._response(request, 200, encoded, all_headers)

    async def _wait_for_body(
        self, request: Request, key: Hashable, caller: Caller, make: Callable[[], EncodedBody]
    ) -> EncodedBody | None:
        """Queue `make`, and return its body, or None if the client disconnected before."""
        job = self._queue.join(key, caller.name, make)
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            futures: set[asyncio.Future[Any]] = {job.result, disconnected}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if not job.result.done():
                return None
            return job.result.result()
        finally:
            disconnected.cancel()
            self._queue.leave(job, caller.name)

    def _encode_response(
        self, endpoint: endpoints.Endpoint, tier: str, texts: Mapping[str, str], is_gzip_accepted: bool
    ) -> EncodedBody:
        """Parse the parameters and return the endpoint's body, in a worker thread."""
        params = access.parse(endpoint, texts, self._view.exchanges)
        context = RequestContext(self._view, tier, params)
        with noted() as corrections:
            body = encoding.encoded(endpoint, context, ANSWERS[endpoint.path])
        return EncodedBody(body, packed=is_gzip_accepted, corrections=header_value(corrections))

    def _version(self) -> dict[str, str]:
        """Return the header with the version of past data; empty if the store cannot be read.

        A client keeps responses about closed windows while this version stays the same, so rows appended to
        an archive must not change it. If the clock is ahead of the data, rows may still arrive for windows
        that a client considers closed. Then every change of the data changes the version.
        """
        view = self._view
        try:
            version = view.store.version
            if view.now <= view.store.now:
                version, _, _ = version.partition(".")
        except (DerivdataError, OSError):
            return {}
        return {"X-Derivdata-Data-Version": quote(version, safe=_UNQUOTED)}

    async def hello(self, request: Request) -> Response:
        """Return a description of the service at the root, without a key."""
        store = self._view.store
        body = {
            "service": "derivdata",
            "source": store.label,
            "synthetic": store.synthetic,
            "start": encoding.stamp(store.start),
            "now": encoding.stamp(self._view.now),
            "docs": DOCS,
        }
        return self._response(request, 200, _json(body))

    async def openapi(self, request: Request) -> Response:
        """Return the OpenAPI document, without a key."""
        specification = document(
            self._view.exchanges, label=self._view.store.label, version=derivdata.__version__
        )
        return self._response(request, 200, _json(specification))

    async def docs(self, request: Request) -> Response:
        """Return the endpoints as an HTML page, without a key."""
        html = EncodedBody(page(self._view.store.label).encode())
        return self._response(request, 200, html, {"Content-Type": "text/html; charset=utf-8"})

    async def status(self, request: Request) -> Response:
        """Return the status page, without a key; it is made again when the clock or the data changes."""
        caller = Caller(endpoints.TIERS[-1], b"status page")
        await self._refresh_if_stale(request, caller)
        view = self._view

        def make() -> EncodedBody:
            return EncodedBody(status_page(view, self._ledger()).encode())

        html = {"Content-Type": "text/html; charset=utf-8"}
        return await self._respond(request, ("/status", view.store.identity, view.now), caller, make, html)

    def _ledger(self) -> pd.DataFrame | None:
        """Return the collected tables of each venue, if the source is an archive."""
        from derivdata.sources.archive import Archive
        from derivdata.sources.collect.reporting import status

        store = self._view.store
        if not isinstance(store, Archive):
            return None
        return status(store, self._view.now)

    async def refused(self, request: Request, error: Exception) -> Response:
        """Return the response for an error raised by the service, or for an unknown path or method."""
        if isinstance(error, Refusal):
            return self.refusal(request, error)
        assert isinstance(error, HTTPException)
        text = {404: f"unknown path {request.url.path}", 405: "only GET and HEAD are allowed"}
        body = {"error": text.get(error.status_code, error.detail)}
        return self._response(request, error.status_code, _json(body), error.headers)

    def refusal(self, request: Request, error: Refusal) -> Response:
        """Return the error response with the reason."""
        if error.status == 400 and request.url.path in PLAIN:
            return Response(str(error), 400, self._headers | self._version(), "text/plain")
        return self._response(request, error.status, _json(error.body), error.headers)

    async def down(self, request: Request, error: Exception) -> Response:
        """Return the error response for a store that cannot be read (503)."""
        body = {"error": f"the store cannot be read: {type(error).__name__}"}
        return self._response(request, 503, _json(body))

    async def failed(self, request: Request, error: Exception) -> Response:
        """Return the response for an internal error (500); Starlette raises the error again afterwards."""
        body = {"error": f"internal error: {type(error).__name__}"}
        return self._response(request, 500, _json(body), {"Connection": "close"})

    def _response(
        self, request: Request, status: int, encoded: EncodedBody, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return a response with all headers: 304 if the client has it, compressed if that is accepted."""
        body = encoded.body
        extra = self._version() | dict(headers or {})
        if status == 200:
            # A body depends on the tier of the key. The hash keeps the key itself out of memory.
            resource = (request.url.path, request.url.query, hash(request.headers.get("X-Api-Key")))
            validators = self._changes.headers(resource, encoded.tag, self._view.now)
            extra |= validators
            if is_current(request.headers, validators):
                return Response(status_code=304, headers={**self._headers, **extra})
        if encoded.worth_compressing and _accepts_gzip(request):
            body = encoded.compressed()
            extra["Content-Encoding"] = "gzip"
        if status == 200 and not self._unsent.has_room(body):
            message = "too many responses are waiting for slow clients: try again in a few seconds"
            raise Refusal(503, message, headers={"Retry-After": "5"})
        stated = {"Content-Type": "application/json", **self._headers, **extra}
        return StreamedResponse(body, status, stated, self._unsent)


def _json(body: Any) -> EncodedBody:
    return EncodedBody(encoding.encode(body))


def _refresh(live: LiveStore) -> EncodedBody:
    """Refresh a live store; return an empty body, as a job of the queue must return one."""
    live.refresh()
    return EncodedBody(b"")


async def _wait_for_disconnect(request: Request) -> None:
    """Return once the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _accepts_gzip(request: Request) -> bool:
    accepted = request.headers.get("Accept-Encoding", "")
    for item in accepted.lower().split(","):
        coding, _, quality = item.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
