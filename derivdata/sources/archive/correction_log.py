"""The log of corrections: those in force, those undone, and notices for readers of corrected rows."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from derivdata.sources.archive.manifest import Correction, Manifest
from derivdata.sources.archive.selections import EVER, Selection, TimeRange, stamp
from derivdata.support import times

__all__ = ["correction_notices", "corrections_frame", "find_undoable", "selection_of", "undone_numbers"]


def undone_numbers(corrections: Sequence[Correction]) -> set[int]:
    """Return the numbers of corrections that were undone by a later one still in force."""
    numbers: set[int] = set()
    for correction in reversed(corrections):
        if correction.undoes is not None and correction.number not in numbers:
            numbers.add(correction.undoes)
    return numbers


def corrections_frame(manifest: Manifest) -> pd.DataFrame:
    """Return the log as a frame: one row per correction, in order."""
    undone = undone_numbers(manifest.corrections)
    rows = [
        (
            c.number,
            c.table,
            c.action,
            ", ".join(f"{name}={'|'.join(values)}" for name, values in c.where.items()),
            None if c.first == EVER.start else stamp(c.first),
            None if c.end == EVER.end else stamp(c.end),
            sum(file.rows for file in c.removed),
            sum(file.rows for file in c.added),
            c.reason,
            c.number in undone,
        )
        for c in manifest.corrections
    ]
    names = ["number", "table", "action", "where", "start", "end", "removed", "added", "reason", "undone"]
    frame = pd.DataFrame(rows, columns=names)
    for column in ("start", "end"):
        frame[column] = pd.to_datetime(frame[column], utc=True).dt.as_unit("us")
    return frame.set_index("number")


def correction_notices(manifest: Manifest, table: str, read: Selection) -> list[str]:
    """Return one notice for each correction in force that overlaps the rows that were read."""
    undone = undone_numbers(manifest.corrections)
    notices = []
    for c in manifest.corrections:
        if c.table != table or c.number in undone or c.undoes is not None:
            continue
        if read.overlaps(selection_of(c)):
            went, came = sum(f.rows for f in c.removed), sum(f.rows for f in c.added)
            rows = [f"{name}={'|'.join(values)}" for name, values in c.where.items()]
            rows += [] if c.first == EVER.start else [f"from {times.iso(stamp(c.first))}"]
            rows += [] if c.end == EVER.end else [f"before {times.iso(stamp(c.end))}"]
            done = f"{went} rows replaced by {came}" if c.action == "replace" else f"{went} rows deleted"
            why = f": {c.reason}" if c.reason else ""
            notices.append(f"correction {c.number}: {done} ({', '.join(rows)}){why}")
    return notices


def selection_of(correction: Correction) -> Selection:
    """Return the rows that a correction was about."""
    where = {name: frozenset(values) for name, values in correction.where.items()}
    return Selection(where, TimeRange(correction.first, correction.end))


def find_undoable(manifest: Manifest, number: int) -> Correction:
    """Return a correction that can be undone.

    Raises
    ------
    ValueError
        There is no such correction, it was undone already, or a later one touches the same rows.
    """
    undone = undone_numbers(manifest.corrections)
    target = next((c for c in manifest.corrections if c.number == number), None)
    if target is None:
        raise ValueError(f"number={number}: there is no such correction; see archive.corrections()")
    if number in undone:
        raise ValueError(f"number={number}: this correction was undone already")
    own = selection_of(target)
    for later in manifest.corrections:
        counts = later.number > number and later.table == target.table and later.number not in undone
        takes_back = later.undoes is not None and later.undoes > number
        if counts and not takes_back and own.overlaps(selection_of(later)):
            raise ValueError(
                f"number={number}: correction {later.number} came later and touches the same rows: "
                f"undo {later.number} first"
            )
    return target
