"""A response that is in the cache already, to a table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import orjson
import pandas as pd
import requests_cache

import derivdata as dd
from benchmarks import wire
from benchmarks.answering import history_table, serve
from benchmarks.row import OURS, Made, Row, faster, stated

__all__ = ["ROWS"]


_NAIVE = "requests-cache (sqlite) hit, r.json(), DataFrame a venue, to_datetime"
_LIMIT = "limit: orjson.loads of the bytes from a file"


def _hit(venues: int, points: int, folder: Path) -> Made:
    body = wire.history(venues, points)
    server = serve(body)
    url = f"http://127.0.0.1:{server.server_port}"
    dd.connect(url)
    session = requests_cache.CachedSession(str(folder / "peer"), backend="sqlite")

    def naive() -> pd.DataFrame:
        answer = session.get(f"{url}/funding/historical?symbol=BTC")
        series = answer.json()["series"].items()
        frame = pd.concat([pd.DataFrame(p).assign(exchange=v) for v, p in series], ignore_index=True)
        return frame.assign(time=pd.to_datetime(frame["timestamp"]))

    assert len(history_table()) == len(naive()) == venues * points
    server.shutdown()
    assert len(history_table()) == len(naive()) == venues * points
    file = folder / "body"
    file.write_bytes(body)
    sides = {OURS: history_table, _NAIVE: naive, _LIMIT: lambda: orjson.loads(file.read_bytes())}
    return Made(sides, facts=lambda: [f"body of {len(body):,} bytes"])


def _row(name: str, size: str, bound: float, venues: int, points: int, *, rounds: int | None = None) -> Row:
    return Row(
        f"cache-{name}",
        what="cache hit → table",
        given=f"{size}, {venues} venues × {points:,} points",
        make=partial(_hit, venues, points),
        goals={_NAIVE: faster(bound), _LIMIT: stated()},
        rounds=rounds,
    )


ROWS = [
    _row("10kB", "10 kB", 5, 43, 3),
    _row("10kB-3-venues", "10 kB", 4, 3, 44),
    _row("1MB", "1 MB", 5, 43, 310),
    _row("50MB", "50 MB", 4, 43, 15_000, rounds=5),
]
