"""Small multiples in one axes: a lane for each series, all at one scale and over one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.plot import style
from derivdata.plot.style import GREY, LONG, SHORT
from derivdata.support.arrays import Array, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ABOVE = "#b35806"
BELOW = "#542788"
_BELOW_ON_DARK = "#a98bd8"
"""Colours above and below the base: those of the heat maps, orange where longs pay and purple otherwise."""
_GAP = 0.18
"""Space between two lanes as a fraction of their height."""
_FAR = 1.5
"""Times the range of 98 % of the values up to which lanes hold all of them."""


def lane_height(count: int) -> float:
    """Return the height [inches] of a figure with so many lanes."""
    return 1.3 + max(0.52 * count, 2.0)


def draw_lanes(
    ax: Axes,
    lines: pd.DataFrame,
    names: Sequence[str],
    limits: tuple[float, float],
    *,
    base: float,
    marks: dict[float, str],
    usual: pd.Series | None = None,
    signed: bool = True,
) -> int:
    """Draw a lane for each column, the first at the top, and return how many values lie outside `limits`.

    Each lane is filled from `base` to its line, in the colours of rates if `signed`, else in those of longs
    and shorts. `marks` are the values that are labelled at the right of a lane; `usual` is a series that is
    drawn in every lane for comparison. An arrowhead at the edge of a lane marks a value outside the limits.
    """
    low, high = limits
    step = (high - low) * (1.0 + _GAP)
    count = lines.shape[1]
    bottoms = step * np.arange(count)[::-1]
    x = lines.index
    values = lines.to_numpy(dtype=np.float64)
    shown = np.clip(values, low, high)
    outside = 0
    for lane, bottom in enumerate(bottoms):
        line = bottom + shown[:, lane] - low
        zero = bottom + base - low
        above = ABOVE if signed else LONG
        below = _BELOW_ON_DARK if style.is_dark() else BELOW
        below = below if signed else SHORT
        for color, where in ((above, shown[:, lane] >= base), (below, shown[:, lane] <= base)):
            if where.any():
                area: dict[str, Any] = {"color": color, "alpha": 0.4, "lw": 0, "interpolate": True}
                ax.fill_between(x, line, zero, where=where, **area)
        outside += _mark_outside(ax, x, values[:, lane], (bottom, bottom + high - low), limits)
    ax.hlines(bottoms + base - low, 0.0, 1.0, transform=ax.get_yaxis_transform(), color=GREY, lw=0.7)
    if usual is not None:
        level = np.clip(usual.to_numpy(dtype=np.float64), low, high)[:, None] + (bottoms - low)[None, :]
        ax.plot(x, level, color=GREY, lw=0.9, ls=":", label="_usual")
    ax.plot(x, shown + (bottoms - low)[None, :], color=style.ink(), lw=1.0, label="_lanes")
    ax.set_ylim(-0.5 * _GAP * step, step * count)
    ax.set_yticks(bottoms + (high - low) / 2.0, names)
    ax.tick_params(axis="y", length=0)
    for value, words in marks.items():
        for bottom in bottoms:
            place: dict[str, Any] = {
                "transform": ax.get_yaxis_transform(),
                "va": "center",
                "fontsize": 8,
                "color": GREY,
            }
            ax.text(1.008, bottom + value - low, words, **place)
    return outside


def _mark_outside(
    ax: Axes, x: Array, values: Floats, edges: tuple[float, float], limits: tuple[float, float]
) -> int:
    """Put an arrowhead at the edge of a lane for each run of values outside it, and write the furthest value.

    Return how many values lie outside.
    """
    total = 0
    for beyond, edge, marker, furthest in (
        (values > limits[1], edges[1], "^", np.nanargmax),
        (values < limits[0], edges[0], "v", np.nanargmin),
    ):
        if not beyond.any():
            continue
        first = beyond & ~np.r_[False, beyond[:-1]]  # one mark for a run
        ax.plot(x[first], np.full(int(first.sum()), edge), marker, color=style.ink(), ms=4, label="_clipped")
        place = int(furthest(values))
        is_late = place > 0.8 * len(values)
        look: dict[str, Any] = {"fontsize": 8, "textcoords": "offset points", "va": "center"}
        look |= {"xytext": (-5 if is_late else 5, 0), "ha": "right" if is_late else "left"}
        ax.annotate(f"{values[place]:+.3g}", (x[place], edge), **look)
        total += int(beyond.sum())
    return total


def lane_limits(values: Floats, *, least: float, base: float) -> tuple[float, float]:
    """Return limits of every lane: of all values, or of 98 % of them where the rest lie far out."""
    known = values[np.isfinite(values)]
    low, high = (float(end) for end in np.percentile(known, [1.0, 99.0]))
    low = min(low, base)
    high = max(high, base)
    all_low = min(float(np.min(known)), base)
    all_high = max(float(np.max(known)), base)
    if all_high - all_low <= _FAR * max(high - low, least):
        low = all_low
        high = all_high
    margin = max(0.08 * (high - low), least / 10.0)
    return low - margin, high + margin


def lane_marks(limits: tuple[float, float], base: float) -> dict[float, str]:
    """Return the values to label in a lane: the base and a round number near the end that is further away."""
    low, high = limits
    end = high if high - base >= base - low else low
    size = abs(end - base)
    power = 10.0 ** np.floor(np.log10(size))
    nice = max(step * power for step in (1.0, 2.0, 3.0, 5.0) if step * power <= 0.98 * size)
    value = base + np.copysign(nice, end - base)
    return {base: style.number(base), value: f"{value:+.3g}"}
