"""Every side of every row, timed."""

from __future__ import annotations

from typing import Any

from benchmarks.row import OURS, Row


def test_side(row, side, make, benchmark):
    made = make(row)
    run = made.sides[side]

    def quiet() -> None:
        run()

    if row.rounds is None:
        benchmark(quiet)
    else:
        benchmark.pedantic(quiet, rounds=row.rounds)
    benchmark.extra_info.update(_told(row, side), part=made.parts.get(side, 1.0))
    if side == OURS:
        benchmark.extra_info.update(checks=[list(check) for check in made.checks()], facts=made.facts())


def _told(row: Row, side: str) -> dict[str, Any]:
    """What the table says of the row, for whoever reads the figures."""
    goal = row.goals.get(side)
    return {
        "side": side,
        "what": row.what,
        "input": row.given,
        "clock": row.clock,
        "goal": None if goal is None else list(goal),
    }
