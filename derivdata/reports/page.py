"""A self-contained HTML page of sections with text, tables, and figures as SVG; formatting of numbers."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.support.text import html_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_IMAGE_DPI = 140
"""Dots an inch of embedded images."""

_MARGIN = 5.0
"""Space around a panel [points]."""

_RULES: dict[Any, Any] = {
    "svg.hashsalt": "derivdata",  # ids are random otherwise, and two reports of the same data would differ
    "svg.fonttype": "none",  # words remain text, which readers can search and copy
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


_PAGE_COLORS = {
    "ffffff": "paper",
    "0072b2": "blue",
    "7f3c8d": "violet",
    "542788": "below",
    "b35806": "above",
    "5f6670": "soft",
}
"""Variables of the page's style by colour of the figures."""


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
    """Draw panels in order. The same data gives the same SVG text under any matplotlib style of the user.

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
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=panel.size)
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


def _fit(figure: Canvas, ax: Axes, renderer: Any) -> None:
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
    # Colours become the page's own, which differ in light and dark mode.
    text = re.sub(r"(fill|stroke): ?#(000000|262626)", r"\1: currentColor", text)
    for color, variable in _PAGE_COLORS.items():
        text = re.sub(rf"(fill|stroke): ?#{color}", rf"\1: var(--{variable})", text)
    # Rounding coordinates to a hundredth of a point makes the page a third smaller.
    shorten = partial(re.sub, r"(\d+\.\d\d)\d+", r"\1")
    text = re.sub(r'\b(d|x|y|transform|points)="[^"]*"', lambda match: shorten(match[0]), text)
    # Prefix ids with the panel's name, because they must be unique in the page.
    text = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" fill="currentColor"', 1)


WIDE = 4.5
"""Width of a panel [inches]. On a phone, 390 pixels wide, its smallest words are 9 pixels high."""

SIZE = (WIDE, 3.5)
FLAT = (WIDE, 2.15)
"""Size of a panel on the first screen, which has space for four."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; img-src data:"
"""Content security policy: the page loads nothing from a network and runs only its own script, so a script in
the name of a symbol or venue does not run."""


class Finding(NamedTuple):
    """A sentence for the summary: ``wide``, ``left`` (after costs) or ``changed``."""

    kind: str
    words: str


class Number(NamedTuple):
    """A key number of the summary: its symbol, name, value and window."""

    symbol: str
    name: str
    value: str
    window: str


class Metric(NamedTuple):
    """A number to compare reports by: its name, value and unit (``""``: a level in USD)."""

    name: str
    value: float
    unit: str


class Answer(NamedTuple):
    """A question of the first screen, a sentence and a panel that answer it, and the section with details."""

    question: str
    words: str
    panels: Sequence[Panel]  # at most one
    anchor: str
    scope: str


class Figure(NamedTuple):
    """Figure of a question: panels (often one per symbol), how to read them, venues and period."""

    panels: Sequence[Panel]
    reading: str
    scope: str

    def html(self, drawn: Sequence[Drawn]) -> str:
        """Return the HTML of the figure with its drawn panels."""
        reading = f"<b>How to read it.</b> {escape(self.reading)}" if self.reading else ""
        caption = f"<figcaption>{reading} {_sources(drawn, self.scope)}</figcaption>"
        return f"<figure>{''.join(panel.svg for panel in drawn)}{caption}</figure>"


class _Table(NamedTuple):
    """The HTML of a table. Narrow tables share a line if they fit."""

    text: str

    def html(self) -> str:
        return f"<div>{self.text}</div>"


_Block = Figure | _Table | str
"""A figure, a table, or literal HTML."""


@dataclass
class Section:
    """A heading, the blocks below it, and its findings and numbers for the summary.

    A section computes named tables and the data of panels; panels are drawn when the page is rendered. If
    `draws` is False, as for an earlier report that is only compared, it has no figures.
    """

    title: str
    draws: bool = True
    source_text: str | None = None
    blocks: list[_Block] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """The section's id, for links."""
        return _slug(self.title)

    def html(self, text: str) -> None:
        """Add literal HTML."""
        self.blocks.append(text)

    def text(self, words: str, kind: str = "") -> None:
        """Add a paragraph; an address in it becomes a link."""
        attribute = f' class="{kind}"' if kind else ""
        self.html(f"<p{attribute}>{linked(words)}</p>")

    def add_missing_note(self, words: str) -> None:
        """Add a sentence about missing data and the reason."""
        self.text(words, "lack")

    def heading(self, words: str) -> None:
        """Add a heading within the section."""
        self.html(f"<h3>{escape(words)}</h3>")

    def points(self, items: Sequence[str]) -> None:
        """Add a list."""
        self.html(bullets(items))

    def finding(self, kind: str, words: str) -> None:
        """Add a sentence to the summary."""
        self.findings.append(Finding(kind, words))

    def number(self, symbol: str, name: str, value: str, *, window: str) -> None:
        """Add a key number to the summary; `window` is the time that it describes."""
        self.numbers.append(Number(symbol, name, value, window))

    def answer(self, question: str, words: str, panel: Panel | None = None, scope: str = "") -> None:
        """Add a question to the first screen, with a sentence and a panel that answer it.

        `scope` states the venues and the period of the panel.
        """
        panels: list[Panel] = []
        if panel is not None and self.draws:
            panels.append(panel)
        self.answers.append(Answer(question, words, panels, self.anchor, scope))

    def metric(self, name: str, value: float, unit: str = "") -> None:
        """Add a number to compare with an earlier report; NaN is skipped."""
        if np.isfinite(value):
            self.metrics.append(Metric(name, float(value), unit))

    def panel(
        self,
        draw: Callable[..., Any],
        *data: Any,
        title: str,
        size: tuple[float, float] = SIZE,
        **options: Any,
    ) -> Panel:
        """Return a panel of a figure, with a label for screen readers. It is drawn later."""
        if self.source_text:
            options["source"] = self.source_text
        return Panel(partial(draw, *data, **options), title, size)

    def figure(self, panels: Sequence[Panel], reading: str, scope: str = "") -> None:
        """Add the panels of a question with `reading` (how to read them) and `scope` (venues and period)."""
        if self.draws and panels:
            self.blocks.append(Figure(panels, reading, scope))

    def table(
        self,
        frame: pd.DataFrame,
        name: str,
        *,
        formats: dict[str, str] | None = None,
        fold: bool = False,
        narrow: bool = False,
    ) -> None:
        """Add a named table; missing values are blank. `formats` are by column, `fold` shows only the name.

        A `narrow` table, of at most four short columns, stays a table on a phone; others become lists. A long
        table shows its first twelve rows on a screen, and the rest on a click; in print it shows all.
        """
        self.tables[name] = frame
        caption = ""
        if not fold:  # the summary of a folded table is its name
            caption = f"<caption>{escape(name)}</caption>"
        html = _table(frame, formats or {}, caption, narrow=narrow)
        if len(frame) > _LONG:
            html = f"<details class=fold><summary>all {len(frame)} rows</summary></details>{html}"
        if fold:
            self.html(f"<details><summary>{escape(name)}</summary>{html}</details>")
        else:
            self.blocks.append(_Table(html))


SUMMARY = "summary"
"""Anchor of the section with the questions of the first screen."""

_LONG = 14
"""Rows above which a table is folded: the style shows twelve."""


def render_page(
    title: str, subtitle: str, sections: Sequence[Section], made: str, *, banner: str = "", card: str = ""
) -> str:
    """Return the HTML of a page; only the line `made` may differ between two equal reports.

    `card` is the JSON script that `derivdata.rerun` reads.

    The page's content security policy allows only its own styles and pictures and, by hash, the script that
    sorts and copies tables. Control characters and changes of text direction are escaped.
    """
    links = " ".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in sections)
    panels: list[Panel] = []
    for section in sections:
        for picture in _pictures(section):
            panels += picture.panels
    # All panels are drawn at once; the sections below take them from the iterator in the same order.
    drawn = iter(draw_panels(panels))
    body = "\n".join(_section_html(section, drawn) for section in sections)
    script = _resource("tables.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = _POLICY.format(script=digest)
    warning = f'<p class="banner" role="note">{escape(banner)}</p>' if banner else ""
    return html_page(
        title,
        f'{warning}<header><h1>{escape(title)}</h1><p class="soft">{linked(subtitle)}</p>'
        f"<nav>{links}</nav></header>\n{body}\n"
        f'<footer><p class="soft" id="made">{escape(made)}</p></footer>{card}'
        f"<script>{script}</script>",
        style=_resource("style.css"),
        policy=policy,
    )


def _pictures(section: Section) -> Sequence[Answer | Figure]:
    """Return the blocks of a section with panels, in the order of the page."""
    figures = [block for block in section.blocks if isinstance(block, Figure)]
    if section.anchor == SUMMARY:
        return [*section.answers, *figures]
    return figures


def _section_html(section: Section, drawn: Iterator[Drawn]) -> str:
    head = f'<section id="{section.anchor}"><h2>{escape(section.title)}</h2>\n'
    return f"{head}{_answers(section, drawn)}{_blocks(section, drawn)}</section>"


def _answers(section: Section, drawn: Iterator[Drawn]) -> str:
    """Return the HTML of the first screen's questions, in the summary only."""
    if section.anchor != SUMMARY or not section.answers:
        return ""
    articles: list[str] = []
    for answer in section.answers:
        panels = list(itertools.islice(drawn, len(answer.panels)))
        svg = "".join(panel.svg for panel in panels)
        caption = f"<figcaption>{_sources(panels, answer.scope)}</figcaption>"
        figure = f"<figure>{svg}{caption}</figure>" if panels else ""
        articles.append(
            f'<article class="answer"><h3><a href="#{answer.anchor}">{escape(answer.question)}</a></h3>'
            f"<p>{linked(answer.words)}</p>{figure}</article>"
        )
    return f'<div class="answers">{"".join(articles)}</div>\n'


def _blocks(section: Section, drawn: Iterator[Drawn]) -> str:
    """Return the HTML of a section's blocks; consecutive tables share a line."""
    joined = []
    for are_tables, run in itertools.groupby(section.blocks, lambda block: isinstance(block, _Table)):
        html = "\n".join(_block(block, drawn) for block in run)
        if are_tables:
            html = f'<div class="tables">{html}</div>'
        joined.append(html)
    return "\n".join(joined)


def _block(block: _Block, drawn: Iterator[Drawn]) -> str:
    if isinstance(block, Figure):
        return block.html(list(itertools.islice(drawn, len(block.panels))))
    if isinstance(block, _Table):
        return block.html()
    return block


def _sources(drawn: Sequence[Drawn], scope: str) -> str:
    """Return the scope and the distinct sources of panels, with attributions as links."""
    words = list(dict.fromkeys(panel.source for panel in drawn if panel.source))
    if scope:
        words[:1] = [" · ".join([scope, *words[:1]])]
    return "".join(f'<span class="source">{linked(text)}</span>' for text in words)


@functools.cache
def _resource(name: str) -> str:
    return resources.files("derivdata.reports").joinpath(name).read_text(encoding="utf-8")


def bullets(items: Sequence[str]) -> str:
    """Return plain sentences as an HTML list with addresses as links."""
    return "<ul>" + "".join(f"<li>{linked(item)}</li>" for item in items) + "</ul>"


def linked(words: str) -> str:
    """Return plain text as HTML with addresses as links."""
    return re.sub(r"https?://[^\s<>&;,]*[^\s<>&;,.]", r'<a href="\g<0>">\g<0></a>', escape(words))


def _slug(words: str) -> str:
    return re.sub(r"\W+", "-", words.lower()).strip("-")


def _table(frame: pd.DataFrame, formats: dict[str, str], caption: str, *, narrow: bool) -> str:
    """Return the HTML of a table, with the HTML of its caption."""
    classes = dict.fromkeys(frame.columns, " class=text")
    for column in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[column].dtype):
            classes[column] = ""
    classes["sha256"] = ' class="text hash"'
    head = "".join(f"<th{classes[column]}>{escape(str(column))}</th>" for column in frame.columns)
    rows = []
    for row in frame.itertuples(index=False):
        cells = []
        for column, value in zip(frame.columns, row, strict=True):
            cells.append(f"<td{classes[column]}>{escape(_cell(value, formats.get(column, '')))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    attribute = " class=narrow" if narrow else ""
    content = f"{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table{attribute}>{content}</table></div>'


def _cell(value: Any, spec: str) -> str:
    """Return a value as text; missing values are empty."""
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}"
    text = format(value, spec)
    if spec and not text.strip("-0."):
        return text.removeprefix("-")  # 0.00, not -0.00
    return text


def usd(value: float) -> str:
    """Format dollars with three digits and a letter: ``36.4 M USD``."""
    if not math.isfinite(value):
        return "unknown"
    rounded = float(f"{value:.3g}")  # before the letter is chosen: 999,700 is 1 M, not 1e+03 k
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= size:
            return f"{value / size:.3g} {letter} USD"
    return f"{value:.3g} USD"


def rate(bps_8h: float) -> str:
    """Format a funding rate: ``+0.85 bps/8h``."""
    return f"{bps_8h:+.2f} bps/8h"


def pct(fraction: float, digits: int = 1, *, signed: bool = False) -> str:
    """Format a fraction as percent: ``12.3 %``."""
    sign = "+" if signed else ""
    return f"{100 * fraction:{sign}.{digits}f} %"


def count(number: int, what: str) -> str:
    """Format a count: ``1 venue``, ``3 venues``."""
    if number == 1 or what.endswith("s"):
        return f"{number:,} {what}"
    return f"{number:,} {what}s"


def venue_words(names: Iterable[str]) -> str:
    """Return the names of up to four venues, or their number."""
    venues = list(dict.fromkeys(names))
    if len(venues) > 4:
        return f"{len(venues)} venues"
    return listing(venues)


def listing(items: list[str]) -> str:
    """Join words: ``a``, ``a and b``, ``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
