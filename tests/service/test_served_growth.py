"""A client of the library and a served archive that grows, or that another source takes the place of."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import derivdata as dd
from derivdata.sources import archive
from tests.service.conftest import PATIENCE
from tests.service.test_server import COMMAND, hours


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def history(url: str, key: str) -> list[str]:
    """Times of the open interest of BTC that the library's own client shows now."""
    dd.connect(url, api_key=key)
    return dd.oi.history("BTC", "2026-06-01", "2026-06-03")["time"].dt.strftime("%d %H").tolist()


def served(folder: str, port: int) -> subprocess.Popen[str]:
    command = [*COMMAND, folder, "--port", str(port), "--key", "team=k", "--now", "2026-06-10T00:00Z"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "http://" in process.stdout.readline()
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)


def test_rows_that_a_served_archive_gained_are_seen_and_the_sample_at_its_address_is_not_mixed_up(
    tmp_path: Path, free_port: int
) -> None:
    """Half of a day is asked for, then all of it; then the sample answers at the same address.

    The client asks every two seconds which source and version it talks to, so each change takes a while.
    """
    folder, url = str(tmp_path / "desk"), f"http://127.0.0.1:{free_port}"
    mine = archive.open_archive(folder)
    mine.append("oi_history", hours("2026-06-01T00:00", "2026-06-01T12:00"))
    mine.append("oi_history", hours("2026-06-04T00:00", "2026-06-05T00:00"))
    process = served(folder, free_port)
    try:
        assert len(history(url, "k")) == 12
        mine.append("oi_history", hours("2026-06-01T12:00", "2026-06-02T00:00"))
        until = time.monotonic() + PATIENCE
        while len(history(url, "k")) == 12:
            assert time.monotonic() < until
        assert history(url, "k") == [f"01 {hour:02d}" for hour in range(24)]
    finally:
        ended(process)
    process = served("sample", free_port)
    try:
        until = time.monotonic() + PATIENCE
        frame = dd.oi.history("BTC", "2026-06-01", "2026-06-03")
        while not dd.provenance(frame)["synthetic"]:
            assert time.monotonic() < until
            frame = dd.oi.history("BTC", "2026-06-01", "2026-06-03")
        assert len(frame) > 48
    finally:
        ended(process)
