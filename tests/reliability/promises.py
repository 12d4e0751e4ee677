"""The promises of docs/reliability.md: how large each load is, and what the last run of it found."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["PAGE", "PROMISES", "SOAK", "count", "written"]

SOAK = os.environ.get("DERIVDATA_SOAK", "") not in ("", "0")
"""Whether the full loads run; else the bounded ones of the gate."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"

PROMISES = (
    "faults at 30 %",
    "faults at 70 %",
    "each fault",
    "every fetcher",
    "damaged cache record",
    "damaged bundle",
    "killed: cache",
    "killed: bundle",
    "killed: archive",
    "many writers",
    "stopped process",
    "interrupts",
    "rate limit",
    "one URL",
    "the key",
    "hostile bodies",
    "arguments",
    "service: any request",
    "service: crowd",
    "service: oversized",
    "service: paths",
    "service: slow clients",
    "archive: disk and files",
    "replay",
)
"""Names of the rows of the page's table, in its order."""


def count(gate: int, soak: int) -> int:
    """How many: `gate` in the gate, `soak` in ``make soak``."""
    return soak if SOAK else gate


def written(page: str, figures: dict[str, list[str]]) -> str:
    """The page with the last column of each promise's row set to its figures."""
    lines = page.splitlines()
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0] in figures:
            cells[-1] = "; ".join(figures[cells[0]])
            lines[number] = f"| {' | '.join(cells)} |"
    return "\n".join(lines) + "\n"
