"""Fail the build if the site's search misses expected queries of readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["EXPECTED", "check", "pages_with"]

EXPECTED = {
    "install": "install",
    "realised volatility": "prices",
    "polars": "panels-and-surfaces",
    "citation": "record-replay",
    "max pain": "positions",
    "atm": "options",
    "skew": "options",
    "api key": "fetch",
    "wrong symbol": "connect",
}
"""Words, and the page that must be among those with all of them."""


def check(app: Any, problem: Exception | None) -> None:
    """Compare the index that was built with `EXPECTED`."""
    if problem is not None or app.builder.name != "html":
        return
    from sphinx.search.en import SearchEnglish

    text = (Path(app.outdir) / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").rstrip(")"))
    stem = SearchEnglish({}).stem
    for words, page in EXPECTED.items():
        found = pages_with(index, [stem(word) for word in words.split()])
        if page not in found:
            raise ValueError(f"the search for {words!r} does not find the page {page}: {sorted(found)[:20]}")


def pages_with(index: Mapping[str, Any], stems: list[str]) -> set[str]:
    """Return the pages that have every stem in their titles or text."""
    found = []
    for stem in stems:
        places = [index[part].get(stem, []) for part in ("terms", "titleterms")]
        numbers = {n for place in places for n in ([place] if isinstance(place, int) else place)}
        found.append({index["docnames"][n] for n in numbers})
    return set.intersection(*found)
