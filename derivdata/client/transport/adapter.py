"""The adapter below the cache: API key, rate limits, deadlines, retries and checks."""

from __future__ import annotations

import copy
import hashlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import requests
import urllib3
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.structures import CaseInsensitiveDict

from derivdata.client.transport.body import BodyTooLarge, NotJson, TooSlow, check_json, send_whole
from derivdata.client.transport.keyless import repeat
from derivdata.client.transport.origin import Secret, WireKey, origin_of
from derivdata.client.transport.response import (
    DIGEST_HEADER,
    http_date,
    network_error,
    permanent,
    retry_after,
)
from derivdata.client.transport.settings import Limits, Timing
from derivdata.errors import FetchError, NetworkError, SchemaError

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
        """Send a request once. Errors are returned, not raised, so that `repeat` can judge them."""
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
                return NetworkError(path, f"the response broke off: {error}")
            return SchemaError(f"{path}: the response cannot be read: {error}")
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            return network_error(path, error)

    def _wire(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request as it is sent, with the API key if it goes to the key's origin."""
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
    """Check a response, drop unused headers, add the body's digest and detach the request with the key."""
    body = response.content
    if response.status_code in (200, 304) and request.method == "GET":
        if response.status_code == 200:
            check_json(body, response.headers)
        if http_date(response.headers.get("Date")) is None:
            return SchemaError(
                f"{request.path_url}: the response has no readable Date header, so its time is unknown; "
                "check whether a proxy changes the response"
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
