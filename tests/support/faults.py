"""The local service with faults on demand, to test the path between a service and its user.

A request sets its fault in the query (``?fault=503``) or before its path, which applies to all requests of
one base address (``http://127.0.0.1:8080/fault:503``). Items separated by ``;`` apply to one try each, the
last to all later ones: ``503;reset;ok`` succeeds from the third try on.

====================== =================================================================================
``ok``                 the response as it is
``503``, ``429=2``     that status; ``Retry-After: 2``
``html``, ``html=502`` a page instead of JSON, with status 200 or another
``garbled``            a body that is said to be compressed and is not
``reset=100``          the connection is reset after so many bytes of the body; ``reset``: at once
``cut=100``            the connection ends after so many bytes of the body, whose length was announced
``open=100``           the same without a length
``chunk=100``          the same in chunks
``any=0.3:7``          with chance 0.3 one of `PASSING`, drawn from the seed 7, the address and the try
====================== =================================================================================
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pandas as pd
import requests

from derivdata.sources import service
from tests.transport.server import ReceivedRequest, Reply, reset, send, serving

PASSING = (
    "500", "html=502", "503", "504", "429=0.01", "429=soon", "reset", "reset=20", "cut=20", "open=20",
    "chunk=20", "garbled",
)  # fmt: skip
"""Faults that the next try may find gone."""

_PREFIX = "/fault:"


@contextmanager
def serve(keys: Mapping[str, str]) -> Iterator[str]:
    """Serve the sample with faults on demand in a thread; give its address."""
    tries: Counter[tuple[str, str]] = Counter()
    with closing(service.start("sample", keys=keys)) as local, requests.Session() as session:

        def answer(request: ReceivedRequest) -> Reply:
            plan, target = _asked(request.path)
            tries[plan, target] += 1
            name, value = _item(plan, target, tries[plan, target])
            sent = {name: value for name, value in request.headers.items() if name != "Host"}
            with session.request(request.method, local.url + target, headers=sent, stream=True) as right:
                whole = _whole(right)
            return _FAULTS[name](whole, value)

        with serving(answer) as server:
            yield server.url


def drawn(share: float, seed: str, target: str, tried: int) -> str:
    """The fault of one try for one path and query: the same whenever the arguments are."""
    chance = random.Random(f"{seed} {target} {tried}")
    return chance.choice(PASSING) if chance.random() < share else "ok"


def _asked(path: str) -> tuple[str, str]:
    """The plan that a request carries, and the path and query without it."""
    plan = "ok"
    if path.startswith(_PREFIX):
        plan, _, rest = path.removeprefix(_PREFIX).partition("/")
        plan, path = unquote(plan), f"/{rest}"
    url = urlsplit(path)
    pairs = parse_qsl(url.query, keep_blank_values=True)
    plan = dict(pairs).get("fault", plan)
    query = urlencode([pair for pair in pairs if pair[0] != "fault"])
    return plan, f"{url.path}?{query}"


def _item(plan: str, target: str, tried: int) -> tuple[str, str]:
    items = plan.split(";")
    name, _, value = items[min(tried, len(items)) - 1].partition("=")
    if name == "any":
        share, _, seed = value.partition(":")
        name, _, value = drawn(float(share), seed, target, tried).partition("=")
    return ("status", f"{name}={value}") if name.isdecimal() else (name, value)


def _whole(right: requests.Response) -> Reply:
    """A response as it was sent, compressed or not."""
    own = ("Content-Length", "Content-Type", "Date")
    headers = {name: value for name, value in right.headers.items() if name.title() not in own}
    return Reply(
        right.raw.read(decode_content=False),
        right.status_code,
        headers,
        pd.Timestamp(parsedate_to_datetime(right.headers["Date"])),
        kind=right.headers.get("Content-Type", "application/json"),  # a response 304 has none
    )


def _instead(
    whole: Reply, body: bytes, status: int = 200, kind: str = "application/json", **more: str
) -> Reply:
    """Return another response, of the same time and source."""
    headers = {name: value for name, value in whole.headers.items() if name.title() != "Content-Encoding"}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    return Reply(body, status, headers, whole.date, kind=kind)


def _status(whole: Reply, value: str) -> Reply:
    status, _, after = value.partition("=")
    wait = {"retry_after": after} if after else {}
    return _instead(whole, b'{"error": "a fault that was asked for"}', int(status), **wait)


def _part(whole: Reply, value: str) -> bytes:
    """The first bytes of a body, never all of them."""
    return whole.body[: min(int(value), len(whole.body) - 1)]


def _cut(whole: Reply, value: str) -> Reply:
    return replace(whole, body=_part(whole, value), length=len(whole.body))


def _reset(whole: Reply, value: str) -> Reply:
    def send_part(handler: BaseHTTPRequestHandler) -> None:
        if value:
            send(handler, _cut(whole, value))
            time.sleep(0.01)
        reset(handler)

    return Reply(raw=send_part)


def _chunk(whole: Reply, value: str) -> Reply:
    announced = f"{len(whole.body):x}\r\n".encode()
    headers = whole.headers | {"Transfer-Encoding": "chunked"}
    return replace(whole, body=announced + _part(whole, value), headers=headers, framed=False)


_FAULTS: dict[str, Callable[[Reply, str], Reply]] = {
    "ok": lambda whole, _: whole,
    "status": _status,
    "html": lambda whole, value: _instead(whole, b"<html>Log in</html>", int(value or 200), "text/html"),
    "garbled": lambda whole, _: _instead(whole, b"no gzip", content_encoding="gzip"),
    "reset": _reset,
    "cut": _cut,
    "open": lambda whole, value: replace(whole, body=_part(whole, value), framed=False),
    "chunk": _chunk,
}
