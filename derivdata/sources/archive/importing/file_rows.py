"""Rows of one file as rows of one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.conversion import ORIGIN, RANK, Rows, rows
from derivdata.sources.archive.importing.finishing import added_up, spaced
from derivdata.sources.archive.importing.opening import Source, find_sources
from derivdata.sources.archive.importing.plan import RATE_UNITS, Given
from derivdata.sources.archive.importing.readers import Chunk, chunks
from derivdata.sources.archive.importing.recognition import Task, recognise
from derivdata.sources.archive.importing.values import Rejections
from derivdata.sources.archive.importing.waiting import joined
from derivdata.sources.archive.schemas import archive_table


def converted_rows(task: Task) -> Iterator[tuple[Chunk, Rows]]:
    """Yield the chunks of a file with their rows as the table's."""
    if task.frame is not None:
        size = len(task.frame)
        chunk = Chunk({}, size, lines_of=_record_numbers, notices=task.notices)
        yield chunk, Rows(task.frame.assign(**{ORIGIN: np.arange(size)}), Rejections(size))
        return
    for chunk in chunks(task.source, task.plan.header):
        with _naming(task.source):
            converted = rows(chunk, task.plan)
        yield chunk, converted


def rows_of_file(path: Path, table: str, writer: str, fixed: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
    """Return the rows of a venue's file with their contracts' names, and why some are left out.

    Raises `ArchiveError`: the file cannot be read, or has no layout of the writer.
    """
    columns = archive_table(table).columns
    constants = {name: word for name, word in fixed.items() if name in columns}
    frames: list[pd.DataFrame] = []
    reasons: list[str] = []
    for source in find_sources([path]):
        for task in recognise(source, table, writer, Given({}, constants)):
            for chunk, (frame, rejections) in converted_rows(task):
                if task.plan.is_spaced and len(frame):
                    per_interval = RATE_UNITS[task.plan.unit or "bps_8h"][1] is None
                    frame = spaced(frame, per_interval=per_interval)
                elif table == "funding_settlements" and len(frame):
                    frame = added_up(frame)
                frames.append(frame)
                if rejections.bad.any():
                    reasons.append(_left_out(chunk, rejections))
    whole = joined([frame for frame in frames if len(frame)] or frames[:1])
    return whole.drop(columns=[ORIGIN, RANK], errors="ignore"), reasons[0] if reasons else ""


def _left_out(chunk: Chunk, rejections: Rejections) -> str:
    """Return how many rows of a chunk were rejected, with line and reason of the first."""
    first = int(np.argmax(rejections.bad))
    (line,), _ = chunk.lines_of([first], [])
    return f", {int(rejections.bad.sum())} left out: line {line}: {rejections.reasons[first]}"


def _record_numbers(rows: Sequence[int], broken: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the numbers of records, from 1."""
    return [row + 1 for row in rows], [*broken]


@contextmanager
def _naming(source: Source) -> Iterator[None]:
    """Add the name of the file to errors."""
    try:
        yield
    except ArchiveError as problem:
        raise ArchiveError(f"{source}: {problem}") from None
