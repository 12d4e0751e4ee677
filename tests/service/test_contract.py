"""Schemathesis against the service's own OpenAPI document: made-up requests, right and wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.promises import SOAK
from tests.service.conftest import PATIENCE, Caller

SECONDS = 60 if SOAK else 5


@pytest.mark.slow
def test_made_up_requests_find_no_failure(ask: Caller, tmp_path: Path) -> None:
    command = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which(
        "schemathesis"
    )
    assert command is not None, "schemathesis is not installed: pip install -e '.[dev]'"
    config, url = Path(__file__).with_name("schemathesis.toml"), f"{ask.local.url}/openapi.json"
    options = (
        f"--max-time {SECONDS} --request-timeout {PATIENCE} --seed 1 --no-color --generation-database none"
    )
    run = [command, "--config-file", str(config), "run", url, "-H", "X-Api-Key: key-pro", *options.split()]
    done = subprocess.run(
        run,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=SECONDS + 10 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
