"""Section on provenance: every request with its time and hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pandas as pd

from derivdata.reports.data import FetchedTable
from derivdata.reports.formatting import count, listing
from derivdata.reports.html_page import Section

__all__ = ["provenance_section"]


def provenance_section(fetched: Sequence[FetchedTable], missing: dict[str, str]) -> Section:
    """Build the last section: source, notices, attribution, what is missing, and every request."""
    section = Section("Where the data comes from")
    if any(table.provenance.get("synthetic") for table in fetched):
        section.text("Synthetic data, generated for demonstration: no market ever looked like this.", "warn")
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
