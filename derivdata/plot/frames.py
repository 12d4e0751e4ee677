"""Shared parts of figures: kinds of data, argument checks, the data drawn, lanes, and figures by plotly.

Text and background have the colours of plotly's template, so that a dark one can be chosen.
"""

from __future__ import annotations

import functools
import html
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.plot import style
from derivdata.plot.style import GREY, LONG, SHORT, look, stated, title_lines
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Floats
from derivdata.support.text import import_extra
from derivdata.support.times import Instant

if TYPE_CHECKING:
    from matplotlib.axes import Axes


P = ParamSpec("P")
T = TypeVar("T")

Rates: TypeAlias = pd.DataFrame | xr.DataArray
"""A table, or the panel of one of its columns."""

Chain: TypeAlias = pd.DataFrame | xr.Dataset
"""Options as a table or a surface, or a fit to them."""

Expiries: TypeAlias = Instant | Sequence[Instant] | pd.DatetimeIndex
"""One listed expiry or several: an instant, or the day."""

Source: TypeAlias = pd.DataFrame | xr.DataArray | xr.Dataset | str
"""Whatever may carry a provenance, or words for the data, its licence and window."""

Size: TypeAlias = tuple[float, float]
"""Width and height of a new figure [inches]."""

Engine: TypeAlias = Literal["matplotlib", "plotly"]
"""The library that draws."""

_FRAME = "_derivdata_frame"
"""Attribute of what a figure returns: the data that it draws."""


def figure_function(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function of a figure with its arguments checked.

    ``ax`` is an Axes or None. ``figsize`` makes a new figure of that size [inches], as in xarray.
    """
    checked = typed(function)

    @functools.wraps(checked)
    def draw(*args: P.args, **kwargs: P.kwargs) -> T:
        from matplotlib import rc_context
        from matplotlib.axes import Axes

        ax = kwargs.get("ax")
        if not isinstance(ax, Axes | None):
            kind = type(ax).__name__
            raise TypeError(f"ax must be the Axes of a matplotlib figure or None, not {kind}")
        if ax is not None and _is_plotly(kwargs.get("engine")):
            raise ValueError("ax is of matplotlib; engine='plotly' makes a figure of its own: leave ax out")
        if (figsize := kwargs.get("figsize")) is not None:
            kwargs["ax"] = _sized(ax, figsize, kwargs.get("engine"))
        # A symbol or a venue may hold "$", which matplotlib would read as mathematics.
        with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
            warnings.filterwarnings("ignore", "Attempting to set identical low and high", UserWarning)
            return checked(*args, **kwargs)

    return draw


def _is_plotly(engine: Any) -> bool:
    return isinstance(engine, str) and engine == "plotly"


def _sized(ax: Axes | None, figsize: Any, engine: Any) -> Axes:
    """Return the axes of a new figure of a size [inches]."""
    import matplotlib.pyplot as plt

    if ax is not None:
        raise ValueError("figsize is the size of a new figure: pass ax or figsize, not both")
    if _is_plotly(engine):
        raise ValueError("figsize is of matplotlib; use figure.update_layout(width=, height=) of plotly")
    is_pair = isinstance(figsize, tuple | list) and len(figsize) == 2
    if not is_pair or not all(isinstance(side, int | float) and 0 < side <= 100 for side in figsize):
        raise ValueError(f"figsize must be width and height [inches], (8, 4.5), got {figsize!r}")
    _, new = plt.subplots(figsize=tuple(figsize), layout="constrained")
    return new


def only_for(kind: str, owners: tuple[str, ...], **options: Any) -> None:
    """Refuse options that another `kind` of the figure has, by name."""
    given = [name for name, value in options.items() if value is not None]
    if given and kind not in owners:
        whose = " and ".join(map(repr, owners))
        raise ValueError(f"{given[0]} is an option of kind={whose}; kind={kind!r} has none of that name")


@typed
def data(ax: Any) -> pd.DataFrame:
    """Return the data that a figure draws, for a table, a CSV file or a figure of your own.

    Parameters
    ----------
    ax
        What a figure of `derivdata.plot` returned, by either engine.

    Returns
    -------
    DataFrame
        One row per mark, what is drawn outside the axes included; times are UTC. Units are those of the
        figure's axes or are in the names of columns.

    Raises
    ------
    ValueError
        The axes are not what a figure of `derivdata.plot` returned.

    Examples
    --------
    >>> ax = dd.plot.funding_history(dd.funding.history("BTC", "2d"))
    >>> list(dd.plot.data(ax).columns)
    ['time', 'exchange', 'rate_bps_8h']
    """
    frame = getattr(ax, _FRAME, None)
    if not isinstance(frame, pd.DataFrame):
        raise ValueError("ax is not what a figure of derivdata.plot returned")
    return frame.copy()


def finish(
    ax: Axes,
    table: pd.DataFrame | dict[str, Any],
    *drawn: Any,
    source: Any = None,
    lowest: Axes | None = None,
) -> Axes:
    """Write the footer below the `lowest` axes, keep the table for `data`, and return `ax`."""
    style.footer(ax if lowest is None else lowest, *drawn, source=source)
    return keep_frame(ax, table)


def keep_frame(drawn: T, table: pd.DataFrame | dict[str, Any]) -> T:
    """Return what was drawn, with the table for `data`."""
    table = pd.DataFrame(table).reset_index(drop=True)
    for name in ("time", "expiry", "entry", "exit"):
        if name in table and table[name].dtype.kind == "M" and getattr(table[name].dt, "tz", None) is None:
            table[name] = table[name].dt.tz_localize("UTC")
    vars(drawn)[_FRAME] = table
    return drawn


def long_table(wide: pd.DataFrame, row: str, column: str, value: str) -> pd.DataFrame:
    """Return one row per cell that has a value, of a table with labels on both sides."""
    labelled = wide.set_axis(wide.columns.astype(str), axis=1).rename_axis(index=row, columns=column)
    return labelled.stack(future_stack=True).dropna().rename(value).reset_index()


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


_ACROSS = 52
"""Letters of a line that a narrow screen shows."""
_ABOVE: dict[str, Any] = {"font_size": 15, "subtitle_font": {"size": 11, "color": GREY}}
_ABOVE |= {"x": 0.02, "y": 1.0, "yanchor": "top", "pad_t": 14}
_BELOW: dict[str, Any] = {"orientation": "h", "x": 0, "font_size": 11, "traceorder": "normal"}
_DASHES = {"-": "solid", "--": "dash", ":": "dot"}

AT_TIME = "%{x|%Y-%m-%d %H:%M} UTC"
"""Of a hover text: the instant of a mark."""


class Strip(NamedTuple):
    """Traces that share a y axis, its label, its part of the height, and what else is set of the axis."""

    traces: list[Any]
    label: str
    height: float = 1.0
    axis: Mapping[str, Any] = {}


def plotly_figure(
    strips: Sequence[Strip],
    title: str,
    table: pd.DataFrame,
    *data: Any,
    source: Any,
    height: float = 4.9,
    legend: str = "",
    label: str = "time [UTC]",
    **x: Any,
) -> Any:
    """Return a figure of strips below one another with one x axis, dressed like those of matplotlib.

    `height` is in inches; `data` and `source` are what the line below the title names; `label` and `x` are of
    that axis.
    """
    heights = [strip.height for strip in strips]
    rows = {"rows": len(strips), "row_heights": heights, "shared_xaxes": True, "vertical_spacing": 0.06}
    made = import_extra("plotly.subplots", "plotly", "engine='plotly'").make_subplots(**rows)
    for row, strip in enumerate(strips, start=1):
        made.add_traces(strip.traces, rows=row, cols=1)
        made.update_yaxes(strip.axis, title_text=plotly_text(strip.label), title_font_size=12, row=row)
    made.update_xaxes(**x)
    made.update_xaxes(title_text=label, title_font_size=12, title_standoff=4, row=len(strips))
    lines = title_lines(title, _ACROSS)
    words, url = stated(*data, source=source)
    below = [line for each in words.split("\n") for line in textwrap.wrap(each, _ACROSS + 8)]
    origin = plotly_text("\n".join(below))
    if url:
        origin = f'<a href="{html.escape(url)}">{origin}</a>'
    made.update_layout(
        title=_ABOVE | {"text": plotly_text("\n".join(lines)), "subtitle_text": origin},
        legend=_BELOW | {"y": -1.35 / height},
        legend_title={"text": plotly_text(textwrap.fill(legend, _ACROSS)), "side": "top"},
        margin={"t": 34 + 20 * len(lines) + 15 * len(below), "l": 10, "r": 10, "b": 10},
        height=96 * height,
    )
    return keep_frame(made, table)


def plotly_text(words: str) -> str:
    """Return words that plotly shows as they are: no tags, and no formula between two "$"."""
    return html.escape(words, quote=False).replace("$", "&#36;").replace("\n", "<br>")


def plotly_line(x: Any, y: Any, name: str, hover: str, place: int = 0, **options: Any) -> Any:
    """Return a line in the colour and stroke of the n-th of several."""
    style = look(place)
    stroke = {"color": style["color"], "dash": _DASHES[style["ls"]], "width": 1.6}
    return plotly_trace("Scatter", name, hover, **{"x": x, "y": y, "mode": "lines", "line": stroke} | options)


def plotly_heat_map(cells: Any, unit: str, hover: str, **options: Any) -> Any:
    """Return cells in colours, with the scale that says their unit."""
    scale = {"title": {"text": plotly_text(unit), "side": "right"}, "thickness": 12}
    return plotly_trace("Heatmap", "", hover, z=cells, colorbar=scale, **options)


def plotly_trace(kind: str, name: str, hover: str, **options: Any) -> Any:
    """Return marks of a kind with their hover text."""
    graphs = import_extra("plotly.graph_objects", "plotly", "engine='plotly'")
    named = {"name": plotly_text(name), "hovertemplate": f"{hover}<extra>{plotly_text(name)}</extra>"}
    return getattr(graphs, kind)(**named | options)
