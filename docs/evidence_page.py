"""The tables of docs/development/evidence.md, from the bodies that the tests of venues read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from derivdata.sources import venues
from derivdata.sources.venues.registry import VENUES

__all__ = ["evidence"]

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
    lines += [_below(by_endpoint), _searches()]
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


def _below(by_endpoint: Mapping[tuple[str, str], Sequence[_Case]]) -> str:
    lines = [
        "## Below the target\n",
        f"The target is {_TARGET} bodies of different sources or dates for each endpoint, "
        f"{_TARGET_OF_LARGEST} of {', '.join(_LARGEST)}. *Specified* bodies do not count. "
        "The numbers are bodies; endpoints that the dexes of Hyperliquid share with it are not repeated.\n",
    ]
    rows = []
    for name, venue in VENUES.items():
        target = _TARGET_OF_LARGEST if name in _LARGEST else _TARGET
        lacking = []
        for path in dict.fromkeys(endpoint.path for endpoint in venue.endpoints):
            origins = {
                (case["origin"]["source"], case["origin"]["date"], json.dumps(case["body"]))
                for case in by_endpoint.get((name, path), ())
                if "origin" in case
            }
            if len(origins) < target:
                lacking.append(f"`{path}` {len(origins)}")
        if lacking and venue.endpoints[0].exchange == name and name not in _DEXES:
            rows.append((name, str(target), ", ".join(lacking)))
    return "\n".join([*lines, _grid(("venue", "target", "endpoints with fewer"), rows)])


_DEXES = tuple(name for name, venue in VENUES.items() if "the dex" in venue.endpoints[0].note)


def _searches() -> str:
    found = json.loads((_TESTS / "searches.json").read_text(encoding="utf-8"))
    rows = [(row["date"], row["where"], row["query"], row["found"]) for row in found]
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
