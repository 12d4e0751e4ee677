"""One self-contained HTML page: sections of text, figures and tables, and numbers as people write them."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.reports.drawing import Drawn, Panel, draw_panels
from derivdata.support.text import html_page

WIDE = 4.5
"""Width of a panel [inches]: on a phone, 390 pixels wide, its smallest words are 9 pixels high."""

SIZE = (WIDE, 3.5)
FLAT = (WIDE, 2.15)
"""Size of a panel of the first screen, which holds four of them."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; img-src data:"


class Finding(NamedTuple):
    """A sentence for the summary: ``wide``, ``left`` (after costs) or ``changed``."""

    kind: str
    words: str


class Number(NamedTuple):
    """A key number of the summary: of which symbol, what it is, its value and the window that it is of."""

    symbol: str
    name: str
    value: str
    window: str


class Metric(NamedTuple):
    """A number that two reports can be compared by: what it is, and its unit (``""``: a level in USD)."""

    name: str
    value: float
    unit: str


class Answer(NamedTuple):
    """A question of the first screen, one line that answers it, its panel, and the section with the rest."""

    question: str
    words: str
    panels: Sequence[Panel]
    """One at most."""
    anchor: str


class Figure(NamedTuple):
    """Panels of one question, one for each symbol, and the sentence that says how to read them."""

    panels: Sequence[Panel]
    reading: str

    def html(self, drawn: Sequence[Drawn]) -> str:
        """Return the figure with its panels as they were drawn."""
        reading = f"<b>How to read it.</b> {escape(self.reading)}" if self.reading else ""
        caption = f"<figcaption>{reading} {_sources(drawn)}</figcaption>"
        return f"<figure>{''.join(panel.svg for panel in drawn)}{caption}</figure>"


class _Table(NamedTuple):
    """A table; narrow tables share a line if they fit."""

    text: str
    narrow: bool

    def html(self) -> str:
        return f"<div>{self.text}</div>"


_Block = Figure | _Table | str
"""A figure, a table, or HTML as it is."""


@dataclass
class Section:
    """A heading, the blocks of HTML below it, and what the summary takes from them.

    A section computes named tables and the data of panels; panels are drawn when the page is rendered. Where
    `draws` is False, in a report that is only compared with, there are no figures.
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
        """The id that links lead to."""
        return _slug(self.title)

    def html(self, text: str) -> None:
        """Add HTML as it is."""
        self.blocks.append(text)

    def text(self, words: str, kind: str = "") -> None:
        """Add a paragraph; an address in it becomes a link."""
        self.html(f'<p class="{kind}">{linked(words)}</p>' if kind else f"<p>{linked(words)}</p>")

    def add_missing_note(self, words: str) -> None:
        """Add a sentence on what is missing, and why."""
        self.text(words, "lack")

    def heading(self, words: str) -> None:
        """Add a heading within the section."""
        self.html(f"<h3>{escape(words)}</h3>")

    def points(self, items: Sequence[str]) -> None:
        """Add a list."""
        self.html("<ul>" + "".join(f"<li>{linked(item)}</li>" for item in items) + "</ul>")

    def finding(self, kind: str, words: str) -> None:
        """Add a sentence to the summary."""
        self.findings.append(Finding(kind, words))

    def number(self, symbol: str, name: str, value: str, *, window: str) -> None:
        """Add a key number to the summary; `window` says which time it is of."""
        self.numbers.append(Number(symbol, name, value, window))

    def answer(self, question: str, words: str, panel: Panel | None = None) -> None:
        """Add a question to the first screen, with one line and the panel that answer it."""
        panels = [panel] if panel is not None and self.draws else []
        self.answers.append(Answer(question, words, panels, self.anchor))

    def metric(self, name: str, value: float, unit: str = "") -> None:
        """Add a number that is compared with that of an earlier report; NaN is left out."""
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
        """Return a panel of a figure, with a label for screen readers; it is drawn later."""
        if self.source_text:
            options["source"] = self.source_text
        return Panel(partial(draw, *data, **options), title, size)

    def figure(self, panels: Sequence[Panel], reading: str) -> None:
        """Add the panels of one question, and how to read them."""
        if self.draws and panels:
            self.blocks.append(Figure(panels, reading))

    def table(
        self,
        frame: pd.DataFrame,
        name: str,
        *,
        formats: dict[str, str] | None = None,
        fold: bool = False,
        narrow: bool = False,
    ) -> None:
        """Add a table by name, missing values blank; `formats` by column, `fold` hides it behind its name.

        A `narrow` one, of four short columns at most, stays a table on a phone; others become lists. A long
        one shows its first twelve rows on a screen, and the rest on a click; on paper it shows all.
        """
        self.tables[name] = frame
        html = _table(frame, formats or {}, " class=narrow" if narrow else "", "" if fold else name)
        if len(frame) > _LONG:
            html = f"<details class=fold><summary>all {len(frame)} rows</summary></details>{html}"
        if fold:
            self.html(f"<details><summary>{escape(name)}</summary>{html}</details>")
        else:
            self.blocks.append(_Table(html, narrow))


SUMMARY = "summary"
"""Anchor of the section with the questions of the first screen."""

_LONG = 14
"""Rows above which a table is folded: the style shows twelve."""


def render_page(
    title: str, subtitle: str, sections: Sequence[Section], made: str, *, banner: str = "", card: str = ""
) -> str:
    """Return the whole HTML text; `made` is the one line that may differ between two equal reports.

    `card` is a script of JSON that is not run: what `derivdata.rerun` reads.

    Its policy allows the styles and pictures inside it, and by its hash the one script that sorts and copies
    tables; characters that control a terminal or the direction of text are escaped.
    """
    links = " ".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in sections)
    panels = [panel for s in sections for part in _pictures(s) for panel in part.panels]
    drawn = iter(draw_panels(panels))
    body = "\n".join(
        f'<section id="{s.anchor}"><h2>{escape(s.title)}</h2>\n'
        f"{_answers(s, drawn)}{_blocks(s, drawn)}</section>"
        for s in sections
    )
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


def _pictures(section: Section) -> list[Answer | Figure]:
    """Return what has panels in a section, in the order of the page; the summary alone has answers."""
    answers = section.answers if section.anchor == SUMMARY else []
    return [*answers, *(block for block in section.blocks if isinstance(block, Figure))]


def _answers(section: Section, drawn: Iterator[Drawn]) -> str:
    """Return the questions of the first screen, each with its line and its panels."""
    if section.anchor != SUMMARY or not section.answers:
        return ""
    parts: list[str] = []
    seen: list[Drawn] = []
    for answer in section.answers:
        panels = list(itertools.islice(drawn, len(answer.panels)))
        svg = "".join(panel.svg for panel in panels)
        figure = f"<figure>{svg}</figure>" if panels else ""
        seen += panels
        parts.append(
            f'<article class="answer"><h3><a href="#{answer.anchor}">{escape(answer.question)}</a></h3>'
            f"<p>{linked(answer.words)}</p>{figure}</article>"
        )
    return f'<div class="answers">{"".join(parts)}</div>\n<p class="soft">{_sources(seen)}</p>\n'


def _blocks(section: Section, drawn: Iterator[Drawn]) -> str:
    """Join blocks: tables that follow one another share a line."""
    joined = []
    for kind, run in itertools.groupby(section.blocks, _place):
        html = "\n".join(_block(block, drawn) for block in run)
        joined.append(f'<div class="{kind}">{html}</div>' if kind else html)
    return "\n".join(joined)


def _block(block: _Block, drawn: Iterator[Drawn]) -> str:
    if isinstance(block, Figure):
        return block.html(list(itertools.islice(drawn, len(block.panels))))
    return block if isinstance(block, str) else block.html()


def _place(block: _Block) -> str:
    return "tables" if isinstance(block, _Table) else ""


def _sources(drawn: Sequence[Drawn]) -> str:
    """Return what the panels say about their source, each text once, with its attribution as a link."""
    words = dict.fromkeys(panel.source for panel in drawn if panel.source)
    return "".join(f'<span class="source">{linked(text)}</span>' for text in words)


@functools.cache
def _resource(name: str) -> str:
    return resources.files("derivdata.reports").joinpath(name).read_text(encoding="utf-8")


def linked(words: str) -> str:
    """Return HTML of plain words in which every address is a link."""
    return re.sub(r"https?://[^\s<>&;,]*[^\s<>&;,.]", r'<a href="\g<0>">\g<0></a>', escape(words))


def _slug(words: str) -> str:
    return re.sub(r"\W+", "-", words.lower()).strip("-")


def _table(frame: pd.DataFrame, formats: dict[str, str], kind: str, name: str) -> str:
    kinds = {n: "" if pd.api.types.is_numeric_dtype(frame[n].dtype) else " class=text" for n in frame.columns}
    kinds |= {"sha256": ' class="text hash"'}
    head = "".join(f"<th{kinds[n]}>{escape(str(n))}</th>" for n in frame.columns)
    rows = (
        "".join(
            f"<td{kinds[name]}>{escape(_cell(value, formats.get(name, '')))}</td>"
            for name, value in zip(frame.columns, row, strict=True)
        )
        for row in frame.itertuples(index=False)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    caption = f"<caption>{escape(name)}</caption>" if name else ""
    parts = f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table{kind}>{parts}</table></div>'


def _cell(value: Any, spec: str) -> str:
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}"
    text = format(value, spec) if spec else str(value)
    return text.removeprefix("-") if spec and not text.strip("-0.") else text  # no −0


def usd(value: float) -> str:
    """Write dollars with three digits and a letter: ``36.4 M USD``."""
    if not math.isfinite(value):
        return "unknown"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter} USD"
    return f"{value:.3g} USD"


def rate(bps_8h: float) -> str:
    """Write a funding rate: ``+0.85 bps/8h``."""
    return f"{bps_8h:+.2f} bps/8h"


def pct(fraction: float, digits: int = 1, *, signed: bool = False) -> str:
    """Write a fraction as percent: ``12.3 %``."""
    return f"{100 * fraction:{'+' if signed else ''}.{digits}f} %"


def lasting(hours: float) -> str:
    """Write a duration: ``14 h``, ``3.2 days``, ``never``."""
    if math.isinf(hours):
        return "never"
    if math.isnan(hours):
        return "unknown"
    return f"{hours:.2g} h" if hours < 10 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.1f} days"


def count(number: int, what: str) -> str:
    """Write a count: ``1 venue``, ``3 venues``."""
    return f"{number:,} {what}{'' if number == 1 or what.endswith('s') else 's'}"


def listing(items: list[str]) -> str:
    """Join words: ``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
