"""The unit and the container of docs/service.md: systemd reads the one, and their commands are ours."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from derivdata.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[0]


UNIT_COMMAND = shlex.split(re.findall("ExecStart=(.*)", block("ini"))[0])
CONTAINER = block("dockerfile").replace("\\\n", "")
CONTAINER_COMMAND = json.loads(re.findall("^CMD (.*)", CONTAINER, re.MULTILINE)[0])


@pytest.mark.parametrize("command", [UNIT_COMMAND, CONTAINER_COMMAND], ids=["unit", "container"])
def test_documented_service_commands_parse(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").write_text(block("text"))
    given: dict[str, Any] = {}
    monkeypatch.setattr("derivdata.sources.service.serve", lambda source, **options: given.update(options))
    assert Path(command[0]).name == "derivdata"
    arguments = [str(tmp_path / "keys") if part.endswith("/keys") else part for part in command[1:]]
    assert main(arguments) == 0
    assert given["keys"] == {"dev": "a-long-random-text", "team": "another-long-random-text"}
    assert (given["port"], given["live"]) == (8080, True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_documented_service_unit(tmp_path: Path) -> None:
    unit = tmp_path / "derivdata.sources.service"
    unit.write_text(block("ini").replace("/opt/derivdata/bin/derivdata", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    about = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (about, done.returncode) == ([], 0), done.stderr


def test_the_container_installs_from_a_lock() -> None:
    installs = re.findall("pip install ([^&]*)", CONTAINER)
    assert ["--require-hashes" in line or "--no-deps" in line for line in installs] == [True, True]
    assert (ROOT / re.findall(r"/src/(requirements/\S+)", installs[0])[0]).exists()
