"""What is locked: all that pyproject.toml asks for, at versions that it allows, by hash, from any index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}")


def lines(name: str) -> list[str]:
    """Requirements of an input file."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


BUILD = [*PROJECT["build-system"]["requires"], *lines("build.in")]
TOOLS = [Requirement(text) for text in lines("tools.in")]
PIP = [Requirement(text) for text in lines("pip.in")]


class Pin(NamedTuple):
    """One version of one package, for the machines that its marker names."""

    requirement: Requirement
    hashes: tuple[str, ...]


def pins(text: str) -> list[Pin]:
    """What a lock holds; anything else in it than pins, hashes and comments is an error."""
    found = []
    entries = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    for entry in re.split(r"(?<!\\)\n", entries):
        if entry.strip():
            head, *hashes = entry.split(" \\\n")
            assert re.match(r"[A-Za-z0-9]", head), f"no package: {head}"
            assert all(HASH.fullmatch(each) for each in hashes), f"no hash: {entry}"
            found.append(Pin(Requirement(head), tuple(hashes)))
    return found


def on(machine: dict[str, str], lock: list[Pin]) -> dict[str, str]:
    """Package to version on a machine."""
    chosen: dict[str, str] = {}
    for requirement, _ in lock:
        if requirement.marker is None or requirement.marker.evaluate(machine):
            name = canonicalize_name(requirement.name)
            assert name not in chosen, f"{name} is there twice"
            assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), f"not one version: {requirement}"
            chosen[name] = str(requirement.specifier).removeprefix("==")
    return chosen


def asked(extra: str) -> list[Requirement]:
    """What an extra of pyproject.toml asks for, those that it names written out."""
    own = re.compile(rf"{PROJECT['project']['name']}\[(.+)\]")
    found: list[Requirement] = []
    for text in PROJECT["project"]["optional-dependencies"][extra]:
        if match := own.fullmatch(text):
            found += [each for inner in match.group(1).split(",") for each in asked(inner)]
        else:
            found.append(Requirement(text))
    return found


def unmet(wanted: list[Requirement], locked: dict[str, str]) -> list[str]:
    """What is wanted and is not locked, or at a version that will not do."""
    found = {str(r): locked.get(canonicalize_name(r.name)) for r in wanted}
    return [f"{r} has {v}" for r, v in found.items() if v is None or v not in Requirement(r).specifier]


MACHINES = {
    "this": {},
    "linux": {"sys_platform": "linux", "platform_machine": "x86_64"},
    "mac": {"sys_platform": "darwin", "platform_machine": "arm64", "platform_system": "Darwin"},
    "windows": {"sys_platform": "win32", "platform_machine": "AMD64", "platform_system": "Windows"},
}
PYTHONS = ("3.11.4", "3.11.9", "3.12.5", "3.13.1")


def machines() -> list[dict[str, str]]:
    return [
        machine | {"python_version": full.rpartition(".")[0], "python_full_version": full}
        for machine in MACHINES.values()
        for full in PYTHONS
    ] + [{}]


BASE = [Requirement(text) for text in [*PROJECT["project"]["dependencies"], *BUILD]]
EXTRAS = ("dev", "docs", "bench")
WANTED = {"base": BASE, "tools": TOOLS, "pip": PIP} | {extra: BASE + asked(extra) for extra in EXTRAS}


@pytest.mark.parametrize("name", WANTED)
def test_all_that_is_asked_for_is_locked_on_every_machine(name: str) -> None:
    lock = pins((ROOT / "requirements" / f"{name}.txt").read_text())
    for machine in machines():
        assert unmet(WANTED[name], on(machine, lock)) == [], machine


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_holds_versions_and_hashes_and_no_place_to_fetch_them_from(lock: Path) -> None:
    text = lock.read_text()
    assert all(pin.hashes for pin in pins(text))
    assert not re.search(r"https?:|file:|index|find-links|@|/(tmp|home|root|opt|usr)/", text)


def test_every_lock_is_held_to_what_it_is_for() -> None:
    assert {lock.stem for lock in LOCKS} == set(WANTED)


def test_locks_agree_so_that_one_environment_takes_them_all() -> None:
    locks = {name: pins((ROOT / "requirements" / f"{name}.txt").read_text()) for name in ("base", *EXTRAS)}
    for machine in machines():
        dev = on(machine, locks["dev"])
        assert on(machine, locks["base"]).items() <= dev.items()
        for extra in EXTRAS:
            other = on(machine, locks[extra])
            assert {n: other[n] for n in other.keys() & dev} == {n: dev[n] for n in other.keys() & dev}


def test_the_makefile_installs_from_locks_or_without_dependencies() -> None:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert installs
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs), installs


def test_every_environment_installs_with_the_locked_pip() -> None:
    """Each rule that installs from a lock comes after one that has installed pip from its own lock."""
    rules = (ROOT / "Makefile").read_text().split("\n\n")
    for rule in rules:
        uses = [line for line in rule.splitlines() if "$(LOCKED) requirements/" in line]
        own_first = bool(uses) and "requirements/pip.txt" in uses[0]
        assert not uses or own_first or "$(VENV)/.pip" in rule.splitlines()[0], rule


PIN = "a==1 ; python_version < '4' \\\n    --hash=sha256:" + 64 * "0"


@pytest.mark.parametrize(
    "text",
    [
        "--index-url x\n" + PIN,
        "a @ https://example.org/a.whl",
        PIN.replace("sha256:0", "md5:0"),
        PIN + " \\\n    --hash=sha256:0",
    ],
)
def test_what_is_no_pin_is_refused(text: str) -> None:
    assert pins(PIN)[0].hashes
    assert pins("a==1")[0].hashes == ()
    with pytest.raises(AssertionError, match=r"no package|no hash|not one version"):
        on({}, pins(text))


def test_what_is_not_locked_or_too_old_is_named() -> None:
    assert unmet([Requirement("a>=1"), Requirement("a>=2"), Requirement("b")], on({}, pins(PIN))) == [
        "a>=2 has 1",
        "b has None",
    ]
