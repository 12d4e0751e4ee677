"""What requests may cost the service: made up, the largest, and all there is; memory, and time of others."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pytest

from tests.reliability.alone import KEY, PATIENCE, Served, run, served
from tests.reliability.conftest import Measured
from tests.reliability.promises import SOAK, count
from tests.support.threads import together

GREEDY, OTHER = "k-greedy-2b7c", "k-other-91aa"
END = pd.Timestamp("2026-06-30T00:00Z")
LIMIT = 48 << 20
LARGE = (
    "/funding/historical?symbol=BTC&resolution=1m",
    "/funding/historical?symbol=ETH&resolution=raw",
    "/funding/historical?symbol=XRP&resolution=1m",
    "/funding/historical?symbol=SOL&resolution=1m",
)
PAUSE = 1.1
"""Seconds after which the documented rate, two requests a second for each key, admits two more."""


@pytest.fixture
def alone() -> Iterator[Served]:
    """A service of its own for each test, so that its peak of memory is this test's."""
    process = run("sample", "--key", f"team={GREEDY}", "--key", f"pro={OTHER}")
    assert process.stdout is not None
    try:
        yield Served(process, process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def longest(local: Served, path: str) -> pd.Timedelta:
    """The longest window that a refusal of all there is names."""
    time.sleep(PAUSE)
    status, body = local.get(f"{path}&start=2025-09-01", key=GREEDY)
    assert status == 400
    found = re.findall(rb"at most (\d+) (days|minutes) at once", body)
    return pd.Timedelta(int(found[0][0]), found[0][1].decode())


def test_four_of_the_largest_answers_at_once_stay_under_2_gib(alone: Served, measured: Measured) -> None:
    before, began = alone.peak_mib(), time.monotonic()
    windows = {path: longest(alone, path) for path in LARGE}
    refused = (time.monotonic() - began) / len(LARGE) - PAUSE
    assert alone.peak_mib() - before < 256
    sizes: list[int] = []

    def ask(path: str, key: str) -> None:
        start = END - (windows[path] if SOAK else pd.Timedelta(6, "h"))
        status, body = alone.get(
            f"{path}&start={start:%Y-%m-%dT%H:%M:%SZ}&end=2026-06-30", key=key, seconds=900
        )
        assert status == 200, body[:200]
        sizes.append(len(body))

    threads = [
        threading.Thread(target=ask, args=(path, key))
        for path, key in zip(LARGE, (GREEDY, GREEDY, OTHER, OTHER), strict=True)
    ]
    time.sleep(PAUSE)
    together(threads)
    assert len(sizes) == 4
    assert max(sizes) <= LIMIT
    assert not SOAK or min(sizes) > 0.6 * LIMIT
    peak = alone.peak_mib()
    assert peak < 2048
    mib = max(sizes) / 2**20
    figure = f"refused after {refused:.2f} s; four answers of up to {mib:.0f} MiB at once: {peak:,.0f} MiB"
    measured("service: one request", figure)


def send(stack: ExitStack, local: Served, path: str) -> None:
    line = stack.enter_context(socket.create_connection((local.host, local.port), timeout=PATIENCE))
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {GREEDY}\r\n\r\n".encode())


def test_another_key_is_answered_while_one_has_long_requests_under_way(
    alone: Served, measured: Measured
) -> None:
    number, waits = count(16, 64), []
    with ExitStack() as stack:
        for n in range(number):
            start = f"2026-{2 + n % 4:02d}-{1 + n % 28:02d}T{n % 24:02d}:00Z"
            send(stack, alone, f"/volume-oi-ratio?window_days=30&start={start}")
        for hour in range(count(3, 10)):
            began = time.monotonic()
            path = f"/oi/BTC/timeseries?start=2026-06-29T{hour:02d}:00Z&end=2026-06-30"
            status, body = alone.get(path, key=OTHER)
            waits.append(time.monotonic() - began)
            assert status == 200, body[:200]
    began = time.monotonic()
    while alone.get("/oi/exchange-totals?range=1d&resolution=1h", key=GREEDY)[0] != 200:
        pass
    after = time.monotonic() - began
    assert not SOAK or max(waits) < 2.0
    measured(
        "service: one request",
        f"{number} long requests of one key: another's took at most {max(waits):.2f} s; "
        f"{after:.1f} s after they had left, that key's next was answered",
    )


__all__ = ["served"]

VENUES = [
    "binance", "bybit", "hyperliquid", "bitget", "gateio", "okx", "mexc", "aster", "bingx", "lighter",
    "kucoin", "edgex",
]  # fmt: skip
"""By their size in the sample, the largest first."""


def schemathesis(url: str, folder: Path, *options: str) -> str:
    """What a run said that found nothing."""
    beside = str(Path(sys.executable).parent)
    command = shutil.which("schemathesis", path=beside) or shutil.which("schemathesis")
    assert command is not None, "schemathesis is not installed: pip install -e '.[dev]'"
    config = ["--config-file", str(Path(__file__).with_name("schemathesis.toml"))]
    asked = ["run", f"{url}/openapi.json", "-H", f"X-Api-Key: {KEY}", "--request-timeout", "120"]
    plain = ["--no-color", "--generation-database", "none", "--suppress-health-check", "all"]
    done = subprocess.run(
        [command, *config, *asked, *plain, *options], capture_output=True, text=True, cwd=folder, timeout=1800
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_no_made_up_request_finds_a_failure(served: Served, tmp_path: Path, measured: Measured) -> None:
    url, each = f"http://{served.host}:{served.port}", str(count(1, 20))
    said = schemathesis(url, tmp_path, "--phases", "fuzzing", "--seed", "1", "--max-examples", each)
    cases = sum(int(found.replace(",", "")) for found in re.findall(r"([\d,]+) generated", said))
    assert cases >= count(50, 1000), said[-4000:]
    recovered = served.well()
    assert not SOAK or recovered < 1.0
    peak = served.peak_mib()
    assert peak < 2048
    figure = f"{cases:,} requests: no failure, at most {peak:,.0f} MiB, well again after"
    measured("service: any request", f"{figure} {recovered * 1000:.0f} ms")


def test_many_who_want_all_there_is_share_the_memory_of_a_few(measured: Measured) -> None:
    """Twelve long windows of twelve venues at once; one alone, of the largest venue, is the measure."""
    start = "2026-03-01" if SOAK else "2026-06-10"
    process = run("sample", "--key", f"team={KEY}")
    try:
        assert process.stdout is not None
        local = Served(process, process.stdout.readline())
        statuses: list[int] = []

        def ask(venue: str, since: str) -> None:
            path = f"/oi/exchange-top-symbols-timeseries?exchange={venue}&start={since}"
            statuses.append(local.get(path, seconds=900)[0])

        ask(VENUES[0], "2026-06-29")
        before = local.mib()
        ask(VENUES[0], start)
        alone = local.peak_mib() - before
        together(threading.Thread(target=ask, args=(venue, f"{start}T01:00Z")) for venue in VENUES)
        at_once = local.peak_mib() - before
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert statuses == [200] * (len(VENUES) + 2)
    assert at_once < 5 * alone
    measured(
        "service: any request",
        f"{len(VENUES)} long windows at once: {at_once:.0f} MiB, where one takes {alone:.0f}",
    )
