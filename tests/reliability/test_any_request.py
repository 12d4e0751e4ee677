"""Requests that are made up from the service's own OpenAPI document, and those that want all there is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.reliability.alone import KEY, PATIENCE, Served, run, served
from tests.reliability.conftest import Measured
from tests.reliability.promises import SOAK, count
from tests.support.threads import together

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
