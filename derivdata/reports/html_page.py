"""One self-contained HTML page: sections of text, figures and tables, and numbers as people write them."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.reports.drawing import Drawings, Task, draw_svg
from derivdata.support.text import html_page

WIDE = 4.5
"""Width of a figure [inches]: on a phone, 390 pixels wide, its smallest words are 9 pixels high."""

_SIZE = (WIDE, 3.7)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; img-src data:"


class Finding(NamedTuple):
    """A sentence for the summary: ``wide``, ``left`` (after costs) or ``changed``."""

    kind: str
    words: str


class Number(NamedTuple):
    """A tile of the summary: the number, what it is, and the window that it is of."""

    value: str
    label: str
    window: str


class Metric(NamedTuple):
    """A number that two reports can be compared by: what it is, and its unit (``""``: a level in USD)."""

    name: str
    value: float
    unit: str


class _Figure(NamedTuple):
    """A figure that may still be drawn, and the sentence that says how to read it."""

    drawing: Task
    reading: str

    def html(self) -> str:
        caption = f"<figcaption><b>How to read it.</b> {escape(self.reading)}</figcaption>"
        return f"<figure>{self.drawing.made}{caption if self.reading else ''}</figure>"


class _Table(NamedTuple):
    """A table; a narrow one stands in the grid of figures, others stand beside one another where they fit."""

    text: str
    narrow: bool

    def html(self) -> str:
        return f"<div>{self.text}</div>"


_Block = _Figure | _Table | str
"""A figure, a table, or HTML as it is."""


@dataclass
class Section:
    """A heading, the blocks of HTML below it, and what the summary takes from them.

    Where `drawings` is None, a report that is only compared with, no figure is drawn. `headlines` are parts
    of the sentence at the top about each symbol; `rest` adds what a second process computes, once all
    sections have started.
    """

    title: str
    drawings: Drawings | None = None
    blocks: list[_Block] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    headlines: list[tuple[str, str]] = field(default_factory=list)
    rest: Callable[[], None] = lambda: None

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

    def number(self, value: str, label: str, *, window: str) -> None:
        """Add a tile to the summary; `window` says which time it is of."""
        self.numbers.append(Number(value, label, window))

    def metric(self, name: str, value: float, unit: str = "") -> None:
        """Add a number that is compared with that of an earlier report; NaN is left out."""
        if np.isfinite(value):
            self.metrics.append(Metric(name, float(value), unit))

    def headline(self, symbol: str, words: str) -> None:
        """Add a part to the sentence about a symbol at the top."""
        self.headlines.append((symbol, words))

    def figure(
        self,
        draw: Callable[..., Any],
        *data: Any,
        title: str,
        reading: str,
        size: tuple[float, float] = _SIZE,
        **options: Any,
    ) -> None:
        """Add a figure, with a label for screen readers, and how to read it, once for figures of a kind."""
        if self.drawings is not None:
            if self.drawings.source_text:
                options["source"] = self.drawings.source_text
            drawn = partial(draw, *data, **options)
            drawing = self.drawings.add(partial(draw_svg, drawn, title, name=_slug(title), size=size))
            told = any(isinstance(block, _Figure) and block.reading == reading for block in self.blocks)
            self.blocks.append(_Figure(drawing, "" if told else reading))

    def table(
        self,
        frame: pd.DataFrame,
        *,
        formats: dict[str, str] | None = None,
        fold: str = "",
        narrow: bool = False,
    ) -> None:
        """Add a table, missing values blank; `formats` by column, `fold` hides it behind that line.

        A `narrow` one, of four short columns at most, stays a table on a phone; others become lists. A long
        one shows its first twelve rows on a screen, and the rest on a click; on paper it shows all.
        """
        html = _table(frame, formats or {}, " class=narrow" if narrow else "")
        if len(frame) > _LONG:
            html = f"<details class=fold><summary>all {len(frame)} rows</summary></details>{html}"
        if fold:
            self.html(f"<details><summary>{escape(fold)}</summary>{html}</details>")
        else:
            self.blocks.append(_Table(html, narrow))


_LONG = 14
"""Rows above which a table is folded: the style shows twelve."""


def render_page(
    title: str, subtitle: str, sections: Sequence[Section], made: str, *, banner: str = ""
) -> str:
    """Return the whole HTML text; `made` is the one line that may differ between two equal reports.

    Its policy allows the styles and pictures inside it, and by its hash the one script that sorts and copies
    tables; characters that control a terminal or the direction of text are escaped.
    """
    links = " ".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in sections)
    body = "\n".join(
        f'<section id="{s.anchor}"><h2>{escape(s.title)}</h2>\n{_side_by_side(s.blocks)}</section>'
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
        f'<footer><p class="soft" id="made">{escape(made)}</p></footer>'
        f"<script>{script}</script>",
        style=_resource("style.css"),
        policy=policy,
    )


def _side_by_side(blocks: Sequence[_Block]) -> str:
    """Join blocks: figures and narrow tables that follow one another share a grid, other tables a line."""
    joined = []
    for kind, run in itertools.groupby(blocks, _place):
        html = "\n".join(block if isinstance(block, str) else block.html() for block in run)
        joined.append(f'<div class="{kind}">{html}</div>' if kind else html)
    return "\n".join(joined)


def _place(block: _Block) -> str:
    if isinstance(block, str):
        return ""
    return "figures" if isinstance(block, _Figure) or block.narrow else "tables"


@functools.cache
def _resource(name: str) -> str:
    return resources.files("derivdata.reports").joinpath(name).read_text(encoding="utf-8")


def linked(words: str) -> str:
    """Return HTML of plain words in which every address is a link."""
    return re.sub(r"https?://[^\s<>&;,]*[^\s<>&;,.]", r'<a href="\g<0>">\g<0></a>', escape(words))


def _slug(words: str) -> str:
    return re.sub(r"\W+", "-", words.lower()).strip("-")


def _table(frame: pd.DataFrame, formats: dict[str, str], kind: str) -> str:
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
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


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
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listing(items: list[str]) -> str:
    """Join words: ``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
