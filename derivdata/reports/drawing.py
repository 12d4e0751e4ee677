"""Draw the panels of a report's figures as SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_IMAGE_DPI = 140
"""Dots an inch of embedded images."""

_MARGIN = 2.0
"""Space around a panel [points]."""

_RULES: dict[Any, Any] = {
    "svg.hashsalt": "derivdata",
    "svg.fonttype": "none",
    "timezone": "UTC",
    "text.parse_math": False,  # a symbol or venue may contain "$"
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # one font: matplotlib looks up and writes the list for each word
    "font.size": 9,
    "text.hinting": "none",  # browsers do not hint: letters have the same widths
    "axes.titley": 1.0,  # fixed: matplotlib need not search for space above a top axis
    "figure.dpi": 72,
    "path.simplify_threshold": 0.3,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


class Panel(NamedTuple):
    """A picture of a figure: a function that draws on ``ax=``, a label for screen readers, size [inches]."""

    draw: Callable[..., Any]
    title: str
    size: tuple[float, float]


class Drawn(NamedTuple):
    """The SVG of a panel, the source in its footer, and the address of its attribution."""

    svg: str
    source: str
    url: str


def draw_panels(panels: Sequence[Panel]) -> list[Drawn]:
    """Draw panels in order. The same data gives the same SVG text, whatever the user's matplotlib style.

    Ids begin with the number of the panel, so that they are unique in a page. Black becomes the page's text
    colour and white its background, so that panels are readable in light and dark mode. Dense artists are
    embedded as images.
    """
    import matplotlib.style

    with matplotlib.style.context("default"), matplotlib.rc_context(_RULES):
        return [_draw(panel, f"p{number}") for number, panel in enumerate(panels)]


def _draw(panel: Panel, name: str) -> Drawn:
    from matplotlib.backends.backend_mixed import MixedModeRenderer
    from matplotlib.backends.backend_svg import RendererSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=panel.size)
    ax = figure.add_subplot()
    panel.draw(ax=ax)
    source, url = _take_footer(ax)
    width, height = (float(side) for side in figure.get_size_inches())
    out = io.StringIO()
    metadata = {"Date": None, "Creator": None}
    svg = RendererSVG(72.0 * width, 72.0 * height, out, image_dpi=_IMAGE_DPI, metadata=metadata)
    # The same renderer measures the layout and writes the figure, because it caches the sizes of words.
    renderer: Any = MixedModeRenderer(figure, width, height, _IMAGE_DPI, svg)
    _fit(figure, ax, renderer)
    figure.draw(renderer)
    renderer.finalize()
    return Drawn(_shortened(out.getvalue(), panel.title, name), source, url)


def _take_footer(ax: Axes) -> tuple[str, str]:
    """Remove the footer, which the page shows below the figure; return its text and address."""
    from derivdata.plot.style import FOOTER

    for axes in (ax, *ax.child_axes):
        for text in axes.texts:
            if text.get_gid() == FOOTER:
                words = text.get_text()
                url = text.get_url() or ""
                text.remove()
                return " ".join(words.split()), url
    return "", ""


def _fit(figure: Figure, ax: Axes, renderer: Any) -> None:
    """Move the axes so that all labels are inside the figure. One pass is enough, as sizes are in points."""
    width, height = (72.0 * float(side) for side in figure.get_size_inches())
    ax.set_position((0.14, 0.16, 0.74, 0.66))
    box = ax.get_tightbbox(renderer, for_layout_only=True)
    assert box is not None
    inner = ax.get_window_extent()
    left = inner.x0 - box.x0 + _MARGIN
    bottom = inner.y0 - box.y0 + _MARGIN
    right = box.x1 - inner.x1 + _MARGIN
    top = box.y1 - inner.y1 + _MARGIN
    across = max(width - left - right, 0.2 * width)
    along = max(height - bottom - top, 0.2 * height)
    ax.set_position((left / width, bottom / height, across / width, along / height))


def _shortened(text: str, title: str, name: str) -> str:
    """Return the SVG element with the page's colours, rounded numbers, unique ids and a label."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"(fill|stroke): ?#(000000|262626)", r"\1: currentColor", text)
    for color, variable in (
        ("ffffff", "paper"),
        ("7f3c8d", "violet"),
        ("542788", "below"),
        ("b35806", "above"),
    ):
        text = re.sub(rf"(fill|stroke): ?#{color}", rf"\1: var(--{variable})", text)
    # Rounding coordinates to a hundredth of a point makes the page a third smaller.
    shorten = partial(re.sub, r"(\d+\.\d\d)\d+", r"\1")
    text = re.sub(r'\b(d|x|y|transform|points)="[^"]*"', lambda match: shorten(match[0]), text)
    # Prefix ids with the panel's name, because they must be unique in the page.
    text = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" fill="currentColor"', 1)
