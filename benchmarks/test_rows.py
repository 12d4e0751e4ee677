"""Every row, its sides timed in turns."""

from __future__ import annotations

from typing import Any

from benchmarks import alternation
from benchmarks.row import OURS, Row


def test_row(row: Row, make: Any, figures: list[Any]) -> None:
    made = make(row)
    seconds = alternation.medians(row, made)
    found = {"checks": [list(check) for check in made.checks()], "facts": made.facts()}
    for side in row.sides:
        told = _told(row, side) | {"part": made.parts.get(side, 1.0)} | (found if side == OURS else {})
        figures.append({"group": row.name, "extra_info": told, "stats": {"median": seconds[side]}})


def _told(row: Row, side: str) -> dict[str, Any]:
    """Text of the row in the table, for readers of the figures."""
    goal = row.goals.get(side)
    return {
        "side": side,
        "what": row.what,
        "input": row.given,
        "clock": row.clock,
        "goal": None if goal is None else list(goal),
    }
