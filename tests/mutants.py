"""Change one operator or constant of a core module at a time and see which tests notice: `make mutants`.

A first run of the suite records which tests execute each line. Then mutants are drawn by a seed; for
each, the tests that execute the mutated line run against a copy of the package. A mutant that no test notices
survives and is printed: it needs a test, or a line in CONTRIBUTING that says why nothing can notice it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[1]
CORE = (
    "analysis",
    "archive",
    "fetch",
    "schema",
    "tables",
    "transport",
    "service/view.py",
    "times.py",
    "units.py",
)
DATA = ROOT / ".coverage.mutants"
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
        yield ast.Constant(node.value * 1.5 if isinstance(node.value, float) else node.value + 1)


def mutants(file: Path) -> Iterator[Mutant]:
    """Yield every mutant of one file; annotations, strings and module-level names are left alone."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if (
                    not isinstance(node, ast.expr)
                    or node.lineno != node.end_lineno
                    or within_format(lines, node)
                ):
                    continue
                before = lines[node.lineno - 1].encode()
                for other in changes(node):
                    new = f"({ast.unparse(ast.fix_missing_locations(other))})".encode()
                    after = before[: node.col_offset] + new + before[node.end_col_offset :]
                    source = [*lines[: node.lineno - 1], after.decode(), *lines[node.lineno :]]
                    yield Mutant(
                        file, node.lineno, before.decode().strip(), after.decode().strip(), "".join(source)
                    )


def within_format(lines: list[str], node: ast.expr) -> bool:
    """True if the expression lies on a line with an f-string, whose positions are those of the string."""
    return 'f"' in lines[node.lineno - 1] or "f'" in lines[node.lineno - 1]


def executed() -> coverage.CoverageData:
    """Return which tests execute each line, from one run of the suite; kept for the next call."""
    if not DATA.exists():
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--no-cov-on-fail"]
        environment = ["--cov", "--cov-context=test", "--cov-report="]
        subprocess.run([*command, *environment, "--ignore=tests/reliability"], cwd=ROOT, check=True)
        shutil.move(ROOT / ".coverage", DATA)
    data = coverage.CoverageData(str(DATA))
    data.read()
    return data


def survives(mutant: Mutant, tests: list[str], tree: Path) -> bool:
    """Run the tests that execute the line against the mutant; true if all of them pass."""
    target = tree / mutant.file.relative_to(ROOT)
    original = target.read_text(encoding="utf-8")
    target.write_text(mutant.source, encoding="utf-8")
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=tree, capture_output=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        return False
    finally:
        target.write_text(original, encoding="utf-8")
    return done.returncode == 0


def main() -> int:
    """Draw mutants, run the tests of each, and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    data = executed()
    contexts = {path: data_of(data, path) for path in data.measured_files()}
    files = sorted(f for core in CORE for f in python_files(ROOT / "derivdata" / core))
    pool = [m for file in files for m in mutants(file) if contexts.get(str(file), {}).get(m.line)]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "derivdata"
        ignored = shutil.ignore_patterns(".git", ".venv", "*cache*", "__pycache__", ".coverage*")
        shutil.copytree(ROOT, tree, ignore=ignored)
        if (ROOT.parent / "shared").exists():
            (Path(folder) / "shared").symlink_to((ROOT.parent / "shared").resolve())
        for number, mutant in enumerate(random.Random(options.seed).sample(pool, options.count), 1):
            tests = sorted(
                {name.split("|")[0].split("[")[0] for name in contexts[str(mutant.file)][mutant.line]}
            )
            alive = survives(mutant, tests, tree)
            survivors += [mutant] if alive else []
            result, place = "SURVIVED" if alive else "killed", mutant.file.relative_to(ROOT)
            print(
                f"{number:3} {result} {place}:{mutant.line}  {mutant.before}  ->  {mutant.after}", flush=True
            )
    killed = options.count - len(survivors)
    print(f"{killed} of {options.count} killed (seed {options.seed}, {len(pool)} possible)")
    return len(survivors) > options.count // 10


def data_of(data: coverage.CoverageData, path: str) -> dict[int, list[str]]:
    """Return the tests that execute each line of one file."""
    return {line: [c for c in names if c] for line, names in data.contexts_by_lineno(path).items()}


def python_files(path: Path) -> list[Path]:
    """Return one file, or all of a folder."""
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


if __name__ == "__main__":
    raise SystemExit(main())
