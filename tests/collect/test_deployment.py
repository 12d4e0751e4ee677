"""The unit and the container of docs/venues.md: commands that parse, a unit for systemd, steps that run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import site
import subprocess
import sys
import time
from pathlib import Path

import pytest

from derivdata.cli import _parser
from derivdata.sources.archive import open_archive
from tests.reliability.promises import SOAK

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "venues.md"
HANGS_SECONDS = 120
long = pytest.mark.skipif(
    not SOAK or sys.platform == "win32", reason="installs the library: a part of the full loads, on Unix"
)


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


class Image:
    """What the steps of a Dockerfile make of a folder: its paths stand below it, its users are not made.

    There is no network: packages are those of the Python that runs the tests. Nothing is added to the
    system: `useradd` and `chown` do nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir()
        for name in ("useradd", "chown"):
            (tools / name).write_text("#!/bin/sh\n")
            (tools / name).chmod(0o755)
        self.python = folder / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.python], check=True)
        packages = next((self.python / "lib").glob("python*/site-packages"))
        (packages / "parent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
        self.env = {
            "PATH": f"{tools}:{self.python / 'bin'}:{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_IGNORE_INSTALLED": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that it is off
            # No request leaves this machine: nothing listens there.
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
        }

    def inside(self, text: str) -> str:
        """A command with its paths below the folder."""
        return re.sub(r"(?<![\w.])/(usr|data|var)\b", rf"{self.folder}/\1", text)

    def step(self, word: str, rest: str) -> None:
        """Carry out one step."""
        if word == "COPY":
            source, target = rest.split()
            assert source == "."
            away = shutil.ignore_patterns(
                ".*", "build", "*.egg-info", "__pycache__", "cassettes", "tests", "_build"
            )
            shutil.copytree(ROOT, self.inside(target), ignore=away)
        elif word == "RUN":
            run = subprocess.run(
                ["/bin/sh", "-ec", self.inside(rest)],
                env=self.env,
                cwd=self.folder,
                capture_output=True,
                text=True,
            )
            assert run.returncode == 0, run.stdout + run.stderr
        elif word == "ENV":
            name, value = rest.split("=", 1)
            self.env[name] = self.inside(value)

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """Start a command that collects."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )


def _steps() -> list[tuple[str, str]]:
    lines = _block("dockerfile").replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for line in lines if line for word, _, rest in [line.partition(" ")]]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The steps of the page's Dockerfile, one by one."""
    made = Image(tmp_path_factory.mktemp("image"))
    for word, rest in _steps():
        made.step(word, rest)
    return made


def _ends_cleanly(
    process: subprocess.Popen[str], market: Path, number: signal.Signals, seconds: float
) -> None:
    """A running collector ends at a signal, in time, with code 0, and leaves an archive that opens."""
    began = time.monotonic()
    while not (market / "archive.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < HANGS_SECONDS
        time.sleep(0.1)
    time.sleep(1.0)  # into the first poll
    process.send_signal(number)
    said, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, said + errors
    assert "Traceback" not in errors
    open_archive(market, create=False)


@long
def test_the_container_s_steps_install_a_collector_that_starts_and_stops(image: Image) -> None:
    steps = dict(_steps())
    own = subprocess.run(
        ["python", "-c", "import derivdata; print(derivdata.__file__)"],
        env=image.env, cwd=image.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert own.stdout.startswith(str(image.python)), "the installed copy, not the tests' own"
    command = [image.inside(word) for word in json.loads(steps["ENTRYPOINT"]) + json.loads(steps["CMD"])]
    process = image.start(command)
    stop = signal.Signals[steps["STOPSIGNAL"]]
    _ends_cleanly(process, image.folder / "data" / "market", stop, 60)  # docker stop --time 60


@long
def test_the_unit_starts_a_collector_that_stops(image: Image) -> None:
    unit = dict(re.findall(r"(?m)^(\w+)=(.*)$", _block("ini")))
    image.step("ENV", unit["Environment"])
    _, *options = shlex.split(image.inside(unit["ExecStart"]))
    process = image.start([str(image.python / "bin" / "derivdata"), *options])
    stop = signal.Signals[unit["KillSignal"]]
    market = image.folder / "var" / "lib" / "derivdata" / "market"
    _ends_cleanly(process, market, stop, float(unit["TimeoutStopSec"]))
