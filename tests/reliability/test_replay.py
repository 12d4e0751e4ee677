"""The report again from its bundle, in a process that can reach nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl

import derivdata as dd
from derivdata.cli import main
from tests.reliability.conftest import Measured
from tests.reliability.processes import ROOT
from tests.reliability.promises import count

ALONE = """
import sys

import urllib3  # as it is imported it tries a socket, to see whether there is IPv6

touched = []
NETWORK = ("socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
           "socket.gethostbyname", "socket.gethostbyaddr", "socket.getservbyname")

def watch(event, _):
    if event in NETWORK:
        touched.append(event)
        raise PermissionError(f"the network was asked for: {event}")

sys.addaudithook(watch)
"""

REPORT = """
import json
from derivdata.cli import main

assert main(sys.argv[1:]) == 0
print(json.dumps(touched))
"""


def alone(script: str, *arguments: str, home: Path) -> str:
    """The last line that a script printed, in a process without network, key, cache or a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment = {**kept, "HOME": str(home), "MPLCONFIGDIR": mpl.get_cachedir(), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", ALONE + script, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_the_report_is_the_same_to_the_byte_without_a_network(tmp_path: Path, measured: Measured) -> None:
    first, again, bundle = tmp_path / "first.html", tmp_path / "again.html", tmp_path / "report.ddz"
    asked = ["report", "sample", "--symbols", "BTC", "--window", "2d", "--out", str(first)]
    some = [] if count(0, 1) else ["--sections", "funding", "liquidations"]
    assert main([*asked, "--bundle", str(bundle), *some]) == 0
    dd.disconnect()
    touched = json.loads(alone(REPORT, "report", str(bundle), "--out", str(again), home=tmp_path))
    assert touched == []
    made = re.compile(r"Made with derivdata .* from data as of")
    texts = [made.sub("", path.read_text(encoding="utf-8")) for path in (first, again)]
    assert len(texts[0]) > 100_000
    assert texts[0] == texts[1]
    measured("replay", "the report: same bytes, 0 connections")


def test_the_network_is_indeed_shut(tmp_path: Path) -> None:
    script = """
import json, socket
for call in (
    socket.socket, lambda: socket.getaddrinfo("localhost", 80), lambda: socket.gethostbyname("localhost")
):
    try:
        call()
    except PermissionError:
        pass
print(json.dumps(touched))
"""
    names = ["socket.__new__", "socket.getaddrinfo", "socket.gethostbyname"]
    assert json.loads(alone(script, home=tmp_path)) == names
