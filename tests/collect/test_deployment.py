"""The unit and the container of docs/venues.md: commands that parse, a unit for systemd."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from derivdata.cli import _parser

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "venues.md"


def _block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_commands_of_unit_and_container_are_ours() -> None:
    start = re.search(r"(?m)^ExecStart=(.*)$", _block("ini"))
    assert start is not None
    program, *options = shlex.split(start[1])
    assert program.endswith("/derivdata")
    arguments = _parser().parse_args(options)
    assert (arguments.command, arguments.keep, arguments.log) == ("collect", "400d", "json")
    file = _block("dockerfile")
    parts = {name: json.loads(words) for name, words in re.findall(r"(?m)^(ENTRYPOINT|CMD) (\[.*\])$", file)}
    program, *options = [*parts["ENTRYPOINT"], *parts["CMD"]]
    assert program == "derivdata"
    arguments = _parser().parse_args(options)
    assert arguments.command == "collect"
    assert str(arguments.to).startswith("/data/"), "the archive lies in the volume"
    assert file.startswith("FROM python:3.11"), "the oldest Python that the locks are made for"
    assert "STOPSIGNAL SIGTERM" in file
    [user] = re.findall(r"(?m)^USER (\w+)$", file)
    assert f"useradd --create-home {user}" in file
    assert f"chown {user} /data" in file


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "derivdata-collect.service"
    unit.write_text(_block("ini").replace("/usr/local/bin/derivdata", sys.executable), encoding="utf-8")
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=120
    )
    if "Failed to initialize manager" in run.stderr:
        pytest.skip("systemd-analyze cannot run here")
    assert [line for line in run.stderr.splitlines() if unit.name in line] == []
