"""Shared functions of figures: types of data, argument checks, drawn data, lanes, and plotly figures.

Text and background of plotly figures have the colours of plotly's template, so that dark ones work.
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
from derivdata.plot.style import GREY, PALETTE, SHORT, look, stated, title_lines
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Floats
from derivdata.support.text import import_extra
from derivdata.support.times import TimeLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


P = ParamSpec("P")
T = TypeVar("T")

Rates: TypeAlias = pd.DataFrame | xr.DataArray
"""A table, or the panel of one of its columns."""

Chain: TypeAlias = pd.DataFrame | xr.Dataset
"""Options as a table or a surface, or a fit to them."""

Expiries: TypeAlias = TimeLike | Sequence[TimeLike] | pd.DatetimeIndex
"""One or several listed expiries, as times or days."""

Source: TypeAlias = pd.DataFrame | xr.DataArray | xr.Dataset | str
"""Data with a provenance, or a text with the data, its licence and window."""

Size: TypeAlias = tuple[float, float]
"""Width and height of a new figure [inches]."""

Engine: TypeAlias = Literal["matplotlib", "plotly"]
"""The library that draws."""

_FRAME = "_derivdata_frame"
"""Attribute of the returned axes or figure that has the drawn data."""


def figure_function(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a figure function: check its arguments and apply ``figsize``.

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
            raise TypeError(f"ax must be the Axes of a matplotlib figure or None, got {kind}")
        if ax is not None and _is_plotly(kwargs.get("engine")):
            raise ValueError("ax is only for matplotlib; engine='plotly' makes a new figure: omit ax")
        figsize = kwargs.get("figsize")
        if figsize is not None:
            kwargs["ax"] = _sized(ax, figsize, kwargs.get("engine"))
        # A symbol or a venue may contain "$", which matplotlib would parse as mathematics.
        with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
            warnings.filterwarnings("ignore", "Attempting to set identical low and high", UserWarning)
            return checked(*args, **kwargs)

    return draw


def _is_plotly(engine: Any) -> bool:
    return isinstance(engine, str) and engine == "plotly"


def _sized(ax: Axes | None, figsize: Any, engine: Any) -> Axes:
    """Return the axes of a new figure with this size [inches]."""
    import matplotlib.pyplot as plt

    if ax is not None:
        raise ValueError("figsize is the size of a new figure: pass ax or figsize, not both")
    if _is_plotly(engine):
        raise ValueError(
            "figsize is only for matplotlib; for plotly use figure.update_layout(width=, height=)"
        )
    is_pair = isinstance(figsize, tuple | list) and len(figsize) == 2
    if not is_pair or not all(isinstance(side, int | float) and 0 < side <= 100 for side in figsize):
        raise ValueError(f"figsize must be (width, height) in inches, such as (8, 4.5), got {figsize!r}")
    _, new = plt.subplots(figsize=tuple(figsize), layout="constrained")
    return new


def only_for(kind: str, owners: tuple[str, ...], **options: Any) -> None:
    """Raise for options that only another `kind` of the figure has."""
    passed = [name for name, value in options.items() if value is not None]
    if passed and kind not in owners:
        kinds = " and ".join(map(repr, owners))
        raise ValueError(f"{passed[0]} is an option of kind={kinds}, got kind={kind!r}; omit {passed[0]}")


@typed
def data(ax: Any) -> pd.DataFrame:
    """Return the data of a figure, for a table, a CSV file or another figure.

    Parameters
    ----------
    ax
        Axes or figure returned by a function of `derivdata.plot`, with either engine.

    Returns
    -------
    DataFrame
        One row per mark, including marks outside the axes' limits; times are UTC. Units are as on the
        figure's axes or in the names of columns.

    Raises
    ------
    ValueError
        `ax` was not returned by a function of `derivdata.plot`.

    Examples
    --------
    >>> ax = dd.plot.funding_history(dd.funding.history("BTC", "2d"))
    >>> list(dd.plot.data(ax).columns)
    ['time', 'exchange', 'rate_bps_8h']
    """
    frame = getattr(ax, _FRAME, None)
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(
            f"ax must be returned by a function of derivdata.plot, got {type(ax).__name__} without its data"
        )
    return frame.copy()


def finish(
    ax: Axes,
    table: pd.DataFrame | dict[str, Any],
    *drawn: Any,
    source: Any = None,
    lowest: Axes | None = None,
) -> Axes:
    """Write the footer below the `lowest` axes, store the table for `data`, and return `ax`."""
    style.footer(ax if lowest is None else lowest, *drawn, source=source)
    return keep_frame(ax, table)


def keep_frame(drawn: T, table: pd.DataFrame | dict[str, Any]) -> T:
    """Store the table for `data` in the axes or figure, and return it."""
    table = pd.DataFrame(table).reset_index(drop=True)
    for name in ("time", "expiry", "entry", "exit"):
        if name in table and table[name].dtype.kind == "M" and getattr(table[name].dt, "tz", None) is None:
            table[name] = table[name].dt.tz_localize("UTC")
    vars(drawn)[_FRAME] = table
    return drawn


def long_table(wide: pd.DataFrame, row: str, column: str, value: str) -> pd.DataFrame:
    """Return a table with labels on both axes in long form: one row per cell with a value."""
    labelled = wide.set_axis(wide.columns.astype(str), axis=1).rename_axis(index=row, columns=column)
    return labelled.stack(future_stack=True).dropna().rename(value).reset_index()


_LANE_OF_THREE = 34.0
"""Height of a lane with space for three values of its scale [points]."""
_LABEL_DISTANCE = 0.2
"""Distance of two labels of values outside a lane, as a fraction of its length."""
_MARK_DISTANCE = 0.12
"""Minimum distance between arrowheads whose labels do not overlap, in the same unit."""
_LABEL_SHIFT = 7.0
"""Distance of such a label from the edge of its lane, so that it does not cover the line [points]."""
ABOVE = "#b35806"
BELOW = "#542788"
_BELOW_ON_DARK = "#a98bd8"
"""Colours above and below the base, as in the heat maps: orange where longs pay, else purple."""
_GAP = 0.18
_GAP_WITH_MARKS = 0.34
"""Space between two lanes as a fraction of their height, and where values outside are written into it."""
_LINE = 8.5
"""Minimum distance of two values of a scale [points]."""
_LABEL_SPACE = 14.0
"""Height of a label between two lanes [points]."""
_LANES_PART = 0.85
"""Approximate part of the height that is left below the title."""
_FAR = 1.5
"""Lanes show all values if their range is at most this multiple of the range of 98 % of them."""


def lane_height(count: int) -> float:
    """Return the height of a figure with `count` lanes [inches]."""
    return 1.3 + max(0.68 * count, 2.0)


def draw_lanes(
    ax: Axes,
    lines: pd.DataFrame,
    names: Sequence[str],
    limits: Sequence[tuple[float, float]],
    *,
    base: float,
    marks: dict[float, str],
    signed: bool = True,
    with_peaks: bool = False,
) -> int:
    """Draw a lane for each column, the first at the top; return the number of values outside `limits`.

    All lanes have one scale; `limits` has the lowest and highest value of each. A lane is filled from `base`
    to its line, in the colours of rates if `signed`, else in light blue and the colour of shorts. `marks` are
    the values labelled at the right of every lane. An arrowhead at the edge of a lane marks a value outside
    its limits. `with_peaks` writes the value of each lane that is furthest from `base`, the names at the base
    lines, and, where there is space, a scale for each lane instead of `marks`.
    """
    low, high = np.array(limits, dtype=np.float64).T
    sizes = high - low
    x = lines.index
    values = lines.to_numpy(dtype=np.float64)
    # Titles are not yet in the height.
    height = style.height_of(ax)
    gap = _GAP * float(np.mean(sizes))
    if with_peaks:
        gap = _gap_of_labels(sizes, height)
    elif (values > high).any() or (values < low).any():
        gap = _GAP_WITH_MARKS * float(np.mean(sizes))
    steps = sizes + gap
    bottoms = np.sum(steps) - np.cumsum(steps)
    shown = np.clip(values, low, high)
    outside = 0
    for lane, bottom in enumerate(bottoms):
        line = bottom + shown[:, lane] - low[lane]
        _fill_lane(ax, x, line, bottom + base - low[lane], _lane_colours(signed=signed))
        cut = _mark_outside(ax, x, values[:, lane], (bottom, bottom + sizes[lane]), limits[lane])
        if with_peaks and not cut:
            _write_peak(ax, x, values[:, lane], line, base)
        outside += cut
    ax.hlines(bottoms + base - low, 0.0, 1.0, transform=ax.get_yaxis_transform(), color=GREY, lw=0.7)
    ax.plot(x, shown + (bottoms - low)[None, :], color=style.ink(), lw=1.0, label="_lanes")
    below_lanes = gap
    if (values < low).any():  # space for a label above the axis
        below_lanes = max(below_lanes, 2.5 * _LABEL_SHIFT / height * float(np.sum(steps)))
    ax.set_ylim(-below_lanes, np.sum(steps))
    ax.tick_params(axis="y", length=0)
    if with_peaks:
        ax.set_yticks(bottoms + base - low, names)
        min_range = _LINE * float(np.sum(steps)) / (_LANES_PART * height)
        for offset, lane_range in zip(bottoms - low, limits, strict=True):
            marks = lane_marks(lane_range, base)
            marks = marks if max(marks) - min(marks) > min_range else {}
            _write_marks(ax, marks, np.array([offset]), base)
    else:
        ax.set_yticks(bottoms + sizes / 2.0, names)
        _write_marks(ax, marks, bottoms - low, base)
    return outside


def _fill_lane(ax: Axes, x: Array, line: Floats, zero: float, colours: tuple[str, str]) -> None:
    """Fill a lane from its base at `zero` to its line, in the colours above and below it."""
    for color, where in zip(colours, (line >= zero, line <= zero), strict=True):
        if where.any():
            area: dict[str, Any] = {"color": color, "alpha": 0.5, "lw": 0, "interpolate": True}
            ax.fill_between(x, line, zero, where=where, **area)


def _gap_of_labels(sizes: Floats, height: float) -> float:
    """Return the space between lanes that fits a label, in the unit of the lanes; `height` in points."""
    lanes = _LANES_PART * height
    gap = min(_LABEL_SPACE, 0.5 * lanes / (len(sizes) + 1))
    return gap * float(np.sum(sizes)) / (lanes - gap * (len(sizes) + 1))


def _write_peak(ax: Axes, x: Array, values: Floats, line: Floats, base: float) -> None:
    """Write the value furthest from `base` next to its place on the drawn line."""
    peak = int(np.nanargmax(np.abs(values - base)))
    side: Literal["left", "center", "right"] = "center"
    if peak < 0.05 * len(values):
        side = "left"
    elif peak > 0.95 * len(values):
        side = "right"
    away = float(np.copysign(_LABEL_SHIFT, values[peak] - base))
    look: dict[str, Any] = {"fontsize": 8, "textcoords": "offset points", "va": "center", "ha": side}
    label = f"{values[peak]:+.2f}"
    if abs(values[peak]) >= 10.0:
        label = f"{values[peak]:+.1f}"
    style.lift(ax.annotate(label, (x[peak], line[peak]), (0.0, away), **look))


def _write_marks(ax: Axes, marks: dict[float, str], offsets: Floats, base: float) -> None:
    """Write values of the scale at the right of each lane; without the base if they would touch."""
    if len(marks) > 2 and style.height_of(ax) / len(offsets) < _LANE_OF_THREE:
        marks = {value: words for value, words in marks.items() if value != base}
    look: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
    for value, words in marks.items():
        for offset in offsets:
            ax.text(1.008, offset + value, words, color=style.muted(), **look)


def _lane_colours(*, signed: bool) -> tuple[str, str]:
    """Return the colours above and below the base."""
    if not signed:
        return PALETTE[5], SHORT  # LONG would be too dark on a dark page
    if style.is_dark():
        return ABOVE, _BELOW_ON_DARK
    return ABOVE, BELOW


def _mark_outside(
    ax: Axes, x: Array, values: Floats, edges: tuple[float, float], limits: tuple[float, float]
) -> int:
    """Draw an arrowhead at a lane's edge for each run of values outside it, and label the furthest value.

    The label is next to its arrowhead, in the space between two lanes. Return the number of values outside.
    """
    total = 0
    low, high = limits
    for beyond, edge, marker, furthest, away in (
        (values > high, edges[1], "^", np.nanargmax, _LABEL_SHIFT),
        (values < low, edges[0], "v", np.nanargmin, -_LABEL_SHIFT),
    ):
        if not beyond.any():
            continue
        first = beyond & ~np.r_[False, beyond[:-1]]  # one mark for a run
        ax.plot(x[first], np.full(int(first.sum()), edge), marker, color=style.ink(), ms=4, label="_clipped")
        starts = np.flatnonzero(first)
        for run in _far_runs(values, beyond, starts, furthest):
            side = "left"
            next_runs = starts[(starts > run) & (starts < run + _MARK_DISTANCE * len(values))]
            if run > 0.9 * len(values) or next_runs.size:  # Labels must not cover the next arrowhead.
                side = "right"
            look: dict[str, Any] = {"fontsize": 8, "textcoords": "offset points", "va": "center", "ha": side}
            shift = 4.0 if side == "left" else -4.0
            end = int(np.append(np.flatnonzero(~beyond[run:]), len(values) - run)[0]) + run
            label = f"{values[run + int(furthest(values[run:end]))]:+.3g}"
            style.lift(ax.annotate(label, (x[run], edge), (shift, away), **look))
        total += int(beyond.sum())
    return total


def _far_runs(values: Floats, beyond: Array, starts: Array, furthest: Callable[[Any], Any]) -> list[int]:
    """Return the starts of the runs outside a lane with a label: the furthest, and one far from it."""
    furthest_place = int(furthest(values))
    main = int(starts[starts <= furthest_place][-1])
    others = starts[np.abs(starts - main) > _LABEL_DISTANCE * len(values)]
    if not others.size:
        return [main]
    peaks = [np.nanmax(np.abs(np.where(beyond, values, np.nan)[start : start + 3])) for start in others]
    return [main, int(others[int(np.argmax(peaks))])]


def lane_limits(values: Floats, *, min_range: float, base: float) -> tuple[float, float]:
    """Return the limits of all lanes: of all values, or of 98 % of them if the rest is far outside."""
    finite = values[np.isfinite(values)]
    low = min(float(np.percentile(finite, 1.0)), base)
    high = max(float(np.percentile(finite, 99.0)), base)
    all_low = min(float(np.min(finite)), base)
    all_high = max(float(np.max(finite)), base)
    if all_high - all_low <= _FAR * max(high - low, min_range):
        low = all_low
        high = all_high
    margin = max(0.08 * (high - low), min_range / 10.0)
    return low - margin, high + margin


def lane_marks(limits: tuple[float, float], base: float) -> dict[float, str]:
    """Return the values to label in a lane: the base, and a round number near the end further from it."""
    low, high = limits
    end = max(high, low, key=lambda limit: abs(limit - base))
    size = abs(end - base)
    power = 10.0 ** np.floor(np.log10(size))
    nice = max(step * power for step in (1.0, 2.0, 3.0, 5.0) if step * power <= 1.001 * size)
    value = base + np.copysign(nice, end - base)
    marks = {base: style.number(base), value: f"{value:+.3g}"}
    # The same distance at the other side, if it is inside the lanes.
    other = 2.0 * base - value
    return marks | ({other: f"{other:+.3g}"} if low <= other <= high else {})


_ACROSS = 52
"""Maximum length of a line on a narrow screen [letters]."""
_ABOVE: dict[str, Any] = {"font_size": 15, "subtitle_font": {"size": 11, "color": GREY}}
_ABOVE |= {"x": 0.02, "y": 1.0, "yanchor": "top", "pad_t": 14}
_BELOW: dict[str, Any] = {"orientation": "h", "x": 0, "font_size": 11, "traceorder": "normal"}
_DASHES = {"-": "solid", "--": "dash", ":": "dot"}

AT_TIME = "%{x|%Y-%m-%d %H:%M} UTC"
"""Time of a mark in hover texts."""


class Strip(NamedTuple):
    """Traces that share a y axis, with its label, share of the height, and other settings."""

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
    """Return a plotly figure of strips with a common x axis, styled like the matplotlib figures.

    `height` is in inches; the line below the title states the source of `data` or `source`; `label` and `x`
    are settings of the x axis.
    """
    heights = [strip.height for strip in strips]
    rows = {"rows": len(strips), "row_heights": heights, "shared_xaxes": True, "vertical_spacing": 0.06}
    figure = import_extra("plotly.subplots", "plotly", "engine='plotly'").make_subplots(**rows)
    for row, strip in enumerate(strips, start=1):
        figure.add_traces(strip.traces, rows=row, cols=1)
        figure.update_yaxes(strip.axis, title_text=plotly_text(strip.label), title_font_size=12, row=row)
    figure.update_xaxes(**x)
    figure.update_xaxes(title_text=label, title_font_size=12, title_standoff=4, row=len(strips))
    lines = title_lines(title, _ACROSS)
    words, url = stated(*data, source=source)
    source_lines: list[str] = []
    for paragraph in words.split("\n"):
        source_lines += textwrap.wrap(paragraph, _ACROSS + 8)
    origin = plotly_text("\n".join(source_lines))
    if url:
        origin = f'<a href="{html.escape(url)}">{origin}</a>'
    figure.update_layout(
        title=_ABOVE | {"text": plotly_text("\n".join(lines)), "subtitle_text": origin},
        legend=_BELOW | {"y": -1.35 / height},
        legend_title={"text": plotly_text(textwrap.fill(legend, _ACROSS)), "side": "top"},
        margin={"t": 34 + 20 * len(lines) + 15 * len(source_lines), "l": 10, "r": 10, "b": 10},
        height=96 * height,
    )
    return keep_frame(figure, table)


def plotly_text(words: str) -> str:
    """Escape words for plotly, which would interpret tags and formulas between two "$"."""
    return html.escape(words, quote=False).replace("$", "&#36;").replace("\n", "<br>")


def plotly_line(x: Any, y: Any, name: str, hover: str, place: int = 0, **options: Any) -> Any:
    """Return a line trace in the n-th colour and stroke."""
    style = look(place)
    stroke = {"color": style["color"], "dash": _DASHES[style["ls"]], "width": 1.6}
    return plotly_trace("Scatter", name, hover, **{"x": x, "y": y, "mode": "lines", "line": stroke} | options)


def plotly_heat_map(cells: Any, unit: str, hover: str, **options: Any) -> Any:
    """Return a heat map trace, with a colour scale labelled with the unit."""
    scale = {"title": {"text": plotly_text(unit), "side": "right"}, "thickness": 12}
    return plotly_trace("Heatmap", "", hover, z=cells, colorbar=scale, **options)


def plotly_trace(kind: str, name: str, hover: str, **options: Any) -> Any:
    """Return marks of a kind with their hover text."""
    graphs = import_extra("plotly.graph_objects", "plotly", "engine='plotly'")
    named = {"name": plotly_text(name), "hovertemplate": f"{hover}<extra>{plotly_text(name)}</extra>"}
    return getattr(graphs, kind)(**named | options)
