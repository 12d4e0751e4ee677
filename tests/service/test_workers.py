"""``derivdata serve --workers``: processes on one port, replaced when they die, gone with the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import requests

from derivdata.sources.archive import open_archive
from tests.archive.rates import rates
from tests.transport.conftest import HANGS_SECONDS

psutil = pytest.importorskip("psutil")


@contextmanager
def serving(
    folder: Path, *options: str, start_new_session: bool = False
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve an archive with two workers; yield the process and its address."""
    open_archive(folder).append("funding_history", rates())
    command = [sys.executable, "-m", "derivdata", "serve", str(folder), "--port", "0", "--workers", "2"]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().rpartition(" ")[2].strip()
    finally:
        process.kill()
        process.communicate()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANGS_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Return the workers' process ids; multiprocessing also has a process that tracks its resources."""
    results = []
    for child in psutil.Process(process.pid).children():
        with suppress(psutil.NoSuchProcess):  # it has just ended, or ended and waits for its parent
            results += [child.pid] if "spawn_main" in " ".join(child.cmdline()) else []
    return sorted(results)


def hears_interrupts(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return not int(blocked, 16) >> (signal.SIGINT - 1) & 1


def answer(url: str) -> int:
    return requests.get(f"{url}/funding", headers={"X-Api-Key": "secret"}, timeout=HANGS_SECONDS).status_code


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system cannot stop a process")
@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL"])
def test_workers_share_keys_and_a_dead_worker_is_replaced(tmp_path: Path, end: str) -> None:
    """While one worker is stopped, only the other can take a connection; both end with their parent."""
    with serving(tmp_path / "x", "--key", "pro=secret") as (process, url):
        until(lambda: len(workers(process)) == 2)
        assert answer(url) == 200
        first, second = workers(process)
        for stopped in (first, second):
            os.kill(stopped, signal.SIGSTOP)
            assert answer(url) == 200
            os.kill(stopped, signal.SIGCONT)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(workers(process)) == 2 and first not in workers(process))
        os.kill(second, signal.SIGSTOP)
        assert answer(url) == 200
        os.kill(second, signal.SIGCONT)
        assert requests.get(f"{url}/funding", timeout=HANGS_SECONDS).status_code == 401
        remaining = [psutil.Process(pid) for pid in workers(process)]
        process.send_signal(getattr(signal, end))
        assert process.wait(HANGS_SECONDS) == (0 if end == "SIGTERM" else -signal.SIGKILL)
        assert psutil.wait_procs(remaining, timeout=HANGS_SECONDS)[1] == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the signals of processes as Linux tells them")
def test_ctrl_c_during_start_ends_all_workers_without_a_traceback(tmp_path: Path) -> None:
    """A terminal sends it to all processes; workers that are importing would print a traceback."""
    with serving(tmp_path, start_new_session=True) as (process, _):
        until(lambda: len(workers(process)) == 2)
        started = workers(process)
        assert not any(hears_interrupts(pid) for pid in started)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=HANGS_SECONDS)
        assert (process.returncode, said) == (0, "")
    until(lambda: not any(psutil.pid_exists(pid) for pid in started))
