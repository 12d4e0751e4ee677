"""Bars that are drawn as one collection, as rectangles."""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.collections import PolyCollection


class Bar(NamedTuple):
    """A bar's left end, width, lower end and signed height; a bar below its start has a negative height."""

    x: float
    width: float
    start: float
    height: float


def bars_of(ax: Any) -> list[Bar]:
    """Return the bars of an axes in the order in which they were drawn."""
    found = []
    for drawn in ax.collections:
        if type(drawn) is PolyCollection:
            for path in drawn.get_paths():
                (x, start), (right, _), (_, end) = path.vertices[:3]
                found.append(Bar(float(x), float(right - x), float(start), float(end - start)))
    return found
