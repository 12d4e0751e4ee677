"""The service, alone in a process of its own, to be abused."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.reliability.processes import ROOT

__all__ = ["KEY", "NO_MORE_MIB", "PATIENCE", "PLAIN", "Served", "run", "served"]

KEY = "k-team-5d0c5a2f"
SERVE = [sys.executable, "-W", "error", "-m", "derivdata", "serve"]
NO_MORE_MIB = 192
"""How much the process may grow: it keeps up to 128 MiB of encoded answers."""

PATIENCE = 120.0
"""Seconds that only a hang reaches."""


class Served:
    """The service in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], said: str) -> None:
        self.process = process
        url = urlsplit(re.findall(r"http://\S+", said)[0])
        self.host, self.port = "127.0.0.1", int(url.port or 0)

    def get(self, path: str, *, key: str = KEY, seconds: float = PATIENCE) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        try:
            connection.request("GET", path, headers={"X-Api-Key": key})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def raw(self, sent: bytes, *, seconds: float = PATIENCE) -> bytes:
        """What comes back for these bytes, until the service closes or says nothing for so long."""
        came = b""
        with suppress(OSError), socket.create_connection((self.host, self.port), timeout=seconds) as line:
            line.sendall(sent)
            while part := line.recv(65536):
                came += part
        return came

    def mib(self) -> float:
        """Memory of the process now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def peak_mib(self) -> float:
        """The most memory that the process ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

    def well(self) -> float:
        """Seconds that a plain request takes."""
        began = time.monotonic()
        assert self.get("/oi/exchanges-summary")[0] == 200
        return time.monotonic() - began


def run(*arguments: str) -> subprocess.Popen[str]:
    command = [*SERVE, *arguments, "--port", "0"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


PLAIN = [
    "/funding",
    "/oi/exchanges-summary",
    "/markets/symbols",
    "/options/snapshot?symbol=BTC&exchange=deribit",
]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    process = run("sample", "--key", f"team={KEY}")
    assert process.stdout is not None
    local = Served(process, process.stdout.readline())
    assert {local.get(path)[0] for path in PLAIN} == {200}
    yield local
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, ""), "nothing is said after the start"
    assert set(errors.splitlines()) <= {"Invalid HTTP request received."}
