"""The guarantees of docs/methods/reliability.md: the size of each load, and the figures of its last run."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["PAGE", "PROMISES", "SOAK", "count", "machine", "rows", "written"]

SOAK = os.environ.get("DERIVDATA_SOAK", "") not in ("", "0")
"""Whether the full loads run; else the bounded ones of the gate."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods" / "reliability.csv"

PROMISES = (
    "faults at 30 %",
    "faults at 70 %",
    "every fetcher",
    "lying server",
    "damaged cache record",
    "damaged bundle",
    "killed: cache",
    "killed: archive",
    "many writers",
    "forked processes",
    "interrupts",
    "the key",
    "hostile bodies",
    "arguments",
    "service: any request",
    "service: one request",
    "service: crowd",
    "service: oversized",
    "service: paths",
    "service: slow clients",
    "archive: disk and files",
    "killed: collector",
    "hostile venues",
)
"""Names of the rows of the page's table, in order."""


def count(gate: int, soak: int) -> int:
    """How many: `gate` in the gate, `soak` in ``make soak``."""
    return soak if SOAK else gate


def rows(table: str) -> dict[str, list[str]]:
    """The cells of each row of the page's table, by the name of the guarantee."""
    _, *lines = csv.reader(io.StringIO(table))
    return {line[0]: line for line in lines}


def written(table: str, figures: Mapping[str, Sequence[str]], where: str) -> str:
    """The table with new figures in the last column, and the machine in its header."""
    head, *lines = csv.reader(io.StringIO(table))
    for line in lines:
        if line[0] in figures:
            line[-1] = _counted(figures[line[0]])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([[*head[:-1], f"last soak ({where})"], *lines])
    return file.getvalue()


def machine() -> str:
    """Machine of a soak."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    return f"Python {platform.python_version()}, {system}, {cores} cores"


def _counted(figures: Sequence[str]) -> str:
    """Return the results in order; equal ones once, with their count."""
    counts = Counter(figures)
    return "; ".join(figure if n == 1 else f"{n} × {figure}" for figure, n in counts.items())
