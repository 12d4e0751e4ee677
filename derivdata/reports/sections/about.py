"""Sections about the report: summary, changes since an earlier report, and provenance."""

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
    """Build the first screen: questions with a sentence and a figure each, key numbers and all findings."""
    summary = Section("Summary")
    summary.answers = [answer for section in sections for answer in section.answers]
    numbers = [number for section in sections for number in section.numbers]
    by_symbol = [number for number in numbers if number.symbol]
    if by_symbol:
        summary.table(_key_numbers(by_symbol, symbols), "Key numbers")
    general = [f"{n.name}: {n.value} ({n.window})" for n in numbers if not n.symbol]
    if general:
        summary.points([words[0].upper() + words[1:] + "." for words in general])
    lists = []
    for kind, title in _KINDS:
        sentences = [f.words for section in sections for f in section.findings if f.kind == kind]
        if sentences:
            items = "".join(f"<li>{linked(words)}</li>" for words in sentences)
            lists.append(f"<h3>{escape(title)}</h3><ul>{items}</ul>")
    if lists:
        summary.html(f"<details><summary>All findings</summary>{''.join(lists)}</details>")
    if not summary.blocks and not summary.answers:
        summary.add_missing_note("The source has nothing to summarise; the sections give the reasons.")
    return summary


def _key_numbers(numbers: Sequence[Number], symbols: Sequence[str]) -> pd.DataFrame:
    """Return one row per number, with a column for each symbol."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number in numbers:
        rows.setdefault((number.name, number.window), {})[number.symbol] = number.value
    columns = [name for name in symbols if any(name in row for row in rows.values())]
    table = []
    for (name, window), row in rows.items():
        values = {column: row.get(column, "") for column in columns}
        table.append({"number": name, **values, "window": window})
    return pd.DataFrame(table)


class Earlier(NamedTuple):
    """Numbers of an earlier report by name, and the time of its data."""

    metrics: Mapping[str, Metric]
    asof: pd.Timestamp


def clock_of(path: str | Path) -> pd.Timestamp:
    """Return the recorded clock of a bundle; raise if the recording never read it."""
    asof = bundle.info(path).manifest.asof
    if asof is None:
        raise BundleError(
            f"{path}: expected the recording of a report, got a recording without a clock; record the report "
            "again with --bundle"
        )
    return pd.Timestamp(asof)


def changes_section(sections: Sequence[Section], earlier: Earlier) -> Section:
    """Build the section that compares the numbers of this report and of an earlier one."""
    section = Section("What changed since")
    now = {metric.name: metric for computed in sections for metric in computed.metrics}
    shared = [name for name in now if name in earlier.metrics]
    section.text(f"Compared with the data of {earlier.asof:%Y-%m-%d %H:%M} UTC.")
    if not shared:
        section.add_missing_note("The two reports have no number in common.")
        return section
    rows = [_row(now[name], earlier.metrics[name]) for name in shared]
    columns = ["number", "then", "now", "change"]
    section.table(pd.DataFrame(rows, columns=columns), "All numbers of both reports")
    absent = [name for name in earlier.metrics if name not in now]
    if absent:
        section.add_missing_note(f"No longer available: {', '.join(absent)}.")
    return section


def _row(now: Metric, then: Metric) -> tuple[str, str, str, str]:
    """Format both values and the change: in percent for levels in USD, else in the number's own unit."""
    if now.unit:
        change = f"{now.value - then.value:+.2f} {'points' if now.unit == '%' else now.unit}"
        return now.name, f"{then.value:.2f} {now.unit}", f"{now.value:.2f} {now.unit}", change
    change = pct(now.value / then.value - 1.0, 2, signed=True) if then.value else ""
    return now.name, usd(then.value), usd(now.value), change


def provenance_section(fetched: Sequence[FetchedTable], missing: dict[str, str]) -> Section:
    """Build the last section: notices, attribution, missing data, and all requests."""
    section = Section("Where the data comes from")
    notices = [str(notice) for table in fetched for notice in table.provenance["notices"]]
    for words in dict.fromkeys(notices):
        section.text(f"Notice of the source: {words}", "warn")
    attributions = [table.provenance["attribution"] for table in fetched]
    for words in dict.fromkeys(filter(None, attributions)):
        section.text(words)
    if missing:
        section.heading("Not available from the source")
        section.points(_missing_lines(missing))
    _requests(section, fetched)
    return section


def _requests(section: Section, fetched: Sequence[FetchedTable]) -> None:
    """Add the table of all requests, and the hash of all responses."""
    rows = pd.DataFrame(
        [
            {"what": table.what, "request": _request(r), "answered [UTC]": r["as_of"], "sha256": r["sha256"]}
            for table in fetched
            for r in table.provenance["requests"]
        ],
        columns=["what", "request", "answered [UTC]", "sha256"],
    )
    if rows.empty:
        section.add_missing_note("No request received a response.")
        return
    joint_hash = hashlib.sha256("\n".join(sorted(rows["sha256"])).encode()).hexdigest()
    section.text(
        f"{count(len(rows), 'response')}, each with the hash of its body. Two reports with the same hash "
        f"of all responses are made from the same data: {joint_hash}."
    )
    shown = rows.assign(sha256=rows["sha256"].str[:16])
    section.table(shown, "All requests, the time of the response, and the start of its hash", fold=True)


def _missing_lines(missing: dict[str, str]) -> list[str]:
    """Return a line for each missing table, with all venues without options on a symbol in one line."""
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
    """Return path and query of a request."""
    query = request["query"]
    pairs = "&".join(f"{name}={value}" for name, value in query.items()) if isinstance(query, dict) else ""
    return f"{request['path']}?{pairs}" if pairs else str(request["path"])
