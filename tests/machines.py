"""Run the tests as other users, on other Pythons and in other environments: `make test-machines`.

Every row runs in a fresh clone with a virtual environment of its own Python; rows of one user and one Python
share them. The results are printed and written into the table of CONTRIBUTING.md. A row that cannot run here
says why.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- machines: begin -->", "<!-- machines: end -->"
PYTHONS = ("3.11", "3.12", "3.13")
KERNELS = ("Haswell", "Zen", "Nehalem", "Sandybridge")
SUMMARY = re.compile(r"(?:(\d+) failed, )?(\d+) passed")


@dataclass(frozen=True)
class Row:
    """One way to run the tests: who, on which Python, and what is unusual about the environment."""

    name: str
    python: str = "3.11"
    subset: bool = True
    user: str = ""
    umask: int = -1
    busy: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


ROWS = [
    Row("whole suite, Python 3.11", subset=False),
    Row("whole suite, user `nobody` without HOME", subset=False, user="nobody"),
    Row("whole suite, Python 3.12", "3.12", subset=False),
    Row("whole suite, Python 3.13", "3.13", subset=False),
    Row("`umask 077`", umask=0o077),
    Row("`TZ=Asia/Kolkata`", environment={"TZ": "Asia/Kolkata"}),
    Row(
        "`LC_ALL=C PYTHONUTF8=0`",
        environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    Row("`HTTPS_PROXY` set", environment={"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": ""}),
    Row("one core with two busy loops", busy=True),
    Row(
        "numpy without its kernels for newer processors",
        environment={"NPY_DISABLE_CPU_FEATURES": "X86_V3 AVX2"},
    ),
    *(Row(f"`OPENBLAS_CORETYPE={kernel}`", environment={"OPENBLAS_CORETYPE": kernel}) for kernel in KERNELS),
]


def interpreter(version: str, *, shared: bool = False) -> str | None:
    """Return a Python of this version that runs; `shared`: one that every user may run."""
    name = f"python{version}"
    homes = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/{name}"))
    for path in (shutil.which(name), f"/usr/bin/{name}", f"/usr/local/bin/{name}", *map(str, homes)):
        if path is None or not Path(path).exists():
            continue
        if shared and Path(path).resolve().is_relative_to(Path.home()):
            continue
        if subprocess.run([path, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0:
            return path
    return None


def clone(folder: Path) -> Path:
    """Clone the committed state, with the recorded data beside it where this checkout has it."""
    folder.chmod(0o755)
    tree = folder / "derivdata"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tree)], check=True)
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
    return tree


@contextmanager
def busy_core(enabled: bool) -> Iterator[list[str]]:
    """Keep one core busy with two endless loops; yield the command that pins a process to that core."""
    core = str(min(os.sched_getaffinity(0))) if enabled else ""
    pin = ["taskset", "-c", core] if enabled else []
    loops = [subprocess.Popen([*pin, sys.executable, "-c", "while True: pass"]) for _ in range(2 * enabled)]
    try:
        yield pin
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def prepare(row: Row, folder: Path) -> str:
    """Make the clone and the environment of a row's user and Python; return why that cannot be done."""
    python = interpreter(row.python, shared=bool(row.user))
    if python is None:
        return f"no Python {row.python} {'for every user ' if row.user else ''}here"
    if row.user and os.getuid() != 0:
        return "only root can become another user"
    if not folder.exists():
        folder.mkdir()
        tree = clone(folder)
        made = subprocess.run(["make", "-s", ".venv/.dev", f"PYTHON={python}"], cwd=tree, check=False)
        if made.returncode:
            return f"the development tools cannot be installed on Python {row.python}"
    return ""


def run(row: Row, clones: Path) -> tuple[str, float]:
    """Run one row in its clone; return its result in words, and its minutes."""
    folder = clones / f"{row.python}{row.user}"
    if reason := prepare(row, folder):
        return f"not run: {reason}", 0.0
    tree = folder / "derivdata"
    with busy_core(row.busy) as pin:
        command = [str(tree / ".venv/bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-m", "environment"] if row.subset else []
        command += [] if row.busy else ["-n", "2", "--dist", "loadfile"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS")} | row.environment
        if row.user:
            subprocess.run(["chown", "-R", row.user, str(tree)], check=True)
            group = pwd.getpwnam(row.user).pw_gid
            command = ["setpriv", f"--reuid={row.user}", f"--regid={group}", "--clear-groups", *command]
            folder.chmod(0o777)
            environment = {"PATH": os.defpath, "TMPDIR": str(folder)}
        began = time.monotonic()
        done = subprocess.run(
            [*pin, *command], cwd=tree, env=environment, umask=row.umask, capture_output=True, text=True
        )
        minutes = (time.monotonic() - began) / 60
    match = SUMMARY.search(done.stdout)
    if done.returncode == 0 and match:
        return f"{match[2]} passed", minutes
    print(done.stdout[-6000:], done.stderr[-2000:], sep="\n")
    return f"FAILED: {match[1] if match else 'no'} failures, exit code {done.returncode}", minutes


def write(results: Mapping[str, tuple[str, float]]) -> None:
    """Replace the table of CONTRIBUTING.md."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    lines = [
        f"Last run: commit {commit.stdout.strip()}.",
        "",
        "| environment | result | minutes |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {text} | {minutes:.1f} |" for name, (text, minutes) in results.items()]
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    PAGE.write_text(head + "\n".join([BEGIN, *lines, END]) + rest.split(END)[1], encoding="utf-8")


def main() -> int:
    """Run the rows whose names contain the given text, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "-k", default="", help="run only the rows whose names contain this text, and write nothing"
    )
    chosen = parser.parse_args().k
    results = {}
    with tempfile.TemporaryDirectory() as clones:
        Path(clones).chmod(0o755)
        for row in ROWS:
            if chosen in row.name:
                results[row.name] = run(row, Path(clones))
                print(f"{row.name}: {results[row.name][0]}", flush=True)
    if not chosen:
        write(results)
    return any(text.startswith("FAILED") for text, _ in results.values())


if __name__ == "__main__":
    raise SystemExit(main())
