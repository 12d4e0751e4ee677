"""The service as a Starlette application: routes, keys, limits, headers, errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from derivdata import api
from derivdata.errors import DerivdataError
from derivdata.service import json_rows, legacy, query
from derivdata.service.access import Keys, RateLimit
from derivdata.service.answers import ANSWERS, RequestContext
from derivdata.service.base_symbols import BaseSymbols
from derivdata.service.openapi import PLAIN, document, page
from derivdata.service.refusal import DOCS, Refusal
from derivdata.service.response_cache import EncodedBody, ResponseCache
from derivdata.service.store import Store
from derivdata.service.streaming import Flights, StreamedResponse
from derivdata.service.view import View

__all__ = ["app"]

_SAFE = " !#$&'()*+,/:;=?@[]~"


def app(
    store: Store,
    *,
    now: pd.Timestamp | None = None,
    keys: Mapping[str, str] | None = None,
    keyless: bool = False,
    limits: bool = True,
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """The documented API over a store, as an ASGI application.

    Parameters
    ----------
    store
        Where the base tables come from.
    now
        The service's clock, which stands still; the store's own unless given.
    keys
        Key to tier.
    keyless
        Whether a request without a known key counts as Team.
    limits
        Whether the documented request rates hold.
    middleware
        Wrapped around the whole application, the first outermost.

    Raises
    ------
    ValueError
        A tier is unknown, or a key is empty.
    """
    service = _Service(
        View(BaseSymbols(store), store.now if now is None else now), Keys(keys or {}, keyless=keyless), limits
    )
    made = Starlette(
        routes=[
            Route("/", service.hello),
            Route("/openapi.json", service.openapi),
            Route("/docs", service.docs),
            *(Route(e.path, service.endpoint(e)) for e in api.ENDPOINTS),
            *(Route(path, service.moved(path)) for path in legacy.PATHS),
        ],
        middleware=list(middleware),
        exception_handlers={
            Refusal: service.refused,
            HTTPException: service.refused,
            DerivdataError: service.down,
            OSError: service.down,
            Exception: service.failed,
        },
    )
    made.router.redirect_slashes = False
    return made


class _Service:
    """What all routes share: the view, the keys, the answers that are kept, the headers."""

    def __init__(self, view: View, keys: Keys, limits: bool) -> None:
        self._view, self._keys, self._kept, self._flights = view, keys, ResponseCache(), Flights()
        rates = {e.path: e.per_second for e in api.ENDPOINTS if e.per_second and limits}
        self._paces = {path: RateLimit(int(rate)) for path, rate in rates.items()}
        self._headers = {
            "Date": format_datetime(view.now.to_pydatetime(), usegmt=True),
            "X-Derivdata-Source": quote(view.store.label, safe=_SAFE),
            "Vary": "Accept-Encoding",
        }
        if view.store.synthetic:
            self._headers["X-Derivdata-Synthetic"] = "1"

    def endpoint(self, endpoint: api.Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """The handler of one endpoint."""

        async def answer(request: Request) -> Response:
            headers, tier = self._admitted(request, endpoint)
            pairs, warned = legacy.modern(endpoint, request.query_params.multi_items(), self._view.now)
            texts = query.given(endpoint, pairs) | request.path_params
            return self._response(
                request, 200, await self._answer(request, endpoint, tier, texts), headers | warned
            )

        return answer

    def moved(self, path: str) -> Callable[[Request], Awaitable[Response]]:
        """The handler of a path that has moved."""
        endpoint = legacy.PATHS[path]

        async def answer(request: Request) -> Response:
            headers, tier = self._admitted(request, endpoint)
            given = request.query_params.multi_items()
            coin, pointer = legacy.moved(path, given, self._view.now)
            headers |= pointer
            pairs, warned = legacy.modern(endpoint, given, self._view.now)
            texts = query.given(endpoint, pairs) | {"symbol": coin}
            return self._response(
                request, 200, await self._answer(request, endpoint, tier, texts), warned | headers
            )

        return answer

    def _admitted(self, request: Request, endpoint: api.Endpoint) -> tuple[dict[str, str], str]:
        """What is left of the rate, as headers, and the tier of the key."""
        sent = request.headers.get("X-Api-Key")
        tier = self._keys.tier(sent)
        self._keys.admit(tier, endpoint.tier)
        pace = self._paces.get(endpoint.path)
        return pace.admit(sent) if pace else {}, tier

    async def _answer(
        self, request: Request, endpoint: api.Endpoint, tier: str, texts: Mapping[str, str]
    ) -> EncodedBody:
        ask = (endpoint.path, tier, self._view.store.identity, *sorted(texts.items()))
        answer = self._kept.get(ask)
        if answer is None:
            packed = _accepts_gzip(request)
            answer = await self._flights.run(
                ask, lambda: run_in_threadpool(self._made, endpoint, tier, texts, packed)
            )
            self._kept.put(ask, answer)
        return answer

    def _made(self, endpoint: api.Endpoint, tier: str, texts: Mapping[str, str], packed: bool) -> EncodedBody:
        params = query.parse(endpoint, texts, self._view.exchanges)
        body = json_rows.encode(ANSWERS[endpoint.path](RequestContext(self._view, tier, params)))
        return EncodedBody(body, packed=packed)

    async def hello(self, request: Request) -> Response:
        """The root: what this is, without a key."""
        store = self._view.store
        body = {
            "service": "derivdata",
            "source": store.label,
            "synthetic": store.synthetic,
            "start": json_rows.stamp(store.start),
            "now": json_rows.stamp(self._view.now),
            "docs": DOCS,
        }
        return self._response(request, 200, EncodedBody(json_rows.encode(body)))

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document, without a key."""
        made = document(self._view.exchanges, label=self._view.store.label, version=derivdata.__version__)
        return self._response(request, 200, EncodedBody(json_rows.encode(made)))

    async def docs(self, request: Request) -> Response:
        """The same as a page to read, without a key."""
        answer = EncodedBody(page(self._view.store.label).encode())
        return self._response(request, 200, answer, {"Content-Type": "text/html; charset=utf-8"})

    async def refused(self, request: Request, error: Exception) -> Response:
        """A refusal of ours, or an unknown path or method."""
        if isinstance(error, Refusal):
            if error.status == 400 and request.url.path in PLAIN:
                return Response(str(error), 400, self._headers, "text/plain")
            return self._error(request, error.status, error.body, error.headers)
        assert isinstance(error, HTTPException)
        text = {404: f"unknown path {request.url.path}", 405: "only GET and HEAD are allowed"}
        body = {"error": text.get(error.status_code, error.detail)}
        return self._error(request, error.status_code, body, error.headers)

    async def down(self, request: Request, error: Exception) -> Response:
        """The store cannot be read (503)."""
        return self._error(request, 503, {"error": f"the store cannot be read: {type(error).__name__}"})

    async def failed(self, request: Request, error: Exception) -> Response:
        """Something that nobody thought of (500); Starlette raises it again after the answer."""
        body = {"error": f"internal error: {type(error).__name__}"}
        return self._error(request, 500, body, {"Connection": "close"})

    def _error(
        self, request: Request, status: int, body: Any, headers: Mapping[str, str] | None = None
    ) -> Response:
        return self._response(request, status, EncodedBody(json_rows.encode(body)), headers)

    def _response(
        self, request: Request, status: int, answer: EncodedBody, headers: Mapping[str, str] | None = None
    ) -> Response:
        body, extra = answer.body, dict(headers or {})
        if answer.worth_compressing and _accepts_gzip(request):
            body = answer.compressed()
            extra["Content-Encoding"] = "gzip"
        return StreamedResponse(body, status, {"Content-Type": "application/json", **self._headers, **extra})


def _accepts_gzip(request: Request) -> bool:
    accepted = request.headers.get("Accept-Encoding", "")
    for item in accepted.lower().split(","):
        coding, _, quality = item.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
