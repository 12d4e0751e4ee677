"""Work on an archive by dask.distributed: a worker that is killed half-way changes nothing in the result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.promises import SOAK
from tests.transport.conftest import HANGS_SECONDS

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not SOAK, reason="two processes of dask: with DERIVDATA_SOAK=1")
def test_a_worker_is_killed_and_the_result_is_right(tmp_path: Path) -> None:
    """The workload of the benchmark on two processes, compared with one process to 1e-12."""
    pytest.importorskip("distributed")
    size = ["--symbols", "4", "--days", "2", "--venues", "3", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", "--tiny", *size],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        timeout=3 * HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == 4 * 3 * 2 * 1_440
    assert found["killed_workers"] == 1
    assert found["equal_in_one_process"] is True
    assert found["killed_peak_megabytes"] < 1_000
    assert list(tmp_path.iterdir()) == []
