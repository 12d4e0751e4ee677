"""Where the data comes from: every request with its time and hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pandas as pd

from derivdata.reports.data import Seen
from derivdata.reports.formatting import count, listing
from derivdata.reports.html_page import Section

__all__ = ["provenance_section"]


def provenance_section(seen: Sequence[Seen], lacks: dict[str, str]) -> Section:
    """Source, notices, attribution, what is lacking, and every request."""
    section = Section("Where the data comes from")
    if any(s.said.get("synthetic") for s in seen):
        section.text("Synthetic data, made up for demonstration: no market ever looked like this.", "warn")
    for words in dict.fromkeys(str(n) for s in seen for n in s.said["notices"]):
        section.text(f"Notice of the source: {words}", "warn")
    for words in dict.fromkeys(s.said["attribution"] for s in seen if s.said["attribution"]):
        section.text(words)
    if lacks:
        section.heading("What the source has not got")
        section.points(_lacking(lacks))
    _answers(section, seen)
    return section


def _answers(section: Section, seen: Sequence[Seen]) -> None:
    rows = pd.DataFrame(
        [
            {"what": s.what, "request": _request(r), "answered [UTC]": r["as_of"], "sha256": r["sha256"]}
            for s in seen
            for r in s.said["requests"]
        ],
        columns=["what", "request", "answered [UTC]", "sha256"],
    )
    if rows.empty:
        section.lack("Nothing was answered.")
        return
    whole = hashlib.sha256("\n".join(sorted(rows["sha256"])).encode()).hexdigest()
    section.text(
        f"{count(len(rows), 'answer')}, each with the hash of its body. Two reports that state the same hash "
        f"of all of them rest on the same data: {whole}."
    )
    shown = rows.assign(sha256=rows["sha256"].str[:16])
    section.table(shown, fold="Every request, when it was answered, and the start of its hash")


def _lacking(lacks: dict[str, str]) -> list[str]:
    """A line for each thing, those of venues that plainly have no options put together."""
    lines: list[str] = []
    venues: dict[str, list[str]] = {}
    for what, words in lacks.items():
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
