"""Locks: all that pyproject.toml requires, at allowed versions, by hash, from any index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}")


def asked(name: str) -> list[Requirement]:
    """Requirements of an input file."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return [Requirement(line) for line in text.splitlines() if not line.startswith("#")]


def pins(text: str) -> list[Requirement]:
    """Contents of a lock: one version of each package, by hash; anything except comments is an error."""
    results = []
    entries = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    for entry in filter(str.strip, re.split(r"(?<!\\)\n", entries)):
        head, *hashes = entry.split(" \\\n")
        assert re.match(r"[A-Za-z0-9]", head), f"no package: {head}"
        assert hashes, head
        assert all(HASH.fullmatch(item) for item in hashes), f"no hash: {entry}"
        results.append(Requirement(head))
        assert re.fullmatch(r"==[^,*]+", str(results[-1].specifier)), f"not one version: {head}"
    return results


def on(machine: dict[str, str], lock: list[Requirement]) -> dict[str, str]:
    """Package to version on a machine."""
    there = [pin for pin in lock if pin.marker is None or pin.marker.evaluate(machine)]
    chosen = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in there}
    assert len(chosen) == len(there), "a package is there twice"
    return chosen


def grouped(group: str) -> list[Requirement]:
    """Requirements of a dependency group, with included groups written out."""
    results: list[Requirement] = []
    for entry in PROJECT["dependency-groups"][group]:
        results += grouped(entry["include-group"]) if isinstance(entry, dict) else [Requirement(entry)]
    return results


def unmet(wanted: list[Requirement], locked: dict[str, str]) -> list[str]:
    """Requirements that are not locked, or at a wrong version."""
    results = {str(r): locked.get(canonicalize_name(r.name)) for r in wanted}
    return [f"{r} has {v}" for r, v in results.items() if v is None or v not in Requirement(r).specifier]


MACHINES = (
    {"sys_platform": "linux", "platform_machine": "x86_64"},
    {"sys_platform": "darwin", "platform_machine": "arm64", "platform_system": "Darwin"},
    {"sys_platform": "win32", "platform_machine": "AMD64", "platform_system": "Windows"},
)


def machines() -> list[dict[str, str]]:
    """This one, and three others with each Python."""
    return [{}] + [
        machine | {"python_version": full.rpartition(".")[0], "python_full_version": full}
        for machine in MACHINES
        for full in ("3.11.4", "3.11.9", "3.12.5", "3.13.1")
    ]


BUILD = PROJECT["build-system"]["requires"]
BASE = [Requirement(text) for text in [*PROJECT["project"]["dependencies"], *BUILD]] + asked("build.in")
GROUPS = ("dev", "docs", "bench")
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
OPTIONAL = [
    Requirement(text) for name, texts in EXTRAS.items() if name not in ("all", "serve") for text in texts
]
"""Tests, pages and benchmarks see the local service as it is without the extra that makes it faster."""

WANTED = {"base": BASE, "tools": asked("tools.in"), "uv": asked("uv.in")} | {
    g: BASE + OPTIONAL + grouped(g) for g in GROUPS
}


@pytest.mark.parametrize("name", WANTED)
def test_all_requirements_are_locked_on_every_platform(name: str) -> None:
    """By version and hash, without an index address."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    for machine in machines():
        assert unmet(WANTED[name], on(machine, pins(text))) == [], machine
    assert not re.search(r"https?:|file:|index|find-links|@|/(tmp|home|root|opt|usr)/", text)


def test_locks_agree_with_each_other() -> None:
    assert {lock.stem for lock in (ROOT / "requirements").glob("*.txt")} == set(WANTED)
    locks = {name: pins((ROOT / "requirements" / f"{name}.txt").read_text()) for name in ("base", *GROUPS)}
    for machine in machines():
        dev = on(machine, locks["dev"])
        assert on(machine, locks["base"]).items() <= dev.items()
        for group in GROUPS:
            other = on(machine, locks[group])
            assert {n: other[n] for n in other.keys() & dev} == {n: dev[n] for n in other.keys() & dev}


def test_every_environment_installs_from_locks_with_the_locked_uv() -> None:
    """The pip that venv brings installs uv from its own lock, and nothing else; other rules come after."""
    rules = (ROOT / "Makefile").read_text().replace("\\\n", " ").split("\n\n")
    installing = {rule.partition(":")[0] for rule in rules if "$(LOCKED) requirements/" in rule}
    assert installing == {
        f"$(VENV)/.{name}" for name in ("base", "dev", "docs", "bench", "installed", "tools")
    }
    assert all("$(UV)" in rule.partition("\n")[0] for rule in rules if rule.partition(":")[0] in installing)
    lines = [line for rule in rules for line in rule.splitlines()]
    [first] = [line for line in lines if "-m pip" in line]
    assert first.split("--requirement")[1].split() == ["requirements/uv.txt"]
    installs = [line for line in lines if "pip install" in line]
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs), installs
