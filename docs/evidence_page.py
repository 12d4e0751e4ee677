"""The tables of docs/development/evidence.md, from the bodies that the tests of venues read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from derivdata.sources import venues
from derivdata.sources.venues.registry import VENUES

__all__ = ["below_target", "evidence", "searches_of"]

_TESTS = Path(__file__).parents[1] / "tests" / "venues"
_LARGEST = (
    "binance",
    "bybit",
    "okx",
    "hyperliquid",
    "bitget",
    "gateio",
    "mexc",
    "deribit",
    "kucoin",
    "aster",
)
_TARGET, _TARGET_OF_LARGEST = 3, 5
_NATURES = ("recorded", "retyped", "documented", "specified")
_HOW = re.compile(r"( \([^)]*\brows?\)|, a few rows retyped|,? retyped\b.*)$")
_Case = Mapping[str, Any]


def evidence() -> str:
    """Return for each venue and endpoint the bodies, the columns that they confirm, and missing evidence."""
    cases = _cases()
    by_endpoint: dict[tuple[str, str], list[_Case]] = {}
    for case in cases:
        by_endpoint.setdefault((case["venue"], _path(case)), []).append(case)
    values = sum(len(values) for case in cases for values in case["expected"].values())
    lines = [f"{len(cases)} bodies, {values} values.\n"]
    for venue in dict.fromkeys(venue for venue, _ in by_endpoint):
        listed = dict.fromkeys(endpoint.path for endpoint in VENUES[venue].endpoints)
        found = {path: by_endpoint[venue, path] for path in listed if (venue, path) in by_endpoint}
        lines.append(f"## {venue}\n")
        lines.append(_grid(("endpoint", "bodies", "newest", "confirmed columns"), map(_row, found.items())))
        lines.append(_sources(found))
    lines += [_below(), _searches()]
    return "\n".join(lines)


def _cases() -> list[_Case]:
    paths = [_TESTS / "typed_cases.json", *sorted((_TESTS / "corpus").glob("*.json"))]
    cases = [case for path in paths for case in json.loads(path.read_text(encoding="utf-8"))]
    order = [*VENUES]
    return sorted(cases, key=lambda case: order.index(case["venue"]))


def _path(case: _Case) -> str:
    """Return the path of the endpoint of a case's body."""
    place, params = venues._parsed(case["request"])
    endpoint, _ = venues._endpoint_of(case["venue"], place, params)
    return place if endpoint is None else endpoint.path


def _nature(case: _Case) -> str:
    return str(case.get("origin", {}).get("nature", "specified"))


def _row(item: tuple[str, Sequence[_Case]]) -> tuple[str, ...]:
    path, cases = item
    counts = [(sum(_nature(case) == nature for case in cases), nature) for nature in _NATURES]
    dates = [case["origin"]["date"] for case in cases if "origin" in case]
    columns = sorted({column for case in cases for column in case["expected"]})
    bodies = ", ".join(f"{count} {nature}" for count, nature in counts if count)
    shown = ", ".join(f"`{column}`" for column in columns)
    return f"`{path}`", bodies, max(dates, default=""), shown


def _sources(found: Mapping[str, Sequence[_Case]]) -> str:
    """Return where bodies are from, one line a source."""
    lines: dict[str, list[str]] = {}
    for path, cases in found.items():
        for case in cases:
            if "origin" in case:
                origin = case["origin"]
                licence = f", {origin['licence']}" if "licence" in origin else ""
                lines.setdefault(f"{origin['source']} ({origin['date']}{licence})", []).append(f"`{path}`")
    rows = [f"- {source}: {', '.join(dict.fromkeys(paths))}" for source, paths in lines.items()]
    return "\n".join([*rows, ""])


def _origin(case: _Case) -> tuple[str, str]:
    """Return the source and day of a body; the words about how much of it was retyped are not a source."""
    origin = case["origin"]
    return _HOW.sub("", origin["source"]), origin["date"]


def below_target() -> list[tuple[str, str, int, int]]:
    """Return venue, endpoint, bodies of different sources or days, and target of each endpoint below it."""
    origins: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for case in _cases():
        if "origin" in case:
            origins.setdefault((case["venue"], _path(case)), set()).add(_origin(case))
    rows = []
    for name, venue in VENUES.items():
        if name in _DEXES or venue.endpoints[0].exchange != name:
            continue
        target = _TARGET_OF_LARGEST if name in _LARGEST else _TARGET
        for path in dict.fromkeys(endpoint.path for endpoint in venue.endpoints):
            count = len(origins.get((name, path), ()))
            if count < target:
                rows.append((name, path, count, target))
    return rows


def searches_of() -> dict[tuple[str, str], list[str]]:
    """Return by venue and endpoint the strings and files that were searched for."""
    queries: dict[tuple[str, str], list[str]] = {}
    for row in json.loads((_TESTS / "searches.json").read_text(encoding="utf-8")):
        for venue, paths in row.get("endpoints", {}).items():
            for path in paths:
                queries.setdefault((venue, path), []).append(row["query"])
    return queries


def _below() -> str:
    queries = searches_of()
    rows = [
        (venue, f"`{path}`", f"{count} of {target}", "; ".join(queries.get((venue, path), ())))
        for venue, path, count, target in below_target()
    ]
    lines = [
        "## Endpoints with too few bodies\n",
        f"The target is {_TARGET} bodies of different sources or days for each endpoint, "
        f"and {_TARGET_OF_LARGEST} for {', '.join(_LARGEST)}. *Specified* bodies do not count. "
        "Endpoints that the dexes of Hyperliquid share with it are listed once. The last column has the "
        "searches for the endpoint; the searches of whole repositories below covered all of them.\n",
        _grid(("venue", "endpoint", "bodies", "searched for"), rows),
    ]
    return "\n".join(lines)


_DEXES = tuple(name for name, venue in VENUES.items() if "the dex" in venue.endpoints[0].note)


def _searches() -> str:
    listed = json.loads((_TESTS / "searches.json").read_text(encoding="utf-8"))
    rows = [(row["date"], row["where"], row["query"], row["found"]) for row in listed]
    return "\n".join(
        [
            "## Searches\n",
            "Searches in public code and documentation, and their results.\n",
            _grid(("date", "where", "query", "found"), rows),
        ]
    )


def _grid(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return (
        "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |" for cells in lines)
        + "\n"
    )
