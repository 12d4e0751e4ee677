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
    "text.parse_math": False,  # a symbol or venue may hold "$"
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # a long list is looked up, and written, for every word
    "font.size": 9,
    "text.hinting": "none",  # widths of letters are those of the browser, which does not hint
    "axes.titley": 1.0,  # no search for room above the ticks of a top axis, which no figure has
    "figure.dpi": 72,
    "path.simplify_threshold": 0.3,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


class Panel(NamedTuple):
    """One picture of a figure: what draws it on ``ax=``, its label for screen readers, its size [inches]."""

    draw: Callable[..., Any]
    title: str
    size: tuple[float, float]


class Drawn(NamedTuple):
    """The SVG of a panel, and what its footer says about the source, with the address of an attribution."""

    svg: str
    source: str
    url: str


def draw_panels(panels: Sequence[Panel]) -> list[Drawn]:
    """Draw panels in their order; the same data gives the same text, whatever style the user has chosen.

    Ids inside begin with the number of the panel, so that no two panels of a page share one. Black takes the
    page's text colour and white its background, so that panels are readable in light and dark mode. Dense
    parts are embedded images.
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
    # One renderer measures words for the layout and writes them: it remembers their sizes.
    renderer: Any = MixedModeRenderer(figure, width, height, _IMAGE_DPI, svg)
    _fit(figure, ax, renderer)
    figure.draw(renderer)
    renderer.finalize()
    return Drawn(_shortened(out.getvalue(), panel.title, name), source, url)


def _take_footer(ax: Axes) -> tuple[str, str]:
    """Remove the footer, which is below the whole figure, and return its text and address."""
    from derivdata.plot.style import FOOTER

    for text in [text for one in (ax, *ax.child_axes) for text in one.texts]:
        if text.get_gid() == FOOTER:
            words = text.get_text()
            url = text.get_url() or ""
            text.remove()
            return " ".join(words.split()), url
    return "", ""


def _fit(figure: Figure, ax: Axes, renderer: Any) -> None:
    """Move the axes so that all labels are inside the figure: one pass, since sizes are in points."""
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
    """Return the SVG element with the page's colours, short numbers, ids of its own and a label."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"(fill|stroke): ?#(000000|262626)", r"\1: currentColor", text)
    for color, variable in (
        ("ffffff", "paper"),
        ("7f3c8d", "violet"),
        ("542788", "below"),
        ("b35806", "above"),
    ):
        text = re.sub(rf"(fill|stroke): ?#{color}", rf"\1: var(--{variable})", text)
    # Coordinates to a hundredth of a point make the page smaller by a third.
    shorten = partial(re.sub, r"(\d+\.\d\d)\d+", r"\1")
    text = re.sub(r'\b(d|x|y|transform|points)="[^"]*"', lambda match: shorten(match[0]), text)
    # Ids get the panel's name in front: two panels of a page would share them.
    text = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" fill="currentColor"', 1)
