"""A row of the table: its input, its sides, and its goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["GROWTH", "OURS", "Check", "Goal", "Made", "Row", "faster", "growth", "stated", "within"]

OURS = "derivdata"


class Goal(NamedTuple):
    """The goal against a side.

    `kind` is ``faster`` (their time over ours is at least `bound`), ``within`` (ours over theirs is at most
    `bound`), ``growth`` (the exponent of time from ``1 ×`` to this size is at most `bound`) or ``stated`` (no
    target).
    """

    kind: str
    bound: float | None = None


class Check(NamedTuple):
    """A figure other than a time: its name, value and goal, and whether it is reached."""

    what: str
    value: str
    reach: str
    met: bool


GROWTH = dict.fromkeys(("1 ×", "4 ×", "16 ×"), Goal("growth", 1.1))
"""Sides and goals of a row of growth."""


def faster(bound: float) -> Goal:
    """At least `bound` times as fast as the side."""
    return Goal("faster", bound)


def within(bound: float) -> Goal:
    """At most `bound` times the time of the side."""
    return Goal("within", bound)


def stated() -> Goal:
    """Measured and printed, without a goal."""
    return Goal("stated")


@dataclass(frozen=True)
class Made:
    """A row with its input in memory.

    Attributes
    ----------
    sides
        Timed functions, by the name of the side.
    parts
        The part of the input that a side works on, where it is a sample: its time is divided by it.
    checks, facts
        Called after the timing: other figures, and remarks.
    close
        Called at the end.
    in_turns
        Whether the sides run in turns, a round of all and then the next, or all rounds of one side first.
    """

    sides: Mapping[str, Callable[[], Any]]
    parts: Mapping[str, float] = field(default_factory=dict)
    checks: Callable[[], list[Check]] = list
    facts: Callable[[], list[str]] = list
    close: Callable[[], Any] = lambda: None
    in_turns: bool = True


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    name
        Marks of the row and its group, for ``-k``.
    what, given
        The task and its input, in words.
    make
        Makes the input, with a folder for files.
    goals
        The other sides, in order, and the target against each; ours is ``derivdata``.
    clock
        ``cpu``: time of this process, all its threads; ``wall``; ``children``: time of the processes that it
        starts.
    rounds
        Number of runs of each side, one per round. None: as many as fit into half a second, at least five
        rounds of at least 20 ms.
    """

    name: str
    what: str
    given: str
    make: Callable[[Path], Made]
    goals: Mapping[str, Goal]
    clock: str = "cpu"
    rounds: int | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of all sides, ours first unless the row is of growth."""
        return tuple(self.goals) if self.grows else (OURS, *self.goals)

    @property
    def grows(self) -> bool:
        """Whether the sides are sizes of one input."""
        return self.goals is GROWTH


def growth(
    name: str,
    what: str,
    given: str,
    run: Callable[[Path, int], Callable[[], Any]],
    *,
    clock: str = "cpu",
    rounds: int | None = None,
) -> Row:
    """Time over 1, 4 and 16 times an input, which `run` makes: it grows no faster than the input."""

    def make(folder: Path) -> Made:
        return Made({side: run(folder, 4**place) for place, side in enumerate(GROWTH)})

    return Row(f"growth-{name}", what, given, make, GROWTH, clock, rounds)
