"""HTTP between a client and the API: first requests, concurrent requests, a large cache, a recording."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import urllib3

import derivdata as dd
from benchmarks import wire
from benchmarks.answering import history_table, serve
from benchmarks.row import GROWTH, OURS, Made, Row, faster, growth, within
from derivdata.client import transport
from derivdata.client.transport.cache import evict
from derivdata.tables.endpoints import OI_TIMESERIES

__all__ = ["ROWS"]

_PLAIN = "urllib3 read, json.loads, DataFrame a venue, to_datetime; no cache"
_TYPED = "limit: urllib3 read, msgspec typed decode, a DataFrame; nothing checked or kept"
_REQUESTS, _WAIT = 40, 0.1
_IN_TURN = "the same requests by urllib3, one after another"


def _elsewhere(body: bytes, folder: Path) -> tuple[str, Callable[[], None]]:
    """Serve a body from another process, whose time is not ours; its address, and how it ends."""
    (folder / "body").write_bytes(body)
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.serving", str(folder / "body")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())

    def close() -> None:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]

    return f"http://127.0.0.1:{port}", close


class _Point(msgspec.Struct):
    timestamp: str
    y: float


class _History(msgspec.Struct):
    series: dict[str, list[_Point]]


def _first(cache: str, place: str, folder: Path) -> Made:
    url, close = _elsewhere(wire.history(43, 2_000), folder)
    url += place
    dd.connect(url, cache=cache)
    pool = urllib3.PoolManager()

    def read() -> bytes:
        return pool.request("GET", url, headers={"Accept-Encoding": "gzip"}).data

    def plain() -> pd.DataFrame:
        series = json.loads(read())["series"].items()
        frame = pd.concat([pd.DataFrame(points).assign(exchange=venue) for venue, points in series])
        return frame.assign(time=pd.to_datetime(frame["timestamp"]))

    def typed() -> pd.DataFrame:
        series = msgspec.json.decode(read(), type=_History).series
        points = list(itertools.chain.from_iterable(series.values()))
        stamps = np.array([point.timestamp[:-1] for point in points], "M8[us]")
        venues = np.repeat(list(series), [len(each) for each in series.values()])
        rates = np.array([point.y for point in points])
        return pd.DataFrame({"exchange": venues, "time": stamps, "rate_bps_8h": rates})

    assert len(history_table()) == len(plain()) == len(typed())
    return Made({OURS: history_table, _TYPED: typed, _PLAIN: plain}, close=close)


class _Waiting(BaseHTTPRequestHandler):
    """Responds to each request after a tenth of a second."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        time.sleep(_WAIT)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "12")
        self.end_headers()
        self.wfile.write(b'{"none":"0"}')

    def log_message(self, *_: Any) -> None:
        pass


def _at_once(_: Path) -> Made:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Waiting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    dd.connect(url, cache="off")
    symbols = [{"symbol": f"S{n:03}", "range": "7d"} for n in range(_REQUESTS)]
    pool = urllib3.PoolManager()

    def ours() -> int:
        return sum(1 for _ in transport.get_each(OI_TIMESERIES, symbols, into=dict[str, str]))

    def in_turn() -> int:
        return len([pool.request("GET", f"{url}/{each['symbol']}").data for each in symbols])

    assert ours() == _REQUESTS
    return Made({OURS: ours, _IN_TURN: in_turn}, close=server.shutdown)


def _cached(folder: Path, answers: int) -> str:
    """Fill the cache folder with small responses of one source, and return its address."""
    os.environ["DERIVDATA_CACHE_DIR"] = str(folder / str(answers))
    server = serve(b'{"none":"0"}')
    url = f"http://127.0.0.1:{server.server_port}"
    dd.connect(url)
    symbols = [{"symbol": f"S{n:06}", "range": "7d"} for n in range(answers)]
    assert sum(1 for _ in transport.get_each(OI_TIMESERIES, symbols, into=dict[str, str])) == answers
    server.shutdown()
    return url


def _clock(folder: Path, times: int) -> Callable[[], Any]:
    """Open a cache offline, whose clock is the newest response's."""
    url = _cached(folder, 50 * times)

    def run() -> pd.Timestamp:
        os.environ["DERIVDATA_CACHE_DIR"] = str(folder / str(50 * times))
        dd.connect(url, offline=True)
        return dd.asof()

    return run


def _evicting(folder: Path, times: int) -> Callable[[], Any]:
    """Look through a cache that is below its limit, as a session does that has written much."""
    _cached(folder, 50 * times)
    return lambda: evict(folder / str(50 * times) / "answers", 10**12)


class _Recordings:
    """One recording at a time, with as many responses as the size; restarted when the size changes."""

    def __init__(self, folder: Path) -> None:
        server = serve(b'{"none":"0"}')
        dd.connect(f"http://127.0.0.1:{server.server_port}", cache="off")
        self._folder, self._numbers = folder, itertools.count()
        self._size, self._recording = 0, None

    def more(self, size: int) -> None:
        """Record ten more responses, after `size` of them."""
        if size != self._size:
            self.close()
            self._size, self._recording = size, dd.record(self._folder / f"{size}.ddz")
            self._fetch(size)
        self._fetch(10)

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()

    def _fetch(self, count: int) -> None:
        for number in itertools.islice(self._numbers, count):
            transport.raw(f"/x/{number}")


def _recording(folder: Path) -> Made:
    recordings = _Recordings(folder)
    sides = {side: partial(recordings.more, 40 * 4**n) for n, side in enumerate(GROWTH)}
    return Made(sides, in_turns=False, close=recordings.close)


ROWS = [
    *(
        Row(
            f"first-request-{cache}{place.replace('/', '-')}",
            what="a history that is not in the cache: request, checks, table",
            given=f"43 venues × 2,000 points, 7 MB of JSON, {words}",
            make=partial(_first, cache, place),
            goals={_TYPED: within(bound), _PLAIN: faster(1.5)},
        )
        for cache, place, words, bound in (
            ("off", "", "gzip; no cache", 2.0),
            ("refresh", "", "gzip; written into the cache", 2.0),
            ("off", "/plain", "not compressed; no cache", 1.7),
        )
    ),
    Row(
        "many-requests",
        what="open interest of many symbols, where no limit of requests stands",
        given=f"{_REQUESTS} requests, each answered after {_WAIT * 1e3:.0f} ms",
        make=_at_once,
        goals={_IN_TURN: faster(3)},
        clock="wall",
        rounds=3,
    ),
    growth("offline-clock", "cache opened offline: its clock", "50 answers and up", _clock, rounds=5),
    growth("eviction", "cache looked through for what is too old", "50 answers and up", _evicting, rounds=5),
    Row(
        "growth-recording",
        what="ten more answers in a recording",
        given="after 40 answers and up; the first of five rounds makes these",
        make=_recording,
        goals=GROWTH,
        rounds=5,
    ),
]
