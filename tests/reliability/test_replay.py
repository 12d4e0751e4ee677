"""The report and every notebook again from their bundles, in a process that can reach nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

import derivdata as dd
from derivdata.cli import main
from tests.reliability.conftest import Measured
from tests.reliability.processes import ROOT
from tests.reliability.promises import count

NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
QUICK = ["eight_hours_four_hours_one_hour"]

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

if sys.argv[1] == "alone":
    sys.addaudithook(watch)
"""

NOTEBOOK = """
import hashlib, json, os
import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr

mpl.use("Agg")
os.chdir("notebooks")
sys.path.insert(0, ".")
import record
import derivdata as dd

def digest(value):
    '''A hash of what a name of the notebook holds, if it is data.'''
    if isinstance(value, (xr.Dataset, xr.DataArray)):
        value = value.to_dataset(name="value") if isinstance(value, xr.DataArray) else value
        text = json.dumps(value.to_dict(encoding=False), default=repr, sort_keys=True)
    elif isinstance(value, (pd.DataFrame, pd.Series)):
        text = str(pd.util.hash_pandas_object(value).tolist()) + repr(list(getattr(value, "columns", [])))
    elif isinstance(value, (int, float, str, pd.Timestamp, pd.Timedelta, np.generic, np.ndarray)):
        text = repr(value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value)
    else:
        return None
    return hashlib.sha256(text.encode()).hexdigest()

cells = record.code_cells(record.FOLDER / f"{sys.argv[2]}.ipynb")
if sys.argv[1] == "live":
    dd.connect("sample", now=record._CLOCKS.get(sys.argv[2]), cache="off")
    cells = [record._SWITCH.sub("LIVE = False", code) for code in cells]
names = {}
record.run(cells, names=names)
dd.disconnect()
found = {name: digest(value) for name, value in names.items() if not name.startswith("_") and name != "LIVE"}
print(json.dumps([{name: value for name, value in found.items() if value}, touched]))
"""

REPORT = """
import json
from derivdata.cli import main

assert main(sys.argv[2:]) == 0
print(json.dumps(touched))
"""


def alone(script: str, *arguments: str, home: Path, live: bool = False) -> str:
    """The last line that a script printed, in a process without network, key, cache or a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment = {**kept, "HOME": str(home), "MPLCONFIGDIR": mpl.get_cachedir(), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", ALONE + script, "live" if live else "alone", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("notebook", NOTEBOOKS if count(0, 1) else QUICK)
def test_a_notebook_gives_the_same_numbers_without_a_network(
    notebook: str, tmp_path: Path, measured: Measured
) -> None:
    """All that its names hold at the end, live from the sample and again from the bundle."""
    live, _ = json.loads(alone(NOTEBOOK, notebook, home=tmp_path, live=True))
    again, touched = json.loads(alone(NOTEBOOK, notebook, home=tmp_path))
    assert touched == []
    assert len(again) >= 3
    assert again == live
    measured("replay", "a notebook: same hashes, 0 connections")


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
