"""The data that a figure draws, as plain numbers: independent of fonts, renderer and machine.

``python -m tests.plot.drawn_data`` writes what every figure draws now to ``tests/baseline/drawn_data.json``;
look at the figures before it is committed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.path import Path as Path2D

from derivdata import plot
from tests.plot import made
from tests.plot.cases import CASES

BASELINE = Path(__file__).parents[1] / "baseline" / "drawn_data.json"

FIGURES: dict[str, Any] = CASES | {
    "depth_over_time": lambda: plot.orderbook_depth(made.depths()),
    "quotes_without_a_fit": lambda: plot.smile(made.chain()),
}

_POINTS = 40


def drawn(figure: Figure) -> list[dict[str, Any]]:
    """Contents of each axes of a figure."""
    return [_axes(ax) for ax in all_axes(figure)]


def all_axes(figure: Figure) -> list[Axes]:
    """The axes of a figure, those within others too."""
    found, todo = [], list(figure.axes)
    while todo:
        ax = todo.pop(0)
        found.append(ax)
        todo += [child for child in ax.child_axes if isinstance(child, Axes)]  # no second scales
    return found


def _axes(ax: Axes) -> dict[str, Any]:
    legend = ax.get_legend()
    texts = [*ax.texts, *(legend.get_texts() if legend is not None else [])]
    return {
        "words": [ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel(), *(t.get_text() for t in texts)],
        "ticks": [t.get_text() for t in (*ax.get_xticklabels(), *ax.get_yticklabels()) if t.get_text()],
        "lines": [_numbers(*line.get_data(orig=False), to_rgba(line.get_color())) for line in ax.lines],
        "patches": [
            _numbers(
                patch.get_path().transformed(patch.get_patch_transform()).vertices, patch.get_facecolor()
            )
            for patch in ax.patches
        ],
        "collections": [_collection(one) for one in ax.collections],
    }


def _collection(one: Collection) -> list[float | None]:
    paths = one.get_paths()
    if isinstance(one, ContourSet):  # how many vertices a contour has depends on the last bit of its values
        return _numbers(one.levels, [_measures(path) for path in paths], one.get_edgecolor())
    vertices = np.concatenate([path.vertices for path in paths]) if paths else []
    array = one.get_array()
    colours = one.get_edgecolor() if len(one.get_facecolor()) == 0 else one.get_facecolor()
    return _numbers(vertices, one.get_offsets(), [] if array is None else array, colours)


def _measures(path: Path2D) -> list[float]:
    """Return the length of a contour, in units of the width and height that it spans, and where it ends."""
    polygons = [polygon for polygon in path.to_polygons(closed_only=False) if len(polygon) > 1]
    if not polygons:
        return [0.0] * 5
    ends = np.array([np.min(np.concatenate(polygons), axis=0), np.max(np.concatenate(polygons), axis=0)])
    span = np.where(ends[1] > ends[0], ends[1] - ends[0], 1.0)
    length = sum(float(np.hypot(*(np.diff(polygon, axis=0) / span).T).sum()) for polygon in polygons)
    return [length, *ends.ravel()]


def _numbers(*parts: Any) -> list[float | None]:
    """Up to 40 numbers of each part, evenly spread, and its sum; NaN as null."""
    numbers: list[float] = []
    for part in parts:
        flat = np.ma.filled(np.ma.asarray(part, dtype=np.float64), np.nan).ravel()
        places = np.unique(np.linspace(0, max(flat.size - 1, 0), min(_POINTS, flat.size)).astype(int))
        numbers += [flat.size, float(np.nansum(flat)), *flat[places]]
    return [None if np.isnan(number) else float(f"{number:.7g}") for number in numbers]


if __name__ == "__main__":
    matplotlib.use("Agg")
    found = {}
    for name, draw in FIGURES.items():
        found[name] = drawn(draw().get_figure(root=True))
        plt.close("all")
    BASELINE.write_text(json.dumps(found, indent=1) + "\n")
