"""Columns of a file whose numbers no table of an import stores, so that its summary can name them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from derivdata.sources.archive.importing.cells import Rejections, numbers
from derivdata.sources.archive.importing.conversion import names_of_numbers
from derivdata.sources.archive.importing.plan import ImportPlan
from derivdata.sources.archive.importing.readers import Chunk

_OF_TIMES = re.compile(r"(time(stamp)?|date|(?<![a-z])ts)(?![a-z])|^(index|unnamed.*|\d+)$", re.IGNORECASE)
"""Names of columns of times, and those of row numbers."""


def unread_columns(head: Chunk, plans: Iterable[ImportPlan]) -> tuple[str, ...]:
    """Return the columns with numbers other than 0 that no plan uses, in the order of the file."""
    used: set[str] = set()
    for plan in plans:
        used.update(plan.sources.values())
        names = [*plan.table.columns, *plan.extra, *names_of_numbers(plan)]
        used.update(filter(None, (plan.source_of(name, head.columns) for name in names)))
    lower = {name.lower() for name in used}
    return tuple(
        name
        for name in head.columns
        if name.lower() not in lower and not _OF_TIMES.search(name) and _has_numbers(head, name)
    )


def _has_numbers(head: Chunk, name: str) -> bool:
    """Return whether all cells of a column are numbers, and some of them not 0."""
    rejections = Rejections(len(head))
    values = numbers(head.columns[name], name, rejections, suffix="%")
    finite = values[np.isfinite(values)]
    return not rejections.bad.any() and bool((finite != 0).any())
