"""Responses of the local service, next to a plain Starlette route that returns the same bytes."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import derivdata as dd
from benchmarks.row import GROWTH, OURS, Made, Row, stated, within
from benchmarks.rows.archive import funding_rows
from derivdata.sources import service
from derivdata.support import times

__all__ = ["ROWS"]

_END = pd.Timestamp("2025-11-30", tz="UTC")


_BARE = "bare Starlette route that returns the same bytes"
_FIRST = "derivdata, first ask"


def _historical(folder: Path) -> Made:
    local, ask = _service(folder)
    path = _path(30, 0)
    body = ask(path)
    server = _bare(body)
    bare = _client(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", "")
    seconds = itertools.count(1)

    def first() -> bytes:
        return ask(_path(30, next(seconds)))

    def close() -> None:
        local.close()
        server.should_exit = True

    assert bare("/") == body
    assert len(first()) == len(body)
    return Made(
        {OURS: lambda: ask(path), _BARE: lambda: bare("/"), _FIRST: first},
        facts=lambda: [f"answer of {len(body) / 1e6:.1f} MB, not compressed"],
        close=close,
    )


def _growing(folder: Path) -> Made:
    local, ask = _service(folder)
    seconds = itertools.count(1)

    def first(days: int) -> bytes:
        return ask(_path(days, next(seconds)))

    sides = {side: partial(first, days) for side, days in zip(GROWTH, (6, 24, 96), strict=True)}
    return Made(sides, close=local.close)


def _service(folder: Path) -> tuple[service.RunningService, Callable[[str], bytes]]:
    dd.open_archive(folder).append("funding_history", funding_rows(43 * 2 * 2400, venues=43, symbols=2))
    local = service.start(str(folder))
    return local, _client(local.url, local.api_key)


def _path(days: int, seconds: int) -> str:
    """Return some days of one symbol; the seconds make the request unique."""
    start = times.iso(_END - pd.Timedelta(days, "D") - pd.Timedelta(seconds, "s"))
    return f"/funding/historical?symbol=SYM0000&start={start}&end={times.iso(_END)}&resolution=1h"


def _client(url: str, key: str) -> Callable[[str], bytes]:
    """Return a client with one persistent connection."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def ask(path: str) -> bytes:
        connection.request("GET", path, headers={"X-Api-Key": key, "Accept-Encoding": "identity"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body

    return ask


def _bare(body: bytes) -> uvicorn.Server:
    async def route(_: Request) -> Response:
        return Response(body, media_type="application/json")

    config = uvicorn.Config(
        Starlette(routes=[Route("/", route)]), port=0, log_level="critical", lifespan="off"
    )
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return server


ROWS = [
    Row(
        "service",
        what="service: /funding/historical over HTTP, second ask",
        given="30 days × 43 venues, hourly",
        make=_historical,
        goals={_BARE: within(3), _FIRST: stated()},
        clock="wall",
    ),
    Row(
        "growth-service",
        what="service, first ask",
        given="6 days × 43 venues and up, hourly",
        make=_growing,
        goals=GROWTH,
        clock="wall",
        rounds=5,
    ),
]
