"""Tests as other users, on other Pythons and in other environments: parts of `make weekly`.

Each row runs in a fresh clone with a virtual environment of its Python. Rows of one user and one Python share
them. If a row cannot run on this machine, the reason is printed.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
KERNELS = ("Haswell", "Zen", "Nehalem", "Sandybridge")
SUMMARY = re.compile(r"(?:(\d+) failed, )?(\d+) passed")


@dataclass(frozen=True)
class Row:
    """One way to run the tests: user, Python, and the unusual part of the environment."""

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
    """Return a working Python of this version; `shared`: one that every user may run."""
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
    """Clone the committed state, with the recorded data next to it if this checkout has it."""
    folder.chmod(0o755)
    tree = folder / "derivdata"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tree)], check=True)
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
    return tree


@contextmanager
def busy_core(enabled: bool) -> Iterator[list[str]]:
    """Load one core with two endless loops and yield the command that pins a process to it."""
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


def run(row: Row, clones: Path) -> str:
    """Run one row in its clone and return its result."""
    folder = clones / f"{row.python}{row.user}"
    if reason := prepare(row, folder):
        return f"not run: {reason}"
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
        done = subprocess.run(
            [*pin, *command], cwd=tree, env=environment, umask=row.umask, capture_output=True, text=True
        )
    match = SUMMARY.search(done.stdout)
    if done.returncode == 0 and match:
        return f"{match[2]} passed"
    print(done.stdout[-6000:], done.stderr[-2000:], sep="\n")
    failures = match[1] if match else "unknown number of"
    return f"failed with exit code {done.returncode}: {failures} failures"
