"""The weekly run skips what passed on this commit, keeps other rows and reports failures."""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import Path

from tests.weekly import SOAK_FILES, Part, parts, read, run_command, run_parts

NAMES = ["first", "second", "third"]


def test_an_interrupted_run_continues_and_a_new_commit_runs_all(tmp_path: Path) -> None:
    page = tmp_path / "weekly.md"
    runs: list[str] = []
    results = {
        "first": "3 passed",
        "second": "failed with exit code 1: 1 failed, 2 passed",
        "third": "4 passed",
    }

    def part(name: str) -> Part:
        def run() -> str:
            runs.append(name)
            return results[name]

        return Part(name, run)

    chosen = [part("first"), part("second")]
    assert not run_parts(chosen, NAMES, "aaaa", page, again=False)
    assert runs == ["first", "second"]

    results["second"] = "3 passed"
    runs.clear()
    assert run_parts([*chosen, part("third")], NAMES, "aaaa", page, again=False)
    assert runs == ["second", "third"]

    runs.clear()
    assert run_parts([part("third")], NAMES, "bbbb", page, again=False)
    assert runs == ["third"]
    rows = read(page.read_text(encoding="utf-8"))
    assert [(row.part, row.result, row.commit) for row in rows.values()] == [
        ("first", "3 passed", "aaaa"),
        ("second", "3 passed", "aaaa"),
        ("third", "4 passed", "bbbb"),
    ]


def test_two_single_parts_run_at_once_and_others_alone_after_them(tmp_path: Path) -> None:
    """Two of three single parts wait for each other; the part for all cores starts after the last of them."""
    both = threading.Barrier(2)
    runs: list[str] = []

    def run(name: str) -> str:
        if name in ("first", "second"):
            both.wait(60)
        runs.append(name)
        return "1 passed"

    single = [Part(name, functools.partial(run, name), is_single=True) for name in NAMES]
    whole = Part("whole", functools.partial(run, "whole"))
    names = ["whole", *NAMES]
    assert run_parts([whole, *single], names, "aaaa", tmp_path / "weekly.md", again=False)
    assert sorted(runs[:3]) == NAMES
    assert runs[3:] == ["whole"]
    assert list(read((tmp_path / "weekly.md").read_text(encoding="utf-8"))) == names


def test_the_result_of_a_command_is_its_summary_or_its_failure() -> None:
    passing = [sys.executable, "-c", "print('12 passed in 3.4s')"]
    failing = [sys.executable, "-c", "print('1 failed, 11 passed in 3.4s'); raise SystemExit(1)"]
    assert run_command(passing) == "12 passed"
    assert run_command(failing) == "failed with exit code 1: 1 failed, 11 passed"


def test_every_part_has_its_own_name_and_every_soak_file_exists(tmp_path: Path) -> None:
    names = [part.name for part in parts("python", tmp_path)]
    assert len(names) == len(set(names))
    assert all((Path(__file__).parents[1] / file).exists() for file in SOAK_FILES)
