"""What the largest requests may cost the service: memory of four of them at once, and of a refusal."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pandas as pd
import pytest

from tests.reliability.alone import PATIENCE, Served, run
from tests.reliability.conftest import Measured
from tests.reliability.promises import SOAK
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
