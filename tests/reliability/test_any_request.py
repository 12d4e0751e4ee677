"""Requests that are made up from the service's own OpenAPI document."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.reliability.alone import KEY, Served, served
from tests.reliability.conftest import Measured
from tests.reliability.promises import SOAK, count

__all__ = ["served"]


def schemathesis(url: str, folder: Path, *options: str) -> str:
    """What a run said that found nothing."""
    beside = str(Path(sys.executable).parent)
    command = shutil.which("schemathesis", path=beside) or shutil.which("schemathesis")
    assert command is not None, "schemathesis is not installed: pip install -e '.[dev]'"
    config = ["--config-file", str(Path(__file__).with_name("schemathesis.toml"))]
    asked = ["run", f"{url}/openapi.json", "-H", f"X-Api-Key: {KEY}", "--request-timeout", "120"]
    plain = ["--no-color", "--generation-database", "none"]
    done = subprocess.run(
        [command, *config, *asked, *plain, *options], capture_output=True, text=True, cwd=folder, timeout=900
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_no_made_up_request_finds_a_failure(served: Served, tmp_path: Path, measured: Measured) -> None:
    url, seconds, cases = f"http://{served.host}:{served.port}", str(count(4, 60)), 0
    for seed in range(1, 21):
        said = schemathesis(url, tmp_path, "--seed", str(seed), "--max-time", seconds)
        cases += sum(int(found.replace(",", "")) for found in re.findall(r"([\d,]+) generated", said))
        if cases >= count(50, 1000):
            break
    assert cases >= count(50, 1000), said[-4000:]
    recovered = served.well()
    assert not SOAK or recovered < 1.0
    peak = served.peak_mib()
    assert peak < 2048
    figure = f"{cases:,} requests: no failure, at most {peak:,.0f} MiB, well again after"
    measured("service: any request", f"{figure} {recovered * 1000:.0f} ms")
