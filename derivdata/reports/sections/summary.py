"""The summary at the top: what is wide, what is forecast, what survives costs, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from derivdata.reports.html_page import Number, Section

__all__ = ["summary_section"]

_KINDS = (
    ("wide", "What is wide"),
    ("forecast", "What is forecast to clear its costs"),
    ("left", "What survives costs, of pairs picked in this same window"),
    ("changed", "What changed"),
)


def summary_section(sections: Sequence[Section], *, synthetic: bool) -> Section:
    """Build the summary from the tiles and sentences of the sections, in their order."""
    summary = Section("Summary")
    said: dict[str, list[str]] = {}
    for symbol, words in (part for section in sections for part in section.headlines):
        said.setdefault(symbol, []).append(words)
    for symbol, parts in said.items():
        summary.blocks.append(f'<p class="headline"><b>{escape(symbol)}</b>: {escape("; ".join(parts))}.</p>')
    tiles = [_tile(number, synthetic) for section in sections for number in section.numbers]
    if tiles:
        summary.blocks.append(f'<div class="tiles">{"".join(tiles)}</div>')
    for kind, title in _KINDS:
        sentences = [f.words for section in sections for f in section.findings if f.kind == kind]
        if sentences:
            summary.heading(title)
            summary.points(sentences)
    if not summary.blocks:
        summary.add_missing_note("The source has nothing to summarise; the sections say why.")
    return summary


def _tile(number: Number, synthetic: bool) -> str:
    label = '<span class="synthetic">synthetic</span>' if synthetic else ""
    return (
        f'<div class="tile"><b>{escape(number.value)}</b><span>{escape(number.label)}</span>'
        f'<span class="window">{escape(number.window)}</span>{label}</div>'
    )
