"""The main job: a source's data as figures and tables in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import derivdata
from derivdata import times
from derivdata.reports.page import Section, page
from derivdata.reports.sections import (
    Asked,
    Seen,
    funding_section,
    liquidations_section,
    oi_section,
    options_section,
)

__all__ = ["report"]

_SECTIONS = (funding_section, oi_section, liquidations_section, options_section)


def report(symbols: str | Sequence[str], *, out: str | Path = "report.html", window: str = "30d") -> Path:
    """Write a report on the connected source.

    Parameters
    ----------
    symbols
        Assets, ``["BTC", "ETH"]``.
    out
        The HTML file; it holds everything that it shows and loads nothing.
    window
        Lookback of the histories from `derivdata.asof`, such as ``"30d"``.

    Returns
    -------
    Path
        The file. What the source lacks is said in it.

    Raises
    ------
    ValueError
        The window is not a lookback, or no symbol is given.
    NotConnected, FetchError, SchemaError
        The source cannot be asked, or gives something else than the API document says; nothing is written.
    """
    names = (symbols,) if isinstance(symbols, str) else tuple(symbols)
    if not names:
        raise ValueError("symbols must name at least one")
    asked = Asked(names, times.window(window))
    seen: list[Seen] = []
    sections = [section(asked, seen) for section in _SECTIONS]
    said = seen[0].said if seen else {}
    kind = (
        "Synthetic data, made up for demonstration: no market ever looked like this. "
        if said.get("synthetic")
        else ""
    )
    span = f"{asked.window.start:%Y-%m-%d %H:%M} to {asked.window.end:%Y-%m-%d %H:%M} UTC"
    text = page(
        f"Crypto derivatives: {', '.join(names)}",
        f"{kind}Source: {said.get('source', 'none answered')}. Window: {span}.",
        [_provenance(asked, seen), *sections],
        f"Made with derivdata {derivdata.__version__} from data as of {asked.window.end:%Y-%m-%d %H:%M} UTC.",
    )
    path = Path(out)
    path.write_text(text, encoding="utf-8")
    return path


def _provenance(asked: Asked, seen: Sequence[Seen]) -> Section:
    section = Section("Where the data comes from")
    if any(s.said.get("synthetic") for s in seen):
        section.text("Every figure below shows synthetic data.", "warn")
    for words in dict.fromkeys(str(n) for s in seen for n in _listed(s.said, "notices")):
        section.text(f"Notice of the source: {words}", "warn")
    for words in dict.fromkeys(str(s.said["attribution"]) for s in seen if s.said.get("attribution")):
        section.text(words)
    rows = [
        {
            "what": s.what,
            "request": r["path"] + "?" + "&".join(f"{k}={v}" for k, v in r["query"].items()),
            "as of": r["as_of"],
            "sha256": r["sha256"][:16],
        }
        for s in seen
        for r in _listed(s.said, "requests")
    ]
    section.text(f"{len(rows)} answers, each with the hash of its body.")
    section.folded("Every request", pd.DataFrame(rows, columns=["what", "request", "as of", "sha256"]))
    return section


def _listed(said: dict[str, object], name: str) -> list[Any]:
    found = said.get(name, [])
    return found if isinstance(found, list) else []
