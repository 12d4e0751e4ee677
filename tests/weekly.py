"""Run the long checks and write their table: `make weekly`.

Each part is a command. Soaks are one process each and run two at a time, all other parts one after another.
A part that passed on the current commit is skipped, so an interrupted run continues.
The table is docs/development/weekly.md, which also stores the state.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests import machines

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "development" / "weekly.md"
HEAD = """# Weekly checks

After this page you know which long checks ran last, on which commit, and with which result.

`make weekly` runs them and writes this table. A part that passed on the current commit is skipped.

"""
COLUMNS = ("part", "result", "commit", "date", "minutes")
_LONGEST = "tests/reliability/test_arguments.py"  # first, so that it does not run alone at the end
SOAK_FILES = (
    _LONGEST,
    *sorted(
        name
        for path in (ROOT / "tests/reliability").glob("test_*.py")
        if (name := path.relative_to(ROOT).as_posix()) != _LONGEST
    ),
    "tests/collect/test_every_fetcher.py",
    "tests/collect/test_refills.py",
    "tests/test_report_drawing.py",
)
_AT_ONCE = 2
SUMMARIES = (
    re.compile(r"(?:\d+ failed, )?\d+ passed"),  # pytest
    re.compile(r"\d+ of \d+ killed"),  # mutants
)


@dataclass(frozen=True)
class Part:
    """One long check: its name in the table, and the function that runs it and returns its result."""

    name: str
    run: Callable[[], str]
    is_single: bool = False
    """Whether the part uses one core, so that another one can run at the same time."""


@dataclass(frozen=True)
class Outcome:
    """Last run of a part, as the table shows it."""

    part: str
    result: str
    commit: str
    date: str
    minutes: str

    @property
    def passed(self) -> bool:
        """Whether the run succeeded; a part that cannot run on this machine counts, its result says why."""
        return not self.result.startswith("failed")


def run_command(command: Sequence[str], *, soak: bool = False) -> str:
    """Run a command in the checkout and return its last summary, or `failed` with the exit code."""
    environment = dict(os.environ)
    if soak:
        environment["DERIVDATA_SOAK"] = "1"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    summaries = [match[0] for rule in SUMMARIES for match in rule.finditer(done.stdout)]
    summary = summaries[-1] if summaries else "no summary"
    if done.returncode == 0:
        return summary if summaries else "passed"
    print(done.stdout[-6000:], done.stderr[-2000:], sep="\n")
    return f"failed with exit code {done.returncode}: {summary}"


def parts(python: str, clones: Path) -> Iterator[Part]:
    """Yield every part; parts for other machines run in clones below the folder."""
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    long = [*pytest, "-n", "2", "--dist", "loadfile", "--hypothesis-profile=long", "-m", "slow or drawn"]
    yield Part("many drawn examples, slow tests", lambda: run_command(long))
    for file in SOAK_FILES:
        run = functools.partial(run_command, [*pytest, file], soak=True)
        yield Part(f"soak: {file}", run, is_single=True)
    for row in machines.ROWS:
        yield Part(f"machine: {row.name}", lambda row=row: machines.run(row, clones))
    for target in ("coverage", "mutants", "bench", "docs"):
        yield Part(f"make {target}", lambda target=target: run_command(["make", "-s", target]))


def read(page: str) -> dict[str, Outcome]:
    """Return the outcomes of a table by the name of their part."""
    rows = re.findall(r"^\| (.+?) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", page, flags=re.MULTILINE)
    return {row[0]: Outcome(*row) for row in rows if row != COLUMNS}


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the page of the outcomes."""
    lines = [HEAD + "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for outcome in outcomes:
        cells = (outcome.part, outcome.result, outcome.commit, outcome.date, outcome.minutes)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def run_parts(chosen: Sequence[Part], listed: Sequence[str], commit: str, page: Path, *, again: bool) -> bool:
    """Run the parts that did not pass on this commit; write the page after each; return whether all passed.

    `listed` are the names of all parts, in the order of the table. Rows of other parts keep their outcome.
    """
    outcomes = read(page.read_text(encoding="utf-8")) if page.exists() else {}
    waiting = []
    for part in chosen:
        last = outcomes.get(part.name)
        if last is not None and last.passed and last.commit == commit and not again:
            print(f"{part.name}: passed on {commit} before, skipped", flush=True)
        else:
            waiting.append(part)

    def record(outcome: Outcome) -> None:
        outcomes[outcome.part] = outcome
        print(f"{outcome.part}: {outcome.result}", flush=True)
        ordered = [outcomes[name] for name in listed if name in outcomes]
        page.write_text(table(ordered), encoding="utf-8")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        runs = [pool.submit(_timed, part, commit) for part in waiting if part.is_single]
        for run in as_completed(runs):
            record(run.result())
    for part in waiting:
        if not part.is_single:
            record(_timed(part, commit))
    return all(outcomes[part.name].passed for part in chosen)


def _timed(part: Part, commit: str) -> Outcome:
    """Run a part and return its outcome."""
    started = time.monotonic()
    result = part.run()
    minutes = (time.monotonic() - started) / 60
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Outcome(part.name, result, commit, date, f"{minutes:.1f}")


def main() -> int:
    """Run the parts whose names contain the given text, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="run only the parts whose names contain this text")
    parser.add_argument("--again", action="store_true", help="also run parts that passed on this commit")
    parser.add_argument("--python", default=".venv/bin/python", help="interpreter of the development tools")
    options = parser.parse_args()
    commit = subprocess.run(
        shlex.split("git rev-parse --short HEAD"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        every = list(parts(options.python, Path(folder)))
        chosen = [part for part in every if options.k in part.name]
        passed = run_parts(chosen, [part.name for part in every], commit, PAGE, again=options.again)
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
