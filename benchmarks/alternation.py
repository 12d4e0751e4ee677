"""Time the sides of a row in turns, so that a machine that is busy for a while is so for all of them."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable

from benchmarks.row import Made, Row

__all__ = ["medians"]

_ENOUGH_SECONDS = 0.02
_SIDE_SECONDS = 0.5
_MIN_ROUNDS = 5
_MAX_ROUNDS = 100


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_CLOCKS: dict[str, Callable[[], float]] = {
    "cpu": time.process_time,
    "wall": time.perf_counter,
    "children": _children,
}


def medians(row: Row, made: Made) -> dict[str, float]:
    """Return the median seconds of each side, one run of each a round.

    If the row does not set the number of rounds, a side that takes less than 20 ms runs several times per
    round. There are at least five rounds, or as many as fit into half a second per side.
    """
    clock = _CLOCKS[row.clock]
    loops = dict.fromkeys(row.sides, 1)
    rounds = row.rounds or _MIN_ROUNDS
    if row.rounds is None:
        first = {side: _taken(clock, made.sides[side], 1) for side in row.sides}
        first = {side: min(once, _taken(clock, made.sides[side], 1)) for side, once in first.items()}
        loops = {side: max(1, round(_ENOUGH_SECONDS / max(once, 1e-6))) for side, once in first.items()}
        longest = max(first[side] * loops[side] for side in row.sides)
        rounds = min(_MAX_ROUNDS, max(_MIN_ROUNDS, round(_SIDE_SECONDS / longest)))
    taken: dict[str, list[float]] = {side: [] for side in row.sides}
    for place in range(rounds * len(row.sides)):
        # One side after another; if a side has its own setup, all of its rounds run first.
        side = row.sides[place % len(row.sides) if made.in_turns else place // rounds]
        taken[side].append(_taken(clock, made.sides[side], loops[side]) / loops[side])
    return {side: statistics.median(seconds) for side, seconds in taken.items()}


def _taken(clock: Callable[[], float], run: Callable[[], object], loops: int) -> float:
    began = clock()
    for _ in range(loops):
        run()
    return clock() - began
