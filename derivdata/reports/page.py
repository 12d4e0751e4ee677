"""One self-contained HTML page: sections of words, figures and tables; nothing is loaded from elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

import pandas as pd

_SVG: dict[Any, Any] = {
    "svg.hashsalt": "derivdata",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_SIZE = (9.0, 4.6)

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5c6675; --paper: #ffffff; --line: #d9dee5;
        --card: #f6f8fa; --accent: #0072b2; --warn: #8a4b00; --warnbg: #fff4e0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa5b4; --paper: #12161c;
        --line: #2c3440; --card: #1a2029; --accent: #56b4e9; --warn: #ffc46b; --warnbg: #33270f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem; max-width: 72rem; background: var(--paper); color: var(--ink);
       font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; }
h2 { margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
h3 { margin: 1.4rem 0 .4rem; font-size: 1.05rem; } p { margin: .5rem 0; max-width: 60rem; }
.soft { color: var(--soft); } .lack { color: var(--soft); font-style: italic; }
.warn { background: var(--warnbg); color: var(--warn); padding: .6rem .9rem; border-radius: 6px; }
figure { margin: .8rem 0; } figure svg { width: 100%; height: auto; max-width: 60rem; display: block; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; margin: .5rem 0; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap;
         font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; } td.text, th.text { text-align: left; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--accent); }
code { font-size: .85em; overflow-wrap: anywhere; }
@media print { body { max-width: none; font-size: 11px; } h2 { break-after: avoid; }
               figure, table { break-inside: avoid; }
               details > * { display: revert; } }
"""


@dataclass
class Section:
    """A heading with the blocks of HTML below it."""

    title: str
    blocks: list[str] = field(default_factory=list)

    def text(self, words: str, kind: str = "") -> None:
        """A paragraph."""
        self.blocks.append(f'<p class="{kind}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>")

    def heading(self, words: str) -> None:
        """A heading within the section."""
        self.blocks.append(f"<h3>{escape(words)}</h3>")

    def figure(self, draw: Callable[..., Any], data: Any, title: str, **options: Any) -> None:
        """What `draw` makes of `data`; `title` is what a reader without eyes hears."""
        self.blocks.append(f"<figure>{_svg(partial(draw, data, **options), title)}</figure>")

    def table(self, frame: pd.DataFrame, *, formats: dict[str, str] | None = None) -> None:
        """A table; `formats` are format specifications by column, missing values stay blank."""
        self.blocks.append(_table(frame, formats or {}))

    def folded(self, summary: str, frame: pd.DataFrame) -> None:
        """A table that opens on a click."""
        self.blocks.append(f"<details><summary>{escape(summary)}</summary>{_table(frame, {})}</details>")


def page(title: str, subtitle: str, sections: Sequence[Section], made: str) -> str:
    """The whole HTML text; `made` is the one line that differs between two equal reports."""
    body = "".join(f"<section><h2>{escape(s.title)}</h2>{''.join(s.blocks)}</section>" for s in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f'<body><header><h1>{escape(title)}</h1><p class="soft">{escape(subtitle)}</p></header>\n{body}\n'
        f'<footer><p class="soft" id="made">{escape(made)}</p></footer></body></html>\n'
    )


def _svg(draw: Callable[..., Any], title: str) -> str:
    """Vector image whose black follows the page's ink, so that it reads on light and on dark."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SVG):
        figure = Figure(figsize=_SIZE, layout="constrained")
        draw(ax=figure.subplots())
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"(fill|stroke): #(000000|262626)", r"\1: currentColor", text)
    text = re.sub(r"fill: #ffffff", "fill: none", text)
    prefix = re.sub(r"\W+", "-", title.lower())
    text = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{prefix}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" fill="currentColor"', 1)


def _table(frame: pd.DataFrame, formats: dict[str, str]) -> str:
    text = {name: not pd.api.types.is_numeric_dtype(frame[name].dtype) for name in frame.columns}
    head = "".join(f"<th{' class=text' if text[n] else ''}>{escape(str(n))}</th>" for n in frame.columns)
    rows = (
        "".join(
            f"<td{' class=text' if text[name] else ''}>{escape(_cell(value, formats.get(name, '')))}</td>"
            for name, value in zip(frame.columns, row, strict=True)
        )
        for row in frame.itertuples(index=False)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Any, spec: str) -> str:
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, pd.Timestamp):
        return f"{value.tz_convert('UTC'):%Y-%m-%d %H:%M}"
    return format(value, spec)
