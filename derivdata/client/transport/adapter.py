"""The adapter below the cache: key, turn, deadlines, retries, checks. Its answers are whole and key-free."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict

from derivdata.client.transport.body import BodyTooLarge, NotJson, TooSlow, check_json, read_body
from derivdata.client.transport.origin import Secret, origin_of
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
"""Response headers that matter; the rest (validators, cookies, Vary, caching) ends here."""

_BASE_SECONDS = 0.5
_CAP_SECONDS = 20.0
_RETRIED = frozenset({429, 500, 502, 503, 504})


class Adapter(HTTPAdapter):
    """Sends requests for the session above it."""

    def __init__(
        self,
        *,
        origin: str | None,
        secret: Secret | None,
        turn: Callable[[str], None],
        limits: Limits,
        timing: Timing,
    ) -> None:
        super().__init__(pool_maxsize=16, max_retries=0)
        self._origin = origin
        self._secret = secret
        self._turn = turn
        self._limits = limits
        self._timing = timing
        self._closed = False

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Return the whole answer to a request, tried again while that can help and the limits allow."""
        left = self._limits.budget
        for tried in range(1, self._limits.tries + 1):
            self._turn(str(request.url))
            started = self._timing.monotonic()
            outcome = self._try(request, options, min(left, self._limits.answer))
            pause = self._pause(request, outcome, tried)
            left -= self._timing.monotonic() - started + (pause or 0.0)
            if pause is None or left <= 0 or self._closed:
                break
            self._timing.sleep(pause)
        if isinstance(outcome, requests.Response):
            return outcome
        raise outcome

    def close(self) -> None:
        """Close the connections; what is under way is not tried again."""
        self._closed = True
        super().close()

    def _pause(
        self, request: requests.PreparedRequest, outcome: requests.Response | Exception, tried: int
    ) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        if tried == self._limits.tries:
            return None
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
        path = str(request.path_url)
        deadline = self._timing.monotonic() + seconds
        try:
            response = super().send(self._wire(request), **self._options(request, options, seconds))
            try:
                body = read_body(
                    response.raw,
                    deadline=deadline,
                    cap=self._limits.body_bytes,
                    monotonic=self._timing.monotonic,
                )
            finally:  # a connection whose body was not read to its end is closed
                if getattr(response.raw, "length_remaining", None) not in (0, None):
                    response.raw.close()
                response.raw.release_conn()
            return _checked(request, response, body)
        except BodyTooLarge:
            limit = f"the answer is larger than {self._limits.body_bytes >> 20} MiB"
            return permanent(NetworkError(path, f"{limit}: ask for a shorter window or fewer venues"))
        except TooSlow:
            return NetworkError(path, f"the answer was not complete after {seconds:.0f} s")
        except NotJson as error:
            if error.cut:
                return NetworkError(path, f"the answer broke off: {error}")
            return SchemaError(f"{path}: the answer cannot be read: {error}")
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            return network_error(path, error)

    def _wire(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request as it goes out: with the key, if this is the origin that it is for."""
        wire = request.copy()
        if self._secret is not None and origin_of(str(wire.url)) == self._origin:
            wire.headers["X-Api-Key"] = self._secret.reveal()
        return wire

    def _options(
        self, request: requests.PreparedRequest, options: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        timeout = (min(self._limits.connect, seconds), min(self._limits.read, seconds))
        proxies = options.get("proxies") if str(request.url).startswith("https:") else {}
        return {**options, "stream": True, "timeout": timeout, "proxies": proxies}


def _backoff(tried: int, timing: Timing) -> float:
    """Return the seconds before the next try after `tried` of them: full jitter, doubling, capped."""
    return timing.chance() * min(_CAP_SECONDS, _BASE_SECONDS * 2.0 ** (tried - 1))


def _checked(
    request: requests.PreparedRequest, response: requests.Response, body: bytes
) -> requests.Response | SchemaError:
    if response.status_code == 200 and request.method == "GET":
        check_json(body, response.headers)
        if http_date(response.headers.get("Date")) is None:
            return SchemaError(
                f"{request.path_url}: the answer carries no readable Date header, so nothing says when it "
                "was made; is a proxy in the way?"
            )
    return _clean(request, response, body)


def _clean(request: requests.PreparedRequest, response: requests.Response, body: bytes) -> requests.Response:
    """Return the response with its body read, the headers that matter, and the request that has no key."""
    headers = CaseInsensitiveDict(
        {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    )
    headers[DIGEST_HEADER] = hashlib.sha256(body).hexdigest()
    response._content = body
    response._content_consumed = True  # type: ignore[attr-defined]
    response.headers = headers
    response.raw = None  # requests would take the cookies of a redirect from it, and send them on
    response.request = request
    return response
