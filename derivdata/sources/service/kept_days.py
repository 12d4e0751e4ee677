"""Results that are made day by day, and kept: a window that overlaps an earlier one makes its new days.

Days that are missing are read several at a time, as many as a block of rows holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

import pandas as pd

from derivdata.sources.service import running_answer
from derivdata.sources.service.view import View
from derivdata.sources.service.window import Window

__all__ = ["DAY", "cut", "kept_days"]

T = TypeVar("T")

DAY = pd.Timedelta(1, "D")
_BLOCK_ROWS = 2_000_000
"""Rows that are read at once, about: some 200 MiB with what is made from them.

Each block reads the day before it again, whose last values may still hold."""
_MOST_DAYS = 32


def cut(window: Window, each: pd.Timedelta) -> list[Window]:
    """Cut a window into parts of whole days, at the same midnights whatever its start.

    Each keeps the length that was requested of the whole.
    """
    first = window.start.floor(each)
    count = max(-((first - window.end) // each), 0)
    starts = [first + n * each for n in range(count)]
    return [window._replace(start=max(s, window.start), end=min(s + each, window.end)) for s in starts]


def kept_days(
    view: View,
    name: Hashable,
    days: list[Window],
    read: Callable[[Window], pd.DataFrame],
    divide: Callable[[pd.DataFrame, list[Window]], Iterable[T]],
    size: Callable[[T], int],
    apart: Callable[[pd.DataFrame], bool] = lambda _: False,
) -> list[T]:
    """Return the result of every day, from memory where it is there.

    Parameters
    ----------
    name
        What is made, with all that it depends on but the days and the state of the store.
    days
        As `cut` returns them.
    read
        Returns the rows of some days that follow each other.
    divide
        Returns the result of each day from these rows.
    size
        Bytes of a result.
    apart
        Whether the days of some rows have to be made one by one.
    """
    keys = [(name, day.start, day.end) for day in days]
    identity = view.store.identity  # before the reads: what comes in between must not pass for read
    results = {key: view.recall(key, identity=identity) for key in keys}
    missing = [day for day, key in zip(days, keys, strict=True) if results[key] is None]
    for run in _runs(missing):
        for day, result, noted in _made(run, read, divide, apart):
            key = (name, day.start, day.end)
            results[key] = result
            # Now, and not after the loop: the next block may be cancelled.
            view.remember(key, result, size(result), noted, identity=identity)
    return [results[key] for key in keys]


def _runs(days: list[Window]) -> list[list[Window]]:
    """Days that follow each other, together."""
    runs: list[list[Window]] = []
    for day in days:
        if runs and runs[-1][-1].end == day.start:
            runs[-1].append(day)
        else:
            runs.append([day])
    return runs


def _made(
    days: list[Window],
    read: Callable[[Window], pd.DataFrame],
    divide: Callable[[pd.DataFrame, list[Window]], Iterable[T]],
    apart: Callable[[pd.DataFrame], bool],
) -> Iterator[tuple[Window, T, list[str]]]:
    """Make days that follow each other, as many at once as a block holds by what the ones before had.

    Each comes with the corrections of the rows that it was made of.
    """
    place, together = 0, 1
    while place < len(days):
        block = days[place : place + together]
        frame, noted = _read(read, block)
        count = len(frame)
        # Corrections may be of some of the days alone.
        if len(block) > 1 and (noted or apart(frame)):
            for day in block:
                frame, own = _read(read, [day])
                yield from ((day, result, own) for result in divide(frame, [day]))
        else:
            yield from ((d, r, noted) for d, r in zip(block, divide(frame, block), strict=True))
        place += len(block)
        fitting = int(_BLOCK_ROWS * len(block) / max(count, 1))
        together = 1 if noted else max(min(fitting, 2 * together, _MOST_DAYS), 1)


def _read(read: Callable[[Window], pd.DataFrame], days: list[Window]) -> tuple[pd.DataFrame, list[str]]:
    with running_answer.noted() as noted:
        frame = read(days[0]._replace(end=days[-1].end))
    return frame, noted
