"""Change one operator or constant of a core module at a time and see which tests notice: `make mutants`.

A first run of the suite records which tests execute each line and their durations. Then mutants are drawn by
a seed and their source, so that a change elsewhere does not change the draw. For each mutant, the tests that
execute the changed line run against a copy of the package, tests of the same subject first, up to a time
budget. If they pass, the complete files of these tests run too, because a value cached by one test may be
checked by another. A mutant that passes all tests survives and is printed: it needs a test, or a line in
CONTRIBUTING that says why no test can detect it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import coverage

ROOT = Path(__file__).resolve().parents[1]
CORE = (
    "analysis",
    "client/relations.py",
    "client/rules.py",
    "client/transport",
    "sources/archive",
    "sources/service/data/view.py",
    "support/times.py",
    "tables",
    "units.py",
    *"funding.py liquidations.py markets.py oi.py options.py orderbook.py prices.py rwa.py volume.py".split(),
)
DATA = ROOT / ".mutants.coverage"  # not .coverage.*: a run with --cov collects and removes those
TIMES = ROOT / ".mutants.xml"
BUDGET = 60.0
"""Seconds that the tests of one mutant may take, by the recorded times; a hang ends after ten times that."""

TREES = 2
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the line, and the source of the statement before and after."""

    file: Path
    line: int
    before: str
    after: str
    source: str


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every variant of one expression that differs in a single operator or constant."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        other = copy.copy(node)
        other.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
        yield other
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        other = copy.copy(node)
        other.ops = [SWAPS[type(node.ops[0])]()]  # type: ignore[list-item]
        yield other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value * 1.5 or 1.0 if isinstance(node.value, float) else node.value + 1)


def mutants(file: Path) -> Iterator[Mutant]:
    """Yield every mutant of one file, except of annotations, strings and module-level names."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if not isinstance(node, ast.expr) or node.lineno != node.end_lineno:
                    continue
                if re.search("f['\"]", lines[node.lineno - 1]):  # positions are those of the string
                    continue
                before = lines[node.lineno - 1].encode()
                for other in changes(node):
                    new = f"({ast.unparse(ast.fix_missing_locations(other))})".encode()
                    after = before[: node.col_offset] + new + before[node.end_col_offset :]
                    source = [*lines[: node.lineno - 1], after.decode(), *lines[node.lineno :]]
                    yield Mutant(
                        file, node.lineno, before.decode().strip(), after.decode().strip(), "".join(source)
                    )


def record() -> None:
    """Run the suite once and record which tests execute each line, and how long each takes."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", f"--junitxml={TIMES}"]
    command += ["--cov", "--cov-context=test", "--cov-report=", "--ignore=tests/reliability"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"COVERAGE_FILE": str(DATA)}, check=True)


def seconds() -> dict[str, float]:
    """Return how long each test function took, all its cases together."""
    total: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(TIMES).iter("testcase"):
        path = case.attrib["classname"].replace(".", "/") + ".py"
        total[f"{path}::{case.attrib['name'].split('[')[0]}"] += float(case.attrib["time"])
    return total


def tests_of(contexts: Iterable[str]) -> set[str]:
    """Return the test functions of coverage's contexts; the complete file if a fixture executed the line."""
    tests = set()
    for context in contexts:
        name, _, phase = context.partition("|")
        tests.add(name.split("[")[0] if phase == "run" else name.split("::")[0])
    return tests


def nearest(tests: Iterable[str], mutant: Mutant, times: Mapping[str, float]) -> list[str]:
    """Return the tests in execution order within the budget, tests that share words with the module first."""
    words = set(re.findall("[a-z0-9]+", str(mutant.file.relative_to(ROOT / "derivdata").with_suffix(""))))

    def key(test: str) -> tuple[int, float, str]:
        return -len(words & set(re.findall("[a-z0-9]+", test.lower()))), length(test), test

    def length(test: str) -> float:
        if "::" in test:
            return times.get(test, 0.0)
        return sum(taken for name, taken in times.items() if name.startswith(f"{test}::"))

    chosen, left = [], BUDGET
    for test in sorted(tests, key=key):
        if not chosen or length(test) <= left:
            chosen.append(test)
            left -= length(test)
    return chosen


def notices(tests: list[str], tree: Path) -> bool:
    """Return whether one of the tests fails, or hangs."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = os.environ | {"PYTHONPATH": str(tree)}  # for processes that tests start elsewhere
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=10 * BUDGET,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    broken = ("while loading conftest", "found no collectors")  # a module of tests, or theirs, does not load
    if done.returncode not in (0, 1, 2) and not any(words in done.stderr for words in broken):
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode != 0


def survives(mutant: Mutant, tests: set[str], times: Mapping[str, float], tree: Path) -> bool:
    """Run the tests that execute the line against the mutant; true if all of them pass."""
    target = tree / mutant.file.relative_to(ROOT)
    original = target.read_text(encoding="utf-8")
    target.write_text(mutant.source, encoding="utf-8")
    try:
        if notices(nearest(tests, mutant, times), tree):
            return False
        return not notices(nearest({test.split("::")[0] for test in tests}, mutant, times), tree)
    finally:
        target.write_text(original, encoding="utf-8")


def copied(folder: Path, number: int) -> Path:
    """Copy the package and its tests, with the recorded data next to it where this checkout has it."""
    tree = folder / str(number) / "derivdata"
    ignored = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", ".coverage*", ".mutants*")
    shutil.copytree(ROOT, tree, ignore=ignored)
    if (ROOT.parent / "shared").exists():
        (tree.parent / "shared").symlink_to((ROOT.parent / "shared").resolve())
    return tree


def main() -> int:
    """Draw mutants, run the tests of each, and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    if not (DATA.exists() and TIMES.exists()):
        record()
    data = coverage.CoverageData(str(DATA))
    data.read()
    contexts = {
        path: {line: [*filter(None, names)] for line, names in data.contexts_by_lineno(path).items()}
        for path in data.measured_files()
    }
    times = seconds()
    if absent := [core for core in CORE if not (ROOT / "derivdata" / core).exists()]:
        raise SystemExit(f"derivdata/ has no {', '.join(absent)}: name the core modules as they are now")
    places = [ROOT / "derivdata" / core for core in CORE]
    files = sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py")))
    pool = list(
        dict.fromkeys(m for file in files for m in mutants(file) if contexts.get(str(file), {}).get(m.line))
    )
    drawn = sorted(pool, key=lambda mutant: place_in_draw(mutant, options.seed))[: options.count]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(TREES) as workers:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(TREES):
            tree = copied(Path(folder), number)
            if notices(["tests/test_fetch.py"], tree):
                raise SystemExit("a copy fails its tests before anything is changed in it")
            trees.put(tree)

        def run(mutant: Mutant) -> bool:
            tree = trees.get()
            try:
                return survives(mutant, tests_of(contexts[str(mutant.file)][mutant.line]), times, tree)
            finally:
                trees.put(tree)

        survivors = 0
        for number, (mutant, alive) in enumerate(zip(drawn, workers.map(run, drawn), strict=True), 1):
            survivors += alive
            result, place = "SURVIVED" if alive else "killed", mutant.file.relative_to(ROOT)
            print(
                f"{number:3} {result} {place}:{mutant.line}  {mutant.before}  ->  {mutant.after}", flush=True
            )
    print(
        f"{options.count - survivors} of {options.count} killed (seed {options.seed}, {len(pool)} possible)"
    )
    return survivors > options.count // 10


def place_in_draw(mutant: Mutant, seed: int) -> bytes:
    """Return a random number that depends only on the seed and the mutant's change."""
    file = mutant.file.relative_to(ROOT).as_posix()
    return hashlib.sha256(f"{seed} {file} {mutant.before} {mutant.after}".encode()).digest()


if __name__ == "__main__":
    raise SystemExit(main())
