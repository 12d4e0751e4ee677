"""The summary at the top: what is wide, what survives costs, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from derivdata.reports.html_page import Section

__all__ = ["summary_section"]

_KINDS = (
    ("wide", "What is wide"),
    ("left", "What survives costs"),
    ("changed", "What changed"),
)


def summary_section(sections: Sequence[Section]) -> Section:
    """Numbers and sentences that the sections gave, in their order."""
    summary = Section("Summary")
    numbers = [number for section in sections for number in section.numbers]
    if numbers:
        tiles = (
            f'<div class="tile"><b>{escape(n.value)}</b><span>{escape(n.label)}</span></div>' for n in numbers
        )
        summary.blocks.append(f'<div class="tiles">{"".join(tiles)}</div>')
    for kind, title in _KINDS:
        words = [f.words for section in sections for f in section.findings if f.kind == kind]
        if words:
            summary.heading(title)
            summary.points(words)
    if not summary.blocks:
        summary.lack("The source has nothing that a summary could be made of; the sections say why.")
    return summary
