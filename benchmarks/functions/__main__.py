"""Run every question and report the slow ones."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
os.environ.update(dict.fromkeys(_THREADS, "1"))  # before numpy is imported, as in the benchmarks

import derivdata as dd  # noqa: E402
from benchmarks.functions import (  # noqa: E402
    FILE,
    LIMIT_SECONDS,
    LINE,
    QUESTIONS,
    ROWS_OF,
    UNTIMED,
)

_LONG_ENOUGH = 0.3


def main(parts: list[str]) -> int:
    """Time the questions whose names start with one of the parts, or all, and write the results."""
    lines = {each["name"]: (each["question"], each["ms"]) for each in LINE.finditer(_written())}
    failed = False
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["DERIVDATA_CACHE_DIR"] = folder
        dd.connect("sample")
        for name in sorted(QUESTIONS):
            if parts and not any(name.startswith(part) for part in parts):
                continue
            try:
                taken = seconds(name)
            except Exception as problem:  # the others are requested all the same
                print(f"          failed  {name}: {problem!r}", flush=True)
                failed = True
                continue
            lines[name] = QUESTIONS[name].words, f"{taken * 1e3:.2f}"
            print(f"{taken * 1e3:9.2f} ms  {name}{'  OVER' if taken > LIMIT_SECONDS else ''}", flush=True)
            FILE.write_text(page(lines))
        dd.disconnect()
    return int(failed)


def _written() -> str:
    return FILE.read_text() if FILE.exists() else ""


def seconds(name: str) -> float:
    """Return the processor time of one question: the minimum of a few runs after one that makes its input."""
    ask = QUESTIONS[name].ask
    ask()
    least, spent = float("inf"), 0.0
    for _ in range(5):
        began = time.process_time()
        ask()
        taken = time.process_time() - began
        least, spent = min(least, taken), spent + taken
        if spent > _LONG_ENOUGH:
            break
    return least


def page(lines: dict[str, tuple[str, str]]) -> str:
    """The table of all public functions: times of questions, rows, and reasons."""
    rows = [
        f"| `{name}` | {words} | {ms} |" for name, (words, ms) in sorted(lines.items()) if name in QUESTIONS
    ]
    timed = [f"| `{name}` | row `{row}` |" for name, row in sorted(ROWS_OF.items()) if name not in QUESTIONS]
    reasons = [f"| `{name}` | {why} |" for name, why in sorted(UNTIMED.items())]
    limit = f"{LIMIT_SECONDS * 1e3:.0f} ms"
    return "\n".join(
        [
            "# How long every public function takes\n",
            "Written by `python -m benchmarks.functions`, which asks each question up to five times: the",
            f"least processor time, one thread. What takes over {limit} has a row in RESULTS.md.\n",
            "| function | question | ms |\n|---|---|---|",
            *rows,
            "\nTimed by a row only, or not at all:\n",
            "| function | |\n|---|---|",
            *timed,
            *reasons,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
