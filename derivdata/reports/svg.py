"""Figures as SVG that takes the page's colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

__all__ = ["draw_svg"]

_IMAGE_DPI = 170
"""Dots an inch of embedded images."""

_RULES: dict[Any, Any] = {
    "svg.hashsalt": "derivdata",
    "svg.fonttype": "none",
    "timezone": "UTC",
    "text.parse_math": False,  # a symbol or venue may hold "$"
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # a long list is looked up, and written, for every word
    "font.size": 9,
    "axes.titley": 1.0,  # no search for room above the ticks of a top axis, which no figure has
    "figure.dpi": 72,
    "path.simplify_threshold": 0.3,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def draw_svg(draw: Callable[..., Any], title: str, *, name: str, size: tuple[float, float]) -> str:
    """Draw on new axes and return the figure as an SVG element.

    Parameters
    ----------
    draw
        Takes ``ax=``.
    title
        Accessible label, read by screen readers.
    name
        Prefix of the ids inside, which must differ from figure to figure of a page.
    size
        Width and height [inches].

    Returns
    -------
    str
        Black takes the page's text colour and white its background, so that the figure is readable in light
        and dark mode; dense parts are embedded images. The same data gives the same text, whatever style
        the user has chosen for figures.
    """
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.style.context("default"), matplotlib.rc_context(_RULES):
        figure = Figure(figsize=size)
        canvas = FigureCanvasSVG(figure)
        draw(ax=figure.subplots())
        # `savefig` would draw the figure twice to lay it out once. An SVG is laid out in points, 72 an inch.
        ConstrainedLayoutEngine().execute(figure)
        figure.dpi = _IMAGE_DPI
        out = io.StringIO()
        canvas.print_svg(out, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"(fill|stroke): ?#(000000|262626)", r"\1: currentColor", text)
    text = re.sub(r"(fill|stroke): ?#ffffff", r"\1: var(--paper)", text)
    # Coordinates to a hundredth of a point make the page smaller by a third.
    shorten = partial(re.sub, r"(\d+\.\d\d)\d+", r"\1")
    text = re.sub(r'\b(d|x|y|transform|points)="[^"]*"', lambda match: shorten(match[0]), text)
    # Ids get the figure's name in front: two figures of a page would share them.
    text = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" fill="currentColor"', 1)
