"""Send a request and read its whole body, under a deadline and up to a size: what every adapter here does."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import requests
import urllib3

from derivdata.client.transport.body import read_body


def send_whole(
    send: Callable[..., requests.Response],
    request: requests.PreparedRequest,
    options: dict[str, Any],
    *,
    deadline: float,
    cap: int,
    monotonic: Callable[[], float],
) -> requests.Response:
    """Return the response to a request with its body read and decompressed.

    Raises
    ------
    BodyTooLarge, TooSlow, requests.RequestException, urllib3.exceptions.HTTPError
        The body exceeds `cap` bytes; it is not complete at the deadline; nothing whole came.
    """
    response = send(request, **{**options, "stream": True})
    raw = response.raw
    try:
        body = read_body(raw, deadline=deadline, cap=cap, monotonic=monotonic)
    finally:  # a connection whose body was not read to its end is closed
        if getattr(raw, "length_remaining", None) not in (0, None):
            raw.close()
        raw.release_conn()
    response._content = body
    response._content_consumed = True  # type: ignore[attr-defined]
    # Made again from the body: requests would take cookies from the one that came, requests-cache reads it a
    # second time, and vcrpy's lacks an attribute that requests-cache wants (kevin1024/vcrpy#881).
    response.raw = urllib3.HTTPResponse(
        BytesIO(body), status=response.status_code, preload_content=False, request_url=request.path_url
    )
    return response
