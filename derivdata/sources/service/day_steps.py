"""Days at one resolution: what single days would be at, and the one that all of them are given at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import pandas as pd

from derivdata.sources.service import buckets
from derivdata.sources.service.buckets import length

__all__ = ["DayAtStep", "Step", "at_one_step", "step_of"]

T = TypeVar("T")


class Step(NamedTuple):
    """Resolution of some days.

    Attributes
    ----------
    finest
        The finest that their rows state, or the requested one where that is coarser.
    used
        The one that they are given at.
    left_out
        Resolutions of rows that have no place in it: of sums those that are longer.
    """

    finest: str
    used: str
    left_out: tuple[str, ...]


class DayAtStep(NamedTuple, Generic[T]):
    """What was made of one day, and how many rows that is."""

    content: T
    rows: int
    step: Step


def step_of(
    frame: pd.DataFrame, requested: str, used: str | None, start: pd.Timestamp, *, added: bool
) -> Step:
    """Return the resolution of days from `start` on, by the rows around them; `used` overrules these."""
    finest = max(requested, min(buckets.steps(frame), key=length, default=requested), key=length)
    step = used or finest
    long: list[str] = []
    if added and buckets.longer(frame, step):
        long = buckets.longer(frame[buckets.ends(frame) > start], step)
    return Step(finest, step, tuple(long))


def at_one_step(
    requested: str, make: Callable[[str | None], Sequence[DayAtStep[T]]]
) -> tuple[list[T], str, list[str]]:
    """Make days at the finest of the resolutions that single days would be at.

    `make` takes the one that they are given at, or None for that of each day. Returned are the days that have
    rows, the resolution, and notices about what is left out.
    """
    days = make(None)
    steps = {day.step.finest for day in days if day.rows or day.step.left_out}
    finest = min(steps, key=length, default=requested)
    if any(day.step.finest != finest for day in days):
        days = make(finest)
    names = dict.fromkeys(name for day in days for name in day.step.left_out)
    notices = [f"rows by {name} are left out: they are longer than buckets of {finest}" for name in names]
    return [day.content for day in days if day.rows], finest, notices
