"""Sections on the report itself: its summary, changes since an earlier one, and where the data comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from derivdata import bundle
from derivdata.errors import BundleError
from derivdata.reports.data import FetchedTable
from derivdata.reports.html_page import Metric, Section, count, listing, pct, usd

_KINDS = (
    ("wide", "What is wide"),
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
        summary.html(f'<p class="headline"><b>{escape(symbol)}</b>: {escape("; ".join(parts))}.</p>')
    label = '<span class="synthetic">synthetic</span>' if synthetic else ""
    tiles = [
        f'<div class="tile"><b>{escape(number.value)}</b><span>{escape(number.label)}</span>'
        f'<span class="window">{escape(number.window)}</span>{label}</div>'
        for section in sections
        for number in section.numbers
    ]
    if tiles:
        summary.html(f'<div class="tiles">{"".join(tiles)}</div>')
    for kind, title in _KINDS:
        sentences = [f.words for section in sections for f in section.findings if f.kind == kind]
        if sentences:
            summary.heading(title)
            summary.points(sentences)
    if not summary.blocks:
        summary.add_missing_note("The source has nothing to summarise; the sections say why.")
    return summary


class Earlier(NamedTuple):
    """Numbers of an earlier report by their names, and the instant of its data."""

    metrics: Mapping[str, Metric]
    asof: pd.Timestamp


def clock_of(path: str | Path) -> pd.Timestamp:
    """Return the recorded clock of a bundle; refuse one whose recording never asked for the time."""
    asof = bundle.info(path).manifest.asof
    if asof is None:
        raise BundleError(f"{path}: holds no time: it is no recording of a report")
    return pd.Timestamp(asof)


def changes_section(sections: Sequence[Section], earlier: Earlier) -> Section:
    """Build the section that compares every number of this report with that of the earlier one."""
    section = Section("What changed since")
    now = {metric.name: metric for one in sections for metric in one.metrics}
    shared = [name for name in now if name in earlier.metrics]
    section.text(f"Compared with the data of {earlier.asof:%Y-%m-%d %H:%M} UTC.")
    if not shared:
        section.add_missing_note("The two reports have no number in common.")
        return section
    rows = [_row(now[name], earlier.metrics[name]) for name in shared]
    section.table(pd.DataFrame(rows, columns=["number", "then", "now", "change"]))
    absent = [name for name in earlier.metrics if name not in now]
    if absent:
        section.add_missing_note(f"No longer there: {', '.join(absent)}.")
    return section


def _row(now: Metric, then: Metric) -> tuple[str, str, str, str]:
    """Write both values: levels in USD change in percent, rates and volatilities in their own unit."""
    if now.unit:
        change = f"{now.value - then.value:+.2f} {'points' if now.unit == '%' else now.unit}"
        return now.name, f"{then.value:.2f} {now.unit}", f"{now.value:.2f} {now.unit}", change
    change = pct(now.value / then.value - 1.0, 2, signed=True) if then.value else ""
    return now.name, usd(then.value), usd(now.value), change


def provenance_section(fetched: Sequence[FetchedTable], missing: dict[str, str]) -> Section:
    """Build the last section: source, notices, attribution, what is missing, and every request."""
    section = Section("Where the data comes from")
    for words in dict.fromkeys(str(n) for table in fetched for n in table.provenance["notices"]):
        section.text(f"Notice of the source: {words}", "warn")
    for words in dict.fromkeys(
        table.provenance["attribution"] for table in fetched if table.provenance["attribution"]
    ):
        section.text(words)
    if missing:
        section.heading("What the source does not have")
        section.points(_missing_lines(missing))
    _answers(section, fetched)
    return section


def _answers(section: Section, fetched: Sequence[FetchedTable]) -> None:
    rows = pd.DataFrame(
        [
            {"what": table.what, "request": _request(r), "answered [UTC]": r["as_of"], "sha256": r["sha256"]}
            for table in fetched
            for r in table.provenance["requests"]
        ],
        columns=["what", "request", "answered [UTC]", "sha256"],
    )
    if rows.empty:
        section.add_missing_note("Nothing was answered.")
        return
    whole = hashlib.sha256("\n".join(sorted(rows["sha256"])).encode()).hexdigest()
    section.text(
        f"{count(len(rows), 'answer')}, each with the hash of its body. Two reports that state the same hash "
        f"of all answers are made from the same data: {whole}."
    )
    shown = rows.assign(sha256=rows["sha256"].str[:16])
    section.table(shown, fold="Every request, when it was answered, and the start of its hash")


def _missing_lines(missing: dict[str, str]) -> list[str]:
    """Return a line for each missing thing, with venues that simply have no options in one line."""
    lines: list[str] = []
    venues: dict[str, list[str]] = {}
    for what, words in missing.items():
        subject, comma, venue = what.partition(", ")
        if comma and words.startswith("The source has no"):
            venues.setdefault(subject, []).append(venue)
        else:
            lines.append(words)
    return lines + [f"The source has no {subject} at {listing(names)}." for subject, names in venues.items()]


def _request(request: dict[str, object]) -> str:
    query = request["query"]
    pairs = "&".join(f"{name}={value}" for name, value in query.items()) if isinstance(query, dict) else ""
    return f"{request['path']}?{pairs}" if pairs else str(request["path"])
