"""Figures by plotly: the numbers and words that matplotlib's figures draw, with hover texts and zoom.

Text and background have the colours of plotly's template, so that a dark one can be chosen.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from derivdata.plot.frames import keep_frame
from derivdata.plot.style import GREY, look, stated, title_lines
from derivdata.support.text import import_extra

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


def figure(
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
        made.update_yaxes(strip.axis, title_text=text(strip.label), title_font_size=12, row=row)
    made.update_xaxes(**x)
    made.update_xaxes(title_text=label, title_font_size=12, title_standoff=4, row=len(strips))
    lines = title_lines(title, _ACROSS)
    words, url = stated(*data, source=source)
    below = [line for each in words.split("\n") for line in textwrap.wrap(each, _ACROSS + 8)]
    origin = text("\n".join(below))
    if url:
        origin = f'<a href="{html.escape(url)}">{origin}</a>'
    made.update_layout(
        title=_ABOVE | {"text": text("\n".join(lines)), "subtitle_text": origin},
        legend=_BELOW | {"y": -1.35 / height},
        legend_title={"text": text(textwrap.fill(legend, _ACROSS)), "side": "top"},
        margin={"t": 34 + 20 * len(lines) + 15 * len(below), "l": 10, "r": 10, "b": 10},
        height=96 * height,
    )
    return keep_frame(made, table)


def text(words: str) -> str:
    """Return words that plotly shows as they are: no tags, and no formula between two "$"."""
    return html.escape(words, quote=False).replace("$", "&#36;").replace("\n", "<br>")


def line(x: Any, y: Any, name: str, hover: str, place: int = 0, **options: Any) -> Any:
    """Return a line in the colour and stroke of the n-th of several."""
    style = look(place)
    stroke = {"color": style["color"], "dash": _DASHES[style["ls"]], "width": 1.6}
    return trace("Scatter", name, hover, **{"x": x, "y": y, "mode": "lines", "line": stroke} | options)


def heat_map(cells: Any, unit: str, hover: str, **options: Any) -> Any:
    """Return cells in colours, with the scale that says their unit."""
    scale = {"title": {"text": text(unit), "side": "right"}, "thickness": 12}
    return trace("Heatmap", "", hover, z=cells, colorbar=scale, **options)


def trace(kind: str, name: str, hover: str, **options: Any) -> Any:
    """Return marks of a kind with their hover text."""
    graphs = import_extra("plotly.graph_objects", "plotly", "engine='plotly'")
    named = {"name": text(name), "hovertemplate": f"{hover}<extra>{text(name)}</extra>"}
    return getattr(graphs, kind)(**named | options)
