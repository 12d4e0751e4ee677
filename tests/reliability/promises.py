"""The promises of docs/methods/reliability.md: how large each load is, and what the last run of it found."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["PAGE", "PROMISES", "SOAK", "count", "machine", "rows", "written"]

SOAK = os.environ.get("DERIVDATA_SOAK", "") not in ("", "0")
"""Whether the full loads run; else the bounded ones of the gate."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods" / "reliability.md"

_COLUMNS = 5

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
"""Names of the rows of the page's table, in its order."""


def count(gate: int, soak: int) -> int:
    """How many: `gate` in the gate, `soak` in ``make soak``."""
    return soak if SOAK else gate


def rows(page: str) -> dict[str, list[str]]:
    """The cells of each row of the page's table of promises, by the promise's name."""
    cells = [_cells(line) for line in page.splitlines() if line.startswith("|")]
    return {row[0]: row for row in cells if len(row) == _COLUMNS and row[0] in PROMISES}


def written(page: str, figures: Mapping[str, Sequence[str]], where: str) -> str:
    """The page with the last column of each promise's row set to its figures, and `where` they were found."""
    lines = page.splitlines()
    for number, line in enumerate(lines):
        cells = _cells(line)
        if line.startswith("|") and len(cells) == _COLUMNS and cells[0] in figures:
            lines[number] = f"| {' | '.join([*cells[:-1], _told(figures[cells[0]])])} |"
    return re.sub(r"(?m)^Last run: .*$", f"Last run: {where}.", "\n".join(lines)) + "\n"


def machine() -> str:
    """What a soak ran on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    return f"Python {platform.python_version()}, {system}, {cores} cores"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _told(figures: Sequence[str]) -> str:
    """Figures in their order; those that are the same are stated once, with their number."""
    counts = Counter(figures)
    return "; ".join(figure if n == 1 else f"{n} × {figure}" for figure, n in counts.items())
