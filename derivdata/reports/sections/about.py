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
from derivdata.reports.html_page import Metric, Number, Section, count, linked, listing, pct, usd

_KINDS = (
    ("wide", "What is wide"),
    ("left", "What survives costs, of pairs picked in this same window"),
    ("changed", "What changed"),
)


def summary_section(sections: Sequence[Section], symbols: Sequence[str]) -> Section:
    """Build the first screen: a question, a line and a figure each; then key numbers and all findings."""
    summary = Section("Summary")
    summary.answers = [answer for section in sections for answer in section.answers]
    numbers = [number for section in sections for number in section.numbers]
    own = [number for number in numbers if number.symbol]
    if own:
        summary.table(_key_numbers(own, symbols), "Key numbers")
    joint = [f"{n.name}: {n.value} ({n.window})" for n in numbers if not n.symbol]
    if joint:
        summary.points([words[0].upper() + words[1:] + "." for words in joint])
    lists = []
    for kind, title in _KINDS:
        sentences = [f.words for section in sections for f in section.findings if f.kind == kind]
        if sentences:
            items = "".join(f"<li>{linked(words)}</li>" for words in sentences)
            lists.append(f"<h3>{escape(title)}</h3><ul>{items}</ul>")
    if lists:
        summary.html(f"<details><summary>All findings</summary>{''.join(lists)}</details>")
    if not summary.blocks and not summary.answers:
        summary.add_missing_note("The source has nothing to summarise; the sections say why.")
    return summary


def _key_numbers(numbers: Sequence[Number], symbols: Sequence[str]) -> pd.DataFrame:
    """Return a row for each number, with a column for each symbol."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number in numbers:
        rows.setdefault((number.name, number.window), {})[number.symbol] = number.value
    columns = [name for name in symbols if any(name in row for row in rows.values())]
    table = [
        {"number": name, **{column: row.get(column, "") for column in columns}, "window": window}
        for (name, window), row in rows.items()
    ]
    return pd.DataFrame(table)


class Earlier(NamedTuple):
    """Numbers of an earlier report by their names, and the instant of its data."""

    metrics: Mapping[str, Metric]
    asof: pd.Timestamp


def clock_of(path: str | Path) -> pd.Timestamp:
    """Return the recorded clock of a bundle; refuse one whose recording never asked for the time."""
    asof = bundle.info(path).manifest.asof
    if asof is None:
        raise BundleError(f"{path}: holds no time: it is not a recording of a report")
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
    columns = ["number", "then", "now", "change"]
    section.table(pd.DataFrame(rows, columns=columns), "Every number of both reports")
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
        section.add_missing_note("No request got a response.")
        return
    whole = hashlib.sha256("\n".join(sorted(rows["sha256"])).encode()).hexdigest()
    section.text(
        f"{count(len(rows), 'answer')}, each with the hash of its body. Two reports that state the same hash "
        f"of all answers are made from the same data: {whole}."
    )
    shown = rows.assign(sha256=rows["sha256"].str[:16])
    section.table(shown, "Every request, the time of its response, and the start of its hash", fold=True)


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
